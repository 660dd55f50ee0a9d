"""`build_index`: the stages in order, each doing only what is missing. It and its parts (update, reports, erase, plan) touch the store."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localrag.index.collect import collect
from localrag.index.crew.here import Here
from localrag.index.crew.hire import Hire, alone, tools_of
from localrag.index.documents.load import is_there, stored_path
from localrag.index.documents.update import CAREFUL, Deletion, Loaded, update_documents
from localrag.index.embed import embed_chunks, embed_graph, new_embedder
from localrag.index.extraction.phrases import PHRASES
from localrag.index.extraction.stage import extract_chunks, find_phrases, split_sentences, unread
from localrag.index.graph.stage import Brought, build_graph, is_quoted, lay_out_graph
from localrag.index.jobs import Crew
from localrag.index.progress import GRAPH, READING, REPORTS, Progress, Tell
from localrag.index.reports.stage import write_reports
from localrag.index.traces import erase_traces
from localrag.llm.model import Model
from localrag.llm.speeds import keep_speed
from localrag.project import Project, choose_style
from localrag.records import Failure, Layout
from localrag.store import generations, lacking, ledger, places, vector_index
from localrag.store import graph as store
from localrag.store.connect import meter_of
from localrag.store.growth import Freed
from localrag.system.garbage import seldom_collected

PORTION = 4096  # chunks, some five minutes: so many are read before there is a graph of them, while the rest is read
FIRST_PASS = 200  # chunks, some five minutes of the bundled model; from here on there is a graph without it first


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: what became of the files it found, what failed, how many seconds each stage took, and what the model was asked.

    `computed_tokens` are those read or written by the model, without what a cache held; `tokens_per_s` of those it wrote, None where none.
    `collected` is what was deleted because nothing needs it; `log_bytes` were written to the database's log.
    """

    loaded: Loaded
    failures: tuple[Failure, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    computed_tokens: int = 0
    tokens_per_s: float | None = None
    collected: tuple[Freed, ...] = ()
    log_bytes: int = 0

    @property
    def complete(self) -> bool:
        """Whether every file was read and nothing failed."""
        return not self.failures and not any(s.failed for s in self.loaded.skipped)


async def build_index(
    paths: Sequence[Path],
    project: Project,
    progress: Callable[[Progress], None],
    *,
    reports: bool = True,
    deletion: Deletion = CAREFUL,
    collections: Sequence[str] = (),
    hire: Hire = alone,
) -> Outcome:
    """Index files and folders: load, chunk, embed, extract, resolve, describe, communities, layout, reports, embed.

    Running it again does what is missing or changed. `reports`: whether to go on after the graph. `deletion`: of documents without a file.
    `collections`: the names of those that the documents of these paths are put into. `hire`: who does the jobs.

    Raises UsageError where there is nothing to index.
    """
    async with hire(project) as (with_crew, crew):
        return await _run(paths, with_crew, crew, progress, deletion, collections, reports=reports)


async def _run(
    paths: Sequence[Path],
    project: Project,
    crew: Crew,
    progress: Callable[[Progress], None],
    deletion: Deletion,
    collections: Sequence[str],
    *,
    reports: bool,
) -> Outcome:
    db = project.db
    before, written = _spent(project.model), meter_of(db)
    by_model = project.settings.extractor == "model"
    stages = (*READING, *["extraction"] * by_model, *GRAPH, *REPORTS * reports)
    with _recorded_run(project) as run:
        tell = Tell(project, run, progress, stages=stages, workers=crew.status)
        with generations.next_in_view(db):
            loaded = await _stages(paths, project, crew, tell, deletion, collections, reports=reports)
        _remember(paths, project)
        ledger.clear_stale_failures(db)
        if not erase_traces(project):
            project.model.say("Another process reads what was removed by localrag rm; the log is emptied by the next run.")
        collected = await collect(project, changed=loaded.touched > 0 or _spent(project.model) != before)
        if slow := vector_index.unlisted(db):
            project.model.say(
                f"The index of vectors could not be written to {project.folder}: questions compare {slow:,} vectors one by one. "
                "Make room there, then run the same command again."
            )
        tell.end()
    calls, read, wrote, computed = (now - then for now, then in zip(_spent(project.model), before, strict=True))
    speed, failures = project.model.report().get("decode_tokens_per_s"), tuple(ledger.failures(db))
    return Outcome(loaded, failures, tell.took, calls, read, wrote, computed, speed, tuple(collected), written())


@contextmanager
def _recorded_run(project: Project) -> Iterator[int]:
    """Record in the index that a run began and how it ended: complete, partly, failed or interrupted. Yields the run's number."""
    db, written = project.db, meter_of(project.db)
    run, state = ledger.start_run(db, os.getpid()), "failed"
    try:
        yield run
        state = "partly" if ledger.failures(db) else "complete"
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        keep_speed(project.model.file, project.model.report())
        ledger.end_run(db, run, state, project.model.report() | {"log_bytes": written()})


def _spent(model: Model) -> tuple[int, int, int, int]:
    """Calls, tokens read, written and computed by this process so far."""
    return model.calls, model.prompt_tokens, model.output_tokens, model.computed


def _remember(paths: Sequence[Path], project: Project) -> None:
    """Keep where documents come from, for whoever indexes the same again."""
    known = ledger.settings(project.db).get("sources", [])
    sources = list(dict.fromkeys([*known, *(stored_path(path, project.root) for path in paths if is_there(path))]))
    if sources != known:
        ledger.save_settings(project.db, sources=sources)


async def _stages(
    paths: Sequence[Path], project: Project, crew: Crew, tell: Tell, deletion: Deletion, collections: Sequence[str], *, reports: bool
) -> Loaded:
    loaded = update_documents(paths, project, tell, deletion, collections)
    by_phrases, steps = project.settings.extractor == "phrases", (*GRAPH, *REPORTS * reports)
    there = ledger.settings(project.db).get("graph")
    new = lacking.count_without_extraction(project.db, PHRASES)
    whole = store.counts(project.db)["chunks"] if new or loaded.touched else 0
    tell.chunks(new, whole)
    quoted = is_quoted(project.db)  # else a graph without the model would take the place of what it has written
    portions = _portions(new, whole) if by_phrases or quoted else [lacking.ALL]
    if len(portions) > 1:
        tell.expect(*_in_portions(portions, whole - new, steps))
    for n, portion in enumerate(portions, 1):
        most = portion if n < len(portions) else lacking.ALL
        await embed_chunks(project, crew, tell, most)
        await split_sentences(project.db, crew, tell, most)
        await find_phrases(project, crew, tell, most)
        if n < len(portions) or by_phrases:
            await _build(project, "extractive", crew, tell, reports=reports)
    if by_phrases:
        return loaded
    style = await choose_style(project)
    left = len(unread(project, style))
    tell.size("extraction", left)
    if left >= FIRST_PASS and quoted and (not there or new >= FIRST_PASS):
        tell.expect((*steps, "extraction", *steps))
        await _build(project, "extractive", crew, tell, reports=reports)  # something to ask while the model reads
    await extract_chunks(project, style, crew, tell)
    await _build(project, style, crew, tell, reports=reports)
    return loaded


def _portions(new: int, whole: int) -> list[int]:
    """How many chunks are read each time before the graph is brought up to date with them: no fewer than PORTION, and as many as were read
    before, so that all of it costs at most twice as much.
    """
    portions, read = list[int](), whole - new
    while sum(portions) < new:
        portion = max(PORTION, read)
        left = new - sum(portions)
        portions.append(portion if portion + PORTION <= left else left)
        read += portions[-1]
    return portions or [0]


def _in_portions(portions: Sequence[int], read: int, steps: Sequence[str]) -> tuple[list[str], list[float]]:
    """The stages of a run that reads in portions, and of how many chunks each is."""
    stages, sizes = list[str](), list[float]()
    for portion in portions:
        read += portion
        stages += [*READING[1:], *steps]
        sizes += [portion] * len(READING[1:]) + [read] * len(steps)
    return stages, sizes


async def publish_brought(project: Project, progress: Callable[[Progress], None], brought: Brought) -> None:
    """Build and publish what follows from documents and extractions of another program that were stored, with its communities and reports.

    No chat model is asked, but for reports of communities that the other program has none of, and for what was there before.
    """
    db = project.db
    with _recorded_run(project) as run:
        tell = Tell(project, run, progress, stages=(*READING, *GRAPH, *REPORTS))
        style = "extractive" if project.settings.extractor == "phrases" else await choose_style(project)
        with generations.next_in_view(db):
            crew = Here(tools_of(project))
            await embed_chunks(project, crew, tell)
            await split_sentences(db, crew, tell)
            await find_phrases(project, crew, tell)
            await _build(project, style, crew, tell, brought=brought)


async def rebuild_graph(project: Project, progress: Callable[[Progress], None]) -> None:
    """Build graph and reports anew from what was extracted, after a decision of the user's."""
    style = "extractive" if project.settings.extractor == "phrases" else await choose_style(project)
    tell = Tell(project, None, progress, stages=(*GRAPH, *REPORTS))
    with generations.next_in_view(project.db):
        tell.chunks(0, store.counts(project.db)["chunks"])
        await _build(project, style, Here(tools_of(project)), tell)
    tell.end()


def lay_out_anew(project: Project, progress: Callable[[Progress], None], picture: Mapping[str, Any]) -> bool:
    """Lay the published graph out as the user wants its picture, now and after every update; False where it is so already."""
    db = project.db
    known = ledger.settings(db).get("picture", {})
    with db.atomic():
        if known.get("method") == "umap" and picture["method"] != "umap":  # its places say nothing to the other method
            places.put(db, Layout())
        ledger.save_settings(db, picture=dict(picture))
        laid_out = lay_out_graph(project, Tell(project, None, progress, stages=("layout",)), None)
        if laid_out:
            places.put(db, laid_out.layout)
            ledger.save_settings(db, layout=laid_out.state)
    return laid_out is not None


async def reembed(project: Project, progress: Callable[[Progress], None]) -> None:
    """Embed chunks, entities and reports with the project's embedder, in place of the vectors of any other; nothing else is redone."""
    db = project.db
    with _recorded_run(project) as run:
        tell = Tell(project, run, progress, stages=("search index", "entities", "report vectors"))
        with generations.next_in_view(db):
            chunks = store.counts(db)["chunks"]
            tell.chunks(chunks, chunks)
            crew = Here(tools_of(project))
            await embed_chunks(project, crew, tell)
            embedded = await embed_graph(project, crew, tell, None, None)
            generations.publish(db, embedder=new_embedder(project), settings={"graph_vectors": embedded})
        tell.end()


async def _build(project: Project, style: str, crew: Crew, tell: Tell, *, reports: bool = True, brought: Brought | None = None) -> None:
    """Everything that follows from what was extracted so far: graph, communities, reports and their vectors, published together."""
    with seldom_collected():
        await _built(project, style, crew, tell, brought, reports=reports)


async def _built(project: Project, style: str, crew: Crew, tell: Tell, brought: Brought | None, *, reports: bool) -> None:
    db = project.db
    made = await build_graph(project, style, crew, tell, brought)
    try:
        laid_out = lay_out_graph(project, tell, made)
        layout, graph = laid_out.layout if laid_out else None, made.staged if made else None
        in_part, picture = laid_out is not None and laid_out.in_part, {"layout": laid_out.state} if laid_out else {}
        laid_out = None  # of a million chunks some 3 million places, which are dropped once they are published
        if made and not store.counts(db)["entities"]:  # nothing to keep apart: something to ask while reports are written
            first = {**made.settings, **picture}
            generations.publish(db, graph, layout=layout, kinds=["chunk"], embedder=new_embedder(project), settings=first)
            graph, layout = None, None
        written = await write_reports(project, style, crew, tell, made) if reports else None
        embedded = await embed_graph(project, crew, tell, made, written) if reports else None
        states: dict[str, Any] = {**made.settings, "reports": None} if made else {}
        states |= {**written.settings} if written else {}
        states |= picture
        states |= {"graph_vectors": embedded} if embedded != ledger.settings(db).get("graph_vectors") else {}
        failed = written.failed if written else None
        await asyncio.sleep(0)  # an interrupt that came while nothing waited is heard here, before anything is published
        generations.publish(
            db, graph, layout=layout, in_part=in_part, without_report=failed, embedder=new_embedder(project), settings=states
        )
    finally:
        if made:
            made.staged.close()
