"""Communities of another program stay as they are, and the rest of the graph is clustered beside them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from localrag.indexing.graph.communities import cluster_around, hierarchical_leiden, remap_entity_ids, surviving_imports
from localrag.records import Community, Entity, Graph, Mention, Relationship
from tests.graphs import graph_arrays_of

TREE = [
    Community("top", 0, 0, None, ("a", "b", "c")),
    Community("left", 1, 0, "top", ("a", "b")),
    Community("right", 1, 1, "top", ("c",)),
    Community("other", 0, 1, None, ("d",)),
    Community("other below", 1, 2, "other", ("d",)),
]


def graph_of(names, pairs):
    degree = Counter(end for pair in pairs for end in pair)
    edges = tuple(Relationship(f"{a}{b}", a, b) for a, b in pairs)
    return Graph(
        tuple(Entity(n, n.upper(), "thing", degree=degree[n]) for n in names), edges, tuple(Mention(n, "c", n.upper(), 0, 1) for n in names)
    )


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("abcdefghijklmnop")), max_size=40), st.integers(2, 6))
def test_every_entity_is_in_one_community_of_every_level(pairs, most):
    """Held ones keep id, level and members; communities divide up the one above them."""
    pairs = sorted({(a, b) for a, b in pairs if a < b})
    graph = graph_of("abcdefghijklmnop", pairs)
    found = cluster_around(TREE, graph_arrays_of(graph), lambda rest: hierarchical_leiden(rest, max_size=most, seed=0))
    levels = {c.level for c in found}

    assert {(c.id, c.level, c.entity_ids) for c in TREE} <= {(c.id, c.level, c.entity_ids) for c in found}
    for level in levels:
        assert Counter(e for c in found if c.level == level for e in c.entity_ids) == Counter("abcdefghijklmnop")
        assert sorted(c.ordinal for c in found if c.level == level) == list(range(sum(c.level == level for c in found)))
    for c in found:
        below = [e for other in found if other.parent_id == c.id for e in other.entity_ids]
        assert c.level == max(levels) or sorted(below) == sorted(c.entity_ids)
    assert len({c.id for c in found}) == len(found)


def test_a_tree_ends_whole_when_text_that_it_was_made_of_is_gone():
    """Or an entity of it; other trees stay."""
    now = {n: n for n in "abcd"}
    assert surviving_imports(TREE, set(), now) == TREE
    assert [c.id for c in surviving_imports(TREE, {"c"}, now)] == ["other", "other below"]
    assert [c.id for c in surviving_imports(TREE, set(), {n: n for n in "abc"})] == ["top", "left", "right"]


def test_entities_that_were_renamed_or_became_one_stay_where_they_were():
    """One that two communities had belongs to the first."""
    found = {c.id: c.entity_ids for c in surviving_imports(TREE, set(), {"a": "A", "b": "b", "c": "A", "d": "d"})}
    assert found == {"top": ("A", "b"), "left": ("A", "b"), "other": ("d",), "other below": ("d",)}
    graph = graph_of("xb", [])
    assert remap_entity_ids({"X": "a", "B": "b", "GONE": "c"}, graph) == {"a": "x", "b": "b"}
