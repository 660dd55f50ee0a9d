"""Fit how likely passages support a written sentence (`localrag/query/support_score.py`), and say how well that ranks labelled sentences.

    python -m scripts.train.support DATA OUT [--measure FILE…]

DATA holds the sets of `scripts/train/judge.py`. Learned from are QUOTAS of each, half of them supported, of the fifth of the premises that
the judge was not taught from, and `tests/data/support/tuned.jsonl`. Writes OUT/support.safetensors. FILE has lines of {"source",
"sentence", "supported"}; the area under the ROC curve is given for the score and for shared word pairs.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.optimize import minimize

from localrag.engine.embedder import open_embedder
from localrag.eval.metrics import load_cases
from localrag.llm.reader import PassageReader
from localrag.model_files import find_embedder
from localrag.query.attribution import SentenceVectors, supporting_quotes
from localrag.query.support_score import FEATURES, OTHER_LANGUAGE_FEATURES, PARSED_LANGUAGES, SupportScorer
from localrag.records import Quote
from localrag.text.language import detect_language
from localrag.text.sentences import collapse_whitespace
from scripts.train.judge import labelled_rows
from scripts.train.reader import auc

TUNED = Path("tests/data/support/tuned.jsonl")
QUOTAS = {
    **{"nli_vitaminc_real": 300, "nli_fever": 100, "nli_infotabs": 120, "nli_begin": 100, "nli_mnli": 150, "nli_zh": 500, "nli_snli": 40},
    **{"made_minimal": 400, "made_joined": 150, "made_tables": 120, "TENP/contrast": 150, "TENP": 250, "FEVER": 80, "FM2": 150},
    **{"ContractNLI": 80, "SummEdits": 150, "PropSegmEnt": 100, "RTE-sci": 60, "made/": 150},
}  # of the sets, or sources, that begin so
ROW_WEIGHTS = {"tuned": 3.0}
MAX_PREMISE_CHARS = 1500
RIDGE = 0.0015
Array = NDArray[np.float32]


@dataclass(frozen=True)
class SupportRow:
    """A sentence with its source and label; `group` is the key of its quota."""

    group: str
    claim: str
    source: str
    is_supported: bool


def training_rows(data: Path) -> Iterator[SupportRow]:
    """QUOTAS of each source, chosen by chance but the same in every run, and the project's own."""
    groups: defaultdict[str, list[SupportRow]] = defaultdict(list)
    for name, row in labelled_rows(data, "kept"):
        group = next((key for key in QUOTAS if name.startswith(key) or row["source"].startswith(key)), None)
        if group and len(row["premise"]) <= MAX_PREMISE_CHARS and row.get("licence_group") != "unstated":
            groups[group].append(SupportRow(group, row["hypothesis"], row["premise"], row["label"] == "entailment"))
    rng = random.Random(7)
    for group, rows in groups.items():
        for label in (True, False):
            labelled = [row for row in rows if row.is_supported == label]
            yield from rng.sample(labelled, min(QUOTAS[group] // 2, len(labelled)))
    yield from measured_rows(TUNED, "tuned")


def measured_rows(file: Path, group: str = "") -> Iterator[SupportRow]:
    """The rows of a file as `localrag eval support` reads them."""
    return (SupportRow(group, case.sentence, case.source, case.is_entailed) for case in load_cases(file))


def described(rows: Sequence[SupportRow], scorer: SupportScorer) -> Array:
    """The features of each row, (rows, features)."""
    views = [scorer.views(collapse_whitespace(row.claim), [_quote(row)]) for row in rows]
    pairs = [(row, v) for row, view in zip(rows, views, strict=True) if view for v in view]
    by_length = sorted(pairs, key=lambda p: len(p[1]))  # equal lengths fill a batch of the reader
    for first in range(0, len(by_length), 64):
        scorer.read_pairs([(view, collapse_whitespace(row.claim)) for row, view in by_length[first : first + 64]])
    found = []
    for row, view in zip(rows, views, strict=True):
        if view is None:
            found.append(np.zeros(len(FEATURES), np.float32))
            continue
        claim = collapse_whitespace(row.claim)
        proof, names = supporting_quotes(claim, [_quote(row)]), detect_language(claim) in PARSED_LANGUAGES
        found.append(scorer.features(claim, [_quote(row)], view, is_proved=bool(proof), has_names=names))
    return np.array(found)


def _quote(row: SupportRow) -> Quote:
    return Quote("", 0, len(row.source), row.source)


def fitted(x: Array, y: Array, weights: Array) -> tuple[Array, float]:
    """Weights and bias of a logistic regression."""
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    standard = (x - mean) / scale

    def loss(w: Array) -> tuple[float, Array]:
        logits = standard @ w[1:] + w[0]
        p = 1 / (1 + np.exp(-logits))
        error = weights * (p - y) / weights.sum()
        value = float((weights * (np.logaddexp(0, logits) - y * logits)).sum() / weights.sum() + RIDGE * w[1:] @ w[1:])
        return value, np.concatenate([[error.sum()], error @ standard + 2 * RIDGE * w[1:]])

    w = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return w[1:] / scale, float(w[0] - (w[1:] / scale) @ mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--measure", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    vectors = SentenceVectors(open_embedder(find_embedder()).embed)
    scorer = SupportScorer(vectors.cosines, PassageReader(), {})
    rows = list(training_rows(args.data))
    x = described(rows, scorer)
    y, weights = np.array([row.is_supported for row in rows]), np.array([ROW_WEIGHTS.get(row.group, 1.0) for row in rows])
    tensors: dict[str, Array] = {}
    for head, used in (("parsed", FEATURES), ("other", OTHER_LANGUAGE_FEATURES)):
        columns = [FEATURES.index(name) for name in used]
        weight = np.zeros(len(FEATURES), np.float32)
        weight[columns], bias = fitted(x[:, columns], y.astype(float), weights)
        tensors |= {f"{head}.weight": weight, f"{head}.bias": np.array([bias], np.float32)}
    args.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, args.out / "support.safetensors")
    print(f"{len(rows)} rows, {int(y.sum())} supported")
    for file in args.measure:
        measured = list(measured_rows(file))
        found, truth = described(measured, scorer), np.array([row.is_supported for row in measured])
        scores = {
            "word pairs": found[:, FEATURES.index("pairs of two")],
            "score": found @ tensors["parsed.weight"],
            "without rules": found @ tensors["other.weight"],
        }
        print(file.name, len(measured), *(f"{name} {auc(truth, s)}" for name, s in scores.items()))


if __name__ == "__main__":
    main()
