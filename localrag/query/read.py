"""Reading the passages that were found: which of their sentences answer a question, and in which words (open-domain reading, Chen et al.
2017, over windows of sentences as the reader has seen them in training)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.engine.reader import Reader, best_span
from localrag.records import Quote
from localrag.text import squeeze

TOKENS = 1500  # that are read for a question, those of the sentences nearest to it with their neighbours


@dataclass(frozen=True, slots=True)
class Found:
    """The best span of a sentence: the sentence's number, the characters of its squeezed text, and the score over no answer at all."""

    sentence: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading found: of each sentence that was read the best span, best first; of the windows the probability of yes and of no."""

    found: tuple[Found, ...]
    yes: float
    no: float


def read(question: str, quotes: Sequence[Quote], relevance: NDArray[np.float32], reader: Reader) -> Reading:
    """Read the sentences nearest a question.

    `quotes`: sentences, those of a passage one after the other; `relevance`, (n,): how near each is to the question.
    """
    texts = [squeeze(q.text) for q in quotes]
    windows = list(_windows(question, quotes, texts, relevance, reader))
    said = reader.read(question, [[" ".join(texts[n] for n in stretch) for stretch in window] for window in windows])
    found: dict[int, Found] = {}
    for window, one in zip(windows, said, strict=True):
        for number, span in _spans(window, texts, one.tokens.places):
            score, first, last = best_span(one, span[0], span[-1])
            (_, a, _), (_, _, b) = one.tokens.places[first], one.tokens.places[last]
            begin = _begin(window, texts, number)
            found[number] = Found(number, a - begin, b - begin, score)
    kinds = np.array([one.kinds for one in said]) if said else np.zeros((1, 4))
    return Reading(tuple(sorted(found.values(), key=lambda f: -f.score)), float(kinds[:, 1].max()), float(kinds[:, 2].max()))


def _windows(
    question: str, quotes: Sequence[Quote], texts: Sequence[str], relevance: NDArray[np.float32], reader: Reader
) -> Iterator[list[list[int]]]:
    """Stretches of sentences that follow each other, packed into windows, the nearest first; each stretch is a list of sentence numbers."""
    sizes = [len(reader.encoder.tokens(t)) for t in texts]
    room = reader.window - min(64, len(reader.encoder.tokens(question))) - 3
    chosen: set[int] = set()
    left = TOKENS
    for n in np.argsort(-relevance, kind="stable"):
        new = [m for m in (n, n - 1, n + 1) if 0 <= m < len(quotes) and quotes[m].chunk_id == quotes[n].chunk_id and m not in chosen]
        if sum(sizes[m] for m in new) > left:
            break
        chosen.update(int(m) for m in new)
        left -= sum(sizes[m] for m in new)
    window: list[list[int]] = []
    used = 0
    for stretch in sorted(_stretches(sorted(chosen), quotes, sizes, room), key=lambda s: -max(relevance[n] for n in s)):
        size = sum(sizes[n] for n in stretch) + 1
        if window and used + size > room:
            yield window
            window, used = [], 0
        window.append(stretch)
        used += size
    if window:
        yield window


def _stretches(chosen: Sequence[int], quotes: Sequence[Quote], sizes: Sequence[int], room: int) -> Iterator[list[int]]:
    stretch: list[int] = []
    for n in chosen:
        follows = stretch and n == stretch[-1] + 1 and quotes[n].chunk_id == quotes[n - 1].chunk_id
        if stretch and (not follows or sum(sizes[m] for m in stretch) + sizes[n] >= room):
            yield stretch
            stretch = []
        stretch.append(n)
    if stretch:
        yield stretch


def _begin(window: Sequence[Sequence[int]], texts: Sequence[str], number: int) -> int:
    """Where a sentence begins in its stretch's text."""
    stretch = next(s for s in window if number in s)
    return sum(len(texts[n]) + 1 for n in stretch[: list(stretch).index(number)])


def _spans(
    window: Sequence[Sequence[int]], texts: Sequence[str], places: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[int, list[int]]]:
    """Of each sentence of a window the tokens that lie in it, if any were kept."""
    for passage, stretch in enumerate(window):
        begin = 0
        for number in stretch:
            end = begin + len(texts[number])
            if tokens := [t for t, (p, a, b) in enumerate(places) if p == passage and a >= begin and b <= end and b > a]:
                yield number, tokens
            begin = end + 1
