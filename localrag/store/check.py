"""Is everything in an index as it must be? Each check looks at one part of it and names what is wrong, and how that can be mended."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlite_utils import Database

from localrag.records import TO_IMPORT, content_id
from localrag.store import generations, ledger, network, places, vector_index, vectors
from localrag.store.connect import cache_files
from localrag.store.moves import is_id_of
from localrag.text.plain import cjk_bigrams, squeeze

SHOWN = 3  # of many things that are wrong in the same way
TOLERANCE = 1e-3  # of a unit vector's length


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
    except (sqlite3.DatabaseError, ValueError, KeyError) as error:  # the tables cannot be read, or do not hold what they should
        return Part(name, "", (Wrong(f"cannot be read ({type(error).__name__})", "database"),))


def _some(keys: list[Any]) -> str:
    return ", ".join(map(str, keys[:SHOWN])) + (" …" if len(keys) > SHOWN else "")


def _rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))


def _one(db: Database, sql: str) -> Any:
    return db.execute(sql).fetchone()[0]


def _database(db: Database) -> tuple[str, list[Wrong]]:
    """SQLite's own view of the file, and rows that belong to rows that are no more."""
    said = [text for (text,) in _rows(db, "PRAGMA integrity_check(20)") if text != "ok"]
    wrong = [Wrong(f"SQLite: {_some(said)}", "database")] if said else []
    orphans: dict[tuple[str, str], list[int]] = {}
    for table, rowid, parent, _ in _rows(db, "PRAGMA foreign_key_check"):
        orphans.setdefault((table, parent), []).append(rowid)
    for table in ("extractions", "sentences"):  # which may be of chunks that wait for the next generation
        known = "SELECT id FROM chunks UNION ALL SELECT id FROM next_chunks"
        if lost := [rowid for (rowid,) in _rows(db, f"SELECT rowid FROM {table} WHERE chunk_id NOT IN ({known})")]:
            orphans[table, "chunks"] = lost
    again = _one(db, f"SELECT count(*) FROM documents WHERE content_hash IN ('', '{TO_IMPORT}')")
    for (table, parent), rowids in orphans.items():
        keys = tuple((table, rowid) for rowid in rowids)
        due = table in ("extractions", "sentences") and again > 0  # their chunks come back when the document is read
        wrong.append(Wrong(f"{len(rowids)} rows of {table} belong to {parent} that are missing", "orphans", keys, due))
    broken: list[tuple[str, int]] = []
    for table, column in JSON:
        broken += [(table, rowid) for (rowid,) in _rows(db, f"SELECT rowid FROM {table} WHERE NOT json_valid({column})")]
    for table, n in Counter(table for table, _ in broken).items():
        wrong.append(Wrong(f"{n} rows of {table} cannot be read", "unreadable", tuple(k for k in broken if k[0] == table)))
    return f"{_one(db, 'PRAGMA page_count')} pages, every row where it belongs", wrong


JSON = (("settings", "value"), ("extractions", "result"), ("entities", "descriptions"), ("relationships", "descriptions"),
        ("reports", "findings"), ("next_reports", "findings"), ("answers", "result"), ("runs", "figures"))  # fmt: skip


def _documents(db: Database) -> tuple[str, list[Wrong]]:
    """Documents are what was read, and chunks are verbatim slices that leave nothing of them out."""
    due, again, texts, total = [], [], [], 0
    columns = "id, path, first_path, text, content_hash"
    for document_id, path, first, text, content_hash in _rows(db, f"SELECT {columns} FROM documents ORDER BY path"):
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
    return f"{total} chunks, verbatim slices that leave out nothing of {_one(db, 'SELECT count(*) FROM documents')} documents", wrong


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
    chunks = {key for (key,) in _rows(db, "SELECT id FROM chunks")}
    rows = Counter[str]()
    other, lost = set(), set()
    rows_found = "SELECT s.chunk_id, s.text, s.cjk, r.chunk_id FROM chunk_search s LEFT JOIN chunk_rows r ON r.row = s.rowid"
    for key, text, cjk, owner in db.execute(rows_found):
        rows[key] += 1
        if owner != key:
            lost.add(key)
        if key in chunks and (text != _chunk(db, key)[2] or cjk != cjk_bigrams(text)):
            other.add(key)
    counts = {
        "chunks are not in the full-text index": [k for k in chunks if not rows[k]],
        "chunks are in the full-text index twice": [k for k in chunks if rows[k] > 1],
        "rows of the full-text index have no chunk": [k for k in rows if k not in chunks],
        "rows of the full-text index have another text than their chunk": sorted(other),
        "rows of the full-text index are kept as another chunk's": sorted(lost & chunks),
    }
    wrong = [Wrong(f"{len(keys)} {what}: {_some(keys)}", "full text") for what, keys in counts.items() if keys]
    return f"{rows.total()} rows, one for each chunk", wrong


def _chunk(db: Database, key: str) -> tuple[int, int, str]:
    """A chunk's place and text; an empty one where there is none."""
    found: tuple[int, int, str] | None = db.execute("SELECT start, end, text FROM chunks WHERE id = ?", [key]).fetchone()
    return found or (0, 0, "")


def _graph_wrong(db: Database, found: list[tuple[str, list[Any]]]) -> list[Wrong]:
    """What is wrong with the graph; it is due where the graph is going to be built anew."""
    due = "graph" not in ledger.settings(db) or not _finished(db)
    return [Wrong(f"{len(keys)} {what}: {_some(keys)}", "graph", tuple(keys), due) for what, keys in found if keys]


def _mentions(db: Database) -> tuple[str, list[Wrong]]:
    """Mentions, evidence and claims lie in their chunks, and a mention's name is the text at its place."""
    inside = "x.start >= c.start AND x.start < x.end AND x.end <= c.end"
    joined = "x JOIN chunks c ON c.id = x.chunk_id JOIN documents d ON d.id = c.document_id"
    shown = "d.path || ':' || x.start || '-' || x.end"
    found = []
    for table in ("mentions", "evidence", "claims"):
        keys = [k for (k,) in _rows(db, f"SELECT {shown} FROM {table} {joined} WHERE NOT ({inside})")]
        found.append((f"{table} outside their chunk", keys))
    text = "substr(c.text, x.start - c.start + 1, x.end - x.start)"
    named = _rows(db, f"SELECT {shown}, x.name, {text} FROM mentions {joined} WHERE {inside} AND {text} <> x.name")
    found.append(("mentions with another name than the text has", [k for k, name, there in named if squeeze(there) != name]))
    bare = [k for (k,) in _rows(db, "SELECT id FROM entities WHERE id NOT IN (SELECT entity_id FROM mentions)")]
    found.append(("entities without a mention", bare))
    counts = [f"{_one(db, f'SELECT count(*) FROM {table}')} {what}" for table, what in _WORDS.items()]
    return f"{', '.join(counts)}, all in their places", _graph_wrong(db, found)


_WORDS = {"mentions": "mentions", "evidence": "pieces of evidence", "claims": "claims"}


def _relationships(db: Database) -> tuple[str, list[Wrong]]:
    """Relationships join two different entities, and an entity's degree is the number of them."""
    loops = [k for (k,) in _rows(db, "SELECT id FROM relationships WHERE source_id = target_id")]
    ends = (
        "(SELECT count(*) FROM relationships r WHERE r.source_id = e.id) + (SELECT count(*) FROM relationships r WHERE r.target_id = e.id)"
    )
    degrees = [k for (k,) in _rows(db, f"SELECT id FROM entities e WHERE degree <> {ends}")]
    found = [("relationships of an entity with itself", loops), ("entities with another degree than relationships", degrees)]
    found.append(("pairs of entities that are not the sum of what documents say of them", _other_sums(db)))
    counts = [f"{_one(db, f'SELECT count(*) FROM {t}')} {t}" for t in ("entities", "relationships")]
    return ", ".join(counts), _graph_wrong(db, found)


def _other_sums(db: Database) -> list[Any]:
    """The pairs of entities whose counts, or whose being a relationship, are not what follows from their documents."""
    sums = "a, b, sum(shared), sum(chunks), sum(statements), sum(strength), sum(read) FROM document_pairs GROUP BY a, b"
    kept = "a, b, shared, chunks, statements, strength, read FROM pairs"
    other = f"SELECT a, b FROM (SELECT {sums} EXCEPT SELECT {kept}) UNION SELECT a, b FROM (SELECT {kept} EXCEPT SELECT {sums})"
    lost = "SELECT a, b FROM pairs WHERE kept AND relationship_id NOT IN (SELECT id FROM relationships)"
    return [f"{a}-{b}" for a, b in _rows(db, f"{other} UNION {lost}")]


def _communities(db: Database) -> tuple[str, list[Wrong]]:
    """Every entity is in exactly one community of every level, and communities divide up the one above them."""
    entities = {k for (k,) in _rows(db, "SELECT id FROM entities")}
    members: dict[str, set[str]] = {}
    for community, entity in _rows(db, "SELECT community_id, entity_id FROM members"):
        members.setdefault(community, set()).add(entity)
    known = {k: (level, parent) for k, level, parent in _rows(db, "SELECT id, level, parent_id FROM communities")}
    levels: dict[int, Counter[str]] = {}
    below: dict[str, set[str]] = {}
    lost = []
    for key, (level, parent) in known.items():
        levels.setdefault(level, Counter()).update(members.get(key, ()))
        if level and (parent not in known or known[parent][0] != level - 1):
            lost.append(key)
        elif level:
            below.setdefault(parent, set()).update(members.get(key, ()))
    deepest = max(levels, default=0)
    uneven = [k for k, (level, _) in known.items() if level < deepest and below.get(k) != members.get(k, set())]
    found: list[tuple[str, list[Any]]] = [
        (f"entities not in just one community of level {level}", sorted(k for k in entities if count[k] != 1))
        for level, count in sorted(levels.items())
    ]
    found += [("communities whose parent is missing", lost), ("communities that those below do not divide up", uneven)]
    found.append(("entities, but no community", sorted(entities) if not known else []))
    return f"{len(known)} communities on {len(levels)} levels", _graph_wrong(db, found)


def _places(db: Database) -> tuple[str, list[Wrong]]:
    """Everything in the graph has a place in its picture; rows of what is no more are found with the database's other orphans."""
    counts = places.counts(db)
    wrong = []
    if missing := places.without_place(db):
        due = not ledger.settings(db).get("layout") or not _finished(db)
        wrong.append(Wrong(f"{len(missing)} entities and communities have no place: {_some(missing)}", "layout", tuple(missing), due))
    if ledger.settings(db).get("picture") and (bare := places.without_vector(db)):
        due = not ledger.settings(db).get("layout") or not _finished(db)
        wrong.append(Wrong(f"{len(bare)} entities have no structural vector: {_some(bare)}", "layout", tuple(bare), due))
    return f"places of {counts['entities']} entities and {counts['communities']} communities", wrong


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
        text = f"{len(stale)} reports with a quote that does not stand where they say: {_some(stale)}"
        wrong.append(Wrong(text, "report", tuple(stale), not _finished(db)))
    bare = "SELECT id FROM communities WHERE id NOT IN (SELECT community_id FROM reports)"
    failed = "SELECT subject FROM failures WHERE stage = 'report'"
    if missing := [k for (k,) in _rows(db, f"{bare} AND id NOT IN ({failed})")]:
        due = not ledger.settings(db).get("reports") or not _finished(db)
        wrong.append(Wrong(f"{len(missing)} communities have no report", "report", tuple(missing), due))
    return f"{_one(db, 'SELECT count(*) FROM reports')} reports, {quotes} verbatim quotes", wrong


def _verbatim(chunk: tuple[int, int, str], start: int, end: int, text: str) -> bool:
    return chunk[0] <= start < end <= chunk[1] and chunk[2][start - chunk[0] : end - chunk[0]] == text


def _vectors(db: Database) -> tuple[str, list[Wrong]]:
    """Every chunk, entity and report has a vector of its text: of the index's embedder, of one dimension, of length 1."""
    bound = ledger.settings(db).get("embedder", {}).get("fingerprint")
    lengths = Counter(n for (n,) in _rows(db, "SELECT length(vector) FROM embeddings"))
    size = lengths.most_common(1)[0][0] if lengths else 0
    counts, wrong = [], []
    for kind, name in vector_index.KINDS.items():
        left = {key: content_id(text) for key, text in vectors.all_texts(db, kind)}
        bad: dict[str, list[tuple[str, str]]] = {}
        rows = _rows(db, f"SELECT subject_id, content_hash, embedder, vector FROM embeddings WHERE kind = '{kind}'")
        for key, content_hash, embedder, blob in rows:
            if fault := _fault(left.pop(key, None), content_hash, embedder == bound, blob, size):
                bad.setdefault(fault, []).append((kind, key))
        for fault, keys in bad.items():
            due = fault == OTHER_TEXT and not _finished(db)
            wrong.append(Wrong(f"{len(keys)} vectors of {name} {fault}", "vector", tuple(keys), due))
        if left:
            wrong.append(Wrong(f"{len(left)} {name} have no vector", "vector", tuple((kind, k) for k in left), not _finished(db)))
        counts.append(f"{len(rows)} of {name}")
    return f"{', '.join(counts)}; {size // 4} dimensions", wrong


OTHER_TEXT = "are of another text"


def _fault(expected: str | None, content_hash: str, own: bool, blob: bytes, size: int) -> str:
    """What is wrong with a vector, in words; empty where nothing is."""
    if expected is None:
        return "belong to nothing"
    if content_hash != expected:
        return OTHER_TEXT
    if not own:
        return "are of another embedder"
    if len(blob) != size or size % 4:
        return "have another dimension"
    length = float(np.linalg.norm(np.frombuffer(blob, "<f4")))
    return "" if abs(length - 1) < TOLERANCE else "are not of length 1"  # also where a number is no number


def _finished(db: Database) -> bool:
    """Whether the last run came to its end, so that nothing should be missing."""
    run = ledger.last_run(db)
    return run is not None and run["state"] in ("complete", "partly")


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
    documents = _rows(db, "SELECT id, path, first_path, text FROM next_documents")
    torn = [path for key, path, first, text in documents if not is_id_of(key, path, first, text)]
    slices = "SELECT d.path FROM next_chunks c JOIN next_documents d ON d.id = c.document_id"
    torn += [path for (path,) in _rows(db, f"{slices} WHERE substr(d.text, c.start + 1, c.end - c.start) <> c.text")]
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
    "mentions": _mentions,
    "relationships": _relationships,
    "communities": _communities,
    "places": _places,
    "reports": _reports,
    "vectors": _vectors,
    "next generation": _waiting,
    "failures": _failures,
}


def wrongs(parts: list[Part]) -> Iterator[Wrong]:
    """Everything that is wrong, but for what is only due."""
    return (w for part in parts for w in part.wrong if not w.due)
