"""The pipeline: runs the stages of indexing in order, each on the missing or changed part only.

Also plans a run without doing it (`localrag index --plan`), re-embeds, lays the graph out again, and erases documents with everything
derived from them (`localrag rm`).
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.engine.tokenizer import Tokenizer
from localrag.errors import IndexBusy, UsageError
from localrag.indexing.documents import (
    DEFAULT_DELETION,
    DeletionPolicy,
    FileChanges,
    LoadResult,
    changed_files,
    find_sources,
    split_document,
    update_documents,
)
from localrag.indexing.embeddings import changed_embedder, embed_chunks, embed_graph
from localrag.indexing.extraction.nlp import PHRASES_HASH, can_tag
from localrag.indexing.extraction.stage import chunks_to_extract, extract_chunks, find_phrases, measure_extraction, split_sentences
from localrag.indexing.garbage import collect_garbage, finish_erasure
from localrag.indexing.graph.stage import ImportCommunities, build_graph, has_extractive_graph, update_layout
from localrag.indexing.method import (
    PHRASES_METHOD,
    TAGGER_METHOD,
    TOKENS_PER_CHUNK_OF_WRITER,
    TOKENS_PER_REPORT_CHUNK,
    IndexingMethod,
    MethodChoice,
    choose_written_reports,
    describe_method,
    extraction_seconds,
    report_seconds,
    resolve_method,
    settle_reports,
)
from localrag.indexing.progress import CHUNK_STAGES, GRAPH_STAGES, REPORT_STAGES, ProgressReporter, RunProgress, stage_seconds
from localrag.indexing.report_stage import write_reports
from localrag.indexing.tasks import EmbedTexts, WorkerPool, run_in_order
from localrag.indexing.workers.pool import LocalPool, PoolFactory, in_process_pool, task_context
from localrag.llm.budgets import record_throughput
from localrag.llm.model import ChatModel
from localrag.llm.tagger import Tagger
from localrag.loaders.discover import DigestCache, exists_visibly, relative_path
from localrag.loaders.ocr import OcrPage, RenderPage, find_ocr, load_options
from localrag.loaders.reader import load_files
from localrag.model_files import ModelFile
from localrag.project import OpenIndex, Project, check_links_chosen, remember_sources
from localrag.records import Failure, SkippedFile
from localrag.settings import IndexSettings
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import erasure, generations, tombstones
from localrag.store import graph as graph_store
from localrag.store import runs as runs_store
from localrag.store.documents import file_stats
from localrag.store.retention import CollectedItems
from localrag.system.resources import infrequent_gc
from localrag.themes import missing_subject_names, save_subjects, update_themes

MIN_BATCH_CHUNKS = 4096  # chunks, some five minutes of the bundled model: extracted before the graph is first updated
PRELIMINARY_GRAPH_FROM_CHUNKS = 200  # for more, or for more seconds, a graph without the model is published first
PRELIMINARY_GRAPH_FROM_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class IndexResult:
    """The outcome of a run: documents, failures, seconds of each stage, and the use of the chat model.

    `computed_tokens` are tokens that the model read or wrote, without those of a cache; `tokens_per_s` is its decode speed, None if it
    wrote none. `garbage_collected` are deleted items.
    """

    documents: LoadResult
    failures: tuple[Failure, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    computed_tokens: int = 0
    tokens_per_s: float | None = None
    garbage_collected: tuple[CollectedItems, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every file was read and nothing failed."""
        return not self.failures and not any(s.is_failure for s in self.documents.skipped)


async def build_index(
    paths: Sequence[Path],
    project: Project,
    progress: Callable[[RunProgress], None],
    *,
    reports: bool = True,
    deletion: DeletionPolicy = DEFAULT_DELETION,
    collections: Sequence[str] = (),
    hire: PoolFactory = in_process_pool,
) -> IndexResult:
    """Index files and folders: load, chunk, embed, extract, resolve, describe, communities, layout, reports, embed.

    Running it again does only missing or changed work. `reports`: whether to continue after the graph. `deletion`: of documents without a
    file. `collections`: names of the collections that the documents of these paths are added to. `hire`: opens the worker pool.

    Raises UsageError if there is nothing to index.
    """
    check_links_chosen(project.db, project.settings, project.root)
    async with hire(project) as (pool_project, pool):
        return await _run(paths, pool_project, pool, progress, deletion, collections, reports=reports)


async def _run(
    paths: Sequence[Path],
    project: Project,
    pool: WorkerPool,
    progress: Callable[[RunProgress], None],
    deletion: DeletionPolicy,
    collections: Sequence[str],
    *,
    reports: bool,
) -> IndexResult:
    db = project.db
    before = _llm_usage(project.model)
    stages = (*CHUNK_STAGES, *["extraction"] * (project.settings.extractor != "phrases"), *GRAPH_STAGES, *REPORT_STAGES * reports)
    with _recorded_run(project) as run:
        reporter = ProgressReporter(project, run, progress, stages=stages, workers=pool.status)
        with generations.view_next_generation(db):
            loaded = await _stages(paths, project, pool, reporter, deletion, collections, reports=reports)
        _save_sources(paths, project)
        runs_store.delete_orphan_failures(db)
        if not finish_erasure(project):
            project.model.notify("Another process is reading what localrag rm removed; the next run empties the log.")
        collected = await collect_garbage(project, changed=loaded.n_changed > 0 or _llm_usage(project.model) != before)
        reporter.finish()
    return _result(project, loaded, reporter, before, tuple(collected))


def _result(
    project: Project, loaded: LoadResult, reporter: ProgressReporter, before: Sequence[int], collected: tuple[CollectedItems, ...]
) -> IndexResult:
    calls, read, wrote, computed = (now - then for now, then in zip(_llm_usage(project.model), before, strict=True))
    speed, failures = project.model.metrics().get("decode_tokens_per_s"), tuple(runs_store.failures(project.db))
    return IndexResult(loaded, failures, reporter.stage_seconds, calls, read, wrote, computed, speed, collected)


@contextmanager
def _recorded_run(project: Project) -> Iterator[int]:
    """Record in the index that a run began and how it ended: complete, partial, failed or interrupted. Yields the run's number."""
    db = project.db
    run, state = runs_store.start_run(db, os.getpid()), "failed"
    try:
        yield run
        state = "partial" if runs_store.failures(db) else "complete"
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        record_throughput(project.model.file, project.model.metrics())
        db.rollback()  # an interrupt can come between a block and its `__exit__`, which Python then does not call
        runs_store.end_run(db, run, state, project.model.metrics())


@contextmanager
def _reported_run(
    project: Project, progress: Callable[[RunProgress], None], stages: Sequence[str], pool: WorkerPool | None = None
) -> Iterator[ProgressReporter]:
    """A recorded run of these stages on the next generation."""
    with _recorded_run(project) as run:
        reporter = ProgressReporter(project, run, progress, stages=stages, workers=pool.status if pool else tuple)
        with generations.view_next_generation(project.db):
            yield reporter
        reporter.finish()


def _llm_usage(model: ChatModel) -> tuple[int, int, int, int]:
    """Calls, prompt tokens, output tokens and computed tokens of this process so far."""
    return model.calls, model.prompt_tokens, model.output_tokens, model.computed_tokens


def _save_sources(paths: Sequence[Path], project: Project) -> None:
    """Store the source paths, for later runs without paths."""
    stored = runs_store.load_settings(project.db).get("source_paths", [])
    sources = list(dict.fromkeys([*stored, *(relative_path(path, project.root) for path in paths if exists_visibly(path))]))
    remember_sources(project.db, project.root, paths)
    if sources != stored:
        runs_store.save_settings(project.db, source_paths=sources)


async def _stages(
    paths: Sequence[Path],
    project: Project,
    pool: WorkerPool,
    progress: ProgressReporter,
    deletion: DeletionPolicy,
    collections: Sequence[str],
    *,
    reports: bool,
) -> LoadResult:
    loaded = update_documents(paths, project, progress, deletion, collections)
    by_phrases, steps = project.settings.extractor == "phrases", (*GRAPH_STAGES, *REPORT_STAGES * reports)
    phrases = await resolve_method(project) if by_phrases else PHRASES_METHOD
    has_graph = runs_store.load_settings(project.db).get("graph_hash")
    new = len(chunks_store.chunks_without_extraction(project.db, PHRASES_HASH))
    n_chunks = graph_store.counts(project.db)["chunks"] if new or loaded.n_changed else 0
    progress.set_chunks(new, n_chunks)
    quoted = has_extractive_graph(project.db)  # else a graph without the model would replace the model's graph
    portions = _chunk_batches(new, n_chunks) if by_phrases or quoted else [chunks_store.NO_LIMIT]
    if len(portions) > 1:
        progress.set_next_stages([*CHUNK_STAGES[1:], *steps] * len(portions))
    for n, portion in enumerate(portions, 1):
        limit = portion if n < len(portions) else chunks_store.NO_LIMIT
        await embed_chunks(project, pool, progress, limit)
        await split_sentences(project.db, pool, progress, limit)
        await find_phrases(project, pool, progress, limit)
        if n < len(portions) or by_phrases:
            await _build_and_publish(project, phrases, pool, progress, reports=reports)
    if by_phrases:
        return loaded
    total = graph_store.counts(project.db)["chunks"]
    method = await resolve_method(project, partial(measure_extraction, project, pool))
    progress.set_method(method)
    n_pending = len(chunks_to_extract(project, method))
    if n_pending:
        project.model.notify(describe_method(method, project.model.file, n_pending, total))
    if quoted and (not has_graph or new >= PRELIMINARY_GRAPH_FROM_CHUNKS) and _is_long(project, method, n_pending):
        progress.set_next_stages((*steps, "extraction", *steps))
        await _build_and_publish(project, PHRASES_METHOD, pool, progress, reports=reports)
    await extract_chunks(project, method, pool, progress)
    method = await settle_reports(project, method)
    await _build_and_publish(project, method, pool, progress, reports=reports)
    return loaded


def _is_long(project: Project, method: IndexingMethod, n_pending: int) -> bool:
    """Whether extraction takes so long that a graph to query should be there before."""
    seconds = None if method.uses_tagger else extraction_seconds(project.model.file, n_pending)
    return n_pending >= PRELIMINARY_GRAPH_FROM_CHUNKS or (seconds or 0.0) >= PRELIMINARY_GRAPH_FROM_SECONDS


def _chunk_batches(new: int, whole: int) -> list[int]:
    """Split the new chunks into batches, after each of which the graph is updated.

    A batch has at least MIN_BATCH_CHUNKS and as many chunks as were read before it, so that all updates together cost at most twice as much
    as one.
    """
    portions, read = list[int](), whole - new
    while sum(portions) < new:
        portion = max(MIN_BATCH_CHUNKS, read)
        remaining = new - sum(portions)
        portions.append(portion if portion + MIN_BATCH_CHUNKS <= remaining else remaining)
        read += portions[-1]
    return portions or [0]


async def publish_imported(project: Project, progress: Callable[[RunProgress], None], import_communities: ImportCommunities) -> None:
    """Build and publish the graph of an import: documents and extractions that were stored, with the other program's communities and
    reports.

    The chat model is asked only for reports of communities that the other program has none of, and for content that was in the index
    before.
    """
    with _reported_run(project, progress, (*CHUNK_STAGES, *GRAPH_STAGES, *REPORT_STAGES)) as reporter:
        method, pool = await resolve_method(project), LocalPool(task_context(project))
        await embed_chunks(project, pool, reporter)
        await split_sentences(project.db, pool, reporter)
        await find_phrases(project, pool, reporter)
        await _build_and_publish(project, method, pool, reporter, import_communities=import_communities)


async def rebuild_graph(project: Project, progress: Callable[[RunProgress], None]) -> None:
    """Rebuild graph and reports from the stored extractions, after the user decided on a merge."""
    method = await resolve_method(project)
    reporter = ProgressReporter(project, None, progress, stages=(*GRAPH_STAGES, *REPORT_STAGES))
    with generations.view_next_generation(project.db):
        reporter.set_chunks(0, graph_store.counts(project.db)["chunks"])
        await _build_and_publish(project, method, LocalPool(task_context(project)), reporter)
    reporter.finish()


async def write_model_reports(
    project: Project, progress: Callable[[RunProgress], None], hire: PoolFactory = in_process_pool
) -> IndexResult:
    """Have the chat model write the reports of the stored graph, now and after changes. Raises UsageError, ModelError."""
    await choose_written_reports(project)
    async with hire(project) as (pool_project, pool):
        before, counts = _llm_usage(pool_project.model), graph_store.counts(pool_project.db)
        with _reported_run(pool_project, progress, (*GRAPH_STAGES, *REPORT_STAGES), pool) as reporter:
            reporter.set_files({}, [])
            reporter.set_chunks(0, counts["chunks"])
            method = await resolve_method(pool_project)
            reporter.set_method(method)
            await _build_and_publish(pool_project, method, pool, reporter)
        return _result(pool_project, LoadResult(counts["documents"]), reporter, before, ())


async def reembed(project: Project, progress: Callable[[RunProgress], None]) -> None:
    """Embed chunks, entities and reports with the project's embedder, in place of any other vectors; nothing else is recomputed."""
    db, pool = project.db, LocalPool(task_context(project))
    with _reported_run(project, progress, ("chunk embeddings", "entity embeddings", "report embeddings")) as reporter:
        chunks = graph_store.counts(db)["chunks"]
        reporter.set_chunks(chunks, chunks)
        await embed_chunks(project, pool, reporter)
        embedded = await embed_graph(project, pool, reporter, None, None)
        generations.publish(db, embedder=changed_embedder(project), settings={"graph_embeddings_hash": embedded})


async def _build_and_publish(
    project: Project,
    method: IndexingMethod,
    pool: WorkerPool,
    progress: ProgressReporter,
    *,
    reports: bool = True,
    import_communities: ImportCommunities | None = None,
) -> None:
    """Build everything that depends on extractions, and publish it together: graph, communities, reports and their vectors."""
    db = project.db
    with infrequent_gc(), ExitStack() as stack:
        built = await build_graph(project, method, pool, progress, import_communities)
        if built:
            stack.callback(built.staging.discard)
        layout, layout_hash = update_layout(project, progress, built) or (None, None)
        written = await write_reports(project, method.reports, pool, progress, built) if reports else None
        embedded = await embed_graph(project, pool, progress, built, written) if reports else None
        states: dict[str, Any] = {**built.settings, "reports_state": None} if built else {}
        states |= {**written.settings} if written else {}
        states |= {"layout_hash": layout_hash} if layout else {}
        states |= {"graph_embeddings_hash": embedded} if embedded != runs_store.load_settings(db).get("graph_embeddings_hash") else {}
        await asyncio.sleep(0)  # lets a pending interrupt be raised before anything is published
        generations.publish(
            db,
            built.staging if built else None,
            layout=layout,
            without_report=written.without if written else None,
            embedder=changed_embedder(project),
            settings=states,
        )
    if reports:
        progress("themes", 0, 1)
        names = missing_subject_names(db)
        async for embedded_names in run_in_order(pool, [EmbedTexts(names)] if names else []):
            for _, vectors in embedded_names:
                save_subjects(db, names, vectors)
        update_themes(db)
        progress("themes", 1, 1)


def documents_below(paths: Sequence[Path], opened: OpenIndex) -> list[str]:
    """The documents at or below the given paths, including removed ones that are not erased yet.

    Raises UsageError for a path without documents.
    """
    with generations.view_next_generation(opened.db):
        stored_paths = sorted({*documents_store.document_hashes(opened.db), *tombstones.removed_paths(opened.db)})
    matched: dict[str, None] = {}
    for path in paths:
        forms = {relative_path(p, opened.root) for p in (path, Path(os.path.realpath(path)))} | {path.as_posix().rstrip("/")}
        matching = [k for k in stored_paths if any(k == g or k.startswith(f"{g}/") or g == "." for g in forms)]
        if not matching:
            raise UsageError(f"The index has no document at {path}.", "List them: localrag files")
        matched |= dict.fromkeys(matching)
    return list(matched)


async def erase_documents(documents: Sequence[str], project: Project, progress: Callable[[RunProgress], None]) -> None:
    """Remove documents with everything derived from them, then rewrite the database without a trace of their text.

    Graph and reports are rebuilt from the remaining documents; cached model calls about other documents are kept. Conversations that cite
    the documents, cite nothing or contain their words are deleted, and so are copies of the database, studies and caches. An interrupted
    erasure is finished by the next `rm` or `index`. Raises IndexBusy if another process still reads the old data.
    """
    db = project.db
    with generations.view_next_generation(db):
        erasure.delete_documents(db, documents)
        if documents_store.document_hashes(db):
            await rebuild_graph(project, progress)
        else:
            erasure.delete_graph(db)
            generations.publish(db)
            generations.discard_staged(db)
    if not finish_erasure(project):
        raise IndexBusy(
            f"Another process is reading the index in {project.folder}, so its log still contains what was removed.",
            "End that process and run the same command again, or localrag index PATH.",
        )


# Calls and computed tokens (read or written, none from a cache) per chunk, of the bundled model on A Christmas Carol and the demo.
TYPICAL_CALLS_PER_CHUNK, TYPICAL_TOKENS_PER_CHUNK = 15.0, 1200.0
RANGE_FACTOR = 1.5  # a run may be that much faster or slower than earlier ones: texts differ, machines are busy
INDEX_BYTES_PER_TEXT_BYTE = 25  # bytes of the index per byte of text: text, full-text index, vectors, graph, reports


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The forecast of a run. `seconds` is a range, None if this machine's speed with the model `model` is not known yet.

    `method`: what extracts and writes the reports; None if that is decided by a measurement at the start of the run.
    """

    files: int
    unchanged: int
    to_read: int
    skipped: tuple[SkippedFile, ...]
    chunks: int
    calls: int
    tokens: int
    seconds: tuple[float, float] | None
    disk: int
    scans: int = 0  # pages to read by OCR
    scan_seconds: float = 0.0  # which that takes on one core
    model: str = ""
    method: IndexingMethod | None = None
    how: str = ""  # the method in words, with the time of the chat model
    embedder: str = ""


def plan_index(
    paths: Sequence[Path], root: Path, settings: IndexSettings, model: ModelFile, db: Database | None, *, tagger: Tagger | None = None
) -> IndexPlan:
    """Read the new files below the paths and count chunks and calls; nothing is stored. `db` is the index, if there is one.

    Without `tagger`, the chat model extracts.
    """
    options = load_options(settings)
    scanned: dict[Path, int] = {}

    def counted(file: Path, _hash: str, numbers: Sequence[int], _draw: RenderPage) -> dict[int, OcrPage]:
        scanned[file] = len(numbers)
        return {n: {"words": [], "why": "to be read"} for n in numbers}

    with generations.view_next_generation(db) if db else nullcontext():
        sources = find_sources(paths, root, settings, db)
        files = {relative_path(f, root): f for f in sources.files}
        look = _count_changes(files, root, settings, db)
        stored = chunks_store.chunk_texts(db) if db else set()
    files_to_read, skipped = list(look.to_read.values()), look.skipped
    unchanged = len(files) - len(files_to_read) - len(skipped)
    skipped += [SkippedFile(relative_path(p, root), reason, True) for p, reason in sources.unreadable.items()]
    skipped += [SkippedFile(relative_path(p, root), reason, False) for p, reason in sources.left_out.items()]
    counts = Tokenizer(model).counts
    chunks, untaggable, size, read = 0, 0, 0, 0
    for document in load_files(files_to_read, root, options, scans=counted):
        if isinstance(document, SkippedFile):
            if root / document.path in scanned:
                read += 1
            else:
                skipped.append(document)
            continue
        new_chunks = split_document(document, counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap)
        new = [c.text for c in new_chunks if c.text not in stored]
        chunks += len(new)
        untaggable += sum(not can_tag(text, settings) for text in new)
        size += len(document.text.encode())
        read += document.path in look.to_read
    whole = chunks + len(stored)
    choice = MethodChoice.planned(settings, model, tagger, db)
    extractor = choice.extractor(chunks, extraction_seconds(model, chunks))
    method = choice.method(extractor, whole) if extractor else None
    chunks_for_llm = 0 if extractor == "phrases" else chunks if extractor != "tagger" else untaggable * (method or TAGGER_METHOD).asks_model
    calls, tokens, seconds = _llm_cost(choice, method, chunks_for_llm, whole)
    if not chunks_for_llm:
        stages = (*CHUNK_STAGES, *["extraction"] * (extractor != "phrases"), *GRAPH_STAGES, *REPORT_STAGES)
        rest = sum(stage_seconds(stage, chunks, whole, method or TAGGER_METHOD) for stage in stages)
        seconds = (seconds[0] + rest / RANGE_FACTOR, seconds[1] + rest * RANGE_FACTOR) if seconds else None
    how = describe_method(method, model, chunks, whole) if method else f"Measured first: whether {model.name} extracts in time."
    cost = (round(calls), round(tokens), seconds, size * INDEX_BYTES_PER_TEXT_BYTE)
    return IndexPlan(
        *(len(files), unchanged, read, tuple(skipped), chunks, *cost),
        scans=sum(scanned.values()),
        scan_seconds=sum(scanned.values()) * (program.seconds if (program := find_ocr(options.ocr)) else 0.0),
        model=model.name,
        method=method,
        how=how,
    )


def _count_changes(files: dict[str, Path], root: Path, settings: IndexSettings, db: Database | None) -> FileChanges:
    """The files that a run would read. Any document whose file is missing may turn out to have moved."""
    if db is None:
        return FileChanges(files)
    missing = [path for path in documents_store.document_hashes(db) if path not in files and not exists_visibly(root / path)]
    return changed_files(files, missing, db, settings, DigestCache(file_stats(db)))


def _llm_cost(
    choice: MethodChoice, method: IndexingMethod | None, n_chunks: int, total_chunks: int
) -> tuple[float, float, tuple[float, float] | None]:
    """Calls, computed tokens and seconds of the chat model, None if its speed is unknown: extraction from `n_chunks`, and the reports if it
    writes them.
    """
    calls, tokens = (TYPICAL_CALLS_PER_CHUNK, TYPICAL_TOKENS_PER_CHUNK) if choice.is_small else (2.0, TOKENS_PER_CHUNK_OF_WRITER)
    reported = total_chunks if method and method.reports == "abstractive" else 0
    seconds = [extraction_seconds(choice.file, n_chunks)] * bool(n_chunks) + [report_seconds(choice.file, reported)] * bool(reported)
    total = None if None in seconds else sum(filter(None, seconds))
    spread = None if total is None else (total / RANGE_FACTOR, total * RANGE_FACTOR)
    return n_chunks * calls + reported, n_chunks * tokens + reported * TOKENS_PER_REPORT_CHUNK, spread
