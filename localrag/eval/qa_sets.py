"""Questions with gold answers: the formats they come in → collections of documents, each with its questions."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.eval.retrieval import heading, load_rows


@dataclass(frozen=True, slots=True)
class Span:
    """Gold evidence that is a place: characters `start` to `end` of a document, or all of it where `end` is 0."""

    document: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question, the answers that count as right, and what they rest on: places, or statements in other words than the document's."""

    id: str
    text: str
    answers: tuple[str, ...]
    type: str
    evidence: tuple[Span | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gold:
    """Documents (file name, text) that are indexed together, and the questions to them."""

    name: str
    documents: tuple[tuple[str, str], ...]
    questions: tuple[GoldQuestion, ...]


def load_questions(folder: Path, *, limit: int = 0, seed: int = 0) -> list[Gold]:
    """Read a folder of questions; its format is seen from its files.

    QMSum (meetings, Zhong et al. 2021): `*.json` with transcripts. GraphRAG-Bench (Xiang et al. 2025): `novels/*.txt` and
    `*questions.jsonl`. Passages as HotpotQA and MuSiQue have them: `corpus.jsonl` and `queries.jsonl`. `limit`: a random sample of so
    many questions.

    Raises UsageError naming what cannot be read.
    """
    if (folder / "corpus.jsonl").exists():
        found = [_passages(folder)]
    elif (folder / "novels").is_dir():
        found = _novels(folder)
    elif meetings := sorted(folder.glob("*.json")):
        found = [_meeting(file) for file in meetings]
    else:
        raise UsageError(
            f"{folder} holds no questions in a known format.",
            "Known: QMSum (*.json), GraphRAG-Bench (novels/ and *questions.jsonl), corpus.jsonl with queries.jsonl.",
        )
    return _sample(found, limit, seed) if limit else found


def _sample(found: list[Gold], limit: int, seed: int) -> list[Gold]:
    every = [(gold.name, q.id) for gold in found for q in gold.questions]
    kept = set(random.Random(seed).sample(every, min(limit, len(every))))
    smaller = [replace(g, questions=tuple(q for q in g.questions if (g.name, q.id) in kept)) for g in found]
    return [g for g in smaller if g.questions]


def _passages(folder: Path) -> Gold:
    rows = load_rows(folder / "corpus.jsonl", "id", "text")
    name_of = {str(r["id"]): f"{n:07}.md" for n, r in enumerate(rows)}
    documents = tuple((name_of[str(r["id"])], heading(str(r.get("title", "")), str(r["text"]))) for r in rows)
    questions = []
    for n, row in enumerate(load_rows(folder / "queries.jsonl", "question", "answers")):
        evidence = tuple(Span(name_of[str(i)]) for i in row.get("gold", ()) if str(i) in name_of)
        questions.append(
            GoldQuestion(str(row.get("id", n)), row["question"], tuple(row["answers"]), str(row.get("type", "question")), evidence)
        )
    return Gold(folder.name, documents, tuple(questions))


def _novels(folder: Path) -> list[Gold]:
    novels = {file.stem: file for file in sorted((folder / "novels").glob("*.txt"))}
    of_novel: dict[str, list[GoldQuestion]] = {name: [] for name in novels}
    for file in sorted(folder.glob("*questions.jsonl")):
        for row in load_rows(file, "id", "source", "question", "answer", "question_type"):
            if row["source"] in of_novel:
                gold = GoldQuestion(row["id"], row["question"], (row["answer"],), row["question_type"], tuple(row.get("evidence", ())))
                of_novel[row["source"]].append(gold)
    return [Gold(name, ((file.name, file.read_text(encoding="utf-8")),), tuple(of_novel[name])) for name, file in novels.items()]


def _meeting(file: Path) -> Gold:
    try:
        meeting = json.loads(file.read_text(encoding="utf-8"))
        lines = [f"{turn['speaker']}: {turn['content']}" for turn in meeting["meeting_transcripts"]]
        starts, at = [], 0
        for line in lines:
            starts.append(at)
            at += len(line) + 1
        name = f"{file.stem}.txt"
        turns = [Span(name, start, start + len(line)) for start, line in zip(starts, lines, strict=True)]
        questions = tuple(_meeting_questions(meeting, turns))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"{file} is not a meeting in QMSum's format ({type(error).__name__}: {error}).") from error
    return Gold(file.stem, ((name, "\n".join(lines)),), questions)


def _meeting_questions(meeting: dict[str, Any], turns: list[Span]) -> Iterator[GoldQuestion]:
    for kind in ("general", "specific"):
        for n, row in enumerate(meeting[f"{kind}_query_list"]):
            spans = row.get("relevant_text_span", ())
            evidence = tuple(turns[i] for a, b in spans for i in range(int(a), min(int(b) + 1, len(turns))))
            yield GoldQuestion(f"{kind}-{n}", row["query"], (row["answer"],), kind, tuple(dict.fromkeys(evidence)))
