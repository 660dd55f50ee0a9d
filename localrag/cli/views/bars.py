"""The bars of a run: one a stage and one of the whole, as wide as the terminal has room for; and the same facts in a line."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from localrag.cli.views.console import duration
from localrag.cli.views.terminal import in_line

NAME, COUNT, TIME = 17, 13, 9  # columns
LEAST_BAR, MOST_BAR = 6, 30
MOST_WORKERS = 8  # with a line of their own
UNHEARD = 10.0  # seconds from which on it is told when a worker was last heard of
AT_WORK = ("working", "waiting")
SURE = 1.5  # a range that is narrower is told as one number


def left_text(left: Sequence[float] | None) -> str:
    """What is left of a run: `about 40 s left`, `2 to 5 min left`, or that it is being estimated."""
    if left is None:
        return "estimating"
    low, high = left
    if high < 1:
        return "almost done"
    if high < SURE * low:
        return f"about {_round(math.sqrt(low * high))} left"
    first, last = _round(low), _round(high)
    unit = last.rpartition(" ")[2]
    first = first.removesuffix(f" {unit}") if " " in first and first.count(" ") == last.count(" ") == 1 else first
    return f"{first} to {last} left" if first != last.removesuffix(f" {unit}") else f"about {last} left"


def _round(seconds: float) -> str:
    """A duration as it is guessed: two figures at most."""
    if seconds < 60:
        return f"{max(1, round(seconds)) if seconds < 10 else min(55, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes if minutes < 600 else 60 * round(minutes / 60), 60)
    return f"{hours} h" + f" {rest} min" * (rest > 0)


def facts_line(facts: Mapping[str, Any], *, whole: bool = True) -> str:
    """All that is known of a run, in a line. Without `whole` what a bar says anyway is left out."""
    said = []
    if whole:
        said = [percent(facts), f"{facts['stage']} {facts['done']}/{facts['total']}", left_text(facts["left"])]
    if facts.get("read_tokens_per_s"):
        said.append(f"read {facts['read_tokens_per_s']:.0f} tok/s")
    if facts.get("written_tokens_per_s"):
        said.append(f"wrote {facts['written_tokens_per_s']:.0f} tok/s")
    if facts.get("entities"):
        said.append(f"{facts['entities']} entities")
    if facts.get("file"):
        said.append(in_line(facts["file"]))
    if whole and (workers := facts.get("workers")):
        said.append(f"{sum(row['state'] in AT_WORK for row in workers)} of {len(workers)} workers")
    return " · ".join(said)


def worker_line(row: Mapping[str, Any], now: float) -> str:
    """What one of several workers does: its state, its speed, what it has done, when it was last heard of."""
    said = [f"{in_line(row['name'])} ({in_line(row['place'])})", in_line(row["state"])]
    if row.get("written_tokens_per_s"):
        said.append(f"{row['written_tokens_per_s']:.0f} tok/s")
    if row.get("chunks_per_s"):
        said.append(f"{row['chunks_per_s']:.1f} chunks/s")
    said.append(f"{row['units']} units, {row['chunks']} chunks")
    if row.get("class"):
        said.append(f"class {row['class']}")
    if now - row["seen_at"] > UNHEARD:
        said.append(f"last heard {duration(now - row['seen_at'])} ago")
    return " · ".join(said)


def percent(facts: Mapping[str, Any]) -> str:
    """The share of the whole run: never 100 % before the end."""
    share = facts["share"]
    return "100 %" if share >= 1 else f"{min(99, math.floor(100 * share))} %"


class Bars:
    """The stages there were and the one under way, the whole run, and what else is known; drawn from the last facts that were set.

    `share` and the count of a stage never fall, whatever is set.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.note = ""  # before the other facts
        self._stages: dict[tuple[str, int], tuple[int, int, float, float]] = {}  # done, total, began, last told
        self._share = 0.0

    def set(self, facts: Mapping[str, Any]) -> None:
        """Take in how far the run is."""
        self._share = max(self._share, facts["share"])
        self.facts = {**facts, "share": self._share}
        key = (facts["stage"], facts["round"])
        if not facts["stage"]:
            return
        done, total, began, _ = self._stages.get(key, (0, 0, facts["seconds"], 0.0))
        self._stages[key] = (max(done, facts["done"]), max(total, facts["total"]), began, facts["seconds"])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.facts:
            return
        rows = self._workers()
        width = options.max_width - 1  # a full line would wrap in some terminals
        bar = max(LEAST_BAR, min(MOST_BAR, width - NAME - COUNT - TIME - 3))
        table = Table.grid(padding=(0, 1, 0, 0))
        for column, justify in ((NAME, "left"), (bar, "left"), (COUNT, "right"), (TIME, "right")):
            table.add_column(width=column, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        for (stage, again), (done, total, began, last) in list(self._stages.items())[-max(1, console.size.height - 4 - len(rows)) :]:
            name = f"{stage} {again}" if again > 1 else stage
            drawn = ProgressBar(max(1, total), done if total else 1, width=bar)
            table.add_row(name, drawn, f"{done}/{total}", duration(last - began))
        yield table
        whole = Table.grid(padding=(0, 1, 0, 0))
        whole.add_column(width=NAME, no_wrap=True)
        whole.add_column(width=bar)
        whole.add_column(width=max(1, width - NAME - bar - 2), no_wrap=True, overflow="ellipsis")
        whole.add_row(Text("all", "bold"), ProgressBar(1.0, self.facts["share"], width=bar), f"{percent(self.facts)}  {self._time()}")
        yield whole
        line = " · ".join(filter(None, (self.note, facts_line(self.facts, whole=False))))
        for text in (line, *rows):
            yield Text(text, "dim", no_wrap=True, overflow="ellipsis", end="")
            yield Segment.line()

    def _workers(self) -> list[str]:
        """A line for each of several workers, as far as there is room."""
        workers = self.facts.get("workers", [])
        rows = [worker_line(row, time.time()) for row in workers[:MOST_WORKERS]]
        return rows + [f"… and {len(workers) - MOST_WORKERS} more workers"] * (len(workers) > MOST_WORKERS)

    def _time(self) -> str:
        return duration(self.facts["seconds"]) if self.facts["share"] >= 1 else left_text(self.facts["left"])
