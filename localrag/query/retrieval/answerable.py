"""Do the documents say anything to a question? If not, the answer says so and quotes the closest passages, before a model is asked.

A question of the whole is always answered. For one of a particular, five figures are weighed (logistic regression): how much of the
question's words its nearest passages have, how near in meaning their best sentence is, and whether what it names occurs at all.
"""

import math
import re
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.draft import Draft
from localrag.query.question import Question
from localrag.query.questions.language import language_of
from localrag.query.questions.question_words import FUNCTION
from localrag.query.questions.whole import about_everything, is_of
from localrag.query.retrieval.context import best_quotes, chunk_quotes, quoted
from localrag.query.retrieval.retrieve import nearest_chunks
from localrag.store import corpus, graph
from localrag.store.search import any_chunk_with, chunks_with
from localrag.text.plain import FUNCTION_WORDS, chunk_sentences, cjk_bigrams, is_cjk, squeeze

LOOKED_AT = 5  # passages
SENTENCES = 4  # those with most of the question's words, whose meaning is compared with its own
CLOSEST = 3  # sentences quoted where the documents do not answer
FEW = 50  # passages: in a smaller index rarity is reckoned as if it had so many, or what all of three passages name would count nothing
MOST_WORDS, MOST_NAMES = 60, 20  # of a question

_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[A-ZÀ-Þ][\w'’.-]*(?: [A-ZÀ-Þ][\w'’.-]*)*")
_SMALL = {code: {*words.split(), *FUNCTION_WORDS} for code, words in FUNCTION.items()}


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for an answer and against it, each 0 to 1.

    The share of the question's words, weighed by rarity, in the `passage` and the `sentence` that have most of them and in the passages
    `together`; the `cosine` of the best sentence; the share of the names in the question that no passage of the index has (`unnamed`).
    """

    passage: float
    sentence: float
    together: float
    cosine: float
    unnamed: float
    cjk: bool


# Logistic weights of the signals in their order, and of 1. FLOOR, with what the reader says below it, is where 6 % of the answerable
# questions of XQuAD and PolicyQA are refused, each asked of its own paragraph, and 61 % of those asked of another's
# (scripts/answerable.py). Character pairs are no words, and the bundled embedder knows little Chinese: CJK questions have their own.
WEIGHTS = (3.1, 1.3, 1.6, 7.0, -2.9, -5.8)
CJK_WEIGHTS = (6.8, 5.0, 5.4, 0.0, 0.0, -4.2)
FLOOR, CJK_FLOOR = -2.5, -0.7


def confidence(question: Question, project: Project) -> float | None:
    """The probability that the documents answer a question; None for one of the whole, and for one without a word of its own."""
    if about_everything(question.text):
        return None
    found = signals(question.text, question.vector, project)
    return None if found is None else 1 / (1 + math.exp(-standing(found)))


def floor(question: str) -> float:
    """The confidence below which a question is taken for one that the documents do not answer."""
    return 1 / (1 + math.exp(-(CJK_FLOOR if is_cjk(question) else FLOOR)))


def standing(found: Signals) -> float:
    """The log-odds that a question is answerable."""
    *weights, bias = CJK_WEIGHTS if found.cjk else WEIGHTS
    return float(np.dot(weights, astuple(found)[:-1])) + bias


def signals(question: str, vector: NDArray[np.float32], project: Project) -> Signals | None:
    """What speaks for an answer to a question, whose vector is (d,); None where there is nothing to tell by."""
    passages = nearest_chunks(question, vector, project, LOOKED_AT)
    foreign = all(language_of(p.text[:2000]) != language_of(question) for p in passages)
    weight = _words(question, project, foreign=foreign)
    if not passages or not weight:
        return None
    full = sum(weight.values()) or 1.0

    def share(text: str) -> float:
        return sum(weight[w] for w in _keys(text) & weight.keys()) / full

    texts = [squeeze(p.text[a:b]) for p in passages for a, b in chunk_sentences(p.text)]
    best = sorted(texts, key=share, reverse=True)[:SENTENCES]
    cosine = float((project.embedder.embed(best) @ vector).max()) if best else 0.0
    return Signals(
        max(share(p.text) for p in passages),
        max(map(share, best), default=0.0),
        share(" ".join(p.text for p in passages)),
        cosine,
        unnamed(question, project, foreign=foreign),
        is_cjk(question),
    )


def unnamed(question: str, project: Project, *, foreign: bool = False) -> float:
    """The share of a question's names (runs of capitalised words that do not just begin it) whose words no passage has together.

    Where it is `foreign` to the passages, one name that they have is enough.
    """
    names = []
    for m in _NAME.finditer(question):
        words = [w for part in re.sub(r"['’]s\b", "", m.group()).split() for w in _WORD.findall(part)]
        names.append(words[1:] if not question[: m.start()].strip(' ¿¡"“«') else words)
    names = [n for n in names[:MOST_NAMES] if n]
    lost = sum(not any_chunk_with(project.db, n) for n in names)
    return 0.0 if not names or (foreign and lost < len(names)) else lost / len(names)


def names_a_document(question: str, project: Project) -> bool:
    """Whether a question names an indexed file, as "summarize prices.csv" does."""
    names = [word.strip("\"'«»“”„‘’()?!.,:;").rpartition("/")[2] for word in question.split()]
    return any(corpus.has_file(project.db, name) for name in [n for n in dict.fromkeys(names) if "." in n][:MOST_NAMES])


def _words(question: str, project: Project, *, foreign: bool) -> dict[str, float]:
    """The question's words as `_keys` has them, each with its rarity.

    Asked in another language than the passages' (`foreign`), only the words that the documents have at all can tell: names. Empty, if all
    words are words for documents.
    """
    small = _SMALL.get(language_of(question), FUNCTION_WORDS)
    words = [w for w in dict.fromkeys(_WORD.findall(question)) if not cjk_bigrams(w) and w.lower() not in small and len(w) > 1]
    if words and all(is_of(w, "WHOLE") for w in words):  # "How many documents are there?"
        return {}
    have = chunks_with(project.db, [*words, *dict.fromkeys(cjk_bigrams(question).split())][:MOST_WORDS])
    if foreign and any(have.values()):
        have = {w: n for w, n in have.items() if n}
    chunks = max(FEW, graph.counts(project.db, ["chunks"])["chunks"])
    weight: dict[str, float] = {}
    for w, n in have.items():
        (key,) = _keys(w) or {w}
        weight[key] = max(math.log((1 + chunks) / (0.5 + n)), weight.get(key, 0.0))
    return weight


def _keys(text: str) -> set[str]:
    """Words cut to five letters, which joins most inflections; CJK text as character pairs."""
    return {w[:5] for w in _WORD.findall(text.lower()) if not cjk_bigrams(w)} | set(cjk_bigrams(text).split())


_UNSAID = {
    "en": ("The documents do not say.", "Closest:"),
    "de": ("Das steht nicht in den Dokumenten.", "Am nächsten kommt:"),
    "es": ("Los documentos no lo dicen.", "Lo más cercano:"),
    "fr": ("Les documents ne le disent pas.", "Au plus près :"),
    "it": ("I documenti non lo dicono.", "Il più vicino:"),
    "pt": ("Os documentos não o dizem.", "O mais próximo:"),
    "nl": ("De documenten zeggen dat niet.", "Het dichtst erbij:"),
    "zh": ("文档中没有提到。", "最接近的内容："),
    "ja": ("文書には書かれていません。", "最も近い箇所："),
    "ko": ("문서에 나와 있지 않습니다.", "가장 가까운 내용:"),
}


def unsaid(question: str) -> str:
    """That the documents do not say it, in the question's language, else in English."""
    return _UNSAID.get(language_of(question), _UNSAID["en"])[0]


def begins_unsaid(text: str) -> bool:
    """Whether a text begins with this program's own phrase for "The documents do not say.", in any language."""
    return any(text.lstrip().casefold().startswith(said.rstrip(".。").casefold()) for said, _ in _UNSAID.values())


def closest(question: Question, project: Project, said: str = "") -> Draft:
    """The closest sentences of the documents, behind `said` or "The documents do not say." in the question's language."""
    passages = nearest_chunks(question.text, question.vector, project, LOOKED_AT)
    quotes = best_quotes(question, chunk_quotes(passages, question.text), project, CLOSEST)
    intro = _UNSAID.get(language_of(question.text), _UNSAID["en"])[1]
    return Draft(tuple(map(quoted, quotes)), f"{said or unsaid(question.text)}" + f"\n\n{intro}" * bool(quotes))
