"""A run as JSON lines on stderr (`--progress json`); docs/reference/json.md says what is in them."""

import time
from typing import TYPE_CHECKING

from localrag.cli.views.terminal import write_event

if TYPE_CHECKING:
    from localrag.index.progress import Progress

VERSION = 1
MOST_OFTEN = 0.2  # seconds between two events of progress


class Events:
    """Writes the events of one run: start, stage, progress, skipped. The command adds messages, and the end."""

    def __init__(self) -> None:
        self._began, self._spoke, self._stage = False, 0.0, ("", 0)

    def step(self, step: "Progress") -> None:
        """What has happened since the last one. Nothing is said before it is known what there is to do."""
        if not self._began and (step.totals is None or step.totals.counted):
            self._start(step)
        if not self._began:
            return
        for one in step.left_out:
            write_event("skipped", path=one.path, reason=one.reason, failed=one.failed)
        facts, stage = step.facts(), (step.stage, step.round)
        if stage != self._stage:
            self._stage = stage
            write_event("stage", stage=step.stage, round=step.round, total=step.total, ahead=list(step.stages))
        elif time.monotonic() - self._spoke < MOST_OFTEN and step.share < 1:
            return
        self._spoke = time.monotonic()
        write_event("progress", **facts)

    def _start(self, step: "Progress") -> None:
        self._began = True
        t = step.totals
        totals = {"files": t.files, "to_read": t.to_read, "bytes": t.bytes, "chunks": t.chunks} if t else None
        write_event("start", version=VERSION, totals=totals)
