"""Full-text search over chunks (FTS5, BM25), with character bigrams for Chinese, Japanese and Korean."""

import re

from sqlite_utils import Database

from localrag.text import cjk_bigrams

_WORD = re.compile(r"[^\W_]+")


def search_chunks(db: Database, query: str, k: int) -> list[tuple[str, float]]:
    """The `k` chunks that match most words of `query`, best first, as (chunk id, BM25 score, higher is better)."""
    words = {w for w in _WORD.findall(query) if not cjk_bigrams(w)}
    bigrams = set(cjk_bigrams(query).split())
    terms = [f'text : "{w}"' for w in sorted(words)] + [f'cjk : "{b}"' for b in sorted(bigrams)]
    if not terms:
        return []
    rows = db.query(
        "SELECT chunk_id, -bm25(chunk_search) AS score FROM chunk_search WHERE chunk_search MATCH ? ORDER BY bm25(chunk_search), chunk_id"
        " LIMIT ?",
        [" OR ".join(terms), k],
    )
    return [(row["chunk_id"], row["score"]) for row in rows]
