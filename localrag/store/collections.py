"""Collections: named sets of documents, kept by the documents' paths, so that an edit of a document changes nothing in them.

A document may be in several. A path of a collection without a document is of a file that is being read, or waits for the next generation;
`tidy` deletes the others whenever a generation is published. A collection whose last document goes is no more.
"""

import json
from collections.abc import Iterable, Sequence

from sqlite_utils import Database

from localrag.errors import UsageError
from localrag.where import did_you_mean


def collections(db: Database) -> dict[str, int]:
    """The name of every collection → its number of documents; by name."""
    counted = "SELECT c.name, count(*) FROM collections c JOIN documents d ON d.path = c.path GROUP BY 1 ORDER BY 1"
    return {str(name): int(n) for name, n in db.execute(counted)}


def paths_of(db: Database, names: Sequence[str]) -> list[str]:
    """The paths of the documents in any of these collections. Raises UsageError for a name that there is not."""
    check_known(db, names)
    joined = "SELECT DISTINCT c.path FROM collections c JOIN documents d ON d.path = c.path"
    rows = db.execute(f"{joined} WHERE c.name IN (SELECT value FROM json_each(?)) ORDER BY 1", [json.dumps(list(names))])
    return [str(path) for (path,) in rows]


def check_known(db: Database, names: Iterable[str]) -> None:
    """Raise UsageError for the first name that no collection has."""
    known = collections(db)
    for name in names:
        if name not in known:
            there = f"There are: {', '.join(known)}" if known else "There is none. Make one: localrag index PATH --collection NAME"
            raise UsageError(f"There is no collection {name!r}.", there + did_you_mean(name, known))


def collections_of(db: Database) -> dict[str, list[str]]:
    """Path → the names of the collections that it is in."""
    found: dict[str, list[str]] = {}
    for path, name in db.execute("SELECT path, name FROM collections ORDER BY 1, 2"):
        found.setdefault(path, []).append(name)
    return found


def put_in(db: Database, name: str, paths: Iterable[str]) -> None:
    """Put documents into a collection, also those that are only about to be read."""
    with db.atomic():
        db.conn.executemany("INSERT OR IGNORE INTO collections (name, path) VALUES (?, ?)", ((name, path) for path in paths))


def follow(db: Database, old: str, new: str) -> None:
    """A file was moved: its new path is in the collections that its old one is in."""
    with db.atomic():
        db.execute("INSERT OR IGNORE INTO collections (name, path) SELECT name, ? FROM collections WHERE path = ?", [new, old])


def rename(db: Database, old: str, new: str) -> None:
    """Give a collection another name; one that has that name already takes its documents in. Raises UsageError."""
    check_known(db, [old])
    with db.atomic():
        db.execute("INSERT OR IGNORE INTO collections (name, path) SELECT ?, path FROM collections WHERE name = ?", [new, old])
        if new != old:
            db.execute("DELETE FROM collections WHERE name = ?", [old])


def remove(db: Database, name: str) -> None:
    """Forget a collection; its documents stay in the index. Raises UsageError."""
    check_known(db, [name])
    with db.atomic():
        db.execute("DELETE FROM collections WHERE name = ?", [name])


def tidy(db: Database) -> None:
    """Forget the paths that have no document, published or waiting."""
    known = " UNION ALL ".join(f"SELECT path FROM {table}" for table in ("main.documents", "main.next_documents"))
    db.execute(f"DELETE FROM collections WHERE path NOT IN ({known})")
