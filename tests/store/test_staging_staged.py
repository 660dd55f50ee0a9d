"""The graph as it will be, read from what is published and what waits."""

import pytest

from localrag.store.opening import open_index
from localrag.store.staging import GRAPH_TABLES, GraphStaging

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
