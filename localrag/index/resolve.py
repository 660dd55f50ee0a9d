"""Extractions → Graph: names that are the same when normalised become one entity, relationships are summed up."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from localrag.index.extract import find_name, name_sentences, nearby_pairs
from localrag.records import Chunk, Entity, Evidence, Extraction, Graph, Mention, Relationship, content_id
from localrag.text import chunk_sentences

_POSSESSIVE = re.compile(r"['’]s?$")
_TITLE = re.compile(r"^(?:mr|dr|the)\.?\s+")  # not Mrs: Mrs. Cratchit is not Cratchit


def normalise(name: str) -> str:
    """What must be equal for two names to be one entity: case, possessive, whitespace and a leading Mr, Dr or The are dropped."""
    folded = " ".join(_POSSESSIVE.sub("", name.strip()).casefold().split())
    return _TITLE.sub("", folded) or folded


def resolve(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk]) -> Graph:
    """One entity per normalised name, its type by vote; relationships undirected, their weight the number of chunks that state them."""
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    described: defaultdict[str, dict[str, None]] = defaultdict(dict)
    mentions: dict[tuple[str, str, int, int], Mention] = {}
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        for e in extraction.entities:
            key = normalise(e.name)
            types[key][e.type] += 1
            if e.description:
                described[key][e.description] = None
            for span in find_name(chunk.text, e.name):
                if chunk.text[span.start : span.end] == e.name:
                    names[key][e.name] += 1
                start, end = chunk.start + span.start, chunk.start + span.end
                mentions[key, chunk.id, start, end] = Mention(_entity_id(key), chunk.id, e.name, start, end)
    known = {key for key in types if names[key]}  # a name that only ever stands broken over two lines cannot be shown verbatim
    relationships, evidence = _relationships(extractions, chunks, known)
    degree = Counter(end for r in relationships for end in (r.source_id, r.target_id))
    entities = [
        Entity(_entity_id(key), _first(names[key]), _first(types[key]), tuple(described[key]), degree=degree[_entity_id(key)])
        for key in sorted(known)
    ]
    kept = tuple(m for (key, *_), m in sorted(mentions.items()) if key in known)
    return Graph(tuple(entities), relationships, kept, evidence)


def _entity_id(key: str) -> str:
    return content_id("entity", key)


def _first(votes: Counter[str]) -> str:
    """The most frequent value; of equals the first in the alphabet, so that the order of chunks does not matter."""
    return min(votes, key=lambda v: (-votes[v], v))


def _relationships(
    extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], known: set[str]
) -> tuple[tuple[Relationship, ...], tuple[Evidence, ...]]:
    stated: defaultdict[tuple[str, str], list[tuple[str, int, str]]] = defaultdict(list)
    evidence: dict[Evidence, None] = {}
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        spans = chunk_sentences(chunk.text)
        for r in extraction.relationships:
            ends = sorted({normalise(r.source), normalise(r.target)})
            if len(ends) < 2 or not known.issuperset(ends):
                continue
            stated[ends[0], ends[1]].append((chunk.id, r.strength, r.description))
            pair = nearby_pairs(name_sentences(chunk.text, [r.source, r.target]))
            for first, last in pair.values():
                start, end = chunk.start + spans[first].start, chunk.start + spans[last].end
                evidence[Evidence(_relationship_id(*ends), chunk.id, start, end)] = None
    relationships = []
    for (source, target), statements in sorted(stated.items()):
        descriptions = tuple(dict.fromkeys(d for _, _, d in statements if d))
        weight = float(len({chunk_id for chunk_id, _, _ in statements}))
        strength = sum(s for _, s, _ in statements) / len(statements)
        relationships.append(
            Relationship(_relationship_id(source, target), _entity_id(source), _entity_id(target), descriptions, "", weight, strength)
        )
    return tuple(relationships), tuple(sorted(evidence, key=lambda e: (e.relationship_id, e.chunk_id, e.start)))


def _relationship_id(source: str, target: str) -> str:
    return content_id("relationship", source, target)
