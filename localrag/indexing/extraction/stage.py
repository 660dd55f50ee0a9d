"""Stage 2: chunks to stored extractions, by phrases at once, then by the model; extractions with today's hash are kept."""

from collections.abc import Sequence

from sqlite_utils import Database

from localrag.indexing.extraction.extract import extraction_hash
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.extraction.tasks import (
    TAGGER_BATCH,
    ExtractChunks,
    ExtractionAttempt,
    FindPhrases,
    SplitSentences,
    batches_of_document,
)
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.tasks import WorkerPool, run_in_order
from localrag.project import Project
from localrag.records import IMPORTED_MARK, Chunk, Failure, content_id
from localrag.store import chunks as chunks_store
from localrag.store import graph, runs
from localrag.text.sentences import sentence_bounds


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


def chunks_to_extract(project: Project, style: str) -> chunks_store.PendingChunks:
    """The chunks without a complete extraction by the model or by another program."""
    return chunks_store.chunks_without_extraction(project.db, extraction_hash_of(project, style), IMPORTED_MARK)


def extraction_hash_of(project: Project, style: str) -> str:
    """The hash of everything that the model's extractions of this project depend on."""
    return extraction_hash(project.settings, project.model.file.fingerprint, style, project.tagger)


async def extract_chunks(project: Project, style: str, pool: WorkerPool, progress: ProgressReporter) -> None:
    """Extract from every chunk without an extraction of this hash; a failure is recorded as a row."""
    db, key = project.db, extraction_hash_of(project, style)
    pending = chunks_to_extract(project, style)
    if not pending:
        return
    total = graph.counts(db)["chunks"]
    done = total - len(pending)
    progress("extraction", done, total)
    tasks = (
        ExtractChunks(chunks, _bounds(chunks), style, _neighbour_texts(db, chunks))
        for chunks in batches_of_document(pending, pool.batch_size)
    )
    tagged = project.tagger is not None and style == "extractive"
    min_chunks = 1 if style == "abstractive" else TAGGER_BATCH
    async for results in run_in_order(pool, tasks, asks=not tagged, min_chunks=min_chunks):
        pairs = [(chunk, attempt) for task, attempts in results for chunk, attempt in zip(task.chunks, attempts, strict=True)]
        _save(db, key, pairs)
        progress.count_names(e.name for _, attempts in results for a in attempts if a.extraction for e in a.extraction.entities)
        done += sum(task.n_chunks for task, _ in results)
        progress("extraction", done, total)


def _neighbour_texts(db: Database, chunks: tuple[Chunk, ...]) -> tuple[str, ...]:
    return tuple(map(content_id, chunks_store.neighbour_texts(db, chunks[0], chunks[-1])))


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


def partial_hash(key: str) -> str:
    """The hash of extractions with failed calls: the graph uses them, and the next run tries again."""
    return f"{key} in part"
