"""Full-text search over chunks: FTS5 with BM25, and character bigrams for Chinese, Japanese and Korean.

Within a `FilteredDatabase` only matching chunks are found; how rare words are is that of the whole index.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import accumulate

from sqlite_utils import Database

from localrag.store.filtered import FilteredDatabase
from localrag.store.query_terms import (
    SearchTerm,
    compound_terms,
    corrections,
    inflected_forms,
    plain_words,
    quoted_phrases,
    stem_words,
)
from localrag.text.sentences import cjk_bigrams, is_cjk

MAX_QUERY_TERMS = 8  # terms of a query that are searched for
OPTIMIZED_CHUNKS = 20_000  # of a larger index only `rm` and `gc` remove deleted words at once
MAX_QUERY_WORDS = 400  # words of a query that are looked up
MAX_SCORED_CHUNKS = 100_000  # chunks scored per query, about 0.1 s
CANDIDATE_FACTOR = 10  # candidates by rare words, per result, that are scored with the common words too


def search_chunks(db: Database, query: str, k: int, language: str = "en") -> list[tuple[str, float]]:
    """The `k` chunks that match `query` best, best first, as (chunk id, BM25 score, higher is better). `language`: two-letter code."""
    count = dict[SearchTerm, int]()  # looked up once per query because it scans the index
    terms = _search_terms(db, query, language, count)
    inside = _filter_condition(db)
    rare_terms = terms if inside else _rare_terms(db, terms, count)
    if not rare_terms:
        return []
    rare, match = " OR ".join(t.expression for t in rare_terms), " OR ".join(t.expression for t in terms)
    scored = f"SELECT rowid, -rank FROM chunks_fts WHERE chunks_fts MATCH ?{inside}"  # no other columns: reading them is slow
    if len(rare_terms) == len(terms):
        return _with_ids(db, db.execute(f"{scored} ORDER BY rank LIMIT ?", [match, k]).fetchall())
    first = dict(db.execute(f"{scored} ORDER BY rank LIMIT ?", [rare, CANDIDATE_FACTOR * k]).fetchall())
    # Rare words count twice here, hence the subtraction. `+` prevents one query per row, each of which would count all chunks.
    among = f"{scored} AND +rowid IN (SELECT value FROM json_each(?))"
    scores = [(row, score - first[row]) for row, score in db.execute(among, [f"({rare}) AND ({match})", json.dumps(list(first))])]
    return _with_ids(db, sorted(scores, key=lambda pair: -pair[1])[:k])


def _filter_condition(db: Database) -> str:
    """SQL that restricts a full-text query to the documents of a filter; empty without one."""
    return " AND +rowid IN (SELECT row FROM temp.selected_rows)" if isinstance(db, FilteredDatabase) else ""


def _search_terms(db: Database, query: str, language: str, count: dict[SearchTerm, int]) -> list[SearchTerm]:
    """The rarest words of a query in their forms, its rarest bigrams, its identifiers and its quoted phrases."""
    words, bigrams = plain_words(query)
    words, tokens = words[:MAX_QUERY_WORDS], stem_words(words[:MAX_QUERY_WORDS])

    def occurs(word: str) -> bool:
        return exists_chunk_with_all(db, [word])

    corrected = corrections(db, words, tokens, _n_chunks(db), occurs)
    forms = {w: corrected.get(w, (w,)) for w in words}
    chosen = _rarest_terms(db, [SearchTerm("text", forms[w]) for w in words], count)
    inflected = inflected_forms(db, {w: tokens[w] for w in words if w in tokens and SearchTerm("text", (w,)) in chosen}, language, occurs)
    pairs = _rarest_terms(db, [SearchTerm("cjk", (b,)) for b in bigrams[:MAX_QUERY_WORDS]], count)
    phrases = [t for t in (*compound_terms(query), *quoted_phrases(query)) if " " in t.alternatives[0]]
    in_all_forms = [SearchTerm("text", inflected.get(t.alternatives[0], t.alternatives)) for t in chosen]
    return list(dict.fromkeys([*in_all_forms, *pairs, *phrases[:MAX_QUERY_TERMS]]))


def _n_chunks(db: Database) -> int:
    return int(db.execute("SELECT coalesce(max(row), 0) FROM chunks_fts_rows").fetchone()[0])


def chunks_matching(db: Database, required: Sequence[SearchTerm], excluded: Sequence[SearchTerm]) -> set[str]:
    """The chunks that have all the required terms and none of the excluded ones."""
    rows = "SELECT r.chunk_id FROM chunks_fts_rows r"
    having = "r.row IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?)"
    conditions = [having] * len(required) + [f"NOT {having}"] * len(excluded)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return {chunk for (chunk,) in db.execute(rows + where, [t.expression for t in (*required, *excluded)])}


def _with_ids(db: Database, scored: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
    """Replace row numbers of the full-text index by chunk ids, in the same order."""
    rows = db.execute(
        "SELECT row, chunk_id FROM chunks_fts_rows WHERE row IN (SELECT value FROM json_each(?))", [json.dumps([r for r, _ in scored])]
    )
    ids = dict(rows.fetchall())
    return [(ids[row], score) for row, score in scored]


def _rare_terms(db: Database, terms: Sequence[SearchTerm], count: dict[SearchTerm, int]) -> Sequence[SearchTerm]:
    """The rarest of the terms whose chunks number at most MAX_SCORED_CHUNKS together, at least one; all terms in a small index.

    BM25 takes a microsecond per chunk, and a chunk without any rare term is hardly among the best. Empty if each term is in more than half
    of a large index: BM25 gives such terms almost no weight.
    """
    chunks = _n_chunks(db)
    if chunks <= MAX_SCORED_CHUNKS:
        return terms
    count |= _term_counts(db, [t for t in terms if t not in count])
    order = sorted((t for t in terms if count[t]), key=lambda t: (count[t], t.alternatives))
    if order and 2 * count[order[0]] > chunks:
        return []
    n_rare = sum(total <= MAX_SCORED_CHUNKS for total in accumulate(count[t] for t in order))
    return terms if n_rare == len(order) else order[: max(1, n_rare)]


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
    return db.execute(f"SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ?{_filter_condition(db)} LIMIT 1", [match]).fetchone() is not None


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


def merge_segments(db: Database) -> None:
    """Merge all segments of the full-text index: deleted words stay in them until then."""
    with db.atomic():
        db.execute("INSERT INTO chunks_fts(chunks_fts) VALUES ('optimize')")


def merge_segments_if_small(db: Database) -> None:
    """Merge the segments of an index of at most OPTIMIZED_CHUNKS chunks."""
    if db.execute("SELECT count(*) FROM (SELECT 1 FROM chunks_fts_rows LIMIT ?)", [OPTIMIZED_CHUNKS + 1]).fetchone()[0] <= OPTIMIZED_CHUNKS:
        merge_segments(db)


def sqlite_version() -> tuple[str, bool]:
    """The version of SQLite, and whether it has FTS5."""
    with closing(sqlite3.connect(":memory:")) as db:
        return sqlite3.sqlite_version, bool(db.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])


def document_frequencies(db: Database, words: Sequence[str]) -> dict[str, int]:
    """Word → number of chunks with any of its inflected forms; CJK words are character bigrams."""
    if isinstance(db, FilteredDatabase):
        count_matching = f"SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?{_filter_condition(db)}"
        return {w: int(db.execute(count_matching, [f'"{w}"']).fetchone()[0]) for w in words}
    stem = stem_words([w for w in words if not cjk_bigrams(w)]) | {w: w for w in words if cjk_bigrams(w)}
    sql = "SELECT term, doc FROM chunks_fts_vocab WHERE term IN (SELECT value FROM json_each(?))"
    count = {row["term"]: row["doc"] for row in db.query(sql, [json.dumps(sorted(set(stem.values())))])}
    return {w: count.get(stem.get(w, w), 0) for w in words}


def _term_counts(db: Database, terms: Sequence[SearchTerm]) -> dict[SearchTerm, int]:
    """Term → at most so many chunks have it: of a phrase as many as have its rarest word."""
    counted = document_frequencies(db, list(dict.fromkeys(w for t in terms for a in t.alternatives for w in a.split())))
    return {t: sum(min(counted[w] for w in a.split()) for a in t.alternatives) for t in terms}


def _rarest_terms(db: Database, terms: Sequence[SearchTerm], count: dict[SearchTerm, int]) -> Sequence[SearchTerm]:
    """The MAX_QUERY_TERMS rarest terms: they decide the score, and common ones take most of the time."""
    if len(terms) <= MAX_QUERY_TERMS:
        return terms
    count |= _term_counts(db, terms)
    present = [t for t in terms if count[t]] or list(terms)
    return sorted(present, key=lambda t: (count[t], t.alternatives))[:MAX_QUERY_TERMS]
