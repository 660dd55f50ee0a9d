"""How often the gold answer stands in the first sentence of an answer and in the first three, and the weights that put it there.

    python scripts/rank_sentences.py DATA CACHE

DATA holds `retrieval/` and `qa_spans/`. Each set is indexed without a model; its questions find their passages as in mode mix. The weights
(`localrag/query/sentence_ranking.py`) are fitted on four fifths of the questions of HotpotQA and XQuAD, those of CJK text on XQuAD
and CMRC; the table is that of the fifth that is kept from it. CACHE keeps the indexes between runs.
"""

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from localrag.eval.datasets import as_markdown, load_rows
from localrag.eval.metrics import is_quoted
from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_query, open_for_writing
from localrag.query.basic_search import PASSAGES_RANKED, retrieve_two_hop
from localrag.query.retriever import names_in
from localrag.query.sentence_ranking import (
    CJK_WEIGHTS,
    WEIGHTS,
    CandidateSentences,
    chunk_quotes,
    drop_repetitions,
    figures,
    score_candidates,
)
from localrag.store import documents as documents_store
from scripts.splits import part

SETS = ("hotpot_dev100", "xquad_en", "xquad_zh", "zh_cmrc_trial", "musique_dev100")
FITTED_ON = {"words": ("hotpot_dev100", "xquad_en"), "CJK": ("xquad_zh", "zh_cmrc_trial")}
MOST = 300  # questions of a set
RIDGE = 0.01


@dataclass(frozen=True)
class Asked:
    """A question's sentences: their texts, nearness and figures, and which hold the gold answer."""

    kept: bool
    found: CandidateSentences
    figures: np.ndarray
    gold: np.ndarray


def load(data: Path, name: str) -> tuple[list[str], list[tuple[str, list[str], bool]]]:
    """The documents of a set, and its questions with their answers and whether they are kept from fitting."""
    if name.startswith("xquad"):
        rows = load_rows(data / "qa_spans" / f"{name}.jsonl", "title", "context", "question", "answers")
        return list(dict.fromkeys(r["context"] for r in rows)), [(r["question"], r["answers"], part(r["title"]) == "kept") for r in rows]
    passages = load_rows(data / "retrieval" / name / "corpus.jsonl", "id", "text")
    rows = load_rows(data / "retrieval" / name / "queries.jsonl", "id", "question", "answers", "gold")
    questions = [(r["question"], r["answers"], part(r["gold"][0] if name.startswith("zh") else r["id"]) == "kept") for r in rows]
    return [as_markdown(r.get("title", ""), r["text"]) for r in passages], questions


def ask(project: Project, question: str, answers: Sequence[str], kept: bool) -> Asked | None:
    """The figures of a question's sentences; None where no sentence was found or the answer is yes or no."""
    vector = project.embedder.embed([question])[0]
    passages = retrieve_two_hop(question, vector, project, PASSAGES_RANKED)
    weight = {c.id: score for c, score in passages}
    quotes = chunk_quotes([c for c, _ in passages], question)
    found = score_candidates(question, quotes, names_in(question, project), weight)
    gold = [is_quoted([t], answers) for t in found.texts]
    if not gold or gold[0] is None:
        return None
    of_document = documents_store.document_titles(project.db, {q.chunk_id for q in found.quotes})
    ids = [q.chunk_id for q in found.quotes]
    found = replace(found, near=found.near + project.embedder.embed(found.texts) @ vector)
    return Asked(kept, found, figures(question, found.texts, found.near, ids, [of_document[i] for i in ids], weight), np.array(gold) > 0)


def asked_of(data: Path, cache: Path, name: str) -> Iterator[Asked]:
    documents, questions = load(data, name)
    folder = cache / name
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    for n, text in enumerate(documents):
        (folder / "docs" / f"{n:05}.md").write_text(text, encoding="utf-8")
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        asyncio.run(build_index([folder / "docs"], project, lambda _: None, reports=False))
    kept = [q for q in questions if q[2]]
    rest = [q for q in questions if not q[2]]
    chosen = [*kept[:MOST], *random.Random(0).sample(rest, min(MOST, len(rest)))]
    with open_for_query(folder / ".localrag") as project:
        for question, answers, is_kept in chosen:
            if one := ask(project, question, answers, is_kept):
                yield one


def fitted(rows: Sequence[Sequence[Asked]]) -> np.ndarray:
    """The weights that make a sentence with the answer come first (listwise softmax), every set weighing the same."""
    tasks = [(1 / len(some), a.figures, a.gold) for some in rows for a in some if a.gold.any() and not a.gold.all()]
    scale = np.concatenate([f for _, f, _ in tasks]).std(axis=0) + 1e-6

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = RIDGE * float(w @ w), 2 * RIDGE * w
        for share, figure, gold in tasks:
            x = figure / scale
            s = x @ w
            everything, right = logsumexp(s), logsumexp(s[gold])
            total += share / len(rows) * float(everything - right)
            slope = slope + share / len(rows) * (np.exp(s - everything) @ x - np.exp(s[gold] - right) @ x[gold])
        return total, slope

    return minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B").x / scale


def scores(rows: Sequence[Asked], weights: np.ndarray | None) -> str:
    """Gold answer in the first, among the first three, and among the first six sentences, in percent; without weights by nearness."""
    shares = []
    for a in rows:
        order = np.argsort(-(a.found.near if weights is None else a.figures @ weights), kind="stable")
        best = list(drop_repetitions([int(n) for n in order], a.found.texts))
        shares.append([a.gold[best[:k]].any() for k in (1, 3, 6)])
    return " / ".join(f"{100 * x:.1f}" for x in np.mean(shares, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("cache", type=Path)
    args = parser.parse_args()
    rows = {name: list(asked_of(args.data, args.cache.resolve(), name)) for name in SETS}
    for kind, names in FITTED_ON.items():
        weights = fitted([[a for a in rows[name] if not a.kept] for name in names])
        print(kind, {name: round(float(w), 2) for name, w in zip(WEIGHTS, weights, strict=True)})
    print("| kept questions | n | by nearness | as shipped |\n|---|---:|---|---|")
    for name in SETS:
        kept = [a for a in rows[name] if a.kept]
        shipped = np.array([*(CJK_WEIGHTS if "zh" in name else WEIGHTS).values()])
        print(f"| {name} | {len(kept)} | {scores(kept, None)} | {scores(kept, shipped)} |")


if __name__ == "__main__":
    main()
