"""Incremental communities: after a change only affected nodes may move (Dynamic Frontier Leiden, Sahu 2024, arXiv 2405.11658).

Entities whose relationships changed more than slightly are free. The rest of each community is one node that keeps its strength, so that
the modularity of a move is that of the whole graph while only the neighbourhood is read. Where a node moves, its neighbours are free in the
next round. This is done level by level, each community of the level above being a graph of its own, as in `communities`. A community that
falls apart is divided; one that grows beyond the limit is split again, unless it is on the deepest level: that would need another level, so
it stays until all communities are recomputed.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from random import Random

import numpy as np

from localrag.indexing.graph.communities import ATTACHMENT_WEIGHT, LEIDEN_ITERATIONS, Floats, GraphArrays, Ints, hierarchical_leiden
from localrag.indexing.graph.merge import load_graph_arrays
from localrag.records import Community, content_id
from localrag.store.graph import child_communities, communities_of, members_of
from localrag.store.staging import IN_JSON_LIST, GraphStaging

ENTITIES_PER_LOOKUP = 500  # entities whose neighbours are read by one query


def attach_isolated_entities(staged: GraphStaging, *, from_scratch: bool) -> None:
    """Store for each entity without a relationship the entity that it shares most chunks with, if any.

    Among equals, the one with most relationships. Only changed entities are looked at, or all (`from_scratch`).
    """
    if from_scratch:
        keys: Iterable[str] = [key for (key,) in staged.select("entities", "t.degree = 0", columns="t.id")]
    else:
        changed = staged.changed_keys("mentions")
        chunks = {chunk for _, chunk, *_ in changed}
        near = {e for (e,) in staged.select("mentions", f"t.chunk_id {IN_JSON_LIST}", [json.dumps(sorted(chunks))], "t.entity_id")}
        keys = near | {entity for entity, *_ in changed} | {key for (key,) in staged.changed_keys("entities")}
    remaining = iter(sorted(keys))
    while batch := list(islice(remaining, ENTITIES_PER_LOOKUP)):
        existing = list(staged.select("isolated_entities", f"t.entity_id {IN_JSON_LIST}", [json.dumps(batch)]))
        staged.replace("isolated_entities", existing, _attached(staged, batch))


def _attached(staged: GraphStaging, keys: Collection[str]) -> Iterator[tuple[str, str]]:
    isolated = staged.select("entities", f"t.degree = 0 AND t.id {IN_JSON_LIST}", [json.dumps(sorted(keys))], "t.id")
    singles = sorted(key for (key,) in isolated)
    own = set(staged.select("mentions", f"t.entity_id {IN_JSON_LIST}", [json.dumps(singles)], "t.entity_id, t.chunk_id"))
    chunks = json.dumps(sorted({chunk for _, chunk in own}))
    inside: defaultdict[str, set[str]] = defaultdict(set)
    for entity, chunk in staged.select("mentions", f"t.chunk_id {IN_JSON_LIST}", [chunks], "t.entity_id, t.chunk_id"):
        inside[chunk].add(entity)
    others = json.dumps(sorted({e for keys in inside.values() for e in keys}))
    degree: dict[str, int] = dict(staged.select("entities", f"t.id {IN_JSON_LIST}", [others], "t.id, t.degree"))
    shared_chunks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for single, chunk in own:
        shared_chunks[single].update(inside[chunk] - {single})
    for single in singles:
        if shared := shared_chunks[single]:
            yield single, min(shared, key=lambda other, shared=shared: (-shared[other], -degree[other], other))  # type: ignore[misc]


EntityIdPair = tuple[str, str]
EdgeChanges = dict[EntityIdPair, tuple[float, float]]  # two nodes in order → the weight between them before and now, 0 for none

ROOT = ""  # the parent of the communities of level 0
# Share of a node's strength that may change before its community is reconsidered: a common name changes with each edit.
MIN_WEIGHT_CHANGE = 0.02

_EDGES = (
    ("relationships", "source_id", "target_id", "weight"),
    ("isolated_entities", "entity_id", "attached_to_id", str(ATTACHMENT_WEIGHT)),
)


def changed_edges(staged: GraphStaging) -> EdgeChanges:
    """All pairs of entities whose weight differs from that in the published graph."""
    weights: dict[EntityIdPair, list[float]] = {}
    for table, one, other, weight in _EDGES:
        for _, *rows in staged.changed_columns(table, f"{one}, {other}, {weight}"):
            for n, row in enumerate(rows):
                if row:
                    w = weights.setdefault((min(row[:2]), max(row[:2])), [0.0, 0.0])
                    w[n] += row[2]
    return {pair: (before, now) for pair, (before, now) in weights.items() if before != now}


class AffectedSubgraph:
    """The free nodes and their surroundings. It grows as needed; the rest of the graph is never read."""

    def __init__(self, staged: GraphStaging, changes: EdgeChanges, new: Collection[str], removed: Collection[str], depth: int) -> None:
        self._staged, self.changes, self.gone, self._depth = staged, changes, frozenset(removed), depth
        self._near: dict[str, dict[str, float]] = {}
        self._paths: dict[str, list[str]] = {}
        self._edges = [(*pair, *weights) for pair, weights in changes.items()]
        self._seen = set(changes)  # pairs of free nodes that were read
        self._ends = {end for pair in changes for end in pair}
        self._listed = 0  # free nodes whose edges are read
        self._were: defaultdict[int, dict[str, str | None]] = defaultdict(dict)  # level → node of an edge → its published community
        self.nodes: dict[str, list[str | None]] = {}  # node → its present community of each level, None while undecided
        self._load_paths({*(end for pair in changes for end in pair), *removed})
        moved = Counter[str]()
        for pair, (before, now) in changes.items():
            moved.update(dict.fromkeys(pair, abs(now - before)))
        ends = {node for node, change in moved.items() if change > MIN_WEIGHT_CHANGE * self._strength(node)}
        self.add_nodes({*ends, *new} - self.gone, 0)

    def add_nodes(self, nodes: Iterable[str], level: int) -> None:
        """Make more nodes free on `level`; above it they keep their communities."""
        more = sorted({n for n in nodes if n not in self.nodes})
        self.neighbours(more)
        for node in more:
            path = self._paths[node]
            self.nodes[node] = [path[n] if n < level and path else None for n in range(self._depth)]

    def _strength(self, node: str) -> float:
        sides = ((table, end, weight) for table, one, other, weight in _EDGES for end in (one, other))
        sums = (self._staged.select(table, f"t.{end} = ?", [node], f"sum({weight})") for table, end, weight in sides)
        return sum(float(weight_sum) for rows in sums for (weight_sum,) in rows if weight_sum)

    def neighbours(self, nodes: Iterable[str]) -> dict[str, dict[str, float]]:
        """The neighbours of nodes, with the present weights."""
        asked = list(nodes)
        self._load_near([n for n in asked if n not in self._near])
        return {n: self._near[n] for n in asked}

    def published_community(self, node: str, level: int) -> str | None:
        """The community of a node in the published graph; None for a new node."""
        path = self._paths[node]
        return path[level] if path else None

    def current_community(self, node: str, level: int) -> str | None:
        """The present community of a node."""
        return self.nodes[node][level] if node in self.nodes else None if node in self.gone else self.published_community(node, level)

    def edges(self) -> list[tuple[str, str, float, float]]:
        """Every pair with a free or removed node or with a changed weight, once: both nodes, the weights before and now."""
        for node in list(islice(self.nodes, self._listed, None)):
            for other, weight in self._near[node].items():
                pair = (node, other) if node < other else (other, node)
                if pair not in self._seen:
                    self._seen.add(pair)
                    self._ends.update(pair)
                    self._edges.append((*pair, weight, weight))
        self._listed = len(self.nodes)
        return self._edges

    def communities_of_edges(self, level: int) -> tuple[dict[str, str | None], dict[str, str | None]]:
        """Node of an edge → its community before, and now; above level 0 there is only ROOT."""
        self.edges()
        if level < 0:
            root_of_all: dict[str, str | None] = dict.fromkeys(self._ends, ROOT)
            return root_of_all, root_of_all
        were = self._were[level]
        were |= {end: self.published_community(end, level) for end in self._ends.difference(were)}
        moved = {node: path[level] for node, path in self.nodes.items()}
        return were, were | dict.fromkeys(self.gone & self._ends) | moved

    def members(self, community: str) -> list[str]:
        """The members of a staged community."""
        return members_of(self._staged, community)

    def size(self, community: str) -> int:
        """The number of members of a staged community."""
        return self._staged.count("community_members", "t.community_id = ?", [community])

    def _load_near(self, nodes: list[str]) -> None:
        neighbours: dict[str, dict[str, float]] = {n: {} for n in nodes}
        keys = [json.dumps(nodes)]
        for table, one, other, weight in _EDGES:
            for near_end, far_end in ((one, other), (other, one)):
                columns = f"t.{near_end}, t.{far_end}, {weight}"
                for node, neighbour, w in self._staged.select(table, f"t.{near_end} {IN_JSON_LIST}", keys, columns):
                    if node != neighbour:
                        neighbours[node][neighbour] = neighbours[node].get(neighbour, 0.0) + w
        self._near |= neighbours
        self._load_paths({n for some in neighbours.values() for n in some} | set(nodes))

    def _load_paths(self, nodes: Collection[str]) -> None:
        missing = [n for n in nodes if n not in self._paths]
        self._paths |= communities_of(self._staged.db, missing)


MAX_ROUNDS = 4  # rounds in which neighbours of moved nodes become free
MAX_FREED_NODES = 2000  # nodes that one round may free


@dataclass
class _LevelState:
    """One level while it is updated."""

    number: int
    nodes_by_parent: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # parent community → its free nodes
    new_communities: dict[str, str] = field(default_factory=dict)  # new community → its parent
    outside_strength: dict[str, float] = field(default_factory=dict)  # community → strength of its nodes that are not free
    expanded_parents: set[str] = field(default_factory=set)  # parent communities all of whose nodes are free
    former_sizes: Counter[str | None] = field(default_factory=Counter)  # community → number of free nodes that were in it
    n_counted: int = -1  # number of free nodes when `former_sizes` was counted


class DynamicLeiden:
    """Moves the nodes that a change affects, and writes the changed communities to the staging tables."""

    def __init__(
        self, staged: GraphStaging, changes: EdgeChanges, new: Collection[str], removed: Collection[str], *, max_size: int, seed: int
    ) -> None:
        depth = 1 + staged.max_value("communities", "level")
        self._staged, self._max_size, self._seed, self._depth = staged, max_size, seed, depth
        self._reach = AffectedSubgraph(staged, changes, new, removed, depth)
        self.changed: set[str] = set()

    def run(self) -> None:
        """Update all levels."""
        for number in range(self._depth):
            level = _LevelState(number)
            for remaining_rounds in reversed(range(MAX_ROUNDS)):
                before = dict(self._homes(number))
                self._move_affected(level)
                if not remaining_rounds or not self._add_neighbours_to_frontier(level, before):
                    break
            self._split_disconnected(level)
            self._write(level)

    def _homes(self, level: int) -> Iterable[tuple[str, str | None]]:
        return ((node, path[level]) for node, path in self._reach.nodes.items())

    def _above(self, node: str, level: int, *, before: bool = False) -> str | None:
        if level == 0:
            return ROOT
        return self._reach.published_community(node, level - 1) if before else self._reach.current_community(node, level - 1)

    def _together(self, a: str, b: str, level: int, *, before: bool = False) -> bool:
        above = self._above(a, level, before=before)
        return above is not None and above == self._above(b, level, before=before)

    def _stored(self, community: str) -> list[float]:
        row = self._staged.get("community_weights", community)
        assert row is not None, community
        return [row[1], row[2]]

    def _update_weights(self, level: _LevelState, *, all_nodes: bool) -> dict[str, list[float]]:
        """Strength and inner weight of the adjacent communities: without the free nodes, or (`all_nodes`) as they are now."""
        weights_of: dict[str, list[float]] = {}

        def add(one: str | None, other: str | None, weight: float) -> None:
            for home in filter(None, (one, other)):
                if home not in weights_of:
                    weights_of[home] = [0.0, 0.0] if home in level.new_communities else self._stored(home)
                weights_of[home][0] += weight
            if one and one == other:
                weights_of[one][1] += 2 * weight

        n, reach = level.number, self._reach
        (above_before, above), (home_before, home) = reach.communities_of_edges(n - 1), reach.communities_of_edges(n)
        if not all_nodes:
            home |= dict.fromkeys(reach.nodes)
        for a, b, before, now in reach.edges():
            if before and above_before[a] is not None and above_before[a] == above_before[b]:
                add(home_before[a], home_before[b], -before)
            if now and above[a] is not None and above[a] == above[b]:
                add(home[a], home[b], now)
        return weights_of

    def _move_affected(self, level: _LevelState) -> None:
        """Run Leiden on the free nodes of each parent community."""
        n, reach = level.number, self._reach
        if n:
            inside, grown = defaultdict[str, list[str]](list), Counter[str]()
            for node in sorted((*reach.nodes, *reach.gone)):
                if above := reach.current_community(node, n - 1):
                    inside[above].append(node)
                    grown[above] += 1
                if was := reach.published_community(node, n - 1):
                    grown[was] -= 1
            for above in sorted(grown):
                self._open(level, above, inside[above], grown[above])
        level.nodes_by_parent.clear()
        for node in sorted(reach.nodes):
            level.nodes_by_parent[str(self._above(node, n))].append(node)
        level.outside_strength = {key: strength for key, (strength, _) in self._update_weights(level, all_nodes=False).items()}
        for above, nodes in level.nodes_by_parent.items():
            if any(reach.nodes[node][n] is None for node in nodes):
                self._move_nodes(level, above, nodes)

    def _open(self, level: _LevelState, above: str, inside: Iterable[str], grown: int) -> None:
        """Free all nodes of a parent community that has to be split again, or whose parts become one. A single part keeps its id.

        `inside`: its free nodes; `grown`: the number of nodes that it grew by.
        """
        n, reach = level.number, self._reach
        if above in level.expanded_parents:
            return
        size = reach.size(above)
        parts = child_communities(self._staged, above)
        if not size or (size > self._max_size and len(parts) > 1):
            return
        if len(parts) == 1 and not size > self._max_size >= size - grown:
            for node in inside:
                reach.nodes[node][n] = parts[0]
            return
        level.expanded_parents.add(above)
        members = reach.members(above)
        reach.add_nodes(members, n)
        if len(members) <= self._max_size:
            former_homes = Counter(home for m in members if (home := reach.published_community(m, n)) in parts)
            only = former_homes.most_common(1)[0][0] if former_homes else self._new(level, members, above)
            for m in members:
                reach.nodes[m][n] = only

    def _move_nodes(self, level: _LevelState, above: str, nodes: list[str]) -> None:
        """Run Leiden on free nodes, with the rest of each adjacent community as one more node."""
        n, reach = level.number, self._reach
        number = {node: i for i, node in enumerate(nodes)}
        around: dict[str, int] = {}
        strength = [0.0] * len(nodes)
        links: defaultdict[tuple[int, int], float] = defaultdict(float)
        for node, weights in reach.neighbours(nodes).items():
            for other, weight in weights.items():
                if not self._together(node, other, n):
                    continue
                strength[number[node]] += weight
                if other not in number:
                    links[number[node], around.setdefault(str(reach.published_community(other, n)), len(nodes) + len(around))] += weight
                elif node < other:
                    links[number[node], number[other]] += weight
        strength += [level.outside_strength[key] for key in around]
        total = self._total() if above == ROOT else self._stored(above)[1]
        start = None if above in level.expanded_parents else self._start(level, above, nodes, around)
        assignment = self._leiden(links, strength, total, start)
        for group, rest in _clusters(assignment, nodes, self._joined(level, assignment[len(nodes) :], list(around)), links):
            home = rest or self._named(level, group, above, nodes)
            for node in group:
                reach.nodes[node][n] = home

    def _joined(self, level: _LevelState, assignment: Sequence[int], around: Sequence[str]) -> list[str]:
        """Merge adjacent communities that Leiden put together, if at most MAX_FREED_NODES nodes have to be read; returns each one's id
        then.

        The largest takes the others in.
        """
        n, reach = level.number, self._reach
        groups: defaultdict[int, list[str]] = defaultdict(list)
        for label, home in zip(assignment, around, strict=True):
            groups[label].append(home)
        names = {home: home for home in around}
        for group in groups.values():
            if len(group) == 1:
                continue
            largest, *smaller = sorted(group, key=lambda home: (-reach.size(home), home))
            if sum(map(reach.size, smaller)) > MAX_FREED_NODES:
                continue
            for other in smaller:
                more = [m for m in reach.members(other) if m not in reach.nodes and m not in reach.gone]
                reach.add_nodes(more, n)
                for node in more:
                    reach.nodes[node][n] = largest
                names[other] = largest
        return [names[home] for home in around]

    def _start(self, level: _LevelState, above: str, nodes: list[str], around: Mapping[str, int]) -> list[int]:
        """The community that each node starts in: its present or published one; a new node starts alone."""
        n, reach, fresh = level.number, self._reach, count()
        homes: list[object] = []
        for node in nodes:
            was = reach.published_community(node, n) if self._above(node, n, before=True) == above else None
            homes.append(reach.nodes[node][n] or was or next(fresh))
        labels = {home: i for i, home in enumerate(dict.fromkeys([*homes, *around]))}
        return [labels[home] for home in (*homes, *around)]

    def _leiden(self, links: Mapping[tuple[int, int], float], strength: list[float], total: float, start: list[int] | None) -> list[int]:
        if not links or total <= 0:
            return start or list(range(len(strength)))
        import igraph  # takes a second to load, which a run without changes saves

        igraph.set_random_number_generator(Random(self._seed))
        network = igraph.Graph(n=len(strength), edges=list(links))
        settled = network.community_leiden(  # with strengths as node weights this is modularity in the whole graph
            "CPM",
            weights=list(links.values()),
            resolution=1 / total,
            node_weights=strength,
            initial_membership=start,
            n_iterations=LEIDEN_ITERATIONS,
        )
        return list(settled.membership)

    def _total(self) -> float:
        tops = [key for (key,) in self._staged.select("communities", "t.level = 0", columns="t.id")]
        return sum(self._stored(key)[0] for key in tops) + 2 * sum(now - before for before, now in self._reach.changes.values())

    def _named(self, level: _LevelState, group: list[str], above: str, nodes: list[str]) -> str:
        """The id of a community made of free nodes only: that of a published one that has no other nodes left, else a new one.

        `nodes`: all free nodes of the parent community.
        """
        n, reach = level.number, self._reach
        was = Counter(home for node in group if self._above(node, n, before=True) == above and (home := reach.published_community(node, n)))
        if level.n_counted != len(reach.nodes):
            level.former_sizes = Counter(reach.published_community(node, n) for node in (*reach.nodes, *reach.gone))
            level.n_counted = len(reach.nodes)
        for home, _ in was.most_common():
            if level.former_sizes[home] == reach.size(home) and not any(reach.nodes[node][n] == home for node in nodes):
                return home
        return self._new(level, group, above)

    def _new(self, level: _LevelState, nodes: Iterable[str], above: str) -> str:
        members = sorted(nodes)
        keys = (content_id("community", level.number, *(["again", turn] * (turn > 0)), *members) for turn in count())
        key = next(key for key in keys if key not in level.new_communities and not self._staged.get("communities", key))
        level.new_communities[key] = above
        return key

    def _add_neighbours_to_frontier(self, level: _LevelState, before: Mapping[str, str | None]) -> bool:
        """Free the neighbours of nodes that moved in this round; False if there are none, or too many."""
        n, reach = level.number, self._reach
        moved = [node for node, path in reach.nodes.items() if path[n] != (before.get(node) or reach.published_community(node, n))]
        more = {other for near in reach.neighbours(moved).values() for other in near if other not in reach.nodes}
        more = {other for other in more if self._above(other, n) in level.nodes_by_parent}
        if not more or len(more) > MAX_FREED_NODES:
            return False
        reach.add_nodes(more, n)
        return True

    def _split_disconnected(self, level: _LevelState) -> None:
        """Divide communities that are not connected any more."""
        n, reach = level.number, self._reach
        seeds: defaultdict[str, set[str]] = defaultdict(set)
        for node, home in self._homes(n):
            if home != reach.published_community(node, n):
                seeds[str(home)].add(node)
        were, are = reach.communities_of_edges(n)
        for a, b, before, now in reach.edges():
            home = were[a]
            if not before or not home or home != were[b] or (now and are[a] == are[b]):
                continue
            for x in (a, b):
                if are[x] == home:  # it lost a neighbour in its community
                    seeds[home].add(x)
        for home, some in sorted(seeds.items()):
            for piece in self._pieces(home, some, n):
                reach.add_nodes(piece, n)
                key = self._new(level, piece, str(self._above(next(iter(piece)), n)))
                for node in piece:
                    reach.nodes[node][n] = key

    def _pieces(self, home: str, seeds: Collection[str], level: int) -> list[set[str]]:
        """The connected parts of a community without the largest one; reads no more than is needed to find them."""
        groups = [({seed}, {seed}) for seed in sorted(seeds)]  # reached nodes, and those not expanded yet
        done: list[set[str]] = []
        while len(groups) > 1:
            inside, edge = groups.pop(min(range(len(groups)), key=lambda i: len(groups[i][0])))
            around = {
                o for near in self._reach.neighbours(sorted(edge)).values() for o in near if self._reach.current_community(o, level) == home
            }
            edge = around - inside
            for other in [g for g in groups if not g[0].isdisjoint(edge)]:
                groups.remove(other)
                edge = (edge - other[0]) | other[1]
                inside |= other[0]
            inside |= edge
            if edge:
                groups.append((inside, edge))
            else:
                done.append(inside)
        if not groups and done:
            done.remove(max(done, key=lambda piece: (len(piece), min(piece))))
        return done

    def _write(self, level: _LevelState) -> None:
        """Write the level's members, communities and weights to the staging tables."""
        n, reach, staged = level.number, self._reach, self._staged
        moves = [(node, reach.published_community(node, n), reach.current_community(node, n)) for node in (*reach.nodes, *reach.gone)]
        moves = [(node, was, now) for node, was, now in moves if was != now]
        staged.delete("community_members", [(was, node) for node, was, _ in moves if was])
        staged.upsert("community_members", [(now, node) for node, _, now in moves if now])
        ordinal = 1 + staged.max_value("communities", "ordinal", "t.level = ?", [n])
        living = {home for _, home in self._homes(n)}
        created = {key: above for key, above in level.new_communities.items() if key in living}
        staged.upsert("communities", [(key, n, ordinal + i, above or None) for i, (key, above) in enumerate(created.items())])
        former = {was for _, was, _ in moves if was}
        removed = [key for key in sorted(former) if key not in living and not reach.size(key)]
        self.changed |= {home for _, *homes in moves for home in homes if home}
        self.changed |= {row[3] for key in removed if (row := staged.get("communities", key)) and row[3]} | set(
            filter(None, created.values())
        )
        weights = self._update_weights(level, all_nodes=True)
        for table in ("communities", "community_weights"):
            staged.delete(table, [(key,) for key in removed])
        staged.upsert("community_weights", [(key, *w) for key, w in weights.items() if key not in removed])
        staged.upsert("community_weights", [(key, 0.0, 0.0) for key in created if key not in weights])


def _clusters(
    assignment: list[int], nodes: list[str], around: list[str], links: Mapping[tuple[int, int], float]
) -> list[tuple[list[str], str]]:
    """The nodes that Leiden put together, each group with the adjacent community it joins, if any.

    If they were put together with several communities that stay apart, each node joins the one it is linked to most, directly or
    indirectly.
    """
    clusters: defaultdict[int, list[int]] = defaultdict(list)
    for i, label in enumerate(assignment):
        clusters[label].append(i)
    result: list[tuple[list[str], str]] = []
    for group in clusters.values():
        inner, outer = [i for i in group if i < len(nodes)], [i for i in group if i >= len(nodes)]
        if not inner:
            continue
        homes = {around[i - len(nodes)] for i in outer}
        if len(homes) < 2:
            result.append(([nodes[i] for i in inner], homes.pop() if homes else ""))
            continue
        shared = _assign_to_nearest(inner, outer, links)
        result += [([nodes[i] for i in inner if shared.get(i) == r], around[r - len(nodes)]) for r in outer]
        result += [([nodes[i]], "") for i in inner if i not in shared]
    return [(group, home) for group, home in result if group]


def _assign_to_nearest(inner: list[int], outer: list[int], links: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """Assign each node to the member of `outer` that it is linked to most, directly or through other nodes."""
    homes = {r: r for r in outer}
    while True:
        pull: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for (a, b), weight in links.items():
            for one, other in ((a, b), (b, a)):
                if one in inner and one not in homes and other in homes:
                    pull[one][homes[other]] += weight  # type: ignore[assignment]
        if not pull:
            return {i: home for i, home in homes.items() if i in inner}
        homes |= {i: pulls.most_common(1)[0][0] for i, pulls in pull.items()}


MAX_MODULARITY_LOSS = 0.003  # loss of modularity after which all communities are recomputed
MAX_CHANGED_SHARE = 0.1  # share of the graph's weight that may change before that


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """The changed communities (None: any may be), and the modularity after the last full clustering and now."""

    changed: frozenset[str] | None
    statistics: dict[str, float]


def update_communities(
    staged: GraphStaging,
    statistics: Mapping[str, float],
    before: Callable[[], list[Community]],
    *,
    max_size: int,
    seed: int,
    from_scratch: bool = False,
) -> ClusteringResult:
    """Update the staged communities. `statistics`: the stored statistics; `from_scratch`: recompute all from scratch.

    All are recomputed, starting from those `before` (read only then), if more than MAX_CHANGED_SHARE of the weight has changed since the
    last full clustering, or if modularity has fallen by MAX_MODULARITY_LOSS.
    """
    attach_isolated_entities(staged, from_scratch=not statistics.get("weight"))
    if statistics.get("weight") and not from_scratch:
        changes = changed_edges(staged)
        moved = statistics["moved"] + sum(abs(now - then) for then, now in changes.values())
        if moved <= MAX_CHANGED_SHARE * statistics["weight"]:
            new, removed = _new_and_gone(staged)
            frontier = DynamicLeiden(staged, changes, new, removed, max_size=max_size, seed=seed)
            frontier.run()
            if modularity(staged) >= statistics["modularity"] - MAX_MODULARITY_LOSS:
                return ClusteringResult(frozenset(frontier.changed), {**statistics, "moved": moved})
    return recluster_all(staged, [] if from_scratch else before(), max_size=max_size, seed=seed)


def recluster_all(staged: GraphStaging, before: Sequence[Community], *, max_size: int, seed: int) -> ClusteringResult:
    """Recompute all communities, starting from the earlier ones."""
    graph = load_graph_arrays(staged, attached=True)
    levels = hierarchical_leiden(graph, max_size=max_size, seed=seed, before=before)
    store_communities(staged, levels, graph)
    return ClusteringResult(None, {"modularity": modularity(staged), "weight": float(graph.edge_weights.sum()), "moved": 0.0})


def store_communities(staged: GraphStaging, levels: Sequence[Community], graph: GraphArrays) -> None:
    """Replace the staged communities by these, with their weights."""
    staged.replace_all("communities", ((c.id, c.level, c.ordinal, c.parent_id) for c in levels))
    staged.replace_all("community_members", ((c.id, e) for c in levels for e in c.entity_ids))
    staged.replace_all("community_weights", _weights(levels, graph))


def modularity(staged: GraphStaging) -> float:
    """The modularity of the communities of level 0 (Newman 2004); 0 for a graph without edges."""
    tops = json.dumps([key for (key,) in staged.select("communities", "t.level = 0", columns="t.id")])
    listed = "t.total_weight, t.internal_weight"
    rows = list(staged.select("community_weights", f"t.community_id {IN_JSON_LIST}", [tops], listed))
    total = sum(strength for strength, _ in rows)
    return sum(inside / total - (strength / total) ** 2 for strength, inside in rows) if total > 0 else 0.0


def _weights(levels: Sequence[Community], graph: GraphArrays) -> Iterator[tuple[str, float, float]]:
    """For each community, the weight of its entities' edges within the parent community, and within itself, counted from both ends."""
    number = {e: n for n, e in enumerate(graph.entities)}
    above = np.zeros(len(number), np.int64)
    for _, communities_of_level in groupby(levels, key=lambda c: c.level):
        some = list(communities_of_level)
        home = np.full(len(number), -1, np.int64)
        for n, c in enumerate(some):
            home[[number[e] for e in c.entity_ids]] = n
        strength, inside = _community_weights(above[graph.edges], home[graph.edges], graph.edge_weights, len(some))
        yield from ((c.id, *row) for c, row in zip(some, np.stack([strength, inside], axis=1).tolist(), strict=True))
        above = home


def _community_weights(above: Ints, home: Ints, weight: Floats, n: int) -> tuple[Floats, Floats]:
    """For `n` communities the weight of edges within the parent, and of edges within the community, by the communities of all ends."""
    is_inside = above[:, 0] == above[:, 1]
    a, b, w = home[is_inside, 0], home[is_inside, 1], weight[is_inside]
    strength: Floats = (np.bincount(a, w, n) + np.bincount(b, w, n)).astype(np.float64)
    inside: Floats = (2 * np.bincount(a[a == b], w[a == b], n)).astype(np.float64)
    return strength, inside


def _new_and_gone(staged: GraphStaging) -> tuple[list[str], list[str]]:
    rows = list(staged.changed_columns("entities", "id"))
    return [key[0] for key, before, now in rows if now and not before], [key[0] for key, before, now in rows if before and not now]
