"""Extractions → graph and communities, where anything they are made from is new. Part of the pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from localrag.index.extraction.phrases import PHRASES
from localrag.index.extraction.stage import in_part, recipe_of
from localrag.index.graph.aliases import read_aliases
from localrag.index.graph.communities import communities
from localrag.index.graph.describe import describe
from localrag.index.graph.layout import VERSION, lay_out
from localrag.index.graph.resolve import resolve
from localrag.index.graph.similar import alike_in_meaning, ask_whether_same
from localrag.index.graph.variants import Decisions
from localrag.index.graph.weights import weigh_by_pmi
from localrag.index.progress import Tell
from localrag.llm.budgets import LEAST, Budgets
from localrag.llm.prompts import own_hashes
from localrag.project import Project, choose_budgets
from localrag.records import Chunk, Community, Extraction, Failure, Graph, Layout, content_id
from localrag.store import corpus, ledger, places
from localrag.store import graph as store
from localrag.text.quotes import entity_quotes


@dataclass(frozen=True, slots=True)
class Made:
    """A graph with its communities, and the hash of all it was made from; not published yet."""

    graph: Graph
    communities: Sequence[Community]
    state: str


async def build_graph(project: Project, style: str, tell: Tell) -> Made | None:
    """Resolve, weigh, describe and cluster, if any extraction, decision or setting of these stages is new."""
    db, settings = project.db, project.settings
    budgets = await choose_budgets(project) if style == "abstractive" else LEAST
    extractions, decisions = _extractions(project, style), read_aliases(project.folder)
    state = _state(project, style, budgets, extractions, decisions)
    if ledger.settings(db).get("graph") == state:
        return None
    tell("graph", 0, 4)
    chunks = {c.id: c for c in corpus.all_chunks(db)}
    graph, unasked = await _resolved(project, style, extractions, chunks, decisions)
    tell("graph", 1, 4)
    graph = weigh_by_pmi(graph, chunks, {e.chunk_id for e in extractions if e.by == "phrases"})
    tell("graph", 2, 4)
    graph, undescribed = await describe(graph, chunks, project.model, style, budgets, settings.prompts)
    tell("graph", 3, 4)
    levels = communities(graph, max_size=settings.max_cluster_size, seed=settings.seed, before=store.communities(db))
    failed = [*unasked, *undescribed]
    ledger.replace_failures(db, ("same entity", "description"), failed)
    tell("graph", 4, 4)
    # A graph that something failed of is not yet what its input makes: the next run asks again.
    return Made(graph, levels, content_id(state, *failed) if failed else state)


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The places of a graph, and the hash of what they were made from; not published yet."""

    layout: Layout
    state: str


def lay_out_graph(project: Project, tell: Tell, made: Made | None) -> LaidOut | None:
    """Places for the graph that was `made`, else for the stored one where it has none; from the places there were."""
    db = project.db
    known = ledger.settings(db)
    graph_state = made.state if made else known.get("graph")
    state = content_id(VERSION, graph_state)
    if graph_state is None or (made is None and known.get("layout") == state):
        return None
    tell("layout", 0, 1)
    graph = made.graph if made else Graph(tuple(store.entities(db)), tuple(store.relationships(db)))
    layout = lay_out(graph, made.communities if made else store.communities(db), places.load(db))
    tell("layout", 1, 1)
    return LaidOut(layout, state)


def _extractions(project: Project, style: str) -> list[Extraction]:
    """Of every chunk the best extraction there is: the model's, one some of whose calls failed, or that by phrases."""
    return corpus.extractions(project.db, *_recipes(project, style), *map(in_part, _recipes(project, style)), PHRASES)


def _recipes(project: Project, style: str) -> list[str]:
    return [recipe_of(project, style)] * (project.settings.extractor == "model")


def _state(project: Project, style: str, budgets: Budgets, extractions: Sequence[Extraction], decisions: Decisions) -> str:
    """A hash of all that the graph is made from."""
    settings, by_model = project.settings, _recipes(project, style)
    made = [(e.chunk_id, e.by) for e in extractions] + [repr(e) for e in corpus.extractions(project.db, *map(in_part, by_model))]
    sized = [budgets.descriptions, budgets.description] * (budgets != LEAST)
    own = own_hashes(settings.prompts, "abstractive/describe", "abstractive/same") if style == "abstractive" else []
    return content_id("graph 4", *by_model, PHRASES, settings.max_cluster_size, settings.seed, style, decisions, *made, *sized, *own)


async def _resolved(
    project: Project, style: str, extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], decisions: Decisions
) -> tuple[Graph, list[Failure]]:
    """The graph of the extractions, with names that might be one; a model that writes prose decides which are. What it failed of."""
    graph = resolve(extractions, chunks, decisions)
    graph = replace(graph, similar=(*graph.similar, *alike_in_meaning(graph, project.embedder.embed, decisions)))
    if style != "abstractive" or not graph.similar:
        return graph, []
    quotes = entity_quotes(graph, chunks)
    decisions, unasked = await ask_whether_same(graph, quotes, project.model, decisions, project.settings.prompts)
    return replace(resolve(extractions, chunks, decisions), similar=graph.similar), unasked
