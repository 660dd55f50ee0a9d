"""Names with their types, and which of them a text relates, from the bundled tagger: a text in windows of whole sentences."""

import asyncio
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.adapter import Adapter, read_adapter
from localrag.engine.embedding.tagger import (
    NOMINALS,
    TYPES,
    WINDOW,
    Heads,
    Mention,
    Token,
    facts,
    pair_values,
    shapes,
    spans,
    tokenizer_of,
)
from localrag.errors import ModelError
from localrag.model_table import shipped_models
from localrag.models import find_adapter
from localrag.text.plain import chunk_sentences


@dataclass(frozen=True, slots=True)
class Named:
    """Characters `start` to `end` of a text that name something of a type; `nominal`: a common noun that stands for somebody."""

    start: int
    end: int
    type: str
    score: float
    nominal: bool = False


@dataclass(frozen=True, slots=True)
class Tagged:
    """What the tagger finds in a text; `related` are places in `names` with the probability that the text relates the two."""

    names: tuple[Named, ...]
    related: tuple[tuple[int, int, float], ...]


class Tagger:
    """Tags texts; the model is merged with its adapter once per machine, and loaded on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one text at a time, from whichever thread

    @cached_property
    def fingerprint(self) -> str:
        """What an extraction by it depends on."""
        return str(shipped_models()["adapter"]["tagger"]["sha256"])[:16]

    async def tag(self, text: str, likely: Sequence[tuple[int, int]]) -> Tagged:
        """The names of a text and their relations, given the places of likely names. Raises ModelError where the model cannot run here."""
        return await asyncio.to_thread(self._tag, text, likely)

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Heads]:
        """The tokenizer, what computes states, and the heads."""
        from localrag.engine.embedding.states import States  # loads llama.cpp

        path, base = find_adapter("tagger")
        adapter: Adapter = read_adapter(path)
        return tokenizer_of(base.path), States(base, adapter), Heads(adapter.tensors)

    def _tag(self, text: str, likely: Sequence[tuple[int, int]]) -> Tagged:
        with self._lock:
            tokenizer, states, heads = self._loaded
        whole = tokenizer.encode(text, add_special_tokens=False)
        tokens = [Token(i, a, b) for i, (a, b) in zip(whole.ids, whole.offsets, strict=True)]
        starts = [s.start for s in chunk_sentences(text)]
        sentences = [max(0, bisect_right(starts, t.start) - 1) for t in tokens]
        first, last = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        parts = list(windows(sentences))
        try:
            with self._lock:
                found = states.compute([[first, *(t.id for t in tokens[a:b]), last] for a, b in parts])
        except ModelError as error:
            raise ModelError(f"The bundled tagger does not run here: {error}", "Do without it: --engine adapter=no") from error
        names: dict[tuple[int, int], Named] = {}
        related: dict[tuple[tuple[int, int], tuple[int, int]], float] = {}
        shape = shapes(text, tokens, likely)
        for (a, b), state in zip(parts, found, strict=True):
            mentions, pairs = self._read(heads, state[1:-1], shape[a:b], sentences[a:b])
            places = [_words(text, tokens[a + m.first].start, tokens[a + m.last].end) for m in mentions]
            for m, place in zip(mentions, places, strict=True):
                names.setdefault(place, Named(*place, m.type, m.score, m.nominal))
            for i, j, p in pairs:
                pair = places[i], places[j]
                related[pair] = max(p, related.get(pair, 0.0))
        ordered = sorted(names)
        at = {place: n for n, place in enumerate(ordered)}
        return Tagged(tuple(names[p] for p in ordered), tuple((at[x], at[y], p) for (x, y), p in related.items()))

    @staticmethod
    def _read(
        heads: Heads, states: NDArray[np.float32], shape: NDArray[np.float32], sentences: Sequence[int]
    ) -> tuple[list[Mention], list[tuple[int, int, float]]]:
        """The mentions of a window, and pairs of its names with the probability that they are related."""
        named, common = heads.tags(states, shape)
        names = spans(named, TYPES)
        inside = {n for m in names for n in range(m.first, m.last + 1)}
        nominal = [m for m in spans(common, NOMINALS, nominal=True) if inside.isdisjoint(range(m.first, m.last + 1))]
        pairs, values = [], []
        for i, a in enumerate(names):
            for j, b in enumerate(names[i + 1 :], i + 1):
                away = sentences[b.first] - sentences[a.first]
                if away > 1:
                    break
                pairs.append((i, j))
                values.append(pair_values(states, a, b, facts(a, b, away == 0, j - i - 1)))
        scores = heads.related(np.stack(values)).tolist() if values else []
        return [*names, *nominal], [(i, j, p) for (i, j), p in zip(pairs, scores, strict=True)]


def windows(sentences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of tokens, given the sentence of each: whole sentences as many as fit, the next range beginning with the last one again."""
    most, start = WINDOW - 2, 0
    while start < len(sentences):
        end = min(len(sentences), start + most)
        if end == len(sentences):
            yield start, end
            return
        cut = end
        while cut > start and sentences[cut] == sentences[cut - 1]:
            cut -= 1
        if cut == start:  # one sentence longer than a window
            yield start, end
            start = end
            continue
        yield start, cut
        again = cut - 1
        while again > start and sentences[again - 1] == sentences[cut - 1]:
            again -= 1
        start = again if again > start else cut


def _words(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters with the words they begin and end in."""
    while start and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return start, end
