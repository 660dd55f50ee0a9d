"""Stage 4: communities to stored reports, the deepest level first.

A report whose input did not change is kept. The input of a report is read from the graph's tables for its community alone.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from heapq import heappush, heappushpop
from typing import Any

from localrag.engine.tokenizer import Tokenizer
from localrag.errors import ContextTooSmall
from localrag.indexing import reports
from localrag.indexing.graph.contributions import batched, rounded_total
from localrag.indexing.graph.merge import SupportingSentences, entity_of_row, relationship_of_row
from localrag.indexing.graph.stage import BuiltGraph
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.reports import (
    MIN_ELEMENT_TOKENS,
    ContextElement,
    ReportSources,
    SelectSentences,
    SentencePool,
    WriteReport,
    build_report_context,
)
from localrag.indexing.tasks import EmbedTexts, WorkerPool, run_in_order
from localrag.indexing.titles import TITLES_VERSION, Section, TitleSource, titled_sections
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, less_than
from localrag.llm.grammar import DEFAULT_ENTITY_TYPE
from localrag.llm.model import CALL_ERRORS, bounded_map
from localrag.project import Project, current_token_budgets, resolve_token_budgets
from localrag.records import IMPORTED_MARK, Claim, Community, Entity, Failure, Quote, Relationship, Report, content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import graph, runs
from localrag.store.generations import publish_reports, reports_quoting_ended_chunks, shifted_chunks, shifted_report
from localrag.store.graph import child_communities, members_of
from localrag.store.staging import IN_JSON_LIST, GraphStaging
from localrag.store.vectors import save_vectors
from localrag.text.quotes import claim_quotes
from localrag.text.sentences import collapse_whitespace, is_cjk
from localrag.text.title_phrases import singular, title_words

LARGE_COMMUNITY_FACTOR = 3  # times the token budget that is read of a community; a larger one is cut to its most connected entities
IDS_PER_QUERY = 50  # entities of a large community whose relationships are read together
MAX_CACHED_ROWS = 50_000  # entities, and relationships, whose sentences stay in memory; chunks whose names do
MAX_CACHED_OUTLINES = 10_000  # documents whose headings stay in memory


class ReportSourceReader:
    """Reads the input of reports, from the staged or the published graph."""

    def __init__(self, staged: GraphStaging, budget: int) -> None:
        """`budget`: tokens of a context."""
        self._staged, self._most = staged, LARGE_COMMUNITY_FACTOR * budget // MIN_ELEMENT_TOKENS
        quoted = SupportingSentences(staged)
        self._of_entity = lru_cache(MAX_CACHED_ROWS)(quoted.of_entity)
        self._of_relationship = lru_cache(MAX_CACHED_ROWS)(quoted.of_relationship)
        self._named_in = lru_cache(MAX_CACHED_ROWS)(self._mentioned)
        self._sections_of = lru_cache(MAX_CACHED_OUTLINES)(self._sections)
        self._names_in_chunk = lru_cache(MAX_CACHED_ROWS)(self._typed_names)

    def sources(self, community: Community) -> ReportSources:
        """The entities, relationships and claims of a community; of a large one only the most connected."""
        keys: Sequence[str] = community.entity_ids
        relationships = []
        if len(keys) > self._most:
            degrees: dict[str, int] = dict(self._staged.select("entities", f"t.id {IN_JSON_LIST}", [json.dumps(keys)], "t.id, t.degree"))
            relationships = list(self._top_relationships(degrees))
            most = sorted(degrees, key=lambda e: (-degrees[e], e))[: self._most]
            keys = list(dict.fromkeys([*most, *(end for r in relationships for end in (r.source_id, r.target_id))]))
        entities = {e.id: e for e in map(entity_of_row, self._staged.select("entities", f"t.id {IN_JSON_LIST}", [json.dumps(keys)]))}
        if not relationships:
            related = self._staged.select("relationships", f"t.source_id {IN_JSON_LIST}", [json.dumps(list(entities))])
            relationships = [relationship_of_row(row) for row in related if row[2] in entities]
        claims = [Claim(*row) for row in self._staged.select("claims", f"t.subject_id {IN_JSON_LIST}", [json.dumps(list(entities))])]
        others = json.dumps([c.object_id for c in claims if c.object_id and c.object_id not in entities])
        named = {e.id: e for e in map(entity_of_row, self._staged.select("entities", f"t.id {IN_JSON_LIST}", [others]))}
        return ReportSources.build(
            {**entities, **named},
            relationships,
            sorted(claims, key=lambda c: (c.chunk_id, c.start, c.id)),
            of_entity=self._of_entity,
            of_relationship=self._of_relationship,
            of_claim=self._of_claim,
            named_in=self._named_in,
            whole=len(entities) >= len(community.entity_ids),
        )

    def community(self, key: str) -> Community:
        """The community with this id."""
        row = self._staged.get("communities", key)
        assert row is not None, key
        _, level, ordinal, above = row
        return Community(key, level, ordinal, above, tuple(members_of(self._staged, key)))

    def below(self, key: str) -> list[Community]:
        """The sub-communities that a community is divided into, in their order; a single one is its copy on the next level."""
        parts = child_communities(self._staged, key)
        while len(parts) == 1:
            parts = child_communities(self._staged, parts[0])
        return [self.community(part) for part in parts]

    def headings_above(self, quotes: Iterable[Quote]) -> dict[str, tuple[int, int]]:
        """The headings above quotes, with the number of quotes and of characters below each."""
        counts, sizes = Counter[str](), Counter[str]()
        chunks_of = defaultdict[str, list[Quote]](list)
        for quote in quotes:
            chunks_of[quote.chunk_id].append(quote)
        for chunk, document in documents_store.documents_of_chunks(self._staged.db, chunks_of).items():
            for section in self._sections_of(document):
                if n := sum(section.start <= q.start < section.end for q in chunks_of[chunk]):
                    counts[section.title] += n
                    sizes[section.title] = max(sizes[section.title], section.end - section.start)
        return {title: (n, sizes[title]) for title, n in counts.items()}

    def person_words(self, chunk_ids: Iterable[str]) -> frozenset[str]:
        """The words that more often stand in a name of a person than in one of a place, an organization or an event of these chunks."""
        counts = Counter[str]()
        for chunk in dict.fromkeys(chunk_ids):
            for words, kind in self._names_in_chunk(chunk):
                counts.update(dict.fromkeys(words, 1 if kind == "person" else 0 if kind == DEFAULT_ENTITY_TYPE else -1))
        return frozenset(word for word, n in counts.items() if n > 0)

    def _sections(self, document: str) -> Sequence[Section]:
        return titled_sections(documents_store.document_by_id(self._staged.db, document))

    def _typed_names(self, chunk: str) -> Sequence[tuple[Sequence[str], str]]:
        named = list(self._staged.select("mentions", "t.chunk_id = ?", [chunk], "t.entity_id, t.name"))
        of = json.dumps(list({entity for entity, _ in named}))
        types: dict[str, str] = dict(self._staged.select("entities", f"t.id {IN_JSON_LIST}", [of], "t.id, t.type"))
        return [([name] if is_cjk(name) else singular(name).split(), types.get(entity, "")) for entity, name in named]

    def _top_relationships(self, degrees: Mapping[str, int]) -> Iterator[Relationship]:
        """The relationships among entities with the highest combined degree, for a limit of rows.

        The relationships of the most connected entities are read first; both ends of an unread one have at most the degree of the next
        entity.
        """
        order = sorted(degrees, key=lambda e: (-degrees[e], e))
        relationships: dict[str, Relationship] = {}
        heaviest: list[int] = []  # a heap of as many weights as relationships are wanted

        def weight(r: Relationship) -> int:
            return degrees[r.source_id] + degrees[r.target_id]

        for at in range(0, len(order), IDS_PER_QUERY):
            if len(heaviest) == self._most and heaviest[0] >= 2 * degrees[order[at]]:
                break
            keys = [json.dumps(order[at : at + IDS_PER_QUERY])]
            for end in ("source_id", "target_id"):
                for row in self._staged.select("relationships", f"t.{end} {IN_JSON_LIST}", keys):
                    if row[0] not in relationships and row[1] in degrees and row[2] in degrees:
                        relationships[row[0]] = r = relationship_of_row(row)
                        (heappushpop if len(heaviest) == self._most else heappush)(heaviest, weight(r))
        yield from sorted(relationships.values(), key=lambda r: (-weight(r), r.id))[: self._most]

    def _of_claim(self, claim: Claim) -> Sequence[Quote]:
        chunks = {c.id: c for c in chunks_store.chunks_by_id(self._staged.db, [claim.chunk_id])}
        return list(claim_quotes([claim], chunks).values())

    def _mentioned(self, quote: Quote) -> frozenset[str]:
        inside = "t.chunk_id = ? AND t.start >= ? AND t.start < ?"
        rows = self._staged.select("mentions", inside, [quote.chunk_id, quote.start, quote.end], "t.entity_id")
        return frozenset(e for (e,) in rows)


REPORTS_PER_BATCH = 100  # extractive reports that are committed together; an interrupted run loses them
COMMUNITIES_PER_GROUP = 2000  # communities whose reports are written before the next group is read
WRITTEN_PER_GROUP = 30  # the same for reports by the model, which are published with their group
MAX_CACHED_REPORTS = 4 * COMMUNITIES_PER_GROUP  # reports that stay in memory
MAX_CACHED_TOKEN_COUNTS = 200_000  # lines of contexts whose token counts stay in memory, some 60 MB
COMMUNITIES_PER_TASK = 10  # reports whose sentences are selected by one task
MAX_GROUPS_IN_FLIGHT = 2  # one group is read while workers select the sentences of the other


@dataclass(frozen=True, slots=True)
class ReportsResult:
    """The outcome of writing reports: the communities without a report, and the settings that record the reports' input."""

    without: frozenset[str]
    settings: Mapping[str, Any]

    @property
    def reports_hash(self) -> str | None:
        """The hash of the reports' input; None if some could not be written."""
        state: str | None = self.settings["reports_state"]
        return state


async def write_reports(
    project: Project, style: str, pool: WorkerPool, progress: ProgressReporter, built: BuiltGraph | None = None
) -> ReportsResult | None:
    """Write every report whose input changed, from the reports of the level below. A failed report is recorded as a row.

    Which communities have one: `graph.needs_report`.

    Works on the new graph `built`, else on the stored one. Returns None if the published reports are up to date. New reports are staged
    until they are published.
    """
    db = project.db
    budgets = await resolve_token_budgets(project) if style == "abstractive" else MIN_BUDGETS
    recipe = reports.reports_hash(project.settings, project.model.file.fingerprint, style, budgets)
    settings = runs.load_settings(db)
    state = content_id(TITLES_VERSION, built.graph_hash if built else settings.get("graph_hash"), recipe)
    if settings.get("reports_state") == state:
        return None
    staged = built.staging if built else GraphStaging.published(db)
    measure = [TITLES_VERSION, rounded_total(graph.counts(db, ["chunks"])["chunks"])]
    retitles = settings.get("title_corpus_size") != measure
    if retitles:
        graph.count_title_words(staged, lambda text: title_words(collapse_whitespace(text)))  # the corpus frequencies for titles
    imported_ids = built.imported_communities if built else frozenset(graph.imported_reports(db))
    writer = _ReportWriter(project, pool, staged, recipe, budgets, retitles, imported_ids)
    is_current = built is not None and settings.get("reports_state") and settings.get("reports_hash") == recipe and not retitles
    astray = writer.requote_shifted() if is_current else set()
    levels = _affected_communities(staged, built, astray) if built and is_current else graph.community_ids_by_level(staged)
    writer.to_check = None if not is_current else frozenset(key for keys in levels.values() for key in keys)
    await writer.run(levels, style, progress)
    if style == "abstractive" and project.model.calls and (await current_token_budgets(project)).report_context > budgets.report_context:
        project.model.notify(
            "The model's window is larger now than when the reports were first written. For longer reports: localrag index PATH --rebuild"
        )
    of = {"reports_state": None if writer.failed else state, "reports_hash": recipe, "title_corpus_size": measure}
    return ReportsResult(frozenset(writer.failed | writer.without), of)


def _affected_communities(staged: GraphStaging, built: BuiltGraph, astray: Set[str]) -> dict[int, list[str]]:
    """Level → the communities affected by a change: they, those above or below them, or their entities changed.

    Includes the communities of `astray`, whose reports quote chunks that no longer exist.
    """
    if built.changed_entities is None:
        return graph.community_ids_by_level(staged)
    changed = graph.changed_communities(staged)
    asked = changed | graph.communities_containing(staged, built.changed_entities) | set(graph.staged_report_ids(staged.db)) | astray
    rows = [row for key in asked if (row := staged.get("communities", key))]
    beside = {row[3] for row in rows if row[0] in changed and row[3]}.union(*(child_communities(staged, key) for key in changed))
    return graph.community_ids_by_level(staged, {row[0] for row in rows} | beside)


@dataclass(frozen=True)
class _ReportInput:
    """The input of one report, and its hash."""

    community: Community
    sources: ReportSources
    elements: Sequence[ContextElement]
    input_hash: str
    members: Sequence[Entity]

    @cached_property
    def quotes_by_text(self) -> Mapping[str, Quote]:
        """Its sentences, with whitespace collapsed → a quote of each."""
        return {collapse_whitespace(q.text): q for e in self.elements for q in e.quotes}


@dataclass
class _ReportWriter:
    """Writes reports. `imported_ids` are communities that keep another program's report; `to_check` those to look at, None for all.

    `update_titles`: whether reports that are kept get the titles that they would get if they were written now.
    """

    project: Project
    pool: WorkerPool
    staged: GraphStaging
    recipe: str
    budgets: TokenBudgets
    update_titles: bool
    imported_ids: Set[str]
    to_check: Set[str] | None = None
    written: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    without: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reader = ReportSourceReader(self.staged, self.budgets.report_context)
        self.count = lru_cache(MAX_CACHED_TOKEN_COUNTS)(Tokenizer(self.project.model.file).count)
        self._reports: dict[str, Report | None] = {}
        self._unsaved: dict[str, Report] = {}

    @cached_property
    def title_word_frequencies(self) -> tuple[Callable[[Collection[str]], Mapping[str, int]], int]:
        """In how many sentences about entities and relationships given words occur, and the number of all these sentences."""
        return graph.title_word_frequencies(self.project.db)

    def requote_shifted(self) -> set[str]:
        """Update the quotes of published reports on an edited document to its new chunks; returns communities that quote a deleted
        sentence.

        A report with updated quotes is not checked again unless something else of its input changed: its text is the same.
        """
        moved, astray = shifted_chunks(self.project.db), set[str]()
        for key, chunks in reports_quoting_ended_chunks(self.project.db).items():
            report = self.stored_report(key)
            if report is None or not moved.keys() >= chunks:
                astray.add(key)
            elif (now := shifted_report(report, moved)) != report:
                self._unsaved[key] = now
        return astray

    async def run(self, levels: Mapping[int, Sequence[str]], style: str, progress: ProgressReporter) -> None:
        """Write the reports of all levels, the deepest first."""
        total, done = sum(map(len, levels.values())), 0
        progress("reports", done, total)

        async def one(key: str) -> None:
            nonlocal done
            await self.abstractive(self.reader.community(key))
            done += 1
            progress("reports", done, total)

        async def branch(group: Mapping[int, Sequence[str]]) -> None:
            nonlocal done, total
            for level in sorted(group, reverse=True):
                kept = {key for key in group[level] if self.keep_imported(key)}
                keys = [key for key in group[level] if key not in kept and graph.needs_report(self.staged, key)]
                without = set(group[level]).difference(kept, keys)
                self.without |= without
                self.commit(without)
                total -= len(group[level]) - len(keys)
                if style == "abstractive":
                    await bounded_map(one(key) for key in keys)
                    continue
                for at in range(0, len(keys), REPORTS_PER_BATCH):
                    await self.extractive([self.reader.community(key) for key in keys[at : at + REPORTS_PER_BATCH]])
                    done += len(keys[at : at + REPORTS_PER_BATCH])
                    progress("reports", done, total)
            if style == "abstractive" and self.staged.is_published:
                await self.publish({key for keys in group.values() for key in keys} & self.written)

        self.commit()  # stores updated quotes, also if no report is to be written
        size = WRITTEN_PER_GROUP if style == "abstractive" else COMMUNITIES_PER_GROUP
        await bounded_map((branch(group) for group in self._grouped(levels, size)), MAX_GROUPS_IN_FLIGHT)

    async def publish(self, keys: Collection[str]) -> None:
        """Publish the model's reports on communities of the published graph, which questions use at once."""
        texts = {key: report.lead for key in keys if (report := self.stored_report(key))}
        hashes = {key: content_id(text) for key, text in texts.items()}
        async for embedded in run_in_order(self.pool, [EmbedTexts(tuple(texts.values()))] if texts else []):
            for _, vectors in embedded:
                save_vectors(self.project.db, "report", self.project.embedder.file.fingerprint, list(texts), hashes, vectors)
        publish_reports(self.project.db)

    def _grouped(self, levels: Mapping[int, Sequence[str]], size: int) -> Iterator[Mapping[int, Sequence[str]]]:
        """Group the communities, at least `size` to a group, the broadest first; a community of level 0 and all inside it are in one group.

        Level by level, the rows and vectors of a community would be dropped from memory before the one above it is written.
        """
        if sum(map(len, levels.values())) <= size:
            yield levels
            return
        above: dict[str, str | None] = dict(self.staged.select("communities", columns="t.id, t.parent_id"))
        inside: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for level in sorted(levels):
            for key in levels[level]:
                top = key
                while over := above[top]:
                    top = over
                inside[top].append((level, key))
        group: defaultdict[int, list[str]] = defaultdict(list)
        for levels_of_group in sorted(inside.values(), key=len, reverse=True):
            for level, key in levels_of_group:
                group[level].append(key)
            if sum(map(len, group.values())) >= size:
                yield group
                group = defaultdict(list)
        yield group

    async def extractive(self, communities: Sequence[Community]) -> None:
        """Write reports of verbatim sentences."""
        drafts = [self.build_input(c) for c in communities]
        stored = [(d, self.reusable_report(d)) for d in drafts]
        for kept in [report for _, report in stored if report is not None and not self.update_titles]:
            self.save(kept)
        pending = [(d, report) for d, report in stored if report is None or self.update_titles]
        jobs = (
            SelectSentences(tuple(SentencePool(self.title_source(d), report is None) for d, report in batch))
            for batch in batched(pending, COMMUNITIES_PER_TASK)
        )
        chosen = [c async for batch in run_in_order(self.pool, jobs) for _, those in batch for c in those]
        for (d, report), (numbers, title) in zip(pending, chosen, strict=True):
            untitled = report or reports.extractive_report(d.community, d.quotes_by_text, d.input_hash, numbers)
            self.save(reports.with_titles(untitled, d.members, d.sources, title))
        self.commit(d.community.id for d, report in stored if report is None)

    def title_source(self, draft: _ReportInput) -> TitleSource:
        """The sentences that a report is selected from, with everything that its title is made of."""
        quotes, (frequencies, total) = draft.quotes_by_text, self.title_word_frequencies
        return TitleSource(
            tuple(quotes),
            self.reader.headings_above(quotes.values()),
            self.reader.person_words(q.chunk_id for q in quotes.values()),
            tuple(e.name for e in draft.members),
            frequencies(frozenset().union(*map(title_words, quotes))),
            total,
        )

    async def abstractive(self, community: Community) -> None:
        """Write a report by the model; a failed one is recorded as a row, and the communities above it do without."""
        draft = self.build_input(community)
        try:
            self.save(self.reusable_report(draft) or await self.ask_model(draft))
            self.commit([community.id])
        except CALL_ERRORS as error:
            runs.save_failure(self.project.db, Failure("report", community.id, str(error), error.kind))
            self.failed.add(community.id)

    def keep_imported(self, key: str) -> bool:
        """Keep another program's report on an imported community; returns whether there is one."""
        report = self.stored_report(key) if key in self.imported_ids else None
        if report is None or not report.input_hash.startswith(f"{IMPORTED_MARK} "):
            return False
        community = self.reader.community(key)
        self.save(self.requote(report, self.build_context(community, self.reader.sources(community), self.budgets)))
        return True

    def stored_report(self, key: str) -> Report | None:
        """The stored report of a community, whatever its input was."""
        if key in self._unsaved:
            return self._unsaved[key]
        if key not in self._reports:
            if len(self._reports) >= MAX_CACHED_REPORTS:
                self._reports.clear()
            self._reports[key] = graph.current_report(self.project.db, key)
        return self._reports[key]

    def current_report(self, key: str) -> Report | None:
        """The report of a community in this run."""
        return self.stored_report(key) if key in self.written or (self.to_check is not None and key not in self.to_check) else None

    def build_input(self, community: Community) -> _ReportInput:
        """Build the input of a community's report."""
        sources = self.reader.sources(community)
        elements = self.build_context(community, sources, self.budgets)
        members = reports.entities_by_degree(community, sources)
        return _ReportInput(community, sources, elements, reports.input_hash(community, elements, self.recipe), members)

    def reusable_report(self, draft: _ReportInput) -> Report | None:
        """The stored report, if it has exactly this input."""
        report = self.stored_report(draft.community.id)
        return self.requote(report, draft.elements) if report is not None and report.input_hash == draft.input_hash else None

    def requote(self, report: Report, elements: Sequence[ContextElement]) -> Report:
        """The report with its quotes moved to today's chunks: an edited document has other chunks with the same sentences."""
        quoted = [q.chunk_id for f in report.findings for q in f.quotes]
        existing = {c.id for c in chunks_store.chunks_by_id(self.project.db, quoted)}
        if existing.issuperset(quoted):
            return report
        places = {collapse_whitespace(q.text): q for e in reversed(elements) for q in reversed(e.quotes)}
        return reports.relocate_quotes(report, existing, places)

    async def ask_model(self, draft: _ReportInput) -> Report:
        """The model's report; if its window is smaller today than the index's budgets, a report from a shorter context."""
        budgets, elements = self.budgets, draft.elements
        while True:
            try:
                return await self.pool.run(WriteReport(draft.community, tuple(elements), draft.input_hash, budgets))
            except ContextTooSmall:
                less = less_than(budgets)
                if less is None:
                    raise
                budgets, elements = less, self.build_context(draft.community, draft.sources, less)

    def build_context(self, community: Community, sources: ReportSources, budgets: TokenBudgets) -> list[ContextElement]:
        """The context of a community's report."""
        below = [(c, report) for c in self.reader.below(community.id) if (report := self.current_report(c.id))]
        return build_report_context(community, below, sources, self.count, budgets.report_context)

    def save(self, written: Report) -> None:
        """Add a report to the next commit, unless it is stored already."""
        if self.stored_report(written.community_id) != written:
            self._unsaved[written.community_id] = written
        self.written.add(written.community_id)

    def commit(self, mended: Iterable[str] = ()) -> None:
        """Store the added reports, and clear the failures of these communities.

        Done in one transaction, because the end of each one visits every changed page of the temporary tables that hold the staged graph.
        """
        db = self.project.db
        with db.atomic():
            graph.save_reports(db, self._unsaved.values())
            runs.clear_failures(db, "report", list(mended))
        self._reports |= self._unsaved
        self._unsaved.clear()
