"""Models as tables, and the bar of a download."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from localrag.cli.views.console import err, out, say, wide

if TYPE_CHECKING:
    from localrag.catalog.curated import Curated

_WHOLE = 150  # columns that the whole list of models to download takes
PLAIN_EVERY = 30.0  # seconds between lines where stderr is no terminal
_COLOURS = {"fits": "green", "tight": "yellow", "too big": "red"}


def amount(size: int) -> str:
    """`2500000000` → `2.5 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def count(parameters: int) -> str:
    """`4020000000` → `4.0B`."""
    return "" if not parameters else f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def _table(*heads: str) -> Table:
    return Table(*heads, box=None, pad_edge=False, header_style="dim")


def print_models(rows: Sequence[dict[str, Any]]) -> None:
    """The list: name, kind, size, file; a star before the defaults."""
    table = _table("", "name", "kind", "size", "file")
    for row in rows:
        size = Text((row["problem"] and "missing") or amount(row["size"]), "red" if row["problem"] else "")
        table.add_row(
            "*" if row["default"] else "", Text(row["name"], overflow="fold"), row["kind"], size, Text(row["path"], overflow="fold")
        )
    wide(0).print(table)
    for row in rows:
        if row["problem"]:
            say(f"{row['name']}: {row['problem']}")
    say("* default of new indexes\nFind more: localrag models scan, localrag models list --all")


def print_curated(models: Sequence["Curated"], best: "Curated | None") -> None:
    """Models worth downloading, whether each fits this machine, and which suits it best."""
    from localrag.catalog.about import fits

    one_line = not out.is_terminal or out.width >= _WHOLE
    table = _table("name", "kind", "size", "memory", "here", *(["weights", "licence", "languages", "good for"] if one_line else []))
    for m in models:
        fit = fits(m.needs)
        about = [m.parameters, m.licence, m.languages, m.good_for] if one_line else []
        table.add_row(m.name, m.kind, amount(m.size), amount(m.needs), Text(fit, _COLOURS[fit]), *about)
    out.print()
    wide(_WHOLE if one_line else 0).print(table)
    for m in [] if one_line else models:
        out.print(f"\n{m.name}: {m.good_for}\n  {m.parameters} · {m.licence} · languages: {m.languages}", soft_wrap=False)
    say(f"Best chat model for this machine: {best.name if best else 'the bundled one'}\nDownload one: localrag models pull NAME")


def print_found_models(rows: Sequence[dict[str, Any]]) -> None:
    """Models that other programs have here, and what to do with them."""
    good, bad = [r for r in rows if not r["problem"]], [r for r in rows if r["problem"]]
    table = _table("name", "kind", "size", "weights", "here", "from", "listed as")
    for row in good:
        fit = Text(row["fits"], _COLOURS[row["fits"]])
        weights = f"{count(row['parameters'])} {row['quantisation']}".strip()
        name, listed = (Text(row[key], overflow="fold") for key in ("name", "listed"))
        table.add_row(name, row["kind"], amount(row["size"]), weights, fit, row["program"], listed)
    if good:
        wide(0).print(table)
    for row in bad:
        say(f"Not usable: {row['path']}: {row['problem']}")
    new = [r for r in good if not r["listed"]]
    if not rows:
        say("No GGUF models were found. Download one: localrag models list --all")
    elif new:
        example = max((r for r in new if r["fits"] == "fits"), key=lambda r: r["size"], default=new[0])
        say(f"Nothing was copied. Add one: localrag models add {example['path']}\nAdd all: localrag models scan --add")


def print_details(found: dict[str, Any]) -> None:
    """All that is known of a model, a line each."""
    shown = dict(found)
    if "size" in found:
        shown |= {"size": amount(found["size"]), "needs": f"{amount(found['needs'])} of memory: {found['fits']}"}
        shown |= {"parameters": count(found["parameters"]), "window": f"{found['window']} tokens"}
        shown |= {"template": "its own" if found["template"] else "none: a usual one is used"}
    if "slots" in found:
        shown["slots"] = f"{found['slots']} answers at once, {shown.pop('context')} tokens each"
    shown.pop("fits", None)
    for key, value in shown.items():
        out.print(Text.assemble((f"{key:<13}", "dim"), str(value) or "not stated"))


class Download:
    """How far a download is: a bar on a terminal, else a plain line every 30 seconds."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._name, self._spoke, self._quiet = name, time.monotonic(), quiet
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=err)
        self._task = self._bars.add_task(name.rpartition("/")[2], total=None)
        self._live = not quiet and err.is_terminal

    def __enter__(self) -> "Download":
        if self._live:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._bars.stop()

    def show(self, done: int, total: int) -> None:
        """So many bytes of so many are there."""
        if self._live:
            self._bars.update(self._task, completed=done, total=total)
        elif not self._quiet and time.monotonic() - self._spoke > PLAIN_EVERY:
            self._spoke = time.monotonic()
            say(f"{self._name}: {amount(done)} of {amount(total)}")
