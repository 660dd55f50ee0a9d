"""Community → Report, bottom-up (paper, sections 3.1.5 and 3.1.6): the context of a community, then the model's report on it."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.about import reported
from localrag.config import Settings
from localrag.errors import AnswerTruncated, EngineFailed
from localrag.index.jobs import Alone, Tools
from localrag.index.reports.context import Element, Sources
from localrag.index.reports.topics import NAMES, Topics, title
from localrag.llm.budgets import LEAST, Budgets, Script, room
from localrag.llm.domain import with_domain
from localrag.llm.echo import Echo
from localrag.llm.grammar import THING, json_object, object_schema
from localrag.llm.limits import whole_strings
from localrag.llm.model import ABOUT, Model
from localrag.llm.prompts import Message, Prompt, load_prompt
from localrag.records import Community, Entity, Finding, Quote, Report, content_id
from localrag.text.plain import enumeration, squeeze
from localrag.text.quotes import most_central

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


def titled(report: Report, members: Sequence[Entity], sources: Sources, phrase: str) -> Report:
    """An extractive report under its title and headings: names, and a stretch of its sentences where one stands out.

    They depend on the rest of the corpus: on which words stand out against all others, and which names are connected most.
    """
    findings = tuple(replace(f, summary=_heading(f, members, sources)) for f in report.findings)
    return replace(report, title=title([e.name for e in members], phrase), findings=findings)


def leading(community: Community, sources: Sources) -> list[Entity]:
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


def extractive_report(community: Community, pool: Mapping[str, Quote], key: str, numbers: Sequence[int]) -> Report:
    """A report of verbatim sentences, those with these numbers of `pool`: squeezed sentence → quote. No title yet (see `titled`)."""
    texts = list(pool)
    findings = tuple(Finding("", texts[n], (pool[texts[n]],)) for n in numbers)
    return Report(community.id, key, "", " ".join(texts[n] for n in numbers[:2]), None, "", findings)


@dataclass(frozen=True, slots=True)
class Pool:
    """The sentences of a community: what an extractive report is chosen from.

    `vectors`: (n, d) float32, those of the sentences; None where the report is there and only a title is looked for. `names`: of the
    entities, the most connected first. `known`: words → in how many of the `total` sentences of the corpus they are.
    """

    texts: tuple[str, ...]
    vectors: NDArray[np.float32] | None
    names: tuple[str, ...]
    known: Mapping[str, int]
    total: int


Chosen = tuple[list[int], str]  # the numbers of sentences, the best first, and what they are about; empty where nothing stands out


@dataclass(frozen=True)
class Choose(Alone[list[Chosen]]):
    """The most central and varied sentences of each of several communities, and what stands out in them; no model."""

    pools: tuple[Pool, ...]

    @property
    def weight(self) -> int:  # type: ignore[override]
        """How many communities they are."""
        return len(self.pools)

    @property
    def parts(self) -> Sequence["Choose"]:
        """One for each community."""
        return [Choose((pool,)) for pool in self.pools]

    def joined(self, results: Sequence[list[Chosen]]) -> list[Chosen]:
        """All of them, in order."""
        return [chosen for some in results for chosen in some]

    async def work(self, tools: Tools) -> list[Chosen]:  # noqa: ARG002 — as the protocol has it
        """What is chosen of each."""
        return [_chosen(pool) for pool in self.pools]


def _chosen(pool: Pool) -> Chosen:
    topics = Topics(lambda _: pool.known, pool.total)
    numbers = [] if pool.vectors is None else most_central(pool.texts, pool.vectors, pool.names, FINDINGS)
    return numbers, topics.phrase(pool.texts, pool.names[:NAMES])


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
    prompt = _prompt(settings, budgets)
    messages = prompt.fill(context=context, language=settings.language or "the language of the data")
    script = await Script.of(model.count, context, language=settings.language)
    try:
        body = await _asked(messages, elements, model, budgets, script)
    except AnswerTruncated:  # it wrote in another script than the context has, or mere numbers
        body = await _asked(messages, elements, model, budgets, Script(3 * script.density))
    quotes, echo = {e.id: e.quotes for e in elements}, Echo(prompt, "", context)
    findings = tuple(
        Finding(f["summary"], f["explanation"], tuple(dict.fromkeys(q for i in f["evidence"] for q in quotes[i][:2])))
        for f in body["findings"]
        if not echo.is_in(f["explanation"])
    )
    if not findings or echo.is_in(body["summary"]):
        raise EngineFailed("The model gave back its instructions instead of a report.", "Try a larger model: --model PATH.gguf")
    return Report(community.id, key, body["title"], body["summary"], float(body["rating"]), body["rating_explanation"], findings)


async def _asked(messages: list[Message], elements: Sequence[Element], model: Model, budgets: Budgets, script: Script) -> dict[str, Any]:
    schema = _schema([e.id for e in elements], budgets, script)
    reply = await model.ask("report", messages, max_tokens=await room(schema, script, model.count), grammar=json_object(schema))
    return dict(whole_strings(json.loads(reply.text), schema))


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
