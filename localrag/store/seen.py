"""What the system said of files when they were read: documents, and those that nothing could be read of. It is true of no other machine.

A row says nothing of what is stored: only which bytes a file had. So it may stay when a run is killed, and is published with nothing.
"""

import json
from collections.abc import Iterable, Mapping

from sqlite_utils import Database

from localrag.system.seen import Seen


def seen(db: Database) -> dict[str, Seen]:
    """Path → what the system said of the file there when it was read."""
    return {path: Seen(*rest) for path, *rest in db.execute("SELECT path, size, mtime_ns, inode, digest FROM seen")}


def save_seen(db: Database, new: Mapping[str, Seen]) -> None:
    """Keep what the system says of files that were read."""
    if new:
        with db.atomic():
            rows = ((path, *s.stamp, s.digest) for path, s in new.items())
            db.conn.executemany("INSERT OR REPLACE INTO seen (path, size, mtime_ns, inode, digest) VALUES (?, ?, ?, ?, ?)", rows)


def forget_seen(db: Database, paths: Iterable[str]) -> None:
    """Forget files that are not to be known any more."""
    with db.atomic():
        db.execute("DELETE FROM seen WHERE path IN (SELECT value FROM json_each(?))", [json.dumps(list(paths))])


def tidy_seen(db: Database) -> None:
    """Forget the files that there is nothing of: no document, published or waiting, and no row among those left out."""
    known = ("main.documents", "main.next_documents", "main.skipped")
    gone = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} k WHERE k.path = seen.path)" for table in known)
    if db.execute(f"SELECT EXISTS (SELECT 1 FROM seen WHERE {gone})").fetchone()[0]:
        with db.atomic():
            db.execute(f"DELETE FROM seen WHERE {gone}")
