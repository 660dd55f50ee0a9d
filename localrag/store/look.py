"""What people look at: pages of lists, windows of long texts, an entity with its surroundings. Every read is bounded."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlite_utils import Database

from localrag.records import Quote

Row = dict[str, Any]
AROUND = 60  # characters on either side of a mention
_LISTED = "SELECT id, path, title, 'indexed' AS state, '' AS reason, added_at FROM documents UNION ALL"
_LISTED += " SELECT NULL, path, path, CASE failed WHEN 1 THEN 'failed' ELSE 'skipped' END, reason, '' FROM skipped"
_LISTED += " WHERE path NOT IN (SELECT path FROM documents)"


def listed_files(db: Database, *, state: str = "", text: str = "", offset: int = 0, limit: int = 100) -> tuple[int, list[Row]]:
    """How many files are in a state (all: empty) and have a text in their path or title; one page of them, by path."""
    where = "WHERE (:state = '' OR state = :state) AND (:text = '' OR instr(lower(path || ' ' || title), lower(:text)))"
    values = {"state": state, "text": text, "limit": limit, "offset": offset}
    total = next(db.query(f"SELECT count(*) AS n FROM ({_LISTED}) {where}", values))["n"]
    page = list(db.query(f"SELECT * FROM ({_LISTED}) {where} ORDER BY path LIMIT :limit OFFSET :offset", values))
    sizes = {r["id"]: r for r in _sizes(db, [r["id"] for r in page if r["id"]])}
    empty = {"chunks": 0, "characters": 0}
    return total, [row | {k: sizes.get(row["id"], empty)[k] for k in empty} for row in page]


def _sizes(db: Database, ids: list[str]) -> list[Row]:
    return list(
        db.query(
            "SELECT document_id AS id, count(*) AS chunks, max(end) AS characters FROM chunks"
            " WHERE document_id IN (SELECT value FROM json_each(?)) GROUP BY 1",
            [json.dumps(ids)],
        )
    )


def file_states(db: Database) -> dict[str, int]:
    """State → number of files."""
    rows = db.query(f"SELECT state, count(*) AS n FROM ({_LISTED}) GROUP BY state")
    return {"indexed": 0, "skipped": 0, "failed": 0} | {r["state"]: r["n"] for r in rows}


def tops(db: Database) -> list[str]:
    """The first part of every document's path: the folders and files that were indexed, where nothing else says which.

    Paths outside of the index's root are left out: they may come from another machine.
    """
    first = "CASE instr(path, '/') WHEN 0 THEN path ELSE substr(path, 1, instr(path, '/') - 1) END"
    return [r["top"] for r in db.query(f"SELECT DISTINCT {first} AS top FROM documents") if r["top"] not in ("", ".", "..")]


def described(db: Database, document_id: str) -> Row | None:
    """A document without its text: path, title, metadata, parts and how many characters it has."""
    columns = "id, path, title, metadata, parts, content_hash, length(text) AS length"
    row = next(iter(db.query(f"SELECT {columns} FROM documents WHERE id = ?", [document_id])), None)
    return row and row | {"metadata": dict(json.loads(row["metadata"])), "parts": json.loads(row["parts"])}


def document_at(db: Database, path: str) -> str | None:
    """The id of the document that is stored under a path."""
    return next((r["id"] for r in db.query("SELECT id FROM documents WHERE path = ?", [path])), None)


def window(db: Database, document_id: str, start: int, end: int) -> str:
    """Characters `start` to `end` of a document."""
    rows = db.query("SELECT substr(text, ?, ?) AS text FROM documents WHERE id = ?", [start + 1, max(0, end - start), document_id])
    return next((str(r["text"]) for r in rows), "")


def first_place(db: Database, document_id: str, quote: str) -> int | None:
    """Where a text stands in a document for the first time."""
    found = next((r["at"] for r in db.query("SELECT instr(text, ?) AS at FROM documents WHERE id = ?", [quote, document_id])), 0)
    return found - 1 if found else None


def mentioned_between(db: Database, document_id: str, start: int, end: int) -> list[Row]:
    """The entities mentioned in a stretch of a document, in the order of their first mention there."""
    return list(
        db.query(
            "SELECT e.id, e.name, e.type, min(m.start) AS first FROM chunks c JOIN mentions m ON m.chunk_id = c.id"
            " JOIN entities e ON e.id = m.entity_id WHERE c.document_id = ? AND c.start < ? AND c.end > ? AND m.start < ? AND m.end > ?"
            " GROUP BY e.id ORDER BY first, e.name",
            [document_id, end, start, end, start],
        )
    )


def named_like(db: Database, text: str, limit: int) -> list[Row]:
    """Entities one of whose names begins with a text, then those that have it anywhere; those with most relationships first."""
    pattern = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    found: dict[str, Row] = {}
    for like in (f"{pattern}%", f"%{pattern}%"):
        if len(found) < limit:
            rows = db.query(
                "SELECT e.id, e.name, e.type, e.degree FROM entities e WHERE e.id IN"
                " (SELECT entity_id FROM entity_aliases WHERE alias LIKE ? ESCAPE '\\') ORDER BY e.degree DESC, e.name LIMIT ?",
                [like, limit],
            )
            found |= {r["id"]: r for r in rows if r["id"] not in found}
    return list(found.values())[:limit]


def best_known(db: Database, limit: int) -> list[str]:
    """The ids of the entities with most relationships, those first."""
    return [r["id"] for r in db.query("SELECT id FROM entities ORDER BY degree DESC, name LIMIT ?", [limit])]


def reports_titled(db: Database, text: str, limit: int) -> list[Row]:
    """Reports that have a text in their title or summary, the coarsest first."""
    return list(
        db.query(
            "SELECT c.id, c.level, c.ordinal, r.title FROM reports r JOIN communities c ON c.id = r.community_id"
            " WHERE instr(lower(r.title || ' ' || r.summary), lower(?)) ORDER BY c.level, c.ordinal LIMIT ?",
            [text, limit],
        )
    )


def mentions_of(db: Database, entity_id: str, limit: int) -> list[Row]:
    """Where an entity is mentioned, in the order of paths and places, with the characters around it."""
    rows = db.query(
        "SELECT d.id AS document, d.path, d.parts, m.name, m.start, m.end, c.start AS at, c.text FROM mentions m"
        " JOIN chunks c ON c.id = m.chunk_id JOIN documents d ON d.id = c.document_id"
        " WHERE m.entity_id = ? ORDER BY d.path, m.start LIMIT ?",
        [entity_id, limit],
    )
    return [_in_context(r) for r in rows]


def _in_context(row: Row) -> Row:
    a, b = row["start"] - row["at"], row["end"] - row["at"]
    around = {"before": row["text"][max(0, a - AROUND) : a], "name": row["text"][a:b], "after": row["text"][b : b + AROUND]}
    return {k: row[k] for k in ("document", "path", "start", "end")} | {"part": part_at(row["parts"], row["start"])} | around


def part_at(parts: str | list[Any], place: int) -> str:
    """The label of the part (page, slide, sheet) that a character is in; `parts` as stored."""
    listed = json.loads(parts) if isinstance(parts, str) else parts
    return next((str(label) for label, start, end in listed if start <= place < end), "")


def totals_of(db: Database, entity_id: str) -> Row:
    """How many mentions and relationships an entity has."""
    related = "(SELECT count(*) FROM relationships WHERE source_id = :id OR target_id = :id)"
    mentions = "(SELECT count(*) FROM mentions WHERE entity_id = :id)"
    return next(db.query(f"SELECT {mentions} AS mentions_total, {related} AS relationships_total", {"id": entity_id}))


def related_to(db: Database, entity_id: str, limit: int | None = None) -> list[Row]:
    """The relationships of an entity with their other ends, heaviest first."""
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


def relationship(db: Database, relationship_id: str) -> Row | None:
    """A relationship with the ids of its ends."""
    row = next(iter(db.query("SELECT * FROM relationships WHERE id = ?", [relationship_id])), None)
    return row and row | {"descriptions": json.loads(row["descriptions"])}


def evidence_of(db: Database, relationship_id: str, limit: int) -> list[Row]:
    """Where the text supports a relationship, with the words."""
    rows = db.query(
        "SELECT d.id AS document, d.path, d.parts, v.start, v.end, substr(c.text, v.start - c.start + 1, v.end - v.start) AS quote"
        " FROM evidence v JOIN chunks c ON c.id = v.chunk_id JOIN documents d ON d.id = c.document_id"
        " WHERE v.relationship_id = ? ORDER BY d.path, v.start LIMIT ?",
        [relationship_id, limit],
    )
    return [{k: v for k, v in r.items() if k != "parts"} | {"part": part_at(r["parts"], r["start"])} for r in rows]


def communities_of(db: Database, entity_id: str) -> list[Row]:
    """The communities an entity is in, the coarsest first, with the titles of their reports."""
    return list(
        db.query(
            "SELECT c.id, c.level, c.ordinal, coalesce(r.title, '') AS title FROM members m JOIN communities c ON c.id = m.community_id"
            " LEFT JOIN reports r ON r.community_id = c.id WHERE m.entity_id = ? ORDER BY c.level",
            [entity_id],
        )
    )


def tree(db: Database) -> list[Row]:
    """Every community, the coarsest first: its place in the tree, its number of entities, its report's title (None without one)."""
    return list(
        db.query(
            "SELECT c.id, c.level, c.ordinal, c.parent_id AS parent, r.title,"
            " (SELECT count(*) FROM members m WHERE m.community_id = c.id) AS entities"
            " FROM communities c LEFT JOIN reports r ON r.community_id = c.id ORDER BY c.level, c.ordinal"
        )
    )


def conversations(db: Database, limit: int) -> list[Row]:
    """Conversations, the newest first: their number, first question, time of the last answer, how many answers."""
    grouped = "SELECT conversation AS id, max(at) AS at, max(id) AS last, count(*) AS answers, min(id) AS first FROM answers GROUP BY 1"
    return list(
        db.query(
            f"SELECT g.id, a.question AS title, g.at, g.answers FROM ({grouped}) g JOIN answers a ON a.id = g.first"
            " ORDER BY g.last DESC LIMIT ?",
            [limit],
        )
    )


def conversations_with(db: Database, text: str) -> list[Row]:
    """The answers in whose question or answer all words of a text stand, whatever their case, newest first.

    As rows: `id` of the conversation, `answer` its number, `at`, `question`, and `text`, the answer.
    """
    words = text.casefold().split()
    columns = "conversation AS id, id AS answer, at, question, json_extract(result, '$.answer') AS text"
    rows = db.query(f"SELECT {columns} FROM answers ORDER BY answers.id DESC")
    return [r for r in rows if words and all(w in f"{r['question']}\n{r['text']}".casefold() for w in words)]


def stamp(db: Database) -> str:
    """A text that changes whenever what readers see does: documents, graph, reports, vectors or a run's progress."""
    rows = db.execute(
        "SELECT (SELECT group_concat(value) FROM settings WHERE key IN ('graph', 'layout', 'reports')),"
        " (SELECT group_concat(state) FROM vector_states), (SELECT count(*) FROM documents), (SELECT max(rowid) FROM documents)"
    )
    return repr(rows.fetchone())


def bound_models(db: Database) -> str:
    """A text that changes when the index is bound to other models."""
    rows = db.query("SELECT key, value FROM settings WHERE key IN ('chat_model', 'embedder') ORDER BY key")
    return repr([(r["key"], r["value"]) for r in rows])


def placed(db: Database, quotes: Iterable[Quote]) -> list[Row]:
    """Quotes with the document, path and part they stand in; without those whose chunk is no more."""
    listed = list(quotes)
    homes = _homes(db, [q.chunk_id for q in listed])
    return [
        {"document": home["document"], "path": home["path"], "part": part_at(home["parts"], q.start)}
        | {"start": q.start, "end": q.end, "text": q.text}
        for q in listed
        if (home := homes.get(q.chunk_id))
    ]


def chunk_places(db: Database, ids: Sequence[str]) -> dict[str, Row]:
    """Chunk id → the id and path of its document, and the part of it that the chunk begins in."""
    homes = _homes(db, ids)
    return {i: {"document": h["document"], "path": h["path"], "part": part_at(h["parts"], h["start"])} for i, h in homes.items()}


def _homes(db: Database, chunk_ids: Sequence[str]) -> dict[str, Row]:
    rows = db.query(
        "SELECT c.id, c.start, d.id AS document, d.path, d.parts FROM chunks c JOIN documents d ON d.id = c.document_id"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        [json.dumps(list(chunk_ids))],
    )
    return {r["id"]: r for r in rows}


def joining(db: Database, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """The relationship between the two entities of each pair."""
    found = "SELECT id, weight, description FROM relationships WHERE (source_id = ? AND target_id = ?) OR (source_id = ? AND target_id = ?)"
    return [row for a, b in pairs for row in db.query(f"{found} LIMIT 1", [a, b, b, a])]
