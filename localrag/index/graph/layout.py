"""Graph and communities → a place for each: circles inside circles, for a picture in which nothing ever moves.

The communities of a level lie side by side in the circle of the one above them, areas as their members, and entities in that of their
deepest community. Each circle's content is laid out by itself: Fruchterman-Reingold on what relates its parts says which lie beside
which, their distances from the middle are evened out, overlaps are pushed apart. A circle whose content is what it was keeps it as it
is; where there is something new, the rest begins where it was, so that an update moves little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from localrag.index.graph.columns import Columns, Floats, Ints, Levels, columns_of, levels_of
from localrag.index.graph.packing import DENSE, TURN, Heap, free_place, largest_scale, near, pushed_apart, spiral
from localrag.records import Community, CommunityLink, Graph, Layout, Place

VERSION = "layout 1"
LINKS = 5  # of a community to others of its level, the heaviest, that are kept for the picture
RIM = 0.04  # of a circle's radius that stays free inside of it
DENSITY = 0.8  # of circles when they begin to be pushed apart
LEAF_DENSITY = 0.42  # of entities: names need room
LEAF_ROUNDS = 40
FEW = 100  # new circles that each look for a free place; more are pushed in between the others
SAME = 1e-6  # of radii that are as before
_ROUNDS_OF_FR = ((16, 60), (256, 120), (1000, 200))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What lies side by side in one circle: its own number (-1: the world), the numbers of its parts, how they are related."""

    above: int
    parts: Ints
    pairs: Ints  # (m, 2), places in `parts`
    weights: Floats


@dataclass(frozen=True, slots=True)
class _Tree:
    """Communities as numbers: each one's level, parent (-1: none), number of members; each entity's deepest community."""

    level: Ints
    parent: Ints
    size: Ints
    deepest: Ints
    home: list[Ints]  # per level, each entity's community


def lay_out(graph: Graph, communities: Sequence[Community], before: Layout) -> Layout:
    """As `place_all`, of records."""
    columns = columns_of(graph)
    return place_all(columns, levels_of(communities, columns.entities), before)


def place_all(graph: Columns, levels: Levels, before: Layout) -> Layout:
    """Places for all entities and communities, starting from those there were `before`; the same input gives the same places."""
    import igraph  # takes a second to load, which a run with nothing to do has no use for

    igraph.set_random_number_generator(Random(0))
    order = np.argsort(-graph.degree, kind="stable")  # those with most relationships first
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    entities, degrees = [graph.entities[n] for n in order.tolist()], graph.degree[order].astype(np.float64)
    tree = _tree(levels, number)
    ends = number[graph.ends]
    by = np.lexsort((graph.weight, ends[:, 1], ends[:, 0]))
    ends, weight = ends[by], graph.weight[by]
    links = _links(tree, ends, weight)
    old = _old(before, levels.ids, entities)
    circles, points = old[: len(levels.ids)], old[len(levels.ids) :]
    placed = _place_communities(tree, links, circles)
    dots = _place_entities(tree, ends, weight, degrees, placed, circles, points)
    return Layout(
        tuple(Place(e, *row) for e, row in zip(entities, dots.tolist(), strict=True)),
        tuple(Place(c, *row) for c, row in zip(levels.ids, placed.tolist(), strict=True)),
        _heaviest(levels.ids, tree, links),
    )


def _tree(levels: Levels, number: Ints) -> _Tree:
    home = [np.full(len(number), -1, np.int64) for _ in range(int(levels.level.max(initial=-1)) + 1)]
    communities, entities = levels.members[:, 0], number[levels.members[:, 1]]
    for level, found in enumerate(home):
        here = levels.level[communities] == level
        found[entities[here]] = communities[here]
    deepest = np.full(len(number), -1, np.int64)
    for found in home:
        deepest = np.where(found >= 0, found, deepest)
    return _Tree(levels.level, levels.above, levels.size, deepest, home)


def _links(tree: _Tree, ends: Ints, weight: Floats) -> tuple[Ints, Floats]:
    """Which communities of one level relationships join, and how strongly."""
    n = len(tree.level)
    pairs: list[Ints] = [np.empty((0, 2), np.int64)]
    weights: list[Floats] = [np.empty(0)]
    for home in tree.home:
        both = np.sort(home[ends], axis=1)
        apart = (both[:, 0] != both[:, 1]) & (both[:, 0] >= 0)
        keys, at = np.unique(both[apart, 0] * n + both[apart, 1], return_inverse=True)
        pairs.append(np.stack([keys // n, keys % n], axis=1))
        weights.append(np.bincount(at, weight[apart], len(keys)).astype(np.float64))
    return np.concatenate(pairs), np.concatenate(weights)


def _heaviest(communities: Sequence[str], tree: _Tree, links: tuple[Ints, Floats]) -> tuple[CommunityLink, ...]:
    """Of each community its heaviest links; without those of two that both are all there is of the ones above them, whose link it is."""
    carried = (tree.parent >= 0) & (tree.size == tree.size[tree.parent])
    pairs, weights = links
    new = ~(carried[pairs[:, 0]] & carried[pairs[:, 1]])
    pairs, weights = pairs[new], weights[new]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -weights))
    count = np.zeros(len(communities), np.int64)
    found = []
    for (a, b), w in zip(pairs[order].tolist(), weights[order].tolist(), strict=True):
        if count[a] < LINKS or count[b] < LINKS:
            count[a] += 1
            count[b] += 1
            first, second = sorted((communities[a], communities[b]))
            found.append(CommunityLink(int(tree.level[a]), first, second, w))
    return tuple(sorted(found, key=lambda link: (link.level, link.a, link.b)))


def _old(before: Layout, communities: Sequence[str], entities: Sequence[str]) -> Floats:
    """Centre and radius of each community, then of each entity, as they were; not a number where there is nothing."""
    none = (np.nan, np.nan, np.nan)
    rows = []
    for ids, places in ((communities, before.communities), (entities, before.entities)):
        known = {p.id: (p.x, p.y, p.r) for p in places}
        rows += [known.get(i, none) for i in ids]
    return np.array(rows, np.float64).reshape(-1, 3)


def _grouped(above: Ints, pairs: Ints, weights: Floats) -> list[_Parts]:
    """Parts by what they lie in, in their order; with the pairs of those that lie in the same."""
    order = np.argsort(above, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(above[order]) != 0]) if len(order) else np.empty(0, np.int64)
    place = np.empty(len(order), np.int64)
    group = np.cumsum(np.bincount(starts, minlength=len(order))) - 1
    place[order] = np.arange(len(order)) - starts[group] if len(order) else 0
    inside = (above[pairs[:, 0]] == above[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1])
    pairs, weights = pairs[inside], weights[inside]
    by = np.argsort(above[pairs[:, 0]], kind="stable")
    pairs, weights, owner = pairs[by], weights[by], above[pairs[by, 0]]
    ends = np.r_[starts[1:], len(order)]
    names = above[order[starts]]
    first, last = np.searchsorted(owner, names), np.searchsorted(owner, names, side="right")
    return [
        _Parts(int(names[n]), order[starts[n] : ends[n]], place[pairs[first[n] : last[n]]], weights[first[n] : last[n]])
        for n in range(len(starts))
    ]


def _place_communities(tree: _Tree, links: tuple[Ints, Floats], old: Floats) -> Floats:
    """Centre and radius of every community, those of level 0 in units of an entity."""
    inner = _arranged(_grouped(tree.parent, *links), np.sqrt(tree.size), old, old, DENSITY)
    placed = np.zeros((len(tree.level), 3))
    for n in np.argsort(tree.level, kind="stable"):
        x, y, r = inner[n]
        px, py, pr = placed[tree.parent[n]] if tree.parent[n] >= 0 else (0.0, 0.0, 1.0)
        placed[n] = px + pr * x, py + pr * y, pr * r
    return placed


def _place_entities(tree: _Tree, ends: Ints, weight: Floats, degrees: Floats, placed: Floats, circles: Floats, points: Floats) -> Floats:
    """Centre and radius of every entity in its deepest community; those in none lie around all others."""
    sizes = 1 + 0.5 * np.log2(1 + degrees)
    inner = _arranged(_grouped(tree.deepest, ends, weight), sizes, points, circles, LEAF_DENSITY, LEAF_ROUNDS)
    found = inner.copy()
    at = tree.deepest
    inside = at >= 0
    found[inside, :2] = placed[at[inside], :2] + inner[inside, :2] * placed[at[inside], 2:]
    found[inside, 2] = inner[inside, 2] * placed[at[inside], 2]
    outside = np.flatnonzero(~inside)
    most = float((np.hypot(placed[:, 0], placed[:, 1]) + placed[:, 2]).max(initial=0)) + 2
    k = np.arange(len(outside))
    far = np.sqrt(most**2 + 3 * (k + 1))
    found[outside] = np.stack([far * np.cos(k * TURN), far * np.sin(k * TURN), np.full(len(k), 0.4)], axis=1)
    return found


def _arranged(groups: Sequence[_Parts], sizes: Floats, old: Floats, above: Floats, density: float, rounds: int = 200) -> Floats:
    """Centre and radius of every part within its circle, which has the radius 1; within the world, in units of `sizes`.

    `old` and `above` are the places that parts and circles had.
    """
    found = np.zeros((len(sizes), 3))
    heaps: list[tuple[_Parts, Heap]] = []
    leaf = density == LEAF_DENSITY
    for group in groups:
        if leaf and group.above < 0:
            continue
        here = _local(old[group.parts], above[group.above] if group.above >= 0 else np.array([0.0, 0.0, 1.0]))
        r = sizes[group.parts]
        if len(group.parts) == 1:
            found[group.parts[0]] = 0, 0, _alone(leaf, group.above, float(r[0]))
        elif (kept := _as_before(here, r, group.above)) is not None:
            found[group.parts] = kept
        elif np.isfinite(here[:, 0]).mean() >= 0.5:
            heaps.append((group, _from_before(group, here, r)))
        else:
            heaps.append((group, _fresh(group, r, density)))
    apart = pushed_apart([heap for _, heap in heaps], rounds)
    for (group, heap), xy in zip(heaps, apart, strict=True):
        found[group.parts] = _fitted(group, Heap(xy, heap.r))
    return found


def _alone(leaf: bool, above: int, size: float) -> float:
    """The radius of the only part of a circle: a community has all of it."""
    return 0.5 if leaf else (size if above < 0 else 1.0)


def _local(old: Floats, above: Floats) -> Floats:
    """Old places as seen from the old circle; none for what lay elsewhere then."""
    x, y, r = above
    local = np.stack([(old[:, 0] - x) / r, (old[:, 1] - y) / r, old[:, 2] / r], axis=1)
    if r != 1 or x or y:
        local[np.hypot(local[:, 0], local[:, 1]) > 1] = np.nan
    return local


def _as_before(here: Floats, sizes: Floats, above: int) -> Floats | None:
    """The places within a circle where all of its parts lay in it, as large among each other as now, and none new."""
    if not np.isfinite(here[:, 0]).all():
        return None
    unit = here[:, 2] / sizes
    if np.ptp(unit) > SAME * unit.max() or (above < 0 and abs(unit[0] - 1) > SAME):
        return None
    packed = (np.pi * here[:, 2] ** 2).sum() / np.pi
    return here if above < 0 or packed > 0.2 else None  # much left: what remains may spread


def _from_before(group: _Parts, here: Floats, sizes: Floats) -> Heap:
    """Circles where they were; new ones beside what they relate to, in a free place if they are few."""
    known = np.isfinite(here[:, 0])
    unit = float(np.median(here[known, 2] / sizes[known])) if group.above >= 0 else 1.0
    r, xy = sizes * unit, here[:, :2].copy()
    most = float((np.hypot(*xy[known].T) + r[known]).max())
    new = np.flatnonzero(~known)
    for k, n in enumerate(new):
        near_to = np.r_[group.pairs[group.pairs[:, 0] == n, 1], group.pairs[group.pairs[:, 1] == n, 0]]
        near_to = near_to[np.isfinite(xy[near_to, 0])]
        wanted = xy[near_to].mean(axis=0) if len(near_to) else most * np.array([np.cos(k * TURN), np.sin(k * TURN)])
        done = np.isfinite(xy[:, 0])
        xy[n] = free_place(wanted, r[n], xy[done], r[done]) if len(new) <= FEW else wanted + 1e-3 * r[n] * spiral(len(new))[k]
    return Heap(xy, r)


def _fresh(group: _Parts, sizes: Floats, density: float) -> Heap:
    """Circles placed by what relates them, at distances from the middle that fill a disc; those related to none outside."""
    n = len(sizes)
    xy = spiral(n)
    related = np.bincount(group.pairs.ravel(), minlength=n) > 0
    if n > 3 and related.any():
        rounds = next((rounds for most, rounds in _ROUNDS_OF_FR if n <= most), 300)
        import igraph

        network = igraph.Graph(n=n, edges=group.pairs.tolist())
        weights = np.log1p(group.weights / max(float(group.weights.mean()), 1e-9)).clip(1e-3).tolist()
        made = network.layout_fruchterman_reingold(weights=weights, seed=(xy * np.sqrt(n)).tolist(), niter=rounds)
        xy = np.array(made.coords)
        xy -= np.average(xy, axis=0, weights=related * sizes**2)
    inner, outer = np.flatnonzero(related), np.flatnonzero(~related)
    found = np.empty((n, 2))
    found[inner] = _evened(xy[inner], sizes[inner], density)
    if len(inner) and len(outer) > DENSE:
        found[inner] = pushed_apart([Heap(found[inner], sizes[inner])])[0]
    outer = outer[np.argsort(-sizes[outer], kind="stable")]
    reach = float((np.hypot(*found[inner].T) + sizes[inner]).max(initial=0))
    area = sizes[outer] ** 2
    far, turn = np.sqrt(reach**2 + (np.cumsum(area) - area / 2) / density), np.arange(len(outer)) * TURN
    found[outer] = far[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return Heap(found, sizes)


def _evened(xy: Floats, sizes: Floats, density: float) -> Floats:
    """About the same directions from the middle, at distances by which circles, in the order of theirs, fill a disc."""
    order = np.argsort(np.hypot(xy[:, 0], xy[:, 1]), kind="stable")
    area = sizes[order] ** 2
    even = np.sqrt((np.cumsum(area) - area / 2) / density)
    if len(even) and area[0] > 0.3 * area.sum():
        even[0] = 0
    turn = np.arctan2(xy[order, 1], xy[order, 0])
    rank = np.argsort(np.argsort(turn, kind="stable"), kind="stable")
    turn += 0.6 * (2 * np.pi * (rank + 0.5) / max(1, len(turn)) - np.pi - turn)  # a chain of entities would be a line
    found = np.empty_like(xy)
    found[order] = even[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return found


def _fitted(group: _Parts, heap: Heap) -> Floats:
    """Circles within the unit circle, or as they are within the world; none overlaps another."""
    scale = largest_scale(heap) * (1 - 1e-9)
    if group.above < 0:
        return _circles(heap.xy, heap.r * scale) if scale > 0.9 else _circles(heap.xy / scale, heap.r)
    reach = float((np.hypot(heap.xy[:, 0], heap.xy[:, 1]) + heap.r).max())
    fit = (1 - RIM) / reach
    return _circles(heap.xy * fit, heap.r * fit * scale)


def _circles(xy: Floats, r: Floats) -> Floats:
    return np.concatenate([xy, r[:, None]], axis=1)


def overlapping(places: Sequence[Place]) -> list[tuple[str, str]]:
    """Pairs of circles that overlap."""
    if len(places) < 2:
        return []
    xy, r = np.array([(p.x, p.y) for p in places]), np.array([p.r for p in places])
    a, b = near(xy, r)
    close = np.hypot(*(xy[a] - xy[b]).T) < (r[a] + r[b]) * (1 - 1e-6)
    return [(places[i].id, places[j].id) for i, j in zip(a[close].tolist(), b[close].tolist(), strict=True)]
