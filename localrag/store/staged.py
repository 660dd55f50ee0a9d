"""The graph as it will be: rows that are new, and keys of rows that go, wait in temporary tables beside the published ones.

A run changes the graph by difference. What it reads of it is what the run made of it so far (`Staged.rows`), what others read is the
published graph, until `publish` puts the difference in place in the caller's transaction. Temporary tables are files of their own: a
change of any size takes no memory. Where a process is killed before, nothing has happened: the difference is made anew, without a model.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlite_utils import Database

from localrag.system.cores import free_memory

Row = tuple[Any, ...]
AMONG = "IN (SELECT value FROM json_each(?))"  # a list of keys, as JSON
CACHE_KIB = 262_144, 2_097_152  # of the temporary tables: at least, and at most, where an eighth of the free memory is so much
MANY = 50_000  # rows of a table that come together
TOGETHER = 50_000  # rows of a whole table that are in memory together


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table, how many of them are its key, and those it is also looked up by."""

    columns: tuple[str, ...]
    keys: int
    indexes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.columns[: self.keys]


def _table(columns: str, keys: int, *indexes: str) -> Table:
    return Table(tuple(columns.split()), keys, indexes)


TABLES = {  # those that others refer to first
    "entities": _table("id name type description degree descriptions", 1),
    "entity_aliases": _table("alias entity_id", 2, "entity_id"),
    "relationships": _table("id source_id target_id description weight strength descriptions", 1, "source_id", "target_id"),
    "mentions": _table("entity_id chunk_id start end name telling", 4, "chunk_id"),
    "evidence": _table("relationship_id chunk_id start end", 4, "chunk_id"),
    "claims": _table("id chunk_id subject_id object_id type status since until description start end", 1, "chunk_id", "subject_id"),
    "communities": _table("id level ordinal parent_id", 1, "parent_id"),
    "members": _table("community_id entity_id", 2, "entity_id"),
    "community_weights": _table("community_id strength inside", 1),
    "attached": _table("entity_id to_id", 1, "to_id"),
    "merges": _table("name_key key done reason score", 3),
    "graph_chunks": _table("chunk_id document_id made_from", 1, "document_id"),
    "names": _table("document_id key texts types descriptions text type count target reason score base entity", 2, "key", "base, type"),
    "name_keys": _table("key text type count target reason score", 1, "target", "type, substr(key, 1, 2), count"),
    "name_offers": _table("value key", 2),
    "name_asks": _table("value key", 2),
    "homonyms": _table("base person entity", 1),
    "nodes": _table("id key base sentences strongest", 1, "key"),
    "pairs": _table("a b relationship_id shared chunks statements strength read weight kept", 2, "a, weight", "b, weight", "weight"),
    "document_nodes": _table("document_id node sentences", 2),
    "document_pairs": _table("document_id a b shared chunks statements strength read descriptions", 3, "a, b"),
    "statements": _table("chunk_id a b start end", 5, "a, b"),
    "weight_counts": _table("bucket n", 1),
    "alike": _table("block a b score", 3, "score"),
}

PUBLIC = frozenset("entities entity_aliases relationships mentions evidence claims communities members merges".split())  # others read these


class Staged:
    """The graph's tables with what waits for them. One at a time for a connection; `publish` or `close` ends it."""

    def __init__(self, db: Database, *, anew: bool = False) -> None:
        """`anew`: nothing of what is published is read; where it is the same in the end, it is not written again."""
        self.db, self._anew = db, anew
        db.execute(f"PRAGMA temp.cache_size = -{_cache_kib()}")  # SQLite's own is 2 MB
        self._ended = self._inside = False
        self._fresh: dict[str, bool] = {}  # tables that hold nothing: half of the work
        for name, table in TABLES.items():
            listed = ", ".join(f'"{c}"' for c in table.columns)
            key = ", ".join(f'"{c}"' for c in table.key)
            db.execute(f"CREATE TEMP TABLE next_{name} ({listed}, PRIMARY KEY ({key})) WITHOUT ROWID")
            self._make_indexes(name)
            db.execute(f"CREATE TEMP TABLE gone_{name} ({key}, PRIMARY KEY ({key})) WITHOUT ROWID")
            self._fresh[name] = anew or not _holds_any(db, name)

    @property
    def anew(self) -> bool:
        """Whether it was made without a look at what is published."""
        return self._anew

    @property
    def ended(self) -> bool:
        """Whether what is read is what is published."""
        return self._ended

    @classmethod
    def published(cls, db: Database) -> "Staged":
        """The tables as they are published, to read."""
        found = cls.__new__(cls)
        found.db, found._ended, found._anew = db, True, False
        return found

    def put(self, name: str, rows: Iterable[Row]) -> None:
        """Rows that are new or other than before."""
        table = TABLES[name]
        some = list(rows)
        if not some:
            return
        marks = ", ".join("?" * len(table.columns))
        with self.together():
            self.db.conn.executemany(f"INSERT OR REPLACE INTO temp.next_{name} VALUES ({marks})", some)
            self._hide(name, [row[: table.keys] for row in some])

    def drop(self, name: str, keys: Iterable[Row]) -> None:
        """Rows that go, by their keys."""
        table = TABLES[name]
        some = list(keys)
        if not some:
            return
        where = " AND ".join(f'"{c}" = ?' for c in table.key)
        with self.together():
            self.db.conn.executemany(f"DELETE FROM temp.next_{name} WHERE {where}", some)
            self._hide(name, some)

    @contextmanager
    def together(self) -> Iterator[None]:
        """One transaction, of the temporary tables alone, for all that is put and dropped inside; the end of each visits all changed pages.

        Without it sqlite3 would begin one that locks out everybody else who writes. Nothing may be written to the index inside. One inside
        another is a part of it: for each of its own SQLite would copy every page that it changes.
        """
        if self._inside:
            yield
            return
        self.db.conn.execute("SAVEPOINT staged")
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self.db.conn.execute("RELEASE staged")

    def replace(self, name: str, old: Iterable[Row], new: Iterable[Row]) -> set[Row]:
        """Make rows `new` of those that were read as `old`; the keys of those that differ."""
        n = TABLES[name].keys
        before, after = ({row[:n]: row for row in some} for some in (old, new))
        gone = [key for key in before if key not in after]
        changed = [row for key, row in after.items() if before.get(key) != row]
        self.drop(name, gone)
        self.put(name, changed)
        return {*gone, *(row[:n] for row in changed)}

    def is_empty(self, name: str) -> bool:
        """Whether a table has no rows, neither published ones nor others."""
        return self._fresh[name] and next(self.rows(name, columns="1", first="LIMIT 1"), None) is None

    def fill(self, name: str, rows: Iterable[Row]) -> None:
        """Rows of a table that `is_empty`, in any order. They are sorted first, so that each page of the table is written once."""
        table, left = TABLES[name], iter(rows)
        listed, key = (", ".join(f'"{c}"' for c in some) for some in (table.columns, table.key))
        self.db.execute(f"CREATE TEMP TABLE unsorted ({listed})")
        try:
            while some := list(islice(left, TOGETHER)):
                with self.together():
                    self.db.conn.executemany(f"INSERT INTO temp.unsorted VALUES ({', '.join('?' * len(table.columns))})", some)
            with self.together():
                for n in range(len(table.indexes)):
                    self.db.execute(f"DROP INDEX temp.next_{name}_{n}")
                self.db.execute(f"INSERT INTO temp.next_{name} SELECT * FROM temp.unsorted ORDER BY {key}")
                self._make_indexes(name)
        finally:
            self.db.execute("DROP TABLE temp.unsorted")

    def _make_indexes(self, name: str) -> None:
        for n, columns in enumerate(TABLES[name].indexes):
            self.db.execute(f"CREATE INDEX temp.next_{name}_{n} ON next_{name} ({columns})")

    def supplant(self, name: str, rows: Iterable[Row]) -> None:
        """Make these all the rows of a table; those that are as they are published are not written again."""
        table = TABLES[name]
        listed, key = (", ".join(f'"{c}"' for c in some) for some in (table.columns, table.key))
        with self.together():
            self.db.execute(f"DELETE FROM temp.next_{name}")
            if not self._fresh[name]:
                self.db.execute(f"INSERT OR IGNORE INTO temp.gone_{name} SELECT {key} FROM main.{name}")
        left = iter(rows)
        while some := list(islice(left, TOGETHER)):
            self.put(name, some)
        if not self._fresh[name]:
            same = f"SELECT {key} FROM (SELECT {listed} FROM temp.next_{name} INTERSECT SELECT {listed} FROM main.{name})"
            with self.together():
                self.db.execute(f"DELETE FROM temp.gone_{name} WHERE ({key}) IN ({same})")
                self.db.execute(f"DELETE FROM temp.next_{name} AS t WHERE {_missing(name, f'temp.gone_{name}')}")

    def _hide(self, name: str, keys: Sequence[Row]) -> None:
        if not self._fresh[name]:
            marks = ", ".join("?" * TABLES[name].keys)
            self.db.conn.executemany(f"INSERT OR IGNORE INTO temp.gone_{name} VALUES ({marks})", keys)

    def rows(self, name: str, where: str = "true", values: Sequence[Any] = (), columns: str = "", first: str = "") -> Iterator[Row]:
        """The rows of a table as it will be, in no order; all of its columns, or some. `where` says `t` for the table.

        `first`: an order and a limit; those that come first are among the rows that are given.
        """
        table = TABLES[name]
        if self._ended:
            listed = columns or ", ".join(f't."{c}"' for c in table.columns)
            return self.db.conn.execute(f"SELECT {listed} FROM main.{name} t WHERE {where} {first}", values)
        listed = columns or ", ".join(f't."{c}"' for c in table.columns)
        waiting = f"SELECT {listed} FROM temp.next_{name} t WHERE {where} {first}"
        if self._fresh[name]:
            return self.db.conn.execute(waiting, values)
        same = " AND ".join(f'g."{c}" = +t."{c}"' for c in table.key)  # +: as it is; a number's type would keep SQLite from its index
        stays = f"NOT EXISTS (SELECT 1 FROM temp.gone_{name} g WHERE {same})"
        published = f"SELECT {listed} FROM main.{name} t WHERE ({where}) AND {stays} {first}"
        return self.db.conn.execute(f"SELECT * FROM ({published}) UNION ALL SELECT * FROM ({waiting})", [*values, *values])

    def row(self, name: str, *key: Any) -> Row | None:
        """The row with this key."""
        where = " AND ".join(f't."{c}" = ?' for c in TABLES[name].key)
        return next(iter(self.rows(name, where, key)), None)

    def some(self, name: str, ids: Sequence[str]) -> list[Row]:
        """The rows with these ids, in their order, as far as there are any."""
        found = {row[0]: row for row in self.rows(name, f"t.id {AMONG}", [json.dumps(list(ids))])}
        return [found[key] for key in ids if key in found]

    def count(self, name: str, where: str = "true", values: Sequence[Any] = ()) -> int:
        """How many rows a table will have, all or some."""
        return sum(n for (n,) in self.rows(name, where, values, "count(*)"))

    def values(self, name: str, column: str) -> set[Any]:
        """The values of a column, those of rows that go included."""
        tables = [f"main.{name}"] * (not self._anew) + [f"temp.next_{name}"] * (not self._ended)
        return {value for table in tables for (value,) in self.db.execute(f"SELECT DISTINCT {column} FROM {table}")}

    def most(self, name: str, column: str, where: str = "true", values: Sequence[Any] = ()) -> int:
        """The largest number in a column, -1 where there are no rows."""
        return max((n for (n,) in self.rows(name, where, values, f"max(t.{column})") if n is not None), default=-1)

    def changed(self, name: str) -> list[Row]:
        """The keys of rows that are new, other than before or go; none once they are published."""
        if self._ended:
            return []
        key = ", ".join(f'"{c}"' for c in TABLES[name].key)
        return list(self.db.execute(f"SELECT {key} FROM temp.next_{name} UNION SELECT {key} FROM temp.gone_{name}"))

    def changes(self, name: str, columns: str) -> Iterator[tuple[Row, Row | None, Row | None]]:
        """The keys of rows that differ, each with these columns as they are published and as they will be."""
        where = " AND ".join(f'"{c}" = ?' for c in TABLES[name].key)
        tables = f"main.{name}", f"temp.next_{name}"
        for key in self.changed(name):
            before, now = (self.db.conn.execute(f"SELECT {columns} FROM {table} WHERE {where}", key).fetchone() for table in tables)
            yield key, before, now

    def turnover(self, name: str) -> tuple[Iterator[Row], Iterator[Row]]:
        """The published rows of a table that go or become others, and those that come for them or are new; some may be the same."""
        listed, key = (", ".join(f't."{c}"' for c in some) for some in (TABLES[name].columns, TABLES[name].key))
        gone = f"SELECT {listed} FROM temp.gone_{name} g CROSS JOIN main.{name} t ON ({key}) = ({key.replace('t.', 'g.')})"
        return self.db.conn.execute(gone), self.db.conn.execute(f"SELECT {listed} FROM temp.next_{name} t")

    def publish(self) -> None:
        """Put the difference in place of what is published, and end. The caller's transaction must hold it together."""
        db = self.db
        for name in reversed(TABLES):  # what refers to others goes before them
            key = ", ".join(f'"{c}"' for c in TABLES[name].key)
            stay, ending = f"SELECT {key} FROM temp.next_{name}", f"SELECT {key} FROM temp.gone_{name}"
            if self._anew and name not in PUBLIC:  # others of their rows may have the numbers that these have now
                db.execute(f"DELETE FROM main.{name}")
            elif self._anew:
                db.execute(f"DELETE FROM main.{name} AS t WHERE {_missing(name, f'temp.next_{name}')}")
            else:  # one by one: for a key of several columns SQLite would scan the table
                where = " AND ".join(f'"{c}" = ?' for c in TABLES[name].key)
                db.conn.executemany(f"DELETE FROM main.{name} WHERE {where}", db.conn.execute(f"{ending} EXCEPT {stay}"))
        for name, table in TABLES.items():
            listed, key = (", ".join(f'"{c}"' for c in some) for some in (table.columns, table.key))
            update = ", ".join(f'"{c}" = excluded."{c}"' for c in table.columns[table.keys :])
            mend = f"UPDATE SET {update}" if update else "NOTHING"
            known = self._anew and _holds_any(db, name)
            new = f"SELECT {listed} FROM temp.next_{name}" + f" EXCEPT SELECT {listed} FROM main.{name}" * known
            if name == "communities":  # level and number are unique: those that change places must not meet
                db.execute(f"UPDATE main.communities SET ordinal = -1 - ordinal WHERE id IN (SELECT id FROM ({new}))")
            put = f"INSERT INTO main.{name} ({listed}) SELECT * FROM ({new}) WHERE true ORDER BY {key} ON CONFLICT ({key}) DO {mend}"
            with _indexed_at_once(db, name):
                db.execute(put)
        self.close()

    def close(self) -> None:
        """Forget what was not published. From here on what is published is read, and nothing can be put."""
        self._ended = True
        for name in TABLES:
            self.db.execute(f"DROP TABLE IF EXISTS temp.next_{name}")
            self.db.execute(f"DROP TABLE IF EXISTS temp.gone_{name}")


def _missing(name: str, other: str) -> str:
    """That another table has no row with the key of a row `t`. For NOT IN with several columns SQLite would scan it each time."""
    same = " AND ".join(f'o."{c}" = t."{c}"' for c in TABLES[name].key)
    return f"NOT EXISTS (SELECT 1 FROM {other} o WHERE {same})"


def _cache_kib() -> int:
    """A graph that fits is never read from a file: its keys are hashes, and nearly every row is on another page than the one before it."""
    least, most = CACHE_KIB
    return max(least, min(most, (free_memory() or 0) // 8 // 1024))


@contextmanager
def _indexed_at_once(db: Database, table: str) -> Iterator[None]:
    """Rebuild a table's indexes after an insert of more than MANY rows, and more than the table has, instead of updating them row by row.

    Ids are hashes: row by row, nearly every one changes another page of each index, and pages that do not fit into memory go to the log.
    """
    new = db.execute(f"SELECT count(*) FROM temp.next_{table}").fetchone()[0]
    indexes = []
    if new > MANY and new > db.execute(f"SELECT count(*) FROM main.{table}").fetchone()[0]:
        indexes = db.execute(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql > ''", [table]
        ).fetchall()
    for name, _ in indexes:
        db.execute(f'DROP INDEX main."{name}"')
    yield
    for _, sql in indexes:
        db.execute(sql)


def _holds_any(db: Database, table: str) -> bool:
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM main.{table})").fetchone()[0])
