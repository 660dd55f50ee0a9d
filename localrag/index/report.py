"""Community → Report, bottom-up (paper, sections 3.1.5 and 3.1.6): the context of a community, then the model's report on it."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from localrag.config import Settings
from localrag.errors import AnswerTruncated
from localrag.index.topics import NAMES, Topics, title
from localrag.llm import Model
from localrag.llm.budgets import LEAST, Budgets, Script, room
from localrag.llm.domain import with_domain
from localrag.llm.grammar import THING, json_object, object_schema
from localrag.llm.prompts import Message, Prompt, load_prompt
from localrag.quotes import Vectors, claim_line, most_central
from localrag.records import Claim, Community, Entity, Finding, Graph, Quote, Relationship, Report, content_id
from localrag.text import enumeration, squeeze

FINDINGS = 6  # of an extractive report


@dataclass(frozen=True, slots=True)
class Element:
    """One line of a report's context: an entity, a claim, a relationship or a sub-community's report, with the passages behind it."""

    id: str
    text: str
    tokens: int
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """The graph by id, with the passages of its relationships, entities and claims: what contexts are built from."""

    entities: Mapping[str, Entity]
    relationships: Sequence[Relationship]
    of_relationship: Mapping[str, Sequence[Quote]]
    of_entity: Mapping[str, Sequence[Quote]]
    of_claim: Mapping[str, Quote]
    claims_on: Mapping[str, Sequence[Claim]]  # entity → the claims it is the subject of
    leaving: Mapping[str, Sequence[int]]  # entity → the places in `relationships` of those it is the source of
    named_in: Mapping[str, Sequence[str]]  # squeezed sentence → the entities it mentions

    @classmethod
    def of(
        cls,
        graph: Graph,
        of_relationship: Mapping[str, list[Quote]],
        of_entity: Mapping[str, list[Quote]],
        of_claim: Mapping[str, Quote] = MappingProxyType({}),
    ) -> "Sources":
        """Relationships ordered by the combined degree of their ends, then by id (paper, section 3.1.5)."""
        entities = {e.id: e for e in graph.entities}
        ordered = sorted(graph.relationships, key=lambda r: (-entities[r.source_id].degree - entities[r.target_id].degree, r.id))
        leaving: defaultdict[str, list[int]] = defaultdict(list)
        for place, r in enumerate(ordered):
            leaving[r.source_id].append(place)
        named_in: defaultdict[str, list[str]] = defaultdict(list)
        for entity, quotes in of_entity.items():
            for text in {squeeze(q.text) for q in quotes}:
                named_in[text].append(entity)
        claims_on: defaultdict[str, list[Claim]] = defaultdict(list)
        for claim in graph.claims:
            claims_on[claim.subject_id].append(claim)
        return cls(entities, ordered, of_relationship, of_entity, of_claim, claims_on, leaving, named_in)

    def among(self, members: Set[str]) -> list[Relationship]:
        """The relationships between these entities, in their order."""
        places = (place for m in members for place in self.leaving.get(m, ()) if self.relationships[place].target_id in members)
        return [self.relationships[place] for place in sorted(places)]


def report_context(
    community: Community, below: Sequence[tuple[Community, Report]], sources: Sources, count: Callable[[str], int], budget: int
) -> list[Element]:
    """What a report is written from: by combined degree, each relationship's ends, the claims on them and the relationship.

    Over `budget` tokens, the sub-community with most tokens is replaced by its report, then the next, until it fits; one whose report is
    no shorter stays as it is. What is left of the budget is for the findings of those reports. Where even the reports do not fit, there
    are as many as do, largest sub-community first. Without sub-communities the list is cut.
    """
    elements = _elements(community, sources, count)
    home = {entity: n for n, (sub, _) in enumerate(below) for entity in sub.entity_ids}
    inside: defaultdict[int, list[Element]] = defaultdict(list)
    for element, ends in elements:
        homes = {home.get(end, -1) for end in ends}
        inside[homes.pop() if len(homes) == 1 else -1].append(element)
    replaced: dict[int, Element] = {}
    gone: set[int] = set()
    tokens = {n: sum(e.tokens for e in some) for n, some in inside.items()}
    total = sum(tokens.values())
    for n in sorted(range(len(below)), key=lambda n: (-tokens.get(n, 0), n)):
        if total <= budget:
            break
        element = _report_element(n, *below[n], count)
        if element.tokens >= tokens.get(n, 0):
            continue
        gone.update(map(id, inside[n]))
        replaced[n] = element
        total += element.tokens - tokens[n]
    _add_findings(replaced, {n: below[n][1] for n in replaced}, tokens, budget - total, count)
    return _cut([*replaced.values(), *(e for e, _ in elements if id(e) not in gone)], budget)


def _add_findings(
    replaced: dict[int, Element], reports: Mapping[int, Report], most: Mapping[int, int], left: int, count: Callable[[str], int]
) -> None:
    """Give the reports in `replaced` their findings, each report its first before any its second, as long as so many tokens are left.

    No report becomes longer than what it stands for (`most`).
    """
    for place in range(max((len(r.findings) for r in reports.values()), default=0)):
        for n, report in reports.items():
            if place >= len(report.findings):
                continue
            element, finding = replaced[n], report.findings[place]
            text = f"{element.text} {_sentence(finding)}"
            more = count(text) - element.tokens
            if more <= left and element.tokens + more <= most[n]:
                replaced[n] = replace(element, text=text, tokens=element.tokens + more)
                left -= more


def _sentence(finding: Finding) -> str:
    return f"{finding.summary}: {finding.explanation}"


def _cut(elements: Sequence[Element], budget: int) -> list[Element]:
    taken: list[Element] = []
    used = 0
    for element in elements:
        used += element.tokens
        if used > budget and taken:
            break
        taken.append(element)
    return taken


def _elements(community: Community, sources: Sources, count: Callable[[str], int]) -> list[tuple[Element, tuple[str, ...]]]:
    """Every element of a community once, each with the entities it is about."""
    members = set(community.entity_ids)
    found: list[tuple[Element, tuple[str, ...]]] = []
    seen: set[str] = set()
    new: list[str] = []  # entities whose claims come next
    numbers: Counter[str] = Counter()

    def add(kind: str, text: str, quotes: Sequence[Quote], *ends: str) -> None:
        numbers[kind] += 1
        key = f"{kind[0].upper() if kind != 'claim' else 'K'}{numbers[kind]}"
        line = f"{kind} {key}: {text}"
        found.append((Element(key, line, count(line), tuple(quotes)), ends))

    def add_entity(entity_id: str) -> None:
        if entity_id not in seen:
            seen.add(entity_id)
            e = sources.entities[entity_id]
            add("entity", f"{e.name} ({e.type}): {e.description}", sources.of_entity.get(entity_id, ())[:2], entity_id)
            new.append(entity_id)

    def add_claims() -> None:
        for entity_id in new:
            for claim in sources.claims_on.get(entity_id, ()):
                quotes = [sources.of_claim[claim.id]] if claim.id in sources.of_claim else []
                add("claim", claim_line(claim, sources.entities), quotes, entity_id)
        new.clear()

    for r in sources.among(members):
        add_entity(r.source_id)
        add_entity(r.target_id)
        add_claims()
        ends = f"{sources.entities[r.source_id].name} – {sources.entities[r.target_id].name}"
        add("relationship", f"{ends}: {r.description}", sources.of_relationship.get(r.id, ()), r.source_id, r.target_id)
    for entity_id in community.entity_ids:
        add_entity(entity_id)
        add_claims()
    return found


def _report_element(n: int, sub: Community, report: Report, count: Callable[[str], int]) -> Element:
    text = f"report C{n + 1} ({len(sub.entity_ids)} entities): {report.title}: {report.summary}"
    return Element(f"C{n + 1}", text, count(text), tuple(q for f in report.findings for q in f.quotes))


def input_hash(community: Community, elements: Sequence[Element], recipe: str) -> str:
    """What a report depends on; it is written again only when this changes.

    Where its quotes stand is no part of it: a rename and an edit elsewhere in a document move them (see `placed_anew`).
    """
    quotes = [squeeze(q.text) for e in elements for q in e.quotes]
    return content_id(recipe, community.level, *(e.text for e in elements), *quotes)


def placed_anew(report: Report, chunks: Container[str], places: Mapping[str, Quote]) -> Report:
    """The report with those of its quotes whose chunk is no more at the place that has their sentence now: squeezed sentence → quote."""

    def placed(quote: Quote) -> Quote:
        return quote if quote.chunk_id in chunks else places.get(squeeze(quote.text), quote)

    return replace(report, findings=tuple(replace(f, quotes=tuple(map(placed, f.quotes))) for f in report.findings))


def named_anew(report: Report, community: Community, elements: Sequence[Element], sources: Sources, topics: Topics) -> Report:
    """An extractive report under the title and headings that it would have if it were written now.

    They depend on the rest of the corpus: on which words stand out against all others, and which names are connected most.
    """
    members = _members(community, sources)
    findings = tuple(replace(f, summary=_heading(f.explanation, members, sources)) for f in report.findings)
    pool = list(dict.fromkeys(squeeze(q.text) for e in elements for q in e.quotes))
    names = [e.name for e in members]
    return replace(report, title=title(names, topics.phrase(pool, names[:NAMES])), findings=findings)


def _members(community: Community, sources: Sources) -> list[Entity]:
    """The entities of a community, the most connected first; people and places before things."""
    found = (sources.entities[i] for i in community.entity_ids)
    return sorted(found, key=lambda e: (e.type == THING, -e.degree, e.name))


def recipe(settings: Settings, model_fingerprint: str, style: str, budgets: Budgets = LEAST) -> str:
    """What all reports depend on besides the graph. Budgets count where they are not the least, which all reports once had."""
    if style == "extractive":
        return content_id("report 5", style)
    sized = [] if budgets == LEAST else [repr(budgets)]
    return content_id("report 4", style, model_fingerprint, settings.language, _prompt(settings, budgets).hash, *sized)


def _prompt(settings: Settings, budgets: Budgets) -> Prompt:
    return with_domain(load_prompt("abstractive/report_long" if budgets.long_reports else "abstractive/report"), settings.domain, "report")


def extractive_report(
    community: Community, elements: Sequence[Element], key: str, sources: Sources, vectors: Vectors, topics: Topics
) -> Report:
    """A report of verbatim sentences, the most central and varied, under a title of names and words that stand out; no model."""
    pool = {squeeze(q.text): q for e in elements for q in e.quotes}
    chosen = most_central(list(pool.values()), vectors, [sources.entities[i].name for i in community.entity_ids], FINDINGS)
    texts = [squeeze(q.text) for q in chosen]
    findings = tuple(Finding("", t, (q,)) for t, q in zip(texts, chosen, strict=True))
    return named_anew(Report(community.id, key, "", " ".join(texts[:2]), None, "", findings), community, elements, sources, topics)


def _heading(text: str, members: Sequence[Entity], sources: Sources) -> str:
    """The most connected members that a sentence mentions, by whichever of their names."""
    mentioned = set(sources.named_in.get(text, ()))
    named = list(islice((e.name for e in members if e.id in mentioned), 3))
    return enumeration(named) or members[0].name


async def abstractive_report(
    community: Community, elements: Sequence[Element], key: str, model: Model, settings: Settings, budgets: Budgets
) -> Report:
    """A report in free prose whose findings cite elements of the context, chosen by grammar among those there are."""
    context = "\n".join(e.text for e in elements)
    messages = _prompt(settings, budgets).fill(context=context, language=settings.language or "the language of the data")
    script = await Script.of(model.count, context, language=settings.language)
    try:
        body = await _asked(messages, elements, model, budgets, script)
    except AnswerTruncated:  # it wrote in another script than the context has, or mere numbers
        body = await _asked(messages, elements, model, budgets, Script(3 * script.density))
    quotes = {e.id: e.quotes for e in elements}
    findings = tuple(
        Finding(f["summary"], f["explanation"], tuple(dict.fromkeys(q for i in f["evidence"] for q in quotes[i][:2])))
        for f in body["findings"]
    )
    return Report(community.id, key, body["title"], body["summary"], float(body["rating"]), body["rating_explanation"], findings)


async def _asked(messages: list[Message], elements: Sequence[Element], model: Model, budgets: Budgets, script: Script) -> dict[str, Any]:
    schema = _schema([e.id for e in elements], budgets, script)
    reply = await model.ask("report", messages, max_tokens=await room(schema, script, model.count), grammar=json_object(schema))
    return dict(json.loads(reply.text))


def _schema(ids: Sequence[str], budgets: Budgets, script: Script) -> dict[str, Any]:
    def text(most: int) -> dict[str, object]:
        return {"type": "string", "minLength": 3, "maxLength": script.characters(most)}

    evidence = {"type": "array", "minItems": 1, "maxItems": 4, "items": {"enum": list(ids)}}
    finding = object_schema(summary=text(120), explanation=text(budgets.explanation), evidence=evidence)
    # The paper's five findings are not wrung from a community of two entities, which has nothing to say in most of them.
    least = min(5, max(1, len(ids) // 4)) if budgets.long_reports else 1
    findings = {"type": "array", "minItems": least, "maxItems": budgets.findings, "items": finding}
    rating = {"type": "integer", "minimum": 0, "maximum": 10}
    summary = text(budgets.report_summary)
    return object_schema(title=text(100), summary=summary, rating=rating, rating_explanation=text(200), findings=findings)
