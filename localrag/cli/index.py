"""`localrag index` and `localrag demo`."""

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.choices import EXTRACTORS, one_of
from localrag.cli.terminal import in_line

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions
    from localrag.index.pipeline import Outcome
    from localrag.llm.project import Project

IndexOption = Annotated[Path | None, typer.Option("--index", "-i", metavar="DIR", help="The index folder; else the nearest .localrag.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME|PATH", help="A model of models.toml, a GGUF file, or http://127.0.0.1:PORT/v1[,…]#NAME."),
]
RerankerOption = Annotated[
    str | None, typer.Option("--reranker", metavar="NAME|PATH", help="A GGUF reranker that has a say in the order of passages.")
]
EngineOption = Annotated[
    str, typer.Option("--engine", metavar="NAME=VALUE,…", help="Engine settings by hand, such as slots=4,threads=2,context=8192,kv=f16.")
]
AllowHostOption = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="HOST", help="Let a model server on another machine see the documents.")
]
AtOnceOption = Annotated[
    int, typer.Option("--at-once", min=0, metavar="N", help="Requests to each model server at a time; else what it tells, or 8.")
]
RetuneOption = Annotated[bool, typer.Option("--retune", help="Measure anew which engine settings are fastest here.")]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="Every answer depends on its request alone, whatever that costs; on CPU it is so anyway.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]

TextColumnOption = Annotated[
    str | None, typer.Option("--text-column", metavar="NAME", help="The column of CSV, Excel and JSON rows that holds the text.")
]
MetadataColumnsOption = Annotated[
    str | None, typer.Option("--metadata-columns", metavar="A,B,…", help="Columns whose values stand before the text of a row.")
]
PrependOption = Annotated[
    bool | None,
    typer.Option("--prepend-metadata/--no-prepend-metadata", help="Embed and show chunks behind their document's title, date and author."),
]
FollowOption = Annotated[
    bool | None, typer.Option("--follow-links/--no-follow-links", help="Read what links out of the folders lead to; else they are listed.")
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Forget all documents whose files are gone: even many, even of missing or empty folders.")
]


def engine_options(
    values: str,
    *,
    retune: bool = False,
    deterministic: bool = False,
    hosts: list[str] | None = None,
    at_once: int = 0,
    quiet: bool = False,
) -> "EngineOptions":
    """What the options ask of the engine; what it has to say goes to stderr. Raises UsageError."""
    from localrag.cli.display import say
    from localrag.engine.settings import EngineOptions

    chosen = EngineOptions.of(values, retune=retune, deterministic=deterministic, allowed_hosts=tuple(hosts or ()), at_once=at_once)
    return chosen if quiet else replace(chosen, say=say)


ExtractorOption = Annotated[
    str | None,
    typer.Option("--extractor", help="phrases: names and noun phrases, at once and without a model.", **one_of("extractor", EXTRACTORS)),
]


def index_command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders: documents, mail, tables, code, any text.")],
    index: IndexOption = None,
    model: ModelOption = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Redo the model's part of an index made with another model or in a smaller window.")
    ] = False,
    embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME|PATH", help="An embedding model of models.toml, or a GGUF file.")
    ] = None,
    extractor: ExtractorOption = None,
    types: Annotated[str, typer.Option("--types", metavar="A,B,…", help="Entity types; else person,organization,place,event.")] = "",
    gleanings: Annotated[int | None, typer.Option("--gleanings", min=0, help="How often to ask whether names were missed.")] = None,
    chunk_tokens: Annotated[
        int | None, typer.Option("--chunk-tokens", min=100, max=4000, help="Tokens of a chunk at most; else 680. Smaller ones: more calls.")
    ] = None,
    claims: Annotated[bool | None, typer.Option("--claims/--no-claims", help="Extract claims as well: who did what, and when.")] = None,
    language: Annotated[str | None, typer.Option("--language", help="Of reports and answers; else the documents' own.")] = None,
    text_column: TextColumnOption = None,
    metadata_columns: MetadataColumnsOption = None,
    prepend_metadata: PrependOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    retune: RetuneOption = False,
    deterministic: DeterministicOption = False,
    follow_links: FollowOption = None,
    prune: PruneOption = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done and what it would cost, and do nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and update the index whenever a file changes.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Read files and build or update their knowledge graph; safe to stop, the same command goes on."""
    from localrag.index.load import check_paths, is_there
    from localrag.project import documents_of, open_for_writing

    options = engine_options(engine, retune=retune, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet)
    check_paths(paths, [] if all(map(is_there, paths)) else documents_of(index))
    reading = _reading(text_column, metadata_columns, prepend_metadata, follow_links)
    changes = _changes(extractor, types, gleanings, claims, language) | reading
    changes |= {"chunk_tokens": chunk_tokens, "chunk_overlap": chunk_tokens * 100 // 680} if chunk_tokens else {}
    if plan:
        print_plan(paths, index, model, changes, options)
        return

    def run() -> "Outcome":
        with open_for_writing(index, model=model, embedder=embedder, rebuild=rebuild, engine=options, **changes) as project:
            return run_index(paths, project, quiet=quiet, prune=prune, may_ask=not watch)

    if watch:
        from localrag.cli.watch import watch_files, when_free

        when_free(run)
        # Asked of the first run only; whoever watches has looked at what there was at the beginning, not at what comes.
        prune, rebuild, options = False, False, replace(options, retune=False)
        watch_files(paths, run)
    outcome = run()
    if outcome.failures or any(s.failed for s in outcome.loaded.skipped):
        raise typer.Exit(5)


def print_plan(paths: list[Path], index: Path | None, model: str | None, changes: dict[str, Any], options: "EngineOptions") -> None:
    """Files, chunks, calls, tokens, time and disk of a run, on stdout."""
    from localrag.cli.display import duration, out
    from localrag.index.plan import plan
    from localrag.project import settings_for, tagger_for

    root, settings, file, db = settings_for(index, model, changes, options)
    found = plan(paths, root, settings, file, db, tagged=settings.style != "abstractive" and tagger_for(file, options) is not None)
    out.print(f"files     {found.files}: {found.to_read} to read, {found.unchanged} unchanged, {len(found.skipped)} cannot be read")
    for one in found.skipped[:5]:
        out.print(f"          {in_line(one.path)}: {one.reason}")
    out.print(f"chunks    {found.chunks} new")
    out.print(f"calls     about {found.calls} of {file.name}, {found.tokens} tokens to compute")
    if not found.calls:
        out.print("time      seconds: no model is asked")
    elif found.seconds is None:
        out.print("time      not known yet: no run with this model on this machine so far (localrag doctor measures its speed)")
    else:
        out.print(f"time      {duration(found.seconds[0])} to {duration(found.seconds[1])}, by this machine's last runs")
    out.print(f"disk      about {max(1, round(found.disk / 1e6))} MB")


def _changes(extractor: str | None, types: str, gleanings: int | None, claims: bool | None, language: str | None) -> dict[str, Any]:
    """The settings that were given on the command line; they are kept in the index. Raises UsageError."""
    from localrag.errors import UsageError

    kinds = tuple(dict.fromkeys(t.strip() for t in types.split(",") if t.strip()))
    if any('"' in kind or "\\" in kind or "\n" in kind for kind in kinds):
        raise UsageError(f"{types!r} is no list of entity types.", "Write them like this: --types person,place,ship")
    given = {"extractor": extractor, "entity_types": kinds or None, "max_gleanings": gleanings, "claims": claims, "language": language}
    return {name: value for name, value in given.items() if value is not None}


def _reading(
    text_column: str | None, metadata_columns: str | None, prepend_metadata: bool | None, follow_links: bool | None
) -> dict[str, Any]:
    """How files are read, where the command line says so; an empty name takes a column back."""
    columns = None if metadata_columns is None else tuple(c.strip() for c in metadata_columns.split(",") if c.strip())
    given = {"text_column": text_column, "metadata_columns": columns, "prepend_metadata": prepend_metadata, "follow_links": follow_links}
    return {name: value for name, value in given.items() if value is not None}


def run_index(paths: list[Path], project: "Project", *, quiet: bool, prune: bool = False, may_ask: bool = False) -> "Outcome":
    """Build with progress on stderr; an interrupt says what is saved and ends in 130.

    `prune` and `may_ask` (at a terminal) are about the documents of files that are gone.
    """
    from localrag.cli.display import IndexProgress, confirmed
    from localrag.cli.outcome import say_outcome
    from localrag.index.pipeline import build_index
    from localrag.index.update import Deletion
    from localrag.store import graph

    for number in (signal.SIGINT, signal.SIGTERM):  # at once: asyncio's own handler waits for an await, and whole stages have none
        signal.signal(number, _as_interrupt)
    with IndexProgress(quiet=quiet) as progress:

        def asked(gone: int, of: int) -> bool:
            with progress.paused():
                return may_ask and confirmed(f"The files of {gone} of {of} documents are gone. Forget these documents?")

        try:
            outcome = asyncio.run(build_index(paths, project, progress, deletion=Deletion(prune, asked)))
        except KeyboardInterrupt:
            progress.close()
            counts = graph.counts(project.db)
            done, total = progress.extraction
            sys.stderr.write(
                f"\nStopped. Saved: {counts['documents']} documents, {counts['chunks']} chunks"
                + (f", {done} of {total} extracted" if total else "")
                + ". The same command goes on from here.\n"
            )
            raise typer.Exit(130) from None
    if not quiet:
        say_outcome(outcome, project, progress.seconds)
    return outcome


def _as_interrupt(_signal: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def reembed_command(
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", metavar="NAME|PATH", help="An embedding model of models.toml, or a GGUF file; else the index's own."),
    ] = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
) -> None:
    """Embed an index anew, with its own or another embedding model; no chat model is asked anything."""
    from localrag.cli.display import IndexProgress, say
    from localrag.index.pipeline import reembed
    from localrag.project import find_index, open_for_writing

    with open_for_writing(find_index(index), embedder=embedder, rebuild=True) as project:
        with IndexProgress(quiet=quiet) as progress:
            reembed(project, progress)
        say(f"Embedded with {project.embedder.file.name}.")


def rm_command(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders, as `localrag files` lists them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every document, and all that was made and asked.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --all.")] = False,
    index: IndexOption = None,
    allow_host: AllowHostOption = None,
    quiet: QuietOption = False,
) -> None:
    """Take documents out of the index for good, with answers and conversations about them; the files themselves stay."""
    from localrag.cli.display import IndexProgress, confirmed, say
    from localrag.errors import UsageError
    from localrag.index.erase import documents_at, erase
    from localrag.project import find_index, open_for_writing
    from localrag.store import corpus

    if bool(paths) == everything:
        raise UsageError("Say what to remove: paths, or --all.", "Those there are: localrag files")
    with open_for_writing(find_index(index), engine=engine_options("", hosts=allow_host, quiet=quiet)) as project:
        gone = sorted(corpus.document_hashes(project.db)) if everything else documents_at(paths or [], project)
        if everything and not yes and not confirmed(f"Remove all {len(gone)} documents, and all that was made and asked?"):
            raise UsageError(f"All {len(gone)} documents would be removed; nothing was.", "If they are to go: localrag rm --all --yes")
        with IndexProgress(quiet=quiet) as progress:
            asyncio.run(erase(gone, project, progress))
        say(f"{len(gone)} documents are out of the index; no copy of their text is left in it. The files themselves were not touched.")
        say("To keep them out when the folder is indexed again, list them in its .localragignore.")


def demo_command(
    index: Annotated[Path, typer.Option("--index", "-i", metavar="DIR", help="Where to put the demo's index.")] = Path("localrag-demo"),
) -> None:
    """Index the demo documents in the package (a harbour town in 1974) and ask a global and a local question."""
    from localrag.cli.ask import ask_and_print
    from localrag.cli.display import say
    from localrag.demo import CORPUS, QUESTIONS
    from localrag.project import open_for_questions, open_for_writing
    from localrag.query.question import Options

    say(f"Indexing the demo documents in {CORPUS}")
    options = engine_options("")
    with open_for_writing(index, engine=options) as project:
        run_index([CORPUS], project, quiet=False)
    for mode, question in QUESTIONS:
        say(f'\n$ localrag ask "{question}" --mode {mode}\n')
        with open_for_questions(index, engine=options) as project:
            ask_and_print(question, project, Options(mode))
    say(f'\nAsk more: localrag ask "…" --index {index}')
