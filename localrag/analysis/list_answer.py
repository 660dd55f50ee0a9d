"""Questions that ask for all of a kind, or how many there are, answered with all records of tables that match.

Prose is not counted: there a list lacks items too often for an answer to say how many there are.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from localrag.analysis.item_candidates import ItemCandidate
from localrag.analysis.item_list import matching_records
from localrag.analysis.list_request import MAX_REQUEST_CHARS, ListRequest, asks_for_all, asks_how_many, is_list_request, parse_list_request
from localrag.analysis.merged_items import merge_items
from localrag.analysis.placed_sentences import opened_documents
from localrag.analysis.request_words import is_about, is_number
from localrag.analysis.text_records import chunk_at, record_tables
from localrag.project import Project
from localrag.query.question import AnswerDraft, AnswerPoint, Question
from localrag.records import Quote
from localrag.text.language import detect_language

MAX_LISTED = 100  # items in an answer
# By language: how many match; the note.
_TEXTS = {
    "en": ("{n} of {total} records match ({files}):", "All {total} records were compared; prose was not."),
    "de": (
        "{n} von {total} Datensätzen passen ({files}):",
        "Alle {total} Datensätze wurden verglichen, Fließtext nicht.",
    ),
}
_NOT_COUNTED = {
    "en": "These are the nearest passages, not all that match.",
    "de": "Das sind die nächsten Stellen, nicht alle, die passen.",
}


def list_draft(asked: Question, project: Project) -> AnswerDraft | None:
    """The answer to a question that asks for all records of a kind; None for any other, and where no record matches for certain.

    Of a question for all or for a number that no record answers, a draft that only has a note: that passages are not counted.
    """
    question = asked.text
    if len(question) > MAX_REQUEST_CHARS or not is_list_request(question, project):
        return None
    uncounted = _NOT_COUNTED.get(detect_language(question), _NOT_COUNTED["en"])
    return _records_draft(question, project) or (AnswerDraft((), note=uncounted) if asks_for_all(question) else None)


def _records_draft(question: str, project: Project) -> AnswerDraft | None:
    """The matching records; None where none matches for certain."""
    request = parse_list_request(question)
    chosen, total = matching_records(record_tables(opened_documents(project)), request)
    if not any(c.evidence.is_about or c.evidence.head.share for c in chosen) or _is_about_one(request, chosen):
        return None
    items = [item[0] for item in merge_items(chosen, project)]
    files = ", ".join(sorted({PurePosixPath(c.source.document.path).name for c in chosen}))
    head, note = _TEXTS.get(detect_language(question), _TEXTS["en"])
    opening = head.format(n=len(items), total=total, files=files)
    more = f" {len(items) - MAX_LISTED} more." * (len(items) > MAX_LISTED)
    points = tuple(map(_point, items[:MAX_LISTED]))
    return AnswerDraft(points, opening, note=note.format(total=total) + more, is_list=True, reason="it asks for all records of a kind")


def _is_about_one(request: ListRequest, chosen: Sequence[ItemCandidate]) -> bool:
    """Whether a question names a record, or asks for a number that stands in one, as "How many crew did the Skua have?" does."""
    numbers = {label for c in chosen for label, value in c.cells if is_number(value)}
    for c in chosen:
        for word, hit in zip(request.words, c.evidence.hits, strict=False):
            if hit.label in c.key_labels or (hit.label in numbers and not hit.fullness and not word.is_optional):
                return True
    return asks_how_many(request.text) and any(is_about(request.head, label) for label in numbers)


def _point(item: ItemCandidate) -> AnswerPoint:
    text = item.source.document.text[item.start : item.end]
    return AnswerPoint(item.name, (Quote(chunk_at(item.source, item.start), item.start, item.end, text),))
