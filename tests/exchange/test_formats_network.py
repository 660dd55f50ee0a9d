"""GraphML and GEXF: read back by networkx, with every node, edge, weight and text; fit for XML and for Gephi."""

import xml.etree.ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.export import export_index
from localrag.store import export_rows, graph, layout
from localrag.text.sentences import replace_control_characters
from tests.exchange.made import make_index

READERS = {"graphml": nx.read_graphml, "gexf": nx.read_gexf}
GEXF, VIZ = "{http://gexf.net/1.3}", "{http://gexf.net/1.3/viz}"


@pytest.fixture(scope="module", params=sorted(READERS))
def written(request, opened, tmp_path_factory):
    """A format, its file, and the graph that networkx reads from it."""
    path = tmp_path_factory.mktemp("network") / f"graph.{request.param}"
    export_index(opened, request.param, path)
    return request.param, path, READERS[request.param](path)


def test_every_entity_and_relationship_comes_back(opened, written):
    """Ids, names, types, descriptions, degrees, weights: all as stored, but for the characters that XML cannot hold."""
    kind, _, read = written
    entities, related = graph.entities(opened.db), graph.relationships(opened.db)
    assert set(read.nodes) == {e.id for e in entities}
    for e in entities:
        node = read.nodes[e.id]
        assert (node["label"], node.get("type", ""), node.get("description", "")) == (
            replace_control_characters(e.name),
            e.type,
            replace_control_characters(e.description),
        ), kind
        assert node["degree"] == e.degree
    assert {frozenset(pair) for pair in read.edges} == {frozenset((r.source_id, r.target_id)) for r in related}
    assert not read.is_directed()
    for r in related:
        edge = read.edges[r.source_id, r.target_id]
        assert edge["id"] == r.id
        assert edge["weight"] == pytest.approx(r.weight)
        assert edge.get("description", "") == replace_control_characters(r.description)


def test_the_picture_and_the_communities_are_in_it(opened, written):
    """Places and sizes are those of the stored layout; the community of every level is the number that `tree` shows."""
    kind, _, read = written
    for p in layout.load_layout(opened.db).entities:
        node = read.nodes[p.id]
        found = (
            (node["x"], node["y"], node["size"])
            if kind == "graphml"
            else (*list(node["viz"]["position"].values())[:2], node["viz"]["size"])
        )
        assert found == pytest.approx((p.x, p.y, p.r))
    for row in export_rows.community_members(opened.db):
        assert read.nodes[row["entity_id"]][f"community_{row['level']}"] == row["number"]


def test_the_level_is_the_deepest_written(opened, tmp_path):
    """Communities below the level that was asked for are left out."""
    export_index(opened, "graphml", tmp_path / "g.graphml", level=0)
    node = next(iter(nx.read_graphml(tmp_path / "g.graphml").nodes.values()))
    assert "community_0" in node
    assert "community_1" not in node


def test_gexf_is_as_its_specification_has_it(opened, tmp_path):
    """Version and elements of GEXF 1.3 in their order, colours of 0 to 255, declared attributes only, all ids unique."""
    export_index(opened, "gexf", tmp_path / "g.gexf")
    root = ET.parse(tmp_path / "g.gexf").getroot()
    assert (root.tag, root.attrib) == (f"{GEXF}gexf", {"version": "1.3"})
    assert [child.tag for child in root] == [f"{GEXF}meta", f"{GEXF}graph"]
    found = root.find(f"{GEXF}graph")
    assert found.attrib == {"defaultedgetype": "undirected", "mode": "static"}
    declared = {}
    for group in found.findall(f"{GEXF}attributes"):
        assert group.get("class") in ("node", "edge")
        declared[group.get("class")] = {one.get("id") for one in group}
        assert {one.get("type") for one in group} <= {"integer", "long", "double", "float", "boolean", "string"}
    nodes, edges = found.find(f"{GEXF}nodes"), found.find(f"{GEXF}edges")
    for kind, items in (("node", nodes), ("edge", edges)):
        ids = [item.get("id") for item in items]
        assert len(ids) == len(set(ids))
        for item in items:
            assert {value.get("for") for value in item.iter(f"{GEXF}attvalue")} <= declared[kind]
    for node in nodes:
        assert node.get("label")
        assert {child.tag for child in node} == {f"{VIZ}color", f"{VIZ}size", f"{VIZ}position", f"{GEXF}attvalues"}
        colour = node.find(f"{VIZ}color").attrib
        assert all(0 <= int(colour[c]) <= 255 for c in "rgb")
        assert float(node.find(f"{VIZ}size").get("value")) >= 0


def test_every_key_of_graphml_says_what_it_is_for(opened, tmp_path):
    """Nothing hangs on the graph itself, which Gephi refuses; no value is empty of a type."""
    export_index(opened, "graphml", tmp_path / "g.graphml")
    root = ET.parse(tmp_path / "g.graphml").getroot()
    space = root.tag.removesuffix("graphml")
    assert {key.get("for") for key in root.iter(f"{space}key")} == {"node", "edge"}
    assert not root.find(f"{space}graph").findall(f"{space}data")
    assert all("None" not in (value.text or "") for value in root.iter(f"{space}data"))


@given(st.text())
def test_whatever_was_cleaned_is_xml(text):
    """Any text at all can stand in XML once it is cleaned, and cleaning it again changes nothing."""
    cleaned = replace_control_characters(text)
    assert replace_control_characters(cleaned) == cleaned
    element = ET.fromstring(ET.tostring(ET.Element("a", {"b": cleaned}), encoding="unicode"))
    assert element.get("b") == cleaned


def test_an_index_without_a_picture_is_written_without_places(tmp_path):
    """One made by an earlier version: no x and y, and everything else."""
    old = make_index(tmp_path, ("Ada", "Bob"), layout=False)
    export_index(old, "graphml", tmp_path / "g.graphml")
    read = nx.read_graphml(tmp_path / "g.graphml")
    assert read.number_of_edges() == 1
    assert all("x" not in node for node in read.nodes.values())
