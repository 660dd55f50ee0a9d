"""The options that several commands take, and those that take one of a few words."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.completion import chat_models, embedders, indexes, rerankers
from localrag.cli.views.terminal import listener, status

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions
    from localrag.where import Selection

MODES = ("auto", "mix", "local", "global", "drift", "basic", "ts", "ss")
STYLES = ("extractive", "abstractive")
EXTRACTORS = ("model", "phrases")


def one_of(what: str, values: tuple[str, ...]) -> dict[str, Any]:
    """What makes a typer option of a string, or of several, take only these values."""

    def check(given: Any) -> Any:
        for value in [given] if isinstance(given, str) else given or ():
            if value and value not in values:
                raise typer.BadParameter(f"There is no {what} {value!r}. Choose {', '.join(values[:-1])} or {values[-1]}.")
        return given

    def complete(incomplete: str) -> list[str]:
        return [v for v in values if v.startswith(incomplete)]

    return {"metavar": "|".join(values), "callback": check, "autocompletion": complete}


IndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help="The index folder. Default: the nearest .localrag, here or above.",
        autocompletion=indexes,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME|PATH",
        help="Chat model: a name in models.toml, a GGUF file, or http://HOST:PORT/v1#NAME.",
        autocompletion=chat_models,
    ),
]
RerankerOption = Annotated[
    str | None,
    typer.Option("--reranker", metavar="NAME|PATH", help="Re-rank passages with a cross-encoder (GGUF).", autocompletion=rerankers),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder", metavar="NAME|PATH", help="Embedding model: a name in models.toml, or a GGUF file.", autocompletion=embedders
    ),
]
EngineOption = Annotated[
    str, typer.Option("--engine", metavar="NAME=VALUE,…", help="Override engine settings, for example slots=4,context=8192,kv=f16.")
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="HOST", help="Allow sending document text to a model server on this host. Repeatable."),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers", metavar="N", min=0, max=256, help="Processes that index at the same time. Default: one, helped by free cores."
    ),
]
AtOnceOption = Annotated[
    int, typer.Option("--at-once", min=0, metavar="N", help="Parallel requests to each model server. Default: what it reports, or 8.")
]
RemeasureOption = Annotated[
    bool, typer.Option("--remeasure", "--retune", help="Measure again which engine settings are fastest on this machine.")
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic/--no-deterministic",
        help="Make every answer independent of other requests, even if that is slower. Always so on CPU.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
PROGRESS = ("auto", "bar", "plain", "json", "none")


def _heard_by_program(shown: str) -> str:
    """From here on stderr is for a program, or says nothing of how far something is, if it is to be so."""
    listener.on, status.silent = shown == "json", shown == "none"
    return shown


_progress = one_of("kind of progress", PROGRESS)
ProgressOption = Annotated[
    str,
    typer.Option(
        "--progress",
        help="bar. plain: a line every 30 s. json: one event per line on stderr. auto: bar on a terminal, else plain.",
        **_progress | {"callback": lambda shown: _heard_by_program(_progress["callback"](shown))},
    ),
]
ChunkTokensOption = Annotated[
    int | None, typer.Option("--chunk-tokens", min=100, max=4000, help="Maximum tokens of a chunk. Default: 680.")
]
LanguageOption = Annotated[str | None, typer.Option("--language", help="Language of reports and answers. Default: the documents' own.")]
ClaimsOption = Annotated[bool | None, typer.Option("--claims/--no-claims", help="Also extract claims: who did what, and when.")]
GleaningsOption = Annotated[int | None, typer.Option("--gleanings", min=0, help="How often to ask the model for missed names.")]
TextColumnOption = Annotated[
    str | None, typer.Option("--text-column", metavar="NAME", help="Column of CSV, Excel and JSON rows that holds the text.")
]
MetadataColumnsOption = Annotated[
    str | None, typer.Option("--metadata-columns", metavar="A,B,…", help="Columns to put before the text of a row.")
]
PrependOption = Annotated[
    bool | None,
    typer.Option("--prepend-metadata/--no-prepend-metadata", help="Add the document's title, date and author to each chunk."),
]
FollowOption = Annotated[
    bool | None, typer.Option("--follow-links/--no-follow-links", help="Follow symbolic links that lead out of the folders.")
]
OcrOption = Annotated[
    bool | None, typer.Option("--ocr/--no-ocr", help="Read scans and pictures with Tesseract where it is installed. Default: yes.")
]
OcrLanguagesOption = Annotated[
    str | None,
    typer.Option(
        "--ocr-languages", metavar="A,B,…", help="Tesseract's codes of the scans' languages: eng,deu. Default: the index's, or eng."
    ),
]
PruneOption = Annotated[bool, typer.Option("--prune", help="Remove all documents whose files are gone, also those of a missing folder.")]


def engine_options(
    values: str,
    *,
    remeasure: bool = False,
    deterministic: bool = False,
    hosts: list[str] | None = None,
    at_once: int = 0,
    quiet: bool = False,
) -> "EngineOptions":
    """What the options ask of the engine; what it has to say goes to stderr. Raises UsageError."""
    from localrag.cli.views.console import say
    from localrag.engine.settings import EngineOptions

    chosen = EngineOptions.of(values, remeasure=remeasure, deterministic=deterministic, allowed_hosts=tuple(hosts or ()), at_once=at_once)
    return chosen if quiet else replace(chosen, say=say)


ExtractorOption = Annotated[
    str | None,
    typer.Option("--extractor", help="phrases: names and noun phrases, without a model.", **one_of("extractor", EXTRACTORS)),
]


WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="KEY=VALUE,…", help="Only documents with this path, type, after, before, meta.KEY. Also !=."),
]
CollectionOption = Annotated[str | None, typer.Option("--collection", metavar="A,B,…", help="Only documents of these collections.")]


def _names(given: str | None) -> str | None:
    from localrag.where import collection_names

    collection_names(given or "")  # what cannot be a name is said before models are loaded
    return given


IntoOption = Annotated[
    str | None,
    typer.Option("--collection", metavar="A,B,…", callback=_names, help="Put the documents of this run into these collections."),
]


def selection(where: str | None, collection: str | None) -> "Selection | None":
    """The documents that the options select; None where neither is given. Raises UsageError."""
    from localrag.where import Selection, collection_names, parse_where

    if where is None and collection is None:
        return None
    chosen = Selection(where or "", collection_names(collection or ""))
    parse_where(chosen.where)  # an error is said before models are loaded
    return chosen


MODES_HELP = (
    "mix: details, by a walk over the graph. local: about entities. global: about everything. drift: broad, then deep. "
    "basic: nearest passages. ts, ss: the paper's baselines. auto: chosen by the question."
)
ModeOption = Annotated[str, typer.Option("--mode", "--method", help=MODES_HELP, **one_of("mode", MODES))]
StyleOption = Annotated[
    str,
    typer.Option(
        "--style",
        help="extractive: quote sentences. abstractive: let the model write. Default: by model size.",
        **one_of("style", STYLES),
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict/--no-strict", help="Leave out sentences that no passage supports.")]
NoLogOption = Annotated[
    bool, typer.Option("--no-log/--log", help="Keep nothing: neither questions nor answers are written to the index or any other file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
