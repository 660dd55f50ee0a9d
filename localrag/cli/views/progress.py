"""How far indexing is: bars on a terminal, else a plain line every 30 seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from localrag.cli.views.console import duration, err, say

if TYPE_CHECKING:
    from localrag.index.progress import Progress as StageProgress

PLAIN_EVERY = 30.0  # seconds between lines where stderr is no terminal


class IndexProgress:
    """Called with every step of indexing: a bar per stage on a terminal, else one plain line every 30 seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self.extraction = (0, 0)
        self._quiet = quiet
        self._started = self._spoke = time.monotonic()
        self._stage, self._stage_started, self._tokens_before = "", self._started, 0
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<17}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>10}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=False,
        )
        self._live = not quiet and err.is_terminal
        if self._live:
            self._bars.start()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def __call__(self, step: "StageProgress") -> None:
        """Show a step."""
        if step.stage == "extraction":
            self.extraction = (step.done, step.total)
        if step.stage != self._stage:
            self._stage, self._stage_started, self._tokens_before = step.stage, time.monotonic(), step.tokens
        if self._quiet:
            return
        elapsed = time.monotonic() - self._stage_started
        speed = (step.tokens - self._tokens_before) / elapsed if elapsed > 1 else 0.0
        words = f"{speed:.0f} tok/s" if speed else ""
        if self._live:
            if step.stage not in self._tasks:
                self._tasks[step.stage] = self._bars.add_task(step.stage, total=step.total, speed="")
            self._bars.update(self._tasks[step.stage], completed=step.done, total=step.total, speed=words)
        elif time.monotonic() - self._spoke > PLAIN_EVERY:
            self._spoke = time.monotonic()
            left = elapsed / step.done * (step.total - step.done) if step.done else 0
            say(f"{step.stage}: {step.done} of {step.total} {words}" + (f", about {duration(left)} left" if left else ""))

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._live:
            self._bars.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No bar moves: somebody is asked something."""
        self.close()
        yield
        if self._live:
            self._bars.start()

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
