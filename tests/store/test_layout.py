"""The picture's places: published together with their graph, gone with it, made for an index that has none."""

import pytest

from localrag.records import Community, CommunityEdge, Entity, Graph, GraphLayout, Mention, Position, Relationship
from localrag.store import generations, layout
from localrag.store.opening import open_index
from tests.graphs import staged_graph
from tests.store.test_generations import add

pytestmark = pytest.mark.usefixtures("hashed_module")
LAYOUT = GraphLayout(
    (Position("e", 0.5, 0.25, 0.1), Position("f", -0.5, 0.25, 0.1)),
    (Position("k", 0, 0, 1), Position("m", 2, 0, 1)),
    (CommunityEdge(0, "k", "m", 2),),
)


@pytest.fixture
def db(tmp_path):
    """An index of two entities in two communities."""
    made = open_index(tmp_path / "index", create=True)
    (chunk,) = add(made, "a.txt", "Ingrid Holm met Lars Holm.")
    mentions = (Mention("e", chunk.id, "Ingrid Holm", 0, 11), Mention("f", chunk.id, "Lars Holm", 16, 25))
    graph = Graph((Entity("e", "Ingrid Holm", "person"), Entity("f", "Lars Holm", "person")), (Relationship("r", "e", "f"),), mentions)
    levels = [Community("k", 0, 0, None, ("e",)), Community("m", 0, 1, None, ("f",))]
    generations.publish(made, staged_graph(made, graph, levels), layout=LAYOUT, settings={"graph_hash": "one", "layout_hash": "one"})
    return made


def test_a_layout_is_read_as_it_was_published(db):
    """Places and links come back as they were, and another layout takes their place."""
    assert layout.load_layout(db) == LAYOUT
    other = GraphLayout((LAYOUT.entities[0], Position("f", 1, 1, 1)), LAYOUT.communities, ())
    with db.atomic():
        layout.save_layout(db, other)
    assert layout.load_layout(db) == other


def test_places_go_with_what_they_are_of(db):
    """A graph without an entity and its community has no place for them, nor a link."""
    chunk = db.execute("SELECT id FROM chunks").fetchone()[0]
    graph = Graph((Entity("e", "Ingrid Holm", "person"),), (), (Mention("e", chunk, "Ingrid Holm", 0, 11),))
    generations.publish(db, staged_graph(db, graph, [Community("k", 0, 0, None, ("e",))]), settings={"graph_hash": "two"})
    assert layout.load_layout(db) == GraphLayout(LAYOUT.entities[:1], LAYOUT.communities[:1], ())
