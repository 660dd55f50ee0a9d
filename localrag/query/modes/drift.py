"""drift: from the reports nearest the question to follow-up questions, answered locally, put together (DRIFT search, Microsoft 2024).

The follow-ups of the reports that score most come first; scores filter what is put together; calls are bounded: at most one for each of
PRIMERS reports, FOLLOW_UPS in each of ROUNDS rounds, and one for the whole.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from localrag.llm.budgets import Script, room
from localrag.llm.echo import Echo
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.limits import whole_strings
from localrag.llm.model import CALL_FAILED
from localrag.llm.prompts import load_prompt
from localrag.project import Project
from localrag.query.answering.written import best_within, budgets_of, call_alone, write_prose
from localrag.query.cost import agree_on
from localrag.query.draft import Draft, Point
from localrag.query.modes.local import ask_local
from localrag.query.modes.map_reduce import report_source
from localrag.query.modes.themes import themes
from localrag.query.question import NOBODY, Question
from localrag.query.retrieval.context import quoted_answer
from localrag.query.retrieval.retrieve import named_entities, search
from localrag.records import Report
from localrag.store import graph, vectors
from localrag.text.plain import squeeze

PRIMERS = 5  # reports that the first step reads
FOLLOW_UPS = 3  # local questions asked in each round
ROUNDS = 2
ENTITIES, PASSAGES = 3, 5  # of an extractive answer's second step
T = TypeVar("T")
ANSWER, ASKED = 500, 150  # characters of what a report says to the question, and of a question to go on with


async def ask_drift(question: Question, project: Project) -> Draft:
    """Answer broadly first, then in detail. Extractive: the reports nearest the question, then passages on whom they are about."""
    near = [i for i, _ in vectors.nearest(project.db, project.folder, "report", question.vector, PRIMERS)]
    if question.extractive:
        return _extractive(question, near, project)
    reports, budget = graph.reports_of(project.db, near), question.budget
    if question.options.context_only:
        return Draft(tuple(await write_prose(question, project, [report_source(r) for r in reports], "reduce")))
    await _agree(question, project, reports)
    asked: set[str] = {question.text}
    found: list[tuple[float, Point]] = []
    primers = reports if budget.calls is None else reports[: max(1, budget.calls - 1)]  # one call is for putting together
    budget.stopped |= len(primers) < len(reports)
    waiting = await _counted(question, "reading {} reports …", [_prime(question, r, project) for r in primers])
    found += [(score, p) for score, p, _ in waiting if p is not None]
    open_questions = [q for *_, follow in sorted(waiting, key=lambda w: -w[0]) for q in follow]
    for _ in range(ROUNDS):
        left = FOLLOW_UPS if budget.calls is None else min(FOLLOW_UPS, budget.calls - 1)
        chosen = [q for q in dict.fromkeys(open_questions) if q not in asked][: max(0, left)]
        if not chosen or budget.stopped:
            budget.stopped |= left < 1
            break
        asked.update(chosen)
        drafts = await _counted(question, "following up {} questions …", [_follow(question, q, project) for q in chosen])
        found += [(60.0, p) for d in drafts for p in d.points]
        open_questions = [q for q in open_questions if q not in asked]
    sources = await best_within(found, project, (await budgets_of(question, project)).reduce)
    points = tuple(await write_prose(question, project, sources, "reduce"))
    note = f"{len(asked) - 1} follow-up questions: {'; '.join(sorted(asked - {question.text}))}" if len(asked) > 1 else ""
    best = sorted((f for f in found if f[0] > 0), key=lambda f: -f[0])
    return Draft(points or tuple(p for _, p in best[:6]), note=note)


async def _counted(question: Question, what: str, steps: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What the steps give, in order; they are done at once, and it is said how many are (see `Question.count`)."""
    more = question.count(what, len(steps))

    async def done(step: Coroutine[Any, Any, T]) -> T:
        found = await step
        more(1)
        return found

    return await asyncio.gather(*map(done, steps))


async def _agree(question: Question, project: Project, reports: Sequence[Report]) -> None:
    """Say what all steps together cost at most, where that is much."""
    budgets, count = await budgets_of(question, project), project.model.count
    primers = sum([await count(r.markdown) + ANSWER for r in reports])
    follow_ups = ROUNDS * FOLLOW_UPS
    calls, most = len(reports) + follow_ups + 1, question.budget.calls
    tokens = primers + follow_ups * budgets.sources + budgets.reduce
    agree_on(question, project, calls if most is None else min(calls, most), tokens)


def _extractive(question: Question, near: Sequence[str], project: Project) -> Draft:
    broad = themes(question, near, project)[:3]
    named = {n.entity_id for n in named_entities(question.text, project)}
    members = Counter(e for some in graph.members(project.db, near).values() for e in some if e not in named)
    central = sorted(graph.entities(project.db, list(members)), key=lambda e: (-members[e.id], -e.degree, e.id))[:ENTITIES]
    said = {squeeze(q.text) for p in broad for q in p.quotes}
    detail: list[Point] = []
    for entity in central:
        text = f"{question.text} {entity.name}"
        about = replace(question, text=text, vector=project.embedder.embed([text])[0])
        passages = search(text, about.vector, project, PASSAGES)
        new = [p for p in quoted_answer(about, passages, project, [entity.name]) if p.text not in said][:2]
        said |= {p.text for p in new}
        detail += [replace(p, title=entity.name if n == 0 else "") for n, p in enumerate(new)]
    followed = ", ".join(e.name for e in central)
    return Draft((*broad, *detail), note=f"Followed up: {followed}." if followed else "")


async def _prime(question: Question, report: Report, project: Project) -> tuple[float, Point | None, list[str]]:
    """What one report says to the question, its score, and what to ask further."""
    source = report_source(report)
    prompt = load_prompt("abstractive/primer", project.settings.prompts)
    messages = prompt.fill(question=question.text, report=source.text)
    script = await Script.of(project.model.count, question.text, source.text, language=project.settings.language)
    schema = object_schema(
        answer={"type": "string", "minLength": 10, "maxLength": script.characters(ANSWER)},
        score={"type": "integer", "minimum": 0, "maximum": 100},
        questions={"type": "array", "maxItems": 3, "items": {"type": "string", "minLength": 8, "maxLength": script.characters(ASKED)}},
    )
    said = await call_alone(question, project, "primer", messages, json_object(schema), await room(schema, script, project.model.count))
    if said is None:
        return 0.0, None, []
    value, echo = whole_strings(json.loads(said), schema), Echo(prompt, question.text, source.text)
    point = None if echo.is_in(value["answer"]) else Point(value["answer"], source.quotes, written=True)
    return float(value["score"]), point, [squeeze(q) for q in value["questions"] if not echo.is_in(q)]


async def _follow(question: Question, text: str, project: Project) -> Draft:
    """The local answer to a follow-up question; none where it fails."""
    try:
        return await ask_local(replace(question, text=text, vector=project.embedder.embed([text])[0], on_point=None, watch=NOBODY), project)
    except CALL_FAILED as error:
        question.budget.failures.append(str(error))
        return Draft(())
