"""Passages: the windows of chunks that have vectors of their own, with their places in documents."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.store import runs
from localrag.store.vectors import Vectors, load_windows


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """A passage: characters `start` to `end` of a document, given by its id, in a chunk."""

    document: str
    chunk: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PassageSet:
    """Passages with their vectors, (n, d) float32, L2-normalised."""

    places: Sequence[PassagePlace]
    vectors: Vectors

    def some(self, members: Sequence[int] | NDArray[np.int64]) -> "PassageSet":
        """Those with these numbers."""
        return PassageSet([self.places[n] for n in members], self.vectors[np.asarray(members, np.int64)])


def load_passages(db: Database, *, in_graph: bool = False) -> PassageSet:
    """The passages of all documents that the database shows, in their order; `in_graph`: without what a graph does not cover yet."""
    ids, spans, vectors = load_windows(db)
    at = {key: (document, start) for key, document, start in db.execute("SELECT id, document_id, start FROM chunks")}
    places = [PassagePlace(at[key][0], key, at[key][1] + a, at[key][1] + b) for key, (a, b) in zip(ids, spans.tolist(), strict=True)]
    found = PassageSet(places, vectors)
    if not in_graph or not runs.load_settings(db).get("graph_hash"):
        return found
    covered = {key for (key,) in db.execute("SELECT chunk_id FROM graph_inputs")}
    return found.some([n for n, key in enumerate(ids) if key in covered])


def passage_texts(db: Database, places: Sequence[PassagePlace]) -> list[str]:
    """The text of each passage."""
    wanted = json.dumps(sorted({p.chunk for p in places}))
    chosen = db.execute("SELECT id, text, start FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [wanted])
    texts = {key: (text, start) for key, text, start in chosen}
    return [texts[p.chunk][0][p.start - texts[p.chunk][1] : p.end - texts[p.chunk][1]] for p in places]
