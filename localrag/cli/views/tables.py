"""Tables: models, downloads, benchmarks, evaluations, studies, merges, checks and tuning."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from localrag.bench.report import recommendation, run_summary, table, warnings
from localrag.bench.runs import MetricComparison, reliability_warning
from localrag.cli.views.console import stderr_console, stdout_at_least, stdout_console, styled
from localrag.cli.views.progress import PLAIN_EVERY_S
from localrag.cli.views.terminal import print_note
from localrag.eval.judge import CRITERIA
from localrag.eval.win_rates import mean_rates
from localrag.records import CheckLine, NameMerge
from localrag.text.sentences import collapse_whitespace

if TYPE_CHECKING:
    from localrag.catalog.listing import RecommendedModel
    from localrag.indexing.extraction.prompt_tuning import TuningSample
    from localrag.settings import Domain


def print_engine_benchmark(figures: dict[str, Any], without: dict[str, dict[str, Any]]) -> None:
    """Print the speed of an engine run and of runs without one part each, and the settings."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("tok/s", "×", "s", "tokens", "forced", "guessed", "shared", "steps", "host"):
        table.add_column(name, justify="right")
    for name, row in {"all parts": figures, **without}.items():
        speed = row["output_tokens_per_s"]
        counts = (str(row[k]) for k in ("output_tokens", "forced_tokens", "drafted_tokens", "prefix_tokens_saved", "steps"))
        table.add_row(
            name, f"{speed}", f"{speed / figures['output_tokens_per_s']:.2f}", f"{row['seconds']}", *counts, f"{row['host_share']:.1%}"
        )
    stdout_console.print(table)
    if limit := figures.get("limit"):
        stdout_console.print(
            f"llama.cpp's calls alone, one after another: {limit['output_tokens_per_s']} tok/s; reached of that: {limit['share']:.1%}"
        )
    stdout_console.print("settings: " + ", ".join(f"{k}={v}" for k, v in figures["settings"].items()), style="dim")


def print_merges(merges: Sequence[tuple[int, NameMerge]]) -> None:
    """Print a table of merges."""
    table = Table("N", "name", "entity", "reason", "score", box=None, pad_edge=False, header_style="dim")
    for number, m in merges:
        table.add_row(str(number), m.name, m.entity_name, m.reason, f"{m.score:.2f}")
    stdout_console.print(table)


def print_scores(scores: dict[str, Any]) -> None:
    """Print the figures of an evaluation, one per line, with the gold types last."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in scores.items():
        if name != "types":
            table.add_row(name.replace("_", " "), str(value))
    types = ", ".join(f"{gold} → {asked}" for gold, asked in scores["types"].items())
    table.add_row("gold types", types or "none")
    stdout_console.print(table)


def print_retrieval(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of retrieval figures, one line per mode."""
    names = [n for n in rows[0] if n not in ("task", "extractor", "passages", "questions", "skipped", "failures")]
    stdout_console.print(
        f"{rows[0]['task']}: {rows[0]['passages']} passages, {rows[0]['questions']} questions, extractor {rows[0]['extractor']}"
    )
    print_rows([{n: row[n] for n in names} for row in rows])


def print_support(scores: dict[str, Any], rows: int) -> None:
    """Print the shares of true sentences kept and of false ones refused, in percent, and the number of sentences by state and by kind."""
    percent = {k: _percent_number(scores[k]) for k in ("kept", "refused", "precision", "recall")}
    print_rows([{"rows": rows} | {f"{name} %": value for name, value in percent.items()}])
    stdout_console.print()
    print_rows([{"sentences": name} | counts for name, counts in scores["states"].items()])
    if scores["by_kind"]:
        stdout_console.print()
        print_rows([_kind_row(kind, row) for kind, row in scores["by_kind"].items()])


def _percent_number(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}"


def _kind_row(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table by kind; a state shows the numbers of true and of false sentences: `3 / 0`."""
    shares = {"kind": kind, "rows": row["rows"], "kept %": _percent_number(row["kept"]), "refused %": _percent_number(row["refused"])}
    true, false = row["states"]["true"], row["states"]["false"]
    return shares | {state: f"{true[state]} / {false[state]}" for state in true}


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of figures, with a dash for None."""
    names = {"questions": "n", "evidence_shown": "shown", "evidence_cited": "cited"}
    table = Table(*(names.get(n, n) for n in rows[0]), box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    stdout_at_least(140).print(table)


def print_domain(domain: "Domain") -> None:
    """Print the domain that a tuning found."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in (
        ("about", domain.description),
        ("persona", domain.persona),
        ("language", domain.language),
        ("what matters", domain.rating_criteria),
        ("entity types", ", ".join(domain.entity_types)),
        ("examples", str(len(domain.examples))),
    ):
        table.add_row(name, value)
    stdout_console.print(table)


def print_tuning_sample(one: "TuningSample") -> None:
    """Print the entities of a chunk before and after tuning, with changes in bold."""
    stdout_console.print(f"\n{collapse_whitespace(one.chunk.text)[:160]} …", style="dim")
    before, after = ({e.name: e.type for e in x.entities} for x in (one.before, one.after))
    table = Table("name", "before", "after", box=None, pad_edge=False, header_style="dim")
    for name in [*before, *(n for n in after if n not in before)]:
        old, new = before.get(name, "–"), after.get(name, "–")
        table.add_row(name, old, Text(new, "bold" if new != old else ""))
    stdout_console.print(table)
    stdout_console.print(f"relationships: {len(one.before.relationships)} before, {len(one.after.relationships)} after", style="dim")


def print_check_lines(lines: Sequence[CheckLine]) -> None:
    """Print the lines of a check, each with its remedy below it."""
    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        stdout_console.print(styled(marks[line.state], f" {line.name:<{width}}  {line.text}"))
        if line.remedy:
            stdout_console.print(f"  {'':<{width}}  → {line.remedy}")


_FULL_TABLE_COLUMNS = 150  # columns of the full list of models to download
_COLOURS = {"fits": "green", "tight": "yellow", "too big": "red"}


def format_bytes(size: int) -> str:
    """`2500000000` → `2.5 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def format_parameters(parameters: int) -> str:
    """`4020000000` → `4.0B`."""
    return "" if not parameters else f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def _new_table(*heads: str) -> Table:
    return Table(*heads, box=None, pad_edge=False, header_style="dim")


def print_models(rows: Sequence[dict[str, Any]]) -> None:
    """Print listed models: name, kind, size, file, with a star before defaults."""
    table = _new_table("", "name", "kind", "size", "file")
    for row in rows:
        size = Text((row["problem"] and "missing") or format_bytes(row["size"]), "red" if row["problem"] else "")
        table.add_row(
            "*" if row["default"] else "", Text(row["name"], overflow="fold"), row["kind"], size, Text(row["path"], overflow="fold")
        )
    stdout_at_least(0).print(table)
    for row in rows:
        if row["problem"]:
            print_note(f"{row['name']}: {row['problem']}")
    print_note("* default of new indexes\nFind more: localrag models list --all")


def print_curated(models: Sequence["RecommendedModel"], best: "RecommendedModel | None") -> None:
    """Print the recommended models, whether each fits this machine, and the best one for it."""
    from localrag.catalog.listing import memory_fit

    one_line = not stdout_console.is_terminal or stdout_console.width >= _FULL_TABLE_COLUMNS
    table = _new_table("name", "kind", "size", "memory", "here", *(["weights", "licence", "languages", "good for"] if one_line else []))
    for m in models:
        fit = memory_fit(m.memory_needed)
        about = [m.parameters, m.licence, m.languages, m.good_for] if one_line else []
        table.add_row(m.name, m.kind, format_bytes(m.size), format_bytes(m.memory_needed), Text(fit, _COLOURS[fit]), *about)
    stdout_console.print()
    stdout_at_least(_FULL_TABLE_COLUMNS if one_line else 0).print(table)
    for m in [] if one_line else models:
        stdout_console.print(f"\n{m.name}: {m.good_for}\n  {m.parameters} · {m.licence} · languages: {m.languages}", soft_wrap=False)
    print_note(f"Best chat model for this machine: {best.name if best else 'the bundled one'}\nDownload one: localrag models pull NAME")


@contextmanager
def download_progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield what shows the downloaded and the total bytes: a bar on a terminal, else a plain line every 30 seconds."""
    if not quiet and stderr_console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(30), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=stderr_console) as bars:
            task = bars.add_task(name.rpartition("/")[2], total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)
        return
    printed_at = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal printed_at
        if not quiet and time.monotonic() - printed_at > PLAIN_EVERY_S:
            printed_at = time.monotonic()
            print_note(f"{name}: {format_bytes(done)} of {format_bytes(total)}")

    yield show


MAX_MODEL_COLUMNS = 4  # further models get another table below


class BenchProgress:
    """Shows the progress events of a benchmark process: a changing line on a terminal, else plain lines at most every 30 s per stage."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._printed_at, self._stage = quiet, 0.0, ""
        self._status = stderr_console.status("") if stderr_console.is_terminal and not quiet else None

    def __call__(self, model: str, line: dict[str, Any]) -> None:
        """Show an event of the benchmark of a model."""
        if self._quiet:
            return
        if "say" in line:
            print_note(f"{model}: {line['say']}")
            return
        text = f"{model}: {line['stage']}, {line['done']} of {line['total']}"
        if self._status:
            self._status.update(Text(text))
        elif f"{model} {line['stage']}" != self._stage or time.monotonic() - self._printed_at > PLAIN_EVERY_S:
            self._stage, self._printed_at = f"{model} {line['stage']}", time.monotonic()
            print_note(text)

    def __enter__(self) -> "BenchProgress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()


def print_run(run: dict[str, Any]) -> None:
    """Print the table of a benchmark run, warnings, and the lines for models.toml."""
    good = [m for m in run["models"] if not m["error"]]
    stdout_console.print(run_summary(run), style="dim")
    for start in range(0, len(good), MAX_MODEL_COLUMNS):
        _print_table(good[start : start + MAX_MODEL_COLUMNS])
    for note in warnings(run["models"]):
        stdout_console.print(note, style="red")
    if good:
        stdout_console.print("\nFor models.toml:\n")
        stdout_console.print(recommendation(run["models"]))


def _print_table(models: Sequence[dict[str, Any]]) -> None:
    content = table(models)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("")
    for name in content.heads:
        shown.add_column(name, justify="right", overflow="fold")
    for title, lines in content.groups:
        shown.add_row()
        shown.add_row(Text(title, "bold"))
        for label, *cells in lines:
            shown.add_row(label, *cells)
    stdout_at_least(100).print(shown)


def print_compared_models(first: str, a: dict[str, Any], second: str, b: dict[str, Any], comparisons: Sequence[MetricComparison]) -> None:
    """Print a comparison of two models: per metric both figures, the difference with its interval, and the verdict."""
    stdout_console.print(f"first:  {first}\nsecond: {second}\n")
    shown = Table("", "first", "second", "difference", "95 % interval", "", "over", box=None, pad_edge=False, header_style="dim")
    for one in comparisons:
        d = one.difference
        interval = (
            "–" if d.low is None or d.high is None else f"{_format_figure(d.low, signed=True)} to {_format_figure(d.high, signed=True)}"
        )
        over = f"{d.items} items, paired" if one.paired else f"{d.items} measurement{'s' * (d.items != 1)} each"
        verdict = Text(one.verdict, "bold" if d.is_significant else "")
        shown.add_row(
            one.name, _format_figure(d.first), _format_figure(d.second), _format_figure(d.value, signed=True), interval, verdict, over
        )
    stdout_at_least(120).print(shown)
    for name, row in ((first, a), (second, b)):
        if why := reliability_warning(row["figures"]):
            stdout_console.print(f"{name}: not reliable: {why}", style="red")


def _format_figure(value: float, *, signed: bool = False) -> str:
    """A figure with about three significant digits."""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    return f"+{text}" if signed and value > 0 else text


def print_study(study: dict[str, Any], page: Path) -> None:
    """Print the results of a study: conditions, win rates, quality of the judge, and the path of the report."""
    shown = [c for c in study["conditions"] if not c["same_as"]]
    rates = mean_rates(study["wins"], [c["name"] for c in shown])
    print_rows([_row(c) | {f"{k[:5]}.": rates[c["name"]][k] for k in CRITERIA} for c in shown])
    stdout_console.print(
        "read: tokens of what it reads · said: statements of an answer · supp.: sentences a passage supports, % · agree: sentences\n"
        "that repeated answers support, % · n: answered · under the four criteria: the mean win rate against the others, %\n",
        style="dim",
    )
    _print_wins(study["wins"])
    judge = study["judge"]
    stdout_console.print(
        f"Judge {study['study'].get('judge', '–')}: {judge['verdicts']} verdicts, {judge['failed']} failed, "
        f"{_percent_text(judge['ties'])} ties, {_percent_text(judge['first'])} of its choices the answer shown first, "
        f"{_percent_text(judge['consistent'])} stay when the answers change places, {_percent_text(judge['agrees'])} when asked again."
    )
    for line in study["warnings"]:
        stdout_console.print(styled(("!", "yellow"), f" {line}"))
    print_note(f"Report: {page}")


COLUMN_TITLES = {
    "units": "units",
    "context_tokens": "read",
    "statements": "said",
    "supported": "supp.",
    "agreement": "agree",
    "calls": "calls",
    "tokens": "tokens",
    "seconds": "s",
    "answered": "n",
}


def _row(condition: dict[str, Any]) -> dict[str, Any]:
    return {"condition": condition["name"]} | {short: condition[name] for name, short in COLUMN_TITLES.items()}


def _print_wins(wins: list[dict[str, Any]]) -> None:
    table = Table("", *CRITERIA, box=None, pad_edge=False, header_style="dim")
    pairs = list(dict.fromkeys((w["a"], w["b"]) for w in wins))
    for a, b in pairs:
        table.add_row(f"{a} beats {b}", *(_rate(w) for w in wins if (w["a"], w["b"]) == (a, b)))
    stdout_at_least(120).print(table)
    stdout_console.print("Percent, a tie counts half; 95 % intervals over questions; * significant after Holm's correction.\n", style="dim")


def _rate(win: dict[str, Any]) -> str:
    if win["rate"] is None:
        return "–"
    bounds = "" if win["low"] is None else f" ({win['low']:.0f}–{win['high']:.0f})"
    return f"{win['rate']:.0f}{'*' if win['p'] is not None and win['p'] < 0.05 else ''}{bounds}"


def _percent_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"
