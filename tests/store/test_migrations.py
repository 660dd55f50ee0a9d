"""Bringing an older index up to date: with a copy of what was, under the writer's lock, or not at all."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sqlite_utils import Database

from localrag.errors import IndexBusy
from localrag.store import corpus, vectors
from localrag.store.migrations import migrations
from localrag.store.schema import open_index, writer_lock


def old_index(folder, stop_before):
    """An index as the version before a migration left it, with a document in it."""
    folder.mkdir()
    db = Database(sqlite3.connect(folder / "index.db"))
    migrations.apply(db, stop_before=stop_before)
    with db.atomic():  # in the columns that the first version had
        db.table("documents").insert({"id": "d", "path": "d.txt", "title": "d", "text": "old words", "content_hash": "h"})
        chunk = {"id": "c", "document_id": "d", "ordinal": 0, "start": 0, "end": 9, "text": "old words", "tokens": 2}
        db.table("chunks").insert(chunk)
        db.table("chunk_search").insert({"chunk_id": "c", "text": "old words", "cjk": ""})
    db.close()
    return folder


def names(path):
    db = sqlite3.connect(path)
    try:
        return [name for (name,) in db.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
    finally:
        db.close()


EVERY = [m.name for m in migrations._migrations]


@pytest.mark.parametrize("stop_before", EVERY[1:])
def test_an_older_index_is_copied_before_it_is_brought_up_to_date(tmp_path, stop_before):
    """The copy is the old database as it was, for its owner alone; the new one has the same documents."""
    folder = old_index(tmp_path / "index", stop_before)
    with writer_lock(folder):
        db = open_index(folder, create=True)

    copy = folder / f"index.db.before-{stop_before}"
    assert names(copy) == EVERY[: EVERY.index(stop_before)]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sqlite3.connect(copy).execute("SELECT text FROM documents").fetchall() == [("old words",)]
    assert names(folder / "index.db") == EVERY
    assert corpus.document_text(db, "d.txt") == "old words"
    assert not list(folder.glob("*.part*"))


def test_what_was_extracted_lives_on(tmp_path):
    """Extractions and sentences of an index from before generations are those of its chunks, and are deleted with these."""
    folder = old_index(tmp_path / "index", "m010_generations")
    with sqlite3.connect(folder / "index.db") as old:
        old.execute("INSERT INTO extractions VALUES ('c', 'r', '{\"entities\": [], \"relationships\": []}')")
        old.execute("INSERT INTO sentences VALUES ('c', 1, x'00')")
    db = open_index(folder, create=True)

    assert [e.chunk_id for e in corpus.extractions(db, "r")] == ["c"]
    assert db.execute("SELECT chunk_id, splitter, bounds FROM sentences").fetchall() == [("c", 1, b"\x00")]
    corpus.remove_document(db, "d.txt")
    assert [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("chunks", "extractions", "sentences")] == [0, 0, 0]


def test_only_the_last_copy_is_kept(tmp_path):
    """The copy of an earlier migration goes when a newer one is made; that of a repair stays."""
    folder = old_index(tmp_path / "index", EVERY[-1])
    for name in (f"before-{EVERY[1]}", "before-repair"):
        (folder / f"index.db.{name}").write_text("earlier")
    open_index(folder)

    assert sorted(p.name for p in folder.glob("index.db.before-*")) == [f"index.db.before-{EVERY[-1]}", "index.db.before-repair"]


def test_a_new_index_needs_no_copy(tmp_path):
    """Nothing is copied where there was nothing, nor where nothing changes."""
    open_index(tmp_path, create=True).close()
    open_index(tmp_path, create=True).close()
    open_index(tmp_path).close()

    assert not list(tmp_path.glob("*before*"))


def test_a_reader_of_an_older_index_takes_the_lock_for_the_moment(tmp_path):
    """Opened for questions, an older index is brought up to date; the lock is free again afterwards."""
    folder = old_index(tmp_path / "index", EVERY[-1])
    open_index(folder)

    assert names(folder / "index.db") == EVERY
    with writer_lock(folder):
        pass


def test_a_reader_never_changes_an_older_index_that_another_writes_to(tmp_path):
    """While the lock is held, an older index is refused in a sentence and stays what it is; one of today is read."""
    folder = old_index(tmp_path / "index", EVERY[-1])
    with writer_lock(folder), pytest.raises(IndexBusy, match="is writing") as refused:
        open_index(folder)

    assert "older localrag" in refused.value.hint
    assert names(folder / "index.db") == EVERY[:-1]
    assert not list(folder.glob("*before*"))
    open_index(folder)
    with writer_lock(folder):
        open_index(folder)


def test_a_migration_that_fails_leaves_the_old_index(tmp_path):
    """An index that cannot be brought up to date is as it was, and its copy is there."""
    folder = old_index(tmp_path / "index", "m004_questions")
    with sqlite3.connect(folder / "index.db") as db:
        db.execute("CREATE TABLE vector_states (other)")  # in the way of that migration
    with pytest.raises(Exception, match="vector_states"):
        open_index(folder)

    assert names(folder / "index.db") == EVERY[: EVERY.index("m004_questions")]
    assert (folder / "index.db.before-m004_questions").exists()


def test_vectors_get_numbers(tmp_path):
    """Those of an index from before keep what they are of; each has a number, and every change still gives the kind another state."""
    folder = old_index(tmp_path / "index", "m025_numbers_of_vectors")
    blob = np.eye(1, 4, dtype="<f4").tobytes()
    with closing(sqlite3.connect(folder / "index.db")) as old, old:
        old.executemany(
            "INSERT INTO embeddings VALUES (?, ?, 'h', 'e', ?)", [("chunk", "b", blob), ("entity", "a", blob), ("chunk", "a", blob)]
        )
    db = open_index(folder, create=True)

    rows = db.execute("SELECT number, kind, subject_id, content_hash, embedder, vector FROM embeddings ORDER BY number").fetchall()
    assert rows == [(1, "chunk", "b", "h", "e", blob), (2, "entity", "a", "h", "e", blob), (3, "chunk", "a", "h", "e", blob)]
    before = vectors.state_of(db, "chunk")
    db.execute("DELETE FROM embeddings WHERE subject_id = 'b'")
    assert before not in ("", vectors.state_of(db, "chunk"))
