"""What a person sees of `localrag bench`: progress on stderr, tables on stdout."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.table import Table
from rich.text import Text

from localrag.bench.compare import Compared
from localrag.bench.figures import unreliable
from localrag.bench.output import recommendation
from localrag.bench.table import about, notes, table
from localrag.cli.views.console import err, out, say, wide
from localrag.cli.views.progress import PLAIN_EVERY

MODELS_ACROSS = 4  # a table of more is continued below


class BenchProgress:
    """Called with every line of a model's process: one line that changes on a terminal, else a plain one now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._spoke, self._stage = quiet, 0.0, ""
        self._status = err.status("") if err.is_terminal and not quiet else None

    def __call__(self, model: str, line: dict[str, Any]) -> None:
        """Show a line."""
        if self._quiet:
            return
        if "say" in line:
            say(f"{model}: {line['say']}")
            return
        text = f"{model}: {line['stage']}, {line['done']} of {line['total']}"
        if self._status:
            self._status.update(Text(text))
        elif f"{model} {line['stage']}" != self._stage or time.monotonic() - self._spoke > PLAIN_EVERY:
            self._stage, self._spoke = f"{model} {line['stage']}", time.monotonic()
            say(text)

    def __enter__(self) -> "BenchProgress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._status:
            self._status.stop()


def print_run(run: dict[str, Any]) -> None:
    """The table of a run, what to know of its models, and the lines for models.toml."""
    good = [m for m in run["models"] if not m["error"]]
    out.print(about(run), style="dim")
    for at in range(0, len(good), MODELS_ACROSS):
        _print_table(good[at : at + MODELS_ACROSS])
    for note in notes(run["models"]):
        out.print(note, style="red")
    if good:
        out.print("\nFor models.toml:\n")
        out.print(recommendation(run["models"]))


def _print_table(models: Sequence[dict[str, Any]]) -> None:
    made = table(models)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("")
    for name in made.heads:
        shown.add_column(name, justify="right", overflow="fold")
    for title, lines in made.groups:
        shown.add_row()
        shown.add_row(Text(title, "bold"))
        for label, *cells in lines:
            shown.add_row(label, *cells)
    wide(100).print(shown)


def print_compared_models(first: str, a: dict[str, Any], second: str, b: dict[str, Any], found: Sequence[Compared]) -> None:
    """A line for each thing the two are compared in: both figures, their difference, its interval, what that says."""
    out.print(f"first:  {first}\nsecond: {second}\n")
    shown = Table("", "first", "second", "difference", "95 % interval", "", "over", box=None, pad_edge=False, header_style="dim")
    for one in found:
        d = one.difference
        interval = "–" if d.low is None or d.high is None else f"{_shown(d.low, signed=True)} to {_shown(d.high, signed=True)}"
        over = f"{d.items} items, paired" if one.paired else f"{d.items} measurement{'s' * (d.items != 1)} each"
        verdict = Text(one.verdict, "bold" if d.sure else "")
        shown.add_row(one.name, _shown(d.first), _shown(d.second), _shown(d.value, signed=True), interval, verdict, over)
    wide(120).print(shown)
    for name, row in ((first, a), (second, b)):
        if why := unreliable(row["figures"]):
            out.print(f"{name}: not to be relied on: {why}", style="red")


def _shown(value: float, *, signed: bool = False) -> str:
    """A figure in three digits or so."""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    return f"+{text}" if signed and value > 0 else text
