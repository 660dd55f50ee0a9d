"""Personalised PageRank over entities and chunks (Haveliwala 2002; for retrieval HippoRAG, Gutiérrez et al. 2024).

The walk starts at the entities a question names and at the chunks near it, steps from a chunk to the entities it mentions, from an
entity to the chunks that mention it, and along relationships. Where it stays longest answers the question, also two steps away.
Chosen on two sets of 2WikiMultihopQA, HotpotQA and MuSiQue each, where every constant may be changed by half without much loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix, diags

STEPS = 10
DAMPING = 0.8  # how likely a walk goes on instead of starting anew
TITLE = 10.0  # how much more a chunk counts for an entity that its document is named after
RELATED = 0.05  # how likely a walk at an entity goes to a related one instead of to a chunk
CHUNK_STARTS = 0.85  # the share of walks that start at chunks; the others start at the entities named

Weights = Mapping[int, float]


@dataclass(frozen=True, eq=False)
class Network:
    """Entities and chunks with the matrices of one step; columns sum to 1 or 0. `rarity` is each entity's inverse document frequency."""

    entities: tuple[str, ...]
    chunks: tuple[str, ...]
    to_chunks: Any  # csr_matrix (chunks, entities) float32
    to_entities: Any  # csc_matrix (entities, chunks) float32
    to_related: Any  # csr_matrix (entities, entities) float32
    rarity: NDArray[np.float32]

    @cached_property
    def entity_number(self) -> Mapping[str, int]:
        """Entity id → number."""
        return {key: n for n, key in enumerate(self.entities)}

    @cached_property
    def chunk_number(self) -> Mapping[str, int]:
        """Chunk id → number."""
        return {key: n for n, key in enumerate(self.chunks)}


def make_network(
    entities: Sequence[str],
    chunks: Sequence[str],
    mentions: NDArray[np.int64],
    counts: NDArray[np.float32],
    titled: NDArray[np.float32],
    related: NDArray[np.int64],
    weights: NDArray[np.float32],
) -> Network:
    """The network of `mentions`, (n, 2) rows of (entity, chunk) numbers, each `counts` times, and of `related`, (m, 2) entity numbers.

    `titled`: the share of the document's title that the entity's name makes up, 0 to 1.
    """
    m, n = len(entities), len(chunks)
    who, where = mentions.reshape(-1, 2).T
    rarity = np.log(1 + n / np.maximum(np.bincount(who, minlength=m), 1)).astype(np.float32)
    often = 1 + np.log(counts)
    a, b = related.reshape(-1, 2).T
    edge = weights * np.sqrt(rarity[a] * rarity[b])
    return Network(
        tuple(entities),
        tuple(chunks),
        _columns(csr_matrix((often * (1 + TITLE * titled), (where, who)), (n, m))),
        csc_matrix(_columns(csr_matrix((often * rarity[who], (who, where)), (m, n)))),
        _columns(csr_matrix((np.r_[edge, edge], (np.r_[a, b], np.r_[b, a])), (m, m))),
        rarity,
    )


def _columns(matrix: Any) -> Any:
    """`matrix` with every column scaled to sum to 1; empty ones stay empty."""
    total = np.asarray(matrix.sum(axis=0)).ravel()
    total[total == 0] = 1
    return csr_matrix(matrix @ diags(1 / total), dtype=np.float32)


def walk(
    net: Network, entities: Weights, chunks: Weights, favoured: Mapping[int, Weights], inside: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """How long a walk stays at each chunk, (chunks,) float32, started at weighted entities and chunks (number → weight).

    `favoured`: for some chunks how much likelier than by itself a step goes to some of its entities (1: twice as likely).
    `inside`, (chunks,) of 0 and 1: the walk goes to these chunks alone, and to the entities that they mention, as in a network of them.
    """
    to_chunk, to_entity = (np.ones(n, np.float32) for n in (len(net.entities), len(net.chunks)))
    to_related = to_chunk
    if inside is not None:
        to_chunk = _inverse(inside @ net.to_chunks)  # what goes to other chunks goes to those inside, in their shares
        to_related = _inverse((to_chunk > 0).astype(np.float32) @ net.to_related)
        to_entity = inside
    share = 1.0 if not entities else 0.0 if not chunks else CHUNK_STARTS
    at_entities = (1 - share) * _starts(entities, len(net.entities))
    at_chunks = share * _starts(chunks, len(net.chunks))
    steered = _steered(net, favoured)
    unsteered = np.ones(len(net.chunks), np.float32)
    unsteered[list(favoured)] = 0
    e, c = at_entities, at_chunks
    for _ in range(STEPS):
        from_chunks = net.to_entities @ (c * unsteered) + steered @ c
        from_entities = (1 - RELATED) * (net.to_chunks @ (e * to_chunk)) * to_entity
        related = (net.to_related @ (e * to_related)) * (to_chunk > 0)
        e = DAMPING * (from_chunks + RELATED * related) + (1 - DAMPING) * at_entities
        c = DAMPING * from_entities + (1 - DAMPING) * at_chunks
    return np.asarray(c, np.float32)


def _inverse(share: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / share, 0 where there is none."""
    return np.divide(1, share, out=np.zeros_like(share), where=share > 0)


def _starts(weights: Weights, size: int) -> NDArray[np.float32]:
    starts = np.zeros(size, np.float32)
    if weights:
        starts[list(weights)] = list(weights.values())
        starts /= starts.sum()
    return starts


def _steered(net: Network, favoured: Mapping[int, Weights]) -> Any:
    """The columns of `to_entities` of the favoured chunks, with more of their weight at the favoured entities."""
    shape = (len(net.entities), len(net.chunks))
    if not favoured:
        return csr_matrix(shape, dtype=np.float32)
    numbers = sorted(favoured)
    own = net.to_entities[:, numbers]
    boost = np.array(
        [favoured[numbers[j]].get(int(i), 0.0) for j in range(len(numbers)) for i in own.indices[own.indptr[j] : own.indptr[j + 1]]]
    )
    own.data = own.data * (1 + boost).astype(np.float32)
    scaled = csc_matrix(_columns(own))
    columns = np.repeat(np.array(numbers), np.diff(scaled.indptr))
    return csr_matrix((scaled.data, (scaled.indices, columns)), shape, dtype=np.float32)
