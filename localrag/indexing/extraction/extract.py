"""Extraction by the chat model: the entities, relationships and claims of a chunk (paper, section 3.1.2).

Every name is a verbatim span of the chunk, a relationship joins two names of one sentence or of two adjacent ones, nothing is listed twice,
and lists are bounded: the grammar enforces this, so the output needs no repair.

*Extractive* style, for small models: names are found beforehand and the model types and relates them sentence by sentence, where it is most
reliable. *Abstractive* style: one conversation over the whole chunk, whose KV cache is kept; the model chooses and describes the names.
Gleaning (were names missed?) and claims are further turns of the conversation.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import combinations

from localrag.engine.sampler import Grammar
from localrag.errors import ContextTooSmall, GrammarDeadEnd, LocalragError
from localrag.indexing.extraction.names import DocumentCasing, NamePair, cooccurring_pairs
from localrag.indexing.extraction.nlp import (
    PHRASES_HASH,
    ChunkText,
    can_tag,
    candidate_names,
    extract_noun_phrases,
    extract_with_tagger,
    recurring_noun_phrases,
)
from localrag.llm.budgets import TokenDensity
from localrag.llm.grammar import (
    CLAIM_TOKENS,
    DEFAULT_ENTITY_TYPE,
    ENTITY_TOKENS,
    FOR_PAIRS,
    LEAST_LIST,
    NO_OBJECT,
    PAIR_TOKENS,
    WRITTEN_PAIR_TOKENS,
    choice_of,
    claim_lines,
    described_lines,
    entity_lines,
    pair_lines,
    parse_lines,
    parse_pairs,
)
from localrag.llm.model import CALL_ERRORS, DROPPED_ROWS, ChatModel, ModelReply
from localrag.llm.prompts import load_prompt, override_hashes, with_domain
from localrag.llm.tagger import Tagger
from localrag.records import Chunk, ExtractedClaim, ExtractedEntity, ExtractedRelationship, Extraction, content_id
from localrag.settings import IndexSettings
from localrag.text.title_phrases import is_not_a_name


async def glean(
    passage: ChunkText,
    names: Sequence[str],
    model: ChatModel,
    settings: IndexSettings,
    style: str,
    lost: list[LocalragError],
    after: ModelReply | None = None,
) -> tuple[list[ExtractedEntity], ModelReply | None]:
    """Find entities beyond `names`, in up to `max_gleanings` rounds, as long as the model says that some were missed.

    The paper forces yes or no by a logit bias (section 3.1.2); here a grammar does. The returned reply lets the next turn continue the
    conversation. A failed call ends gleaning and is added to `lost`; entities found before it count.
    """
    described = style == "abstractive"
    entities: list[ExtractedEntity] = []
    types = ", ".join(settings.entity_types)
    script = await TokenDensity.measure(model.count, passage.text) if described else None
    for _ in range(settings.max_gleanings):
        known_names = [*names, *(e.name for e in entities)]
        overrides = settings.prompts
        messages = (
            _gleaning(passage, known_names, settings, style) if after is None else load_prompt("abstractive/gleaning", overrides).fill()
        )
        more = load_prompt(f"{style}/gleaned", overrides).fill(**({} if described else {"types": types}))
        grammar = partial(
            entity_lines, [], settings.entity_types, span_of=passage.text, described=described, known=known_names, script=script
        )
        try:
            missed = await model.ask("gleaning", messages, max_tokens=4, after=after, grammar=choice_of(["yes", "no"]))
            if described:
                after = missed
            if missed.text == "no":
                break
            reply = await model.ask_within(
                "gleaning",
                more,
                max_tokens=ENTITY_TOKENS,
                least=LEAST_LIST,
                share=1 - FOR_PAIRS if described else 1,
                after=missed,
                grammar=lambda tokens: grammar(tokens=tokens),  # noqa: B023 — called at once
            )
        except (GrammarDeadEnd, ContextTooSmall):  # no other name can follow, or the window is full
            break
        except CALL_ERRORS as error:
            lost.append(error)
            break
        rows = [ExtractedEntity(**row) for row in described_lines(reply.text, script)]
        entities += _named_in(rows, passage)
        if described:
            after = reply
        if not rows:
            break
    return entities, after


def _named_in(rows: Sequence[ExtractedEntity], passage: ChunkText) -> list[ExtractedEntity]:
    """The rows whose names occur in the passage and are names; the others are counted as dropped."""
    named = [e for e in rows if passage.spans(e.name) and (not is_not_a_name(e.name) or passage.case.is_written_as_name(e.name))]
    if (counter := DROPPED_ROWS.get()) is not None:
        counter["entities"] += len(rows) - len(named)
    return named


def _gleaning(passage: ChunkText, known_names: Sequence[str], settings: IndexSettings, style: str) -> list[dict[str, str]]:
    example = {kind: kind if kind in settings.entity_types else settings.entity_types[0] for kind in ("place", "organization")}
    return load_prompt(f"{style}/gleaning", settings.prompts).fill(
        text=passage.single_line, names=", ".join(known_names), types=", ".join(settings.entity_types), **example
    )


async def extract_claims(
    passage: ChunkText,
    names: Sequence[str],
    model: ChatModel,
    settings: IndexSettings,
    style: str,
    lost: list[LocalragError],
    after: ModelReply | None = None,
) -> list[ExtractedClaim]:
    """Extract the claims of the text about the named entities, each with its verbatim source. A failed call is added to `lost`."""
    if not names:
        return []
    flat, described = passage.single_line, style == "abstractive"
    prompt = load_prompt(f"{style}/claims", settings.prompts)
    messages = prompt.fill() if after is not None else prompt.fill(text=flat, names=", ".join(names))
    script = await TokenDensity.measure(model.count, flat) if described else None

    def grammar(tokens: int) -> Grammar:
        return claim_lines(names, flat, described=described, script=script, tokens=tokens)

    try:
        reply = await model.ask_within("claims", messages, max_tokens=CLAIM_TOKENS, least=LEAST_LIST, after=after, grammar=grammar)
    except GrammarDeadEnd:  # no source is possible after the tokens written so far
        return []
    except CALL_ERRORS as error:
        if isinstance(error, ContextTooSmall) and after is not None:
            return await extract_claims(passage, names, model, settings, "extractive", lost)  # the conversation is too long
        lost.append(error)
        return []
    claims = []
    for row in described_lines(reply.text, script):
        places = passage.spans(row["source"])
        if places and len(row["source"]) >= (4 if passage.cjk else 12):
            target = "" if row["object"] == NO_OBJECT else row["object"]
            about = row.get("description") or row["source"]
            kind, start, end = row["type"].strip().lower(), places[0].start, places[0].end
            claims.append(ExtractedClaim(row["subject"], target, kind, row["status"], row["from"], row["to"], about, start, end))
    return claims


MAX_PAIRS, MAX_WRITTEN_PAIRS = 30, 60  # of one list: small models do not stop by themselves


def extraction_hash(
    settings: IndexSettings, model_fingerprint: str, style: str, tagger: Tagger | None = None, *, asks_model: bool = True
) -> str:
    """The hash of everything that an extraction depends on besides its chunk; if it changes, the chunk is extracted again.

    Without `asks_model` the tagger extracts, and the chat model may be any.
    """
    if tagger and not asks_model:
        return content_id("extract 5", "tagger", PHRASES_HASH, *settings.entity_types, tagger.fingerprint)
    taught = [tagger.fingerprint] if tagger and style == "extractive" else []
    tasks = ["entities", "relationships"] + ["gleaning", "gleaned"] * bool(settings.max_gleanings) + ["claims"] * settings.claims
    prompts = [with_domain(load_prompt(f"{style}/{name}", settings.prompts), settings.domain, name).hash for name in tasks]
    # A passage that fails in one style is tried in the other.
    other = override_hashes(settings.prompts, *(f"extractive/{name}" for name in tasks)) if style == "abstractive" else []
    return content_id("extract 5", model_fingerprint, style, settings.max_gleanings, *prompts, *settings.entity_types, *taught, *other)


async def extract_chunk(
    chunk: Chunk,
    case: DocumentCasing,
    model: ChatModel,
    settings: IndexSettings,
    style: str,
    lost: list[LocalragError] | None = None,
    tagger: Tagger | None = None,
    *,
    path: str = "",
    asks_model: bool = True,
) -> Extraction:
    """Extract the entities, relationships and, if the settings ask for them, claims of a chunk. Raises what `ChatModel.ask` raises.

    With a `tagger`, names and relationships in its languages come from the tagger, and the model is asked for the rest; without
    `asks_model` the rest are names and noun phrases. A writing model is told the `path` of the document and the headings above the chunk.

    Once there are entities, a failed call is added to `lost` and only its own part is missing.
    """
    tags = tagger is not None and style == "extractive" and can_tag(chunk.text, settings)
    if tagger and not (tags or asks_model):
        return extract_noun_phrases(chunk, case)
    lost = [] if lost is None else lost
    passage = ChunkText(chunk.text, case, " › ".join(filter(None, (path, *chunk.headings))))
    entities, relationships, claims = await _extract_passage(passage, model, settings, style, lost, tagger)
    return Extraction(chunk.id, tuple(entities), tuple(relationships), tuple(claims), "tagger" if tags else "model")


ExtractedLists = tuple[list[ExtractedEntity], list[ExtractedRelationship], ModelReply | None]
Lists = tuple[list[ExtractedEntity], list[ExtractedRelationship], list[ExtractedClaim]]


async def _extract_passage(
    passage: ChunkText, model: ChatModel, settings: IndexSettings, style: str, lost: list[LocalragError], tagger: Tagger | None
) -> Lists:
    reply: ModelReply | None = None
    if tagger and style == "extractive" and can_tag(passage.text, settings):
        entities, relationships = await extract_with_tagger(passage, tagger, settings)
        entities += (await glean(passage, [e.name for e in entities], model, settings, style, lost))[0]
    else:
        entities, relationships, reply = await _extract_with_llm(passage, model, settings, style, lost)
    claims: list[ExtractedClaim] = []
    if settings.claims:
        claims = await extract_claims(passage, [e.name for e in entities], model, settings, style if reply else "extractive", lost, reply)
    return entities, relationships, claims


async def _extract_with_llm(
    passage: ChunkText, model: ChatModel, settings: IndexSettings, style: str, lost: list[LocalragError]
) -> ExtractedLists:
    """Extract from a passage with the chat model."""
    before = len(lost)
    if style == "abstractive":
        try:
            return await _extract_abstractive(passage, model, settings, lost)
        except (GrammarDeadEnd, ContextTooSmall):  # no other name can follow, or the window is too small for the whole passage
            del lost[before:]
    names = candidate_names(passage)
    return await _extract_extractive(passage, names, recurring_noun_phrases(passage, names), model, settings, lost)


async def _extract_extractive(
    passage: ChunkText, names: list[str], phrases: list[str], model: ChatModel, settings: IndexSettings, lost: list[LocalragError]
) -> ExtractedLists:
    """Type each name in the first sentence that has it; relate two names in the first sentences where both occur."""
    missed, _ = await glean(passage, names, model, settings, "extractive", lost)
    names = [*names, *(e.name for e in missed)]
    places = passage.sentence_numbers(passage.sort_by_position([*names, *phrases]))
    tasks = ("entities", "relationships")
    prompts = {task: with_domain(load_prompt(f"extractive/{task}", settings.prompts), settings.domain, task) for task in tasks}

    async def entities_of(sentence: int, found: list[str]) -> list[ExtractedEntity]:
        messages = prompts["entities"].fill(text=passage.sentence(sentence), types=", ".join([*settings.entity_types, DEFAULT_ENTITY_TYPE]))
        grammar = entity_lines(found, settings.entity_types, phrases=[p for p in definite if p in found])
        reply = await model.ask_within("entities", messages, max_tokens=ENTITY_TOKENS, least=len(found), grammar=lambda _: grammar)
        return [ExtractedEntity(**row) for row in parse_lines(reply.text)]

    async def relationships_of(window: tuple[int, int], pairs: list[NamePair]) -> list[ExtractedRelationship]:
        if len(pairs) == 1:  # asked about one pair, the bundled model declined 0 times of 267: the question is saved
            return [ExtractedRelationship(*pairs[0])]
        found = list(dict.fromkeys(n for pair in pairs for n in pair))
        messages = prompts["relationships"].fill(text=passage.sentence(*window), names=", ".join(found))
        grammar = pair_lines(pairs, most=min(MAX_PAIRS, len(found) - 1))
        reply = await model.ask_within("relationships", messages, max_tokens=PAIR_TOKENS, least=len(found), grammar=lambda _: grammar)
        return [ExtractedRelationship(*pair) for pair in parse_pairs(reply.text)]

    first: defaultdict[int, list[str]] = defaultdict(list)
    definite = [p for p in phrases if p.startswith("the ")]  # without "the", 4 in 5 of those typed as persons were wrong
    things = [ExtractedEntity(p, DEFAULT_ENTITY_TYPE) for p in phrases if p not in definite and places[p]]
    for name in places:
        if places[name] and (name not in phrases or name in definite):
            first[min(places[name])].append(name)
    windows: defaultdict[tuple[int, int], list[NamePair]] = defaultdict(list)
    met: list[ExtractedRelationship] = []
    for pair, (i, j) in cooccurring_pairs(places).items():
        if not set(pair).isdisjoint(phrases):  # a phrase is related to everything in its sentence
            met += [ExtractedRelationship(*pair)] * (i == j)
            continue
        windows[i, j].append(pair)
    typed, related = await asyncio.gather(
        asyncio.gather(*(entities_of(i, found) for i, found in first.items())),
        asyncio.gather(*(relationships_of(window, pairs) for window, pairs in windows.items())),
    )
    return [*(e for part in typed for e in part), *things], [*(r for part in related for r in part), *met], None


async def _extract_abstractive(passage: ChunkText, model: ChatModel, settings: IndexSettings, lost: list[LocalragError]) -> ExtractedLists:
    """One conversation: entities with descriptions, the model ending the list; then relationships with descriptions."""
    prompt = with_domain(load_prompt("abstractive/entities", settings.prompts), settings.domain, "")
    messages = prompt.fill(text=passage.text, types=", ".join(settings.entity_types), place=passage.place)
    script = await TokenDensity.measure(model.count, passage.text)

    def entities_in(tokens: int) -> Grammar:
        return entity_lines([], settings.entity_types, span_of=passage.text, described=True, script=script, tokens=tokens)

    listed = await model.ask_within(
        "entities", messages, max_tokens=ENTITY_TOKENS, least=LEAST_LIST, share=1 - FOR_PAIRS, grammar=entities_in
    )
    entities = _named_in([ExtractedEntity(**row) for row in described_lines(listed.text, script)], passage)
    missed, gleaned = await glean(passage, [e.name for e in entities], model, settings, "abstractive", lost, listed)
    entities = [*entities, *missed]
    pairs = list(combinations(dict.fromkeys(e.name for e in entities), 2))
    if not pairs:
        return entities, [], listed

    def pairs_in(tokens: int) -> Grammar:
        return pair_lines(pairs, described=True, most=min(MAX_WRITTEN_PAIRS, 2 * len(entities)), script=script, tokens=tokens)

    messages = load_prompt("abstractive/relationships", settings.prompts).fill()
    try:
        after = gleaned or listed
        reply = await model.ask_within(
            "relationships", messages, max_tokens=WRITTEN_PAIR_TOKENS, least=LEAST_LIST, grammar=pairs_in, after=after
        )
    except (GrammarDeadEnd, ContextTooSmall):
        raise
    except CALL_ERRORS as error:
        lost.append(error)
        return entities, [], listed
    return entities, [ExtractedRelationship(**row) for row in described_lines(reply.text, script)], reply
