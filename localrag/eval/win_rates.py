"""Win rates from verdicts, with intervals, and the reliability of the judge (paper, section 4.1.3)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from localrag.eval.datasets import FileRow
from localrag.eval.judge import CRITERIA
from localrag.eval.metrics import bootstrap_interval

SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class WinRate:
    """How often `a` beat `b` by a criterion, in percent, a tie counting half: the mean over questions.

    `low` and `high` bound 95 % of the bootstrap samples of the questions (None for fewer than two). `questions` were judged in both orders,
    `ties` of `verdicts` were no choice, `failed` verdicts failed, and `missing` have no answer to judge.
    """

    criterion: str
    a: str
    b: str
    rate: float | None
    low: float | None
    high: float | None
    questions: int
    verdicts: int
    ties: int
    failed: int
    missing: int


@dataclass(frozen=True, slots=True)
class JudgeStatistics:
    """The reliability of the judge's verdicts, in percent; identical answers, which no judge was asked about, do not count.

    `first_position_wins`: choices of the answer shown first; `consistent`: pairs of verdicts that stay the same when the answers are
    swapped; `agreement`: pairs of repeated verdicts that agree. None without data. `p`: of so lopsided a choice of the first if the order
    did not matter (binomial).
    """

    verdicts: int
    failed: int
    ties: float | None
    first_position_wins: float | None
    p: float | None
    consistent: float | None
    agreement: float | None


def win_rates(rows: Sequence[FileRow], names: Sequence[str], questions: Sequence[str], repeats: int) -> list[WinRate]:
    """The win rate of every two conditions by every criterion. A repeat of which one order failed does not count."""
    rows_of: defaultdict[tuple[str, str, str], list[FileRow]] = defaultdict(list)
    for row in rows:
        a, b = sorted((row["first"], row["second"]), key=names.index)
        rows_of[row["criterion"], a, b].append(row)
    return [
        _rate(criterion, a, b, rows_of[criterion, a, b], questions, repeats) for criterion in CRITERIA for a, b in combinations(names, 2)
    ]


def scores(rows: Iterable[FileRow], a: str) -> dict[str, float]:
    """The score of `a` on each question, 0 to 1: the mean over the repeats that were judged in both orders."""
    orders: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if "error" not in row:
            orders[row["question"], row["repeat"]][row["first"]] = 0.5 if row["winner"] == "tie" else float(row["winner"] == a)
    by_question: defaultdict[str, list[float]] = defaultdict(list)
    for (question, _), by_order in orders.items():
        if len(by_order) == 2:
            by_question[question].append(sum(by_order.values()) / 2)
    return {question: float(np.mean(values)) for question, values in by_question.items()}


def _rate(criterion: str, a: str, b: str, rows: Sequence[FileRow], questions: Sequence[str], repeats: int) -> WinRate:
    values = np.array(list(scores(rows, a).values()))
    failed = sum("error" in r for r in rows)
    ties = sum(r.get("winner") == "tie" for r in rows)
    n_given = len(rows) - failed
    missing = 2 * repeats * len(questions) - len(rows)
    low, high = interval(100 * values)
    rate = _rounded_percent(values.mean()) if len(values) else None
    return WinRate(criterion, a, b, rate, low, high, len(values), n_given, ties, failed, missing)


def interval(values: np.ndarray) -> tuple[float | None, float | None]:
    """The bounds of 95 % of the bootstrap means; None for fewer than two values."""
    if len(values) < 2:
        return None, None
    low, high = bootstrap_interval(len(values), lambda drawn: values[drawn].mean(axis=-1))
    return round(low, 3), round(high, 3)


def judge_figures(rows: Sequence[FileRow]) -> JudgeStatistics:
    """The reliability of the judge's verdicts."""
    from scipy.stats import binomtest

    failed = sum("error" in r for r in rows)
    valid = [r for r in rows if "error" not in r and not r.get("same")]
    chosen = Counter(r["winner"] == r["first"] for r in valid if r["winner"] != "tie")
    turned: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    again: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for r in valid:
        turned[r["question"], r["criterion"], r["repeat"], frozenset((r["first"], r["second"]))].append(r["winner"])
        again[r["question"], r["criterion"], r["first"], r["second"]].append(r["winner"])
    choices = chosen.total()
    return JudgeStatistics(
        len(rows),
        failed,
        _percentage(sum(r["winner"] == "tie" for r in valid), len(valid)),
        _percentage(chosen[True], choices),
        float(binomtest(chosen[True], choices).pvalue) if choices else None,
        _pairwise_agreement(turned.values()),
        _pairwise_agreement(again.values()),
    )


def _pairwise_agreement(groups: Iterable[list[str]]) -> float | None:
    pairs = [a == b for group in groups for a, b in combinations(group, 2)]
    return _percentage(sum(pairs), len(pairs))


def warnings_about(judge: JudgeStatistics) -> list[str]:
    """Warnings that a reader needs to interpret the win rates."""
    notes = []
    if judge.failed:
        notes.append(f"{judge.failed} of {judge.verdicts} verdicts failed; they count for neither answer.")
    if (
        judge.first_position_wins is not None
        and judge.p is not None
        and judge.p < SIGNIFICANCE_LEVEL
        and abs(judge.first_position_wins - 50) > 10
    ):
        side, share = (
            ("first", judge.first_position_wins) if judge.first_position_wins > 50 else ("second", 100 - judge.first_position_wins)
        )
        consequence = "its win rates say nothing" if share > 90 else "its win rates say little"
        notes.append(f"The judge chose the answer shown {side} in {share:.0f} % of its choices: {consequence}.")
    if judge.consistent is not None and judge.consistent < 60:
        notes.append(f"Only {judge.consistent:.0f} % of its verdicts stay the same when the answers change places.")
    if judge.ties is not None and judge.ties > 90:
        notes.append(f"The judge called {judge.ties:.0f} % a tie: it does not tell the answers apart.")
    return notes


def _percentage(part: int, total: int) -> float | None:
    return _rounded_percent(part / total) if total else None


def _rounded_percent(share: float) -> float:
    return round(100 * float(share), 1)


def mean_rates(wins: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """For each condition and criterion, the mean of its win rates against the others; None without any."""
    rates: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for w in wins:
        if w["rate"] is not None:
            rates[w["a"], w["criterion"]].append(w["rate"])
            rates[w["b"], w["criterion"]].append(100 - w["rate"])
    return {n: {c: round(float(np.mean(some)), 1) if (some := rates[n, c]) else None for c in CRITERIA} for n in names}
