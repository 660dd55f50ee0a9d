"""Verbatim sentences around mentions and evidence, and the choice of a central and varied few among them."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.records import Chunk, Claim, Entity, Evidence, Graph, Mention, Quote
from localrag.text.plain import CJK, chunk_sentences, is_cjk, squeeze
from localrag.text.prose import Kind, kind_of, shown

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Placed = TypeVar("Placed", Mention, Evidence)


def sentence_quotes(chunk: Chunk, start: int, end: int) -> list[Quote]:
    """The sentences of `chunk` that hold characters `start` to `end` of the document."""
    spans = chunk_sentences(chunk.text)
    starts = [s.start for s in spans]
    first = max(0, bisect_right(starts, start - chunk.start) - 1)
    last = max(first, bisect_right(starts, max(start, end - 1) - chunk.start) - 1)
    return [Quote(chunk.id, chunk.start + a, chunk.start + b, chunk.text[a:b]) for a, b in spans[first : last + 1]]


def relationship_quotes(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, list[Quote]]:
    """For each relationship, the sentences that state it, each once although chunks overlap, in the order of `chunks`."""
    found: dict[str, dict[str, Quote]] = {e.relationship_id: {} for e in graph.evidence}
    for e in _in_order(graph.evidence, chunks):
        for quote in sentence_quotes(chunks[e.chunk_id], e.start, e.end):
            found[e.relationship_id].setdefault(squeeze(quote.text), quote)
    return {key: list(quotes.values()) for key, quotes in found.items() if quotes}


def entity_quotes(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, list[Quote]]:
    """For each entity, the sentences that mention it, each once, those that tell most first, equal ones in the order of `chunks`."""
    found: dict[str, dict[str, Quote]] = {m.entity_id: {} for m in graph.mentions}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for m in _in_order(graph.mentions, chunks):
        quote = sentence_quotes(chunks[m.chunk_id], m.start, m.end)[0]
        text = squeeze(quote.text)
        found[m.entity_id].setdefault(text, quote)
        names[text].add(m.entity_id)
    tells = {text: telling(text, len(some)) for text, some in names.items()}
    return {key: [quotes[t] for t in sorted(quotes, key=lambda t: -tells[t])] for key, quotes in found.items()}


def _in_order(found: Iterable[Placed], chunks: Mapping[str, Chunk]) -> list[Placed]:
    """Sorted by the place of their chunk among `chunks`, which are in the order of paths and places, then by their own. Not by the chunk's
    id: it is a hash, and an edit anywhere in a document changes those of all its chunks.
    """
    number = {chunk_id: n for n, chunk_id in enumerate(chunks)}
    return sorted(found, key=lambda x: (number[x.chunk_id], x.start))


def claim_quotes(claims: Iterable[Claim], chunks: Mapping[str, Chunk]) -> dict[str, Quote]:
    """For each claim, the sentence that makes it; none for one whose chunk is not among those given."""
    found = {}
    for c in claims:
        if (chunk := chunks.get(c.chunk_id)) is not None:
            found[c.id] = Quote(chunk.id, c.start, c.end, chunk.text[c.start - chunk.start : c.end - chunk.start])
    return found


def claim_line(claim: Claim, entities: Mapping[str, Entity]) -> str:
    """`Lars Holm – Northern Line (fraud, SUSPECTED, 1953-02-01 to 1953-03-01): what the claim says`."""
    names = " – ".join(entities[i].name for i in (claim.subject_id, claim.object_id) if i and i in entities)
    when = " to ".join(dict.fromkeys(filter(None, (claim.since, claim.until))))
    return f"{names} ({', '.join(filter(None, (claim.type, claim.status, when)))}): {claim.description}"


REPEATED = 0.85  # of its words: so many said before, and a sentence says nothing new
_WORD = re.compile(rf"[{CJK}]{{1,2}}|[^\W_{CJK}]+")
_LEANING = re.compile(  # what leans on the sentence before it
    r"^[\"'“‘(]*(?:he|she|it|they|we|i|you|his|her|its|their|my|our|your|this|that|these|those|there|then|but|and|so|or|yet|him|them"
    r"|such|another|both|here|他|她|它|我|你|这|那|此)\b|^[\"'“‘(]*[他她它我你这那此其]",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|our|us|we|you|your)\b|[我你您]")


def telling(text: str, entities: int) -> float:
    """How much a sentence is worth quoting by its form alone: it stands on its own, has a readable length and names several entities."""
    if kind_of(text) != Kind.PROSE:
        return 0.0
    text = shown(text)
    length = len(text) * (3 if is_cjk(text) else 1)
    readable = 1.0 if 60 <= length <= 280 else 0.5 if 30 <= length <= 400 else 0.0
    finished = 1.0 if text.rstrip("\"'”’)»』」").endswith((".", "!", "?", "。", "！", "？")) else 0.0
    alone = 0.0 if _LEANING.match(text) else 0.5 if _FIRST_PERSON.search(text) else 1.0
    return readable + finished + alone + 0.2 * min(entities, 4)


def most_central(texts: Sequence[str], matrix: NDArray[np.float32], names: Sequence[str], k: int) -> list[int]:
    """The numbers of up to `k` texts near the centre of all, telling in form, and unlike each other (see `marginal_relevance`).

    `matrix`: (n, d) unit vectors, those of the texts.
    """
    if not texts:
        return []
    centre = matrix.mean(axis=0)
    form = np.array([telling(t, sum(n in t for n in names)) for t in texts], np.float32)
    relevance = matrix @ (centre / max(float(np.linalg.norm(centre)), 1e-9)) + 0.2 * form
    return [i for i in marginal_relevance(relevance, matrix, k) if form[i] > 0 or len(texts) < k]


def marginal_relevance(relevance: NDArray[np.float32], matrix: NDArray[np.float32], k: int, *, diversity: float = 0.5) -> list[int]:
    """Row numbers of `matrix`, (n, d) unit vectors, best first: relevant, and unlike the rows chosen before.

    Maximal marginal relevance (Carbonell and Goldstein 1998).
    """
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


def repeats(text: str, said: str) -> bool:
    """Whether a sentence says what another has said: the shorter one's words are nearly all in the other, and so are its numbers."""
    few, many = sorted((_words(text), _words(said)), key=len)
    return len(few & many) >= REPEATED * len(few) and not any(w.isdigit() for w in few - many)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) or {text}
