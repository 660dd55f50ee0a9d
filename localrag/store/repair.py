"""Mending an index from what remains of it, without a model; what only a model or a file can give again is marked to be redone."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.records import IMPORTED, TO_IMPORT
from localrag.store import generations, ledger
from localrag.store.check import check_index, wrongs
from localrag.store.connect import cache_files, folder_of
from localrag.store.migrations import migrations
from localrag.store.names import FILE_NAME
from localrag.store.network import bring_files_up_to_date
from localrag.store.schema import back_up
from localrag.store.search import add_to_search
from localrag.store.staged import PUBLIC, TABLES
from localrag.store.wrong import Wrong
from localrag.system.files import private_file

REDONE = frozenset({"read again", "unreadable", "graph", "layout", "report", "vector", "waiting"})  # by the next `localrag index`
_OF_GRAPH = PUBLIC - {"merges"}
_MADE_ANEW = tuple(t for t in TABLES if t not in _OF_GRAPH)
_OF_LAYOUT = frozenset({"places", "community_places", "community_links"})


def repair_index(db: Database, folder: Path) -> Path | None:
    """Mend what is wrong, after a copy of the database was made; returns the copy's path, None where nothing is wrong.

    The caller holds the writer's lock. Answers of the model, documents and readable extractions are never removed.
    """
    found = list(wrongs(check_index(db, folder)))
    if not found:
        return None
    copy, redone = back_up(db, folder / FILE_NAME, "repair"), False
    for name, mend in MENDS.items():  # causes before what follows from them: a mended chunk makes its quotes right again
        some = [w for w in found if w.mend == name]
        if some:
            mend(db, [k for w in some for k in w.keys])
            redone = redone or any(_is_redone(w) for w in some)
            found = list(wrongs(check_index(db, folder)))
    _drop_caches(folder)
    bring_files_up_to_date(db)
    if redone:  # status and check see that a run is due
        ledger.end_run(db, ledger.start_run(db, os.getpid()), "interrupted", {})
    return copy


def _is_redone(wrong: Wrong) -> bool:
    return wrong.mend in REDONE or (wrong.mend == "orphans" and any(table in _OF_GRAPH | _OF_LAYOUT for table, _ in wrong.keys))


def _database(db: Database, _: list[Any]) -> None:
    """SQLite's own indexes are made anew; where that is not enough, every row that can still be read goes into a new database."""
    with suppress(sqlite3.DatabaseError):
        db.execute("REINDEX")
        if db.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok":
            return
    part = private_file(folder_of(db) / f"{FILE_NAME}.part")  # as large as what is mended: no memory has room for it
    try:
        _saved(db, part)
    finally:
        part.unlink(missing_ok=True)
    _full_text(db, [])
    _graph(db, [])


def _saved(db: Database, part: Path) -> None:
    """What can be read of a database, in place of it; by way of a file."""
    connection = sqlite3.connect(part)
    connection.execute("PRAGMA synchronous = OFF")  # nobody needs the file after a power cut
    new = Database(connection)
    try:
        migrations.apply(new)
        skipped = ("chunk_search", "chunk_terms", "_sqlite", "sqlite", *_MADE_ANEW)
        for table in [t for t in new.table_names() if not t.startswith(skipped)]:
            columns = ", ".join(f'"{c.name}"' for c in new.table(table).columns)
            put = f"INSERT OR IGNORE INTO {table} (rowid, {columns}) VALUES (?{', ?' * len(new.table(table).columns)})"
            for order in ("ASC", "DESC"):  # from both ends up to what cannot be read
                with new.atomic(), suppress(sqlite3.DatabaseError):
                    for row in db.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid {order}"):
                        new.execute(put, row)
        new.conn.backup(db.conn)
    finally:
        new.close()


def _orphans(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for table, rowid in keys:
            db.execute(f"DELETE FROM {table} WHERE rowid = ?", [rowid])
    if any(table in _OF_GRAPH for table, _ in keys):
        _graph(db, [])
    if any(table in _OF_LAYOUT for table, _ in keys):
        _layout(db, [])


def _unreadable(db: Database, keys: list[Any]) -> None:
    """Settings have defaults, runs figures of their own; what was extracted is extracted anew, from the kept answers of the model."""
    _orphans(db, [k for k in keys if k[0] not in ("runs", "entities", "relationships")])
    with db.atomic():
        for table, rowid in keys:
            if table == "runs":
                db.execute("UPDATE runs SET figures = '{}' WHERE rowid = ?", [rowid])
    _graph(db, [])


def _chunk_text(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for key in keys:
            (text, start, end) = db.execute(
                "SELECT d.text, c.start, c.end FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id = ?", [key]
            ).fetchone()
            db.execute("UPDATE chunks SET text = ? WHERE id = ?", [text[start:end], key])
    _full_text(db, [])


def _read_again(db: Database, keys: list[Any]) -> None:
    """A document without a content hash is taken for a changed one when its file is read, or it is imported, the next time."""
    forgotten = "CASE WHEN content_hash LIKE ? || ' %' THEN ? ELSE '' END"  # an imported one has no file, and is not to count as deleted
    with db.atomic():
        for key in keys:
            db.execute(f"UPDATE documents SET content_hash = {forgotten} WHERE id = ?", [IMPORTED, TO_IMPORT, key])


def _full_text(db: Database, _: list[Any]) -> None:
    rebuild_full_text(db)


def rebuild_full_text(db: Database) -> None:
    """Build the full-text index again from the chunks."""
    with db.atomic():
        (made,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'chunk_search'").fetchone()
        db.execute("DROP TABLE chunk_search")
        db.execute(made)
        db.execute("DELETE FROM chunk_rows")
        add_to_search(db, db.execute("SELECT id, text FROM chunks"))


def _graph(db: Database, _: list[Any]) -> None:
    """Without these two the next run builds the graph from what was extracted, and writes the reports that changed with it."""
    with db.atomic():
        db.execute("DELETE FROM settings WHERE key IN ('graph', 'reports')")


def _layout(db: Database, _: list[Any]) -> None:
    """Without this the next run lays the graph out, from the places there are."""
    with db.atomic():
        db.execute("DELETE FROM settings WHERE key = 'layout'")


def _report(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        db.execute("DELETE FROM reports WHERE community_id IN (SELECT value FROM json_each(?))", [json.dumps(keys)])
        db.execute("DELETE FROM settings WHERE key = 'reports'")


def _vector(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for kind, key in keys:
            db.execute("DELETE FROM embeddings WHERE kind = ? AND subject_id = ?", [kind, key])
        db.execute("DELETE FROM settings WHERE key = 'graph_vectors'")


def _waiting(db: Database, _: list[Any]) -> None:
    generations.forget_waiting(db)


def _cache(_db: Database, _: list[Any]) -> None:
    """All caches go with every repair."""


def _drop_caches(folder: Path) -> None:
    for path in cache_files(folder):
        path.unlink(missing_ok=True)


MENDS: dict[str, Callable[[Database, list[Any]], None]] = {
    "database": _database,
    "unreadable": _unreadable,
    "read again": _read_again,  # before orphans: extractions of chunks that come back stay
    "orphans": _orphans,
    "chunk text": _chunk_text,
    "waiting": _waiting,
    "full text": _full_text,
    "graph": _graph,
    "layout": _layout,
    "report": _report,
    "vector": _vector,
    "cache": _cache,
}
