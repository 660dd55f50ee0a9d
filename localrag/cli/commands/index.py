"""`localrag index` (also `--watch`), `reembed`, `rm` and `gc`."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import localrag
from localrag.cli.options import (
    AddToCollectionOption,
    EmbedderOption,
    IndexOption,
    JsonOption,
    ModelOption,
    OptionValues,
    ProgressOption,
    PruneOption,
    QuietOption,
    RetuneOption,
    WorkersOption,
    engine_options,
    setting_options,
    with_engine,
    with_options,
)
from localrag.cli.settings import INDEX_BOUND_SETTINGS, MODEL_SETTINGS, SETTINGS, refuse_changes, split_list
from localrag.cli.views.terminal import confirm, escape_line, format_duration, json_events, print_note, write_event, write_json, write_line
from localrag.errors import IndexBusy, LocalragError, UsageError, error_location, known_error
from localrag.filters import parse_collection_names
from localrag.loaders.discover import check_paths, exists_visibly, is_index_folder
from localrag.records import to_row
from localrag.settings import INDEX_FOLDER
from localrag.system.resources import require_extra

if TYPE_CHECKING:
    from localrag.cli.views.progress import IndexProgress
    from localrag.index import Index
    from localrag.indexing.pipeline import IndexPlan, IndexResult
    from localrag.indexing.workers.pool import PoolFactory


@with_engine
@with_options("settings", **setting_options(*(name for name in INDEX_BOUND_SETTINGS if name not in MODEL_SETTINGS)))
def index_command(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders: documents, mail, tables, code, any text.")
    ] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Repeat the model's work, after a change of model or window.")] = False,
    recluster: Annotated[bool, typer.Option("--recluster", help="Compute all communities from scratch instead of updating them.")] = False,
    embedder: EmbedderOption = None,
    *,
    settings: OptionValues,
    engine: OptionValues,
    retune: RetuneOption = False,
    workers: WorkersOption = 0,
    ray: Annotated[str, typer.Option("--ray", metavar="HOST:PORT", help="Index with the machines of this Ray cluster.")] = "",
    collection: AddToCollectionOption = None,
    prune: PruneOption = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the contents of all files, also of those that look unchanged.")] = False,
    write_reports: Annotated[
        bool, typer.Option("--write-reports", help="Let the chat model write the reports, now and after changes. Needs no PATH.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done and what it would cost, then stop.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and update the index when files change.")] = False,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Build or update the index of files and folders. Safe to stop; the same command resumes."""
    options = engine_options(engine, retune=retune, quiet=quiet)
    begun = localrag.Index.open(index, model=model, engine=options, missing_ok=True)
    if not paths and not (write_reports and begun.exists):
        raise UsageError("Name the files or folders to index.", "localrag index PATH")
    paths = paths or []
    _check(paths, begun)
    changes = _changed_settings(settings)
    collections = parse_collection_names(collection or "")
    refuse_changes(context, index, rebuild=rebuild)
    if plan:
        return print_plan(begun.plan(paths, embedder=embedder, **changes), as_json=as_json)
    _name_better_model(index, unasked=begun.exists or quiet or progress == "json" or model is not None)
    shown = OutputOptions(quiet=quiet, progress=progress, as_json=as_json)
    who = _ray_pool(ray) if ray else workers

    def run(first: bool = True) -> "IndexResult":  # with --watch, options such as --rebuild apply only to the first run
        opened = localrag.Index.open(index, model=model, engine=options if first else replace(options, retune=False), missing_ok=True)
        redo = {"rebuild": rebuild and first, "recluster": recluster and first}
        with opened.write_session(embedder=embedder, sources=paths, **redo, **changes):
            once = {"prune": prune and first, "verify": verify and first, "write_reports": write_reports and first}
            return run_index(paths, opened, shown, may_ask=not watch, collections=collections, workers=who, **once)

    return _run(paths, run, watch=watch)


def _check(paths: list[Path], begun: "Index") -> None:
    """Raise UsageError for a missing path, unless documents of the index came from it."""
    stored_paths = [] if all(map(exists_visibly, paths)) or not begun.exists else begun.paths()
    check_paths(paths, [begun.root / path for path in stored_paths])


def _ray_pool(address: str) -> "PoolFactory":
    """The worker pool of a Ray cluster. Raises UsageError, if possible before an index is created."""
    from localrag.indexing.workers.ray_cluster import check_token, split_address
    from localrag.indexing.workers.ray_pool import ray_pool

    split_address(address)
    check_token()
    return ray_pool(address)


def _run(paths: list[Path], run: "Callable[[bool], IndexResult]", *, watch: bool) -> None:
    if watch:
        run_when_unlocked(lambda: run(True))
        watch_files(paths, lambda: run(False))
    if not run(True).complete:
        raise typer.Exit(5)


def _name_better_model(index: Path | None, *, unasked: bool) -> None:
    """Print a better chat model for this machine if a new index would use the bundled one."""
    if unasked:
        return
    from localrag.catalog.listing import better_model_hint

    chosen = ["--index", str(index)] if index else []
    if advice := better_model_hint(" ".join(["localrag ask", '"…"', *map(shlex.quote, chosen)])):
        print_note(f"{advice[0]}\n  → {advice[1]}")


def print_plan(plan: "IndexPlan", *, as_json: bool = False) -> None:
    """Print the planned files, chunks, models, calls, tokens, time and disk space of a run."""
    from dataclasses import asdict

    from localrag.cli.views.console import stdout_console

    if as_json:
        write_json(asdict(plan) | {"skipped": [to_row(one, {"is_failure": "failed"}) for one in plan.skipped]})
        return
    stdout_console.print(f"files     {plan.files}: {plan.to_read} to read, {plan.unchanged} unchanged, {len(plan.skipped)} cannot be read")
    if plan.scans:
        stdout_console.print(f"scans     {plan.scans} pages to be read by OCR, some {format_duration(plan.scan_seconds)}")
    for one in plan.skipped[:5]:
        stdout_console.print(f"          {escape_line(one.path)}: {one.reason}")
    stdout_console.print(f"chunks    {plan.chunks} new")
    stdout_console.print(f"method    {escape_line(plan.how)}", soft_wrap=True)
    stdout_console.print(f"embedder  {escape_line(plan.embedder)}")
    stdout_console.print(f"calls     about {plan.calls} of {plan.model}, {plan.tokens} tokens to compute")
    if plan.seconds is None:
        stdout_console.print(
            "time      not known yet: this model has not run on this machine so far (localrag models test NAME measures it)"
        )
    else:
        stdout_console.print(f"time      {format_duration(plan.seconds[0])} to {format_duration(plan.seconds[1])}")
    stdout_console.print(f"disk      about {max(1, round(plan.disk / 1e6))} MB")


def _changed_settings(settings: OptionValues) -> dict[str, Any]:
    """The IndexSettings fields that the options change; an empty list or name resets to the default. Raises UsageError."""
    from localrag.loaders.ocr import checked_languages

    changes: dict[str, Any] = {}
    for name, value in settings.items():
        setting, given = SETTINGS[name], value
        if value is not None and setting.type is tuple:
            given = checked_languages(value) if name == "ocr_languages" else tuple(dict.fromkeys(split_list(value)))
        if given is None or (name == "types" and not given):
            continue
        try:
            changes[setting.index_key] = setting.check(given) if setting.check else given
        except ValueError as error:
            raise UsageError(f"--{name} {value!r}: {error}.", "Write them like this: --types person,place,ship") from error
    if size := changes.get("chunk_tokens"):
        changes["chunk_overlap"] = size * 100 // 680
    return changes


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Output options of a run."""

    quiet: bool = False
    progress: str = "auto"
    as_json: bool = False


def run_index(
    paths: list[Path],
    index: "Index",
    shown: OutputOptions,
    *,
    prune: bool = False,
    may_ask: bool = False,
    verify: bool = False,
    write_reports: bool = False,
    collections: tuple[str, ...] = (),
    workers: "int | PoolFactory" = 0,
) -> "IndexResult":
    """Run indexing on an index open for writing, with progress on stderr; on an interrupt, print what is saved and exit with 130.

    `prune` deletes the documents of missing files, `may_ask` asks before that on a terminal; `verify`: see `DeletionPolicy`.
    """
    from localrag.cli.views.progress import IndexProgress, print_result, result_to_json
    from localrag.indexing.documents import DeletionPolicy

    for number in (signal.SIGINT, signal.SIGTERM):  # asyncio's own handler waits for an await, which some stages lack
        signal.signal(number, _as_interrupt)
    with IndexProgress(quiet=shown.quiet, shown=shown.progress) as progress:

        def asked(gone: int, of: int) -> bool:
            with progress.paused():
                return may_ask and confirm(f"The files of {gone} of {of} documents are gone. Remove these documents from the index?")

        try:
            deletion = DeletionPolicy(prune, asked, verify)
            if write_reports and not paths:
                outcome = index.write_reports(on_progress=progress, workers=workers)
            else:
                outcome = index.add(
                    paths, collections=collections, on_progress=progress, deletion=deletion, workers=workers, write_reports=write_reports
                )
        except KeyboardInterrupt:
            progress.close()
            _print_interrupted(index, progress)
            raise typer.Exit(130) from None
    if json_events.is_active:
        write_event("end", **result_to_json(outcome, index, progress.seconds))
    elif not (shown.quiet or shown.as_json):
        print_result(outcome, index, progress.seconds)
    if shown.as_json:
        write_json(result_to_json(outcome, index, progress.seconds))
    return outcome


def _print_interrupted(index: "Index", progress: "IndexProgress") -> None:
    counts = index.counts()
    done, total = progress.extraction
    if json_events.is_active:
        saved = {"documents": counts["documents"], "chunks": counts["chunks"], "extracted": done}
        write_event("end", state="interrupted", seconds=round(progress.seconds, 1), counts=saved, exit_code=130)
        return
    sys.stderr.write(
        f"\nStopped. Saved: {counts['documents']} documents, {counts['chunks']} chunks"
        + (f", {done} of {total} extracted" if total else "")
        + ". The same command resumes from here.\n"
    )


def _as_interrupt(_signal: int, _frame: Any) -> None:
    """Turn SIGINT and SIGTERM into KeyboardInterrupt with an immediate message: a running batch of embeddings takes seconds to end.

    A thread prints it: this one may have been interrupted while it was writing to the same stream.
    """
    threading.Thread(target=print_note, args=("Stopping; finished work is saved …",), daemon=True).start()
    raise KeyboardInterrupt


def reembed_command(
    embedder: EmbedderOption = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Compute all embeddings again, with the same or another embedding model."""
    from localrag.cli.views.progress import IndexProgress

    with localrag.Index.open(index) as opened, opened.write_session(embedder=embedder, rebuild=True):
        with IndexProgress(quiet=quiet, shown=progress) as bars:
            opened.reembed(on_progress=bars)
        counts, used = opened.counts(), opened.status()["models"]["embedder"]
        embedded = {name: counts[name] for name in ("chunks", "entities", "reports")}
        summary = {"embedder": used, "embedded": embedded, "seconds": round(bars.seconds, 1)}
        if json_events.is_active:
            write_event("end", state="complete", **summary)
        elif not as_json:
            print_note(f"Embedded with {used['name']}.")
        if as_json:
            write_json(summary)


DEBOUNCE_MS = 1600  # milliseconds without a change before an update
POLL_MS = 1000  # milliseconds between checks for pending work
RETRY_AFTER_S = 60.0  # seconds until a failed run is repeated without a change


def watch_files(paths: Sequence[Path], run: Callable[[], object]) -> None:
    """Run again whenever a file below the paths changes, until interrupted. Between runs other processes may write to the index.

    An error is printed once; the run is repeated at the next change or after RETRY_AFTER_S. Raises typer.Exit.
    """
    print_note("Watching for changes; Ctrl-C ends.")
    due, last_error = 0.0, ""  # run at once, for changes before the watch began
    try:
        while True:
            for changed in _file_changes(paths):
                if not changed and time.monotonic() < due:
                    continue
                due, error = _run_once(run)
                if error and error != last_error:
                    print_note(error)
                last_error = error
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def run_when_unlocked(run: Callable[[], object]) -> None:
    """Run as soon as no other process writes to the index; a note says that it waits. Raises LocalragError without watchfiles."""
    require_extra("watch", "watchfiles")
    was_busy = False
    while True:
        try:
            run()
        except IndexBusy as error:
            if not was_busy:
                print_note(f"{error} localrag waits for it.")
            was_busy = True
            time.sleep(POLL_MS / 1000)
        else:
            return


def _run_once(run: Callable[[], object]) -> tuple[float, str]:
    """Run once; return the time of the next attempt without a change, and the error. Raises typer.Exit and KeyboardInterrupt."""
    try:
        run()
    except typer.Exit:
        raise
    except IndexBusy:  # another process writes: retry in a second
        return time.monotonic(), ""
    except LocalragError as error:
        return time.monotonic() + RETRY_AFTER_S, f"{error} {error.hint} Still watching."
    except Exception as error:  # noqa: BLE001 — any failure is printed, and watching continues
        from localrag.store.database import store_error

        known = known_error(error) or store_error(error)
        message = f"{known} {known.hint}" if known else f"Something unexpected happened: {error_location(error)}."
        return time.monotonic() + RETRY_AFTER_S, f"{message} Still watching."
    return float("inf"), ""


def _file_changes(paths: Sequence[Path]) -> Iterator[bool]:
    """Yield endlessly whether something changed since the last item; removing, restoring or replacing a path is a change."""
    from watchfiles import watch

    seen, again, last_problem = _identities(paths), False, ""
    while True:
        tops = [Path(os.path.realpath(p)) for p in paths if exists_visibly(p)]
        try:
            # Without watchfiles' filter: while excluded files change all the time, it would yield nothing.
            for changes in (
                watch(*tops, watch_filter=None, debounce=DEBOUNCE_MS, rust_timeout=POLL_MS, yield_on_timeout=True) if tops else [()]
            ):
                if _identities(paths) != seen:
                    break
                yield again or any(_is_relevant(tops, Path(path)) for _, path in changes)
                again = False
        except FileNotFoundError:  # removed in this moment
            pass
        except OSError as error:  # more folders than the system can watch
            problem = f"The files cannot be watched: {error.strerror or error}. They are checked every minute."
            if problem != last_problem:
                print_note(problem)
            last_problem, again = problem, True
            time.sleep(RETRY_AFTER_S)
        time.sleep(POLL_MS / 1000)
        seen, before = _identities(paths), seen
        again = again or seen != before  # compared after the watch began, so that no change is missed


def _identities(paths: Sequence[Path]) -> list[tuple[int, int] | None]:
    """Identities of the files and folders that the paths lead to now."""
    return [(state.st_dev, state.st_ino) if exists_visibly(p) and (state := p.stat()) else None for p in paths]


def _is_relevant(tops: Sequence[Path], path: Path) -> bool:
    """Whether a changed file may be a document. Files of an index are not: they change with every run."""
    top = next((t for t in tops if path.is_relative_to(t)), Path("/"))
    folders = [f for f in path.parents if f.is_relative_to(top)]
    return INDEX_FOLDER not in path.relative_to(top).parts and not any(map(is_index_folder, folders))


@with_engine
def remove_documents_command(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders listed by `localrag files`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every document, and all reports, answers and conversations.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    index: IndexOption = None,
    *,
    engine: OptionValues,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Remove documents from the index, with all answers about them. The files are not touched."""
    from localrag.cli.views.progress import IndexProgress

    if bool(paths) == everything:
        raise UsageError("Name what to remove: paths, or --all.", "List them: localrag files")
    chosen = engine_options(engine, quiet=quiet)
    with localrag.Index.open(index, engine=chosen) as opened, opened.write_session():
        removed = opened.paths() if everything else opened.documents_at(paths or [])
        if everything and not yes and not confirm(f"Remove all {len(removed)} documents, and all data, answers and conversations?"):
            raise UsageError(f"All {len(removed)} documents would be removed; nothing was.", "To remove them: localrag rm --all --yes")
        with IndexProgress(quiet=quiet, shown=progress) as bars:
            removed = opened.remove_all(on_progress=bars) if everything else opened.remove(paths or [], on_progress=bars)
        summary = {"removed": removed, "documents": len(opened.paths()), "seconds": round(bars.seconds, 1)}
        if json_events.is_active:
            write_event("end", state="complete", **summary)
        if as_json:
            write_json(summary)
        if as_json or json_events.is_active:
            return
        print_note(
            f"{len(removed)} documents were removed from the index; no copy of their text is left in it. The files were not touched."
        )
        print_note("To keep them out when the folder is indexed again, list them in its .localragignore.")


def gc_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what is no longer needed: unused model answers, old copies, caches. Documents and conversations are kept."""
    from localrag.cli.views.contents import format_collected

    with localrag.Index.open(index) as opened:
        freed = opened.collect_garbage(only_say=dry_run)
        size = opened.status()["bytes"]
    if as_json:
        rows = [{"kind": one.kind, "n": one.n, "bytes": one.bytes} for one in freed]
        write_json({"freed": rows, "bytes": sum(one.bytes for one in freed), "dry_run": dry_run, "index_bytes": size})
        return
    for one in freed:
        write_line(format_collected(one))
    total = f"{sum(one.bytes for one in freed) / 1e6:.1f} MB"
    if not freed:
        print_note(f"There is nothing to delete; the size of the index is {size / 1e6:.1f} MB.")
    elif dry_run:
        print_note(f"{total} would be freed; nothing was deleted. To do it: localrag gc")
    else:
        print_note(f"{total} freed; the size of the index is {size / 1e6:.1f} MB.")
