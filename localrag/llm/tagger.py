"""NER and relation tagger of the bundled model.

The bundled embedding model, merged with an adapter, computes the hidden states of a text's tokens in windows of whole sentences. A token's
tag follows from its state and its spelling (the model's own tokens are in lower case). Whether two names are related follows from their
states, the mean state between them, and their distance.
"""

import asyncio
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedder import load_bert
from localrag.engine.weights import load_adapter
from localrag.errors import ModelError
from localrag.model_files import damaged_hint, find_adapter, shipped_models
from localrag.text.sentences import cached_sentences

Array = NDArray[np.float32]
ENTITY_TYPES = ("person", "organization", "place", "event", "other")
NOMINAL_TYPES = ("person", "place")  # types of common nouns
OUTSIDE_TAG = 0
BIO_TAGS = ("O", *(f"{head}-{kind}" for kind in ENTITY_TYPES for head in "BI"))
NOMINAL_BIO_TAGS = ("O", *(f"{head}-{kind}" for kind in NOMINAL_TYPES for head in "BI"))
N_SHAPE_FEATURES = 8
N_PAIR_FEATURES = 4 + 2 * len(ENTITY_TYPES)  # besides hidden states
WINDOW_TOKENS = 320


@dataclass(frozen=True, slots=True)
class TaggerToken:
    """A token and its character span in the text."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TaggedMention:
    """Tokens `first` to `last` (inclusive) that name an entity, or a common noun for one (`is_nominal`); `score` is the probability."""

    first: int
    last: int
    type: str
    score: float
    is_nominal: bool = False


def tokenizer_of(folder: Path) -> object:
    """The tokenizer of a model folder, without truncation and padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def shape_features(text: str, tokens: Sequence[TaggerToken], likely: Sequence[tuple[int, int]]) -> Array:
    """Spelling features, (n, 3 · N_SHAPE_FEATURES), of each token and its neighbours. `likely`: spans of names found by rules."""
    features = np.zeros((len(tokens) + 2, N_SHAPE_FEATURES), np.float32)
    begin = {start for start, _ in likely}
    inside = {n for start, end in likely for n in range(start, end)}
    for n, t in enumerate(tokens, 1):
        word, before = text[t.start : t.end], text[t.start - 1 : t.start]
        begins = not before.isalnum()
        features[n] = (
            begins,
            word[:1].isupper() and begins,
            len(word) > 1 and word.isupper(),
            word[:1].isdigit(),
            begins and text[: t.start].rstrip(" \"'“‘(*_")[-1:] in ("", ".", "!", "?", ":", "\n", ";", "…"),
            not word.isalnum(),
            t.start in begin,
            t.start in inside,
        )
    return np.concatenate([features[1:-1], features[:-2], features[2:]], axis=1)


def pair_features(a: TaggedMention, b: TaggedMention, same: bool, n_between: int) -> list[float]:
    """Features of a pair besides hidden states: same sentence, distance in tokens and in names, types."""
    kinds = [float(m.type == kind) for m in (a, b) for kind in ENTITY_TYPES]
    distance = max(0, b.first - a.last - 1)
    return [float(same), float(np.log1p(distance)), float(np.log1p(n_between)), float(distance <= 2), *kinds]


class TaggerHeads:
    """The heads on the hidden states, in numpy; `tensors` have the names of the training."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._of = tensors

    def _hidden(self, name: str, inputs: Array) -> Array:
        hidden = np.maximum(inputs @ self._of[f"{name}.0.weight"].T + self._of[f"{name}.0.bias"], 0)
        return np.asarray(hidden @ self._of[f"{name}.2.weight"].T + self._of[f"{name}.2.bias"], np.float32)

    def tag_probabilities(self, states: Array, shape: Array) -> tuple[Array, Array]:
        """Probabilities of BIO_TAGS and of NOMINAL_BIO_TAGS for every token, (n, 11) and (n, 5)."""
        inputs = np.concatenate([states, shape], axis=1)
        logits = self._hidden("tags", inputs)
        return _softmax(logits[:, : len(BIO_TAGS)]), _softmax(logits[:, len(BIO_TAGS) :])

    def relation_probabilities(self, pairs: Array) -> Array:
        """Probabilities that pairs are related, (n,), from their `pair_inputs`."""
        return np.asarray(1 / (1 + np.exp(-self._hidden("pairs", pairs)[:, 0])), np.float32)


def pair_inputs(states: Array, a: TaggedMention, b: TaggedMention, features: Sequence[float]) -> Array:
    """Inputs of the pair head for two mentions in text order: their mean states, the mean state between them, and features."""
    between = states[a.last + 1 : b.first]
    middle = between.mean(axis=0) if len(between) else np.zeros(states.shape[1], np.float32)
    parts = [states[a.first : a.last + 1].mean(axis=0), states[b.first : b.last + 1].mean(axis=0), middle, np.asarray(features, np.float32)]
    return np.concatenate(parts)


def decode_bio(probabilities: Array, kinds: Sequence[str], *, nominal: bool = False) -> list[TaggedMention]:
    """The mentions of the most probable tags: a B tag or a change of type begins a mention."""
    best = probabilities.argmax(axis=1)
    mentions: list[TaggedMention] = []
    first = 0
    while first < len(best):
        if best[first] == OUTSIDE_TAG:
            first += 1
            continue
        kind = (best[first] - 1) // 2
        last = first
        while last + 1 < len(best) and best[last + 1] == 2 * kind + 2:
            last += 1
        score = float(np.mean([1 - probabilities[i, OUTSIDE_TAG] for i in range(first, last + 1)]))
        mentions.append(TaggedMention(first, last, kinds[kind], score, nominal))
        first = last + 1
    return mentions


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)


@dataclass(frozen=True, slots=True)
class TaggedSpan:
    """A typed name at characters `start` to `end` of a text; `is_nominal`: a common noun."""

    start: int
    end: int
    type: str
    score: float
    is_nominal: bool = False


@dataclass(frozen=True, slots=True)
class TaggingResult:
    """Names of a text; `related` are indexes into `names` with the probability that the text relates the two."""

    names: tuple[TaggedSpan, ...]
    related: tuple[tuple[int, int, float], ...]


class Tagger:
    """Tags texts; the model is merged with its adapter once per machine, and loaded on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one text at a time

    @cached_property
    def fingerprint(self) -> str:
        """A hash that identifies the model and its adapter."""
        return str(shipped_models()["adapter"]["tagger"]["sha256"])[:16]

    async def tag(self, text: str, likely: Sequence[tuple[int, int]]) -> TaggingResult:
        """The names of a text and their relations, given the spans of likely names. Raises ModelError if the model cannot run here."""
        return await asyncio.to_thread(self._tag, text, likely)

    @cached_property
    def _loaded(self) -> tuple[Any, Any, TaggerHeads]:
        from safetensors import SafetensorError

        path, base = find_adapter("tagger")
        adapter = load_adapter(path)
        try:
            return tokenizer_of(base.path), load_bert(base.path, adapter), TaggerHeads(adapter.tensors)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ModelError(f"{base.name} cannot be merged with its adapter: {error}", damaged_hint(base)) from error

    def _tag(self, text: str, likely: Sequence[tuple[int, int]]) -> TaggingResult:
        try:
            with self._lock:
                tokenizer, bert, heads = self._loaded
        except ModelError as error:
            remedy = f"{error.hint}; or run without it: --engine adapter=no"
            raise ModelError(f"The bundled tagger does not run here: {error}", remedy) from error
        encoding = tokenizer.encode(text, add_special_tokens=False)
        tokens = [TaggerToken(i, a, b) for i, (a, b) in zip(encoding.ids, encoding.offsets, strict=True)]
        starts = [s.start for s in cached_sentences(text)]
        sentences = [max(0, bisect_right(starts, t.start) - 1) for t in tokens]
        first, last = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        windows = list(token_windows(sentences))
        with self._lock:
            window_states = bert.hidden_states([[first, *(t.id for t in tokens[a:b]), last] for a, b in windows])
        names: dict[tuple[int, int], TaggedSpan] = {}
        related: dict[tuple[tuple[int, int], tuple[int, int]], float] = {}
        shape = shape_features(text, tokens, likely)
        for (a, b), state in zip(windows, window_states, strict=True):
            mentions, pairs = self._read(heads, state[1:-1], shape[a:b], sentences[a:b])
            spans = [_whole_words(text, tokens[a + m.first].start, tokens[a + m.last].end) for m in mentions]
            for m, span in zip(mentions, spans, strict=True):
                names.setdefault(span, TaggedSpan(*span, m.type, m.score, m.is_nominal))
            for i, j, p in pairs:
                pair = spans[i], spans[j]
                related[pair] = max(p, related.get(pair, 0.0))
        ordered = sorted(names)
        position_of = {span: n for n, span in enumerate(ordered)}
        return TaggingResult(tuple(names[p] for p in ordered), tuple((position_of[x], position_of[y], p) for (x, y), p in related.items()))

    @staticmethod
    def _read(
        heads: TaggerHeads, states: NDArray[np.float32], shape: NDArray[np.float32], sentences: Sequence[int]
    ) -> tuple[list[TaggedMention], list[tuple[int, int, float]]]:
        named, common = heads.tag_probabilities(states, shape)
        names = decode_bio(named, ENTITY_TYPES)
        inside = {n for m in names for n in range(m.first, m.last + 1)}
        nominal = [m for m in decode_bio(common, NOMINAL_TYPES, nominal=True) if inside.isdisjoint(range(m.first, m.last + 1))]
        pairs, values = [], []
        for i, a in enumerate(names):
            for j, b in enumerate(names[i + 1 :], i + 1):
                distance = sentences[b.first] - sentences[a.first]
                if distance > 1:
                    break
                pairs.append((i, j))
                values.append(pair_inputs(states, a, b, pair_features(a, b, distance == 0, j - i - 1)))
        scores = heads.relation_probabilities(np.stack(values)).tolist() if values else []
        return [*names, *nominal], [(i, j, p) for (i, j), p in zip(pairs, scores, strict=True)]


def token_windows(sentences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Token ranges of whole sentences, given each token's sentence; each range begins with the last sentence of the one before."""
    max_tokens, start = WINDOW_TOKENS - 2, 0
    while start < len(sentences):
        end = min(len(sentences), start + max_tokens)
        if end == len(sentences):
            yield start, end
            return
        sentence_end = end
        while sentence_end > start and sentences[sentence_end] == sentences[sentence_end - 1]:
            sentence_end -= 1
        if sentence_end == start:  # the sentence is longer than a window
            yield start, end
            start = end
            continue
        yield start, sentence_end
        overlap_start = sentence_end - 1
        while overlap_start > start and sentences[overlap_start - 1] == sentences[sentence_end - 1]:
            overlap_start -= 1
        start = overlap_start if overlap_start > start else sentence_end


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    while start and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return start, end
