"""The bundled tagger's heads: names with their types, and which of them are related, from the states of a text's tokens.

A token's state and how the token is written (the model's own tokens are in lower case) give its tag. Of two names, their states, the mean
state of what stands between them and how far apart they are give the probability that the text relates them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
TYPES = ("person", "organization", "place", "event", "other")
NOMINALS = ("person", "place")  # what a common noun may stand for; other types of it teach nothing
OUT = 0
TAGS = ("O", *(f"{head}-{kind}" for kind in TYPES for head in "BI"))
NOMINAL_TAGS = ("O", *(f"{head}-{kind}" for kind in NOMINALS for head in "BI"))
SHAPES = 8
FACTS = 4 + 2 * len(TYPES)  # of a pair, besides states
WINDOW = 320  # tokens computed together


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its characters in its text."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """Tokens `first` to `last` (inclusive) that name something, or with a common noun stand for somebody; `score` is its probability."""

    first: int
    last: int
    type: str
    score: float
    nominal: bool = False


def tokenizer_of(folder: Path) -> object:
    """The tokenizer of a model folder, without truncation and padding."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.no_truncation()
    made.no_padding()
    return made


def shapes(text: str, tokens: Sequence[Token], likely: Sequence[tuple[int, int]]) -> Array:
    """How each token is written, (n, 3 · SHAPES) float32: of itself, of the one before and of the one after.

    `likely` are the places of likely names, as characters, found by rules that know the whole document.
    """
    own = np.zeros((len(tokens) + 2, SHAPES), np.float32)
    begin = {start for start, _ in likely}
    inside = {n for start, end in likely for n in range(start, end)}
    for n, t in enumerate(tokens, 1):
        word, before = text[t.start : t.end], text[t.start - 1 : t.start]
        begins = not before.isalnum()
        own[n] = (
            begins,
            word[:1].isupper() and begins,
            len(word) > 1 and word.isupper(),
            word[:1].isdigit(),
            begins and text[: t.start].rstrip(" \"'“‘(*_")[-1:] in ("", ".", "!", "?", ":", "\n", ";", "…"),
            not word.isalnum(),
            t.start in begin,
            t.start in inside,
        )
    return np.concatenate([own[1:-1], own[:-2], own[2:]], axis=1)


def facts(a: Mention, b: Mention, same: bool, others: int) -> list[float]:
    """What is known of a pair besides its states: whether one sentence holds both, their distance in tokens and in names, their types."""
    kinds = [float(m.type == kind) for m in (a, b) for kind in TYPES]
    away = max(0, b.first - a.last - 1)
    return [float(same), float(np.log1p(away)), float(np.log1p(others)), float(away <= 2), *kinds]


class Heads:
    """The heads on the states, in numpy; `tensors` are named as the training writes them."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._of = tensors

    def _hidden(self, name: str, given: Array) -> Array:
        hidden = np.maximum(given @ self._of[f"{name}.0.weight"].T + self._of[f"{name}.0.bias"], 0)
        return np.asarray(hidden @ self._of[f"{name}.2.weight"].T + self._of[f"{name}.2.bias"], np.float32)

    def tags(self, states: Array, shape: Array) -> tuple[Array, Array]:
        """Probabilities of TAGS and of NOMINAL_TAGS for every token, (n, 11) and (n, 5)."""
        given = np.concatenate([states, shape], axis=1)
        logits = self._hidden("tags", given)
        return _softmax(logits[:, : len(TAGS)]), _softmax(logits[:, len(TAGS) :])

    def related(self, pairs: Array) -> Array:
        """Probabilities that pairs are related, (n,), of their values as `pair_values` gives them."""
        return np.asarray(1 / (1 + np.exp(-self._hidden("pairs", pairs)[:, 0])), np.float32)


def pair_values(states: Array, a: Mention, b: Mention, known: Sequence[float]) -> Array:
    """What the pair head is given of two mentions in the order of the text: their mean states, that of what is between, and facts."""
    between = states[a.last + 1 : b.first]
    middle = between.mean(axis=0) if len(between) else np.zeros(states.shape[1], np.float32)
    parts = [states[a.first : a.last + 1].mean(axis=0), states[b.first : b.last + 1].mean(axis=0), middle, np.asarray(known, np.float32)]
    return np.concatenate(parts)


def spans(probabilities: Array, kinds: Sequence[str], *, nominal: bool = False) -> list[Mention]:
    """The mentions of the most probable tags: a B or a change of type begins one."""
    best = probabilities.argmax(axis=1)
    found: list[Mention] = []
    at = 0
    while at < len(best):
        if best[at] == OUT:
            at += 1
            continue
        kind = (best[at] - 1) // 2
        last = at
        while last + 1 < len(best) and best[last + 1] == 2 * kind + 2:
            last += 1
        score = float(np.mean([1 - probabilities[i, OUT] for i in range(at, last + 1)]))
        found.append(Mention(at, last, kinds[kind], score, nominal))
        at = last + 1
    return found


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)
