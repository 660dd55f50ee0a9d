"""Extractions → Graph, all at once and in memory: names that are variants of one another become one entity (paper, section 3.1.3).

For texts that are no index. An index is brought up to date by difference, from the same parts of documents (`merging.update`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from localrag.index.graph.document import Contribution, Ends, Pair, Votes, contribution, entity_id, first, named, relationship_id, votes_of
from localrag.index.graph.variants import Decisions, Name, Node, Resolution, resolve_names, split_homonyms
from localrag.records import Chunk, Entity, Evidence, Extraction, Graph, Mention, Relationship


def resolve(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], decisions: Decisions | None = None) -> Graph:
    """One entity for all variants of a name, its type by vote; relationships undirected, weighing the chunks that state them."""
    decisions = decisions or Decisions()
    documents: defaultdict[str, list[Extraction]] = defaultdict(list)
    for extraction in extractions:
        documents[chunks[extraction.chunk_id].document_id].append(extraction)
    votes: dict[Node, Votes] = {}
    defined: dict[Node, tuple[str, str]] = {}
    for document, found in documents.items():
        said, same = votes_of(found, chunks)
        votes |= {(document, key): v for key, v in said.items()}
        defined |= {(document, key): other for key, other in same.items()}
    names = [Name(document, key, first(v.texts), first(v.types), v.texts.total()) for (document, key), v in votes.items()]
    resolution = resolve_names(names, defined, decisions)
    split_homonyms(names, resolution, _neighbours(_parts(documents, chunks, resolution)), decisions)
    parts = _parts(documents, chunks, resolution).values()
    relationships = _relationships(parts)
    of_entity: defaultdict[str, list[tuple[str, Votes]]] = defaultdict(list)
    for node, key in resolution.entity_of.items():
        of_entity[key].append((node[1], votes[node]))
    degree = Counter(end for r in relationships for end in (r.source_id, r.target_id))
    evidence = {Evidence(relationship_id(ends), chunk, start, end) for made in parts for chunk, ends, start, end in made.stated}
    return Graph(
        tuple(_entity(key, uses, degree) for key, uses in sorted(of_entity.items())),
        relationships,
        tuple(Mention(e, c, name, start, end) for e, c, start, end, name, _ in sorted(m for made in parts for m in made.mentions)),
        tuple(sorted(evidence, key=lambda e: (e.relationship_id, e.chunk_id, e.start))),
        tuple(claim for made in parts for claim in made.claims),
        tuple(resolution.merges),
        tuple(resolution.open),
    )


def _parts(documents: Mapping[str, Sequence[Extraction]], chunks: Mapping[str, Chunk], resolution: Resolution) -> dict[str, Contribution]:
    """What each document gives."""
    entity_of: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (document, key), entity in resolution.entity_of.items():
        entity_of[document][key] = entity
    return {document: contribution(found, chunks, entity_of[document]) for document, found in documents.items()}


def _neighbours(parts: Mapping[str, Contribution]) -> dict[Node, set[str]]:
    near: defaultdict[Node, set[str]] = defaultdict(set)
    for document, made in parts.items():
        for (a, b), pair in made.pairs.items():
            if pair.statements:
                near[document, a].add(b)
                near[document, b].add(a)
    return near


def _entity(key: str, uses: Sequence[tuple[str, Votes]], degree: Counter[str]) -> Entity:
    name, kind, descriptions = named(key, uses)
    return Entity(entity_id(key), name, kind, tuple(descriptions), degree=degree[entity_id(key)])


def _relationships(parts: Collection[Contribution]) -> tuple[Relationship, ...]:
    stated: defaultdict[Ends, list[Pair]] = defaultdict(list)
    for made in parts:
        for ends, pair in made.pairs.items():
            if pair.statements:
                stated[ends].append(pair)
    found = []
    for ends, some in sorted(stated.items()):
        descriptions = tuple(sorted({d for pair in some for d in pair.descriptions}))
        strength = sum(p.strength for p in some) / sum(p.statements for p in some)
        source, target = map(entity_id, ends)
        found.append(Relationship(relationship_id(ends), source, target, descriptions, "", float(sum(p.chunks for p in some)), strength))
    return tuple(found)
