"""Verbatim sentences around mentions and evidence, and the choice of a central and varied few among them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localrag.records import Chunk, Graph, Quote
from localrag.text import Span, sentences, squeeze

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Vectors = Mapping[str, NDArray[np.float32]]  # squeezed text → unit vector


@lru_cache(maxsize=4096)
def _spans(text: str) -> tuple[Span, ...]:
    return tuple(sentences(text))


def sentence_quote(chunk: Chunk, start: int, end: int) -> Quote:
    """The sentence or sentences of `chunk` that hold characters `start` to `end` of the document."""
    spans = _spans(chunk.text)
    starts = [s.start for s in spans]
    first = max(0, bisect_right(starts, start - chunk.start) - 1)
    last = max(first, bisect_right(starts, max(start, end - 1) - chunk.start) - 1)
    a, b = spans[first].start, spans[last].end
    return Quote(chunk.id, chunk.start + a, chunk.start + b, chunk.text[a:b])


def relationship_quotes(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, list[Quote]]:
    """For each relationship, the passages that state it, each once although chunks overlap."""
    found: defaultdict[str, dict[str, Quote]] = defaultdict(dict)
    for e in graph.evidence:
        quote = sentence_quote(chunks[e.chunk_id], e.start, e.end)
        found[e.relationship_id].setdefault(squeeze(quote.text), quote)
    return {key: list(quotes.values()) for key, quotes in found.items()}


def entity_quotes(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, list[Quote]]:
    """For each entity, the sentences that mention it, each once, those that tell most first."""
    found: defaultdict[str, dict[str, Quote]] = defaultdict(dict)
    names: defaultdict[str, set[str]] = defaultdict(set)
    for m in graph.mentions:
        quote = sentence_quote(chunks[m.chunk_id], m.start, m.end)
        found[m.entity_id].setdefault(squeeze(quote.text), quote)
        names[squeeze(quote.text)].add(m.entity_id)
    return {
        key: [quotes[t] for t in sorted(quotes, key=lambda t: (-telling(t, len(names[t])), quotes[t].chunk_id, quotes[t].start))]
        for key, quotes in found.items()
    }


def telling(text: str, entities: int) -> float:
    """How much a sentence is worth quoting by its form alone: a full sentence of readable length that names several entities."""
    length = len(text)
    readable = 1.0 if 60 <= length <= 280 else 0.5 if 30 <= length <= 400 else 0.0
    finished = 1.0 if text.rstrip("\"'”’)»』」").endswith((".", "!", "?", "。", "！", "？")) else 0.0
    return readable + finished + 0.4 * min(entities, 4)


def most_central(quotes: Sequence[Quote], vectors: Vectors, k: int, *, diversity: float = 0.5) -> list[Quote]:
    """Up to `k` quotes near the centre of all and unlike each other (maximal marginal relevance, Carbonell and Goldstein 1998)."""
    texts = [squeeze(q.text) for q in quotes]
    if not texts:
        return []
    matrix = np.stack([vectors[t] for t in texts])
    centre = matrix.mean(axis=0)
    relevance = matrix @ (centre / max(float(np.linalg.norm(centre)), 1e-9)) + [0.1 * telling(t, 1) for t in texts]
    return [quotes[i] for i in marginal_relevance(relevance, matrix, k, diversity=diversity)]


def marginal_relevance(relevance: NDArray[np.float32], matrix: NDArray[np.float32], k: int, *, diversity: float = 0.5) -> list[int]:
    """Row numbers of `matrix`, (n, d) unit vectors, best first: relevant, and unlike the rows chosen before."""
    chosen: list[int] = []
    closest = np.zeros(len(relevance), np.float32)
    left = np.ones(len(relevance), bool)
    while left.any() and len(chosen) < k:
        value = np.where(left, (1 - diversity) * relevance - diversity * closest, -np.inf)
        best = int(value.argmax())
        chosen.append(best)
        left[best] = False
        closest = np.maximum(closest, matrix @ matrix[best])
    return chosen


def embed_texts(texts: Iterable[str], embed: Embed) -> Vectors:
    """Squeezed text → unit vector for every distinct text."""
    distinct = list(dict.fromkeys(squeeze(t) for t in texts))
    return dict(zip(distinct, embed(distinct), strict=True)) if distinct else {}
