"""Chunks that lack what a stage gives them: an extraction, sentences, a vector."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from sqlite3 import Error
from typing import Any
from weakref import finalize

from sqlite_utils import Database

from localrag.records import Chunk
from localrag.store import corpus
from localrag.store.states import lacking_vector
from localrag.text.plain import SPLITTER

ALL = -1  # no limit
_NUMBERS = count(1)
_PAGE = 256  # chunks that are read together


class ChunkList(Collection[Chunk]):
    """Chunks that were chosen, in the order of paths and places. Their ids are kept in a table of this connection, they themselves are
    read as they are needed, whatever is written meanwhile: a million of them are not in memory.
    """

    def __init__(self, db: Database, ids: str, values: list[Any], most: int) -> None:
        """`ids`: an SQL query for their ids; `most`: no more than so many, the first ones."""
        self._db, self._table = db, f"chosen_{next(_NUMBERS)}"
        db.execute(f"CREATE TEMP TABLE {self._table} (n INTEGER PRIMARY KEY, id TEXT NOT NULL)")
        listed, found, homes = (f"{self._table}_{part}" for part in ("ids", "chunks", "documents"))
        with db.atomic():  # each view by itself, by its ids: where two are joined SQLite reads both whole
            db.execute(f"CREATE TEMP TABLE {listed} (id TEXT PRIMARY KEY) WITHOUT ROWID")
            db.execute(f"INSERT INTO {listed} {ids}", values)
            db.execute(f"CREATE TEMP TABLE {found} AS SELECT id, document_id, ordinal FROM chunks WHERE id IN (SELECT id FROM {listed})")
            db.execute(f"CREATE TEMP TABLE {homes} AS SELECT id, path FROM documents WHERE id IN (SELECT document_id FROM {found})")
            chosen = f"SELECT c.id FROM {found} c JOIN {homes} d ON d.id = c.document_id ORDER BY d.path, c.ordinal LIMIT ?"
            self._count = db.execute(f"INSERT INTO {self._table} (id) {chosen}", [most]).rowcount
            for table in (listed, found, homes):
                db.execute(f"DROP TABLE {table}")
        finalize(self, _drop, db, self._table)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Chunk]:
        for first in range(1, self._count + 1, _PAGE):
            page = f"SELECT id FROM {self._table} WHERE n BETWEEN ? AND ? ORDER BY n"
            yield from corpus.chunks_by_id(self._db, [key for (key,) in self._db.execute(page, [first, first + _PAGE - 1])])

    def __contains__(self, chunk: object) -> bool:
        return any(c == chunk for c in self)


def _drop(db: Database, table: str) -> None:
    with suppress(Error):  # closed already, and the table with it; or busy at the moment: then the table goes when it is closed
        db.execute(f"DROP TABLE IF EXISTS temp.{table}")


def without_extraction(db: Database, *recipes: str, most: int = ALL) -> ChunkList:
    """What none of these recipes (prompt, model and settings) has been used on."""
    done = "SELECT chunk_id FROM extractions WHERE recipe IN (SELECT value FROM json_each(?))"
    return ChunkList(db, f"SELECT id FROM chunks EXCEPT {done}", [json.dumps(recipes)], most)


def count_without_extraction(db: Database, recipe: str) -> int:
    """How many chunks are left to extract with this recipe."""
    missing = "SELECT id FROM chunks EXCEPT SELECT chunk_id FROM extractions WHERE recipe = ?"
    return int(next(db.query(f"SELECT count(*) AS n FROM ({missing})", [recipe]))["n"])


def without_sentences(db: Database, most: int = ALL) -> ChunkList:
    """The chunks of which it is not kept where their sentences are."""
    split = f"SELECT chunk_id FROM sentences WHERE splitter = {SPLITTER}"
    return ChunkList(db, f"SELECT id FROM chunks EXCEPT {split}", [], most)


def without_vector(db: Database, embedder: str, most: int = ALL) -> ChunkList:
    """The chunks that have no vector of this embedder, published or waiting."""
    return ChunkList(db, *lacking_vector("chunk", embedder), most)
