"""Opening `index.db`: schema version, writer lock, and detection of copies taken while the index was written to.

A program such as `cp` copies the database and its WAL one after the other. While a run writes, the WAL only grows, so the two are usually a
consistent state; a copy that spans a checkpoint may mix two states. A run therefore first stores the database's location on the disk in the
database file. A copy finds itself at another location and is checked once before use. Undetected: a copy of the database that begins before
the run, with a copy of the WAL taken when it is empty again.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError, NoIndex, disk_full_error, is_disk_full
from localrag.store import runs
from localrag.store.database import (
    WAL_LIMIT_BYTES,
    WRITER_LOCK_FILE,
    ImmediateDatabase,
    busy_error,
    connect,
    connect_existing,
    connect_without_log,
    file_of,
    log_size,
    pin_snapshot,
    truncate_wal,
)
from localrag.store.gate import check_files
from localrag.store.location import DATABASE_FILE
from localrag.store.schema import (
    check_schema,
    create_schema,
    keep_checksums,
    schema_version,
)
from localrag.system.files import check_platform, ensure_private_file, ensure_private_folder

LOCATION_KEY = "written_at"  # setting: [device and inode of the file, whether a run is writing]


class TornCopy(LocalragError):
    """The index is a copy whose files are of different states."""


@contextmanager
def mark_as_writing(db: Database) -> Iterator[None]:
    """Store the file's location and a writing mark in the database file, not only in its WAL. The caller holds the writer lock.

    The mark is removed once the WAL is empty. If it stays (after a kill, or on a full disk), the next copy is checked needlessly.
    """
    location = _location(file_of(db))
    runs.save_settings(db, **{LOCATION_KEY: [location, True]})
    truncate_wal(db)
    try:
        yield
    finally:
        with suppress(sqlite3.OperationalError):
            truncate_wal(db)
            runs.save_settings(db, **{LOCATION_KEY: [location, False]})


def check_copy(path: Path, lock: AbstractContextManager[object]) -> bool:
    """Check the database at `path` if it is a copy taken during a run, and return whether it is one. Raises TornCopy, IndexBusy.

    Call it before opening a connection that writes, which would checkpoint the WAL. If the database is consistent only without its WAL
    (copied earlier, so older), the WAL is deleted under the writer's `lock`; pass a null context if the caller holds it.
    """
    log = _log_state(path)
    with (
        closing(connect_without_log(path)) as without_wal,
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as with_wal,
    ):
        saved = _saved_location(without_wal, path) or _saved_location(with_wal, path)
        if not saved or saved[0] == _location(path) or not (saved[1] or log_size(path)):
            return False
        try:
            if _is_sound(with_wal, path):
                return True
        except sqlite3.OperationalError:  # the WAL cannot be read; opening the index reports that
            return False
    with closing(connect_without_log(path)) as connection:
        if not log_size(path) or not _is_sound(connection, path):
            raise TornCopy(
                f"The index in {path.parent} is a copy taken while the index was being written to, and its parts do not fit together.",
                "Copy it again while nothing writes to it (localrag pack can be used at any time), or repair it: localrag check --repair",
            )
    with lock:
        if _log_state(path) == log:  # still the WAL that was checked: no run is writing
            for ending in ("-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
    return True


def _log_state(path: Path) -> tuple[int, ...]:
    """Inode, size and modification time of a database's WAL; empty if there is none."""
    try:
        status = Path(f"{path}-wal").stat()
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def save_location(db: Database, path: Path) -> None:
    """Store the location of a checked copy, so that it is not checked again; a read-only copy is checked each time."""
    with suppress(sqlite3.OperationalError):
        runs.save_settings(db, **{LOCATION_KEY: [_location(path), False]})


def _saved_location(connection: sqlite3.Connection, path: Path) -> list[Any] | None:
    try:
        check_schema(connection, path)
        row = connection.execute("SELECT value FROM index_settings WHERE key = ?", [LOCATION_KEY]).fetchone()
        saved = json.loads(row[0]) if row else None
    except (LocalragError, sqlite3.DatabaseError, TypeError, ValueError, RecursionError):  # damaged, half written, or unreadable
        return None
    return saved if isinstance(saved, list) and len(saved) == 2 else None


def _is_sound(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the checks find no problem. Raises sqlite3.OperationalError if the database cannot be read."""
    from localrag.store.check import check_index, problems  # imports half of the store

    try:
        check_schema(connection, path)
    except sqlite3.OperationalError:
        raise
    except (LocalragError, sqlite3.DatabaseError):
        return False
    return not list(problems(check_index(Database(connection), path.parent)))


def _location(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"


WAL_AUTOCHECKPOINT_PAGES = 8192  # pages of the WAL, 32 MB: ids are hashes, so SQLite's own 1000 pages fill after 32 chunks of a large index
PAGE_CACHE_KIB = 65_536  # of a writer: storing 60,000 entities and 255,000 relationships takes 41 s, with SQLite's own 2 MB 67 s
_ELSEWHERE = "Check the folder's permissions, or store the index elsewhere: --index DIR"


def open_index(folder: Path, *, create: bool = False, still: bool = False, allow_torn: bool = False) -> Database:
    """Open the database of an index folder. `create`: create what is missing and open for writing; the caller holds the writer lock.

    `still`: pin a read snapshot of the current state, for commands that end soon (see `snapshot`). `allow_torn`: also open an inconsistent
    copy, for `check` and its repair.

    Raises NoIndex, IndexBusy, IndexMismatch (another schema version), TornCopy, LocalragError (damaged or not writable).
    """
    path = folder / DATABASE_FILE
    check_files(folder)
    if not path.exists() and not create:
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH")
    try:
        copied = path.exists() and not allow_torn and check_copy(path, nullcontext() if create else writer_lock(folder))
        connection = connect(path) if create else connect_existing(path)
        try:
            db = _configured(ImmediateDatabase(connection), path, create=create)
            if copied or not still:  # this connection may write
                keep_checksums(connection)
            if copied:
                save_location(db, path)
            if still:
                pin_snapshot(connection)
            return db
        except BaseException:
            connection.close()
            raise
    except (sqlite3.OperationalError, OSError) as error:
        if is_disk_full(error):
            raise disk_full_error() from error
        raise LocalragError(
            f"The index {path} cannot be opened for writing: {error}.",
            _ELSEWHERE,
        ) from error
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
    check_platform()
    import fcntl  # not on Windows

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
