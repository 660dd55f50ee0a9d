"""What one document gives to the graph: its names with their votes, and, once these belong to entities, mentions, relationships, counts."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from localrag.index.extraction.names.spans import find_name, find_names, nearby_pairs, sentence_numbers
from localrag.index.graph.spelling import defined_names, normalise
from localrag.index.graph.variants import Name, Target, document_targets
from localrag.records import Chunk, Claim, Extraction, content_id
from localrag.text.plain import Span, chunk_sentences, squeeze
from localrag.text.quotes import telling

Ends = tuple[str, str]  # the keys of two entities, the first in the alphabet first


@dataclass(slots=True)
class Votes:
    """What a document says of one name: how it is written, of which type it is, what is said of it."""

    texts: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)


def first(votes: Mapping[str, int]) -> str:
    """The most frequent value; of equals the first in the alphabet, so that the order of chunks does not matter."""
    return min((v for v in votes if votes[v]), key=lambda v: (-votes[v], v), default="")


def named(key: str, uses: Sequence[tuple[str, Votes]]) -> tuple[str, str, list[str]]:
    """An entity's name, its type and what is said of it, from the names it goes by (keys) with their votes: the fullest names it."""
    own = [v for name, v in uses if name == key or key.startswith(f"{name} (")] or [v for _, v in uses]
    texts, types = sum((v.texts for v in own), Counter[str]()), sum((v.types for _, v in uses), Counter[str]())
    return first(texts), first(types), sorted({d for _, v in uses for d in v.descriptions})


def votes_of(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk]) -> tuple[dict[str, Votes], dict[str, tuple[str, str]]]:
    """What a document says of every name, by key, and the names that it says mean the same."""
    votes: defaultdict[str, Votes] = defaultdict(Votes)
    defined: dict[str, tuple[str, str]] = {}
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        found = find_names(chunk.text, [e.name for e in extraction.entities])
        for e in extraction.entities:
            one = votes[normalise(e.name)]
            if found[e.name]:
                one.types[e.type] += 1
            if e.description:
                one.descriptions[e.description] = None
            for span in found[e.name]:
                written = chunk.text[span.start : span.end]
                if squeeze(written) == written:
                    one.texts[written] += 1
        defined |= defined_names(chunk.text, found)
    # a name that only ever stands broken over two lines cannot be shown verbatim
    return {key: v for key, v in votes.items() if v.types and v.texts}, defined


def targets_of(document_id: str, votes: Mapping[str, Votes], defined: Mapping[str, tuple[str, str]]) -> dict[str, Target]:
    """The fuller names that names of a document stand for in it."""
    names = {key: Name(document_id, key, first(v.texts), first(v.types), v.texts.total()) for key, v in votes.items()}
    return document_targets(names, defined)


@dataclass(slots=True)
class Pair:
    """What a document says of two entities: sentences they share, chunks that relate them, how often and how strongly it does.

    `read` is how many of the chunks that it can be shown in a model has read.
    """

    shared: int = 0
    chunks: int = 0
    statements: int = 0
    strength: int = 0
    read: int = 0
    descriptions: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Contribution:
    """What a document gives to the graph. `stated` is where relationships can be shown: chunk, ends, start, end."""

    mentions: list[tuple[str, str, int, int, str, float]] = field(default_factory=list)  # entity, chunk, start, end, name, telling
    claims: list[Claim] = field(default_factory=list)
    stated: list[tuple[str, Ends, int, int]] = field(default_factory=list)
    sentences: Counter[str] = field(default_factory=Counter)  # of each entity
    total: int = 0  # sentences that mention any
    pairs: defaultdict[Ends, Pair] = field(default_factory=lambda: defaultdict(Pair))


def entity_id(key: str) -> str:
    """The id of an entity."""
    return content_id("entity", key)


def relationship_id(ends: Ends) -> str:
    """The id of the relationship of two entities."""
    return content_id("relationship", *ends)


def contribution(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], entity_of: Mapping[str, str]) -> Contribution:
    """What a document gives, whose names (by key) belong to these entities (by key)."""
    made = Contribution()
    mentioned: defaultdict[int, set[str]] = defaultdict(set)  # start of a sentence → the entities in it: overlapping chunks have it twice
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        spans = chunk_sentences(chunk.text)
        starts = [s.start for s in spans]
        places = _mentioned(extraction, chunk, entity_of)
        in_sentence: defaultdict[int, set[str]] = defaultdict(set)
        number = {at: max(0, bisect_right(starts, at) - 1) for _, at in places}
        for key, at in places:
            in_sentence[number[at]].add(key)
        worth = {n: telling(squeeze(chunk.text[slice(*spans[n])]) if spans else "", len(keys)) for n, keys in in_sentence.items()}
        for (key, at), (end, name) in places.items():
            made.mentions.append((entity_id(key), chunk.id, chunk.start + at, chunk.start + end, name, worth[number[at]]))
        for n, keys in in_sentence.items():
            mentioned[chunk.start + (starts[n] if starts else 0)] |= keys
        _relate(made, extraction, chunk, spans, entity_of)
        made.claims += _claims(extraction, chunk, entity_of)
    made.total = len(mentioned)
    for keys in mentioned.values():
        made.sentences.update(keys)
        for ends in combinations(sorted(keys), 2):
            made.pairs[ends].shared += 1
    return made


def _mentioned(extraction: Extraction, chunk: Chunk, entity_of: Mapping[str, str]) -> dict[tuple[str, int], tuple[int, str]]:
    """(key of an entity, where it is mentioned in the chunk) → where that ends, and the name that stands there."""
    found = find_names(chunk.text, [e.name for e in extraction.entities])
    return {
        (key, span.start): (span.end, squeeze(chunk.text[span.start : span.end]))
        for e in extraction.entities
        if (key := entity_of.get(normalise(e.name))) is not None
        for span in found[e.name]
    }


def _relate(made: Contribution, extraction: Extraction, chunk: Chunk, spans: Sequence[Span], entity_of: Mapping[str, str]) -> None:
    """Add what one chunk says of pairs of entities."""
    names = dict.fromkeys(name for r in extraction.relationships for name in (r.source, r.target))
    places = sentence_numbers({name: find_name(chunk.text, name) for name in names}, spans)
    stated: dict[tuple[Ends, int, int], None] = {}
    related: dict[Ends, None] = {}
    for r in extraction.relationships:
        keys = sorted({entity_of.get(normalise(name), "") for name in (r.source, r.target)})
        if len(keys) != 2 or not all(keys):
            continue
        ends = (keys[0], keys[1])
        related[ends] = None
        pair = made.pairs[ends]
        pair.statements += 1
        pair.strength += r.strength
        if r.description:
            pair.descriptions[r.description] = None
        for a, b in nearby_pairs({name: places[name] for name in (r.source, r.target)}).values():
            stated[ends, chunk.start + spans[a].start, chunk.start + spans[b].end] = None
    for ends in related:
        made.pairs[ends].chunks += 1
    for ends in dict.fromkeys(ends for ends, _, _ in stated):
        made.pairs[ends].read += extraction.by != "phrases"
    made.stated += [(chunk.id, *place) for place in stated]


def _claims(extraction: Extraction, chunk: Chunk, entity_of: Mapping[str, str]) -> Iterator[Claim]:
    for c in extraction.claims:
        ends = [entity_of.get(normalise(name)) for name in (c.subject, c.object)]
        if ends[0] is None:
            continue
        subject, target = entity_id(ends[0]), entity_id(ends[1]) if ends[1] else None
        start, end = chunk.start + c.start, chunk.start + c.end
        key = content_id("claim", chunk.id, start, end, subject, target, c.type)
        yield Claim(key, chunk.id, subject, target, c.type, c.status, c.since, c.until, c.description, start, end)
