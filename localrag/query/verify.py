"""Does a passage support a sentence? Its best sentence must say much the same, and hold every number and name of it."""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.query.retrieve import stems
from localrag.quotes import Embed
from localrag.records import Quote
from localrag.text import FUNCTION_WORDS, chunk_sentences, is_cjk, squeeze

# Of the mean of cosine and shared words, from which on a sentence is taken to be supported: 60 to 73 % of true statements in other words
# than the text's are, and 15 to 17 % of those checked against other passages of the same book (scripts/support_threshold.py).
SUPPORT = 0.5
MOST = 2  # quotes for one sentence of an answer

Check = Callable[[str, Sequence[Quote]], tuple[Quote, ...]]

_NAME = re.compile(r"\b[A-Z][\w’'-]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def checker(embed: Embed) -> Check:
    """A function that gives, for a sentence and the passages it cites, the verbatim sentences of them that support it, best first."""

    def check(sentence: str, cited: Sequence[Quote]) -> tuple[Quote, ...]:
        parts = list(dict.fromkeys(part for quote in cited for part in _sentences(quote)))
        if not parts or not _holds_names(sentence, " ".join(q.text for q in cited)):
            return ()
        scores = support([sentence], [squeeze(p.text) for p in parts], embed)[0]
        best = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] >= SUPPORT]
        return tuple(parts[i] for i in best[:MOST] if scores[i] >= 0.8 * scores[best[0]])

    return check


def support(sentences: Sequence[str], texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
    """How far each text says what each sentence says, (sentences, texts): the mean of their cosine and the share of its words."""
    vectors = embed([*sentences, *texts])
    have = [stems(t) for t in texts]
    wanted = [stems(s) for s in sentences]
    words = np.array([[len(w & h) / max(1, len(w)) for h in have] for w in wanted], np.float32)
    return np.asarray((vectors[: len(sentences)] @ vectors[len(sentences) :].T + words) / 2, np.float32)


def _sentences(quote: Quote) -> list[Quote]:
    return [Quote(quote.chunk_id, quote.start + a, quote.start + b, quote.text[a:b]) for a, b in chunk_sentences(quote.text)]


def _holds_names(sentence: str, passages: str) -> bool:
    """Whether every number of the sentence, and every name but its first word, stands in the passages."""
    low, numbers = passages.lower(), set(_NUMBER.findall(passages))
    names = [n.removesuffix("'s").removesuffix("’s") for n in _NAME.findall(sentence)[0 if is_cjk(sentence) else 1 :]]
    return all(n in numbers for n in _NUMBER.findall(sentence)) and all(n.lower() in low for n in names if n.lower() not in FUNCTION_WORDS)
