"""Collections: named sets of documents, stored by path, so that an edit of a document does not change them.

A document may be in several. A path without a document belongs to a file that is being read or staged; `delete_orphan_paths` deletes all
others at each publication. A collection ends with its last document.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from sqlite_utils import Database

from localrag.errors import UsageError
from localrag.filters import suggestion

_PUT = "INSERT OR IGNORE INTO collection_documents (name, path)"


def collections(db: Database) -> dict[str, int]:
    """Collection name → number of its documents; sorted by name."""
    counted = "SELECT c.name, count(*) FROM collection_documents c JOIN documents d ON d.path = c.path GROUP BY 1 ORDER BY 1"
    return {str(name): int(n) for name, n in db.execute(counted)}


def paths_of(db: Database, names: Sequence[str]) -> list[str]:
    """The paths of the documents in any of these collections. Raises UsageError for an unknown name."""
    check_collections_exist(db, names)
    joined = "SELECT DISTINCT c.path FROM collection_documents c JOIN documents d ON d.path = c.path"
    rows = db.execute(f"{joined} WHERE c.name IN (SELECT value FROM json_each(?)) ORDER BY 1", [json.dumps(list(names))])
    return [str(path) for (path,) in rows]


def check_collections_exist(db: Database, names: Iterable[str]) -> None:
    """Raise UsageError for the first unknown name."""
    existing = collections(db)
    for name in names:
        if name not in existing:
            hint = f"There are: {', '.join(existing)}" if existing else "There is none. Create one: localrag index PATH --collection NAME"
            raise UsageError(f"There is no collection {name!r}.", hint + suggestion(name, existing))


def add_to_collection(db: Database, name: str, paths: Iterable[str]) -> None:
    """Add documents to a collection, also ones that are still to be read."""
    with db.atomic():
        db.conn.executemany(f"{_PUT} VALUES (?, ?)", ((name, path) for path in paths))


def move_path(db: Database, old: str, new: str) -> None:
    """Add the new path of a moved file to the collections of its old one."""
    with db.atomic():
        db.execute(f"{_PUT} SELECT name, ? FROM collection_documents WHERE path = ?", [new, old])


def move_paths(db: Database, paths: Mapping[str, str]) -> None:
    """Give moved documents (old path → new path) their new paths."""
    moved = "SELECT name, path FROM collection_documents WHERE path IN (SELECT value FROM json_each(?))"
    rows = db.execute(moved, [json.dumps(list(paths))]).fetchall()
    db.conn.executemany("DELETE FROM collection_documents WHERE name = ? AND path = ?", rows)
    db.conn.executemany(f"{_PUT} VALUES (?, ?)", ((name, paths[path]) for name, path in rows))


def rename(db: Database, old: str, new: str) -> None:
    """Rename a collection; an existing one of the new name is merged with it. Raises UsageError."""
    check_collections_exist(db, [old])
    with db.atomic():
        db.execute(f"{_PUT} SELECT ?, path FROM collection_documents WHERE name = ?", [new, old])
        if new != old:
            db.execute("DELETE FROM collection_documents WHERE name = ?", [old])


def remove(db: Database, name: str) -> None:
    """Delete a collection; its documents stay in the index. Raises UsageError."""
    check_collections_exist(db, [name])
    with db.atomic():
        db.execute("DELETE FROM collection_documents WHERE name = ?", [name])


def delete_orphan_paths(db: Database) -> None:
    """Delete the paths without a document, published or staged."""
    existing = " UNION ALL ".join(f"SELECT path FROM {table}" for table in ("main.documents", "main.staged_documents"))
    db.execute(f"DELETE FROM collection_documents WHERE path NOT IN ({existing})")
