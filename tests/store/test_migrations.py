"""The schema, and an index of one before it: brought up to date in one step with a copy of what was, or refused by name."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from localrag.errors import IndexBusy, IndexMismatch, LocalragError
from localrag.indexing.documents import split_document
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.records import Document
from localrag.store import answers, documents, graph, runs
from localrag.store.check import check_index, problems
from localrag.store.chunks import all_chunks
from localrag.store.gate import SCHEMA_HASHES, schema_hash, schema_objects
from localrag.store.opening import open_index, writer_lock
from localrag.store.schema import (
    _RENAMED_SETTINGS,
    CONTENT_TABLES,
    SCHEMA_VERSION,
    _new_name,
    current_schema,
    schema_version,
)
from tests.conftest import run_localrag

DUMP = Path(__file__).parents[1] / "data" / "previous_schema.sql"  # of an index that the previous version made
TEXT = "Ingrid Holm bought the ferry Skua in 1974. Her brother Lars Holm is the mate of the Skua. Lars Holm wrote that the Skua leaks.\n"
EDITED = "Ingrid Holm bought the ferry Skua in 1974. Ruth Sand is the mate of the Skua.\n"
NOT_COPIED = {"_sqlite_migrations", "sqlite_sequence", "settings", "chunk_terms"}  # their rows are looked at by themselves, or computed


def previous_index(folder):
    """An index of the previous schema, in a folder of its own."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / "index.db")) as db, db:
        db.executescript(DUMP.read_text(encoding="utf-8"))
    return folder


def rows(path, tables):
    with closing(sqlite3.connect(path)) as db:
        return {table: sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in tables}


def previous_tables(path):
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if name not in NOT_COPIED and not name.startswith("chunk_search_")]


@pytest.fixture
def previous(tmp_path):
    """A folder with a document and the index of the previous schema that was made of it."""
    (tmp_path / "harbour").mkdir()
    (tmp_path / "harbour" / "ferry.txt").write_text(TEXT, encoding="utf-8")
    return previous_index(tmp_path / ".localrag")


def test_an_index_of_the_previous_schema_keeps_every_row(previous):
    """All rows are as they were, in tables and columns of today's names; the schema is just that of a new index; check finds no fault.

    Chunks have a column more, at the end.
    """
    tables = previous_tables(previous / "index.db")
    before = rows(previous / "index.db", [*tables, "settings"])
    with closing(open_index(previous)) as db:
        assert schema_objects(db.conn) == current_schema()
        assert schema_version(db.conn) == SCHEMA_VERSION
        assert list(problems(check_index(db, previous))) == []
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    after = rows(previous / "index.db", [*map(_new_name, tables), "index_settings"])
    assert [row[-1] for row in after["chunks"]] == ["[]"]
    after["chunks"] = [row[:-1] for row in after["chunks"]]

    assert {_new_name(table): before[table] for table in tables} == {t: r for t, r in after.items() if t != "index_settings"}
    assert {_RENAMED_SETTINGS.get(key, key): value for key, value in before["settings"]} == dict(after["index_settings"])
    assert len(before["settings"]) == len(after["index_settings"])
    assert {*CONTENT_TABLES, "chunks_fts"} == {*map(_new_name, tables), "index_settings", "review_cells"}
    assert sum(map(len, before.values())) > 100


def test_chunks_of_an_index_without_headings_get_theirs(tmp_path):
    """Published and staged ones; the schema without them is known by its hash, and the one with them is that of a new index."""
    headed = Document("d", "a.md", "A", "# Pier\n\nGulls.\n\n## Boats\n\nThe Skua leaks.\n", "h")
    chunks = split_document(headed, lambda texts: [len(text.split()) for text in texts], size=4, overlap=0)
    with closing(open_index(tmp_path, create=True)) as db:
        documents.save_document(db, headed, chunks)
        for table in ("documents", "chunks"):
            db.execute(f"INSERT INTO staged_{table} SELECT * FROM {table}")
    with closing(sqlite3.connect(tmp_path / "index.db")) as db, db:
        for table in ("chunks", "staged_chunks"):
            db.execute(f"ALTER TABLE {table} DROP COLUMN headings")
        db.execute("DROP TABLE review_cells")
        db.execute("PRAGMA user_version = 31")
        assert schema_hash(schema_objects(db)) == SCHEMA_HASHES[31]
    with closing(open_index(tmp_path)) as db:
        assert all_chunks(db) == chunks
        assert {c.headings for c in chunks} == {("Pier",), ("Pier", "Boats")}
        assert {*db.execute("SELECT id, headings FROM staged_chunks")} == {*db.execute("SELECT id, headings FROM chunks")}
        assert schema_objects(db.conn) == current_schema()


def test_an_index_without_reviews_gets_a_table_for_them(tmp_path):
    """Its schema is known by its hash; the copy that an earlier upgrade kept goes."""
    open_index(tmp_path, create=True).close()
    (tmp_path / "index.db.before-schema-32").write_text("earlier")
    with closing(sqlite3.connect(tmp_path / "index.db")) as db, db:
        db.execute("DROP TABLE review_cells")
        db.execute("DELETE FROM table_checksums WHERE table_name = 'review_cells'")
        db.execute("PRAGMA user_version = 32")
        assert schema_hash(schema_objects(db)) == SCHEMA_HASHES[32]
    with closing(open_index(tmp_path)) as db:
        assert schema_objects(db.conn) == current_schema()
        assert list(problems(check_index(db, tmp_path))) == []
    assert [p.name for p in tmp_path.glob("*before*")] == [f"index.db.before-schema-{SCHEMA_VERSION}"]


def test_an_index_of_the_previous_schema_is_asked_and_edited(previous):
    """A question finds what it found, a run finds nothing to do, and an edit is taken in."""
    done = run_localrag("ask", "Who bought the Skua?", "--json", cwd=previous.parent)
    answer = json.loads(done.stdout)
    with open_for_writing(previous.parent) as project:
        first, second = [found for *_, found in reversed(answers.newest_answers(project.db, 9))]
        assert (first.question, first.citations[0].path) == (second.question, second.citations[0].path)
        assert first.citations[0].quote in second.citations[0].quote
        assert second.answer == answer["answer"]
        known = runs.load_settings(project.db)["graph_hash"]
        asyncio.run(build_index([previous.parent / "harbour"], project, lambda _: None))
        assert runs.load_settings(project.db)["graph_hash"] == known
        (previous.parent / "harbour" / "ferry.txt").write_text(EDITED, encoding="utf-8")
        asyncio.run(build_index([previous.parent / "harbour"], project, lambda _: None))
        assert documents.document_text(project.db, "harbour/ferry.txt") == EDITED
        assert "Ruth Sand" in {e.name for e in graph.entities(project.db)}
        assert list(problems(check_index(project.db, previous))) == []


def test_a_copy_of_the_previous_index_is_kept(previous):
    """It is the old database as it was, for its owner alone; copies that earlier versions made go, that of a repair stays."""
    before = rows(previous / "index.db", previous_tables(previous / "index.db"))
    for label in ("m029_changed_chunks", "repair"):
        (previous / f"index.db.before-{label}").write_text("earlier")
    with writer_lock(previous):
        open_index(previous, create=True).close()
    copy = previous / f"index.db.before-schema-{SCHEMA_VERSION}"

    assert rows(copy, before) == before
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in previous.glob("*before*")) == ["index.db.before-repair", copy.name]
    assert not list(previous.glob("*.part*"))


def test_a_new_index_needs_no_copy(tmp_path):
    """Nothing is copied where there was nothing, nor where nothing changes."""
    open_index(tmp_path, create=True).close()
    open_index(tmp_path, create=True).close()
    open_index(tmp_path).close()

    assert not list(tmp_path.glob("*before*"))


def test_the_lock_is_free_after_a_reader_brought_an_index_up_to_date(previous):
    """It takes the lock for that moment alone."""
    open_index(previous).close()
    with writer_lock(previous):
        open_index(previous).close()


def test_a_reader_never_changes_an_older_index_that_another_writes_to(previous):
    """While the lock is held, an older index is refused in a sentence and stays what it is."""
    content = (previous / "index.db").read_bytes()
    with writer_lock(previous), pytest.raises(IndexBusy, match="is writing") as refused:
        open_index(previous)

    assert "older localrag" in refused.value.hint
    assert (previous / "index.db").read_bytes() == content
    assert not list(previous.glob("*before*"))


def test_a_step_that_fails_leaves_the_old_index(previous):
    """An index that cannot be brought up to date is as it was, and its copy is there."""
    before = rows(previous / "index.db", previous_tables(previous / "index.db"))
    failure = mock.patch("localrag.store.opening.recompute_checksums", side_effect=sqlite3.DatabaseError("torn"))
    with failure, pytest.raises(Exception, match="not a usable index"):
        open_index(previous)

    assert rows(previous / "index.db", before) == before
    assert rows(previous / f"index.db.before-schema-{SCHEMA_VERSION}", before) == before


def test_an_index_of_the_previous_schema_with_more_in_it_is_refused(previous):
    """Nothing of it is changed, and the remedy is one that helps."""
    with closing(sqlite3.connect(previous / "index.db")) as db, db:
        db.execute("CREATE TABLE review_cells (other)")
    content = (previous / "index.db").read_bytes()
    with pytest.raises(LocalragError, match="schema is not localrag's own") as refused:
        open_index(previous)

    assert "localrag index PATH" in refused.value.hint
    assert (previous / "index.db").read_bytes() == content


def test_an_index_that_is_older_still_is_refused_with_the_command_that_makes_it_anew(previous):
    """Nothing of it is changed."""
    with closing(sqlite3.connect(previous / "index.db")) as db, db:
        db.execute("DELETE FROM _sqlite_migrations WHERE name > 'm028'")
    with pytest.raises(IndexMismatch, match=r"older localrag \(schema 27\)") as refused:
        open_index(previous)

    assert "localrag index PATH" in refused.value.hint
    assert not list(previous.glob("*before*"))
