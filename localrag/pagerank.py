"""Personalised PageRank over entities and chunks (Haveliwala 2002; for retrieval HippoRAG, Gutiérrez et al. 2024).

The walk starts at the entities a question names and at the chunks near it, steps from a chunk to the entities it mentions, from an
entity to the chunks that mention it, and along relationships. Where it stays longest answers the question, also two steps away.
Chosen on two sets of 2WikiMultihopQA, HotpotQA and MuSiQue each, where every constant may be changed by half without much loss.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, diags

STEPS = 10
DAMPING = 0.8  # how likely a walk goes on instead of starting anew
TITLE = 10.0  # how much more a chunk counts for an entity that its document is named after
RELATED = 0.05  # how likely a walk at an entity goes to a related one instead of to a chunk
CHUNK_STARTS = 0.85  # the share of walks that start at chunks; the others start at the entities named
FEW = 1e-7  # walks: fewer are not followed along each way from a place, a ten-thousandth of what the fiftieth passage has

Weights = Mapping[int, float]


class Ids:
    """Ids in the order of their bytes, each the name of its place: found by bisection, without a string in memory for each of millions."""

    def __init__(self, ids: Sequence[str] | NDArray[np.bytes_]) -> None:
        self.data = ids if isinstance(ids, np.ndarray) else np.array([i.encode() for i in ids], np.bytes_)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, n: int) -> str:
        return bytes(self.data[n]).decode()

    def __iter__(self) -> Iterator[str]:
        return (i.decode() for i in self.data.tolist())

    def number(self, key: str) -> int | None:
        """The place of an id; None where there is no such id."""
        n = int(np.searchsorted(self.data, key.encode()))
        return n if n < len(self.data) and self[n] == key else None

    def numbers(self, keys: Collection[str]) -> NDArray[np.int64]:
        """The places of ids, in their order, all of which there must be. Raises KeyError."""
        if not keys:
            return np.empty(0, np.int64)
        wanted = np.array([k.encode() for k in keys], np.bytes_)
        found: NDArray[np.int64] = np.searchsorted(self.data, wanted)
        if found.max() >= len(self.data) or (self.data[found] != wanted).any():
            raise KeyError("an id that there is not")
        return found


@dataclass(frozen=True, eq=False)
class Network:
    """Entities and chunks with the matrices of one step; columns sum to 1 or 0. `rarity` is each entity's inverse document frequency."""

    entities: Ids
    chunks: Ids
    to_chunks: Any  # csc_matrix (chunks, entities) float32
    to_entities: Any  # csc_matrix (entities, chunks) float32
    to_related: Any  # csc_matrix (entities, entities) float32
    rarity: NDArray[np.float32]


def make_network(
    entities: Ids | Sequence[str],
    chunks: Ids | Sequence[str],
    mentions: NDArray[np.integer[Any]],
    counts: NDArray[np.float32],
    titled: NDArray[np.float32],
    related: NDArray[np.integer[Any]],
    weights: NDArray[np.float32],
) -> Network:
    """The network of `mentions`, (n, 2) rows of (entity, chunk) numbers, each `counts` times, and of `related`, (m, 2) entity numbers.

    Ids are in the order of their bytes. `titled`: the share of the document's title that the entity's name makes up, 0 to 1.
    """
    m, n = len(entities), len(chunks)
    who, where = mentions.reshape(-1, 2).T
    rarity = np.log(1 + n / np.maximum(np.bincount(who, minlength=m), 1)).astype(np.float32)
    often = 1 + np.log(counts)
    a, b = related.reshape(-1, 2).T
    edge = weights * np.sqrt(rarity[a] * rarity[b])
    return Network(
        entities if isinstance(entities, Ids) else Ids(entities),
        chunks if isinstance(chunks, Ids) else Ids(chunks),
        _columns(csc_matrix((often * (1 + TITLE * titled), (where, who)), (n, m))),
        _columns(csc_matrix((often * rarity[who], (who, where)), (m, n))),
        _columns(csc_matrix((np.r_[edge, edge], (np.r_[a, b], np.r_[b, a])), (m, m))),
        rarity,
    )


def _columns(matrix: Any) -> Any:
    """`matrix` with every column scaled to sum to 1; empty ones stay empty."""
    total = np.asarray(matrix.sum(axis=0)).ravel()
    total[total == 0] = 1
    return csc_matrix(matrix @ diags(1 / total), dtype=np.float32)


def walk(
    net: Network, entities: Weights, chunks: Weights, favoured: Mapping[int, Weights], inside: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """How long a walk stays at each chunk, (chunks,) float32, started at weighted entities and chunks (number → weight).

    `favoured`: for some chunks how much likelier than by itself a step goes to some of its entities (1: twice as likely).
    `inside`, (chunks,) of 0 and 1: the walk goes to these chunks alone, and to the entities that they mention, as in a network of them.
    """
    to_chunk = to_related = known = None
    if inside is not None:
        to_chunk = _inverse(inside @ net.to_chunks)  # what goes to other chunks goes to those inside, in their shares
        known = (to_chunk > 0).astype(np.float32)
        to_related = _inverse(known @ net.to_related)
    share = 1.0 if not entities else 0.0 if not chunks else CHUNK_STARTS
    at_entities, at_chunks = _starts(entities, 1 - share), _starts(chunks, share)
    steered = _steered(net, favoured)
    going = ((net.to_entities, 1), (net.to_chunks, 1 - RELATED), (net.to_related, RELATED))  # the share of the walks that go that way
    few = [FEW / share * np.diff(matrix.indptr).astype(np.float32) for matrix, share in going]
    e, c = np.zeros(len(net.entities), np.float32), np.zeros(len(net.chunks), np.float32)
    _put(e, at_entities)
    _put(c, at_chunks)
    for left in reversed(range(STEPS)):
        from_entities = _times(_stepped(net.to_chunks, _times(e, to_chunk), few[1]), inside)
        if left:  # after the last step nobody asks who is at entities
            related = _times(_stepped(net.to_related, _times(e, to_related), few[2]), known)
            led = c[steered.numbers]
            c[steered.numbers] = 0
            e = _stepped(net.to_entities, c, few[0])
            np.add.at(e, steered.entities, np.repeat(led, steered.sizes) * steered.shares)
            related *= RELATED
            e += related
            e *= DAMPING
            _put(e, at_entities, 1 - DAMPING)
        c = from_entities
        c *= DAMPING * (1 - RELATED)
        _put(c, at_chunks, 1 - DAMPING)
    return c


def _stepped(matrix: Any, walks: NDArray[np.float32], few: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where walks are after a step; those of places that are left by no more than `few` are not followed (as Andersen et al. 2006)."""
    followed = np.flatnonzero(walks > few)
    many = 4 * len(followed) > len(walks)
    return np.asarray(matrix @ walks if many else matrix[:, followed] @ walks[followed], np.float32)


def _times(walks: NDArray[np.float32], shares: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return walks if shares is None else walks * shares


def _inverse(share: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / share, 0 where there is none."""
    return np.divide(1, share, out=np.zeros_like(share), where=share > 0)


def _starts(weights: Weights, share: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The places where walks start, and how many start there: `share` in all."""
    begun = np.fromiter(weights.values(), np.float32)
    return np.fromiter(weights, np.int64), share * begun / (begun.sum() or 1)


def _put(walks: NDArray[np.float32], starts: tuple[NDArray[np.int64], NDArray[np.float32]], share: float = 1.0) -> None:
    places, begun = starts
    walks[places] += np.float32(share) * begun


class _Steered(NamedTuple):
    """Columns of `to_entities` of some chunks: their numbers and sizes, and one after the other their entities and the shares of these."""

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    entities: NDArray[np.int32]
    shares: NDArray[np.float32]


def _steered(net: Network, favoured: Mapping[int, Weights]) -> _Steered:
    """The columns of the favoured chunks, with more of their weight at the favoured entities."""
    numbers = sorted(favoured)
    own = net.to_entities[:, numbers]
    boost = np.array(
        [favoured[numbers[j]].get(int(i), 0.0) for j in range(len(numbers)) for i in own.indices[own.indptr[j] : own.indptr[j + 1]]]
    )
    own.data = own.data * (1 + boost).astype(np.float32)
    own = _columns(own)
    return _Steered(np.array(numbers, np.int64), np.diff(own.indptr), own.indices, own.data)
