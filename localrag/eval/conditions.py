"""What is compared: the paper's conditions and localrag's own modes, and the size of what each reads (paper, section 4.1.2, table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.errors import LocalragError, UsageError
from localrag.eval.activities import Asked
from localrag.eval.answer_scores import cited_sentences, without_marks
from localrag.eval.row_file import Row
from localrag.project import Project
from localrag.query.answer import UNBOUNDED, Options, answer
from localrag.store import corpus, graph

LEVELS = ("C0", "C1", "C2", "C3")
MODES = {"TS": "ts", "SS": "ss", "mix": "mix", "local": "local", "drift": "drift"}
NAMES = (*LEVELS, *MODES)
DRAWN = 0.7  # the temperature of answers that are repeated to see how far they agree


@dataclass(frozen=True, slots=True)
class Condition:
    """A way to answer: a mode, for C0 to C3 of one community level. `same_as` names an earlier condition that is the same here."""

    name: str
    mode: str
    level: int | None = None
    same_as: str = ""


def conditions(names: Sequence[str], project: Project) -> list[Condition]:
    """The conditions of those names, in the order of NAMES. Where the communities have fewer levels, deeper ones are the deepest there is.

    Raises UsageError for an unknown name, or one that needs reports where there are none.
    """
    if unknown := [n for n in names if n not in NAMES]:
        raise UsageError(f"There is no condition {unknown[0]!r}.", f"Conditions: {', '.join(NAMES)}")
    written = {n for n in graph.communities_per_level(project.db) if graph.reported_at(project.db, n)}
    if not written and any(n in (*LEVELS, "drift") for n in names):
        raise UsageError("The index has no reports, which C0 to C3 and drift read.", "Write them: localrag index PATH")
    found: list[Condition] = []
    for name in (n for n in NAMES if n in names):
        level = min(LEVELS.index(name), max(written)) if name in LEVELS else None
        same = next((c.name for c in found if c.level == level), "") if level is not None else ""
        found.append(Condition(name, MODES.get(name, "global"), level, same))
    return found


async def answer_row(question: Asked, condition: Condition, project: Project, options: Options, sample: int = 0) -> Row:
    """The answer to a question under a condition; with `sample` > 0 one that is drawn at random. A failure is a row with its error."""
    row: Row = {"question": question.id, "condition": condition.name, "sample": sample}
    drawn = DRAWN if sample else 0.0
    most = UNBOUNDED if options.max_calls is None else options.max_calls  # the paper's conditions read everything
    chosen = replace(options, mode=condition.mode, level=condition.level, seed=options.seed + sample, temperature=drawn, max_calls=most)
    try:
        given = await answer(question.text, project, chosen)
    except LocalragError as error:
        return row | {"error": str(error)}
    sentences = cited_sentences(given.answer)
    sources = [{"n": c.n, "file": Path(c.path).name, "part": c.part, "quote": c.quote} for c in given.citations]
    return row | {
        "text": question.text,
        "answer": given.answer,
        "mode": given.mode,
        "level": given.level,
        "note": given.note,
        "sources": sources,
        "sentences": sentences,
        "supported": sentences - given.unproved,
        "calls": given.calls,
        "tokens": given.prompt_tokens + given.output_tokens,
        "seconds": round(given.seconds, 2),
    }


def as_read(answer_text: str) -> str:
    """An answer as a judge is shown it: without the numbers of its citations, which would tell the conditions apart."""
    return without_marks(answer_text).replace("**", "").strip()


async def context_of(condition: Condition, questions: Sequence[Asked], project: Project, options: Options) -> dict[str, Any]:
    """How much a condition has to read: its units and their tokens, for modes that search the mean over questions; see table 3."""
    if condition.level is not None:
        texts = [r.markdown for r in graph.reports_at(project.db, condition.level)]
        return {"units": len(texts), "context_tokens": sum([await project.model.count(t) for t in texts])}
    if condition.mode == "ts":
        return {"units": len(chunks := corpus.all_chunks(project.db)), "context_tokens": sum(c.tokens for c in chunks)}
    units = tokens = 0
    for question in questions:
        shown = await answer(question.text, project, replace(options, mode=condition.mode, context_only=True))
        units += len(shown.citations)
        tokens += await project.model.count(as_read(shown.answer))
    n = max(1, len(questions))
    return {"units": round(units / n, 1), "context_tokens": round(tokens / n)}
