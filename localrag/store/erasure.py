"""Erasing documents, conversations and studies, so that no byte of their text is left in any file of the index.

Deleted is whatever had the removed text in its prompt. Kept are model answers about chunks that still exist, summaries that the rebuilt
graph needs, and conversations and review cells whose quotes all stand in remaining documents.

Studies are folders of the user with a copy of the index, which earlier versions made. An index may come from somebody else, so a folder
that it names is opened only if the index, a note on this machine and the record in the folder agree that it is its study. Only files that
localrag wrote are deleted.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import IndexBusy, LocalragError
from localrag.records import IN_DOUBT_SUBJECT, MULTI_CHUNK_PREFIX, QUERY_SUBJECT
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import reviews, runs
from localrag.store.database import folder_of, rebuildable_files
from localrag.store.documents import delete_file_stats
from localrag.store.entity_network import update_cache_files
from localrag.store.full_text import merge_segments
from localrag.store.location import DATABASE_FILE
from localrag.store.opening import open_index
from localrag.store.staging import GRAPH_TABLES
from localrag.store.tombstones import contains_removed_sentence, contains_removed_words, delete_tombstones, holds_text, removed_paths
from localrag.system.files import cache_dir
from localrag.system.trust import is_trust_known

STUDY_RECORD_FILE = "study.json"
STUDY_FILES = ("questions.json", "answers.jsonl", "statements.jsonl", "verdicts.jsonl", "results.json", "report.html", STUDY_RECORD_FILE)
STUDY_DATABASE_FILES = tuple(f"{DATABASE_FILE}{ending}" for ending in ("", "-wal", "-shm", "-journal", ".part"))
COPY_FILES = ("domain.toml", "domain.toml.before", "writer.lock", *STUDY_DATABASE_FILES)
MAX_RECORD_BYTES = 1 << 20


def own_studies(db: Database) -> list[Path]:
    """The folders with studies made of this index on this machine. No other folder is read."""
    return [study for study in named_studies(db) if _is_own(db, study)]


def unproven_studies(db: Database) -> list[Path]:
    """The existing folders that the index names as studies without proof that they are."""
    return [study for study in named_studies(db) if not _is_own(db, study) and study.exists()]


def named_studies(db: Database) -> list[Path]:
    """The folders that the index names as its studies, unverified."""
    paths = runs.load_settings(db).get("studies", [])
    return [Path(p) for p in paths if isinstance(p, str)] if isinstance(paths, list) else []


def _is_own(db: Database, study: Path) -> bool:
    index_id = runs.load_settings(db).get("id")
    if not isinstance(index_id, str) or not is_trust_known("study", index_id, str(study)):
        return False
    if study.resolve() != study or (study / "index").is_symlink():  # a link replaced it
        return False
    record = _record(study)
    if record.get("index_id") != index_id or not isinstance(record.get("index"), str):
        return False
    source, folder = Path(record["index"]), folder_of(db).resolve()
    return source == folder or not _has_id(source, index_id)  # the index was moved; otherwise this index is a copy


def _has_id(folder: Path, index_id: str) -> bool:
    try:
        db = open_index(folder)
    except LocalragError:
        return False
    try:
        return bool(runs.load_settings(db).get("id") == index_id)
    finally:
        db.close()


def _record(study: Path) -> dict[str, Any]:
    """The record in a study's folder; empty if it is missing or cannot be read."""
    file = study / STUDY_RECORD_FILE
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_RECORD_BYTES:
            return {}
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def index_copies(db: Database) -> Iterator[Database]:
    """Open the copies of the index in its studies, skipping damaged ones and those of another version."""
    for study in own_studies(db):
        with suppress(LocalragError):
            yield open_index(study / "index")


def delete_study(study: Path) -> list[Path]:
    """Delete the files of a study that localrag wrote, and its folders if they are then empty; returns the files that stay."""
    inner = study / "index"
    backups = inner.glob(f"{DATABASE_FILE}.before-*")
    files = (
        [study / name for name in STUDY_FILES if name != STUDY_RECORD_FILE]
        + [inner / name for name in COPY_FILES]
        + [*rebuildable_files(inner), *backups]
    )
    for file in [*files, study / STUDY_RECORD_FILE]:  # the record last, so that an interrupted deletion can go on
        with suppress(OSError):  # a folder of that name belongs to the user
            file.unlink(missing_ok=True)
    for folder in (inner, study):
        with suppress(OSError):  # it holds files of the user
            folder.rmdir()
    return sorted(p for p in study.rglob("*") if not p.is_dir() or p.is_symlink())


def delete_documents(db: Database, paths: Sequence[str]) -> None:
    """Delete documents and mark model answers about several chunks as doubtful until `scrub_files`. Nothing is rebuilt here."""
    with db.atomic():
        for path in paths:
            documents_store.remove_document(db, path)
        multi_chunk = f"subject = '' OR subject LIKE '{MULTI_CHUNK_PREFIX}%'"
        db.execute(f"UPDATE llm_calls SET subject = ? WHERE {multi_chunk}", [IN_DOUBT_SUBJECT])  # reset for calls the new graph uses
        delete_file_stats(db, paths)
        db.execute("DELETE FROM failures")
        below = "SELECT 1 FROM json_each(?) d WHERE d.value = s.path OR substr(d.value, 1, length(s.path) + 1) = s.path || '/'"
        db.execute(f"DELETE FROM skipped_files AS s WHERE EXISTS ({below})", [json.dumps(list(paths))])
        runs.save_settings(db, pending_erasure=True)
        db.execute("DELETE FROM index_settings WHERE key IN ('graph_hash', 'reports_state', 'graph_embeddings_hash')")


def delete_graph(db: Database) -> None:
    """Delete the graph and all model answers, when no document is left."""
    with db.atomic():
        for table in (*reversed(GRAPH_TABLES), "llm_calls", "answers", "review_cells", "embeddings"):
            db.execute(f"DELETE FROM {table}")


def is_erasure_pending(db: Database) -> bool:
    """Whether documents were deleted and traces of them remain."""
    return bool(runs.load_settings(db).get("pending_erasure"))


def delete_derived_text(db: Database) -> None:
    """Delete model answers, decisions and conversations that may rest on deleted documents. Call it after the graph is rebuilt."""
    is_left_over, removed = contains_removed_words(db), removed_paths(db)
    with db.atomic():
        stored = json.dumps(sorted(set(chunks_store.text_subjects(db))))
        is_kept = f"subject LIKE '{MULTI_CHUNK_PREFIX}%' OR subject IN (SELECT value FROM json_each(?))"
        db.execute(f"DELETE FROM llm_calls WHERE NOT ({is_kept})", [stored])
        _delete_decisions(db, is_left_over)
        doomed = {
            conversation
            for conversation, answer in db.execute("SELECT conversation, answer_json FROM answers").fetchall()
            if not _rests_on_remaining_documents(db, json.loads(answer), removed, is_left_over)
        }
        db.execute("DELETE FROM answers WHERE conversation IN (SELECT value FROM json_each(?))", [json.dumps(sorted(doomed))])
        reviews.delete_cells_without(db, lambda quote: _is_still_stored(db, quote))


def _delete_decisions(db: Database, is_left_over: Callable[[str], bool]) -> None:
    """Delete merge decisions about names that no document contains any more."""
    lists = runs.load_settings(db).get("merge_decisions", {})
    remaining = {name: [pair for pair in pairs if not any(map(is_left_over, pair))] for name, pairs in lists.items()}
    if remaining != lists:
        runs.save_settings(db, merge_decisions=remaining)


def _rests_on_remaining_documents(db: Database, answer: dict[str, Any], removed: set[str], is_left_over: Callable[[str], bool]) -> bool:
    """Whether an answer cites only documents that stay, with quotes that stand in them, and has no word that only removed ones had."""
    sources = [*answer["citations"], *answer["passages"]]
    quotes = [source["quote"] if "quote" in source else source["text"] for source in sources]
    if not answer["citations"] or any(source["path"] in removed for source in sources):
        return False
    texts = [value for value in answer.values() if isinstance(value, str)]
    return not any(map(is_left_over, texts)) and all(_is_still_stored(db, quote) for quote in quotes)


def _is_still_stored(db: Database, quote: str) -> bool:
    return holds_text(db, quote) or bool(db.execute("SELECT 1 FROM documents WHERE instr(text, ?) LIMIT 1", [quote]).fetchone())


def delete_studies(db: Database) -> list[tuple[Path, list[Path]]]:
    """Delete the studies whose copy of the index has deleted documents or a sentence of one; returns each folder with the files left."""
    stored, is_left_over = set(documents_store.document_hashes(db)), contains_removed_sentence(db)
    affected = [p for p in own_studies(db) if any(path not in stored or is_left_over(text) for path, text in _copied_documents(p))]
    deleted = [(study, delete_study(study)) for study in affected]
    runs.save_settings(db, studies=[str(p) for p in named_studies(db) if p not in affected and p.exists()])
    return deleted


def _copied_documents(study: Path) -> list[tuple[str, str]]:
    """The documents of a study's copy of the index, as (path, text); [("", "")] if the copy cannot be read."""
    copy = study / "index" / "index.db"
    if not copy.exists():
        return []
    try:
        db = Database(copy)
        try:
            return db.execute("SELECT path, text FROM documents").fetchall()
        finally:
            db.close()
    except sqlite3.DatabaseError:  # cut off or damaged
        return [("", "")]


def scrub_files(db: Database, folder: Path) -> bool:
    """Vacuum the database, truncate its WAL, and delete its backups and caches.

    Returns False if another process still reads the old state: the WAL keeps it until the next call.
    """
    delete_tombstones(db)
    documents_store.delete_unused_ocr_pages(db, unfinished=True)
    merge_segments(db)
    is_complete = _vacuum_and_delete_copies(db, folder, rebuildable_files(folder))
    update_cache_files(db)  # rebuilt: the old vector index had a trace of every deleted vector
    if is_complete:
        runs.save_settings(db, pending_erasure=False)
    return is_complete


def _vacuum_and_delete_copies(db: Database, folder: Path, caches: Sequence[Path] = ()) -> bool:
    """Remove deleted text from free pages, the WAL, backups of the database and cached prompt prefixes; False if the WAL is in use."""
    db.conn.commit()
    db.execute("VACUUM")
    ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # waits for readers up to the lock timeout
    prefixes = cache_dir() / "prefixes"  # a shared prompt prefix may contain text of a document
    for file in [*caches, *folder.glob("index.db.before-*")] + [f for f in prefixes.rglob("*") if f.is_file()]:
        file.unlink(missing_ok=True)
    for kind in prefixes.glob("*"):
        with suppress(OSError):  # in use by another process
            kind.rmdir()
    return not busy


def erase_conversations(db: Database, folder: Path, numbers: Sequence[int]) -> None:
    """Delete conversations and every copy of their text, including those left by an earlier call.

    All LLM calls for questions go, because a call does not record its question; the studies' copies of the index lose the same questions.
    Raises IndexBusy if another process still reads the old state: the WAL keeps the text until the next call.
    """
    chosen = json.dumps(list(numbers))
    rows = db.execute("SELECT question FROM answers WHERE conversation IN (SELECT value FROM json_each(?))", [chosen])
    questions = json.dumps([question for (question,) in rows])
    with db.atomic():
        _delete_question_calls(db, "conversation", chosen)
        runs.save_settings(db, pending_conversation_erasure=True)
    is_complete = _vacuum_and_delete_copies(db, folder)
    for copy in index_copies(db):
        _delete_question_calls(copy, "question", questions)
        is_complete = _vacuum_and_delete_copies(copy, folder_of(copy)) and is_complete
        copy.close()
    if not is_complete:
        raise IndexBusy(
            f"Another process is reading the index in {folder}, so its log still contains what was deleted.",
            "End that process, then: localrag sessions rm",
        )
    runs.save_settings(db, pending_conversation_erasure=False)


def _delete_question_calls(db: Database, column: str, values: str) -> None:
    with db.atomic():
        db.execute(f"DELETE FROM answers WHERE {column} IN (SELECT value FROM json_each(?))", [values])
        db.execute("DELETE FROM llm_calls WHERE subject = ?", [QUERY_SUBJECT])


def is_conversation_erasure_pending(db: Database) -> bool:
    """Whether conversations were deleted and their text may remain in the WAL."""
    return bool(runs.load_settings(db).get("pending_conversation_erasure"))
