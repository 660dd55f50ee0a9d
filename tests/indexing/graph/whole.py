"""The weights of a whole graph at once, from all its mentions: what those that are kept by difference are held against."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from localrag.indexing.graph.contributions import PRUNED_SHARE, npmi_weight, weight_bucket
from localrag.records import Chunk, Graph
from localrag.text.sentences import cached_sentences


def weigh_by_pmi(graph: Graph, chunks: Mapping[str, Chunk], unread: set[str]) -> Graph:
    """Weigh relationships known only from chunks that no model read by shared sentences × normalised PMI (Bouma 2009); prune weak ones."""
    if not unread:
        return graph
    stated: defaultdict[str, set[str]] = defaultdict(set)
    for e in graph.evidence:
        stated[e.relationship_id].add(e.chunk_id)
    sentences = _sentences(graph, chunks)
    total = max(2, len(set().union(*sentences.values())) if sentences else 2)
    weights = {
        r.id: npmi_weight(len(a & b), len(a), len(b), total)
        for r in graph.relationships
        if stated[r.id] <= unread
        for a, b in [(sentences[r.source_id], sentences[r.target_id])]
    }
    relationships = [replace(r, weight=weights.get(r.id, r.weight)) for r in graph.relationships]
    strongest = {end: r.id for r in sorted(relationships, key=lambda r: (r.weight, r.id)) for end in (r.source_id, r.target_id)}
    ordered = sorted(weights.values())
    least = weight_bucket(ordered[int(len(ordered) * PRUNED_SHARE)]) if ordered else 0.0
    kept = {r.id for r in relationships if r.id not in weights or r.weight >= least} | set(strongest.values())
    degree = Counter(end for r in relationships if r.id in kept for end in (r.source_id, r.target_id))
    return replace(
        graph,
        relationships=tuple(r for r in relationships if r.id in kept),
        evidence=tuple(e for e in graph.evidence if e.relationship_id in kept),
        entities=tuple(replace(e, degree=degree[e.id]) for e in graph.entities),
    )


def _sentences(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, set[tuple[str, int]]]:
    """For each entity the sentences that mention it, as (document, start): a sentence in two overlapping chunks is one."""
    found: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for chunk_id, mentions in groupby(sorted(graph.mentions, key=lambda m: m.chunk_id), key=lambda m: m.chunk_id):
        chunk = chunks[chunk_id]
        starts = [s.start for s in cached_sentences(chunk.text)]
        for m in mentions:
            number = max(0, bisect_right(starts, m.start - chunk.start) - 1)
            found[m.entity_id].add((chunk.document_id, chunk.start + (starts[number] if starts else 0)))
    return dict(found)
