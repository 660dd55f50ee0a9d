"""In how many sentences about entities and relationships each word is: what titles of reports stand out against.

Words are stored as hashes: the counts stay for a while when a document is edited, what it said must not.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from hashlib import blake2b

from sqlite_utils import Database

from localrag.records import Chunk
from localrag.store import corpus
from localrag.store.staged import AMONG, Staged
from localrag.text.plain import chunk_sentences, squeeze

KEPT = 200_000  # words whose counts are not looked up again
_ALL = ""  # the word that stands for all sentences


def count_words(staged: Staged, words_of: Callable[[str], Set[str]]) -> None:
    """Count anew, each sentence once however often it is written; document by document."""
    counts, total, seen = Counter[str](), 0, set[int]()
    for (document,) in staged.db.execute("SELECT id FROM documents").fetchall():
        for text in _told(staged, corpus.chunks_of(staged.db, document)):
            if hash(text) not in seen:
                seen.add(hash(text))
                total += 1
                counts.update(words_of(text))
    with staged.db.atomic():
        staged.db.execute("DELETE FROM title_words")
        rows = [(_key(word), n) for word, n in counts.items() if n > 1]
        staged.db.conn.executemany("INSERT INTO title_words VALUES (?, ?)", [(_key(_ALL), total), *rows])


def words(db: Database) -> tuple[Callable[[Collection[str]], Mapping[str, int]], int]:
    """How to look up in how many sentences words are, of those in more than one; and how many sentences there are."""
    known: dict[str, int] = {}

    def counts(asked: Collection[str]) -> dict[str, int]:
        if len(known) > KEPT:
            known.clear()
        keys = {_key(word): word for word in asked if word not in known}
        rows = db.execute(f"SELECT word, sentences FROM title_words WHERE word {AMONG}", [json.dumps(list(keys))]) if keys else ()
        known.update(dict.fromkeys(keys.values(), 0))
        known.update({keys[key]: n for key, n in rows})
        return {word: n for word in asked if (n := known.get(word, 0))}

    return counts, counts([_ALL]).get(_ALL, 0)


def _key(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little", signed=True)


def _told(staged: Staged, chunks: Collection[Chunk]) -> Iterator[str]:
    """The sentences of chunks that mention an entity or state a relationship."""
    starts: dict[str, set[tuple[int, int]]] = {}
    keys = [json.dumps([c.id for c in chunks])]
    for table, end in (("mentions", "t.start"), ("evidence", "t.end")):
        for chunk, first, last in staged.rows(table, f"t.chunk_id {AMONG}", keys, f"t.chunk_id, t.start, {end}"):
            starts.setdefault(chunk, set()).add((first, last))
    for chunk in chunks:
        spans = chunk_sentences(chunk.text)
        begins = [span.start for span in spans]
        told = set[int]()
        for first, last in starts.get(chunk.id, ()):
            at = max(0, bisect_right(begins, first - chunk.start) - 1)
            told.update(range(at, max(at, bisect_right(begins, max(first, last - 1) - chunk.start) - 1) + 1))
        for n in sorted(told):
            yield squeeze(chunk.text[slice(*spans[n])])
