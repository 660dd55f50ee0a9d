"""A graph and its communities as columns of numbers: for what has to see all of it at once, which records of a million would not fit."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.records import Community, Graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ATTACHED = 0.1  # the weight between an entity without relationships and the one that it goes with


@dataclass(frozen=True, slots=True)
class Columns:
    """Entities by id, in order, with their degrees (n); what joins two of them: their numbers (m, 2), in order, and weights (m)."""

    entities: Sequence[str]
    degree: Ints
    ends: Ints
    weight: Floats


@dataclass(frozen=True, slots=True)
class Levels:
    """Communities, in the order of levels: ids, levels, places in this order of those above them (-1: none), numbers of members.

    `members`: place of a community and number of an entity (k, 2).
    """

    ids: Sequence[str]
    level: Ints
    above: Ints
    size: Ints
    members: Ints


def columns_of(graph: Graph) -> Columns:
    """Those of records."""
    related = ((r.source_id, r.target_id, r.weight) for r in graph.relationships)
    return columns([(e.id, e.degree) for e in graph.entities], related)


def columns(entities: Sequence[tuple[Any, ...]], joined: Iterable[tuple[Any, ...]]) -> Columns:
    """Of entities (id, degree) and what joins them (id, id, weight)."""
    order = sorted(entities)
    number = {key: n for n, (key, _) in enumerate(order)}
    ends, weight = array("q"), array("d")
    for a, b, w in joined:
        ends.append(number[a])
        ends.append(number[b])
        weight.append(w)
    pairs, weights = np.frombuffer(ends, np.int64).reshape(-1, 2), np.frombuffer(weight, np.float64)
    by = np.lexsort((weights, pairs[:, 1], pairs[:, 0]))
    return Columns([key for key, _ in order], np.array([n for _, n in order], np.int64), pairs[by], weights[by])


def levels_of(communities: Sequence[Community], entities: Sequence[str]) -> Levels:
    """Communities of these entities, from records."""
    members = ((c.id, e) for c in communities for e in c.entity_ids)
    return levels([(c.id, c.level, c.parent_id) for c in communities], members, entities)


def levels(communities: Sequence[tuple[Any, ...]], members: Iterable[tuple[Any, ...]], entities: Sequence[str]) -> Levels:
    """Communities (id, level, id of the one above), of each level the largest first; members (community, entity)."""
    known, number = {key: n for n, (key, *_) in enumerate(communities)}, {e: n for n, e in enumerate(entities)}
    pairs = array("q")
    for community, entity in members:
        if entity in number:
            pairs.append(known[community])
            pairs.append(number[entity])
    inside = np.frombuffer(pairs, np.int64).reshape(-1, 2)
    size = np.bincount(inside[:, 0], minlength=len(communities))
    order = sorted(range(len(communities)), key=lambda n: (communities[n][1], -size[n], communities[n][0]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows = [communities[n] for n in order]
    above = np.array([place[known[top]] if top in known else -1 for *_, top in rows], np.int64)
    found = np.stack([place[inside[:, 0]], inside[:, 1]], axis=1)
    return Levels([row[0] for row in rows], np.array([row[1] for row in rows], np.int64), above, size[order], found)
