"""Tombstones: paths and hashed words of removed or replaced documents, until an erasure has deleted every text derived from them.

The words are hashed, so that no text can be read from them. They count once no document has the path.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path

from sqlite_utils import Database

from localrag.text.sentences import STOP_WORDS, cjk_bigrams, sentences

_WORD_PATTERN = re.compile(r"[^\W_]{2,}")
MIN_SENTENCE_WORDS = 3  # content words of a sentence that is taken for one of a document


def record_removal(db: Database, path: str) -> bool:
    """Record the path and the hashed words of a document that is about to be removed or replaced; returns whether there is one."""
    row = db.execute("SELECT title, text, metadata, parts FROM documents WHERE path = ?", [path]).fetchone()
    if row is None:
        return False
    title, text, metadata, parts = row
    title = title if title != Path(path).stem else ""
    texts = [title, text, *(value for _, value in json.loads(metadata)), *(part[0] for part in json.loads(parts))]
    _add_words(db, path, {_word_hash(word) for text in texts for word in content_words(text)})
    return True


def move_tombstones(db: Database, paths: Mapping[str, str]) -> None:
    """Let what is recorded of moved documents (old path → new path) follow them."""
    recorded = {new: _words_at(db, old) for old, new in paths.items()}
    db.conn.executemany("DELETE FROM removed_documents WHERE path = ?", ((old,) for old in paths))
    for path, words in recorded.items():
        if words:
            _add_words(db, path, words)


def _words_at(db: Database, path: str) -> set[int]:
    rows = db.execute("SELECT words FROM removed_documents WHERE path = ?", [path])
    return {number for (words,) in rows for number in array("q", words)}


def _add_words(db: Database, path: str, hashes: set[int]) -> None:
    words = array("q", sorted(hashes | _words_at(db, path))).tobytes()
    db.execute("INSERT OR REPLACE INTO removed_documents VALUES (?, ?)", [path, words])


_REMOVED = "removed_documents WHERE path NOT IN (SELECT path FROM documents)"


def removed_paths(db: Database) -> set[str]:
    """The paths of the documents removed since the last erasure."""
    return {path for (path,) in db.execute(f"SELECT path FROM {_REMOVED}")}


def delete_tombstones(db: Database) -> None:
    """Delete the tombstones of removed documents after an erasure; those of replaced contents stay until their path is removed."""
    with db.atomic():
        db.execute(f"DELETE FROM {_REMOVED}")


def _removed_hashes(db: Database) -> set[int]:
    return {number for (words,) in db.execute(f"SELECT words FROM {_REMOVED}") for number in array("q", words)}


def contains_removed_words(db: Database) -> Callable[[str], bool]:
    """A predicate: does a text contain a word that only removed documents had?"""
    removed_hashes = _removed_hashes(db)

    @cache
    def is_removed(word: str) -> bool:
        return _word_hash(word) in removed_hashes and not _is_stored(db, word)

    return lambda text: any(map(is_removed, content_words(text)))


def contains_removed_sentence(db: Database) -> Callable[[str], bool]:
    """A predicate: does a text contain a sentence of which removed documents had every word, and that no stored chunk has?"""
    removed_hashes = _removed_hashes(db)

    def is_removed(sentence: str) -> bool:
        words = content_words(sentence)
        return len(words) >= MIN_SENTENCE_WORDS and removed_hashes.issuperset(map(_word_hash, words)) and not holds_text(db, sentence)

    return lambda text: any(is_removed(text[span.start : span.end]) for span in sentences(text))


def content_words(text: str) -> set[str]:
    """The words of a text in lower case without stop words; character bigrams for Chinese, Japanese and Korean."""
    words = {w for w in map(str.lower, _WORD_PATTERN.findall(text)) if w not in STOP_WORDS and not cjk_bigrams(w)}
    return words | set(cjk_bigrams(text).split())


def _word_hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


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
