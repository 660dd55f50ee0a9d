"""Records of tables as candidates for the items of a list."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from localrag.analysis.item_evidence import ItemEvidence, assume_the_rest, record_evidence
from localrag.analysis.list_request import ListRequest, RequestWord
from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.request_words import compared_labels, is_about, meant_columns
from localrag.analysis.text_records import Cells, RecordTable, TextRecord, is_identifier

MIN_HEAD_FULLNESS = 0.6  # of a value that is the noun asked for, from which on that noun is a condition
MAX_SAMPLED_RECORDS = 200  # of a table, by which the columns with numbers are told


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
