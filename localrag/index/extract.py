"""Chunk → Extraction: the entities of a chunk, then the relationships between them (paper, section 3.1.2).

Every name is a verbatim stretch of the chunk, a relationship joins two names of one sentence or of two adjacent ones, nothing is
listed twice, and lists are bounded: the grammar sees to it, so there is nothing to repair.

*Extractive*, for small models: the names are found beforehand and the model types and relates them sentence by sentence, where it is
most reliable. *Abstractive*: one conversation over the whole chunk whose KV is kept; the model names what it likes and describes it.
"""

import asyncio
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from localrag.config import Settings
from localrag.index.candidates import candidates
from localrag.index.names import Case
from localrag.llm import Model
from localrag.llm.grammar import ENTITY_TOKENS, PAIR_TOKENS, entity_lines, pair_lines, parse_lines, parse_pairs
from localrag.llm.prompts import load_prompt
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction, content_id
from localrag.text import Span, chunk_sentences, is_cjk, squeeze

MOST_PAIRS = 30  # of one list: small models go on for ever

Pair = tuple[str, str]


def recipe(settings: Settings, model_fingerprint: str, style: str) -> str:
    """What an extraction depends on besides its chunk: a change of any redoes it."""
    prompts = [load_prompt(f"{style}/{name}").hash for name in ("entities", "relationships")]
    return content_id("extract 2", model_fingerprint, style, *prompts, *settings.entity_types)


async def extract(chunk: Chunk, case: Case, model: Model, settings: Settings, style: str) -> Extraction:
    """The entities and relationships of one chunk. Raises what `Model.ask` raises."""
    names = candidates(chunk.text, case)
    run = _extract_described if style == "abstractive" else _extract_sentences
    entities, relationships = await run(chunk.text, names, model, settings)
    return Extraction(chunk.id, tuple(entities), tuple(relationships))


Found = tuple[list[ExtractedEntity], list[ExtractedRelationship]]


async def _extract_sentences(text: str, names: list[str], model: Model, settings: Settings) -> Found:
    """Type each name in the first sentence that has it; relate names where they first come near each other."""
    places = name_sentences(text, names)
    spans = chunk_sentences(text)
    prompts = {task: load_prompt(f"extractive/{task}") for task in ("entities", "relationships")}

    async def entities_of(sentence: int, found: list[str]) -> list[ExtractedEntity]:
        start, end = spans[sentence]
        messages = prompts["entities"].fill(text=squeeze(text[start:end]), types=", ".join(settings.entity_types))
        reply = await model.ask("entities", messages, max_tokens=ENTITY_TOKENS, grammar=entity_lines(found, settings.entity_types))
        return [ExtractedEntity(**row) for row in parse_lines(reply.text)]

    async def relationships_of(window: Span, pairs: list[Pair]) -> list[ExtractedRelationship]:
        if len(pairs) == 1:  # asked about one pair, the embedded model declined 0 times of 267: the question is saved
            return [ExtractedRelationship(*pairs[0])]
        found = list(dict.fromkeys(n for pair in pairs for n in pair))
        messages = prompts["relationships"].fill(text=squeeze(text[window.start : window.end]), names=", ".join(found))
        grammar = pair_lines(pairs, most=min(MOST_PAIRS, len(found) - 1))
        reply = await model.ask("relationships", messages, max_tokens=PAIR_TOKENS, grammar=grammar)
        return [ExtractedRelationship(*pair) for pair in parse_pairs(reply.text)]

    first: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        if places[name]:
            first[min(places[name])].append(name)
    windows: defaultdict[Span, list[Pair]] = defaultdict(list)
    for pair, (i, j) in nearby_pairs(places).items():
        windows[Span(spans[i].start, spans[j].end)].append(pair)
    typed, related = await asyncio.gather(
        asyncio.gather(*(entities_of(i, found) for i, found in first.items())),
        asyncio.gather(*(relationships_of(window, pairs) for window, pairs in windows.items())),
    )
    return [e for part in typed for e in part], [r for part in related for r in part]


async def _extract_described(text: str, names: list[str], model: Model, settings: Settings) -> Found:
    """One conversation: entities with descriptions, the list ending where the model ends it; then described relationships."""
    messages = load_prompt("abstractive/entities").fill(text=text, types=", ".join(settings.entity_types), names=", ".join(names))
    grammar = entity_lines(names, settings.entity_types, span_of=text, described=True)
    reply = await model.ask("entities", messages, max_tokens=ENTITY_TOKENS, grammar=grammar)
    entities = [ExtractedEntity(**row) for row in parse_lines(reply.text)]
    pairs = list(nearby_pairs(name_sentences(text, [e.name for e in entities])))
    if not pairs:
        return entities, []
    grammar = pair_lines(pairs, described=True, most=min(MOST_PAIRS, 2 * len(entities)))
    messages = load_prompt("abstractive/relationships").fill()
    reply = await model.ask("relationships", messages, max_tokens=PAIR_TOKENS, after=reply, grammar=grammar)
    return entities, [ExtractedRelationship(**row) for row in parse_lines(reply.text)]


def find_name(text: str, name: str) -> list[Span]:
    """Every place of `text` that writes `name` as whole words, also across a line break; CJK names need no boundary."""
    body = r"\s+".join(map(re.escape, name.split()))
    word = r"[^\W\u3040-\u9fff]"
    pattern = body if is_cjk(name) else rf"(?<!{word}){body}(?!{word})"
    return [Span(*m.span()) for m in re.finditer(pattern, text)]


def find_names(text: str, names: Sequence[str]) -> dict[str, list[Span]]:
    """The places of each name in `text`; where one stands inside a longer one's place, as York in New York Times, it is not meant."""
    places = [(span, name) for name in dict.fromkeys(names) for span in find_name(text, name)]
    places.sort(key=lambda p: (p[0].start - p[0].end, p[0].start))
    found: dict[str, list[Span]] = {n: [] for n in names}
    taken = bytearray(len(text))
    for span, name in places:
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            found[name].append(span)
    return {name: sorted(spans) for name, spans in found.items()}


def name_sentences(text: str, names: list[str]) -> dict[str, list[int]]:
    """For each name, the numbers of the sentences that hold it, ascending."""
    starts = [span.start for span in chunk_sentences(text)]
    return {n: sorted({max(0, bisect_right(starts, at.start) - 1) for at in find_name(text, n)}) for n in names}


def nearby_pairs(places: dict[str, list[int]]) -> dict[Pair, tuple[int, int]]:
    """The pairs of names that share a sentence, each with the first one that does as (number, same number).

    A name that shares no sentence with another is paired with those of the adjacent ones: (number, next number).
    """
    nearest: dict[Pair, tuple[int, int, int]] = {}
    for a, b in combinations(places, 2):
        near = [(abs(i - j), min(i, j), max(i, j)) for i in places[a] for j in places[b] if abs(i - j) <= 1]
        if near and a not in b and b not in a:  # "Scrooge" inside "Ebenezer Scrooge" is no second entity
            nearest[a, b] = min(near)
    linked = {name for pair, (distance, *_) in nearest.items() if distance == 0 for name in pair}
    return {pair: (i, j) for pair, (distance, i, j) in nearest.items() if distance == 0 or not linked.issuperset(pair)}
