"""How far indexing is: bars on a terminal, a plain line every 30 seconds elsewhere, or events for a program."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.live import Live

from localrag.cli.views.bars import Bars, facts_line
from localrag.cli.views.console import err, say
from localrag.cli.views.events import Events

if TYPE_CHECKING:
    from localrag.index.progress import Progress, Totals

PLAIN_EVERY = 30.0  # seconds between lines where stderr is no terminal
DRAWN = 4  # times a second


class IndexProgress:
    """Called with every step of indexing. `shown`: auto, bar, plain, json or none; auto is bars on a terminal and plain lines elsewhere."""

    def __init__(self, *, quiet: bool, shown: str = "auto") -> None:
        self.extraction = (0, 0)
        self.shown = kind_of(shown, quiet=quiet)
        self._started = time.monotonic()
        self._events = Events()
        self._view = View(self.shown)
        self._told_totals = False
        self._view.start()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def __call__(self, step: "Progress") -> None:
        """Show a step."""
        if step.stage == "extraction":
            self.extraction = (step.done, step.total)
        if self.shown == "json":
            self._events.step(step)
            return
        self._view.set(step.facts(), time.monotonic())
        if step.totals and step.totals.counted and not self._told_totals and self.shown != "none":
            self._told_totals = True
            if step.totals.to_read:
                say(totals_line(step.totals))

    def close(self) -> None:
        """Leave the bars as they are."""
        self._view.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No bar moves: somebody is asked something."""
        self._view.stop()
        yield
        self._view.start()

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def kind_of(shown: str, *, quiet: bool) -> str:
    """What is shown: `auto` by whether stderr is a terminal that can be drawn on; `quiet` is none, but for a program's events."""
    if shown == "json":
        return shown
    if quiet:
        return "none"
    return ("bar" if err.is_terminal and not err.is_dumb_terminal else "plain") if shown == "auto" else shown


def totals_line(totals: "Totals") -> str:
    """What a run is about, before it begins."""
    unchanged = totals.files - totals.to_read
    size = f"{totals.bytes / 1e6:.1f} MB" if totals.bytes >= 1e5 else f"{max(1, round(totals.bytes / 1e3))} kB"
    known = f", {unchanged} known already" if unchanged else ""
    return f"{totals.to_read} files to read ({size}, about {totals.chunks} chunks){known}."


class View:
    """Facts that are shown as bars, drawn several times a second, or as a plain line every 30 seconds, also while nothing is heard."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._bars = Bars()
        self._facts: dict[str, Any] = {}
        self._told = 0.0
        self.note = ""  # said instead of the facts' line
        self._live: Live | None = None
        self._ended = threading.Event()

    def set(self, facts: Mapping[str, Any], at: float) -> None:
        """Take in how far a run was, at this reading of the monotonic clock."""
        self._facts, self._told = dict(facts), at
        self._bars.set(facts)

    def start(self) -> None:
        """Begin to show."""
        if self._shown == "bar":
            self._live = Live(self._bars, console=err, refresh_per_second=DRAWN, get_renderable=self._aged, vertical_overflow="crop")
            self._live.start()
        elif self._shown == "plain":
            self._ended = threading.Event()
            threading.Thread(target=self._speak, args=[self._ended], daemon=True).start()

    def stop(self) -> None:
        """End it; what was last drawn stays."""
        self._ended.set()
        if self._live:
            self._live.stop()
            self._live = None

    def _aged(self) -> Bars:
        if self._facts:
            self._bars.set(self._now())
            self._bars.note = self.note
        return self._bars

    def _now(self) -> dict[str, Any]:
        from localrag.index.progress import aged

        return aged(self._facts, time.monotonic() - self._told) if self._facts["share"] < 1 else self._facts

    def _speak(self, ended: threading.Event) -> None:
        while not ended.wait(PLAIN_EVERY):
            if self._facts:
                say(facts_line(self._now()) + (f" · {self.note}" if self.note else ""))
