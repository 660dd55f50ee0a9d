"""Integrity checks of an index, and repairs of what they find.

Each check looks at one part of the index and returns its problems, each with the name of its repair. Repairs need no model: what only a
model or a source file can provide is marked, so that the next run redoes it.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.pagerank import SortedIds
from localrag.records import IMPORTED_MARK, PENDING_IMPORT_HASH, content_id
from localrag.store import entity_network, generations, layout, runs, vectors
from localrag.store.database import DATA_ERRORS, back_up_database, folder_of, rebuildable_files
from localrag.store.documents import matches_document_id
from localrag.store.entity_network import update_cache_files
from localrag.store.full_text import index_chunks
from localrag.store.location import DATABASE_FILE
from localrag.store.schema import CONTENT_TABLES, changed_tables, create_schema, recompute_checksums
from localrag.store.staging import GRAPH_TABLES, PUBLISHED_TABLES
from localrag.system.files import new_database_file
from localrag.text.sentences import cjk_bigrams, collapse_whitespace

MAX_SHOWN = 3  # problems of one kind that a message lists


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed check: `repair` names the function of `REPAIRS` that fixes it, `keys` the rows or ids it is applied to.

    `is_pending`: not an error; the next `localrag index` completes it.
    """

    text: str
    repair: str = ""
    keys: tuple[Any, ...] = ()
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: a summary of what was checked, and its problems."""

    name: str
    summary: str
    problems: tuple[Problem, ...] = ()


def first_few(keys: list[Any]) -> str:
    """The first MAX_SHOWN keys as text, for messages."""
    return ", ".join(map(str, keys[:MAX_SHOWN])) + (" …" if len(keys) > MAX_SHOWN else "")


def query_rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a query, as a list."""
    return list(db.execute(sql))


def scalar(db: Database, sql: str) -> Any:
    """The single value that a query returns."""
    return db.execute(sql).fetchone()[0]


def is_last_run_complete(db: Database) -> bool:
    """Whether the last run completed, so that nothing should be missing."""
    run = runs.last_run(db)
    return run is not None and run["state"] in ("complete", "partial")


ROWS_PER_READ = 100_000


def _graph_problems(db: Database, keys_by_text: list[tuple[str, list[Any]]]) -> list[Problem]:
    """One problem for each list of keys that is not empty; pending if the graph is going to be rebuilt."""
    is_pending = "graph_hash" not in runs.load_settings(db) or not is_last_run_complete(db)
    return [Problem(f"{len(keys)} {text}: {first_few(keys)}", "graph", tuple(keys), is_pending) for text, keys in keys_by_text if keys]


def check_mentions(db: Database) -> tuple[str, list[Problem]]:
    """Check that mentions, evidence and claims lie within their chunks, and that a mention's name is the text at its position."""
    inside = "x.start >= c.start AND x.start < x.end AND x.end <= c.end"
    joined = "x JOIN chunks c ON c.id = x.chunk_id JOIN documents d ON d.id = c.document_id"
    claims = "(SELECT chunk_id, span_start AS start, span_end AS end FROM claims)"
    shown = "d.path || ':' || x.start || '-' || x.end"
    keys_by_text = []
    for description, table in (("mentions", "mentions"), ("evidence", "evidence"), ("claims", claims)):
        keys = [k for (k,) in query_rows(db, f"SELECT {shown} FROM {table} {joined} WHERE NOT ({inside})")]
        keys_by_text.append((f"{description} outside their chunk", keys))
    text = "substr(c.text, x.start - c.start + 1, x.end - x.start)"
    misnamed = query_rows(db, f"SELECT {shown}, x.name, {text} FROM mentions {joined} WHERE {inside} AND {text} <> x.name")
    keys_by_text.append(
        ("mentions with another name than the text has", [k for k, name, text_at in misnamed if collapse_whitespace(text_at) != name])
    )
    without_mention = [
        k for (k,) in query_rows(db, "SELECT id FROM entities e WHERE NOT EXISTS (SELECT 1 FROM mentions WHERE entity_id = e.id)")
    ]
    keys_by_text.append(("entities without a mention", without_mention))
    counts = [f"{scalar(db, f'SELECT count(*) FROM {table}')} {description}" for table, description in _TEXT_LABELS.items()]
    return f"{', '.join(counts)}, all in their places", _graph_problems(db, keys_by_text)


_TEXT_LABELS = {"mentions": "mentions", "evidence": "pieces of evidence", "claims": "claims"}


def check_relationships(db: Database) -> tuple[str, list[Problem]]:
    """Check that relationships join two different entities, and that an entity's degree is the number of its relationships."""
    loops = [k for (k,) in query_rows(db, "SELECT id FROM relationships WHERE source_id = target_id")]
    degree = (
        "(SELECT count(*) FROM relationships r WHERE r.source_id = e.id) + (SELECT count(*) FROM relationships r WHERE r.target_id = e.id)"
    )
    degrees = [k for (k,) in query_rows(db, f"SELECT id FROM entities e WHERE degree <> {degree}")]
    keys_by_text = [("relationships of an entity with itself", loops), ("entities with another degree than relationships", degrees)]
    keys_by_text.append(("pairs of entities that are not the sum of what documents say of them", _inconsistent_pairs(db)))
    counts = [f"{scalar(db, f'SELECT count(*) FROM {t}')} {t}" for t in ("entities", "relationships")]
    return ", ".join(counts), _graph_problems(db, keys_by_text)


def _inconsistent_pairs(db: Database) -> list[Any]:
    """The entity pairs whose counts or relationship differ from the sums over their documents."""
    counts = ("shared_sentences", "n_chunks", "n_statements", "strength", "llm_chunks")
    sums = f"a, b, {', '.join(f'sum({name})' for name in counts)} FROM document_cooccurrences GROUP BY a, b"
    stored = f"a, b, {', '.join(counts)} FROM cooccurrences"
    other = f"SELECT a, b FROM (SELECT {sums} EXCEPT SELECT {stored}) UNION SELECT a, b FROM (SELECT {stored} EXCEPT SELECT {sums})"
    lost = "SELECT a, b FROM cooccurrences WHERE is_relationship AND relationship_id NOT IN (SELECT id FROM relationships)"
    return [f"{a}-{b}" for a, b in query_rows(db, f"{other} UNION {lost}")]


def check_communities(db: Database) -> tuple[str, list[Problem]]:
    """Check that every entity is in exactly one community per level, and that communities partition their parent."""
    entities, keys = (SortedIds([i for (i,) in db.execute(f"SELECT id FROM {t} ORDER BY id")]) for t in ("entities", "communities"))
    level, parents = np.zeros(len(keys), np.int64), np.full(len(keys), -1, np.int64)
    for n, (at_level, parent) in enumerate(db.execute("SELECT level, parent_id FROM communities ORDER BY id")):
        parent_number = keys.number(parent) if parent else None
        level[n], parents[n] = at_level, -1 if parent_number is None else parent_number
    community, member = _members(db, keys, entities)
    keys_by_text: list[tuple[str, list[Any]]] = []
    for at_level in np.unique(level).tolist():
        is_once = np.bincount(member[level[community] == at_level], minlength=len(entities)) == 1
        keys_by_text.append(
            (f"entities not in just one community of level {at_level}", [entities[int(n)] for n in np.flatnonzero(~is_once)])
        )
    without_parent = (level > 0) & ((parents < 0) | (level[parents] != level - 1))
    keys_by_text.append(("communities whose parent is missing", [keys[int(n)] for n in np.flatnonzero(without_parent)]))
    in_parent, parts = community * len(entities) + member, parents[community] * len(entities) + member
    divided = level[community] < level.max(initial=0)
    other = np.setxor1d(in_parent[divided], parts[(level[community] > 0) & ~without_parent[community]]) // max(1, len(entities))
    keys_by_text.append(("communities that those below do not divide up", [keys[int(n)] for n in np.unique(other)]))
    keys_by_text.append(("entities, but no community", list(entities) if not len(keys) else []))
    return f"{len(keys)} communities on {len(np.unique(level))} levels", _graph_problems(db, keys_by_text)


def _members(db: Database, communities: SortedIds, entities: SortedIds) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The community numbers and entity numbers of the rows of `community_members`, in parallel arrays; rows without either are left out."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    rows = db.execute(
        "SELECT m.community_id, m.entity_id FROM community_members m"
        " JOIN communities c ON c.id = m.community_id JOIN entities e ON e.id = m.entity_id"
    )
    while batch := rows.fetchmany(ROWS_PER_READ):
        community_ids, entity_ids = zip(*batch, strict=True)
        parts.append((communities.numbers(community_ids), entities.numbers(entity_ids)))
    community_numbers, entity_numbers = zip(*parts, strict=True)
    return np.concatenate(community_numbers), np.concatenate(entity_numbers)


def check_layout(db: Database) -> tuple[str, list[Problem]]:
    """Check that every entity and community has a position in the layout."""
    counts = layout.count_positions(db)
    problems = []
    if missing := layout.subjects_without_position(db):
        is_pending = not runs.load_settings(db).get("layout_hash") or not is_last_run_complete(db)
        problems.append(
            Problem(f"{len(missing)} entities and communities have no place: {first_few(missing)}", "layout", tuple(missing), is_pending)
        )
    return f"places of {counts['entities']} entities and {counts['communities']} communities", problems


NORM_TOLERANCE = 1e-3  # of a unit vector's length


def check_index(db: Database, folder: Path) -> list[CheckResult]:
    """Run all checks on one snapshot of the index, even while another process writes to it."""
    full_text = _run_check("full text", lambda: _full_text_index(db))  # before BEGIN: FTS5's own check is formally an INSERT
    db.conn.execute("BEGIN")
    try:
        parts = [_run_check(name, lambda check=check: check(db)) for name, check in CHECKS.items()]  # type: ignore[misc]
        parts.append(_run_check("caches", lambda: _caches(db, folder)))
    finally:
        db.conn.execute("ROLLBACK")
    return [CheckResult(p.name, p.summary, full_text.problems + p.problems) if p.name == "full text" else p for p in parts]


def _run_check(name: str, check: Callable[[], tuple[str, list[Problem]]]) -> CheckResult:
    try:
        text, problems = check()
        return CheckResult(name, text, tuple(problems))
    except DATA_ERRORS as error:
        return CheckResult(name, "", (Problem(f"cannot be read ({type(error).__name__})", "database"),))


def _check_database(db: Database) -> tuple[str, list[Problem]]:
    """Check the file with SQLite's own integrity check, and find orphaned rows and invalid JSON."""
    messages = [text for (text,) in query_rows(db, "PRAGMA integrity_check(20)") if text != "ok"]
    problems = [Problem(f"SQLite: {first_few(messages)}", "database")] if messages else []
    orphans: dict[tuple[str, str], list[int]] = {}
    for table, rowid, parent, _ in query_rows(db, "PRAGMA foreign_key_check"):
        orphans.setdefault((table, parent), []).append(rowid)
    for table in ("extractions", "sentence_spans"):  # their chunks may still be staged
        known_ids = "SELECT id FROM chunks UNION ALL SELECT id FROM staged_chunks"
        if missing := [rowid for (rowid,) in query_rows(db, f"SELECT rowid FROM {table} WHERE chunk_id NOT IN ({known_ids})")]:
            orphans[table, "chunks"] = missing
    to_be_read = scalar(db, f"SELECT count(*) FROM documents WHERE content_hash IN ('', '{PENDING_IMPORT_HASH}')")
    for (table, parent), rowids in orphans.items():
        keys = tuple((table, rowid) for rowid in rowids)
        is_pending = table in ("extractions", "sentence_spans") and to_be_read > 0  # their chunks come back when the document is read
        problems.append(Problem(f"{len(rowids)} rows of {table} belong to {parent} that are missing", "orphans", keys, is_pending))
    broken: list[tuple[str, int]] = []
    for table, column in JSON_COLUMNS:
        broken += [(table, rowid) for (rowid,) in query_rows(db, f"SELECT rowid FROM {table} WHERE NOT json_valid({column})")]
    for table, n in Counter(table for table, _ in broken).items():
        problems.append(Problem(f"{n} rows of {table} cannot be read", "unreadable", tuple(k for k in broken if k[0] == table)))
    return f"{scalar(db, 'PRAGMA page_count')} pages, every row where it belongs", problems


JSON_COLUMNS = (("index_settings", "value"), ("extractions", "result"), ("entities", "descriptions"), ("relationships", "descriptions"),
        ("reports", "findings"), ("staged_reports", "findings"), ("answers", "answer_json"), ("runs", "engine_metrics"))  # fmt: skip


def _documents(db: Database) -> tuple[str, list[Problem]]:
    """Check that documents have the id of their text, and that their chunks are verbatim slices that cover it."""
    pending, damaged, texts, total = [], [], [], 0
    columns = "id, path, original_path, text, content_hash"
    for document_id, path, original_path, text, content_hash in db.execute(f"SELECT {columns} FROM documents ORDER BY path"):
        query = "SELECT id, ordinal, start, end, text FROM chunks WHERE document_id = ? ORDER BY ordinal"
        rows = list(db.execute(query, [document_id]))
        total += len(rows)
        is_id_valid = matches_document_id(document_id, path, original_path, text)
        torn = [c[0] for c in rows if text[c[2] : c[3]] != c[4]]
        moved = [c for c in rows if c[0] != content_id(document_id, c[2], c[3])]
        if content_hash in ("", PENDING_IMPORT_HASH):
            pending.append(path)
        elif not is_id_valid or moved or _has_uncovered_text(text, rows) or [c[1] for c in rows] != list(range(len(rows))):
            damaged.append((path, document_id, "is not what was read" if not is_id_valid else "has chunks that do not cover it"))
        else:
            texts += [(path, chunk) for chunk in torn]
    problems = [Problem(f"{path} {reason}", "read again", (key,)) for path, key, reason in damaged]
    problems += [Problem(f"a chunk of {path} is not a slice of it", "chunk text", (key,)) for path, key in texts]
    problems += [Problem(f"{path} is to be read again", is_pending=True) for path in pending]
    return f"{total} chunks, verbatim slices that leave out nothing of {scalar(db, 'SELECT count(*) FROM documents')} documents", problems


def _has_uncovered_text(text: str, chunks: list[tuple[Any, ...]]) -> bool:
    """Whether any text lies between chunks, before the first or after the last."""
    position = 0
    for _, _, start, end, _ in sorted(chunks, key=lambda c: int(c[2])):
        if text[position:start].strip("\ufeff \t\r\n\f\v\u3000"):
            return True
        position = max(position, end)
    return bool(text[position:].strip())


def _full_text_index(db: Database) -> tuple[str, list[Problem]]:
    """Run FTS5's own integrity check, which takes the write lock for a moment and changes nothing."""
    try:
        with db.atomic():
            db.execute("INSERT INTO chunks_fts(chunks_fts) VALUES ('integrity-check')")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error) and "locked" not in str(error):
            raise
    except sqlite3.DatabaseError as error:
        return "", [Problem(f"the full-text index is damaged: {error}", "full text")]
    return "", []


def _check_full_text(db: Database) -> tuple[str, list[Problem]]:
    """Check that each chunk has one row in the full-text index, with its words and character bigrams."""
    chunks = SortedIds([key for (key,) in db.execute("SELECT id FROM chunks ORDER BY id")])
    n_rows = np.zeros(len(chunks), np.int64)
    without_chunk, differing, misassigned = Counter[str](), set(), set()
    sql = "SELECT s.chunk_id, s.text, s.cjk, r.chunk_id FROM chunks_fts s LEFT JOIN chunks_fts_rows r ON r.row = s.rowid"
    for key, text, cjk, owner in db.execute(sql):
        n = chunks.number(key)
        if n is None:
            without_chunk[key] += 1
            continue
        n_rows[n] += 1
        if owner != key:
            misassigned.add(key)
        if text != _chunk(db, key)[2] or cjk != cjk_bigrams(text):
            differing.add(key)
    keys_by_text = {
        "chunks are not in the full-text index": [chunks[int(n)] for n in np.flatnonzero(n_rows == 0)],
        "chunks are in the full-text index twice": [chunks[int(n)] for n in np.flatnonzero(n_rows > 1)],
        "rows of the full-text index have no chunk": sorted(without_chunk),
        "rows of the full-text index have another text than their chunk": sorted(differing),
        "rows of the full-text index are kept as another chunk's": sorted(misassigned),
    }
    problems = [Problem(f"{len(keys)} {text_}: {first_few(keys)}", "full text") for text_, keys in keys_by_text.items() if keys]
    return f"{n_rows.sum() + without_chunk.total()} rows, one for each chunk", problems


def _chunk(db: Database, key: str) -> tuple[int, int, str]:
    """A chunk's start, end and text; (0, 0, "") if it does not exist."""
    row: tuple[int, int, str] | None = db.execute("SELECT start, end, text FROM chunks WHERE id = ?", [key]).fetchone()
    return row or (0, 0, "")


def _check_reports(db: Database) -> tuple[str, list[Problem]]:
    """Check that each community has a report, and that the quotes of its findings are verbatim."""
    stale = []
    quotes = 0
    for key, findings in db.execute("SELECT community_id, findings FROM reports WHERE json_valid(findings)"):
        spans = [(q["chunk_id"], q["start"], q["end"], q["text"]) for f in json.loads(findings) for q in f["quotes"]]
        quotes += len(spans)
        if not all(_verbatim(_chunk(db, chunk), *span) for chunk, *span in spans):
            stale.append(key)
    problems = []
    if stale:
        text = f"{len(stale)} reports with a quote that is not where they say: {first_few(stale)}"
        problems.append(Problem(text, "report", tuple(stale), not is_last_run_complete(db)))
    without_report = "SELECT id FROM communities WHERE id NOT IN (SELECT community_id FROM reports)"
    failed = "SELECT subject FROM failures WHERE stage = 'report'"
    if missing := [k for (k,) in query_rows(db, f"{without_report} AND id NOT IN ({failed})")]:
        is_pending = not runs.load_settings(db).get("reports_state") or not is_last_run_complete(db)
        problems.append(Problem(f"{len(missing)} communities have no report", "report", tuple(missing), is_pending))
    return f"{scalar(db, 'SELECT count(*) FROM reports')} reports, {quotes} verbatim quotes", problems


def _verbatim(chunk: tuple[int, int, str], start: int, end: int, text: str) -> bool:
    return chunk[0] <= start < end <= chunk[1] and chunk[2][start - chunk[0] : end - chunk[0]] == text


def _vectors(db: Database) -> tuple[str, list[Problem]]:
    """Check that every chunk, entity and report has a vector of its text, by the index's embedder, of one dimension and of length 1."""
    fingerprint = runs.load_settings(db).get("embedder", {}).get("fingerprint")
    sizes = "SELECT length(vector) FROM embeddings GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
    size = next((n for (n,) in db.execute(sizes)), 0)
    counts, problems = [], []
    for kind, name in vectors.VECTOR_KINDS.items():
        missing: list[tuple[str, str]] = []
        keys_by_problem = {ORPHANED: [(kind, key) for key in vectors.without_subject(db, kind)]}
        for key, text in vectors.texts_to_embed(db, kind):
            stored = "SELECT content_hash, embedder, vector FROM embeddings WHERE kind = ? AND subject_id = ?"
            row = db.execute(stored, [kind, key]).fetchone()
            if row is None:
                missing.append((kind, key))
            elif problem := _vector_problem(content_id(text), row[0], row[1] == fingerprint, row[2], size):
                keys_by_problem.setdefault(problem, []).append((kind, key))
        for problem, keys in keys_by_problem.items():
            is_pending = problem == STALE_TEXT and not is_last_run_complete(db)
            problems += [Problem(f"{len(keys)} vectors of {name} {problem}", "vector", tuple(keys), is_pending)] if keys else []
        if missing:
            problems.append(Problem(f"{len(missing)} {name} have no vector", "vector", tuple(missing), not is_last_run_complete(db)))
        counts.append(f"{vectors.count_vectors(db, kind)} of {name}")
    return f"{', '.join(counts)}; {size // 4} dimensions", problems


ORPHANED = "belong to nothing"
STALE_TEXT = "are of another text"


def _vector_problem(expected: str, content_hash: str, is_own_embedder: bool, blob: bytes, size: int) -> str:
    """The problem of a stored vector as text; empty if there is none."""
    if content_hash != expected:
        return STALE_TEXT
    if not is_own_embedder:
        return "are of another embedder"
    if len(blob) != size or size % 4:
        return "have another dimension"
    length = float(np.linalg.norm(np.frombuffer(blob, "<f4")))
    return "" if abs(length - 1) < NORM_TOLERANCE else "are not of length 1"  # also for NaN


def _caches(db: Database, folder: Path) -> tuple[str, list[Problem]]:
    """Check that the cache files hold the database's contents. A file of an earlier state is harmless and not a problem."""
    files = rebuildable_files(folder)
    problems = []
    for kind, name in vectors.VECTOR_KINDS.items():
        matches = vectors.matches_vectors(db, folder, kind)
        if matches is False:
            problems.append(Problem(f"the FAISS index of {name} has other vectors than the database", "cache"))
        elif matches is None and vectors.count_vectors(db, kind) > vectors.INDEX_FROM_VECTORS:
            problems.append(Problem(f"{name} have no FAISS index: each question compares all vectors", is_pending=True))
    if entity_network.matches_graph(db, folder) is False:
        problems.append(Problem("the file of the network has another graph than the database", "cache"))
    return f"{len(files)} files", problems


def _check_staged(db: Database) -> tuple[str, list[Problem]]:
    """Check that staged documents have the id of their text, and that staged chunks are slices of them."""
    counts = generations.count_staged(db)
    documents = db.execute("SELECT id, path, original_path, text FROM staged_documents")
    torn = [path for key, path, original_path, text in documents if not matches_document_id(key, path, original_path, text)]
    slices = "SELECT d.path FROM staged_chunks c JOIN staged_documents d ON d.id = c.document_id"
    torn += [path for (path,) in query_rows(db, f"{slices} WHERE substr(d.text, c.start + 1, c.end - c.start) <> c.text")]
    problems = [Problem(f"what waits of {path} is not what was read", "waiting") for path in dict.fromkeys(torn)]
    if any(counts.values()):
        listed = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        problems.append(Problem(f"{listed} wait for the rest of their generation", is_pending=True))
    return "nothing waits", problems


def _checksums(db: Database) -> tuple[str, list[Problem]]:
    """Check that the rows of each table are those that localrag wrote."""
    text = "{} has rows that are not what was written: a byte changed, or another program wrote to it"
    problems = [Problem(text.format(table), "checksum", (table,)) for table in changed_tables(db)]
    return f"the rows of {len(CONTENT_TABLES)} tables as they were written", problems


def _failures(db: Database) -> tuple[str, list[Problem]]:
    """List the failures of the last run as pending problems."""
    rows = runs.failures(db)
    return "none", [Problem(f"{f.stage} {f.subject}: {f.reason}", is_pending=True) for f in rows]


CHECKS: dict[str, Callable[[Database], tuple[str, list[Problem]]]] = {
    "database": _check_database,
    "chunks": _documents,
    "full text": _check_full_text,
    "mentions": check_mentions,
    "relationships": check_relationships,
    "communities": check_communities,
    "places": check_layout,
    "reports": _check_reports,
    "vectors": _vectors,
    "next generation": _check_staged,
    "checksums": _checksums,
    "failures": _failures,
}


def problems(parts: list[CheckResult]) -> Iterator[Problem]:
    """All problems that are not merely pending."""
    return (problem for part in parts for problem in part.problems if not problem.is_pending)


# Repairs that only mark rows, so that the next `localrag index` makes them again.
REDONE_BY_NEXT_RUN = frozenset({"read again", "unreadable", "graph", "layout", "report", "vector", "waiting", "checksum"})
_PUBLISHED_GRAPH_TABLES = PUBLISHED_TABLES - {"name_merges"}
_SALVAGED_TABLES = tuple(t for t in GRAPH_TABLES if t not in _PUBLISHED_GRAPH_TABLES)
_LAYOUT_TABLES = frozenset({"entity_positions", "community_positions", "community_edges", "structural_embeddings"})
_RECOMPUTED_TABLES = _LAYOUT_TABLES | {"sentence_spans", "embeddings", "name_embeddings", "file_stats"}


def repair_index(db: Database, folder: Path) -> Path | None:
    """Back up the database and repair its problems; returns the path of the backup, or None if there are no problems.

    The caller holds the writer lock. Documents and stored model answers are never removed; readable extractions only if a byte of their
    table changed.
    """
    to_repair = list(problems(check_index(db, folder)))
    if not to_repair:
        return None
    copy, redone, sums = back_up_database(db, folder / DATABASE_FILE, "repair"), False, _sums(db)
    for name, repair in REPAIRS.items():  # causes first: repairing a chunk also makes its quotes valid
        selected = [problem for problem in to_repair if problem.repair == name]
        if name == "checksum":  # only tables that the repairs before did not already fix
            current = _sums(db)
            selected = [problem for problem in selected if all(current.get(table) == sums.get(table) for table in problem.keys)]
        if selected:
            repair(db, [k for problem in selected for k in problem.keys])
            redone = redone or any(_is_redone(problem) for problem in selected)
            to_repair = list(problems(check_index(db, folder)))
    recompute_checksums(db)
    _drop_caches(folder)
    update_cache_files(db)
    if redone:  # so that status and check report a pending run
        runs.end_run(db, runs.start_run(db, os.getpid()), "interrupted", {})
    return copy


def _is_redone(problem: Problem) -> bool:
    return problem.repair in REDONE_BY_NEXT_RUN or (
        problem.repair == "orphans" and any(table in _PUBLISHED_GRAPH_TABLES | _LAYOUT_TABLES for table, _ in problem.keys)
    )


def _repair_database(db: Database, _: list[Any]) -> None:
    """Rebuild SQLite's indexes; if the file is still damaged, copy every readable row into a new database."""
    with suppress(sqlite3.DatabaseError):
        db.execute("REINDEX")
        if db.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok":
            return
    part = new_database_file(folder_of(db) / f"{DATABASE_FILE}.part")  # a file: the copy may be larger than memory
    try:
        _salvage(db, part)
    finally:
        part.unlink(missing_ok=True)
    _repair_full_text(db, [])
    _graph(db, [])


def _salvage(db: Database, part: Path) -> None:
    """Replace a database with the rows of it that can be read, by way of the file `part`."""
    connection = sqlite3.connect(part)
    connection.execute("PRAGMA synchronous = OFF")  # a temporary file need not survive a power cut
    copy = Database(connection)
    try:
        create_schema(copy)
        skipped = ("chunks_fts", "sqlite", *_SALVAGED_TABLES)
        for table in [t for t in copy.table_names() if not t.startswith(skipped)]:
            columns = ", ".join(f'"{c.name}"' for c in copy.table(table).columns)
            insert = f"INSERT OR IGNORE INTO {table} (rowid, {columns}) VALUES (?{', ?' * len(copy.table(table).columns)})"
            for order in ("ASC", "DESC"):  # from both ends up to the unreadable rows
                with copy.atomic(), suppress(sqlite3.DatabaseError):
                    for row in db.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid {order}"):
                        copy.execute(insert, row)
        recompute_checksums(copy)
        copy.conn.backup(db.conn)
    finally:
        copy.close()


def _orphans(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for table, rowid in keys:
            db.execute(f"DELETE FROM {table} WHERE rowid = ?", [rowid])
    if any(table in _PUBLISHED_GRAPH_TABLES for table, _ in keys):
        _graph(db, [])
    if any(table in _LAYOUT_TABLES for table, _ in keys):
        _layout(db, [])


def _unreadable(db: Database, keys: list[Any]) -> None:
    """Delete rows with invalid JSON: settings have defaults, and extractions are made again from the stored model answers."""
    _orphans(db, [k for k in keys if k[0] not in ("runs", "entities", "relationships")])
    with db.atomic():
        for table, rowid in keys:
            if table == "runs":
                db.execute("UPDATE runs SET engine_metrics = '{}' WHERE rowid = ?", [rowid])
    _graph(db, [])


def _chunk_text(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for key in keys:
            (text, start, end) = db.execute(
                "SELECT d.text, c.start, c.end FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id = ?", [key]
            ).fetchone()
            db.execute("UPDATE chunks SET text = ? WHERE id = ?", [text[start:end], key])
    _repair_full_text(db, [])


def _read_again(db: Database, keys: list[Any]) -> None:
    """Clear the content hash of documents, so that they count as changed when they are next read or imported."""
    forgotten = "CASE WHEN content_hash LIKE ? || ' %' THEN ? ELSE '' END"  # an imported document has no file and must not count as deleted
    with db.atomic():
        for key in keys:
            db.execute(f"UPDATE documents SET content_hash = {forgotten} WHERE id = ?", [IMPORTED_MARK, PENDING_IMPORT_HASH, key])


def _repair_full_text(db: Database, _: list[Any]) -> None:
    rebuild_full_text(db)


def rebuild_full_text(db: Database) -> None:
    """Recreate the full-text index from the chunks."""
    with db.atomic():
        (create,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'chunks_fts'").fetchone()
        db.execute("DROP TABLE chunks_fts")
        db.execute(create)
        db.execute("DELETE FROM chunks_fts_rows")
        index_chunks(db, db.execute("SELECT id, text FROM chunks"))


def _graph(db: Database, _: list[Any]) -> None:
    """Delete the two settings without which the next run rebuilds the graph and rewrites the reports that change."""
    with db.atomic():
        db.execute("DELETE FROM index_settings WHERE key IN ('graph_hash', 'reports_state')")


def _layout(db: Database, _: list[Any]) -> None:
    """Delete the setting without which the next run lays out the graph again, starting from the stored positions."""
    with db.atomic():
        db.execute("DELETE FROM index_settings WHERE key = 'layout_hash'")


def _report(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        db.execute("DELETE FROM reports WHERE community_id IN (SELECT value FROM json_each(?))", [json.dumps(keys)])
        db.execute("DELETE FROM index_settings WHERE key = 'reports_state'")


def _vector(db: Database, keys: list[Any]) -> None:
    with db.atomic():
        for kind, key in keys:
            db.execute("DELETE FROM embeddings WHERE kind = ? AND subject_id = ?", [kind, key])
        db.execute("DELETE FROM index_settings WHERE key = 'graph_embeddings_hash'")


def _repair_staged(db: Database, _: list[Any]) -> None:
    generations.discard_staged(db)


def _checksum(db: Database, tables: list[Any]) -> None:
    """Delete all rows of changed tables that can be made again; model answers, conversations and settings stay.

    A checksum does not tell which row changed.
    """
    with db.atomic():
        if {"documents", "chunks"} & {*tables}:
            _read_again(db, [key for (key,) in db.execute("SELECT id FROM documents").fetchall()])
        if "extractions" in tables:
            db.execute("DELETE FROM extractions WHERE config_hash <> ?", [IMPORTED_MARK])
        if "reports" in tables:
            db.execute("DELETE FROM reports WHERE substr(input_hash, 1, ?) <> ?", [len(PENDING_IMPORT_HASH), PENDING_IMPORT_HASH])
            db.execute("DELETE FROM embeddings WHERE kind = 'report' AND subject_id NOT IN (SELECT community_id FROM reports)")
        for table in _RECOMPUTED_TABLES & {*tables}:
            db.execute(f"DELETE FROM {table}")
        if "embeddings" in tables:
            db.execute("DELETE FROM index_settings WHERE key = 'graph_embeddings_hash'")
        if any(table.startswith("staged_") for table in tables):
            generations.discard_staged(db)
        if {*GRAPH_TABLES, "title_word_counts", "reports", "report_documents", "extractions"} & {*tables}:
            _graph(db, [])
        if _LAYOUT_TABLES & {*tables}:
            _layout(db, [])


def _sums(db: Database) -> dict[str, int]:
    with suppress(sqlite3.DatabaseError):
        return dict(db.execute("SELECT table_name, checksum FROM table_checksums"))
    return {}


def _cache(_db: Database, _: list[Any]) -> None:
    """Nothing to do: every repair deletes all cache files."""


def _drop_caches(folder: Path) -> None:
    for path in rebuildable_files(folder):
        path.unlink(missing_ok=True)


REPAIRS: dict[str, Callable[[Database, list[Any]], None]] = {
    "database": _repair_database,
    "unreadable": _unreadable,
    "read again": _read_again,  # before orphans, so that extractions of chunks that are read again stay
    "orphans": _orphans,
    "chunk text": _chunk_text,
    "waiting": _repair_staged,
    "full text": _repair_full_text,
    "graph": _graph,
    "layout": _layout,
    "report": _report,
    "vector": _vector,
    "cache": _cache,
    "checksum": _checksum,
}
