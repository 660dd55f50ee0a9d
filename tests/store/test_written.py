"""What is written to the log is counted, and the log stays short."""

import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from localrag.store import connect
from localrag.store.connect import cut_log, empty_log, meter_of
from localrag.store.schema import open_index

ROW = "INSERT OR REPLACE INTO settings VALUES (?, ?)"


def write(db, n, size=100_000):
    for key in range(n):
        with db.atomic():
            db.execute(ROW, [f"k{key}", "x" * size])


@pytest.fixture
def db(tmp_path):
    with closing(open_index(tmp_path, create=True)) as db:
        empty_log(db)
        yield db


def test_every_byte_of_the_log_is_counted(db, tmp_path):
    """The count is the growth of the log's file where it was not begun anew, and goes on where it was."""
    log, added = tmp_path / "index.db-wal", meter_of(db)
    write(db, 20)
    once = added()
    size = log.stat().st_size
    empty_log(db)
    write(db, 20)
    twice = added()

    assert size - 64 <= once <= size
    assert log.stat().st_size > 0
    assert twice - once == pytest.approx(once, rel=0.2)


def test_a_change_of_one_row_counts_little(db):
    """The count follows the change, not the size of the database."""
    write(db, 50)
    added = meter_of(db)
    write(db, 1, size=10)

    assert 0 < added() < 300_000


def test_the_log_is_short_after_a_large_run(db, tmp_path, monkeypatch):
    """Many times the limit is written; the log ends within it, and at the end of a run it is empty."""
    monkeypatch.setattr(connect, "LOG_LIMIT", 1 << 20)
    db.execute(f"PRAGMA journal_size_limit = {connect.LOG_LIMIT}")
    db.execute("PRAGMA wal_autocheckpoint = 100")
    added = meter_of(db)
    for _ in range(5):
        write(db, 40)
        cut_log(db)
    log = tmp_path / "index.db-wal"
    within = log.stat().st_size
    emptied = empty_log(db)

    assert added() > 10 << 20
    assert within <= 2 << 20
    assert emptied and log.stat().st_size == 0


def test_a_reader_holds_the_log_and_no_longer(db, tmp_path, monkeypatch):
    """While a reader sees an earlier state the log grows by what is written and no more; once it has ended, the next cut empties it."""
    monkeypatch.setattr(connect, "LOG_LIMIT", 1 << 20)
    monkeypatch.setattr(connect, "LOG_WAITS", 0.1)
    reader = sqlite3.connect(tmp_path / "index.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM settings").fetchone()
    added = meter_of(db)
    write(db, 40)
    held = empty_log(db)
    log = tmp_path / "index.db-wal"
    grown = log.stat().st_size
    reader.close()
    cut_log(db)

    assert not held
    assert grown == pytest.approx(added(), rel=0.05)
    assert log.stat().st_size == 0


def test_others_may_come_and_go_while_it_is_counted(tmp_path):
    """To count must not drop the locks of SQLite: a reader that ends would remove the log and its index, and end the writer."""
    code = f"""
from pathlib import Path
from localrag.store.connect import meter_of
from localrag.store.schema import open_index
db = open_index(Path({str(tmp_path)!r}), create=True)
added = meter_of(db)
for key in range(300):
    with db.atomic():
        db.execute({ROW!r}, [f"k{{key}}", "x" * 20_000])
print(added())
"""
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    while writer.poll() is None:
        if (tmp_path / "index.db").exists():
            with closing(sqlite3.connect(tmp_path / "index.db")) as reader, suppress(sqlite3.OperationalError):
                reader.execute("SELECT count(*) FROM settings").fetchone()

    assert writer.returncode == 0
    assert int(writer.stdout.read()) > 300 * 20_000
