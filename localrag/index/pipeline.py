"""`build_index`: the stages in order, each doing only what is missing. It and its parts update, erase and plan alone touch the store."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from sqlite_utils import Database

from localrag.engine.tokens import Tokenizer
from localrag.index import report as writing
from localrag.index.aliases import read_aliases
from localrag.index.communities import communities
from localrag.index.describe import describe
from localrag.index.extract import extract, recipe
from localrag.index.names import Case
from localrag.index.phrases import PHRASES, extract_phrases, weigh_by_pmi
from localrag.index.plan import keep_speed
from localrag.index.resolve import resolve
from localrag.index.similar import alike_in_meaning, ask_whether_same
from localrag.index.topics import Topics
from localrag.index.update import Loaded, Tell, update_documents
from localrag.llm import ABOUT, CALL_FAILED, in_window
from localrag.llm.project import Project, choose_style
from localrag.quotes import Vectors, embed_texts, entity_quotes, relationship_quotes
from localrag.records import Chunk, Community, Failure, Graph, Report, content_id
from localrag.store import corpus, erasure, ledger, vectors
from localrag.store import graph as store

REPORT_BUDGET = 2000  # tokens of context per report; a larger window is not better for a small model
EMBED_BATCH = 64
FIRST_PASS = 200  # chunks, some five minutes of the model in the box; from here on there is a graph without it first


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is; `tokens` counts what the model has computed in this run."""

    stage: str
    done: int
    total: int
    tokens: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: what became of the files it found, and what failed."""

    loaded: Loaded
    failures: tuple[Failure, ...]


async def build_index(paths: Sequence[Path], project: Project, progress: Callable[[Progress], None], *, reports: bool = True) -> Outcome:
    """Index files and folders: load, chunk, embed, extract, resolve, describe, communities, reports, embed.

    Running it again does what is missing or changed. `reports`: whether to go on after the graph.

    Raises UsageError where there is nothing to index.
    """
    db = project.db
    run = ledger.start_run(db, os.getpid())
    state = "failed"
    tell = _recorder(project, run, progress)
    try:
        loaded = update_documents(paths, project, tell)
        _embed(project, "chunk", "search index", tell)
        cases = _Cases(db)
        _phrases(project, cases, tell)
        build = _build_graph if reports else _graph
        if project.settings.extractor == "phrases":
            await build(project, "extractive", tell)
        else:
            style = await choose_style(project)
            if len(_unread(project, style)) >= FIRST_PASS and not ledger.settings(db).get("graph"):
                await build(project, "extractive", tell)  # something to ask while the model reads
            await _extract(project, style, cases, tell)
            await build(project, style, tell)
        ledger.clear_stale_failures(db)
        erasure.finish(db, project.folder)
        failures = tuple(ledger.failures(db))
        state = "partly" if failures else "complete"
        return Outcome(loaded, failures)
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        keep_speed(project.model.file, project.model.report())
        ledger.end_run(db, run, state, project.model.report())


def _recorder(project: Project, run: int, progress: Callable[[Progress], None]) -> Tell:
    """Reports progress to the caller at once and to the store, where another terminal reads it, every second."""
    written = 0.0

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal written
        progress(Progress(stage, done, total, project.model.computed))
        if time.monotonic() - written > 1 or done == total:
            ledger.update_run(project.db, run, stage, done, total)
            written = time.monotonic()

    return tell


def _embed(project: Project, kind: str, stage: str, tell: Tell) -> None:
    """Give every subject of a kind a vector that has none, or one of another content."""
    fingerprint, texts = project.embedder.file.fingerprint, vectors.texts(project.db, kind)
    hashes = {key: content_id(text) for key, text in texts.items()}
    left = vectors.missing(project.db, kind, hashes, fingerprint)
    left.sort(key=lambda key: len(texts[key]))  # similar lengths together: less padding
    for at in range(0, len(left), EMBED_BATCH):
        tell(stage, at, len(left))
        batch = left[at : at + EMBED_BATCH]
        vectors.save(project.db, kind, fingerprint, batch, hashes, project.embedder.embed([texts[key] for key in batch]))
    if left:
        tell(stage, len(left), len(left))


async def rebuild_graph(project: Project, progress: Callable[[Progress], None]) -> None:
    """Build graph and reports anew from what was extracted, after a decision of the user's."""

    def tell(stage: str, done: int, total: int) -> None:
        progress(Progress(stage, done, total, project.model.computed))

    style = "extractive" if project.settings.extractor == "phrases" else await choose_style(project)
    await _build_graph(project, style, tell)


def reembed(project: Project, progress: Callable[[Progress], None]) -> None:
    """Embed chunks, entities and reports with the project's embedder, in place of the vectors of any other; nothing else is redone."""
    db = project.db
    run = ledger.start_run(db, os.getpid())
    tell = _recorder(project, run, progress)
    vectors.forget_others(db, project.embedder.file.fingerprint)
    _embed(project, "chunk", "search index", tell)
    _embed_graph(project, tell)
    ledger.end_run(db, run, "partly" if ledger.failures(db) else "complete", {})


class _Cases:
    """How each document writes its words, worked out when it is first asked for."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: dict[str, Case] = {}

    def of(self, chunk: Chunk) -> Case:
        """That of the chunk's document."""
        if chunk.document_id not in self._known:
            self._known[chunk.document_id] = Case(corpus.document_by_id(self._db, chunk.document_id))
        return self._known[chunk.document_id]


def _phrases(project: Project, cases: _Cases, tell: Tell) -> None:
    """Find names and phrases in every chunk that is new, without a model; committed a document at a time."""
    left = corpus.chunks_without_extraction(project.db, PHRASES)
    done = 0
    for _, some in groupby(left, key=lambda c: c.document_id):
        found = [extract_phrases(chunk, cases.of(chunk)) for chunk in some]
        corpus.save_extractions(project.db, PHRASES, found)
        done += len(found)
        tell("phrases", done, len(left))


def _unread(project: Project, style: str) -> list[Chunk]:
    """The chunks the model has not extracted from."""
    return corpus.chunks_without_extraction(project.db, recipe(project.settings, project.model.file.fingerprint, style))


async def _extract(project: Project, style: str, cases: _Cases, tell: Tell) -> None:
    """Extract from every chunk that has no extraction of this recipe; each is committed as it comes, a failure is a row."""
    db, key = project.db, recipe(project.settings, project.model.file.fingerprint, style)
    left = _unread(project, style)
    if not left:
        return
    total, path = store.counts(db)["chunks"], corpus.document_paths(db)
    done = total - len(left)
    tell("extraction", done, total)

    async def one(chunk: Chunk) -> None:
        nonlocal done
        ABOUT.set(path[chunk.document_id])
        try:
            corpus.save_extraction(db, key, await extract(chunk, cases.of(chunk), project.model, project.settings, style))
            ledger.clear_failure(db, "extraction", chunk.id)
        except CALL_FAILED as error:
            ledger.save_failure(db, Failure("extraction", chunk.id, str(error), error.kind))
        done += 1
        tell("extraction", done, total)

    await in_window((one(c) for c in left), size=8)


async def _build_graph(project: Project, style: str, tell: Tell) -> None:
    """Everything that follows from what was extracted so far: graph, communities, reports and their vectors."""
    await _graph(project, style, tell)
    await _reports(project, style, tell)
    _embed_graph(project, tell)


def _embed_graph(project: Project, tell: Tell) -> None:
    """Give entities and reports their vectors."""
    _embed(project, "entity", "entities", tell)
    _embed(project, "report", "report vectors", tell)


async def _graph(project: Project, style: str, tell: Tell) -> None:
    """Resolve, describe and cluster, if any extraction, decision or setting of these stages is new."""
    db, settings = project.db, project.settings
    keys = [recipe(settings, project.model.file.fingerprint, style)] * (settings.extractor == "model") + [PHRASES]
    extractions, decisions = corpus.extractions(db, *keys), read_aliases(project.folder)
    made = ((e.chunk_id, e.by) for e in extractions)
    state = content_id("graph 3", *keys, settings.max_cluster_size, settings.seed, style, decisions, *made)
    if ledger.settings(db).get("graph") == state:
        return
    tell("graph", 0, 4)
    chunks = {c.id: c for c in corpus.all_chunks(db)}
    graph = resolve(extractions, chunks, decisions)
    graph = replace(graph, similar=(*graph.similar, *alike_in_meaning(graph, project.embedder.embed, decisions)))
    if style == "abstractive" and graph.similar:
        decisions = await ask_whether_same(graph, entity_quotes(graph, chunks), project.model, decisions)
        graph = replace(resolve(extractions, chunks, decisions), similar=graph.similar)
    tell("graph", 1, 4)
    graph = weigh_by_pmi(graph, chunks, {e.chunk_id for e in extractions if e.by == "phrases"})
    tell("graph", 2, 4)
    graph = await describe(graph, chunks, project.model, style)
    tell("graph", 3, 4)
    levels = communities(graph, max_size=settings.max_cluster_size, seed=settings.seed, before=store.communities(db))
    store.replace_graph(db, graph, levels, state)
    tell("graph", 4, 4)


async def _reports(project: Project, style: str, tell: Tell) -> None:
    """Write every report whose input changed, deepest level first, so that a community can use those below it."""
    db = project.db
    levels = store.communities(db)
    state = content_id(ledger.settings(db).get("graph"), writing.recipe(project.settings, project.model.file.fingerprint, style))
    if ledger.settings(db).get("reports") == state:
        return
    chunks = {c.id: c for c in corpus.all_chunks(db)}
    graph = Graph(tuple(store.entities(db)), tuple(store.relationships(db)), tuple(store.mentions(db)), tuple(store.evidence(db)))
    of_relationship, of_entity = relationship_quotes(graph, chunks), entity_quotes(graph, chunks)
    sources = writing.Sources.of(graph, of_relationship, of_entity, len(chunks))
    known = {r.community_id: r for r in store.reports(db)}
    write = _Writer(project, style, sources, Tokenizer(project.model.file))
    if style == "extractive":
        quotes = [q.text for found in (of_relationship, of_entity) for some in found.values() for q in some]
        tell("sentence vectors", 0, 1)
        write.vectors = embed_texts(quotes, project.embedder.embed)
        write.topics = Topics(list(write.vectors))
        tell("sentence vectors", 1, 1)
    done = 0
    tell("reports", 0, len(levels))

    async def one(community: Community) -> Report | None:
        nonlocal done
        below = [(c, known[c.id]) for c in levels if c.parent_id == community.id and c.id in known]
        written = None
        try:
            written = await write.report(community, below, known.get(community.id))
            ledger.clear_failure(db, "report", community.id)
        except CALL_FAILED as error:
            ledger.save_failure(db, Failure("report", community.id, str(error), error.kind))
        done += 1
        tell("reports", done, len(levels))
        return written

    for level in sorted({c.level for c in levels}, reverse=True):
        written = await in_window(one(c) for c in levels if c.level == level)
        known.update((r.community_id, r) for r in written if r is not None)
    if not any(f.stage == "report" for f in ledger.failures(db)):
        ledger.save_settings(db, reports=state)


@dataclass(slots=True)
class _Writer:
    """Writes one report, unless the stored one came of the same input."""

    project: Project
    style: str
    sources: writing.Sources
    tokenizer: Tokenizer
    vectors: Vectors = field(default_factory=dict)
    topics: Topics | None = None

    async def report(self, community: Community, below: list[tuple[Community, Report]], stored: Report | None) -> Report:
        model = self.project.model
        elements = writing.report_context(community, below, self.sources, self.tokenizer.count, REPORT_BUDGET)
        key = writing.input_hash(community, elements, writing.recipe(self.project.settings, model.file.fingerprint, self.style))
        if stored is not None and stored.input_hash == key:
            return stored
        if self.topics is not None:
            written = writing.extractive_report(community, elements, key, self.sources, self.vectors, self.topics)
        else:
            written = await writing.abstractive_report(community, elements, key, model, self.project.settings)
        store.save_report(self.project.db, written)
        return written
