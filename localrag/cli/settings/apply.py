"""Settings as the defaults of options: one table for all commands, built from the options that they have."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from localrag.cli.views.settings import written

if TYPE_CHECKING:
    from pathlib import Path

    import typer

    from localrag.cli.settings.read import Given

WITHOUT = ("config", "init", "help")  # commands that must work whatever the settings say
# Options that go by the name of a setting and are another thing: command, name of the option.
APART = {
    ("demo", "index"),  # has an index of its own
    ("tune", "types"),  # of this one tuning, in place of what it finds
    ("models pull", "allow_host"),  # which hosts a model may be downloaded from, not where documents may be sent
    ("worker", "allow_host"),  # whose programs may run here, likewise
    ("eval retrieval", "mode"),  # the modes that are compared
    ("eval qa", "mode"),
}
# Setting → how the index that was made with it keeps it.
BOUND = {
    "model": "chat_model",
    "embedder": "embedder",
    "extractor": "extractor",
    "types": "entity_types",
    "gleanings": "max_gleanings",
    "claims": "claims",
    "language": "language",
    "chunk_tokens": "chunk_tokens",
    "text_column": "text_column",
    "metadata_columns": "metadata_columns",
    "prepend_metadata": "prepend_metadata",
    "ocr": "ocr",
    "ocr_languages": "ocr_languages",
    "follow_links": "follow_links",
}


def option_name(parameter: Any) -> str:
    """What an option is called: its long name with underscores; empty for an argument."""
    if parameter.param_type_name != "option":
        return ""
    name: str = next((o for o in parameter.opts if o.startswith("--")), parameter.opts[0])
    return name.lstrip("-").replace("-", "_")


def set_defaults(context: "typer.Context") -> None:
    """Give the options of the command that is about to run the values that were set. Raises UsageError for a setting that cannot be.

    A command line counts before them, and an option's own default after. Asked for help, or to mend the settings, nothing is read.
    """
    words = [*context._protected_args, *context.args]  # the name of the command is in the first
    options = words[: words.index("--")] if "--" in words else words
    if words[:1] and words[0] not in WITHOUT and not {"-h", "--help"} & {*options}:
        from localrag.cli.settings.read import given

        found = given()
        _check_project(found)
        context.default_map = defaults(context.command, found)


def _check_project(found: "Mapping[str, Given]") -> None:
    """Raise UsageError if the nearest localrag.toml needs the user's trust and does not have it."""
    from pathlib import Path

    from localrag.config import project_file
    from localrag.system.ownership import untrusted_reason

    project = project_file(Path.cwd())
    if project and (untrusted_reason(project) or any(one.origin == "project" for one in found.values())):
        from localrag.cli.settings.trusted import check_project  # imports the table of settings: a quarter of a second

        check_project(project, found)


def defaults(group: Any, found: "Mapping[str, Given]", path: str = "") -> dict[str, Any]:
    """Command → parameter → the value that was set, for every command below a group, as click's `default_map` takes it."""
    table: dict[str, Any] = {}
    for name, command in group.commands.items():
        here = f"{path} {name}".strip()
        names = {p: option_name(p) for p in command.params}
        mine = {p.name: _shaped(p, found[n].value) for p, n in names.items() if _counts(n, found) and (here, n) not in APART}
        table[name] = mine | (defaults(command, found, here) if hasattr(command, "commands") else {})
    return table


def _counts(name: str, found: "Mapping[str, Given]") -> bool:
    """Whether a setting has a value; an empty one of a file or a model takes back what stands below it, for the option's own default."""
    return name in found and (found[name].value != "" or name in ("text_column", "language", "style", "response_type", "engine"))


def _shaped(parameter: Any, value: Any) -> Any:
    """A value as the option takes it: a list of them, or one text with commas."""
    if parameter.multiple:
        return list(value) if isinstance(value, tuple) else [value]
    return ",".join(value) if isinstance(value, tuple) else value


def refuse_changes(context: "typer.Context", index: "Path | None", *, rebuild: bool) -> None:
    """Raises IndexMismatch where the settings, not the command line, say otherwise than what the index was made with."""
    set_before = {option_name(p) for p in context.command.params if _comes_from_settings(context, p.name)} & BOUND.keys()
    if not set_before or rebuild:
        return
    from localrag.cli.settings.read import given
    from localrag.opening import bound_to

    bound, found = bound_to(index), given()
    for name in sorted(set_before, key=list(BOUND).index) if bound else ():
        if (has := conflict(name, found[name].value, bound)) is not None:
            raise _mismatch(name, found[name], has)


def _comes_from_settings(context: "typer.Context", name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def bound_value(name: str, bound: Mapping[str, Any]) -> Any:
    """What an index was made with, from what `bound_to` gave; None where it is not known."""
    from localrag.config import Settings

    if name in ("model", "embedder"):
        return bound.get(BOUND[name], {}).get("name")
    return getattr(Settings.from_json(bound.get("settings", {})), BOUND[name])


def conflict(name: str, value: Any, bound: Mapping[str, Any]) -> Any:
    """What the index was made with where that is another than the value; None where they agree."""
    from localrag.models import find_chat_model, find_embedder

    has = bound_value(name, bound)
    if name not in ("model", "embedder"):
        return None if value == has else has
    kept = bound.get(BOUND[name])
    if kept is None:
        return None
    file = find_chat_model(value) if name == "model" else find_embedder(value)
    # What a server tells of its model is asked when the index is opened.
    same = file.binding["path"] == kept["path"] if file.url else file.fingerprint == kept["fingerprint"]
    return None if same else has


def _mismatch(name: str, found: "Given", has: Any) -> Exception:
    from localrag.errors import IndexMismatch

    flag = name.replace("_", "-")
    if name == "model":
        change = "localrag index PATH --rebuild"
    elif name == "embedder":
        change = "localrag reembed"
    elif isinstance(found.value, bool):
        change = f"localrag index PATH --{'' if found.value else 'no-'}{flag}, or all with --rebuild"
    else:
        text = ",".join(found.value) if isinstance(found.value, tuple) else found.value
        change = f"localrag index PATH --{flag} {text or repr('')}, or all with --rebuild"
    out = f"unset {found.where}" if found.origin == "environment" else f"localrag config unset {name}{' --user' * (found.origin == 'user')}"
    return IndexMismatch(
        f"The index was made with {name} = {written(has)}, but {found.where} says {written(found.value)}.",
        f"To change the index: {change}. To keep it as it is: {out}",
    )
