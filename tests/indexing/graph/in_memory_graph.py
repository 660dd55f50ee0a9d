"""The graph of extractions, built in memory at once by the rules by which an index updates its own: tests compare the two."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

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
    DocumentName,
    MergeDecisions,
    NameForm,
    find_targets,
    resolve_chain,
    targets_by_decision,
)
from localrag.records import Chunk, Entity, Evidence, Extraction, Graph, Mention, Relationship


def build_graph_in_memory(extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], decisions: MergeDecisions | None = None) -> Graph:
    """One entity for all variants of a name, its type by vote; relationships undirected, weighted by the chunks that state them."""
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
    entities = resolve_all_names(names, defined, decisions)
    parts = _contributions(documents, chunks, entities).values()
    relationships = _relationships(parts)
    of_entity: defaultdict[str, list[tuple[str, NameVotes]]] = defaultdict(list)
    for node, key in entities.items():
        of_entity[key].append((node[1], votes[node]))
    degree = Counter(end for r in relationships for end in (r.source_id, r.target_id))
    evidence = {Evidence(relationship_id(ends), chunk, start, end) for made in parts for chunk, ends, start, end in made.statements}
    return Graph(
        tuple(_entity(key, uses, degree) for key, uses in sorted(of_entity.items())),
        relationships,
        tuple(Mention(e, c, name, start, end) for e, c, start, end, name, _ in sorted(m for made in parts for m in made.mentions)),
        tuple(sorted(evidence, key=lambda e: (e.relationship_id, e.chunk_id, e.start))),
        tuple(claim for made in parts for claim in made.claims),
    )


def _contributions(
    documents: Mapping[str, Sequence[Extraction]], chunks: Mapping[str, Chunk], entities: Mapping[DocumentName, str]
) -> dict[str, DocumentContribution]:
    """The contribution of each document."""
    entity_of: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (document, key), entity in entities.items():
        entity_of[document][key] = entity
    return {document: document_contribution(extractions, chunks, entity_of[document]) for document, extractions in documents.items()}


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
) -> dict[DocumentName, str]:
    """The entity of every name. `defined`: name of a document → the key of the name that it is defined to equal there, and the reason."""
    documents: defaultdict[str, dict[str, NameForm]] = defaultdict(dict)
    for name in names:
        documents[name.document][name.key] = name
    defined_in: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for (document, key), other in defined.items():
        defined_in[document][key] = other
    everywhere = find_targets(_most_frequent(names), {})
    decided = targets_by_decision(decisions)
    entities: dict[DocumentName, str] = {}
    for document, local_names in documents.items():
        targets = everywhere | find_targets(local_names, defined_in[document], one_document=True) | decided
        here = {k: t for k, t in targets.items() if k in local_names}
        entities |= {(document, key): resolve_chain(key, here.get, decisions) for key in local_names}
    return entities


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
