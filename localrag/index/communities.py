"""Graph → Communities: hierarchical Leiden (Traag et al. 2019; paper, section 3.1.4), every entity in one community of every level."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import igraph
import leidenalg

from localrag.records import Community, Graph, content_id

ITERATIONS = 10


def communities(graph: Graph, *, max_size: int, seed: int) -> list[Community]:
    """The communities of all levels, level 0 the coarsest; the same seed gives the same partition.

    A community of more than `max_size` entities is split again on the next level, until Leiden finds nothing to split; a smaller one is
    carried down unchanged. Entities without a relationship go with the one they share most chunks with; small components stay whole.
    """
    ids = sorted(e.id for e in graph.entities)
    network = _network(graph, ids)
    groups = _split(network, seed)
    parents: list[int | None] = [None] * len(groups)
    result: list[Community] = []
    level = 0
    while groups:
        named = [tuple(ids[v] for v in group) for group in groups]
        above = [c for c in result if c.level == level - 1]
        result += [
            Community(content_id("community", level, *members), level, n, above[parent].id if parent is not None else None, members)
            for n, (members, parent) in enumerate(zip(named, parents, strict=True))
        ]
        groups, parents, changed = _next_level(network, groups, max_size, seed)
        if not changed:
            break
        level += 1
    return result


def _next_level(network: Any, groups: list[list[int]], max_size: int, seed: int) -> tuple[list[list[int]], list[int | None], bool]:
    below: list[list[int]] = []
    parents: list[int | None] = []
    for n, group in enumerate(groups):
        parts = [group]
        if len(group) > max_size:
            inner = network.induced_subgraph(group)
            parts = [[group[v] for v in part] for part in _split(inner, seed)]
        below += parts
        parents += [n] * len(parts)
    return below, parents, len(below) > len(groups)


def _split(network: Any, seed: int) -> list[list[int]]:
    """Leiden on weighted modularity; the parts largest first, then by their smallest member."""
    if not network.vcount():
        return []
    partition = leidenalg.find_partition(network, leidenalg.ModularityVertexPartition, weights="weight", n_iterations=ITERATIONS, seed=seed)
    return sorted((sorted(part) for part in partition if part), key=lambda part: (-len(part), part))


def _network(graph: Graph, ids: Sequence[str]) -> Any:
    number = {entity: n for n, entity in enumerate(ids)}
    edges = [(number[r.source_id], number[r.target_id], r.weight) for r in graph.relationships]
    edges += [(number[a], number[b], 0.1) for a, b in _attachments(graph)]
    edges.sort()
    network = igraph.Graph(n=len(ids), edges=[(a, b) for a, b, _ in edges])
    network.es["weight"] = [w for *_, w in edges]
    return network


def _attachments(graph: Graph) -> list[tuple[str, str]]:
    """For each entity without a relationship, the entity that shares most chunks with it, if any does."""
    in_chunk: defaultdict[str, set[str]] = defaultdict(set)
    for m in graph.mentions:
        in_chunk[m.chunk_id].add(m.entity_id)
    degree = {e.id: e.degree for e in graph.entities}
    shared: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for together in in_chunk.values():
        for a, b in combinations(sorted(together), 2):
            shared[a][b] += 1
            shared[b][a] += 1
    pairs = set()
    for e in graph.entities:
        if not e.degree and shared[e.id]:
            best = min(shared[e.id], key=lambda other, near=shared[e.id]: (-near[other], -degree[other], other))  # type: ignore[misc]
            pairs.add((min(e.id, best), max(e.id, best)))
    return sorted(pairs)
