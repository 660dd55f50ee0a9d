"""How often questions that passages do not answer are recognized, and others refused (`localrag/query/answerability.py`).

    python -m scripts.measure.answerability DATA WORK [--most N] [--mtrag FILE] [--fit]

DATA holds `train/clapnq_dev.jsonl.gz` and `qa_spans/xquad_*.jsonl`; WORK gets an index of each set's passages. A question of XQuAD is read
twice, with its paragraph and without it: other paragraphs of the same article stay. FILE is `reference.jsonl` of MTRAG-UN (Rosenthal et al.
2026), whose last turns are asked without what came before. The reader is trained on the even rows of CLAPnq. `--fit` prints weights of the
evidence fitted on all sets, and for each set the area under the curve with the weights that the other sets give, beside the reader's alone.
"""

import argparse
import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_query, open_for_writing
from localrag.query.answerability import is_unanswered, reader_log_odds, signals
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.passages import CHUNKS_READ, chunk_windows, read_windows
from localrag.query.question import Question
from localrag.records import Chunk
from localrag.store.documents import document_path
from scripts.train.reader_data import rows

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


@dataclass(frozen=True, slots=True)
class Judged:
    """A question that was asked: whether it is answerable and was refused, the reader's log odds and the words' signals."""

    answerable: bool
    refused: bool
    evidence: tuple[float, float, float]


def judged(asked: Asked, project: Project) -> Iterator[Judged]:
    """A question, asked as often as it has a label; nothing of one whose passage is not found at all."""
    question = Question(asked.question, project.embedder.embed([asked.question])[0], "extractive")
    chunks = asyncio.run(retrieve_two_hop(question.text, question.vector, project, CHUNKS))
    own = {c.id for c in chunks if Path(document_path(project.db, c.id)).name in asked.files}

    def judge(found: list[Chunk], *, answerable: bool) -> Judged:
        read = read_windows(question.text, list(chunk_windows(found[:CHUNKS_READ], project)), project)
        near = signals(question, read, project)
        evidence = reader_log_odds(read), near.passage if near else 0.0, near.cosine if near else 0.0
        return Judged(answerable, is_unanswered(question, read, project), evidence)

    if asked.answerable is not None:
        yield judge(chunks, answerable=asked.answerable)
    elif own & {c.id for c in chunks[:CHUNKS_READ]}:
        yield judge(chunks, answerable=True)
        yield judge([c for c in chunks if c.id not in own], answerable=False)


def judge_set(name: str, asked: list[Asked], work: Path) -> list[Judged]:
    """As `judged`, of all questions of a set."""
    index = work / name / ".localrag"
    if not index.exists():
        with open_for_writing(index, extractor="phrases") as project:
            asyncio.run(build_index([work / name / "docs"], project, lambda _: None, reports=False))
    with open_for_query(index, logs=False) as project:
        return [found for one in asked for found in judged(one, replace(project, search_cache={}))]


def fit(rows: Sequence[Judged]) -> LogisticRegression:
    """The weights of the evidence that tell answerable questions from others."""
    return LogisticRegression(C=10).fit([r.evidence for r in rows], [r.answerable for r in rows])


def print_fit(sets: dict[str, list[Judged]]) -> None:
    """Print the weights from all sets, and how well those of the others tell each set's questions apart."""
    model = fit([row for found in sets.values() for row in found])
    print("weights", [round(float(w), 2) for w in (*model.coef_[0], *model.intercept_)])
    for name, found in sets.items():
        others = fit([row for other, rows in sets.items() if other != name for row in rows])
        labels, evidence = [r.answerable for r in found], [r.evidence for r in found]
        alone, both = roc_auc_score(labels, [e[0] for e in evidence]), roc_auc_score(labels, others.decision_function(evidence))
        print(f"{name}: area under the curve {alone:.3f} by the reader alone, {both:.3f} with the words")


def share(found: int, of: int) -> str:
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} ({100 * low:.0f} to {100 * high:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--mtrag", type=Path)
    parser.add_argument("--most", type=int, default=150, help="questions of a set")
    parser.add_argument("--fit", action="store_true", help="fit the weights of the evidence")
    args = parser.parse_args()
    sets: dict[str, list[Judged]] = {}
    for name, asked in load(args.data, args.work, args.mtrag).items():
        sets[name] = found = judge_set(name, random.Random(7).sample(asked, min(args.most, len(asked))), args.work)
        refused, recognized = ([r.refused for r in found if r.answerable is answerable] for answerable in (True, False))
        print(f"{name}: refused {share(sum(refused), len(refused))}, recognized {share(sum(recognized), len(recognized))}", flush=True)
    if args.fit:
        print_fit(sets)


if __name__ == "__main__":
    main()
