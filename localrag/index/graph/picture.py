"""The picture of the graph that a user asked for: structural vectors, and places by UMAP (McInnes et al. 2018) instead of nested circles.

As in the paper's reference system entities lie close that have similar structural vectors. Every run begins anew: an update may move all.
"""

from dataclasses import replace
from random import Random

import numpy as np

from localrag.index.graph.columns import Columns, Floats, Levels
from localrag.index.graph.packing import TURN, Heap, pushed_apart
from localrag.index.graph.structure import Vectors, structural_vectors
from localrag.records import Layout, Place

UMAP, HIERARCHICAL = "umap", "hierarchical"
METHODS = (HIERARCHICAL, UMAP)
NEIGHBOURS = 12  # of each entity by its vector, that UMAP keeps near it
STEPS = 3_000_000  # of UMAP, edges times rounds: about half a minute
DENSITY = 0.15  # of the picture's disc that is covered


def with_structure(graph: Columns, levels: Levels, layout: Layout, method: str, *, dimensions: int, seed: int) -> Layout:
    """The layout with structural vectors, and with places by UMAP if that is the `method`; the same input gives the same bytes."""
    ids, vectors = graph.entities, structural_vectors(graph, dimensions=dimensions, seed=seed)
    kept = tuple((key, row.astype("<f4").tobytes()) for key, row in zip(ids, vectors, strict=True))
    if method == HIERARCHICAL:
        return replace(layout, vectors=kept)
    radius = 1 + 0.5 * np.log2(1 + graph.degree.astype(np.float64))
    xy = umap_places(vectors, radius, seed)
    entities = tuple(Place(key, float(x), float(y), float(r)) for key, (x, y), r in zip(ids, xy, radius, strict=True))
    return Layout(entities, _around(levels, np.concatenate([xy, radius[:, None]], axis=1)), layout.links, kept)


def umap_places(vectors: Vectors, radius: Floats, seed: int) -> Floats:
    """A place for each row, (n, 2), without overlaps of circles of these radii; rows of zeros lie around all others."""
    related = np.flatnonzero(vectors.any(axis=1))
    reach = float(np.sqrt((radius**2).sum() / DENSITY))
    xy = np.zeros((len(vectors), 2))
    if len(related) > 2:
        made = _umap(vectors[related], seed)
        made -= np.median(made, axis=0)
        far = np.hypot(made[:, 0], made[:, 1])
        xy[related] = pushed_apart([Heap(made * reach / max(float(np.quantile(far, 0.95)), 1e-9), radius[related])])[0]
    elif len(related):
        xy[related, 0] = np.arange(len(related)) * 2 * radius.max()
    most = float((np.hypot(*xy[related].T) + radius[related]).max(initial=0)) + 2 * float(radius.max(initial=1))
    outside = np.flatnonzero(~vectors.any(axis=1))
    k = np.arange(len(outside))
    far = np.sqrt(most**2 + 8 * (k + 1))
    xy[outside] = np.stack([far * np.cos(k * TURN), far * np.sin(k * TURN)], axis=1)
    return xy


def _umap(vectors: Vectors, seed: int) -> Floats:
    import faiss
    import igraph

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    near, rows = index.search(vectors, min(NEIGHBOURS + 1, len(vectors)))
    pairs = {(min(a, b), max(a, b)): 1 - s for a, (some, scores) in enumerate(zip(rows.tolist(), near.tolist(), strict=True))
             for b, s in zip(some, scores, strict=True) if a != b}  # fmt: skip
    edges = sorted(pairs)
    network = igraph.Graph(n=len(vectors), edges=edges)
    igraph.set_random_number_generator(Random(seed))
    rounds = int(min(500, max(30, STEPS // max(1, len(edges)))))
    start = np.array([[np.cos(k * TURN), np.sin(k * TURN)] for k in range(len(vectors))]) * np.sqrt(np.arange(len(vectors)) + 1)[:, None]
    distances = [max(0.0, pairs[edge]) for edge in edges]
    made = network.layout_umap(dist=distances, seed=start.tolist(), min_dist=0.1, epochs=rounds)
    return np.array(made.coords, np.float64)


def _around(levels: Levels, entities: Floats) -> tuple[Place, ...]:
    """A circle around the middle of each community's entities (centre and radius, in order) that holds all of them."""
    by = np.argsort(levels.members[:, 0], kind="stable")
    parts = np.split(entities[levels.members[by, 1]], np.cumsum(levels.size)[:-1])
    found = []
    for key, rows in zip(levels.ids, parts, strict=False):
        x, y = rows[:, :2].mean(axis=0)
        found.append(Place(key, float(x), float(y), float((np.hypot(rows[:, 0] - x, rows[:, 1] - y) + rows[:, 2]).max())))
    return tuple(found)
