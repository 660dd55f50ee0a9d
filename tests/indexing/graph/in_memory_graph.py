"""The graph of extractions, built in memory at once: for texts that are not in an index, as in `eval extraction`.

An index updates its graph incrementally (`indexing/graph/merge.py`) by the same rules; tests compare the two.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rapidfuzz import fuzz, process

from localrag.indexing.graph.contributions import (
    DocumentContribution,
    EntityKeyPair,
    NameVotes,
    PairCounts,
    count_name_votes,
    document_contribution,
    elect_name,
    entity_id,
    majority,
    relationship_id,
)
from localrag.indexing.graph.entity_resolution import (
    MAX_BLOCK_SIZE,
    MAX_SIMILAR_PAIRS,
    MIN_SIMILARITY,
    DocumentName,
    MergeDecisions,
    NameForm,
    NameTarget,
    find_targets,
    majority_type,
    numbers_in_key,
    resolve_chain,
    targets_by_decision,
)
from localrag.records import Chunk, Entity, Evidence, Extraction, Graph, Mention, NameMerge, Relationship


@dataclass(slots=True)
class NameResolution:
    """The entity (key) of each name of each document, the merges with reasons, and the undecided pairs."""

    entity_of: dict[DocumentName, str] = field(default_factory=dict)
    merges: list[NameMerge] = field(default_factory=list)
    undecided_pairs: list[NameMerge] = field(default_factory=list)


def build_graph_in_memory(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], decisions: MergeDecisions | None = None) -> Graph:
    """Build the graph: one entity for all variants of a name, its type by vote; relationships undirected, weighted by the chunks that state
    them.
    """
    decisions = decisions or MergeDecisions()
    documents: defaultdict[str, list[Extraction]] = defaultdict(list)
    for extraction in extractions:
        documents[chunks[extraction.chunk_id].document_id].append(extraction)
    votes: dict[DocumentName, NameVotes] = {}
    defined: dict[DocumentName, tuple[str, str]] = {}
    for document, extractions_of in documents.items():
        votes_of, same = count_name_votes(extractions_of, chunks)
        votes |= {(document, key): v for key, v in votes_of.items()}
        defined |= {(document, key): other for key, other in same.items()}
    names = [NameForm(document, key, majority(v.texts), majority(v.types), v.texts.total()) for (document, key), v in votes.items()]
    resolution = resolve_all_names(names, defined, decisions)
    split_homonyms(names, resolution, _neighbours(_contributions(documents, chunks, resolution)), decisions)
    parts = _contributions(documents, chunks, resolution).values()
    relationships = _relationships(parts)
    of_entity: defaultdict[str, list[tuple[str, NameVotes]]] = defaultdict(list)
    for node, key in resolution.entity_of.items():
        of_entity[key].append((node[1], votes[node]))
    degree = Counter(end for r in relationships for end in (r.source_id, r.target_id))
    evidence = {Evidence(relationship_id(ends), chunk, start, end) for made in parts for chunk, ends, start, end in made.statements}
    return Graph(
        tuple(_entity(key, uses, degree) for key, uses in sorted(of_entity.items())),
        relationships,
        tuple(Mention(e, c, name, start, end) for e, c, start, end, name, _ in sorted(m for made in parts for m in made.mentions)),
        tuple(sorted(evidence, key=lambda e: (e.relationship_id, e.chunk_id, e.start))),
        tuple(claim for made in parts for claim in made.claims),
        tuple(resolution.merges),
        tuple(resolution.undecided_pairs),
    )


def _contributions(
    documents: Mapping[str, Sequence[Extraction]], chunks: Mapping[str, Chunk], resolution: NameResolution
) -> dict[str, DocumentContribution]:
    """The contribution of each document."""
    entity_of: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (document, key), entity in resolution.entity_of.items():
        entity_of[document][key] = entity
    return {document: document_contribution(extractions, chunks, entity_of[document]) for document, extractions in documents.items()}


def _neighbours(parts: Mapping[str, DocumentContribution]) -> dict[DocumentName, set[str]]:
    neighbours: defaultdict[DocumentName, set[str]] = defaultdict(set)
    for document, contribution in parts.items():
        for (a, b), pair in contribution.pairs.items():
            if pair.statements:
                neighbours[document, a].add(b)
                neighbours[document, b].add(a)
    return neighbours


def _entity(key: str, uses: Sequence[tuple[str, NameVotes]], degree: Counter[str]) -> Entity:
    name, kind, descriptions = elect_name(key, uses)
    return Entity(entity_id(key), name, kind, tuple(descriptions), degree=degree[entity_id(key)])


def _relationships(parts: Collection[DocumentContribution]) -> tuple[Relationship, ...]:
    stated: defaultdict[EntityKeyPair, list[PairCounts]] = defaultdict(list)
    for contribution in parts:
        for ends, pair in contribution.pairs.items():
            if pair.statements:
                stated[ends].append(pair)
    relationships = []
    for ends, evidence_rows in sorted(stated.items()):
        descriptions = tuple(sorted({d for pair in evidence_rows for d in pair.descriptions}))
        strength = sum(p.strength for p in evidence_rows) / sum(p.statements for p in evidence_rows)
        source, target = map(entity_id, ends)
        relationships.append(
            Relationship(relationship_id(ends), source, target, descriptions, "", float(sum(p.chunks for p in evidence_rows)), strength)
        )
    return tuple(relationships)


def resolve_all_names(
    names: Sequence[NameForm], defined: Mapping[DocumentName, tuple[str, str]], decisions: MergeDecisions
) -> NameResolution:
    """Assign every name to an entity. `defined`: name of a document → the key of the name that it is defined to equal there, and the
    reason.
    """
    documents: defaultdict[str, dict[str, NameForm]] = defaultdict(dict)
    for name in names:
        documents[name.document][name.key] = name
    defined_in: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for (document, key), other in defined.items():
        defined_in[document][key] = other
    corpus = _most_frequent(names)
    everywhere = find_targets(corpus, {})
    decided = targets_by_decision(decisions)
    resolution, target = NameResolution(), dict[DocumentName, NameTarget]()
    for document, local_names in documents.items():
        targets = {
            k: t
            for k, t in (everywhere | find_targets(local_names, defined_in[document], one_document=True) | decided).items()
            if k in local_names
        }
        target |= {(document, key): t for key, t in targets.items()}
        for key in local_names:
            resolution.entity_of[document, key] = resolve_chain(key, targets.get, decisions)
    resolution.merges = _log(resolution.entity_of, target, documents, corpus)
    resolution.undecided_pairs = list(_similar(corpus, resolution.entity_of, decisions))
    return resolution


def _most_frequent(names: Sequence[NameForm]) -> dict[str, NameForm]:
    """Key → the most frequent form of the name among documents."""
    best: dict[str, NameForm] = {}
    for name in names:
        if name.key not in best or _rank(name) > _rank(best[name.key]):
            best[name.key] = name
    return best


def _rank(name: NameForm) -> tuple[int, str, str]:
    """The rank of a document's form of a name among those of the corpus, independent of the order of documents."""
    return name.count, name.text, name.type


def _log(
    entity_of: Mapping[DocumentName, str],
    target: Mapping[DocumentName, NameTarget],
    documents: Mapping[str, Mapping[str, NameForm]],
    corpus: Mapping[str, NameForm],
) -> list[NameMerge]:
    """One merge for every name and entity, with the reason of its first step."""
    log: dict[tuple[str, str], NameMerge] = {}
    for (document, key), entity in sorted(entity_of.items()):
        if key != entity:
            _, reason, score = target[document, key]
            into = corpus[entity].text if entity in corpus else entity
            log.setdefault((key, entity), NameMerge(documents[document][key].text, entity, into, reason, score))
    return list(log.values())


def _similar(corpus: Mapping[str, NameForm], entity_of: Mapping[DocumentName, str], decisions: MergeDecisions) -> Iterator[NameMerge]:
    """Pairs of entities of one type with similar spelling (Johnson, Johnston), the most similar first."""
    blocks: defaultdict[tuple[str, str], list[NameForm]] = defaultdict(list)
    for key in sorted(set(entity_of.values()) & corpus.keys()):
        if len(key) > 5:
            blocks[corpus[key].type, key[:2]].append(corpus[key])
    pairs = []
    for every in blocks.values():
        block = sorted(every, key=lambda n: (-n.count, n.key))[:MAX_BLOCK_SIZE]
        keys = [n.key for n in block]
        scores = process.cdist(keys, keys, scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY)
        for i, j in np.argwhere(np.triu(scores, 1) > 0):
            a, b = block[int(i)], block[int(j)]
            if numbers_in_key(a.key) == numbers_in_key(b.key) and frozenset((a.key, b.key)) not in decisions.separate_pairs:
                pairs.append((float(scores[i, j]), a, b))
    for score, a, b in sorted(pairs, key=lambda p: (-p[0], p[1].key, p[2].key))[:MAX_SIMILAR_PAIRS]:
        yield NameMerge(b.text, a.key, a.text, "spelt alike", round(score / 100, 2))


def split_homonyms(
    names: Sequence[NameForm], resolution: NameResolution, neighbours: Mapping[DocumentName, set[str]], decisions: MergeDecisions
) -> None:
    """Split a name in two entities if it is a person in some documents and not in others, and the two have no neighbour in common.

    Each side needs two documents and a neighbour: small models often mistake the type of a single one. `Paris = Paris` among the user's
    decisions keeps a name as one entity.
    """
    unsplit = {a for a, b in decisions.merged_pairs if a == b}
    uses: defaultdict[str, defaultdict[bool, list[NameForm]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        uses[resolution.entity_of[name.document, name.key]][name.type == "person"].append(name)
    for key, sides in sorted((key, sides) for key, sides in uses.items() if len(sides) == 2):
        neighbours_of_side = {side: set().union(*(neighbours.get((n.document, key), set()) for n in some)) for side, some in sides.items()}
        sure = all(len({n.document for n in some}) > 1 and neighbours_of_side[side] for side, some in sides.items())
        apart = {n.document for n in sides[True]}.isdisjoint(n.document for n in sides[False])
        if not sure or not apart or neighbours_of_side[True] & neighbours_of_side[False] or key in unsplit:
            continue
        fewer = min(sides.values(), key=lambda some: (sum(n.count for n in some), majority_type(n.type for n in some)))
        other = f"{key} ({majority_type(n.type for n in fewer)})"
        for name in fewer:
            resolution.entity_of[name.document, name.key] = other
        resolution.merges.append(NameMerge(fewer[0].text, other, fewer[0].text, "homonym: kept apart", 0.9))
