"""A judge without a language model: which of two answers is better by the paper's four criteria, whatever their order.

An answer gets a score for each criterion from measures of its sentences; the difference of two scores decides, so places do not matter
(pairwise logistic comparison, Bradley and Terry 1952). The weights are learned from pairs of which one is known to be worse:
scripts/fit_judge.py, which also says how often it is right.
"""

import math
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from localrag.eval.statements import sentences_of
from localrag.query.retrieval.retrieve import stems
from localrag.text.quotes import Embed

NAME = "bundled"
UNDECIDED = 0.1  # how far from one half the probability must be for a choice
ALIKE, SAME = 0.6, 0.85  # cosine of sentences of one matter, and of sentences that say the same
OFF = 0.15  # cosine to the question below which a sentence is beside it
MEASURES = ("nearest", "mean", "first", "beside", "matters", "repeated", "names", "sentences", "asked", "longest")
# One weight for each of MEASURES, per criterion.
WEIGHTS = {
    "comprehensiveness": (1.55, 1.33, 2.76, -0.88, 1.17, -5.68, -0.12, 2.17, 2.07, 0.93),
    "diversity": (1.55, 1.33, 2.76, -0.88, 1.17, -5.68, -0.12, 2.17, 2.07, 0.93),  # the pairs do not tell it from the one above
    "empowerment": (0.81, 0.67, 3.75, -0.99, 0.27, -15.85, -0.31, 0.82, 1.57, 0.99),
    "directness": (0.80, 4.27, 2.64, -0.75, -0.98, -10.09, -0.09, -1.33, 1.62, 0.90),
}

_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'-]+|\d[\d.,]*")

Prefers = Callable[[str, str, str, str], float]


def bundled_judge(embed: Embed) -> Prefers:
    """A function of question, first answer, second answer and criterion: the probability that the first is better, 0 to 1."""
    known: dict[tuple[str, str], NDArray[np.float64]] = {}

    def prefers(question: str, first: str, second: str, criterion: str) -> float:
        for text in (first, second):
            if (question, text) not in known:
                known[question, text] = measures(question, text, embed)
        a, b = known[question, first], known[question, second]
        if not (a.any() and b.any()):  # one of them says nothing
            return 0.5 + 0.5 * (bool(a.any()) - bool(b.any()))
        return 1 / (1 + math.exp(-float((a - b) @ np.array(WEIGHTS[criterion]))))

    return prefers


def measures(question: str, answer: str, embed: Embed) -> NDArray[np.float64]:
    """What is measured of an answer, (len(MEASURES),): how near its sentences are to the question, how many different things they say."""
    said = sentences_of(answer)
    if not said:
        return np.zeros(len(MEASURES))
    vectors = embed([question, *said])
    near, between = vectors[1:] @ vectors[0], vectors[1:] @ vectors[1:].T
    asked = stems(question)
    names = set(_NAME.findall(answer))
    return np.array([
        near.max(),
        near.mean(),
        near[0],
        (near < OFF).mean(),
        math.log1p(_groups(between, ALIKE)),
        1 - _groups(between, SAME) / len(said),
        math.log1p(len(names)),
        math.log1p(len(said)),
        len(asked & stems(answer)) / max(1, len(asked)),
        math.log1p(max(len(s.split()) for s in said)),
    ])  # fmt: skip


def _groups(between: NDArray[np.float32], least: float) -> int:
    """How many sentences are left of which none has a cosine of `least` to one before it."""
    kept: list[int] = []
    for n in range(len(between)):
        if not kept or float(between[n, kept].max()) < least:
            kept.append(n)
    return len(kept)


def choice(probability: float) -> str:
    """The place of the better answer, `1` or `2`, or `tie`."""
    if abs(probability - 0.5) < UNDECIDED:
        return "tie"
    return "1" if probability > 0.5 else "2"
