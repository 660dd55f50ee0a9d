"""Communities that another program found and wrote reports on: they stay as they are, and the rest of the graph is clustered beside them.

A report that was paid for is of exactly these entities; clustered anew with every new document, most would be lost.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from localrag.records import Community, Graph, content_id


def still_held(levels: Sequence[Community], lost: Set[str], now: Mapping[str, str]) -> list[Community]:
    """Those of the held communities whose trees keep all that they were made from, with the ids that their entities have now.

    `lost` are entities that were mentioned in text that is gone, `now` maps an entity's earlier id to its present one.
    """
    parents = {c.id: c.parent_id for c in levels}

    def root(key: str) -> str:
        while (above := parents[key]) is not None and above in parents:
            key = above
        return key

    broken = {root(c.id) for c in levels if not lost.isdisjoint(c.entity_ids) or any(e not in now for e in c.entity_ids)}
    kept = [c for c in levels if root(c.id) not in broken]
    deepest = max((c.level for c in kept), default=0)
    home: dict[str, str] = {}  # entities that became one belong where the first of them does
    for c in (c for c in kept if c.level == deepest):
        for e in c.entity_ids:
            home.setdefault(now[e], c.id)
    members: defaultdict[str, list[str]] = defaultdict(list)
    for entity, key in home.items():
        at: str | None = key
        while at is not None:
            members[at].append(entity)
            at = parents.get(at)
    return [replace(c, entity_ids=tuple(sorted(members[c.id]))) for c in kept if members[c.id]]


def renamed(aliases: Mapping[str, str], graph: Graph) -> dict[str, str]:
    """Earlier entity id → the id that it has in a graph: its own, or that of the entity that has one of its names now."""
    known = {e.id for e in graph.entities}
    names = {m.name: m.entity_id for m in graph.mentions}
    found = {key: key for key in aliases.values() if key in known}
    for name, key in aliases.items():
        if key not in found and name in names:
            found[key] = names[name]
    return found


def beside(held: Sequence[Community], graph: Graph, cluster: Callable[[Graph], list[Community]]) -> list[Community]:
    """All communities of a graph: those that are held, and what `cluster` makes of the rest, on equally many levels."""
    if not held:
        return cluster(graph)
    taken = {e for c in held for e in c.entity_ids}
    own = cluster(_without(graph, taken))
    depth = max((c.level for c in (*held, *own)), default=-1)
    levels = [c for some in (held, own) for c in carried_down(some, depth)]
    found: list[Community] = []
    for level in range(depth + 1):
        found += [replace(c, ordinal=n) for n, c in enumerate(c for c in levels if c.level == level)]
    return found


def _without(graph: Graph, taken: Set[str]) -> Graph:
    """The graph without some entities and what belongs to them."""
    relationships = tuple(r for r in graph.relationships if r.source_id not in taken and r.target_id not in taken)
    degree: defaultdict[str, int] = defaultdict(int)
    for r in relationships:
        degree[r.source_id] += 1
        degree[r.target_id] += 1
    entities = tuple(replace(e, degree=degree[e.id]) for e in graph.entities if e.id not in taken)
    return Graph(entities, relationships, tuple(m for m in graph.mentions if m.entity_id not in taken))


def carried_down(levels: Sequence[Community], depth: int) -> list[Community]:
    """The communities, those that nothing divides up carried down to the level `depth`."""
    divided = {c.parent_id for c in levels}
    found = list(levels)
    for c in levels:
        last = c
        while last.level < depth and c.id not in divided:
            last = Community(content_id("community", "carried", last.id), last.level + 1, 0, last.id, last.entity_ids)
            found.append(last)
    return found
