"""Complete lists: every item in the documents that a request asks for, once, with the quote that shows it.

Records of tables are all looked at. Of prose, the passages that have a word of the request or are near it in meaning are read, up to a
maximum that is said.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from localrag.analysis.item_candidates import ItemCandidate, ReadPassage, prose_candidates, read_passages_of, record_candidates
from localrag.analysis.list_request import ListRequest, parse_list_request
from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.reading import entailments, read_passages
from localrag.analysis.request_words import hits_in
from localrag.analysis.tables import OnWork
from localrag.analysis.text_records import RecordTable, record_tables
from localrag.project import Project
from localrag.store import chunks as chunks_store
from localrag.store import graph, vectors
from localrag.store.full_text import search_chunks

MAX_PASSAGES = 2_000  # chunks whose prose is read
ALWAYS_READ = 300  # chunks of a small index, all of which are read
NEAREST = 200  # chunks that are read for their meaning alone
MAX_READ_RECORDS = 2_000  # different records that the reader judges; the others are judged by words and numbers
SAMPLED_RECORDS = 30  # of a table without a word of the request, to see whether the reader finds anything in it
BATCH = 64
MIN_RELEVANCE = -3.0  # logit of a passage's relevance from which on its sentences are read
MIN_SPAN_SCORE = -6.0  # log odds of a span in a sentence from which on it is a candidate


@dataclass(slots=True)
class Gathered:
    """Candidates: of each table, and of prose; and how much was read."""

    of_tables: list[list[ItemCandidate]] = field(default_factory=list)
    of_prose: list[ItemCandidate] = field(default_factory=list)
    matching: int = 0
    read: int = 0


def gather(request: ListRequest, project: Project, on_work: OnWork | None = None) -> Gathered:
    """All candidates with their evidence. Raises UsageError without a reader, ModelError."""
    gathered = Gathered()
    ids, gathered.matching = _matching_chunks(request, project)
    sources = list(opened_documents(project))
    tables = record_tables(sources)
    for table in tables:
        if (candidates := _table_candidates(table, request, project)):
            gathered.of_tables.append(candidates)
    passages = list(_passages(sources, tables, set(ids)))
    gathered.read = len(ids)
    gathered.of_prose = _prose(passages, request, project, on_work)
    return gathered


def _matching_chunks(request: ListRequest, project: Project) -> tuple[list[str], int]:
    """The chunks to read, best first, and how many match."""
    everything = chunks_store.chunk_ids(project.db)
    if len(everything) <= ALWAYS_READ:
        return everything, len(everything)
    words = " ".join([request.head, *(w.text for w in request.words)])
    by_words = search_chunks(project.db, words, len(everything))
    vector = project.embedder.embed([request.text])[0]
    wanted = NEAREST if by_words else MAX_PASSAGES
    by_meaning = vectors.nearest(project.db, project.folder, "chunk", vector, wanted)
    rank: defaultdict[str, float] = defaultdict(float)
    for found in (by_words, by_meaning):
        for n, (chunk, _) in enumerate(found):
            rank[chunk] += 1 / (10 + n)
    best = sorted(rank, key=lambda c: (-rank[c], c))
    return best[:MAX_PASSAGES], len(best)


# Records


def _table_candidates(table: RecordTable, request: ListRequest, project: Project) -> list[ItemCandidate]:
    candidates = record_candidates(table, request)
    is_met = any(c.evidence.head.share or c.evidence.is_about or any(h.share for h in c.evidence.hits) or any(x is not None for x in c.evidence.comparisons) for c in candidates)
    patterns: dict[str, list[ItemCandidate]] = {}
    for candidate in candidates:
        patterns.setdefault(candidate.pattern, []).append(candidate)
    order = sorted(patterns.values(), key=lambda group: -group[0].evidence.coverage)
    if not is_met:
        step = max(1, len(order) // SAMPLED_RECORDS)
        sample = read_passages(request.question, [g[0].premise for g in order[::step]], project)
        if max((r.relevance for r in sample), default=-99.0) < MIN_RELEVANCE:
            return []
    _read([g[0] for g in order[:MAX_READ_RECORDS]], request, project, None)
    for group in order[:MAX_READ_RECORDS]:
        for other in group[1:]:
            other.evidence.entailment, other.evidence.reading = group[0].evidence.entailment, group[0].evidence.reading
    return candidates


def _read(candidates: Sequence[ItemCandidate], request: ListRequest, project: Project, on_work: OnWork | None) -> None:
    """Let the reader judge candidates by their premises."""
    judged = entailments([(c.premise, request.hypothesis.replace("{}", c.name)) for c in candidates], project, on_work)
    for start in range(0, len(candidates), BATCH):
        batch = candidates[start : start + BATCH]
        for c, reading in zip(batch, read_passages(request.question, [c.premise for c in batch], project), strict=True):
            c.evidence.reading = reading
    for c, entailment in zip(candidates, judged, strict=True):
        c.evidence.entailment = entailment


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
    for start in range(0, len(passages), BATCH):
        batch = passages[start : start + BATCH]
        for passage, reading in zip(batch, read_passages(request.question, [p.text for p in batch], project), strict=True):
            passage.reading = reading
        if on_work:
            on_work(start + len(batch), len(passages))
    kept = [p for p in passages if _is_promising(p, request)]
    spans = _spans_of_sentences(kept, request, project)
    _add_mentions(kept, project)
    types = {e.id: e.type for e in graph.entities(project.db, sorted({m.entity_id for p in kept for m in p.mentions}))}
    candidates = [c for p, found in zip(kept, spans, strict=True) for c in prose_candidates(p, request, types, found)]
    _read(candidates, request, project, None)
    return candidates


def _is_promising(passage: ReadPassage, request: ListRequest) -> bool:
    assert passage.reading is not None
    return passage.reading.relevance >= MIN_RELEVANCE or any(h.share for h in hits_in(request.words, (("", passage.text),)))


def _spans_of_sentences(passages: Sequence[ReadPassage], request: ListRequest, project: Project) -> list[list[tuple[int, int]]]:
    """For each passage the answers in it and in each of its sentences, as offsets in the document."""
    spans: list[list[tuple[int, int]]] = []
    sentences = [(n, s) for n, p in enumerate(passages) if len(p.sentences) > 1 for s in p.sentences]
    for p in passages:
        assert p.reading is not None
        spans.append([(p.start + p.reading.start, p.start + p.reading.end)] if p.reading.score >= MIN_SPAN_SCORE else [])
    for start in range(0, len(sentences), BATCH):
        batch = sentences[start : start + BATCH]
        texts = [s.source.document.text[s.start : s.end] for _, s in batch]
        for (n, s), reading in zip(batch, read_passages(request.question, texts, project), strict=True):
            if reading.score >= MIN_SPAN_SCORE:
                spans[n].append((s.start + reading.start, s.start + reading.end))
    return spans


def _add_mentions(passages: Iterable[ReadPassage], project: Project) -> None:
    by_chunk: defaultdict[str, list[ReadPassage]] = defaultdict(list)
    for passage in passages:
        for chunk in passage.source.chunks:
            if chunk.start < passage.end and passage.start < chunk.end:
                by_chunk[chunk.id].append(passage)
    for mention in graph.mentions_in(project.db, sorted(by_chunk)):
        for passage in by_chunk[mention.chunk_id]:
            if passage.start <= mention.start and mention.end <= passage.end and all((m.start, m.end) != (mention.start, mention.end) for m in passage.mentions):
                passage.mentions.append(mention)
