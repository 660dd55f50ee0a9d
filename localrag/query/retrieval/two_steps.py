"""The passages that answer a question, found in two steps: the second asks with the sentence that the first finds best.

So what only a first passage leads to is found by its own words as well (multi-hop retrieval with the evidence found so far, as in MDR,
Xiong et al. 2021, but without training).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.retrieval.context import chunk_quotes, ranked, worth_quoting
from localrag.query.retrieval.retrieve import names_in, search
from localrag.records import Chunk

POOL = 30  # passages of each step
LOOKED_AT = 8  # whose sentences are ranked
SECOND = 0.5  # what the second step's score counts beside the first's


def search_twice(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[tuple[Chunk, float]]:
    """The `k` passages that bear most on a question, best first, with a score, 1 for the best. `vector`, (d,), is the question's."""
    first = search(question, vector, project, max(k, POOL))
    weight = {c.id: score for c, score in first}
    quotes = chunk_quotes([c for c, _ in first[:LOOKED_AT]], question)
    found = worth_quoting(question, quotes, names_in(question, project), weight)
    best = next(ranked(question, vector, found, project, weight), None)
    if best is None:
        return first[:k]
    asked = f"{question} {found.texts[best]}"
    return _fused(first, search(asked, project.embedder.embed([asked])[0], project, max(k, POOL)))[:k]


def _fused(first: Sequence[tuple[Chunk, float]], second: Sequence[tuple[Chunk, float]]) -> list[tuple[Chunk, float]]:
    """The passages of both steps by the sum of their scores, which is 1 for the best."""
    chunks = {c.id: c for c, _ in [*first, *second]}
    total = {c.id: score for c, score in first}
    for c, score in second:
        total[c.id] = total.get(c.id, 0.0) + SECOND * score
    best = sorted(total, key=lambda i: (-total[i], i))
    return [(chunks[i], total[i] / total[best[0]]) for i in best]
