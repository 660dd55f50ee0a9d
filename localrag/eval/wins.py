"""Verdicts → win rates with intervals and corrected significance, and what the judge itself is worth (paper, section 4.1.3)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from localrag.eval.judge import CRITERIA
from localrag.eval.row_file import Row

DRAWS = 4000  # of the bootstrap
SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class WinRate:
    """How often `a` beat `b` by a criterion, in percent, a tie counting half, the mean over questions.

    `low` and `high` bound 95 in 100 bootstrap samples of the questions (None for fewer than two); `p` is that of a Wilcoxon signed-rank
    test against 50, corrected for all comparisons (Holm). `questions` were judged in both orders, `ties` of `verdicts` were no choice,
    `failed` verdicts failed, and `missing` were never given, for want of an answer.
    """

    criterion: str
    a: str
    b: str
    rate: float | None
    low: float | None
    high: float | None
    p: float | None
    questions: int
    verdicts: int
    ties: int
    failed: int
    missing: int


@dataclass(frozen=True, slots=True)
class Judge:
    """What the judge's verdicts are worth, in percent; identical answers, which no judge was asked about, do not count.

    `first`: choices that fell on the answer shown first; `consistent`: pairs of verdicts that stay the same when the answers change
    places; `agrees`: pairs of repeated verdicts that agree. None where there was nothing to compare. `p`: that of as lopsided a choice of
    the first if places did not matter (binomial).
    """

    verdicts: int
    failed: int
    ties: float | None
    first: float | None
    p: float | None
    consistent: float | None
    agrees: float | None


def win_rates(rows: Sequence[Row], names: Sequence[str], questions: Sequence[str], repeats: int) -> list[WinRate]:
    """The win rate of every two conditions by every criterion. A repeat of which one order failed does not count."""
    found: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        a, b = sorted((row["first"], row["second"]), key=names.index)
        found[row["criterion"], a, b].append(row)
    rates = [
        _rate(criterion, a, b, found[criterion, a, b], questions, repeats) for criterion in CRITERIA for a, b in combinations(names, 2)
    ]
    return _corrected(rates)


def scores(rows: Iterable[Row], a: str) -> dict[str, float]:
    """How far `a` won each question, 0 to 1: the mean over the repeats that were judged in both orders."""
    orders: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if "error" not in row:
            orders[row["question"], row["repeat"]][row["first"]] = 0.5 if row["winner"] == "tie" else float(row["winner"] == a)
    whole: defaultdict[str, list[float]] = defaultdict(list)
    for (question, _), by_order in orders.items():
        if len(by_order) == 2:
            whole[question].append(sum(by_order.values()) / 2)
    return {question: float(np.mean(values)) for question, values in whole.items()}


def _rate(criterion: str, a: str, b: str, rows: Sequence[Row], questions: Sequence[str], repeats: int) -> WinRate:
    values = np.array(list(scores(rows, a).values()))
    failed = sum("error" in r for r in rows)
    ties = sum(r.get("winner") == "tie" for r in rows)
    given = len(rows) - failed
    missing = 2 * repeats * len(questions) - len(rows)
    if not len(values):
        return WinRate(criterion, a, b, None, None, None, None, 0, given, ties, failed, missing)
    low, high = interval(100 * values)
    return WinRate(criterion, a, b, _percent(values.mean()), low, high, _wilcoxon(values), len(values), given, ties, failed, missing)


def interval(values: np.ndarray) -> tuple[float | None, float | None]:
    """The bounds of 95 in 100 bootstrap means; None for fewer than two values."""
    if len(values) < 2:
        return None, None
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return round(float(low), 3), round(float(high), 3)


def _wilcoxon(values: np.ndarray) -> float | None:
    from scipy.stats import wilcoxon

    if len(values) < 2:
        return None
    return float(wilcoxon(values - 0.5, zero_method="zsplit").pvalue) if np.any(values != 0.5) else 1.0


def _corrected(rates: list[WinRate]) -> list[WinRate]:
    """The p-values after Holm's step-down correction (Holm 1979)."""
    order = sorted((n for n, r in enumerate(rates) if r.p is not None), key=lambda n: rates[n].p or 0.0)
    highest = 0.0
    corrected: dict[int, float] = {}
    for rank, n in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * (rates[n].p or 0.0)))
        corrected[n] = highest
    return [replace(r, p=corrected.get(n)) for n, r in enumerate(rates)]


def judge_figures(rows: Sequence[Row]) -> Judge:
    """What the judge's verdicts are worth."""
    from scipy.stats import binomtest

    failed = sum("error" in r for r in rows)
    given = [r for r in rows if "error" not in r and not r.get("same")]
    chosen = Counter(r["winner"] == r["first"] for r in given if r["winner"] != "tie")
    turned: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    again: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for r in given:
        turned[r["question"], r["criterion"], r["repeat"], frozenset((r["first"], r["second"]))].append(r["winner"])
        again[r["question"], r["criterion"], r["first"], r["second"]].append(r["winner"])
    choices = chosen.total()
    return Judge(
        len(rows),
        failed,
        _share(sum(r["winner"] == "tie" for r in given), len(given)),
        _share(chosen[True], choices),
        float(binomtest(chosen[True], choices).pvalue) if choices else None,
        _agreeing(turned.values()),
        _agreeing(again.values()),
    )


def _agreeing(groups: Iterable[list[str]]) -> float | None:
    pairs = [a == b for group in groups for a, b in combinations(group, 2)]
    return _share(sum(pairs), len(pairs))


def warnings_about(judge: Judge) -> list[str]:
    """What a reader must know before believing the win rates."""
    found = []
    if judge.failed:
        found.append(f"{judge.failed} of {judge.verdicts} verdicts failed; they count for neither answer.")
    if judge.first is not None and judge.p is not None and judge.p < SIGNIFICANT and abs(judge.first - 50) > 10:
        side, share = ("first", judge.first) if judge.first > 50 else ("second", 100 - judge.first)
        told = "its win rates say nothing" if share > 90 else "its win rates say little"
        found.append(f"The judge chose the answer shown {side} in {share:.0f} % of its choices: {told}.")
    if judge.consistent is not None and judge.consistent < 60:
        found.append(f"Only {judge.consistent:.0f} % of its verdicts stay the same when the answers change places.")
    if judge.ties is not None and judge.ties > 90:
        found.append(f"The judge called {judge.ties:.0f} % a tie: it does not tell the answers apart.")
    return found


def _share(part: int, whole: int) -> float | None:
    return _percent(part / whole) if whole else None


def _percent(share: float) -> float:
    return round(100 * float(share), 1)
