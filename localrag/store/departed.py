"""What left the index since the last erasure: the paths, and the words as numbers, of contents that were removed or replaced.

`localrag rm` finds with them what was made of texts that are not stored any more, whichever path those had. Nobody can read a text in
them, and an erasure deletes them. `edited`, of a path: an earlier content of it was replaced; of a word: it left only in that way.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

from sqlite_utils import Database

from localrag.records import content_id
from localrag.text.plain import FUNCTION_WORDS, cjk_bigrams

_EDITS = "SELECT coalesce(max(edited), 0) FROM departed WHERE path NOT IN (SELECT path FROM documents)"  # 1: they count
_WORD = re.compile(r"[^\W_]{2,}")


def note_departure(db: Database, path: str, *, edited: bool) -> None:
    """Remember that the stored content of a path is about to leave, or to be replaced; a no-op for an unknown path."""
    rows = db.query("SELECT title, text, metadata, parts FROM documents WHERE path = ?", [path])
    for row in rows:
        title = row["title"] if row["title"] != Path(path).stem else ""
        said = [title, row["text"], *(value for _, value in json.loads(row["metadata"])), *(p[0] for p in json.loads(row["parts"]))]
        numbers = {_number(word) for text in said for word in words_of(text)}
        _note_leaving(db, path, {word for text in said for word in words_of(text)})
        put = "INSERT INTO departed VALUES (?, ?) ON CONFLICT DO UPDATE SET edited = max(edited, excluded.edited)"
        db.execute(put, [path, edited])
        put = "INSERT INTO departed_words SELECT value, ? FROM json_each(?) WHERE true"
        put += " ON CONFLICT DO UPDATE SET edited = min(edited, excluded.edited)"
        db.execute(put, [edited, json.dumps(sorted(numbers))])


def _note_leaving(db: Database, path: str, words: set[str]) -> None:
    """Remember the words, and the texts of the chunks, until the end of the run: `growth.tidy` looks what of them is stored nowhere."""
    texts = db.execute("SELECT c.text FROM documents d JOIN chunks c ON c.document_id = d.id WHERE d.path = ?", [path])
    rows = [("text", content_id(text)) for (text,) in texts] + [("word", word) for word in words]
    db.conn.executemany("INSERT OR IGNORE INTO leaving VALUES (?, ?)", rows)


def departed_paths(db: Database) -> set[str]:
    """The paths of documents that were removed since the last erasure, by it or before."""
    return {row["path"] for row in db.query("SELECT path FROM departed WHERE path NOT IN (SELECT path FROM documents)")}


def forget_departures(db: Database) -> None:
    """An erasure has taken care of them; of edits only if `leftovers` counted them."""
    with db.atomic():
        db.execute(f"DELETE FROM departed_words WHERE edited <= ({_EDITS})")
        db.execute(f"DELETE FROM departed WHERE edited <= ({_EDITS}) OR path NOT IN (SELECT path FROM documents)")


def leftovers(db: Database) -> Callable[[str], bool]:
    """A function that says of a text whether it has a word that left with a document and that no stored document has.

    Words that left by edits count where one of the removed documents was edited before; else those were of documents that stay.
    """
    gone = {number for (number,) in db.execute(f"SELECT word FROM departed_words WHERE edited <= ({_EDITS})")}

    @cache
    def left_over(word: str) -> bool:
        return _number(word) in gone and not _is_stored(db, word)

    return lambda text: any(map(left_over, words_of(text)))


def words_of(text: str) -> set[str]:
    """The words of a text in small letters that say something; of Chinese, Japanese and Korean every two characters in a row."""
    words = {w for w in map(str.lower, _WORD.findall(text)) if w not in FUNCTION_WORDS and not cjk_bigrams(w)}
    return words | set(cjk_bigrams(text).split())


def _number(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def gone_words(db: Database) -> set[str]:
    """The words that left the documents since `growth.tidy` last looked, and that no stored document has."""
    return {word for (word,) in db.execute("SELECT value FROM leaving WHERE kind = 'word'").fetchall() if not _is_stored(db, word)}


def _is_stored(db: Database, word: str) -> bool:
    """Whether a stored document has a word, just so: the full-text index knows stems only."""
    return any(word in words_of(text) for text in _matching(db, word))


def holds_text(db: Database, text: str) -> bool:
    """Whether a stored document has a text word for word; so it is with one that has no words."""
    if not words_of(text) and not _WORD.search(text):
        return True
    return any(text in stored for stored in _matching(db, text))


def _matching(db: Database, phrase: str) -> Iterator[str]:
    """The texts of chunks that may have a phrase."""
    if cjk_bigrams(phrase):
        rows = db.execute("SELECT text FROM chunks WHERE instr(text, ?)", [phrase])
    else:
        quoted = phrase.replace('"', '""')
        stored = "JOIN chunk_rows r ON r.row = chunk_search.rowid JOIN chunks c ON c.id = r.chunk_id"  # and not on its way out
        rows = db.execute(f"SELECT c.text FROM chunk_search {stored} WHERE chunk_search MATCH ?", [f'text : "{quoted}"'])
    return (text for (text,) in rows)
