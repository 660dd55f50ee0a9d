"""Full-text search over chunks: FTS5 with BM25, and character bigrams for Chinese, Japanese and Korean.

FTS5 computes word rarity and average length over all its rows, so a filter would change the ranking. Within a `FilteredDatabase` the
inverted index is therefore read here, and FTS5's formula (Robertson et al. 1994, with its k1, b and minimum idf) applied to the matching
chunks.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.store import runs
from localrag.store.filtered import FilteredDatabase
from localrag.text.sentences import STOP_WORDS, cjk_bigrams, is_cjk

K1, B, MIN_IDF = 1.2, 0.75, 1e-6
TokenPhrase = tuple[str, Sequence[str]]  # column, consecutive tokens
RowIds = NDArray[np.int64]


def top_chunks(db: FilteredDatabase, phrases: Sequence[TokenPhrase], k: int) -> list[tuple[str, float]]:
    """The `k` matching chunks with the highest BM25 score for the phrases, best first, as (chunk id, score)."""
    ids, rows, sizes = db.chunks
    score = np.zeros(len(rows))
    length_norm = K1 * (1 - B + B * sizes / max(1e-9, sizes.mean())) if len(rows) else sizes
    for phrase in phrases:
        positions, frequencies = _frequencies(db, phrase)
        rarity = max(MIN_IDF, float(np.log((len(rows) - len(positions) + 0.5) / (len(positions) + 0.5))))
        score[positions] += rarity * frequencies * (K1 + 1) / (frequencies + length_norm[positions])
    scored = np.flatnonzero(score)
    best = scored[np.argsort(-score[scored], kind="stable")][:k]
    return [(ids[n], float(score[n])) for n in best]


def count_chunks_with_token(db: FilteredDatabase, token: str) -> int:
    """The number of matching chunks that have a token, in either column."""
    return len(np.unique(np.r_[tuple(_token_positions(db, token, column)[0] for column in ("text", "cjk"))]))


def _frequencies(db: FilteredDatabase, phrase: TokenPhrase) -> tuple[RowIds, RowIds]:
    """The positions in `db.chunks` of the chunks that have a phrase, and how often each has it."""
    column, tokens = phrase
    positions, offsets = _token_positions(db, tokens[0], column)
    for n, token in enumerate(tokens[1:], 1):
        next_tokens = set(zip(*(array.tolist() for array in _token_positions(db, token, column)), strict=True))
        follows = np.array([(a, b + n) in next_tokens for a, b in zip(positions.tolist(), offsets.tolist(), strict=True)], bool)
        positions, offsets = positions[follows], offsets[follows]
    chunks, frequencies = np.unique(positions, return_counts=True)
    return chunks, frequencies


def _token_positions(db: FilteredDatabase, token: str, column: str) -> tuple[RowIds, RowIds]:
    """The occurrences of a token in a column of the matching chunks: position in `db.chunks`, offset in tokens."""
    cached = db.query_cache.setdefault("instances", {})
    if (token, column) not in cached:
        rows = db.chunks[1]
        cursor = db.execute('SELECT doc, "offset" FROM temp.chunks_fts_instances WHERE term = ? AND col = ?', [token, column])
        rows_found = np.array(cursor.fetchall(), np.int64).reshape(-1, 2)
        position = np.minimum(np.searchsorted(rows, rows_found[:, 0]), max(0, len(rows) - 1))
        inside = rows[position] == rows_found[:, 0] if len(rows) else np.zeros(len(rows_found), bool)
        cached[token, column] = (position[inside], rows_found[inside, 1])
    positions, offsets = cached[token, column]
    return positions, offsets


MAX_QUERY_TERMS = 8  # terms of a query that are searched for
TOKENIZER = "porter unicode61 remove_diacritics 2"  # tokenizer of `chunks_fts`; a change needs a new schema version
REBUILD_BELOW_CHUNKS = 20_000  # at most so many chunks: the index is optimized in one step
MERGE_PAGES = 4_000  # pages merged per call in a larger index
MAX_QUERY_WORDS = 400  # words of a query that are looked up
MAX_SCORED_CHUNKS = 100_000  # chunks scored per query, about 0.1 s
CANDIDATE_FACTOR = 10  # candidates by rare words, per result, that are scored with the common words too
_SEARCH_WORD = re.compile(r"[^\W_]+")


def search_chunks(db: Database, query: str, k: int) -> list[tuple[str, float]]:
    """The `k` chunks that match `query` best, best first, as (chunk id, BM25 score, higher is better)."""
    all_words = dict.fromkeys(w for w in _SEARCH_WORD.findall(query) if not cjk_bigrams(w))
    count = dict[str, int]()  # word → number of chunks, looked up once per query because it scans the index
    words = _rarest_terms(db, [w for w in all_words if w.lower() not in STOP_WORDS] or list(all_words), count)
    bigrams = _rarest_terms(db, list(dict.fromkeys(cjk_bigrams(query).split())), count)
    if isinstance(db, FilteredDatabase):
        phrases = zip([*(["text"] * len(words)), *(["cjk"] * len(bigrams))], _tokens([*words, *bigrams]), strict=True)
        return top_chunks(db, [(column, tokens) for column, tokens in phrases if tokens], k)
    terms = {w: f'text : "{w}"' for w in words} | {b: f'cjk : "{b}"' for b in bigrams}
    if not terms:
        return []
    rare_terms = _rare_terms(db, list(terms), count)
    if not rare_terms:
        return []
    rare, match = " OR ".join(terms[w] for w in rare_terms), " OR ".join(terms.values())
    scored = "SELECT rowid, -rank FROM chunks_fts WHERE chunks_fts MATCH ?"  # no other columns: reading them is slow
    if len(rare_terms) == len(terms):
        return _with_ids(db, db.execute(f"{scored} ORDER BY rank LIMIT ?", [match, k]).fetchall())
    first = dict(db.execute(f"{scored} ORDER BY rank LIMIT ?", [rare, CANDIDATE_FACTOR * k]).fetchall())
    # Rare words count twice here, hence the subtraction. `+` prevents one query per row, each of which would count all chunks.
    among = f"{scored} AND +rowid IN (SELECT value FROM json_each(?))"
    scores = [(row, score - first[row]) for row, score in db.execute(among, [f"({rare}) AND ({match})", json.dumps(list(first))])]
    return _with_ids(db, sorted(scores, key=lambda pair: -pair[1])[:k])


def _with_ids(db: Database, scored: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
    """Replace row numbers of the full-text index by chunk ids, in the same order."""
    rows = db.execute(
        "SELECT row, chunk_id FROM chunks_fts_rows WHERE row IN (SELECT value FROM json_each(?))", [json.dumps([r for r, _ in scored])]
    )
    ids = dict(rows.fetchall())
    return [(ids[row], score) for row, score in scored]


def _rare_terms(db: Database, words: Sequence[str], count: dict[str, int]) -> Sequence[str]:
    """The rarest of the words whose chunks number at most MAX_SCORED_CHUNKS together, at least one; all words in a small index.

    BM25 takes a microsecond per chunk, and a chunk without any rare word is hardly among the best. Empty if each word is in more than half
    of a large index: BM25 gives such words almost no weight.
    """
    chunks = db.execute("SELECT coalesce(max(row), 0) FROM chunks_fts_rows").fetchone()[0]
    if chunks <= MAX_SCORED_CHUNKS:
        return words
    count |= document_frequencies(db, [w for w in words if w not in count])
    order = sorted((w for w in words if count[w]), key=lambda w: (count[w], w))
    if order and 2 * count[order[0]] > chunks:
        return []
    n_rare = sum(total <= MAX_SCORED_CHUNKS for total in accumulate(count[w] for w in order))
    return words if n_rare == len(order) else order[: max(1, n_rare)]


def paths_with_phrase(db: Database, phrase: str) -> set[str]:
    """The paths of the documents that contain the words of a phrase side by side, in any form that the index takes for the same."""
    column, text = ("cjk", cjk_bigrams(phrase)) if is_cjk(phrase) else ("text", phrase.replace('"', " "))
    if not any(map(str.isalnum, text)):
        return set()
    joined = "chunks_fts_rows r JOIN chunks c ON c.id = r.chunk_id JOIN documents d ON d.id = c.document_id"
    matching = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
    return {path for (path,) in db.execute(f"SELECT DISTINCT d.path FROM {joined} WHERE r.row IN ({matching})", [f'{column} : "{text}"'])}


def exists_chunk_with_all(db: Database, words: Sequence[str]) -> bool:
    """Whether at least one chunk has all of these words."""
    match = " AND ".join(f'text : "{w}"' for w in words)
    if isinstance(db, FilteredDatabase):
        return bool(
            np.isin([row for (row,) in db.execute("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?", [match])], db.chunks[1]).any()
        )
    return next(iter(db.query("SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1", [match])), None) is not None


def index_chunks(db: Database, texts: Iterable[tuple[str, str]]) -> None:
    """Add chunks, as (chunk id, text), to the full-text index. Raises an error for a chunk that is already in it."""
    insert = "INSERT INTO chunks_fts (chunk_id, text, cjk) VALUES (?, ?, ?)"
    with db.atomic():  # separate statements: an insert by trigger would end a segment of the index each time
        rows = [(db.execute(insert, [key, text, cjk_bigrams(text)]).lastrowid, key) for key, text in texts]
        db.conn.executemany("INSERT INTO chunks_fts_rows VALUES (?, ?)", rows)


def unindex_chunks(db: Database, ids: Sequence[str]) -> None:
    """Delete chunks from the full-text index."""
    values = [json.dumps(list(ids))]
    rows = "(SELECT row FROM chunks_fts_rows WHERE chunk_id IN (SELECT value FROM json_each(?)))"
    with db.atomic():
        db.execute(f"DELETE FROM chunks_fts WHERE rowid IN {rows}", values)
        db.execute(f"DELETE FROM chunks_fts_rows WHERE row IN {rows}", values)


def rebuild_full_text_index(db: Database) -> None:
    """Merge all segments of the full-text index: deleted words stay in them until then."""
    with db.atomic():
        db.execute("INSERT INTO chunks_fts(chunks_fts) VALUES ('optimize')")
        runs.save_settings(db, fts_merge_passes=0)


def merge_segments(db: Database, *, due: bool) -> None:
    """Remove deleted words from the segments of the full-text index: at once if it is small, else MERGE_PAGES pages per call.

    `due`: words were deleted since the last call. In a large index they are gone after a complete pass that started later; a pass takes one
    call for each MERGE_PAGES pages of the index.
    """
    passes, is_started = runs.load_settings(db).get("fts_merge_passes") or (0, False)
    if due:
        passes = 1 + is_started
    if not passes:
        return
    if (
        db.execute("SELECT count(*) FROM (SELECT 1 FROM chunks_fts_rows LIMIT ?)", [REBUILD_BELOW_CHUNKS + 1]).fetchone()[0]
        <= REBUILD_BELOW_CHUNKS
    ):
        rebuild_full_text_index(db)
        return
    with db.atomic():
        before = db.conn.total_changes
        db.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES ('merge', ?)", [MERGE_PAGES if is_started else -MERGE_PAGES])
        ended = db.conn.total_changes - before < 2  # SQLite's documented test for a finished merge
        runs.save_settings(db, fts_merge_passes=[passes - ended, not ended])


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


def document_frequencies(db: Database, words: Sequence[str]) -> dict[str, int]:
    """Word → number of chunks with any of its inflected forms; CJK words are character bigrams."""
    stem = _stems([w for w in words if not cjk_bigrams(w)]) | {w: w for w in words if cjk_bigrams(w)}
    if isinstance(db, FilteredDatabase):
        return {w: count_chunks_with_token(db, stem.get(w, w)) for w in words}
    sql = "SELECT term, doc FROM chunks_fts_vocab WHERE term IN (SELECT value FROM json_each(?))"
    count = {row["term"]: row["doc"] for row in db.query(sql, [json.dumps(sorted(set(stem.values())))])}
    return {w: count.get(stem.get(w, w), 0) for w in words}


def _rarest_terms(db: Database, words: Sequence[str], count: dict[str, int]) -> Sequence[str]:
    """The MAX_QUERY_TERMS rarest words: they decide the score, and common words take most of the time."""
    if len(words) <= MAX_QUERY_TERMS:
        return words
    frequencies = document_frequencies(db, words[:MAX_QUERY_WORDS])
    count |= frequencies
    present = [w for w in frequencies if count[w]] or list(frequencies)
    return sorted(present, key=lambda w: (count[w], w))[:MAX_QUERY_TERMS]


def _stems(words: Sequence[str]) -> dict[str, str]:
    """Word → its form in the full-text index; the first part if the tokenizer splits it."""
    return {w: tokens[0] for w, tokens in zip(words, _tokens(words), strict=True) if tokens}


def _tokens(words: Sequence[str]) -> list[list[str]]:
    """The tokens of each word, folded and split by SQLite's own tokenizer."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(word, tokenize = '{TOKENIZER}')")
    db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(t, instance)")
    db.executemany("INSERT INTO t (rowid, word) VALUES (?, ?)", enumerate(words))
    tokens: list[list[str]] = [[] for _ in words]
    for n, term in db.execute('SELECT doc, term FROM stems ORDER BY doc, "offset"'):
        tokens[n].append(term)
    db.close()
    return tokens
