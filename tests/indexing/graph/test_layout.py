"""The graph's picture: circles inside circles, the same for the same graph, and little moved by an update."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from localrag.records import Community, Entity, Graph, GraphLayout, Position, Relationship
from tests.graphs import detect_communities, lay_out_records, overlapping

MOVED = 0.02  # of the picture's radius, at most, where nothing changed


def made_graph(groups, size, seed, alone=0):
    """Groups of entities that are related mostly among themselves, and some entities without a relationship."""
    draw = Random(seed)
    names = [f"e{n:04}" for n in range(groups * size + alone)]
    pairs = set()
    for n in range(groups * size):
        first = n - n % size
        pairs |= {tuple(sorted((n, first + draw.randrange(size)))) for _ in range(3)}
        if draw.random() < 0.15:
            pairs.add(tuple(sorted((n, draw.randrange(groups * size)))))
    return graph_of(names, [(names[a], names[b]) for a, b in sorted(pairs) if a != b])


def graph_of(names, pairs):
    degree = {n: sum(n in pair for pair in pairs) for n in names}
    entities = tuple(Entity(n, n, "person", degree=degree[n]) for n in names)
    return Graph(entities, tuple(Relationship(f"{a}-{b}", a, b) for a, b in pairs))


@pytest.fixture(scope="module")
def graph():
    return made_graph(20, 40, seed=3, alone=120)


@pytest.fixture(scope="module")
def levels(graph):
    return detect_communities(graph, max_size=10, seed=0)


@pytest.fixture(scope="module")
def layout(graph, levels):
    return lay_out_records(graph, levels, GraphLayout())


def at(places):
    return {p.id: np.array([p.x, p.y, p.r]) for p in places}


def overlaps_by_force(places):
    """Every pair of circles looked at."""
    rows = [(p.id, p.x, p.y, p.r) for p in places]
    return [(a, b) for n, (a, x, y, r) in enumerate(rows) for b, u, v, s in rows[n + 1 :] if np.hypot(x - u, y - v) < (r + s) * (1 - 1e-6)]


def test_everything_has_a_place(graph, levels, layout):
    """Every entity and every community has one circle of some size."""
    assert sorted(p.id for p in layout.entities) == sorted(e.id for e in graph.entities)
    assert sorted(p.id for p in layout.communities) == sorted(c.id for c in levels)
    assert all(p.r > 0 for p in (*layout.entities, *layout.communities))
    assert np.isfinite([(p.x, p.y, p.r) for p in (*layout.entities, *layout.communities)]).all()


def test_circles_of_a_level_do_not_overlap(levels, layout):
    """Neither communities of one level nor entities: looked at pair by pair, and by the function that finds them quickly."""
    level = {c.id: c.level for c in levels}
    for n in set(level.values()):
        some = [p for p in layout.communities if level[p.id] == n]
        assert overlaps_by_force(some) == overlapping(some) == []
    assert overlaps_by_force(layout.entities) == []


def test_overlaps_are_found():
    """The quick look finds just the pairs that a look at every pair finds."""
    draw = Random(5)
    places = [Position(str(n), draw.random() * 30, draw.random() * 30, draw.choice([0.1, 0.5, 3.0])) for n in range(300)]
    expected = {frozenset(pair) for pair in overlaps_by_force(places)}
    assert expected
    assert {frozenset(pair) for pair in overlapping(places)} == expected


def test_circles_lie_inside_those_above(levels, layout):
    """A community lies within its parent, an entity within its deepest community."""
    circle, dot = at(layout.communities), at(layout.entities)

    def inside(small, large):
        return np.hypot(*(small - large)[:2]) + small[2] <= large[2] * (1 + 1e-9)

    assert all(inside(circle[c.id], circle[c.parent_id]) for c in levels if c.parent_id)
    deepest = {e: c.id for c in sorted(levels, key=lambda c: c.level) for e in c.entity_ids}
    assert all(inside(dot[e], circle[c]) for e, c in deepest.items())


def test_areas_go_with_members(levels, layout):
    """Side by side, twice the members take twice the area: at the top, and within one circle."""
    size, circle = {c.id: len(c.entity_ids) for c in levels}, at(layout.communities)
    for parent in {c.parent_id for c in levels}:
        density = [circle[c.id][2] ** 2 / size[c.id] for c in levels if c.parent_id == parent]
        assert max(density) <= min(density) * (1 + 1e-6)


def test_the_same_graph_has_the_same_places(graph, levels, layout):
    """Whatever the order in which entities, relationships and communities are given."""
    mixed = Random(1)
    shuffled = Graph(
        tuple(mixed.sample(graph.entities, len(graph.entities))), tuple(mixed.sample(graph.relationships, len(graph.relationships)))
    )
    assert lay_out_records(shuffled, mixed.sample(levels, len(levels)), GraphLayout()) == layout


def test_a_graph_that_did_not_change_does_not_move(graph, levels, layout):
    """Laid out again from its own places, everything stays where it is."""
    again = lay_out_records(graph, levels, layout)
    for before, now in ((layout.communities, again.communities), (layout.entities, again.entities)):
        old, new = at(before), at(now)
        assert max(np.abs(old[i] - new[i]).max() for i in old) < 1e-6


def test_an_added_document_hardly_moves_what_it_does_not_touch(graph, levels, layout):
    """With a dozen new entities, communities that live on unchanged move less than MOVED of the picture, most not at all."""
    new = [f"n{n:02}" for n in range(12)]
    pairs = [(r.source_id, r.target_id) for r in graph.relationships]
    pairs += [(a, b) for a, b in pairwise(new)] + [(new[0], "e0003"), (new[5], "e0004"), (new[7], "e0500")]
    grown = graph_of([e.id for e in graph.entities] + new, pairs)
    after = detect_communities(grown, max_size=10, seed=0, before=levels)
    moved = lay_out_records(grown, after, layout)
    was, now = {c.id: set(c.entity_ids) for c in levels}, {c.id: set(c.entity_ids) for c in after}
    same = [i for i in was if was[i] == now.get(i)]
    old, place = at(layout.communities), at(moved.communities)
    radius = max(np.hypot(x, y) + r for x, y, r in old.values())
    top = {c.id for c in after if c.level == 0}
    far = np.array([np.hypot(*(old[i] - place[i])[:2]) for i in same if i in top]) / radius
    assert len(far) > 10
    assert far.max() < MOVED
    assert np.median(far) < 1e-6
    everything = [p for p in moved.communities if p.id in top]
    assert overlaps_by_force(everything) == []
    assert {p.id for p in moved.entities} == {e.id for e in grown.entities}


def test_what_leaves_the_graph_leaves_the_picture(graph, levels, layout):
    """Without a community the others stay where they were, and it has no place."""
    gone = max((c for c in levels if c.level == 0), key=lambda c: len(c.entity_ids))
    left = Graph(
        tuple(e for e in graph.entities if e.id not in gone.entity_ids),
        tuple(r for r in graph.relationships if not {r.source_id, r.target_id} & set(gone.entity_ids)),
    )
    kept = [c for c in levels if not set(c.entity_ids) & set(gone.entity_ids)]
    now = lay_out_records(left, kept, layout)
    old, new = at(layout.communities), at(now.communities)
    assert set(new) == {c.id for c in kept}
    assert max(np.abs(old[i] - new[i]).max() for i in new) < 1e-6
    assert {p.id for p in now.entities} == {e.id for e in left.entities}


def test_the_links_are_the_heaviest_of_each_community(levels, layout, graph):
    """Every community that is joined to others of its level has a link, those kept join communities of their level, with their sums."""
    level, home = {c.id: c.level for c in levels}, {}
    for c in levels:
        home |= {(c.level, e): c.id for e in c.entity_ids}
    for link in layout.edges:
        assert level[link.a] == level[link.b] == link.level
        ends = {link.a, link.b}
        joins = [r for r in graph.relationships if {home[link.level, r.source_id], home[link.level, r.target_id]} == ends]
        assert link.weight == sum(r.weight for r in joins) > 0
    joined = {home[0, r.source_id] for r in graph.relationships if home[0, r.source_id] != home[0, r.target_id]}
    assert joined <= {i for link in layout.edges for i in (link.a, link.b)}


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_the_smallest_graphs(n):
    """No entity, one, a few, with and without communities."""
    names = [f"e{i}" for i in range(n)]
    graph = graph_of(names, [("e0", "e1")] if n > 1 else [])
    for some in ([], [Community("c", 0, 0, None, tuple(names))] if n else []):
        made = lay_out_records(graph, some, GraphLayout())
        assert len(made.entities) == n
        assert len(made.communities) == len(some)
        assert overlaps_by_force(made.entities) == []


def test_entities_in_no_community_lie_around_the_others(graph, levels, layout):
    """They are outside of every circle, and the others stay where they are."""
    lost = replace(graph, entities=(*graph.entities, Entity("x1", "x1", "person"), Entity("x2", "x2", "person")))
    made = at(lay_out_records(lost, levels, layout).entities)
    reach = max(np.hypot(p.x, p.y) + p.r for p in layout.communities)
    assert all(np.hypot(*made[i][:2]) - made[i][2] > reach for i in ("x1", "x2"))
