"""QA evaluation (`localrag eval qa`): answers to questions with gold answers, in several modes; can be continued."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.asking import answer_question
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, UsageError
from localrag.eval.datasets import GoldDataset, GoldQuestion, append_jsonl, read_jsonl
from localrag.eval.metrics import cited_sentences, evidence_recall, exact_match, is_quoted, strip_marks_and_titles, word_f1
from localrag.indexing.pipeline import build_index
from localrag.project import Project, open_for_writing
from localrag.query.modes import MODE_FUNCTIONS
from localrag.query.question import QueryOptions
from localrag.records import Answer
from localrag.system.files import ensure_private_file

QA_METRICS = ("EM", "F1", "first", "three", "evidence_shown", "evidence_cited", "supported")

ReportProgress = Callable[[str], None]
RowsByKey = dict[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class QaSetup:
    """The settings of an evaluation: the extractor and model of the index, the modes, and the options of every question."""

    modes: tuple[str, ...]
    extractor: str
    model: str | None
    options: QueryOptions
    engine: EngineOptions


async def evaluate_answers(gold: GoldDataset, setup: QaSetup, folder: Path, on_progress: ReportProgress) -> list[dict[str, Any]]:
    """A row for every question and mode, kept in `folder`; only missing and failed ones are asked again. Raises UsageError."""
    if unknown := [m for m in setup.modes if m not in (*MODE_FUNCTIONS, "auto")]:
        raise UsageError(f"There is no mode {unknown[0]!r}.", f"Modes: {', '.join((*MODE_FUNCTIONS, 'auto'))}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "answers.jsonl"
    done = {_key(row): row for row in read_jsonl(file) if "setup" in row and "error" not in row}
    rows = []
    with append_jsonl(file) as append:
        on_progress(f"{gold.name}: {len(gold.questions)} questions")
        async for row in _one_set(gold, setup, folder.resolve(), done):
            if _key(row) not in done:
                append(row)
            rows.append(row)
    return rows


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["set"], row["id"], row["asked_mode"], row["setup"])


async def _one_set(gold: GoldDataset, setup: QaSetup, folder: Path, done: RowsByKey) -> AsyncIterator[dict[str, Any]]:
    docs = folder / gold.name / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in gold.documents:
        ensure_private_file(docs / name).write_text(text, encoding="utf-8")
    opened = open_for_writing(docs.parent / ".localrag", model=setup.model, engine=setup.engine, extractor=setup.extractor)
    with opened as project:
        reads = " read" if project.reader else ""
        setup_key = f"{setup.extractor} {project.model.file.fingerprint} {replace(setup.options, mode='')}{reads}"
        wanted = [(q, mode, (gold.name, q.id, mode, setup_key)) for q in gold.questions for mode in setup.modes]
        if any(key not in done for *_, key in wanted):
            await build_index([docs], project, lambda _: None, reports=any(m not in ("basic", "ss", "ts", "mix") for m in setup.modes))
        for question, mode, key in wanted:
            yield done.get(key) or await _row(gold.name, question, mode, setup_key, setup, project)


async def _row(name: str, question: GoldQuestion, mode: str, setup_key: str, setup: QaSetup, project: Project) -> dict[str, Any]:
    row: dict[str, Any] = {"set": name, "id": question.id, "type": question.type, "asked_mode": mode, "setup": setup_key}
    try:
        answer, shown = await _answer_with_passages(question, mode, setup, project)
    except LocalragError as error:
        return row | {"error": str(error)}
    answer_text = strip_marks_and_titles(answer.answer)
    sentences = cited_sentences(answer.answer)
    scores = {
        "EM": exact_match(answer_text, question.answers),
        "F1": word_f1(answer_text, question.answers),
        "first": is_quoted([c.quote for c in answer.citations[:1]], question.answers),
        "three": is_quoted([c.quote for c in answer.citations[:3]], question.answers),
        "evidence_shown": evidence_recall(question.evidence, shown),
        "evidence_cited": evidence_recall(question.evidence, _files(answer)),
        "supported": 1 - answer.unproved / sentences if sentences else 0.0,
    }
    details = {"short": answer.short_answer, "answerable": answer.is_answerable, "confidence": answer.confidence}
    spent = {"calls": answer.llm_calls, "tokens": answer.prompt_tokens + answer.output_tokens, "seconds": round(answer.seconds, 2)}
    return row | {"mode": answer.mode, "question": question.text, "answer": answer.answer, "note": answer.note} | details | scores | spent


async def _answer_with_passages(question: GoldQuestion, mode: str, setup: QaSetup, project: Project) -> tuple[Answer, list[str]]:
    answer = await answer_question(question.text, project, replace(setup.options, mode=mode))
    looked = await answer_question(question.text, project, replace(setup.options, mode=answer.mode, context_only=True))
    return answer, _files(looked)


def _files(answer: Answer) -> list[str]:
    return [Path(c.path).name for c in answer.citations]


def averages(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of every measure for each type of question and mode, in percent, with the number of questions and of failures."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["type"], row["asked_mode"]].append(row)
    return [_average(kind, mode, rows_of_group) for (kind, mode), rows_of_group in sorted(groups.items())]


def _average(kind: str, mode: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    good = [r for r in rows if "error" not in r]
    means = {}
    for name in QA_METRICS:
        values = [r[name] for r in good if r[name] is not None]
        means[name] = round(100 * float(np.mean(values)), 1) if values else None
    seconds = round(float(np.mean([r["seconds"] for r in good])), 2) if good else None
    return {"type": kind, "mode": mode, "questions": len(rows), "failed": len(rows) - len(good)} | means | {"seconds": seconds}
