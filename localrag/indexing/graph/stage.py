"""Stage 3: extractions to graph, communities and layout, if any of their input changed.

The descriptions of an entity or relationship are joined to one (paper, section 3.1.3).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from localrag.errors import ContextTooSmall
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.extraction.stage import extraction_hash_of, partial_hash
from localrag.indexing.graph.clustering import ClusteringResult, attach_isolated_entities, store_communities, update_communities
from localrag.indexing.graph.communities import cluster_around, hierarchical_leiden, remap_entity_ids, surviving_imports
from localrag.indexing.graph.contributions import entity_id
from localrag.indexing.graph.entity_resolution import MergeDecisions, read_aliases
from localrag.indexing.graph.layout import LAYOUT_VERSION, compute_layout
from localrag.indexing.graph.merge import (
    GraphUpdate,
    SupportingSentences,
    entity_of_row,
    find_similar_spellings,
    load_community_arrays,
    load_graph,
    load_graph_arrays,
    relationship_of_row,
    undecided_pairs,
)
from localrag.indexing.method import IndexingMethod
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.tasks import Task, TaskContext, WorkerPool
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity, less_than
from localrag.llm.grammar import single_line
from localrag.llm.model import CALL_ERRORS, CURRENT_SUBJECT, ChatModel, bounded_map, end_at_sentence
from localrag.llm.prompts import load_prompt, override_hashes
from localrag.project import Project, resolve_token_budgets
from localrag.records import (
    IMPORTED_MARK,
    Chunk,
    Community,
    Entity,
    Failure,
    Graph,
    GraphLayout,
    Quote,
    Relationship,
    Report,
    content_id,
    description_subject,
)
from localrag.settings import PromptOverrides
from localrag.store import chunks, documents, runs
from localrag.store import graph as graph_store
from localrag.store import layout as layout_store
from localrag.store import staging as staging_store
from localrag.store.generations import changed_subjects, shifted_chunks
from localrag.store.staging import GraphStaging
from localrag.text.quotes import informativeness
from localrag.text.sentences import collapse_whitespace, is_cjk

SENTENCES_PER_DESCRIPTION = 2  # of an extractive description
MAX_JOINED_CHARS = 400  # of several descriptions, that are joined as they are, without the model


@dataclass(frozen=True)
class SummarizeDescriptions(Task[str]):
    """Summarises several descriptions of an entity or relationship. Raises CALL_ERRORS."""

    subject: str
    descriptions: tuple[str, ...]
    budgets: TokenBudgets
    llm_task = "describe"

    @property
    def subjects(self) -> tuple[str, ...]:
        """The descriptions."""
        return (description_subject(self.subject, self.descriptions),)

    async def run(self, tools: TaskContext) -> str:
        """The summary."""
        CURRENT_SUBJECT.set(self.subjects[0])
        return await summarize(self.subject, self.descriptions, tools.model, self.budgets, tools.settings.prompts)


QuotesOf = Callable[[str], Sequence[Quote]]  # the sentences about an entity or a relationship, by its id


async def describe_graph(
    graph: Graph,
    of_entity: QuotesOf,
    of_relationship: QuotesOf,
    pool: WorkerPool | None,
    style: str,
    budgets: TokenBudgets = MIN_BUDGETS,
    on_progress: Callable[[int, int], None] = lambda *_: None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Graph, list[Failure]]:
    """Fill in every description of the graph; returns the failures too, whose items keep their longest description.

    Extractive: the most informative sentences, without model and pool. Abstractive: summaries. `on_progress` is called with the number
    done and the total. `names`: of ends of relationships that are not among the graph's entities.
    """
    failed: list[Failure] = []
    done = count()

    async def summary(key: str, subject: str, descriptions: Sequence[str]) -> str:
        several = tuple(sorted(set(descriptions)))
        try:
            if (joined := join_descriptions(several)) and _latin_chars(joined) <= MAX_JOINED_CHARS:
                return joined
            return await pool.run(SummarizeDescriptions(subject, several, budgets)) if pool and len(several) > 1 else "".join(several)
        except CALL_ERRORS as error:  # keeps one description and completes the graph
            failed.append(Failure("description", key, str(error), error.kind))
            return max(descriptions, key=len)
        finally:
            on_progress(next(done) + 1, len(graph.entities) + len(graph.relationships))

    if style == "extractive":
        # Only other programs' extractions have descriptions here: they are kept.
        entities = [_longest(e) or _join(of_entity(e.id)) for e in graph.entities]
        relationships = [_longest(r) or _join(_best(of_relationship(r.id))) for r in graph.relationships]
    else:
        names = {**names, **{e.id: e.name for e in graph.entities}}
        jobs = [(e.id, e.name, e.descriptions) for e in graph.entities]
        jobs += [(r.id, f"{names[r.source_id]} and {names[r.target_id]}", r.descriptions) for r in graph.relationships]
        texts = await bounded_map(summary(*job) for job in jobs)
        n = len(graph.entities)
        entities = [d or _join(of_entity(e.id)) for e, d in zip(graph.entities, texts[:n], strict=True)]
        relationships = [d or _join(_best(of_relationship(r.id))) for r, d in zip(graph.relationships, texts[n:], strict=True)]
    described = replace(
        graph,
        entities=tuple(replace(e, description=d) for e, d in zip(graph.entities, entities, strict=True)),
        relationships=tuple(replace(r, description=d) for r, d in zip(graph.relationships, relationships, strict=True)),
    )
    return described, sorted(failed, key=lambda f: f.subject)


def join_descriptions(descriptions: Sequence[str]) -> str:
    """The descriptions as sentences one after the other, without those that are part of another one."""
    folded = [d.rstrip(" .。").casefold() for d in descriptions]
    parts = {n for n, text in enumerate(folded) for m, other in enumerate(folded) if m != n and text in other and (m < n or text != other)}
    distinct = [d for n, d in enumerate(descriptions) if n not in parts]
    if len(distinct) <= 1:
        return "".join(distinct)
    end, gap = ("。", "") if is_cjk("".join(distinct)) else (".", " ")
    return gap.join(d if d.rstrip().endswith((".", "!", "?", "。", "！", "？")) else f"{d.rstrip()}{end}" for d in distinct)


def _latin_chars(text: str) -> int:
    """The length of a text, in which a character of Chinese, Japanese or Korean counts as much as three Latin ones."""
    return len(text) * (3 if is_cjk(text) else 1)


async def summarize(
    subject: str, descriptions: Sequence[str], model: ChatModel, budgets: TokenBudgets = MIN_BUDGETS, overrides: PromptOverrides = ()
) -> str:
    """Keep a single description; summarise several, in rounds if one prompt cannot hold them. Raises CALL_ERRORS."""
    waiting = sorted(set(descriptions))
    while len(waiting) > 1:
        taken, used = 0, 0
        while taken < len(waiting) and (taken < 2 or used + await model.count(waiting[taken]) <= budgets.descriptions):
            used += await model.count(waiting[taken])
            taken += 1
        batch = waiting[:taken]
        script = await TokenDensity.measure(model.count, "".join(batch))
        messages = load_prompt("abstractive/describe", overrides).fill(subject=subject, descriptions="\n".join(f"- {d}" for d in batch))
        longest = script.max_chars(budgets.description)
        try:
            reply = await model.ask("describe", messages, max_tokens=script.max_tokens(longest) + 8, grammar=single_line(longest))
        except ContextTooSmall:
            less = less_than(budgets)  # the window is smaller today than the index's budgets
            if less is None:
                raise
            return await summarize(subject, waiting, model, less, overrides)
        waiting = [end_at_sentence(reply.text.strip(), longest), *waiting[taken:]]
    return waiting[0] if waiting else ""


def _longest(of: Entity | Relationship) -> str:
    return max(of.descriptions, key=len, default="")


def _best(quotes: Sequence[Quote]) -> list[Quote]:
    return [max(quotes, key=lambda q: informativeness(collapse_whitespace(q.text), 2))] if len(quotes) > 1 else list(quotes)


def _join(quotes: Sequence[Quote]) -> str:
    return " ".join(collapse_whitespace(q.text) for q in quotes[:SENTENCES_PER_DESCRIPTION])


MERGE_RULES_VERSION = "graph 6"  # of the rules that build a graph: if it changes, the graph is rebuilt
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
            made = build.merge(decisions, changed, removed)
            failed = await build.describe()
            progress("communities", 0, 1)
            progress.count_entities(staged.count("entities"))
            clustered, imported_ids = _update_communities(project, staged, import_communities, from_scratch=from_scratch)
            runs.replace_failures(db, ("description",), failed)
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

    def merge(self, decisions: MergeDecisions, changed: Collection[str], removed: Collection[str]) -> dict[str, Any]:
        """Merge names that are variants of one another.

        `changed` and `removed` are the documents whose contribution changed. Returns the settings that record the decisions.
        """
        before = _decided(runs.load_settings(self.project.db).get("merge_decisions", {}))
        self._update(decisions, changed, removed, {name for _, pair in before ^ _pairs(decisions) for name in pair})
        self.tell("entity resolution", 1, 2)
        rows = [(b, a, 0, "spelt alike", score) for a, b, score in undecided_pairs(self.staged, decisions)]
        self.staged.replace("name_merges", list(self.staged.select("name_merges", "t.is_applied = 0")), rows)
        self.tell("entity resolution", 2, 2)
        return {"merge_decisions": {"same": decisions.merged_pairs, "different": sorted(map(sorted, decisions.separate_pairs))}}

    def _update(self, decisions: MergeDecisions, changed: Collection[str], removed: Collection[str], decided: Collection[str]) -> None:
        update, db = GraphUpdate(self.staged, self.read, decisions), self.project.db
        with self.staged.transaction():
            update.apply(changed, removed, decided)
            for document in (*changed, *removed):
                old = self.staged.select("graph_inputs", "t.document_id = ?", [document])
                self.staged.replace("graph_inputs", old, staging_store.graph_input_rows(db, document))
            find_similar_spellings(self.staged, update.blocks)
        self.entities |= {entity_id(key) for key in update.entities}

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
    attach_isolated_entities(staged, from_scratch=True)
    arrays = load_graph_arrays(staged, attached=True)
    levels = cluster_around(retained, arrays, lambda rest: hierarchical_leiden(rest, **sized, before=before()))
    store_communities(staged, levels, arrays)
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


def update_layout(project: Project, progress: ProgressReporter, built: BuiltGraph | None) -> tuple[GraphLayout, str] | None:
    """Compute positions for the new graph `built`, else for the stored one if it has none, starting from the old positions.

    Returns the layout, which is not published yet, and the hash of its input; None if the stored one is up to date.
    """
    db = project.db
    settings = runs.load_settings(db)
    graph_state = built.graph_hash if built else settings.get("graph_hash")
    state = content_id(LAYOUT_VERSION, graph_state)
    if graph_state is None or (built is None and settings.get("layout_hash") == state):
        return None
    progress("layout", 0, 1)
    staged = built.staging if built else GraphStaging.published(db)
    graph = load_graph_arrays(staged)
    layout = compute_layout(graph, load_community_arrays(staged, graph.entities), layout_store.load_layout(db))
    progress("layout", 1, 1)
    return layout, state


def _recipes(project: Project, method: IndexingMethod) -> list[str]:
    by_model = [extraction_hash_of(project, method)] * (method.by != "phrases")
    return [IMPORTED_MARK, *by_model, *map(partial_hash, by_model), PHRASES_HASH]


def _nondeterministic_hashes(recipes: Sequence[str]) -> list[str]:
    """The hashes whose extractions do not follow from their input: imported ones, and those with failed calls."""
    return [IMPORTED_MARK, *recipes[2:-1]]


def _options_hash(project: Project, style: str, budgets: TokenBudgets, decisions: MergeDecisions) -> str:
    """The hash of everything that the graph is built from besides the extractions."""
    settings = project.settings
    turn = runs.load_settings(project.db).get("reclustered", 0)
    own = override_hashes(settings.prompts, "abstractive/describe") if style == "abstractive" else []
    decided = (decisions.merged_pairs, sorted(map(sorted, decisions.separate_pairs)))
    sized = (budgets.descriptions, budgets.description)
    return content_id(MERGE_RULES_VERSION, settings.max_cluster_size, settings.seed, style, *decided, *sized, *own, turn)
