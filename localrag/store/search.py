"""Full-text search over chunks (FTS5, BM25), with character bigrams for Chinese, Japanese and Korean."""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from sqlite_utils import Database

from localrag.store import ledger
from localrag.store.bm25 import best_passages, passages_with
from localrag.store.selection import Selected
from localrag.text.plain import FUNCTION_WORDS, cjk_bigrams

MOST_WORDS = 8  # of a query that are searched for
TOKENIZER = "porter unicode61 remove_diacritics 2"  # of `chunk_search`; a migration goes with another
AT_ONCE = 20_000  # chunks whose full-text index is written anew at once
STEP = 4_000  # pages of it that are merged at a time
LONGEST = 400  # words of a query that are looked at
MATCHED = 100_000  # chunks that are scored for a query, some 0.1 s
WIDER = 10  # times as many of these as are asked for are scored by the common words too
_WORD = re.compile(r"[^\W_]+")


def search_chunks(db: Database, query: str, k: int) -> list[tuple[str, float]]:
    """The `k` chunks that match most words of `query`, best first, as (chunk id, BM25 score, higher is better)."""
    every = dict.fromkeys(w for w in _WORD.findall(query) if not cjk_bigrams(w))
    count = dict[str, int]()  # how many chunks have a word: looked up once, as that goes through all of them
    words = _rarest(db, [w for w in every if w.lower() not in FUNCTION_WORDS] or list(every), count)
    bigrams = _rarest(db, list(dict.fromkeys(cjk_bigrams(query).split())), count)
    if isinstance(db, Selected):
        phrases = zip([*(["text"] * len(words)), *(["cjk"] * len(bigrams))], _tokens([*words, *bigrams]), strict=True)
        return best_passages(db, [(column, tokens) for column, tokens in phrases if tokens], k)
    terms = {w: f'text : "{w}"' for w in words} | {b: f'cjk : "{b}"' for b in bigrams}
    if not terms:
        return []
    few = _few(db, list(terms), count)
    if not few:
        return []
    rare, match = " OR ".join(terms[w] for w in few), " OR ".join(terms.values())
    scored = "SELECT rowid, -rank FROM chunk_search WHERE chunk_search MATCH ?"  # what else is in a row takes longer to read
    if len(few) == len(terms):
        return _with_ids(db, db.execute(f"{scored} ORDER BY rank LIMIT ?", [match, k]).fetchall())
    first = dict(db.execute(f"{scored} ORDER BY rank LIMIT ?", [rare, WIDER * k]).fetchall())
    # The rare words count twice here. +: not one query for each row, each of which would count all chunks with a word.
    among = f"{scored} AND +rowid IN (SELECT value FROM json_each(?))"
    both = [(row, score - first[row]) for row, score in db.execute(among, [f"({rare}) AND ({match})", json.dumps(list(first))])]
    return _with_ids(db, sorted(both, key=lambda pair: -pair[1])[:k])


def _with_ids(db: Database, scored: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
    """Rows of the full-text index with their scores → the ids of their chunks with these, in the same order."""
    rows = db.execute(
        "SELECT row, chunk_id FROM chunk_rows WHERE row IN (SELECT value FROM json_each(?))", [json.dumps([r for r, _ in scored])]
    )
    ids = dict(rows.fetchall())
    return [(ids[row], score) for row, score in scored]


def _few(db: Database, words: Sequence[str], count: dict[str, int]) -> Sequence[str]:
    """Of some words those that no more than MATCHED chunks have together, the rarest; at least one. All of them in a small index.

    BM25 takes a microsecond for each chunk that it looks at. A chunk with none of the rare words is hardly among the best. None where each
    word is in more than half of a large index: to BM25 such words are worth next to nothing.
    """
    chunks = db.execute("SELECT coalesce(max(row), 0) FROM chunk_rows").fetchone()[0]
    if chunks <= MATCHED:
        return words
    count |= chunks_with(db, [w for w in words if w not in count])
    order = sorted((w for w in words if count[w]), key=lambda w: (count[w], w))
    if order and 2 * count[order[0]] > chunks:
        return []
    most = sum(total <= MATCHED for total in accumulate(count[w] for w in order))
    return words if most == len(order) else order[: max(1, most)]


def any_chunk_with(db: Database, words: Sequence[str]) -> bool:
    """Whether any one chunk has all of these words."""
    match = " AND ".join(f'text : "{w}"' for w in words)
    if isinstance(db, Selected):
        return bool(
            np.isin(
                [row for (row,) in db.execute("SELECT rowid FROM chunk_search WHERE chunk_search MATCH ?", [match])], db.passages[1]
            ).any()
        )
    return next(iter(db.query("SELECT 1 FROM chunk_search WHERE chunk_search MATCH ? LIMIT 1", [match])), None) is not None


def add_to_search(db: Database, texts: Iterable[tuple[str, str]]) -> None:
    """Make the texts of chunks, as (chunk id, text), findable; those that are already raise an error."""
    with db.atomic():
        for key, text in texts:
            put = "INSERT INTO chunk_search (chunk_id, text, cjk) VALUES (?, ?, ?)"
            row = db.execute(put, [key, text, cjk_bigrams(text)]).lastrowid
            db.execute("INSERT INTO chunk_rows VALUES (?, ?)", [row, key])


def remove_from_search(db: Database, ids: Sequence[str]) -> None:
    """Make chunks no longer findable."""
    gone = [json.dumps(list(ids))]
    mine = "(SELECT row FROM chunk_rows WHERE chunk_id IN (SELECT value FROM json_each(?)))"
    with db.atomic():
        db.execute(f"DELETE FROM chunk_search WHERE rowid IN {mine}", gone)
        db.execute(f"DELETE FROM chunk_rows WHERE row IN {mine}", gone)


def clear_search(db: Database) -> None:
    """Write the full-text index anew: what was deleted stays in its segments until they are merged."""
    with db.atomic():
        db.execute("INSERT INTO chunk_search(chunk_search) VALUES ('optimize')")
        ledger.save_settings(db, search_passes=0)


def clear_search_stepwise(db: Database, *, due: bool) -> None:
    """Take words that were deleted out of the segments of the full-text index: all at once where it is small, else a part at a time.

    `due`: words were deleted since the last call. In a large index the segments are merged STEP pages at a call; such words are out of
    them at the end of a pass that began later, a pass for each STEP pages that the index has.
    """
    passes, begun = ledger.settings(db).get("search_passes") or (0, False)
    if due:
        passes = 1 + begun
    if not passes:
        return
    if db.execute("SELECT count(*) FROM (SELECT 1 FROM chunk_rows LIMIT ?)", [AT_ONCE + 1]).fetchone()[0] <= AT_ONCE:
        clear_search(db)
        return
    with db.atomic():
        before = db.conn.total_changes
        db.execute("INSERT INTO chunk_search(chunk_search, rank) VALUES ('merge', ?)", [STEP if begun else -STEP])
        ended = db.conn.total_changes - before < 2  # as SQLite's documentation has it
        ledger.save_settings(db, search_passes=[passes - ended, not ended])


def sqlite_version() -> tuple[str, bool]:
    """The version of SQLite, and whether it has FTS5."""
    db = Database(memory=True)
    try:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    except sqlite3.OperationalError:
        return sqlite3.sqlite_version, False
    finally:
        db.close()
    return sqlite3.sqlite_version, True


def chunks_with(db: Database, words: Sequence[str]) -> dict[str, int]:
    """For each word (a CJK one: a pair of characters), how many chunks have it in any of its forms."""
    stem = _stems([w for w in words if not cjk_bigrams(w)]) | {w: w for w in words if cjk_bigrams(w)}
    if isinstance(db, Selected):
        return {w: passages_with(db, stem.get(w, w)) for w in words}
    found = "SELECT term, doc FROM chunk_terms WHERE term IN (SELECT value FROM json_each(?))"
    count = {row["term"]: row["doc"] for row in db.query(found, [json.dumps(sorted(set(stem.values())))])}
    return {w: count.get(stem.get(w, w), 0) for w in words}


def _rarest(db: Database, words: Sequence[str], count: dict[str, int]) -> Sequence[str]:
    """At most MOST_WORDS words, those that fewest chunks have: they decide the score, and common ones take most of the time."""
    if len(words) <= MOST_WORDS:
        return words
    looked_up = chunks_with(db, words[:LONGEST])
    count |= looked_up
    known = [w for w in looked_up if count[w]] or list(looked_up)
    return sorted(known, key=lambda w: (count[w], w))[:MOST_WORDS]


def _stems(words: Sequence[str]) -> dict[str, str]:
    """The form of each word that the full-text index has it in; of one that it takes apart, its first part."""
    return {w: tokens[0] for w, tokens in zip(words, _tokens(words), strict=True) if tokens}


def _tokens(words: Sequence[str]) -> list[list[str]]:
    """Each word as the full-text index has it, folded and cut by SQLite's own tokenizer, which may take it apart."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(word, tokenize = '{TOKENIZER}')")
    db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(t, instance)")
    db.executemany("INSERT INTO t (rowid, word) VALUES (?, ?)", enumerate(words))
    found: list[list[str]] = [[] for _ in words]
    for n, term in db.execute('SELECT doc, term FROM stems ORDER BY doc, "offset"'):
        found[n].append(term)
    db.close()
    return found
