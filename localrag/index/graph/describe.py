"""Several descriptions of one entity or relationship → one (paper, section 3.1.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

from localrag import about
from localrag.config import OwnPrompts
from localrag.errors import ContextTooSmall
from localrag.index.jobs import Alone, Crew, Tools
from localrag.llm.budgets import LEAST, Budgets, Script, less_than
from localrag.llm.grammar import line
from localrag.llm.limits import ended
from localrag.llm.model import ABOUT, CALL_FAILED, Model, in_window
from localrag.llm.prompts import load_prompt
from localrag.records import Entity, Failure, Graph, Quote, Relationship
from localrag.text.plain import squeeze
from localrag.text.quotes import telling

SENTENCES = 2  # of an extractive description


@dataclass(frozen=True)
class Summarise(Alone[str]):
    """The one description of something of which there are several. Raises CALL_FAILED."""

    subject: str
    descriptions: tuple[str, ...]
    budgets: Budgets
    task = "describe"

    async def work(self, tools: Tools) -> str:
        """The summary."""
        ABOUT.set(about.described(self.subject, self.descriptions))
        return await summarise(self.subject, self.descriptions, tools.model, self.budgets, tools.settings.prompts)


Quotes = Callable[[str], Sequence[Quote]]  # the sentences that speak of an entity or a relationship, by its id


async def describe(
    graph: Graph,
    of_entity: Quotes,
    of_relationship: Quotes,
    crew: Crew | None,
    style: str,
    budgets: Budgets = LEAST,
    told: Callable[[int, int], None] = lambda *_: None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Graph, list[Failure]]:
    """The graph with every description filled in, and whose summary failed: those keep their longest description.

    Extractive: the most telling sentences, no model, and no crew. Abstractive: summaries. `told` hears how many there are, of how many.
    `names`: those of ends of relationships that are not among the graph's entities themselves.
    """
    failed: list[Failure] = []
    done = count()

    async def summary(key: str, subject: str, descriptions: Sequence[str]) -> str:
        several = tuple(sorted(set(descriptions)))
        try:
            return await crew.run(Summarise(subject, several, budgets)) if crew and len(several) > 1 else "".join(several)
        except CALL_FAILED as error:  # one description is better than none, and than no graph
            failed.append(Failure("description", key, str(error), error.kind))
            return max(descriptions, key=len)
        finally:
            told(next(done) + 1, len(graph.entities) + len(graph.relationships))

    if style == "extractive":
        # Only another program's extractions have descriptions here: those are kept.
        entities = [_longest(e) or _join(of_entity(e.id)) for e in graph.entities]
        relationships = [_longest(r) or _join(_best(of_relationship(r.id))) for r in graph.relationships]
    else:
        names = {**names, **{e.id: e.name for e in graph.entities}}
        jobs = [(e.id, e.name, e.descriptions) for e in graph.entities]
        jobs += [(r.id, f"{names[r.source_id]} and {names[r.target_id]}", r.descriptions) for r in graph.relationships]
        said = await in_window(summary(*job) for job in jobs)
        n = len(graph.entities)
        entities = [d or _join(of_entity(e.id)) for e, d in zip(graph.entities, said[:n], strict=True)]
        relationships = [d or _join(_best(of_relationship(r.id))) for r, d in zip(graph.relationships, said[n:], strict=True)]
    described = replace(
        graph,
        entities=tuple(replace(e, description=d) for e, d in zip(graph.entities, entities, strict=True)),
        relationships=tuple(replace(r, description=d) for r, d in zip(graph.relationships, relationships, strict=True)),
    )
    return described, sorted(failed, key=lambda f: f.subject)


async def summarise(subject: str, descriptions: Sequence[str], model: Model, budgets: Budgets = LEAST, own: OwnPrompts = ()) -> str:
    """One description is kept as it is; several are summarised, in rounds where one prompt cannot hold them. Raises CALL_FAILED."""
    waiting = sorted(set(descriptions))
    while len(waiting) > 1:
        taken, used = 0, 0
        while taken < len(waiting) and (taken < 2 or used + await model.count(waiting[taken]) <= budgets.descriptions):
            used += await model.count(waiting[taken])
            taken += 1
        some = waiting[:taken]
        script = await Script.of(model.count, "".join(some))
        messages = load_prompt("abstractive/describe", own).fill(subject=subject, descriptions="\n".join(f"- {d}" for d in some))
        longest = script.characters(budgets.description)
        try:
            reply = await model.ask("describe", messages, max_tokens=script.tokens(longest) + 8, grammar=line(longest))
        except ContextTooSmall:
            less = less_than(budgets)  # the window is smaller today than what the index's budgets are for
            if less is None:
                raise
            return await summarise(subject, waiting, model, less, own)
        waiting = [ended(reply.text.strip(), longest), *waiting[taken:]]
    return waiting[0] if waiting else ""


def _longest(of: Entity | Relationship) -> str:
    return max(of.descriptions, key=len, default="")


def _best(quotes: Sequence[Quote]) -> list[Quote]:
    return [max(quotes, key=lambda q: telling(squeeze(q.text), 2))] if len(quotes) > 1 else list(quotes)


def _join(quotes: Sequence[Quote]) -> str:
    return " ".join(squeeze(q.text) for q in quotes[:SENTENCES])
