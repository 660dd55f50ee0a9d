"""Fit the bundled judge on pairs of answers of which one is known to be worse, and say how often it is right on pairs kept from it.

    python -m scripts.train.judge DATA

DATA holds `qmsum/` and `graphrag_bench/`, whose answers of two sentences and more people wrote. The worse answer is made of the better
one or of others': an answer to another question of the same meeting or book, phrases that say nothing, half the answer, half of it with its
sentences repeated or filled up with others', all of it with others' mixed in. A fifth of the meetings and books is kept, and half of the
phrases. So it tells of answers made worse by hand, not of which of two good answers people would prefer.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from localrag.engine.embedder import open_embedder
from localrag.eval.judge import CRITERIA, FEATURES, TIE_MARGIN, answer_features, sentences_of
from localrag.model_files import find_embedder
from scripts.train.splits import part, rng_of

EMPTY = (
    "There are many aspects to this question.",
    "It is important to consider all sides of the matter.",
    "Different people may see it in different ways.",
    "In the end it depends on the circumstances.",
    "This topic has been discussed widely.",
    "Further details may be of interest to the reader.",
)
RIDGE = 0.02
# By which criteria the answer as people wrote it is better than what was made of it.
WORSE = {
    "other": tuple(CRITERIA),
    "empty": tuple(CRITERIA),
    "filled": ("comprehensiveness", "diversity", "empowerment", "directness"),
    "half": ("comprehensiveness", "diversity", "empowerment"),
    "repeated": ("comprehensiveness", "diversity", "empowerment"),
    "mixed": ("directness", "empowerment"),
}


@dataclass(frozen=True)
class Pair:
    """A question, the better answer and the worse, how it was made worse, by which criterion, and whether it is kept."""

    question: str
    better: str
    worse: str
    kind: str
    criterion: str
    kept: bool


def answers(data: Path) -> Iterator[tuple[str, str, str]]:
    """Meeting or book, question, answer."""
    for file in sorted((data / "qmsum").glob("*.json")):
        meeting = json.loads(file.read_text(encoding="utf-8"))
        for asked in (*meeting["general_query_list"], *meeting["specific_query_list"]):
            yield file.stem, asked["query"], asked["answer"]
    for line in (data / "graphrag_bench" / "novel_questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["source"], row["question"], row["answer"]


def pairs(data: Path) -> Iterator[Pair]:
    """Every answer of two sentences and more with what is made of it."""
    by_source = defaultdict(list)
    for source, question, answer in answers(data):
        if len(sentences_of(answer)) >= 2:
            by_source[source].append((question, answer))
    for source, some in by_source.items():
        for question, answer in some:
            rng = rng_of(question)
            others = [a for q, a in some if q != question]
            if not others:
                continue
            kept = part(source) == "kept"
            for kind, worse in made(sentences_of(answer), others, EMPTY[kept::2], rng).items():
                for criterion in WORSE[kind]:
                    yield Pair(question, answer, worse, kind, criterion, kept)


def made(said: list[str], others: list[str], phrases: Sequence[str], rng: random.Random) -> dict[str, str]:
    """The worse answers of each kind."""
    half = said[: max(1, len(said) // 2)]
    foreign = [s for a in rng.sample(others, min(2, len(others))) for s in sentences_of(a)]
    mixed = [*said]
    for s in rng.sample(foreign, min(len(foreign), max(1, len(said)))):
        mixed.insert(rng.randrange(len(mixed) + 1), s)
    return {
        "other": rng.choice(others),
        "empty": " ".join(rng.sample(phrases, len(phrases))),
        "filled": " ".join([*half, *(foreign * 9)[: max(1, len(said) - len(half))]]),
        "half": " ".join(half),
        "repeated": " ".join((half * 3)[: len(said)]),
        "mixed": " ".join(mixed),
    }


def fitted(x: np.ndarray) -> np.ndarray:
    """Logistic weights of differences that all speak for the better answer; there is no bias, so places do not matter."""
    scale = x.std(axis=0) + 1e-6

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = (x / scale) @ w
        p = 1 / (1 + np.exp(margin))
        return float(np.logaddexp(0, -margin).mean() + RIDGE * w @ w), -(p @ (x / scale)) / len(x) + 2 * RIDGE * w

    return minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B").x / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    args = parser.parse_args()
    known: dict[tuple[str, str], np.ndarray] = {}
    found = list(pairs(args.data))
    texts = sorted({t for p in found for t in (p.question, *sentences_of(p.better), *sentences_of(p.worse))}, key=len)
    vectors = dict(zip(texts, open_embedder(find_embedder()).embed(texts), strict=True))  # at once: it takes a minute

    def embed(some: Sequence[str]) -> np.ndarray:
        return np.stack([vectors[t] for t in some])

    for p in found:
        for text in (p.better, p.worse):
            if (p.question, text) not in known:
                known[p.question, text] = answer_features(p.question, text, embed)
    print(f"{len(found)} pairs, {sum(p.kept for p in found)} kept; measures: {', '.join(FEATURES)}")
    for criterion in CRITERIA:
        rows = [(p, known[p.question, p.better] - known[p.question, p.worse]) for p in found if p.criterion == criterion]
        weights = fitted(np.array([x for p, x in rows if not p.kept]))
        print(f'    "{criterion}": ({", ".join(f"{w:.2f}" for w in weights)}),')
        for kind in WORSE:
            told = [(x @ weights, x[FEATURES.index("sentences")]) for q, x in rows if q.kept and q.kind == kind]
            if told:
                p = 1 / (1 + np.exp(-np.array(told)[:, 0]))
                right, ties = 100 * (p > 0.5 + TIE_MARGIN).mean(), 100 * (abs(p - 0.5) <= TIE_MARGIN).mean()
                longer = 100 * np.mean([(more > 0) + 0.5 * (more == 0) for _, more in told])
                print(f"# {kind}: {len(p)} pairs, right {right:.0f} %, undecided {ties:.0f} %; the longer answer {longer:.0f} %")


if __name__ == "__main__":
    main()
