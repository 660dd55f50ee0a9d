"""`localrag eval retrieval`: how many of a question's gold passages a mode finds first."""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedding.embedder import open_reranker
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.index.pipeline import build_index
from localrag.models import find_reranker
from localrag.opening import open_for_writing
from localrag.project import Project
from localrag.query.modes.local import passages_about
from localrag.query.retrieval.retrieve import nearest_chunks, search
from localrag.query.retrieval.two_steps import search_twice
from localrag.records import Chunk
from localrag.store import corpus, vectors
from localrag.store.search import search_chunks

CUTS = (2, 5, 8)
POOL = 50  # chunks asked for: several may be of one passage

Retrieve = Callable[[str, NDArray[np.float32], Project, int], Sequence[Chunk]]


RETRIEVERS: dict[str, Retrieve] = {
    "mix": lambda question, vector, project, k: [c for c, _ in search_twice(question, vector, project, k)],
    "walk": lambda question, vector, project, k: [c for c, _ in search(question, vector, project, k)],
    "basic": nearest_chunks,
    "local": passages_about,
    "words": lambda question, _, project, k: corpus.chunks_by_id(project.db, [c for c, _ in search_chunks(project.db, question, k)]),
    "vectors": lambda _, vector, project, k: corpus.chunks_by_id(
        project.db, [c for c, _ in vectors.nearest(project.db, project.folder, "chunk", vector, k)]
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """Passages (id, title, text) and questions (question, ids of its gold passages)."""

    name: str
    passages: tuple[tuple[str, str, str], ...]
    questions: tuple[tuple[str, frozenset[str]], ...]


def load_task(folder: Path) -> Task:
    """Read `corpus.jsonl` and `queries.jsonl`. Raises UsageError naming the file and line that cannot be read."""
    passages = [(str(r["id"]), str(r.get("title", "")), str(r["text"])) for r in load_rows(folder / "corpus.jsonl", "id", "text")]
    questions = [(str(r["question"]), frozenset(map(str, r["gold"]))) for r in load_rows(folder / "queries.jsonl", "question", "gold")]
    known = {i for i, *_ in passages}
    if len(known) < len(passages):
        raise UsageError(f"{folder / 'corpus.jsonl'} has an id twice.")
    lost = next((q for q, gold in questions if not gold or not gold <= known), None)
    if lost is not None:
        raise UsageError(f"{folder / 'queries.jsonl'}: the gold passages of {lost!r} are not all in corpus.jsonl.")
    return Task(folder.name, tuple(passages), tuple(questions))


def load_rows(file: Path, *fields: str) -> list[dict[str, Any]]:
    """The objects of a JSONL file, all of which have these fields. Raises UsageError naming the file and line that cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "A task is a folder with corpus.jsonl and queries.jsonl.") from error
    rows = []
    for n, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or any(f not in row for f in fields):
            raise UsageError(f"{file}, line {n}: not a JSON object with {', '.join(fields)}.")
        rows.append(row)
    if not rows:
        raise UsageError(f"{file} is empty.")
    return rows


def heading(title: str, text: str) -> str:
    """A passage as a Markdown file, its title as the heading."""
    return f"# {title}\n\n{text}" if title else text


async def evaluate_retrieval(
    task: Task, modes: Sequence[str], extractor: str, model: str | None, options: EngineOptions, reranker: str | None = None
) -> list[dict[str, Any]]:
    """One row of figures for each mode: recall and completeness in percent, seconds a question, seconds to index. Raises UsageError."""
    if unknown := [m for m in modes if m not in RETRIEVERS]:
        raise UsageError(f"There is no retrieval mode {unknown[0]!r}.", f"Modes: {', '.join(RETRIEVERS)}")
    with tempfile.TemporaryDirectory() as place:
        docs = Path(place).resolve() / "docs"
        docs.mkdir()
        of_path = {}
        for n, (key, title, text) in enumerate(task.passages):
            file = docs / f"{n:07}.md"
            file.write_text(heading(title, text), encoding="utf-8")
            of_path[f"docs/{file.name}"] = key
        start = time.perf_counter()
        with open_for_writing(docs.parent / ".localrag", model=model, engine=options, extractor=extractor) as project:
            outcome = await build_index([docs], project, lambda _: None, reports=False)
            seconds = time.perf_counter() - start
            about = {"task": task.name, "extractor": extractor, "passages": len(of_path), "questions": len(task.questions)}
            lost = {"skipped": len(outcome.loaded.skipped), "failures": len(outcome.failures)}
            asked = replace(project, rerank=open_reranker(find_reranker(reranker))) if reranker else project
            return [about | {"mode": m} | _figures(task, m, asked, of_path) | {"index_seconds": round(seconds, 1)} | lost for m in modes]


def _figures(task: Task, mode: str, project: Project, of_path: dict[str, str]) -> dict[str, Any]:
    path = corpus.document_paths(project.db)
    shares: dict[int, list[float]] = {k: [] for k in CUTS}
    spent = []
    RETRIEVERS[mode](task.questions[0][0], project.embedder.embed([task.questions[0][0]])[0], project, POOL)  # caches are filled once
    for question, gold in task.questions:
        begun = time.perf_counter()
        found = RETRIEVERS[mode](question, project.embedder.embed([question])[0], project, POOL)
        spent.append(time.perf_counter() - begun)
        ids = list(dict.fromkeys(of_path[path[c.document_id]] for c in found))
        for k in CUTS:
            shares[k].append(len(gold & set(ids[:k])) / len(gold))
    recall = {f"R@{k}": round(100 * float(np.mean(shares[k])), 1) for k in CUTS}
    every = {f"all@{k}": round(100 * float(np.mean(np.array(shares[k]) == 1)), 1) for k in CUTS}
    return recall | every | {"seconds_per_query": round(float(np.mean(spent)), 4), "seconds_p95": round(float(np.quantile(spent, 0.95)), 4)}
