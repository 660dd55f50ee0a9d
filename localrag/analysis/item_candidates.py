"""Records of tables as candidates for the items of a list, and what speaks for them: words, numbers and negations of the request.

A record is an item if it meets all conditions.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from localrag.analysis.list_request import ListRequest, RequestWord
from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.request_words import NO_HIT, WordHit, compared_labels, hits_in, is_about, meant_columns, meets
from localrag.analysis.text_records import Cells, RecordTable, TextRecord, is_identifier

MIN_HEAD_FULLNESS = 0.6  # of a value that is the noun asked for, from which on that noun is a condition
MAX_SAMPLED_RECORDS = 200  # of a table, by which the columns with numbers are told
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
    """Return the evidence in the cells of a record. `compared`, `columns`: the labels of the cells that comparisons and words mean."""
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
    choices = {word.choice for word in words if word.choice}
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


@dataclass(slots=True)
class ItemCandidate:
    """A candidate: what it is called, the quote that may show it, and what speaks for it.

    `identity`: what makes it one item among others, for a record without a name.
    """

    name: str
    source: OpenedDocument
    start: int
    end: int
    evidence: ItemEvidence
    identity: tuple[str, ...] = ()
    cells: Cells = ()  # of a record
    key_labels: tuple[str, ...] = ()  # of those that name it


def record_candidates(table: RecordTable, request: ListRequest) -> list[ItemCandidate]:
    """Each record of a table as a candidate, by its key, or by another column that is asked for: "Which countries …?"."""
    keys = table.key_labels
    others = (label for label in table.labels if label not in keys and not is_identifier(label))
    asked = next((label for label in others if is_about(request.head, label)), "")
    names = (asked,) if asked else keys
    contexts = [_context_of(record) for record in table.records]
    samples = [r.cells for r in table.records[:MAX_SAMPLED_RECORDS]]
    about = " ".join((*table.labels, *contexts[:1]))
    compared = compared_labels(request, list(table.labels), samples, is_about=not request.head or is_about(request.head, about))
    first = [record_evidence(request, r.cells, context, compared) for r, context in zip(table.records, contexts, strict=True)]
    if any(e.head.fullness >= MIN_HEAD_FULLNESS and not e.is_about for e in first):  # "schooners" of a table of vessels with their types
        request = replace(request, words=(*request.words, RequestWord(request.head)), head="")
        first = [record_evidence(request, r.cells, context, compared) for r, context in zip(table.records, contexts, strict=True)]
        for evidence in first:
            evidence.is_about = True
    columns = meant_columns(request.words, [e.hits for e in first])
    found = []
    copies: Counter[tuple[str, Cells]] = Counter()
    for record, context, unrestricted in zip(table.records, contexts, first, strict=True):
        name = " ".join(filter(None, (record.value(label) for label in names)))
        if asked and not name:
            continue
        identity: tuple[str, ...] = ()
        if not name:
            copies[record.source.document.path, record.cells] += 1
            identity = (repr(record.cells), str(copies[record.source.document.path, record.cells]))
            name = next(value for _, value in record.cells)
        evidence = unrestricted
        if any(columns):
            evidence = record_evidence(request, record.cells, context, compared, columns)
            evidence.is_about = unrestricted.is_about
        place = record.source, record.start, record.end
        found.append(ItemCandidate(name, *place, evidence, identity=identity, cells=record.cells, key_labels=keys))
    assume_the_rest(request, [c.evidence for c in found])
    return found


def _context_of(record: TextRecord) -> str:
    document = record.source.document
    return " ".join((*record.source.outline.headings_at(record.start), document.title, PurePosixPath(document.path).stem))
