"""Complete lists: every item in the documents that a request asks for, once, with the quote that shows it.

Records of tables are all looked at. Of prose, the passages that have a word of the request are read, up to a maximum that is said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from localrag.analysis.item_candidates import ItemCandidate, ReadPassage, prose_candidates, read_passages_of, record_candidates
from localrag.analysis.item_evidence import are_met, probabilities, table_rank
from localrag.analysis.list_request import ListRequest, parse_list_request
from localrag.analysis.merged_items import merge_items
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import RecordTable, chunk_at, record_tables
from localrag.project import Project
from localrag.store import chunks as chunks_store
from localrag.store import graph
from localrag.store.full_text import search_chunks
from localrag.text.sentences import collapse_whitespace

MAX_PASSAGES = 5_000  # chunks whose prose is read
MAX_CANDIDATES = 200  # names in prose that are weighed
MIN_PROBABILITY = 0.5  # of an item that is listed
MAX_QUOTES = 5  # of an item, one a document


@dataclass(slots=True)
class GatheredCandidates:
    """What was found: records that match, of how many; names in prose that were weighed, of how many; and how many passages were read."""

    records: list[ItemCandidate] = field(default_factory=list)
    in_prose: list[ItemCandidate] = field(default_factory=list)
    compared: int = 0
    names: int = 0
    matching: int = 0
    read: int = 0


def list_items(project: Project, request: str, *, on_work: OnWork | None = None) -> ResultTable:
    """The items that a request asks for, such as "all vessels that sank", each once, with the quotes that show it.

    The table has the columns item, statement and document; its figures are `passages_matching`, `passages_read` and `items`. Raises
    UsageError for an empty request.
    """
    parsed = parse_list_request(request)
    gathered = gather(parsed, project, on_work)
    chances = probabilities([c.evidence for c in gathered.in_prose])
    likely = [(c, chance) for c, chance in zip(gathered.in_prose, chances, strict=True) if chance >= MIN_PROBABILITY]
    items = merge_items([*((c, 1.0) for c in gathered.records), *likely], project)
    figures = {"passages_matching": gathered.matching, "passages_read": gathered.read, "items": len(items)}
    note = _note(gathered, n_from_prose=len(items) - len(merge_items([(c, 1.0) for c in gathered.records], project)))
    columns = (Column("item", "text"), Column("statement", "text"), Column("document", "text"))
    return make_table("list", parsed.text, columns, map(_row, items), note, figures)


def _note(gathered: GatheredCandidates, *, n_from_prose: int) -> str:
    """How complete the list is: rows of tables are compared one by one, of prose nothing can be said."""
    notes = [f"All {gathered.compared:,} rows of the tables that fit best were compared."] * bool(gathered.records)
    if n_from_prose:
        notes.append(f"Items found in prose, which are neither certain nor complete: {n_from_prose:,}.")
    return " ".join(notes) or "No row of a table matches, and no passage shows an item."


def _row(item: Sequence[tuple[ItemCandidate, float]]) -> TableRow:
    """The row of an item, with the quotes of each document, best first."""
    ranked = sorted(item, key=lambda c: (-c[1], c[0].source.document.path, c[0].start))
    best, probability = ranked[0]
    quoted = list({c.source.document.path: c for c, _ in reversed(ranked)}.values())[::-1]
    citations = tuple(c.source.cite(c.start, c.end, chunk_at(c.source, c.start)) for c in quoted[:MAX_QUOTES])
    statement = collapse_whitespace(citations[0].quote)
    paths = ", ".join(c.path for c in citations)
    cells = Cell(best.name, citations, confidence=probability), Cell(statement, citations), Cell(paths, citations)
    return TableRow(cells, key=best.name)


def gather(request: ListRequest, project: Project, on_work: OnWork | None = None) -> GatheredCandidates:
    """All candidates with their evidence."""
    gathered = GatheredCandidates()
    ids, gathered.matching = _matching_chunks(request, project)
    sources = list(opened_documents(project))
    tables = record_tables(sources)
    gathered.records, gathered.compared = matching_records(tables, request)
    passages: list[ReadPassage] = []
    for n, source in enumerate(sources, 1):
        passages += _passages_of(source, tables, set(ids))
        if on_work:
            on_work(n, len(sources))
    gathered.read = len(ids)
    _add_mentions(passages, project)
    candidates = [c for p in passages for c in prose_candidates(p, request)]
    gathered.names, gathered.in_prose = len(candidates), _likeliest(candidates)
    return gathered


def _matching_chunks(request: ListRequest, project: Project) -> tuple[list[str], int]:
    """The chunks to read, best first, and how many match: those with a word of the request."""
    words = " ".join([request.head, *(w.text for w in request.words), *(word for c in request.comparisons for word in c.words)])
    found = [chunk for chunk, _ in search_chunks(project.db, words, len(chunks_store.chunk_ids(project.db)))]
    return found[:MAX_PASSAGES], len(found)


# Records


def matching_records(tables: Iterable[RecordTable], request: ListRequest) -> tuple[list[ItemCandidate], int]:
    """The records that meet all conditions, in the tables that fit a request best; and how many records these have."""
    groups = list(filter(None, (record_candidates(table, request) for table in tables)))
    ranks = [table_rank([c.evidence for c in group]) for group in groups]
    best = max(ranks, default=(0, 0, 0))
    fitting = [group for group, rank in zip(groups, ranks, strict=True) if rank == best]
    compared = [c for group in fitting if group[0].evidence.words == fitting[0][0].evidence.words for c in group]
    return [c for c, is_met in zip(compared, are_met([c.evidence for c in compared]), strict=True) if is_met], len(compared)


# Prose


def _passages_of(source: OpenedDocument, tables: Sequence[RecordTable], ids: set[str]) -> Iterator[ReadPassage]:
    """The passages of a document in the chunks that match, without its records."""
    spans = [(chunk.start, chunk.end) for chunk in source.chunks if chunk.id in ids]
    if spans:
        covered = sorted((r.start, r.end) for table in tables for r in table.records if r.source is source)
        yield from read_passages_of(source, spans, covered)


def _likeliest(candidates: Sequence[ItemCandidate]) -> list[ItemCandidate]:
    """The candidates in prose that have most of the request."""
    kept = sorted(candidates, key=lambda c: -c.evidence.strength)[:MAX_CANDIDATES]
    same = Counter(c.entity_id or c.name.casefold() for c in kept)
    for c in kept:
        c.evidence.n_passages = same[c.entity_id or c.name.casefold()]
    return kept


def _add_mentions(passages: Iterable[ReadPassage], project: Project) -> None:
    by_chunk: defaultdict[str, list[ReadPassage]] = defaultdict(list)
    for passage in passages:
        for chunk in passage.source.chunks:
            if chunk.start < passage.end and passage.start < chunk.end:
                by_chunk[chunk.id].append(passage)
    for mention in graph.mentions_in(project.db, sorted(by_chunk)):
        for passage in by_chunk[mention.chunk_id]:
            if (
                passage.start <= mention.start
                and mention.end <= passage.end
                and all((m.start, m.end) != (mention.start, mention.end) for m in passage.mentions)
            ):
                passage.mentions.append(mention)
