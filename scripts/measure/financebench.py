"""FinanceBench (Islam et al. 2023, arXiv 2311.11944): questions about companies' filings, each over its own filing and over all of them.

    python -m scripts.measure.financebench REPOSITORY WORK [--filings N] [--ask N] [--embedder NAME]

REPOSITORY is a git directory of patronus-ai/financebench, or a checkout. WORK gets the filings (PDF), an index of them, which is
continued if it was interrupted, and `answers.jsonl`. The N filings are those with the most questions per page. A question counts as
found if one of the first five passages is on a page of its evidence. `--ask`: so many questions are answered as well, to be judged by eye.
Evaluation only: the set's licence (CC BY-NC 4.0) forbids other use.
"""

import argparse
import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pypdfium2

from localrag import DocumentFilter, Index
from localrag.eval.retrieval import RETRIEVERS
from localrag.filters import NO_FILTER
from localrag.indexing.pipeline import build_index
from localrag.project import filter_project, open_for_query, open_for_writing
from localrag.records import Chunk, Document
from localrag.settings import INDEX_FOLDER

Row = dict[str, Any]
SETS = ("own filing", "all filings")
MODES = ("vectors", "words", "basic", "walk", "mix")  # the last is what `ask` does, and asked of all filings as well
PASSAGES = 5


def stored(repository: Path, name: str) -> bytes:
    """A file of the repository; empty if it is listed but absent."""
    if (file := repository / name).exists():
        return file.read_bytes()
    return subprocess.run(["git", "-C", repository, "show", f"HEAD:{name}"], capture_output=True, check=False).stdout


def load(repository: Path, filings: Path, most: int) -> list[Row]:
    """The questions of the chosen filings, which are written to a folder."""
    questions = [json.loads(line) for line in stored(repository, "data/financebench_open_source.jsonl").splitlines()]
    asked = Counter(question["doc_name"] for question in questions)
    filings.mkdir(parents=True, exist_ok=True)
    worth: dict[str, float] = {}
    for name, n in asked.items():
        if data := stored(repository, f"pdfs/{name}.pdf"):
            worth[name] = n / len(pypdfium2.PdfDocument(data))
            if not (path := filings / f"{name}.pdf").exists():
                path.write_bytes(data)
    chosen = set(sorted(worth, key=lambda name: (-worth[name], name))[:most])
    for path in filings.glob("*.pdf"):
        if path.stem not in chosen:
            path.unlink()
    return [question for question in questions if question["doc_name"] in chosen]


def is_found(question: Row, chunks: Sequence[Chunk], documents: Mapping[str, Document]) -> bool:
    """Whether one of the chunks touches a page of the evidence, which the set counts from 0."""
    pages = {(f"{e['doc_name']}.pdf", f"page {e['evidence_page_num'] + 1}") for e in question["evidence"]}
    touched = (
        (Path(document.path).name, part.label)
        for chunk in chunks
        for document in (documents[chunk.document_id],)
        for part in document.parts
        if part.start < chunk.end and chunk.start < part.end
    )
    return not pages.isdisjoint(touched)


def own(question: Row) -> DocumentFilter:
    """The filter for the filing that a question is about."""
    return DocumentFilter(f"path=**/{question['doc_name']}.pdf")


def measure(index: Index, questions: Sequence[Row], n_asked: int, out: Path) -> None:
    """Print the shares of questions whose evidence is found, and write some answers."""
    documents = {document.id: document for document in index.documents()}
    types = Counter(question["question_type"] for question in questions)
    with open_for_query(index.folder, logs=False) as project:
        for scope, mode in [*((SETS[0], mode) for mode in MODES), (SETS[1], MODES[-1])]:
            found: Counter[str] = Counter()
            for question in questions:
                with filter_project(project, own(question) if scope == SETS[0] else NO_FILTER) as selected:
                    vector = project.embedder.embed([question["question"]])[0]
                    chunks = RETRIEVERS[mode](question["question"], vector, selected, PASSAGES)
                    if isinstance(chunks, Coroutine):
                        chunks = asyncio.run(chunks)
                found[question["question_type"]] += is_found(question, chunks[:PASSAGES], documents)
            shares = ", ".join(f"{kind} {found[kind]}/{n}" for kind, n in sorted(types.items()))
            text = f"{scope}, {mode}: evidence among the first {PASSAGES} passages for {found.total()} of {len(questions)} ({shares})"
            print(text, flush=True)
    step = max(1, len(questions) // max(1, n_asked))
    with out.open("w", encoding="utf-8") as file:
        for question in questions[::step][:n_asked]:
            for name, selection in zip(SETS, (own(question), DocumentFilter()), strict=True):
                answer = index.ask(question["question"], selection=selection)
                pages = [(c.path, c.part) for c in answer.citations]
                row = {"id": question["financebench_id"], "scope": name, "question": question["question"], "gold": question["answer"]}
                row |= {"answer": answer.answer, "pages": pages}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--filings", type=int, default=40)
    parser.add_argument("--ask", type=int, default=50)
    parser.add_argument("--embedder", help="as of `localrag index`")
    options = parser.parse_args()
    filings = options.work / "filings"
    questions = load(options.repository, filings, options.filings)
    with open_for_writing(options.work / INDEX_FOLDER, extractor="phrases", embedder=options.embedder) as project:
        started = time.perf_counter()
        asyncio.run(build_index([filings], project, lambda _: None, reports=False))
    with Index.open(options.work) as index:
        print(f"{len(index.documents())} filings, {index.counts()['chunks']} chunks, {time.perf_counter() - started:.0f} s")
        measure(index, questions, options.ask, options.work / "answers.jsonl")


if __name__ == "__main__":
    main()
