"""Extractions → graph and communities, where anything they are made from is new. Part of the pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from localrag.index.extraction.phrases import PHRASES
from localrag.index.extraction.stage import in_part, recipe_of
from localrag.index.graph.aliases import read_aliases
from localrag.index.graph.communities import communities
from localrag.index.graph.describe import describe
from localrag.index.graph.held import beside, renamed, still_held
from localrag.index.graph.layout import VERSION, lay_out
from localrag.index.graph.picture import HIERARCHICAL, with_structure
from localrag.index.graph.resolve import resolve
from localrag.index.graph.similar import alike_in_meaning, ask_whether_same
from localrag.index.graph.variants import Decisions
from localrag.index.graph.weights import weigh_by_pmi
from localrag.index.jobs import Crew
from localrag.index.progress import Tell
from localrag.llm.budgets import LEAST, Budgets
from localrag.llm.prompts import own_hashes
from localrag.project import Project, choose_budgets
from localrag.records import IMPORTED, Chunk, Community, Extraction, Failure, Graph, Layout, Report, content_id
from localrag.store import corpus, ledger, places
from localrag.store import graph as store
from localrag.store.states import extraction_state
from localrag.text.quotes import entity_quotes


@dataclass(frozen=True, slots=True)
class Made:
    """A graph with its communities, and the hash of all it was made from; not published yet.

    `held` are the communities that another program found and that keep its reports.
    """

    graph: Graph
    communities: Sequence[Community]
    state: str
    held: frozenset[str] = frozenset()


# The communities and reports of another program, for the graph, its chunks and the communities that are held already.
Brought = Callable[[Graph, Mapping[str, Chunk], Sequence[Community]], tuple[list[Community], list[Report]]]


async def build_graph(project: Project, style: str, crew: Crew, tell: Tell, brought: Brought | None = None) -> Made | None:
    """Resolve, weigh, describe and cluster, if any extraction, decision or setting of these stages is new.

    Communities with reports of other programs stay as they are; `brought` gives new ones, whose reports wait for publication.
    """
    db, settings = project.db, project.settings
    budgets = await choose_budgets(project) if style == "abstractive" else LEAST
    decisions = read_aliases(project.folder)
    state = _state(project, style, budgets, decisions)
    if ledger.settings(db).get("graph") == state and brought is None:
        return None
    tell("graph", 0, 2)
    extractions = _extractions(project, style)
    chunks = {c.id: c for c in corpus.all_chunks(db)}
    graph, unasked = await _resolved(style, crew, extractions, chunks, decisions, tell)
    tell.resolved(len(graph.entities))
    graph = weigh_by_pmi(graph, chunks, {e.chunk_id for e in extractions if e.by == "phrases"})
    descriptions = 1 if style == "extractive" else len(graph.entities) + len(graph.relationships)
    tell("descriptions", 0, descriptions)
    graph, undescribed = await describe(graph, chunks, crew, style, budgets, lambda *at: tell("descriptions", *at))
    tell("descriptions", descriptions, descriptions)
    tell("communities", 0, 1)
    held = _held(project, graph)
    if brought:
        new, reports = brought(graph, chunks, held)
        held += new
        for report in reports:
            store.save_report(db, report)
    theirs = store.imported_reports(db)
    before = [c for c in store.communities(db) if c.id not in theirs]
    levels = beside(held, graph, lambda rest: communities(rest, max_size=settings.max_cluster_size, seed=settings.seed, before=before))
    failed = [*unasked, *undescribed]
    ledger.replace_failures(db, ("same entity", "description"), failed)
    tell("communities", 1, 1)
    # A graph that something failed of is not yet what its input makes: the next run asks again.
    return Made(graph, levels, content_id(state, *failed) if failed else state, frozenset(c.id for c in held))


def _held(project: Project, graph: Graph) -> list[Community]:
    """The stored communities with reports of other programs, as far as the text that these were made from is still there."""
    db = project.db
    reports = store.imported_reports(db)
    if not reports:
        return []
    levels, gone = store.communities(db), corpus.gone_imports(db)
    lost = {m.entity_id for m in store.mentions(db) if m.chunk_id in gone}
    return still_held([c for c in levels if c.id in reports], lost, renamed(store.aliases(db), graph))


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The places of a graph, and the hash of what they were made from; not published yet."""

    layout: Layout
    state: str


def lay_out_graph(project: Project, tell: Tell, made: Made | None) -> LaidOut | None:
    """Places for the graph that was `made`, else for the stored one where it has none; from the places there were.

    Structural vectors and places by UMAP as well, where the user asked for them (`localrag layout`).
    """
    db = project.db
    known = ledger.settings(db)
    graph_state = made.state if made else known.get("graph")
    picture = known.get("picture", {})
    state = content_id(VERSION, graph_state, *(f"{key} {picture[key]}" for key in sorted(picture)))
    if graph_state is None or (made is None and known.get("layout") == state):
        return None
    tell("layout", 0, 1)
    graph = made.graph if made else Graph(tuple(store.entities(db)), tuple(store.relationships(db)))
    levels = made.communities if made else store.communities(db)
    before = Layout() if picture.get("method", HIERARCHICAL) != HIERARCHICAL else places.load(db)
    layout = lay_out(graph, levels, before)
    if picture:
        layout = with_structure(graph, levels, layout, picture["method"], dimensions=picture["dimensions"], seed=picture["seed"])
    tell("layout", 1, 1)
    return LaidOut(layout, state)


def _extractions(project: Project, style: str) -> list[Extraction]:
    """Of every chunk the best extraction there is: another program's, the model's, one some of whose calls failed, or that by phrases."""
    return corpus.extractions(project.db, *_recipes(project, style))


def _recipes(project: Project, style: str) -> list[str]:
    by_model = [recipe_of(project, style)] * (project.settings.extractor == "model")
    return [IMPORTED, *by_model, *map(in_part, by_model), PHRASES]


def _state(project: Project, style: str, budgets: Budgets, decisions: Decisions) -> str:
    """A hash of all that the graph is made from; in which order documents are read is no part of it, for a file may get another name."""
    settings, recipes = project.settings, _recipes(project, style)
    made = extraction_state(project.db, recipes, [IMPORTED, *recipes[2:-1]])  # what failed in part says nothing of what else it gave
    sized = [budgets.descriptions, budgets.description] * (budgets != LEAST)
    own = own_hashes(settings.prompts, "abstractive/describe", "abstractive/same") if style == "abstractive" else []
    return content_id("graph 5", *recipes, settings.max_cluster_size, settings.seed, style, decisions, made, *sized, *own)


async def _resolved(
    style: str,
    crew: Crew,
    extractions: Sequence[Extraction],
    chunks: Mapping[str, Chunk],
    decisions: Decisions,
    tell: Tell,
) -> tuple[Graph, list[Failure]]:
    """The graph of the extractions, with names that might be one; a model that writes prose decides which are. What it failed of."""
    graph = resolve(extractions, chunks, decisions)
    tell("graph", 1, 2)
    graph = replace(graph, similar=(*graph.similar, *await alike_in_meaning(graph, crew, decisions)))
    tell("graph", 2, 2)
    if style != "abstractive" or not graph.similar:
        return graph, []
    quotes = entity_quotes(graph, chunks)
    decisions, unasked = await ask_whether_same(graph, quotes, crew, decisions, lambda *at: tell("same names", *at))
    return replace(resolve(extractions, chunks, decisions), similar=graph.similar), unasked
