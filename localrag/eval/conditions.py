"""The conditions of a study: the paper's and localrag's own modes, and how much each reads (paper, section 4.1.2, table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.asking import answer_question
from localrag.errors import LocalragError, UsageError
from localrag.eval.datasets import FileRow
from localrag.eval.metrics import cited_sentences, without_marks
from localrag.project import Project
from localrag.query.question import NO_LIMIT, QueryOptions
from localrag.store import chunks as chunks_store
from localrag.store import graph

LEVEL_CONDITIONS = ("C0", "C1", "C2", "C3")
MODE_CONDITIONS = {"TS": "ts", "SS": "ss", "mix": "mix", "local": "local", "drift": "drift"}
CONDITION_NAMES = (*LEVEL_CONDITIONS, *MODE_CONDITIONS)


@dataclass(frozen=True, slots=True)
class StudyCondition:
    """A way to answer: a mode, for C0 to C3 with a community level. `same_as` names an earlier, identical condition."""

    name: str
    mode: str
    level: int | None = None
    same_as: str = ""


def conditions(names: Sequence[str], project: Project) -> list[StudyCondition]:
    """The conditions in the order of CONDITION_NAMES; too deep a level becomes the deepest. Raises UsageError, also without reports."""
    if unknown := [n for n in names if n not in CONDITION_NAMES]:
        raise UsageError(f"There is no condition {unknown[0]!r}.", f"Conditions: {', '.join(CONDITION_NAMES)}")
    written = {n for n in graph.communities_per_level(project.db) if graph.report_communities_at_level(project.db, n)}
    if not written and any(n in (*LEVEL_CONDITIONS, "drift") for n in names):
        raise UsageError("The index has no reports, which C0 to C3 and drift read.", "Write them: localrag index PATH")
    selected: list[StudyCondition] = []
    for name in (n for n in CONDITION_NAMES if n in names):
        level = min(LEVEL_CONDITIONS.index(name), max(written)) if name in LEVEL_CONDITIONS else None
        same = next((c.name for c in selected if c.level == level), "") if level is not None else ""
        selected.append(StudyCondition(name, MODE_CONDITIONS.get(name, "global"), level, same))
    return selected


async def answer_row(question: str, condition: StudyCondition, project: Project, options: QueryOptions) -> FileRow:
    """Answer a question under a condition. A failure is a row with its error."""
    row: FileRow = {"question": question, "condition": condition.name}
    max_calls = NO_LIMIT if options.max_calls is None else options.max_calls  # the paper's conditions read everything
    try:
        answer = await answer_question(question, project, replace(options, mode=condition.mode, level=condition.level, max_calls=max_calls))
    except LocalragError as error:
        return row | {"error": str(error)}
    sentences = cited_sentences(answer.answer)
    return row | {
        "answer": answer.answer,
        "mode": answer.mode,
        "level": answer.level,
        "note": answer.note,
        "sources": [{"n": c.n, "file": Path(c.path).name, "part": c.part, "quote": c.quote} for c in answer.citations],
        "sentences": sentences,
        "supported": sentences - answer.unproved,
        "calls": answer.llm_calls,
        "tokens": answer.prompt_tokens + answer.output_tokens,
        "seconds": round(answer.seconds, 2),
    }


def for_judge(answer_text: str) -> str:
    """An answer without citation numbers, which would reveal its condition to the judge."""
    return without_marks(answer_text).replace("**", "").strip()


async def measure_context(condition: StudyCondition, questions: Sequence[str], project: Project, options: QueryOptions) -> dict[str, Any]:
    """How much a condition reads: its units and their tokens, for search modes the mean over questions; see table 3."""
    if condition.level is not None:
        texts = [r.markdown for r in graph.reports_of(project.db, graph.report_communities_at_level(project.db, condition.level))]
        return {"units": len(texts), "context_tokens": sum([await project.model.count(t) for t in texts])}
    if condition.mode == "ts":
        return {"units": len(chunks := chunks_store.all_chunks(project.db)), "context_tokens": sum(c.tokens for c in chunks)}
    units = tokens = 0
    for question in questions:
        shown = await answer_question(question, project, replace(options, mode=condition.mode, context_only=True))
        units += len(shown.citations)
        tokens += await project.model.count(for_judge(shown.answer))
    n = max(1, len(questions))
    return {"units": round(units / n, 1), "context_tokens": round(tokens / n)}
