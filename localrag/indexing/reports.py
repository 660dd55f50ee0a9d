"""Community reports: their context, and how they are written.

The context of a report is built within a budget of tokens, from the bottom up (paper, sections 3.1.5 and 3.1.6). An abstractive report is
written by the chat model. An extractive one has verbatim sentences, selected without a model (for its title see `titles`). The bundled
model writes no titles: for one of the demo corpus's six it used a person of the prompt's example.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import AnswerTruncated, EngineError
from localrag.indexing.tasks import Task, TaskContext
from localrag.indexing.titles import TitleSource
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity, max_json_tokens
from localrag.llm.grammar import DEFAULT_ENTITY_TYPE, json_object
from localrag.llm.model import CURRENT_SUBJECT, INDEXING, ChatModel, EchoDetector, trim_strings
from localrag.llm.prompts import Message, Prompt, load_prompt, with_domain
from localrag.llm.shapes import Field, schema_of, shape_text
from localrag.records import Claim, Community, Entity, Finding, Quote, Relationship, Report, content_id, report_subject
from localrag.settings import IndexSettings
from localrag.text.quotes import format_claim, select_central
from localrag.text.sentences import collapse_whitespace, join_names
from localrag.text.title_phrases import title_words

MIN_ELEMENT_TOKENS = 12  # of an entity and its relationships


@dataclass(frozen=True, slots=True)
class ContextElement:
    """One line of a report's context: an entity, a claim, a relationship or a sub-community's report, with the passages behind it."""

    id: str
    text: str
    tokens: int
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class ReportSources:
    """A part of the graph by id, with the passages of its relationships, entities and claims: the source of contexts."""

    entities: Mapping[str, Entity]
    relationships: Sequence[Relationship]
    claims_on: Mapping[str, Sequence[Claim]]  # entity → its claims
    outgoing_relationships: Mapping[str, Sequence[int]]  # entity → the positions in `relationships` of those that start at it
    of_entity: Callable[[str], Sequence[Quote]]
    of_relationship: Callable[[str], Sequence[Quote]]
    of_claim: Callable[[Claim], Sequence[Quote]]
    entities_named_in: Callable[[Quote], Collection[str]]  # a sentence → the entities it mentions
    is_complete: bool = True  # false if only the most connected entities of the community are here

    @classmethod
    def build(
        cls,
        entities: Mapping[str, Entity],
        relationships: Iterable[Relationship],
        claims: Iterable[Claim] = (),
        *,
        of_entity: Callable[[str], Sequence[Quote]] = lambda _: (),
        of_relationship: Callable[[str], Sequence[Quote]] = lambda _: (),
        of_claim: Callable[[Claim], Sequence[Quote]] = lambda _: (),
        named_in: Callable[[Quote], Collection[str]] = lambda _: (),
        whole: bool = True,
    ) -> "ReportSources":
        """Order the relationships by the combined degree of their ends, then by id (paper, section 3.1.5)."""
        ordered = sorted(relationships, key=lambda r: (-entities[r.source_id].degree - entities[r.target_id].degree, r.id))
        leaving: defaultdict[str, list[int]] = defaultdict(list)
        for place, r in enumerate(ordered):
            leaving[r.source_id].append(place)
        claims_on: defaultdict[str, list[Claim]] = defaultdict(list)
        for claim in claims:
            claims_on[claim.subject_id].append(claim)
        return cls(entities, ordered, claims_on, leaving, of_entity, of_relationship, of_claim, named_in, whole)

    def among(self, members: Set[str]) -> list[Relationship]:
        """The relationships between these entities, in their order."""
        places = (
            place for m in members for place in self.outgoing_relationships.get(m, ()) if self.relationships[place].target_id in members
        )
        return [self.relationships[place] for place in sorted(places)]


def build_report_context(
    community: Community, below: Sequence[tuple[Community, Report]], sources: ReportSources, count: Callable[[str], int], budget: int
) -> list[ContextElement]:
    """Build a report's context: by combined degree, each relationship's ends, the claims on them and the relationship.

    Over `budget` tokens, the sub-community with most tokens is replaced by its report, then the next, until the context fits; one whose
    report is no shorter stays as it is. The rest of the budget is for the findings of those reports. If even the reports do not fit, as
    many are taken as do, largest sub-community first. Without sub-communities the list is cut.
    """
    elements = _elements(community, sources, count)
    passages = {id(element): quotes for element, _, quotes in elements}
    home = {entity: n for n, (sub, _) in enumerate(below) for entity in sub.entity_ids}
    inside: defaultdict[int, list[ContextElement]] = defaultdict(list)
    for element, ends, _ in elements:
        homes = {home.get(end, -1) for end in ends}
        inside[homes.pop() if len(homes) == 1 else -1].append(element)
    replaced: dict[int, ContextElement] = {}
    skipped: set[int] = set()
    tokens = {n: sum(e.tokens for e in some) for n, some in inside.items()}
    if not sources.is_complete:  # adds the least number of tokens that the unread part would take
        tokens |= {n: max(tokens.get(n, 0), MIN_ELEMENT_TOKENS * len(sub.entity_ids)) for n, (sub, _) in enumerate(below)}
    total = sum(tokens.values())
    for n in sorted(range(len(below)), key=lambda n: (-tokens.get(n, 0), n)):
        if total <= budget:
            break
        element = _report_element(n, *below[n], count)
        if element.tokens >= tokens.get(n, 0):
            continue
        skipped.update(map(id, inside[n]))
        replaced[n] = element
        total += element.tokens - tokens[n]
    _add_findings(replaced, {n: below[n][1] for n in replaced}, tokens, budget - total, count)
    taken = _cut([*replaced.values(), *(e for e, *_ in elements if id(e) not in skipped)], budget)
    return [replace(e, quotes=tuple(passages[id(e)]())) if id(e) in passages else e for e in taken]


def _add_findings(
    replaced: dict[int, ContextElement],
    reports: Mapping[int, Report],
    max_tokens: Mapping[int, int],
    budget_left: int,
    count: Callable[[str], int],
) -> None:
    """Add findings to the reports in `replaced`, each report's first before any report's second, while `budget_left` tokens last.

    No report becomes longer than the elements it replaces (`max_tokens`).
    """
    for place in range(max((len(r.findings) for r in reports.values()), default=0)):
        for n, report in reports.items():
            if place >= len(report.findings):
                continue
            element, finding = replaced[n], report.findings[place]
            text = f"{element.text} {_sentence(finding)}"
            more = count(text) - element.tokens
            if more <= budget_left and element.tokens + more <= max_tokens[n]:
                replaced[n] = replace(element, text=text, tokens=element.tokens + more)
                budget_left -= more


def _sentence(finding: Finding) -> str:
    return f"{finding.summary}: {finding.explanation}"


def _cut(elements: Sequence[ContextElement], budget: int) -> list[ContextElement]:
    taken: list[ContextElement] = []
    used = 0
    for element in elements:
        used += element.tokens
        if used > budget and taken:
            break
        taken.append(element)
    return taken


QuotesForContext = Callable[[], Sequence[Quote]]  # called only for elements that fit


def _elements(
    community: Community, sources: ReportSources, count: Callable[[str], int]
) -> list[tuple[ContextElement, tuple[str, ...], QuotesForContext]]:
    """Every element of a community once, each with the entities it is about and the passages behind it."""
    members = set(community.entity_ids)
    elements: list[tuple[ContextElement, tuple[str, ...], QuotesForContext]] = []
    seen: set[str] = set()
    new: list[str] = []  # entities whose claims come next
    numbers: Counter[str] = Counter()

    def add(kind: str, text: str, quotes: QuotesForContext, *ends: str) -> None:
        numbers[kind] += 1
        key = f"{kind[0].upper() if kind != 'claim' else 'K'}{numbers[kind]}"
        # Counted in two parts: the second is the same in the communities above. No token of a byte-pair encoding spans ":" and the space.
        tokens = count(f"{kind} {key}:") + count(f" {text}")
        elements.append((ContextElement(key, f"{kind} {key}: {text}", tokens, ()), ends, quotes))

    def add_entity(entity_id: str) -> None:
        if entity_id not in seen:
            seen.add(entity_id)
            e = sources.entities[entity_id]
            add("entity", f"{e.name} ({e.type}): {e.description}", lambda: sources.of_entity(entity_id)[:2], entity_id)
            new.append(entity_id)

    def add_claims() -> None:
        for entity_id in new:
            for claim in sources.claims_on.get(entity_id, ()):
                add("claim", format_claim(claim, sources.entities), partial(sources.of_claim, claim), entity_id)
        new.clear()

    for r in sources.among(members):
        add_entity(r.source_id)
        add_entity(r.target_id)
        add_claims()
        ends = f"{sources.entities[r.source_id].name} – {sources.entities[r.target_id].name}"
        add("relationship", f"{ends}: {r.description}", partial(sources.of_relationship, r.id), r.source_id, r.target_id)
    for entity_id in (e for e in community.entity_ids if e in sources.entities):
        add_entity(entity_id)
        add_claims()
    return elements


def _report_element(n: int, sub: Community, report: Report, count: Callable[[str], int]) -> ContextElement:
    text = f"report C{n + 1} ({len(sub.entity_ids)} entities): {report.title}: {report.summary}"
    return ContextElement(f"C{n + 1}", text, count(text), tuple(q for f in report.findings for q in f.quotes))


MAX_FINDINGS = 6  # of an extractive report


def input_hash(community: Community, elements: Sequence[ContextElement], recipe: str) -> str:
    """The hash of a report's input; the report is written again only when it changes.

    The positions of quotes are not part of it: a rename, or an edit elsewhere in a document, moves them (see `relocate_quotes`).
    """
    quotes = [collapse_whitespace(q.text) for e in elements for q in e.quotes]
    return content_id(recipe, community.level, *(e.text for e in elements), *quotes)


def relocate_quotes(report: Report, chunks: Container[str], places: Mapping[str, Quote]) -> Report:
    """The report with the quotes of deleted chunks moved to today's place of the same sentence: collapsed sentence → quote."""

    def placed(quote: Quote) -> Quote:
        return quote if quote.chunk_id in chunks else places.get(collapse_whitespace(quote.text), quote)

    return replace(report, findings=tuple(replace(f, quotes=tuple(map(placed, f.quotes))) for f in report.findings))


def with_titles(report: Report, members: Sequence[Entity], sources: ReportSources, title: str) -> Report:
    """Add title and headings to an extractive report.

    They depend on the rest of the corpus: on the word frequencies, and on which names are connected most.
    """
    findings = tuple(replace(f, summary=_heading(f, members, sources)) for f in report.findings)
    return replace(report, title=title, findings=findings)


def entities_by_degree(community: Community, sources: ReportSources) -> list[Entity]:
    """The entities of a community, the most connected first; people and places before things."""
    members = (sources.entities[i] for i in community.entity_ids if i in sources.entities)
    return sorted(members, key=lambda e: (e.type == DEFAULT_ENTITY_TYPE, -e.degree, e.name))


def reports_hash(settings: IndexSettings, model_fingerprint: str, style: str, budgets: TokenBudgets = MIN_BUDGETS) -> str:
    """The hash of everything that all reports depend on besides the graph."""
    if style == "extractive":
        return content_id("report 9", style)
    shape = shape_text(report_fields([], budgets))
    return content_id("report 8", style, model_fingerprint, settings.language, _prompt(settings, budgets).hash, shape, repr(budgets))


def _prompt(settings: IndexSettings, budgets: TokenBudgets) -> Prompt:
    name = "abstractive/report_long" if budgets.long_reports else "abstractive/report"
    return with_domain(load_prompt(name, settings.prompts), settings.domain, "report")


def extractive_report(community: Community, pool: Mapping[str, Quote], key: str, numbers: Sequence[int]) -> Report:
    """A report of the sentences with these numbers of `pool` (collapsed sentence → quote). `with_titles` adds the title."""
    texts = list(pool)
    findings = tuple(Finding("", texts[n], (pool[texts[n]],)) for n in numbers)
    return Report(community.id, key, "", " ".join(texts[n] for n in numbers[:2]), None, "", findings)


@dataclass(frozen=True)
class SentencePool:
    """The sentences of a community, with what its title is made of; `selects`: whether sentences are selected for a report, too."""

    title_source: TitleSource
    selects: bool


# The numbers of the selected sentences, the best first, and the title.
SelectedSentences = tuple[list[int], str]


@dataclass(frozen=True)
class SelectSentences(Task[list[SelectedSentences]]):
    """Select the most central and varied sentences of each of several communities, and its title; needs no model."""

    pools: tuple[SentencePool, ...]

    @property
    def n_chunks(self) -> int:
        """Number of communities."""
        return len(self.pools)

    @property
    def parts(self) -> Sequence["SelectSentences"]:
        """One task for each community."""
        return [SelectSentences((pool,)) for pool in self.pools]

    def join(self, results: Sequence[list[SelectedSentences]]) -> list[SelectedSentences]:
        """The results of all parts, in order."""
        return [chosen for results_of_part in results for chosen in results_of_part]

    async def run(self, tools: TaskContext) -> list[SelectedSentences]:  # noqa: ARG002 — parameter of the protocol
        """Select sentences and a title for each community."""
        return [_choose_quotes(pool) for pool in self.pools]


def _choose_quotes(pool: SentencePool) -> SelectedSentences:
    source = pool.title_source
    return select_central(source.texts, _word_vectors(source.texts), source.names, MAX_FINDINGS) if pool.selects else [], source.title()


def _word_vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    """The tf-idf vectors of sentences, (n, words) float32, L2-normalised, which tell the central ones (LexRank, Erkan and Radev 2004)."""
    counts = Counter(word for text in texts for word in title_words(text))
    numbers = {word: n for n, word in enumerate(sorted(counts))}  # in one order, so that every process adds up alike
    vectors = np.zeros((len(texts), max(1, len(counts))), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in title_words(text):
            row[numbers[word]] = np.log(1 + len(texts) / counts[word])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-9))
    return vectors


def _heading(finding: Finding, members: Sequence[Entity], sources: ReportSources) -> str:
    """The most connected members that the finding's sentence mentions, by any of their names."""
    mentioned = {entity for quote in finding.quotes[:1] for entity in sources.entities_named_in(quote)}
    named = list(islice((e.name for e in members if e.id in mentioned), 3))
    return join_names(named) or members[0].name


@dataclass(frozen=True)
class WriteReport(Task[Report]):
    """The model's report on a community, from the lines of its context. Raises CALL_ERRORS."""

    community: Community
    elements: tuple[ContextElement, ...]
    input_hash: str
    budgets: TokenBudgets
    llm_task = "report"

    @property
    def subjects(self) -> tuple[str, ...]:
        """The report's input."""
        return (report_subject(self.input_hash),)

    async def run(self, tools: TaskContext) -> Report:
        """Write the report."""
        CURRENT_SUBJECT.set(self.subjects[0])
        return await abstractive_report(self.community, self.elements, self.input_hash, tools.model, tools.settings, self.budgets)


async def abstractive_report(
    community: Community,
    elements: Sequence[ContextElement],
    key: str,
    model: ChatModel,
    settings: IndexSettings,
    budgets: TokenBudgets,
    priority: int = INDEXING,
) -> Report:
    """A report in free prose whose findings cite elements of the context; the grammar allows only ids that exist."""
    context = "\n".join(e.text for e in elements)
    prompt = _prompt(settings, budgets)
    shape = shape_text(report_fields([], budgets))
    messages = prompt.fill(context=context, language=settings.language or "the language of the data", shape=shape)
    script = await TokenDensity.measure(model.count, context, language=settings.language)
    try:
        body = await _ask_for_report(messages, elements, model, budgets, script, priority)
    except AnswerTruncated:  # the reply was in a denser script than the context, or mostly digits
        body = await _ask_for_report(messages, elements, model, budgets, TokenDensity(3 * script.tokens_per_char), priority)
    quotes, echo = {e.id: e.quotes for e in elements}, EchoDetector(prompt, "", context, shape)
    findings = tuple(
        Finding(f["summary"], f["explanation"], tuple(dict.fromkeys(q for i in f["evidence"] for q in quotes[i][:2])))
        for f in body["findings"]
        if not echo.is_in(f["explanation"])
    )
    if not findings or echo.is_in(body["summary"]):
        raise EngineError("The model repeated its instructions instead of writing a report.", "Try a larger model: --model PATH.gguf")
    return Report(community.id, key, body["title"], body["summary"], float(body["rating"]), body["rating_explanation"], findings)


async def _ask_for_report(
    messages: list[Message],
    elements: Sequence[ContextElement],
    model: ChatModel,
    budgets: TokenBudgets,
    script: TokenDensity,
    priority: int,
) -> dict[str, Any]:
    schema = schema_of(report_fields([e.id for e in elements], budgets, script))
    most = await max_json_tokens(schema, script, model.count)
    reply = await model.ask("report", messages, max_tokens=most, grammar=json_object(schema), priority=priority)
    return dict(trim_strings(json.loads(reply.text), schema))


def report_fields(ids: Sequence[str], budgets: TokenBudgets, script: TokenDensity | None = None) -> tuple[Field, ...]:
    """The fields of a report in the order in which they are written: the rating comes last, when the findings stand there."""
    script = script or TokenDensity()

    def text(most: int) -> dict[str, object]:
        return {"type": "string", "minLength": 3, "maxLength": script.max_chars(most)}

    long = budgets.long_reports
    # The paper's five findings are not required of a community of two entities, which seldom has five.
    limits = {"minItems": min(5, max(1, len(ids) // 4)) if long else 1, "maxItems": budgets.findings}
    evidence = {"type": "array", "minItems": 1, "maxItems": 4, "items": {"enum": list(ids)}}
    many = "five to ten where the data has that much to say, fewer where it has not" if long else "the most important insights"
    explained = "several sentences of at most 60 words in all" if long else "one or two sentences of at most 35 words"
    about = "what the group is about, how its main entities are related, what is at stake, in at most 80 words"
    finding = (
        Field("summary", "at most 15 words", text(120)),
        Field("explanation", explained, text(budgets.explanation)),
        Field("evidence", "[the ids of the data it rests on]", evidence),
    )
    important = "0 to 10, how much this matters to someone who wants to understand the documents"
    return (
        Field("title", "short, naming the main entities", text(100)),
        Field("summary", about if long else "what the group is about in at most 50 words", text(budgets.report_summary)),
        Field("findings", many, limits, finding),
        Field("rating_explanation", "one sentence of at most 15 words", text(200)),
        Field("rating", important, {"type": "integer", "minimum": 0, "maximum": 10}),
    )
