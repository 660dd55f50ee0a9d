"""Fits the weights of complete lists (`localrag/analysis/item_evidence.py`): what says that a name in prose is an item.

    python -m scripts.fit_item_lists --data DATA --indexes FOLDER [--ablate]

Logistic regression over the candidates of the tuned parts of `scripts/measure_item_lists.py`, each request weighing the same. Printed are
the weights, and with `--ablate` what each feature carries: the log loss and F1 on sets that were left out.
"""

import argparse
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import LeaveOneGroupOut

from localrag.analysis.item_evidence import PROSE_FEATURES, features
from localrag.analysis.item_list import gather
from localrag.analysis.list_request import parse_list_request
from scripts.measure_item_lists import folded, known_sets, opened_index

STRENGTH = 1.0  # of regularization, inverse: weights of candidates sum up to 100 a request
Stacked = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64], list[str]]


@dataclass(slots=True)
class Examples:
    """The candidates of a request: features (n, features), whether each is an item, and the set that they are of."""

    known: str
    request: str
    rows: NDArray[np.float32]
    labels: NDArray[np.bool_]


def examples_of(data: Path, indexes: Path) -> list[Examples]:
    """The candidates in prose of all tuned sets."""
    found: list[Examples] = []
    for known in (k for part in ("tuned", "wiki-tuned") for k in known_sets(part, data) if k.extractor == "auto"):
        with opened_index(known, indexes) as index:
            for request, wanted in known.requests:
                names = {folded(name) for item in wanted for name in item}
                group = gather(parse_list_request(request), index._query_project()).in_prose
                if group:
                    labels = np.array([folded(c.name) in names for c in group])
                    found.append(Examples(known.name, request, features([c.evidence for c in group]), labels))
        print(known.name, sum(len(e.labels) for e in found), flush=True)
    return found


def fitted(rows: NDArray[np.float32], labels: NDArray[np.bool_], weights: NDArray[np.float64]) -> LogisticRegression:
    """The regression of features on whether a candidate is an item."""
    return LogisticRegression(C=STRENGTH, max_iter=5000).fit(rows, labels, sample_weight=weights)


def stacked(groups: Sequence[Examples], columns: Sequence[int]) -> Stacked:
    """Features, labels, weights and sets of all candidates."""
    rows = np.concatenate([g.rows for g in groups])[:, columns]
    weights = np.concatenate([np.full(len(g.rows), 100 / len(g.rows)) for g in groups])
    return rows, np.concatenate([g.labels for g in groups]), weights, [g.known for g in groups for _ in g.labels]


def left_out(groups: Sequence[Examples], columns: Sequence[int]) -> tuple[float, float]:
    """Log loss and F1 on sets that were left out, each in turn."""
    rows, labels, weights, sets = stacked(groups, columns)
    said = np.zeros(len(labels))
    for train, test in LeaveOneGroupOut().split(rows, labels, sets):
        said[test] = fitted(rows[train], labels[train], weights[train]).predict_proba(rows[test])[:, 1]
    return log_loss(labels, said, sample_weight=weights), f1_score(labels, said >= 0.5, sample_weight=weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--indexes", type=Path, required=True)
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--cache", type=Path, help="a file that keeps the candidates")
    args = parser.parse_args()
    if args.cache and args.cache.exists():
        groups = pickle.loads(args.cache.read_bytes())
    else:
        groups = examples_of(args.data, args.indexes)
        if args.cache:
            args.cache.write_bytes(pickle.dumps(groups))
    columns = range(len(PROSE_FEATURES))
    if args.ablate:
        for n in columns:
            print(f"  without {PROSE_FEATURES[n]:20}", *(f"{v:.4f}" for v in left_out(groups, [m for m in columns if m != n])), flush=True)
    rows, labels, weights, _ = stacked(groups, columns)
    model = fitted(rows, labels, weights)
    print(
        f"# {len(labels)} candidates, {labels.sum()} items; left out: log loss {{:.4f}} and F1 {{:.4f}}".format(*left_out(groups, columns))
    )
    print(f"PROSE_WEIGHTS, PROSE_BIAS = ({', '.join(f'{w:.2f}' for w in model.coef_[0])}), {model.intercept_[0]:.2f}")


if __name__ == "__main__":
    main()
