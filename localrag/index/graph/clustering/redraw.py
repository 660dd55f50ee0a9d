"""Places after a change: only circles whose content is another are laid out again, each within the circle that it has.

A new community takes a free place beside the others of the one above it; where there is none, that one's content is laid out again.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from localrag.index.graph.layout import LINKS, RIM, lay_out
from localrag.index.graph.merging.rows import entity_of_row, relationship_of_row
from localrag.index.graph.packing import free_place
from localrag.records import Community, CommunityLink, Graph, Layout, Place
from localrag.store import places
from localrag.store.levels import below, members
from localrag.store.staged import AMONG, Staged

SMALLER = (1.0, 0.7, 0.5)  # of its size, at which a new community is tried to be placed
REMEMBERED = 100_000  # entities whose communities are not looked up again
COMPARED = 200  # communities beside a new one that say how large one of its size is drawn
LINKED = 500  # entities of a community whose links are counted again; those of larger ones stay as they are
Circle = tuple[float, float, float]


def redraw(staged: Staged, changed: Collection[str]) -> Layout:
    """The places that are others than before, where these communities are; all else stays where it is."""
    rows = {key: row for key in sorted(changed) if (row := staged.row("communities", key))}
    circles = places.circles(staged.db, {*rows, *(row[3] for row in rows.values() if row[3])})
    roots, inserted = _roots(staged, rows, circles)
    if not roots:
        return Layout((), (), _links(staged, rows))
    levels = [c for root in sorted(roots) for c in _subtree(staged, root)]
    entities = sorted({e for c in levels if c.id in roots for e in c.entity_ids})
    before = _before(staged, entities, [c.id for c in levels])
    drawn = lay_out(_graph(staged, entities), levels, before)
    frames = _frames(levels, roots, drawn.communities, {**circles, **inserted})
    home = {e: c.id for c in levels if c.id in roots for e in c.entity_ids}
    root = {c.id: home[c.entity_ids[0]] for c in levels}
    return Layout(
        tuple(_moved(p, frames[home[p.id]]) for p in drawn.entities),
        tuple(_moved(p, frames[root[p.id]]) for p in drawn.communities),
        _links(staged, rows),
    )


def _roots(staged: Staged, rows: dict[str, tuple[object, ...]], circles: dict[str, Circle]) -> tuple[set[str], dict[str, Circle]]:
    """The communities whose content is laid out again, none inside another; and the circles of those that are new."""
    deepest = staged.most("communities", "level")
    roots: set[str] = set()
    inserted: dict[str, Circle] = {}
    for key, (_, level, _, above) in sorted(rows.items(), key=lambda item: (item[1][1], item[0])):
        if key in circles:
            if level == deepest:
                roots.add(key)
        elif above is None or (above in circles and above not in roots):
            circle = _free_circle(staged, key, above, circles, inserted)
            if circle:
                inserted[key] = circle
            roots.add(key if circle else str(above))
    inside = {key for key in roots if _ancestors(staged, key) & roots}
    return roots - inside, inserted


def _ancestors(staged: Staged, key: str) -> set[str]:
    found: set[str] = set()
    row = staged.row("communities", key)
    while row and row[3]:
        found.add(row[3])
        row = staged.row("communities", row[3])
    return found


def _free_circle(staged: Staged, key: str, above: object, circles: dict[str, Circle], inserted: dict[str, Circle]) -> Circle | None:
    """A place for a new community among those of the one above it, or of the world; None where nothing is free."""
    beside = below(staged, str(above)) if above else [k for (k,) in staged.rows("communities", "t.level = 0", columns="t.id")]
    beside = [k for k in beside if k != key]
    known = list((places.circles(staged.db, beside) | {k: inserted[k] for k in beside if k in inserted}).items())
    sizes = _sizes(staged, [key, *(k for k, _ in known[:COMPARED])])
    xyr = np.array([circle for _, circle in known], np.float64).reshape(-1, 3)
    unit = float(np.median(xyr[:COMPARED, 2] / np.sqrt([sizes[k] for k, _ in known[:COMPARED]]))) if known else 1.0
    x, y, around = circles[str(above)] if above else (0.0, 0.0, np.inf)
    own = np.array(list(places.points(staged.db, members(staged, key)).values()), np.float64).reshape(-1, 3)[:, :2]
    own = own[np.hypot(own[:, 0] - x, own[:, 1] - y) < around]
    wanted = own.mean(axis=0) if len(own) else np.array([x, y])
    for smaller in SMALLER if above else SMALLER[:1]:
        r = unit * float(np.sqrt(sizes[key])) * smaller
        place = free_place(wanted, r, xyr[:, :2], xyr[:, 2])
        free = (np.hypot(*(xyr[:, :2] - place).T) >= xyr[:, 2] + r).all()
        if free and np.hypot(place[0] - x, place[1] - y) + r <= around * (1 - RIM / 4):
            return float(place[0]), float(place[1]), r
    return None if above else (float(xyr[:, 0].max(initial=0) + xyr[:, 2].max(initial=0) + unit * sizes[key]), 0.0, unit)


def _sizes(staged: Staged, communities: Sequence[str]) -> Counter[str]:
    keys, counted = [json.dumps(list(communities))], "t.community_id, count(*)"
    found = Counter[str]()
    for key, n in staged.rows("members", f"t.community_id {AMONG}", keys, counted, "GROUP BY t.community_id"):
        found[key] += n
    return found


def _subtree(staged: Staged, root: str) -> list[Community]:
    """A community and all inside of it, as levels of their own."""
    found = list[Community]()
    left: list[tuple[str, int, str | None]] = [(root, 0, None)]
    while left:
        key, level, above = left.pop()
        found.append(Community(key, level, 0, above, tuple(members(staged, key))))
        left += [(k, level + 1, key) for k in below(staged, key)]
    return found


def _before(staged: Staged, entities: Iterable[str], communities: Iterable[str]) -> Layout:
    points, circles = places.points(staged.db, entities), places.circles(staged.db, communities)
    return Layout(tuple(Place(k, *c) for k, c in points.items()), tuple(Place(k, *c) for k, c in circles.items()))


def _graph(staged: Staged, entities: Sequence[str]) -> Graph:
    keys, inside = json.dumps(entities), set(entities)
    related = staged.rows("relationships", f"t.source_id {AMONG}", [keys])
    return Graph(
        tuple(entity_of_row(row) for row in staged.rows("entities", f"t.id {AMONG}", [keys])),
        tuple(relationship_of_row(row) for row in related if row[2] in inside),
    )


def _frames(
    levels: Sequence[Community], roots: Collection[str], drawn: Sequence[Place], circles: dict[str, Circle]
) -> dict[str, tuple[Circle, Circle]]:
    """Where each community's content was drawn, and where it belongs."""
    found = {p.id: (p.x, p.y, p.r) for p in drawn}
    return {c.id: (found[c.id], circles[c.id]) for c in levels if c.id in roots}


def _moved(place: Place, frame: tuple[Circle, Circle]) -> Place:
    (ax, ay, ar), (x, y, r) = frame
    scale = r / ar
    return Place(place.id, x + (place.x - ax) * scale, y + (place.y - ay) * scale, place.r * scale)


def _links(staged: Staged, rows: dict[str, tuple[object, ...]]) -> tuple[CommunityLink, ...]:
    """The heaviest links of changed communities that are not large, to others of their level."""
    sizes = _sizes(staged, [*rows, *(str(row[3]) for row in rows.values() if row[3])])
    homes, found = _Homes(staged), []
    for key, (_, level, _, above) in rows.items():
        if sizes[key] > LINKED or (above and sizes[key] == sizes[str(above)]):
            continue
        own = members(staged, key)
        near: defaultdict[str, float] = defaultdict(float)
        for mine, theirs in (("source_id", "target_id"), ("target_id", "source_id")):
            for other, weight in staged.rows("relationships", f"t.{mine} {AMONG}", [json.dumps(own)], f"t.{theirs}, t.weight"):
                near[other] += weight
        weights: Counter[str] = Counter()
        for entity, home in homes.at(int(str(level)), near.keys() - set(own)):
            weights[home] += near[entity]  # type: ignore[assignment]
        most = sorted(weights, key=lambda k, weights=weights: (-weights[k], k))[:LINKS]  # type: ignore[misc]
        found += [CommunityLink(int(str(level)), min(key, k), max(key, k), float(weights[k])) for k in most]
    return tuple({(link.a, link.b): link for link in found}.values())


class _Homes:
    """In which community of each level entities are; what was looked up is remembered, for neighbours of one are those of others."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._levels: dict[str, tuple[int, str]] = {}  # community → its level, and its id as one object
        self._of: dict[str, dict[int, str]] = {}

    def at(self, level: int, entities: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Entities with the community of this level that each is in."""
        asked = sorted(entities)
        if len(self._of) > REMEMBERED:
            self._of.clear()
        new = [e for e in asked if e not in self._of]
        rows = list(self._staged.rows("members", f"t.entity_id {AMONG}", [json.dumps(new)], "t.entity_id, t.community_id")) if new else []
        unknown = json.dumps(sorted({c for _, c in rows if c not in self._levels}))
        for c, n in self._staged.rows("communities", f"t.id {AMONG}", [unknown], "t.id, t.level"):
            self._levels[c] = n, c
        for entity, c in rows:
            n, home = self._levels[c]
            self._of.setdefault(entity, {})[n] = home
        return ((e, self._of[e][level]) for e in asked if level in self._of.get(e, ()))
