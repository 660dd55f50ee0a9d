"""Full-text search over chunks (FTS5, BM25), with character bigrams for Chinese, Japanese and Korean."""

import re

from sqlite_utils import Database

from localrag.text import FUNCTION_WORDS, cjk_bigrams

MOST_WORDS = 100  # of a query: the time grows with them
_WORD = re.compile(r"[^\W_]+")


def search_chunks(db: Database, query: str, k: int) -> list[tuple[str, float]]:
    """The `k` chunks that match most words of `query`, best first, as (chunk id, BM25 score, higher is better)."""
    every = dict.fromkeys(w for w in _WORD.findall(query) if not cjk_bigrams(w))
    words = [w for w in every if w.lower() not in FUNCTION_WORDS][:MOST_WORDS] or list(every)[:MOST_WORDS]
    bigrams = list(dict.fromkeys(cjk_bigrams(query).split()))[:MOST_WORDS]
    terms = [f'text : "{w}"' for w in words] + [f'cjk : "{b}"' for b in bigrams]
    if not terms:
        return []
    rows = db.query(
        "SELECT chunk_id, -bm25(chunk_search) AS score FROM chunk_search WHERE chunk_search MATCH ? ORDER BY bm25(chunk_search), chunk_id"
        " LIMIT ?",
        [" OR ".join(terms), k],
    )
    return [(row["chunk_id"], row["score"]) for row in rows]
