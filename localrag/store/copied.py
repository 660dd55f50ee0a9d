"""Detect a copy of an index folder that a program such as `cp` took while the index was being written to.

Such a program copies the database and its log one after the other. While a run writes, the log only grows, so the two together usually are
some state of the index. Now and then the log is written back into the database and emptied; a copy that spans this moment may be a mixture
of two states. So a run first stores in the database where the database is on the disk. A copy finds itself elsewhere, and is checked once
before it is used.

One case goes undetected: the copy of the database begins before the run, and that of the log follows when the log is empty again. Then
neither file shows that there was a run.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.store import ledger
from localrag.store.connect import connect_without_log, empty_log, file_of, log_size

LOCATION_KEY = "written_at"  # a setting: [where the database is on the disk, whether a run is writing to it]


class TornCopy(LocalragError):
    """The index is a copy whose files are of different states."""


@contextmanager
def marked_as_writing(db: Database) -> Iterator[None]:
    """Store in the database file, not in its log alone, where it is and that a run is writing to it. The caller holds the writer's lock.

    The mark is removed once the log is empty. If it stays (after a kill, or on a full disk), the next copy is checked in vain.
    """
    place = _location(file_of(db))
    ledger.save_settings(db, **{LOCATION_KEY: [place, True]})
    empty_log(db)
    try:
        yield
    finally:
        with suppress(sqlite3.OperationalError):
            empty_log(db)
            ledger.save_settings(db, **{LOCATION_KEY: [place, False]})


def check_copy(path: Path, lock: AbstractContextManager[object]) -> bool:
    """Check the database at `path` if it is a copy taken during a run, and return whether it is one. Raises TornCopy, IndexBusy.

    Call it before opening a connection that writes, which would write the log back into the database. If the database is sound only
    without its log (copied earlier, so older), the log is deleted under the writer's `lock`; a null context if the caller holds it.
    """
    log = _log_state(path)
    with closing(connect_without_log(path)) as alone, closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as whole:
        noted = _saved_location(alone) or _saved_location(whole)
        if not noted or noted[0] == _location(path) or not (noted[1] or log_size(path)):
            return False
        try:
            if _is_sound(whole, path.parent):
                return True
        except sqlite3.OperationalError:  # the log cannot be read here; opening the index reports that
            return False
    with closing(connect_without_log(path)) as connection:
        if not log_size(path) or not _is_sound(connection, path.parent):
            raise TornCopy(
                f"The index in {path.parent} is a copy taken while the index was being written to, and its parts do not fit together.",
                "Copy it again while nothing writes to it (localrag pack can be used at any time), or repair it: localrag check --repair",
            )
    with lock:
        if _log_state(path) == log:  # still the one that was checked: no run is writing to it
            for ending in ("-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
    return True


def _log_state(path: Path) -> tuple[int, ...]:
    """What changes with a database's log; empty if there is none."""
    try:
        facts = Path(f"{path}-wal").stat()
    except FileNotFoundError:
        return ()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def save_location(db: Database, path: Path) -> None:
    """Store the location of a copy that was checked, so that it is not checked again; a read-only copy is checked each time."""
    with suppress(sqlite3.OperationalError):
        ledger.save_settings(db, **{LOCATION_KEY: [_location(path), False]})


def _saved_location(connection: sqlite3.Connection) -> list[Any] | None:
    try:
        found = connection.execute("SELECT value FROM settings WHERE key = ?", [LOCATION_KEY]).fetchone()
        saved = json.loads(found[0]) if found else None
    except (sqlite3.DatabaseError, TypeError, ValueError, RecursionError):  # damaged, half written, or unreadable
        return None
    return saved if isinstance(saved, list) and len(saved) == 2 else None


def _is_sound(connection: sqlite3.Connection, folder: Path) -> bool:
    """Whether `check` finds no fault. Raises sqlite3.OperationalError if the database cannot be read."""
    from localrag.store.check import check_index, wrongs  # imports half of the store

    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return not list(wrongs(check_index(Database(connection), folder)))


def _location(path: Path) -> str:
    facts = path.stat()
    return f"{facts.st_dev}:{facts.st_ino}"
