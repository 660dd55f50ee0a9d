"""`localrag index` and `localrag reembed`."""

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    ExtractorOption,
    FollowOption,
    IndexOption,
    IntoOption,
    MetadataColumnsOption,
    ModelOption,
    PrependOption,
    PruneOption,
    QuietOption,
    RemeasureOption,
    TextColumnOption,
    engine_options,
)
from localrag.cli.views.terminal import in_line
from localrag.where import collection_names

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions
    from localrag.index.pipeline import Outcome
    from localrag.project import Project


def index_command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders: documents, mail, tables, code, any text.")],
    index: IndexOption = None,
    model: ModelOption = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Redo everything the model did, after a change of model or window.")] = False,
    embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME|PATH", help="Embedding model: a name in models.toml, or a GGUF file.")
    ] = None,
    extractor: ExtractorOption = None,
    types: Annotated[str, typer.Option("--types", metavar="A,B,…", help="Entity types. Default: person,organization,place,event.")] = "",
    gleanings: Annotated[int | None, typer.Option("--gleanings", min=0, help="How often to ask the model for missed names.")] = None,
    chunk_tokens: Annotated[
        int | None, typer.Option("--chunk-tokens", min=100, max=4000, help="Maximum tokens of a chunk. Default: 680.")
    ] = None,
    claims: Annotated[bool | None, typer.Option("--claims/--no-claims", help="Also extract claims: who did what, and when.")] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Language of reports and answers. Default: the documents' own.")
    ] = None,
    text_column: TextColumnOption = None,
    metadata_columns: MetadataColumnsOption = None,
    prepend_metadata: PrependOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    remeasure: RemeasureOption = False,
    deterministic: DeterministicOption = False,
    follow_links: FollowOption = None,
    collection: IntoOption = None,
    prune: PruneOption = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done and what it would cost, then stop.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and update the index when files change.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Build or update the index of files and folders. Safe to stop; the same command resumes."""
    from localrag.index.documents.load import check_paths, is_there
    from localrag.opening import documents_of, open_for_writing

    options = engine_options(engine, remeasure=remeasure, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet)
    check_paths(paths, [] if all(map(is_there, paths)) else documents_of(index))
    reading = _reading(text_column, metadata_columns, prepend_metadata, follow_links)
    changes = _changes(extractor, types, gleanings, claims, language) | reading
    changes |= {"chunk_tokens": chunk_tokens, "chunk_overlap": chunk_tokens * 100 // 680} if chunk_tokens else {}
    if plan:
        print_plan(paths, index, model, changes, options)
        return

    def run() -> "Outcome":
        with open_for_writing(index, model=model, embedder=embedder, rebuild=rebuild, engine=options, **changes) as project:
            return run_index(paths, project, quiet=quiet, prune=prune, may_ask=not watch, collections=collection_names(collection or ""))

    if watch:
        from localrag.cli.commands.watch import watch_files, when_free

        when_free(run)
        # Asked of the first run only; whoever watches has looked at what there was at the beginning, not at what comes.
        prune, rebuild, options = False, False, replace(options, remeasure=False)
        watch_files(paths, run)
    outcome = run()
    if outcome.failures or any(s.failed for s in outcome.loaded.skipped):
        raise typer.Exit(5)


def print_plan(paths: list[Path], index: Path | None, model: str | None, changes: dict[str, Any], options: "EngineOptions") -> None:
    """Files, chunks, calls, tokens, time and disk of a run, on stdout."""
    from localrag.cli.views.console import duration, out
    from localrag.index.plan import plan
    from localrag.opening import settings_for, tagger_for

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


def run_index(
    paths: list[Path], project: "Project", *, quiet: bool, prune: bool = False, may_ask: bool = False, collections: tuple[str, ...] = ()
) -> "Outcome":
    """Build with progress on stderr; an interrupt says what is saved and ends in 130.

    `prune` and `may_ask` (at a terminal) are about the documents of files that are gone.
    """
    from localrag.cli.views.console import confirmed
    from localrag.cli.views.outcome import say_outcome
    from localrag.cli.views.progress import IndexProgress
    from localrag.index.documents.update import Deletion
    from localrag.index.pipeline import build_index
    from localrag.store import graph

    for number in (signal.SIGINT, signal.SIGTERM):  # at once: asyncio's own handler waits for an await, and whole stages have none
        signal.signal(number, _as_interrupt)
    with IndexProgress(quiet=quiet) as progress:

        def asked(gone: int, of: int) -> bool:
            with progress.paused():
                return may_ask and confirmed(f"The files of {gone} of {of} documents are gone. Forget these documents?")

        try:
            deletion = Deletion(prune, asked)
            outcome = asyncio.run(build_index(paths, project, progress, deletion=deletion, collections=collections))
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
        typer.Option(
            "--embedder", metavar="NAME|PATH", help="Embedding model: a name in models.toml, or a GGUF file. Default: the index's own."
        ),
    ] = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compute all embeddings again, with the same or another embedding model."""
    from localrag.cli.views.console import say
    from localrag.cli.views.progress import IndexProgress
    from localrag.index.pipeline import reembed
    from localrag.opening import find_index, open_for_writing

    with open_for_writing(find_index(index), embedder=embedder, rebuild=True) as project:
        with IndexProgress(quiet=quiet) as progress:
            reembed(project, progress)
        say(f"Embedded with {project.embedder.file.name}.")
