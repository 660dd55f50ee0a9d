"""Community → Report, bottom-up (paper, sections 3.1.5 and 3.1.6): the context of a community, then the model's report on it."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from localrag.about import reported
from localrag.config import Settings
from localrag.errors import AnswerTruncated
from localrag.index.jobs import Alone, Tools
from localrag.index.reports.context import Element, Sources
from localrag.index.reports.topics import NAMES, Topics, title
from localrag.llm.budgets import LEAST, Budgets, Script, room
from localrag.llm.domain import with_domain
from localrag.llm.grammar import THING, json_object, object_schema
from localrag.llm.model import ABOUT, Model
from localrag.llm.prompts import Message, Prompt, load_prompt
from localrag.records import Community, Entity, Finding, Quote, Report, content_id
from localrag.text.plain import enumeration, squeeze
from localrag.text.quotes import Vectors, most_central

FINDINGS = 6  # of an extractive report


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
    findings = tuple(replace(f, summary=_heading(f, members, sources)) for f in report.findings)
    pool = list(dict.fromkeys(squeeze(q.text) for e in elements for q in e.quotes))
    names = [e.name for e in members]
    return replace(report, title=title(names, topics.phrase(pool, names[:NAMES])), findings=findings)


def _members(community: Community, sources: Sources) -> list[Entity]:
    """The entities of a community, the most connected first; people and places before things."""
    found = (sources.entities[i] for i in community.entity_ids if i in sources.entities)
    return sorted(found, key=lambda e: (e.type == THING, -e.degree, e.name))


def recipe(settings: Settings, model_fingerprint: str, style: str, budgets: Budgets = LEAST) -> str:
    """What all reports depend on besides the graph. Budgets count where they are not the least, which all reports once had."""
    if style == "extractive":
        return content_id("report 5", style)
    sized = [] if budgets == LEAST else [repr(budgets)]
    return content_id("report 4", style, model_fingerprint, settings.language, _prompt(settings, budgets).hash, *sized)


def _prompt(settings: Settings, budgets: Budgets) -> Prompt:
    name = "abstractive/report_long" if budgets.long_reports else "abstractive/report"
    return with_domain(load_prompt(name, settings.prompts), settings.domain, "report")


def extractive_report(
    community: Community, elements: Sequence[Element], key: str, sources: Sources, vectors: Vectors, topics: Topics
) -> Report:
    """A report of verbatim sentences, the most central and varied, under a title of names and words that stand out; no model."""
    pool = {squeeze(q.text): q for e in elements for q in e.quotes}
    chosen = most_central(list(pool.values()), vectors, [e.name for e in _members(community, sources)], FINDINGS)
    texts = [squeeze(q.text) for q in chosen]
    findings = tuple(Finding("", t, (q,)) for t, q in zip(texts, chosen, strict=True))
    return named_anew(Report(community.id, key, "", " ".join(texts[:2]), None, "", findings), community, elements, sources, topics)


def _heading(finding: Finding, members: Sequence[Entity], sources: Sources) -> str:
    """The most connected members that its sentence mentions, by whichever of their names."""
    mentioned = {entity for quote in finding.quotes[:1] for entity in sources.named_in(quote)}
    named = list(islice((e.name for e in members if e.id in mentioned), 3))
    return enumeration(named) or members[0].name


@dataclass(frozen=True)
class WriteReport(Alone[Report]):
    """The model's report on a community, from the lines of its context. Raises CALL_FAILED."""

    community: Community
    elements: tuple[Element, ...]
    key: str
    budgets: Budgets
    task = "report"

    async def work(self, tools: Tools) -> Report:
        """The report."""
        ABOUT.set(reported(self.key))
        return await abstractive_report(self.community, self.elements, self.key, tools.model, tools.settings, self.budgets)


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
