"""Fit the trees that rank passages: `python -m scripts.train.ranking DATA WORK OUT`.

DATA has a folder for each set with corpus.jsonl and queries.jsonl; WORK keeps their indexes and what was computed of each question, so that
a stopped run goes on; OUT gets ranking.safetensors. Each set is first ranked by trees fitted on the others (sets whose names begin alike
are left out together), beside the sum of both walks and trees fitted on fewer questions, with the share of the evidence that the first
twenty and all passages have; then trees are fitted on all sets.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from sklearn.ensemble import HistGradientBoostingClassifier

from localrag.eval.datasets import as_markdown
from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_writing
from localrag.query.basic_search import search_two_hops
from localrag.query.passage_ranking import RankingTrees, rank_rows, ranking_features
from localrag.store import documents

SETS = ("2wiki_fg51", "2wiki_fg101", "hotpot_dev100", "musique_dev100")
FAMILY_CHARS = 5  # of a set's name
FITTED_CANDIDATES = 40  # of a question, the best by the sum of both walks
FEWER, DRAWS = (30, 60, 120), 4
TREES, DEPTH, LEARNING_RATE, L2 = 80, 3, 0.06, 5.0


class RankedQuestion(NamedTuple):
    """The passages found for a question: features, (n, features), the passage's key, and which keys are evidence."""

    features: NDArray[np.float64]
    keys: list[str]
    gold: list[str]

    @property
    def labels(self) -> NDArray[np.bool_]:
        """Which passages are evidence, (n,)."""
        return np.isin(self.keys, self.gold)

    def recall(self, order: NDArray[np.int64], k: int | None = 5) -> float:
        """The share of the evidence among the first `k` passages, or among all."""
        first = list(dict.fromkeys(self.keys[i] for i in order))[:k]
        return len(set(self.gold) & set(first)) / len(self.gold)


@asynccontextmanager
async def opened_set(folder: Path, work: Path) -> AsyncIterator[tuple[Project, dict[str, str], list[dict[str, Any]]]]:
    """The index of a set's corpus, kept in `work`, with the passage's key by document id, and the set's questions."""
    corpus, queries = ([json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")] for name in ("corpus", "queries"))
    docs = work / folder.name / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    keys = {f"docs/{n:07}.md": row["id"] for n, row in enumerate(corpus)}
    for n, row in enumerate(corpus):
        file = docs / f"{n:07}.md"
        if not file.exists():
            file.write_text(as_markdown(row["title"], row["text"]), encoding="utf-8")
    with open_for_writing(docs.parent / ".localrag", extractor="phrases") as project:
        await build_index([docs], project, lambda _: None, reports=False)
        yield project, {i: keys[path] for i, path in documents.document_paths(project.db).items()}, queries


async def read_set(folder: Path, work: Path) -> list[RankedQuestion]:
    """The questions of a set with the features of their passages."""
    kept = work / f"{folder.name}.jsonl"
    async with opened_set(folder, work) as (project, keys, queries):
        lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
        with kept.open("a", encoding="utf-8") as out:
            for row in queries[len(lines) :]:
                lines.append(json.dumps(await _read_question(row, project, keys)))
                out.write(lines[-1] + "\n")
                out.flush()
    rows = map(json.loads, lines)
    return [RankedQuestion(np.array(row["features"]), row["keys"], row["gold"]) for row in rows if row["keys"]]


async def _read_question(row: dict[str, Any], project: Project, keys: dict[str, str]) -> dict[str, Any]:
    found = await search_two_hops(row["question"], project.embedder.embed([row["question"]])[0], project)
    if found.searches is None:
        return {"features": [], "keys": [], "gold": row["gold"]}
    features = ranking_features(found.chunks, *found.searches, project)
    return {"features": features.tolist(), "keys": [keys[c.document_id] for c in found.chunks], "gold": row["gold"]}


def fit(questions: list[RankedQuestion]) -> RankingTrees:
    """Trees fitted on the passages of some questions."""
    chosen = [(q, np.argsort(-q.features[:, 0], kind="stable")[:FITTED_CANDIDATES]) for q in questions]
    model = HistGradientBoostingClassifier(
        max_depth=DEPTH, max_iter=TREES, learning_rate=LEARNING_RATE, l2_regularization=L2, early_stopping=False
    )
    model.fit(np.concatenate([q.features[rows] for q, rows in chosen]), np.concatenate([q.labels[rows] for q, rows in chosen]))
    return _as_arrays(model)


def _as_arrays(model: HistGradientBoostingClassifier) -> RankingTrees:
    nodes = [trees[0].nodes for trees in model._predictors]
    starts = np.cumsum([0, *(len(tree) for tree in nodes)])[:-1]
    whole = np.concatenate(nodes)
    shift = np.repeat(starts, [len(tree) for tree in nodes])
    leaf = whole["is_leaf"].astype(bool)
    return RankingTrees(
        np.where(leaf, -1, whole["feature_idx"]).astype(np.int32),
        np.where(leaf, 0.0, whole["num_threshold"]),
        np.where(leaf, 0, whole["left"] + shift).astype(np.int32),
        np.where(leaf, 0, whole["right"] + shift).astype(np.int32),
        np.where(leaf, whole["value"], 0.0),
        starts.astype(np.int32),
    )


def others_of(name: str, sets: Mapping[str, list[RankedQuestion]]) -> list[RankedQuestion]:
    """The questions of the sets of other families."""
    return [q for other, some in sets.items() if other[:FAMILY_CHARS] != name[:FAMILY_CHARS] for q in some]


def learning_curve(questions: list[RankedQuestion], others: list[RankedQuestion]) -> list[float]:
    """R@5 in percent by trees fitted on FEWER numbers of other questions, each the mean of DRAWS draws."""
    chance = np.random.default_rng(0)
    drawn = [[fit([others[i] for i in chance.permutation(len(others))[:n]]) for _ in range(DRAWS)] for n in FEWER]
    return [100 * float(np.mean([q.recall(rank_rows(q.features, trees)) for trees in some for q in questions])) for some in drawn]


def _recalls(questions: list[RankedQuestion], rank: Callable[[NDArray[np.float64]], NDArray[np.int64]]) -> str:
    """R@5, and the share of questions with all evidence among the first 8, in percent."""
    orders = [rank(q.features) for q in questions]
    values = [(q.recall(order), q.recall(order, 8) == 1) for q, order in zip(questions, orders, strict=True)]
    return "{:.1f} / {:.1f}".format(*100 * np.mean(values, axis=0))


def main() -> None:
    data, work, out = (Path(argument) for argument in sys.argv[1:4])
    sets = {name: asyncio.run(read_set(data / name, work)) for name in SETS if (data / name).is_dir()}
    for name, questions in sets.items():
        trees = fit(others_of(name, sets))
        sums = _recalls(questions, lambda features: np.argsort(-features[:, 0], kind="stable"))
        ranked = _recalls(questions, partial(rank_rows, trees=trees))
        curve = ", ".join(f"{recall:.1f}" for recall in learning_curve(questions, others_of(name, sets)))
        most = [100 * np.mean([q.recall(rank_rows(q.features, trees), k) for q in questions]) for k in (20, None)]
        print(f"{name}: R@5 / all@8 {sums} by the sum of both walks, {ranked} by trees fitted on the other sets", flush=True)
        print(f"  on {FEWER} of their questions {curve}; first twenty {most[0]:.1f}, all passages {most[1]:.1f}", flush=True)
    trees = fit([q for questions in sets.values() for q in questions])
    save_file({name: np.ascontiguousarray(values) for name, values in trees._asdict().items()}, out / "ranking.safetensors")
    print(f"{len(trees.roots)} trees, {len(trees.feature)} nodes")


if __name__ == "__main__":
    main()
