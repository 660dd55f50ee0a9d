"""Which sentences answer a question: what speaks for each, weighed as learned from questions with gold answers.

A linear ranker, trained listwise so that a sentence with the answer comes first (ListNet's top one, Cao et al. 2007;
`scripts/rank_sentences.py`).
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.query.retrieval.retrieve import stems
from localrag.text.plain import is_cjk

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
    wanted = stems(question)
    have = [stems(t) for t in texts]
    weight = {w: math.log((1 + len(texts)) / (0.5 + sum(w in h for h in have))) for w in wanted}
    total = sum(weight.values()) or 1.0
    return [sum(weight[w] for w in wanted & h) / total for h in have]


def without_names(text: str, names: Sequence[str]) -> str:
    """What is left of a question when the names in it are taken out."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return text
