"""What speaks for an item of a list: words, numbers and negations of the request in its record or sentences, and what the reader says.

Two logistic models weigh it, of records and of prose. `scripts/fit_item_lists.py` fits and measures them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from localrag.analysis.list_request import ListRequest, RequestWord
from localrag.analysis.request_words import NO_HIT, WordHit, hits_in, is_about, meets, meets_in_text
from localrag.analysis.text_records import Cells
from localrag.llm.reader import Entailment, PassageReading

FEATURES = (
    *("coverage", "gap", "opposed", "head", "head missing", "about", "met", "unmet", "unresolved", "no condition"),
    *("entailed", "contradicted", "relevance", "span", "read"),
    *("span on item", "type fits", "type differs", "own sentence"),
)
HEAD_MISSING_SHARE = 0.01  # of the records from which on a noun that others have is a condition
MAX_LOGIT = 12.0


@dataclass(slots=True)
class ItemEvidence:
    """The evidence for one candidate, filled in step by step."""

    hits: list[WordHit] = field(default_factory=list)
    head: WordHit = NO_HIT  # the noun asked for is in the record or sentences
    is_about: bool = False  # it is in a label, heading or path
    comparisons: list[bool | None] = field(default_factory=list)
    entailment: Entailment | None = None
    reading: PassageReading | None = None
    is_span_on_item: bool = False
    type_fit: int = 0  # 1 fits, -1 differs, 0 unknown
    is_own_sentence: bool = True  # the item is named in the sentence itself

    @property
    def coverage(self) -> float:
        """The mean share of the words of the conditions; 1 without conditions."""
        return sum(h.share for h in self.hits if not h.is_opposed) / len(self.hits) if self.hits else 1.0


def text_evidence(request: ListRequest, text: str, context: str) -> ItemEvidence:
    """The evidence in sentences."""
    cells: Cells = (("", text),)
    comparisons = [meets_in_text(c, text) for c in request.comparisons]
    return ItemEvidence(hits_in(request.words, cells, context), _head_hit(request, cells), is_about(request.head, context), comparisons)


def record_evidence(request: ListRequest, cells: Cells, context: str, compared: Sequence[str | None]) -> ItemEvidence:
    """The evidence in the cells of a record. `compared`: for each comparison the label of the cell with the number."""
    values = dict(cells)
    comparisons = [meets(c, values[n]) if n in values else None for c, n in zip(request.comparisons, compared, strict=True)]
    about = is_about(request.head, " ".join((context, *(label for label, _ in cells))))
    head = _head_hit(request, cells)
    return ItemEvidence(hits_in(request.words, cells, context), NO_HIT if is_about(request.head, head.label) else head, about, comparisons)


def _head_hit(request: ListRequest, cells: Cells) -> WordHit:
    return hits_in([RequestWord(request.head)], cells)[0] if request.head else NO_HIT


def assume_the_rest(request: ListRequest, evidence: Sequence[ItemEvidence]) -> None:
    """In a table what does not say a negated word lacks it, if others say it in the same column: "did not sink" holds of "scrapped"."""
    for n, word in enumerate(request.words):
        if word.is_negated and (label := next((e.hits[n].label for e in evidence if e.hits[n].is_opposed and e.hits[n].label), "")):
            for e in evidence:
                if not e.hits[n].share:
                    e.hits[n] = WordHit(1.0, False, label)


def features(evidence: Sequence[ItemEvidence]) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    """The features of candidates of one table, or of all prose, (n, len(FEATURES))."""
    best = max((e.coverage for e in evidence), default=0.0)
    with_head = sum(e.head.share > 0 for e in evidence)
    is_condition = with_head >= max(1.0, HEAD_MISSING_SHARE * len(evidence))
    rows = [_row(e, best, is_condition=is_condition) for e in evidence]
    return np.array(rows, np.float32).reshape(-1, len(FEATURES))


def _row(e: ItemEvidence, best: float, *, is_condition: bool) -> list[float]:
    met, unmet = sum(c is True for c in e.comparisons), sum(c is False for c in e.comparisons)
    read = e.entailment, e.reading
    return [
        e.coverage, best - e.coverage, float(any(h.is_opposed for h in e.hits)), e.head.share, float(is_condition and not e.head.share),
        float(e.is_about), float(met > 0), float(unmet > 0), float(any(c is None for c in e.comparisons)), float(not e.hits and not e.comparisons),
        _logit(read[0].entailed) if read[0] else 0.0, _logit(read[0].contradicted) if read[0] else 0.0,
        _clip(read[1].relevance) if read[1] else 0.0, _clip(read[1].score) if read[1] else 0.0, float(read[0] is not None),
        float(e.is_span_on_item), float(e.type_fit > 0), float(e.type_fit < 0), float(e.is_own_sentence),
    ]  # fmt: skip


def _logit(probability: float) -> float:
    return math.log((probability + 1e-3) / (1 - probability + 1e-3))


def _clip(value: float) -> float:
    return max(-MAX_LOGIT, min(MAX_LOGIT, value))
