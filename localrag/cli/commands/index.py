"""`localrag index` and `localrag reembed`."""

import shlex
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.completion import embedders
from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    ChunkTokensOption,
    ClaimsOption,
    DeterministicOption,
    EmbedderOption,
    EngineOption,
    ExtractorOption,
    FollowOption,
    GleaningsOption,
    IndexOption,
    IntoOption,
    JsonOption,
    LanguageOption,
    MetadataColumnsOption,
    ModelOption,
    OcrLanguagesOption,
    OcrOption,
    PrependOption,
    ProgressOption,
    PruneOption,
    QuietOption,
    RemeasureOption,
    TextColumnOption,
    WorkersOption,
    engine_options,
)
from localrag.cli.settings.apply import refuse_changes
from localrag.cli.views.terminal import in_line, listener, write_event, write_json
from localrag.where import collection_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrag.cli.views.progress import IndexProgress
    from localrag.index.crew.hire import Hire
    from localrag.index.pipeline import Outcome
    from localrag.index.plan import Plan
    from localrag.library import Index


def index_command(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders: documents, mail, tables, code, any text.")],
    index: IndexOption = None,
    model: ModelOption = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Redo everything the model did, after a change of model or window.")] = False,
    recluster: Annotated[bool, typer.Option("--recluster", help="Find all communities anew, not from those there are.")] = False,
    embedder: EmbedderOption = None,
    extractor: ExtractorOption = None,
    types: Annotated[str, typer.Option("--types", metavar="A,B,…", help="Entity types. Default: person,organization,place,event.")] = "",
    gleanings: GleaningsOption = None,
    chunk_tokens: ChunkTokensOption = None,
    claims: ClaimsOption = None,
    language: LanguageOption = None,
    text_column: TextColumnOption = None,
    metadata_columns: MetadataColumnsOption = None,
    prepend_metadata: PrependOption = None,
    ocr: OcrOption = None,
    ocr_languages: OcrLanguagesOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    workers: WorkersOption = 0,
    ray: Annotated[str, typer.Option("--ray", metavar="HOST:PORT", help="Index with the machines of this Ray cluster.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="With --ray: also those that compute differently from the others.")] = False,
    engine: EngineOption = "",
    remeasure: RemeasureOption = False,
    deterministic: DeterministicOption = False,
    follow_links: FollowOption = None,
    collection: IntoOption = None,
    prune: PruneOption = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the contents of all files, also of those that look as before.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done and what it would cost, then stop.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and update the index when files change.")] = False,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Build or update the index of files and folders. Safe to stop; the same command resumes."""
    from localrag.library import Index

    options = engine_options(engine, remeasure=remeasure, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet)
    begun = Index.open(index, model=model, engine=options, missing_ok=True)
    _check(paths, begun)
    changes = _changes(extractor, types, gleanings, claims, language) | _scans(ocr, ocr_languages)
    changes |= _reading(chunk_tokens, text_column, metadata_columns, prepend_metadata, follow_links)
    collections = collection_names(collection or "")
    refuse_changes(context, index, rebuild=rebuild)
    if plan:
        return print_plan(begun.plan(paths, **changes), as_json=as_json)
    _name_better_model(paths, index, unasked=begun.exists or quiet or progress == "json" or model is not None)
    shown = Shown(quiet=quiet, progress=progress, as_json=as_json)
    who = _on_ray(ray, mixed=mixed) if ray else workers

    def run(first: bool = True) -> "Outcome":  # who watches has looked at what there was at the beginning
        opened = Index.open(index, model=model, engine=options if first else replace(options, remeasure=False), missing_ok=True)
        with opened.writing(embedder=embedder, rebuild=rebuild and first, recluster=recluster and first, **changes):
            once = {"prune": prune and first, "verify": verify and first}
            return run_index(paths, opened, shown, may_ask=not watch, collections=collections, workers=who, **once)

    return _run(paths, run, watch=watch)


def _check(paths: list[Path], begun: "Index") -> None:
    """Refuse paths that are not there; one that documents were read from may be gone. Raises UsageError."""
    from localrag.index.documents.load import check_paths, is_there

    known = [] if all(map(is_there, paths)) or not begun.exists else begun.paths()
    check_paths(paths, [begun.root / path for path in known])


def _on_ray(address: str, *, mixed: bool) -> "Hire":
    """The machines of a cluster; what can be refused unasked is refused before an index is made. Raises UsageError."""
    from localrag.index.crew.cluster import check_token, split_address
    from localrag.index.crew.on_ray import on_ray

    split_address(address)
    check_token()
    return on_ray(address, mixed=mixed)


def _run(paths: list[Path], run: "Callable[[bool], Outcome]", *, watch: bool) -> None:
    if watch:
        from localrag.cli.commands.watch import watch_files, when_free

        when_free(lambda: run(True))
        watch_files(paths, lambda: run(False))
    if not run(True).complete:
        raise typer.Exit(5)


def _name_better_model(paths: list[Path], index: Path | None, *, unasked: bool) -> None:
    """Where a new index begins with the bundled model: the one that suits this machine best, and how to get it."""
    if unasked:
        return
    from localrag.catalog.advice import better_model
    from localrag.cli.views.console import say

    chosen = ["--index", str(index)] if index else []
    if advice := better_model(shlex.join(["localrag", "index", *map(str, paths), *chosen])):
        say(f"{advice[0]}\n  → {advice[1]}")


def print_plan(found: "Plan", *, as_json: bool = False) -> None:
    """Files, chunks, calls, tokens, time and disk of a run, on stdout."""
    from dataclasses import asdict

    from localrag.cli.views.console import duration, out
    from localrag.index.plan import SECONDS_A_PAGE

    if as_json:
        write_json(asdict(found))
        return
    out.print(f"files     {found.files}: {found.to_read} to read, {found.unchanged} unchanged, {len(found.skipped)} cannot be read")
    if found.scans:
        out.print(f"scans     {found.scans} pages to be read by Tesseract, some {duration(found.scans * SECONDS_A_PAGE)}")
    for one in found.skipped[:5]:
        out.print(f"          {in_line(one.path)}: {one.reason}")
    out.print(f"chunks    {found.chunks} new")
    out.print(f"calls     about {found.calls} of {found.model}, {found.tokens} tokens to compute")
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
    chunk_tokens: int | None,
    text_column: str | None,
    metadata_columns: str | None,
    prepend_metadata: bool | None,
    follow_links: bool | None,
) -> dict[str, Any]:
    """How files are read and cut into chunks, where the command line says so; an empty name takes a column back."""
    columns = None if metadata_columns is None else tuple(c.strip() for c in metadata_columns.split(",") if c.strip())
    given = {"text_column": text_column, "metadata_columns": columns, "prepend_metadata": prepend_metadata, "follow_links": follow_links}
    sizes = {"chunk_tokens": chunk_tokens, "chunk_overlap": chunk_tokens * 100 // 680} if chunk_tokens else {}
    return sizes | {name: value for name, value in given.items() if value is not None}


def _scans(ocr: bool | None, languages: str | None) -> dict[str, Any]:
    """How scans are read, where the command line says so; an empty list is the default again. Raises UsageError."""
    from localrag.index.documents.load.tesseract import checked_languages

    given = {"ocr": ocr, "ocr_languages": None if languages is None else checked_languages(languages)}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run shows while it goes on and at its end."""

    quiet: bool = False
    progress: str = "auto"
    as_json: bool = False


def run_index(
    paths: list[Path],
    index: "Index",
    shown: Shown,
    *,
    prune: bool = False,
    may_ask: bool = False,
    verify: bool = False,
    collections: tuple[str, ...] = (),
    workers: "int | Hire" = 0,
) -> "Outcome":
    """Add to an index that is held for writing, with progress on stderr; an interrupt says what is saved and ends in 130.

    `prune` and `may_ask` (at a terminal) are about the documents of files that are gone; `verify`: see `Deletion`.
    """
    from localrag.cli.views.console import confirmed
    from localrag.cli.views.outcome import outcome_json, say_outcome
    from localrag.cli.views.progress import IndexProgress
    from localrag.index.documents.update import Deletion

    for number in (signal.SIGINT, signal.SIGTERM):  # at once: asyncio's own handler waits for an await, and whole stages have none
        signal.signal(number, _as_interrupt)
    with IndexProgress(quiet=shown.quiet, shown=shown.progress) as progress:

        def asked(gone: int, of: int) -> bool:
            with progress.paused():
                return may_ask and confirmed(f"The files of {gone} of {of} documents are gone. Forget these documents?")

        try:
            deletion = Deletion(prune, asked, verify)
            outcome = index.add(paths, collections=collections, on_progress=progress, deletion=deletion, workers=workers)
        except KeyboardInterrupt:
            progress.close()
            _say_stopped(index, progress)
            raise typer.Exit(130) from None
    if listener.on:
        write_event("end", **outcome_json(outcome, index, progress.seconds))
    elif not (shown.quiet or shown.as_json):
        say_outcome(outcome, index, progress.seconds)
    if shown.as_json:
        write_json(outcome_json(outcome, index, progress.seconds))
    return outcome


def _say_stopped(index: "Index", progress: "IndexProgress") -> None:
    counts = index.counts()
    done, total = progress.extraction
    if listener.on:
        saved = {"documents": counts["documents"], "chunks": counts["chunks"], "extracted": done}
        write_event("end", state="interrupted", seconds=round(progress.seconds, 1), counts=saved, exit_code=130)
        return
    sys.stderr.write(
        f"\nStopped. Saved: {counts['documents']} documents, {counts['chunks']} chunks"
        + (f", {done} of {total} extracted" if total else "")
        + ". The same command goes on from here.\n"
    )


def _as_interrupt(_signal: int, _frame: Any) -> None:
    """Say at once that it was heard: a batch of embeddings that is being computed takes seconds to end."""
    from localrag.cli.views.console import say

    say("Stopping; what is done is saved …")
    raise KeyboardInterrupt


def reembed_command(
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            metavar="NAME|PATH",
            help="Embedding model: a name in models.toml, or a GGUF file. Default: the index's own.",
            autocompletion=embedders,
        ),
    ] = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Compute all embeddings again, with the same or another embedding model."""
    from localrag.cli.views.console import say
    from localrag.cli.views.progress import IndexProgress
    from localrag.library import Index

    with Index.open(index) as opened, opened.writing(embedder=embedder, rebuild=True):
        with IndexProgress(quiet=quiet, shown=progress) as bars:
            opened.reembed(on_progress=bars)
        counts, used = opened.counts(), opened.models()["embedder"]
        embedded = {name: counts[name] for name in ("chunks", "entities", "reports")}
        found = {"embedder": used, "embedded": embedded, "seconds": round(bars.seconds, 1)}
        if listener.on:
            write_event("end", state="complete", **found)
        elif not as_json:
            say(f"Embedded with {used['name']}.")
        if as_json:
            write_json(found)
