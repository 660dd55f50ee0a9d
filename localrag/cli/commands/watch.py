"""`localrag index --watch`: run again whenever a file changes, whatever goes wrong in between."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer

from localrag.cli.views.console import say
from localrag.config import INDEX_FOLDER
from localrag.errors import IndexBusy, LocalragError, disk_trouble, kind_and_place
from localrag.index.documents.load import is_index, is_there
from localrag.system.extras import require

PAUSE = 1600  # milliseconds without a change before the index is updated
TICK = 1000  # milliseconds after which it is looked whether something is still to be done
RETRY = 60.0  # seconds until what failed is tried again, if nothing changes before


def watch_files(paths: Sequence[Path], run: Callable[[], object]) -> None:
    """Run again whenever a file below the paths changed, until interrupted; between runs others may write to the index.

    An error is said once and tried again, with the next change or after a minute. Raises typer.Exit.
    """
    say("Watching for changes; Ctrl-C ends.")
    due, said = 0.0, ""  # at once: what changed before the watch began is still to be read
    try:
        while True:
            for changed in _changes(paths):
                if not changed and time.monotonic() < due:
                    continue
                due, error = _tried(run)
                if error and error != said:
                    say(error)
                said = error
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def when_free(run: Callable[[], object]) -> None:
    """Run once no other localrag writes to the index; that one does is said. Raises LocalragError where nothing here can watch files."""
    require("watch", "watchfiles")
    busy = False
    while True:
        try:
            run()
        except IndexBusy as error:
            if not busy:
                say(f"{error} It is waited for.")
            busy = True
            time.sleep(TICK / 1000)
        else:
            return


def _tried(run: Callable[[], object]) -> tuple[float, str]:
    """When to run again if nothing changes, and what went wrong. Raises typer.Exit, KeyboardInterrupt."""
    try:
        run()
    except typer.Exit:
        raise
    except IndexBusy:  # another localrag writes: tried again in a second
        return time.monotonic(), ""
    except LocalragError as error:
        return time.monotonic() + RETRY, f"{error} {error.hint} Still watching."
    except Exception as error:  # noqa: BLE001 — whatever it is, the next change is read
        trouble = disk_trouble(error)
        what = f"{trouble} {trouble.hint}" if trouble else f"Something unexpected happened: {kind_and_place(error)}."
        return time.monotonic() + RETRY, f"{what} Still watching."
    return float("inf"), ""


def _changes(paths: Sequence[Path]) -> Iterator[bool]:
    """Whether something changed since the last time, without end; a path that is taken away, comes back or is another now is a change."""
    from watchfiles import watch

    seen, again, said = _identities(paths), False, ""
    while True:
        tops = [Path(os.path.realpath(p)) for p in paths if is_there(p)]
        try:
            # No filter of its own: while what it leaves out changes all the time, nothing at all would be yielded.
            for changes in watch(*tops, watch_filter=None, debounce=PAUSE, rust_timeout=TICK, yield_on_timeout=True) if tops else [()]:
                if _identities(paths) != seen:
                    break
                yield again or any(_is_relevant(tops, Path(path)) for _, path in changes)
                again = False
        except FileNotFoundError:  # taken away at this moment
            pass
        except OSError as error:  # more folders than the system watches
            problem = f"The files cannot be watched: {error.strerror or error}. They are looked through every minute."
            if problem != said:
                say(problem)
            said, again = problem, True
            time.sleep(RETRY)
        time.sleep(TICK / 1000)
        seen, before = _identities(paths), seen
        again = again or seen != before  # told once they are watched, so that nothing is missed in between


def _identities(paths: Sequence[Path]) -> list[tuple[int, int] | None]:
    """What the paths lead to at this moment."""
    return [(found.st_dev, found.st_ino) if is_there(p) and (found := p.stat()) else None for p in paths]


def _is_relevant(tops: Sequence[Path], path: Path) -> bool:
    """Whether a changed file may be a document: those of an index, under whatever name it lies, change with every run."""
    top = next((t for t in tops if path.is_relative_to(t)), Path("/"))
    folders = [f for f in path.parents if f.is_relative_to(top)]
    return INDEX_FOLDER not in path.relative_to(top).parts and not any(map(is_index, folders))
