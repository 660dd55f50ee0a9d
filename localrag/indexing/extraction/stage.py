"""Stage 2: chunks to stored extractions, by phrases at once, then by the model; extractions with today's hash are kept."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from typing import Any, TypeVar

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.indexing.extraction.extract import extract_chunk, extraction_hash
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import PHRASES_HASH, extract_noun_phrases
from localrag.indexing.method import IndexingMethod, record_extraction_speed
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.tasks import Task, TaskContext, WorkerPool, run_in_order
from localrag.llm.model import CALL_ERRORS, CURRENT_CONFIG_HASH, CURRENT_SUBJECT, DROPPED_ROWS, bounded_map
from localrag.project import Project, resolve_answer_style
from localrag.records import IMPORTED_MARK, Chunk, Extraction, Failure, content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import graph, runs
from localrag.text.sentences import cache_sentence_bounds, sentence_bounds

TAGGER_BATCH = 8  # chunks: the tagger computes one text at a time, and some of them also need the model

One = TypeVar("One")


@dataclass(frozen=True)
class ChunkTask(Task[tuple[One, ...]]):
    """A task on chunks of one document with one result for each. `bounds`: their sentence spans, if known."""

    chunks: tuple[Chunk, ...]
    bounds: tuple[bytes, ...] = ()

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunks)

    @property
    def document_id(self) -> str:
        """The document of the chunks."""
        return self.chunks[0].document_id

    @property
    def parts(self) -> Sequence[Any]:
        """A task for each chunk."""
        bounds = self.bounds or (b"",) * len(self.chunks)
        return [replace(self, chunks=(c,), bounds=(b,) if b else ()) for c, b in zip(self.chunks, bounds, strict=True)]

    def join(self, results: Sequence[tuple[One, ...]]) -> tuple[One, ...]:
        """The results of all chunks, in order."""
        return tuple(chain.from_iterable(results))

    def _remember(self) -> None:
        for chunk, bounds in zip(self.chunks, self.bounds, strict=False):
            cache_sentence_bounds(chunk.text, bounds)


class SplitSentences(ChunkTask[bytes]):
    """Finds the sentences of chunks."""

    document_id = ""  # the chunks themselves are enough

    async def run(self, _tools: TaskContext) -> tuple[bytes, ...]:
        """The sentence spans of each chunk, as the index stores them."""
        return tuple(sentence_bounds(c.text) for c in self.chunks)


class FindPhrases(ChunkTask[Extraction]):
    """Extracts the names and phrases of chunks, without a model."""

    async def run(self, tools: TaskContext) -> tuple[Extraction, ...]:
        """An extraction of each chunk."""
        self._remember()
        case = tools.cached_per_document(self.document_id, DocumentCasing)
        return tuple(extract_noun_phrases(c, case) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class ExtractionAttempt:
    """The model's extraction of a chunk: complete, partial after a failed call (`error`, of a `kind`), or None if nothing could be
    extracted. `dropped_rows`: rows of the model's lists that name nothing in the text or have another form.
    """

    extraction: Extraction | None
    error: str = ""
    kind: str = ""
    dropped_rows: int = 0


@dataclass(frozen=True)
class ExtractChunks(ChunkTask[ExtractionAttempt]):
    """Extracts from chunks with the model, or with the tagger.

    `neighbour_texts`: content ids of the texts of the adjacent chunks, which share sentences with them. `path`: of their document.
    `uses_tagger`, `asks_model`: see `IndexingMethod`.
    """

    style: str = "extractive"
    neighbour_texts: tuple[str, ...] = ()
    path: str = ""
    uses_tagger: bool = False
    asks_model: bool = True

    @property
    def llm_task(self) -> str:
        """The first call's name stands for all calls on a chunk; empty if the tagger alone extracts."""
        return "entities" if self.asks_model or not self.uses_tagger else ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The content ids of the texts of the chunks and of the adjacent ones."""
        return (*(content_id(c.text) for c in self.chunks), *self.neighbour_texts)

    async def run(self, tools: TaskContext) -> tuple[ExtractionAttempt, ...]:
        """An attempt at each chunk. Raises ModelError if the model cannot be asked at all."""
        self._remember()
        # Abstractive: a conversation has one call at a time and needs its slot's KV for the next, so as many run as there are slots. An
        # extractive chunk has many calls at once.
        tagger = tools.tagger if self.uses_tagger else None
        size = TAGGER_BATCH if tagger else await tools.model.parallel_requests()
        size = size if self.style == "abstractive" else max(TAGGER_BATCH, size)
        of = (tools.settings, tools.model.file.fingerprint, self.style, tagger)
        CURRENT_CONFIG_HASH.set(extraction_hash(*of, asks_model=self.asks_model))
        return tuple(await bounded_map((self._one(c, tools) for c in self.chunks), size=size))

    async def _one(self, chunk: Chunk, tools: TaskContext) -> ExtractionAttempt:
        CURRENT_SUBJECT.set(content_id(chunk.text))
        case = tools.cached_per_document(self.document_id, DocumentCasing)
        lost: list[LocalragError] = []
        dropped = Counter[str]()
        DROPPED_ROWS.set(dropped)
        try:
            tagger = tools.tagger if self.uses_tagger else None
            of = (chunk, case, tools.model, tools.settings, self.style, lost, tagger)
            extraction = await extract_chunk(*of, path=self.path, asks_model=self.asks_model)
        except CALL_ERRORS as error:
            return ExtractionAttempt(None, str(error), error.kind)
        failure = (str(lost[0]), lost[0].kind) if lost else ("", "")
        return ExtractionAttempt(extraction, *failure, dropped.total())

    def on_failure(self, error: LocalragError) -> tuple[ExtractionAttempt, ...]:
        """An empty attempt for each chunk."""
        return tuple(ExtractionAttempt(None, str(error), error.kind) for _ in self.chunks)


def batches_of_document(chunks: Collection[Chunk], max_size: Callable[[int], int]) -> Iterator[tuple[Chunk, ...]]:
    """Batches of consecutive chunks of a document, each of at most `max_size(remaining chunks)`."""
    remaining = len(chunks)
    for _, group in groupby(chunks, key=lambda c: c.document_id):
        unit: list[Chunk] = []
        for chunk in group:
            unit.append(chunk)
            if len(unit) >= max_size(remaining):
                yield tuple(unit)
                remaining, unit = remaining - len(unit), []
        if unit:
            yield tuple(unit)
            remaining -= len(unit)


MAX_MEASURED_CHUNKS = 8  # of a sample that the chat model's speed is measured on
MAX_MEASURED_S = 60.0  # seconds that such a measurement takes at most


async def split_sentences(db: Database, pool: WorkerPool, progress: ProgressReporter, most: int = chunks_store.NO_LIMIT) -> None:
    """Split every new chunk into sentences, or at most `most`, the first ones by path."""
    pending = chunks_store.chunks_without_sentences(db, most)
    done = 0
    if pending:
        progress("sentences", 0, len(pending))
    tasks = (SplitSentences(chunks) for chunks in batches_of_document(pending, pool.batch_size))
    async for results in run_in_order(pool, tasks):
        chunks_store.save_sentences(db, {c.id: b for task, bounds in results for c, b in zip(task.chunks, bounds, strict=True)})
        done += sum(task.n_chunks for task, _ in results)
        progress("sentences", done, len(pending))


async def find_phrases(project: Project, pool: WorkerPool, progress: ProgressReporter, most: int = chunks_store.NO_LIMIT) -> None:
    """Extract names and phrases from every new chunk without a model, or from at most `most`, the first ones by path."""
    pending = chunks_store.chunks_without_extraction(project.db, PHRASES_HASH, most=most)
    done = 0
    if pending:
        progress("noun phrases", 0, len(pending))
    tasks = (FindPhrases(chunks, _bounds(chunks)) for chunks in batches_of_document(pending, pool.batch_size))
    async for results in run_in_order(pool, tasks):
        extractions = [x for _, those in results for x in those]
        chunks_store.save_extractions(project.db, PHRASES_HASH, extractions)
        progress.count_names(e.name for x in extractions for e in x.entities)
        done += len(extractions)
        progress("noun phrases", done, len(pending))


def _bounds(chunks: tuple[Chunk, ...]) -> tuple[bytes, ...]:
    return tuple(sentence_bounds(c.text) for c in chunks)


def chunks_to_extract(project: Project, method: IndexingMethod) -> chunks_store.PendingChunks:
    """The chunks without a complete extraction by this method or by another program."""
    return chunks_store.chunks_without_extraction(project.db, extraction_hash_of(project, method), IMPORTED_MARK)


def extraction_hash_of(project: Project, method: IndexingMethod) -> str:
    """The hash of everything that the method's extractions of this project depend on."""
    if method.by == "phrases":
        return PHRASES_HASH
    tagger = project.tagger if method.uses_tagger else None
    return extraction_hash(project.settings, project.model.file.fingerprint, method.style, tagger, asks_model=method.asks_model)


def _task(db: Database, chunks: tuple[Chunk, ...], method: IndexingMethod) -> ExtractChunks:
    near = tuple(map(content_id, chunks_store.neighbour_texts(db, chunks[0], chunks[-1])))
    path = documents_store.document_path(db, chunks[0].id)
    return ExtractChunks(chunks, _bounds(chunks), method.style, near, path, uses_tagger=method.uses_tagger, asks_model=method.asks_model)


async def measure_extraction(project: Project, pool: WorkerPool, limit: float) -> tuple[float, float]:
    """Extract from as many chunks as the chat model takes at once; returns the finished chunks and the seconds.

    Ends as soon as the rest would take longer than `limit`, after MAX_MEASURED_S at the latest. Requests under way are then answered if the
    finished ones promise that all is extracted within `limit`, else ended. The replies are cached for the extraction.
    """
    method = IndexingMethod("model", await resolve_answer_style(project), asks_model=True)
    pending = chunks_to_extract(project, method)
    await pool.prepare(asks=True)
    sample = list(islice(pending, min(MAX_MEASURED_CHUNKS, await project.model.parallel_requests())))
    jobs = [asyncio.ensure_future(pool.run(_task(project.db, (chunk,), method))) for chunk in sample]
    began = time.monotonic()
    try:
        finished, under_way = await asyncio.wait(jobs, timeout=min(MAX_MEASURED_S, limit * len(sample) / len(pending)))
        seconds = time.monotonic() - began
        if len(finished) * limit >= seconds * len(pending):
            await asyncio.gather(*under_way, return_exceptions=True)
    finally:
        for job in jobs:
            job.cancel()
        ended = await asyncio.gather(*jobs, return_exceptions=True)
    for result in ended:
        if isinstance(result, Exception):
            raise result
    return len(finished), seconds


async def extract_chunks(project: Project, method: IndexingMethod, pool: WorkerPool, progress: ProgressReporter) -> None:
    """Extract from every chunk without an extraction of this hash; a failure is recorded as a row."""
    db, key = project.db, extraction_hash_of(project, method)
    pending = chunks_to_extract(project, method)
    if not pending:
        return
    total = graph.counts(db)["chunks"]
    done, began, calls = total - len(pending), time.monotonic(), project.model.calls
    progress("extraction", done, total)
    tasks = (_task(db, chunks, method) for chunks in batches_of_document(pending, pool.batch_size))
    min_chunks = 1 if method.style == "abstractive" else TAGGER_BATCH
    async for results in run_in_order(pool, tasks, asks=not method.uses_tagger, min_chunks=min_chunks):
        pairs = [(chunk, attempt) for task, attempts in results for chunk, attempt in zip(task.chunks, attempts, strict=True)]
        _save(db, key, pairs)
        progress.count_names(e.name for _, attempts in results for a in attempts if a.extraction for e in a.extraction.entities)
        done += sum(task.n_chunks for task, _ in results)
        progress("extraction", done, total)
    if not method.uses_tagger and project.model.calls - calls >= len(pending):  # else most replies were cached
        record_extraction_speed(project.model.file, len(pending), time.monotonic() - began)


def _save(db: Database, key: str, attempts: Sequence[tuple[Chunk, ExtractionAttempt]]) -> None:
    """Store extractions and failures of several chunks in one transaction, and clear the failures of chunks that succeeded."""
    complete = [(chunk, a.extraction) for chunk, a in attempts if a.extraction and not a.error]
    with db.atomic():
        chunks_store.save_extractions(db, key, [extraction for _, extraction in complete])
        chunks_store.delete_extractions(db, partial_hash(key), [chunk.id for chunk, _ in complete])
        runs.clear_failures(db, "extraction", [chunk.id for chunk, _ in complete])
        for chunk, attempt in attempts:
            if attempt.error:
                chunks_store.save_extractions(db, partial_hash(key), [attempt.extraction] if attempt.extraction else [])
                runs.save_failure(db, Failure("extraction", chunk.id, attempt.error, attempt.kind))
        if dropped := sum(attempt.dropped_rows for _, attempt in attempts):
            stored = runs.load_settings(db).get("dropped_rows", {}).get(key, 0)
            runs.save_settings(db, dropped_rows={key: stored + dropped})


def partial_hash(key: str) -> str:
    """The hash of extractions with failed calls: the graph uses them, and the next run tries again."""
    return f"{key} in part"
