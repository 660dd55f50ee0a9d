"""The passages of both searches, ranked by gradient-boosted trees over what every signal says of them.

Signals are the walk's probabilities, cosines and BM25 scores of both searches, as values relative to the best and as ranks, and the words
and entities that question and passage share. The trees (Friedman 2001) were fitted by `scripts/train/ranking.py`; `adapters/ranking.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.model_files import shipped_weights
from localrag.project import Project
from localrag.query.retriever import content_stems, cosine_spread, named_entities
from localrag.records import Chunk
from localrag.store import graph

FEATURES = (
    *("log_walk", "log_first", "log_second", "rank_first", "rank_second", "rank_walk"),
    *("cosine_first", "cosine_second", "rank_cosine_first", "rank_cosine_second"),
    *("bm25_first", "bm25_second", "rank_bm25_first", "rank_bm25_second"),
    *("entities", "words_first", "words_second", "title"),
)
LEADING = 3  # of the walks' passages, which stay first: where one step leads to the answer, they have it more often than the trees' choice
WALK_WEIGHT = 0.5  # of the logarithm of both walks' probability, beside the trees' log odds
UNSEEN_COSINE = 0.3  # spreads below the lowest cosine that was computed, for a passage that is not among the nearest
MIN_PROBABILITY = 1e-4  # added before the logarithm
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SearchSignals:
    """What one search says of chunks, by id: the walk's probability relative to the best, cosine, and BM25 score. `text`: its query."""

    text: str
    walk: Mapping[str, float]
    cosines: Mapping[str, float]
    bm25: Mapping[str, float]


class RankingTrees(NamedTuple):
    """Regression trees as arrays over all nodes, (n,); `roots`, (trees,): the first node of each. A leaf has no feature (-1)."""

    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array
    roots: NDArray[np.int32]

    def scores(self, features: Array) -> Array:
        """Log odds, up to a constant, for rows of features, (m, features)."""
        nodes = np.broadcast_to(self.roots, (len(features), len(self.roots)))
        rows = np.arange(len(features))[:, None]
        while (inner := self.feature[nodes] >= 0).any():
            goes_left = features[rows, np.maximum(self.feature[nodes], 0)] <= self.threshold[nodes]
            nodes = np.where(inner, np.where(goes_left, self.left[nodes], self.right[nodes]), nodes)
        return np.asarray(self.value[nodes].sum(axis=1))


def rank_passages(chunks: Sequence[Chunk], first: SearchSignals, second: SearchSignals, project: Project) -> list[Chunk]:
    """Chunks of both searches: the LEADING best of the walks, then the likeliest evidence. Raises ModelError without trees."""
    ranks = np.argsort([chunk.id for chunk in chunks])
    return [chunks[i] for i in ranks[rank_rows(ranking_features(chunks, first, second, project)[ranks], load_trees())]]


def rank_rows(features: Array, trees: RankingTrees) -> NDArray[np.int64]:
    """The order of passages with such features, (passages, features): row numbers, best first."""
    walk = features[:, 0]
    scores = trees.scores(features) + WALK_WEIGHT * walk
    leading = np.argsort(-walk, kind="stable")[:LEADING]
    scores[leading] = np.inf
    return np.lexsort((-walk, -scores))


def ranking_features(chunks: Sequence[Chunk], first: SearchSignals, second: SearchSignals, project: Project) -> Array:
    """(chunks, features) of a question's search and of the second one, whose query is the question with a sentence after it."""
    one, two = (_values(chunks, search.walk) for search in (first, second))
    cosine_one, cosine_two = (_cosines(chunks, search.cosines) for search in (first, second))
    bm25_one, bm25_two = (_values(chunks, search.bm25) / max(1e-9, *search.bm25.values(), 1e-9) for search in (first, second))
    stems = [content_stems(chunk.text) for chunk in chunks]
    asked = content_stems(first.text)
    added = content_stems(second.text.removeprefix(first.text))
    columns = (
        *(np.log(x + MIN_PROBABILITY) for x in (one + two, one, two)),
        *(_reciprocal_ranks(x) for x in (one, two, one + two)),
        *(cosine_one, cosine_two),
        *(_reciprocal_ranks(x) for x in (cosine_one, cosine_two)),
        *(bm25_one, bm25_two),
        *(_reciprocal_ranks(x) for x in (bm25_one, bm25_two)),
        _named_share(chunks, first.text, project),
        *(np.array([len(wanted & found) / max(1, len(wanted)) for found in stems]) for wanted in (asked, added)),
        np.array([_share_of_first_line(chunk.text, asked) for chunk in chunks]),
    )
    return np.stack(columns, axis=1)


def _values(chunks: Sequence[Chunk], by_id: Mapping[str, float]) -> Array:
    return np.array([by_id.get(chunk.id, 0.0) for chunk in chunks])


def _cosines(chunks: Sequence[Chunk], by_id: Mapping[str, float]) -> Array:
    """How far each chunk's cosine is below the best, in spreads of the nearest chunks' cosines."""
    spread = cosine_spread(by_id.values())
    unseen = min(by_id.values(), default=0.0) - UNSEEN_COSINE * spread
    cosines = np.array([by_id.get(chunk.id, unseen) for chunk in chunks])
    return np.asarray((cosines - cosines.max(initial=-1)) / spread)


def _reciprocal_ranks(values: Array) -> Array:
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return 1 / (1 + ranks)


def _named_share(chunks: Sequence[Chunk], question: str, project: Project) -> Array:
    wanted = {entity.entity_id for entity in named_entities(question, project)}
    found: dict[str, set[str]] = {chunk.id: set() for chunk in chunks}
    for mention in graph.mentions_in(project.db, list(found)) if wanted else ():
        found[mention.chunk_id].add(mention.entity_id)
    return np.array([len(found[chunk.id] & wanted) / max(1, len(wanted)) for chunk in chunks])


def _share_of_first_line(text: str, asked: set[str]) -> float:
    words = content_stems(text.partition("\n")[0])
    return len(words & asked) / max(1, len(words))


@cache
def load_trees() -> RankingTrees:
    """The trees that ship. Raises ModelError if the file is missing or damaged."""
    return RankingTrees(**shipped_weights("ranking"))
