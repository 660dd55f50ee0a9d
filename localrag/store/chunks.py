"""Chunks, sentence spans and extractions; chunks pending for a stage.

Whether a stage has work is decided from keys alone, without reading texts or results.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlite_utils import Database

from localrag.records import Chunk, ExtractedClaim, ExtractedEntity, ExtractedRelationship, Extraction, content_id
from localrag.store.schema import REJECTED_NAMES_EXPR
from localrag.text.sentences import SPLITTER_VERSION, cache_sentence_bounds

# Kind of vector → the ids of its subjects.
SUBJECT_IDS = {"chunk": "SELECT id FROM chunks", "entity": "SELECT id FROM entities", "report": "SELECT community_id AS id FROM reports"}


def missing_vector_query(kind: str, embedder: str) -> tuple[str, list[str]]:
    """An SQL query and its values: the subjects of a kind without a vector of this embedder, published or staged."""
    stored = "EXCEPT SELECT subject_id FROM {} WHERE kind = ? AND embedder = ?"
    with_vector = " ".join(map(stored.format, ("embeddings", "staged_embeddings")))
    return f"{SUBJECT_IDS[kind]} {with_vector}", [kind, embedder] * 2


def subjects_without_vector(db: Database, kind: str, embedder: str) -> list[str]:
    """The subjects of a kind without a vector of this embedder, published or staged."""
    return [key for (key,) in db.execute(*missing_vector_query(kind, embedder))]


def has_vectors(db: Database, kind: str) -> bool:
    """Whether any subject of a kind has a vector, of any embedder."""
    exists = (f"EXISTS (SELECT 1 FROM {table} WHERE kind = :kind)" for table in ("embeddings", "staged_embeddings"))
    return bool(db.execute(f"SELECT {' OR '.join(exists)}", {"kind": kind}).fetchone()[0])


def delete_stale_staged_vectors(db: Database, kind: str, embedder: str) -> None:
    """Delete the staged vectors of another embedder, or of a subject that no longer exists."""
    is_stale = f"kind = ? AND (embedder <> ? OR subject_id NOT IN ({SUBJECT_IDS[kind]}))"
    with db.atomic():
        db.execute(f"DELETE FROM staged_embeddings WHERE {is_stale}", [kind, embedder])


def all_chunks(db: Database) -> list[Chunk]:
    """Every chunk, by path and ordinal."""
    return _chunks(db, "JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal", [])


def chunk_ids(db: Database) -> list[str]:
    """The id of every chunk, by path and ordinal."""
    return [i for (i,) in db.execute("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal")]


def chunk_texts(db: Database) -> set[str]:
    """The texts of all chunks."""
    return {row["text"] for row in db.query("SELECT text FROM chunks")}


def text_subjects(db: Database) -> Iterator[str]:
    """The subjects of LLM calls about the texts of all chunks, published or staged."""
    for table in ("main.chunks", "main.staged_chunks"):
        for (text,) in db.execute(f"SELECT text FROM {table}"):
            yield content_id(text)


def chunks_by_id(db: Database, ids: Sequence[str]) -> list[Chunk]:
    """The existing chunks with these ids, in the order given."""
    chunks = {c.id: c for c in _chunks(db, "WHERE c.id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])}
    return [chunks[i] for i in ids if i in chunks]


def ids_in_documents(db: Database, document_ids: Collection[str], limit: int) -> list[str]:
    """The ids of at most `limit` chunks of some documents."""
    inside = "document_id IN (SELECT value FROM json_each(?))"
    return [key for (key,) in db.execute(f"SELECT id FROM chunks WHERE {inside} LIMIT ?", [json.dumps(sorted(document_ids)), limit])]


def chunks_of(db: Database, document_id: str) -> list[Chunk]:
    """The chunks of a document, in order."""
    return _chunks(db, "WHERE c.document_id = ? ORDER BY c.ordinal", [document_id])


def neighbour_texts(db: Database, first: Chunk, last: Chunk) -> list[str]:
    """The texts of the chunks before `first` and after `last`, which overlap with them."""
    values = [first.document_id, first.ordinal - 1, last.ordinal + 1]
    return [text for (text,) in db.execute("SELECT text FROM chunks WHERE document_id = ? AND ordinal IN (?, ?)", values)]


def save_sentences(db: Database, bounds: Mapping[str, bytes]) -> None:
    """Commit the sentence spans of chunks (chunk id → packed bounds), so that they are not split again."""
    with db.atomic():
        rows = ((chunk, SPLITTER_VERSION, spans) for chunk, spans in bounds.items())
        db.conn.executemany("INSERT OR REPLACE INTO sentence_spans (chunk_id, splitter_version, spans) VALUES (?, ?, ?)", rows)


def _chunks(db: Database, clauses: str, values: list[Any]) -> list[Chunk]:
    """The chunks `c` selected by the rest of an SQL query, in its order; their stored sentence spans are put into the cache."""
    joined = f"chunks c LEFT JOIN sentence_spans s ON s.chunk_id = c.id AND s.splitter_version = {SPLITTER_VERSION}"
    chunks = []
    for row in db.query(f"SELECT c.*, s.spans FROM {joined} {clauses}", values):
        bounds = row.pop("spans")
        chunks.append(Chunk(**row | {"headings": tuple(json.loads(row["headings"]))}))
        if bounds is not None:
            cache_sentence_bounds(row["text"], bounds)
    return chunks


def chunk_row(chunk: Chunk) -> dict[str, Any]:
    """The row of a chunk."""
    return asdict(chunk) | {"headings": json.dumps(chunk.headings, ensure_ascii=False)}


def delete_extractions(db: Database, config_hash: str, chunk_ids: Sequence[str]) -> None:
    """Delete the extractions of chunks by a config hash."""
    with db.atomic():
        db.conn.executemany("DELETE FROM extractions WHERE config_hash = ? AND chunk_id = ?", [(config_hash, c) for c in chunk_ids])


def save_extractions(db: Database, config_hash: str, results: Sequence[Extraction]) -> None:
    """Commit extractions in one transaction."""
    rows = []
    for extraction in results:
        result = asdict(extraction)
        chunk = result.pop("chunk_id")
        rows.append({"chunk_id": chunk, "config_hash": config_hash, "result": json.dumps(result, ensure_ascii=False)})
    with db.atomic():
        db.table("extractions").insert_all(rows, replace=True)


def extractions(db: Database, *config_hashes: str) -> list[Extraction]:
    """For every chunk, its extraction by the first of these config hashes that it has, by path and ordinal."""
    by_chunk: dict[str, Extraction] = {}
    for config_hash in config_hashes:
        rows = db.execute("SELECT chunk_id, result FROM extractions WHERE config_hash = ?", [config_hash])
        by_chunk = {key: extraction_of(key, result) for key, result in rows} | by_chunk
    order = db.query("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal")
    return [by_chunk[row["id"]] for row in order if row["id"] in by_chunk]


def extraction_of(chunk_id: str, row: str) -> Extraction:
    """Parse the `result` of an extraction's row."""
    result = json.loads(row)
    return Extraction(
        chunk_id,
        tuple(ExtractedEntity(**e) for e in result["entities"]),
        tuple(ExtractedRelationship(**r) for r in result["relationships"]),
        tuple(ExtractedClaim(**c) for c in result["claims"]),
        result["extractor"],
        result["rejected_names"],
    )


def count_rejected_names(db: Database) -> int:
    """The number of capitalized words and runs that were rejected as names."""
    return int(next(db.query(f"SELECT coalesce(sum({REJECTED_NAMES_EXPR}), 0) AS n FROM extractions WHERE {REJECTED_NAMES_EXPR} > 0"))["n"])


NO_LIMIT = -1  # all chunks
_PAGE = 256  # chunks per read


class PendingChunks(Collection[Chunk]):
    """Selected chunks by path and ordinal. Only their ids are kept; the chunks are read when iterated."""

    def __init__(self, db: Database, ids: str, values: list[Any], most: int) -> None:
        """`ids`: an SQL query for their ids; `most`: take at most the first so many."""
        chosen = "SELECT {} FROM {} WHERE id IN (SELECT value FROM json_each(?))"  # one view at a time: SQLite would read two completely
        keys = json.dumps([key for (key,) in db.execute(ids, values)])
        chunks = db.execute(chosen.format("id, document_id, ordinal", "chunks"), [keys]).fetchall()
        documents = json.dumps(list({document for _, document, _ in chunks}))
        paths = dict(db.execute(chosen.format("id, path", "documents"), [documents]))
        chunks.sort(key=lambda row: (paths[row[1]], row[2]))
        self._db, self._ids = db, [key for key, *_ in chunks[: None if most == NO_LIMIT else most]]

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Chunk]:
        for at in range(0, len(self._ids), _PAGE):
            yield from chunks_by_id(self._db, self._ids[at : at + _PAGE])

    def __contains__(self, chunk: object) -> bool:
        return any(c == chunk for c in self)


def chunks_without_extraction(db: Database, *config_hashes: str, most: int = NO_LIMIT) -> PendingChunks:
    """Chunks without an extraction by any of these config hashes."""
    done = "SELECT chunk_id FROM extractions WHERE config_hash IN (SELECT value FROM json_each(?))"
    return PendingChunks(db, f"SELECT id FROM chunks EXCEPT {done}", [json.dumps(config_hashes)], most)


def chunks_without_sentences(db: Database, most: int = NO_LIMIT) -> PendingChunks:
    """Chunks without stored sentence spans."""
    split = f"SELECT chunk_id FROM sentence_spans WHERE splitter_version = {SPLITTER_VERSION}"
    return PendingChunks(db, f"SELECT id FROM chunks EXCEPT {split}", [], most)


def chunks_without_vector(db: Database, embedder: str, most: int = NO_LIMIT) -> PendingChunks:
    """Chunks without a vector of this embedder, published or staged."""
    return PendingChunks(db, *missing_vector_query("chunk", embedder), most)
