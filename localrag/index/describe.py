"""Several descriptions of one entity or relationship → one (paper, section 3.1.3)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from localrag.llm import CALL_FAILED, Model
from localrag.llm.grammar import line
from localrag.llm.prompts import load_prompt
from localrag.quotes import entity_quotes, relationship_quotes, telling
from localrag.records import Chunk, Graph, Quote
from localrag.text import squeeze

INPUT_TOKENS = 1500  # of descriptions handed to one summary; what is left over is summarised together with its result
SENTENCES = 2  # of an extractive description


async def describe(graph: Graph, chunks: Mapping[str, Chunk], model: Model, style: str) -> Graph:
    """The graph with every description filled in. Extractive: the most telling sentences, no model. Abstractive: summaries."""
    of_entity, of_relationship = entity_quotes(graph, chunks), relationship_quotes(graph, chunks)
    if style == "extractive":
        return replace(
            graph,
            entities=tuple(replace(e, description=_join(of_entity.get(e.id, ()))) for e in graph.entities),
            relationships=tuple(replace(r, description=_join(_best(of_relationship.get(r.id, ())))) for r in graph.relationships),
        )
    names = {e.id: e.name for e in graph.entities}
    entities = await asyncio.gather(*(summarise(e.name, e.descriptions, model) for e in graph.entities))
    relationships = await asyncio.gather(
        *(summarise(f"{names[r.source_id]} and {names[r.target_id]}", r.descriptions, model) for r in graph.relationships)
    )
    return replace(
        graph,
        entities=tuple(replace(e, description=d or _join(of_entity.get(e.id, ()))) for e, d in zip(graph.entities, entities, strict=True)),
        relationships=tuple(
            replace(r, description=d or _join(_best(of_relationship.get(r.id, ()))))
            for r, d in zip(graph.relationships, relationships, strict=True)
        ),
    )


async def summarise(subject: str, descriptions: Sequence[str], model: Model) -> str:
    """One description is kept as it is; several are summarised, in rounds where they do not fit one prompt."""
    waiting = sorted(set(descriptions))
    while len(waiting) > 1:
        taken, used = 0, 0
        while taken < len(waiting) and (taken < 2 or used + await model.count(waiting[taken]) <= INPUT_TOKENS):
            used += await model.count(waiting[taken])
            taken += 1
        messages = load_prompt("abstractive/describe").fill(subject=subject, descriptions="\n".join(f"- {d}" for d in waiting[:taken]))
        try:
            reply = await model.ask("describe", messages, max_tokens=400, grammar=line(600))
        except CALL_FAILED:
            return max(waiting, key=len)  # one description is better than none, and than no graph
        waiting = [reply.text.strip(), *waiting[taken:]]
    return waiting[0] if waiting else ""


def _best(quotes: Sequence[Quote]) -> list[Quote]:
    return sorted(quotes, key=lambda q: (-telling(squeeze(q.text), 2), q.chunk_id, q.start))[:1]


def _join(quotes: Sequence[Quote]) -> str:
    return " ".join(squeeze(q.text) for q in quotes[:SENTENCES])
