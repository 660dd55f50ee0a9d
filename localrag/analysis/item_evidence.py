"""What speaks for an item of a list: words, numbers and negations of the request in its record or sentences, and what the reader says.

Two logistic models weigh it, of records and of prose. `scripts/fit_item_lists.py` fits and measures them.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from localrag.analysis.list_request import ListRequest, RequestWord
from localrag.analysis.request_words import NO_HIT, WordHit, hits_in, is_about, meets, meets_in_text
from localrag.analysis.text_records import Cells
from localrag.llm.reader import Entailment, PassageReading

FEATURES = (
    *("satisfied", "coverage", "missing", "opposed", "head", "head missing", "about", "met", "unmet", "unresolved", "no condition"),
    *("entailed", "contradicted", "relevance", "span", "read"),
    *("span on item", "type fits", "type differs", "own sentence", "loosely met", "loosely unmet"),
    *("no word known", "alone: entailed", "alone: relevance", "alone: span"),
)
# Set by hand on a few requests; features without a weight wait for a fit.
RECORD_WEIGHTS, RECORD_BIAS = {"satisfied": 6.0}, -3.0
PROSE_WEIGHTS, PROSE_BIAS = (
    {
        "satisfied": 2.5,
        "entailed": 0.4,
        "contradicted": -0.2,
        "relevance": 0.35,
        "span": 0.1,
        "span on item": 1.5,
        "type fits": 1.0,
        "type differs": -2.0,
        "own sentence": 0.5,
        "opposed": -3.0,
        "unmet": -3.0,
    },
    -3.0,
)
HEAD_MISSING_SHARE = 0.01  # of the records from which on a noun that others have is a condition
TELLING_SHARE = 0.7  # of a word in a record from which on others can lack it
MIN_SPREAD = 0.5  # of what the reader says of the candidates, which is given in standard deviations where no word tells
MAX_LOGIT = 12.0


@dataclass(slots=True)
class ItemEvidence:
    """The evidence for one candidate, filled in step by step."""

    words: Sequence[RequestWord] = ()
    hits: list[WordHit] = field(default_factory=list)  # of each word
    head: WordHit = NO_HIT  # the noun asked for is in the record or sentences
    is_about: bool = False  # it is in a label, heading or path
    comparisons: list[bool | None] = field(default_factory=list)
    loose_comparisons: list[bool | None] = field(default_factory=list)  # with the only number of a sentence, whatever it counts
    entailment: Entailment | None = None
    reading: PassageReading | None = None
    is_span_on_item: bool = False
    type_fit: int = 0  # 1 fits, -1 differs, 0 unknown
    is_own_sentence: bool = True  # the item is named in the sentence itself

    @property
    def is_telling(self) -> bool:
        """Whether a word or number of the request is met or opposed."""
        return (
            bool(self.head.share)
            or any(h.share for h in self.hits)
            or any(c is not None for c in (*self.comparisons, *self.loose_comparisons))
        )

    @property
    def strength(self) -> float:
        """How much of the request is met, to choose among sentences."""
        return self.coverage * bool(self.hits) + sum(c is True for c in self.comparisons) + 0.5 * self.head.share

    @property
    def coverage(self) -> float:
        """The mean share of the words of the conditions; 1 without conditions."""
        return sum(h.share for h in self.hits if not h.is_opposed) / len(self.hits) if self.hits else 1.0

    def missing(self, telling: Sequence[bool], choices: Collection[int]) -> int:
        """The number of telling words that are not met; of two sides of a choice, of the one that lacks fewer."""
        missed = [word for word, is_told, hit in zip(self.words, telling, self.hits, strict=True) if is_told and not _is_met(hit)]
        sides = Counter((word.choice, word.side) for word in missed)
        return sum(min(sides[c, 0], sides[c, 1]) if c in choices else sides[c, 0] + sides[c, 1] for c in {word.choice for word in missed})


def _is_met(hit: WordHit) -> bool:
    return hit.share > 0 and not hit.is_opposed


def text_evidence(request: ListRequest, text: str, context: str) -> ItemEvidence:
    """The evidence in sentences."""
    cells: Cells = (("", text),)
    compared = [meets_in_text(c, text) for c in request.comparisons]
    evidence = ItemEvidence(
        request.words, hits_in(request.words, cells, context), _head_hit(request, cells), is_about(request.head, context)
    )
    evidence.comparisons = [met if is_named else None for met, is_named in compared]
    evidence.loose_comparisons = [met for met, is_named in compared if not is_named]
    return evidence


def record_evidence(
    request: ListRequest, cells: Cells, context: str, compared: Sequence[str | None], columns: Sequence[str | None] = ()
) -> ItemEvidence:
    """The evidence in the cells of a record. `compared`, `columns`: for each comparison, and each word, the label of the cell that counts."""  # noqa: E501
    values = dict(cells)
    comparisons = [meets(c, values[n]) if n in values else None for c, n in zip(request.comparisons, compared, strict=True)]
    about = is_about(request.head, " ".join((context, *(label for label, _ in cells))))
    head = _head_hit(request, cells)
    return ItemEvidence(
        request.words, hits_in(request.words, cells, context, columns), head if head.fullness else NO_HIT, about, comparisons
    )


def _head_hit(request: ListRequest, cells: Cells) -> WordHit:
    return hits_in([RequestWord(request.head)], cells)[0] if request.head else NO_HIT


def assume_the_rest(request: ListRequest, evidence: Sequence[ItemEvidence]) -> None:
    """In a table what does not say a negated word lacks it, if others say it in the same column: "did not sink" holds of "scrapped"."""
    for n, word in enumerate(request.words):
        if word.is_negated and (label := next((e.hits[n].label for e in evidence if e.hits[n].is_opposed and e.hits[n].label), "")):
            for e in evidence:
                if not e.hits[n].share:
                    e.hits[n] = WordHit(1.0, False, label)


def features(evidence: Sequence[ItemEvidence]) -> NDArray[np.float32]:
    """The features of candidates of one table, or of all prose, (n, len(FEATURES))."""
    is_told = told_words(evidence)
    telling = [told or not word.is_optional for told, word in zip(is_told, evidence[0].words, strict=True)] if evidence else []
    choices = {word.choice for word in evidence[0].words if word.choice > 0 or _is_exclusive(word.choice, evidence)} if evidence else set()
    is_condition = sum(e.head.share > 0 for e in evidence) >= max(1.0, HEAD_MISSING_SHARE * len(evidence))
    is_known = is_condition or any(is_told) or any(c is not None for e in evidence for c in e.comparisons)
    read = np.array([_read_features(e) for e in evidence], np.float32).reshape(-1, 3)
    alone = (read - read.mean(axis=0)) / np.maximum(read.std(axis=0), MIN_SPREAD) * (not is_known) if evidence else read
    rows = [_row(e, e.missing(telling, choices), is_condition=is_condition, is_known=is_known) for e in evidence]
    return np.concatenate([np.array(rows, np.float32).reshape(-1, len(FEATURES) - 3), alone], axis=1, dtype=np.float32)


def told_words(evidence: Sequence[ItemEvidence]) -> list[bool]:
    """Whether some candidate has each word."""
    n_words = len(evidence[0].hits) if evidence else 0
    return [any(e.hits[n].share >= TELLING_SHARE and not e.hits[n].is_opposed for e in evidence) for n in range(n_words)]


def table_rank(evidence: Sequence[ItemEvidence]) -> tuple[int, bool, int]:
    """How well a table fits a request, by its records: on how many words and numbers it has something, whether it is about the noun, and
    on how many words that a table need not have.
    """
    first, told = evidence[0], told_words(evidence)
    needed = sum(is_told and not word.is_optional for is_told, word in zip(told, first.words, strict=True))
    needed += sum(any(e.comparisons[n] is not None for e in evidence) for n in range(len(first.comparisons)))
    return needed, any(e.is_about or e.head.share for e in evidence), sum(told)


def _is_exclusive(choice: int, evidence: Sequence[ItemEvidence]) -> bool:
    """Whether no record has both sides of "A and B", which are values of one column: then either is meant."""
    sides = [[n for n, word in enumerate(evidence[0].words) if word.choice == choice < 0 and word.side == side] for side in (0, 1)]
    if not all(sides):
        return False
    met = [tuple(all(_is_met(e.hits[n]) and e.hits[n].label for n in side) for side in sides) for e in evidence]
    return (True, True) not in met and (True, False) in met and (False, True) in met


def _read_features(e: ItemEvidence) -> list[float]:
    entailed = _logit(e.entailment.entailed) if e.entailment else 0.0
    return [entailed, _clip(e.reading.relevance) if e.reading else 0.0, _clip(e.reading.score) if e.reading else 0.0]


def _row(e: ItemEvidence, missing: int, *, is_condition: bool, is_known: bool) -> list[float]:
    entailed, relevance, span = _read_features(e)
    is_met = e.is_about or e.head.share > 0 if not e.hits and not e.comparisons else is_known
    is_satisfied = is_met and not missing and not any(h.is_opposed for h in e.hits) and all(c is True for c in e.comparisons)
    return [
        float(is_satisfied), e.coverage, min(2.0, missing), float(any(h.is_opposed for h in e.hits)), e.head.share, float(is_condition and not e.head.share),  # noqa: E501
        float(e.is_about), float(True in e.comparisons), float(False in e.comparisons), float(None in e.comparisons),
        float(not e.hits and not e.comparisons), entailed, _logit(e.entailment.contradicted) if e.entailment else 0.0, relevance, span,
        float(e.entailment is not None), float(e.is_span_on_item), float(e.type_fit > 0), float(e.type_fit < 0), float(e.is_own_sentence),
        float(True in e.loose_comparisons), float(False in e.loose_comparisons), float(not is_known),
    ]  # fmt: skip


def _logit(probability: float) -> float:
    return math.log((probability + 1e-3) / (1 - probability + 1e-3))


def _clip(value: float) -> float:
    return max(-MAX_LOGIT, min(MAX_LOGIT, value))


def probabilities(evidence: Sequence[ItemEvidence], *, of_records: bool) -> list[float]:
    """The probability that each candidate of one table, or of all prose, is an item."""
    if not evidence:
        return []
    weights, bias = (RECORD_WEIGHTS, RECORD_BIAS) if of_records else (PROSE_WEIGHTS, PROSE_BIAS)
    log_odds = features(evidence) @ np.array([weights.get(name, 0.0) for name in FEATURES], np.float32) + bias
    values: list[float] = (1 / (1 + np.exp(-log_odds))).tolist()
    return values
