"""How far a run of indexing is: told to the caller at once, and to the store, where another terminal reads it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from localrag.project import Project
from localrag.store import ledger
from localrag.store.connect import cut_log

Tell = Callable[[str, int, int], None]  # stage, done, total


CUT_EVERY = 10.0  # seconds: how often the database's log is looked at


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is; `tokens` counts what the model has computed in this run."""

    stage: str
    done: int
    total: int
    tokens: int = 0
    note: str = ""


def recorder(project: Project, run: int, progress: Callable[[Progress], None]) -> Tell:
    """Reports progress to the caller at once and to the store, where another terminal reads it, every second."""
    written = cut = 0.0

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal written, cut
        progress(Progress(stage, done, total, project.model.computed))
        if time.monotonic() - written > 1 or done == total:
            ledger.update_run(project.db, run, stage, done, total)
            written = time.monotonic()
        if time.monotonic() - cut > CUT_EVERY:
            cut_log(project.db)
            cut = time.monotonic()

    return tell
