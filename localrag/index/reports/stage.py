"""Communities → stored reports, the deepest level first; those whose input is what it was are kept. Part of the pipeline."""

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.tokens import Tokenizer
from localrag.errors import ContextTooSmall
from localrag.index.graph.merging.weights import size_of
from localrag.index.graph.stage import Made
from localrag.index.jobs import Crew, embed
from localrag.index.progress import Tell
from localrag.index.reports import write as writing
from localrag.index.reports.context import Element, Sources, report_context
from localrag.index.reports.topics import Topics
from localrag.index.reports.write import WriteReport
from localrag.llm.budgets import LEAST, Budgets
from localrag.llm.model import CALL_FAILED, in_window
from localrag.project import Project, budgets_here, choose_budgets
from localrag.records import IMPORTED, Chunk, Community, Failure, Graph, Quote, Report, content_id
from localrag.store import corpus, ledger
from localrag.store import graph as store
from localrag.text.plain import squeeze
from localrag.text.quotes import claim_quotes, entity_quotes, relationship_quotes

PORTION = 100  # extractive reports whose sentences are embedded together, and are lost if the process ends meanwhile


@dataclass(frozen=True, slots=True)
class Written:
    """The reports of a graph, by community, and the settings that say what they were made from."""

    reports: Mapping[str, Report]
    settings: Mapping[str, Any]

    @property
    def state(self) -> str | None:
        """The hash of what they were made from; None where some could not be written."""
        state: str | None = self.settings["reports"]
        return state


async def write_reports(project: Project, style: str, crew: Crew, tell: Tell, made: Made | None = None) -> Written | None:
    """Write every report whose input changed; a community uses those of the level below it. A failed one is a row.

    Of the graph that was `made`, else of the stored one. None where the published reports are of just that. Those that are written are
    kept, and are read once they are published.
    """
    db = project.db
    budgets = await choose_budgets(project) if style == "abstractive" else LEAST
    recipe = writing.recipe(project.settings, project.model.file.fingerprint, style, budgets)
    settings = ledger.settings(db)
    state = content_id("titles 5", made.state if made else settings.get("graph"), recipe)
    if settings.get("reports") == state:
        return None
    levels = made.communities if made else store.communities(db)
    held = made.held if made else store.imported_reports(db).keys()
    writer = _writer(
        project, crew, recipe, budgets, made.graph if made else _stored_graph(project), levels, held, made.worth if made else {}
    )
    measure = size_of(len(writer.chunks))
    writer.retitles = settings.get("titled") != measure
    if made and made.touched is not None and settings.get("reports") and settings.get("reported") == recipe:
        writer.stays = _not_touched(project, levels, made.touched)
    done = 0
    tell("reports", done, len(levels))

    async def one(community: Community) -> None:
        nonlocal done
        await writer.abstractive(community)
        done += 1
        tell("reports", done, len(levels))

    for level in sorted({c.level for c in levels}, reverse=True):
        some = [c for c in levels if c.level == level]
        some = [c for c in some if not writer.held(c) and not writer.stayed(c)]
        if style == "abstractive":
            await in_window(one(c) for c in some)
            continue
        for at in range(0, len(some), PORTION):
            await writer.extractive(some[at : at + PORTION])
            done += len(some[at : at + PORTION])
            tell("reports", done, len(levels))
    if style == "abstractive" and project.model.calls and (await budgets_here(project)).report_context > budgets.report_context:
        project.model.say(
            "The model's window is larger now than when reports were first written. Longer ones: localrag index PATH --rebuild"
        )
    of = {"reports": None if writer.failed else state, "reported": recipe, "titled": measure}
    return Written(writer.written, of)


def _not_touched(project: Project, levels: Sequence[Community], touched: Container[str]) -> set[str]:
    """The communities that a change does not concern: the same entities and communities below as before, and nothing new of any of them."""
    before = {c.id: c.entity_ids for c in store.communities(project.db)}
    same = {c.id for c in levels if before.get(c.id) == c.entity_ids}
    divided = {c.parent_id for c in levels if c.id not in same}
    waiting = set(store.waiting_reports(project.db))  # of a run that ended before it was published, which may have known otherwise
    return {c.id for c in levels if c.id in same - divided - waiting and not any(e in touched for e in c.entity_ids)}


def _stored_graph(project: Project) -> Graph:
    db = project.db
    return Graph(
        tuple(store.entities(db)),
        tuple(store.relationships(db)),
        tuple(store.mentions(db)),
        tuple(store.evidence(db)),
        tuple(store.claims(db)),
    )


def _writer(
    project: Project,
    crew: Crew,
    recipe: str,
    budgets: Budgets,
    graph: Graph,
    levels: Sequence[Community],
    held: Container[str],
    worth: Mapping[tuple[str, int], float],
) -> "_Writer":
    chunks = {c.id: c for c in corpus.all_chunks(project.db)}
    of_relationship, of_entity = relationship_quotes(graph, chunks), entity_quotes(graph, chunks, worth)
    of_claim = claim_quotes(graph.claims, chunks)
    sources = Sources.of(graph, of_relationship, of_entity, of_claim)
    below: defaultdict[str | None, list[Community]] = defaultdict(list)
    for c in levels:
        below[c.parent_id].append(c)
    count = Tokenizer(project.model.file).count
    found: list[Mapping[str, Sequence[Quote]]] = [of_relationship, of_entity, {i: (quote,) for i, quote in of_claim.items()}]
    stored = store.known_reports(project.db)
    known = _placed_anew(stored, chunks, found)
    kept = {key: known[key] for key in stored if key in held and stored[key].input_hash.startswith(f"{IMPORTED} ")}
    size = {c.id: len(c.entity_ids) for c in levels}
    for c in levels:
        if c.id not in kept and c.parent_id in kept and size[c.parent_id] == size[c.id]:  # carried down
            kept[c.id] = replace(kept[c.parent_id], community_id=c.id)
    return _Writer(project, crew, recipe, budgets, sources, count, chunks, below, stored, known, kept)


def _placed_anew(
    reports: Mapping[str, Report], chunks: Mapping[str, Chunk], found: Sequence[Mapping[str, Sequence[Quote]]]
) -> dict[str, Report]:
    """The stored reports, quoting the chunks there are: a renamed or edited document has others of the same sentences."""
    places: dict[str, Quote] = {}
    for quote in (q for of in found for quotes in of.values() for q in quotes):
        places.setdefault(squeeze(quote.text), quote)
    return {key: writing.placed_anew(report, chunks, places) for key, report in reports.items()}


@dataclass(frozen=True, slots=True)
class _Draft:
    """What a report is to be written from, and the hash of it."""

    community: Community
    elements: Sequence[Element]
    key: str


@dataclass
class _Writer:
    """Writes reports. `stored` are those that there were, `known` the same with quotes of today's chunks, `written` those that hold now.

    `imported` are those of `known` that another program wrote, of communities that are held, `stays` the communities that nothing changed
    of. `retitles`: whether reports that are kept get the titles that they would have if they were written now.
    """

    project: Project
    crew: Crew
    recipe: str
    budgets: Budgets
    sources: Sources
    count: Callable[[str], int]
    chunks: Mapping[str, Chunk]
    below: Mapping[str | None, Sequence[Community]]
    stored: Mapping[str, Report]
    known: Mapping[str, Report]
    imported: Mapping[str, Report]
    stays: Set[str] = frozenset()
    retitles: bool = True
    written: dict[str, Report] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    @cached_property
    def topics(self) -> Topics:
        """The words of every sentence that speaks of an entity or a relationship."""
        found = (self.sources.of_relationship, self.sources.of_entity)
        return Topics(list(dict.fromkeys(squeeze(q.text) for quotes in found for some in quotes.values() for q in some)))

    async def extractive(self, communities: Sequence[Community]) -> None:
        """Reports of verbatim sentences. Only sentences of reports to be written are embedded: that is what takes the time."""
        drafts = [self.draft(c) for c in communities if not self.carried(c)]
        stored = [(d, self.kept(d)) for d in drafts]
        left = [d for d, report in stored if report is None]
        texts = dict.fromkeys(squeeze(q.text) for d in left for e in d.elements for q in e.quotes)
        new = [t for t in texts if t not in self.vectors]
        self.vectors.update(zip(new, await embed(self.crew, new), strict=True))
        for d in left:
            self.save(writing.extractive_report(d.community, d.elements, d.key, self.sources, self.vectors, self.topics))
            ledger.clear_failures(self.project.db, "report", [d.community.id])
        for d, report in stored:
            if report is not None:
                again = writing.named_anew(report, d.community, d.elements, self.sources, self.topics) if self.retitles else report
                self.save(again)

    async def abstractive(self, community: Community) -> None:
        """A report by the model; one that fails is a row, and those above it do without."""
        project = self.project
        draft = None if self.carried(community) else self.draft(community)
        try:
            if draft is not None:
                self.save(self.kept(draft) or await self.asked(draft))
            ledger.clear_failures(project.db, "report", [community.id])
        except CALL_FAILED as error:
            ledger.save_failure(project.db, Failure("report", community.id, str(error), error.kind))
            self.failed.append(community.id)

    async def asked(self, draft: _Draft) -> Report:
        """The model's report; where its window today is smaller than the index's budgets are for, a report from less."""
        try:
            return await self.crew.run(WriteReport(draft.community, tuple(draft.elements), draft.key, self.budgets))
        except ContextTooSmall:
            if self.budgets == LEAST:
                raise
        less = self.elements(draft.community, LEAST)
        return await self.crew.run(WriteReport(draft.community, tuple(less), draft.key, LEAST))

    def held(self, community: Community) -> bool:
        """Keep a community's report that another program wrote; whether there is one."""
        report = self.imported.get(community.id)
        if report is not None:
            self.save(report)
        return report is not None

    def stayed(self, community: Community) -> bool:
        """Keep the report of a community that nothing changed of, without a look at what it is made from; whether there is one."""
        report = self.known.get(community.id) if community.id in self.stays and not self.retitles else None
        if report is not None:
            self.save(report)
        return report is not None

    def carried(self, community: Community) -> bool:
        """Give a community the report of the one below it where that is the same, carried down; whether it is, and has one."""
        below = self.below[community.id]
        report = self.written.get(below[0].id) if len(below) == 1 and len(below[0].entity_ids) == len(community.entity_ids) else None
        if report is None:
            return False
        self.save(replace(report, community_id=community.id, input_hash=content_id("carried down", report.input_hash)))
        return True

    def draft(self, community: Community) -> _Draft:
        """What a community's report is to be written from."""
        elements = self.elements(community, self.budgets)
        return _Draft(community, elements, writing.input_hash(community, elements, self.recipe))

    def kept(self, draft: _Draft) -> Report | None:
        """The report there was, if it came of just this."""
        report = self.known.get(draft.community.id)
        return report if report is not None and report.input_hash == draft.key else None

    def elements(self, community: Community, budgets: Budgets) -> list[Element]:
        """The context of a community's report."""
        below = [(c, self.written[c.id]) for c in self.below[community.id] if c.id in self.written]
        return report_context(community, below, self.sources, self.count, budgets.report_context)

    def save(self, written: Report) -> None:
        """Commit a report, unless just this one is stored."""
        if self.stored.get(written.community_id) != written:
            store.save_report(self.project.db, written)
        self.written[written.community_id] = written
