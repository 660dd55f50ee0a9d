"""Fits the weights of complete lists (`localrag/analysis/item_evidence.py`): what says that a record, or a name in prose, is an item.

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
from sklearn.model_selection import GroupKFold

from localrag.analysis.item_evidence import FEATURES, features
from localrag.analysis.item_list import gather
from localrag.analysis.list_request import parse_list_request
from scripts.measure_item_lists import folded, known_sets, opened_index

TUNED_PARTS = ("tuned", "tables-tuned", "wiki-tuned")
STRENGTH = 1.0  # of regularization, inverse


Stacked = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64], list[str]]


@dataclass(slots=True)
class Examples:
    """Candidates of one group of one request: features (n, features), whether each is an item, and the set that they are of."""

    known: str
    request: str
    of_records: bool
    rows: NDArray[np.float32]
    labels: NDArray[np.bool_]
    names: Sequence[str]


def examples_of(data: Path, indexes: Path) -> list[Examples]:
    """The candidates of all tuned sets; those of a set are kept beside its index."""
    found: list[Examples] = []
    for known in (k for part in TUNED_PARTS for k in known_sets(part, data)):
        with opened_index(known, indexes) as index:
            project = index._query_project()
            for request, wanted in known.requests:
                names = {folded(name) for item in wanted for name in item}
                gathered = gather(parse_list_request(request), project)
                for of_records, group in ((True, gathered.records), (False, gathered.in_prose)):
                    if group:
                        labels = np.array([folded(c.name) in names for c in group])
                        rows = features([c.evidence for c in group])
                        found.append(Examples(known.name, request, of_records, rows, labels, [c.name for c in group]))
        print(known.name, len(found), flush=True)
    return found


def fitted(rows: NDArray[np.float32], labels: NDArray[np.bool_], weights: NDArray[np.float64]) -> LogisticRegression:
    """The regression of features on whether a candidate is an item."""
    return LogisticRegression(C=STRENGTH, max_iter=5000).fit(rows, labels, sample_weight=weights)


def stacked(
    groups: Sequence[Examples], columns: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64], list[str]]:
    """Features, labels, weights that sum up to the number of requests × 100, and sets of all candidates."""
    rows = np.concatenate([g.rows for g in groups])[:, columns]
    weights = np.concatenate([np.full(len(g.rows), 100 / len(g.rows)) for g in groups])
    return rows, np.concatenate([g.labels for g in groups]), weights, [g.known for g in groups for _ in g.labels]


def left_out(groups: Sequence[Examples], columns: Sequence[int]) -> tuple[float, float]:
    """Log loss and F1 on sets that were left out."""
    rows, labels, weights, sets = stacked(groups, columns)
    said = np.zeros(len(labels))
    for train, test in GroupKFold(min(10, len(set(sets)))).split(rows, labels, sets):
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
    for kind, of_records in (("RECORD", True), ("PROSE", False)):
        chosen = [g for g in groups if g.of_records is of_records]
        columns = [n for n in range(len(FEATURES)) if np.concatenate([g.rows[:, n] for g in chosen]).std() > 0]
        if args.ablate:
            print(f"{kind}: all features {left_out(chosen, columns)}")
            for n in columns:
                print(f"  without {FEATURES[n]:20}", *(f"{v:.4f}" for v in left_out(chosen, [m for m in columns if m != n])), flush=True)
        rows, labels, weights, _ = stacked(chosen, columns)
        model = fitted(rows, labels, weights)
        print(f"# {len(labels)} candidates, {labels.sum()} items; left out: log loss and F1 {left_out(chosen, columns)}")
        print(f"{kind}_WEIGHTS = {{")
        print("\n".join(f'    "{FEATURES[n]}": {w:.2f},' for n, w in zip(columns, model.coef_[0], strict=True)))
        print(f"}}\n{kind}_BIAS = {model.intercept_[0]:.2f}")


if __name__ == "__main__":
    main()
