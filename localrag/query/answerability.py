"""Whether the documents answer a question; refusals.

Questions about the whole corpus are always answered. For others, five features are weighted (logistic regression): how many of the
question's words its nearest passages contain, the cosine of their best sentence, and whether the names in the question occur at all.

A question without any known name is refused. A model that writes prose is asked all others and may decline; an extractive answer is also
refused for low similarity, unless the question names an indexed file or the reader may have found an answer, since the reader recognises
synonyms.
"""

import math
import re
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.llm.qa_reader import NONE
from localrag.project import Project
from localrag.query.extractive import windows_to_read
from localrag.query.question import AnswerDraft, Question
from localrag.query.question_analysis import FUNCTION_WORDS_BY_LANGUAGE, detect_language, global_question_word, is_of
from localrag.query.retriever import hybrid_search
from localrag.query.sentence_ranking import best_quotes, chunk_quotes, quote_point
from localrag.store import documents, graph
from localrag.store.full_text import document_frequencies, exists_chunk_with_all
from localrag.text.sentences import STOP_WORDS, cached_sentences, cjk_bigrams, collapse_whitespace, is_cjk

PASSAGES_CHECKED = 5  # passages
SENTENCES = 4  # those with most of the question's words, whose meaning is compared with its own
CLOSEST = 3  # sentences quoted where the documents do not answer
FEW = 50  # passages: in a smaller index rarity is reckoned as if it had so many, or what all of three passages name would count nothing
MOST_WORDS, MOST_NAMES = 60, 20  # of a question

_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[A-ZÀ-Þ][\w'’.-]*(?: [A-ZÀ-Þ][\w'’.-]*)*")
_SMALL = {code: {*words.split(), *STOP_WORDS} for code, words in FUNCTION_WORDS_BY_LANGUAGE.items()}


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for an answer and against it, each 0 to 1.

    The share of the question's words, weighed by rarity, in the `passage` and the `sentence` that have most of them and in the passages
    `together`; the `cosine` of the best sentence; the share of the names in the question that no passage of the index has
    (`unmatched_name_share`).
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


def answerability(question: Question, project: Project) -> float | None:
    """The probability that the documents answer a question; None for one of the whole, and for one without a word of its own."""
    if global_question_word(question.text):
        return None
    found = signals(question.text, question.vector, project)
    return None if found is None else 1 / (1 + math.exp(-standing(found)))


def refusal_threshold(question: str) -> float:
    """The confidence below which a question is taken for one that the documents do not answer."""
    return 1 / (1 + math.exp(-(CJK_FLOOR if is_cjk(question) else FLOOR)))


def standing(found: Signals) -> float:
    """The log-odds that a question is answerable."""
    *weights, bias = CJK_WEIGHTS if found.cjk else WEIGHTS
    return float(np.dot(weights, astuple(found)[:-1])) + bias


def signals(question: str, vector: NDArray[np.float32], project: Project) -> Signals | None:
    """What speaks for an answer to a question, whose vector is (d,); None where there is nothing to tell by."""
    passages = hybrid_search(question, vector, project, PASSAGES_CHECKED)
    foreign = all(detect_language(p.text[:2000]) != detect_language(question) for p in passages)
    weight = _words(question, project, foreign=foreign)
    if not passages or not weight:
        return None
    full = sum(weight.values()) or 1.0

    def share(text: str) -> float:
        return sum(weight[w] for w in _keys(text) & weight.keys()) / full

    texts = [collapse_whitespace(p.text[a:b]) for p in passages for a, b in cached_sentences(p.text)]
    best = sorted(texts, key=share, reverse=True)[:SENTENCES]
    cosine = float((project.embedder.embed(best) @ vector).max()) if best else 0.0
    return Signals(
        max(share(p.text) for p in passages),
        max(map(share, best), default=0.0),
        share(" ".join(p.text for p in passages)),
        cosine,
        unmatched_name_share(question, project, foreign=foreign),
        is_cjk(question),
    )


def unmatched_name_share(question: str, project: Project, *, foreign: bool = False) -> float:
    """The share of a question's names (runs of capitalised words that do not just begin it) whose words no passage has together.

    Where it is `foreign` to the passages, one name that they have is enough.
    """
    names = []
    for m in _NAME.finditer(question):
        words = [w for part in re.sub(r"['’]s\b", "", m.group()).split() for w in _WORD.findall(part)]
        names.append(words[1:] if not question[: m.start()].strip(' ¿¡"“«') else words)
    names = [n for n in names[:MOST_NAMES] if n]
    lost = sum(not exists_chunk_with_all(project.db, n) for n in names)
    return 0.0 if not names or (foreign and lost < len(names)) else lost / len(names)


def names_a_document(question: str, project: Project) -> bool:
    """Whether a question names an indexed file, as "summarize prices.csv" does."""
    names = [word.strip("\"'«»“”„‘’()?!.,:;").rpartition("/")[2] for word in question.split()]
    return any(documents.has_file(project.db, name) for name in [n for n in dict.fromkeys(names) if "." in n][:MOST_NAMES])


def _words(question: str, project: Project, *, foreign: bool) -> dict[str, float]:
    """The question's words as `_keys` has them, each with its rarity.

    Asked in another language than the passages' (`foreign`), only the words that the documents have at all can tell: names. Empty, if all
    words are words for documents.
    """
    small = _SMALL.get(detect_language(question), STOP_WORDS)
    words = [w for w in dict.fromkeys(_WORD.findall(question)) if not cjk_bigrams(w) and w.lower() not in small and len(w) > 1]
    if words and all(is_of(w, "WHOLE") for w in words):  # "How many documents are there?"
        return {}
    have = document_frequencies(project.db, [*words, *dict.fromkeys(cjk_bigrams(question).split())][:MOST_WORDS])
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


def refusal_text(question: str) -> str:
    """That the documents do not say it, in the question's language, else in English."""
    return _UNSAID.get(detect_language(question), _UNSAID["en"])[0]


def begins_unsaid(text: str) -> bool:
    """Whether a text begins with this program's own phrase for "The documents do not say.", in any language."""
    return any(text.lstrip().casefold().startswith(said.rstrip(".。").casefold()) for said, _ in _UNSAID.values())


def refusal_draft(question: Question, project: Project, said: str = "") -> AnswerDraft:
    """The closest sentences of the documents, behind `said` or "The documents do not say." in the question's language."""
    passages = hybrid_search(question.text, question.vector, project, PASSAGES_CHECKED)
    quotes = best_quotes(question, chunk_quotes(passages, question.text), project, CLOSEST)
    intro = _UNSAID.get(detect_language(question.text), _UNSAID["en"])[1]
    return AnswerDraft(tuple(map(quote_point, quotes)), f"{said or refusal_text(question.text)}" + f"\n\n{intro}" * bool(quotes))


MIN_NO_ANSWER_PROBABILITY = 0.9  # least probability of the reader that a passage holds no answer, at which it is believed


async def should_refuse(question: Question, project: Project) -> tuple[bool, float | None]:
    """Whether to refuse a question, and the probability that the documents answer it (None for a question about all of them)."""
    sure = answerability(question, project)
    if sure is None or question.options.context_only or not question.is_extractive or sure >= refusal_threshold(question.text):
        return False, sure
    if names_a_document(question.text, project):
        return False, sure
    if unmatched_name_share(question.text, project) == 1:  # the reader would find an answer in a text about somebody else
        return True, sure
    return await _reader_finds_nothing(question, project), sure


async def _reader_finds_nothing(question: Question, project: Project) -> bool:
    """Whether the reader is sure that no passage holds an answer; True where there is no reader for the question."""
    if project.qa_reader is None or is_cjk(question.text):
        return True
    texts = windows_to_read(question, hybrid_search(question.text, question.vector, project, PASSAGES_CHECKED), project)
    said = await project.qa_reader.read(question.text, texts, yes_or_no=False)
    return all(s.text == NONE and math.exp(s.log_probability) >= MIN_NO_ANSWER_PROBABILITY for s in said)
