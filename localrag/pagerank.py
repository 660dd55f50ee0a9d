"""Personalized PageRank over entities and chunks (Haveliwala 2002; for retrieval HippoRAG, Gutiérrez et al. 2024).

The walk starts at the entities a question names and at the chunks near it, and steps from a chunk to the entities it mentions, from an
entity to the chunks that mention it, and along relationships. The chunks it visits most answer the question, also two steps away. The
constants were chosen on two sets each of 2WikiMultihopQA, HotpotQA and MuSiQue; each may be changed by half without much loss.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, diags

ITERATIONS = 10
DAMPING = 0.8  # probability that a walk continues instead of restarting
TITLE_WEIGHT = 10.0  # extra weight of a chunk whose document is named after the entity
RELATION_WEIGHT = 0.05  # probability that a walk at an entity goes to a related entity instead of a chunk
CHUNK_RESTART_SHARE = 0.85  # share of walks that start at chunks; the others start at named entities
PRUNE_BELOW = 1e-7  # mass per edge below which a node is not expanded; a ten-thousandth of the fiftieth chunk's

Weights = Mapping[int, float]


class SortedIds:
    """Ids sorted by their bytes and numbered by position; found by bisection, without a Python string for each of millions."""

    def __init__(self, ids: Sequence[str] | NDArray[np.bytes_]) -> None:
        self.data = ids if isinstance(ids, np.ndarray) else np.array([i.encode() for i in ids], np.bytes_)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, n: int) -> str:
        return bytes(self.data[n]).decode()

    def __iter__(self) -> Iterator[str]:
        return (i.decode() for i in self.data.tolist())

    def number(self, key: str) -> int | None:
        """The number of an id; None if it does not exist."""
        n = int(np.searchsorted(self.data, key.encode()))
        return n if n < len(self.data) and self[n] == key else None

    def numbers(self, keys: Collection[str]) -> NDArray[np.int64]:
        """The numbers of ids, in their order. Raises KeyError if one does not exist."""
        if not keys:
            return np.empty(0, np.int64)
        wanted = np.array([k.encode() for k in keys], np.bytes_)
        positions: NDArray[np.int64] = np.searchsorted(self.data, wanted)
        if positions.max() >= len(self.data) or (self.data[positions] != wanted).any():
            raise KeyError("an id that there is not")
        return positions


@dataclass(frozen=True, eq=False)
class PageRankGraph:
    """Entities and chunks with the transition matrices, whose columns sum to 1 or 0. `rarity`: each entity's inverse document frequency."""

    entities: SortedIds
    chunks: SortedIds
    entity_to_chunk: Any  # csc_matrix (chunks, entities) float32
    chunk_to_entity: Any  # csc_matrix (entities, chunks) float32
    entity_to_entity: Any  # csc_matrix (entities, entities) float32
    rarity: NDArray[np.float32]


def build_graph(
    entities: SortedIds | Sequence[str],
    chunks: SortedIds | Sequence[str],
    mentions: NDArray[np.integer[Any]],
    counts: NDArray[np.float32],
    titled: NDArray[np.float32],
    related: NDArray[np.integer[Any]],
    weights: NDArray[np.float32],
) -> PageRankGraph:
    """Build the network from `mentions`, (n, 2) rows of (entity, chunk) numbers, each `counts` times, and `related`, (m, 2) entity numbers.

    Ids are sorted by their bytes. `titled`: the share of the document's title that the entity's name covers, 0 to 1.
    """
    m, n = len(entities), len(chunks)
    entity_of, chunk_of = mentions.reshape(-1, 2).T
    rarity = np.log(1 + n / np.maximum(np.bincount(entity_of, minlength=m), 1)).astype(np.float32)
    frequency = 1 + np.log(counts)
    a, b = related.reshape(-1, 2).T
    edge = weights * np.sqrt(rarity[a] * rarity[b])
    return PageRankGraph(
        entities if isinstance(entities, SortedIds) else SortedIds(entities),
        chunks if isinstance(chunks, SortedIds) else SortedIds(chunks),
        _columns(csc_matrix((frequency * (1 + TITLE_WEIGHT * titled), (chunk_of, entity_of)), (n, m))),
        _columns(csc_matrix((frequency * rarity[entity_of], (entity_of, chunk_of)), (m, n))),
        _columns(csc_matrix((np.r_[edge, edge], (np.r_[a, b], np.r_[b, a])), (m, m))),
        rarity,
    )


def _columns(matrix: Any) -> Any:
    total = np.asarray(matrix.sum(axis=0)).ravel()
    total[total == 0] = 1
    return csc_matrix(matrix @ diags(1 / total), dtype=np.float32)


def personalized_pagerank(
    net: PageRankGraph, entities: Weights, chunks: Weights, favoured: Mapping[int, Weights], inside: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The visit probability of each chunk, (chunks,) float32, for walks started at weighted entities and chunks (number → weight).

    `favoured`: for some chunks, by how much a step to some of its entities is more likely (1: twice as likely). `inside`, (chunks,) of 0
    and 1: restrict the walk to these chunks and the entities they mention, as in a network of them alone.
    """
    to_chunk = to_related = inside_entities = None
    if inside is not None:
        to_chunk = _inverse(inside @ net.entity_to_chunk)  # redistributes the mass that would leave to the chunks inside
        inside_entities = (to_chunk > 0).astype(np.float32)
        to_related = _inverse(inside_entities @ net.entity_to_entity)
    share = 1.0 if not entities else 0.0 if not chunks else CHUNK_RESTART_SHARE
    at_entities, at_chunks = _restart_vector(entities, 1 - share), _restart_vector(chunks, share)
    reweighted = _query_weighted_columns(net, favoured)
    # (matrix, share of the walks that take it).
    transitions = (
        (net.chunk_to_entity, 1),
        (net.entity_to_chunk, 1 - RELATION_WEIGHT),
        (net.entity_to_entity, RELATION_WEIGHT),
    )
    thresholds = [PRUNE_BELOW / share * np.diff(matrix.indptr).astype(np.float32) for matrix, share in transitions]
    e, c = np.zeros(len(net.entities), np.float32), np.zeros(len(net.chunks), np.float32)
    _put(e, at_entities)
    _put(c, at_chunks)
    for remaining in reversed(range(ITERATIONS)):
        from_entities = _times(_stepped(net.entity_to_chunk, _times(e, to_chunk), thresholds[1]), inside)
        if remaining:  # after the last step the entities are not needed
            related = _times(_stepped(net.entity_to_entity, _times(e, to_related), thresholds[2]), inside_entities)
            mass = c[reweighted.numbers]
            c[reweighted.numbers] = 0
            e = _stepped(net.chunk_to_entity, c, thresholds[0])
            np.add.at(e, reweighted.entities, np.repeat(mass, reweighted.sizes) * reweighted.shares)
            related *= RELATION_WEIGHT
            e += related
            e *= DAMPING
            _put(e, at_entities, 1 - DAMPING)
        c = from_entities
        c *= DAMPING * (1 - RELATION_WEIGHT)
        _put(c, at_chunks, 1 - DAMPING)
    return c


def _stepped(matrix: Any, walks: NDArray[np.float32], thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The distribution after a step; nodes with at most the threshold's mass are not expanded (as in Andersen et al. 2006)."""
    expanded = np.flatnonzero(walks > thresholds)
    is_dense = 4 * len(expanded) > len(walks)
    return np.asarray(matrix @ walks if is_dense else matrix[:, expanded] @ walks[expanded], np.float32)


def _times(walks: NDArray[np.float32], shares: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return walks if shares is None else walks * shares


def _inverse(share: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.divide(1, share, out=np.zeros_like(share), where=share > 0)


def _restart_vector(weights: Weights, share: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    start_weights = np.fromiter(weights.values(), np.float32)
    return np.fromiter(weights, np.int64), share * start_weights / (start_weights.sum() or 1)


def _put(walks: NDArray[np.float32], starts: tuple[NDArray[np.int64], NDArray[np.float32]], share: float = 1.0) -> None:
    numbers, mass = starts
    walks[numbers] += np.float32(share) * mass


class _Steered(NamedTuple):
    """Reweighted columns of `chunk_to_entity`: numbers and sizes of the columns, and their concatenated entities and shares."""

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    entities: NDArray[np.int32]
    shares: NDArray[np.float32]


def _query_weighted_columns(net: PageRankGraph, favoured: Mapping[int, Weights]) -> _Steered:
    """The columns of the favoured chunks, with more of their weight at the favoured entities."""
    numbers = sorted(favoured)
    columns = net.chunk_to_entity[:, numbers]
    boost = np.array(
        [
            favoured[numbers[j]].get(int(i), 0.0)
            for j in range(len(numbers))
            for i in columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        ]
    )
    columns.data = columns.data * (1 + boost).astype(np.float32)
    columns = _columns(columns)
    return _Steered(np.array(numbers, np.int64), np.diff(columns.indptr), columns.indices, columns.data)
