"""Graph layout: a position for every entity and community, as nested circles.

The communities of a level lie side by side in their parent's circle, with areas by their members, and entities in that of their deepest
community. Each circle's content is laid out by itself: Fruchterman-Reingold on the edges between its parts says which are neighbours, their
distances from the middle are evened out, overlaps are pushed apart. A circle with unchanged content keeps its layout; otherwise the layout
starts from the old positions, so that an update moves little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from localrag.indexing.graph.communities import CommunityArrays, Floats, GraphArrays, Ints
from localrag.records import CommunityEdge, GraphLayout, Position

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))  # points on a spiral with this angle fill a disc evenly
MIN_GAP = 1.03  # circles are pushed apart as if they were this much larger, so that their rims do not touch
MAX_DENSE_WIDTH = 64  # circles; of more, only near ones are compared
MAX_ROUNDS = 200
_NEAR = 5  # rounds that a list of near circles serves


@dataclass(frozen=True, slots=True)
class CircleCluster:
    """Circles around the origin: centres (n, 2) and radii (n)."""

    xy: Floats
    r: Floats


def sunflower_points(n: int) -> Floats:
    """`n` points that fill the unit disc evenly, the first in the middle."""
    k = np.arange(n)
    far = np.sqrt((k + 0.5) / max(n, 1)) if n > 1 else np.zeros(n)
    return np.stack([far * np.cos(k * GOLDEN_ANGLE), far * np.sin(k * GOLDEN_ANGLE)], axis=1)


def remove_overlaps(heap: CircleCluster, rounds: int = MAX_ROUNDS) -> Floats:
    """Push overlapping circles of a cluster apart; returns the centres, without overlaps as far as `rounds` suffice."""
    r, xy = heap.r, heap.xy.copy()
    area, (a, b) = r * r, np.triu_indices(len(r), 1)
    for n in range(rounds if len(r) > 1 else 0):
        if len(r) > MAX_DENSE_WIDTH and n % _NEAR == 0:
            a, b = overlapping_pairs(xy, r, 1.2)
        apart = xy[a] - xy[b]
        far, want = np.hypot(apart[:, 0], apart[:, 1]), (r[a] + r[b]) * MIN_GAP
        over = np.maximum(want - far, 0)
        if n % _NEAR == 0 and not (over > want * (1 - 1 / MIN_GAP)).any():
            break
        push = apart * (over / np.maximum(far, 1e-12) / (area[a] + area[b]))[:, None]  # the larger moves less
        for axis in (0, 1):
            xy[:, axis] += np.bincount(a, push[:, axis] * area[b], len(r)) - np.bincount(b, push[:, axis] * area[a], len(r))
    return xy


def overlapping_pairs(xy: Floats, r: Floats, reach: float = 1.0) -> tuple[Ints, Ints]:
    """Pairs of circles that would overlap if all were `reach` times as large, each pair once.

    Circles are compared in order of size, each with those of its own size and smaller, so that one large circle adds no small neighbours.
    """
    size = np.floor(np.log2(r.max() / np.maximum(r, r.max() * 1e-6))).astype(np.int64)
    firsts, seconds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for c in np.unique(size):
        class_members, less = np.flatnonzero(size == c), np.flatnonzero(size >= c)
        reach_of_class = (r[class_members].max() + r[less].max()) * reach * MIN_GAP
        if len(class_members) * len(less) <= 4_000_000:
            overlaps = np.nonzero(np.hypot(*(xy[class_members][:, None] - xy[less][None]).transpose(2, 0, 1)) < reach_of_class)
            a, b = class_members[overlaps[0]], less[overlaps[1]]
        else:
            from scipy.spatial import cKDTree  # takes half a second to load

            pairs = cKDTree(xy[class_members]).sparse_distance_matrix(cKDTree(xy[less]), reach_of_class, output_type="coo_matrix")
            a, b = class_members[pairs.row], less[pairs.col]
        once = (size[b] > c) | (a < b)
        a, b = a[once], b[once]
        close = np.hypot(*(xy[a] - xy[b]).T) < (r[a] + r[b]) * reach * MIN_GAP
        firsts.append(a[close])
        seconds.append(b[close])
    return np.concatenate(firsts), np.concatenate(seconds)


def max_scale(heap: CircleCluster) -> float:
    """The factor, at most 1, by which all radii have to be multiplied so that no circle overlaps another."""
    if len(heap.r) < 2:
        return 1.0
    a, b = overlapping_pairs(heap.xy, heap.r)
    return min(1.0, float((np.hypot(*(heap.xy[a] - heap.xy[b]).T) / (heap.r[a] + heap.r[b])).min(initial=1.0)))


def nearest_free_center(wanted: Floats, radius: float, xy: Floats, r: Floats) -> Floats:
    """The tried centre nearest to the wanted one where the circle overlaps no other."""
    around = sunflower_points(256)
    for reach in radius * 3.0 ** np.arange(8):
        candidates = wanted + around * reach
        free = (np.hypot(*(candidates[:, None] - xy[None]).transpose(2, 0, 1)) >= (r[None] + radius) * MIN_GAP).all(axis=1)
        if free.any():
            place: Floats = candidates[int(np.argmax(free))]
            return place
    return wanted


LAYOUT_VERSION = "layout 1"
LINKS_PER_COMMUNITY = 5  # of a community, the heaviest edges to others of its level, that are stored for the graph view
RIM_SHARE = 0.04  # of a circle's radius that stays free inside it
PACKING_DENSITY = 0.8  # of circles before they are pushed apart
LEAF_DENSITY = 0.42  # of entities: names need room
LEAF_ROUNDS = 40
SAME_RADIUS = 1e-6  # relative difference below which radii count as unchanged
_ROUNDS_OF_FR = ((16, 60), (256, 120), (1000, 200))


@dataclass(frozen=True, slots=True)
class _CircleGroup:
    """The parts that lie side by side in one circle: the circle's number (-1: the top level), the parts' numbers, their edges."""

    above: int
    parts: Ints
    pairs: Ints  # (m, 2), positions in `parts`
    weights: Floats


@dataclass(frozen=True, slots=True)
class _CommunityTree:
    """Communities as numbers: level, parent (-1: none) and size of each, and each entity's deepest community."""

    level: Ints
    parent: Ints
    size: Ints
    deepest: Ints
    home: list[Ints]  # per level, each entity's community


def compute_layout(graph: GraphArrays, levels: CommunityArrays, before: GraphLayout) -> GraphLayout:
    """Positions of all entities and communities, starting from the layout `before`; the same input gives the same positions."""
    import igraph  # takes a second to load, which a run without changes saves

    igraph.set_random_number_generator(Random(0))
    order = np.argsort(-graph.degree, kind="stable")  # most relationships first
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    entities, degrees = [graph.entities[n] for n in order.tolist()], graph.degree[order].astype(np.float64)
    tree = _tree(levels, number)
    ends = number[graph.edges]
    by = np.lexsort((graph.edge_weights, ends[:, 1], ends[:, 0]))
    ends, weight = ends[by], graph.edge_weights[by]
    links = _level_edges(tree, ends, weight)
    old = _old(before, levels.ids, entities)
    circles, points = old[: len(levels.ids)], old[len(levels.ids) :]
    placed = _place_communities(tree, links, circles)
    dots = _place_entities(tree, ends, weight, degrees, placed, circles, points)
    return GraphLayout(
        tuple(Position(e, *row) for e, row in zip(entities, dots.tolist(), strict=True)),
        tuple(Position(c, *row) for c, row in zip(levels.ids, placed.tolist(), strict=True)),
        _heaviest(levels.ids, tree, links),
    )


def _tree(levels: CommunityArrays, number: Ints) -> _CommunityTree:
    home = [np.full(len(number), -1, np.int64) for _ in range(int(levels.level.max(initial=-1)) + 1)]
    communities, entities = levels.members[:, 0], number[levels.members[:, 1]]
    for level, found in enumerate(home):
        in_level = levels.level[communities] == level
        found[entities[in_level]] = communities[in_level]
    deepest = np.full(len(number), -1, np.int64)
    for found in home:
        deepest = np.where(found >= 0, found, deepest)
    return _CommunityTree(levels.level, levels.parent, levels.size, deepest, home)


def _level_edges(tree: _CommunityTree, ends: Ints, weight: Floats) -> tuple[Ints, Floats]:
    """The pairs of communities of one level that relationships join, with the total weights."""
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


def _heaviest(communities: Sequence[str], tree: _CommunityTree, links: tuple[Ints, Floats]) -> tuple[CommunityEdge, ...]:
    """The heaviest edges of each community."""
    pairs, weights = links
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -weights))
    count = np.zeros(len(communities), np.int64)
    heaviest = []
    for (a, b), w in zip(pairs[order].tolist(), weights[order].tolist(), strict=True):
        if count[a] < LINKS_PER_COMMUNITY or count[b] < LINKS_PER_COMMUNITY:
            count[a] += 1
            count[b] += 1
            first, second = sorted((communities[a], communities[b]))
            heaviest.append(CommunityEdge(int(tree.level[a]), first, second, w))
    return tuple(sorted(heaviest, key=lambda link: (link.level, link.a, link.b)))


def _old(before: GraphLayout, communities: Sequence[str], entities: Sequence[str]) -> Floats:
    """Centre and radius of each community, then of each entity, in the old layout; NaN for new ones."""
    none = (np.nan, np.nan, np.nan)
    rows = []
    for ids, places in ((communities, before.communities), (entities, before.entities)):
        old_circles = {p.id: (p.x, p.y, p.r) for p in places}
        rows += [old_circles.get(i, none) for i in ids]
    return np.array(rows, np.float64).reshape(-1, 3)


def _grouped(above: Ints, pairs: Ints, weights: Floats) -> list[_CircleGroup]:
    """Group parts by the circle they lie in, in order, with the edges between parts of the same circle."""
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
        _CircleGroup(int(names[n]), order[starts[n] : ends[n]], place[pairs[first[n] : last[n]]], weights[first[n] : last[n]])
        for n in range(len(starts))
    ]


def _place_communities(tree: _CommunityTree, links: tuple[Ints, Floats], old: Floats) -> Floats:
    """Centre and radius of every community; on level 0 in units of an entity."""
    inner = _arranged(_grouped(tree.parent, *links), np.sqrt(tree.size), old, old, PACKING_DENSITY)
    placed = np.zeros((len(tree.level), 3))
    for n in np.argsort(tree.level, kind="stable"):
        x, y, r = inner[n]
        px, py, pr = placed[tree.parent[n]] if tree.parent[n] >= 0 else (0.0, 0.0, 1.0)
        placed[n] = px + pr * x, py + pr * y, pr * r
    return placed


def _place_entities(
    tree: _CommunityTree, ends: Ints, weight: Floats, degrees: Floats, placed: Floats, circles: Floats, points: Floats
) -> Floats:
    """Centre and radius of every entity in its deepest community; entities without one lie around all others."""
    sizes = 1 + 0.5 * np.log2(1 + degrees)
    inner = _arranged(_grouped(tree.deepest, ends, weight), sizes, points, circles, LEAF_DENSITY, LEAF_ROUNDS)
    circles_found = inner.copy()
    at = tree.deepest
    inside = at >= 0
    circles_found[inside, :2] = placed[at[inside], :2] + inner[inside, :2] * placed[at[inside], 2:]
    circles_found[inside, 2] = inner[inside, 2] * placed[at[inside], 2]
    outside = np.flatnonzero(~inside)
    outer_radius = float((np.hypot(placed[:, 0], placed[:, 1]) + placed[:, 2]).max(initial=0)) + 2
    k = np.arange(len(outside))
    far = np.sqrt(outer_radius**2 + 3 * (k + 1))
    circles_found[outside] = np.stack([far * np.cos(k * GOLDEN_ANGLE), far * np.sin(k * GOLDEN_ANGLE), np.full(len(k), 0.4)], axis=1)
    return circles_found


def _arranged(groups: Sequence[_CircleGroup], sizes: Floats, old: Floats, above: Floats, density: float, rounds: int = 200) -> Floats:
    """Centre and radius of every part within its circle of radius 1; on the top level in units of `sizes`.

    `old` and `above` are the old positions of parts and circles.
    """
    arranged = np.zeros((len(sizes), 3))
    heaps: list[tuple[_CircleGroup, CircleCluster]] = []
    leaf = density == LEAF_DENSITY
    for group in groups:
        if leaf and group.above < 0:
            continue
        local_old = _local(old[group.parts], above[group.above] if group.above >= 0 else np.array([0.0, 0.0, 1.0]))
        r = sizes[group.parts]
        if len(group.parts) == 1:
            arranged[group.parts[0]] = 0, 0, 0.5 if leaf else float(r[0]) if group.above < 0 else 1.0
        elif (unchanged := _as_before(local_old, r, group.above)) is not None:
            arranged[group.parts] = unchanged
        elif np.isfinite(local_old[:, 0]).mean() >= 0.5:
            heaps.append((group, _from_before(group, local_old, r)))
        else:
            heaps.append((group, _fresh(group, r, density)))
    for group, heap in heaps:
        arranged[group.parts] = _fit_circles(group, CircleCluster(remove_overlaps(heap, rounds), heap.r))
    return arranged


def _local(old: Floats, above: Floats) -> Floats:
    """Old positions relative to the old circle; NaN for parts that lay elsewhere then."""
    x, y, r = above
    local = np.stack([(old[:, 0] - x) / r, (old[:, 1] - y) / r, old[:, 2] / r], axis=1)
    if r != 1 or x or y:
        local[np.hypot(local[:, 0], local[:, 1]) > 1] = np.nan
    return local


def _as_before(local_old: Floats, sizes: Floats, above: int) -> Floats | None:
    """The old positions within a circle if all its parts were in it, with the same relative sizes, and none is new; else None."""
    if not np.isfinite(local_old[:, 0]).all():
        return None
    unit = local_old[:, 2] / sizes
    if np.ptp(unit) > SAME_RADIUS * unit.max() or (above < 0 and abs(unit[0] - 1) > SAME_RADIUS):
        return None
    return local_old


def _from_before(group: _CircleGroup, local_old: Floats, sizes: Floats) -> CircleCluster:
    """Circles at their old positions; new ones in a free place beside related parts."""
    has_old = np.isfinite(local_old[:, 0])
    unit = float(np.median(local_old[has_old, 2] / sizes[has_old])) if group.above >= 0 else 1.0
    r, xy = sizes * unit, local_old[:, :2].copy()
    outer_radius = float((np.hypot(*xy[has_old].T) + r[has_old]).max())
    new = np.flatnonzero(~has_old)
    for k, n in enumerate(new):
        near_to = np.r_[group.pairs[group.pairs[:, 0] == n, 1], group.pairs[group.pairs[:, 1] == n, 0]]
        near_to = near_to[np.isfinite(xy[near_to, 0])]
        wanted = xy[near_to].mean(axis=0) if len(near_to) else outer_radius * np.array([np.cos(k * GOLDEN_ANGLE), np.sin(k * GOLDEN_ANGLE)])
        done = np.isfinite(xy[:, 0])
        xy[n] = nearest_free_center(wanted, r[n], xy[done], r[done])
    return CircleCluster(xy, r)


def _fresh(group: _CircleGroup, sizes: Floats, density: float) -> CircleCluster:
    """Circles placed by their edges, at distances from the middle that fill a disc; circles without edges outside."""
    n = len(sizes)
    xy = sunflower_points(n)
    related = np.bincount(group.pairs.ravel(), minlength=n) > 0
    if n > 3 and related.any():
        rounds = next((rounds for most, rounds in _ROUNDS_OF_FR if n <= most), 300)
        import igraph

        network = igraph.Graph(n=n, edges=group.pairs.tolist())
        weights = np.log1p(group.weights / max(float(group.weights.mean()), 1e-9)).clip(1e-3).tolist()
        drawn = network.layout_fruchterman_reingold(weights=weights, seed=(xy * np.sqrt(n)).tolist(), niter=rounds)
        xy = np.array(drawn.coords)
        xy -= np.average(xy, axis=0, weights=related * sizes**2)
    inner, outer = np.flatnonzero(related), np.flatnonzero(~related)
    placed = np.empty((n, 2))
    placed[inner] = _evened(xy[inner], sizes[inner], density)
    if len(inner) and len(outer) > MAX_DENSE_WIDTH:
        placed[inner] = remove_overlaps(CircleCluster(placed[inner], sizes[inner]))
    outer = outer[np.argsort(-sizes[outer], kind="stable")]
    reach = float((np.hypot(*placed[inner].T) + sizes[inner]).max(initial=0))
    area = sizes[outer] ** 2
    far, turn = np.sqrt(reach**2 + (np.cumsum(area) - area / 2) / density), np.arange(len(outer)) * GOLDEN_ANGLE
    placed[outer] = far[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return CircleCluster(placed, sizes)


def _evened(xy: Floats, sizes: Floats, density: float) -> Floats:
    """Keep the directions from the middle, roughly, and set the distances so that the circles fill a disc in the same order."""
    order = np.argsort(np.hypot(xy[:, 0], xy[:, 1]), kind="stable")
    area = sizes[order] ** 2
    even = np.sqrt((np.cumsum(area) - area / 2) / density)
    if len(even) and area[0] > 0.3 * area.sum():
        even[0] = 0
    turn = np.arctan2(xy[order, 1], xy[order, 0])
    rank = np.argsort(np.argsort(turn, kind="stable"), kind="stable")
    turn += 0.6 * (2 * np.pi * (rank + 0.5) / max(1, len(turn)) - np.pi - turn)  # else a chain of entities would be a line
    evened = np.empty_like(xy)
    evened[order] = even[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return evened


def _fit_circles(group: _CircleGroup, heap: CircleCluster) -> Floats:
    """Scale circles into the unit circle, except on the top level; none overlaps another."""
    scale = max_scale(heap) * (1 - 1e-9)
    if group.above < 0:
        return _circles(heap.xy, heap.r * scale) if scale > 0.9 else _circles(heap.xy / scale, heap.r)
    reach = float((np.hypot(heap.xy[:, 0], heap.xy[:, 1]) + heap.r).max())
    fit = (1 - RIM_SHARE) / reach
    return _circles(heap.xy * fit, heap.r * fit * scale)


def _circles(xy: Floats, r: Floats) -> Floats:
    return np.concatenate([xy, r[:, None]], axis=1)
