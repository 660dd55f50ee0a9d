"""Structural vectors and the picture by UMAP: what belongs together lies together, and the same seed gives the same bytes."""

import json
import shutil

import igraph
import numpy as np
import pytest

from localrag.indexing.graph import layout as layout_graph
from localrag.indexing.graph.communities import community_arrays_of, detect_communities, graph_arrays_of
from localrag.indexing.graph.layout import lay_out_records
from localrag.records import Entity, Graph, GraphLayout, Mention, Relationship
from localrag.store import layout as layout_store
from localrag.store.opening import open_index
from tests.conftest import DATA, run_localrag


def structural_vectors(graph, **options):
    return layout_graph.structural_embeddings(graph_arrays_of(graph), **options)


def with_structure(graph, levels, *rest, **options):
    columns = graph_arrays_of(graph)
    return layout_graph.add_structural_embeddings(columns, community_arrays_of(levels, columns.entities), *rest, **options)


def graph_of(network):
    ids = [f"{n:04}" for n in range(network.vcount())]
    edges = tuple(Relationship(f"r{n}", ids[e.source], ids[e.target]) for n, e in enumerate(network.es))
    entities = tuple(Entity(i, i, "thing", degree=network.degree(n)) for n, i in enumerate(ids))
    return Graph(entities, edges, tuple(Mention(i, "c", i, 0, 1) for i in ids))


def karate():
    """Zachary's karate club with the two groups it broke into."""
    sides = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21}
    return igraph.Graph.Famous("Zachary"), [int(n in sides) for n in range(34)]


def football():
    """American college football of the year 2000: 115 teams in 12 conferences."""
    network = igraph.Graph.Read_GML(str(DATA / "communities" / "football.gml"))
    return network, [int(v) for v in network.vs["value"]]


def shared(points, groups, k):
    """How many of the `k` nearest of each point are of its group, and how many would be by chance."""
    far = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(far, np.inf)
    near = np.argsort(far, axis=1)[:, :k]
    groups = np.array(groups)
    same = (groups[near] == groups[:, None]).mean()
    chance = np.mean([(groups == g).sum() - 1 for g in groups]) / (len(groups) - 1)
    return float(same), float(chance)


@pytest.mark.parametrize(("made", "k", "least"), [(karate, 5, 0.85), pytest.param(football, 5, 0.8, marks=pytest.mark.ci)])
def test_neighbours_in_the_vectors_and_in_the_picture_are_of_one_community(made, k, least):
    """Far above chance; on graphs whose true groups are known."""
    if made is football and not DATA.exists():
        pytest.skip("needs the annotated data")
    network, groups = made()
    graph = graph_of(network)
    vectors = structural_vectors(graph, dimensions=16, seed=0)
    layout = with_structure(graph, detect_communities(graph, max_size=10, seed=0), GraphLayout(), "umap", dimensions=16, seed=0)
    points = np.array([(p.x, p.y) for p in layout.entities])

    same, chance = shared(vectors, groups, k)
    assert same > least
    assert chance < 0.6
    assert shared(points, groups, k)[0] > least - 0.15


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    """Of vectors and of places."""
    graph = graph_of(karate()[0])
    levels = detect_communities(graph, max_size=10, seed=0)

    def made(seed):
        return with_structure(graph, levels, GraphLayout(), "umap", dimensions=8, seed=seed)

    assert made(3) == made(3)
    assert made(3) != made(4)
    assert np.allclose(np.linalg.norm(structural_vectors(graph, dimensions=8, seed=0), axis=1), 1, atol=1e-5)


def test_circles_do_not_overlap_and_communities_hold_their_entities():
    """Also where entities have no relationship, which lie outside."""
    graph = graph_of(karate()[0] + igraph.Graph(20))
    levels = detect_communities(graph, max_size=10, seed=0)
    layout = with_structure(graph, levels, lay_out_records(graph, levels, GraphLayout()), "umap", dimensions=8, seed=0)
    xyr = np.array([(p.x, p.y, p.r) for p in layout.entities])
    gaps = np.hypot(*(xyr[:, None, :2] - xyr[None, :, :2]).transpose(2, 0, 1)) - xyr[:, None, 2] - xyr[None, :, 2]
    np.fill_diagonal(gaps, 0)

    assert gaps.min() > -0.05
    at = {p.id: p for p in layout.entities}
    circle = {p.id: p for p in layout.communities}
    for c in levels:
        assert all(np.hypot(at[e].x - circle[c.id].x, at[e].y - circle[c.id].y) <= circle[c.id].r + 1e-6 for e in c.entity_ids)
    bare = [v for key, v in layout.structural_vectors if not np.frombuffer(v, "<f4").any()]
    assert len(bare) == 20


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_small_graphs_have_places_too(n):
    """One without entities, without relationships, or with a single pair."""
    graph = graph_of(igraph.Graph.Full(n))
    layout = with_structure(graph, detect_communities(graph, max_size=10, seed=0), GraphLayout(), "umap", dimensions=8, seed=0)

    assert len(layout.entities) == len(layout.structural_vectors) == n
    assert all(np.isfinite((p.x, p.y, p.r)).all() for p in layout.entities)


@pytest.mark.ci
def test_the_command_lays_out_the_stored_graph_and_updates_keep_to_it(plain_town, tmp_path):
    """Vectors and places go with removed entities, come with new ones, and `localrag check` misses those that are not there."""
    folder = tmp_path / "town"
    shutil.copytree(plain_town, folder)

    def stored():
        db = open_index(folder / ".localrag")
        found = (
            layout_store.load_layout(db),
            layout_store.structural_embeddings(db)[0],
            sorted(i for (i,) in db.execute("SELECT id FROM entities")),
        )
        db.close()
        return found

    before = stored()[0]
    assert before.structural_vectors == ()
    assert run_localrag("layout", "--method", "umap", "--dimensions", "8", cwd=folder).returncode == 0
    first = stored()
    assert first[1] == first[2]
    assert first[0].entities != before.entities
    again = run_localrag("layout", "--method", "umap", "--dimensions", "8", cwd=folder)
    assert "so already" in again.stderr
    assert stored() == first
    (folder / "docs" / "new.txt").write_text("Ola Berg sold the lamp Petrel to Ingrid Holm in Bergen.")
    run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    second = stored()
    assert second[1] == second[2] != first[2]
    run_localrag("rm", "docs/new.txt", "-q", cwd=folder)
    (folder / "docs" / "new.txt").unlink()
    assert stored()[1] == stored()[2] == first[2]
    assert run_localrag("check", cwd=folder).returncode == 0
    db = open_index(folder / ".localrag", create=True)
    with db.atomic():
        db.execute("DELETE FROM structural_embeddings WHERE entity_id = ?", [first[1][0]])
    db.close()
    assert "no structural vector" in run_localrag("check", cwd=folder).stdout
    run_localrag("check", "--repair", cwd=folder)
    run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    assert stored()[1] == first[1]
    assert run_localrag("layout", "--method", "hierarchical", "--dimensions", "8", cwd=folder).returncode == 0
    assert {(p.id, round(p.r, 6)) for p in stored()[0].entities} == {(p.id, round(p.r, 6)) for p in before.entities}
    assert len(stored()[1]) == len(first[1])


def test_the_command_says_where_there_is_no_graph(tmp_path):
    """And no index is made by it."""
    done = run_localrag("layout", cwd=tmp_path)
    assert done.returncode == 3
    assert json.dumps([p.name for p in tmp_path.iterdir()]) == "[]"
