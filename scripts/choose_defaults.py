"""What chunk size and context budget bring: gold evidence among the passages that fit, on novels with questions (GraphRAG-Bench).

    python scripts/choose_defaults.py DIR --size 300 --size 680 --size 1200 --budget 1200 --budget 2400 --budget 4800 --limit 300

DIR as for `localrag eval qa`. Each size gets its own index without a model; passages are those of mode `mix`, best first, until the
budget is used up, so that sizes are compared at equal cost. Printed: the mean share of a question's evidence, in percent, with 95 in 100
bootstrap samples of the questions; and tokens a passage has on average.
"""

import argparse
import asyncio
import tempfile
import time
from itertools import accumulate
from pathlib import Path

import numpy as np

from localrag.engine.settings import EngineOptions
from localrag.eval.datasets import load_qa_dataset
from localrag.eval.metrics import evidence_recall
from localrag.eval.win_rates import interval
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.query.retriever import retrieve
from localrag.records import Quote

MOST = 60  # passages looked at: enough for the largest budget in the smallest chunks


def shown(question, project, budgets):
    """The passages of a question for every budget, as (file name, quote)."""
    vector = project.embedder.embed([question.text])[0]
    found = [c for c, _ in retrieve(question.text, vector, project, MOST)]
    names = {c.id: Path(project.db.execute("SELECT path FROM documents WHERE id = ?", [c.document_id]).fetchone()[0]).name for c in found}
    sizes = list(accumulate(c.tokens for c in found))
    kept = [[c for c, size in zip(found, sizes, strict=True) if size <= budget] for budget in budgets]
    return [[(names[c.id], Quote(c.id, c.start, c.end, c.text)) for c in some] for some in kept]


def measure(sets, size, budgets, folder):
    """The evidence recall of every question that has evidence, for each budget; and tokens of a passage and seconds."""
    scores = [[] for _ in budgets]
    tokens, started = [], time.perf_counter()
    for gold in sets:
        docs = folder / f"{size}-{gold.name}" / "docs"
        docs.mkdir(parents=True)
        for name, text in gold.documents:
            (docs / name).write_text(text, encoding="utf-8")
        settings = {"extractor": "phrases", "chunk_tokens": size, "chunk_overlap": round(size / 6.8)}
        with open_for_writing(docs.parent / ".localrag", engine=EngineOptions(), **settings) as project:
            asyncio.run(build_index([docs], project, lambda _: None, reports=False))
            tokens += [row[0] for row in project.db.execute("SELECT tokens FROM chunks")]
            for question in gold.questions:
                for values, passages in zip(scores, shown(question, project, budgets), strict=True):
                    recall = evidence_recall(question.evidence, passages, project.embedder.embed)
                    if recall is not None:
                        values.append(recall)
    return [np.array(s) for s in scores], float(np.mean(tokens)), time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--budget", type=int, action="append")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    budgets = args.budget or [1200, 2400, 4800]
    sets = load_qa_dataset(args.folder, limit=args.limit, seed=args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for size in args.size or [300, 680, 1200]:
            scores, tokens, seconds = measure(sets, size, budgets, Path(folder))
            cells = []
            for budget, values in zip(budgets, scores, strict=True):
                low, high = interval(100 * values)
                cells.append(f"{budget} tokens: {100 * values.mean():.1f} % ({low:.1f}–{high:.1f})")
            print(
                f"chunk_tokens {size}, {tokens:.0f} on average, {len(scores[0])} questions: {' · '.join(cells)}   {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
