"""The graph as GraphML and GEXF, for Gephi, Cytoscape, yEd, igraph and other programs that draw and measure networks.

networkx writes both. What XML 1.0 cannot hold is replaced; nothing is missing from one node that another has but a place in the picture.
"""

from colorsys import hls_to_rgb
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.exchange.plain import clean
from localrag.store import tables

HUES = 12  # as on the page: a community of level 0 has the hue of its number


def write_graphml(db: Database, path: Path, level: int | None = None) -> dict[str, int]:
    """Write GraphML: places, size and colour are attributes x, y, size, r, g, b, which Gephi takes for what they are."""
    import networkx as nx

    graph = made_graph(db, level)
    for _, node in graph.nodes(data=True):
        place = node.pop("viz")
        node |= {"size": place["size"], **{c: place["color"][c] for c in "rgb"}, **place.get("position", {})}
        node.pop("z", None)
    nx.write_graphml(graph, path, edge_id_from_attribute="id", named_key_ids=True)
    return _counts(graph)


def write_gexf(db: Database, path: Path, level: int | None = None) -> dict[str, int]:
    """Write GEXF 1.3, with places, sizes and colours of its viz module."""
    from networkx.readwrite.gexf import GEXFWriter

    graph = made_graph(db, level)
    writer = GEXFWriter(version="1.3")
    writer.add_graph(graph)
    for name in ("xmlns:xsi", "xsi:schemaLocation"):  # networkx misspells the vocabulary of the first
        del writer.xml.attrib[name]
    del writer.graph_element.attrib["name"]  # the format has no such attribute
    with path.open("wb") as out:
        writer.write(out)
    return _counts(graph)


def made_graph(db: Database, level: int | None = None) -> Any:
    """The entities and relationships as a networkx Graph; nodes are known by the entities' ids.

    Nodes: label, type, description, degree, mentions, `community_0` and so on down to `level` (the number, as in `localrag tree`), viz.
    Edges: id, weight, strength, description.
    """
    import networkx as nx

    graph, roots = nx.Graph(), tables.roots(db)
    levels = tables.levels(db, level)
    for row in tables.entities(db):
        node: dict[str, Any] = {name: clean(row[name]) for name in ("type", "description")}
        node |= {"label": clean(row["name"]), "degree": row["degree"], "mentions": row["mentions"]}
        if row["vector"]:
            node["structural_vector"] = " ".join(f"{n:.6g}" for n in row["vector"])
        graph.add_node(row["id"], **node, **{f"community_{n}": "" for n in levels}, viz=_viz(row, roots.get(row["id"], 0)))
    for row in tables.members(db, level):
        graph.nodes[row["entity_id"]][f"community_{row['level']}"] = row["number"]
    for row in tables.relationships(db):
        edge = {"id": row["id"], "weight": float(row["weight"]), "strength": float(row["strength"])}
        graph.add_edge(row["source_id"], row["target_id"], **edge, description=clean(row["description"]))
    return graph


def _viz(row: dict[str, Any], root: int) -> dict[str, Any]:
    red, green, blue = (round(255 * c) for c in hls_to_rgb((root % HUES) * 137.5 % 360 / 360, 0.42, 0.6))
    viz: dict[str, Any] = {"color": {"r": red, "g": green, "b": blue, "a": 1.0}, "size": float(row["r"] or 1.0)}
    if row["x"] is not None:
        viz["position"] = {"x": float(row["x"]), "y": float(row["y"]), "z": 0.0}
    return viz


def _counts(graph: Any) -> dict[str, int]:
    return {"entities": graph.number_of_nodes(), "relationships": graph.number_of_edges()}
