"""Graph → Communities: hierarchical Leiden (Traag et al. 2019; paper, section 3.1.4), every entity in one community of every level.

igraph's own Leiden runs, not leidenalg, which is the authors': for as many iterations it takes a fifteenth of the time or less (100,000
weighted relationships: 0.6 s against 17) and finds at least the modularity. The tests hold it against leidenalg on the same graphs.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

from localrag.index.graph.columns import ATTACHED, Columns, columns
from localrag.records import Community, Graph, content_id

ITERATIONS = 10


def communities(graph: Graph, *, max_size: int, seed: int, before: Sequence[Community] = ()) -> list[Community]:
    """The communities of all levels, level 0 the coarsest; the same seed gives the same partition.

    A community of more than `max_size` entities is split again on the next level, until Leiden finds nothing to split; a smaller one is
    carried down unchanged. Entities without a relationship go with the one they share most chunks with; small components stay whole.
    Where there were communities `before`, Leiden starts from them, and one that lives on keeps its id (see `_named_as_before`).
    """
    joined = [(r.source_id, r.target_id, r.weight) for r in graph.relationships]
    joined += [(a, b, ATTACHED) for a, b in _attachments(graph)]
    made = columns([(e.id, e.degree) for e in graph.entities], joined)
    return hierarchy(made, max_size=max_size, seed=seed, before=before)


def hierarchy(graph: Columns, *, max_size: int, seed: int, before: Sequence[Community] = ()) -> list[Community]:
    """As `communities`, of a graph in columns, what joins entities without relationships to others included."""
    network, ids = as_igraph(graph), graph.entities
    home = [{e: n for n, c in enumerate(before) if c.level == level for e in c.entity_ids} for level in range(_depth(before))]
    starts = [[found.get(i, -1) for i in ids] for found in home]
    groups = _split(network, seed, starts[0] if starts else None)
    parents: list[int | None] = [None] * len(groups)
    result: list[Community] = []
    level = 0
    while groups:
        named = [tuple(ids[v] for v in group) for group in groups]
        above = [c for c in result if c.level == level - 1]
        keys = _named_as_before(named, level, [c for c in before if c.level == level])
        result += [
            Community(key, level, n, above[parent].id if parent is not None else None, members)
            for n, (key, members, parent) in enumerate(zip(keys, named, parents, strict=True))
        ]
        level += 1
        groups, parents, changed = _next_level(network, groups, max_size, seed, starts[level] if level < len(starts) else None)
        if not changed:
            break
    return result


def _depth(before: Sequence[Community]) -> int:
    return max((c.level + 1 for c in before), default=0)


def _named_as_before(groups: Sequence[tuple[str, ...]], level: int, before: Sequence[Community]) -> list[str]:
    """An id for each group: that of the earlier community it shares more than half of both's members with, else one of its own members.

    More than half of their union can be in common with one other group only, so no id is given twice.
    """
    home = {e: c for c in before for e in c.entity_ids}
    taken = {c.id for c in before}
    keys = []
    for members in groups:
        shared = Counter(home[e].id for e in members if e in home)
        size = {home[e].id: len(home[e].entity_ids) for e in members if e in home}
        best = next((c for c, n in shared.most_common(1) if 2 * n > len(members) + size[c] - n), None)
        own = content_id("community", level, *members)
        keys.append(best or (own if own not in taken else content_id("community", level, "again", *members)))
    return keys


def _next_level(
    network: Any, groups: list[list[int]], max_size: int, seed: int, start: list[int] | None
) -> tuple[list[list[int]], list[int | None], bool]:
    below: list[list[int]] = []
    parents: list[int | None] = []
    for n, group in enumerate(groups):
        parts = [group]
        if len(group) > max_size:
            inner = network.induced_subgraph(group)
            parts = [[group[v] for v in part] for part in _split(inner, seed, [start[v] for v in group] if start else None)]
        below += parts
        parents += [n] * len(parts)
    return below, parents, len(below) > len(groups)


def _split(network: Any, seed: int, start: list[int] | None = None) -> list[list[int]]:
    """Leiden on weighted modularity; the parts largest first, then by their smallest member.

    `start`: the number of the community each node was in, -1 for a new one, which then begins alone.
    """
    if not network.vcount():
        return []
    first = None
    if start is not None:
        alone = count(max(start) + 1)
        numbers = [n if n >= 0 else next(alone) for n in start]
        dense = {n: i for i, n in enumerate(dict.fromkeys(numbers))}
        first = [dense[n] for n in numbers]
    import igraph  # takes a second to load, which a run with nothing to do has no use for

    igraph.set_random_number_generator(Random(seed))
    found = network.community_leiden("modularity", weights="weight", n_iterations=ITERATIONS, initial_membership=first)
    # From a partition that there was, igraph may leave parts that do not hang together: their pieces are communities of their own.
    inside = [n for n, apart in enumerate(found.crossing()) if not apart]
    partition = network.subgraph_edges(inside, delete_vertices=False).connected_components()
    return sorted((sorted(part) for part in partition), key=lambda part: (-len(part), part))


def as_igraph(graph: Columns) -> Any:
    """The network as igraph has it."""
    import igraph

    network = igraph.Graph(n=len(graph.entities), edges=graph.ends)
    network.es["weight"] = graph.weight.tolist()
    return network


def _attachments(graph: Graph) -> list[tuple[str, str]]:
    """For each entity without a relationship, the entity that shares most chunks with it, if any does."""
    degree = {e.id: e.degree for e in graph.entities}
    in_chunk: defaultdict[str, set[str]] = defaultdict(set)
    chunks_of: defaultdict[str, set[str]] = defaultdict(set)
    for m in graph.mentions:
        in_chunk[m.chunk_id].add(m.entity_id)
        if not degree[m.entity_id]:
            chunks_of[m.entity_id].add(m.chunk_id)
    pairs = set()
    for single, chunks in chunks_of.items():
        near = Counter(other for chunk in chunks for other in in_chunk[chunk] if other != single)
        if near:
            best = min(near, key=lambda other, near=near: (-near[other], -degree[other], other))  # type: ignore[misc]
            pairs.add((min(single, best), max(single, best)))
    return sorted(pairs)
