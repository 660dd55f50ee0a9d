"""`localrag eval qa`: answers to questions with gold answers, mode by mode, beside the model's own knowledge; it goes on after a stop."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, UsageError
from localrag.eval.answer_scores import cited_sentences, evidence_recall, exact_match, plain, rouge, stands_in, word_f1
from localrag.eval.qa_sets import Gold, GoldQuestion
from localrag.eval.row_file import appending, read_rows
from localrag.index.pipeline import build_index
from localrag.llm.grammar import line
from localrag.llm.model import seconds_since
from localrag.llm.prompts import load_prompt
from localrag.opening import open_for_writing
from localrag.project import Project
from localrag.query.answer import MODES, Options, answer
from localrag.records import Answer, Quote

CLOSED = "none"  # the model's own knowledge, without any document
MEASURES = ("EM", "F1", "R-1", "R-2", "R-L", "first", "three", "evidence_shown", "evidence_cited", "supported")
LONGEST, MAX_TOKENS = 600, 400  # of an answer from memory: characters, and tokens that hold them in any script

Tell = Callable[[str], None]
Rows = dict[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Setup:
    """What is asked how: the extractor and model of the index, the modes, and the options of every question."""

    modes: tuple[str, ...]
    extractor: str
    model: str | None
    options: Options
    engine: EngineOptions


async def evaluate_answers(sets: Sequence[Gold], setup: Setup, folder: Path, tell: Tell) -> list[dict[str, Any]]:
    """Answer every question in every mode; one row for each, also kept in `folder`/answers.jsonl with the indexes beside it.

    What is already there is not asked again. A question that fails is a row with its error, and asked again by the next run. Raises
    UsageError.
    """
    if unknown := [m for m in setup.modes if m not in (*MODES, "auto", CLOSED)]:
        raise UsageError(f"There is no mode {unknown[0]!r}.", f"Modes: {', '.join((*MODES, 'auto', CLOSED))}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "answers.jsonl"
    done = {_key(row): row for row in read_rows(file) if "setup" in row and "error" not in row}
    rows = []
    with appending(file) as append:
        for n, gold in enumerate(sets):
            tell(f"{gold.name} ({n + 1} of {len(sets)}): {len(gold.questions)} questions")
            async for row in _one_set(gold, setup, folder.resolve(), done):
                if _key(row) not in done:
                    append(row)
                rows.append(row)
    return rows


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["set"], row["id"], row["asked_mode"], row["setup"])


async def _one_set(gold: Gold, setup: Setup, folder: Path, done: Rows) -> AsyncIterator[dict[str, Any]]:
    docs = folder / gold.name / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in gold.documents:
        (docs / name).write_text(text, encoding="utf-8")
    opened = open_for_writing(docs.parent / ".localrag", model=setup.model, engine=setup.engine, extractor=setup.extractor)
    with opened as project:
        reads = " read" if project.reader else ""
        asked = f"{setup.extractor} {project.model.file.fingerprint} {replace(setup.options, mode='')}{reads}"
        wanted = [(q, mode, (gold.name, q.id, mode, asked)) for q in gold.questions for mode in setup.modes]
        if any(key not in done for *_, key in wanted):
            await build_index(
                [docs], project, lambda _: None, reports=any(m not in ("basic", "ss", "ts", "mix", CLOSED) for m in setup.modes)
            )
        for question, mode, key in wanted:
            yield done.get(key) or await _row(gold.name, question, mode, asked, setup, project)


async def _row(name: str, question: GoldQuestion, mode: str, asked: str, setup: Setup, project: Project) -> dict[str, Any]:
    row: dict[str, Any] = {"set": name, "id": question.id, "type": question.type, "asked_mode": mode, "setup": asked}
    try:
        given, shown = await _answered(question, mode, setup, project)
    except LocalragError as error:
        return row | {"error": str(error)}
    said = plain(given.answer)
    embed = project.embedder.embed
    sentences = cited_sentences(given.answer)
    scores = {
        "EM": exact_match(said, question.answers),
        "F1": word_f1(said, question.answers),
        **rouge(said, question.answers),
        "first": stands_in([c.quote for c in given.citations[:1]], question.answers),
        "three": stands_in([c.quote for c in given.citations[:3]], question.answers),
        "evidence_shown": evidence_recall(question.evidence, shown, embed),
        "evidence_cited": evidence_recall(question.evidence, _quotes(given), embed),
        "supported": 1 - given.unproved / sentences if sentences else 0.0,
    }
    known = {"short": given.short, "answerable": given.answerable, "confidence": given.confidence}
    spent = {"calls": given.calls, "tokens": given.prompt_tokens + given.output_tokens, "seconds": round(given.seconds, 2)}
    return row | {"mode": given.mode, "question": question.text, "answer": given.answer, "note": given.note} | known | scores | spent


async def _answered(question: GoldQuestion, mode: str, setup: Setup, project: Project) -> tuple[Answer, list[tuple[str, Quote]]]:
    """The answer, and the passages it was made from."""
    if mode == CLOSED:
        return await _from_memory(question.text, project), []
    given = await answer(question.text, project, replace(setup.options, mode=mode))
    looked = await answer(question.text, project, replace(setup.options, mode=given.mode, context_only=True))
    return given, _quotes(looked)


def _quotes(given: Answer) -> list[tuple[str, Quote]]:
    return [(Path(c.path).name, Quote(c.chunk_id, c.start, c.end, c.quote)) for c in given.citations]


async def _from_memory(text: str, project: Project) -> Answer:
    started, model = time.perf_counter(), project.model
    calls, read, written = model.calls, model.prompt_tokens, model.output_tokens
    messages = load_prompt("abstractive/closed", project.settings.prompts).fill(question=text)
    reply = await model.ask("closed", messages, max_tokens=MAX_TOKENS, grammar=line(LONGEST))
    spent = (model.calls - calls, model.prompt_tokens - read, model.output_tokens - written, seconds_since(started))
    return Answer(text, reply.text, CLOSED, None, (), *spent)


def averages(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of every measure for each type of question and mode, in percent, with how many questions it is the mean of and failed."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["type"], row["asked_mode"]].append(row)
    return [_average(kind, mode, found) for (kind, mode), found in sorted(groups.items())]


def _average(kind: str, mode: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    good = [r for r in rows if "error" not in r]
    means = {}
    for name in MEASURES:
        values = [r[name] for r in good if r[name] is not None]
        means[name] = round(100 * float(np.mean(values)), 1) if values else None
    seconds = round(float(np.mean([r["seconds"] for r in good])), 2) if good else None
    return {"type": kind, "mode": mode, "questions": len(rows), "failed": len(rows) - len(good)} | means | {"seconds": seconds}
