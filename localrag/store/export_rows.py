"""Row iterators over the tables of an index, for exports and views.

Each reader is a cursor, so that the index never has to fit in memory. Related ids come as lists in the row. The order of rows depends on
the stored values alone.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any

from sqlite_utils import Database

from localrag.records import Report
from localrag.store.browse import part_at
from localrag.store.graph import report_of
from localrag.text.sentences import SPLITTER_VERSION, cached_sentences

ExportRow = dict[str, Any]


def _query_rows(db: Database, sql: str, lists: tuple[str, ...] = (), values: ExportRow | None = None) -> Iterator[ExportRow]:
    """The rows of a query as dicts; the columns in `lists` are parsed from JSON."""
    cursor = db.execute(sql, values or {})
    names = [column[0] for column in cursor.description]
    for record in cursor:
        row = dict(zip(names, record, strict=True))
        for name in lists:
            row[name] = json.loads(row[name]) if row[name] else []
        yield row


def documents(db: Database) -> Iterator[ExportRow]:
    """Documents by path: id, path, title, text, added_at, metadata (pairs), parts, chunk_ids."""
    chunks = "(SELECT json_group_array(id) FROM (SELECT id FROM chunks c WHERE c.document_id = d.id ORDER BY c.ordinal)) AS chunk_ids"
    select = f"SELECT d.id, d.path, d.title, d.text, d.added_at, d.metadata, d.parts, {chunks} FROM documents d ORDER BY d.path"
    return _query_rows(db, select, lists=("metadata", "parts", "chunk_ids"))


def chunks(db: Database) -> Iterator[ExportRow]:
    """Chunks by path and position: id, document_id, ordinal, start, end, text, tokens, part, entity_ids, relationship_ids, claim_ids."""
    distinct = "(SELECT json_group_array({0}) FROM (SELECT DISTINCT {0} FROM {1} WHERE chunk_id = c.id ORDER BY 1))"
    claims = "SELECT chunk_id, json_group_array(id) AS ids FROM (SELECT chunk_id, id FROM claims ORDER BY 1, span_start, id) GROUP BY 1"
    for row in _query_rows(
        db,
        f"SELECT c.id, c.document_id, c.ordinal, c.start, c.end, c.text, c.tokens, d.parts, {distinct.format('entity_id', 'mentions')} AS"
        f" entity_ids, {distinct.format('relationship_id', 'evidence')} AS relationship_ids, k.ids AS claim_ids"
        f" FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN ({claims}) k ON k.chunk_id = c.id ORDER BY d.path, c.ordinal",
        lists=("parts", "entity_ids", "relationship_ids", "claim_ids"),
    ):
        part = part_at(row.pop("parts"), row["start"])
        yield row | {"part": part}


def entities(db: Database) -> Iterator[ExportRow]:
    """Entities, highest degree first: id, name, type, description, degree, x, y, r, mentions; lists: descriptions, names, chunk_ids.

    `x`, `y`, `r` are None without a layout; `mentions` is their number.
    """
    return _query_rows(
        db,
        "SELECT e.id, e.name, e.type, e.description, e.degree, p.x, p.y, p.r, e.descriptions,"
        " (SELECT json_group_array(alias) FROM (SELECT alias FROM entity_aliases WHERE entity_id = e.id ORDER BY 1)) AS names,"
        " (SELECT json_group_array(chunk_id) FROM (SELECT DISTINCT chunk_id FROM mentions WHERE entity_id = e.id ORDER BY 1)) AS chunk_ids,"
        " (SELECT count(*) FROM mentions WHERE entity_id = e.id) AS mentions"
        " FROM entities e LEFT JOIN entity_positions p ON p.entity_id = e.id ORDER BY e.degree DESC, e.name, e.id",
        lists=("descriptions", "names", "chunk_ids"),
    )


def unique_entity_titles(db: Database) -> dict[str, str]:
    """Entity id → a unique name: of entities with the same name, all but the first get their type or a number appended."""
    titles: dict[str, str] = {}
    taken: set[str] = set()
    for key, name, kind in db.execute("SELECT id, name, type FROM entities ORDER BY degree DESC, name, id"):
        title, n = name, 2
        if title in taken:
            title = f"{name} ({kind})"
        while title in taken:
            title, n = f"{name} ({n})", n + 1
        taken.add(title)
        titles[key] = title
    return titles


def relationships(db: Database) -> Iterator[ExportRow]:
    """Relationships, the heaviest first: id, source_id, target_id, description, weight, strength, degrees, descriptions, chunk_ids.

    `degrees` is the sum of both entities' degrees.
    """
    chunk_ids = "SELECT DISTINCT chunk_id FROM evidence WHERE relationship_id = r.id ORDER BY 1"
    return _query_rows(
        db,
        "SELECT r.id, r.source_id, r.target_id, r.description, r.weight, r.strength, a.degree + b.degree AS degrees, r.descriptions,"
        f" (SELECT json_group_array(chunk_id) FROM ({chunk_ids})) AS chunk_ids"
        " FROM relationships r JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id ORDER BY r.weight DESC, r.id",
        lists=("descriptions", "chunk_ids"),
    )


def claims(db: Database) -> Iterator[ExportRow]:
    """Claims by path and position, with the text of their span as `quote`; `object_id` may be None."""
    return _query_rows(
        db,
        "SELECT k.id, k.chunk_id, c.document_id, k.subject_id, k.object_id, k.type, k.status, k.start_date AS since,"
        " k.end_date AS until, k.description, k.span_start AS start, k.span_end AS end,"
        " substr(c.text, k.span_start - c.start + 1, k.span_end - k.span_start) AS quote FROM claims k JOIN chunks c ON c.id = k.chunk_id"
        " JOIN documents d ON d.id = c.document_id ORDER BY d.path, k.span_start, k.id",
    )


def communities(db: Database) -> Iterator[ExportRow]:
    """Communities, the coarsest first: id, level, ordinal, parent_id, x, y, r, entity_ids, relationship_ids, chunk_ids.

    Relationships are those with both entities in the community, chunks those that support one of them.
    """
    inner = (
        "SELECT r.id FROM community_members m JOIN relationships r ON r.source_id = m.entity_id"
        " JOIN community_members o ON o.community_id = m.community_id AND o.entity_id = r.target_id WHERE m.community_id = c.id"
    )
    return _query_rows(
        db,
        "SELECT c.id, c.level, c.ordinal, c.parent_id, p.x, p.y, p.r,"
        " (SELECT json_group_array(entity_id) FROM"
        " (SELECT entity_id FROM community_members WHERE community_id = c.id ORDER BY 1)) AS entity_ids,"
        f" (SELECT json_group_array(id) FROM ({inner} ORDER BY 1)) AS relationship_ids,"
        " (SELECT json_group_array(chunk_id) FROM (SELECT DISTINCT v.chunk_id FROM evidence v"
        f" WHERE v.relationship_id IN ({inner}) ORDER BY 1)) AS chunk_ids"
        " FROM communities c LEFT JOIN community_positions p ON p.community_id = c.id ORDER BY c.level, c.ordinal",
        ("entity_ids", "relationship_ids", "chunk_ids"),
    )


def reports(db: Database) -> Iterator[tuple[ExportRow, Report]]:
    """Reports in the order of their communities, each with the community's id, level and ordinal."""
    columns = "r.community_id, r.input_hash, r.title, r.summary, r.rating, r.rating_explanation, r.findings, r.markdown"
    join = "FROM reports r JOIN communities c ON c.id = r.community_id ORDER BY c.level, c.ordinal"
    for row in _query_rows(db, f"SELECT c.id, c.level, c.ordinal, {columns} {join}"):
        community = {name: row.pop(name) for name in ("id", "level", "ordinal")}
        yield community, report_of(row)


def mention_pairs(db: Database) -> Iterator[ExportRow]:
    """The number of mentions of each entity in each chunk: chunk_id, entity_id, mentions."""
    return _query_rows(db, "SELECT chunk_id, entity_id, count(*) AS mentions FROM mentions GROUP BY 1, 2 ORDER BY 1, 2")


def mentions(db: Database) -> Iterator[ExportRow]:
    """Every mention: entity_id, chunk_id, name as written, start, end."""
    return _query_rows(db, "SELECT entity_id, chunk_id, name, start, end FROM mentions ORDER BY 1, 2, 4, 5")


def evidence(db: Database) -> Iterator[ExportRow]:
    """The spans that support relationships: relationship_id, chunk_id, start, end."""
    return _query_rows(db, "SELECT relationship_id, chunk_id, start, end FROM evidence ORDER BY 1, 2, 3, 4")


def community_members(db: Database) -> Iterator[ExportRow]:
    """The members of communities: entity_id, community_id, level, number (`1.4`)."""
    return _query_rows(
        db,
        "SELECT m.entity_id, m.community_id, c.level, c.level || '.' || c.ordinal AS number FROM community_members m"
        " JOIN communities c ON c.id = m.community_id ORDER BY 1, 3, 2",
    )


def root_communities(db: Database) -> dict[str, int]:
    """Entity id → the number of its coarsest community, 0 for the largest."""
    joined = "community_members m JOIN communities c ON c.id = m.community_id"
    return dict(db.execute(f"SELECT m.entity_id, c.ordinal FROM {joined} WHERE c.level = 0"))


def entities_of_document(db: Database, document_id: str, limit: int) -> list[ExportRow]:
    """The entities that a document mentions, the most frequent first: id, mentions, and the total number of entities."""
    return list(
        _query_rows(
            db,
            "SELECT m.entity_id AS id, count(*) AS mentions, count(*) OVER () AS total FROM mentions m JOIN chunks c ON c.id = m.chunk_id"
            " WHERE c.document_id = :id GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :limit",
            values={"id": document_id, "limit": limit},
        )
    )


def first_mention_quotes(db: Database, entity_id: str, limit: int) -> list[ExportRow]:
    """The sentences with the first mention of an entity in each chunk: document, path, part, start, end, quote."""
    rows = _query_rows(
        db,
        "SELECT d.id AS document, d.path, d.parts, min(m.start) AS first, c.start AS at, c.text, s.spans FROM mentions m"
        " JOIN chunks c ON c.id = m.chunk_id JOIN documents d ON d.id = c.document_id"
        f" LEFT JOIN sentence_spans s ON s.chunk_id = c.id AND s.splitter_version = {SPLITTER_VERSION}"
        " WHERE m.entity_id = :id GROUP BY c.id ORDER BY d.path, first LIMIT :most",
        values={"id": entity_id, "most": limit},
    )
    quotes: dict[tuple[str, int], ExportRow] = {}  # overlapping chunks may share a sentence
    for row in rows:
        spans = cached_sentences(row["text"]) if row["spans"] is None else struct.iter_unpack("<2I", row["spans"])
        offset = row["first"] - row["at"]
        a, b = next(((a, b) for a, b in spans if a <= offset < b), (0, len(row["text"])))
        start, end = row["at"] + a, row["at"] + b
        location = {k: row[k] for k in ("document", "path")} | {"part": part_at(row["parts"], start), "start": start, "end": end}
        quotes.setdefault((row["document"], start), location | {"quote": row["text"][a:b]})
    return list(quotes.values())


def community_sizes(db: Database) -> Iterator[tuple[str, str | None, int]]:
    """Communities, the coarsest first: id, parent id, number of entities."""
    size = "(SELECT count(*) FROM community_members WHERE community_id = c.id)"
    yield from db.execute(f"SELECT c.id, c.parent_id, {size} FROM communities c ORDER BY c.level, c.ordinal")


def newest_document_time(db: Database) -> str | None:
    """The time the newest document was added; None without documents."""
    newest = db.execute("SELECT max(added_at) FROM documents").fetchone()[0]
    return None if newest is None else str(newest)


def community_levels(db: Database) -> list[int]:
    """The existing levels of communities."""
    return [n for (n,) in db.execute("SELECT DISTINCT level FROM communities ORDER BY 1")]


def document_titles(db: Database) -> Iterator[ExportRow]:
    """Documents by path, without their texts: id, path, title, metadata (pairs)."""
    return _query_rows(db, "SELECT id, path, title, metadata FROM documents ORDER BY path", lists=("metadata",))
