"""How a comparison of answers is printed."""

from pathlib import Path
from typing import Any

from rich.table import Table

from localrag.cli.views.console import out, say, styled, wide
from localrag.cli.views.tables import print_rows
from localrag.eval.judge import CRITERIA
from localrag.eval.plots import mean_rates


def print_study(found: dict[str, Any], page: Path) -> None:
    """What each condition reads and reaches, the win rates, the judge, and where the report is."""
    shown = [c for c in found["conditions"] if not c["same_as"]]
    rates = mean_rates(found["wins"], [c["name"] for c in shown])
    print_rows([_row(c) | {f"{k[:5]}.": rates[c["name"]][k] for k in CRITERIA} for c in shown])
    out.print(
        "read: tokens of what it reads · said: statements of an answer · supp.: sentences a passage supports, % · agree: sentences\n"
        "that answers drawn anew support, % · n: answered · under the four criteria: the mean win rate against the others, %\n",
        style="dim",
    )
    _print_wins(found["wins"])
    judge = found["judge"]
    out.print(
        f"Judge {found['study'].get('judge', '–')}: {judge['verdicts']} verdicts, {judge['failed']} failed, "
        f"{_percent(judge['ties'])} ties, {_percent(judge['first'])} of its choices the answer shown first, "
        f"{_percent(judge['consistent'])} stay when the answers change places, {_percent(judge['agrees'])} when asked again."
    )
    for line in found["warnings"]:
        out.print(styled(("!", "yellow"), f" {line}"))
    say(f"Report: {page}")


SHORT = {
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
    return {"condition": condition["name"]} | {short: condition[name] for name, short in SHORT.items()}


def _print_wins(wins: list[dict[str, Any]]) -> None:
    table = Table("", *CRITERIA, box=None, pad_edge=False, header_style="dim")
    pairs = list(dict.fromkeys((w["a"], w["b"]) for w in wins))
    for a, b in pairs:
        table.add_row(f"{a} beats {b}", *(_rate(w) for w in wins if (w["a"], w["b"]) == (a, b)))
    wide(120).print(table)
    out.print("Percent, a tie counts half; 95 % intervals over questions; * significant after Holm's correction.\n", style="dim")


def _rate(win: dict[str, Any]) -> str:
    if win["rate"] is None:
        return "–"
    bounds = "" if win["low"] is None else f" ({win['low']:.0f}–{win['high']:.0f})"
    return f"{win['rate']:.0f}{'*' if win['p'] is not None and win['p'] < 0.05 else ''}{bounds}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"
