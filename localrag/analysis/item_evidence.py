"""What speaks for a record as an item of a list: words, numbers and negations of the request. It is one if it meets all conditions."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from localrag.analysis.list_request import ListRequest, RequestWord
from localrag.analysis.request_words import NO_HIT, WordHit, hits_in, is_about, meets
from localrag.analysis.text_records import Cells

TELLING_SHARE = 0.7  # of a word in a record from which on others can lack it


@dataclass(slots=True)
class ItemEvidence:
    """The evidence for one candidate, filled in step by step."""

    words: Sequence[RequestWord] = ()
    hits: list[WordHit] = field(default_factory=list)  # of each word
    head: WordHit = NO_HIT  # the noun asked for is in the record
    is_about: bool = False  # it is in a label, heading or path
    comparisons: list[bool | None] = field(default_factory=list)

    def missing(self, telling: Sequence[bool], choices: Collection[int]) -> int:
        """The number of telling words that are not met; of two sides of a choice, of the one that lacks fewer."""
        missed = [word for word, is_told, hit in zip(self.words, telling, self.hits, strict=True) if is_told and not _is_met(hit)]
        sides = Counter((word.choice, word.side) for word in missed)
        return sum(min(sides[c, 0], sides[c, 1]) if c in choices else sides[c, 0] + sides[c, 1] for c in {word.choice for word in missed})


def _is_met(hit: WordHit) -> bool:
    return hit.share > 0 and not hit.is_opposed


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


def are_met(evidence: Sequence[ItemEvidence]) -> list[bool]:
    """Of the records of the tables that fit a request, which meet all its conditions.

    A word that none has is a condition, too, unless it is optional; the noun is one where some have it in their text and others do not.
    """
    if not evidence:
        return []
    words, is_told = evidence[0].words, told_words(evidence)
    telling = [told or not word.is_optional for told, word in zip(is_told, words, strict=True)]
    choices = {word.choice for word in words if word.choice > 0 or _is_exclusive(word.choice, evidence)}
    is_known = any(is_told) or any(e.head.share > 0 or any(c is not None for c in e.comparisons) for e in evidence)

    def is_met(e: ItemEvidence) -> bool:
        has_noun = e.is_about or e.head.share > 0 if not e.hits and not e.comparisons else is_known
        return has_noun and not e.missing(telling, choices) and not any(h.is_opposed for h in e.hits) and all(e.comparisons)

    return [is_met(e) for e in evidence]


def told_words(evidence: Sequence[ItemEvidence]) -> list[bool]:
    """Whether some candidate has each word."""
    n_words = len(evidence[0].hits) if evidence else 0
    return [any(e.hits[n].share >= TELLING_SHARE and not e.hits[n].is_opposed for e in evidence) for n in range(n_words)]


def table_rank(evidence: Sequence[ItemEvidence]) -> tuple[int, int, int]:
    """How well a table fits a request, by its records: on how many words and numbers it has something, whether it is about the noun, and
    on how many words that a table need not have.
    """
    first, told = evidence[0], told_words(evidence)
    needed = sum(is_told and not word.is_optional for is_told, word in zip(told, first.words, strict=True))
    needed += sum(any(e.comparisons[n] is not None for e in evidence) for n in range(len(first.comparisons)))
    about = max(2 * e.is_about or bool(e.head.share) for e in evidence)
    return needed, about, sum(told)


def _is_exclusive(choice: int, evidence: Sequence[ItemEvidence]) -> bool:
    """Whether no record has both sides of "A and B", which are values of one column: then either is meant."""
    sides = [[n for n, word in enumerate(evidence[0].words) if word.choice == choice < 0 and word.side == side] for side in (0, 1)]
    if not all(sides):
        return False
    met = [tuple(all(_is_met(e.hits[n]) and e.hits[n].label for n in side) for side in sides) for e in evidence]
    return (True, True) not in met and (True, False) in met and (False, True) in met
