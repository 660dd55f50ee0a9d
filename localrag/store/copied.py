"""A copy of an index folder that was taken, by a program that knows nothing of databases, while the index was written to.

Such a program copies the database and its log one after the other. The log only grows while a writer works, so together they are some
state of the index; but now and then the log is written into the database and begins anew, and a copy of those moments may fit together
as nothing. It is known by its place on the disk, which is noted before anything is written, and is checked once before it is used.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.store import ledger
from localrag.store.connect import connect_alone, empty_log, file_of, log_of

NOTE = "written_at"  # the setting: where the database is on the disk, and whether it is being written to


class Torn(LocalragError):
    """The copy of an index whose parts are of different moments."""


@contextmanager
def noted_as_written(db: Database) -> Iterator[None]:
    """Note in the database itself, not in its log alone, that it is written to, and where it is; for the one who holds the writer's lock.

    The note is taken back when the log is empty. One that stays (of a killed process, a full disk) costs a copy that check.
    """
    place = _place(file_of(db))
    ledger.save_settings(db, **{NOTE: [place, True]})
    empty_log(db)
    try:
        yield
    finally:
        with suppress(sqlite3.OperationalError):
            empty_log(db)
            ledger.save_settings(db, **{NOTE: [place, False]})


def check_copy(path: Path) -> bool:
    """Check the database at `path`, if it is a copy that was taken while it was written to; whether it was. Raises Torn.

    For it to be called before a connection that writes is opened: that one would write the log into the database. Where the log is what
    does not fit (it was copied first, and is older), it is removed.
    """
    with closing(connect_alone(path)) as alone, closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as whole:
        noted = _noted(alone) or _noted(whole)
        if not noted or noted[0] == _place(path) or not (noted[1] or log_of(path)):
            return False
        try:
            if _is_sound(whole, path.parent):
                return True
        except sqlite3.OperationalError:  # its log cannot be read here, which is said where it is opened
            return False
    with closing(connect_alone(path)) as connection:
        if not log_of(path) or not _is_sound(connection, path.parent):
            raise Torn(
                f"The index in {path.parent} is a copy that was taken while the index was written to, and its parts do not fit together.",
                "Copy it again while nothing is written to it (localrag pack can copy it at any time), or mend it: localrag check --repair",
            )
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    return True


def note_place(db: Database, path: Path) -> None:
    """Note where a copy that was checked is, so that it is checked once; where nothing can be written, it is each time."""
    with suppress(sqlite3.OperationalError):
        ledger.save_settings(db, **{NOTE: [_place(path), False]})


def _noted(connection: sqlite3.Connection) -> list[Any] | None:
    try:
        return ledger.settings(Database(connection)).get(NOTE)
    except (sqlite3.DatabaseError, TypeError, ValueError):  # damaged, in the middle of being written, or not to be read
        return None


def _is_sound(connection: sqlite3.Connection, folder: Path) -> bool:
    """Whether nothing is wrong. Raises sqlite3.OperationalError where it cannot be read."""
    from localrag.store.check import check_index, wrongs  # with what it checks by

    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return not list(wrongs(check_index(Database(connection), folder)))


def _place(path: Path) -> str:
    facts = path.stat()
    return f"{facts.st_dev}:{facts.st_ino}"
