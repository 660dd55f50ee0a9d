"""GraphStaging: the graph's staged rows and deletions, and the inputs the graph is built from: per chunk, the extraction used.

A run changes the graph by difference, in temporary tables beside the published ones. The run reads the merged state, other connections the
published graph, until `publish` applies the difference in the caller's transaction. SQLite keeps temporary tables in files of their own, so
a change of any size fits in memory. After a kill the difference is computed again, without a model.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlite_utils import Database

from localrag.records import Chunk, Extraction, content_id
from localrag.store import chunks as chunks_store
from localrag.store.database import temporary_table
from localrag.store.schema import create_schema

StagedRow = tuple[Any, ...]
IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"  # the parameter is a list of keys, as JSON
STAGING_CACHE_KIB = 524_288  # page cache of the temporary tables: keys are hashes, so nearly every row is on another page than the last
ROWS_PER_INSERT = 50_000  # rows in memory at a time


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The columns of a table, the number of leading key columns, and the columns of its further indexes."""

    columns: tuple[str, ...]
    keys: int
    indexes: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return self.columns[: self.keys]


def _read_tables(names: Sequence[str]) -> dict[str, StagedTable]:
    """Read the columns, keys and indexes of tables from the schema."""
    tables = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(Database(connection))
        for name in names:
            columns = connection.execute("SELECT name, pk FROM pragma_table_info(?)", [name]).fetchall()
            indexes = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql > ''", [name])
            unique = connection.execute("SELECT name FROM pragma_index_list(?) WHERE origin = 'u'", [name]).fetchall()
            listed = connection.execute("SELECT group_concat(name, ', ') FROM pragma_index_info(?)", unique[0]) if unique else ()
            indexed = [sql.partition(f"ON {name}(")[2].rpartition(")")[0] for (sql,) in indexes] + [names for (names,) in listed]
            tables[name] = StagedTable(tuple(column for column, _ in columns), sum(pk > 0 for _, pk in columns), tuple(indexed))
    return tables


GRAPH_TABLES = _read_tables(  # referenced tables before those that refer to them
    "entities entity_aliases relationships mentions evidence claims communities community_members community_weights isolated_entities"
    " name_merges graph_inputs document_names corpus_names name_index name_queries graph_nodes cooccurrences"
    " document_entity_counts document_cooccurrences relationship_spans weight_histogram similar_names".split()
)

PUBLISHED_TABLES = frozenset(  # read by other connections
    "entities entity_aliases relationships mentions evidence claims communities community_members name_merges".split()
)


class GraphStaging:
    """The graph tables with staged changes: new rows and deleted keys, applied by `publish` or dropped by `discard`.

    One at a time per connection. `from_scratch`: no published row is read; `is_published`: only published rows are.
    """

    def __init__(self, db: Database, *, from_scratch: bool = False) -> None:
        """`from_scratch`: read no published row; rows that end up unchanged are not rewritten."""
        self.db, self.from_scratch = db, from_scratch
        db.execute(f"PRAGMA temp.cache_size = -{STAGING_CACHE_KIB}")  # SQLite's default is 2 MB
        self.is_published = self._inside = False
        self._is_empty: dict[str, bool] = {}  # table → without published rows, which halves the work
        for name, table in GRAPH_TABLES.items():
            listed = ", ".join(f'"{c}"' for c in table.columns)
            key = ", ".join(f'"{c}"' for c in table.key)
            db.execute(f"CREATE TEMP TABLE staged_{name} ({listed}, PRIMARY KEY ({key})) WITHOUT ROWID")
            for n, columns in enumerate(table.indexes):
                db.execute(f"CREATE INDEX temp.staged_{name}_{n} ON staged_{name} ({columns})")
            db.execute(f"CREATE TEMP TABLE deleted_{name} ({key}, PRIMARY KEY ({key})) WITHOUT ROWID")
            self._is_empty[name] = from_scratch or not _holds_any(db, name)

    @classmethod
    def published(cls, db: Database) -> "GraphStaging":
        """A read-only view of the published tables."""
        graph = cls.__new__(cls)
        graph.db, graph.is_published, graph.from_scratch = db, True, False
        return graph

    def upsert(self, name: str, rows: Iterable[StagedRow]) -> None:
        """Stage new or changed rows."""
        table = GRAPH_TABLES[name]
        batch = list(rows)
        if not batch:
            return
        marks = ", ".join("?" * len(table.columns))
        with self.transaction():
            self.db.conn.executemany(f"INSERT OR REPLACE INTO temp.staged_{name} VALUES ({marks})", batch)
            self._mark_deleted(name, [row[: table.keys] for row in batch])

    def delete(self, name: str, keys: Iterable[StagedRow]) -> None:
        """Stage deletions, by key."""
        table = GRAPH_TABLES[name]
        batch = list(keys)
        if not batch:
            return
        where = " AND ".join(f'"{c}" = ?' for c in table.key)
        with self.transaction():
            self.db.conn.executemany(f"DELETE FROM temp.staged_{name} WHERE {where}", batch)
            self._mark_deleted(name, batch)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction, of the temporary tables alone, for all changes inside; nested calls join the outer one.

        Without it sqlite3 would begin a transaction that locks out other writers. Nothing may be written to the index inside. Few large
        transactions are faster: each end visits all changed pages, and a nested savepoint would copy each page it changes.
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

    def replace(self, name: str, old: Iterable[StagedRow], new: Iterable[StagedRow]) -> set[StagedRow]:
        """Stage the difference between `old` and `new` rows; returns the keys of those that differ."""
        n_keys = GRAPH_TABLES[name].keys
        before, after = ({row[:n_keys]: row for row in rows} for rows in (old, new))
        removed = [key for key in before if key not in after]
        changed = [row for key, row in after.items() if before.get(key) != row]
        self.delete(name, removed)
        self.upsert(name, changed)
        return {*removed, *(row[:n_keys] for row in changed)}

    def bulk_insert(self, name: str, rows: Iterable[StagedRow]) -> None:
        """Stage any number of rows, ROWS_PER_INSERT at a time."""
        remaining = iter(rows)
        while batch := list(islice(remaining, ROWS_PER_INSERT)):
            self.upsert(name, batch)

    def replace_all(self, name: str, rows: Iterable[StagedRow]) -> None:
        """Replace the whole content of a table; unchanged rows are not rewritten."""
        table = GRAPH_TABLES[name]
        listed, key = (", ".join(f'"{c}"' for c in columns) for columns in (table.columns, table.key))
        with self.transaction():
            self.db.execute(f"DELETE FROM temp.staged_{name}")
            if not self._is_empty[name]:
                self.db.execute(f"INSERT OR IGNORE INTO temp.deleted_{name} SELECT {key} FROM main.{name}")
        self.bulk_insert(name, rows)
        if not self._is_empty[name]:
            unchanged = f"SELECT {key} FROM (SELECT {listed} FROM temp.staged_{name} INTERSECT SELECT {listed} FROM main.{name})"
            with self.transaction():
                self.db.execute(f"DELETE FROM temp.deleted_{name} WHERE ({key}) IN ({unchanged})")
                self.db.execute(f"DELETE FROM temp.staged_{name} AS t WHERE {_not_in(name, f'temp.deleted_{name}')}")

    def _mark_deleted(self, name: str, keys: Sequence[StagedRow]) -> None:
        if not self._is_empty[name]:
            marks = ", ".join("?" * GRAPH_TABLES[name].keys)
            self.db.conn.executemany(f"INSERT OR IGNORE INTO temp.deleted_{name} VALUES ({marks})", keys)

    def select(self, name: str, where: str = "true", values: Sequence[Any] = (), columns: str = "", first: str = "") -> Iterator[StagedRow]:
        """The rows of a table with the staged changes, unordered; all columns or the given ones. `where` names the table `t`.

        `first`: ORDER BY and LIMIT, applied to published and staged rows separately: the result contains at least the first rows.
        """
        table = GRAPH_TABLES[name]
        listed = columns or ", ".join(f't."{c}"' for c in table.columns)
        if self.is_published:
            return self.db.conn.execute(f"SELECT {listed} FROM main.{name} t WHERE {where} {first}", values)
        staged = f"SELECT {listed} FROM temp.staged_{name} t WHERE {where} {first}"
        if self._is_empty[name]:
            return self.db.conn.execute(staged, values)
        # +: without type conversion, which would prevent the use of the index.
        same_key = " AND ".join(f'g."{c}" = +t."{c}"' for c in table.key)
        is_kept = f"NOT EXISTS (SELECT 1 FROM temp.deleted_{name} g WHERE {same_key})"
        published = f"SELECT {listed} FROM main.{name} t WHERE ({where}) AND {is_kept} {first}"
        return self.db.conn.execute(f"SELECT * FROM ({published}) UNION ALL SELECT * FROM ({staged})", [*values, *values])

    def get(self, name: str, *key: Any) -> StagedRow | None:
        """The row with this key; None if there is none."""
        where = " AND ".join(f't."{c}" = ?' for c in GRAPH_TABLES[name].key)
        return next(iter(self.select(name, where, key)), None)

    def get_many(self, name: str, ids: Sequence[str]) -> list[StagedRow]:
        """The existing rows with these ids, in the order of the ids."""
        rows = {row[0]: row for row in self.select(name, f"t.id {IN_JSON_LIST}", [json.dumps(list(ids))])}
        return [rows[key] for key in ids if key in rows]

    def count(self, name: str, where: str = "true", values: Sequence[Any] = ()) -> int:
        """The number of rows of a table with the staged changes, all or those that match."""
        return sum(n for (n,) in self.select(name, where, values, "count(*)"))

    def max_value(self, name: str, column: str, where: str = "true", values: Sequence[Any] = ()) -> int:
        """The largest number in a column, -1 without rows."""
        return max((n for (n,) in self.select(name, where, values, f"max(t.{column})") if n is not None), default=-1)

    def changed_keys(self, name: str) -> list[StagedRow]:
        """The keys of staged rows and deletions; none after the publication."""
        if self.is_published:
            return []
        key = ", ".join(f'"{c}"' for c in GRAPH_TABLES[name].key)
        return list(self.db.execute(f"SELECT {key} FROM temp.staged_{name} UNION SELECT {key} FROM temp.deleted_{name}"))

    def changed_columns(self, name: str, columns: str) -> Iterator[tuple[StagedRow, StagedRow | None, StagedRow | None]]:
        """The changed keys, each with these columns as published and as staged."""
        where = " AND ".join(f'"{c}" = ?' for c in GRAPH_TABLES[name].key)
        tables = f"main.{name}", f"temp.staged_{name}"
        for key in self.changed_keys(name):
            before, now = (self.db.conn.execute(f"SELECT {columns} FROM {table} WHERE {where}", key).fetchone() for table in tables)
            yield key, before, now

    def changed_rows(self, name: str) -> tuple[Iterator[StagedRow], Iterator[StagedRow]]:
        """The published rows that are deleted or replaced, and the staged rows; both may contain the same row."""
        listed, key = (", ".join(f't."{c}"' for c in names) for names in (GRAPH_TABLES[name].columns, GRAPH_TABLES[name].key))
        removed = f"SELECT {listed} FROM temp.deleted_{name} g CROSS JOIN main.{name} t ON ({key}) = ({key.replace('t.', 'g.')})"
        return self.db.conn.execute(removed), self.db.conn.execute(f"SELECT {listed} FROM temp.staged_{name} t")

    def publish(self) -> None:
        """Apply the staged changes to the published tables, within the caller's transaction, and end the staging."""
        db = self.db
        for name in reversed(GRAPH_TABLES):  # referring rows before the rows they refer to
            key = ", ".join(f'"{c}"' for c in GRAPH_TABLES[name].key)
            staged, deleted = f"SELECT {key} FROM temp.staged_{name}", f"SELECT {key} FROM temp.deleted_{name}"
            if self.from_scratch and name not in PUBLISHED_TABLES:  # their numbers may now belong to other rows
                db.execute(f"DELETE FROM main.{name}")
            elif self.from_scratch:
                db.execute(f"DELETE FROM main.{name} AS t WHERE {_not_in(name, f'temp.staged_{name}')}")
            else:  # row by row: for a key of several columns SQLite would scan the table
                where = " AND ".join(f'"{c}" = ?' for c in GRAPH_TABLES[name].key)
                db.conn.executemany(f"DELETE FROM main.{name} WHERE {where}", db.conn.execute(f"{deleted} EXCEPT {staged}"))
        for name, table in GRAPH_TABLES.items():
            listed, key = (", ".join(f'"{c}"' for c in names) for names in (table.columns, table.key))
            update = ", ".join(f'"{c}" = excluded."{c}"' for c in table.columns[table.keys :])
            on_conflict = f"UPDATE SET {update}" if update else "NOTHING"
            has_rows = self.from_scratch and _holds_any(db, name)
            changed = f"SELECT {listed} FROM temp.staged_{name}" + f" EXCEPT SELECT {listed} FROM main.{name}" * has_rows
            if name == "communities":  # (level, ordinal) is unique: swapped ordinals must not collide
                negate = "UPDATE main.communities SET ordinal = -1 - ordinal"
                db.execute(f"{negate} WHERE id IN (SELECT id FROM ({changed}))")
            select = f"SELECT * FROM ({changed}) WHERE true ORDER BY {key}"
            db.execute(f"INSERT INTO main.{name} ({listed}) {select} ON CONFLICT ({key}) DO {on_conflict}")
        self.discard()

    def discard(self) -> None:
        """Drop the staged changes. From here on the published tables are read, and nothing can be staged."""
        self.is_published = True
        for name in GRAPH_TABLES:
            self.db.execute(f"DROP TABLE IF EXISTS temp.staged_{name}")
            self.db.execute(f"DROP TABLE IF EXISTS temp.deleted_{name}")


def _not_in(name: str, other: str) -> str:
    """SQL: another table has no row with the key of row `t`. NOT IN with several columns would scan the table each time."""
    same_key = " AND ".join(f'o."{c}" = t."{c}"' for c in GRAPH_TABLES[name].key)
    return f"NOT EXISTS (SELECT 1 FROM {other} o WHERE {same_key})"


def _holds_any(db: Database, table: str) -> bool:
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM main.{table})").fetchone()[0])


@contextmanager
def select_extractions(db: Database, config_hashes: Sequence[str], varying: Collection[str], *, every: bool) -> Iterator[None]:
    """Create temporary tables with the chunks to compare, each with its extraction by the first of the `config_hashes` it has.

    Chunks of changed documents, or of all documents if `every`. Extractions by `varying` config hashes may be replaced by others of the
    same hash, so their result is part of the input hash.
    """
    columns = "(chunk_id PRIMARY KEY, document_id, config_hash, input_hash) WITHOUT ROWID"
    with temporary_table(db, "looked_at", "(document_id PRIMARY KEY) WITHOUT ROWID"), temporary_table(db, "sources", columns):
        is_used = "EXISTS (SELECT 1 FROM extractions x WHERE x.chunk_id = c.id AND x.config_hash = ?{0})"
        first_used = f"CASE {' '.join(f'WHEN {is_used} THEN ?{{0}}'.format(n) for n in range(1, len(config_hashes) + 1))} END"
        chosen = (
            f"SELECT c.id, c.document_id, {first_used} AS chosen FROM chunks c WHERE c.document_id IN (SELECT document_id FROM looked_at)"
        )
        with db.atomic():
            db.execute(f"INSERT INTO looked_at {_ALL_DOCUMENTS if every else _CHANGED}")
            db.execute(
                f"INSERT INTO sources SELECT id, document_id, chosen, chosen FROM ({chosen}) WHERE chosen IS NOT NULL", config_hashes
            )
            db.execute("CREATE INDEX temp.sources_by_document ON sources (document_id)")
        varying_results = "SELECT s.chunk_id, x.result FROM sources s JOIN extractions x USING (chunk_id, config_hash)"
        rows = db.execute(f"{varying_results} WHERE s.config_hash IN (SELECT value FROM json_each(?))", [json.dumps(sorted(varying))])
        hashed = [(content_id(result), key) for key, result in rows]
        with db.atomic():
            db.conn.executemany("UPDATE sources SET input_hash = input_hash || ' ' || ? WHERE chunk_id = ?", hashed)
        yield


_ALL_DOCUMENTS = "SELECT id FROM documents UNION SELECT document_id FROM main.graph_inputs"
_CHANGED = """
    SELECT document_id FROM main.chunks WHERE id IN (SELECT chunk_id FROM changed_chunks)
    UNION SELECT document_id FROM main.graph_inputs WHERE chunk_id IN (SELECT chunk_id FROM changed_chunks)
    UNION SELECT id FROM staged_documents
    UNION SELECT id FROM main.documents WHERE path IN (SELECT path FROM staged_deletions)"""


def documents_changed_since_graph(db: Database) -> tuple[list[str], list[str]]:
    """The documents that differ from the graph's inputs, ordered by path, and the ids of those that are deleted.

    Requires `select_extractions`.
    """
    current = "SELECT chunk_id, document_id, input_hash FROM sources"
    published = "SELECT chunk_id, document_id, input_hash FROM main.graph_inputs WHERE document_id IN (SELECT document_id FROM looked_at)"
    differing = f"SELECT document_id FROM ({current} EXCEPT {published}) UNION SELECT document_id FROM ({published} EXCEPT {current})"
    ids = json.dumps([key for (key,) in db.execute(differing)])
    among, with_extraction = "SELECT value FROM json_each(?)", "SELECT document_id FROM sources"
    changed = db.execute(f"SELECT d.id FROM documents d WHERE d.id IN ({among}) AND d.id IN ({with_extraction}) ORDER BY d.path", [ids])
    removed = db.execute(f"{among} EXCEPT {with_extraction}", [ids])
    return [i for (i,) in changed], [i for (i,) in removed]


def clear_changed_chunks(db: Database) -> None:
    """Record that the published graph is built from the current chunks."""
    with db.atomic():
        db.execute("DELETE FROM changed_chunks")


def documents_with_extractions(db: Database) -> list[str]:
    """Every document with an extraction, ordered by path. Requires `select_extractions`."""
    return [i for (i,) in db.execute("SELECT id FROM documents WHERE id IN (SELECT document_id FROM sources) ORDER BY path")]


def chunks_with_extractions(db: Database, config_hashes: Sequence[str], document_id: str) -> tuple[dict[str, Chunk], list[Extraction]]:
    """The chunks of a document by id, in order, and for each its extraction by the first of the `config_hashes` it has."""
    chunks = {c.id: c for c in chunks_store.chunks_of(db, document_id)}
    among = "IN (SELECT value FROM json_each(?))"
    read = f"SELECT chunk_id, config_hash, result FROM extractions WHERE chunk_id {among} AND config_hash {among}"
    best: dict[str, tuple[int, str]] = {}
    for key, config_hash, result in db.execute(read, [json.dumps(list(chunks)), json.dumps(config_hashes)]):
        rank = config_hashes.index(config_hash)
        if key not in best or rank < best[key][0]:
            best[key] = rank, result
    return chunks, [chunks_store.extraction_of(key, best[key][1]) for key in chunks if key in best]


def chunk_positions(db: Database, ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Chunk id → the path of its document, and its ordinal in it."""
    wanted = "SELECT c.id, d.path, c.ordinal FROM chunks c JOIN documents d ON d.id = c.document_id"
    rows = db.execute(f"{wanted} WHERE c.id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(set(ids)))])
    return {key: (path, ordinal) for key, path, ordinal in rows}


def graph_input_rows(db: Database, document_id: str) -> list[StagedRow]:
    """The graph's inputs from a document: (chunk id, document id, input hash); none if it is deleted."""
    return list(db.execute("SELECT chunk_id, document_id, input_hash FROM sources WHERE document_id = ?", [document_id]))


def graph_input_hash(db: Database, documents: Iterable[str]) -> str:
    """A hash of the graph's inputs from these documents."""
    return content_id(*(content_id(document, *sorted(graph_input_rows(db, document))) for document in documents))
