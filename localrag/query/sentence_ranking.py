"""Ranking of candidate sentences by how well they answer a question.

A linear ranker, trained listwise so that a sentence with the answer comes first (ListNet's top one, Cao et al. 2007;
`scripts/rank_sentences.py`).
"""

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.question import AnswerPoint, Question
from localrag.query.retriever import content_stems
from localrag.records import Chunk, Quote
from localrag.store import documents
from localrag.text.kinds import TextKind, classify_sentence, classify_sentences, requested_kinds, strip_markup
from localrag.text.quotes import informativeness, is_repetition
from localrag.text.sentences import collapse_whitespace, is_cjk

# What speaks for a sentence, and its weight: how near it is to the question; the share of the question's words that it has, and that it has
# together with its document's title; how much its passage bears on the question, and its passage's rank (1, 1/2, 1/3 …); whether the
# question names the title, for then the answer mostly stands where that leads; whether the passage begins with it; its length; and
# whether it holds what the question asks for.
WEIGHTS = {
    "near": 2.9,
    "shared": 1.0,
    "shared with title": 3.0,
    "bearing": 0.0,
    "rank": 2.0,
    "title asked": -2.0,
    "first": 0.5,
    "length": 0.0,
    "fits": 1.1,
}
# Of CJK text, of which the bundled embedder knows little: the shared characters tell most.
CJK_WEIGHTS = {
    "near": 3.7,
    "shared": 0.0,
    "shared with title": 12.6,
    "bearing": 1.2,
    "rank": 1.0,
    "title asked": 0.0,
    "first": 0.0,
    "length": 2.9,
    "fits": 1.2,
}
LONG = 400  # characters; a longer sentence gains no more

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December|Januar|Februar|März|Mai|Juni|Juli|Oktober"
_DATE = re.compile(rf"\b1\d\d\d\b|\b20\d\d\b|\b(?:{_MONTH}|Dezember)\b|[一二三四五六七八九〇零\d]+[年月]|\bde (?:enero|mayo|junio|julio)\b")
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|thousand|million|billion|dozen|half|third"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez)\b|[一二三四五六七八九十百千万亿两半]"
)
NAME = re.compile(r"[A-ZÀ-Þ][\w'’.-]*(?: (?:(?:of|the|de|van|von|der|and) )?[A-ZÀ-Þ][\w'’.-]*)*")
_ASKS_TIME = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade)|what time|\bwann\b|welche[mns]? (?:jahr|datum|tag)|cuándo"
    r"|qué (?:año|fecha)|何时|什么时候|哪年|哪一年|几年|几月|何年|哪天",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|old|large|big|tall|high|far|often|fast)\b|what (?:number|percent|percentage|amount|population)"
    r"|\bwie ?(?:viele?|lange?|alt|groß|hoch|weit|oft)\b|cuánt[oa]s?|多少|几[个名位次岁种座人家条]|多[长大高远久]",
    re.IGNORECASE,
)
_ASKS_WHO = re.compile(
    r"\bwho(?:m|se)?\b|\b(?:what|which) (?:person|actor|actress|singer|author|writer|director|player|man|woman|king|queen)"
    r"|\bwe[rnm]\b|\bquién",
    re.IGNORECASE,
)
_ASKS_WHERE = re.compile(
    r"\bwhere\b|\b(?:what|which) (?:city|country|state|county|town|place|village|island|region)"
    r"|\bwo(?:her|hin)?\b|dónde|qué (?:ciudad|país)",
    re.IGNORECASE,
)


def rank_sentences(
    question: str,
    texts: Sequence[str],
    near: NDArray[np.float32],
    passages: Sequence[str],
    titles: Sequence[str],
    bearing: Mapping[str, float],
) -> NDArray[np.float32]:
    """How likely each sentence is to answer a question, as log-odds up to a constant, (n,) float32.

    `near`, (n,): how near each is to the question. `passages`: which passage each is of, best passage first; `titles`: of their documents;
    `bearing`: of a passage on the question, 0 to 1.
    """
    return figures(question, texts, near, passages, titles, bearing) @ np.array([*weights_for(question).values()], np.float32)


def weights_for(question: str) -> Mapping[str, float]:
    """The weights of what speaks for a sentence, for questions in its language."""
    return CJK_WEIGHTS if is_cjk(question) else WEIGHTS


def figures(
    question: str,
    texts: Sequence[str],
    near: NDArray[np.float32],
    passages: Sequence[str],
    titles: Sequence[str],
    bearing: Mapping[str, float],
) -> NDArray[np.float32]:
    """What speaks for each sentence, (n, len(WEIGHTS)) float32; see `rank_sentences`."""
    rank = {p: 1 / (1 + n) for n, p in enumerate(dict.fromkeys(passages))}
    opening = {p: n for n, p in reversed([*enumerate(passages)])}
    asked = question.lower()
    columns = [
        near,
        word_overlap(question, texts),
        word_overlap(question, [f"{title} {text}" for title, text in zip(titles, texts, strict=True)]),
        [bearing.get(p, 0.0) for p in passages],
        [rank[p] for p in passages],
        [float(bool(t) and t.lower() in asked) for t in titles],
        [float(opening[p] == n) for n, p in enumerate(passages)],
        [min(len(t), LONG) / LONG for t in texts],
        fits(question, texts),
    ]
    return np.array(columns, np.float32).T


def fits(question: str, texts: Sequence[str]) -> list[float]:
    """Whether each sentence holds a thing of the kind that is asked for: 1 it does, -1 it does not, 0 where the kind is not known."""
    asked = question.lower()

    def new(text: str, least: int = 1) -> bool:  # any word begins a sentence with a capital
        found = ((m.start(), m.group()) for m in NAME.finditer(text))
        return any(n.lower() not in asked and len(n.split()) >= least and (at or " " in n) for at, n in found)

    if _ASKS_TIME.search(question):
        return [1.0 if any(m.group() not in question for m in _DATE.finditer(t)) else -1.0 for t in texts]
    if _ASKS_NUMBER.search(question):
        return [1.0 if _NUMBER.search(t) else -1.0 for t in texts]
    if _ASKS_WHO.search(question):
        return [1.0 if new(t, 2) else -0.5 if new(t) else -1.0 for t in texts]
    if _ASKS_WHERE.search(question):
        return [1.0 if new(t) else -1.0 for t in texts]
    return [0.0] * len(texts)


def word_overlap(question: str, texts: Sequence[str]) -> list[float]:
    """The share of the question's words that each text has, rare words counting more (inverse document frequency); 0 to 1.

    Words are cut to five letters, which joins most inflections; CJK text counts by character pairs.
    """
    wanted = content_stems(question)
    have = [content_stems(t) for t in texts]
    weight = {w: math.log((1 + len(texts)) / (0.5 + sum(w in h for h in have))) for w in wanted}
    total = sum(weight.values()) or 1.0
    return [sum(weight[w] for w in wanted & h) / total for h in have]


def without_names(text: str, names: Sequence[str]) -> str:
    """What is left of a question when the names in it are taken out."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text


T = TypeVar("T")
MAX_SENTENCES = 6  # of an answer put together from the documents' own
FAR_BEHIND = 4.0  # log-odds; what is so much less likely to answer than the best sentence is not shown
AT_ONCE = 16  # sentences embedded together; that many fill a call of the embedder
NEAREST = 1.001  # more than any cosine, with its rounding
BEARING = 0.2  # how much a passage's rank counts for its sentences
ASKED = 0.2  # what a sentence of a kind gains that the question asks for: code, a table, a licence
BEHIND = {TextKind.ROW: 0.15, TextKind.FRAGMENT: 0.3, TextKind.CODE: 0.5}  # what others lose against prose, unless they are asked for


def fit_budget(items: Iterable[T], size: Callable[[T], int], budget: int) -> list[T]:
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
    found: dict[tuple[str, int], tuple[Quote, TextKind]] = {}
    for c in chunks:
        for (start, end), kind in classify_sentences(c.text):
            if not any(map(str.isalnum, c.text[start:end])):  # a quotation mark left alone
                continue
            quote = Quote(c.id, c.start + start, c.start + end, c.text[start:end])
            found.setdefault((c.document_id, c.start + start), (quote, kind))
    wanted = {TextKind.PROSE, TextKind.ROW, *requested_kinds(question)}
    return [q for q, kind in found.values() if kind in wanted] or [q for q, _ in found.values()]


def extract_answer_points(
    question: Question, passages: Sequence[tuple[Chunk, float]], project: Project, names: Sequence[str] = ()
) -> tuple[AnswerPoint, ...]:
    """The sentences of scored passages that answer best, as points."""
    weight = {c.id: score for c, score in passages}
    k = 1 if question.wants_one_sentence else MAX_SENTENCES
    quotes = best_quotes(question, chunk_quotes([c for c, _ in passages], question.text), project, k, names, weight)
    return tuple(quote_point(q) for q in quotes)


def quote_point(*quotes: Quote, title: str = "") -> AnswerPoint:
    """A point that says what its quotes do, in their words but without their markup."""
    return AnswerPoint(" ".join(filter(None, map(quote_text, quotes))), quotes, title)


def quote_text(quote: Quote) -> str:
    """A quote as an answer shows it: sentences without markup, the fields of a row side by side, code as it is."""
    kind = classify_sentence(quote.text)
    if kind == TextKind.CODE:
        return collapse_whitespace(quote.text)
    return strip_markup(" · ".join(quote.text.splitlines()) if kind == TextKind.ROW else quote.text) or collapse_whitespace(quote.text)


@dataclass(frozen=True, slots=True)
class CandidateSentences:
    """What may be quoted for a question: quotes, their readable texts, and how near each is to it but for its meaning, (n,) float32."""

    quotes: list[Quote]
    texts: list[str]
    near: NDArray[np.float32]


def score_candidates(
    question: str,
    quotes: Sequence[Quote],
    names: Sequence[str] = (),
    weight: Mapping[str, float] = MappingProxyType({}),
) -> CandidateSentences:
    """The well-formed sentences among some quotes, and how near each is to a question: in words and form, naming what it names.

    `weight`: how much the passage of a sentence bears on the question (chunk id → 0 to 1).
    """
    asked = requested_kinds(question)
    sort = [classify_sentence(q.text) for q in quotes]
    suits = [s in asked or bool(asked and s not in (TextKind.PROSE, TextKind.ROW)) for s in sort]  # what is code by its place alone is one
    texts = [quote_text(q) for q in quotes]
    form = [informativeness(t, 1) for t in texts]
    kept = [i for i in range(len(texts)) if form[i] > 1 or suits[i] or sort[i] == TextKind.ROW] or list(range(len(texts)))
    if not kept:
        return CandidateSentences([], [], np.zeros(0, np.float32))
    mentions = np.array([any(n.lower() in texts[i].lower() for n in names) for i in kept], np.float32)
    shape = np.array([form[i] for i in kept], np.float32)
    words = np.array(word_overlap(without_names(question, names), [texts[i] for i in kept]), np.float32)
    same_script = np.array([is_cjk(texts[i]) == is_cjk(question) for i in kept], np.float32)
    bearing = np.array([weight.get(quotes[i].chunk_id, 0.0) for i in kept], np.float32)
    suited = np.array([ASKED if suits[i] else -BEHIND.get(sort[i], 0.0) for i in kept], np.float32)
    near = 0.6 * words + 0.1 * mentions + 0.05 * shape + 0.3 * same_script + BEARING * bearing + suited
    return CandidateSentences([quotes[i] for i in kept], [texts[i] for i in kept], near)


def rank_quotes(
    question: str, vector: NDArray[np.float32], found: CandidateSentences, project: Project, weight: Mapping[str, float]
) -> Iterator[int]:
    """The sentences that may answer a question by their numbers, the likeliest first; none far behind the first.

    Only as many are embedded as it takes to be sure of those that are asked for: no cosine lifts a sentence by more than its weight
    (threshold algorithm, Fagin et al. 2003). `vector`, (d,), is the question's.
    """
    if not found.quotes:
        return
    passages = [q.chunk_id for q in found.quotes]
    of_document = documents.document_titles(project.db, set(passages))
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
    """The `k` sentences that answer best, see `score_candidates` and `rank_quotes`; what was said nearly so is not said again."""
    found = score_candidates(question.text, quotes, names, weight)
    order = rank_quotes(question.text, question.vector, found, project, weight)
    return [found.quotes[n] for n in islice(drop_repetitions(order, found.texts), k)]


def drop_repetitions(order: Iterable[int], texts: Sequence[str]) -> Iterator[int]:
    """The sentences in their order, without those that say nearly what was said before."""
    said: list[str] = []
    for n in order:
        if not any(is_repetition(texts[n], other) for other in said):
            said.append(texts[n])
            yield n


class LazySequence:
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
