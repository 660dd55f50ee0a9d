"""The communities of a graph that is being changed: what the change reaches moves, or all of them are found anew."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from localrag.index.graph.clustering.attached import attach
from localrag.index.graph.clustering.frontier import Frontier, MakeAnew
from localrag.index.graph.clustering.reach import changed_pairs
from localrag.index.graph.columns import Columns, Floats, Ints
from localrag.index.graph.communities import hierarchy
from localrag.index.graph.merging.rows import staged_columns
from localrag.records import Community
from localrag.store.staged import AMONG, Staged

DRIFT = 0.003  # of modularity that may be lost before all communities are found anew
SHARE = 0.1  # of the graph's weight that may have changed before that


@dataclass(frozen=True, slots=True)
class Clustered:
    """Which communities are others than before (None: any may be), and how good they were when all were found, and since then."""

    changed: frozenset[str] | None
    state: dict[str, float]


def cluster(
    staged: Staged, known: Mapping[str, float], before: Callable[[], list[Community]], *, max_size: int, seed: int, anew: bool = False
) -> Clustered:
    """Bring the staged communities up to date. `known`: the state that was kept with those there were, `anew`: find all from scratch.

    All are found, from those there were `before` (read only then), where more than SHARE of the weight has changed since that was done
    last, or modularity is DRIFT less than it was then.
    """
    attach(staged, anew=not known.get("weight"))
    if known.get("weight") and not anew:
        changes = changed_pairs(staged)
        moved = known["moved"] + sum(abs(now - then) for then, now in changes.values())
        if moved <= SHARE * known["weight"]:
            new, gone = _new_and_gone(staged)
            frontier = Frontier(staged, changes, new, gone, max_size=max_size, seed=seed)
            try:
                frontier.run()
            except MakeAnew:
                pass
            else:
                if modularity(staged) >= known["modularity"] - DRIFT:
                    return Clustered(frozenset(frontier.changed), {**known, "moved": moved})
    return find_all(staged, [] if anew else before(), max_size=max_size, seed=seed)


def find_all(staged: Staged, before: Sequence[Community], *, max_size: int, seed: int) -> Clustered:
    """Find all communities, starting from those there were."""
    graph = staged_columns(staged, attached=True)
    levels = hierarchy(graph, max_size=max_size, seed=seed, before=before)
    put_all(staged, levels, graph)
    return Clustered(None, {"modularity": modularity(staged), "weight": float(graph.weight.sum()), "moved": 0.0})


def put_all(staged: Staged, levels: Sequence[Community], graph: Columns) -> None:
    """Make these the staged communities, with what they weigh."""
    staged.supplant("communities", ((c.id, c.level, c.ordinal, c.parent_id) for c in levels))
    staged.supplant("members", ((c.id, e) for c in levels for e in c.entity_ids))
    staged.supplant("community_weights", _weights(levels, graph))


def modularity(staged: Staged) -> float:
    """That of the communities of level 0 (Newman 2004); 0 where nothing is joined."""
    tops = json.dumps([key for (key,) in staged.rows("communities", "t.level = 0", columns="t.id")])
    listed = "t.strength, t.inside"
    rows = list(staged.rows("community_weights", f"t.community_id {AMONG}", [tops], listed))
    total = sum(strength for strength, _ in rows)
    return sum(inside / total - (strength / total) ** 2 for strength, inside in rows) if total > 0 else 0.0


def _weights(levels: Sequence[Community], graph: Columns) -> Iterator[tuple[str, float, float]]:
    """Of each community what joins its entities to all of the community above it, and to each other, both counted from both ends."""
    number = {e: n for n, e in enumerate(graph.entities)}
    above = np.zeros(len(number), np.int64)
    for _, here in groupby(levels, key=lambda c: c.level):
        some = list(here)
        home = np.full(len(number), -1, np.int64)
        for n, c in enumerate(some):
            home[[number[e] for e in c.entity_ids]] = n
        strength, inside = _weighed(above[graph.ends], home[graph.ends], graph.weight, len(some))
        yield from ((c.id, *row) for c, row in zip(some, np.stack([strength, inside], axis=1).tolist(), strict=True))
        above = home


def _weighed(above: Ints, home: Ints, weight: Floats, n: int) -> tuple[Floats, Floats]:
    """Of `n` communities the weight of what lies within the one above, and of that the part that lies within, by the homes of all ends."""
    together = above[:, 0] == above[:, 1]
    a, b, w = home[together, 0], home[together, 1], weight[together]
    strength: Floats = (np.bincount(a, w, n) + np.bincount(b, w, n)).astype(np.float64)
    inside: Floats = (2 * np.bincount(a[a == b], w[a == b], n)).astype(np.float64)
    return strength, inside


def _new_and_gone(staged: Staged) -> tuple[list[str], list[str]]:
    rows = list(staged.changes("entities", "id"))
    return [key[0] for key, before, now in rows if now and not before], [key[0] for key, before, now in rows if before and not now]
