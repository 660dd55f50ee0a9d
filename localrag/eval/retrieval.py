"""Retrieval evaluation (`localrag eval retrieval`): the share of a question's gold passages among the first hits of a mode."""

import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.datasets import RetrievalTask, as_markdown
from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_writing
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.local_search import passages_mentioning
from localrag.query.retriever import hybrid_search, retrieve
from localrag.records import Chunk
from localrag.store import chunks, documents, vectors
from localrag.store.full_text import search_chunks
from localrag.text.language import detect_language

RECALL_AT = (2, 5, 8)
CANDIDATES = 50  # chunks asked for: several may be of one passage

Retrieve = Callable[[str, NDArray[np.float32], Project, int], Sequence[Chunk] | Awaitable[Sequence[Chunk]]]


RETRIEVERS: dict[str, Retrieve] = {
    "mix": retrieve_two_hop,
    "walk": lambda question, vector, project, k: [c for c, _ in retrieve(question, vector, project, k)],
    "basic": hybrid_search,
    "local": passages_mentioning,
    "words": lambda question, _, project, k: chunks.chunks_by_id(
        project.db, [c for c, _ in search_chunks(project.db, question, k, detect_language(question))]
    ),
    "vectors": lambda _, vector, project, k: chunks.chunks_by_id(
        project.db, [c for c, _ in vectors.nearest(project.db, project.folder, "chunk", vector, k)]
    ),
}


async def evaluate_retrieval(
    task: RetrievalTask, modes: Sequence[str], extractor: str, model: str | None, options: EngineOptions
) -> list[dict[str, Any]]:
    """One row of metrics for each mode: recall and completeness in percent, seconds per question, seconds to index. Raises UsageError."""
    if unknown := [m for m in modes if m not in RETRIEVERS]:
        raise UsageError(f"There is no retrieval mode {unknown[0]!r}.", f"Modes: {', '.join(RETRIEVERS)}")
    with tempfile.TemporaryDirectory() as place:
        docs = Path(place).resolve() / "docs"
        docs.mkdir()
        of_path = {}
        for n, (key, title, text) in enumerate(task.passages):
            file = docs / f"{n:07}.md"
            file.write_text(as_markdown(title, text), encoding="utf-8")
            of_path[f"docs/{file.name}"] = key
        start = time.perf_counter()
        with open_for_writing(docs.parent / ".localrag", model=model, engine=options, extractor=extractor) as project:
            outcome = await build_index([docs], project, lambda _: None, reports=False)
            seconds = time.perf_counter() - start
            about = {"task": task.name, "extractor": extractor, "passages": len(of_path), "questions": len(task.questions)}
            lost = {"skipped": len(outcome.documents.skipped), "failures": len(outcome.failures)}
            return [
                about | {"mode": m} | await _retrieval_metrics(task, m, project, of_path) | {"index_seconds": round(seconds, 1)} | lost
                for m in modes
            ]


async def _retrieve(mode: str, question: str, project: Project) -> Sequence[Chunk]:
    found = RETRIEVERS[mode](question, project.embedder.embed([question])[0], project, CANDIDATES)
    return await found if isinstance(found, Awaitable) else found


async def _retrieval_metrics(task: RetrievalTask, mode: str, project: Project, of_path: dict[str, str]) -> dict[str, Any]:
    path = documents.document_paths(project.db)
    shares: dict[int, list[float]] = {k: [] for k in RECALL_AT}
    spent = []
    await _retrieve(mode, task.questions[0][0], project)  # fills the caches
    for question, gold in task.questions:
        begun = time.perf_counter()
        hits = await _retrieve(mode, question, project)
        spent.append(time.perf_counter() - begun)
        ids = list(dict.fromkeys(of_path[path[c.document_id]] for c in hits))
        for k in RECALL_AT:
            shares[k].append(len(gold & set(ids[:k])) / len(gold))
    recall = {f"R@{k}": round(100 * float(np.mean(shares[k])), 1) for k in RECALL_AT}
    complete_shares = {f"all@{k}": round(100 * float(np.mean(np.array(shares[k]) == 1)), 1) for k in RECALL_AT}
    return (
        recall
        | complete_shares
        | {"seconds_per_query": round(float(np.mean(spent)), 4), "seconds_p95": round(float(np.quantile(spent, 0.95)), 4)}
    )
