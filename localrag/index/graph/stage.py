"""Extractions → graph and communities, where anything they are made from is new. Part of the pipeline."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from sqlite_utils import Database

from localrag.index.extraction.phrases import PHRASES
from localrag.index.extraction.stage import in_part, recipe_of
from localrag.index.graph.aliases import read_aliases
from localrag.index.graph.clustering.attached import attach
from localrag.index.graph.clustering.cluster import Clustered, cluster, put_all
from localrag.index.graph.clustering.redraw import redraw
from localrag.index.graph.communities import communities
from localrag.index.graph.describe import describe
from localrag.index.graph.document import entity_id
from localrag.index.graph.held import beside, renamed, still_held
from localrag.index.graph.layout import VERSION, place_all
from localrag.index.graph.merging.quoted import Quoted
from localrag.index.graph.merging.rows import entity_of_row, relationship_of_row, staged_columns, staged_levels, whole_graph
from localrag.index.graph.merging.similar import alike_in_meaning, ask_whether_same, open_pairs, spelt_alike
from localrag.index.graph.merging.update import Update
from localrag.index.graph.picture import HIERARCHICAL, with_structure
from localrag.index.graph.variants import Decisions
from localrag.index.jobs import Crew
from localrag.index.progress import Tell
from localrag.llm.budgets import LEAST, Budgets
from localrag.llm.prompts import own_hashes
from localrag.project import Project, choose_budgets
from localrag.records import IMPORTED, Chunk, Community, Failure, Graph, Layout, Report, content_id
from localrag.store import corpus, ledger, places, sources
from localrag.store import graph as store
from localrag.store.shifts import others, shifts
from localrag.store.staged import Staged

MERGING = "graph 5"  # of the rules that make a graph: with others it is made anew
DESCRIBED = {"extractive": 5000, "abstractive": 500}  # entities, and relationships, that are described and stored together


@dataclass(frozen=True, slots=True)
class Made:
    """A graph with its communities, which waits for publication, and the settings that say what it was made from.

    `changed` are the communities that are others than before, `touched` the entities that anything is new of; None where that may be all.
    `held` are the communities that another program found and that keep its reports.
    """

    staged: Staged
    settings: Mapping[str, Any]
    changed: frozenset[str] | None = None
    touched: frozenset[str] | None = None
    held: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        """The hash of all it was made from."""
        return str(self.settings["graph"])


# The communities and reports of another program, for the graph, its chunks and the communities that are held already.
Brought = Callable[[Graph, Mapping[str, Chunk], Sequence[Community]], tuple[list[Community], list[Report]]]


async def build_graph(project: Project, style: str, crew: Crew, tell: Tell, brought: Brought | None = None) -> Made | None:
    """Merge names, weigh, describe and cluster, if any extraction, decision or setting of these stages is new; only what that concerns.

    Communities with reports of other programs stay as they are; `brought` gives new ones, whose reports wait for publication. The caller
    publishes what was made, and closes it.
    """
    db = project.db
    budgets = await choose_budgets(project) if style == "abstractive" else LEAST
    decisions, known = read_aliases(project.folder), ledger.settings(db)
    recipes = _recipes(project, style)
    read_by, options = content_id(*recipes), _options(project, style, budgets, decisions)
    anew = known.get("merging") != MERGING or not known.get("graph")
    with sources.best_extractions(db, recipes, _varying(recipes), every=anew or known.get("read_by") != read_by):
        changed, gone = (sources.all_documents(db), []) if anew else sources.changed_documents(db)
        if not (anew or changed or gone or brought) and known.get("options") == options:
            sources.forget_changes(db)
            if known.get("read_by") != read_by:
                ledger.save_settings(db, read_by=read_by)
            return None
        state = content_id(options, *[known.get("graph")] * (not anew), sources.state_of(db, changed), *gone)
        staged = Staged(db, anew=anew)
        try:
            tell("graph", 0, 2)
            build = _Build(project, staged, style, budgets, crew, tell, anew)
            made = await build.merge(decisions, changed, gone)
            failed = [*build.failed, *await build.describe()]
            tell("communities", 0, 1)
            tell.resolved(staged.count("entities"))
            clustered, held = _clustered(project, staged, brought, anew=anew)
            ledger.replace_failures(db, ("same entity", "description"), failed)
            tell("communities", 1, 1)
        except BaseException:
            staged.close()
            raise
    # A graph that something failed of is not yet what its input makes: the next run asks again.
    made |= {"graph": content_id(state, *failed), "options": None if failed else options, "read_by": read_by}
    made |= {"merging": MERGING, "described": build.described, "clustered": clustered.state}
    return Made(staged, made, clustered.changed, None if anew else build.touched(), held)


@dataclass
class _Build:
    """A graph that is being brought up to date, or made `anew`."""

    project: Project
    staged: Staged
    style: str
    budgets: Budgets
    crew: Crew
    tell: Tell
    anew: bool

    def __post_init__(self) -> None:
        self.read = lru_cache(64)(partial(sources.chunks_with_extractions, self.project.db, _recipes(self.project, self.style)))
        self.quoted = Quoted(self.staged)
        self.shifted = {} if self.anew else shifts(self.project.db)
        self.entities: set[str] = set()
        self.failed: list[Failure] = []

    async def merge(self, decisions: Decisions, changed: Collection[str], gone: Collection[str]) -> dict[str, Any]:
        """Names that are variants of one another become one entity; a model that writes prose decides which of those alike are.

        `changed` and `gone` are the documents whose part of the graph is another. Returns the settings that say what was decided.
        """
        known = ledger.settings(self.project.db)
        asked_of = content_id(self.project.model.file.fingerprint, *own_hashes(self.project.settings.prompts, "abstractive/same"))
        kept = known.get("same_by_model", {}) if self.style == "abstractive" else {}
        said = {tuple(pair) for pair in kept.get("pairs", ())} if kept.get("of") == asked_of else set()
        before = _decided(known.get("decisions", {}))
        now = _with_model(decisions, said)
        self._update(now, changed, gone, {name for _, pair in before ^ _pairs(now) for name in pair})
        self.tell("graph", 1, 2)
        alike = open_pairs(self.staged, now)
        meaning = await alike_in_meaning(self.staged, self.crew, self.project.embedder.file.fingerprint, now)
        self._leave_open(alike, meaning)
        self.tell("graph", 2, 2)
        if self.style == "abstractive" and (alike or meaning):
            more, self.failed = await ask_whether_same(self._shown([*alike, *meaning]), self.crew, lambda *at: self.tell("same names", *at))
            said |= set(more)
            now = _with_model(decisions, said)
            self._update(now, [], [], {name for pair in more for name in pair})
        return {
            "decisions": {"same": now.same, "different": sorted(map(sorted, now.different))},
            "same_by_model": {"of": asked_of, "pairs": sorted(said)},
        }

    def _update(self, decisions: Decisions, changed: Collection[str], gone: Collection[str], decided: Collection[str]) -> None:
        update, db = Update(self.staged, self.read, decisions), self.project.db
        with self.staged.together():
            update.run(changed, gone, decided)
            for document in (*changed, *gone):
                old = self.staged.rows("graph_chunks", "t.document_id = ?", [document])
                self.staged.replace("graph_chunks", old, sources.made_from(db, document))
            spelt_alike(self.staged, update.blocks)
        self.entities |= {entity_id(key) for key in update.entities}

    def _leave_open(self, alike: Sequence[tuple[str, str, float]], meaning: Sequence[tuple[str, str, float]]) -> None:
        rows = [(b, a, 0, "spelt alike", score) for a, b, score in alike] + [(b, a, 0, "alike in meaning", s) for a, b, s in meaning]
        self.staged.replace("merges", list(self.staged.rows("merges", "t.done = 0")), rows)

    def _shown(self, pairs: Iterable[tuple[str, str, float]]) -> list[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]:
        """Pairs of names as they are written, with a sentence of each."""
        found = []
        for keys in dict.fromkeys((a, b) for a, b, _ in pairs):
            rows = [self.staged.row("entities", entity_id(key)) for key in keys]
            quotes = [self.quoted.of_entity(row[0], 1) if row else [] for row in rows]
            names, texts = ([row[1] if row else "" for row in rows], [some[0].text if some else "" for some in quotes])
            found.append((keys, (names[0], names[1]), (texts[0], texts[1])))
        return found

    async def describe(self) -> list[Failure]:
        """Describe what is new, or is shown in other sentences than before; whose summary failed."""
        entities, relationships = self._to_describe()
        total = 1 if self.style == "extractive" else len(entities) + len(relationships)
        self.tell("descriptions", 0, total)
        failed, staged, most = list[Failure](), self.staged, DESCRIBED[self.style]
        for at in range(0, max(len(entities), len(relationships)), most):
            some = staged.some("entities", entities[at : at + most])
            related = staged.some("relationships", relationships[at : at + most])
            names = {row[0]: row[1] for row in staged.some("entities", list({end for row in related for end in row[1:3]}))}
            graph = Graph(tuple(map(entity_of_row, some)), tuple(map(relationship_of_row, related)))
            told = graph, self.quoted.of_entity, self.quoted.of_relationship, self.crew, self.style, self.budgets
            described, lost = await describe(*told, lambda *_: None, names)
            failed += lost
            said = {e.id: e.description for e in described.entities} | {r.id: r.description for r in described.relationships}
            with staged.together():
                staged.replace("entities", some, [(*row[:3], said[row[0]], *row[4:]) for row in some])
                staged.replace("relationships", related, [(*row[:3], said[row[0]], *row[4:]) for row in related])
            self.tell("descriptions", min(total, at + len(some) + len(related)), total)
        self.tell("descriptions", total, total)
        return sorted(failed, key=lambda f: f.subject)

    def _to_describe(self) -> tuple[list[str], list[str]]:
        """The entities and relationships whose description may be another than before, by id."""
        db = self.project.db
        if ledger.settings(db).get("described") != self.described:
            return self._in_order("entities", "mentions", "entity_id"), self._in_order("relationships", "evidence", "relationship_id")
        failed = {f.subject for f in ledger.failures(db) if f.stage == "description"}
        entities = self.entities | others(self.staged, "mentions", self.shifted) | failed
        shown = others(self.staged, "evidence", self.shifted) | failed
        said = {key[0] for key, before, now in self.staged.changes("relationships", "descriptions") if before != now}
        return sorted(entities), sorted(shown | said)

    def _in_order(self, table: str, places: str, column: str) -> list[str]:
        """All entities or relationships, as far as may be in the order of chunks that tell of them: each chunk is read once, not often."""
        found = dict.fromkeys(key for (key,) in self.staged.rows(places, columns=f"t.{column}", first="ORDER BY t.chunk_id"))
        return [*found, *sorted(key for (key,) in self.staged.rows(table, columns="t.id") if key not in found)]

    def touched(self) -> frozenset[str]:
        """The entities that anything is new of, but for weights, and places that an edit elsewhere in their documents shifted."""
        found = {key[0] for key in self.staged.changed("entities")} | others(self.staged, "mentions", self.shifted)
        ends = [row for _, *rows in self.staged.changes("claims", "subject_id, object_id") for row in rows if row]
        said = self.staged.changes("relationships", "source_id, target_id, description")
        ends += [row[:2] for _, before, now in said if before != now for row in (before, now) if row]
        shown = others(self.staged, "evidence", self.shifted)
        ends += [row[1:3] for key in shown if (row := self.staged.row("relationships", key))]
        return frozenset(found.union(*ends) - {None})

    @property
    def described(self) -> str:
        """What descriptions depend on besides the texts."""
        own = own_hashes(self.project.settings.prompts, "abstractive/describe") if self.style == "abstractive" else []
        return content_id(self.style, self.budgets.descriptions, self.budgets.description, *own)


def is_quoted(db: Database) -> bool:
    """Whether the descriptions of the published graph, if there is one, are sentences of the documents, which no model has written."""
    quoted = content_id("extractive", LEAST.descriptions, LEAST.description)
    return bool(ledger.settings(db).get("described", quoted) == quoted)


def _with_model(decisions: Decisions, said: "Collection[tuple[str, ...]]") -> Decisions:
    """The user's decisions with what a model said; the user has the last word."""
    pairs = tuple(sorted((a, b) for a, b in said if frozenset((a, b)) not in decisions.different))
    return replace(decisions, same=(*decisions.same, *pairs), by_model=frozenset(pairs))


Decided = set[tuple[str, tuple[str, ...]]]  # same or different, and the names


def _pairs(decisions: Decisions) -> Decided:
    return {("same", pair) for pair in decisions.same} | {("different", tuple(sorted(pair))) for pair in decisions.different}


def _decided(kept: Mapping[str, Any]) -> Decided:
    return {(name, tuple(pair)) for name in ("same", "different") for pair in kept.get(name, ())}


def _clustered(project: Project, staged: Staged, brought: Brought | None, *, anew: bool) -> tuple[Clustered, frozenset[str]]:
    """Bring the communities up to date; which of them another program found."""
    db, settings = project.db, project.settings
    theirs = store.imported_reports(db)

    def before() -> list[Community]:  # read only where all are found
        return [c for c in store.communities(db) if c.id not in theirs]

    sized = {"max_size": settings.max_cluster_size, "seed": settings.seed}
    known = ledger.settings(db).get("clustered", {})
    turn = ledger.settings(db).get("reclustered", 0)
    again = turn != known.get("turn", 0)
    if not theirs and brought is None:
        if anew or any(known.get(key) != value for key, value in sized.items()):
            known = {}
        done = cluster(staged, known, before, **sized, anew=again)
        return replace(done, state={**done.state, **sized, "turn": turn}), frozenset()
    graph = whole_graph(staged)
    held = _held(project, graph)
    if brought:
        new, reports = brought(graph, {c.id: c for c in corpus.all_chunks(db)}, held)
        held += new
        store.save_reports(db, reports)
    levels = beside(held, graph, lambda rest: communities(rest, **sized, before=before()))
    attach(staged, anew=True)
    put_all(staged, levels, staged_columns(staged, attached=True))
    return Clustered(None, {"turn": turn}), frozenset(c.id for c in held)


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
    """The places of a graph, or of the part of it that others come to lie in (`in_part`), and the hash of what they were made from.

    Not published yet.
    """

    layout: Layout
    state: str
    in_part: bool = False


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
    if made and made.changed is not None and not picture and places.complete(db):
        return LaidOut(redraw(made.staged, made.changed), state, in_part=True)
    staged = made.staged if made else Staged.published(db)
    graph = staged_columns(staged)
    levels = staged_levels(staged, graph.entities)
    before = Layout() if picture.get("method", HIERARCHICAL) != HIERARCHICAL else places.load(db)
    layout = place_all(graph, levels, before)
    if picture:
        layout = with_structure(graph, levels, layout, picture["method"], dimensions=picture["dimensions"], seed=picture["seed"])
    tell("layout", 1, 1)
    return LaidOut(layout, state)


def _recipes(project: Project, style: str) -> list[str]:
    by_model = [recipe_of(project, style)] * (project.settings.extractor == "model")
    return [IMPORTED, *by_model, *map(in_part, by_model), PHRASES]


def _varying(recipes: Sequence[str]) -> list[str]:
    """Those that what they gave does not follow from: another program's, and what failed in part says nothing of what else it gave."""
    return [IMPORTED, *recipes[2:-1]]


def _options(project: Project, style: str, budgets: Budgets, decisions: Decisions) -> str:
    """A hash of all that the graph is made from but what was extracted."""
    settings = project.settings
    sized = [budgets.descriptions, budgets.description] * (budgets != LEAST)
    turn = ledger.settings(project.db).get("reclustered")
    own = own_hashes(settings.prompts, "abstractive/describe", "abstractive/same") if style == "abstractive" else []
    return content_id(MERGING, settings.max_cluster_size, settings.seed, style, decisions, *sized, *own, *[turn] * bool(turn))
