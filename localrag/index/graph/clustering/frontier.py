"""Communities after a change: what it reaches may move, all others stay (Dynamic Frontier Leiden, Sahu 2024, arXiv 2405.11658).

Entities whose relationships changed more than slightly are free; the rest of each community is one node that keeps its strength, so that
the modularity of a move is that in the whole graph while nothing but the neighbourhood is read. Where a node moves, its neighbours are free
in the next round. Level by level, each community of the level above being a graph of its own, as in `communities`. Where a community does
not hang together any more, it is divided; one that grows beyond the limit is split anew, but for one of the deepest level: that would take
a level more, and it stays as it is until all are found anew.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from localrag.index.graph.clustering.reach import WHOLE, Changes, Reach
from localrag.index.graph.communities import ITERATIONS
from localrag.records import content_id
from localrag.store.levels import below
from localrag.store.staged import Staged

ROUNDS = 4  # of neighbours that become free where a node moved
MOST = 2000  # nodes that one round may free


class MakeAnew(Exception):
    """The communities of the whole graph are to be found anew: their weights are not known."""


@dataclass
class _Level:
    """One level while it is brought up to date."""

    number: int
    parts: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # community above → nodes looked at
    made: dict[str, str] = field(default_factory=dict)  # new community → the one above it
    rest: dict[str, float] = field(default_factory=dict)  # community → strength of those of its nodes that are not looked at
    opened: set[str] = field(default_factory=set)  # communities above of which everything is looked at
    were: Counter[str | None] = field(default_factory=Counter)  # community → how many of those looked at were in it
    counted: int = -1  # nodes looked at when that was counted


class Frontier:
    """Moves what a change reaches, and writes the communities that are others after it to the staged tables."""

    def __init__(self, staged: Staged, changes: Changes, new: Collection[str], gone: Collection[str], *, max_size: int, seed: int) -> None:
        depth = 1 + staged.most("communities", "level")
        self._staged, self._max_size, self._seed, self._depth = staged, max_size, seed, depth
        self._reach = Reach(staged, changes, new, gone, depth)
        self.changed: set[str] = set()

    def run(self) -> None:
        """All levels. Raises MakeAnew."""
        for number in range(self._depth):
            level = _Level(number)
            for left in reversed(range(ROUNDS)):
                before = dict(self._homes(number))
                self._settle_all(level)
                if not left or not self._free_neighbours(level, before):
                    break
            self._divide(level)
            self._write(level)

    def _homes(self, level: int) -> Iterable[tuple[str, str | None]]:
        return ((node, path[level]) for node, path in self._reach.nodes.items())

    def _above(self, node: str, level: int, *, before: bool = False) -> str | None:
        if level == 0:
            return WHOLE
        return self._reach.before(node, level - 1) if before else self._reach.at(node, level - 1)

    def _together(self, a: str, b: str, level: int, *, before: bool = False) -> bool:
        """Whether two nodes lie in the same community above a level."""
        above = self._above(a, level, before=before)
        return above is not None and above == self._above(b, level, before=before)

    def _stored(self, community: str) -> list[float]:
        row = self._staged.row("community_weights", community)
        if row is None:
            raise MakeAnew
        return [row[1], row[2]]

    def _account(self, level: _Level, *, whole: bool) -> dict[str, list[float]]:
        """Strength and inner weight of the communities around: without the nodes looked at, or (`whole`) as they are now."""
        found: dict[str, list[float]] = {}

        def add(one: str | None, other: str | None, weight: float) -> None:
            for home in filter(None, (one, other)):
                if home not in found:
                    found[home] = [0.0, 0.0] if home in level.made else self._stored(home)
                found[home][0] += weight
            if one and one == other:
                found[one][1] += 2 * weight

        n, reach = level.number, self._reach
        (above_before, above), (home_before, home) = reach.homes(n - 1), reach.homes(n)
        if not whole:
            home |= dict.fromkeys(reach.nodes)
        for a, b, before, now in reach.edges():
            if before and above_before[a] is not None and above_before[a] == above_before[b]:
                add(home_before[a], home_before[b], -before)
            if now and above[a] is not None and above[a] == above[b]:
                add(home[a], home[b], now)
        return found

    def _settle_all(self, level: _Level) -> None:
        """Let the nodes that are looked at find their communities in each community above."""
        n, reach = level.number, self._reach
        if n:
            inside, grown = defaultdict[str, list[str]](list), Counter[str]()
            for node in sorted((*reach.nodes, *reach.gone)):
                if above := reach.at(node, n - 1):
                    inside[above].append(node)
                    grown[above] += 1
                if was := reach.before(node, n - 1):
                    grown[was] -= 1
            for above in sorted(grown):
                self._open(level, above, inside[above], grown[above])
        level.parts.clear()
        for node in sorted(reach.nodes):
            level.parts[str(self._above(node, n))].append(node)
        level.rest = {key: strength for key, (strength, _) in self._account(level, whole=False).items()}
        for above, nodes in level.parts.items():
            if any(reach.nodes[node][n] is None for node in nodes):
                self._settle(level, above, nodes)

    def _open(self, level: _Level, above: str, inside: Iterable[str], grown: int) -> None:
        """Look at a whole community above that has to be split again, or whose parts become one. One with a single part keeps it.

        `inside`: the nodes in it that are looked at; `grown`: by how many nodes.
        """
        n, reach = level.number, self._reach
        if above in level.opened:
            return
        size = reach.size(above)
        parts = below(self._staged, above)
        if not size or (size > self._max_size and len(parts) > 1):
            return
        if len(parts) == 1 and not size > self._max_size >= size - grown:
            for node in inside:
                reach.nodes[node][n] = parts[0]
            return
        level.opened.add(above)
        members = reach.members(above)
        reach.look_at(members, n)
        if len(members) <= self._max_size:
            known = Counter(home for m in members if (home := reach.before(m, n)) in parts)
            only = known.most_common(1)[0][0] if known else self._new(level, members, above)
            for m in members:
                reach.nodes[m][n] = only

    def _settle(self, level: _Level, above: str, nodes: list[str]) -> None:
        """Leiden on some nodes, with the rest of each community around as one more."""
        n, reach = level.number, self._reach
        number = {node: i for i, node in enumerate(nodes)}
        around: dict[str, int] = {}
        strength = [0.0] * len(nodes)
        links: defaultdict[tuple[int, int], float] = defaultdict(float)
        for node, near in reach.near(nodes).items():
            for other, weight in near.items():
                if not self._together(node, other, n):
                    continue
                strength[number[node]] += weight
                if other not in number:
                    links[number[node], around.setdefault(str(reach.before(other, n)), len(nodes) + len(around))] += weight
                elif node < other:
                    links[number[node], number[other]] += weight
        strength += [level.rest[key] for key in around]
        total = self._total() if above == WHOLE else self._stored(above)[1]
        start = None if above in level.opened else self._start(level, above, nodes, around)
        found = self._leiden(links, strength, total, start)
        for some, rest in _clusters(found, nodes, self._joined(level, found[len(nodes) :], list(around)), links):
            home = rest or self._named(level, some, above, nodes)
            for node in some:
                reach.nodes[node][n] = home

    def _joined(self, level: _Level, found: Sequence[int], around: Sequence[str]) -> list[str]:
        """Make one community of those that were put together, if no more than MOST nodes have to be read; each one's name after that.

        The largest takes the others in.
        """
        n, reach = level.number, self._reach
        together: defaultdict[int, list[str]] = defaultdict(list)
        for label, home in zip(found, around, strict=True):
            together[label].append(home)
        names = {home: home for home in around}
        for some in together.values():
            if len(some) == 1:
                continue
            largest, *others = sorted(some, key=lambda home: (-reach.size(home), home))
            if sum(map(reach.size, others)) > MOST:
                continue
            for other in others:
                more = [m for m in reach.members(other) if m not in reach.nodes and m not in reach.gone]
                reach.look_at(more, n)
                for node in more:
                    reach.nodes[node][n] = largest
                names[other] = largest
        return [names[home] for home in around]

    def _start(self, level: _Level, above: str, nodes: list[str], around: Mapping[str, int]) -> list[int]:
        """The community that each node begins in: where it is, or was; a new one alone."""
        n, reach, fresh = level.number, self._reach, count()
        homes: list[object] = []
        for node in nodes:
            was = reach.before(node, n) if self._above(node, n, before=True) == above else None
            homes.append(reach.nodes[node][n] or was or next(fresh))
        labels = {home: i for i, home in enumerate(dict.fromkeys([*homes, *around]))}
        return [labels[home] for home in (*homes, *around)]

    def _leiden(self, links: Mapping[tuple[int, int], float], strength: list[float], total: float, start: list[int] | None) -> list[int]:
        if not links or total <= 0:
            return start or list(range(len(strength)))
        import igraph  # takes a second to load, which a run with nothing to do has no use for

        igraph.set_random_number_generator(Random(self._seed))
        network = igraph.Graph(n=len(strength), edges=list(links))
        settled = network.community_leiden(  # this is modularity in the whole graph: node weights are strengths there
            "CPM",
            weights=list(links.values()),
            resolution=1 / total,
            node_weights=strength,
            initial_membership=start,
            n_iterations=ITERATIONS,
        )
        return list(settled.membership)

    def _total(self) -> float:
        """The strength of all nodes of the graph."""
        tops = [key for (key,) in self._staged.rows("communities", "t.level = 0", columns="t.id")]
        return sum(self._stored(key)[0] for key in tops) + 2 * sum(now - before for before, now in self._reach.changes.values())

    def _named(self, level: _Level, some: list[str], above: str, nodes: list[str]) -> str:
        """The id of a community without any node but these: that of an earlier one of which there is nothing else, else a new one.

        `nodes`: all that are looked at in the community above.
        """
        n, reach = level.number, self._reach
        was = Counter(home for node in some if self._above(node, n, before=True) == above and (home := reach.before(node, n)))
        if level.counted != len(reach.nodes):
            level.were = Counter(reach.before(node, n) for node in (*reach.nodes, *reach.gone))
            level.counted = len(reach.nodes)
        for home, _ in was.most_common():
            if level.were[home] == reach.size(home) and not any(reach.nodes[node][n] == home for node in nodes):
                return home
        return self._new(level, some, above)

    def _new(self, level: _Level, nodes: Iterable[str], above: str) -> str:
        some = sorted(nodes)
        keys = (content_id("community", level.number, *(["again", turn] * (turn > 0)), *some) for turn in count())
        key = next(key for key in keys if key not in level.made and not self._staged.row("communities", key))
        level.made[key] = above
        return key

    def _free_neighbours(self, level: _Level, before: Mapping[str, str | None]) -> bool:
        """Look at the neighbours of nodes that moved in this round; False where there are none, or too many."""
        n, reach = level.number, self._reach
        moved = [node for node, path in reach.nodes.items() if path[n] != (before.get(node) or reach.before(node, n))]
        more = {other for near in reach.near(moved).values() for other in near if other not in reach.nodes}
        more = {other for other in more if self._above(other, n) in level.parts}
        if not more or len(more) > MOST:
            return False
        reach.look_at(more, n)
        return True

    def _divide(self, level: _Level) -> None:
        """Make communities of their own of what does not hang together any more."""
        n, reach = level.number, self._reach
        seeds: defaultdict[str, set[str]] = defaultdict(set)
        for node, home in self._homes(n):
            if home != reach.before(node, n):
                seeds[str(home)].add(node)
        were, are = reach.homes(n)
        for a, b, before, now in reach.edges():
            home = were[a]
            if not before or not home or home != were[b] or (now and are[a] == are[b]):
                continue
            for x in (a, b):
                if are[x] == home:  # it lost one that was beside it
                    seeds[home].add(x)
        for home, some in sorted(seeds.items()):
            for piece in self._pieces(home, some, n):
                reach.look_at(piece, n)
                key = self._new(level, piece, str(self._above(next(iter(piece)), n)))
                for node in piece:
                    reach.nodes[node][n] = key

    def _pieces(self, home: str, seeds: Collection[str], level: int) -> list[set[str]]:
        """The parts of a community that nothing joins to the others, but the largest; no more is read than shows it."""
        groups = [({seed}, {seed}) for seed in sorted(seeds)]  # what was reached, and what of it was not looked around from
        done: list[set[str]] = []
        while len(groups) > 1:
            inside, edge = groups.pop(min(range(len(groups)), key=lambda i: len(groups[i][0])))
            around = {o for near in self._reach.near(sorted(edge)).values() for o in near if self._reach.at(o, level) == home}
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

    def _write(self, level: _Level) -> None:
        """Put the level's members, communities and their weights in the staged tables."""
        n, reach, staged = level.number, self._reach, self._staged
        moves = [(node, reach.before(node, n), reach.at(node, n)) for node in (*reach.nodes, *reach.gone)]
        moves = [(node, was, now) for node, was, now in moves if was != now]
        staged.drop("members", [(was, node) for node, was, _ in moves if was])
        staged.put("members", [(now, node) for node, _, now in moves if now])
        ordinal = 1 + staged.most("communities", "ordinal", "t.level = ?", [n])
        living = {home for _, home in self._homes(n)}
        made = {key: above for key, above in level.made.items() if key in living}
        staged.put("communities", [(key, n, ordinal + i, above or None) for i, (key, above) in enumerate(made.items())])
        left = {was for _, was, _ in moves if was}
        gone = [key for key in sorted(left) if key not in living and not reach.size(key)]
        self.changed |= {home for _, *homes in moves for home in homes if home}
        self.changed |= {row[3] for key in gone if (row := staged.row("communities", key)) and row[3]} | set(filter(None, made.values()))
        weights = self._account(level, whole=True)
        for table in ("communities", "community_weights"):
            staged.drop(table, [(key,) for key in gone])
        staged.put("community_weights", [(key, *w) for key, w in weights.items() if key not in gone])
        staged.put("community_weights", [(key, 0.0, 0.0) for key in made if key not in weights])


def _clusters(found: list[int], nodes: list[str], around: list[str], links: Mapping[tuple[int, int], float]) -> list[tuple[list[str], str]]:
    """The nodes that were put together, each time with the community they join, if any.

    Where they were put together with several that stay apart, each node goes with the one it is linked to most, at first or through others.
    """
    clusters: defaultdict[int, list[int]] = defaultdict(list)
    for i, label in enumerate(found):
        clusters[label].append(i)
    result: list[tuple[list[str], str]] = []
    for some in clusters.values():
        inner, rest = [i for i in some if i < len(nodes)], [i for i in some if i >= len(nodes)]
        if not inner:
            continue
        homes = {around[i - len(nodes)] for i in rest}
        if len(homes) < 2:
            result.append(([nodes[i] for i in inner], homes.pop() if homes else ""))
            continue
        shared = _shared_out(inner, rest, links)
        result += [([nodes[i] for i in inner if shared.get(i) == r], around[r - len(nodes)]) for r in rest]
        result += [([nodes[i]], "") for i in inner if i not in shared]
    return [(some, home) for some, home in result if some]


def _shared_out(inner: list[int], rest: list[int], links: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """Each node with the one of `rest` that it is linked to most, at first or through others."""
    homes = {r: r for r in rest}
    while True:
        pull: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for (a, b), weight in links.items():
            for one, other in ((a, b), (b, a)):
                if one in inner and one not in homes and other in homes:
                    pull[one][homes[other]] += weight  # type: ignore[assignment]
        if not pull:
            return {i: home for i, home in homes.items() if i in inner}
        homes |= {i: found.most_common(1)[0][0] for i, found in pull.items()}
