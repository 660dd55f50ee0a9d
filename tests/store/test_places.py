"""The picture's places: published together with their graph, gone with it, made for an index that has none."""

import asyncio
import shutil

import pytest

from localrag.engine.settings import EngineOptions
from localrag.index.pipeline import build_index
from localrag.opening import open_for_writing
from localrag.records import Community, CommunityLink, Entity, Graph, Layout, Mention, Place, Relationship
from localrag.store import generations, ledger, look, places
from localrag.store.check import check_index
from localrag.store.graph import staged_graph
from localrag.store.schema import open_index
from tests.store.test_generations import add

LAYOUT = Layout(
    (Place("e", 0.5, 0.25, 0.1), Place("f", -0.5, 0.25, 0.1)), (Place("k", 0, 0, 1), Place("m", 2, 0, 1)), (CommunityLink(0, "k", "m", 2),)
)


@pytest.fixture
def db(tmp_path):
    """An index of two entities in two communities."""
    made = open_index(tmp_path / "index", create=True)
    (chunk,) = add(made, "a.txt", "Ingrid Holm met Lars Holm.")
    mentions = (Mention("e", chunk.id, "Ingrid Holm", 0, 11), Mention("f", chunk.id, "Lars Holm", 16, 25))
    graph = Graph((Entity("e", "Ingrid Holm", "person"), Entity("f", "Lars Holm", "person")), (Relationship("r", "e", "f"),), mentions)
    levels = [Community("k", 0, 0, None, ("e",)), Community("m", 0, 1, None, ("f",))]
    generations.publish(made, staged_graph(made, graph, levels), layout=LAYOUT, settings={"graph": "one", "layout": "one"})
    return made


def test_a_layout_is_read_as_it_was_published(db):
    """Places and links come back as they were, and another layout takes their place, row by row."""
    assert places.load(db) == LAYOUT
    before = db.conn.total_changes
    with db.atomic():
        places.put(db, LAYOUT)
    assert db.conn.total_changes == before
    other = Layout((LAYOUT.entities[0], Place("f", 1, 1, 1)), LAYOUT.communities, ())
    with db.atomic():
        places.put(db, other)
    assert places.load(db) == other


def test_places_go_with_what_they_are_of(db):
    """A graph without an entity and its community has no place for them, nor a link."""
    chunk = db.execute("SELECT id FROM chunks").fetchone()[0]
    graph = Graph((Entity("e", "Ingrid Holm", "person"),), (), (Mention("e", chunk, "Ingrid Holm", 0, 11),))
    generations.publish(db, staged_graph(db, graph, [Community("k", 0, 0, None, ("e",))]), settings={"graph": "two"})
    assert places.load(db) == Layout(LAYOUT.entities[:1], LAYOUT.communities[:1], ())


def test_new_places_are_a_new_stamp(db):
    """Who keeps a picture is told that it changed."""
    before = look.stamp(db)
    ledger.save_settings(db, layout="two")
    assert look.stamp(db) != before


def test_an_index_without_places_is_laid_out_by_the_next_run(plain_town, tmp_path):
    """An index of an earlier version, and one whose places were lost: nothing else is redone, and a finished one is not laid out again."""
    shutil.copytree(plain_town, tmp_path / "town")
    folder = tmp_path / "town" / ".localrag"
    db = open_index(folder, create=True)
    first = places.load(db)
    assert first.entities
    with db.atomic():
        for table in ("places", "community_places", "community_links"):
            db.execute(f"DELETE FROM {table}")
        db.execute("DELETE FROM settings WHERE key = 'layout'")
    db.close()

    def stages():
        seen = set()
        with open_for_writing(folder, extractor="phrases", engine=EngineOptions()) as project:
            asyncio.run(build_index([tmp_path / "town" / "docs"], project, lambda p: seen.add(p.stage)))
        return seen

    assert "layout" in (again := stages())
    assert "graph" not in again
    db = open_index(folder)
    assert places.load(db) == first
    assert not [w for part in check_index(db, folder) for w in part.wrong]
    db.close()
    assert "layout" not in stages()
