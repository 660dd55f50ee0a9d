"""Lists: every record of the tables that meets a request, counted; out of prose, the names that may be meant.

Rows of tables are compared one by one. Prose is not counted: a list of names found in it lacks too many, and has too many others.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from localrag.analysis.item_candidates import ItemCandidate, are_met, record_candidates, table_rank
from localrag.analysis.list_request import MAX_REQUEST_CHARS, ListRequest, asks_for_all, asks_how_many, is_list_request, parse_list_request
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.request_words import hits_in, is_about, is_number
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import RecordTable, chunk_at, record_tables
from localrag.indexing.graph.entity_resolution import name_key
from localrag.project import Project
from localrag.query.question import AnswerDraft, AnswerPoint, Question
from localrag.records import Quote
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import graph
from localrag.store.full_text import search_chunks
from localrag.text.kinds import TextKind, classify_sentence
from localrag.text.language import detect_language
from localrag.text.quotes import sentence_quotes
from localrag.text.sentences import STOP_WORDS, collapse_whitespace

MAX_PASSAGES = 500  # chunks whose names are candidates
MAX_CANDIDATES = 50
MIN_SHARE = 0.5  # of the words of a request that a sentence must exceed
MAX_QUOTES = 5  # of an item, one a document
COLUMNS = (Column("item", "text"), Column("statement", "text"), Column("document", "text"))
CANDIDATES = "Candidates from prose, the likeliest first. They are neither certain nor complete."


def list_items(project: Project, request: str, *, on_work: OnWork | None = None) -> ResultTable:
    """The records that a request such as "all vessels that sank" asks for, each once; where no table has any, names in prose.

    The table has the columns item, statement and document; its figures are `records_compared`, `items` and `candidates`. Raises
    UsageError for an empty request.
    """
    parsed = parse_list_request(request)
    chosen, compared = matching_records(record_tables(opened_documents(project, on_work)), parsed)
    items = merge_items(chosen, project)
    rows = [_row(item) for item in items]
    candidates = [] if items else _prose_rows(parsed, project)
    figures = {"records_compared": compared, "items": len(items), "candidates": len(candidates)}
    note = CANDIDATES if candidates else "No record of a table matches, and no passage names a candidate."
    if items:
        note = f"All {compared:,} rows of the tables that fit best were compared. Prose is not part of the list."
    return make_table("list", parsed.text, COLUMNS, [*rows, *candidates], note, figures)


def _row(item: Sequence[ItemCandidate]) -> TableRow:
    ranked = sorted(item, key=lambda c: (c.source.document.path, c.start))
    quoted = {c.source.document.path: c for c in reversed(ranked)}
    citations = tuple(c.source.cite(c.start, c.end, chunk_at(c.source, c.start)) for c in list(quoted.values())[::-1][:MAX_QUOTES])
    paths = ", ".join(c.path for c in citations)
    cells = Cell(ranked[0].name, citations), Cell(collapse_whitespace(citations[0].quote), citations), Cell(paths, citations)
    return TableRow(cells, key=ranked[0].name)


# Records


def matching_records(tables: Iterable[RecordTable], request: ListRequest) -> tuple[list[ItemCandidate], int]:
    """The records that meet all conditions, in the tables that fit a request best; and how many records these have."""
    groups = list(filter(None, (record_candidates(table, request) for table in tables)))
    ranks = [table_rank([c.evidence for c in group]) for group in groups]
    best = max(ranks, default=(0, 0, 0))
    fitting = [group for group, rank in zip(groups, ranks, strict=True) if rank == best]
    compared = [c for group in fitting if group[0].evidence.words == fitting[0][0].evidence.words for c in group]
    return [c for c, is_met in zip(compared, are_met([c.evidence for c in compared]), strict=True) if is_met], len(compared)


def merge_items(candidates: Sequence[ItemCandidate], project: Project) -> list[list[ItemCandidate]]:
    """Return the candidates of each item, in the order in which the items first stand in the documents; one item has several names."""
    ids = graph.entity_ids_by_name(project.db, {c.name for c in candidates})
    groups: dict[tuple[str, ...], list[ItemCandidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (c.source.document.path, c.start, c.name)):
        known = ids.get(candidate.name.lower(), ())
        key = candidate.identity or (known[0] if len(known) == 1 else name_key(candidate.name),)
        groups.setdefault(key, []).append(candidate)
    return list(groups.values())


# Prose


def _prose_rows(request: ListRequest, project: Project) -> list[TableRow]:
    """Return the entities whose sentences have most of the request, each with that sentence; of equals those whose type is asked for."""
    words = " ".join([request.head, *(w.text for w in request.words), *(word for c in request.comparisons for word in c.words)])
    found = [chunk_id for chunk_id, _ in search_chunks(project.db, words, MAX_PASSAGES)]
    chunks = {chunk.id: chunk for chunk in chunks_store.chunks_by_id(project.db, found)}
    mentions = graph.mentions_in(project.db, found)
    entities = {e.id: e for e in graph.entities(project.db, sorted({m.entity_id for m in mentions}))}
    best: dict[str, tuple[float, Quote]] = {}
    for mention in mentions:
        if _is_generic(entities[mention.entity_id].name, request):
            continue
        sentence = sentence_quotes(chunks[mention.chunk_id], mention.start, mention.end)[0]
        if classify_sentence(sentence.text) is TextKind.PROSE:
            share = _part_met(request, sentence.text)
            if share > max(best.get(mention.entity_id, (0.0,))[0], MIN_SHARE):
                best[mention.entity_id] = share, sentence
    fit = _fit_of_types(request.head, {entities[key].type for key in best}, project)
    order = {chunk_id: n for n, chunk_id in enumerate(found)}
    ranked = sorted(best, key=lambda k: (-best[k][0], -fit[entities[k].type], order[best[k][1].chunk_id], best[k][1].start))
    return [_prose_row(entities[key].name, best[key][1], project) for key in ranked[:MAX_CANDIDATES]]


def _prose_row(name: str, quote: Quote, project: Project) -> TableRow:
    document = documents_store.find_document(project.db, documents_store.document_path(project.db, quote.chunk_id))
    assert document is not None
    cited = (OpenedDocument(document, []).cite(quote.start, quote.end, quote.chunk_id),)
    return TableRow((Cell(name, cited), Cell(collapse_whitespace(quote.text), cited), Cell(document.path, cited)), name)


def _fit_of_types(head: str, types: Iterable[str], project: Project) -> dict[str, float]:
    """Return type of entity → the cosine of its name and the noun asked for; 0 without a noun."""
    named = sorted(types)
    if not head or not named:
        return dict.fromkeys(named, 0.0)
    noun, *others = project.embedder.embed([head, *named])
    return {name: float(noun @ other) for name, other in zip(named, others, strict=True)}


def _part_met(request: ListRequest, sentence: str) -> float:
    """Return the share of the words of a request that a sentence has in their sense; 1 for a request without conditions."""
    hits = hits_in(request.words, (("", sentence),))
    return sum(h.share for h in hits if not h.is_opposed) / len(hits) if hits else 1.0


def _is_generic(name: str, request: ListRequest) -> bool:
    """Whether a name has no other words than small ones and those of the request."""
    asked = request.text.casefold().split()
    return all(w in asked or w in STOP_WORDS or is_about(request.head, w) for w in name.casefold().split())


# Answers

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
