"""Documents, chunks, their full-text index, and what was extracted from them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from sqlite_utils import Database

from localrag.records import (
    IMPORTED,
    Chunk,
    Document,
    ExtractedClaim,
    ExtractedEntity,
    ExtractedRelationship,
    Extraction,
    Part,
    Skipped,
    content_id,
)
from localrag.store.departed import note_departure
from localrag.store.search import add_to_search, remove_from_search
from localrag.store.statements import NOISE
from localrag.text.plain import SPLITTER, remember_sentences

_PLAIN = (
    "id",
    "path",
    "title",
    "text",
    "content_hash",
    "date",
    "dated_by",
    "titled_by",
    "first_path",
)  # of a document's columns, those that are no JSON


def add_document(db: Database, document: Document, chunks: Sequence[Chunk], *, moved: bool = False) -> None:
    """Store a document with its chunks, in place of an earlier content of the same path.

    Beside a published graph only a new file is there at once; an earlier content, or one that `moved` here, is what readers see until the
    next generation is published. Where a chunk of the same text is stored already, here or in another document, its vector is taken over,
    and within this document where its sentences are.
    """
    hashes = {c.id: content_id(c.text) for c in chunks}
    with db.atomic():
        waits = _cited(db) and (moved or _holds(db, "main.documents", document.path) or _holds(db, "next_documents", document.path))
        vectors: dict[str, dict[str, Any]] = {}
        for table in ("embeddings", "next_embeddings")[: 1 + waits]:  # what waits may be another embedder's
            known = f"SELECT content_hash, embedder, vector FROM {table} WHERE kind = 'chunk' AND content_hash IN"
            found = db.query(f"{known} (SELECT value FROM json_each(?))", [json.dumps(list(hashes.values()))])
            vectors |= {row["content_hash"]: row for row in found}
        split = _sentences_of(db, document.path)
        remove_document(db, document.path, edited=True)
        prefix = "next_" if waits else "main."
        _put(db, f"{prefix}documents", [_document_row(document)])
        _put(db, f"{prefix}chunks", map(asdict, chunks))
        if not waits:
            add_to_search(db, ((c.id, c.text) for c in chunks))
        taken = ({"kind": "chunk", "subject_id": c} | vectors[h] for c, h in hashes.items() if h in vectors)
        db.table("next_embeddings" if waits else "embeddings").insert_all(taken, replace=True)
        save_sentences(db, {c.id: split[c.text] for c in chunks if c.text in split})


def _sentences_of(db: Database, path: str) -> dict[str, bytes]:
    """The texts of a document's chunks → where their sentences are, as far as that is kept."""
    kept = f"chunks c JOIN sentences s ON s.chunk_id = c.id AND s.splitter = {SPLITTER}"
    return dict(db.execute(f"SELECT c.text, s.bounds FROM documents d JOIN {kept} WHERE c.document_id = d.id AND d.path = ?", [path]))


def update_document(db: Database, document: Document, chunks: Sequence[Chunk]) -> None:
    """Store what is new of a document whose text and cuts are the stored ones: title, metadata, parts, content hash, tokens."""
    with db.atomic():
        if _cited(db) and not _holds(db, "next_documents", document.path):
            db.execute("INSERT OR IGNORE INTO next_gone VALUES (?)", [document.path])
            _put(db, "next_documents", [_document_row(document)])
            _put(db, "next_chunks", map(asdict, chunks))
            return
        prefix = "next_" if _holds(db, "next_documents", document.path) else "main."
        for c in chunks:
            db.execute(f"UPDATE {prefix}chunks SET tokens = ? WHERE id = ?", [c.tokens, c.id])
        new = {k: v for k, v in _document_row(document).items() if k not in ("id", "text")}
        db.execute(f"UPDATE {prefix}documents SET {', '.join(f'{k} = ?' for k in new)} WHERE id = ?", [*new.values(), document.id])


def _put(db: Database, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows of the same columns into a table, which may be one that a view hides (`main.chunks`)."""
    rest = iter(rows)
    first = next(rest, None)
    if first is not None:
        columns = ", ".join(f'"{name}"' for name in first)
        put = f"INSERT INTO {table} ({columns}) VALUES (?{', ?' * (len(first) - 1)})"
        db.conn.executemany(put, (tuple(row.values()) for row in chain([first], rest)))


def _document_row(document: Document) -> dict[str, Any]:
    parts = [[p.label, p.start, p.end] for p in document.parts]
    row = {name: getattr(document, name) for name in _PLAIN}
    return row | {name: json.dumps(v, ensure_ascii=False) for name, v in (("metadata", document.metadata), ("parts", parts))}


def _cited(db: Database) -> bool:
    """Whether there is a graph that speaks of the stored documents."""
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM entities)").fetchone()[0])


def _holds(db: Database, table: str, path: str) -> bool:
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE path = ?)", [path]).fetchone()[0])


def remove_document(db: Database, path: str, *, edited: bool = False) -> None:
    """Forget a document and everything that hangs on its chunks; a no-op for an unknown path. `edited`: another content follows.

    Beside a published graph readers see it until the next generation is published.
    """
    with db.atomic():
        note_departure(db, path, edited=edited)
        waiting = "SELECT c.id FROM next_chunks c JOIN next_documents d ON d.id = c.document_id WHERE d.path = ?"
        gone = [key for (key,) in db.execute(waiting, [path])]
        db.execute("DELETE FROM next_documents WHERE path = ?", [path])
        db.execute(
            "DELETE FROM next_embeddings WHERE kind = 'chunk' AND subject_id IN (SELECT value FROM json_each(?))", [json.dumps(gone)]
        )
        if _cited(db):
            db.execute("INSERT OR IGNORE INTO next_gone SELECT path FROM main.documents WHERE path = ?", [path])
        else:
            mine = "SELECT c.id FROM main.chunks c JOIN main.documents d ON d.id = c.document_id WHERE d.path = ?"
            gone += [key for (key,) in db.execute(mine, [path])]
            remove_chunks(db, gone)
            db.execute("DELETE FROM main.documents WHERE path = ?", [path])
        forget_parts(db, gone)


def remove_chunks(db: Database, ids: Sequence[str]) -> None:
    """Take chunks that readers see out of the tables, the full-text index and the vectors."""
    remove_from_search(db, ids)
    gone = [json.dumps(list(ids))]
    db.execute("DELETE FROM embeddings WHERE kind = 'chunk' AND subject_id IN (SELECT value FROM json_each(?))", gone)
    db.execute("DELETE FROM main.chunks WHERE id IN (SELECT value FROM json_each(?))", gone)


def forget_parts(db: Database, ids: Sequence[str]) -> None:
    """Delete sentences and extractions of those of some chunks that are stored nowhere any more."""
    unknown = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE id = value)" for table in ("main.chunks", "next_chunks"))
    for table in ("sentences", "extractions"):
        db.execute(f"DELETE FROM {table} WHERE chunk_id IN (SELECT value FROM json_each(?) WHERE {unknown})", [json.dumps(list(ids))])


def document_hashes(db: Database) -> dict[str, str]:
    """Path → content hash of every stored document."""
    return {row["path"]: row["content_hash"] for row in db.query("SELECT path, content_hash FROM documents")}


def gone_imports(db: Database) -> set[str]:
    """The chunks of published documents from other programs that end with this generation (within `generations.next_in_view`)."""
    published = "SELECT c.id FROM main.chunks c JOIN main.documents d ON d.id = c.document_id WHERE d.content_hash LIKE ? || ' %'"
    return {key for (key,) in db.execute(f"{published} AND c.id NOT IN (SELECT id FROM chunks)", [IMPORTED])}


def unread_pages(db: Database) -> dict[str, str]:
    """Path → which of a document's pages nothing is read of, and why; only of those that have such."""
    rows = db.query("SELECT path, metadata FROM documents WHERE instr(metadata, '\"not read\"')")
    found = {row["path"]: dict(_pairs(row["metadata"])).get("not read", "") for row in rows}
    return {path: why for path, why in found.items() if why}


def document_paths(db: Database) -> dict[str, str]:
    """Document id → path."""
    return {row["id"]: row["path"] for row in db.query("SELECT id, path FROM documents")}


def has_file(db: Database, name: str) -> bool:
    """Whether a document's file has that name, ignoring case."""
    ends = "lower(path) = ? OR substr(lower(path), -length(?)) = ?"
    wanted = name.lower()
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM documents WHERE {ends})", [wanted, f"/{wanted}", f"/{wanted}"]).fetchone()[0])


def document_path(db: Database, chunk_id: str) -> str:
    """The path of the document a chunk belongs to; empty where the chunk is unknown."""
    rows = db.query("SELECT d.path FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id = ?", [chunk_id])
    return next((str(row["path"]) for row in rows), "")


def titles(db: Database, chunk_ids: Iterable[str]) -> dict[str, str]:
    """Chunk id → the title of its document."""
    wanted = "SELECT value FROM json_each(?)"
    joined = f"SELECT c.id, d.title FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id IN ({wanted})"
    return dict(db.execute(joined, [json.dumps(list(chunk_ids))]))


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
    kept = {name: row[name] for name in _PLAIN}
    return Document(**kept, metadata=_pairs(row["metadata"]), parts=tuple(Part(*part) for part in json.loads(row["parts"])))


def _pairs(metadata: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(metadata))


def holds(db: Database, document: Document, chunks: Sequence[Chunk]) -> bool:
    """Whether just this text is stored for a document, in just these chunks."""
    stored = chunks_of(db, document.id)
    same = [(c.id, c.text) for c in stored] == [(c.id, c.text) for c in chunks]
    return same and document_text(db, document.path) == document.text


def document_text(db: Database, path: str) -> str | None:
    """The text of a document as it was indexed."""
    row = next(iter(db.query("SELECT text FROM documents WHERE path = ?", [path])), None)
    return None if row is None else str(row["text"])


def set_skipped(db: Database, rows: Iterable[Skipped]) -> None:
    """Replace the list of files that were not indexed, unless it is just this."""
    new = {s.path: s for s in rows}
    if new == {s.path: s for s in skipped(db)}:
        return
    with db.atomic():
        db.execute("DELETE FROM skipped")
        db.table("skipped").insert_all(map(asdict, new.values()))


def skipped(db: Database) -> list[Skipped]:
    """The files that were not indexed, by path."""
    rows = db.query("SELECT path, reason, failed, content_hash FROM skipped ORDER BY path")
    return [Skipped(row["path"], row["reason"], bool(row["failed"]), row["content_hash"]) for row in rows]


def all_chunks(db: Database) -> list[Chunk]:
    """Every chunk, in the order of paths and places."""
    return _chunks(db, "JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal", [])


def chunk_ids(db: Database) -> list[str]:
    """The id of every chunk, in the order of paths and places."""
    return [i for (i,) in db.execute("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal")]


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


def chunks_of(db: Database, document_id: str) -> list[Chunk]:
    """The chunks of a document, in their order."""
    return _chunks(db, "WHERE c.document_id = ? ORDER BY c.ordinal", [document_id])


def texts_beside(db: Database, first: Chunk, last: Chunk) -> list[str]:
    """The texts of the chunks before and after some of a document, which overlap with them."""
    beside = [first.document_id, first.ordinal - 1, last.ordinal + 1]
    return [text for (text,) in db.execute("SELECT text FROM chunks WHERE document_id = ? AND ordinal IN (?, ?)", beside)]


def save_sentences(db: Database, bounds: Mapping[str, bytes]) -> None:
    """Commit where the sentences of chunks are (chunk id → `sentence_bounds`), so that no later run or question has to split them."""
    with db.atomic():
        db.table("sentences").insert_all(({"chunk_id": c, "splitter": SPLITTER, "bounds": b} for c, b in bounds.items()), replace=True)


def _chunks(db: Database, rest: str, values: list[Any]) -> list[Chunk]:
    """The chunks `c` that the rest of an SQL query chooses, in the order that it gives."""
    joined = f"chunks c LEFT JOIN sentences s ON s.chunk_id = c.id AND s.splitter = {SPLITTER}"
    found = []
    for row in db.query(f"SELECT c.*, s.bounds FROM {joined} {rest}", values):
        bounds = row.pop("bounds")
        found.append(Chunk(**row))
        if bounds is not None:
            remember_sentences(row["text"], bounds)
    return found


def save_extraction(db: Database, recipe: str, extraction: Extraction) -> None:
    """Commit what was found in one chunk."""
    save_extractions(db, recipe, [extraction])


def forget_extractions(db: Database, recipe: str, chunk_ids: Sequence[str]) -> None:
    """Delete what was found in some chunks by a recipe."""
    with db.atomic():
        db.conn.executemany("DELETE FROM extractions WHERE recipe = ? AND chunk_id = ?", [(recipe, c) for c in chunk_ids])


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
        rows = db.execute("SELECT chunk_id, result FROM extractions WHERE recipe = ?", [recipe])
        found = {key: extraction_of(key, result) for key, result in rows} | found
    order = db.query("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.path, c.ordinal")
    return [found[row["id"]] for row in order if row["id"] in found]


def extraction_of(chunk_id: str, row: str) -> Extraction:
    """The extraction in a row."""
    result = json.loads(row)
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
    return int(next(db.query(f"SELECT coalesce(sum({NOISE}), 0) AS n FROM extractions WHERE {NOISE} > 0"))["n"])
