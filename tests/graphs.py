"""Whole graphs put into an index at once, as an index run never does: it changes the stored graph by difference. Circles that overlap."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlite_utils import Database

from localrag.indexing.graph.communities import CommunityArrays, GraphArrays, community_arrays, graph_arrays, hierarchical_leiden
from localrag.indexing.graph.layout import compute_layout, overlapping_pairs
from localrag.records import Community, Entity, Graph, GraphLayout, Position, Relationship
from localrag.store.staging import GRAPH_TABLES, GraphStaging, StagedRow


def graph_arrays_of(graph: Graph) -> GraphArrays:
    """The arrays of a graph of records."""
    return graph_arrays([(e.id, e.degree) for e in graph.entities], ((r.source_id, r.target_id, r.weight) for r in graph.relationships))


def community_arrays_of(communities: Sequence[Community], entities: Sequence[str]) -> CommunityArrays:
    """The arrays of communities of these entities, from records."""
    members = ((c.id, e) for c in communities for e in c.entity_ids)
    return community_arrays([(c.id, c.level, c.parent_id) for c in communities], members, entities)


def detect_communities(graph: Graph, **options: Any) -> list[Community]:
    """`hierarchical_leiden` on records."""
    return hierarchical_leiden(graph_arrays_of(graph), **options)


def lay_out_records(graph: Graph, communities: Sequence[Community], before: GraphLayout) -> GraphLayout:
    """`compute_layout` on records."""
    arrays = graph_arrays_of(graph)
    return compute_layout(arrays, community_arrays_of(communities, arrays.entities), before)


def staged_graph(db: Database, graph: Graph, communities: Sequence[Community]) -> GraphStaging:
    """A whole graph and its communities, to be published in place of the stored ones; reports of communities that stay, stay."""
    staged = GraphStaging(db, from_scratch=True)
    staged.upsert("entities", (_row("entities", _described(e)) for e in graph.entities))
    staged.upsert("relationships", (_row("relationships", _described(r)) for r in graph.relationships))
    staged.upsert("entity_aliases", {(m.name, m.entity_id) for m in graph.mentions})
    staged.upsert("mentions", ((m.entity_id, m.chunk_id, m.start, m.end, m.name, 0.0) for m in graph.mentions))
    staged.upsert("evidence", (_row("evidence", _columns(e)) for e in graph.evidence))
    staged.upsert("claims", (tuple(_columns(c).values()) for c in graph.claims))
    staged.upsert("communities", (_row("communities", _columns(c)) for c in communities))
    staged.upsert("community_members", ((c.id, e) for c in communities for e in c.entity_ids))
    return staged


def replace_graph(db: Database, graph: Graph, communities: Sequence[Community], input_hash: str) -> None:
    """Put a graph and its communities in place of the stored ones, in one transaction."""
    staged = staged_graph(db, graph, communities)
    with db.atomic():
        staged.publish()
        db.table("index_settings").insert({"key": "graph_hash", "value": json.dumps(input_hash)}, replace=True)


def _row(table: str, values: Mapping[str, Any]) -> StagedRow:
    return tuple(values[c] for c in GRAPH_TABLES[table].columns)


def _columns(record: Any) -> dict[str, Any]:
    """The values of a record that holds no other; `asdict` takes ten times as long, which counts for millions."""
    return {name: getattr(record, name) for name in record.__slots__}


def _described(record: Entity | Relationship) -> dict[str, Any]:
    return _columns(record) | {"descriptions": json.dumps(record.descriptions, ensure_ascii=False)}


def steps_of(db: Database, work: Callable[[], object], every: int = 10) -> int:
    """How many times `every` steps SQLite takes for some work."""
    taken: list[int] = []
    db.conn.set_progress_handler(lambda: taken.append(1), every)
    work()
    db.conn.set_progress_handler(None, 0)
    return len(taken)


def overlapping(places: Sequence[Position]) -> list[tuple[str, str]]:
    """Pairs of circles that overlap."""
    if len(places) < 2:
        return []
    xy, r = np.array([(p.x, p.y) for p in places]), np.array([p.r for p in places])
    a, b = overlapping_pairs(xy, r)
    close = np.hypot(*(xy[a] - xy[b]).T) < (r[a] + r[b]) * (1 - 1e-6)
    return [(places[i].id, places[j].id) for i, j in zip(a[close].tolist(), b[close].tolist(), strict=True)]
