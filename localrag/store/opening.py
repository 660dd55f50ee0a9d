"""Opening `index.db` for reading and writing: schema version and writer lock."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import LocalragError, NoIndex, disk_full_error, is_disk_full
from localrag.store.database import (
    WAL_LIMIT_BYTES,
    WRITER_LOCK_FILE,
    ImmediateDatabase,
    busy_error,
    connect,
    connect_existing,
    pin_snapshot,
)
from localrag.store.location import DATABASE_FILE, check_files
from localrag.store.schema import create_schema, keep_checksums, schema_version
from localrag.system.files import ensure_private_file, ensure_private_folder

WAL_AUTOCHECKPOINT_PAGES = 8192  # pages of the WAL, 32 MB: ids are hashes, so SQLite's own 1000 pages fill after 32 chunks of a large index
PAGE_CACHE_KIB = 65_536  # of a writer: storing 60,000 entities and 255,000 relationships takes 41 s, with SQLite's own 2 MB 67 s
_ELSEWHERE = "Check the folder's permissions, or store the index elsewhere: --index DIR"


def open_index(folder: Path, *, create: bool = False, still: bool = False) -> Database:
    """Open the database of an index folder. `create`: create what is missing and open for writing; the caller holds the writer lock.

    `still`: pin a read snapshot of the current state, for commands that end soon (see `snapshot`).

    Raises NoIndex, IndexBusy, IndexMismatch (another schema version), LocalragError (damaged or not writable).
    """
    path = folder / DATABASE_FILE
    check_files(folder)
    if not path.exists() and not create:
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH")
    try:
        connection = connect(path) if create else connect_existing(path)
        try:
            db = _configured(ImmediateDatabase(connection), path, create=create)
            if still:
                pin_snapshot(connection)
            else:  # this connection may write
                keep_checksums(connection)
            return db
        except BaseException:
            connection.close()
            raise
    except (sqlite3.OperationalError, OSError) as error:
        if is_disk_full(error):
            raise disk_full_error() from error
        raise LocalragError(f"The index {path} cannot be opened for writing: {error}.", _ELSEWHERE) from error
    except sqlite3.DatabaseError as error:
        raise LocalragError(f"{path} is not a usable index: {error}.", "Move it elsewhere and index again.") from error


def _configured(db: ImmediateDatabase, path: Path, *, create: bool) -> ImmediateDatabase:
    """Set a connection's pragmas and prepare the schema; for the arguments see `open_index`."""
    connection = db.conn
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # a deleted document leaves no text in free pages
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    if create:
        db.enable_wal()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_AUTOCHECKPOINT_PAGES}")
    if not schema_version(connection):  # an empty file
        with nullcontext() if create else writer_lock(path.parent):
            if not schema_version(connection):  # again, under the lock
                create_schema(db)
    return db


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the exclusive lock for writing to an index; the kernel releases it when the process ends. Raises IndexBusy."""
    check_files(folder)
    try:
        f = ensure_private_file(ensure_private_folder(folder) / WRITER_LOCK_FILE).open("a+")
    except OSError as error:
        if (folder / WRITER_LOCK_FILE).is_symlink():
            raise LocalragError(f"{folder / WRITER_LOCK_FILE} is a link.", "Delete it: the next command makes the file.") from error
        raise LocalragError(f"The index folder {folder} cannot be made or written to: {error.strerror}.", _ELSEWHERE) from error
    with f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            f.seek(0)
            raise busy_error(folder, f.read().strip() or "unknown") from error
        f.truncate(0)
        f.write(str(os.getpid()))
        f.flush()
        yield
