"""Stage 3: extractions to graph, communities and layout, if any of their input changed.

In a local update of the layout only circles whose content changed are laid out again, each within its old circle. A new community takes a
free place beside the others of its parent; if there is none, the parent's content is laid out again.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sqlite_utils import Database

from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.extraction.stage import extraction_hash_of, partial_hash
from localrag.indexing.graph.clustering import ClusteringResult, attach_isolated_entities, store_communities, update_communities
from localrag.indexing.graph.communities import cluster_around, detect_communities, remap_entity_ids, surviving_imports
from localrag.indexing.graph.contributions import entity_id
from localrag.indexing.graph.descriptions import describe_graph
from localrag.indexing.graph.entity_resolution import MergeDecisions, read_aliases
from localrag.indexing.graph.layout import (
    LAYOUT_VERSION,
    LINKS_PER_COMMUNITY,
    RIM_SHARE,
    compute_layout,
    lay_out_records,
    nearest_free_center,
)
from localrag.indexing.graph.merge import (
    GraphUpdate,
    SupportingSentences,
    decide_with_llm,
    entity_of_row,
    find_similar_meanings,
    find_similar_spellings,
    load_community_arrays,
    load_graph,
    load_graph_arrays,
    relationship_of_row,
    undecided_pairs,
)
from localrag.indexing.method import IndexingMethod
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.tasks import WorkerPool
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets
from localrag.llm.prompts import override_hashes
from localrag.project import Project, resolve_token_budgets
from localrag.records import IMPORTED_MARK, Chunk, Community, CommunityEdge, Failure, Graph, GraphLayout, Position, Report, content_id
from localrag.store import chunks, documents, runs
from localrag.store import graph as graph_store
from localrag.store import layout as layout_store
from localrag.store import staging as staging_store
from localrag.store.generations import changed_subjects, shifted_chunks
from localrag.store.graph import child_communities, members_of
from localrag.store.staging import IN_JSON_LIST, GraphStaging

SMALLER = (1.0, 0.7, 0.5)  # factors of its size that are tried for a new community
MAX_CACHED_ENTITIES = 100_000  # entities whose communities stay in memory
COMPARED_COMMUNITIES = 200  # communities beside a new one that its drawn size is estimated from
MAX_RECOUNTED_ENTITIES = 500  # entities of a community whose edges are counted again; edges of larger ones stay as they are
Circle = tuple[float, float, float]


def update_layout_locally(staged: GraphStaging, changed: Collection[str]) -> GraphLayout:
    """The positions that change if these communities change; all else stays in place."""
    rows = {key: row for key in sorted(changed) if (row := staged.get("communities", key))}
    circles = layout_store.community_positions(staged.db, {*rows, *(row[3] for row in rows.values() if row[3])})
    roots, inserted = _roots(staged, rows, circles)
    if not roots:
        return GraphLayout((), (), _community_links(staged, rows))
    levels = [c for root in sorted(roots) for c in _subtree(staged, root)]
    entities = sorted({e for c in levels if c.id in roots for e in c.entity_ids})
    before = _layout_before(staged, entities, [c.id for c in levels])
    drawn = lay_out_records(_graph(staged, entities), levels, before)
    frames = _frames(levels, roots, drawn.communities, {**circles, **inserted})
    home = {e: c.id for c in levels if c.id in roots for e in c.entity_ids}
    root = {c.id: home[c.entity_ids[0]] for c in levels}
    return GraphLayout(
        tuple(_moved(p, frames[home[p.id]]) for p in drawn.entities),
        tuple(_moved(p, frames[root[p.id]]) for p in drawn.communities),
        _community_links(staged, rows),
    )


def _roots(staged: GraphStaging, rows: dict[str, tuple[object, ...]], circles: dict[str, Circle]) -> tuple[set[str], dict[str, Circle]]:
    """The communities whose content is laid out again, none inside another; and the circles of new ones."""
    deepest = staged.max_value("communities", "level")
    roots: set[str] = set()
    inserted: dict[str, Circle] = {}
    for key, (_, level, _, above) in sorted(rows.items(), key=lambda item: (item[1][1], item[0])):
        if key in circles:
            if level == deepest:
                roots.add(key)
        elif above is None or (above in circles and above not in roots):
            circle = _free_circle(staged, key, above, circles, inserted)
            if circle:
                inserted[key] = circle
            roots.add(key if circle else str(above))
    inside = {key for key in roots if _ancestors(staged, key) & roots}
    return roots - inside, inserted


def _ancestors(staged: GraphStaging, key: str) -> set[str]:
    ancestors: set[str] = set()
    row = staged.get("communities", key)
    while row and row[3]:
        ancestors.add(row[3])
        row = staged.get("communities", row[3])
    return ancestors


def _free_circle(staged: GraphStaging, key: str, above: object, circles: dict[str, Circle], inserted: dict[str, Circle]) -> Circle | None:
    """A circle for a new community among those of its parent, or on the top level; None if nothing is free."""
    beside = child_communities(staged, str(above)) if above else [k for (k,) in staged.select("communities", "t.level = 0", columns="t.id")]
    beside = [k for k in beside if k != key]
    siblings = list((layout_store.community_positions(staged.db, beside) | {k: inserted[k] for k in beside if k in inserted}).items())
    sizes = _sizes(staged, [key, *(k for k, _ in siblings[:COMPARED_COMMUNITIES])])
    xyr = np.array([circle for _, circle in siblings], np.float64).reshape(-1, 3)
    unit = (
        float(np.median(xyr[:COMPARED_COMMUNITIES, 2] / np.sqrt([sizes[k] for k, _ in siblings[:COMPARED_COMMUNITIES]])))
        if siblings
        else 1.0
    )
    x, y, around = circles[str(above)] if above else (0.0, 0.0, np.inf)
    entity_circles = np.array(list(layout_store.entity_positions(staged.db, members_of(staged, key)).values()), np.float64).reshape(-1, 3)[
        :, :2
    ]
    entity_circles = entity_circles[np.hypot(entity_circles[:, 0] - x, entity_circles[:, 1] - y) < around]
    wanted = entity_circles.mean(axis=0) if len(entity_circles) else np.array([x, y])
    for smaller in SMALLER if above else SMALLER[:1]:
        r = unit * float(np.sqrt(sizes[key])) * smaller
        place = nearest_free_center(wanted, r, xyr[:, :2], xyr[:, 2])
        free = (np.hypot(*(xyr[:, :2] - place).T) >= xyr[:, 2] + r).all()
        if free and np.hypot(place[0] - x, place[1] - y) + r <= around * (1 - RIM_SHARE / 4):
            return float(place[0]), float(place[1]), r
    return None if above else (float(xyr[:, 0].max(initial=0) + xyr[:, 2].max(initial=0) + unit * sizes[key]), 0.0, unit)


def _sizes(staged: GraphStaging, communities: Sequence[str]) -> Counter[str]:
    keys, counted = [json.dumps(list(communities))], "t.community_id, count(*)"
    sizes = Counter[str]()
    for key, n in staged.select("community_members", f"t.community_id {IN_JSON_LIST}", keys, counted, "GROUP BY t.community_id"):
        sizes[key] += n
    return sizes


def _subtree(staged: GraphStaging, root: str) -> list[Community]:
    """A community and everything inside it, as levels of their own."""
    communities = list[Community]()
    pending: list[tuple[str, int, str | None]] = [(root, 0, None)]
    while pending:
        key, level, above = pending.pop()
        communities.append(Community(key, level, 0, above, tuple(members_of(staged, key))))
        pending += [(k, level + 1, key) for k in child_communities(staged, key)]
    return communities


def _layout_before(staged: GraphStaging, entities: Iterable[str], communities: Iterable[str]) -> GraphLayout:
    points, circles = layout_store.entity_positions(staged.db, entities), layout_store.community_positions(staged.db, communities)
    return GraphLayout(tuple(Position(k, *c) for k, c in points.items()), tuple(Position(k, *c) for k, c in circles.items()))


def _graph(staged: GraphStaging, entities: Sequence[str]) -> Graph:
    keys, inside = json.dumps(entities), set(entities)
    related = staged.select("relationships", f"t.source_id {IN_JSON_LIST}", [keys])
    return Graph(
        tuple(entity_of_row(row) for row in staged.select("entities", f"t.id {IN_JSON_LIST}", [keys])),
        tuple(relationship_of_row(row) for row in related if row[2] in inside),
    )


def _frames(
    levels: Sequence[Community], roots: Collection[str], drawn: Sequence[Position], circles: dict[str, Circle]
) -> dict[str, tuple[Circle, Circle]]:
    """The circles that each community's content was drawn in, and belongs in."""
    drawn_circles = {p.id: (p.x, p.y, p.r) for p in drawn}
    return {c.id: (drawn_circles[c.id], circles[c.id]) for c in levels if c.id in roots}


def _moved(place: Position, frame: tuple[Circle, Circle]) -> Position:
    (ax, ay, ar), (x, y, r) = frame
    scale = r / ar
    return Position(place.id, x + (place.x - ax) * scale, y + (place.y - ay) * scale, place.r * scale)


def _community_links(staged: GraphStaging, rows: dict[str, tuple[object, ...]]) -> tuple[CommunityEdge, ...]:
    """The heaviest edges of changed communities that are not large, to others of their level."""
    sizes = _sizes(staged, [*rows, *(str(row[3]) for row in rows.values() if row[3])])
    homes, edges = _Homes(staged), []
    for key, (_, level, _, above) in rows.items():
        if sizes[key] > MAX_RECOUNTED_ENTITIES or (above and sizes[key] == sizes[str(above)]):
            continue
        member_ids = members_of(staged, key)
        weights_near: defaultdict[str, float] = defaultdict(float)
        for mine, theirs in (("source_id", "target_id"), ("target_id", "source_id")):
            for other, weight in staged.select(
                "relationships", f"t.{mine} {IN_JSON_LIST}", [json.dumps(member_ids)], f"t.{theirs}, t.weight"
            ):
                weights_near[other] += weight
        weights: Counter[str] = Counter()
        for entity, home in homes.at(int(str(level)), weights_near.keys() - set(member_ids)):
            weights[home] += weights_near[entity]  # type: ignore[assignment]
        heaviest = sorted(weights, key=lambda k, weights=weights: (-weights[k], k))[:LINKS_PER_COMMUNITY]  # type: ignore[misc]
        edges += [CommunityEdge(int(str(level)), min(key, k), max(key, k), float(weights[k])) for k in heaviest]
    return tuple({(link.a, link.b): link for link in edges}.values())


class _Homes:
    """Looks up the communities of entities and caches them, since neighbours of one are neighbours of others."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self._levels: dict[str, tuple[int, str]] = {}  # community → its level, and one shared string of its id
        self._of: dict[str, dict[int, str]] = {}

    def at(self, level: int, entities: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Entities with their community of this level."""
        asked = sorted(entities)
        if len(self._of) > MAX_CACHED_ENTITIES:
            self._of.clear()
        new = [e for e in asked if e not in self._of]
        where, columns = f"t.entity_id {IN_JSON_LIST}", "t.entity_id, t.community_id"
        rows = list(self._staged.select("community_members", where, [json.dumps(new)], columns)) if new else []
        unknown = json.dumps(sorted({c for _, c in rows if c not in self._levels}))
        for c, n in self._staged.select("communities", f"t.id {IN_JSON_LIST}", [unknown], "t.id, t.level"):
            self._levels[c] = n, c
        for entity, c in rows:
            n, home = self._levels[c]
            self._of.setdefault(entity, {})[n] = home
        return ((e, self._of[e][level]) for e in asked if level in self._of.get(e, ()))


MERGE_RULES_VERSION = "graph 5"  # of the rules that build a graph: if it changes, the graph is rebuilt
DESCRIPTIONS_PER_COMMIT = {"extractive": 5000, "abstractive": 500}  # entities, and relationships, that are described and stored together


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """A staged graph with its communities, and the settings that record its input.

    `changed_communities` and `changed_entities` differ from the published ones; None if all may. `imported_communities` were found by
    another program and keep its reports.
    """

    staging: GraphStaging
    settings: Mapping[str, Any]
    changed_communities: frozenset[str] | None = None
    changed_entities: frozenset[str] | None = None
    imported_communities: frozenset[str] = frozenset()

    @property
    def graph_hash(self) -> str:
        """The hash of the graph's whole input."""
        return str(self.settings["graph_hash"])


# The communities and reports of another program, from the graph, its chunks and the imported communities that exist already.
ImportCommunities = Callable[[Graph, Mapping[str, Chunk], Sequence[Community]], tuple[list[Community], list[Report]]]


async def build_graph(
    project: Project,
    method: IndexingMethod,
    pool: WorkerPool,
    progress: ProgressReporter,
    import_communities: ImportCommunities | None = None,
) -> BuiltGraph | None:
    """Merge names, weigh, describe and cluster, if any extraction, decision or setting changed; only the affected parts.

    Communities with reports of other programs are kept; `import_communities` returns new ones, whose reports are staged. The caller
    publishes the result and closes it.
    """
    db, style = project.db, method.style
    budgets = await resolve_token_budgets(project) if style == "abstractive" else MIN_BUDGETS
    decisions, settings = read_aliases(project.folder), runs.load_settings(db)
    recipes = _recipes(project, method)
    read_by, options = content_id(*recipes), _options_hash(project, style, budgets, decisions)
    from_scratch = settings.get("merge_rules_version") != MERGE_RULES_VERSION or not settings.get("graph_hash")
    with staging_store.select_extractions(
        db, recipes, _nondeterministic_hashes(recipes), every=from_scratch or settings.get("extraction_hashes") != read_by
    ):
        changed, removed = (
            (staging_store.documents_with_extractions(db), []) if from_scratch else staging_store.documents_changed_since_graph(db)
        )
        if not (from_scratch or changed or removed or import_communities) and settings.get("graph_options_hash") == options:
            staging_store.clear_changed_chunks(db)
            if settings.get("extraction_hashes") != read_by:
                runs.save_settings(db, extraction_hashes=read_by)
            return None
        state = content_id(
            options, *[settings.get("graph_hash")] * (not from_scratch), staging_store.graph_input_hash(db, changed), *removed
        )
        staged = GraphStaging(db, from_scratch=from_scratch)
        try:
            progress("entity resolution", 0, 2)
            build = _GraphBuild(project, staged, style, recipes, budgets, pool, progress, from_scratch)
            made = await build.merge(decisions, changed, removed)
            failed = [*build.failed, *await build.describe()]
            progress("communities", 0, 1)
            progress.count_entities(staged.count("entities"))
            clustered, imported_ids = _update_communities(project, staged, import_communities, from_scratch=from_scratch)
            runs.replace_failures(db, ("same entity", "description"), failed)
            progress("communities", 1, 1)
        except BaseException:
            staged.discard()
            raise
    # A graph with failures is incomplete: the next run tries again.
    made |= {"graph_hash": content_id(state, *failed), "graph_options_hash": None if failed else options, "extraction_hashes": read_by}
    made |= {
        "merge_rules_version": MERGE_RULES_VERSION,
        "descriptions_hash": build.descriptions_hash,
        "clustering_statistics": clustered.statistics,
    }
    return BuiltGraph(staged, made, clustered.changed, None if from_scratch else build.changed_entities(), imported_ids)


@dataclass
class _GraphBuild:
    """A graph that is being updated or built `from_scratch`."""

    project: Project
    staged: GraphStaging
    style: str
    recipes: Sequence[str]
    budgets: TokenBudgets
    pool: WorkerPool
    tell: ProgressReporter
    from_scratch: bool

    def __post_init__(self) -> None:
        self.read = lru_cache(64)(partial(staging_store.chunks_with_extractions, self.project.db, self.recipes))
        self.quoted = SupportingSentences(self.staged)
        self.shifted = {} if self.from_scratch else shifted_chunks(self.project.db)
        self.entities: set[str] = set()
        self.failed: list[Failure] = []

    async def merge(self, decisions: MergeDecisions, changed: Collection[str], removed: Collection[str]) -> dict[str, Any]:
        """Merge names that are variants of one another; a model that writes prose decides on similar ones.

        `changed` and `removed` are the documents whose contribution changed. Returns the settings that record the decisions.
        """
        settings = runs.load_settings(self.project.db)
        asked_of = content_id(self.project.model.file.fingerprint, *override_hashes(self.project.settings.prompts, "abstractive/same"))
        stored = settings.get("llm_same_entity", {}) if self.style == "abstractive" else {}
        llm_pairs = {tuple(pair) for pair in stored.get("pairs", ())} if stored.get("of") == asked_of else set()
        before = _decided(settings.get("merge_decisions", {}))
        now = _with_model(decisions, llm_pairs)
        self._update(now, changed, removed, {name for _, pair in before ^ _pairs(now) for name in pair})
        self.tell("entity resolution", 1, 2)
        similar = undecided_pairs(self.staged, now)
        meaning = await find_similar_meanings(self.staged, self.pool, self.project.embedder.file.fingerprint, now)
        self._store_undecided(similar, meaning)
        self.tell("entity resolution", 2, 2)
        if self.style == "abstractive" and (similar or meaning):
            more, self.failed = await decide_with_llm(
                self._shown([*similar, *meaning]), self.pool, lambda *at: self.tell("entity duplicates", *at)
            )
            llm_pairs |= set(more)
            now = _with_model(decisions, llm_pairs)
            self._update(now, [], [], {name for pair in more for name in pair})
        return {
            "merge_decisions": {"same": now.merged_pairs, "different": sorted(map(sorted, now.separate_pairs))},
            "llm_same_entity": {"of": asked_of, "pairs": sorted(llm_pairs)},
        }

    def _update(self, decisions: MergeDecisions, changed: Collection[str], removed: Collection[str], decided: Collection[str]) -> None:
        update, db = GraphUpdate(self.staged, self.read, decisions), self.project.db
        with self.staged.transaction():
            update.apply(changed, removed, decided)
            for document in (*changed, *removed):
                old = self.staged.select("graph_inputs", "t.document_id = ?", [document])
                self.staged.replace("graph_inputs", old, staging_store.graph_input_rows(db, document))
            find_similar_spellings(self.staged, update.blocks)
        self.entities |= {entity_id(key) for key in update.entities}

    def _store_undecided(self, similar: Sequence[tuple[str, str, float]], meaning: Sequence[tuple[str, str, float]]) -> None:
        rows = [(b, a, 0, "spelt alike", score) for a, b, score in similar] + [(b, a, 0, "alike in meaning", s) for a, b, s in meaning]
        self.staged.replace("name_merges", list(self.staged.select("name_merges", "t.is_applied = 0")), rows)

    def _shown(self, pairs: Iterable[tuple[str, str, float]]) -> list[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]:
        """Pairs of names as they are written, with a sentence of each."""
        shown_pairs = []
        for keys in dict.fromkeys((a, b) for a, b, _ in pairs):
            rows = [self.staged.get("entities", entity_id(key)) for key in keys]
            quotes = [self.quoted.of_entity(row[0], 1) if row else [] for row in rows]
            names, texts = ([row[1] if row else "" for row in rows], [some[0].text if some else "" for some in quotes])
            shown_pairs.append((keys, (names[0], names[1]), (texts[0], texts[1])))
        return shown_pairs

    async def describe(self) -> list[Failure]:
        """Describe new items and items with other sentences than before; returns the failures."""
        entities, relationships = self._to_describe()
        total = 1 if self.style == "extractive" else len(entities) + len(relationships)
        self.tell("description summaries", 0, total)
        failed, staged, limit = list[Failure](), self.staged, DESCRIPTIONS_PER_COMMIT[self.style]
        for at in range(0, max(len(entities), len(relationships)), limit):
            rows = staged.get_many("entities", entities[at : at + limit])
            related = staged.get_many("relationships", relationships[at : at + limit])
            names = {row[0]: row[1] for row in staged.get_many("entities", list({end for row in related for end in row[1:3]}))}
            graph = Graph(tuple(map(entity_of_row, rows)), tuple(map(relationship_of_row, related)))
            options = graph, self.quoted.of_entity, self.quoted.of_relationship, self.pool, self.style, self.budgets
            described, lost = await describe_graph(*options, lambda *_: None, names)
            failed += lost
            new_texts = {e.id: e.description for e in described.entities} | {r.id: r.description for r in described.relationships}
            with staged.transaction():
                staged.replace("entities", rows, [(*row[:3], new_texts[row[0]], *row[4:]) for row in rows])
                staged.replace("relationships", related, [(*row[:3], new_texts[row[0]], *row[4:]) for row in related])
            self.tell("description summaries", min(total, at + len(rows) + len(related)), total)
        self.tell("description summaries", total, total)
        return sorted(failed, key=lambda f: f.subject)

    def _to_describe(self) -> tuple[list[str], list[str]]:
        """The ids of entities and relationships whose description may change."""
        db = self.project.db
        if runs.load_settings(db).get("descriptions_hash") != self.descriptions_hash:
            return self._in_order("entities", "mentions", "entity_id"), self._in_order("relationships", "evidence", "relationship_id")
        failed = {f.subject for f in runs.failures(db) if f.stage == "description"}
        entities = self.entities | changed_subjects(self.staged, "mentions", self.shifted) | failed
        shown = changed_subjects(self.staged, "evidence", self.shifted) | failed
        changed = {key[0] for key, before, now in self.staged.changed_columns("relationships", "descriptions") if before != now}
        return sorted(entities), sorted(shown | changed)

    def _in_order(self, table: str, places: str, column: str) -> list[str]:
        """All entities or relationships, roughly in the order of their chunks, so that each chunk is read once."""
        ordered = dict.fromkeys(key for (key,) in self.staged.select(places, columns=f"t.{column}", first="ORDER BY t.chunk_id"))
        return [*ordered, *sorted(key for (key,) in self.staged.select(table, columns="t.id") if key not in ordered)]

    def changed_entities(self) -> frozenset[str]:
        """The entities with any change other than weights and positions shifted by an edit elsewhere in their documents."""
        changed = {key[0] for key in self.staged.changed_keys("entities")} | changed_subjects(self.staged, "mentions", self.shifted)
        ends = [row for _, *rows in self.staged.changed_columns("claims", "subject_id, object_id") for row in rows if row]
        relationship_changes = self.staged.changed_columns("relationships", "source_id, target_id, description")
        ends += [row[:2] for _, before, now in relationship_changes if before != now for row in (before, now) if row]
        shown = changed_subjects(self.staged, "evidence", self.shifted)
        ends += [row[1:3] for key in shown if (row := self.staged.get("relationships", key))]
        return frozenset(changed.union(*ends) - {None})

    @property
    def descriptions_hash(self) -> str:
        """The hash of everything that descriptions depend on besides the texts."""
        overrides = override_hashes(self.project.settings.prompts, "abstractive/describe") if self.style == "abstractive" else []
        return content_id(self.style, self.budgets.descriptions, self.budgets.description, *overrides)


def has_extractive_graph(db: Database) -> bool:
    """Whether the published graph, if there is one, has sentences of the documents as descriptions, written without a model."""
    quoted = content_id("extractive", MIN_BUDGETS.descriptions, MIN_BUDGETS.description)
    return bool(runs.load_settings(db).get("descriptions_hash", quoted) == quoted)


def _with_model(decisions: MergeDecisions, llm_pairs: "Collection[tuple[str, ...]]") -> MergeDecisions:
    """The user's decisions together with the model's; the user's override them."""
    pairs = tuple(sorted((a, b) for a, b in llm_pairs if frozenset((a, b)) not in decisions.separate_pairs))
    return replace(decisions, merged_pairs=(*decisions.merged_pairs, *pairs), llm_pairs=frozenset(pairs))


DecidedPairs = set[tuple[str, tuple[str, ...]]]  # same or different, and the names


def _pairs(decisions: MergeDecisions) -> DecidedPairs:
    return {("same", pair) for pair in decisions.merged_pairs} | {("different", tuple(sorted(pair))) for pair in decisions.separate_pairs}


def _decided(stored: Mapping[str, Any]) -> DecidedPairs:
    return {(name, tuple(pair)) for name in ("same", "different") for pair in stored.get(name, ())}


def _update_communities(
    project: Project, staged: GraphStaging, import_communities: ImportCommunities | None, *, from_scratch: bool
) -> tuple[ClusteringResult, frozenset[str]]:
    """Update the communities; returns also which of them another program found."""
    db, settings = project.db, project.settings
    imported = graph_store.imported_reports(db)

    def before() -> list[Community]:  # read only if all are recomputed
        return [c for c in graph_store.communities(db) if c.id not in imported]

    sized = {"max_size": settings.max_cluster_size, "seed": settings.seed}
    statistics = runs.load_settings(db).get("clustering_statistics", {})
    turn = runs.load_settings(db).get("reclustered", 0)
    again = turn != statistics.get("turn", 0)
    if not imported and import_communities is None:
        if from_scratch or any(statistics.get(key) != value for key, value in sized.items()):
            statistics = {}
        done = update_communities(staged, statistics, before, **sized, from_scratch=again)
        return replace(done, statistics={**done.statistics, **sized, "turn": turn}), frozenset()
    graph = load_graph(staged)
    retained = _imported_communities(project, graph)
    if import_communities:
        new, reports = import_communities(graph, {c.id: c for c in chunks.all_chunks(db)}, retained)
        retained += new
        graph_store.save_reports(db, reports)
    levels = cluster_around(retained, graph, lambda rest: detect_communities(rest, **sized, before=before()))
    attach_isolated_entities(staged, from_scratch=True)
    store_communities(staged, levels, load_graph_arrays(staged, attached=True))
    return ClusteringResult(None, {"turn": turn}), frozenset(c.id for c in retained)


def _imported_communities(project: Project, graph: Graph) -> list[Community]:
    """The stored communities with reports of other programs whose source text still exists."""
    db = project.db
    reports = graph_store.imported_reports(db)
    if not reports:
        return []
    levels, ending_chunks = graph_store.communities(db), documents.ending_import_chunks(db)
    lost = {m.entity_id for m in graph_store.mentions(db) if m.chunk_id in ending_chunks}
    return surviving_imports([c for c in levels if c.id in reports], lost, remap_entity_ids(graph_store.aliases(db), graph))


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """The positions of a graph, or of its changed part (`is_partial`), and the hash of their input.

    Not published yet.
    """

    layout: GraphLayout
    layout_hash: str
    is_partial: bool = False


def update_layout(project: Project, progress: ProgressReporter, built: BuiltGraph | None) -> LayoutResult | None:
    """Compute positions for the new graph `built`, else for the stored one if it has none, starting from the old positions."""
    db = project.db
    settings = runs.load_settings(db)
    graph_state = built.graph_hash if built else settings.get("graph_hash")
    state = content_id(LAYOUT_VERSION, graph_state)
    if graph_state is None or (built is None and settings.get("layout_hash") == state):
        return None
    progress("layout", 0, 1)
    if built and built.changed_communities is not None and layout_store.is_complete(db):
        return LayoutResult(update_layout_locally(built.staging, built.changed_communities), state, is_partial=True)
    staged = built.staging if built else GraphStaging.published(db)
    graph = load_graph_arrays(staged)
    layout = compute_layout(graph, load_community_arrays(staged, graph.entities), layout_store.load_layout(db))
    progress("layout", 1, 1)
    return LayoutResult(layout, state)


def _recipes(project: Project, method: IndexingMethod) -> list[str]:
    by_model = [extraction_hash_of(project, method)] * (method.by != "phrases")
    return [IMPORTED_MARK, *by_model, *map(partial_hash, by_model), PHRASES_HASH]


def _nondeterministic_hashes(recipes: Sequence[str]) -> list[str]:
    """The hashes whose extractions do not follow from their input: imported ones, and those with failed calls."""
    return [IMPORTED_MARK, *recipes[2:-1]]


def _options_hash(project: Project, style: str, budgets: TokenBudgets, decisions: MergeDecisions) -> str:
    """The hash of everything that the graph is built from besides the extractions."""
    settings = project.settings
    sized = [budgets.descriptions, budgets.description] * (budgets != MIN_BUDGETS)
    turn = runs.load_settings(project.db).get("reclustered")
    own = override_hashes(settings.prompts, "abstractive/describe", "abstractive/same") if style == "abstractive" else []
    apart: object = sorted(map(sorted, decisions.separate_pairs)) or frozenset()
    # Written as the hashes that indexes store have it: with other words every graph would be built again.
    decided = f"Decisions(same={decisions.merged_pairs}, different={apart}, by_model={decisions.llm_pairs})"
    return content_id(MERGE_RULES_VERSION, settings.max_cluster_size, settings.seed, style, decided, *sized, *own, *[turn] * bool(turn))
