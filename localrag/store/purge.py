"""Taking documents out of the database so that no byte of their text is left in any file of the index.

What is kept is what can be shown to rest on the documents that stay: model answers about chunks that are still there or made only of
their words, summaries that the rebuilt graph asks for again, conversations whose quotes all stand in them.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.about import OF_SEVERAL
from localrag.errors import IndexBusy
from localrag.records import OF_A_QUESTION, UNSURE, content_id
from localrag.store import corpus, ledger, scans, studies
from localrag.store.connect import cache_files
from localrag.store.departed import departed_paths, forget_departures, holds_text, leftovers
from localrag.store.network import bring_files_up_to_date
from localrag.store.search import clear_search
from localrag.store.seen import forget_seen
from localrag.store.staged import TABLES
from localrag.system.files import cache_dir

# What models are asked for a question, and may say of it; of an index that was begun by an older localrag the call itself does not tell.
OF_QUESTIONS = ("standalone", "answer", "map", "reduce", "primer", "rate", "questions")
UNPROVED = ("unsupported", "related", "contradicted")  # counts of an answer's sentences that no quote proves
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SENTENCE = re.compile(r"[^.!?。！？\n]{12,}")
_OWN_WORDS = {"name", "type", "items", "answer", "yes", "no", "source", "target", "thing", ""}  # that answers have from us


def forget(db: Database, paths: Sequence[str]) -> None:
    """Delete documents; what models said is in doubt from now on until `finish`. Nothing is rebuilt here."""
    texts = [corpus.document_text(db, path) or "" for path in paths]
    with db.atomic():
        for path in paths:
            corpus.remove_document(db, path)
        _note_studies(db, texts)
        several = f"about = '' OR about LIKE '{OF_SEVERAL}%'"
        db.execute(f"UPDATE llm_calls SET about = ? WHERE {several}", [UNSURE])  # those that the graph is built from are asked for again
        forget_seen(db, paths)
        db.execute("DELETE FROM failures")
        below = "d.value = skipped.path OR substr(d.value, 1, length(skipped.path) + 1) = skipped.path || '/'"
        db.execute(f"DELETE FROM skipped WHERE EXISTS (SELECT 1 FROM json_each(?) AS d WHERE {below})", [json.dumps(list(paths))])
        ledger.save_settings(db, erasing=True)
        db.execute("DELETE FROM settings WHERE key IN ('graph', 'reports', 'graph_vectors')")


def forget_graph(db: Database) -> None:
    """Delete the graph and what models said of it: no document is left."""
    with db.atomic():
        for table in (*reversed(TABLES), "name_vectors", "llm_calls", "also_about", "leaving", "answers"):
            db.execute(f"DELETE FROM {table}")
        db.execute("DELETE FROM embeddings")


def is_due(db: Database) -> bool:
    """Whether documents were forgotten and not every trace of them is gone."""
    return bool(ledger.settings(db).get("erasing"))


def forget_traces(db: Database, kinds: Sequence[str]) -> None:
    """Delete model answers and conversations that may rest on what is gone; once the graph is built from what is left.

    `kinds` are words of ours that answers of models may hold: the entity types.
    """
    is_left_over, gone = leftovers(db), departed_paths(db)
    with db.atomic():
        _forget_calls(db, _OWN_WORDS | set(kinds))
        _forget_decisions(db, is_left_over)
        told = [(n, talk) for n, talk, result in _answers(db) if not _rests_on_what_is_left(db, json.loads(result), gone, is_left_over)]
        ids, talks = json.dumps([n for n, _ in told]), json.dumps(sorted({talk for _, talk in told if talk > 0}))
        db.execute(
            "DELETE FROM answers WHERE id IN (SELECT value FROM json_each(?)) OR conversation IN (SELECT value FROM json_each(?))",
            [ids, talks],
        )


def _forget_decisions(db: Database, is_left_over: Callable[[str], bool]) -> None:
    """Forget what was decided of names that are nowhere any more, by the user or a model."""
    settings = ledger.settings(db)
    for key in ("decisions", "same_by_model"):
        lists = {name: kept for name, kept in settings.get(key, {}).items() if isinstance(kept, list)}
        left = {name: [pair for pair in kept if not any(map(is_left_over, pair))] for name, kept in lists.items()}
        if left != lists:
            ledger.save_settings(db, **{key: settings[key] | left})


def _forget_calls(db: Database, own: set[str]) -> None:
    chunks = {content_id(text) for text in corpus.chunk_texts(db)}
    rows = db.execute(f"SELECT rowid, about, text FROM llm_calls WHERE about <> '' AND about NOT LIKE '{OF_SEVERAL}%'").fetchall()
    kept_for_now = (UNSURE, OF_A_QUESTION)
    gone = [n for n, about, text in rows if about in kept_for_now or (about not in chunks and not _is_all_stored(db, text, own))]
    db.execute("DELETE FROM llm_calls WHERE rowid IN (SELECT value FROM json_each(?))", [json.dumps(gone)])


def _is_all_stored(db: Database, text: str, own: set[str]) -> bool:
    """Whether all that a model said stands in the documents, or is a word of ours."""
    strings = {json.loads(f'"{s}"', strict=False) for s in _STRING.findall(text)} if '"' in text else {text.strip()}
    return all(s in own or holds_text(db, s) for s in strings)


def _answers(db: Database) -> list[tuple[int, int, str]]:
    return db.execute("SELECT id, conversation, result FROM answers").fetchall()


def _rests_on_what_is_left(db: Database, answer: dict[str, Any], gone: set[str], is_left_over: Callable[[str], bool]) -> bool:
    cited = answer["citations"]
    if not cited or any(map(answer.get, UNPROVED)) or gone.intersection(c["path"] for c in cited):
        return False
    said = [value for value in answer.values() if isinstance(value, str)]
    return not any(map(is_left_over, said)) and all(_stands(db, c["quote"]) for c in cited)


def _stands(db: Database, quote: str) -> bool:
    return holds_text(db, quote) or bool(db.execute("SELECT 1 FROM documents WHERE instr(text, ?) LIMIT 1", [quote]).fetchone())


def forget_studies(db: Database) -> list[tuple[Path, list[Path]]]:
    """Delete the studies whose copy of the index has deleted documents; returns their folders, each with the files that stay."""
    with_text, documents = ledger.settings(db).get("studies_with_text", []), set(corpus.document_hashes(db))
    lost = [p for p in studies.own_studies(db) if str(p) in with_text or any(path not in documents for path, _ in _copied(p))]
    gone = [(study, studies.delete(study)) for study in lost]
    left = [str(p) for p in studies.named_studies(db) if p not in lost and p.exists()]
    ledger.save_settings(db, studies=left, studies_with_text=[])
    return gone


def _note_studies(db: Database, texts: Iterable[str]) -> None:
    """Remember the studies that hold a sentence of these texts which no stored document has, under whatever path they have it."""
    sentences = {s for text in texts for part in _SENTENCE.findall(text) if (s := part.strip()) and not holds_text(db, s)}
    holding = [str(p) for p in studies.own_studies(db) if any(s in text for _, text in _copied(p) for s in sentences)]
    ledger.save_settings(db, studies_with_text=sorted({*ledger.settings(db).get("studies_with_text", []), *holding}))


def _copied(study: Path) -> list[tuple[str, str]]:
    """The documents of a study's copy of the index, as (path, text); of one that cannot be read, one without a path."""
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


def finish(db: Database, folder: Path) -> bool:
    """Write the database anew, empty its log, and delete the copies and caches of it.

    False where another process still reads what was: then the log keeps it until the next call.
    """
    forget_departures(db)
    scans.forget_unused(db, unfinished=True)
    with db.atomic():
        db.execute("DELETE FROM leaving")
        db.execute("DELETE FROM also_about WHERE key NOT IN (SELECT key FROM llm_calls)")
    clear_search(db)
    done = _write_anew(db, folder, cache_files(folder))
    bring_files_up_to_date(db)  # made anew: the index file before had a trace of every vector that went
    if done:
        ledger.save_settings(db, erasing=False)
    return done


def _write_anew(db: Database, folder: Path, caches: Sequence[Path] = ()) -> bool:
    """Leave nothing of what was deleted: neither in free pages, the log, copies of the database, nor in KV of beginnings of prompts."""
    db.conn.commit()
    db.execute("VACUUM")
    ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # waits for readers as long as for a lock
    prefixes = cache_dir() / "prefixes"  # beginnings that prompts share may hold a stretch of a text
    for file in [*caches, *folder.glob("index.db.before-*")] + [f for f in prefixes.rglob("*") if f.is_file()]:
        file.unlink(missing_ok=True)
    for kind in prefixes.glob("*"):
        with suppress(OSError):  # another process keeps its own there
            kind.rmdir()
    return not busy


def erase_conversations(db: Database, folder: Path, numbers: Sequence[int]) -> None:
    """Delete conversations and every copy of their text; and those that an earlier call could not.

    Raises IndexBusy where another process still reads what was: they are gone, but the log keeps their text until the next call.
    """
    forget_conversations(db, numbers)
    if not finish_conversations(db, folder):
        raise IndexBusy(
            f"Another process is reading the index in {folder}, so its log still holds what was deleted.",
            "End that process, then: localrag sessions rm",
        )


def forget_conversations(db: Database, numbers: Sequence[int]) -> None:
    """Delete conversations, and all that models were asked for questions: a call does not say which question it was for.

    The copies of the index that studies have lose the same questions. `finish_conversations` is due from now on.
    """
    chosen = json.dumps(list(numbers))
    rows = db.execute("SELECT question FROM answers WHERE conversation IN (SELECT value FROM json_each(?))", [chosen])
    asked = json.dumps([question for (question,) in rows])
    for copy in studies.copies(db):
        _forget_asked(copy, "question", asked)
        copy.close()
    with db.atomic():
        _forget_asked(db, "conversation", chosen)
        ledger.save_settings(db, forgetting=True)


def _forget_asked(db: Database, column: str, values: str) -> None:
    with db.atomic():
        db.execute(f"DELETE FROM answers WHERE {column} IN (SELECT value FROM json_each(?))", [values])
        kinds = json.dumps(OF_QUESTIONS)
        db.execute("DELETE FROM llm_calls WHERE about = ? OR task IN (SELECT value FROM json_each(?))", [OF_A_QUESTION, kinds])


def conversations_are_due(db: Database) -> bool:
    """Whether conversations were deleted and their words may still stand in the log."""
    return bool(ledger.settings(db).get("forgetting"))


def finish_conversations(db: Database, folder: Path) -> bool:
    """As `finish`, of conversations: what the documents gave stays as it is. False where another process still reads what was."""
    done = _write_anew(db, folder)
    for copy in studies.copies(db):
        (path,) = [file for _, name, file in copy.execute("PRAGMA database_list") if name == "main"]
        done = _write_anew(copy, Path(path).parent) and done
        copy.close()
    if done:
        ledger.save_settings(db, forgetting=False)
    return done
