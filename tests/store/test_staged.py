"""The graph as it will be, read from what is published and what waits."""

import pytest

from localrag.store.schema import open_index
from localrag.store.staged import TABLES, Staged

ONLY = {"document_pairs": "t.descriptions <> ''"}  # what is looked up by other columns than the key


@pytest.fixture
def staged(tmp_path):
    found = Staged(open_index(tmp_path / "index", create=True))
    found._fresh = dict.fromkeys(TABLES, False)  # as where every table has rows
    yield found
    found.close()


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_found_without_a_look_at_all(staged, name):
    """By their key, and by each column that a table is also looked up by, in what is published, what waits and what goes."""
    lookups = [[f't."{c}" = ?' for c in TABLES[name].key]]
    lookups += ([f"t.{index.split(',')[0]} = ?", ONLY.get(name, "true")] for index in TABLES[name].indexes)
    asked = []
    staged.db.conn.set_trace_callback(asked.append)
    for some in lookups:
        where = " AND ".join(some)
        list(staged.rows(name, where, ["1"] * where.count("?")))
    staged.db.conn.set_trace_callback(None)

    plans = [step for sql in asked for *_, step in staged.db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert len(asked) == len(lookups)
    assert not [step for step in plans if step.startswith(("SCAN t", "SCAN g"))]


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_deleted_without_a_scan(staged, name):
    """By its key, however many columns that has."""
    staged.drop(name, [("1",) * TABLES[name].keys])
    asked = []
    staged.db.conn.set_trace_callback(asked.append)
    with staged.db.atomic():
        staged.publish()
    staged.db.conn.set_trace_callback(None)

    deletions = [sql for sql in asked if sql.startswith(f"DELETE FROM main.{name} ")]
    plans = [step for sql in deletions for *_, step in staged.db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert len(deletions) == 1
    assert not [step for step in plans if step.startswith((f"SCAN {name}", f"SCAN main.{name}"))]
