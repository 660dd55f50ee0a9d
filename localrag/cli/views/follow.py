"""`localrag status --watch`: a run of another process, read from the store once a second until it ends."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localrag.cli.views.bars import percent
from localrag.cli.views.console import duration, out
from localrag.cli.views.progress import View, kind_of
from localrag.cli.views.terminal import write_json

EVERY = 1.0  # seconds between two looks
QUIET = 15.0  # seconds without a word of the run, from which on that is said
ENDS = {"complete": 0, "partly": 5, "interrupted": 130}  # exit codes


def follow_run(folder: Path, *, as_json: bool = False) -> int:
    """Show the run under way until it ends, or say that there is none; the exit code that fits how it ended."""
    from localrag.store.schema import open_index

    open_index(folder, still=True).close()  # one of an older localrag is brought up to date
    view, last, followed = View(kind_of("auto", quiet=as_json)), None, False
    try:
        for last in _looks(folder):
            if as_json:
                write_json(last)
            if last["ended_at"] is not None or not last["alive"]:
                break
            if not followed:
                followed = True
                view.start()
            if facts := last["progress"]:
                view.note = f"last sign of life {duration(last['silent'])} ago" if (last["silent"] or 0) > QUIET else ""
                view.set(facts, time.monotonic() - (last["silent"] or 0.0))
        if last and not as_json and last["state"] == "complete" and followed and last["progress"]:
            view.set(last["progress"], time.monotonic())
    except KeyboardInterrupt:  # the run goes on; this look at it ends
        return 0
    finally:
        view.stop()
    if not as_json:
        out.print(_ended(last, followed=followed))
    if last is None or not followed:
        return 0
    return ENDS.get(last["state"], 1)


def _looks(folder: Path) -> Iterator[dict[str, Any]]:
    """The newest run as `status --json` has it, every second; one that begins after another has ended is not waited for."""
    from localrag.store import ledger
    from localrag.store.connect import snapshot
    from localrag.store.status import shown_run

    while True:
        began = time.monotonic()
        with snapshot(folder) as db:  # opened anew: one that stays open would keep the write-ahead log from being cut
            run = ledger.last_run(db)
        if run is None:
            return
        yield shown_run(run)
        time.sleep(max(0.1, EVERY - (time.monotonic() - began)))


def _ended(run: dict[str, Any] | None, *, followed: bool) -> str:
    if run is None:
        return "No run was made on this index yet. Begin one: localrag index PATH"
    facts = run["progress"]
    at = f" at {percent(facts)} ({run['stage']} {run['done']}/{run['total']})" if facts and facts["share"] < 1 else ""
    if run["ended_at"] is None:
        return f"The process of the run ({run['pid']}) is gone; it ended{at}. What it saved is kept; go on with: localrag index PATH"
    if not followed:
        return f"No run is under way. The last one, {run['ended_at']} UTC: {run['state']}{at}."
    took = f" after {duration(facts['seconds'])}" if facts else ""
    hint = {"complete": "", "partly": " What failed: localrag status"}.get(run["state"], " Go on with: localrag index PATH")
    return f"The run has ended: {run['state']}{at}{took}.{hint}"
