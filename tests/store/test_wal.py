"""The write-ahead log stays short."""

import sqlite3
from contextlib import closing

import pytest

from localrag.store import database
from localrag.store.database import checkpoint_wal, truncate_wal
from localrag.store.opening import open_index

ROW = "INSERT OR REPLACE INTO index_settings VALUES (?, ?)"


def write(db, n, size=100_000):
    for key in range(n):
        with db.atomic():
            db.execute(ROW, [f"k{key}", "x" * size])


@pytest.fixture
def db(tmp_path):
    with closing(open_index(tmp_path, create=True)) as db:
        truncate_wal(db)
        yield db


def test_a_reader_holds_the_log_and_no_longer(db, tmp_path, monkeypatch):
    """While a reader sees an earlier state the log grows by what is written and no more; once it has ended, the next cut empties it."""
    monkeypatch.setattr(database, "WAL_LIMIT_BYTES", 1 << 20)
    monkeypatch.setattr(database, "CHECKPOINT_TIMEOUT_S", 0.1)
    reader = sqlite3.connect(tmp_path / "index.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM index_settings").fetchone()
    write(db, 40)  # 4 MB
    held = truncate_wal(db)
    log = tmp_path / "index.db-wal"
    grown = log.stat().st_size
    reader.close()
    checkpoint_wal(db)

    assert not held
    assert 4_000_000 < grown < 6_000_000
    assert log.stat().st_size == 0
