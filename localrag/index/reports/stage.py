"""Communities → stored reports, the deepest level first; those whose input is what it was are kept. Part of the pipeline."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.tokens import Tokenizer
from localrag.errors import ContextTooSmall
from localrag.index.graph.merging.weights import batched, size_of
from localrag.index.graph.stage import Made
from localrag.index.jobs import Crew, embed, in_order
from localrag.index.progress import Tell
from localrag.index.reports import write as writing
from localrag.index.reports.context import Element, Sources, report_context
from localrag.index.reports.sources import Reader
from localrag.index.reports.topics import Topics, words_of
from localrag.index.reports.write import Choose, Pool, WriteReport
from localrag.llm.budgets import LEAST, Budgets, less_than
from localrag.llm.model import CALL_FAILED, in_window
from localrag.project import Project, budgets_here, choose_budgets
from localrag.records import IMPORTED, Community, Entity, Failure, Quote, Report, content_id
from localrag.store import corpus, ledger, sentences
from localrag.store import graph as store
from localrag.store import levels as of_levels
from localrag.store.shifts import quoting, shifted_report, shifts
from localrag.store.staged import Staged
from localrag.text.plain import squeeze

PORTION = 100  # extractive reports whose sentences are embedded together, and are lost if the process ends meanwhile
GROUP = 2000  # communities whose reports are written before the next group is read
KEPT = 4 * GROUP  # reports that are not read again
COUNTED = 200_000  # lines of contexts whose tokens are not counted again, some 60 MB
MOST = 50_000  # sentences whose vectors are kept for the next portion, 100 MB
TOGETHER = 10  # reports whose sentences are chosen by one job
BRANCHES = 2  # groups under way: one is read while workers choose the sentences of the other


@dataclass(frozen=True, slots=True)
class Written:
    """What became of reports: the communities that have none, and the settings that say what the others were made from."""

    failed: frozenset[str]
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
    staged = made.staged if made else Staged.published(db)
    measure = size_of(store.counts(db, ["chunks"])["chunks"])
    retitles = settings.get("titled") != measure
    if retitles:
        _count_words(staged)
    held = made.held if made else frozenset(store.imported_reports(db))
    writer = _Writer(project, crew, staged, recipe, budgets, retitles, held)
    known = made is not None and settings.get("reports") and settings.get("reported") == recipe and not retitles
    astray = writer.shift() if known else set()
    levels = _to_write(staged, made, astray) if made and known else of_levels.levels(staged)
    writer.todo = None if not known else frozenset(key for keys in levels.values() for key in keys)
    await writer.run(levels, style, tell)
    if style == "abstractive" and project.model.calls and (await budgets_here(project)).report_context > budgets.report_context:
        project.model.say(
            "The model's window is larger now than when reports were first written. Longer ones: localrag index PATH --rebuild"
        )
    of = {"reports": None if writer.failed else state, "reported": recipe, "titled": measure}
    return Written(frozenset(writer.failed), of)


def _to_write(staged: Staged, made: Made, astray: Set[str]) -> dict[int, list[str]]:
    """Level → the communities that a change concerns: they, those below them, or their entities are not what they were.

    And those of `astray`, whose reports quote what is no more.
    """
    db = staged.db
    if made.touched is None:
        return of_levels.levels(staged)
    changed = of_levels.changed(staged)
    asked = changed | of_levels.around(staged, made.touched) | set(store.waiting_reports(db)) | of_levels.without_report(db) | astray
    rows = [row for key in asked if (row := staged.row("communities", key))]
    above = {row[3] for row in rows if row[0] in changed and row[3]}
    return of_levels.levels(staged, {row[0] for row in rows} | above)


def _count_words(staged: Staged) -> None:
    """Count in how many sentences about entities and relationships each word is, against which titles stand out."""
    sentences.count_words(staged, lambda text: set(words_of(squeeze(text))))


@dataclass(frozen=True)
class _Draft:
    """What a report is to be written from, and the hash of it."""

    community: Community
    sources: Sources
    elements: Sequence[Element]
    key: str
    members: Sequence[Entity]

    @cached_property
    def pool(self) -> Mapping[str, Quote]:
        """Its sentences, squeezed, each with a place where it stands."""
        return {squeeze(q.text): q for e in self.elements for q in e.quotes}


@dataclass
class _Writer:
    """Writes reports. `held` are communities that keep another program's; `todo` those to look at, None where that is all of them.

    `retitles`: whether reports that are kept get the titles that they would have if they were written now.
    """

    project: Project
    crew: Crew
    staged: Staged
    recipe: str
    budgets: Budgets
    retitles: bool
    held: Set[str]
    todo: Set[str] | None = None
    written: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = Reader(self.staged, self.budgets.report_context)
        self.count = lru_cache(COUNTED)(Tokenizer(self.project.model.file).count)
        self._reports: dict[str, Report | None] = {}
        self._unsaved: dict[str, Report] = {}

    @cached_property
    def topics(self) -> Topics:
        """The words of every sentence that speaks of an entity or a relationship."""
        return Topics(*sentences.words(self.project.db))

    def shift(self) -> set[str]:
        """Have published reports quote the chunks of an edited document where they stand now; those that quote one that is no more.

        What was shifted is not looked at again unless something else is new of it: it says what it said.
        """
        moved, astray = shifts(self.project.db), set[str]()
        for key, chunks in quoting(self.project.db).items():
            report = self.stored(key)
            if report is None or not moved.keys() >= chunks:
                astray.add(key)
            elif (now := shifted_report(report, moved)) != report:
                self._unsaved[key] = now
        return astray

    async def run(self, levels: Mapping[int, Sequence[str]], style: str, tell: Tell) -> None:
        """Write the reports of all levels, the deepest first."""
        total, done = sum(map(len, levels.values())), 0
        tell("reports", done, total)

        async def one(key: str) -> None:
            nonlocal done
            await self.abstractive(self.reader.community(key))
            done += 1
            tell("reports", done, total)

        async def branch(group: Mapping[int, Sequence[str]]) -> None:
            nonlocal done
            for level in sorted(group, reverse=True):
                some = [key for key in group[level] if not self.theirs(key)]
                self.commit()
                if style == "abstractive":
                    await in_window(one(key) for key in some)
                    continue
                for at in range(0, len(some), PORTION):
                    await self.extractive([self.reader.community(key) for key in some[at : at + PORTION]])
                    done += len(some[at : at + PORTION])
                    tell("reports", done, total)

        self.commit()  # reports that were shifted, also where none is to be written
        await in_window((branch(group) for group in ([levels] if style == "abstractive" else self._grouped(levels))), BRANCHES)

    def _grouped(self, levels: Mapping[int, Sequence[str]]) -> Iterator[Mapping[int, Sequence[str]]]:
        """The communities in groups of at least GROUP; a community of level 0 and all inside it are in one group.

        Level by level, what was read and embedded for a community would be dropped from memory before the one above it is written.
        """
        if sum(map(len, levels.values())) <= GROUP:
            yield levels
            return
        above: dict[str, str | None] = dict(self.staged.rows("communities", columns="t.id, t.parent_id"))
        inside: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for level in sorted(levels):
            for key in levels[level]:
                top = key
                while over := above[top]:
                    top = over
                inside[top].append((level, key))
        group: defaultdict[int, list[str]] = defaultdict(list)
        for some in inside.values():
            for level, key in some:
                group[level].append(key)
            if sum(map(len, group.values())) >= GROUP:
                yield group
                group = defaultdict(list)
        yield group

    async def extractive(self, communities: Sequence[Community]) -> None:
        """Reports of verbatim sentences. Only sentences of reports to be written are embedded: that is what takes the time."""
        drafts = [self.draft(c) for c in communities if not self.carried(c)]
        stored = [(d, self.kept(d)) for d in drafts]
        vectors = await self.embedded([text for d, report in stored if report is None for text in d.pool])
        for kept in [report for _, report in stored if report is not None and not self.retitles]:
            self.save(kept)
        left = [(d, report) for d, report in stored if report is None or self.retitles]
        jobs = (Choose(tuple(self.pool(d, None if report else vectors) for d, report in some)) for some in batched(left, TOGETHER))
        chosen = [c async for some in in_order(self.crew, jobs) for _, those in some for c in those]
        for (d, report), (numbers, phrase) in zip(left, chosen, strict=True):
            untitled = report or writing.extractive_report(d.community, d.pool, d.key, numbers)
            self.save(writing.titled(untitled, d.members, d.sources, phrase))
        self.commit(d.community.id for d, report in stored if report is None)

    async def embedded(self, texts: Iterable[str]) -> Mapping[str, NDArray[np.float32]]:
        """The vectors of texts, each computed once as long as it is remembered."""
        asked = dict.fromkeys(texts)
        found = {t: self.vectors[t] for t in asked if t in self.vectors}
        new = [t for t in asked if t not in found]
        found.update(zip(new, await embed(self.crew, new), strict=True))
        if len(self.vectors) > MOST:
            self.vectors.clear()
        self.vectors |= found
        return found

    def pool(self, draft: _Draft, vectors: Mapping[str, NDArray[np.float32]] | None) -> Pool:
        """What a report is to be chosen from, with all that choosing needs."""
        texts = tuple(draft.pool)
        matrix = None if vectors is None else np.array([vectors[t] for t in texts], np.float32)
        known = self.topics.known(texts)
        return Pool(texts, matrix, tuple(e.name for e in draft.members), known, self.topics.total)

    async def abstractive(self, community: Community) -> None:
        """A report by the model; one that fails is a row, and those above it do without."""
        project = self.project
        draft = None if self.carried(community) else self.draft(community)
        try:
            if draft is not None:
                self.save(self.kept(draft) or await self.asked(draft))
            self.commit([community.id])
        except CALL_FAILED as error:
            ledger.save_failure(project.db, Failure("report", community.id, str(error), error.kind))
            self.failed.add(community.id)

    async def asked(self, draft: _Draft) -> Report:
        """The model's report; where its window today is smaller than the index's budgets are for, a report from less."""
        budgets, elements = self.budgets, draft.elements
        while True:
            try:
                return await self.crew.run(WriteReport(draft.community, tuple(elements), draft.key, budgets))
            except ContextTooSmall:
                less = less_than(budgets)
                if less is None:
                    raise
                budgets, elements = less, self.elements(draft.community, draft.sources, less)

    def theirs(self, key: str) -> bool:
        """Keep a held community's report that another program wrote, also where it is carried down; whether there is one."""
        if not self.held:
            return False
        community = self.reader.community(key)
        report = self._imported(community)
        if report is None:
            return False
        elements = self.elements(community, self.reader.sources(community), self.budgets)
        self.save(self.placed(replace(report, community_id=key), elements))
        return True

    def _imported(self, community: Community) -> Report | None:
        report = self.stored(community.id) if community.id in self.held else None
        if report is not None and report.input_hash.startswith(f"{IMPORTED} "):
            return report
        above = self.reader.community(community.parent_id) if community.parent_id else None
        return self._imported(above) if above and len(above.entity_ids) == len(community.entity_ids) else None

    def stored(self, key: str) -> Report | None:
        """The report of a community that there is, of whatever it is."""
        if key in self._unsaved:
            return self._unsaved[key]
        if key not in self._reports:
            if len(self._reports) >= KEPT:
                self._reports.clear()
            self._reports[key] = of_levels.known_report(self.project.db, key)
        return self._reports[key]

    def report(self, key: str) -> Report | None:
        """The report that a community has as things stand."""
        return self.stored(key) if key in self.written or (self.todo is not None and key not in self.todo) else None

    def carried(self, community: Community) -> bool:
        """Give a community the report of the one below it where that is the same, carried down; whether it is, and has one."""
        below = self.reader.below(community.id)
        report = self.report(below[0].id) if len(below) == 1 and len(below[0].entity_ids) == len(community.entity_ids) else None
        if report is None:
            return False
        self.save(replace(report, community_id=community.id, input_hash=content_id("carried down", report.input_hash)))
        return True

    def draft(self, community: Community) -> _Draft:
        """What a community's report is to be written from."""
        sources = self.reader.sources(community)
        elements = self.elements(community, sources, self.budgets)
        members = writing.leading(community, sources)
        return _Draft(community, sources, elements, writing.input_hash(community, elements, self.recipe), members)

    def kept(self, draft: _Draft) -> Report | None:
        """The report there was, if it came of just this."""
        report = self.stored(draft.community.id)
        return self.placed(report, draft.elements) if report is not None and report.input_hash == draft.key else None

    def placed(self, report: Report, elements: Sequence[Element]) -> Report:
        """The report, quoting the chunks there are: an edited document has others of the same sentences."""
        quoted = [q.chunk_id for f in report.findings for q in f.quotes]
        known = {c.id for c in corpus.chunks_by_id(self.project.db, quoted)}
        if known.issuperset(quoted):
            return report
        places = {squeeze(q.text): q for e in reversed(elements) for q in reversed(e.quotes)}
        return writing.placed_anew(report, known, places)

    def elements(self, community: Community, sources: Sources, budgets: Budgets) -> list[Element]:
        """The context of a community's report."""
        below = [(c, report) for c in self.reader.below(community.id) if (report := self.report(c.id))]
        return report_context(community, below, sources, self.count, budgets.report_context)

    def save(self, written: Report) -> None:
        """Take a report, unless just this one is stored; `commit` stores it."""
        if self.stored(written.community_id) != written:
            self._unsaved[written.community_id] = written
        self.written.add(written.community_id)

    def commit(self, mended: Iterable[str] = ()) -> None:
        """Store what was taken, and that these communities no longer fail.

        Together, because the end of each transaction visits every changed page of the temporary tables that the graph waits in.
        """
        db = self.project.db
        with db.atomic():
            store.save_reports(db, self._unsaved.values())
            ledger.clear_failures(db, "report", list(mended))
        self._reports |= self._unsaved
        self._unsaved.clear()
