"""The staged generation of documents, and its publication in one transaction; chunks that an edit only shifts.

Readers see one generation: documents, chunks, full text, vectors, graph, communities and reports of one state. Changes for the next one are
staged in the `staged_` tables, and the graph in temporary ones (`staging.py`); only the run's own connection sees them. `publish` writes
only rows that differ, so that a small edit is cheap in a large index. LLM calls, extractions and sentences are keyed by their text and
belong to no generation, so a killed run loses nothing expensive.

A new file beside a graph is published at once: nothing refers to it yet. Without a graph everything is published as it comes.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from localrag.records import GraphLayout, Quote, Report
from localrag.store import collections, documents, reviews, runs
from localrag.store import layout as layout_store
from localrag.store.chunks import SUBJECT_IDS
from localrag.store.database import checkpoint_wal
from localrag.store.documents import delete_orphan_file_stats
from localrag.store.entity_network import update_cache_files
from localrag.store.full_text import index_chunks, unindex_chunks
from localrag.store.staging import GraphStaging, StagedRow, clear_changed_chunks
from localrag.store.vectors import VECTOR_KINDS

_ENDING_DOCUMENTS = "SELECT id FROM main.documents WHERE path IN (SELECT path FROM staged_deletions)"
_NEXT_GENERATION_VIEWS = {
    "documents": "SELECT * FROM main.documents WHERE path NOT IN (SELECT path FROM staged_deletions)"
    " UNION ALL SELECT * FROM main.staged_documents",
    "chunks": f"SELECT * FROM main.chunks WHERE document_id NOT IN ({_ENDING_DOCUMENTS}) UNION ALL SELECT * FROM main.staged_chunks",
}

_STAGED_TABLES = {
    "documents": "staged_documents",
    "replaced documents": "staged_deletions",
    "reports": "staged_reports",
    "vectors": "staged_embeddings",
}


@contextmanager
def view_next_generation(db: Database) -> Iterator[None]:
    """Shadow `documents` and `chunks` with views of the next generation on this connection (the writer's)."""
    if db.execute("SELECT count(*) FROM temp.sqlite_master WHERE type = 'view' AND name = 'chunks'").fetchone()[0]:
        yield
        return
    for name, select in _NEXT_GENERATION_VIEWS.items():
        columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({name})"))
        db.execute(f"CREATE TEMP VIEW {name} AS {select.replace('*', columns)}")
    try:
        yield
    finally:
        for name in _NEXT_GENERATION_VIEWS:  # VACUUM would mistake a view for the table of that name
            db.execute(f"DROP VIEW temp.{name}")


def count_staged(db: Database) -> dict[str, int]:
    """The number of staged rows: changed or moved documents, replaced documents, reports, vectors."""
    return {name: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for name, table in _STAGED_TABLES.items()}


def discard_staged(db: Database) -> None:
    """Delete everything staged; the next run makes it again."""
    with db.atomic():
        chunks = [key for (key,) in db.execute("SELECT id FROM staged_chunks")]
        for table in ("staged_chunks", *_STAGED_TABLES.values()):
            db.execute(f"DELETE FROM {table}")
        documents.delete_orphan_chunk_data(db, chunks)


def unchanged_chunks(db: Database) -> set[str]:
    """The published chunks whose documents do not change."""
    changing = "SELECT id FROM staged_documents UNION ALL SELECT id FROM main.documents WHERE path IN (SELECT path FROM staged_deletions)"
    return {key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id NOT IN ({changing})")}


def publish(
    db: Database,
    graph: GraphStaging | None = None,
    *,
    layout: GraphLayout | None = None,
    without_report: Collection[str] | None = None,
    kinds: Iterable[str] = VECTOR_KINDS,
    embedder: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Publish the staged generation in one transaction.

    `graph`: the staged graph and its communities; `layout`: replaces the stored layout. `without_report`: the communities of this
    generation without a report; if None, published reports are kept unless they quote a deleted chunk. `kinds`: the vectors to publish.
    `embedder`: binds the index to it and deletes the vectors of others. `settings`: saved in the same transaction.
    """
    with db.atomic():
        _publish_documents(db)
        if graph is not None:
            graph.publish()
            clear_changed_chunks(db)
        if layout is not None:
            layout_store.save_layout(db, layout)
        if without_report is not None:
            _publish_reports(db, without_report)
        elif graph is not None:
            _delete_stale_reports(db)
        if embedder:
            db.execute("DELETE FROM embeddings WHERE embedder <> ?", [embedder["fingerprint"]])
            runs.save_settings(db, embedder=embedder)
        for kind in kinds:
            _publish_vectors(db, kind)
        for kind in ("entity", "report"):
            db.execute(f"DELETE FROM embeddings WHERE kind = ? AND subject_id NOT IN ({SUBJECT_IDS[kind]})", [kind])
        runs.save_settings(db, **settings)
    checkpoint_wal(db)
    update_cache_files(db)


def _publish_documents(db: Database) -> None:
    removed = [key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id IN ({_ENDING_DOCUMENTS})")]
    staged_ids = {key for (key,) in db.execute("SELECT id FROM staged_chunks")}
    removed = [key for key in removed if key not in staged_ids]
    documents.remove_chunks(db, removed)
    db.execute(f"DELETE FROM main.documents WHERE id IN ({_ENDING_DOCUMENTS}) AND id NOT IN (SELECT id FROM staged_documents)")
    is_stored = "SELECT 1 FROM main.chunks c WHERE c.id = n.id AND c.text = n.text"  # the text differs only if it was damaged
    added = list(db.execute(f"SELECT id, text FROM staged_chunks n WHERE NOT EXISTS ({is_stored})"))
    unindex_chunks(db, [key for key, _ in added])
    for table in ("documents", "chunks"):
        columns = [f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({table})")]
        listed, changed = ", ".join(columns), ", ".join(f"{c} = excluded.{c}" for c in columns[1:])
        insert = f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM staged_{table} WHERE true"
        db.execute(f"{insert} ON CONFLICT (id) DO UPDATE SET {changed}")  # REPLACE would delete the rows that refer to it
    index_chunks(db, added)
    collections.delete_orphan_paths(db)
    reviews.delete_orphan_cells(db)
    delete_orphan_file_stats(db)
    for table in ("staged_chunks", "staged_documents", "staged_deletions"):
        db.execute(f"DELETE FROM {table}")
    documents.delete_orphan_chunk_data(db, removed)


def publish_reports(db: Database) -> None:
    """Publish the staged reports, which must be on communities of the published graph, before a run ends."""
    with db.atomic():
        _publish_reports(db, ())


def _publish_reports(db: Database, without: Collection[str]) -> None:
    ids = [json.dumps(sorted(without))]
    is_removed = "community_id NOT IN (SELECT id FROM communities) OR community_id IN (SELECT value FROM json_each(?))"
    removed = "SELECT community_id FROM main.reports EXCEPT SELECT id FROM communities UNION SELECT value FROM json_each(?)"
    db.execute(f"DELETE FROM main.reports WHERE community_id IN ({removed})", ids)  # without parsing their findings
    db.execute(f"INSERT OR REPLACE INTO reports SELECT * FROM staged_reports WHERE NOT ({is_removed})", ids)
    quotes = "staged_reports r, json_each(r.findings) f, json_each(f.value, '$.quotes') q"
    joined = (
        f"{quotes} JOIN main.chunks c ON c.id = json_extract(q.value, '$.chunk_id') WHERE json_valid(r.findings) AND NOT ({is_removed})"
    )
    db.execute(f"INSERT OR IGNORE INTO report_documents SELECT c.document_id, r.community_id FROM {joined}", ids)
    db.execute("DELETE FROM staged_reports")


def _delete_stale_reports(db: Database) -> None:
    quoted = "json_each(findings) AS f, json_each(f.value, '$.quotes') AS q"
    missing = f"SELECT 1 FROM {quoted} WHERE json_extract(q.value, '$.chunk_id') NOT IN (SELECT id FROM main.chunks)"
    db.execute(f"DELETE FROM reports WHERE CASE WHEN json_valid(findings) THEN EXISTS ({missing}) ELSE true END")


def _publish_vectors(db: Database, kind: str) -> None:
    db.execute(
        "INSERT OR REPLACE INTO embeddings (kind, subject_id, content_hash, embedder, vector, windows)"
        f" SELECT * FROM staged_embeddings WHERE kind = ? AND subject_id IN ({SUBJECT_IDS[kind]})",
        [kind],
    )
    db.execute("DELETE FROM staged_embeddings WHERE kind = ?", [kind])


_ENDING_WITH_REPLACEMENT = "main.documents d JOIN staged_deletions g ON g.path = d.path"


@dataclass(frozen=True, slots=True)
class ChunkShift:
    """The id of a chunk's text in the next generation, and its offset in characters from the old position."""

    chunk_id: str
    offset: int


def shifted_chunks(db: Database) -> dict[str, ChunkShift]:
    """Published chunk id → its shift, if its path has a chunk of the same text in the next generation."""
    number = "row_number() OVER (PARTITION BY d.path, c.text ORDER BY c.ordinal) AS n"
    before = f"SELECT d.path, c.text, {number}, c.id, c.start FROM {_ENDING_WITH_REPLACEMENT} JOIN main.chunks c ON c.document_id = d.id"
    now = f"SELECT d.path, c.text, {number}, c.id, c.start FROM main.staged_documents d JOIN main.staged_chunks c ON c.document_id = d.id"
    rows = db.execute(f"SELECT b.id, a.id, a.start - b.start FROM ({before}) b JOIN ({now}) a USING (path, text, n)")
    return {key: ChunkShift(new_id, offset) for key, new_id, offset in rows}


def changed_subjects(staged: GraphStaging, table: str, shifted: Mapping[str, ChunkShift]) -> set[str]:
    """The subjects (first column) whose rows in `mentions` or `evidence` differ from the published ones, ignoring shifts."""
    before, now = staged.changed_rows(table)
    count = Counter(_shifted(row, shifted) for row in before)
    count.subtract(Counter(now))
    return {row[0] for row, difference in count.items() if difference}


def _shifted(row: StagedRow, shifted: Mapping[str, ChunkShift]) -> StagedRow:
    shift = shifted.get(row[1])
    return row if shift is None else (row[0], shift.chunk_id, row[2] + shift.offset, row[3] + shift.offset, *row[4:])


def reports_quoting_ended_chunks(db: Database) -> dict[str, set[str]]:
    """Community id → the ending chunks that its published report quotes."""
    quotes = "main.reports r, json_each(r.findings) f, json_each(f.value, '$.quotes') q"
    key = "json_extract(q.value, '$.chunk_id')"
    ending = (
        f"SELECT c.id FROM {_ENDING_WITH_REPLACEMENT} JOIN main.chunks c ON c.document_id = d.id WHERE "
        f"c.id NOT IN (SELECT id FROM staged_chunks)"
    )
    communities = "SELECT q.community_id FROM report_documents q JOIN main.documents d ON d.id = q.document_id"
    communities += " WHERE d.path IN (SELECT path FROM staged_deletions)"
    chunks_of: dict[str, set[str]] = {}
    where = f"r.community_id IN ({communities}) AND json_valid(r.findings) AND {key} IN ({ending})"
    for community, chunk in db.execute(f"SELECT DISTINCT r.community_id, {key} FROM {quotes} WHERE {where}"):
        chunks_of.setdefault(community, set()).add(chunk)
    return chunks_of


def shifted_report(report: Report, shifted: Mapping[str, ChunkShift]) -> Report:
    """A report with its quotes moved to the shifted chunks."""

    def shifted_quote(quote: Quote) -> Quote:
        shift = shifted.get(quote.chunk_id)
        return (
            quote
            if shift is None
            else replace(quote, chunk_id=shift.chunk_id, start=quote.start + shift.offset, end=quote.end + shift.offset)
        )

    return replace(report, findings=tuple(replace(f, quotes=tuple(map(shifted_quote, f.quotes))) for f in report.findings))
