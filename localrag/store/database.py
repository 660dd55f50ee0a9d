"""Connections to `index.db`: lock timeouts, read snapshots, WAL checkpoints, cache files, in-memory caches, backups."""

import fcntl
import re
import shlex
import sqlite3
import traceback
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import IndexBusy, LocalragError, NoIndex, error_location, is_disk_full
from localrag.store.location import DATABASE_FILE, check_files
from localrag.store.schema import changed_tables, check_schema, tables_with_other_types
from localrag.system.files import ensure_private_file, ensure_private_folder, new_database_file, open_regular_file

# Files that can be rebuilt from the database, also of older versions, and partial files of killed processes.
# An index folder may also hold files of the user, so only exact names match.
_KIND = r"(?:chunk|entity|report)\.[0-9a-f]+"
_CACHE = rf"(?:{_KIND}\.faiss|network\.[0-9a-f]+\.arrays|themes\.[0-9a-f]+\.json|subjects\.[0-9a-f]+\.npz)"
_PART = rf"(?:{_CACHE}|{_KIND}|index\.db[\w.-]*|domain\.toml[\w.]*|aliases\.txt|serve\.key)(?:\.localrag-\d+-[0-9a-f]+)?\.part(?:-journal)?"
_IS_CACHE = re.compile(rf"{_CACHE}|{_PART}").fullmatch
WRITER_LOCK_FILE = "writer.lock"
MAX_PID_DIGITS = 20
WRITER_BUSY_TIMEOUT_S = 600.0  # seconds to wait for another writer, so that no indexed work is lost
READER_BUSY_TIMEOUT_S = 120.0  # the longest measured write took 80 s: a first graph of 100,000 chunks
WAL_LIMIT_BYTES = 64 << 20  # bytes of the WAL above which it is truncated
CHECKPOINT_TIMEOUT_S = 2.0  # seconds to wait for readers; other writers wait meanwhile
CHECKPOINT_ATTEMPTS = 10  # attempts within this time
TAKE_WRITE_LOCK = "DELETE FROM main.index_settings WHERE false"  # changes no row


class ImmediateDatabase(Database):
    """A database whose transactions take the write lock at their start and wait for it.

    A transaction that starts with a read and then writes would fail at once if another process wrote in between.
    """

    @contextmanager
    def atomic(self) -> Generator[Database, None, None]:
        """A transaction, or a savepoint inside one, as in the base class."""
        if not self.conn.in_transaction:
            try:
                self._begin()
                yield self
                self.conn.execute("COMMIT")
            except BaseException:  # also an interrupt at any of these lines
                self.rollback()
                raise
            return
        with super().atomic():
            yield self

    def _begin(self) -> None:
        """Take the write lock of the main database alone.

        BEGIN IMMEDIATE would also start a write on the temporary tables, and each commit would visit all their changed pages: with a staged
        graph of 64,000 chunks, most of the time of storing vectors.
        """
        self.conn.execute("BEGIN")
        try:
            self.conn.execute(TAKE_WRITE_LOCK)
        except sqlite3.OperationalError as error:
            self.conn.execute("ROLLBACK")
            if "no such table" not in str(error):
                raise
            self.conn.execute("BEGIN IMMEDIATE")  # a new database


@contextmanager
def temporary_table(db: Database, name: str, definition: str) -> Generator[None, None, None]:
    """Create a table of this connection for the block.

    After an error or an interrupt it stays until its next use: a statement that still reads it would forbid that it is dropped, and this
    error would hide the first.
    """
    db.execute(f"DROP TABLE IF EXISTS temp.{name}")
    db.execute(f"CREATE TEMP TABLE {name} {definition}")
    yield
    db.execute(f"DROP TABLE temp.{name}")


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection for writing; SQLite gives the `-wal` and `-shm` files the mode of the database. Raises as `check_schema`."""
    ensure_private_folder(path.parent)
    return _checked(sqlite3.connect(ensure_private_file(path), timeout=WRITER_BUSY_TIMEOUT_S, isolation_level="IMMEDIATE"), path)


def connect_existing(path: Path) -> sqlite3.Connection:
    """Open an existing database; read-only in a folder that is not writable, or on a full disk, where SQLite cannot open the WAL.

    A read-only connection does not see the WAL, so it is refused unless the WAL is empty. Raises IndexBusy, and as `check_schema`.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        return _checked(sqlite3.connect(uri, uri=True, timeout=READER_BUSY_TIMEOUT_S, isolation_level="IMMEDIATE"), path)
    except sqlite3.OperationalError as error:
        if not _cannot_write(error):
            raise _open_error(path, error) from error
        if log_size(path):
            place = "on a full disk" if is_disk_full(error) else "from a read-only folder"
            raise LocalragError(
                f"The index in {path.parent} has changes in its log ({path.name}-wal), which cannot be read {place}.",
                f"Read a copy of it: cp -r {shlex.quote(str(path.parent))} DIR, then --index DIR",
            ) from error
    try:
        return _checked(connect_without_log(path), path)
    except sqlite3.OperationalError as error:
        raise _open_error(path, error) from error


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Check the schema, for which SQLite opens the WAL; closes the connection if that fails."""
    try:
        check_schema(connection, path)
        _last_database.append(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _cannot_write(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or is_disk_full(error)


def connect_without_log(path: Path) -> sqlite3.Connection:
    """Open the database read-only without its WAL. Its schema is not checked yet."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def log_size(path: Path) -> int:
    """The size of a database's WAL in bytes; 0 if there is none."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def active_writer(folder: Path) -> str:
    """The number of the process that holds the lock for writing to an index; empty if none does."""
    with suppress(OSError), open_regular_file(folder / WRITER_LOCK_FILE) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return lock.read(MAX_PID_DIGITS).decode("ascii", "replace").strip() or "unknown"
    return ""


def busy_error(folder: Path, writer: str) -> IndexBusy:
    """The error if another process writes to an index."""
    return IndexBusy(f"Another localrag (process {writer}) is writing to {folder}.", "Wait for it, or stop it; its finished work is saved.")


def _open_error(path: Path, error: sqlite3.OperationalError) -> LocalragError:
    # SQLITE_PROTOCOL: the process that has just opened the log was stopped before it had read it.
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        if writer := active_writer(path.parent):
            return busy_error(path.parent, writer)
        return IndexBusy(
            f"Another process holds the index in {path.parent} exclusively.", "Wait for it, or stop it; its finished work is saved."
        )
    return LocalragError(
        f"The index {path} cannot be opened: {error}.", "Check the disk and the folder's permissions; then: localrag check"
    )


DATA_ERRORS = (sqlite3.DatabaseError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_last_database: deque[Path] = deque(maxlen=1)  # the database that this process opened last


def store_error(error: BaseException) -> LocalragError | None:
    """The error to show instead of one that values in the index cause which localrag did not write; else None."""
    path = next(iter(_last_database), Path())
    if not isinstance(error, DATA_ERRORS) or not path.is_file():
        return None
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        reason = str(error)
    elif tables := _damaged_tables(path, log_size(path), path.stat().st_mtime_ns):
        reason = f"values that localrag did not write, in {', '.join(tables[:3])}"
    elif is_of_store(error):
        reason = "a value in it cannot be read"
    else:
        return None
    return LocalragError(
        f"The index in {path.parent} is damaged: {reason} ({error_location(error)}).",
        "See all of it: localrag check. Repair it: localrag check --repair, then localrag index PATH. See the value: LOCALRAG_DEBUG=1",
    )


def is_of_store(error: BaseException) -> bool:
    """Whether an error was raised while a value of the index was read or written."""
    return any(Path(frame.filename).parent == Path(__file__).parent for frame in traceback.extract_tb(error.__traceback__))


@cache
def _damaged_tables(path: Path, *_state: int) -> list[str]:
    """The tables of a database in this state whose rows localrag did not write."""
    with suppress(LocalragError, sqlite3.Error), closing(connect_existing(path)) as connection:
        return sorted({*changed_tables(Database(connection)), *tables_with_other_types(connection)})
    return []


@contextmanager
def snapshot(folder: Path) -> Iterator[Database]:
    """Open the index read-only in its current state, unaffected by writes meanwhile.

    While it is open the WAL can only grow, so use it for one question, not for a conversation. Raises NoIndex.
    """
    path = folder / DATABASE_FILE
    if not path.exists():
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH")
    check_files(folder)
    connection = connect_existing(path)
    try:
        pin_snapshot(connection)
        yield Database(connection)
    finally:
        connection.close()


def set_read_only(connection: sqlite3.Connection) -> None:
    """Make every write of a connection fail."""
    connection.execute("PRAGMA query_only = ON")


def pin_snapshot(connection: sqlite3.Connection) -> None:
    """Pin this connection to a read snapshot of the current state."""
    set_read_only(connection)
    connection.execute("BEGIN DEFERRED")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the snapshot starts with the first read, not with BEGIN


def checkpoint_wal(db: Database) -> None:
    """Checkpoint and truncate the WAL if it is longer than WAL_LIMIT_BYTES, with a short wait for readers.

    SQLite itself restarts the WAL only at a moment without readers, which may never come.
    """
    if log_size(file_of(db)) > WAL_LIMIT_BYTES:
        truncate_wal(db)


def truncate_wal(db: Database) -> bool:
    """Checkpoint and truncate the WAL; False if readers hold it longer than CHECKPOINT_TIMEOUT_S.

    Several short attempts: SQLite waits for the read marks held when an attempt began, and new readers may join such a mark; a single long
    attempt would wait for all of them.
    """
    db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_TIMEOUT_S * 1000 / CHECKPOINT_ATTEMPTS:.0f}")
    try:
        return any(not _checkpoint_busy(db) for _ in range(CHECKPOINT_ATTEMPTS))
    finally:
        db.execute(f"PRAGMA busy_timeout = {WRITER_BUSY_TIMEOUT_S * 1000:.0f}")


def _checkpoint_busy(db: Database) -> bool:
    ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return bool(busy)


def file_of(db: Database) -> Path:
    """The file of a database."""
    return next(Path(file) for _, name, file in db.execute("PRAGMA database_list") if name == "main")


def folder_of(db: Database) -> Path:
    """The index folder of a database."""
    return file_of(db).parent


def rebuildable_files(folder: Path) -> list[Path]:
    """The cache files of an index folder, and partial files of killed processes."""
    return [path for path in folder.glob("*") if is_cache(path)]


def is_cache(path: Path) -> bool:
    """Whether a file of an index folder is a cache file, by its name."""
    return _IS_CACHE(path.name) is not None


IndexCaches = dict[str, tuple[Any, ...]]  # name → (state of the index, cached values …)

_caches: dict[Path, IndexCaches] = {}


@contextmanager
def keep_caches(folder: Path) -> Iterator[None]:
    """Keep an index's in-memory caches until the end of the block; blocks of the same index within it share them."""
    folder, own = folder.resolve(), IndexCaches()
    shared = _caches.setdefault(folder, own)
    try:
        yield
    finally:
        if shared is own:
            del _caches[folder]


def caches_of(folder: Path) -> IndexCaches:
    """The in-memory caches of an index; a fresh dict if no `keep_caches` block is open."""
    return _caches.get(folder.resolve(), {})


ViewRow = dict[str, Any]


def copy_database(db: Database, target: Path) -> None:
    """Copy the current state of the database to a file that appears completely or not at all."""
    part = new_database_file(target.with_name(f"{target.name}.part"))
    try:
        copy = sqlite3.connect(part)
        try:
            db.conn.backup(copy)
        finally:
            copy.close()
        part.replace(target)
    finally:
        for leftover in (part, Path(f"{part}-journal")):  # left by a full disk
            leftover.unlink(missing_ok=True)


def back_up_database(db: Database, path: Path, label: str) -> Path:
    """Copy the current state of the database to `index.db.before-<label>` beside it; returns the copy's path."""
    target = path.with_name(f"{DATABASE_FILE}.before-{label}")
    copy_database(db, target)
    return target
