"""Complete lists: every item in the documents that a request asks for, once, with the quote that shows it.

Records of tables are all looked at. Of prose, the passages that have a word of the request or are near it in meaning are read, up to a
maximum that is said.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from localrag.analysis.item_candidates import ItemCandidate, ReadPassage, prose_candidates, read_passages_of, record_candidates
from localrag.analysis.item_evidence import probabilities, table_rank, text_evidence
from localrag.analysis.list_request import ListRequest, parse_list_request
from localrag.analysis.merged_items import merge_items
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.reading import entailments, read_passages
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import RecordTable, chunk_at, record_tables
from localrag.project import Project
from localrag.store import chunks as chunks_store
from localrag.store import graph, vectors
from localrag.store.full_text import search_chunks
from localrag.text.sentences import collapse_whitespace

MAX_PASSAGES = 2_000  # chunks whose prose is read
ALWAYS_READ = 300  # chunks of a small index, all of which are read
MAX_NEAREST_PASSAGES = 200  # chunks that are read for their meaning alone
MAX_READ_RECORDS = 1_000  # different records that the reader judges; the others are judged by words and numbers
SAMPLED_RECORDS = 20  # of a table without a word of the request, to see whether the reader finds an answer in it
MIN_SAMPLE_RELEVANCE = 0.0  # logit of the relevance of one of them
PASSAGES_PER_BATCH = 64
MIN_PROBABILITY = 0.5  # of an item that is listed
MAX_QUOTES = 5  # of an item, one a document
MAX_READ_CLOSELY = 2_000  # passages whose sentences are read
MOST_RELEVANT = 100  # passages whose sentences are read although they have no word of the request
MIN_RELEVANCE, SURE_RELEVANCE = -5.0, 0.0  # logits of a passage's relevance: of those, and from which on all are


@dataclass(slots=True)
class GatheredCandidates:
    """Candidates: records of tables, and names in prose; and how much was read."""

    records: list[ItemCandidate] = field(default_factory=list)
    in_prose: list[ItemCandidate] = field(default_factory=list)
    matching: int = 0
    read: int = 0


def list_items(project: Project, request: str, *, on_work: OnWork | None = None) -> ResultTable:
    """The items that a request asks for, such as "all vessels that sank", each once, with the quotes that show it.

    The table has the columns item, statement and document; its figures are `passages_matching`, `passages_read` and `items`. Raises
    UsageError for an empty request and without a reader, ModelError.
    """
    parsed = parse_list_request(request)
    gathered = gather(parsed, project, on_work)
    chosen = [
        (candidate, probability)
        for group, of_records in ((gathered.records, True), (gathered.in_prose, False))
        for candidate, probability in zip(group, probabilities([c.evidence for c in group], of_records=of_records), strict=True)
        if probability >= MIN_PROBABILITY
    ]
    items = merge_items(chosen, project)
    figures = {"passages_matching": gathered.matching, "passages_read": gathered.read, "items": len(items)}
    columns = (Column("item", "text"), Column("statement", "text"), Column("document", "text"))
    return make_table("list", parsed.text, columns, map(_row, items), _note(gathered), figures)


def _note(gathered: GatheredCandidates) -> str:
    """How complete the list is."""
    if gathered.read < gathered.matching:
        return f"The {gathered.read:,} nearest of {gathered.matching:,} matching passages were read."
    n = f"{gathered.read:,} passage{'s' * (gathered.read != 1)}"
    if not gathered.read:
        return "There is no passage to read."
    return f"{'The only passage was' if gathered.read == 1 else f'All {n} were'} read."


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
    gathered.records = record_candidates_of(tables, request, project)
    passages = list(_passages(sources, tables, set(ids)))
    gathered.read = len(ids)
    gathered.in_prose = _prose(passages, request, project, on_work)
    return gathered


def _matching_chunks(request: ListRequest, project: Project) -> tuple[list[str], int]:
    """The chunks to read, best first, and how many match."""
    everything = chunks_store.chunk_ids(project.db)
    if len(everything) <= ALWAYS_READ:
        return everything, len(everything)
    words = " ".join([request.head, *(w.text for w in request.words)])
    by_words = search_chunks(project.db, words, len(everything))
    vector = project.embedder.embed([request.text])[0]
    wanted = MAX_NEAREST_PASSAGES if by_words else MAX_PASSAGES
    by_meaning = vectors.nearest(project.db, project.folder, "chunk", vector, wanted)
    rank: defaultdict[str, float] = defaultdict(float)
    for found in (by_words, by_meaning):
        for n, (chunk, _) in enumerate(found):
            rank[chunk] += 1 / (10 + n)
    best = sorted(rank, key=lambda c: (-rank[c], c))
    return best[:MAX_PASSAGES], len(best)


# Records


def record_candidates_of(tables: Iterable[RecordTable], request: ListRequest, project: Project) -> list[ItemCandidate]:
    """The records of the tables that fit a request best: by its words and numbers, or because the reader finds an answer in them."""
    groups = list(filter(None, (record_candidates(table, request) for table in tables)))
    ranks = [table_rank([c.evidence for c in group]) for group in groups]
    best = max(ranks, default=(0, False, 0))
    if best[2] or best[0] or (best[1] and not request.words and not request.comparisons):
        chosen = [c for group, rank in zip(groups, ranks, strict=True) if rank == best for c in group]
    else:
        chosen = [c for group in groups if _has_answer(group, request, project) for c in group]
    patterns: dict[str, list[ItemCandidate]] = {}
    for candidate in chosen:
        patterns.setdefault(candidate.pattern, []).append(candidate)
    ordered = sorted(patterns.values(), key=lambda same: -same[0].evidence.strength)[:MAX_READ_RECORDS]
    _judge_records([same[0] for same in ordered], request, project)
    for first, *others in ordered:
        for other in others:
            other.evidence.entailment, other.evidence.reading = first.evidence.entailment, first.evidence.reading
    return chosen


def _has_answer(candidates: Sequence[ItemCandidate], request: ListRequest, project: Project) -> bool:
    """Whether the reader finds an answer in one of some records of a table."""
    sample = candidates[:: max(1, len(candidates) // SAMPLED_RECORDS)]
    return any(r.relevance >= MIN_SAMPLE_RELEVANCE for r in read_passages(request.question, [c.premise for c in sample], project))


def _judge(candidates: Sequence[ItemCandidate], request: ListRequest, project: Project) -> None:
    """Let the reader judge by their premises whether candidates are of the list."""
    judged = entailments([(c.premise, request.hypothesis.replace("{}", c.name)) for c in candidates], project)
    for c, entailment in zip(candidates, judged, strict=True):
        c.evidence.entailment = entailment


def _judge_records(candidates: Sequence[ItemCandidate], request: ListRequest, project: Project) -> None:
    _judge(candidates, request, project)
    for start in range(0, len(candidates), PASSAGES_PER_BATCH):
        batch = candidates[start : start + PASSAGES_PER_BATCH]
        for c, reading in zip(batch, read_passages(request.question, [c.premise for c in batch], project), strict=True):
            c.evidence.reading = reading


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


def _prose(passages: Sequence[ReadPassage], request: ListRequest, project: Project, on_work: OnWork | None) -> list[ItemCandidate]:
    kept = _promising(passages, request, project, on_work)
    _read_sentences(kept, request, project)
    _add_mentions(kept, project)
    types = {e.id: e.type for e in graph.entities(project.db, sorted({m.entity_id for p in kept for m in p.mentions}))}
    candidates = [c for p in kept for c in prose_candidates(p, request, types)]
    _judge(candidates, request, project)
    return candidates


def _promising(passages: Sequence[ReadPassage], request: ListRequest, project: Project, on_work: OnWork | None) -> list[ReadPassage]:
    """The passages that have a word of the request, and those that the reader finds most relevant, in their order."""
    relevance: list[float] = []
    for start in range(0, len(passages), PASSAGES_PER_BATCH):
        texts = [p.text for p in passages[start : start + PASSAGES_PER_BATCH]]
        relevance += [r.relevance for r in read_passages(request.question, texts, project)]
        if on_work:
            on_work(start + len(texts), len(passages))
    strength = [text_evidence(request, p.text, "").strength for p in passages]
    order = sorted(range(len(passages)), key=lambda n: (-relevance[n], n))
    nearest = {n for n in order[:MOST_RELEVANT] if relevance[n] >= max(relevance[order[0]] - 4, MIN_RELEVANCE)}
    kept = [n for n in order if n in nearest or relevance[n] >= SURE_RELEVANCE or strength[n] > 0]
    return [passages[n] for n in sorted(sorted(kept, key=lambda n: -strength[n])[:MAX_READ_CLOSELY])]


def _read_sentences(passages: Sequence[ReadPassage], request: ListRequest, project: Project) -> None:
    sentences = [(p, s) for p in passages for s in p.sentences]
    for start in range(0, len(sentences), PASSAGES_PER_BATCH):
        batch = sentences[start : start + PASSAGES_PER_BATCH]
        texts = [s.source.document.text[s.start : s.end] for _, s in batch]
        for (p, _), reading in zip(batch, read_passages(request.question, texts, project), strict=True):
            p.readings.append(reading)


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
