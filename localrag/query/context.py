"""Finding and packing what an answer is made from: nearest passages, the entities a question names, budgets in tokens."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from localrag.llm.project import Project
from localrag.prose import Kind, asked_for, kind_of, kinds, shown
from localrag.query.cite import Point
from localrag.query.question import Question
from localrag.query.retrieve import stems
from localrag.quotes import marginal_relevance, repeats, telling
from localrag.records import Chunk, Quote
from localrag.text import is_cjk, squeeze

T = TypeVar("T")
SENTENCES = 6  # of an answer put together from the documents' own
BEARING = 0.2  # how much a passage's rank counts for its sentences
ASKED = 0.2  # what a sentence of a kind gains that the question asks for: code, a table, a licence
BEHIND = {Kind.ROW: 0.15, Kind.FRAGMENT: 0.3, Kind.CODE: 0.5}  # what others lose against prose, unless they are asked for


def pack(items: Iterable[T], size: Callable[[T], int], budget: int) -> list[T]:
    """Items from the front until the next would pass the budget; at least one is never forced in."""
    taken, used = [], 0
    for item in items:
        used += size(item)
        if used > budget:
            break
        taken.append(item)
    return taken


def chunk_quotes(chunks: Iterable[Chunk], question: str = "") -> list[Quote]:
    """What may be quoted of the chunks, each stretch once although chunks overlap: sentences, rows, and what the question asks for.

    Where there is nothing of the kind, everything that has a word.
    """
    found: dict[tuple[str, int], tuple[Quote, Kind]] = {}
    for c in chunks:
        for (start, end), kind in kinds(c.text):
            if not any(map(str.isalnum, c.text[start:end])):  # a quotation mark left alone
                continue
            quote = Quote(c.id, c.start + start, c.start + end, c.text[start:end])
            found.setdefault((c.document_id, c.start + start), (quote, kind))
    wanted = {Kind.PROSE, Kind.ROW, *asked_for(question)}
    return [q for q, kind in found.values() if kind in wanted] or [q for q, _ in found.values()]


def quoted_answer(
    question: Question, passages: Sequence[tuple[Chunk, float]], project: Project, names: Sequence[str] = ()
) -> tuple[Point, ...]:
    """The sentences of scored passages that answer best, as points."""
    weight = {c.id: score for c, score in passages}
    k = 1 if question.one_sentence else SENTENCES
    quotes = best_quotes(question, chunk_quotes([c for c, _ in passages], question.text), project, k, names, weight)
    return tuple(quoted(q) for q in quotes)


def quoted(*quotes: Quote, title: str = "") -> Point:
    """A point that says what its quotes do, in their words but without their markup."""
    return Point(" ".join(filter(None, map(readable, quotes))), quotes, title)


def readable(quote: Quote) -> str:
    """A quote as an answer shows it: sentences without markup, the fields of a row side by side, code as it is."""
    kind = kind_of(quote.text)
    if kind == Kind.CODE:
        return squeeze(quote.text)
    return shown(" · ".join(quote.text.splitlines()) if kind == Kind.ROW else quote.text) or squeeze(quote.text)


def best_quotes(
    question: Question,
    quotes: Sequence[Quote],
    project: Project,
    k: int,
    names: Sequence[str] = (),
    weight: Mapping[str, float] = MappingProxyType({}),
) -> list[Quote]:
    """The `k` sentences that answer best: near the question, naming what it names, well formed, unlike each other.

    `weight`: how much the passage of a sentence bears on the question (chunk id → 0 to 1). What was said nearly so is not said again.
    """
    asked = asked_for(question.text)
    sort = [kind_of(q.text) for q in quotes]
    suits = [s in asked or bool(asked and s not in (Kind.PROSE, Kind.ROW)) for s in sort]  # what is code by its place alone is one
    texts = [readable(q) for q in quotes]
    form = [telling(t, 1) for t in texts]
    kept = [i for i in range(len(texts)) if form[i] > 1 or suits[i] or sort[i] == Kind.ROW] or list(range(len(texts)))
    if not kept:
        return []
    matrix = project.embedder.embed([texts[i] for i in kept])
    mentions = np.array([any(n.lower() in texts[i].lower() for n in names) for i in kept], np.float32)
    shape = np.array([form[i] for i in kept], np.float32)
    words = np.array(word_overlap(without_names(question.text, names), [texts[i] for i in kept]), np.float32)
    same_script = np.array([is_cjk(texts[i]) == is_cjk(question.text) for i in kept], np.float32)
    bearing = np.array([weight.get(quotes[i].chunk_id, 0.0) for i in kept], np.float32)
    suited = np.array([ASKED if suits[i] else -BEHIND.get(sort[i], 0.0) for i in kept], np.float32)
    relevance = matrix @ question.vector + 0.6 * words + 0.1 * mentions + 0.05 * shape + 0.3 * same_script + BEARING * bearing + suited
    order = marginal_relevance(relevance, matrix, 2 * k, diversity=0.25)
    best = float(relevance[order[0]])
    chosen: list[int] = []
    for i in order:
        if relevance[i] > 0.55 * best and not any(repeats(texts[kept[i]], texts[kept[c]]) for c in chosen):
            chosen.append(i)
    return [quotes[kept[i]] for i in chosen[:k]]


def word_overlap(question: str, texts: Sequence[str]) -> list[float]:
    """The share of the question's words that each text has, rare words counting more (inverse document frequency); 0 to 1.

    Words are cut to five letters, which joins most inflections; CJK text counts by character pairs.
    """
    wanted = stems(question)
    have = [stems(t) for t in texts]
    weight = {w: math.log((1 + len(texts)) / (0.5 + sum(w in h for h in have))) for w in wanted}
    total = sum(weight.values()) or 1.0
    return [sum(weight[w] for w in wanted & h) / total for h in have]


def without_names(text: str, names: Sequence[str]) -> str:
    """What is left of a question when the names in it are taken out."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text
