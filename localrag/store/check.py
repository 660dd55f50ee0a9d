"""Is everything in an index as it must be? Each check looks at one part of it and names what is wrong, and how that can be mended."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sqlite_utils import Database

from localrag.pagerank import Ids
from localrag.records import TO_IMPORT, content_id
from localrag.store import generations, ledger, network, vector_index, vectors
from localrag.store.check_graph import communities, mentions, picture, relationships
from localrag.store.connect import cache_files
from localrag.store.moves import is_id_of
from localrag.store.wrong import Part, Wrong, finished, one, rows, some_of
from localrag.text.plain import cjk_bigrams

TOLERANCE = 1e-3  # of a unit vector's length

_UNREADABLE = (sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError)  # a torn table, or values that it should not hold


def check_index(db: Database, folder: Path) -> list[Part]:
    """Every part of the index, all at one moment of it, even while another process writes to it."""
    full_text = _part("full text", lambda: _full_text_index(db))  # first: FTS5's own check is a statement that writes, in form
    db.conn.execute("BEGIN")
    try:
        parts = [_part(name, lambda look=look: look(db)) for name, look in PARTS.items()]  # type: ignore[misc]
        parts.append(_part("caches", lambda: _caches(db, folder)))
    finally:
        db.conn.execute("ROLLBACK")
    return [Part(p.name, p.looked_at, full_text.wrong + p.wrong) if p.name == "full text" else p for p in parts]


def _part(name: str, look: Callable[[], tuple[str, list[Wrong]]]) -> Part:
    try:
        text, wrong = look()
        return Part(name, text, tuple(wrong))
    except _UNREADABLE as error:
        return Part(name, "", (Wrong(f"cannot be read ({type(error).__name__})", "database"),))


def _database(db: Database) -> tuple[str, list[Wrong]]:
    """SQLite's own view of the file, and rows that belong to rows that are no more."""
    said = [text for (text,) in rows(db, "PRAGMA integrity_check(20)") if text != "ok"]
    wrong = [Wrong(f"SQLite: {some_of(said)}", "database")] if said else []
    orphans: dict[tuple[str, str], list[int]] = {}
    for table, rowid, parent, _ in rows(db, "PRAGMA foreign_key_check"):
        orphans.setdefault((table, parent), []).append(rowid)
    for table in ("extractions", "sentences"):  # which may be of chunks that wait for the next generation
        known = "SELECT id FROM chunks UNION ALL SELECT id FROM next_chunks"
        if lost := [rowid for (rowid,) in rows(db, f"SELECT rowid FROM {table} WHERE chunk_id NOT IN ({known})")]:
            orphans[table, "chunks"] = lost
    again = one(db, f"SELECT count(*) FROM documents WHERE content_hash IN ('', '{TO_IMPORT}')")
    for (table, parent), rowids in orphans.items():
        keys = tuple((table, rowid) for rowid in rowids)
        due = table in ("extractions", "sentences") and again > 0  # their chunks come back when the document is read
        wrong.append(Wrong(f"{len(rowids)} rows of {table} belong to {parent} that are missing", "orphans", keys, due))
    broken: list[tuple[str, int]] = []
    for table, column in JSON:
        broken += [(table, rowid) for (rowid,) in rows(db, f"SELECT rowid FROM {table} WHERE NOT json_valid({column})")]
    for table, n in Counter(table for table, _ in broken).items():
        wrong.append(Wrong(f"{n} rows of {table} cannot be read", "unreadable", tuple(k for k in broken if k[0] == table)))
    return f"{one(db, 'PRAGMA page_count')} pages, every row where it belongs", wrong


JSON = (("settings", "value"), ("extractions", "result"), ("entities", "descriptions"), ("relationships", "descriptions"),
        ("reports", "findings"), ("next_reports", "findings"), ("answers", "result"), ("runs", "figures"))  # fmt: skip


def _documents(db: Database) -> tuple[str, list[Wrong]]:
    """Documents are what was read, and chunks are verbatim slices that leave nothing of them out."""
    due, again, texts, total = [], [], [], 0
    columns = "id, path, first_path, text, content_hash"
    for document_id, path, first, text, content_hash in db.execute(f"SELECT {columns} FROM documents ORDER BY path"):
        query = "SELECT id, ordinal, start, end, text FROM chunks WHERE document_id = ? ORDER BY ordinal"
        some = list(db.execute(query, [document_id]))
        total += len(some)
        sound = is_id_of(document_id, path, first, text)
        torn = [c[0] for c in some if text[c[2] : c[3]] != c[4]]
        moved = [c for c in some if c[0] != content_id(document_id, c[2], c[3])]
        if content_hash in ("", TO_IMPORT):
            due.append(path)
        elif not sound or moved or _left_out(text, some) or [c[1] for c in some] != list(range(len(some))):
            again.append((path, document_id, "is not what was read" if not sound else "has chunks that do not make it up"))
        else:
            texts += [(path, chunk) for chunk in torn]
    wrong = [Wrong(f"{path} {why}", "read again", (key,)) for path, key, why in again]
    wrong += [Wrong(f"a chunk of {path} is no slice of it", "chunk text", (key,)) for path, key in texts]
    wrong += [Wrong(f"{path} is to be read again", due=True) for path in due]
    return f"{total} chunks, verbatim slices that leave out nothing of {one(db, 'SELECT count(*) FROM documents')} documents", wrong


def _left_out(text: str, chunks: list[tuple[Any, ...]]) -> bool:
    """Whether any text stands between chunks, before the first or after the last."""
    at = 0
    for _, _, start, end, _ in sorted(chunks, key=lambda c: int(c[2])):
        if text[at:start].strip("\ufeff \t\r\n\f\v\u3000"):
            return True
        at = max(at, end)
    return bool(text[at:].strip())


def _full_text_index(db: Database) -> tuple[str, list[Wrong]]:
    """FTS5's own check, which takes the place of a writer for a moment and changes nothing."""
    try:
        with db.atomic():
            db.execute("INSERT INTO chunk_search(chunk_search) VALUES ('integrity-check')")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error) and "locked" not in str(error):
            raise
    except sqlite3.DatabaseError as error:
        return "", [Wrong(f"the full-text index is damaged: {error}", "full text")]
    return "", []


def _full_text(db: Database) -> tuple[str, list[Wrong]]:
    """Each chunk has one row in the full-text index, with its words and character pairs."""
    chunks = Ids([key for (key,) in db.execute("SELECT id FROM chunks ORDER BY id")])
    times = np.zeros(len(chunks), np.int64)
    bare, other, lost = Counter[str](), set(), set()
    rows_found = "SELECT s.chunk_id, s.text, s.cjk, r.chunk_id FROM chunk_search s LEFT JOIN chunk_rows r ON r.row = s.rowid"
    for key, text, cjk, owner in db.execute(rows_found):
        n = chunks.number(key)
        if n is None:
            bare[key] += 1
            continue
        times[n] += 1
        if owner != key:
            lost.add(key)
        if text != _chunk(db, key)[2] or cjk != cjk_bigrams(text):
            other.add(key)
    found = {
        "chunks are not in the full-text index": [chunks[int(n)] for n in np.flatnonzero(times == 0)],
        "chunks are in the full-text index twice": [chunks[int(n)] for n in np.flatnonzero(times > 1)],
        "rows of the full-text index have no chunk": sorted(bare),
        "rows of the full-text index have another text than their chunk": sorted(other),
        "rows of the full-text index are kept as another chunk's": sorted(lost),
    }
    wrong = [Wrong(f"{len(keys)} {what}: {some_of(keys)}", "full text") for what, keys in found.items() if keys]
    return f"{times.sum() + bare.total()} rows, one for each chunk", wrong


def _chunk(db: Database, key: str) -> tuple[int, int, str]:
    """A chunk's place and text; an empty one where there is none."""
    found: tuple[int, int, str] | None = db.execute("SELECT start, end, text FROM chunks WHERE id = ?", [key]).fetchone()
    return found or (0, 0, "")


def _reports(db: Database) -> tuple[str, list[Wrong]]:
    """Each community has a report, and the quotes of its findings are verbatim."""
    stale = []
    quotes = 0
    for key, findings in db.execute("SELECT community_id, findings FROM reports WHERE json_valid(findings)"):
        spans = [(q["chunk_id"], q["start"], q["end"], q["text"]) for f in json.loads(findings) for q in f["quotes"]]
        quotes += len(spans)
        if not all(_verbatim(_chunk(db, chunk), *span) for chunk, *span in spans):
            stale.append(key)
    wrong = []
    if stale:
        text = f"{len(stale)} reports with a quote that does not stand where they say: {some_of(stale)}"
        wrong.append(Wrong(text, "report", tuple(stale), not finished(db)))
    bare = "SELECT id FROM communities WHERE id NOT IN (SELECT community_id FROM reports)"
    failed = "SELECT subject FROM failures WHERE stage = 'report'"
    if missing := [k for (k,) in rows(db, f"{bare} AND id NOT IN ({failed})")]:
        due = not ledger.settings(db).get("reports") or not finished(db)
        wrong.append(Wrong(f"{len(missing)} communities have no report", "report", tuple(missing), due))
    return f"{one(db, 'SELECT count(*) FROM reports')} reports, {quotes} verbatim quotes", wrong


def _verbatim(chunk: tuple[int, int, str], start: int, end: int, text: str) -> bool:
    return chunk[0] <= start < end <= chunk[1] and chunk[2][start - chunk[0] : end - chunk[0]] == text


def _vectors(db: Database) -> tuple[str, list[Wrong]]:
    """Every chunk, entity and report has a vector of its text: of the index's embedder, of one dimension, of length 1."""
    bound = ledger.settings(db).get("embedder", {}).get("fingerprint")
    sizes = "SELECT length(vector) FROM embeddings GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
    size = next((n for (n,) in db.execute(sizes)), 0)
    counts, wrong = [], []
    for kind, name in vector_index.KINDS.items():
        missing: list[tuple[str, str]] = []
        bad = {BELONGS_TO_NOTHING: [(kind, key) for key in vectors.without_subject(db, kind)]}
        for key, text in vectors.all_texts(db, kind):
            stored = "SELECT content_hash, embedder, vector FROM embeddings WHERE kind = ? AND subject_id = ?"
            found = db.execute(stored, [kind, key]).fetchone()
            if found is None:
                missing.append((kind, key))
            elif fault := _fault(content_id(text), found[0], found[1] == bound, found[2], size):
                bad.setdefault(fault, []).append((kind, key))
        for fault, keys in bad.items():
            due = fault == OTHER_TEXT and not finished(db)
            wrong += [Wrong(f"{len(keys)} vectors of {name} {fault}", "vector", tuple(keys), due)] if keys else []
        if missing:
            wrong.append(Wrong(f"{len(missing)} {name} have no vector", "vector", tuple(missing), not finished(db)))
        counts.append(f"{vector_index.count(db, kind)} of {name}")
    return f"{', '.join(counts)}; {size // 4} dimensions", wrong


BELONGS_TO_NOTHING = "belong to nothing"
OTHER_TEXT = "are of another text"


def _fault(expected: str, content_hash: str, own: bool, blob: bytes, size: int) -> str:
    """What is wrong with a vector, in words; empty where nothing is."""
    if content_hash != expected:
        return OTHER_TEXT
    if not own:
        return "are of another embedder"
    if len(blob) != size or size % 4:
        return "have another dimension"
    length = float(np.linalg.norm(np.frombuffer(blob, "<f4")))
    return "" if abs(length - 1) < TOLERANCE else "are not of length 1"  # also where a number is no number


def _caches(db: Database, folder: Path) -> tuple[str, list[Wrong]]:
    """The files beside the database hold what the database says; one of an earlier state is of no use and does no harm."""
    files = cache_files(folder)
    wrong = []
    for kind, name in vector_index.KINDS.items():
        same = vector_index.same(db, folder, kind)
        if same is False:
            wrong.append(Wrong(f"the FAISS index of {name} has other vectors than the database", "cache"))
        elif same is None and vector_index.count(db, kind) > vector_index.LEAST:
            wrong.append(Wrong(f"{name} have no FAISS index: each question compares the vectors of all", due=True))
    if network.same(db, folder) is False:
        wrong.append(Wrong("the file of the network has another graph than the database", "cache"))
    return f"{len(files)} files", wrong


def _waiting(db: Database) -> tuple[str, list[Wrong]]:
    """What waits for the next generation: contents as they were read, in chunks that are slices of them."""
    counts = generations.waiting(db)
    documents = db.execute("SELECT id, path, first_path, text FROM next_documents")
    torn = [path for key, path, first, text in documents if not is_id_of(key, path, first, text)]
    slices = "SELECT d.path FROM next_chunks c JOIN next_documents d ON d.id = c.document_id"
    torn += [path for (path,) in rows(db, f"{slices} WHERE substr(d.text, c.start + 1, c.end - c.start) <> c.text")]
    wrong = [Wrong(f"what waits of {path} is not what was read", "waiting") for path in dict.fromkeys(torn)]
    if any(counts.values()):
        listed = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        wrong.append(Wrong(f"{listed} wait for the rest of their generation", due=True))
    return "nothing waits", wrong


def _failures(db: Database) -> tuple[str, list[Wrong]]:
    """What could not be done, by name."""
    found = ledger.failures(db)
    return "none", [Wrong(f"{f.stage} {f.subject}: {f.reason}", due=True) for f in found]


PARTS: dict[str, Callable[[Database], tuple[str, list[Wrong]]]] = {
    "database": _database,
    "chunks": _documents,
    "full text": _full_text,
    "mentions": mentions,
    "relationships": relationships,
    "communities": communities,
    "places": picture,
    "reports": _reports,
    "vectors": _vectors,
    "next generation": _waiting,
    "failures": _failures,
}


def wrongs(parts: list[Part]) -> Iterator[Wrong]:
    """Everything that is wrong, but for what is only due."""
    return (w for part in parts for w in part.wrong if not w.due)
