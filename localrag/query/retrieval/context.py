"""Finding and packing what an answer is made from: nearest passages, the entities a question names, budgets in tokens."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.draft import Point
from localrag.query.question import Question
from localrag.query.retrieval.rank_sentences import rank_sentences, weights_for, without_names, word_overlap
from localrag.records import Chunk, Quote
from localrag.store import corpus
from localrag.text.plain import is_cjk, squeeze
from localrag.text.prose import Kind, asked_for, kind_of, kinds, shown
from localrag.text.quotes import repeats, telling

T = TypeVar("T")
SENTENCES = 6  # of an answer put together from the documents' own
FAR_BEHIND = 4.0  # log-odds; what is so much less likely to answer than the best sentence is not shown
AT_ONCE = 16  # sentences embedded together; that many fill a call of the embedder
NEAREST = 1.001  # more than any cosine, with its rounding
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


@dataclass(frozen=True, slots=True)
class Sentences:
    """What may be quoted for a question: quotes, their readable texts, and how near each is to it but for its meaning, (n,) float32."""

    quotes: list[Quote]
    texts: list[str]
    near: NDArray[np.float32]


def worth_quoting(
    question: str,
    quotes: Sequence[Quote],
    names: Sequence[str] = (),
    weight: Mapping[str, float] = MappingProxyType({}),
) -> Sentences:
    """The well-formed sentences among some quotes, and how near each is to a question: in words and form, naming what it names.

    `weight`: how much the passage of a sentence bears on the question (chunk id → 0 to 1).
    """
    asked = asked_for(question)
    sort = [kind_of(q.text) for q in quotes]
    suits = [s in asked or bool(asked and s not in (Kind.PROSE, Kind.ROW)) for s in sort]  # what is code by its place alone is one
    texts = [readable(q) for q in quotes]
    form = [telling(t, 1) for t in texts]
    kept = [i for i in range(len(texts)) if form[i] > 1 or suits[i] or sort[i] == Kind.ROW] or list(range(len(texts)))
    if not kept:
        return Sentences([], [], np.zeros(0, np.float32))
    mentions = np.array([any(n.lower() in texts[i].lower() for n in names) for i in kept], np.float32)
    shape = np.array([form[i] for i in kept], np.float32)
    words = np.array(word_overlap(without_names(question, names), [texts[i] for i in kept]), np.float32)
    same_script = np.array([is_cjk(texts[i]) == is_cjk(question) for i in kept], np.float32)
    bearing = np.array([weight.get(quotes[i].chunk_id, 0.0) for i in kept], np.float32)
    suited = np.array([ASKED if suits[i] else -BEHIND.get(sort[i], 0.0) for i in kept], np.float32)
    near = 0.6 * words + 0.1 * mentions + 0.05 * shape + 0.3 * same_script + BEARING * bearing + suited
    return Sentences([quotes[i] for i in kept], [texts[i] for i in kept], near)


def ranked(question: str, vector: NDArray[np.float32], found: Sentences, project: Project, weight: Mapping[str, float]) -> Iterator[int]:
    """The sentences that may answer a question by their numbers, the likeliest first; none far behind the first.

    Only as many are embedded as it takes to be sure of those that are asked for: no cosine lifts a sentence by more than its weight
    (threshold algorithm, Fagin et al. 2003). `vector`, (d,), is the question's.
    """
    if not found.quotes:
        return
    passages = [q.chunk_id for q in found.quotes]
    of_document = corpus.titles(project.db, set(passages))
    least = rank_sentences(question, found.texts, found.near, passages, [of_document.get(p, "") for p in passages], weight)
    gain = weights_for(question)["near"]
    rest, known = [int(n) for n in np.argsort(-least, kind="stable")], list[tuple[float, int]]()
    first: float | None = None
    while rest or known:
        if rest and not (known and -known[0][0] > least[rest[0]] + gain * NEAREST):
            now, rest = rest[:AT_ONCE], rest[AT_ONCE:]
            cosines = project.embedder.embed([found.texts[n] for n in now]) @ vector
            for n, cosine in zip(now, cosines, strict=True):
                heapq.heappush(known, (-float(least[n] + gain * cosine), n))
            continue
        behind, n = heapq.heappop(known)
        first = behind if first is None else first
        if behind > first + FAR_BEHIND:
            return
        yield n


def best_quotes(
    question: Question,
    quotes: Sequence[Quote],
    project: Project,
    k: int,
    names: Sequence[str] = (),
    weight: Mapping[str, float] = MappingProxyType({}),
) -> list[Quote]:
    """The `k` sentences that answer best, see `worth_quoting` and `ranked`; what was said nearly so is not said again."""
    found = worth_quoting(question.text, quotes, names, weight)
    order = ranked(question.text, question.vector, found, project, weight)
    return [found.quotes[n] for n in islice(unlike(order, found.texts), k)]


def unlike(order: Iterable[int], texts: Sequence[str]) -> Iterator[int]:
    """The sentences in their order, without those that say nearly what was said before."""
    said: list[str] = []
    for n in order:
        if not any(repeats(texts[n], other) for other in said):
            said.append(texts[n])
            yield n


class AsNeeded:
    """The numbers of sentences in their order, to go through again and again; each is taken from `source` when it is first reached."""

    def __init__(self, source: Iterator[int]) -> None:
        self._source = source
        self._taken: list[int] = []

    def __iter__(self) -> Iterator[int]:
        """From the first on."""
        for at in count():
            if at == len(self._taken):
                self._taken += islice(self._source, 1)
            if at == len(self._taken):
                return
            yield self._taken[at]
