"""What the graph is made from, chunk by chunk: which extraction of each, and which documents are not what they were when it was made."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlite_utils import Database

from localrag.records import Chunk, Extraction, content_id
from localrag.store import corpus
from localrag.store.staged import Row


@contextmanager
def best_extractions(db: Database, recipes: Sequence[str], varying: Collection[str], *, every: bool) -> Iterator[None]:
    """Choose for chunks the extraction by the first of these recipes that was used on each, for as long as the context lasts.

    For those of documents that may be others than the graph has them, or for `every` one. Those of `varying` recipes may be replaced by
    others of the same recipe.
    """
    db.execute("CREATE TEMP TABLE looked_at (document_id PRIMARY KEY) WITHOUT ROWID")
    db.execute("CREATE TEMP TABLE sources (chunk_id PRIMARY KEY, document_id, recipe, made_from) WITHOUT ROWID")
    try:
        known = "EXISTS (SELECT 1 FROM extractions x WHERE x.chunk_id = c.id AND x.recipe = ?{0})"
        best = f"CASE {' '.join(f'WHEN {known} THEN ?{{0}}'.format(n) for n in range(1, len(recipes) + 1))} END"
        chosen = f"SELECT c.id, c.document_id, {best} AS recipe FROM chunks c WHERE c.document_id IN (SELECT document_id FROM looked_at)"
        with db.atomic():
            db.execute(f"INSERT INTO looked_at {_EVERY if every else _CHANGED}")
            db.execute(f"INSERT INTO sources SELECT id, document_id, recipe, recipe FROM ({chosen}) WHERE recipe IS NOT NULL", recipes)
            db.execute("CREATE INDEX temp.sources_by_document ON sources (document_id)")
        changing = "SELECT s.chunk_id, x.result FROM sources s JOIN extractions x ON x.chunk_id = s.chunk_id AND x.recipe = s.recipe"
        rows = db.execute(f"{changing} WHERE s.recipe IN (SELECT value FROM json_each(?))", [json.dumps(sorted(varying))])
        hashed = [(content_id(result), key) for key, result in rows]
        with db.atomic():
            db.conn.executemany("UPDATE sources SET made_from = made_from || ' ' || ? WHERE chunk_id = ?", hashed)
        yield
    finally:
        db.execute("DROP TABLE temp.sources")
        db.execute("DROP TABLE temp.looked_at")


_EVERY = "SELECT id FROM documents UNION SELECT document_id FROM main.graph_chunks"
_CHANGED = """
    SELECT document_id FROM main.chunks WHERE id IN (SELECT chunk_id FROM changed_chunks)
    UNION SELECT document_id FROM main.graph_chunks WHERE chunk_id IN (SELECT chunk_id FROM changed_chunks)
    UNION SELECT id FROM next_documents
    UNION SELECT id FROM main.documents WHERE path IN (SELECT path FROM next_gone)"""


def changed_documents(db: Database) -> tuple[list[str], list[str]]:
    """The documents that the graph knows otherwise than they are, or not at all, in the order of paths; those that are gone.

    Of those that the chosen extractions are of.
    """
    now = "SELECT chunk_id, document_id, made_from FROM sources"
    then = "SELECT chunk_id, document_id, made_from FROM main.graph_chunks WHERE document_id IN (SELECT document_id FROM looked_at)"
    other = f"SELECT document_id FROM ({now} EXCEPT {then}) UNION SELECT document_id FROM ({then} EXCEPT {now})"
    ids = json.dumps([key for (key,) in db.execute(other)])
    among, known = "SELECT value FROM json_each(?)", "SELECT document_id FROM sources"
    changed = db.execute(f"SELECT d.id FROM documents d WHERE d.id IN ({among}) AND d.id IN ({known}) ORDER BY d.path", [ids])
    gone = db.execute(f"{among} EXCEPT {known}", [ids])
    return [i for (i,) in changed], [i for (i,) in gone]


def forget_changes(db: Database) -> None:
    """The published graph is made from the chunks there are."""
    if db.execute("SELECT EXISTS (SELECT 1 FROM changed_chunks)").fetchone()[0]:
        with db.atomic():
            db.execute("DELETE FROM changed_chunks")


def all_documents(db: Database) -> list[str]:
    """Every document that something was extracted from, in the order of paths."""
    return [i for (i,) in db.execute("SELECT id FROM documents WHERE id IN (SELECT document_id FROM sources) ORDER BY path")]


def chunks_with_extractions(db: Database, recipes: Sequence[str], document_id: str) -> tuple[dict[str, Chunk], list[Extraction]]:
    """The chunks of a document by id, in their order, and what was found in them by the first of these recipes that was used on each."""
    chunks = {c.id: c for c in corpus.chunks_of(db, document_id)}
    among = "IN (SELECT value FROM json_each(?))"
    read = f"SELECT chunk_id, recipe, result FROM extractions WHERE chunk_id {among} AND recipe {among}"
    best: dict[str, tuple[int, str]] = {}
    for key, recipe, result in db.execute(read, [json.dumps(list(chunks)), json.dumps(recipes)]):
        rank = recipes.index(recipe)
        if key not in best or rank < best[key][0]:
            best[key] = rank, result
    return chunks, [corpus.extraction_of(key, best[key][1]) for key in chunks if key in best]


def places_of_chunks(db: Database, ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Chunk id → the path of its document, and its number in it."""
    wanted = "SELECT c.id, d.path, c.ordinal FROM chunks c JOIN documents d ON d.id = c.document_id"
    rows = db.execute(f"{wanted} WHERE c.id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(set(ids)))])
    return {key: (path, ordinal) for key, path, ordinal in rows}


def made_from(db: Database, document_id: str) -> list[Row]:
    """The rows that say what the graph has of a document; none of one that is gone."""
    return list(db.execute("SELECT chunk_id, document_id, made_from FROM sources WHERE document_id = ?", [document_id]))


def state_of(db: Database, documents: Iterable[str]) -> str:
    """A hash of what the chosen extractions of these documents are."""
    return content_id(*(content_id(document, *sorted(made_from(db, document))) for document in documents))
