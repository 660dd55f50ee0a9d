"""What a check finds, and what all checks use."""

from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database

from localrag.store import ledger

SHOWN = 3  # of many things that are wrong in the same way


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that is not as it must be; `mend` says how it is mended (`repair.py`), `keys` where.

    `due`: it is not there yet, or is to be made anew; the next `localrag index` does it.
    """

    text: str
    mend: str = ""
    keys: tuple[Any, ...] = ()
    due: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the index: what was looked at, and what was found to be wrong."""

    name: str
    looked_at: str
    wrong: tuple[Wrong, ...] = ()


def some_of(keys: list[Any]) -> str:
    """The first few of what is wrong."""
    return ", ".join(map(str, keys[:SHOWN])) + (" …" if len(keys) > SHOWN else "")


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    """All that a query finds; for one that finds what is wrong, or little."""
    return list(db.execute(sql))


def one(db: Database, sql: str) -> Any:
    """The value that a query finds."""
    return db.execute(sql).fetchone()[0]


def finished(db: Database) -> bool:
    """Whether the last run came to its end, so that nothing should be missing."""
    run = ledger.last_run(db)
    return run is not None and run["state"] in ("complete", "partly")
