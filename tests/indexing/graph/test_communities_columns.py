"""A graph as columns: the same from records as from the store, whatever their order."""

import random

from localrag.indexing.graph.merge import load_community_arrays, load_graph_arrays
from localrag.records import Graph
from localrag.store.opening import open_index
from tests.graphs import community_arrays_of, detect_communities, graph_arrays_of, staged_graph
from tests.indexing.graph.test_layout import made_graph


def told(columns, levels):
    """What columns say, by ids."""
    names, ids = columns.entities, levels.ids
    related = [(names[a], names[b], w) for (a, b), w in zip(columns.edges.tolist(), columns.edge_weights.tolist(), strict=True)]
    above = [ids[n] if n >= 0 else None for n in levels.parent.tolist()]
    members = sorted((ids[c], names[e]) for c, e in levels.members.tolist())
    return names, columns.degree.tolist(), related, list(zip(ids, levels.level.tolist(), above, levels.size.tolist(), strict=True)), members


def test_columns_say_what_records_say(tmp_path):
    """Entities and what joins them in order, communities by level and size, their members; of records and of the tables of a graph."""
    graph = made_graph(12, 20, seed=4, alone=15)
    levels = detect_communities(graph, max_size=10, seed=0)
    columns = graph_arrays_of(graph)
    said = told(columns, community_arrays_of(levels, columns.entities))
    mixed = random.Random(1)
    shuffled = Graph(*(tuple(mixed.sample(some, len(some))) for some in (graph.entities, graph.relationships)))
    again = graph_arrays_of(shuffled)
    staged = staged_graph(open_index(tmp_path, create=True), graph, levels)
    stored = load_graph_arrays(staged)

    assert said[0] == sorted(e.id for e in graph.entities)
    assert said[2] == sorted((r.source_id, r.target_id, r.weight) for r in graph.relationships)
    assert {(key, level, above, size) for key, level, above, size in said[3]} == {
        (c.id, c.level, c.parent_id, len(c.entity_ids)) for c in levels
    }
    assert said[4] == sorted((c.id, e) for c in levels for e in c.entity_ids)
    assert told(again, community_arrays_of(mixed.sample(levels, len(levels)), again.entities)) == said
    assert told(stored, load_community_arrays(staged, stored.entities)) == said
    staged.discard()
