"""The graph's picture over HTTP: what the block of numbers holds, and names only for the picture they belong to."""

import json

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from localrag.records import Entity, Graph, GraphLayout, Relationship
from localrag.serializers import NotFound
from localrag.serve import api
from localrag.serve.context import ServerContext
from localrag.store import generations, runs
from localrag.store.opening import open_index
from tests.graphs import detect_communities, lay_out_records, staged_graph
from tests.indexing.graph.test_layout import made_graph


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an index of a graph; the graph, its communities, its layout."""
    folder = tmp_path_factory.mktemp("graph") / ".localrag"
    plain = made_graph(12, 30, seed=2, alone=10)
    kinds = ("person", "place", "event")
    entities = tuple(Entity(e.id, f"Name {e.id}", kinds[n % 3], degree=e.degree) for n, e in enumerate(plain.entities))
    rows = tuple(Relationship(r.id, r.source_id, r.target_id, weight=1.0 + n % 7) for n, r in enumerate(plain.relationships))
    graph = Graph(entities, rows)
    levels = detect_communities(graph, max_size=10, seed=0)
    layout = lay_out_records(graph, levels, GraphLayout())
    db = open_index(folder, create=True)
    generations.publish(db, staged_graph(db, graph, levels), layout=layout, settings={"graph_hash": "one", "layout_hash": "one"})
    db.close()
    return folder, graph, levels, layout


@pytest.fixture
def client(made):
    return client_of(made[0])


def client_of(folder):
    site = ServerContext(folder, folder.parent, None, None, folder / "inbox")  # nothing here asks a model or starts a run
    return TestClient(Starlette(routes=api.graph_routes(site)))


def read(data):
    """The block, read as the page reads it, with nothing of the code that made it."""
    head = np.frombuffer(data, "<u4", 12).tolist()
    assert head[:2] == [0x3147524C, 1]
    n, e, c, k = head[2:6]
    at_n, at_e, at_c, at_k, end, rest = head[6:]
    f = np.frombuffer(data, "<f4", (end - 48) // 4, 48)
    u = np.frombuffer(data, "<u4", (end - 48) // 4, 48)

    def column(kind, start, i, length):
        first = (start - 48) // 4 + i
        return kind[first : first + length]

    nodes = {
        name: column(kind, at_n, i * n, n) for i, (name, kind) in enumerate(zip("x y r below type".split(), [f, f, f, u, u], strict=True))
    }
    circles = {
        name: column(kind, at_c, i * c, c)
        for i, (name, kind) in enumerate(zip("x y r level above size".split(), [f, f, f, u, u, u], strict=True))
    }
    edges = {"ends": column(u, at_e, 0, 2 * e).reshape(-1, 2), "weight": column(f, at_e, 2 * e, e)}
    links = {"ends": column(u, at_k, 0, 2 * k).reshape(-1, 2), "weight": column(f, at_k, 2 * k, k)}
    assert len(data) == end + rest
    return nodes, edges, circles, links, json.loads(data[end:])


def test_the_block_holds_the_graph(made, client):
    """Every entity with its place, type and community by rank, every relationship by weight, communities with those above them."""
    _, graph, levels, layout = made
    answer = client.get("/api/graph.bin")
    nodes, edges, circles, _, rest = read(answer.content)
    ranked = sorted(graph.entities, key=lambda e: (-e.degree, e.id))
    place = {p.id: p for p in layout.entities}
    assert nodes["x"].tolist() == pytest.approx([place[e.id].x for e in ranked], rel=1e-5)
    assert nodes["r"].tolist() == pytest.approx([place[e.id].r for e in ranked], rel=1e-5)
    assert [rest["types"][k] for k in nodes["type"]] == [e.type for e in ranked]
    number = {e.id: n for n, e in enumerate(ranked)}
    assert edges["weight"].tolist() == sorted((r.weight for r in graph.relationships), reverse=True)
    expected = {frozenset((number[r.source_id], number[r.target_id])): r.weight for r in graph.relationships}
    assert {frozenset(ends): w for ends, w in zip(edges["ends"].tolist(), edges["weight"].tolist(), strict=True)} == expected
    assert circles["size"].sum() >= len(ranked)
    above = circles["above"].astype(np.int64)
    inner = np.flatnonzero(above != 0xFFFFFFFF)
    assert (above[inner] < inner).all()
    assert (circles["size"][inner] < circles["size"][above[inner]]).all()
    assert rest["graph"] == answer.headers["x-graph"]
    assert levels


def test_names_and_titles_by_number(made, client):
    """Names in the numbers of the picture; ids back to numbers; numbers that are none are left out."""
    ranked = sorted(made[1].entities, key=lambda e: (-e.degree, e.id))
    tag = client.get("/api/graph.bin").headers["x-graph"]
    found = client.get("/api/graph/names", params={"numbers": "3,0,99999", "graph": tag}).json()
    shown = [{"number": n, "id": ranked[n].id, "name": ranked[n].name, "type": ranked[n].type, "degree": ranked[n].degree} for n in (3, 0)]
    assert found == {"graph": tag, "names": shown}
    assert client.get("/api/graph/number", params={"entity": ranked[7].id}).json() == {"graph": tag, "number": 7, "numbers": [7]}
    both = client.get("/api/graph/number", params=[("entity", ranked[4].id), ("entity", ranked[2].id)])
    assert both.json()["numbers"] == [4, 2]
    circle = client.get("/api/graph/communities", params={"numbers": "0"}).json()["communities"][0]
    assert circle.keys() == {"number", "id", "level", "title", "label"}
    assert client.get("/api/graph/number", params={"community": circle["id"]}).json()["number"] == 0


def test_a_community_that_is_all_of_the_one_above_is_that_one(made, client):
    """Carried down a level it has no circle of its own; its id leads to the circle there is."""
    levels = {c.id: c for c in made[2]}
    carried = next(c for c in made[2] if c.parent_id and len(levels[c.parent_id].entity_ids) == len(c.entity_ids))
    numbers = [client.get("/api/graph/number", params={"community": i}).json()["number"] for i in (carried.id, carried.parent_id)]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/graph/names?numbers=x", ValueError),
        ("/api/graph/names?numbers=" + ",".join(map(str, range(501))), ValueError),
        ("/api/graph/number", ValueError),
        ("/api/graph/number?entity=nobody", NotFound),
        ("/api/graph/names?numbers=1&graph=other", 409),
        ("/api/graph/communities?numbers=1&graph=other", 409),
    ],
)
def test_what_cannot_be_answered_is_said(client, path, status):
    """Bad numbers, too many, unknown ids, numbers of another picture."""
    if isinstance(status, int):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, "other_graph")
    else:
        with pytest.raises(status):
            client.get(path)


def test_the_block_is_sent_once(client):
    """Who has it is told so."""
    first = client.get("/api/graph.bin")
    assert client.get("/api/graph.bin", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_a_new_generation_is_a_new_picture(made, tmp_path):
    """After another graph was published the tag is another one, and names are refused for the numbers of the old."""
    folder = tmp_path / ".localrag"
    _, graph, levels, layout = made
    db = open_index(folder, create=True)
    generations.publish(db, staged_graph(db, graph, levels), layout=layout, settings={"graph_hash": "one", "layout_hash": "one"})
    client = client_of(folder)
    tag = client.get("/api/graph.bin").headers["x-graph"]
    runs.save_settings(db, graph_hash="two")
    other = client.get("/api/graph.bin", headers={"if-none-match": f'"{tag}"'})
    assert other.status_code == 200
    assert other.headers["x-graph"] != tag
    assert client.get("/api/graph/names", params={"numbers": "1", "graph": tag}).status_code == 409
    db.close()


def test_an_empty_graph_is_an_empty_picture(tmp_path):
    """An index without a graph: no nodes, no error."""
    open_index(tmp_path / ".localrag", create=True).close()
    nodes, edges, circles, links, rest = read(client_of(tmp_path / ".localrag").get("/api/graph.bin").content)
    assert [len(nodes["x"]), len(edges["ends"]), len(circles["x"]), len(links["ends"])] == [0, 0, 0, 0]
    assert rest["types"] == []
