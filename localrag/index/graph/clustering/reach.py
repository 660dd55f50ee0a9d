"""What a change reaches in the graph: its nodes, their neighbours, and the communities of both before it."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from itertools import islice

from localrag.index.graph.columns import ATTACHED
from localrag.store.graph import communities_of
from localrag.store.levels import members
from localrag.store.staged import AMONG, Staged

Pair = tuple[str, str]
Changes = dict[Pair, tuple[float, float]]  # two nodes in order → the weight between them before and now, 0 for none

WHOLE = ""  # what the communities of level 0 lie in
SLIGHT = 0.02  # share of what joins a node to others that may change without it being looked at: a common name changes with each edit

_EDGES = (("relationships", "source_id", "target_id", "weight"), ("attached", "entity_id", "to_id", str(ATTACHED)))


def changed_pairs(staged: Staged) -> Changes:
    """All pairs of entities between which the weight is another than in the published graph."""
    found: dict[Pair, list[float]] = {}
    for table, one, other, weight in _EDGES:
        for _, *rows in staged.changes(table, f"{one}, {other}, {weight}"):
            for n, row in enumerate(rows):
                if row:
                    w = found.setdefault((min(row[:2]), max(row[:2])), [0.0, 0.0])
                    w[n] += row[2]
    return {pair: (before, now) for pair, (before, now) in found.items() if before != now}


class Reach:
    """The nodes that are looked at, and what lies around them. It grows; nothing else of the graph is read."""

    def __init__(self, staged: Staged, changes: Changes, new: Collection[str], gone: Collection[str], depth: int) -> None:
        self._staged, self.changes, self.gone, self._depth = staged, changes, frozenset(gone), depth
        self._near: dict[str, dict[str, float]] = {}
        self._paths: dict[str, list[str]] = {}
        self._edges = [(*pair, *weights) for pair, weights in changes.items()]
        self._seen = set(changes)  # the pairs of these
        self._ends = {end for pair in changes for end in pair}
        self._listed = 0  # nodes whose edges are among them
        self._were: defaultdict[int, dict[str, str | None]] = defaultdict(dict)  # level → each end of an edge and its community before
        self.nodes: dict[str, list[str | None]] = {}  # each one's community now, level by level, None where that is not decided
        self._load_paths({*(end for pair in changes for end in pair), *gone})
        moved = Counter[str]()
        for pair, (before, now) in changes.items():
            moved.update(dict.fromkeys(pair, abs(now - before)))
        ends = {node for node, change in moved.items() if change > SLIGHT * self._strength(node)}
        self.look_at({*ends, *new} - self.gone, 0)

    def look_at(self, nodes: Iterable[str], level: int) -> None:
        """Take more nodes in; above `level` these are where they were."""
        more = sorted({n for n in nodes if n not in self.nodes})
        self.near(more)
        for node in more:
            path = self._paths[node]
            self.nodes[node] = [path[n] if n < level and path else None for n in range(self._depth)]

    def _strength(self, node: str) -> float:
        """The weight of all that joins a node to others, without reading it."""
        sides = ((table, end, weight) for table, one, other, weight in _EDGES for end in (one, other))
        sums = (self._staged.rows(table, f"t.{end} = ?", [node], f"sum({weight})") for table, end, weight in sides)
        return sum(float(found) for rows in sums for (found,) in rows if found)

    def near(self, nodes: Iterable[str]) -> dict[str, dict[str, float]]:
        """The neighbours of nodes with the weights between, as they are now."""
        asked = list(nodes)
        self._load_near([n for n in asked if n not in self._near])
        return {n: self._near[n] for n in asked}

    def before(self, node: str, level: int) -> str | None:
        """The community of a node in the published graph; None of a new one."""
        path = self._paths[node]
        return path[level] if path else None

    def at(self, node: str, level: int) -> str | None:
        """The community of a node now."""
        return self.nodes[node][level] if node in self.nodes else None if node in self.gone else self.before(node, level)

    def edges(self) -> list[tuple[str, str, float, float]]:
        """Every pair with a node that is looked at or gone, or whose weight changed, once: both ends, the weights before and now."""
        for node in list(islice(self.nodes, self._listed, None)):
            for other, weight in self._near[node].items():
                pair = (node, other) if node < other else (other, node)
                if pair not in self._seen:
                    self._seen.add(pair)
                    self._ends.update(pair)
                    self._edges.append((*pair, weight, weight))
        self._listed = len(self.nodes)
        return self._edges

    def homes(self, level: int) -> tuple[dict[str, str | None], dict[str, str | None]]:
        """Each end of an edge → its community before, and now; above level 0 all are together."""
        self.edges()
        if level < 0:
            whole: dict[str, str | None] = dict.fromkeys(self._ends, WHOLE)
            return whole, whole
        were = self._were[level]
        were |= {end: self.before(end, level) for end in self._ends.difference(were)}
        moved = {node: path[level] for node, path in self.nodes.items()}
        return were, were | dict.fromkeys(self.gone & self._ends) | moved

    def members(self, community: str) -> list[str]:
        """Who is in a community, as far as that was written."""
        return members(self._staged, community)

    def size(self, community: str) -> int:
        """How many are in a community, as far as that was written."""
        return self._staged.count("members", "t.community_id = ?", [community])

    def _load_near(self, nodes: list[str]) -> None:
        near: dict[str, dict[str, float]] = {n: {} for n in nodes}
        keys = [json.dumps(nodes)]
        for table, one, other, weight in _EDGES:
            for mine, theirs in ((one, other), (other, one)):
                columns = f"t.{mine}, t.{theirs}, {weight}"
                for node, neighbour, w in self._staged.rows(table, f"t.{mine} {AMONG}", keys, columns):
                    if node != neighbour:
                        near[node][neighbour] = near[node].get(neighbour, 0.0) + w
        self._near |= near
        self._load_paths({n for some in near.values() for n in some} | set(nodes))

    def _load_paths(self, nodes: Collection[str]) -> None:
        left = [n for n in nodes if n not in self._paths]
        self._paths |= communities_of(self._staged.db, left)
