"""Options that several commands share, and completions for the shell.

Completions must be fast and never fail.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.settings import COMMA_LIST, SETTINGS, as_option_text
from localrag.cli.views.terminal import json_events, print_note, status_line

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions
    from localrag.filters import DocumentFilter


CompletionItem = str | tuple[str, str]  # a word, or a word and its description


class _ShellWord(str):
    """A completion that is already filtered and escaped; typer would filter it again by the unescaped text."""

    __slots__ = ()

    def startswith(self, *_: object) -> bool:
        """Always true: `_begins` has filtered before."""
        return True


def _completer(find: Callable[[typer.Context, str], Iterable[CompletionItem]]) -> Callable[[typer.Context, str], list[CompletionItem]]:
    """A function for typer's `autocompletion`: the items of `find` that begin with the typed text; none if `find` raises."""

    def complete(ctx: typer.Context, incomplete: str) -> list[CompletionItem]:
        with suppress(Exception):  # the command itself reports the error when it runs
            return [_escape_for_shell(offer) for offer in find(ctx, incomplete) if _begins(offer, incomplete)]
        return []

    return complete


def _begins(offer: CompletionItem, incomplete: str) -> bool:
    word = offer if isinstance(offer, str) else offer[0]
    return word.lower().startswith(incomplete.lower())


def _escape_for_shell(offer: CompletionItem) -> CompletionItem:
    """Escape an item for bash, which inserts it verbatim; other shells escape it themselves."""
    last = os.environ.get("COMP_WORDS", "").split("\n")[-1]
    word, about = (offer, "") if isinstance(offer, str) else offer
    if os.environ.get("_LOCALRAG_COMPLETE") == "complete_bash" and last[:1] not in ("'", '"'):
        word = re.sub(r"([^\w@%+=:,./~-])", r"\\\1", word)
    return (_ShellWord(word), about) if about else _ShellWord(word)


def _of_kind(*kinds: str) -> Callable[[typer.Context, str], list[CompletionItem]]:
    def find(_ctx: typer.Context, _incomplete: str) -> list[CompletionItem]:
        from localrag.model_files import merged_models

        table = merged_models()
        return [name for kind in kinds for name in table[kind]]

    return _completer(find)


def _own_models(_ctx: typer.Context, _incomplete: str) -> list[CompletionItem]:
    from localrag.model_files import user_models

    return [name for models in user_models().values() if isinstance(models, dict) for name in models]


def _models_to_download(_ctx: typer.Context, _incomplete: str) -> list[CompletionItem]:
    from localrag.catalog.listing import recommended_models

    return [(model.name, f"{model.parameters}, {model.good_for}") for model in recommended_models()]


def _indexes(_ctx: typer.Context, incomplete: str) -> list[CompletionItem]:
    from localrag.store.location import find_nearest_index

    beginning = incomplete[: incomplete.rfind("/") + 1]
    folders = sorted(p for p in Path(beginning or ".").expanduser().iterdir() if p.is_dir())
    return [f"{beginning}{p.name}" for p in folders if find_nearest_index(p)]


def _index_of(ctx: typer.Context) -> Path | None:
    """The index that a command would use; None if there is none, or if it is not the user's own and was not named."""
    from localrag.store.location import DATABASE_FILE, find_nearest_index
    from localrag.system.trust import untrusted_reason

    chosen = ctx.params.get("index")
    folder = find_nearest_index(chosen)
    return None if folder and chosen is None and (untrusted_reason(folder) or untrusted_reason(folder / DATABASE_FILE)) else folder


def _entities(ctx: typer.Context, incomplete: str) -> list[CompletionItem]:
    from localrag.store.location import entity_names

    folder = _index_of(ctx)
    return list(entity_names(folder, incomplete)) if folder else []


def _communities(ctx: typer.Context, incomplete: str) -> list[CompletionItem]:
    from localrag.store.location import community_titles

    folder = _index_of(ctx)
    return list(community_titles(folder, incomplete)) if folder else []


def _pages(_ctx: typer.Context, _incomplete: str) -> list[CompletionItem]:
    from localrag.system.files import shipped_data_path

    return sorted(path.stem for path in shipped_data_path("docs").rglob("*.md") if path.stem != "index")


any_model, chat_models = _of_kind("chat", "embedder", "reranker"), _of_kind("chat")
embedders, rerankers = _of_kind("embedder"), _of_kind("reranker")
own_models, models_to_download = _completer(_own_models), _completer(_models_to_download)
indexes, entities, complete_communities, pages_of_help = (
    _completer(_indexes),
    _completer(_entities),
    _completer(_communities),
    _completer(_pages),
)


def choice_option(what: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of `typer.Option` that restrict a text option, or a repeatable one, to these values."""

    def check(given: Any) -> Any:
        for value in [given] if isinstance(given, str) else given or ():
            if value and value not in values:
                raise typer.BadParameter(f"There is no {what} {value!r}. Choose {', '.join(values[:-1])} or {values[-1]}.")
        return given

    def complete(incomplete: str) -> list[str]:
        return [v for v in values if v.startswith(incomplete)]

    return {"metavar": "|".join(values), "callback": check, "autocompletion": complete}


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


IndexOption = Annotated[Path | None, setting_option("index", "-i", autocompletion=indexes)]
ModelOption = Annotated[str | None, setting_option("model", "-m", autocompletion=chat_models)]
RerankerOption = Annotated[str | None, setting_option("reranker", autocompletion=rerankers)]
EmbedderOption = Annotated[str | None, setting_option("embedder", autocompletion=embedders)]
EngineOption = Annotated[str, setting_option("engine")]
AllowHostOption = Annotated[list[str] | None, setting_option("allow_host")]
ParallelRequestsOption = Annotated[int, setting_option("parallel")]
DeterministicOption = Annotated[bool, setting_option("deterministic")]
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
    """Callback of `--progress`: set whether stderr gets JSON events, and whether the status line is off."""
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
PruneOption = Annotated[bool, typer.Option("--prune", help="Remove all documents whose files are gone, also those of a missing folder.")]


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


def document_filter(where: str | None, collection: str | None) -> "DocumentFilter | None":
    """The document filter of `--filter` and `--collection`, or None if neither is given. Raises UsageError."""
    from localrag.filters import DocumentFilter, parse_collection_names, parse_filter

    if where is None and collection is None:
        return None
    chosen = DocumentFilter(where or "", parse_collection_names(collection or ""))
    parse_filter(chosen.expression)  # reports errors before models are loaded
    return chosen


def joined_words(words: "list[str] | None") -> str:
    """The text of an argument of several words: quotes around it may be left out."""
    return " ".join(words or ())


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
