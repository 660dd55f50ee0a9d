"""Verbatim sentences around mentions and evidence, and the selection of a central and varied few among them."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.records import Chunk, Claim, Entity, Graph, Mention, Quote
from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.sentences import CJK, cached_sentences, collapse_whitespace, is_cjk

EmbedSentences = Callable[[Sequence[str]], NDArray[np.float32]]


def sentence_quotes(chunk: Chunk, start: int, end: int) -> list[Quote]:
    """The sentences of `chunk` that contain characters `start` to `end` of the document."""
    spans = cached_sentences(chunk.text)
    starts = [s.start for s in spans]
    first = max(0, bisect_right(starts, start - chunk.start) - 1)
    last = max(first, bisect_right(starts, max(start, end - 1) - chunk.start) - 1)
    return [Quote(chunk.id, chunk.start + a, chunk.start + b, chunk.text[a:b]) for a, b in spans[first : last + 1]]


def entity_quotes(graph: Graph, chunks: Mapping[str, Chunk]) -> dict[str, list[Quote]]:
    """Entity id → the sentences that mention it, each once, the most informative first, ties in the order of `chunks`."""
    by_entity: dict[str, dict[str, Quote]] = {m.entity_id: {} for m in graph.mentions}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for m in _in_order(graph.mentions, chunks):
        quote = sentence_quotes(chunks[m.chunk_id], m.start, m.end)[0]
        text = collapse_whitespace(quote.text)
        by_entity[m.entity_id].setdefault(text, quote)
        names[text].add(m.entity_id)
    scores = {text: informativeness(text, len(entity_ids)) for text, entity_ids in names.items()}
    return {key: [quotes[t] for t in sorted(quotes, key=lambda t: -scores[t])] for key, quotes in by_entity.items()}


def _in_order(mentions: Iterable[Mention], chunks: Mapping[str, Chunk]) -> list[Mention]:
    """Sort by the chunk's position in `chunks`, then by offset; its id is a hash, which every edit of a document changes."""
    number = {chunk_id: n for n, chunk_id in enumerate(chunks)}
    return sorted(mentions, key=lambda m: (number[m.chunk_id], m.start))


def claim_quotes(claims: Iterable[Claim], chunks: Mapping[str, Chunk]) -> dict[str, Quote]:
    """Claim id → the sentence that makes it; without claims whose chunk is not in `chunks`."""
    quotes = {}
    for c in claims:
        if (chunk := chunks.get(c.chunk_id)) is not None:
            quotes[c.id] = Quote(chunk.id, c.start, c.end, chunk.text[c.start - chunk.start : c.end - chunk.start])
    return quotes


def format_claim(claim: Claim, entities: Mapping[str, Entity]) -> str:
    """A claim as text: `Lars Holm – Northern Line (fraud, SUSPECTED, 1953-02-01 to 1953-03-01): description`."""
    names = " – ".join(entities[i].name for i in (claim.subject_id, claim.object_id) if i and i in entities)
    period = " to ".join(dict.fromkeys(filter(None, (claim.start_date, claim.end_date))))
    return f"{names} ({', '.join(filter(None, (claim.type, claim.status, period)))}): {claim.description}"


def quote_text(quote: Quote) -> str:
    """A quote as an answer shows it: sentences without markup, the fields of a row side by side, code as it is."""
    kind = classify_sentence(quote.text)
    if kind == TextKind.CODE:
        return collapse_whitespace(quote.text)
    return strip_markup(" · ".join(quote.text.splitlines()) if kind == TextKind.ROW else quote.text) or collapse_whitespace(quote.text)


REPETITION_THRESHOLD = 0.85  # share of its words that another sentence has: above it, a sentence is a repetition
_QUOTE_WORD = re.compile(rf"[{CJK}]{{1,2}}|[^\W_{CJK}]+")
_STARTS_WITH_PRONOUN = re.compile(  # such a sentence depends on the one before it
    r"^[\"'“‘(]*(?:he|she|it|they|we|i|you|his|her|its|their|my|our|your|this|that|these|those|there|then|but|and|so|or|yet|him|them"
    r"|such|another|both|here|他|她|它|我|你|这|那|此)\b|^[\"'“‘(]*[他她它我你这那此其]",
    re.IGNORECASE,
)
_FACT_PATTERN = re.compile(r"\d+|(?<=[a-zß-ÿ,;] )[A-ZÀ-Þ]\w+")
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|our|us|we|you|your)\b|[我你您]")


def informativeness(text: str, entities: int) -> float:
    """How suitable a sentence is as a quote by its form: independent, of readable length, with several entities. 0 if it is no prose."""
    if classify_sentence(text) != TextKind.PROSE:
        return 0.0
    text = strip_markup(text)
    length = len(text) * (3 if is_cjk(text) else 1)
    length_score = 1.0 if 60 <= length <= 280 else 0.5 if 30 <= length <= 400 else 0.0
    end_score = 1.0 if text.rstrip("\"'”’)»』」").endswith((".", "!", "?", "。", "！", "？")) else 0.0
    independence = 0.0 if _STARTS_WITH_PRONOUN.match(text) else 0.5 if _FIRST_PERSON.search(text) else 1.0
    return length_score + end_score + independence + 0.2 * min(entities, 4)


def count_facts(text: str) -> int:
    """How many figures and names a sentence has, by their form."""
    return len(_FACT_PATTERN.findall(text))


def select_central(texts: Sequence[str], matrix: NDArray[np.float32], names: Sequence[str], k: int) -> list[int]:
    """Up to `k` of `matrix`, (n, d) unit vectors: near the center of all, suitable by form, and dissimilar to each other (see `mmr`)."""
    if not texts:
        return []
    center = matrix.mean(axis=0)
    form = np.array([informativeness(t, sum(n in t for n in names)) for t in texts], np.float32)
    relevance = matrix @ (center / max(float(np.linalg.norm(center)), 1e-9)) + 0.2 * form
    return [i for i in mmr(relevance, matrix, k) if form[i] > 0 or len(texts) < k]


def mmr(relevance: NDArray[np.float32], matrix: NDArray[np.float32], k: int, *, diversity: float = 0.5) -> list[int]:
    """Rows of (n, d) unit vectors, relevant and dissimilar to earlier ones (maximal marginal relevance, Carbonell and Goldstein 1998)."""
    chosen: list[int] = []
    closest = np.zeros(len(relevance), np.float32)
    remaining = np.ones(len(relevance), bool)
    while remaining.any() and len(chosen) < k:
        value = np.where(remaining, (1 - diversity) * relevance - diversity * closest, -np.inf)
        best = int(value.argmax())
        chosen.append(best)
        remaining[best] = False
        closest = np.maximum(closest, matrix @ matrix[best])
    return chosen


def is_repetition(text: str, other: str) -> bool:
    """Whether two sentences say the same: nearly all words of the shorter are in the longer, and all of its numbers."""
    fewer, more = sorted((_quote_words(text), _quote_words(other)), key=len)
    return len(fewer & more) >= REPETITION_THRESHOLD * len(fewer) and not any(w.isdigit() for w in fewer - more)


def _quote_words(text: str) -> set[str]:
    return set(_QUOTE_WORD.findall(text.lower())) or {text}
