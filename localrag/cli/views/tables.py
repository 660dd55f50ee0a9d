"""Tables: figures, merges, what a tuning found, what was checked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from localrag.cli.views.console import out, styled, wide
from localrag.records import Line, Merge
from localrag.text.plain import squeeze

if TYPE_CHECKING:  # a look into an index need not wait for what builds one
    from localrag.config import Domain
    from localrag.index.extraction.tune import Compared


def print_bench(figures: dict[str, Any], without: dict[str, dict[str, Any]]) -> None:
    """A run's speed, then that of the runs with a part taken away, and the settings it had."""
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
    out.print(table)
    if limit := figures.get("limit"):
        out.print(
            f"llama.cpp's calls alone, one after another: {limit['output_tokens_per_s']} tok/s; reached of that: {limit['share']:.1%}"
        )
    out.print("settings: " + ", ".join(f"{k}={v}" for k, v in figures["settings"].items()), style="dim")


def print_merges(found: Sequence[tuple[int, Merge]]) -> None:
    """A table of merges."""
    table = Table("N", "name", "entity", "reason", "score", box=None, pad_edge=False, header_style="dim")
    for number, m in found:
        table.add_row(str(number), m.name, m.into, m.reason, f"{m.score:.2f}")
    out.print(table)


def print_scores(found: dict[str, Any]) -> None:
    """The figures of an evaluation, one a line; gold types last."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in found.items():
        if name != "types":
            table.add_row(name.replace("_", " "), str(value))
    types = ", ".join(f"{gold} → {asked}" for gold, asked in found["types"].items())
    table.add_row("gold types", types or "none")
    out.print(table)


def print_retrieval(rows: Sequence[dict[str, Any]]) -> None:
    """A table of retrieval figures, a mode a line."""
    names = [n for n in rows[0] if n not in ("task", "extractor", "passages", "questions", "skipped", "failures")]
    out.print(f"{rows[0]['task']}: {rows[0]['passages']} passages, {rows[0]['questions']} questions, extractor {rows[0]['extractor']}")
    print_rows([{n: row[n] for n in names} for row in rows])


def print_support(found: dict[str, Any], rows: int) -> None:
    """Print the shares of true sentences kept and of false ones refused, in percent, and the number of sentences by state and by kind."""
    percent = {k: _percent(found[k]) for k in ("kept", "refused", "precision", "recall")}
    print_rows([{"rows": rows} | {f"{name} %": value for name, value in percent.items()}])
    out.print()
    print_rows([{"sentences": name} | counts for name, counts in found["states"].items()])
    if found["by_kind"]:
        out.print()
        print_rows([_kind_row(kind, row) for kind, row in found["by_kind"].items()])


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}"


def _kind_row(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table by kind; each state has the number of true sentences, then that of false ones: `3 / 0`."""
    shares = {"kind": kind, "rows": row["rows"], "kept %": _percent(row["kept"]), "refused %": _percent(row["refused"])}
    true, false = row["states"]["true"], row["states"]["false"]
    return shares | {state: f"{true[state]} / {false[state]}" for state in true}


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """A table of figures; what was not measured is a dash."""
    names = {"questions": "n", "evidence_shown": "shown", "evidence_cited": "cited"}
    table = Table(*(names.get(n, n) for n in rows[0]), box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    wide(140).print(table)


def print_domain(domain: "Domain") -> None:
    """What a tuning found out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in (
        ("about", domain.about),
        ("persona", domain.persona),
        ("language", domain.language),
        ("what matters", domain.rating),
        ("entity types", ", ".join(domain.entity_types)),
        ("examples", str(len(domain.examples))),
    ):
        table.add_row(name, value)
    out.print(table)


def print_compared(one: "Compared") -> None:
    """The entities of a chunk before and after, those that differ marked."""
    out.print(f"\n{squeeze(one.chunk.text)[:160]} …", style="dim")
    before, after = ({e.name: e.type for e in x.entities} for x in (one.before, one.after))
    table = Table("name", "before", "after", box=None, pad_edge=False, header_style="dim")
    for name in [*before, *(n for n in after if n not in before)]:
        old, new = before.get(name, "–"), after.get(name, "–")
        table.add_row(name, old, Text(new, "bold" if new != old else ""))
    out.print(table)
    out.print(f"relationships: {len(one.before.relationships)} before, {len(one.after.relationships)} after", style="dim")


def print_lines(lines: Sequence[Line]) -> None:
    """What was looked at, one thing a line; a remedy stands below what needs one."""
    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        out.print(styled(marks[line.state], f" {line.name:<{width}}  {line.text}"))
        if line.remedy:
            out.print(f"  {'':<{width}}  → {line.remedy}")
