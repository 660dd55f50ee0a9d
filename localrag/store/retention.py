"""Retention: deletes LLM calls, extractions, backups and runs that the current settings no longer need.

An LLM call is needed if the stored contents would ask for it again under the current settings: about the text of a stored chunk with the
current extraction config, or about stored names, descriptions or reports. Other calls are marked unused and kept for RETENTION_DAYS, so
that trying a model or a prompt and reverting costs nothing. Once a text was removed or replaced, calls that may have had it in their prompt
are deleted at once: those about nothing stored, and those of questions. `localrag gc` deletes every unused call.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.records import (
    IN_DOUBT_SUBJECT,
    MULTI_CHUNK_PREFIX,
    QUERY_SUBJECT,
    description_subject,
    report_subject,
)
from localrag.store import runs
from localrag.store.chunks import text_subjects
from localrag.store.database import temporary_table
from localrag.store.location import DATABASE_FILE

RETENTION_DAYS = 30  # for unused LLM calls, and for calls of questions
RETENTION_BYTES = 256 << 20  # limit of unused LLM calls; the oldest are deleted first
BACKUP_PATTERN = f"{DATABASE_FILE}.before-*"
MAX_FREE_PAGE_SHARE = 0.05  # share of free pages that is tolerated: new rows fill it
KEPT_RUNS = 200  # newest runs that are kept
# SQL: bytes of a row, including keys.
_SIZE = "200 + " + " + ".join(f"length(CAST({c} AS BLOB))" for c in ("text", "tokens", "grammar", "sampling"))
# Calls about several chunks, as a range for the index on `subject`.
_IS_MULTI_CHUNK = f"subject >= '{MULTI_CHUNK_PREFIX}' AND subject < '{MULTI_CHUNK_PREFIX[:-1]}!'"


@dataclass(frozen=True, slots=True)
class CurrentConfig:
    """The current settings that decide which LLM calls are used: model, extraction config hash (empty without a model), LLM reports."""

    model: str
    extraction_hash: str
    graph_hashes: tuple[str, ...]  # config hashes of the extractions that the graph is built from
    is_abstractive: bool

    @property
    def settings(self) -> list[object]:
        """The values that decide which calls are used, as stored in `gc_config`."""
        return [self.model, *self.graph_hashes, self.is_abstractive]


@dataclass(frozen=True, slots=True)
class CollectedItems:
    """The number of deleted items of a kind, and their size in bytes."""

    kind: str
    n: int
    bytes: int


def collect_garbage(db: Database, today: CurrentConfig, *, everything: bool) -> list[CollectedItems]:
    """Delete LLM calls and runs beyond their limits or about removed texts. `everything`: delete every unused call and extraction."""
    with db.atomic():
        freed = [_collect_calls(db, today, everything=everything), _delete_old_runs(db)]
        if everything:
            freed.append(_delete_extractions(db, today))
        if is_collection_due(db, today):
            runs.save_settings(db, gc_config=today.settings, has_removed_text=False)
    return [items for items in freed if items.n]


def is_collection_due(db: Database, today: CurrentConfig) -> bool:
    """Whether the settings changed since the last collection, or a document was removed or replaced."""
    return has_removed_text(db) or runs.load_settings(db).get("gc_config") != today.settings


def has_removed_text(db: Database) -> bool:
    """Whether a document was removed or replaced since the last collection."""
    return bool(runs.load_settings(db).get("has_removed_text"))


class _Rollback(Exception):
    """Rolls a transaction back."""


def preview_collection(db: Database, today: CurrentConfig) -> list[CollectedItems]:
    """The items that `collect_garbage` with `everything` would delete, without deleting them."""
    freed: list[CollectedItems] = []
    with suppress(_Rollback), db.atomic():
        freed = collect_garbage(db, today, everything=True)
        raise _Rollback
    return freed


def free_pages(db: Database) -> list[CollectedItems]:
    """The free pages of the database's file, if they exceed MAX_FREE_PAGE_SHARE."""
    n, size, pages = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size", "page_count"))
    return [CollectedItems("empty pages", n, n * size)] if n > pages * MAX_FREE_PAGE_SHARE else []


def vacuum_if_fragmented(db: Database) -> None:
    """Vacuum the database if it has many free pages."""
    if free_pages(db):
        db.execute("VACUUM")


def retained_garbage(db: Database, folder: Path) -> dict[str, Any]:
    """The unused LLM calls and the backups that are retained, with their sizes and limits."""
    copies = [f.stat().st_size for f in folder.glob(BACKUP_PATTERN)]
    n, size = db.execute(f"SELECT count(*), coalesce(sum({_SIZE}), 0) FROM llm_calls WHERE unused_since IS NOT NULL").fetchone()
    items = {"unused_answers": n, "unused_answer_bytes": size, "backups": len(copies), "backup_bytes": sum(copies)}
    return {**items, "kept_days": RETENTION_DAYS, "kept_bytes": RETENTION_BYTES}


def _collect_calls(db: Database, today: CurrentConfig, *, everything: bool) -> CollectedItems:
    """Mark the calls that nothing needs, and delete those of them that are about removed texts, beyond the limits, or all."""
    markable = f"subject NOT IN ('', '{IN_DOUBT_SUBJECT}', '{QUERY_SUBJECT}')"
    if _is_unfinished(db):
        markable += f" AND NOT ({_IS_MULTI_CHUNK})"
    with temporary_table(db, "stored_subjects", "(subject TEXT PRIMARY KEY) WITHOUT ROWID"):
        subjects = chain(text_subjects(db), _multi_chunk_subjects(db))
        db.conn.executemany("INSERT OR IGNORE INTO temp.stored_subjects VALUES (?)", ((subject,) for subject in subjects))
        is_stored = "subject IN (SELECT subject FROM temp.stored_subjects)"
        by_config = f"CASE WHEN {_IS_MULTI_CHUNK} THEN :is_abstractive ELSE :config_hash <> '' AND config_hash = :config_hash END"
        used = f"(model = :model AND {by_config} AND {is_stored})"
        values = {"model": today.model, "config_hash": today.extraction_hash, "is_abstractive": today.is_abstractive}
        since = f"CASE WHEN {used} THEN NULL ELSE CURRENT_DATE END"
        db.execute(f"UPDATE llm_calls SET unused_since = {since} WHERE {markable} AND (unused_since IS NULL) <> {used}", values)
        old = f"date('now', '-{RETENTION_DAYS} days')"
        doomed = f"(subject = '{QUERY_SUBJECT}' AND created_at < {old})"
        if has_removed_text(db):
            doomed += f" OR subject IN ('', '{QUERY_SUBJECT}') OR ({markable} AND NOT {is_stored})"
        ids, total = {n for (n,) in db.execute(f"SELECT rowid FROM llm_calls WHERE {doomed}")}, 0
    unused = f"SELECT rowid, {_SIZE}, unused_since < {old} FROM llm_calls WHERE unused_since IS NOT NULL"
    for n, size, is_old in db.execute(f"{unused} ORDER BY unused_since DESC, rowid DESC"):
        total += size
        if everything or is_old or total > RETENTION_BYTES:
            ids.add(n)
    chosen, rowids = "rowid IN (SELECT value FROM json_each(?))", [json.dumps(sorted(ids))]
    n, freed = db.execute(f"SELECT count(*), coalesce(sum({_SIZE}), 0) FROM llm_calls WHERE {chosen}", rowids).fetchone()
    db.execute(f"DELETE FROM llm_calls WHERE {chosen}", rowids)
    return CollectedItems("answers", n, freed)


def _is_unfinished(db: Database) -> bool:
    """Whether the last run did not complete: the next run needs the calls for its unpublished graph again."""
    run = runs.last_run(db)
    return not runs.load_settings(db).get("graph_hash") or (run is not None and run["state"] not in ("complete", "partial"))


def _multi_chunk_subjects(db: Database) -> Iterator[str]:
    """The subjects about several chunks that the current graph and reports need."""
    for name, descriptions in db.execute("SELECT name, descriptions FROM entities"):
        yield description_subject(name, json.loads(descriptions))
    named = "JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id"
    for first, second, descriptions in db.execute(f"SELECT a.name, b.name, r.descriptions FROM relationships r {named}"):
        yield description_subject(f"{first} and {second}", json.loads(descriptions))
    for (key,) in db.execute("SELECT input_hash FROM reports UNION SELECT input_hash FROM staged_reports"):
        yield report_subject(key)


def _delete_extractions(db: Database, today: CurrentConfig) -> CollectedItems:
    """Delete the extractions by other configs than those the graph is built from."""
    chosen, values = "config_hash NOT IN (SELECT value FROM json_each(?))", [json.dumps(today.graph_hashes)]
    size = "coalesce(sum(length(CAST(result AS BLOB)) + 60), 0)"
    n, freed = db.execute(f"SELECT count(*), {size} FROM extractions WHERE {chosen}", values).fetchone()
    if n:
        db.execute(f"DELETE FROM extractions WHERE {chosen}", values)
    return CollectedItems("extractions", n, freed)


def _delete_old_runs(db: Database) -> CollectedItems:
    size = "sum(length(CAST(engine_metrics AS BLOB)) + length(CAST(progress AS BLOB)) + 100)"
    old = f"id <= (SELECT max(id) FROM runs) - {KEPT_RUNS}"
    n, freed = db.execute(f"SELECT count(*), coalesce({size}, 0) FROM runs WHERE {old}").fetchone()
    if n:
        db.execute(f"DELETE FROM runs WHERE {old}")
    return CollectedItems("runs", n, freed)


def unused_backups(folder: Path, now: float) -> list[Path]:
    """The backups to delete: all but the newest, and the newest if it is older than RETENTION_DAYS."""
    backups = sorted(folder.glob(BACKUP_PATTERN), key=lambda f: f.stat().st_mtime, reverse=True)
    retained = [f for f in backups[:1] if now - f.stat().st_mtime < RETENTION_DAYS * 86_400]
    return [f for f in backups if f not in retained]
