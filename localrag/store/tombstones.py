"""Tombstones: paths and hashed words of removed or replaced documents, until an erasure has deleted every text derived from them.

The words are hashed, so that no text can be read from them. `was_replaced`: of a path, its content was replaced by another; of a word, it
left the index only by such replacements.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

from sqlite_utils import Database

from localrag.records import content_id
from localrag.text.sentences import STOP_WORDS, cjk_bigrams

# 1 if the words of replaced contents count.
_EDITS = "SELECT coalesce(max(was_replaced), 0) FROM removed_documents WHERE path NOT IN (SELECT path FROM documents)"
_WORD_PATTERN = re.compile(r"[^\W_]{2,}")


def record_removal(db: Database, path: str, *, edited: bool) -> None:
    """Record the path and the hashed words of a document that is about to be removed or replaced; nothing for an unknown path."""
    rows = db.query("SELECT title, text, metadata, parts FROM documents WHERE path = ?", [path])
    for row in rows:
        title = row["title"] if row["title"] != Path(path).stem else ""
        texts = [title, row["text"], *(value for _, value in json.loads(row["metadata"])), *(p[0] for p in json.loads(row["parts"]))]
        hashes = {_word_hash(word) for text in texts for word in content_words(text)}
        _queue_for_collection(db, path, {word for text in texts for word in content_words(text)})
        insert = "INSERT INTO removed_documents VALUES (?, ?)"
        db.execute(f"{insert} ON CONFLICT DO UPDATE SET was_replaced = max(was_replaced, excluded.was_replaced)", [path, edited])
        insert = "INSERT INTO removed_words SELECT value, ? FROM json_each(?) WHERE true"
        insert += " ON CONFLICT DO UPDATE SET was_replaced = min(was_replaced, excluded.was_replaced)"
        db.execute(insert, [edited, json.dumps(sorted(hashes))])


def _queue_for_collection(db: Database, path: str, words: set[str]) -> None:
    """Queue the words and the chunk texts of a document for `retention.collect_garbage` at the end of the run."""
    texts = db.execute("SELECT c.text FROM documents d JOIN chunks c ON c.document_id = d.id WHERE d.path = ?", [path])
    rows = [("text", content_id(text)) for (text,) in texts] + [("word", word) for word in words]
    db.conn.executemany("INSERT OR IGNORE INTO gc_queue VALUES (?, ?)", rows)


def removed_paths(db: Database) -> set[str]:
    """The paths of the documents removed since the last erasure."""
    return {row["path"] for row in db.query("SELECT path FROM removed_documents WHERE path NOT IN (SELECT path FROM documents)")}


def delete_tombstones(db: Database) -> None:
    """Delete the tombstones after an erasure; those of replaced contents only if `contains_removed_words` counted them."""
    with db.atomic():
        db.execute(f"DELETE FROM removed_words WHERE was_replaced <= ({_EDITS})")
        db.execute(f"DELETE FROM removed_documents WHERE was_replaced <= ({_EDITS}) OR path NOT IN (SELECT path FROM documents)")


def contains_removed_words(db: Database) -> Callable[[str], bool]:
    """A predicate: does a text contain a word that only removed documents had?

    Words of replaced contents count only if a removed document was edited before; otherwise they belong to documents that stay.
    """
    removed_hashes = {number for (number,) in db.execute(f"SELECT word_hash FROM removed_words WHERE was_replaced <= ({_EDITS})")}

    @cache
    def is_removed(word: str) -> bool:
        return _word_hash(word) in removed_hashes and not _is_stored(db, word)

    return lambda text: any(map(is_removed, content_words(text)))


def content_words(text: str) -> set[str]:
    """The words of a text in lower case without stop words; character bigrams for Chinese, Japanese and Korean."""
    words = {w for w in map(str.lower, _WORD_PATTERN.findall(text)) if w not in STOP_WORDS and not cjk_bigrams(w)}
    return words | set(cjk_bigrams(text).split())


def _word_hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def removed_words(db: Database) -> set[str]:
    """The words that left the index since the last `retention.collect_garbage` and that no stored document has."""
    return {word for (word,) in db.execute("SELECT value FROM gc_queue WHERE kind = 'word'").fetchall() if not _is_stored(db, word)}


def _is_stored(db: Database, word: str) -> bool:
    """Whether a stored document has exactly this word: the full-text index knows stems only."""
    return any(word in content_words(text) for text in _matching(db, word))


def holds_text(db: Database, text: str) -> bool:
    """Whether a stored chunk contains a text verbatim; True for a text without words."""
    if not content_words(text) and not _WORD_PATTERN.search(text):
        return True
    return any(text in stored for stored in _matching(db, text))


def _matching(db: Database, phrase: str) -> Iterator[str]:
    """The texts of chunks that may contain a phrase."""
    if cjk_bigrams(phrase):
        rows = db.execute("SELECT text FROM chunks WHERE instr(text, ?)", [phrase])
    else:
        quoted = phrase.replace('"', '""')
        stored = "JOIN chunks_fts_rows r ON r.row = chunks_fts.rowid JOIN chunks c ON c.id = r.chunk_id"  # only rows of stored chunks
        rows = db.execute(f"SELECT c.text FROM chunks_fts {stored} WHERE chunks_fts MATCH ?", [f'text : "{quoted}"'])
    return (text for (text,) in rows)
