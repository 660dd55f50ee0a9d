"""Extractions → Graph: names that are variants of one another become one entity, relationships are summed up (paper, section 3.1.3)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localrag.index.extraction.names.spans import find_name, find_names, nearby_pairs, sentence_numbers
from localrag.index.graph.spelling import defined_names, normalise
from localrag.index.graph.variants import Decisions, Name, Node, Resolution, resolve_names, split_homonyms
from localrag.records import Chunk, Claim, Entity, Evidence, Extraction, Graph, Mention, Relationship, content_id
from localrag.text.plain import Span, chunk_sentences, squeeze


@dataclass(slots=True)
class _Votes:
    """What the chunks of one document say of one name."""

    texts: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)
    places: list[tuple[Chunk, str, Span]] = field(default_factory=list)


def resolve(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], decisions: Decisions | None = None) -> Graph:
    """One entity for all variants of a name, its type by vote; relationships undirected, weighing the chunks that state them."""
    votes, defined = _gather(extractions, chunks)
    names = [
        Name(document, key, _first(v.texts), _first(v.types), sum(v.texts.values())) for (document, key), v in votes.items() if v.texts
    ]  # a name that only ever stands broken over two lines cannot be shown verbatim
    resolution = resolve_names(names, defined, decisions or Decisions())
    split_homonyms(names, resolution, _neighbours(extractions, chunks, resolution), decisions or Decisions())
    relationships, evidence = _relationships(extractions, chunks, resolution)
    degree = Counter(end for r in relationships for end in (r.source_id, r.target_id))
    of_entity: defaultdict[str, list[Node]] = defaultdict(list)
    for node, key in resolution.entity_of.items():
        of_entity[key].append(node)
    entities = tuple(_entity(key, [(node, votes[node]) for node in sorted(of_entity[key])], degree) for key in sorted(of_entity))
    ids = {key: _entity_id(key) for key in of_entity}
    mentions = {
        (ids[key], chunk.id, chunk.start + span.start): Mention(ids[key], chunk.id, text, chunk.start + span.start, chunk.start + span.end)
        for node, key in resolution.entity_of.items()
        for chunk, text, span in votes[node].places
    }
    claims = tuple(_claims(extractions, chunks, resolution))
    kept = tuple(mentions[k] for k in sorted(mentions))
    return Graph(entities, relationships, kept, evidence, claims, tuple(resolution.merges), tuple(resolution.open))


def _gather(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk]) -> tuple[dict[Node, _Votes], dict[Node, tuple[str, str]]]:
    """What is said of every name of every document, and the names that are said there to mean the same."""
    votes: defaultdict[Node, _Votes] = defaultdict(_Votes)
    defined: dict[Node, tuple[str, str]] = {}
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        found = find_names(chunk.text, [e.name for e in extraction.entities])
        for e in extraction.entities:
            one = votes[chunk.document_id, normalise(e.name)]
            if found[e.name]:
                one.types[e.type] += 1
            if e.description:
                one.descriptions[e.description] = None
            for span in found[e.name]:
                written = chunk.text[span.start : span.end]
                if squeeze(written) == written:
                    one.texts[written] += 1
                one.places.append((chunk, squeeze(written), span))
        for key, other in defined_names(chunk.text, found).items():
            defined[chunk.document_id, key] = other
    return {node: v for node, v in votes.items() if v.types}, defined


def _entity(key: str, nodes: Sequence[tuple[Node, _Votes]], degree: Counter[str]) -> Entity:
    """The entity of all these names, called by the fullest of them."""
    own = [v for (_, name), v in nodes if name == key or key.startswith(f"{name} (")] or [v for _, v in nodes]
    texts, types = sum((v.texts for v in own), Counter[str]()), sum((v.types for _, v in nodes), Counter[str]())
    descriptions = sorted({d for _, v in nodes for d in v.descriptions})
    return Entity(_entity_id(key), _first(texts), _first(types), tuple(descriptions), degree=degree[_entity_id(key)])


def _entity_id(key: str) -> str:
    return content_id("entity", key)


def _first(votes: Counter[str]) -> str:
    """The most frequent value; of equals the first in the alphabet, so that the order of chunks does not matter."""
    return min((v for v in votes if votes[v]), key=lambda v: (-votes[v], v), default="")


def _related(
    extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], resolution: Resolution
) -> Iterator[tuple[Extraction, Chunk, int, str, str]]:
    """(extraction, chunk, number of the relationship in it, entity key, entity key) of every relationship of two known entities."""
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        for n, r in enumerate(extraction.relationships):
            ends = sorted({resolution.entity_of.get((chunk.document_id, normalise(name)), "") for name in (r.source, r.target)})
            if len(ends) == 2 and all(ends):
                yield extraction, chunk, n, ends[0], ends[1]


def _neighbours(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], resolution: Resolution) -> dict[Node, set[str]]:
    near: defaultdict[Node, set[str]] = defaultdict(set)
    for _, chunk, _, a, b in _related(extractions, chunks, resolution):
        near[chunk.document_id, a].add(b)
        near[chunk.document_id, b].add(a)
    return near


def _relationships(
    extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], resolution: Resolution
) -> tuple[tuple[Relationship, ...], tuple[Evidence, ...]]:
    stated: defaultdict[tuple[str, str], list[tuple[str, int, str]]] = defaultdict(list)
    evidence: dict[Evidence, None] = {}
    known: str | None = None
    for extraction, chunk, n, a, b in _related(extractions, chunks, resolution):
        if chunk.id != known:  # the names of a chunk stand in several of its relationships
            known, spans = chunk.id, chunk_sentences(chunk.text)
            names = dict.fromkeys(name for r in extraction.relationships for name in (r.source, r.target))
            places = sentence_numbers({name: find_name(chunk.text, name) for name in names}, spans)
        r, key = extraction.relationships[n], _relationship_id(a, b)
        stated[a, b].append((chunk.id, r.strength, r.description))
        for first, last in nearby_pairs({name: places[name] for name in (r.source, r.target)}).values():
            evidence[Evidence(key, chunk.id, chunk.start + spans[first].start, chunk.start + spans[last].end)] = None
    relationships = []
    for (source, target), statements in sorted(stated.items()):
        descriptions = tuple(sorted({d for _, _, d in statements if d}))
        weight = float(len({chunk_id for chunk_id, _, _ in statements}))
        strength = sum(s for _, s, _ in statements) / len(statements)
        relationships.append(
            Relationship(_relationship_id(source, target), _entity_id(source), _entity_id(target), descriptions, "", weight, strength)
        )
    return tuple(relationships), tuple(sorted(evidence, key=lambda e: (e.relationship_id, e.chunk_id, e.start)))


def _relationship_id(source: str, target: str) -> str:
    return content_id("relationship", source, target)


def _claims(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], resolution: Resolution) -> Iterator[Claim]:
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        for c in extraction.claims:
            ends = [resolution.entity_of.get((chunk.document_id, normalise(name))) for name in (c.subject, c.object)]
            if ends[0] is None:
                continue
            subject, target = _entity_id(ends[0]), _entity_id(ends[1]) if ends[1] else None
            start, end = chunk.start + c.start, chunk.start + c.end
            key = content_id("claim", chunk.id, start, end, subject, target, c.type)
            yield Claim(key, chunk.id, subject, target, c.type, c.status, c.since, c.until, c.description, start, end)
