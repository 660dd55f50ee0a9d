"""Integrity checks of an index, and the one repair: it is rebuilt from what is whole.

Each check looks at one part of the index and returns its problems. The repair needs no model: it copies what can be read into a new
database, makes the full-text index anew, and deletes what is damaged and whatever is derived from it, so that the next run makes it again.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlite_utils import Database

from localrag.records import IMPORTED_MARK, PENDING_IMPORT_HASH, content_id
from localrag.store import entity_network, generations, graph, layout, runs, vectors
from localrag.store.database import DATA_ERRORS, back_up_database, folder_of, rebuildable_files
from localrag.store.documents import matches_document_id
from localrag.store.entity_network import update_cache_files
from localrag.store.full_text import index_chunks
from localrag.store.location import DATABASE_FILE
from localrag.store.schema import CONTENT_TABLES, changed_tables, create_schema, recompute_checksums
from localrag.store.staging import GraphStaging
from localrag.system.files import new_database_file
from localrag.text.sentences import cjk_bigrams, collapse_whitespace

MAX_SHOWN = 3  # problems of one kind that a message lists
NORM_TOLERANCE = 1e-3  # of a unit vector's length


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed check. `table`: one of whose rows some are damaged, nobody knows which.

    `is_pending`: not an error; the next `localrag index` completes it.
    """

    text: str
    table: str = ""
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


def keys_of(db: Database, sql: str) -> list[Any]:
    """The first column of all rows of a query."""
    return [row[0] for row in db.execute(sql)]


def count_rows(db: Database, table: str) -> int:
    """The number of rows of a table."""
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def is_last_run_complete(db: Database) -> bool:
    """Whether the last run completed, so that nothing should be missing."""
    run = runs.last_run(db)
    return run is not None and run["state"] in ("complete", "partial")


def check_index(db: Database, folder: Path) -> list[CheckResult]:
    """Run all checks on one snapshot of the index, even while another process writes to it."""
    full_text = _run_check("full text", lambda: check_full_text(db))  # before BEGIN: FTS5's own check is formally an INSERT
    db.conn.execute("BEGIN")
    try:
        parts = [_run_check(name, lambda check=check: check(db)) for name, check in CHECKS.items()]  # type: ignore[misc]
        return [full_text, *parts, _run_check("caches", lambda: _check_caches(db, folder))]
    finally:
        db.conn.execute("ROLLBACK")


def _run_check(name: str, check: Callable[[], tuple[str, list[Problem]]]) -> CheckResult:
    try:
        summary, problems = check()
        return CheckResult(name, summary, tuple(problems))
    except DATA_ERRORS as error:
        return CheckResult(name, "", (Problem(f"cannot be read ({type(error).__name__})"),))


def problems(parts: list[CheckResult]) -> Iterator[Problem]:
    """All problems that are not merely pending."""
    return (problem for part in parts for problem in part.problems if not problem.is_pending)


def _graph_problems(db: Database, keys_by_text: dict[str, list[Any]]) -> list[Problem]:
    """One problem for each list of keys that is not empty; pending if the graph is going to be rebuilt."""
    is_pending = "graph_hash" not in runs.load_settings(db) or not is_last_run_complete(db)
    return [Problem(f"{len(keys)} {text}: {first_few(keys)}", is_pending=is_pending) for text, keys in keys_by_text.items() if keys]


def _check_database(db: Database) -> tuple[str, list[Problem]]:
    """Check the file with SQLite's own integrity check, and find orphaned rows and invalid JSON."""
    messages = [text for text in keys_of(db, "PRAGMA integrity_check(20)") if text != "ok"]
    found = [Problem(f"SQLite: {first_few(messages)}")] if messages else []
    to_be_read = count_rows(db, f"documents WHERE content_hash IN ('', '{PENDING_IMPORT_HASH}')")
    for (table, reason), n in Counter((table, reason) for table, _, reason in _broken_rows(db)).items():
        is_pending = table in ("extractions", "sentence_spans") and to_be_read > 0  # their chunks come back when the document is read
        found.append(Problem(f"{n} rows of {table} {reason}", is_pending=is_pending))
    return f"{keys_of(db, 'PRAGMA page_count')[0]} pages, every row where it belongs", found


JSON_COLUMNS = {"index_settings": "value", "extractions": "result", "entities": "descriptions", "relationships": "descriptions",
                "reports": "findings", "staged_reports": "findings", "answers": "answer_json", "runs": "engine_metrics"}  # fmt: skip


def _broken_rows(db: Database) -> list[tuple[str, int, str]]:
    """Orphaned rows and rows with invalid JSON: table, rowid, reason."""
    rows = [(table, rowid, f"belong to {parent} that are missing") for table, rowid, parent, _ in db.execute("PRAGMA foreign_key_check")]
    for table in ("extractions", "sentence_spans"):  # their chunks may still be staged
        orphans = f"SELECT rowid FROM {table} WHERE chunk_id NOT IN (SELECT id FROM chunks UNION ALL SELECT id FROM staged_chunks)"
        rows += [(table, rowid, "belong to chunks that are missing") for rowid in keys_of(db, orphans)]
    for table, column in JSON_COLUMNS.items():
        broken = keys_of(db, f"SELECT rowid FROM {table} WHERE NOT json_valid({column})")
        rows += [(table, rowid, "cannot be read") for rowid in broken]
    return rows


def _check_documents(db: Database) -> tuple[str, list[Problem]]:
    """Check that documents have the id of their text, and that their chunks are verbatim slices that cover it."""
    found = [Problem(text) for _, text in _damaged_documents(db)]
    pending = keys_of(db, f"SELECT path FROM documents WHERE content_hash IN ('', '{PENDING_IMPORT_HASH}') ORDER BY path")
    found += [Problem(f"{path} is to be read again", is_pending=True) for path in pending]
    chunks, documents = count_rows(db, "chunks"), count_rows(db, "documents")
    return f"{chunks} chunks, verbatim slices that leave out nothing of {documents} documents", found


def _damaged_documents(db: Database) -> Iterator[tuple[str, str]]:
    """The documents that must be read again, and why: id, message."""
    columns = f"id, path, original_path, text FROM documents WHERE content_hash NOT IN ('', '{PENDING_IMPORT_HASH}')"
    for document_id, path, original_path, text in db.execute(f"SELECT {columns} ORDER BY path"):
        query = "SELECT id, ordinal, start, end, text FROM chunks WHERE document_id = ? ORDER BY ordinal"
        chunks = db.execute(query, [document_id]).fetchall()
        ids = [content_id(document_id, start, end) for _, _, start, end, _ in chunks]
        spans = [(start, end) for _, _, start, end, _ in chunks]
        if not matches_document_id(document_id, path, original_path, text):
            yield document_id, f"{path} is not what was read"
        elif ids != [c[0] for c in chunks] or [c[1] for c in chunks] != list(range(len(chunks))) or _has_uncovered_text(text, spans):
            yield document_id, f"{path} has chunks that do not cover it"
        elif any(text[start:end] != slice_ for _, _, start, end, slice_ in chunks):
            yield document_id, f"a chunk of {path} is not a slice of it"


def _has_uncovered_text(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether any text lies between chunks, before the first or after the last."""
    position = 0
    for start, end in sorted(spans):
        if text[position:start].strip("\ufeff \t\r\n\f\v\u3000"):
            return True
        position = max(position, end)
    return bool(text[position:].strip())


def check_full_text(db: Database) -> tuple[str, list[Problem]]:
    """Run FTS5's own integrity check, and check that each chunk has one row with its words and character bigrams.

    FTS5's check takes the write lock for a moment, and changes nothing.
    """
    try:
        with db.atomic():
            db.execute("INSERT INTO chunks_fts(chunks_fts) VALUES ('integrity-check')")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error) and "locked" not in str(error):
            raise
    except sqlite3.DatabaseError as error:
        return "", [Problem(f"the full-text index is damaged: {error}")]
    db.conn.create_function("cjk_bigrams", 1, cjk_bigrams, deterministic=True)
    rows = "chunks c LEFT JOIN chunks_fts_rows r ON r.chunk_id = c.id LEFT JOIN chunks_fts s ON s.rowid = r.row"
    differing = f"SELECT c.id FROM {rows} WHERE s.chunk_id IS NOT c.id OR s.text IS NOT c.text OR s.cjk IS NOT cjk_bigrams(c.text)"
    counts = "(SELECT count(*) FROM chunks), (SELECT count(*) FROM chunks_fts)"
    listed, n_chunks, n_rows = db.execute(f"SELECT (SELECT json_group_array(id) FROM ({differing})), {counts}").fetchone()  # one state
    found = []
    if keys := json.loads(listed):
        found.append(Problem(f"{len(keys)} chunks are not in the full-text index as they are: {first_few(keys)}"))
    if n_rows != n_chunks:
        found.append(Problem(f"the full-text index has {n_rows} rows for {n_chunks} chunks"))
    return f"{n_rows} rows, one for each chunk", found


def check_mentions(db: Database) -> tuple[str, list[Problem]]:
    """Check that mentions, evidence and claims lie within their chunks, and that a mention's name is the text at its position."""
    inside = "x.start >= c.start AND x.start < x.end AND x.end <= c.end"
    joined = "x JOIN chunks c ON c.id = x.chunk_id JOIN documents d ON d.id = c.document_id"
    shown = "d.path || ':' || x.start || '-' || x.end"
    tables = {"claims": "(SELECT chunk_id, span_start AS start, span_end AS end FROM claims)"}
    keys_by_text = {
        f"{name} outside their chunk": keys_of(db, f"SELECT {shown} FROM {tables.get(name, name)} {joined} WHERE NOT ({inside})")
        for name in ("mentions", "evidence", "claims")
    }
    text = "substr(c.text, x.start - c.start + 1, x.end - x.start)"
    misnamed = db.execute(f"SELECT {shown}, x.name, {text} FROM mentions {joined} WHERE {inside} AND {text} <> x.name")
    keys_by_text["mentions with another name than the text has"] = [k for k, name, at in misnamed if collapse_whitespace(at) != name]
    keys_by_text["entities without a mention"] = keys_of(db, "SELECT id FROM entities EXCEPT SELECT entity_id FROM mentions")
    mentions, evidence, claims = (count_rows(db, table) for table in ("mentions", "evidence", "claims"))
    summary = f"{mentions} mentions, {evidence} pieces of evidence, {claims} claims, all in their places"
    return summary, _graph_problems(db, keys_by_text)


def check_relationships(db: Database) -> tuple[str, list[Problem]]:
    """Check that relationships join two different entities, and that an entity's degree is the number of its relationships."""
    degree = " + ".join(f"(SELECT count(*) FROM relationships r WHERE r.{end} = e.id)" for end in ("source_id", "target_id"))
    found = {
        "relationships of an entity with itself": keys_of(db, "SELECT id FROM relationships WHERE source_id = target_id"),
        "entities with another degree than relationships": keys_of(db, f"SELECT id FROM entities e WHERE degree <> {degree}"),
        "pairs of entities that are not the sum of what documents say of them": _inconsistent_pairs(db),
    }
    return f"{count_rows(db, 'entities')} entities, {count_rows(db, 'relationships')} relationships", _graph_problems(db, found)


def _inconsistent_pairs(db: Database) -> list[Any]:
    """The entity pairs whose counts or relationship differ from the sums over their documents."""
    counts = ("shared_sentences", "n_chunks", "n_statements", "strength", "llm_chunks")
    sums = f"a, b, {', '.join(f'sum({name})' for name in counts)} FROM document_cooccurrences GROUP BY a, b"
    stored = f"a, b, {', '.join(counts)} FROM cooccurrences"
    other = f"SELECT a, b FROM (SELECT {sums} EXCEPT SELECT {stored}) UNION SELECT a, b FROM (SELECT {stored} EXCEPT SELECT {sums})"
    lost = "SELECT a, b FROM cooccurrences WHERE is_relationship AND relationship_id NOT IN (SELECT id FROM relationships)"
    return [f"{a}-{b}" for a, b in db.execute(f"{other} UNION {lost}")]


def check_communities(db: Database) -> tuple[str, list[Problem]]:
    """Check that every entity is in exactly one community per level, and that communities partition their parent."""
    members = "communities c JOIN community_members m ON m.community_id = c.id"
    levels, found = keys_of(db, "SELECT DISTINCT level FROM communities ORDER BY 1"), dict[str, list[Any]]()
    for level in levels:
        once = f"SELECT m.entity_id FROM {members} WHERE c.level = {int(level)} GROUP BY 1 HAVING count(*) = 1"
        found[f"entities not in just one community of level {level}"] = keys_of(db, f"SELECT id FROM entities EXCEPT {once}")
    parent = "SELECT 1 FROM communities p WHERE p.id = c.parent_id AND p.level = c.level - 1"
    found["communities whose parent is missing"] = keys_of(db, f"SELECT id FROM communities c WHERE level > 0 AND NOT EXISTS ({parent})")
    parts = f"SELECT c.parent_id, m.entity_id FROM {members} WHERE c.level > 0 AND EXISTS ({parent})"
    whole = f"SELECT c.id, m.entity_id FROM {members} WHERE c.level < (SELECT max(level) FROM communities)"
    differing = f"SELECT * FROM ({whole} EXCEPT {parts}) UNION SELECT * FROM ({parts} EXCEPT {whole})"
    found["communities that those below do not divide up"] = keys_of(db, f"SELECT DISTINCT id FROM ({differing})")
    found["entities, but no community"] = [] if levels else keys_of(db, "SELECT id FROM entities")
    return f"{count_rows(db, 'communities')} communities on {len(levels)} levels", _graph_problems(db, found)


def check_layout(db: Database) -> tuple[str, list[Problem]]:
    """Check that every entity and community has a position in the layout."""
    found = []
    if missing := layout.subjects_without_position(db):
        is_pending = not runs.load_settings(db).get("layout_hash") or not is_last_run_complete(db)
        found.append(Problem(f"{len(missing)} entities and communities have no place: {first_few(missing)}", is_pending=is_pending))
    counts = count_rows(db, "entity_positions"), count_rows(db, "community_positions")
    return f"places of {counts[0]} entities and {counts[1]} communities", found


def _check_reports(db: Database) -> tuple[str, list[Problem]]:
    """Check that each community of several passages has a report, and that the quotes of its findings are verbatim."""
    found = []
    if stale := _stale_reports(db):
        text = f"{len(stale)} reports with a quote that is not where they say: {first_few(stale)}"
        found.append(Problem(text, is_pending=not is_last_run_complete(db)))
    failed = "SELECT subject FROM failures WHERE stage = 'report'"
    staged = GraphStaging.published(db)
    without = keys_of(db, f"SELECT id FROM communities EXCEPT SELECT community_id FROM reports EXCEPT {failed}")
    if missing := [community for community in without if graph.needs_report(staged, community)]:
        is_pending = not runs.load_settings(db).get("reports_state") or not is_last_run_complete(db)
        found.append(Problem(f"{len(missing)} communities have no report", is_pending=is_pending))
    return f"{count_rows(db, 'reports')} reports, with verbatim quotes", found


def _stale_reports(db: Database) -> list[str]:
    """The communities whose report has a quote that does not stand in its chunk."""
    stale = []
    for key, findings in db.execute("SELECT community_id, findings FROM reports WHERE json_valid(findings)"):
        for quote in (quote for finding in json.loads(findings) for quote in finding["quotes"]):
            row = db.execute("SELECT start, text FROM chunks WHERE id = ?", [quote["chunk_id"]]).fetchone()
            start, end = (quote[name] - row[0] if row else -1 for name in ("start", "end"))
            if not 0 <= start < end or row[1][start:end] != quote["text"]:
                stale.append(key)
                break
    return stale


def _check_vectors(db: Database) -> tuple[str, list[Problem]]:
    """Check that every chunk, entity and report has a vector of its text, by the index's embedder, of one dimension and of length 1."""
    is_complete, found = is_last_run_complete(db), []
    for (kind, problem), n in Counter((kind, problem) for kind, _, problem in _damaged_vectors(db)).items():
        is_pending = problem in (MISSING, STALE_TEXT) and not is_complete
        found.append(Problem(f"{n} {problem.format(vectors.VECTOR_KINDS[kind])}", is_pending=is_pending))
    counts = [f"{vectors.count_vectors(db, kind)} of {name}" for kind, name in vectors.VECTOR_KINDS.items()]
    return f"{', '.join(counts)}; {_vector_bytes(db) // 4} dimensions", found


MISSING = "{} have no vector"
STALE_TEXT = "vectors of {} are of another text"


def _damaged_vectors(db: Database) -> Iterator[tuple[str, str, str]]:
    """The subjects whose vector is missing, superfluous or wrong: kind, subject, problem of `{}`."""
    fingerprint = runs.load_settings(db).get("embedder", {}).get("fingerprint")
    size = _vector_bytes(db)
    for kind in vectors.VECTOR_KINDS:
        yield from ((kind, key, "vectors of {} belong to nothing") for key in vectors.without_subject(db, kind))
        for key, text in vectors.texts_to_embed(db, kind):
            stored = "SELECT content_hash, embedder, vector FROM embeddings WHERE kind = ? AND subject_id = ?"
            row = db.execute(stored, [kind, key]).fetchone()
            if row is None:
                yield kind, key, MISSING
            elif row[0] != content_id(text):
                yield kind, key, STALE_TEXT
            elif row[1] != fingerprint:
                yield kind, key, "vectors of {} are of another embedder"
            elif len(row[2]) != size or size % 4:
                yield kind, key, "vectors of {} have another dimension"
            elif not abs(float(np.linalg.norm(np.frombuffer(row[2], "<f4"))) - 1) < NORM_TOLERANCE:  # also for NaN
                yield kind, key, "vectors of {} are not of length 1"


def _vector_bytes(db: Database) -> int:
    """The most frequent size of a vector in bytes; 0 without vectors."""
    return next(iter(keys_of(db, "SELECT length(vector) FROM embeddings GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")), 0)


def _list_staged(db: Database) -> tuple[str, list[Problem]]:
    """List what waits for the next generation as pending."""
    counts, found = generations.count_staged(db), []
    if any(counts.values()):
        listed = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        found.append(Problem(f"{listed} wait for the rest of their generation", is_pending=True))
    return "nothing waits", found


def _check_checksums(db: Database) -> tuple[str, list[Problem]]:
    text = "{} has rows that are not what was written: a byte changed, or another program wrote to it"
    found = [Problem(text.format(table), table) for table in changed_tables(db)]
    return f"the rows of {len(CONTENT_TABLES)} tables as they were written", found


def _list_failures(db: Database) -> tuple[str, list[Problem]]:
    return "none", [Problem(f"{f.stage} {f.subject}: {f.reason}", is_pending=True) for f in runs.failures(db)]


CHECKS: dict[str, Callable[[Database], tuple[str, list[Problem]]]] = {
    "database": _check_database,
    "chunks": _check_documents,
    "mentions": check_mentions,
    "relationships": check_relationships,
    "communities": check_communities,
    "places": check_layout,
    "reports": _check_reports,
    "vectors": _check_vectors,
    "next generation": _list_staged,
    "checksums": _check_checksums,
    "failures": _list_failures,
}


def _check_caches(db: Database, folder: Path) -> tuple[str, list[Problem]]:
    """Check that the cache files hold the database's contents. A file of an earlier state is harmless and not a problem."""
    found = []
    for kind, name in vectors.VECTOR_KINDS.items():
        matches = vectors.matches_vectors(db, folder, kind)
        if matches is False:
            found.append(Problem(f"the FAISS index of {name} has other vectors than the database"))
        elif matches is None and vectors.count_vectors(db, kind) > vectors.INDEX_FROM_VECTORS:
            found.append(Problem(f"{name} have no FAISS index: each question compares all vectors", is_pending=True))
    if entity_network.matches_graph(db, folder) is False:
        found.append(Problem("the file of the network has another graph than the database"))
    return f"{len(rebuildable_files(folder))} files", found


# Repair

_RECOMPUTED_TABLES = frozenset({"entity_positions", "community_positions", "community_edges", "sentence_spans", "embeddings",
                                "file_stats"})  # fmt: skip


def repair_index(db: Database, folder: Path) -> Path | None:
    """Back up the database and rebuild it from what is whole; returns the path of the backup, or None if there are no problems.

    The caller holds the writer lock. Documents, conversations, decisions and stored model answers are never removed unless they cannot be
    read; readable extractions only if a byte of their table changed.
    """
    parts = check_index(db, folder)
    found = list(problems(parts))
    if not found:
        return None
    backup = back_up_database(db, folder / DATABASE_FILE, "repair")
    if any(problems(parts[:-1])):  # not only in the cache files
        _copy_whole_rows(db)
        with db.atomic():
            _delete_damaged_rows(db, {problem.table for problem in found})
        recompute_checksums(db)
        runs.end_run(db, runs.start_run(db, os.getpid()), "interrupted", {})  # so that status and check report a pending run
    for path in rebuildable_files(folder):
        path.unlink(missing_ok=True)
    update_cache_files(db)
    return backup


def _copy_whole_rows(db: Database) -> None:
    """Replace a database by a new one with the rows of it that can be read."""
    part = new_database_file(folder_of(db) / f"{DATABASE_FILE}.part")  # a file: the copy may be larger than memory
    try:
        copy_rows(db.conn, part, skip_damage=True)
        with closing(sqlite3.connect(part)) as copy:
            copy.backup(db.conn)
    finally:
        part.unlink(missing_ok=True)


def _delete_damaged_rows(db: Database, tables: set[str]) -> None:
    """Delete what is damaged, and what is derived from it, as far as the next run makes it again.

    `tables`: those of which it is unknown which rows are damaged.
    """
    for table, rowid, _ in _broken_rows(db):
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", [rowid])
    db.execute("DELETE FROM index_settings WHERE key IN ('graph_hash', 'reports_state', 'layout_hash', 'graph_embeddings_hash')")
    of_unknown = keys_of(db, "SELECT id FROM documents") if {"documents", "chunks"} & tables else []
    for key in {*of_unknown, *(key for key, _ in _damaged_documents(db))}:  # an imported document has no file and must not count as deleted
        read_again = "CASE WHEN content_hash LIKE ? || ' %' THEN ? ELSE '' END"
        db.execute(f"UPDATE documents SET content_hash = {read_again} WHERE id = ?", [IMPORTED_MARK, PENDING_IMPORT_HASH, key])
    if any(table.startswith("staged_") for table in tables):
        generations.discard_staged(db)
    for table in _RECOMPUTED_TABLES & tables:
        db.execute(f"DELETE FROM {table}")
    if "extractions" in tables:
        db.execute("DELETE FROM extractions WHERE config_hash <> ?", [IMPORTED_MARK])
    if "reports" in tables:
        db.execute("DELETE FROM reports WHERE substr(input_hash, 1, ?) <> ?", [len(PENDING_IMPORT_HASH), PENDING_IMPORT_HASH])
    db.execute("DELETE FROM reports WHERE community_id IN (SELECT value FROM json_each(?))", [json.dumps(_stale_reports(db))])
    wrong = [(kind, key) for kind, key, problem in _damaged_vectors(db) if problem != MISSING]
    db.conn.executemany("DELETE FROM embeddings WHERE kind = ? AND subject_id = ?", wrong)


def copy_rows(source: sqlite3.Connection, target: Path, *, skip_damage: bool = False) -> None:
    """Create a database with localrag's schema at `target`, and copy those rows of the tables of another that fit into it.

    `skip_damage`: leave out rows that cannot be read; otherwise raises sqlite3.DatabaseError.
    """
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # after a power cut it is made again
        copy = Database(connection)
        create_schema(copy)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("BEGIN")
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        for table in CONTENT_TABLES:
            for order in ("", "ORDER BY rowid DESC"):  # from both ends up to the unreadable rows
                try:
                    _copy_table(source, connection, table, order)
                    break
                except (sqlite3.DatabaseError, UnicodeDecodeError):
                    if not skip_damage:
                        raise
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")
        rebuild_full_text(copy)
        recompute_checksums(copy)


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str, order: str) -> None:
    """Copy the rows of a table in the columns that both databases have; skips a table that is not an ordinary one in the source."""
    is_plain = "type = 'table' AND name = ? AND substr(upper(ltrim(sql)), 1, 13) = 'CREATE TABLE '"  # not a virtual one
    if not source.execute(f"SELECT count(*) FROM sqlite_master WHERE {is_plain}", [table]).fetchone()[0]:
        return
    columns = sorted(_plain_columns(target, table) & _plain_columns(source, table))
    if columns:
        named, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
        rows = source.execute(f'SELECT {named} FROM "{table}" {order}')
        target.executemany(f'INSERT OR IGNORE INTO "{table}" ({named}) VALUES ({marks})', rows)


def _plain_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")') if row[6] == 0}


def rebuild_full_text(db: Database) -> None:
    """Recreate the full-text index from the chunks."""
    with db.atomic():
        (create,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'chunks_fts'").fetchone()
        db.execute("DROP TABLE chunks_fts")
        db.execute(create)
        db.execute("DELETE FROM chunks_fts_rows")
        index_chunks(db, db.execute("SELECT id, text FROM chunks"))
