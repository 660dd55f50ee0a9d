"""Opening `index.db`: write-ahead log, migrations, the writer's lock, versions that do not fit."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import IndexBusy, IndexMismatch, LocalragError, NoIndex
from localrag.store.connect import LOG_LIMIT, Patient, connect, connect_existing, hold_still
from localrag.store.copied import check_copy, save_location
from localrag.store.migrations import migrations
from localrag.store.names import FILE_NAME
from localrag.store.written import LogMeter
from localrag.system.files import check_system, private_file, private_folder

CHECKPOINT = 8192  # pages of the log, 32 MB: ids are hashes, and SQLite's own 1000 are full after 32 chunks of a large index
CACHE_KIB = 65_536  # of a writer: a graph of 60,000 entities and 255,000 relationships is stored in 41 s, with SQLite's own 2 MB in 67
_ELSEWHERE = "Check the folder's permissions, or keep the index elsewhere: --index DIR"


def open_index(folder: Path, *, create: bool = False, still: bool = False, allow_torn: bool = False) -> Database:
    """The database in an index folder. `create` is for the one who holds the writer's lock: it makes what is missing and opens for writing.

    `still`: as it is at this moment, to read only, for a command that ends soon (see `snapshot`).

    `allow_torn`: also a copy whose files do not fit together (see `copied`), for `check` and its repair.

    An index of an older localrag is brought up to date, after a copy of it was made; without `create` the lock is taken for that moment.

    Raises NoIndex, IndexBusy, IndexMismatch (made by a newer localrag), TornCopy, LocalragError (damaged or not writable).
    """
    path = folder / FILE_NAME
    if not path.exists() and not create:
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH")
    try:
        copied = path.exists() and not allow_torn and check_copy(path, nullcontext() if create else writer_lock(folder))
        connection = connect(path) if create else connect_existing(path)
        try:
            db = _configured(Patient(connection), path, create=create)
            if copied:
                save_location(db, path)
            if still:
                hold_still(connection)
            return db
        except BaseException:
            connection.close()
            raise
    except (sqlite3.OperationalError, OSError) as error:
        raise LocalragError(
            f"The index {path} cannot be opened for writing: {error}.",
            _ELSEWHERE,
        ) from error
    except sqlite3.DatabaseError as error:
        raise LocalragError(f"{path} is not a usable index: {error}.", "Move it away and index again.") from error


def _configured(db: Patient, path: Path, *, create: bool) -> Patient:
    """Set a connection's pragmas and bring the tables up to date; for the arguments see `open_index`."""
    connection = db.conn
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # a deleted document leaves no text in free pages
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    if create:
        db.enable_wal()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
        db.meter = LogMeter(path)
    _check_version(db, path)
    if create:
        _migrate(db, path)
    elif migrations.pending(db):
        _migrate_alone(db, path)
    return db


def _check_version(db: Database, path: Path) -> None:
    known = {m.name for m in migrations._migrations}
    newer = [m.name for m in migrations.applied(db) if m.name not in known]
    if newer:
        raise IndexMismatch(f"The index {path} was made by a newer localrag ({newer[-1]}).", "Upgrade: pip install --upgrade localrag")


def _migrate(db: Database, path: Path) -> None:
    """Bring the tables up to date; of what there was before, a copy is kept until the next time."""
    pending = migrations.pending(db)
    if pending and migrations.applied(db):
        copy = back_up(db, path, pending[0].name)
        for old in path.parent.glob(f"{FILE_NAME}.before-m[0-9]*"):
            if old != copy:
                old.unlink()
    migrations.apply(db)


def _migrate_alone(db: Database, path: Path) -> None:
    try:
        with writer_lock(path.parent):
            _migrate(db, path)
    except IndexBusy as error:
        hint = "The index is of an older localrag and has to be brought up to date first: wait for that process, or stop it."
        raise IndexBusy(str(error), hint) from error


def back_up(db: Database, path: Path, label: str) -> Path:
    """Copy the database to `index.db.before-<label>` beside it, as it is at this moment; returns the copy's path."""
    target = path.with_name(f"{FILE_NAME}.before-{label}")
    copy_database(db, target)
    return target


def copy_database(db: Database, target: Path) -> None:
    """Copy the database, as it is at this moment, to a file that appears whole or not at all."""
    part = private_file(target.with_name(f"{target.name}.part"))
    try:
        copy = sqlite3.connect(part)
        try:
            db.conn.backup(copy)
        finally:
            copy.close()
        part.replace(target)
    finally:
        for left in (part, Path(f"{part}-journal")):  # of a full disk
            left.unlink(missing_ok=True)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the one place for writing to an index; the kernel frees it when the process ends, however it ends. Raises IndexBusy."""
    check_system()
    import fcntl  # not on Windows

    try:
        f = private_file(private_folder(folder) / "writer.lock").open("a+")
    except OSError as error:
        raise LocalragError(f"The index folder {folder} cannot be made or written to: {error.strerror}.", _ELSEWHERE) from error
    with f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            f.seek(0)
            raise IndexBusy(
                f"Another localrag (process {f.read().strip() or 'unknown'}) is writing to {folder}.",
                "Wait for it, or stop it; what it has done is saved.",
            ) from error
        f.truncate(0)
        f.write(str(os.getpid()))
        f.flush()
        yield
