"""The graph as it will be, read from what is published and what waits."""

import pytest

from localrag.store.opening import open_index
from localrag.store.staging import GRAPH_TABLES, GraphStaging
from tests.graphs import steps_of

ONLY = {"document_cooccurrences": "t.descriptions <> ''"}  # what is looked up by other columns than the key


@pytest.fixture
def staged(tmp_path):
    found = GraphStaging(open_index(tmp_path / "index", create=True))
    found._is_empty = dict.fromkeys(GRAPH_TABLES, False)  # as where every table has rows
    yield found
    found.discard()


def plans(staged, work, start=""):
    """How SQLite finds the rows of each statement, beginning so, of some work."""
    asked = []
    staged.db.conn.set_trace_callback(asked.append)
    work()
    staged.db.conn.set_trace_callback(None)
    return [[step for *_, step in staged.db.execute(f"EXPLAIN QUERY PLAN {sql}")] for sql in asked if sql.startswith(start)]


def publish(staged):
    with staged.db.atomic():
        staged.publish()


@pytest.mark.parametrize("name", GRAPH_TABLES)
def test_rows_are_found_and_deleted_without_a_look_at_all(staged, name):
    """By their key, and by each column that a table is also looked up by, in what is published, what waits and what goes."""
    lookups = [" AND ".join(f't."{c}" = ?' for c in GRAPH_TABLES[name].key)]
    lookups += (f"t.{index.split(',')[0]} = ? AND {ONLY.get(name, 'true')}" for index in GRAPH_TABLES[name].indexes)
    found = plans(staged, lambda: [list(staged.select(name, where, ["1"] * where.count("?"))) for where in lookups])
    staged.delete(name, [("1",) * GRAPH_TABLES[name].keys])
    deleted = plans(staged, lambda: publish(staged), f"DELETE FROM main.{name} ")

    assert (len(found), len(deleted)) == (len(lookups), 1)
    assert not [step for some in found + deleted for step in some if step.startswith(("SCAN t", "SCAN g", f"SCAN {name}", "SCAN main"))]


@pytest.mark.parametrize("from_scratch", [False, True])
def test_all_rows_take_the_place_of_others_in_proportion_to_how_many_they_are(tmp_path, from_scratch):
    """Where half of them are as they were: with twice as many rows SQLite takes some twice as many steps, not four times."""

    def steps(size):
        db = open_index(tmp_path / f"{size} {from_scratch}", create=True)
        db.execute("PRAGMA foreign_keys = OFF")
        first = GraphStaging(db)
        first.upsert("community_members", [(f"c{n:05}", f"e{n:05}") for n in range(size)])
        publish(first)

        def replace():
            staged = GraphStaging(db, from_scratch=from_scratch)
            staged.replace_all("community_members", now)
            publish(staged)

        now = [(f"c{n:05}", f"e{n:05}") for n in range(size // 2, size + size // 2)]
        taken = steps_of(db, replace, 100)
        assert db.execute("SELECT * FROM community_members ORDER BY 1").fetchall() == now
        return taken

    assert steps(4000) < 2.5 * steps(2000)
