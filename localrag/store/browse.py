"""Bounded reads for people: pages of lists, windows of texts, entities with their surroundings, search by name, status."""

import json
import posixpath
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.records import Quote
from localrag.store import chunks, documents, graph, llm_cache, retention, runs
from localrag.store.collections import collections
from localrag.store.database import ViewRow
from localrag.store.graph import COMMUNITY_SIZE, COMMUNITY_TITLE
from localrag.store.staging import IN_JSON_LIST
from localrag.system.resources import is_alive

CONTEXT_CHARS = 60  # characters on either side of a mention
_ALL_FILES = "SELECT id, path, title, 'indexed' AS state, '' AS reason, added_at FROM documents UNION ALL"
_ALL_FILES += " SELECT NULL, path, path, CASE is_failure WHEN 1 THEN 'failed' ELSE 'skipped' END, reason, '' FROM skipped_files"
_ALL_FILES += " WHERE path NOT IN (SELECT path FROM documents)"


def list_files(db: Database, *, state: str = "", text: str = "", offset: int = 0, limit: int = 100) -> tuple[int, list[ViewRow]]:
    """The number of files in a state (all: empty) with `text` in their path or title, and one page of them, by path."""
    where = "WHERE (:state = '' OR state = :state) AND (:text = '' OR instr(lower(path || ' ' || title), lower(:text)))"
    values = {"state": state, "text": text, "limit": limit, "offset": offset}
    total = next(db.query(f"SELECT count(*) AS n FROM ({_ALL_FILES}) {where}", values))["n"]
    sizes = "(SELECT count(*) FROM chunks WHERE document_id = f.id) AS chunks"
    sizes += ", coalesce((SELECT max(end) FROM chunks WHERE document_id = f.id), 0) AS characters"
    return total, list(db.query(f"SELECT f.*, {sizes} FROM ({_ALL_FILES}) f {where} ORDER BY path LIMIT :limit OFFSET :offset", values))


def file_states(db: Database) -> dict[str, int]:
    """State → number of files."""
    rows = db.query(f"SELECT state, count(*) AS n FROM ({_ALL_FILES}) GROUP BY state")
    return {"indexed": 0, "skipped": 0, "failed": 0} | {r["state"]: r["n"] for r in rows}


def top_level_paths(db: Database) -> list[str]:
    """The first part of every document's path: the indexed folders and files, if no setting lists them.

    Paths outside the index's root are left out: they may come from another machine.
    """
    first = "CASE instr(path, '/') WHEN 0 THEN path ELSE substr(path, 1, instr(path, '/') - 1) END"
    return [r["top"] for r in db.query(f"SELECT DISTINCT {first} AS top FROM documents") if r["top"] not in ("", ".", "..")]


def document_summary(db: Database, document_id: str) -> ViewRow | None:
    """A document without its text: path, title, metadata, parts and length in characters; None if it does not exist."""
    columns = "id, path, title, metadata, parts, content_hash, length(text) AS length"
    row = next(iter(db.query(f"SELECT {columns} FROM documents WHERE id = ?", [document_id])), None)
    return row and row | {"metadata": dict(json.loads(row["metadata"])), "parts": json.loads(row["parts"])}


def document_id_at(db: Database, path: str) -> str | None:
    """The id of the document stored under a path; None if there is none."""
    return next((r["id"] for r in db.query("SELECT id FROM documents WHERE path = ?", [path])), None)


def documents_called(db: Database, name: str, limit: int) -> list[ViewRow]:
    """The documents (id, path) that a name means: a path in any spelling, its last parts, or a longer path that ends with it.

    The first of these that finds any counts. Several documents are returned by path, at most `limit`.
    """
    path = posixpath.normpath(name.strip().replace("\\", "/")) if name.strip() else ""
    conditions = (
        ("path = :path OR path = :name", "path"),
        ("path = :tail OR substr(path, -length(:tail) - 1) = '/' || :tail", "path"),
        ("substr(:path, -length(path) - 1) = '/' || path", "length(path) DESC"),
        ("lower(path) = lower(:tail) OR lower(substr(path, -length(:tail) - 1)) = lower('/' || :tail)", "path"),
    )
    values = {"path": path, "name": name, "tail": path.lstrip("/"), "limit": limit}
    for condition, order in conditions:
        if rows := list(db.query(f"SELECT id, path FROM documents WHERE {condition} ORDER BY {order} LIMIT :limit", values)):
            return rows[:1] if "DESC" in order else rows
    return []


def text_window(db: Database, document_id: str, start: int, end: int) -> str:
    """Characters `start` to `end` of a document."""
    rows = db.query("SELECT substr(text, ?, ?) AS text FROM documents WHERE id = ?", [start + 1, max(0, end - start), document_id])
    return next((str(r["text"]) for r in rows), "")


def find_in_document(db: Database, document_id: str, quote: str) -> int | None:
    """The offset of the first occurrence of a text in a document; None if there is none."""
    position = next((r["at"] for r in db.query("SELECT instr(text, ?) AS at FROM documents WHERE id = ?", [quote, document_id])), 0)
    return position - 1 if position else None


def entities_in_span(db: Database, document_id: str, start: int, end: int) -> list[ViewRow]:
    """The entities mentioned in a span of a document, in the order of their first mention there."""
    return list(
        db.query(
            "SELECT e.id, e.name, e.type, min(m.start) AS first FROM chunks c JOIN mentions m ON m.chunk_id = c.id"
            " JOIN entities e ON e.id = m.entity_id WHERE c.document_id = ? AND c.start < ? AND c.end > ? AND m.start < ? AND m.end > ?"
            " GROUP BY e.id ORDER BY first, e.name",
            [document_id, end, start, end, start],
        )
    )


def search_entity_names(db: Database, text: str, limit: int) -> list[ViewRow]:
    """Entities with a name that begins with a text, then those with a name that contains it; highest degree first."""
    pattern = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows_by_id: dict[str, ViewRow] = {}
    for like in (f"{pattern}%", f"%{pattern}%"):
        if len(rows_by_id) < limit:
            rows = db.query(
                "SELECT e.id, e.name, e.type, e.degree FROM entities e WHERE e.id IN"
                " (SELECT entity_id FROM entity_aliases WHERE alias LIKE ? ESCAPE '\\') ORDER BY e.degree DESC, e.name LIMIT ?",
                [like, limit],
            )
            rows_by_id |= {r["id"]: r for r in rows if r["id"] not in rows_by_id}
    return list(rows_by_id.values())[:limit]


def most_connected_entities(db: Database, limit: int) -> list[str]:
    """The ids of the entities with the highest degree, highest first."""
    return [r["id"] for r in db.query("SELECT id FROM entities ORDER BY degree DESC, name LIMIT ?", [limit])]


def reports_titled(db: Database, text: str, limit: int) -> list[ViewRow]:
    """Reports with a text in their title or summary, the coarsest first."""
    return list(
        db.query(
            "SELECT c.id, c.level, c.ordinal, r.title FROM reports r JOIN communities c ON c.id = r.community_id"
            " WHERE instr(lower(r.title || ' ' || r.summary), lower(?)) ORDER BY c.level, c.ordinal LIMIT ?",
            [text, limit],
        )
    )


def mentions_of(db: Database, entity_id: str, limit: int) -> list[ViewRow]:
    """The mentions of an entity, by path and position, with the characters around them."""
    rows = db.query(
        "SELECT d.id AS document, d.path, d.parts, m.name, m.start, m.end, c.start AS at, c.text FROM mentions m"
        " JOIN chunks c ON c.id = m.chunk_id JOIN documents d ON d.id = c.document_id"
        " WHERE m.entity_id = ? ORDER BY d.path, m.start LIMIT ?",
        [entity_id, limit],
    )
    return [_in_context(r) for r in rows]


def _in_context(row: ViewRow) -> ViewRow:
    a, b = row["start"] - row["at"], row["end"] - row["at"]
    around = {"before": row["text"][max(0, a - CONTEXT_CHARS) : a], "name": row["text"][a:b], "after": row["text"][b : b + CONTEXT_CHARS]}
    return {k: row[k] for k in ("document", "path", "start", "end")} | {"part": part_at(row["parts"], row["start"])} | around


def part_at(parts: str | list[Any], position: int) -> str:
    """The label of the part (page, slide, sheet) that contains a character; `parts` as stored. Empty if there is none."""
    listed = json.loads(parts) if isinstance(parts, str) else parts
    return next((str(label) for label, start, end, *_ in listed if start <= position < end), "")


def count_mentions_and_relationships(db: Database, entity_id: str) -> ViewRow:
    """The numbers of mentions and relationships of an entity."""
    related = "(SELECT count(*) FROM relationships WHERE source_id = :id OR target_id = :id)"
    mentions = "(SELECT count(*) FROM mentions WHERE entity_id = :id)"
    return next(db.query(f"SELECT {mentions} AS mentions_total, {related} AS relationships_total", {"id": entity_id}))


def neighbours(db: Database, entity_id: str, limit: int | None = None) -> list[ViewRow]:
    """The relationships of an entity with the other entity of each, heaviest first."""
    rows = db.query(
        "SELECT r.id, r.weight, r.description, r.descriptions, e.id AS other, e.name, e.type FROM relationships r JOIN entities e"
        " ON e.id = CASE r.source_id WHEN :id THEN r.target_id ELSE r.source_id END"
        " WHERE r.source_id = :id OR r.target_id = :id ORDER BY r.weight DESC, r.id LIMIT :limit",
        {"id": entity_id, "limit": -1 if limit is None else limit},
    )
    return [
        {"id": r["id"], "entity": {"id": r["other"], "name": r["name"], "type": r["type"]}, "weight": r["weight"]}
        | {"description": r["description"], "descriptions": json.loads(r["descriptions"])}
        for r in rows
    ]


def find_relationship(db: Database, relationship_id: str) -> ViewRow | None:
    """A relationship with the ids of its entities; None if it does not exist."""
    row = next(iter(db.query("SELECT * FROM relationships WHERE id = ?", [relationship_id])), None)
    return row and row | {"descriptions": json.loads(row["descriptions"])}


def evidence_of(db: Database, relationship_id: str, limit: int) -> list[ViewRow]:
    """The spans that support a relationship, with their text."""
    rows = db.query(
        "SELECT d.id AS document, d.path, d.parts, v.start, v.end, substr(c.text, v.start - c.start + 1, v.end - v.start) AS quote"
        " FROM evidence v JOIN chunks c ON c.id = v.chunk_id JOIN documents d ON d.id = c.document_id"
        " WHERE v.relationship_id = ? ORDER BY d.path, v.start LIMIT ?",
        [relationship_id, limit],
    )
    return [{k: v for k, v in r.items() if k != "parts"} | {"part": part_at(r["parts"], r["start"])} for r in rows]


def communities_of(db: Database, entity_id: str) -> list[ViewRow]:
    """The different communities an entity is in, the coarsest first, with their titles."""
    rows = list(
        db.query(
            f"SELECT c.id, c.level, c.ordinal, {COMMUNITY_TITLE} AS title, {COMMUNITY_SIZE} AS entities"
            " FROM community_members m JOIN communities c ON c.id = m.community_id"
            " LEFT JOIN reports r ON r.community_id = c.id WHERE m.entity_id = ? ORDER BY c.level",
            [entity_id],
        )
    )
    return [row for n, row in enumerate(rows) if not n or row["entities"] != rows[n - 1]["entities"]]


def community_tree(db: Database) -> list[ViewRow]:
    """Every community, the coarsest first: its position in the tree, number of entities, title, and whether it has a report.

    One that a level repeats unchanged has the title and the report of that above.
    """
    rows = {
        row["id"]: row
        for row in db.query(
            f"SELECT c.id, c.level, c.ordinal, c.parent_id AS parent, {COMMUNITY_TITLE} AS title, r.title IS NOT NULL AS has_report,"
            f" {COMMUNITY_SIZE} AS entities FROM communities c LEFT JOIN reports r ON r.community_id = c.id ORDER BY c.level, c.ordinal"
        )
    }
    for row in rows.values():
        above = rows.get(row["parent"] or "")
        if above and above["entities"] == row["entities"]:
            row |= {"title": above["title"], "has_report": above["has_report"]}
    return list(rows.values())


def community_labels(db: Database, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Id, level, number and title of communities, by id; one that a level repeats unchanged has the title of that above."""
    copied = f"JOIN communities c ON c.id = copies.parent_id WHERE {COMMUNITY_SIZE} = copies.size"
    rows = db.query(
        "WITH RECURSIVE copies(key, id, level, ordinal, parent_id, size) AS ("
        f"SELECT c.id, c.id, c.level, c.ordinal, c.parent_id, {COMMUNITY_SIZE} FROM communities c WHERE c.id {IN_JSON_LIST}"
        f" UNION ALL SELECT key, c.id, copies.level, copies.ordinal, c.parent_id, size FROM copies {copied})"
        f" SELECT key AS id, c.level, c.ordinal, {COMMUNITY_TITLE} AS title FROM copies c LEFT JOIN reports r ON r.community_id = c.id",
        [json.dumps(list(ids))],
    )
    return {row["id"]: row for row in rows}  # of the rows of one key the last is the first community of its copies


def change_token(db: Database) -> str:
    """A string that changes with every visible change: documents, graph, reports, vectors."""
    rows = db.execute(
        "SELECT (SELECT group_concat(value) FROM index_settings WHERE key IN ('graph_hash', 'layout_hash', 'reports_state')),"
        " (SELECT group_concat(version) FROM vector_versions), (SELECT count(*) FROM documents), (SELECT max(rowid) FROM documents)"
    )
    return repr(rows.fetchone())


def model_binding_token(db: Database) -> str:
    """A string that changes when the index is bound to other models."""
    rows = db.query("SELECT key, value FROM index_settings WHERE key IN ('chat_model', 'embedder') ORDER BY key")
    return repr([(r["key"], r["value"]) for r in rows])


def locate_quotes(db: Database, quotes: Iterable[Quote]) -> list[ViewRow]:
    """Quotes with their document, path and part; without those whose chunk no longer exists."""
    listed = list(quotes)
    documents_by_chunk = _documents_of_chunks(db, [q.chunk_id for q in listed])
    return [
        {"document": document["document"], "path": document["path"], "part": part_at(document["parts"], q.start)}
        | {"start": q.start, "end": q.end, "text": q.text}
        for q in listed
        if (document := documents_by_chunk.get(q.chunk_id))
    ]


def chunk_locations(db: Database, ids: Sequence[str]) -> dict[str, ViewRow]:
    """Chunk id → id and path of its document, and the part in which the chunk begins."""
    documents_by_chunk = _documents_of_chunks(db, ids)
    return {
        i: {"document": document["document"], "path": document["path"], "part": part_at(document["parts"], document["start"])}
        for i, document in documents_by_chunk.items()
    }


def _documents_of_chunks(db: Database, chunk_ids: Sequence[str]) -> dict[str, ViewRow]:
    rows = db.query(
        "SELECT c.id, c.start, d.id AS document, d.path, d.parts FROM chunks c JOIN documents d ON d.id = c.document_id"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        [json.dumps(list(chunk_ids))],
    )
    return {r["id"]: r for r in rows}


def relationships_between(db: Database, pairs: Sequence[tuple[str, str]]) -> list[ViewRow]:
    """The relationships between the two entities of each pair."""
    select = (
        "SELECT id, weight, description FROM relationships WHERE (source_id = ? AND target_id = ?) OR (source_id = ? AND target_id = ?)"
    )
    return [row for a, b in pairs for row in db.query(f"{select} LIMIT 1", [a, b, b, a])]


def index_status(db: Database, folder: Path) -> dict[str, Any]:
    """The status of an index: counts of its main tables first, then details."""
    settings = runs.load_settings(db)
    run = runs.last_run(db)
    return {
        **graph.counts(db),
        "communities_per_level": graph.communities_per_level(db),
        "collections": collections(db),
        "skipped": [{"path": s.path, "reason": s.reason, "failed": s.is_failure} for s in documents.skipped_files(db)],
        "failed": [{"stage": f.stage, "subject": f.subject, "reason": f.reason} for f in runs.failures(db)],
        "noise": chunks.count_rejected_names(db),
        "dropped_rows": sum(settings.get("dropped_rows", {}).values()),
        "merged": graph.count_merged_names(db),
        "run": run_to_json(run) if run else None,
        "spent": llm_cache.total_llm_usage(db),
        "models": {kind: settings[kind] for kind in ("chat_model", "embedder") if kind in settings},
        "settings": settings.get("settings", {}),
        "index": str(folder),
        "kept": retention.retained_garbage(db, folder),
        "bytes": sum(f.stat().st_size for f in folder.iterdir() if f.is_file()),
    }


RUN_FIELDS = ("state", "stage", "done", "total", "started_at", "ended_at", "figures")


def run_to_json(run: dict[str, Any]) -> dict[str, Any]:
    """A run of `runs.last_run` as JSON-ready values.

    `progress`: its last progress, `silent`: seconds since then; `alive`: whether the process of a run that has not ended still exists.
    """
    is_running = run["ended_at"] is None
    alive = is_alive(run["pid"], run["started_at"]) if is_running else None
    silent = round(max(0.0, time.time() - run["seen_at"]), 1) if is_running and run.get("seen_at") else None
    return {k: run[k] for k in RUN_FIELDS} | {"pid": run["pid"], "alive": alive, "progress": run["facts"] or None, "silent": silent}


def file_list(db: Database) -> Iterator[dict[str, str]]:
    """Every file of an index, by path: indexed, skipped or failed, with the reason; an indexed file's reason names its unreadable pages."""
    unread = documents.unread_pages(db)
    rows = {path: {"path": path, "state": "indexed", "reason": unread.get(path, "")} for path in documents.document_hashes(db)}
    for s in documents.skipped_files(db):  # also of documents whose file cannot be read any more
        rows[s.path] = {"path": s.path, "state": "failed" if s.is_failure else "skipped", "reason": s.reason}
    yield from (rows[path] for path in sorted(rows))
