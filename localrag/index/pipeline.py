"""`build_index`: the stages in order, each doing only what is missing. It and its parts (update, reports, erase, plan) touch the store."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.index.aliases import read_aliases
from localrag.index.communities import communities
from localrag.index.describe import describe
from localrag.index.extract import extract, recipe
from localrag.index.names import Case
from localrag.index.phrases import PHRASES, extract_phrases, weigh_by_pmi
from localrag.index.reports import Made, Written, write_reports
from localrag.index.resolve import resolve
from localrag.index.similar import alike_in_meaning, ask_whether_same
from localrag.index.traces import erase_traces
from localrag.index.update import CAREFUL, Deletion, Loaded, Tell, update_documents
from localrag.llm import ABOUT, CALL_FAILED, in_window
from localrag.llm.budgets import LEAST
from localrag.llm.project import Project, choose_budgets, choose_style
from localrag.llm.speeds import keep_speed
from localrag.quotes import entity_quotes
from localrag.records import Chunk, Failure, content_id
from localrag.store import corpus, generations, ledger, vectors
from localrag.store import graph as store
from localrag.store.connect import cut_log

EMBED_BATCH = 64
CUT_EVERY = 10.0  # seconds: how often the database's log is looked at
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


async def build_index(
    paths: Sequence[Path],
    project: Project,
    progress: Callable[[Progress], None],
    *,
    reports: bool = True,
    deletion: Deletion = CAREFUL,
) -> Outcome:
    """Index files and folders: load, chunk, embed, extract, resolve, describe, communities, reports, embed.

    Running it again does what is missing or changed. `reports`: whether to go on after the graph. `deletion`: of documents without a file.

    Raises UsageError where there is nothing to index.
    """
    db = project.db
    run = ledger.start_run(db, os.getpid())
    state = "failed"
    tell = _recorder(project, run, progress)
    try:
        with generations.next_in_view(db):
            loaded = await _stages(paths, project, tell, deletion, reports=reports)
        ledger.clear_stale_failures(db)
        if not erase_traces(project):
            project.model.say("Another process reads what was removed by localrag rm; the log is emptied by the next run.")
        failures = tuple(ledger.failures(db))
        state = "partly" if failures else "complete"
        return Outcome(loaded, failures)
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        keep_speed(project.model.file, project.model.report())
        ledger.end_run(db, run, state, project.model.report())


async def _stages(paths: Sequence[Path], project: Project, tell: Tell, deletion: Deletion, *, reports: bool) -> Loaded:
    loaded = update_documents(paths, project, tell, deletion)
    _embed_chunks(project, tell)
    cases = _Cases(project.db)
    _sentences(project.db, tell)
    _phrases(project, cases, tell)
    if project.settings.extractor == "phrases":
        await _build(project, "extractive", tell, reports=reports)
        return loaded
    style = await choose_style(project)
    if len(_unread(project, style)) >= FIRST_PASS and not ledger.settings(project.db).get("graph"):
        await _build(project, "extractive", tell, reports=reports)  # something to ask while the model reads
    await _extract(project, style, cases, tell)
    await _build(project, style, tell, reports=reports)
    return loaded


def _recorder(project: Project, run: int, progress: Callable[[Progress], None]) -> Tell:
    """Reports progress to the caller at once and to the store, where another terminal reads it, every second."""
    written = cut = 0.0

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal written, cut
        progress(Progress(stage, done, total, project.model.computed))
        if time.monotonic() - written > 1 or done == total:
            ledger.update_run(project.db, run, stage, done, total)
            written = time.monotonic()
        if time.monotonic() - cut > CUT_EVERY:
            cut_log(project.db)
            cut = time.monotonic()

    return tell


def _embed(project: Project, kind: str, stage: str, tell: Tell, texts: Mapping[str, str], lasting: Set[str] = frozenset()) -> None:
    """Give every subject of a kind (id → text) a vector that has none, or one of another text; it waits but for those of `lasting`."""
    fingerprint = project.embedder.file.fingerprint
    hashes = {key: content_id(text) for key, text in texts.items()}
    left: defaultdict[str, list[str]] = defaultdict(list)  # text → what it is the text of: a report carried down has one with others
    for key in vectors.missing(project.db, kind, hashes, fingerprint):
        left[texts[key]].append(key)
    distinct = sorted(left, key=len)  # similar lengths together: less padding
    for at in range(0, len(distinct), EMBED_BATCH):
        tell(stage, at, len(distinct))
        batch = distinct[at : at + EMBED_BATCH]
        keys = [(key, n) for n, text in enumerate(batch) for key in left[text]]
        found = project.embedder.embed(batch)[[n for _, n in keys]]
        subjects = [key for key, _ in keys]
        vectors.save(project.db, kind, fingerprint, subjects, hashes, found, waits=set(subjects) - lasting)
    if distinct:
        tell(stage, len(distinct), len(distinct))


def _embed_chunks(project: Project, tell: Tell) -> None:
    """Vectors of published chunks are found at once, as long as they are of the embedder that questions are asked with."""
    lasting = set() if _new_embedder(project) else generations.lasting_chunks(project.db)
    _embed(project, "chunk", "search index", tell, vectors.texts(project.db, "chunk"), lasting)


def _new_embedder(project: Project) -> dict[str, str] | None:
    """The project's embedder, where the published vectors are of another."""
    file = project.embedder.file
    known = ledger.settings(project.db).get("embedder", file.binding)["fingerprint"] == file.fingerprint
    return None if known else file.binding


async def rebuild_graph(project: Project, progress: Callable[[Progress], None]) -> None:
    """Build graph and reports anew from what was extracted, after a decision of the user's."""

    def tell(stage: str, done: int, total: int) -> None:
        progress(Progress(stage, done, total, project.model.computed))

    style = "extractive" if project.settings.extractor == "phrases" else await choose_style(project)
    with generations.next_in_view(project.db):
        await _build(project, style, tell)


def reembed(project: Project, progress: Callable[[Progress], None]) -> None:
    """Embed chunks, entities and reports with the project's embedder, in place of the vectors of any other; nothing else is redone."""
    db = project.db
    run = ledger.start_run(db, os.getpid())
    tell = _recorder(project, run, progress)
    with generations.next_in_view(db):
        _embed_chunks(project, tell)
        _embed_graph(project, tell, None, None)
        generations.publish(db, embedder=_new_embedder(project))
    ledger.end_run(db, run, "partly" if ledger.failures(db) else "complete", {})


class _Cases:
    """How each document writes its words. Chunks come a document after the other: only that of the last one is kept."""

    def __init__(self, db: Database) -> None:
        self._of = lru_cache(maxsize=1)(lambda document_id: Case(corpus.document_by_id(db, document_id)))

    def of(self, chunk: Chunk) -> Case:
        """That of the chunk's document."""
        return self._of(chunk.document_id)


def _sentences(db: Database, tell: Tell) -> None:
    """Split every chunk that is new into sentences; committed a document at a time."""
    left = corpus.chunks_without_sentences(db)
    done = 0
    for _, some in groupby(left, key=lambda c: c.document_id):
        chunks = list(some)
        corpus.save_sentences(db, chunks)
        done += len(chunks)
        tell("sentences", done, len(left))


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
    """The chunks the model has not extracted from, or not all that it was asked for."""
    return corpus.chunks_without_extraction(project.db, _recipe(project, style))


def _recipe(project: Project, style: str) -> str:
    return recipe(project.settings, project.model.file.fingerprint, style, project.tagger)


async def _extract(project: Project, style: str, cases: _Cases, tell: Tell) -> None:
    """Extract from every chunk that has no extraction of this recipe; each is committed as it comes, a failure is a row."""
    db, key = project.db, _recipe(project, style)
    left = _unread(project, style)
    if not left:
        return
    total = store.counts(db)["chunks"]
    done = total - len(left)
    tell("extraction", done, total)

    async def one(chunk: Chunk) -> None:
        nonlocal done
        ABOUT.set(content_id(chunk.text))
        lost: list[LocalragError] = []
        try:
            found = await extract(chunk, cases.of(chunk), project.model, project.settings, style, lost, project.tagger)
            corpus.save_extraction(db, _in_part(key) if lost else key, found)
        except CALL_FAILED as error:
            lost.append(error)
        if lost:
            ledger.save_failure(db, Failure("extraction", chunk.id, str(lost[0]), lost[0].kind))
        else:
            corpus.forget_extraction(db, _in_part(key), chunk.id)
            ledger.clear_failure(db, "extraction", chunk.id)
        done += 1
        tell("extraction", done, total)

    # A conversation has one call at a time and needs its slot's KV for the next, so there are as many as slots; an extractive chunk has
    # many calls at once.
    slots = await project.model.at_once()
    await in_window((one(c) for c in left), size=slots if style == "abstractive" else max(8, slots))


def _in_part(key: str) -> str:
    """The recipe of extractions some of whose calls failed: the graph uses them, the next run asks again."""
    return f"{key} in part"


async def _build(project: Project, style: str, tell: Tell, *, reports: bool = True) -> None:
    """Everything that follows from what was extracted so far: graph, communities, reports and their vectors, published together."""
    db = project.db
    made = await _graph(project, style, tell)
    graph = (made.graph, made.communities) if made else ()
    if made and not store.counts(db)["entities"]:  # nothing to keep apart: something to ask while reports are written
        generations.publish(db, *graph, kinds=["chunk"], embedder=_new_embedder(project), settings={"graph": made.state})
        graph = ()
    written = await write_reports(project, style, tell, made) if reports else None
    if reports:
        _embed_graph(project, tell, made, written)
    states: dict[str, str | None] = {"graph": made.state, "reports": None, "coverage": None} if made else {}
    states |= {"reports": written.state, "coverage": None} if written else {}
    valid = written.reports.keys() if written else None
    generations.publish(db, *graph, reports=valid, embedder=_new_embedder(project), settings=states)
    if written and written.state:
        ledger.save_settings(db, coverage=store.coverage(db))


def _embed_graph(project: Project, tell: Tell, made: Made | None, written: Written | None) -> None:
    """Give entities and reports their vectors: those that were made, else the stored ones."""
    entities = {e.id: vectors.entity_text(e) for e in made.graph.entities} if made else vectors.texts(project.db, "entity")
    _embed(project, "entity", "entities", tell, entities)
    reports = {key: r.markdown for key, r in written.reports.items()} if written else vectors.texts(project.db, "report")
    _embed(project, "report", "report vectors", tell, reports)


async def _graph(project: Project, style: str, tell: Tell) -> Made | None:
    """Resolve, describe and cluster, if any extraction, decision or setting of these stages is new."""
    db, settings = project.db, project.settings
    by_model = [_recipe(project, style)] * (settings.extractor == "model")
    in_part = [_in_part(key) for key in by_model]
    extractions, decisions = corpus.extractions(db, *by_model, *in_part, PHRASES), read_aliases(project.folder)
    made = [(e.chunk_id, e.by) for e in extractions] + [repr(e) for e in corpus.extractions(db, *in_part)]
    budgets = await choose_budgets(project) if style == "abstractive" else LEAST
    sized = [budgets.descriptions, budgets.description] * (budgets != LEAST)
    state = content_id("graph 4", *by_model, PHRASES, settings.max_cluster_size, settings.seed, style, decisions, *made, *sized)
    if ledger.settings(db).get("graph") == state:
        return None
    tell("graph", 0, 4)
    chunks = {c.id: c for c in corpus.all_chunks(db)}
    graph = resolve(extractions, chunks, decisions)
    graph = replace(graph, similar=(*graph.similar, *alike_in_meaning(graph, project.embedder.embed, decisions)))
    unasked: list[Failure] = []
    if style == "abstractive" and graph.similar:
        decisions, unasked = await ask_whether_same(graph, entity_quotes(graph, chunks), project.model, decisions)
        graph = replace(resolve(extractions, chunks, decisions), similar=graph.similar)
    tell("graph", 1, 4)
    graph = weigh_by_pmi(graph, chunks, {e.chunk_id for e in extractions if e.by == "phrases"})
    tell("graph", 2, 4)
    graph, undescribed = await describe(graph, chunks, project.model, style, budgets)
    tell("graph", 3, 4)
    levels = communities(graph, max_size=settings.max_cluster_size, seed=settings.seed, before=store.communities(db))
    failed = [*unasked, *undescribed]
    ledger.replace_failures(db, ("same entity", "description"), failed)
    tell("graph", 4, 4)
    # A graph that something failed of is not yet what its input makes: the next run asks again.
    return Made(graph, levels, content_id(state, *failed) if failed else state)
