"""Lists: every record of the tables that meets a request, counted; out of prose, the names that may be meant.

Rows of tables are compared one by one. Prose is not counted: a list of names found in it lacks too many, and has too many others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from localrag.analysis.list_request import (
    MAX_REQUEST_CHARS,
    ListRequest,
    RequestWord,
    asks_for_all,
    asks_how_many,
    is_list_request,
    parse_list_request,
)
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.request_words import NO_HIT, WordHit, compared_labels, hits_in, is_about, is_number, meant_columns, meets
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import Cells, RecordTable, TextRecord, chunk_at, is_identifier, record_tables
from localrag.indexing.graph.entity_resolution import name_key
from localrag.project import Project
from localrag.query.question import AnswerDraft, AnswerPoint, Question
from localrag.records import Quote
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import graph
from localrag.store.full_text import search_chunks
from localrag.text.kinds import TextKind, classify_sentence
from localrag.text.language import frame_text
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


# Records: candidates, and what speaks for them. One is an item if it meets all conditions.

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
    key_label: str = ""  # of the cell that names it


def record_candidates(table: RecordTable, request: ListRequest) -> list[ItemCandidate]:
    """Each record of a table as a candidate, by its key, or by another column that is asked for: "Which countries …?"."""
    key = table.key_label
    others = (label for label in table.labels if label != key and not is_identifier(label))
    asked = next((label for label in others if is_about(request.head, label)), "")
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
        name = record.value(asked or key)
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
        found.append(ItemCandidate(name, *place, evidence, identity=identity, cells=record.cells, key_label=key))
    assume_the_rest(request, [c.evidence for c in found])
    return found


def _context_of(record: TextRecord) -> str:
    document = record.source.document
    return " ".join((*record.source.outline.headings_at(record.start), document.title, PurePosixPath(document.path).stem))


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


def _row(item: Sequence[ItemCandidate]) -> TableRow:
    ranked = sorted(item, key=lambda c: (c.source.document.path, c.start))
    quoted = {c.source.document.path: c for c in reversed(ranked)}
    citations = tuple(c.source.cite(c.start, c.end, chunk_at(c.source, c.start)) for c in list(quoted.values())[::-1][:MAX_QUOTES])
    paths = ", ".join(c.path for c in citations)
    cells = Cell(ranked[0].name, citations), Cell(collapse_whitespace(citations[0].quote), citations), Cell(paths, citations)
    return TableRow(cells, key=ranked[0].name)


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
    asked = request.text.casefold().split()
    return all(w in asked or w in STOP_WORDS or is_about(request.head, w) for w in name.casefold().split())


# Answers

MAX_LISTED = 100  # items in an answer


def list_draft(asked: Question, project: Project) -> AnswerDraft | None:
    """The answer to a question that asks for all records of a kind; None for any other, and where no record matches for certain.

    Of a question for all or for a number that no record answers, a draft that only has a note: that passages are not counted.
    """
    question = asked.text
    if len(question) > MAX_REQUEST_CHARS or not is_list_request(question, project):
        return None
    uncounted = AnswerDraft((), note=frame_text("nearest_only", question)) if asks_for_all(question) else None
    return _records_draft(question, project) or uncounted


def _records_draft(question: str, project: Project) -> AnswerDraft | None:
    """The matching records; None where none matches for certain."""
    request = parse_list_request(question)
    chosen, total = matching_records(record_tables(opened_documents(project)), request)
    if not any(c.evidence.is_about or c.evidence.head.share for c in chosen) or _is_about_one(request, chosen):
        return None
    items = [item[0] for item in merge_items(chosen, project)]
    files = ", ".join(sorted({PurePosixPath(c.source.document.path).name for c in chosen}))
    opening = frame_text("records", question, n=len(items), total=total, files=files)
    more = f" {len(items) - MAX_LISTED} more." * (len(items) > MAX_LISTED)
    points = tuple(map(_point, items[:MAX_LISTED]))
    note = frame_text("records_compared", question, total=total) + more
    return AnswerDraft(points, opening, note=note, is_list=True, reason="it asks for all records of a kind")


def _is_about_one(request: ListRequest, chosen: Sequence[ItemCandidate]) -> bool:
    """Whether a question names a record, or asks for a number that stands in one, as "How many crew did the Skua have?" does."""
    numbers = {label for c in chosen for label, value in c.cells if is_number(value)}
    for c in chosen:
        for word, hit in zip(request.words, c.evidence.hits, strict=False):
            if (hit.label and hit.label == c.key_label) or (hit.label in numbers and not hit.fullness and not word.is_optional):
                return True
    return asks_how_many(request.text) and any(is_about(request.head, label) for label in numbers)


def _point(item: ItemCandidate) -> AnswerPoint:
    text = item.source.document.text[item.start : item.end]
    return AnswerPoint(item.name, (Quote(chunk_at(item.source, item.start), item.start, item.end, text),))
