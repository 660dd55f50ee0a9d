"""Options that several commands share, and completions for the shell, which must be fast and never fail."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.settings import COMMA_LIST, SETTINGS, as_option_text
from localrag.cli.views.terminal import json_events, print_note, status_line

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions
    from localrag.filters import DocumentFilter


def completion_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A function for typer's `autocompletion`: the names that begin with the typed text; none if they cannot be read."""

    def complete(incomplete: str) -> list[str]:
        with suppress(Exception):  # the command itself reports the error when it runs
            return [name for name in names() if name.startswith(incomplete)]
        return []

    return complete


def _models(*kinds: str) -> list[str]:
    from localrag.model_files import merged_models

    table = merged_models()
    return [name for kind in kinds for name in table[kind]]


any_model = completion_of(lambda: _models("chat", "embedder", "reranker"))
chat_models, embedders, rerankers = (completion_of(partial(_models, kind)) for kind in ("chat", "embedder", "reranker"))


def choice_option(what: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of `typer.Option` that restrict a text option, or a repeatable one, to these values."""

    def check(given: Any) -> Any:
        for value in [given] if isinstance(given, str) else given or ():
            if value and value not in values:
                raise typer.BadParameter(f"There is no {what} {value!r}. Choose {', '.join(values[:-1])} or {values[-1]}.")
        return given

    return {"metavar": "|".join(values), "callback": check, "autocompletion": completion_of(lambda: values)}


def setting_option(name: str, *flags: str, **more: Any) -> Any:
    """The typer option of a setting, with help, bounds and choices from SETTINGS."""
    setting = SETTINGS[name]
    flag = name.replace("_", "-")
    opposite = flag.removeprefix("no-") if flag.startswith("no-") else f"no-{flag}"
    text = setting.help
    if setting.type is tuple and setting.metavar != COMMA_LIST:
        text += " Repeatable."
    if setting.index_key and setting.default:  # the option has no default, because the index may have another value
        text += f" Default: {as_option_text(setting.default)}."
    more = {"help": text, "metavar": setting.metavar} | (choice_option(name, setting.choices) if setting.choices else {}) | more
    return typer.Option(f"--{flag}/--{opposite}" if setting.type is bool else f"--{flag}", *flags, min=setting.min, max=setting.max, **more)


IndexOption = Annotated[Path | None, setting_option("index", "-i")]
ModelOption = Annotated[str | None, setting_option("model", "-m", autocompletion=chat_models)]
RerankerOption = Annotated[str | None, setting_option("reranker", autocompletion=rerankers)]
EmbedderOption = Annotated[str | None, setting_option("embedder", autocompletion=embedders)]
EngineOption = Annotated[str, setting_option("engine")]
AllowHostOption = Annotated[list[str] | None, setting_option("allow_host")]
WorkersOption = Annotated[int, setting_option("workers")]
ModeOption = Annotated[str, setting_option("mode", "--method")]
StyleOption = Annotated[str, setting_option("style")]
ResponseTypeOption = Annotated[str, setting_option("response_type")]
StrictOption = Annotated[bool, setting_option("strict")]
NoHistoryOption = Annotated[bool, setting_option("no_history")]
RetuneOption = Annotated[bool, typer.Option("--retune", help="Measure again which engine settings are fastest on this machine.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
PROGRESS_STYLES = ("auto", "bar", "plain", "json", "none")


def _set_progress_style(shown: str) -> str:
    json_events.is_active, status_line.silent = shown == "json", shown == "none"
    return shown


_progress = choice_option("kind of progress", PROGRESS_STYLES)
ProgressOption = Annotated[
    str,
    typer.Option(
        "--progress",
        help="bar. plain: a line every 30 s. json: one event per line on stderr. auto: bar on a terminal, else plain.",
        **_progress | {"callback": lambda shown: _set_progress_style(_progress["callback"](shown))},
    ),
]


OptionValues = Mapping[str, Any]  # by name of the option; of a setting, its name
CommandFunction = Callable[..., None]


def with_options(parameter: str, **options: tuple[Any, Any]) -> Callable[[CommandFunction], CommandFunction]:
    """Decorator that adds options (name → annotation and default) to a command; their values are passed together as `parameter`."""

    def decorate(command: CommandFunction) -> CommandFunction:
        signature = inspect.signature(command)
        at = list(signature.parameters).index(parameter)
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values()]
        parameters[at : at + 1] = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            command(**given, **{parameter: values})

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads the options from it
        run.__annotations__ = {}
        return run

    return decorate


def setting_options(*names: str) -> dict[str, tuple[Any, Any]]:
    """Options of settings for `with_options`. If unset, they are None for lists and for settings stored in the index."""
    options = {}
    for name in names:
        setting = SETTINGS[name]
        kind: Any = setting.type
        if setting.type is tuple:
            kind = str if setting.metavar == COMMA_LIST else list[str]
        default = None if setting.index_key or setting.type is tuple else setting.default
        options[name] = Annotated[kind if default is not None else kind | None, setting_option(name)], default
    return options


def as_arguments(values: OptionValues) -> list[str]:
    """The command line that gives these values of options; those that are empty are left out."""
    arguments: list[str] = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value:
            arguments += [part for one in (value if isinstance(value, list) else [value]) for part in (flag, str(one))]
    return arguments


ENGINE_OPTIONS = setting_options("allow_host", "parallel", "engine", "deterministic")
with_engine = with_options("engine", **ENGINE_OPTIONS)


def engine_options(values: OptionValues, *, retune: bool = False, quiet: bool = False) -> "EngineOptions":
    """EngineOptions from the values of `with_engine`; notes go to stderr unless `quiet`. Raises UsageError."""
    from localrag.engine.settings import EngineOptions

    chosen = EngineOptions.of(
        values.get("engine", ""),
        retune=retune,
        allowed_hosts=tuple(values.get("allow_host") or ()),
        parallel_requests=values.get("parallel", 0),
        deterministic=values.get("deterministic", False),
    )
    return chosen if quiet else replace(chosen, notify=print_note)


FilterOption = Annotated[
    str | None,
    typer.Option("--filter", metavar="KEY=VALUE,…", help="Only documents with this path, type, after, before, meta.KEY. Also !=."),
]
CollectionOption = Annotated[str | None, typer.Option("--collection", metavar="A,B,…", help="Only documents of these collections.")]


def _names(given: str | None) -> str | None:
    from localrag.filters import parse_collection_names

    parse_collection_names(given or "")  # reports invalid names before models are loaded
    return given


AddToCollectionOption = Annotated[
    str | None,
    typer.Option("--collection", metavar="A,B,…", callback=_names, help="Put the documents of this run into these collections."),
]


FILTER_OPTIONS = {"where": (FilterOption, None), "collection": (CollectionOption, None)}
MODEL_OPTIONS = {"index": (IndexOption, None), "model": (ModelOption, None), "reranker": (RerankerOption, None), **ENGINE_OPTIONS}


def document_filter(given: OptionValues) -> "DocumentFilter | None":
    """The document filter of the values of FILTER_OPTIONS, or None if neither is given. Raises UsageError."""
    from localrag.filters import DocumentFilter, parse_collection_names, parse_filter

    where, collection = given.get("where"), given.get("collection")
    if where is None and collection is None:
        return None
    chosen = DocumentFilter(where or "", parse_collection_names(collection or ""))
    parse_filter(chosen.expression)  # reports errors before models are loaded
    return chosen


def joined_words(words: "list[str] | None") -> str:
    """The text of an argument of several words: quotes around it may be left out."""
    return " ".join(words or ())


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
with_output = with_options("output", quiet=(QuietOption, False), progress=(ProgressOption, "auto"), as_json=(JsonOption, False))
