"""Tables: models, downloads, benchmarks, evaluations and checks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from localrag.bench.runs import MetricComparison, reliability_warning
from localrag.cli.views.console import print_fields, print_rows, stderr_console, stdout_console, styled
from localrag.cli.views.terminal import print_note, status_line
from localrag.records import CheckLine

if TYPE_CHECKING:
    from localrag.catalog.listing import RecommendedModel


def print_support(scores: dict[str, Any], rows: int) -> None:
    """Print the shares of true sentences kept and of false ones refused, of all and by kind, and the number of sentences by state."""
    shares = {"all": scores | {"rows": rows}} | scores["by_kind"]
    print_rows(
        [
            {"kind": k, "rows": r["rows"], "kept": _as_percentage(r["kept"]), "refused": _as_percentage(r["refused"])}
            for k, r in shares.items()
        ]
    )
    print_fields(scores["states"])


def print_check_lines(lines: Sequence[CheckLine]) -> None:
    """Print the lines of a check, each with its remedy below it."""
    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        stdout_console.print(styled(marks[line.state], f" {line.name:<{width}}  {line.text}"))
        if line.remedy:
            stdout_console.print(f"  {'':<{width}}  → {line.remedy}")


_COLOURS = {"fits": "green", "tight": "yellow", "too big": "red"}


def format_bytes(size: int) -> str:
    """`2500000000` → `2.5 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def print_models(rows: Sequence[dict[str, Any]]) -> None:
    """Print listed models: name, with a star before defaults, kind, size, file."""
    print_rows([
        {
            "name": f"{'*' if row['default'] else ' '} {row['name']}",
            "kind": row["kind"],
            "size": Text("missing", "red") if row["problem"] else format_bytes(row["size"]),
            "file": row["path"],
        }
        for row in rows
    ])  # fmt: skip
    for row in rows:
        if row["problem"]:
            print_note(f"{row['name']}: {row['problem']}")
    print_note("* default of new indexes\nFind more: localrag models list --all")


def print_curated(models: Sequence["RecommendedModel"], best: "RecommendedModel | None") -> None:
    """Print the recommended models, whether each fits this machine, and the best one for it."""
    from localrag.catalog.listing import memory_fit

    stdout_console.print()
    print_rows([
        {
            "name": m.name,
            "kind": m.kind,
            "size": format_bytes(m.size),
            "memory": format_bytes(m.memory_needed),
            "here": Text(fit := memory_fit(m.memory_needed), _COLOURS[fit]),
            "weights": m.parameters,
            "licence": m.licence,
            "languages": m.languages,
            "good for": m.good_for,
        }
        for m in models
    ])  # fmt: skip
    print_note(f"Best chat model for this machine: {best.name if best else 'the bundled one'}\nDownload one: localrag models pull NAME")


@contextmanager
def download_progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield what shows the downloaded and the total bytes, as a bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(30), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr_console, disable=quiet or not stderr_console.is_terminal) as bars:
        task = bars.add_task(name.rpartition("/")[2], total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def bench_progress(*, quiet: bool) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Yield what shows the events of a model's benchmark: notes, and the stage in the status line."""

    def show(model: str, line: dict[str, Any]) -> None:
        if "say" in line and not quiet:
            print_note(f"{model}: {line['say']}")
        elif not quiet:
            status_line.show(f"{model}: {line['stage']}, {line['done']} of {line['total']}")

    try:
        yield show
    finally:
        status_line.clear()


def print_compared_models(first: str, a: dict[str, Any], second: str, b: dict[str, Any], comparisons: Sequence[MetricComparison]) -> None:
    """Print a comparison of two models: per metric both figures, the bounds of the difference's 95 % interval, and the verdict."""
    stdout_console.print(f"first:  {first}\nsecond: {second}\n")
    figures = [{name: value and round(value, 3) for name, value in asdict(one.difference).items()} for one in comparisons]
    print_rows([{"": one.name} | row | {"verdict": one.verdict} for one, row in zip(comparisons, figures, strict=True)])
    for name, row in ((first, a), (second, b)):
        if why := reliability_warning(row["figures"]):
            stdout_console.print(f"{name}: not reliable: {why}", style="red")


def _as_percentage(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}"
