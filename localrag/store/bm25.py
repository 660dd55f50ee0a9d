"""BM25 over the selected chunks, with their own statistics: as FTS5 has it in an index of these chunks alone.

FTS5 reckons how rare a word is, and how long a chunk, among all that it holds; in a part of them other passages would come first than in
an index of that part. So its inverted index is read here, and its formula (Robertson et al. 1994, with FTS5's k1, b and least idf) applied.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.store.selection import Selected

K1, B, LEAST = 1.2, 0.75, 1e-6
Phrase = tuple[str, Sequence[str]]  # a column, and the tokens that follow each other in it
Numbers = NDArray[np.int64]


def best_passages(db: Selected, phrases: Sequence[Phrase], k: int) -> list[tuple[str, float]]:
    """The `k` selected chunks with most of the phrases, best first, as (chunk id, BM25 score, higher is better)."""
    ids, rows, sizes = db.passages
    score = np.zeros(len(rows))
    long = K1 * (1 - B + B * sizes / max(1e-9, sizes.mean())) if len(rows) else sizes
    for phrase in phrases:
        places, often = _frequencies(db, phrase)
        rarity = max(LEAST, float(np.log((len(rows) - len(places) + 0.5) / (len(places) + 0.5))))
        score[places] += rarity * often * (K1 + 1) / (often + long[places])
    found = np.flatnonzero(score)
    best = found[np.argsort(-score[found], kind="stable")][:k]
    return [(ids[n], float(score[n])) for n in best]


def passages_with(db: Selected, token: str) -> int:
    """How many selected chunks have a token, in either column."""
    return len(np.unique(np.r_[tuple(_instances(db, token, column)[0] for column in ("text", "cjk"))]))


def _frequencies(db: Selected, phrase: Phrase) -> tuple[Numbers, Numbers]:
    """The selected chunks that have a phrase, by their place in `passages`, and how often each has it."""
    column, tokens = phrase
    places, offsets = _instances(db, tokens[0], column)
    for n, token in enumerate(tokens[1:], 1):
        others = set(zip(*(some.tolist() for some in _instances(db, token, column)), strict=True))
        follows = np.array([(a, b + n) in others for a, b in zip(places.tolist(), offsets.tolist(), strict=True)], bool)
        places, offsets = places[follows], offsets[follows]
    found, often = np.unique(places, return_counts=True)
    return found, often


def _instances(db: Selected, token: str, column: str) -> tuple[Numbers, Numbers]:
    """Where a token stands in a column of the selected chunks: their place in `passages`, and the number of the word."""
    known = db.kept.setdefault("instances", {})
    if (token, column) not in known:
        rows = db.passages[1]
        cursor = db.execute('SELECT doc, "offset" FROM temp.chunk_instances WHERE term = ? AND col = ?', [token, column])
        found = np.array(cursor.fetchall(), np.int64).reshape(-1, 2)
        place = np.minimum(np.searchsorted(rows, found[:, 0]), max(0, len(rows) - 1))
        inside = rows[place] == found[:, 0] if len(rows) else np.zeros(len(found), bool)
        known[token, column] = (place[inside], found[inside, 1])
    places, offsets = known[token, column]
    return places, offsets
