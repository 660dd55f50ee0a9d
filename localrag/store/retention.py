"""Retention: deletes LLM calls, extractions, backups and runs that the current settings no longer need.

An LLM call is needed if the stored contents would ask for it again under the current settings: about the text of a stored chunk with the
current extraction config, or about stored names, descriptions or reports. Other calls are marked unused and kept for RETENTION_DAYS, so
that trying a model or a prompt and reverting costs nothing. A call with a word that left the documents is deleted at once. `localrag gc`
deletes every unused call.

A run examines only its changes (`gc_queue`), and everything if the settings changed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.records import (
    IN_DOUBT_SUBJECT,
    MULTI_CHUNK_PREFIX,
    QUERY_SUBJECT,
    content_id,
    description_subject,
    report_subject,
    same_entity_subject,
)
from localrag.store import llm_cache, runs
from localrag.store.database import temporary_table
from localrag.store.location import DATABASE_FILE
from localrag.store.tombstones import content_words

RETENTION_DAYS = 30  # for unused LLM calls, and for calls of questions
RETENTION_BYTES = 256 << 20  # limit of unused LLM calls; the oldest are deleted first
BACKUP_PATTERN = f"{DATABASE_FILE}.before-*"
MAX_FREE_PAGE_SHARE = 0.05  # share of free pages that is tolerated: new rows fill it
KEPT_RUNS = 200  # newest runs that are kept
# SQL: bytes of a row, including keys.
_SIZE = "200 + " + " + ".join(f"length(CAST({c} AS BLOB))" for c in ("text", "tokens", "grammar", "sampling"))
# Calls about several chunks, as a range for the index on `subject`.
_IS_MULTI_CHUNK = f"subject >= '{MULTI_CHUNK_PREFIX}' AND subject < '{MULTI_CHUNK_PREFIX[:-1]}!'"
_ESCAPE = re.compile(r"\\[nrtbf]")


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


def collect_garbage(db: Database, today: CurrentConfig, words: set[str], *, everything: bool) -> list[CollectedItems]:
    """Delete LLM calls, extractions and runs beyond their limits, or with removed words: `words` are those of `removed_words`.

    `everything`: delete every unused call and extraction.
    """
    with db.atomic():
        collected_config = runs.load_settings(db).get("gc_config")
        if everything or (collected_config is not None and collected_config != today.settings):
            _mark_all_calls(db, today)
        else:
            _mark_changed_calls(db, today)
        freed = [
            _delete_calls(db, words, everything=everything),
            _delete_extractions(db, today, everything=everything),
            _delete_old_runs(db),
        ]
        _delete_model_decisions(db, words)
        if collected_config != today.settings:
            runs.save_settings(db, gc_config=today.settings)
        db.execute("DELETE FROM gc_queue")
    return [items for items in freed if items.n]


def is_collection_due(db: Database, today: CurrentConfig) -> bool:
    """Whether the settings changed since the last collection, or a document was removed or replaced."""
    has_queue = db.execute("SELECT EXISTS (SELECT 1 FROM gc_queue)").fetchone()[0]
    return bool(has_queue) or runs.load_settings(db).get("gc_config") != today.settings


class _Rollback(Exception):
    """Rolls a transaction back."""


def preview_collection(db: Database, today: CurrentConfig, words: set[str]) -> list[CollectedItems]:
    """The items that `collect_garbage` with `everything` would delete, without deleting them."""
    freed: list[CollectedItems] = []
    with suppress(_Rollback), db.atomic():
        freed = collect_garbage(db, today, words, everything=True)
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


# Marking unused calls


def _mark_all_calls(db: Database, today: CurrentConfig) -> None:
    texts = _texts(db) if today.extraction_hash else ()
    multi_chunk = _multi_chunk_subjects(db) if today.is_abstractive else ()
    with _needed_subjects(db, chain(texts, multi_chunk)):
        markable = f"subject NOT IN ('', '{IN_DOUBT_SUBJECT}', '{QUERY_SUBJECT}')"
        _mark_unused_answers(db, today, f"{markable} AND NOT ({_IS_MULTI_CHUNK})" if _is_unfinished(db) else markable)


def _is_unfinished(db: Database) -> bool:
    """Whether the last run did not complete: the next run needs the calls for its unpublished graph again."""
    run = runs.last_run(db)
    return not runs.load_settings(db).get("graph_hash") or (run is not None and run["state"] not in ("complete", "partial"))


def _mark_changed_calls(db: Database, today: CurrentConfig) -> None:
    """Update the marks of calls about removed texts, and of calls about several chunks."""
    queued = "SELECT value FROM gc_queue WHERE kind = 'text'"
    with _needed_subjects(db, _stored(db, {text for (text,) in db.execute(queued)}) if today.extraction_hash else ()):
        is_lost = f"subject IN ({queued}) AND subject NOT IN (SELECT subject FROM temp.needed_subjects)"
        db.execute(f"DELETE FROM llm_call_subjects WHERE {is_lost}")
        other = "SELECT o.subject FROM llm_call_subjects o WHERE o.call_key = llm_calls.key"
        db.execute(f"UPDATE llm_calls SET subject = ({other} LIMIT 1) WHERE {is_lost} AND EXISTS ({other})")
        _mark_unused_answers(db, today, f"subject IN ({queued})")
    with _needed_subjects(db, _multi_chunk_subjects(db) if today.is_abstractive else ()):
        _mark_unused_answers(db, today, _IS_MULTI_CHUNK)


@contextmanager
def _needed_subjects(db: Database, subjects: Iterable[str]) -> Iterator[None]:
    """Create a temporary table with the subjects whose LLM calls are still needed."""
    with temporary_table(db, "needed_subjects", "(subject TEXT PRIMARY KEY) WITHOUT ROWID"):
        db.conn.executemany("INSERT OR IGNORE INTO temp.needed_subjects VALUES (?)", ((subject,) for subject in subjects))
        yield


def _mark_unused_answers(db: Database, today: CurrentConfig, selected: str) -> None:
    """Set `unused_since` on calls that became unneeded, and clear it on those needed again."""
    other_subjects = (
        "SELECT 1 FROM llm_call_subjects o JOIN temp.needed_subjects n ON n.subject = o.subject WHERE o.call_key = llm_calls.key"
    )
    needed = f"(subject IN (SELECT subject FROM temp.needed_subjects) OR EXISTS ({other_subjects}))"
    used = f"(model = :model AND config_hash IN ('', :config_hash) AND {needed})"  # empty: from an older localrag, or about several chunks
    since = f"CASE WHEN {used} THEN NULL ELSE CURRENT_DATE END"
    values = {"model": today.model, "config_hash": today.extraction_hash}
    db.execute(f"UPDATE llm_calls SET unused_since = {since} WHERE {selected} AND (unused_since IS NULL) <> {used}", values)


def _texts(db: Database) -> Iterator[str]:
    for table in ("main.chunks", "main.staged_chunks"):
        for (text,) in db.execute(f"SELECT text FROM {table}"):
            yield content_id(text)


def _stored(db: Database, texts: set[str]) -> set[str]:
    """The given content ids of texts that a stored chunk still has."""
    if not texts:
        return texts
    if runs.load_settings(db).get("chunk_embedding_text") != "bare":  # otherwise the content hashes of the vectors are those of the texts
        return texts & set(_texts(db))
    select = "SELECT content_hash FROM {} WHERE kind = 'chunk' AND content_hash IN (SELECT value FROM json_each(:texts))"
    union = " UNION ".join(map(select.format, ("embeddings", "staged_embeddings")))
    return {text for (text,) in db.execute(union, {"texts": json.dumps(sorted(texts))})}


def _multi_chunk_subjects(db: Database) -> Iterator[str]:
    """The subjects about several chunks that the current graph and reports need."""
    for name, descriptions in db.execute("SELECT name, descriptions FROM entities"):
        yield description_subject(name, json.loads(descriptions))
    named = "JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id"
    for first, second, descriptions in db.execute(f"SELECT a.name, b.name, r.descriptions FROM relationships r {named}"):
        yield description_subject(f"{first} and {second}", json.loads(descriptions))
    for (key,) in db.execute("SELECT input_hash FROM reports UNION SELECT input_hash FROM staged_reports"):
        yield report_subject(key)
    yield from _pairs(db)


def _pairs(db: Database) -> Iterator[str]:
    """The subjects of calls that compare two names, if both names still exist."""
    names = {content_id("name", name): name for (name,) in db.execute("SELECT name FROM entities UNION SELECT alias FROM entity_aliases")}
    for (subject,) in db.execute(f"SELECT DISTINCT subject FROM llm_calls WHERE {_IS_MULTI_CHUNK} AND task = 'same'"):
        first, _, second = subject.removeprefix(MULTI_CHUNK_PREFIX).partition(" ")
        if first in names and second in names:
            yield same_entity_subject(names[first], names[second])


# Deleting


def _delete_calls(db: Database, removed_words: set[str], *, everything: bool) -> CollectedItems:
    """Delete unused calls: with removed words, beyond the limits, or all; and old calls of questions."""
    ids = _calls_with_words(db, removed_words)
    old = f"date('now', '-{RETENTION_DAYS} days')"
    ids |= {n for (n,) in db.execute(f"SELECT rowid FROM llm_calls WHERE subject = '{QUERY_SUBJECT}' AND created_at < {old}")}
    total = 0
    for n, size, is_old in db.execute(
        f"SELECT rowid, {_SIZE}, unused_since < {old} FROM llm_calls WHERE unused_since IS NOT NULL ORDER BY unused_since DESC, rowid DESC"
    ):
        total += size
        if everything or is_old or total > RETENTION_BYTES:
            ids.add(n)
    if not ids:
        return CollectedItems("answers", 0, 0)
    chosen, values = "rowid IN (SELECT value FROM json_each(?))", [json.dumps(sorted(ids))]
    n, size = db.execute(f"SELECT count(*), sum({_SIZE}) FROM llm_calls WHERE {chosen}", values).fetchone()
    before, more = runs.load_settings(db).get("collected_llm_usage", {}), llm_cache.llm_usage_of(db, chosen, values)
    runs.save_settings(db, collected_llm_usage={name: value + before.get(name, 0) for name, value in more.items()})
    db.execute(f"DELETE FROM llm_call_subjects WHERE call_key IN (SELECT key FROM llm_calls WHERE {chosen})", values)
    db.execute(f"DELETE FROM llm_calls WHERE {chosen}", values)
    return CollectedItems("answers", n, size)


def _calls_with_words(db: Database, removed_words: set[str]) -> set[int]:
    """The rowids of unused calls, and of calls with unknown use, that contain one of these words."""
    if not removed_words:
        return set()
    doubtful = f"SELECT rowid, text FROM llm_calls WHERE subject IN ('', '{QUERY_SUBJECT}')"
    rows = chain(db.execute(doubtful), db.execute("SELECT rowid, text FROM llm_calls WHERE unused_since IS NOT NULL"))
    return {n for n, text in rows if not removed_words.isdisjoint(content_words(_ESCAPE.sub(" ", text)))}


def _delete_extractions(db: Database, today: CurrentConfig, *, everything: bool) -> CollectedItems:
    """Delete extractions whose config hash has been unused for RETENTION_DAYS, or all unused ones."""
    settings = runs.load_settings(db)
    unused_since = settings.get("unused_config_hashes", {})
    if not everything and not unused_since and settings.get("gc_config") == today.settings:
        return CollectedItems("extractions", 0, 0)
    (today_date, old) = db.execute(f"SELECT date('now'), date('now', '-{RETENTION_DAYS} days')").fetchone()
    unused = [
        config_hash
        for (config_hash,) in db.execute("SELECT DISTINCT config_hash FROM extractions")
        if config_hash not in today.graph_hashes
    ]
    since = {config_hash: unused_since.get(config_hash, today_date) for config_hash in unused}
    expired = [config_hash for config_hash, day in since.items() if everything or day < old]
    chosen, values = "config_hash IN (SELECT value FROM json_each(?))", [json.dumps(expired)]
    rows = f"SELECT count(*), coalesce(sum(length(CAST(result AS BLOB)) + 60), 0) FROM extractions WHERE {chosen}"
    n, size = db.execute(rows, values).fetchone() if expired else (0, 0)
    if expired:
        db.execute(f"DELETE FROM extractions WHERE {chosen}", values)
    remaining = {config_hash: day for config_hash, day in since.items() if config_hash not in expired}
    if remaining != unused_since:
        runs.save_settings(db, unused_config_hashes=remaining)
    return CollectedItems("extractions", n, size)


def _delete_old_runs(db: Database) -> CollectedItems:
    size = "sum(length(CAST(engine_metrics AS BLOB)) + length(CAST(progress AS BLOB)) + 100)"
    old = f"id <= (SELECT max(id) FROM runs) - {KEPT_RUNS}"
    n, freed = db.execute(f"SELECT count(*), coalesce({size}, 0) FROM runs WHERE {old}").fetchone()
    if n:
        db.execute(f"DELETE FROM runs WHERE {old}")
    return CollectedItems("runs", n, freed)


def _delete_model_decisions(db: Database, removed_words: set[str]) -> None:
    """Delete merge decisions of a model about names with a removed word; decisions of the user are in the user's file."""
    settings = runs.load_settings(db)
    by_model = settings.get("llm_same_entity", {}).get("pairs", [])
    affected = [pair for pair in by_model if any(not removed_words.isdisjoint(content_words(name)) for name in pair)]
    if affected:
        for key, name in (("llm_same_entity", "pairs"), ("merge_decisions", "same")):
            value = settings.get(key, {})
            runs.save_settings(db, **{key: value | {name: [pair for pair in value.get(name, []) if pair not in affected]}})


# Files beside the database


def unused_backups(folder: Path, now: float) -> list[Path]:
    """The backups to delete: all but the newest, and the newest if it is older than RETENTION_DAYS."""
    backups = sorted(folder.glob(BACKUP_PATTERN), key=lambda f: f.stat().st_mtime, reverse=True)
    retained = [f for f in backups[:1] if now - f.stat().st_mtime < RETENTION_DAYS * 86_400]
    return [f for f in backups if f not in retained]
