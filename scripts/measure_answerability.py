"""How often questions that passages do not answer are recognized, and others refused (`localrag/query/answerability.py`).

    python -m scripts.measure_answerability DATA WORK [--most N] [--mtrag FILE]

DATA holds `train/clapnq_dev.jsonl.gz` and `qa_spans/xquad_*.jsonl`; WORK gets an index of each set's passages. A question of XQuAD is read
twice, with its paragraph and without it: other paragraphs of the same article stay. FILE is `reference.jsonl` of MTRAG-UN (Rosenthal et al.
2026), whose last turns are asked without what came before. Nothing is trained on these sets but the reader, on the even rows of CLAPnq.
"""

import argparse
import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from scipy.stats import binomtest

from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_query, open_for_writing
from localrag.query.answerability import is_unanswered
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.passages import CHUNKS_READ, chunk_windows, read_windows
from localrag.query.question import Question
from localrag.records import Chunk
from localrag.store.documents import document_path
from scripts.reader_data import rows

CHUNKS = 12  # found for a question; those of its own passage are taken away
XQUAD = ("en", "de", "zh")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the files that answer it, and whether they are there; None: it is asked both with them and without."""

    question: str
    files: tuple[str, ...]
    answerable: bool | None


def written(folder: Path, text: str) -> str:
    """The name of the file that a text is written to."""
    name = f"{sha256(text.encode()).hexdigest()[:16]}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def load(data: Path, work: Path, mtrag: Path | None) -> dict[str, list[Asked]]:
    """The questions of each set, their passages written to WORK/SET/docs."""
    sets: dict[str, list[Asked]] = defaultdict(list)
    for row in rows(data / "train" / "clapnq_dev.jsonl.gz"):
        sets["clapnq"].append(Asked(row["question"], (written(work / "clapnq/docs", row["passage"]),), row["answerable"]))
    for language in XQUAD:
        name = f"xquad_{language}"
        for row in rows(data / "qa_spans" / f"{name}.jsonl"):
            text = f"{row['title'].replace('_', ' ')}\n\n{row['context']}"
            sets[name].append(Asked(row["question"], (written(work / name / "docs", text),), None))
    for row in rows(mtrag) if mtrag else ():
        files = tuple(written(work / "mtrag/docs", c["text"]) for c in row["contexts"])
        if (label := row["answerability"][0]) in ("ANSWERABLE", "UNANSWERABLE"):
            sets["mtrag"].append(Asked(row["input"][-1]["text"], files, label == "ANSWERABLE"))
    return sets


def judged(asked: Asked, project: Project) -> Iterator[tuple[bool, bool]]:
    """Whether a question is answerable, and whether it is refused; nothing of one whose passage is not found at all."""
    question = Question(asked.question, project.embedder.embed([asked.question])[0], "extractive")
    chunks = asyncio.run(retrieve_two_hop(question.text, question.vector, project, CHUNKS))
    own = {c.id for c in chunks if Path(document_path(project.db, c.id)).name in asked.files}

    def is_refused(found: list[Chunk]) -> bool:
        read = read_windows(question.text, list(chunk_windows(found[:CHUNKS_READ], project)), project)
        return is_unanswered(question, read, project)

    if asked.answerable is not None:
        yield asked.answerable, is_refused(chunks)
    elif own & {c.id for c in chunks[:CHUNKS_READ]}:
        yield True, is_refused(chunks)
        yield False, is_refused([c for c in chunks if c.id not in own])


def judge_set(name: str, asked: list[Asked], work: Path) -> list[tuple[bool, bool]]:
    """As `judged`, of all questions of a set."""
    index = work / name / ".localrag"
    if not index.exists():
        with open_for_writing(index, extractor="phrases") as project:
            asyncio.run(build_index([work / name / "docs"], project, lambda _: None, reports=False))
    with open_for_query(index, logs=False) as project:
        return [found for one in asked for found in judged(one, replace(project, search_cache={}))]


def share(found: int, of: int) -> str:
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} ({100 * low:.0f} to {100 * high:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--mtrag", type=Path)
    parser.add_argument("--most", type=int, default=150, help="questions of a set")
    args = parser.parse_args()
    for name, asked in load(args.data, args.work, args.mtrag).items():
        found = judge_set(name, random.Random(7).sample(asked, min(args.most, len(asked))), args.work)
        refused, recognized = ([r for a, r in found if a is answerable] for answerable in (True, False))
        print(f"{name}: refused {share(sum(refused), len(refused))}, recognized {share(sum(recognized), len(recognized))}", flush=True)


if __name__ == "__main__":
    main()
