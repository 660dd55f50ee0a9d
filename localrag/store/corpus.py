"""Documents, chunks, their full-text index, and what was extracted from them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlite_utils import Database

from localrag.records import Chunk, Document, ExtractedClaim, ExtractedEntity, ExtractedRelationship, Extraction, Part, Skipped, content_id
from localrag.store.departed import note_departure
from localrag.store.search import add_to_search
from localrag.text import SPLITTER, remember_sentences, sentence_bounds


def add_document(db: Database, document: Document, chunks: Sequence[Chunk]) -> None:
    """Store a document with its chunks, in place of an earlier content of the same path.

    Where a chunk of the same text is stored already, here or in another document, its vector is taken over.
    """
    hashes = {c.id: content_id(c.text) for c in chunks}
    with db.atomic():
        known = db.query(
            "SELECT content_hash, embedder, vector FROM embeddings"
            " WHERE kind = 'chunk' AND content_hash IN (SELECT value FROM json_each(?))",
            [json.dumps(list(hashes.values()))],
        )
        vectors = {row["content_hash"]: row for row in known}
        remove_document(db, document.path, edited=True)
        db.table("documents").insert(_document_row(document))
        db.table("chunks").insert_all(asdict(c) for c in chunks)
        add_to_search(db, ((c.id, c.text) for c in chunks))
        taken = ({"kind": "chunk", "subject_id": c} | vectors[h] for c, h in hashes.items() if h in vectors)
        db.table("embeddings").insert_all(taken, replace=True)


def update_document(db: Database, document: Document, chunks: Sequence[Chunk]) -> None:
    """Store what is new of a document whose text and cuts are the stored ones: title, metadata, parts, content hash, tokens."""
    with db.atomic():
        for c in chunks:
            db.table("chunks").update(c.id, {"tokens": c.tokens})
        db.table("documents").update(document.id, {k: v for k, v in _document_row(document).items() if k not in ("id", "text")})


def _document_row(document: Document) -> dict[str, Any]:
    parts = [[p.label, p.start, p.end] for p in document.parts]
    row = {name: getattr(document, name) for name in ("id", "path", "title", "text", "content_hash")}
    return row | {name: json.dumps(v, ensure_ascii=False) for name, v in (("metadata", document.metadata), ("parts", parts))}


def remove_document(db: Database, path: str, *, edited: bool = False) -> None:
    """Forget a document and everything that hangs on its chunks; a no-op for an unknown path. `edited`: another content follows."""
    with db.atomic():
        note_departure(db, path, edited=edited)
        ids = "SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.path = ?"
        db.execute(f"DELETE FROM chunk_search WHERE rowid IN (SELECT row FROM chunk_rows WHERE chunk_id IN ({ids}))", [path])
        db.execute("DELETE FROM embeddings WHERE kind = 'chunk' AND subject_id IN (" + ids + ")", [path])
        db.execute("DELETE FROM documents WHERE path = ?", [path])
        db.execute("DELETE FROM settings WHERE key = 'coverage'")  # it was that of the documents there were


def document_hashes(db: Database) -> dict[str, str]:
    """Path → content hash of every stored document."""
    return {row["path"]: row["content_hash"] for row in db.query("SELECT path, content_hash FROM documents")}


def document_paths(db: Database) -> dict[str, str]:
    """Document id → path."""
    return {row["id"]: row["path"] for row in db.query("SELECT id, path FROM documents")}


def document_path(db: Database, chunk_id: str) -> str:
    """The path of the document a chunk belongs to."""
    rows = db.query("SELECT d.path FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id = ?", [chunk_id])
    return str(next(rows)["path"])


def document_by_id(db: Database, document_id: str) -> str:
    """The text of a document."""
    return str(next(db.query("SELECT text FROM documents WHERE id = ?", [document_id]))["text"])


def document_headers(db: Database, ids: Iterable[str] | None = None) -> dict[str, str]:
    """Document id → title, date and author on one line; of all documents, or of those with the given ids."""
    where, values = ("", []) if ids is None else ("WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(set(ids)))])
    rows = db.query(f"SELECT id, title, metadata FROM documents {where}", values)
    return {row["id"]: Document(row["id"], "", row["title"], "", "", _pairs(row["metadata"])).header for row in rows}


def document(db: Database, path: str) -> Document | None:
    """A stored document."""
    row = next(iter(db.query("SELECT * FROM documents WHERE path = ?", [path])), None)
    if row is None:
        return None
    kept = {name: row[name] for name in ("id", "path", "title", "text", "content_hash")}
    return Document(**kept, metadata=_pairs(row["metadata"]), parts=tuple(Part(*part) for part in json.loads(row["parts"])))


def _pairs(metadata: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(metadata))


def holds(db: Database, document: Document, chunks: Sequence[Chunk]) -> bool:
    """Whether just this text is stored for a document, in just these chunks."""
    stored = _chunks(db, "WHERE c.document_id = ? ORDER BY c.ordinal", [document.id])
    same = [(c.id, c.text) for c in stored] == [(c.id, c.text) for c in chunks]
    return same and document_text(db, document.path) == document.text


def document_text(db: Database, path: str) -> str | None:
    """The text of a document as it was indexed."""
    row = next(iter(db.query("SELECT text FROM documents WHERE path = ?", [path])), None)
    return None if row is None else str(row["text"])


def set_skipped(db: Database, skipped: Iterable[Skipped]) -> None:
    """Replace the list of files that were not indexed."""
    with db.atomic():
        db.execute("DELETE FROM skipped")
        db.table("skipped").insert_all(map(asdict, skipped))


def skipped(db: Database) -> list[Skipped]:
    """The files that were not indexed, by path."""
    rows = db.query("SELECT path, reason, failed, content_hash FROM skipped ORDER BY path")
    return [Skipped(row["path"], row["reason"], bool(row["failed"]), row["content_hash"]) for row in rows]


def all_chunks(db: Database) -> list[Chunk]:
    """Every chunk, in the order of paths and places."""
    return _chunks(db, "ORDER BY d.path, c.ordinal", [])


def chunk_texts(db: Database) -> set[str]:
    """The texts of all chunks."""
    return {row["text"] for row in db.query("SELECT text FROM chunks")}


def extracted_by_model(db: Database) -> int:
    """How many chunks a model has read."""
    return int(next(db.query("SELECT count(*) AS n FROM extractions WHERE json_extract(result, '$.by') = 'model'"))["n"])


def chunks_by_id(db: Database, ids: Sequence[str]) -> list[Chunk]:
    """The chunks with these ids, in the order given."""
    found = {c.id: c for c in _chunks(db, "WHERE c.id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])}
    return [found[i] for i in ids if i in found]


def chunks_without_extraction(db: Database, recipe: str) -> list[Chunk]:
    """What is left to extract with this recipe (prompt, model and settings)."""
    return _chunks(db, "WHERE c.id NOT IN (SELECT chunk_id FROM extractions WHERE recipe = ?) ORDER BY d.path, c.ordinal", [recipe])


def chunks_without_sentences(db: Database) -> list[Chunk]:
    """The chunks of which it is not kept where their sentences are."""
    return _chunks(db, "WHERE s.bounds IS NULL ORDER BY d.path, c.ordinal", [])


def save_sentences(db: Database, chunks: Iterable[Chunk]) -> None:
    """Commit where the sentences of chunks are, so that no later run or question has to split them."""
    with db.atomic():
        db.table("sentences").insert_all(
            ({"chunk_id": c.id, "splitter": SPLITTER, "bounds": sentence_bounds(c.text)} for c in chunks), replace=True
        )


def _chunks(db: Database, where: str, values: list[Any]) -> list[Chunk]:
    joined = f"chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN sentences s ON s.chunk_id = c.id AND s.splitter = {SPLITTER}"
    found = []
    for row in db.query(f"SELECT c.*, s.bounds FROM {joined} {where}", values):
        bounds = row.pop("bounds")
        found.append(Chunk(**row))
        if bounds is not None:
            remember_sentences(row["text"], bounds)
    return found


def save_extraction(db: Database, recipe: str, extraction: Extraction) -> None:
    """Commit what was found in one chunk."""
    save_extractions(db, recipe, [extraction])


def forget_extraction(db: Database, recipe: str, chunk_id: str) -> None:
    """Delete what was found in one chunk by a recipe."""
    with db.atomic():
        db.execute("DELETE FROM extractions WHERE recipe = ? AND chunk_id = ?", [recipe, chunk_id])


def save_extractions(db: Database, recipe: str, found: Sequence[Extraction]) -> None:
    """Commit what was found in several chunks, in one transaction."""
    rows = [{"chunk_id": x.chunk_id, "recipe": recipe, "result": json.dumps(_parts(x), ensure_ascii=False)} for x in found]
    with db.atomic():
        db.table("extractions").insert_all(rows, replace=True)


def _parts(extraction: Extraction) -> dict[str, Any]:
    return {k: v for k, v in asdict(extraction).items() if k != "chunk_id"}


def extractions(db: Database, *recipes: str) -> list[Extraction]:
    """For every chunk what was found with the first of these recipes that has been used on it, in the order of the chunks."""
    found: dict[str, Extraction] = {}
    for recipe in recipes:
        rows = db.query("SELECT chunk_id, result FROM extractions WHERE recipe = ?", [recipe])
        found = {row["chunk_id"]: _extraction(row["chunk_id"], json.loads(row["result"])) for row in rows} | found
    order = db.query("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal")
    return [found[row["id"]] for row in order if row["id"] in found]


def _extraction(chunk_id: str, result: dict[str, Any]) -> Extraction:
    return Extraction(
        chunk_id,
        tuple(ExtractedEntity(**e) for e in result["entities"]),
        tuple(ExtractedRelationship(**r) for r in result["relationships"]),
        tuple(ExtractedClaim(**c) for c in result.get("claims", ())),
        result.get("by", "model"),
        result.get("noise", 0),
    )


def noise(db: Database) -> int:
    """How many capitalised words and runs were found to be no names."""
    return int(next(db.query("SELECT coalesce(sum(json_extract(result, '$.noise')), 0) AS n FROM extractions"))["n"])
