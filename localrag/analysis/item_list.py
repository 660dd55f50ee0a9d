"""Complete lists: every item in the documents that a request asks for, once, with the quote that shows it.

Records of tables are all looked at. Of prose, the passages that have a word of the request or are near it in meaning are read, up to a
maximum that is said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from localrag.analysis.item_candidates import ItemCandidate, ReadPassage, prose_candidates, read_passages_of, record_candidates
from localrag.analysis.item_evidence import are_met, probabilities, table_rank
from localrag.analysis.list_request import ListRequest, parse_list_request
from localrag.analysis.merged_items import merge_items
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.reading import entailments
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import RecordTable, chunk_at, record_tables
from localrag.project import Project
from localrag.store import chunks as chunks_store
from localrag.store import graph, vectors
from localrag.store.full_text import search_chunks
from localrag.text.sentences import collapse_whitespace

MAX_PASSAGES = 500  # chunks whose prose is read
NEAREST_PASSAGES = 30  # chunks that are read for their meaning alone
MAX_JUDGED = 200  # candidates in prose of which the reader judges whether their sentences say that they are items
MIN_PROBABILITY = 0.5  # of an item that is listed
MAX_QUOTES = 5  # of an item, one a document


@dataclass(slots=True)
class GatheredCandidates:
    """What was found: records that match, of how many; names in prose that were judged, of how many; and how many passages were read."""

    records: list[ItemCandidate] = field(default_factory=list)
    in_prose: list[ItemCandidate] = field(default_factory=list)
    compared: int = 0
    names: int = 0
    matching: int = 0
    read: int = 0


def list_items(project: Project, request: str, *, on_work: OnWork | None = None) -> ResultTable:
    """The items that a request asks for, such as "all vessels that sank", each once, with the quotes that show it.

    The table has the columns item, statement and document; its figures are `passages_matching`, `passages_read` and `items`. Raises
    UsageError for an empty request and without a reader, ModelError.
    """
    parsed = parse_list_request(request)
    gathered = gather(parsed, project, on_work)
    chances = probabilities([c.evidence for c in gathered.in_prose])
    likely = [(c, chance) for c, chance in zip(gathered.in_prose, chances, strict=True) if chance >= MIN_PROBABILITY]
    items = merge_items([*((c, 1.0) for c in gathered.records), *likely], project)
    figures = {"passages_matching": gathered.matching, "passages_read": gathered.read, "items": len(items)}
    columns = (Column("item", "text"), Column("statement", "text"), Column("document", "text"))
    return make_table("list", parsed.text, columns, map(_row, items), _note(gathered), figures)


def _note(gathered: GatheredCandidates) -> str:
    """How complete the list is."""
    records = f"All {gathered.compared:,} rows of the tables that fit best were compared. " * bool(gathered.compared)
    judged = len(gathered.in_prose)
    names = f" Of {gathered.names:,} names in them, the {judged:,} with most of the request were judged." * (judged < gathered.names)
    if gathered.read < gathered.matching:
        return f"{records}The {gathered.read:,} nearest of {gathered.matching:,} matching passages were read.{names}"
    return f"{records}All {gathered.read:,} matching passages were read.{names}" if gathered.read else f"{records}No passage matches."


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
    """All candidates with their evidence. Raises UsageError without a reader, ModelError."""
    gathered = GatheredCandidates()
    ids, gathered.matching = _matching_chunks(request, project)
    sources = list(opened_documents(project))
    tables = record_tables(sources)
    gathered.records, gathered.compared = matching_records(tables, request)
    passages = list(_passages(sources, tables, set(ids)))
    gathered.read = len(ids)
    _add_mentions(passages, project)
    candidates = [c for p in passages for c in prose_candidates(p, request)]
    gathered.names, gathered.in_prose = len(candidates), _judge(candidates, request, project, on_work)
    return gathered


def _matching_chunks(request: ListRequest, project: Project) -> tuple[list[str], int]:
    """The chunks to read, best first, and how many match: those with a word of the request, and the nearest in meaning."""
    words = " ".join([request.head, *(w.text for w in request.words)])
    by_words = search_chunks(project.db, words, len(chunks_store.chunk_ids(project.db)))
    by_meaning = vectors.nearest(project.db, project.folder, "chunk", project.embedder.embed([request.text])[0], NEAREST_PASSAGES)
    rank: defaultdict[str, float] = defaultdict(float)
    for found in (by_words, by_meaning):
        for n, (chunk, _) in enumerate(found):
            rank[chunk] += 1 / (10 + n)
    best = sorted(rank, key=lambda c: (-rank[c], c))
    return best[:MAX_PASSAGES], len(best)


# Records


def matching_records(tables: Iterable[RecordTable], request: ListRequest) -> tuple[list[ItemCandidate], int]:
    """The records that meet all conditions, in the tables that fit a request best; and how many records these have."""
    groups = list(filter(None, (record_candidates(table, request) for table in tables)))
    ranks = [table_rank([c.evidence for c in group]) for group in groups]
    best = max(ranks, default=(0, False, 0))
    fitting = [group for group, rank in zip(groups, ranks, strict=True) if rank == best]
    compared = [c for group in fitting if group[0].evidence.words == fitting[0][0].evidence.words for c in group]
    return [c for c, is_met in zip(compared, are_met([c.evidence for c in compared]), strict=True) if is_met], len(compared)


# Prose


def _passages(sources: Sequence[OpenedDocument], tables: Sequence[RecordTable], ids: set[str]) -> Iterator[ReadPassage]:
    covered: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for table in tables:
        for record in table.records:
            covered[record.source.document.id].append((record.start, record.end))
    for source in sources:
        spans = [(chunk.start, chunk.end) for chunk in source.chunks if chunk.id in ids]
        if spans:
            yield from read_passages_of(source, spans, sorted(covered[source.document.id]))


def _judge(candidates: Sequence[ItemCandidate], request: ListRequest, project: Project, on_work: OnWork | None) -> list[ItemCandidate]:
    """The candidates in prose that have most of the request, judged by the reader: do their sentences say that they are items?"""
    judged = sorted(candidates, key=lambda c: -c.evidence.strength)[:MAX_JUDGED]
    same = Counter(c.entity_id or c.name.casefold() for c in judged)
    said = entailments([(c.premise, request.hypothesis.replace("{}", c.name)) for c in judged], project, on_work)
    for c, entailment in zip(judged, said, strict=True):
        c.evidence.entailed, c.evidence.n_passages = entailment.entailed, same[c.entity_id or c.name.casefold()]
    return judged


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
