"""Whether the documents answer a question: what the reader finds in the nearest passages, and how near these are in words and meaning.

A logistic model weighs the odds that the reader gives all windows together, how many of the question's words, by rarity, one passage has,
and the cosine of its nearest sentence. A small collection has few passages that come near a question in other words or another language, so
there the reader and the words must agree, each by itself.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from localrag.project import Project
from localrag.query.passages import ReadWindow
from localrag.query.question import Question
from localrag.store import graph
from localrag.store.documents import named_paths
from localrag.store.full_text import document_frequencies, exists_chunk_with_all
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE, detect_language
from localrag.text.sentences import STOP_WORDS, cached_sentences, cjk_bigrams, collapse_whitespace, is_cjk, word_prefixes

PASSAGES_CHECKED = 5  # nearest passages
SENTENCES = 4  # those with most of the question's words, whose meaning is compared with its own
MIN_RARITY_CHUNKS = 50  # in a smaller index a word is as rare as if it had this many chunks
MAX_WORDS, MAX_NAMES = 60, 20  # of a question

_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[A-ZÀ-Þ][\w'’.-]*(?: [A-ZÀ-Þ][\w'’.-]*)*")
_SMALL = {code: {*words.split(), *STOP_WORDS} for code, words in FUNCTION_WORDS_BY_LANGUAGE.items()}


@dataclass(frozen=True, slots=True)
class Signals:
    """What the words of the nearest passages say, each 0 to 1, and about the texts.

    The share of the question's words, weighed by rarity, in the `passage` and the `sentence` that have most of them and in the passages
    `together`; the `cosine` of the best sentence. `foreign`: the question is in another language than the passages.
    """

    passage: float
    sentence: float
    together: float
    cosine: float
    foreign: bool


# Logistic weights of the reader's log odds, `Signals.passage` and `.cosine`, and of 1, fitted and measured by
# `scripts/measure/answerability.py`; below the limit a question is not answered.
EVIDENCE_WEIGHTS, EVIDENCE_LIMIT = (0.68, 2.84, 4.72, -4.91), -1.4
SMALL_COLLECTION_CHUNKS = 100  # in a smaller collection the words must agree with the reader

# Logistic weights of the words' signals in their order, of the names that no passage has, and of 1, fitted on questions to their own
# paragraphs and others'. Below FLOOR (log odds) a question is far from the documents; a higher floor refuses questions in other words than
# the text's. Character pairs are no words, and the bundled embedder knows little Chinese: CJK text has its own.
WEIGHTS = (3.1, 1.3, 1.6, 7.0, -2.9, -5.8)
CJK_WEIGHTS = (6.8, 5.0, 5.4, 0.0, 0.0, -4.2)
FLOOR, CJK_FLOOR = -4.6, -0.7


def is_unanswered(question: Question, read: Sequence[ReadWindow], project: Project) -> bool:
    """Whether the documents do not answer a question that names none of them, of whose nearest passages the windows were read."""
    if named_paths(project.db, question.text):
        return False
    reader = reader_log_odds(read)
    if graph.counts(project.db, ["chunks"])["chunks"] < SMALL_COLLECTION_CHUNKS:
        return reader < 0 and _is_far(question, read, project)
    if evidence_log_odds(reader, 0.0, 0.0) >= EVIDENCE_LIMIT:  # however far the words are
        return False
    found = signals(question, read, project)
    return reader < 0 if found is None else evidence_log_odds(reader, found.passage, found.cosine) < EVIDENCE_LIMIT


def reader_log_odds(read: Sequence[ReadWindow]) -> float:
    """The log odds of an answer that the reader gives all windows together."""
    return float(np.logaddexp.reduce([w.reading.relevance for w in read]))


def evidence_log_odds(reader: float, passage: float, cosine: float) -> float:
    """The log odds that a question is answerable: by the reader's, `Signals.passage` and `Signals.cosine`."""
    return float(np.dot(EVIDENCE_WEIGHTS, (reader, passage, cosine, 1.0)))


def _is_far(question: Question, read: Sequence[ReadWindow], project: Project) -> bool:
    """Whether the words of a question and its meaning are too far from the documents for them to answer it."""
    found = signals(question, read, project)
    if found is None:
        return False
    *weights, bias = CJK_WEIGHTS if is_cjk(question.text) else WEIGHTS
    unnamed = unmatched_name_share(question.text, project, foreign=found.foreign)
    log_odds = np.dot(weights, (found.passage, found.sentence, found.together, found.cosine, unnamed)) + bias
    return bool(log_odds < (CJK_FLOOR if is_cjk(question.text) else FLOOR))


def signals(question: Question, read: Sequence[ReadWindow], project: Project) -> Signals | None:
    """What speaks for an answer in the windows that were read; None where there is nothing to tell by."""
    ranked = groupby(sorted((w.window for w in read), key=lambda window: window.rank), key=lambda window: window.rank)
    passages = [" ".join(window.text for window in windows) for _, windows in ranked][:PASSAGES_CHECKED]
    foreign = all(detect_language(text[:2000]) != detect_language(question.text) for text in passages)
    weight = _words(question.text, project, foreign=foreign)
    if not passages or not weight:
        return None
    full = sum(weight.values()) or 1.0

    def share(text: str) -> float:
        return sum(weight[w] for w in word_prefixes(text) & weight.keys()) / full

    texts = [collapse_whitespace(text[a:b]) for text in passages for a, b in cached_sentences(text)]
    best = sorted(texts, key=share, reverse=True)[:SENTENCES]
    cosine = float((project.embedder.embed(best) @ question.vector).max()) if best else 0.0
    return Signals(
        max(map(share, passages)),
        max(map(share, best), default=0.0),
        share(" ".join(passages)),
        cosine,
        foreign,
    )


def unmatched_name_share(question: str, project: Project, *, foreign: bool = False) -> float:
    """The share of a question's names (runs of capitalised words that do not just begin it) whose words no passage has together.

    Where it is `foreign` to the passages, one name that they have is enough.
    """
    names = []
    for m in _NAME.finditer(question):
        words = [w for part in re.sub(r"['’]s\b", "", m.group()).split() for w in _WORD.findall(part)]
        names.append(words[1:] if not question[: m.start()].strip(' ¿¡"“«') else words)
    names = [n for n in names[:MAX_NAMES] if n]
    lost = sum(not exists_chunk_with_all(project.db, n) for n in names)
    return 0.0 if not names or (foreign and lost < len(names)) else lost / len(names)


def _words(question: str, project: Project, *, foreign: bool) -> dict[str, float]:
    """The question's words as `word_prefixes` has them, each with its rarity.

    Asked in another language than the passages' (`foreign`), only the words that the documents have at all can tell: names.
    """
    small = _SMALL.get(detect_language(question), STOP_WORDS)
    words = [w for w in dict.fromkeys(_WORD.findall(question)) if not cjk_bigrams(w) and w.lower() not in small and len(w) > 1]
    have = document_frequencies(project.db, [*words, *dict.fromkeys(cjk_bigrams(question).split())][:MAX_WORDS])
    if foreign and any(have.values()):
        have = {w: n for w, n in have.items() if n}
    chunks = max(MIN_RARITY_CHUNKS, graph.counts(project.db, ["chunks"])["chunks"])
    weight: dict[str, float] = {}
    for w, n in have.items():
        (key,) = word_prefixes(w) or {w}
        weight[key] = max(math.log((1 + chunks) / (0.5 + n)), weight.get(key, 0.0))
    return weight
