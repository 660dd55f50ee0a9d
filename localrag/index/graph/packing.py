"""Circles that must not overlap: pushed apart with as little movement as possible, many small heaps of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localrag.index.graph.columns import Floats, Ints

TURN = np.pi * (3 - np.sqrt(5))  # the golden angle: points on a spiral by it fill a disc evenly
GAP = 1.03  # circles are pushed as far apart as if they were this much larger: their rims stay apart
DENSE = 64  # circles; of more, only those near each other are looked at
ROUNDS = 200
_NEAR = 5  # rounds that a list of near circles serves
_WIDTHS = (4, 6, 8, 12, 16, 24, 32, 48, DENSE)  # heaps are filled up to one of these numbers, so that many are worked on at once
_AT_ONCE = 300_000  # pairs of circles that are worked on together


@dataclass(frozen=True, slots=True)
class Heap:
    """Circles around the origin: centres (n, 2) and radii (n)."""

    xy: Floats
    r: Floats


def spiral(n: int) -> Floats:
    """`n` points that fill the unit disc evenly, the first in the middle."""
    k = np.arange(n)
    far = np.sqrt((k + 0.5) / max(n, 1)) if n > 1 else np.zeros(n)
    return np.stack([far * np.cos(k * TURN), far * np.sin(k * TURN)], axis=1)


def pushed_apart(heaps: Sequence[Heap], rounds: int = ROUNDS) -> list[Floats]:
    """The centres of each heap's circles once none overlaps another, or as near to that as it got."""
    found: list[Floats] = [heap.xy for heap in heaps]
    kinds: dict[int, list[int]] = {}
    for n, heap in enumerate(heaps):
        k = len(heap.r)
        if k > DENSE:
            found[n] = _push_near(heap, rounds)
        elif k > 1:
            kinds.setdefault(next(w for w in _WIDTHS if w >= k), []).append(n)
    for width, some in kinds.items():
        step = max(1, _AT_ONCE // width**2)
        for at in range(0, len(some), step):
            few = some[at : at + step]
            for n, xy in zip(few, _push_all([heaps[n] for n in few], width, rounds), strict=True):
                found[n] = xy
    return found


def _push_all(heaps: Sequence[Heap], width: int, rounds: int) -> list[Floats]:
    """Many small heaps at once; each is left as it is once its circles are apart."""
    xy, r = np.zeros((len(heaps), width, 2)), np.zeros((len(heaps), width))
    for n, heap in enumerate(heaps):
        xy[n, : len(heap.r)], r[n, : len(heap.r)] = heap.xy, heap.r
    off = np.eye(width, dtype=bool)[None] | (r[:, :, None] == 0) | (r[:, None] == 0)
    want = np.where(off, 0, (r[:, :, None] + r[:, None]) * GAP)
    area = r * r
    weight = area[:, None] / np.maximum(area[:, None] + area[:, :, None], 1e-300)  # the larger moves less
    todo = np.arange(len(heaps))
    for _ in range(rounds):
        some, apart = xy[todo], want[todo]
        dx, dy = some[:, :, None, 0] - some[:, None, :, 0], some[:, :, None, 1] - some[:, None, :, 1]
        far = np.sqrt(dx * dx + dy * dy)
        over = np.maximum(apart - far, 0)
        moving = (over > apart * (1 - 1 / GAP)).any(axis=(1, 2))
        if not moving.any():
            break
        todo, share = todo[moving], (over / np.maximum(far, 1e-12) * weight[todo])[moving]
        xy[todo, :, 0] += (dx[moving] * share).sum(axis=2)
        xy[todo, :, 1] += (dy[moving] * share).sum(axis=2)
    return [xy[n, : len(heap.r)] for n, heap in enumerate(heaps)]


def _push_near(heap: Heap, rounds: int) -> Floats:
    """One large heap."""
    r, xy = heap.r, heap.xy.copy()
    area, a, b = r * r, np.empty(0, np.int64), np.empty(0, np.int64)
    for n in range(rounds):
        if n % _NEAR == 0:
            a, b = near(xy, r, 1.2)
        apart = xy[a] - xy[b]
        far, want = np.hypot(apart[:, 0], apart[:, 1]), (r[a] + r[b]) * GAP
        over = np.maximum(want - far, 0)
        if n % _NEAR == 0 and not (over > want * (1 - 1 / GAP)).any():
            break
        push = apart * (over / np.maximum(far, 1e-12) / (area[a] + area[b]))[:, None]
        for axis in (0, 1):
            xy[:, axis] += np.bincount(a, push[:, axis] * area[b], len(r)) - np.bincount(b, push[:, axis] * area[a], len(r))
    return xy


def near(xy: Floats, r: Floats, reach: float = 1.0) -> tuple[Ints, Ints]:
    """Pairs of circles that would overlap if all were `reach` times as large, each pair once.

    Circles are looked at by size, each with those of its own size and smaller: one large circle makes no small ones neighbours.
    """
    size = np.floor(np.log2(r.max() / np.maximum(r, r.max() * 1e-6))).astype(np.int64)
    firsts, seconds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for c in np.unique(size):
        own, less = np.flatnonzero(size == c), np.flatnonzero(size >= c)
        most = (r[own].max() + r[less].max()) * reach * GAP
        if len(own) * len(less) <= 4_000_000:
            found = np.nonzero(np.hypot(*(xy[own][:, None] - xy[less][None]).transpose(2, 0, 1)) < most)
            a, b = own[found[0]], less[found[1]]
        else:
            from scipy.spatial import cKDTree  # takes half a second to load

            pairs = cKDTree(xy[own]).sparse_distance_matrix(cKDTree(xy[less]), most, output_type="coo_matrix")
            a, b = own[pairs.row], less[pairs.col]
        once = (size[b] > c) | (a < b)
        a, b = a[once], b[once]
        close = np.hypot(*(xy[a] - xy[b]).T) < (r[a] + r[b]) * reach * GAP
        firsts.append(a[close])
        seconds.append(b[close])
    return np.concatenate(firsts), np.concatenate(seconds)


def largest_scale(heap: Heap) -> float:
    """By how much all radii may be multiplied, at most 1, so that no circle overlaps another."""
    k = len(heap.r)
    if k < 2:
        return 1.0
    if k > DENSE:
        a, b = near(heap.xy, heap.r)
        return min(1.0, float((np.hypot(*(heap.xy[a] - heap.xy[b]).T) / (heap.r[a] + heap.r[b])).min(initial=1.0)))
    apart = np.hypot(*(heap.xy[:, None] - heap.xy[None]).transpose(2, 0, 1)) + np.eye(k) * 1e300
    return min(1.0, float((apart / (heap.r[:, None] + heap.r[None])).min()))


def free_place(wanted: Floats, radius: float, xy: Floats, r: Floats) -> Floats:
    """The centre nearest to a wanted one, of those looked at, where a circle overlaps none of the others."""
    around = spiral(256)
    for reach in radius * 3.0 ** np.arange(8):
        found = wanted + around * reach
        free = (np.hypot(*(found[:, None] - xy[None]).transpose(2, 0, 1)) >= (r[None] + radius) * GAP).all(axis=1)
        if free.any():
            place: Floats = found[int(np.argmax(free))]
            return place
    return wanted
