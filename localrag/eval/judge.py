"""Judges of answers: a language model or a bundled preference model, by the paper's four criteria (paper, section 4.1.3).

A language model gives verdicts in both orders. The bundled judge scores each answer by measures of its sentences for each criterion; the
difference of two scores decides, whatever their order (pairwise logistic comparison, Bradley and Terry 1952). Its weights are fitted to
pairs of which one is known to be worse by scripts/train/judge.py, which also reports its accuracy.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.engine.sampler import GREEDY, Sampling
from localrag.errors import LocalragError
from localrag.eval.conditions import for_judge
from localrag.eval.datasets import FileRow
from localrag.eval.metrics import strip_marks_and_titles
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.model import ChatModel, bounded_map
from localrag.llm.prompts import load_prompt
from localrag.query.retriever import content_stems
from localrag.text.quotes import EmbedSentences
from localrag.text.sentences import cached_sentences, collapse_whitespace


def sentences_of(answer: str) -> list[str]:
    """The different sentences of an answer, without titles and citations."""
    return list(
        dict.fromkeys(collapse_whitespace(part[a:b]) for part in [strip_marks_and_titles(answer)] for a, b in cached_sentences(part))
    )


BUNDLED_JUDGE = "bundled"
TIE_MARGIN = 0.1  # least distance of the probability from one half for a choice
MIN_RELATED_COSINE, MIN_EQUIVALENT_COSINE = 0.6, 0.85  # cosine of sentences on one matter, and of equivalent sentences
OFF_TOPIC_COSINE = 0.15  # cosine to the question below which a sentence is off topic
FEATURES = ("nearest", "mean", "first", "beside", "matters", "repeated", "names", "sentences", "asked", "longest")
# One weight for each of FEATURES, per criterion.
CRITERION_WEIGHTS = {
    "comprehensiveness": (1.55, 1.33, 2.76, -0.88, 1.17, -5.68, -0.12, 2.17, 2.07, 0.93),
    "diversity": (1.55, 1.33, 2.76, -0.88, 1.17, -5.68, -0.12, 2.17, 2.07, 0.93),  # the pairs do not tell it from the one above
    "empowerment": (0.81, 0.67, 3.75, -0.99, 0.27, -15.85, -0.31, 0.82, 1.57, 0.99),
    "directness": (0.80, 4.27, 2.64, -0.75, -0.98, -10.09, -0.09, -1.33, 1.62, 0.90),
}

_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'-]+|\d[\d.,]*")

PreferenceModel = Callable[[str, str, str, str], float]


def bundled_judge(embed: EmbedSentences) -> PreferenceModel:
    """A function of question, first answer, second answer and criterion: the probability that the first is better, 0 to 1."""
    cached: dict[tuple[str, str], NDArray[np.float64]] = {}

    def prefers(question: str, first: str, second: str, criterion: str) -> float:
        for text in (first, second):
            if (question, text) not in cached:
                cached[question, text] = answer_features(question, text, embed)
        a, b = cached[question, first], cached[question, second]
        if not (a.any() and b.any()):  # one of them is empty
            return 0.5 + 0.5 * (bool(a.any()) - bool(b.any()))
        return 1 / (1 + math.exp(-float((a - b) @ np.array(CRITERION_WEIGHTS[criterion]))))

    return prefers


def answer_features(question: str, answer: str, embed: EmbedSentences) -> NDArray[np.float64]:
    """The features of an answer, (len(FEATURES),): cosines of its sentences to the question, and how many different things they say."""
    sentences = sentences_of(answer)
    if not sentences:
        return np.zeros(len(FEATURES))
    vectors = embed([question, *sentences])
    relevance, between = vectors[1:] @ vectors[0], vectors[1:] @ vectors[1:].T
    question_stems = content_stems(question)
    names = set(_NAME.findall(answer))
    return np.array([
        relevance.max(),
        relevance.mean(),
        relevance[0],
        (relevance < OFF_TOPIC_COSINE).mean(),
        math.log1p(_count_distinct(between, MIN_RELATED_COSINE)),
        1 - _count_distinct(between, MIN_EQUIVALENT_COSINE) / len(sentences),
        math.log1p(len(names)),
        math.log1p(len(sentences)),
        len(question_stems & content_stems(answer)) / max(1, len(question_stems)),
        math.log1p(max(len(s.split()) for s in sentences)),
    ])  # fmt: skip


def _count_distinct(between: NDArray[np.float32], min_cosine: float) -> int:
    """The number of sentences without an earlier sentence at a cosine of `min_cosine` or more."""
    retained: list[int] = []
    for n in range(len(between)):
        if not retained or float(between[n, retained].max()) < min_cosine:
            retained.append(n)
    return len(retained)


def verdict_of(probability: float) -> str:
    """The position of the better answer, `1` or `2`, or `tie`."""
    if abs(probability - 0.5) < TIE_MARGIN:
        return "tie"
    return "1" if probability > 0.5 else "2"


CRITERIA = {
    "comprehensiveness": "which answer covers more of the aspects of the question, in more detail?",
    "diversity": "which answer is richer in different perspectives and insights?",
    "empowerment": "which answer does more to help the reader understand the matter and judge it well?",
    "directness": "which answer says more plainly and specifically what was asked?",
}
REASON, VERDICT_TOKENS = 200, 260  # characters of a reason, and tokens that hold a verdict in any script
PAIRINGS_PER_BATCH = 64  # verdicts in progress


@dataclass(frozen=True, slots=True)
class Comparison:
    """One verdict to be made: on the answers of conditions `first` and `second`, shown in that order."""

    question: str
    first: str
    second: str
    criterion: str
    repeat: int

    def key(self, judge: str) -> tuple[str | int, ...]:
        """The key of the verdict among rows."""
        return (self.question, self.first, self.second, self.criterion, self.repeat, judge)


def key_of(row: FileRow) -> tuple[str | int, ...]:
    """The key of a row of verdicts."""
    return tuple(row[name] for name in ("question", "first", "second", "criterion", "repeat", "judge"))


def plan_comparisons(question: str, names: Sequence[str], repeats: int) -> Iterator[Comparison]:
    """Every two conditions in both orders by every criterion, `repeats` times; prompts with a common prefix follow each other."""
    for first in names:
        for second in (n for n in names if n != first):
            for repeat in range(repeats):
                for criterion in CRITERIA:
                    yield Comparison(question, first, second, criterion, repeat)


async def judge_answers(
    wanted: Sequence[Comparison], answers: dict[str, str], judge: ChatModel | PreferenceModel, keep: Callable[[FileRow], None]
) -> None:
    """Judge every comparison, and pass each row, or that of its failure, to `keep`. `answers`: condition → answer to its question."""

    async def one(pairing: Comparison) -> None:
        keep(await _verdict(pairing, answers, judge))

    await bounded_map((one(p) for p in wanted), PAIRINGS_PER_BATCH)


def name_of(judge: ChatModel | PreferenceModel) -> str:
    """The name of a judge in rows."""
    return judge.file.name if isinstance(judge, ChatModel) else BUNDLED_JUDGE


async def _verdict(pairing: Comparison, answers: dict[str, str], judge: ChatModel | PreferenceModel) -> FileRow:
    names = ("question", "first", "second", "criterion", "repeat", "judge")
    row: FileRow = dict(zip(names, pairing.key(name_of(judge)), strict=True))
    first, second = for_judge(answers[pairing.first]), for_judge(answers[pairing.second])
    if first == second:
        return row | {"winner": "tie", "reason": "The answers are the same.", "same": True}
    places = {"1": pairing.first, "2": pairing.second, "tie": "tie"}
    if not isinstance(judge, ChatModel):
        p = judge(pairing.question, first, second, pairing.criterion)
        return row | {"winner": places[verdict_of(p)], "reason": f"The first is better with a probability of {p:.2f}."}
    criterion = f"{pairing.criterion}: {CRITERIA[pairing.criterion]}"
    messages = load_prompt("eval/judge").fill(question=pairing.question, first=first, second=second, criterion=criterion)
    sampling = Sampling(temperature=0.7, seed=pairing.repeat) if pairing.repeat else GREEDY
    try:
        reply = await judge.ask("judge", messages, max_tokens=VERDICT_TOKENS, grammar=json_object(_SCHEMA), sampling=sampling)
    except LocalragError as error:
        return row | {"error": str(error)}
    verdict = json.loads(reply.text)
    return row | {"winner": places[verdict["winner"]], "reason": verdict["reason"]}


_SCHEMA = object_schema(reason={"type": "string", "minLength": 10, "maxLength": REASON}, winner={"enum": ["1", "2", "tie"]})
