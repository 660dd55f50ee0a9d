"""Documents: save, update, move and remove them; skipped files, file stats and OCR pages.

File stats record which bytes a file had when it was read on this machine. An OCR page is stored as soon as it is read, under its scan (file
bytes and languages) and a hash of its image, and is linked to the content hash of its documents later.
"""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from sqlite_utils import Database

from localrag.records import IMPORTED_MARK, Chunk, Document, DocumentBlock, DocumentPart, SkippedFile, content_id
from localrag.store import runs
from localrag.store.chunks import chunk_row, chunks_of
from localrag.store.collections import move_paths
from localrag.store.full_text import index_chunks, unindex_chunks
from localrag.store.reviews import move_cells
from localrag.store.tombstones import move_tombstones, record_removal
from localrag.system.files import FileStat

MAX_FILE_NAMES = 20  # of a question that are looked up
_DOCUMENT_COLUMNS = tuple(f.name for f in fields(Document) if f.name not in ("metadata", "parts", "blocks"))  # without JSON


def save_document(db: Database, document: Document, chunks: Sequence[Chunk], *, moved: bool = False) -> None:
    """Store a document with its chunks, replacing the document at the same path.

    Without a published graph, or for a new file, the document is visible at once; otherwise readers see the earlier one until the next
    generation is published.
    """
    with db.atomic():
        is_staged = _has_graph(db) and (
            moved or _has_path(db, "main.documents", document.path) or _has_path(db, "staged_documents", document.path)
        )
        remove_document(db, document.path)
        prefix = "staged_" if is_staged else "main."
        _insert_rows(db, f"{prefix}documents", [_document_row(document)])
        _insert_rows(db, f"{prefix}chunks", map(chunk_row, chunks))
        if not is_staged:
            index_chunks(db, ((c.id, c.text) for c in chunks))


def update_document(db: Database, document: Document, chunks: Sequence[Chunk]) -> None:
    """Store the title, metadata, parts, content hash and token counts of a document whose text and chunks are unchanged."""
    with db.atomic():
        if _has_graph(db) and not _has_path(db, "staged_documents", document.path):
            db.execute("INSERT OR IGNORE INTO staged_deletions VALUES (?)", [document.path])
            _insert_rows(db, "staged_documents", [_document_row(document)])
            _insert_rows(db, "staged_chunks", map(chunk_row, chunks))
            return
        prefix = "staged_" if _has_path(db, "staged_documents", document.path) else "main."
        for c in chunks:
            db.execute(f"UPDATE {prefix}chunks SET tokens = ? WHERE id = ?", [c.tokens, c.id])
        changes = {k: v for k, v in _document_row(document).items() if k not in ("id", "text")}
        db.execute(f"UPDATE {prefix}documents SET {', '.join(f'{k} = ?' for k in changes)} WHERE id = ?", [*changes.values(), document.id])


def _insert_rows(db: Database, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows of the same columns into a table, which may be hidden by a view (`main.chunks`)."""
    remaining = iter(rows)
    first = next(remaining, None)
    if first is not None:
        columns = ", ".join(f'"{name}"' for name in first)
        insert = f"INSERT INTO {table} ({columns}) VALUES (?{', ?' * (len(first) - 1)})"
        db.conn.executemany(insert, (tuple(row.values()) for row in chain([first], remaining)))


def _document_row(document: Document) -> dict[str, Any]:
    parts = [[p.label, p.start, p.end, *[p.number] * bool(p.number)] for p in document.parts]
    row = {name: getattr(document, name) for name in _DOCUMENT_COLUMNS}
    blocks = [[b.kind, b.start, b.end, b.level, b.columns] for b in document.blocks]
    row |= {name: json.dumps(v, ensure_ascii=False) for name, v in (("metadata", document.metadata), ("parts", parts))}
    return row | {"blocks": zlib.compress(json.dumps(blocks).encode()) if blocks else b""}


def _has_graph(db: Database) -> bool:
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM entities)").fetchone()[0])


def _has_path(db: Database, table: str, path: str) -> bool:
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE path = ?)", [path]).fetchone()[0])


def remove_document(db: Database, path: str) -> None:
    """Delete a document and everything derived from its chunks; nothing happens for an unknown path.

    With a published graph readers see the document until the next generation is published.
    """
    with db.atomic():
        if record_removal(db, path):
            runs.save_settings(db, has_removed_text=True)
        staged = "SELECT c.id FROM staged_chunks c JOIN staged_documents d ON d.id = c.document_id WHERE d.path = ?"
        removed_ids = [key for (key,) in db.execute(staged, [path])]
        db.execute("DELETE FROM staged_documents WHERE path = ?", [path])
        db.execute(
            "DELETE FROM staged_embeddings WHERE kind = 'chunk' AND subject_id IN (SELECT value FROM json_each(?))",
            [json.dumps(removed_ids)],
        )
        if _has_graph(db):
            db.execute("INSERT OR IGNORE INTO staged_deletions SELECT path FROM main.documents WHERE path = ?", [path])
        else:
            published = "SELECT c.id FROM main.chunks c JOIN main.documents d ON d.id = c.document_id WHERE d.path = ?"
            removed_ids += [key for (key,) in db.execute(published, [path])]
            remove_chunks(db, removed_ids)
            db.execute("DELETE FROM main.documents WHERE path = ?", [path])
        delete_orphan_chunk_data(db, removed_ids)


def remove_chunks(db: Database, ids: Sequence[str]) -> None:
    """Delete published chunks with their full-text rows and vectors."""
    unindex_chunks(db, ids)
    values = [json.dumps(list(ids))]
    db.execute("DELETE FROM embeddings WHERE kind = 'chunk' AND subject_id IN (SELECT value FROM json_each(?))", values)
    db.execute("DELETE FROM main.chunks WHERE id IN (SELECT value FROM json_each(?))", values)


def delete_orphan_chunk_data(db: Database, ids: Sequence[str]) -> None:
    """Delete sentences and extractions of those given chunks that are stored nowhere any more."""
    is_orphan = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE id = value)" for table in ("main.chunks", "staged_chunks"))
    for table in ("sentence_spans", "extractions"):
        db.execute(f"DELETE FROM {table} WHERE chunk_id IN (SELECT value FROM json_each(?) WHERE {is_orphan})", [json.dumps(list(ids))])


def ids_of_days(db: Database, first: str, last: str, names: Sequence[str]) -> set[str]:
    """The documents with a date of their own from `first` to `last` (YYYY-MM-DD), and those whose path, behind a slash, has such a name."""
    own = "date_source != 'file' AND date BETWEEN ? AND ?"
    named = " OR ".join(["'/' || path GLOB ?"] * len(names)) or "0"
    return {key for (key,) in db.execute(f"SELECT id FROM documents WHERE ({own}) OR ({named})", [first, last, *names])}


def document_hashes(db: Database) -> dict[str, str]:
    """Path → content hash of every stored document."""
    return {row["path"]: row["content_hash"] for row in db.query("SELECT path, content_hash FROM documents")}


def inner_paths(db: Database) -> dict[str, list[str]]:
    """Path of a file → the paths of the documents within it, whose paths are below the file's; only of files that have such."""
    paths = {path for (path,) in db.execute("SELECT path FROM documents")}
    found = defaultdict[str, list[str]](list)
    for path in sorted(paths):
        if (file := next((p for parent in reversed(PurePosixPath(path).parents) if (p := parent.as_posix()) in paths), None)) is not None:
            found[file].append(path)
    return dict(found)


def ending_import_chunks(db: Database) -> set[str]:
    """Chunks of published imported documents that the next generation removes; call it within `generations.view_next_generation`."""
    published = "SELECT c.id FROM main.chunks c JOIN main.documents d ON d.id = c.document_id WHERE d.content_hash LIKE ? || ' %'"
    return {key for (key,) in db.execute(f"{published} AND c.id NOT IN (SELECT id FROM chunks)", [IMPORTED_MARK])}


def unread_pages(db: Database) -> dict[str, str]:
    """Path → the pages of a document that could not be read, and why; only documents that have such pages."""
    rows = db.query("SELECT path, metadata FROM documents WHERE instr(metadata, '\"not read\"')")
    notes = {row["path"]: dict(_pairs(row["metadata"])).get("not read", "") for row in rows}
    return {path: reason for path, reason in notes.items() if reason}


def document_paths(db: Database) -> dict[str, str]:
    """Document id → path."""
    return {row["id"]: row["path"] for row in db.query("SELECT id, path FROM documents")}


def document_dates(db: Database) -> dict[str, str]:
    """Document id → date, empty where it is unknown."""
    return {row["id"]: row["date"] for row in db.query("SELECT id, date FROM documents")}


def named_paths(db: Database, question: str) -> list[str]:
    """The paths of the documents that a question names by file name or path, ignoring case, at most MAX_FILE_NAMES names of it."""
    words = (word.strip("\"'«»“”„‘’()?!,:;`").rstrip(".").removeprefix("./").lower() for word in question.split())
    names = [name for name in dict.fromkeys(words) if "." in name[1:-1]][:MAX_FILE_NAMES]
    found = (
        db.query("SELECT path FROM documents WHERE lower(path) = ? OR substr(lower(path), -length(?)) = ?", [n, f"/{n}", f"/{n}"])
        for n in names
    )
    return list(dict.fromkeys(str(row["path"]) for rows in found for row in rows))


@dataclass(frozen=True, slots=True)
class FileRow:
    """A document without its text, with the time its file changed; 0 for one without a file."""

    path: str
    title: str
    date: str
    date_source: str
    added_at: str
    mtime_ns: int


def file_rows(db: Database) -> list[FileRow]:
    """All documents by path."""
    columns = "d.path, d.title, d.date, d.date_source, d.added_at, coalesce(s.mtime_ns, 0)"
    rows = db.execute(f"SELECT {columns} FROM documents d LEFT JOIN file_stats s ON s.path = d.path ORDER BY d.path")
    return [FileRow(*row) for row in rows]


def document_path(db: Database, chunk_id: str) -> str:
    """The path of the document a chunk belongs to; empty if the chunk is unknown."""
    rows = db.query("SELECT d.path FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id = ?", [chunk_id])
    return next((str(row["path"]) for row in rows), "")


def document_titles(db: Database, chunk_ids: Iterable[str]) -> dict[str, str]:
    """Chunk id → the title of its document."""
    wanted = "SELECT value FROM json_each(?)"
    joined = f"SELECT c.id, d.title FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id IN ({wanted})"
    return dict(db.execute(joined, [json.dumps(list(chunk_ids))]))


def documents_of_chunks(db: Database, chunk_ids: Iterable[str]) -> dict[str, str]:
    """Chunk id → the id of its document."""
    return dict(
        db.execute("SELECT id, document_id FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(chunk_ids))])
    )


def document_by_id(db: Database, document_id: str) -> Document:
    """The stored document with this id."""
    return _document(next(db.query("SELECT * FROM documents WHERE id = ?", [document_id])))


def document_headers(db: Database, ids: Iterable[str] | None = None) -> dict[str, str]:
    """Document id → title, date and author on one line; of all documents or of the given ids."""
    where, values = ("", []) if ids is None else ("WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(set(ids)))])
    rows = db.query(f"SELECT id, title, metadata FROM documents {where}", values)
    return {row["id"]: Document(row["id"], "", row["title"], "", "", _pairs(row["metadata"])).header for row in rows}


def find_document(db: Database, path: str) -> Document | None:
    """The stored document at a path; None if there is none."""
    row = next(iter(db.query("SELECT * FROM documents WHERE path = ?", [path])), None)
    return _document(row) if row else None


def _document(row: Mapping[str, Any]) -> Document:
    columns = {name: row[name] for name in _DOCUMENT_COLUMNS}
    parts = tuple(DocumentPart(*part) for part in json.loads(row["parts"]))
    return Document(**columns, metadata=_pairs(row["metadata"]), parts=parts, blocks=_unpacked_blocks(row["blocks"]))


def _unpacked_blocks(packed: bytes) -> tuple[DocumentBlock, ...]:
    rows = json.loads(zlib.decompress(packed)) if packed else []
    return tuple(DocumentBlock(kind, start, end, level, tuple(columns)) for kind, start, end, level, columns in rows)


def load_documents(db: Database) -> list[Document]:
    """The stored documents with their texts, by path."""
    return [document for path in sorted(document_hashes(db)) if (document := find_document(db, path))]


def _pairs(metadata: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(metadata))


def is_unchanged(db: Database, document: Document, chunks: Sequence[Chunk]) -> bool:
    """Whether a document is stored with exactly this text and these chunks."""
    stored = chunks_of(db, document.id)
    same_chunks = [(c.id, c.text) for c in stored] == [(c.id, c.text) for c in chunks]
    return same_chunks and document_text(db, document.path) == document.text


def document_text(db: Database, path: str) -> str | None:
    """The text of the document at a path; None if there is none."""
    row = next(iter(db.query("SELECT text FROM documents WHERE path = ?", [path])), None)
    return None if row is None else str(row["text"])


def replace_skipped_files(db: Database, rows: Iterable[SkippedFile]) -> None:
    """Replace the list of skipped files; nothing is written if it is unchanged."""
    new_rows = {s.path: s for s in rows}
    if new_rows == {s.path: s for s in skipped_files(db)}:
        return
    with db.atomic():
        db.execute("DELETE FROM skipped_files")
        db.table("skipped_files").insert_all(map(asdict, new_rows.values()))


def skipped_files(db: Database) -> list[SkippedFile]:
    """The files that were not indexed, by path."""
    rows = db.query("SELECT path, reason, is_failure, content_hash FROM skipped_files ORDER BY path")
    return [SkippedFile(row["path"], row["reason"], bool(row["is_failure"]), row["content_hash"]) for row in rows]


_PARKED_PATH_PREFIX = "\0"  # marks a path while another document takes it; no file name contains it


@dataclass(frozen=True, slots=True)
class MovedTo:
    """The new path of a document's file; the date of its name or of the file, and which of them it is."""

    path: str
    day: str
    day_source: str


def occupied_paths(db: Database) -> set[str]:
    """The paths of all documents, published and staged, including those that the next generation removes."""
    return {path for (path,) in db.execute("SELECT path FROM main.documents UNION SELECT path FROM main.staged_documents")}


def move_documents(db: Database, moves: Mapping[str, MovedTo]) -> None:
    """Give documents (by path) new paths in one transaction, published at once: all other tables refer to documents by id.

    A title taken from the file name follows, and so does a date taken from its name or the file. A new path must belong to no other
    document (`occupied_paths`) unless that one moves as well.
    """
    if not moves:
        return
    parked = {old: f"{_PARKED_PATH_PREFIX}{old}" for old in {m.path for m in moves.values()} & moves.keys()}
    with db.atomic():
        for table in ("main.documents", "main.staged_documents", "main.staged_deletions"):
            db.conn.executemany(f"UPDATE {table} SET path = ? WHERE path = ?", [(parked_path, old) for old, parked_path in parked.items()])
        for table in ("main.documents", "main.staged_documents"):
            db.conn.executemany(
                f"UPDATE {table} SET path = :path,"
                " title = CASE WHEN title_source = 'file' OR (title_source = '' AND title = :stem) THEN :title ELSE title END,"
                " date = CASE WHEN date_source IN ('file', 'name') THEN :day ELSE date END,"
                " date_source = CASE WHEN date_source IN ('file', 'name') THEN :day_source ELSE date_source END,"
                " original_path = CASE WHEN original_path = '' THEN :old ELSE original_path END WHERE path = :at",
                [_values(old, new) | {"at": parked.get(old, old)} for old, new in moves.items()],
            )
        path_pairs = [(new.path, parked.get(old, old)) for old, new in moves.items()]
        db.conn.executemany("UPDATE OR REPLACE main.staged_deletions SET path = ? WHERE path = ?", path_pairs)
        paths = {old: new.path for old, new in moves.items()}
        move_tombstones(db, paths)
        move_paths(db, paths)
        move_cells(db, paths.items())


def _values(old: str, new: MovedTo) -> dict[str, str]:
    stems = {"stem": PurePosixPath(old).stem, "title": PurePosixPath(new.path).stem}
    return stems | {"old": old, "path": new.path, "day": new.day, "day_source": new.day_source}


def matches_document_id(document_id: str, path: str, first_path: str, text: str) -> bool:
    """Whether a document's id is the hash of its text and its original path."""
    return document_id == content_id(first_path or path, content_id(text))


def new_document_id(db: Database, path: str, text: str) -> tuple[str, str]:
    """The id of a text at a path, and the original path it is derived from if that is another.

    A text that is already stored at the path keeps its id. If another document that was once at this path has the id, a number is added.
    """
    key = content_id(text)
    row = db.execute("SELECT id, original_path FROM documents WHERE path = ?", [path]).fetchone()
    if row is not None and row[0] == content_id(row[1] or path, key):
        return str(row[0]), str(row[1])
    original, number = path, 1
    while _is_taken(db, document_id := content_id(original, key), path):
        number += 1
        original = f"{path} ({number})"
    return document_id, "" if number == 1 else original


def _is_taken(db: Database, document_id: str, path: str) -> bool:
    other = " UNION ALL ".join(f"SELECT 1 FROM {t} WHERE id = :id AND path <> :path" for t in ("main.documents", "main.staged_documents"))
    return bool(db.execute(f"SELECT EXISTS ({other})", {"id": document_id, "path": path}).fetchone()[0])


def file_stats(db: Database) -> dict[str, FileStat]:
    """Path → the file's stat when it was read."""
    return {path: FileStat(*values) for path, *values in db.execute("SELECT path, size, mtime_ns, inode, digest FROM file_stats")}


def save_file_stats(db: Database, stats: Mapping[str, FileStat]) -> None:
    """Store the stats of files that were read."""
    if stats:
        with db.atomic():
            rows = ((path, *s.stat_key, s.digest) for path, s in stats.items())
            db.conn.executemany("INSERT OR REPLACE INTO file_stats (path, size, mtime_ns, inode, digest) VALUES (?, ?, ?, ?, ?)", rows)


def delete_file_stats(db: Database, paths: Iterable[str]) -> None:
    """Delete the stats of files."""
    with db.atomic():
        db.execute("DELETE FROM file_stats WHERE path IN (SELECT value FROM json_each(?))", [json.dumps(list(paths))])


def delete_orphan_file_stats(db: Database) -> None:
    """Delete the stats of files without a document, published or staged, and without a row in `skipped_files`."""
    tables = ("main.documents", "main.staged_documents", "main.skipped_files")
    is_orphan = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} k WHERE k.path = file_stats.path)" for table in tables)
    with db.atomic():
        db.execute(f"DELETE FROM file_stats WHERE {is_orphan}")


OcrPage = dict[str, Any]  # the format of `loaders/ocr.py`
_STORED = " UNION ".join(f"SELECT content_hash FROM {table}" for table in ("main.documents", "staged_documents", "main.skipped_files"))


class OcrPages:
    """The OCR pages stored in a database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pages(self, scan: str) -> dict[int, OcrPage]:
        """Page number → OCR page, of those pages of a scan that were read."""
        rows = self._db.execute("SELECT page, words FROM ocr_pages WHERE scan_id = ? ORDER BY page", [scan])
        return {number: _unpacked(words) for number, words in rows}

    def find_similar(self, image_hash: str) -> OcrPage | None:
        """An OCR page with the same image hash, of any scan; None if there is none."""
        row = self._db.execute("SELECT words FROM ocr_pages WHERE image_hash = ? LIMIT 1", [image_hash]).fetchone()
        return _unpacked(row[0]) if row else None

    def save(self, scan: str, number: int, image_hash: str, page: OcrPage) -> None:
        """Store an OCR page and commit."""
        data = zlib.compress(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode())
        with self._db.atomic():
            self._db.execute("INSERT OR REPLACE INTO ocr_pages VALUES (?, ?, ?, ?)", [scan, number, image_hash, data])

    def link_document(self, content_hash: str, scan: str, languages: str) -> None:
        """Assign the pages of a scan to the documents of a content hash."""
        with self._db.atomic():
            self._db.execute("INSERT OR REPLACE INTO ocr_documents VALUES (?, ?, ?)", [content_hash, scan, languages])


def _unpacked(words: bytes) -> OcrPage:
    page: OcrPage = json.loads(zlib.decompress(words))
    return page


def ocr_languages(db: Database) -> dict[str, str]:
    """Content hash → OCR languages, of every document with OCR pages."""
    return dict(db.execute("SELECT content_hash, languages FROM ocr_documents"))


def ocr_pages_of(db: Database, content_hash: str, numbers: Sequence[int]) -> dict[int, OcrPage]:
    """Page number → OCR page, of those given pages of a document that were read by OCR."""
    joined = "ocr_pages p JOIN ocr_documents s ON s.scan_id = p.scan_id"
    joined += " WHERE s.content_hash = ? AND p.page IN (SELECT value FROM json_each(?))"
    return {
        n: _unpacked(words) for n, words in db.execute(f"SELECT p.page, p.words FROM {joined}", [content_hash, json.dumps(list(numbers))])
    }


def delete_unused_ocr_pages(db: Database, *, unfinished: bool = False) -> None:
    """Delete the OCR pages of documents that are neither published, staged nor skipped; `unfinished`: also those left by killed runs."""
    with db.atomic():
        removed = [scan for (scan,) in db.execute(f"SELECT scan_id FROM ocr_documents WHERE content_hash NOT IN ({_STORED})")]
        db.execute(f"DELETE FROM ocr_documents WHERE content_hash NOT IN ({_STORED})")
        orphans = "DELETE FROM ocr_pages WHERE scan_id NOT IN (SELECT scan_id FROM ocr_documents)"
        if unfinished:
            db.execute(orphans)
        else:
            db.execute(f"{orphans} AND scan_id IN (SELECT value FROM json_each(?))", [json.dumps(removed)])
