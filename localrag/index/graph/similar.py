"""Entities that might be one: alike in spelling or meaning. A large model says yes or no; otherwise they are left open for the user."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from rapidfuzz import fuzz

from localrag.index.graph.spelling import digits, normalise
from localrag.index.graph.variants import Decisions
from localrag.index.jobs import Alone, Crew, Tools, embed
from localrag.llm.grammar import choice
from localrag.llm.model import CALL_FAILED, in_window
from localrag.llm.prompts import load_prompt
from localrag.records import Entity, Failure, Graph, Merge, Quote, content_id
from localrag.text.plain import squeeze

NEAR = 0.9  # cosine of two names' vectors from which on they are alike in meaning
MOST = 200  # pairs, the most alike first
BLOCK = 1000  # entities compared by meaning: the most connected of each type


async def alike_in_meaning(graph: Graph, crew: Crew, decisions: Decisions) -> list[Merge]:
    """Pairs of entities of one type whose names have near vectors, though their spelling differs; digits are never bridged."""
    found = []
    for kind in sorted({e.type for e in graph.entities}):
        some = sorted((e for e in graph.entities if e.type == kind), key=lambda e: (-e.degree, e.id))[:BLOCK]
        if len(some) < 2:
            continue
        vectors = await embed(crew, [e.name for e in some])
        for i, j in np.argwhere(np.triu(vectors @ vectors.T, 1) >= NEAR):
            a, b = some[int(i)], some[int(j)]
            if _may_be_one(a, b, decisions):
                found.append(Merge(b.name, normalise(a.name), a.name, "alike in meaning", round(float(vectors[i] @ vectors[j]), 2)))
    return sorted(found, key=lambda m: (-m.score, m.name, m.into))[:MOST]


def _may_be_one(a: Entity, b: Entity, decisions: Decisions) -> bool:
    one, other = normalise(a.name), normalise(b.name)
    return digits(one) == digits(other) and frozenset((one, other)) not in decisions.different and fuzz.ratio(one, other) < 100


@dataclass(frozen=True)
class SameEntity(Alone[bool]):
    """Whether two names are one entity's, each with a sentence that has it. Raises CALL_FAILED."""

    first: str
    first_quote: str
    second: str
    second_quote: str
    task = "same"

    async def work(self, tools: Tools) -> bool:
        """What the model says."""
        prompt = load_prompt("abstractive/same", tools.settings.prompts)
        messages = prompt.fill(first=self.first, first_quote=self.first_quote, second=self.second, second_quote=self.second_quote)
        reply = await tools.model.ask("same", messages, max_tokens=4, grammar=choice(["yes", "no"]))
        return reply.text == "yes"


async def ask_whether_same(
    graph: Graph,
    quotes: Mapping[str, Sequence[Quote]],
    crew: Crew,
    decisions: Decisions,
    told: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Decisions, list[Failure]]:
    """The decisions with what the model says of the graph's similar pairs, and which pairs it could not be asked about: they stay open.

    `told` hears how many were asked about, of how many.
    """
    of_name = {e.name: e.id for e in graph.entities}
    failed: list[Failure] = []
    done, pairs = count(), graph.similar[:MOST]

    async def one(pair: Merge) -> tuple[str, str] | None:
        told(next(done), len(pairs))
        shown = [quotes.get(of_name.get(name, ""), ()) for name in (pair.into, pair.name)]
        if not all(shown):
            return None
        first, second = (squeeze(some[0].text)[:300] for some in shown)
        try:
            same = await crew.run(SameEntity(pair.into, first, pair.name, second))
        except CALL_FAILED as error:
            failed.append(Failure("same entity", content_id(pair.name, pair.into), str(error), error.kind))
            return None
        return (normalise(pair.name), normalise(pair.into)) if same else None

    said = await in_window(one(pair) for pair in pairs)
    same = tuple(pair for pair in said if pair)
    return replace(decisions, same=(*decisions.same, *same), by_model=frozenset(same)), sorted(failed, key=lambda f: f.subject)
