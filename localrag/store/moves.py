"""Documents whose files have another path now: they keep their ids, chunks, vectors and all that was made of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from sqlite_utils import Database

from localrag.records import content_id

_AWAY = "\0"  # before a path that another document is about to have: no file has such a name


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a document's file is now, and the day of that file."""

    path: str
    day: str


def held_paths(db: Database) -> set[str]:
    """The paths that stored documents have: published ones, also those that end with the next generation, and those waiting."""
    return {path for (path,) in db.execute("SELECT path FROM main.documents UNION SELECT path FROM main.next_documents")}


def move_documents(db: Database, moves: Mapping[str, Moved]) -> None:
    """Give documents (by path) another path, all at once; published at once, for all that speaks of them does so by their ids.

    A title that is the file's name follows, and so does the day of a document that is dated by its file. A path that one of them gets must
    be no other document's (`held_paths`) but of one that moves as well. The paths they had count as departed: conversations cite them.
    """
    if not moves:
        return
    between = {old: f"{_AWAY}{old}" for old in {m.path for m in moves.values()} & moves.keys()}
    with db.atomic():
        for table in ("main.documents", "main.next_documents", "main.next_gone"):
            db.conn.executemany(f"UPDATE {table} SET path = ? WHERE path = ?", [(there, old) for old, there in between.items()])
        for table in ("main.documents", "main.next_documents"):
            db.conn.executemany(
                f"UPDATE {table} SET path = :path,"
                " title = CASE WHEN titled_by = 'file' OR (titled_by = '' AND title = :stem) THEN :title ELSE title END,"
                " date = CASE WHEN dated_by = 'file' THEN :day ELSE date END,"
                " first_path = CASE WHEN first_path = '' THEN :old ELSE first_path END WHERE path = :at",
                [_values(old, new) | {"at": between.get(old, old)} for old, new in moves.items()],
            )
        pairs = [(new.path, between.get(old, old)) for old, new in moves.items()]
        db.conn.executemany("UPDATE OR REPLACE main.next_gone SET path = ? WHERE path = ?", pairs)
        db.conn.executemany("INSERT OR IGNORE INTO departed (path, edited) VALUES (?, 0)", ((old,) for old in moves))
        _move_in_collections(db, moves)


def _values(old: str, new: Moved) -> dict[str, str]:
    return {"old": old, "path": new.path, "stem": PurePosixPath(old).stem, "title": PurePosixPath(new.path).stem, "day": new.day}


def _move_in_collections(db: Database, moves: Mapping[str, Moved]) -> None:
    mine = db.execute("SELECT name, path FROM collections WHERE path IN (SELECT value FROM json_each(?))", [json.dumps(list(moves))])
    rows = mine.fetchall()
    db.conn.executemany("DELETE FROM collections WHERE name = ? AND path = ?", rows)
    db.conn.executemany("INSERT OR IGNORE INTO collections (name, path) VALUES (?, ?)", ((name, moves[path].path) for name, path in rows))


def is_id_of(document_id: str, path: str, first_path: str, text: str) -> bool:
    """Whether a document's id is that of its text and of the path it had first."""
    return document_id == content_id(first_path or path, content_id(text))


def id_of(db: Database, path: str, text: str) -> tuple[str, str]:
    """The id of a text at a path, and what it is made of where that is not the path.

    The text that is stored there already keeps its id. An id that a document has which was at this path before gets a number.
    """
    key = content_id(text)
    row = db.execute("SELECT id, first_path FROM documents WHERE path = ?", [path]).fetchone()
    if row is not None and row[0] == content_id(row[1] or path, key):
        return str(row[0]), str(row[1])
    first, n = path, 1
    while _is_anothers(db, found := content_id(first, key), path):
        n += 1
        first = f"{path} ({n})"
    return found, "" if n == 1 else first


def _is_anothers(db: Database, document_id: str, path: str) -> bool:
    other = " UNION ALL ".join(f"SELECT 1 FROM {t} WHERE id = :id AND path <> :path" for t in ("main.documents", "main.next_documents"))
    return bool(db.execute(f"SELECT EXISTS ({other})", {"id": document_id, "path": path}).fetchone()[0])
