"""Connections to `index.db`: how long they wait for each other, what one question reads from, and a log that stays short."""

import re
import shlex
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import IndexBusy, LocalragError, NoIndex
from localrag.store.names import FILE_NAME
from localrag.store.written import LogMeter
from localrag.system.files import private_file, private_folder

# Files beside the database that can be rebuilt from it, also those of older versions, and partial ones that killed processes left behind.
# An index folder may also hold files of the user, so only exact names match.
_KIND = r"(?:chunk|entity|report)\.[0-9a-f]+"
_CACHE = rf"(?:{_KIND}\.faiss|network\.[0-9a-f]+\.(?:[0-9a-f]+\.arrays|\w+\.npz))"
_PART = rf"(?:{_CACHE}|{_KIND}|index\.db[\w.-]*|domain\.toml[\w.]*|aliases\.txt|serve\.key)(?:\.localrag-\d+-[0-9a-f]+)?\.part(?:-journal)?"
_IS_CACHE = re.compile(rf"{_CACHE}|{_PART}").fullmatch
WRITER_WAITS = 600.0  # seconds for another process that writes: what indexing has made must be kept
ASKER_WAITS = 120.0  # the longest write measured took 80: a first graph of 100,000 chunks
LOG_LIMIT = 64 << 20  # bytes of the write-ahead log
LOG_WAITS = 2.0  # seconds for readers, when it is cut; others that write wait meanwhile
LOG_ATTEMPTS = 10  # that this wait is divided into
WRITER = "DELETE FROM main.settings WHERE false"  # changes nothing, but takes the write lock


class Patient(Database):
    """A database whose transactions wait for each other from their beginning.

    One that begins with a read and then writes would fail at once where another process wrote in between, however long it may wait.
    """

    meter: LogMeter | None = None  # of the one who holds the writer's lock

    @contextmanager
    def atomic(self) -> Generator[Database, None, None]:
        """As in Database: a transaction, or a savepoint inside of one."""
        if not self.conn.in_transaction:
            self._begin()
            try:
                yield self
            except BaseException:
                self.rollback()
                raise
            try:
                self.conn.execute("COMMIT")
            except BaseException:
                self.rollback()
                raise
            if self.meter:
                self.meter.note()
            return
        with super().atomic():
            yield self

    def _begin(self) -> None:
        """Wait for the write lock of the main database alone.

        BEGIN IMMEDIATE begins to write to the temporary tables too, and each commit would visit all their changed pages. With a graph of
        64,000 chunks in them, that was most of the time in which vectors were stored.
        """
        self.conn.execute("BEGIN")
        try:
            self.conn.execute(WRITER)
        except sqlite3.OperationalError as error:
            self.conn.execute("ROLLBACK")
            if "no such table" not in str(error):
                raise
            self.conn.execute("BEGIN IMMEDIATE")  # a database that is being made


def connect(path: Path) -> sqlite3.Connection:
    """A connection for writing; SQLite gives the files beside the database (`-wal`, `-shm`) the mode that the database has."""
    private_folder(path.parent)
    return sqlite3.connect(private_file(path), timeout=WRITER_WAITS, isolation_level="IMMEDIATE")


def connect_existing(path: Path) -> sqlite3.Connection:
    """A connection to an existing database. In a folder that cannot be written to, where SQLite cannot open the log, it only reads.

    A read-only connection does not see the log, so it is refused unless the log is empty. Raises IndexBusy, LocalragError.
    """
    try:
        return _verified(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=ASKER_WAITS, isolation_level="IMMEDIATE"))
    except sqlite3.OperationalError as error:
        if not _cannot_write(error):
            raise _open_error(path, error) from error
        if log_size(path):
            raise LocalragError(
                f"The index in {path.parent} has changes in its log ({path.name}-wal), which cannot be read from a read-only folder.",
                f"Read a copy of it: cp -r {shlex.quote(str(path.parent))} DIR, then --index DIR",
            ) from error
    try:
        return _verified(connect_without_log(path))
    except sqlite3.OperationalError as error:
        raise _open_error(path, error) from error


def _verified(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection after a first read, which makes SQLite open the log and its index; closed if that fails."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except BaseException:
        connection.close()
        raise
    return connection


def _cannot_write(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)  # or an extended code of these


def connect_without_log(path: Path) -> sqlite3.Connection:
    """A connection that reads the database without its log."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def log_size(path: Path) -> int:
    """The size of a database's log in bytes; 0 if there is none."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _open_error(path: Path, error: sqlite3.OperationalError) -> LocalragError:
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return IndexBusy(
            f"Another process holds the index in {path.parent} exclusively.", "Wait for it, or stop it; what it has done is saved."
        )
    return LocalragError(
        f"The index {path} cannot be opened: {error}.", "Check the disk and the folder's permissions; then: localrag check"
    )


@contextmanager
def snapshot(folder: Path) -> Iterator[Database]:
    """The index as it is at this moment, to read and not to write, however it is written to meanwhile.

    While it is open the write-ahead log can only grow: it is for one question, not for a conversation. Raises NoIndex.
    """
    path = folder / FILE_NAME
    if not path.exists():
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH")
    connection = connect_existing(path)
    try:
        hold_still(connection)
        yield Database(connection)
    finally:
        connection.close()


def only_read(connection: sqlite3.Connection) -> None:
    """Let every write of a connection fail: nothing of it reaches the database or its log."""
    connection.execute("PRAGMA query_only = ON")


def hold_still(connection: sqlite3.Connection) -> None:
    """Let a connection see the database as it is now for as long as it lives, and not write to it."""
    only_read(connection)
    connection.execute("BEGIN DEFERRED")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on: BEGIN alone looks at nothing


def cut_log(db: Database) -> None:
    """Write a log that is longer than LOG_LIMIT back into the database, and cut it; readers that hold it are waited for, not for long.

    SQLite by itself begins its write-ahead log anew only at a moment without readers, which may never come.
    """
    if log_size(file_of(db)) > LOG_LIMIT:
        empty_log(db)


def meter_of(db: Database) -> Callable[[], int]:
    """A function that says how many bytes were added to the log since now; only for the one who holds the writer's lock."""
    meter = db.meter if isinstance(db, Patient) else None
    before = meter.bytes if meter else 0

    def added() -> int:
        if meter:
            meter.note()
        return meter.bytes - before if meter else 0

    return added


def empty_log(db: Database) -> bool:
    """Write the log back into the database and cut it to nothing; False where readers hold it longer than they are waited for.

    Several short attempts: SQLite waits for the read marks (places in the log) that readers held when an attempt began. A new reader may
    take over such a mark, and others may join it; one long attempt would wait for all of them.
    """
    if isinstance(db, Patient) and db.meter:
        db.meter.note()
    db.execute(f"PRAGMA busy_timeout = {LOG_WAITS * 1000 / LOG_ATTEMPTS:.0f}")
    try:
        return any(not _checkpoint_busy(db) for _ in range(LOG_ATTEMPTS))
    finally:
        db.execute(f"PRAGMA busy_timeout = {WRITER_WAITS * 1000:.0f}")


def _checkpoint_busy(db: Database) -> bool:
    ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return bool(busy)


def file_of(db: Database) -> Path:
    """The file of a database."""
    (path,) = [file for _, name, file in db.execute("PRAGMA database_list") if name == "main"]
    return Path(path)


def folder_of(db: Database) -> Path:
    """The index folder that a database is in."""
    return next(Path(file).parent for _, name, file in db.execute("PRAGMA database_list") if name == "main")


def cache_files(folder: Path) -> list[Path]:
    """The files of an index folder that can be rebuilt from its database, and partial ones that killed processes left behind."""
    return [path for path in folder.glob("*") if is_cache(path)]


def is_cache(path: Path) -> bool:
    """Whether a file of an index folder is a cache file, by its name."""
    return _IS_CACHE(path.name) is not None
