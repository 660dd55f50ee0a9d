"""`localrag index` (also `--watch`), `reembed`, `rm` and `gc`."""

import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
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
    RetuneOption,
    WorkersOption,
    engine_options,
    setting_options,
    with_engine,
    with_options,
    with_output,
)
from localrag.cli.settings import INDEX_BOUND_SETTINGS, MODEL_SETTINGS, SETTINGS, refuse_changes, split_list
from localrag.cli.views.terminal import (
    confirm,
    escape_line,
    format_duration,
    json_events,
    print_note,
    write_event,
    write_json,
    write_result,
)
from localrag.errors import IndexBusy, UsageError, error_location, known_error
from localrag.filters import parse_collection_names
from localrag.loaders.discover import check_paths, exists_visibly, find_files
from localrag.records import to_row
from localrag.system.files import StatKey, stat_key

if TYPE_CHECKING:
    from localrag.cli.views.progress import IndexProgress
    from localrag.engine.settings import EngineOptions
    from localrag.index import Index
    from localrag.indexing.pipeline import IndexPlan, IndexResult
    from localrag.indexing.workers.pool import PoolFactory


FirstRunOption = tuple[Any, bool]


def _first_run(flag: str, text: str) -> FirstRunOption:
    return Annotated[bool, typer.Option(flag, help=text)], False


REDO_OPTIONS = {
    "rebuild": _first_run("--rebuild", "Repeat the model's work, after a change of model or window."),
    "recluster": _first_run("--recluster", "Compute all communities from scratch instead of updating them."),
}
RUN_OPTIONS = {
    "prune": _first_run("--prune", "Remove all documents whose files are gone, also those of a missing folder."),
    "verify": _first_run("--verify", "Compare the contents of all files, also of those that look unchanged."),
    "write_reports": _first_run("--write-reports", "Let the chat model write the reports, now and after changes. Needs no PATH."),
}


@with_engine
@with_options("settings", **setting_options(*(name for name in INDEX_BOUND_SETTINGS if name not in MODEL_SETTINGS)))
@with_options("redo", **REDO_OPTIONS)
@with_options("once", **RUN_OPTIONS)
@with_output
def index_command(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders: documents, mail, tables, code, any text.")
    ] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    *,
    redo: OptionValues,
    settings: OptionValues,
    engine: OptionValues,
    retune: RetuneOption = False,
    workers: WorkersOption = 0,
    ray: Annotated[str, typer.Option("--ray", metavar="HOST:PORT", help="Index with the machines of this Ray cluster.")] = "",
    collection: AddToCollectionOption = None,
    once: OptionValues,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done and what it would cost, then stop.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and update the index when files change.")] = False,
    output: OptionValues,
) -> None:
    """Build or update the index of files and folders. Safe to stop; the same command resumes."""
    options = engine_options(engine, retune=retune, quiet=output["quiet"])
    begun = localrag.Index.open(index, model=model, engine=options, missing_ok=True)
    if not paths and not (once["write_reports"] and begun.exists):
        raise UsageError("Name the files or folders to index.", "localrag index PATH")
    paths = paths or []
    _check(paths, begun)
    changes = _changed_settings(settings)
    collections = parse_collection_names(collection or "")
    refuse_changes(context, index, rebuild=redo["rebuild"])
    if plan:
        _write_plan(begun.plan(paths, embedder=embedder, **changes), as_json=output["as_json"])
        return
    if not (begun.exists or output["quiet"] or json_events.is_active or model):
        _name_better_model(index)
    who = _ray_pool(ray) if ray else workers

    def run(chosen: "EngineOptions", redo: OptionValues, once: OptionValues) -> "IndexResult":
        opened = localrag.Index.open(index, model=model, engine=chosen, missing_ok=True)
        with opened.write_session(embedder=embedder, sources=paths, **redo, **changes):
            return run_index(paths, opened, output, may_ask=not watch, collections=collections, workers=who, **once)

    if watch:
        _interrupts.clear()
        run_when_unlocked(lambda: run(options, redo, once))
        watch_files(paths, lambda: run(replace(options, retune=False), {}, {}))
    if not run(options, redo, once).complete:
        raise typer.Exit(5)


def _check(paths: list[Path], begun: "Index") -> None:
    stored_paths = [] if all(map(exists_visibly, paths)) or not begun.exists else begun.paths()
    check_paths(paths, [begun.root / path for path in stored_paths])


def _ray_pool(address: str) -> "PoolFactory":
    """The worker pool of a Ray cluster. Raises UsageError, if possible before an index is created."""
    from localrag.indexing.workers.ray_cluster import check_token, split_address
    from localrag.indexing.workers.ray_pool import ray_pool

    split_address(address)
    check_token()
    return ray_pool(address)


def _name_better_model(index: Path | None) -> None:
    """Print a better chat model for this machine, before a new index uses the bundled one."""
    from localrag.catalog.listing import better_model_hint

    chosen = ["--index", str(index)] if index else []
    if advice := better_model_hint(" ".join(["localrag ask", '"…"', *map(shlex.quote, chosen)])):
        print_note(f"{advice[0]}\n  → {advice[1]}")


def _write_plan(plan: "IndexPlan", *, as_json: bool) -> None:
    from localrag.cli.views.console import print_fields

    time_text = "not known yet: no run with this model on this machine so far (localrag doctor measures its speed)"
    if plan.seconds is not None:
        time_text = f"{format_duration(plan.seconds[0])} to {format_duration(plan.seconds[1])}, estimated from this machine's last runs"
    shown = {
        "files": f"{plan.files}: {plan.to_read} to read, {plan.unchanged} unchanged, {len(plan.skipped)} cannot be read",
        "scans": f"{plan.scans} pages to be read by OCR, some {format_duration(plan.scan_seconds)}" * bool(plan.scans),
        "cannot be read": "\n".join(f"{escape_line(one.path)}: {one.reason}" for one in plan.skipped[:5]),
        "chunks": f"{plan.chunks} new",
        "method": escape_line(plan.how),
        "embedder": escape_line(plan.embedder),
        "calls": f"about {plan.calls} of {plan.model}, {plan.tokens} tokens to compute",
        "time": time_text,
        "disk": f"about {max(1, round(plan.disk / 1e6))} MB",
    }
    row = asdict(plan) | {"skipped": [to_row(one, {"is_failure": "failed"}) for one in plan.skipped]}
    write_result(row, print_fields, {name: text for name, text in shown.items() if text}, as_json=as_json)


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


def run_index(
    paths: list[Path],
    index: "Index",
    output: OptionValues,
    *,
    prune: bool = False,
    may_ask: bool = False,
    verify: bool = False,
    write_reports: bool = False,
    collections: tuple[str, ...] = (),
    workers: "int | PoolFactory" = 0,
) -> "IndexResult":
    """Run indexing with progress on stderr; on an interrupt, print what is saved and exit with 130. `may_ask`: before `prune` deletes."""
    from localrag.cli.views.progress import IndexProgress, print_result, result_to_json
    from localrag.indexing.documents import DeletionPolicy

    for number in (signal.SIGINT, signal.SIGTERM):  # asyncio's own handler waits for an await, which some stages lack
        signal.signal(number, _as_interrupt)
    with IndexProgress(quiet=output["quiet"], shown=output["progress"]) as progress:

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
    _write_end(result_to_json(outcome, index, progress.seconds), output, lambda: print_result(outcome, index, progress.seconds))
    return outcome


def _write_end(result: dict[str, Any], output: OptionValues, show: Callable[[], object]) -> None:
    """Write the result of a command: as an event for a program that reads them, as JSON, or as `show` prints it for people."""
    if json_events.is_active:
        write_event("end", **{"state": "complete"} | result)
    elif not (output["quiet"] or output["as_json"]):
        show()
    if output["as_json"]:
        write_json(result)


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


_interrupts: list[int] = []  # the signals that came: a KeyboardInterrupt that is raised in a finalizer or a callback is lost


def _as_interrupt(number: int, _frame: Any) -> None:
    """Turn SIGINT and SIGTERM into KeyboardInterrupt; a thread says so at once, since this one may have been writing to the same stream."""
    _interrupts.append(number)
    threading.Thread(target=print_note, args=("Stopping; finished work is saved …",), daemon=True).start()
    raise KeyboardInterrupt


@with_output
def reembed_command(embedder: EmbedderOption = None, index: IndexOption = None, *, output: OptionValues) -> None:
    """Compute all embeddings again, with the same or another embedding model."""
    from localrag.cli.views.progress import IndexProgress

    with localrag.Index.open(index) as opened, opened.write_session(embedder=embedder, rebuild=True):
        with IndexProgress(quiet=output["quiet"], shown=output["progress"]) as bars:
            opened.reembed(on_progress=bars)
        counts, used = opened.counts(), opened.status()["models"]["embedder"]
        embedded = {name: counts[name] for name in ("chunks", "entities", "reports")}
        summary = {"embedder": used, "embedded": embedded, "seconds": round(bars.seconds, 1)}
        _write_end(summary, output, lambda: print_note(f"Embedded with {used['name']}."))


POLL_EVERY_S = 1.0
POLL_SHARE = 0.05  # of the time that looking at the files may take


def watch_files(paths: Sequence[Path], run: Callable[[], object]) -> None:
    """Run again when files below the paths have changed and rest; an error is printed. Raises typer.Exit."""
    print_note("Watching for changes; Ctrl-C ends.")
    indexed: object = None  # run at once, for changes before the watch began
    seen = None
    try:
        while not _interrupts:
            began = time.monotonic()
            state = _file_states(paths)
            took = time.monotonic() - began
            if state == seen != indexed:
                indexed = state
                _run_and_print_error(run)
            seen = state
            if not _interrupts:
                time.sleep(max(POLL_EVERY_S, took / POLL_SHARE))
    except KeyboardInterrupt:
        pass
    raise typer.Exit(0)


def _file_states(paths: Sequence[Path]) -> dict[Path, StatKey]:
    """Size, time and inode of the files below the paths, without those of an index; of the paths that exist."""
    states = {}
    for file in find_files([path for path in paths if exists_visibly(path)]).files:
        with suppress(OSError):  # removed in this moment
            states[file] = stat_key(file.stat())
    return states


def run_when_unlocked(run: Callable[[], object]) -> None:
    """Run as soon as no other process writes to the index; a note says that it waits."""
    was_busy = False
    while True:
        try:
            run()
        except IndexBusy as error:
            if not was_busy:
                print_note(f"{error} localrag waits for it.")
            was_busy = True
            time.sleep(POLL_EVERY_S)
        else:
            return


def _run_and_print_error(run: Callable[[], object]) -> None:
    try:
        run_when_unlocked(run)
    except typer.Exit:
        raise
    except Exception as error:  # noqa: BLE001 — any failure is printed, and watching continues
        from localrag.store.database import store_error

        known = known_error(error) or store_error(error)
        message = f"{known} {known.hint}" if known else f"Something unexpected happened: {error_location(error)}."
        print_note(f"{message} Still watching.")


@with_engine
@with_output
def remove_documents_command(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders listed by `localrag files`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every document, and all reports, answers and conversations.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    index: IndexOption = None,
    *,
    engine: OptionValues,
    output: OptionValues,
) -> None:
    """Remove documents from the index, with all answers about them. The files are not touched."""
    from localrag.cli.views.progress import IndexProgress

    if bool(paths) == everything:
        raise UsageError("Name what to remove: paths, or --all.", "List them: localrag files")
    chosen = engine_options(engine, quiet=output["quiet"])
    with localrag.Index.open(index, engine=chosen) as opened, opened.write_session():
        removed = opened.paths() if everything else opened.documents_at(paths or [])
        if everything and not yes and not confirm(f"Remove all {len(removed)} documents, and all data, answers and conversations?"):
            raise UsageError(f"All {len(removed)} documents would be removed; nothing was.", "To remove them: localrag rm --all --yes")
        with IndexProgress(quiet=output["quiet"], shown=output["progress"]) as bars:
            removed = opened.remove_all(on_progress=bars) if everything else opened.remove(paths or [], on_progress=bars)
        summary = {"removed": removed, "documents": len(opened.paths()), "seconds": round(bars.seconds, 1)}
        text = f"{len(removed)} documents were removed from the index; no copy of their text is left in it. The files were not touched.\n"
        hint = "To keep them out when the folder is indexed again, list them in its .localragignore."
        _write_end(summary, output, lambda: print_note(text + hint))


def gc_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what is no longer needed: unused model answers, old copies, caches. Documents and conversations are kept."""
    from localrag.cli.views.console import print_rows

    with localrag.Index.open(index) as opened:
        items, size = opened.collect_garbage(only_say=dry_run), opened.status()["bytes"]
    freed, total = [{"kind": one.kind, "n": one.n, "bytes": one.bytes} for one in items], sum(one.bytes for one in items)
    write_result({"freed": freed, "bytes": total, "dry_run": dry_run, "index_bytes": size}, print_rows, freed, as_json=as_json)
    if not as_json:
        what = "would be freed; nothing was deleted. To do it: localrag gc" if dry_run else "freed"
        print_note(f"{total / 1e6:.1f} MB {what}. The size of the index is {size / 1e6:.1f} MB.")
