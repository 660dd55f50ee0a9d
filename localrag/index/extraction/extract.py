"""Chunk → Extraction: the entities of a chunk, then the relationships between them (paper, section 3.1.2).

Every name is a verbatim stretch of the chunk, a relationship joins two names of one sentence or of two adjacent ones, nothing is
listed twice, and lists are bounded: the grammar sees to it, so there is nothing to repair.

*Extractive*, for small models: the names are found beforehand and the model types and relates them sentence by sentence, where it is
most reliable. *Abstractive*: one conversation over the whole chunk whose KV is kept; the model names what it likes and describes it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from localrag.config import Settings
from localrag.engine.sampler import Grammar
from localrag.errors import ContextTooSmall, DeadEnd, LocalragError
from localrag.index.extraction.claims import claims_of
from localrag.index.extraction.gleaning import glean
from localrag.index.extraction.names.candidates import candidates, concepts
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.names.noise import is_noise
from localrag.index.extraction.names.spans import Pair, nearby_pairs
from localrag.index.extraction.passage import Passage
from localrag.index.extraction.tagged import can_tag, extract_tagged
from localrag.llm.budgets import Script
from localrag.llm.domain import with_domain
from localrag.llm.grammar import (
    ENTITY_TOKENS,
    FOR_PAIRS,
    LEAST_LIST,
    PAIR_TOKENS,
    THING,
    described_lines,
    entity_lines,
    pair_lines,
    parse_lines,
    parse_pairs,
)
from localrag.llm.model import CALL_FAILED, Model, Reply
from localrag.llm.prompts import load_prompt, own_hashes
from localrag.llm.tagging import Tagger
from localrag.records import Chunk, ExtractedClaim, ExtractedEntity, ExtractedRelationship, Extraction, content_id

MOST_PAIRS = 30  # of one list: small models go on for ever


def recipe(settings: Settings, model_fingerprint: str, style: str, tagger: Tagger | None = None) -> str:
    """What an extraction depends on besides its chunk: a change of any redoes it."""
    taught = [tagger.fingerprint] if tagger and style == "extractive" else []
    tasks = ["entities", "relationships"] + ["gleaning", "gleaned"] * bool(settings.max_gleanings) + ["claims"] * settings.claims
    prompts = [with_domain(load_prompt(f"{style}/{name}", settings.prompts), settings.domain, name).hash for name in tasks]
    # What a text fails in the one style of is asked in the other.
    other = own_hashes(settings.prompts, *(f"extractive/{name}" for name in tasks)) if style == "abstractive" else []
    return content_id("extract 5", model_fingerprint, style, settings.max_gleanings, *prompts, *settings.entity_types, *taught, *other)


async def extract(
    chunk: Chunk,
    case: Case,
    model: Model,
    settings: Settings,
    style: str,
    lost: list[LocalragError] | None = None,
    tagger: Tagger | None = None,
) -> Extraction:
    """The entities, relationships and, where the settings ask for them, claims of one chunk. Raises what `Model.ask` raises.

    Where there is a `tagger`, it finds names and relationships in the languages it knows, and the model is asked for the rest.

    Once there are entities, a call that fails does not cost them: it is added to `lost`, and what it would have given is missing.
    """
    lost = [] if lost is None else lost
    entities, relationships, claims = await _read(Passage(chunk.text, case), model, settings, style, lost, tagger)
    return Extraction(chunk.id, tuple(entities), tuple(relationships), tuple(claims))


Found = tuple[list[ExtractedEntity], list[ExtractedRelationship], Reply | None]
Lists = tuple[list[ExtractedEntity], list[ExtractedRelationship], list[ExtractedClaim]]


async def _read(passage: Passage, model: Model, settings: Settings, style: str, lost: list[LocalragError], tagger: Tagger | None) -> Lists:
    """Extract from a passage, or from its halves if the model's window is too small for it.

    A half that is too long as well is added to `lost`. Raises ContextTooSmall if there are none, or if the other one has no entities.
    """
    before = len(lost)
    try:
        return await _read_whole(passage, model, settings, style, lost, tagger)
    except ContextTooSmall:
        del lost[before:]
        found: dict[int, Lists] = {}  # offset of a half → what it gave
        halves = passage.halves()
        for start, half in zip((0, passage.middle), halves, strict=False):
            try:
                found[start] = await _read(half, model, settings, style, lost, tagger)
            except ContextTooSmall as error:
                lost.append(error)
        complete = halves and len(found) == len(halves)
        if not complete and not any(entities for entities, *_ in found.values()):
            raise
        return _merge(found)


def _merge(found: Mapping[int, Lists]) -> Lists:
    """Join what was extracted from parts of a passage, by their offsets in it, without duplicates."""
    entities: dict[str, ExtractedEntity] = {}
    relationships: dict[frozenset[str], ExtractedRelationship] = {}
    claims: list[ExtractedClaim] = []
    for start, (named, related, claimed) in found.items():
        for entity in named:
            entities.setdefault(entity.name, entity)
        for pair in related:
            relationships.setdefault(frozenset((pair.source, pair.target)), pair)
        claims += [replace(c, start=c.start + start, end=c.end + start) for c in claimed]
    return list(entities.values()), list(relationships.values()), claims


async def _read_whole(
    passage: Passage, model: Model, settings: Settings, style: str, lost: list[LocalragError], tagger: Tagger | None
) -> Lists:
    reply: Reply | None = None
    if tagger and style == "extractive" and can_tag(passage.text, settings):
        entities, relationships = await extract_tagged(passage, tagger, settings)
        entities += (await glean(passage, [e.name for e in entities], model, settings, style, lost))[0]
    else:
        entities, relationships, reply = await _asked(passage, model, settings, style, lost)
    claims: list[ExtractedClaim] = []
    if settings.claims:
        claims = await claims_of(passage, [e.name for e in entities], model, settings, style if reply else "extractive", lost, reply)
    return entities, relationships, claims


async def _asked(passage: Passage, model: Model, settings: Settings, style: str, lost: list[LocalragError]) -> Found:
    """What the chat model finds in a passage."""
    names = candidates(passage)
    phrases, before = concepts(passage, names), len(lost)
    if style == "abstractive":
        try:
            return await _extract_described(passage, names, phrases, model, settings, lost)
        except (DeadEnd, ContextTooSmall) as error:  # it began a name that nothing new can end, or the window is full
            if isinstance(error, ContextTooSmall) and passage.halves():
                raise
            del lost[before:]
    return await _extract_sentences(passage, names, phrases, model, settings, lost)


async def _extract_sentences(
    passage: Passage, names: list[str], phrases: list[str], model: Model, settings: Settings, lost: list[LocalragError]
) -> Found:
    """Type each name in the first sentence that has it; relate names where they first come near each other."""
    missed, _ = await glean(passage, names, model, settings, "extractive", lost)
    names = [*names, *(e.name for e in missed)]
    places = passage.numbers(passage.in_order([*names, *phrases]))
    tasks = ("entities", "relationships")
    prompts = {task: with_domain(load_prompt(f"extractive/{task}", settings.prompts), settings.domain, task) for task in tasks}

    async def entities_of(sentence: int, found: list[str]) -> list[ExtractedEntity]:
        messages = prompts["entities"].fill(text=passage.sentence(sentence), types=", ".join([*settings.entity_types, THING]))
        grammar = entity_lines(found, settings.entity_types, phrases=[p for p in definite if p in found])
        reply = await model.ask_within("entities", messages, max_tokens=ENTITY_TOKENS, least=len(found), grammar=lambda _: grammar)
        return [ExtractedEntity(**row) for row in parse_lines(reply.text)]

    async def relationships_of(window: tuple[int, int], pairs: list[Pair]) -> list[ExtractedRelationship]:
        if len(pairs) == 1:  # asked about one pair, the bundled model declined 0 times of 267: the question is saved
            return [ExtractedRelationship(*pairs[0])]
        found = list(dict.fromkeys(n for pair in pairs for n in pair))
        messages = prompts["relationships"].fill(text=passage.sentence(*window), names=", ".join(found))
        grammar = pair_lines(pairs, most=min(MOST_PAIRS, len(found) - 1))
        reply = await model.ask_within("relationships", messages, max_tokens=PAIR_TOKENS, least=len(found), grammar=lambda _: grammar)
        return [ExtractedRelationship(*pair) for pair in parse_pairs(reply.text)]

    first: defaultdict[int, list[str]] = defaultdict(list)
    definite = [p for p in phrases if p.startswith("the ")]  # others name nobody: of those typed as somebody, 4 in 5 were wrong
    things = [ExtractedEntity(p, THING) for p in phrases if p not in definite and places[p]]
    for name in places:
        if places[name] and (name not in phrases or name in definite):
            first[min(places[name])].append(name)
    windows: defaultdict[tuple[int, int], list[Pair]] = defaultdict(list)
    met: list[ExtractedRelationship] = []
    for pair, (i, j) in nearby_pairs(places).items():
        if not set(pair).isdisjoint(phrases):  # a phrase is related to what it shares a sentence with
            met += [ExtractedRelationship(*pair)] * (i == j)
            continue
        windows[i, j].append(pair)
    typed, related = await asyncio.gather(
        asyncio.gather(*(entities_of(i, found) for i, found in first.items())),
        asyncio.gather(*(relationships_of(window, pairs) for window, pairs in windows.items())),
    )
    return [*(e for part in typed for e in part), *things], [*(r for part in related for r in part), *met], None


async def _extract_described(
    passage: Passage, names: list[str], phrases: list[str], model: Model, settings: Settings, lost: list[LocalragError]
) -> Found:
    """One conversation: entities with descriptions, the list ending where the model ends it; then described relationships."""
    prompt = with_domain(load_prompt("abstractive/entities", settings.prompts), settings.domain, "")
    messages = prompt.fill(text=passage.text, types=", ".join(settings.entity_types), names=", ".join([*names, *phrases]))
    script = await Script.of(model.count, passage.text)

    def entities_in(tokens: int) -> Grammar:
        return entity_lines([*names, *phrases], settings.entity_types, span_of=passage.text, described=True, script=script, tokens=tokens)

    listed = await model.ask_within(
        "entities", messages, max_tokens=ENTITY_TOKENS, least=LEAST_LIST, share=1 - FOR_PAIRS, grammar=entities_in
    )
    rows = [ExtractedEntity(**row) for row in described_lines(listed.text, script)]
    entities = [e for e in rows if not is_noise(e.name) and passage.spans(e.name)]
    missed, gleaned = await glean(passage, [e.name for e in entities], model, settings, "abstractive", lost, listed)
    entities = [*entities, *missed]
    pairs = list(nearby_pairs(passage.numbers([e.name for e in entities])))
    if not pairs:
        return entities, [], listed

    def pairs_in(tokens: int) -> Grammar:
        return pair_lines(pairs, described=True, most=min(MOST_PAIRS, 2 * len(entities)), script=script, tokens=tokens)

    messages = load_prompt("abstractive/relationships", settings.prompts).fill()
    ask = partial(model.ask_within, "relationships", messages, max_tokens=PAIR_TOKENS, least=LEAST_LIST, grammar=pairs_in)
    try:
        try:
            reply = await ask(after=gleaned or listed)
        except ContextTooSmall:  # gleaning filled the window: the text and the first list are enough to go on from
            reply = await ask(after=listed)
    except (DeadEnd, ContextTooSmall):
        raise
    except CALL_FAILED as error:
        lost.append(error)
        return entities, [], listed
    return entities, [ExtractedRelationship(**row) for row in described_lines(reply.text, script)], reply
