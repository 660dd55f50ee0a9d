"""Metrics of answers, bootstrap intervals, and how well the support check agrees with labels.

Intervals of differences: bootstrap over paired items, t intervals over repeated speeds.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import UsageError
from localrag.query.attribution import SupportCheck
from localrag.records import SENTENCE_STATES, SUPPORTED_STATE, Quote
from localrag.text.sentences import CJK, collapse_whitespace

FORMAT_HINT = 'Every line is a JSON object: {"source": "…", "sentence": "…", "supported": true, "kind": "…"}; kind may be left out.'


@dataclass(frozen=True, slots=True)
class EntailmentCase:
    """A sentence and its source passage; `kind` says how the case was made."""

    source: str
    sentence: str
    is_entailed: bool
    kind: str = ""


def load_cases(file: Path) -> list[EntailmentCase]:
    """The cases of a JSONL file. Raises UsageError that names the unusable line."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.", FORMAT_HINT) from None
    cases = [_case(line, f"{file}, line {n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not cases:
        raise UsageError(f"{file} is empty.", FORMAT_HINT)
    return cases


def _case(line: str, place: str) -> EntailmentCase:
    try:
        row = json.loads(line)
    except ValueError:
        raise UsageError(f"{place} is not JSON.", FORMAT_HINT) from None
    if not isinstance(row, dict):
        raise UsageError(f"{place} is not a JSON object.", FORMAT_HINT)
    for field in ("source", "sentence", "supported"):
        if field not in row:
            raise UsageError(f'{place} has no "{field}".', FORMAT_HINT)
    for field in ("source", "sentence", "kind"):
        if not isinstance(row.get(field, ""), str) or (field != "kind" and not row[field].strip()):
            raise UsageError(f'{place}: "{field}" is not a text.', FORMAT_HINT)
    if not isinstance(row["supported"], bool):
        raise UsageError(f'{place}: "supported" is neither true nor false.', FORMAT_HINT)
    return EntailmentCase(row["source"], row["sentence"], row["supported"], row.get("kind", ""))


def evaluate_entailment(
    cases: Sequence[EntailmentCase], check: SupportCheck, done: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Measure how well the check tells supported sentences from others; each share is from 0 to 1, or None without cases.

    `kept`: share of the supported sentences that it proves; `refused`: share of the others that it does not. `precision`: share of the
    sentences it proves that are supported; `recall` is `kept`. `states`: the number of true and of false sentences by state. `by_kind` has
    the same by kind, with the number of rows.
    """
    states = []
    for n, case in enumerate(cases, 1):
        states.append(check(case.sentence, [Quote("", 0, len(case.source), case.source)], ()).state)
        done(n)
    results = list(zip(cases, states, strict=True))
    total = _shares(results)
    right = [c.is_entailed for c, state in results if state == SUPPORTED_STATE]
    kinds = {kind: _shares([(c, s) for c, s in results if c.kind == kind]) for kind in sorted({c.kind for c in cases if c.kind})}
    return {
        "kept": total["kept"],
        "refused": total["refused"],
        "precision": _share_true(right),
        "recall": total["kept"],
        "states": total["states"],
        "by_kind": kinds,
    }


def _shares(results: Sequence[tuple[EntailmentCase, str]]) -> dict[str, Any]:
    return {
        "rows": len(results),
        "kept": _share_true([s == SUPPORTED_STATE for c, s in results if c.is_entailed]),
        "refused": _share_true([s != SUPPORTED_STATE for c, s in results if not c.is_entailed]),
        "states": {
            name: {state: sum(c.is_entailed == label and s == state for c, s in results) for state in SENTENCE_STATES}
            for name, label in (("true", True), ("false", False))
        },
    }


def _share_true(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


_ANSWER_MARKS = re.compile(r"(?<!\s)\s*(?:≠ “[^\n“]*?” (?=\[contradicted\]))?\[(?:\d+|unsupported|related|contradicted)\]")
_TITLE = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)


def strip_marks_and_titles(answer: str) -> str:
    """An answer without citation marks and titles, for comparison."""
    return collapse_whitespace(_TITLE.sub("", _ANSWER_MARKS.sub("", answer)))


def cited_sentences(answer: str) -> int:
    """The number of spans of an answer with a citation or marked as unsupported."""
    return sum("[" in p for p in answer.split("\n\n"))


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 if the answer is one of the gold answers up to case, punctuation and articles (SQuAD, Rajpurkar et al. 2016), else 0."""
    return float(any(_scored_words(answer) == _scored_words(g) for g in gold))


def word_f1(answer: str, gold: Sequence[str]) -> float:
    """The best F1 of the answer's words against a gold answer's, normalised as for `exact_match`; Chinese by character."""
    return max((_f1(_scored_words(answer), _scored_words(g)) for g in gold), default=0.0)


def is_quoted(quotes: Sequence[str], gold: Sequence[str]) -> float | None:
    """1 if a gold answer occurs in one of the quotes, normalised as for `exact_match`, else 0; None if all gold answers are yes or no."""
    wanted = [g for g in gold if _scored_words(g) not in ([], ["yes"], ["no"])]
    if not wanted:
        return None
    held = [f" {' '.join(_scored_words(q))} " for q in quotes]
    return float(any(f" {' '.join(_scored_words(g))} " in h for g in wanted for h in held))


def evidence_recall(evidence: Sequence[str], files: Iterable[str]) -> float | None:
    """The share of the gold files that passages are from; None without gold files."""
    return len({*evidence} & {*files}) / len({*evidence}) if evidence else None


def _scored_words(text: str) -> list[str]:
    spaced = re.sub(f"([{CJK}])", r" \1 ", text.lower())
    bare = "".join(" " if c in "-–—" else c for c in spaced if c not in string.punctuation or c in "-")
    return [w for w in bare.split() if w not in ("a", "an", "the")]


def _f1(predicted: list[str], gold: list[str]) -> float:
    common = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold)) if common else float(predicted == gold)


BOOTSTRAP_SAMPLES = 10_000
CONFIDENCE_LEVEL = 0.95
SEED = 0

Statistic = Callable[[NDArray[Any]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Difference:
    """`second` − `first` and its 95 % interval; `low` and `high` are None if it cannot be computed (one measurement)."""

    first: float
    second: float
    low: float | None
    high: float | None
    items: int  # paired items, or measurements of each

    @property
    def value(self) -> float:
        """Second − first."""
        return self.second - self.first

    @property
    def is_significant(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def bootstrap_interval(items: int, statistic: Statistic, resamples: int = BOOTSTRAP_SAMPLES) -> tuple[float, float]:
    """A 95 % percentile bootstrap interval (Efron 1979). statistic: numbers of the drawn items, (…, items) → (…)."""
    draws = np.random.default_rng(SEED).integers(0, items, (resamples, items))
    low, high = np.quantile(statistic(draws), [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return float(low), float(high)


def paired_difference(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], statistic: Statistic) -> Difference:
    """The difference of a statistic over the same items, with a bootstrap interval.

    first, second: (items, values) of the two, drawn as pairs. statistic: (…, items, values) → (…).
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    low, high = bootstrap_interval(len(a), lambda drawn: statistic(b[drawn]) - statistic(a[drawn]))
    return Difference(float(statistic(a)), float(statistic(b)), low, high, len(a))


def welch_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The difference of two means with Welch's t interval: a bootstrap of the usual three or five values is far too narrow."""
    from scipy.stats import ttest_ind

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    means, n_least = (float(a.mean()), float(b.mean())), min(len(a), len(b))
    if n_least < 2:
        return Difference(*means, None, None, n_least)
    if not np.ptp(a) and not np.ptp(b):  # without variance t is 0 / 0
        return Difference(*means, means[1] - means[0], means[1] - means[0], n_least)
    low, high = ttest_ind(b, a, equal_var=False).confidence_interval(CONFIDENCE_LEVEL)
    return Difference(*means, float(low), float(high), n_least)


def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of items of one value each, (…, items, 1) → (…)."""
    return np.asarray(values[..., 0].mean(axis=-1))


def micro_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 over all items together; counts (…, items, 3): correct, predicted, gold. 1 if there are neither gold nor predicted items."""
    right, predicted, gold = np.moveaxis(counts.sum(axis=-2), -1, 0)
    total = predicted + gold
    return np.asarray(np.where(total > 0, 2 * right / np.maximum(total, 1), 1.0))
