"""GraphML: read back by networkx, with every node, edge, weight and text; fit for XML and for Gephi."""

import xml.etree.ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.export import export_index
from localrag.store import export_rows, graph, layout
from localrag.text.sentences import replace_control_characters


@pytest.fixture(scope="module")
def read(opened, tmp_path_factory):
    """The graph that networkx reads from the file."""
    path = tmp_path_factory.mktemp("network") / "graph.graphml"
    export_index(opened, "graphml", path)
    return nx.read_graphml(path)


def test_every_entity_and_relationship_comes_back(opened, read):
    """Ids, names, types, descriptions, degrees, weights: all as stored, but for the characters that XML cannot hold."""
    entities, related = graph.entities(opened.db), graph.relationships(opened.db)
    assert set(read.nodes) == {e.id for e in entities}
    for e in entities:
        node = read.nodes[e.id]
        assert (node["label"], node.get("type", ""), node.get("description", "")) == (
            replace_control_characters(e.name),
            e.type,
            replace_control_characters(e.description),
        )
        assert node["degree"] == e.degree
    assert {frozenset(pair) for pair in read.edges} == {frozenset((r.source_id, r.target_id)) for r in related}
    assert not read.is_directed()
    for r in related:
        edge = read.edges[r.source_id, r.target_id]
        assert edge["id"] == r.id
        assert edge["weight"] == pytest.approx(r.weight)
        assert edge.get("description", "") == replace_control_characters(r.description)


def test_the_picture_and_the_communities_are_in_it(opened, read):
    """Places and sizes are those of the stored layout; the community of every level is the number that `tree` shows."""
    for p in layout.load_layout(opened.db).entities:
        node = read.nodes[p.id]
        assert (node["x"], node["y"], node["size"]) == pytest.approx((p.x, p.y, p.r))
        assert all(0 <= node[c] <= 255 for c in "rgb")
    for row in export_rows.community_members(opened.db):
        assert read.nodes[row["entity_id"]][f"community_{row['level']}"] == row["number"]


@given(st.text())
def test_whatever_was_cleaned_is_xml(text):
    """Any text at all can stand in XML once it is cleaned, and cleaning it again changes nothing."""
    cleaned = replace_control_characters(text)
    assert replace_control_characters(cleaned) == cleaned
    element = ET.fromstring(ET.tostring(ET.Element("a", {"b": cleaned}), encoding="unicode"))
    assert element.get("b") == cleaned
