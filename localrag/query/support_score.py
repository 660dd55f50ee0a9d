"""How likely passages support a written sentence: logistic regression on what the rules, shared words and the reader say of it.

Two views of the passages are described: the sentence, and the two adjacent sentences, nearest to the written one. In English and Chinese
all features count; in other languages, which the rules misread, only the reader's and the numbers (`scripts/train/support.py`,
`adapters/support.md`).
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from localrag.entailment import ParsedSentence, parse_sentence
from localrag.entailment.comparison import contradiction, matched, unsupported_reason
from localrag.entailment.normalization import normalize_sentence
from localrag.llm.reader import PassageReader
from localrag.model_files import shipped_weights
from localrag.records import Quote
from localrag.text.sentences import STOP_WORDS, cached_sentences, is_cjk

PARSED_LANGUAGES = ("en", "zh")
# Log odds of support; see the card. The score alone proves nothing: on other people's data it would believe too many false sentences.
MIN_PROVED, MIN_RELATED = 0.0, -0.3
# From which on the rules' negations, roles and quantifiers are mistaken for contradictions: 9 of 12 true, 27 of 119 false.
MAX_CONTRADICTED = -1.0
STRUCTURAL_REASONS = (
    *("quantifier", "apart", "negation", "mode", "role", "elsewhere", "preposition", "turned"),
)  # why the rules reject a sentence all whose words the source has
VIEW_FEATURES = (
    *("aligned", "lacking", "lacking figures", "lacking verbs", "opposites", "other number", "other name"),
    *("subsequence", "new tokens", "structural × stems", "entailed", "contradicted"),
)
PASSAGE_FEATURES = (
    *("stems of two", "pairs of two", "stems of all", "pairs of passage"),
    *("proved", "numbers missing", "names missing", "figures", "tokens", "passage length", "chinese"),
)
FEATURES = (*PASSAGE_FEATURES, *(f"{view}: {name}" for view in ("sentence", "two") for name in VIEW_FEATURES))
READER_FEATURES = tuple(name for name in FEATURES if name.endswith((": entailed", ": contradicted")))
OTHER_LANGUAGE_FEATURES = (*READER_FEATURES, "numbers missing")  # all that counts in languages that the rules misread
MAX_PAIR_REACH, MAX_PASSAGE_PAIR_REACH = 6, 8  # content words from the first to the second of a pair in a source

Cosines = Callable[[str, Sequence[str]], NDArray[np.float32]]


def sentence_windows(passages: Sequence[Quote], size: int) -> Iterator[str]:
    """All `size` adjacent sentences of each passage, on one line; of a shorter passage all its sentences."""
    return chain.from_iterable(_windows(passage.text, size) for passage in passages)


@lru_cache(maxsize=512)
def _windows(text: str, size: int) -> tuple[str, ...]:
    spans = cached_sentences(text)
    starts = range(max(1, len(spans) - size + 1) if spans else 0)
    return tuple(normalize_sentence(text[spans[n].start : spans[n : n + size][-1].end]) for n in starts)


def covered_share(claim: str, text: str) -> float:
    """The share of a claim's stems that a text has."""
    return _covered_share(token_stems(claim), token_stems(text))


class SupportScorer:
    """Estimates the support of sentences; what the reader said of a pair of texts is kept."""

    def __init__(self, cosines: Cosines, reader: PassageReader, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self._cosines, self._reader, self._weights = cosines, reader, weights
        self._readings: dict[tuple[str, str], tuple[float, float]] = {}

    def estimate(self, claim: str, passages: Sequence[Quote], *, is_proved: bool, language: str) -> float | None:
        """The log odds that passages support a sentence on one line; None if these have none. `is_proved`: the rules found a proof."""
        views = self.views(claim, passages)
        if views is None:
            return None
        found = self.features(claim, passages, views, is_proved=is_proved, has_names=language in PARSED_LANGUAGES)
        head = "parsed" if language in PARSED_LANGUAGES else "other"
        return float(self._weights[f"{head}.weight"] @ found + self._weights[f"{head}.bias"][0])

    def views(self, claim: str, passages: Sequence[Quote]) -> tuple[str, str] | None:
        """The sentence nearest to a claim, by cosine and shared words, and the two adjacent ones nearest to it, by words of both.

        None if the passages have no sentences.
        """
        sentences = list(sentence_windows(passages, 1))
        if not sentences:
            return None
        cosines = self._cosines(claim, sentences)
        nearest = sentences[int((cosines + np.array([covered_share(claim, text) for text in sentences], np.float32)).argmax())]
        pairs, at = dict[str, float](), 0
        for count, windows in ((len(_windows(p.text, 1)), _windows(p.text, 2)) for p in passages):
            for n, text in enumerate(windows):
                pairs[text] = float(cosines[at + n : at + min(n + 2, count)].max()) + covered_share(claim, text)
            at += count
        return nearest, max(pairs, key=lambda text: pairs[text])

    def features(
        self, claim: str, passages: Sequence[Quote], views: tuple[str, str], *, is_proved: bool, has_names: bool
    ) -> NDArray[np.float32]:
        """The values of `FEATURES`."""
        pairs = [(view, claim) for view in views]
        self.read_pairs(pairs)
        readings = [self._readings[pair] for pair in pairs]
        described = [_view_features(claim, v, r, has_names=has_names) for v, r in zip(views, readings, strict=True)]
        shared = _passage_features(claim, passages, is_proved=is_proved)
        values = shared | {f"{name}: {k}": v for name, view in zip(("sentence", "two"), described, strict=True) for k, v in view.items()}
        return np.array([values[name] for name in FEATURES], np.float32)

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Let the reader read pairs of a source and a sentence that it has not read yet, as one batch."""
        if new := [pair for pair in dict.fromkeys(pairs) if pair not in self._readings]:
            found = self._reader.entailments(new)
            self._readings |= {p: (log_odds(e.entailed), log_odds(e.contradicted)) for p, e in zip(new, found, strict=True)}


def load_weights() -> dict[str, NDArray[np.float32]]:
    """The weights of both heads. Raises ModelError if the file is missing or damaged."""
    return {name: np.asarray(values, np.float32) for name, values in shipped_weights("support").items()}


def log_odds(probability: float) -> float:
    """The log odds of a probability, at most 7 either way."""
    return math.log((probability + 1e-3) / (1 - probability + 1e-3))


@lru_cache(maxsize=8192)
def content_words(text: str) -> tuple[str, ...]:
    """The stems of the content words and the numbers of a text, in order; Chinese as pairs of characters."""
    words: list[str] = []
    for word in re.findall(r"[^\W_]+", text.lower()):
        if is_cjk(word):
            words += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        elif (len(word) > 2 and word not in STOP_WORDS) or word.isdigit():
            words.append(word[:5])
    return tuple(words)


@lru_cache(maxsize=8192)
def token_stems(text: str) -> frozenset[str]:
    """The stems of the content words of a text."""
    return frozenset(content_words(text))


@lru_cache(maxsize=8192)
def _pairs(text: str, reach: int) -> frozenset[tuple[str, str]]:
    """Pairs of content words in their order, at most `reach` words apart."""
    words = content_words(text)
    return frozenset((words[i], b) for i in range(len(words)) for b in words[i + 1 : i + 1 + reach])


def _tokens(text: str) -> list[str]:
    return re.findall(r"[\u4e00-\u9fff]|[^\W_]+", text.lower())


def _covered_share(wanted: frozenset[object] | frozenset[str], found: frozenset[object] | frozenset[str]) -> float:
    return len(wanted & found) / len(wanted) if wanted else 0.0


def _telling(claim: ParsedSentence) -> list[int]:
    return [i for i, word in enumerate(claim.words) if not word.soft]


def _view_features(claim: str, text: str, reading: tuple[float, float], *, has_names: bool) -> dict[str, float]:
    mine, source = parse_sentence(claim), parse_sentence(text)
    match, telling = matched(mine, source), _telling(mine)
    unmatched = [mine.words[i] for i in telling if i not in match.alike and i not in match.converse]
    against = contradiction(mine, source, names=has_names)
    reason = unsupported_reason(mine, source).split(":")[0]
    tokens, others = _tokens(claim), _tokens(text)
    share = _covered_share(token_stems(claim), token_stems(text))
    is_number, is_name = against.startswith(("number", "date")), against.startswith("name")
    values = {
        "aligned": 1 - len(unmatched) / max(1, len(telling)),
        "lacking": len(unmatched),
        "lacking figures": sum(bool(word.figure) for word in unmatched),
        "lacking verbs": sum(word.role == "verb" for word in unmatched),
        "opposites": sum(i in match.opposite and i not in match.alike for i in telling),
        "other number": is_number,
        "other name": is_name,
        "subsequence": LCSseq.similarity(tokens, others) / max(1, len(tokens)),
        "new tokens": len(set(tokens) - set(others)),
        "structural × stems": share * (reason in STRUCTURAL_REASONS),
        "entailed": reading[0],
        "contradicted": reading[1],
    }
    return {name: float(value) for name, value in values.items()}


def _passage_features(claim: str, passages: Sequence[Quote], *, is_proved: bool) -> dict[str, float]:
    """The values of PASSAGE_FEATURES that do not depend on those of the views."""
    mine, pairs, parsed = token_stems(claim), _pairs(claim, 1), parse_sentence(claim)
    adjacent, whole = list(sentence_windows(passages, 2)), [normalize_sentence(p.text) for p in passages]
    source_words = [word for text in sentence_windows(passages, 1) for word in parse_sentence(text).words]
    numbers, dates = {w.text for w in source_words if w.kind == "number"}, {key for w in source_words if w.when for key in w.keys}
    figures, names = [w for w in parsed.words if w.figure], [w for w in parsed.words if w.kind == "name"]
    everything = " ".join(whole).lower()
    return {
        "stems of two": max(_covered_share(mine, token_stems(t)) for t in adjacent),
        "pairs of two": max(_covered_share(pairs, _pairs(t, MAX_PAIR_REACH)) for t in adjacent),
        "stems of all": _covered_share(mine, frozenset().union(*map(token_stems, whole))),
        "pairs of passage": max(_covered_share(pairs, _pairs(t, MAX_PASSAGE_PAIR_REACH)) for t in whole),
        "proved": float(is_proved),
        "numbers missing": float(sum(w.text not in numbers if w.kind == "number" else w.keys.isdisjoint(dates) for w in figures)),
        "names missing": float(sum(not any(n.lower() in everything for n in (w.text, *w.keys)) for w in names)),
        "figures": float(len(figures)),
        "tokens": math.log(max(1, len(_tokens(claim)))),
        "passage length": math.log1p(sum(len(p.text) for p in passages)),
        "chinese": float(parsed.chinese),
    }
