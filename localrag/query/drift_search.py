"""Mode drift: the nearest reports suggest follow-up questions, which are answered locally and combined (DRIFT search, Microsoft 2024).

Follow-ups of the best-scored reports come first, and scores filter the points of the answer. The number of calls is bounded: one for each
of PRIMER_REPORTS reports, FOLLOW_UPS in each of DRIFT_ROUNDS rounds, and one for the final answer.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from localrag.llm.budgets import TokenDensity, max_json_tokens
from localrag.llm.grammar import json_object
from localrag.llm.model import CALL_ERRORS, EchoDetector, trim_strings
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import PERCENT, Field, schema_of, shape_text
from localrag.project import Project
from localrag.query.abstractive import best_points, effective_budgets, fit_sources, try_ask_within_budget, write_cited_prose
from localrag.query.global_search import report_source
from localrag.query.local_search import ask_local
from localrag.query.question import NO_CALLBACKS, AnswerDraft, AnswerPoint, DraftSource, Question
from localrag.query.reading_budget import confirm_cost, distinct_reports
from localrag.records import Report
from localrag.store import graph, vectors
from localrag.text.sentences import collapse_whitespace

PRIMER_REPORTS, PRIMER_CANDIDATES = 5, 20  # reports of the first step, and those that they are chosen from
FOLLOW_UPS = 3  # local questions per round
DRIFT_ROUNDS = 2
MAX_REPORT_ANSWER_CHARS, MAX_FOLLOW_UP_CHARS = 500, 150  # a report's answer, and a follow-up question


async def ask_drift(question: Question, project: Project) -> AnswerDraft:
    """Answer broadly first, then in detail. Without a model that writes it is the local answer."""
    if question.is_extractive:
        return await ask_local(question, project)
    nearest = [i for i, _ in vectors.nearest(project.db, project.folder, "report", question.vector, PRIMER_CANDIDATES)]
    reports, budget = distinct_reports(graph.reports_of(project.db, nearest))[:PRIMER_REPORTS], question.budget
    if question.options.context_only:
        return AnswerDraft(tuple(await write_cited_prose(question, project, [report_source(r) for r in reports], "reduce")))
    await _confirm_cost(question, project, reports)
    asked_questions: set[str] = {question.text}
    points_found: list[tuple[float, AnswerPoint]] = []
    primers = reports if budget.calls is None else reports[: max(1, budget.calls - 1)]  # one call is for the final answer
    budget.is_exhausted |= len(primers) < len(reports)
    question.report_status(f"reading {len(primers)} reports …")
    primed = await asyncio.gather(*(_prime(question, r, project) for r in primers))
    points_found += [(score, p) for score, p, _ in primed if p is not None]
    open_questions = [q for *_, follow_ups in sorted(primed, key=lambda w: -w[0]) for q in follow_ups]
    for _ in range(DRIFT_ROUNDS):
        remaining_calls = FOLLOW_UPS if budget.calls is None else min(FOLLOW_UPS, budget.calls - 1)
        chosen = [q for q in dict.fromkeys(open_questions) if q not in asked_questions][: max(0, remaining_calls)]
        if not chosen or budget.is_exhausted:
            budget.is_exhausted |= remaining_calls < 1
            break
        asked_questions.update(chosen)
        question.report_status(f"following up {len(chosen)} questions …")
        drafts = await asyncio.gather(*(_follow(question, q, project) for q in chosen))
        points_found += [(60.0, p) for d in drafts for p in d.points]
        open_questions = [q for q in open_questions if q not in asked_questions]
    best, budgets = best_points(points_found), await effective_budgets(question, project)
    sources = await fit_sources((DraftSource(p.text, p.quotes) for p in best), project, budgets.reduce_context)
    points = await write_cited_prose(question, project, sources, "reduce") or best[:6]
    followed = sorted(asked_questions - {question.text})
    return AnswerDraft(tuple(points), note=f"{len(followed)} follow-up questions: {'; '.join(followed)}" if followed else "")


async def _confirm_cost(question: Question, project: Project, reports: Sequence[Report]) -> None:
    budgets, count = await effective_budgets(question, project), project.model.count
    primers = sum([await count(r.markdown) + MAX_REPORT_ANSWER_CHARS for r in reports])
    follow_ups = DRIFT_ROUNDS * FOLLOW_UPS
    calls, max_calls = len(reports) + follow_ups + 1, question.budget.calls
    tokens = primers + follow_ups * budgets.sources + budgets.reduce_context
    confirm_cost(question, project, calls if max_calls is None else min(calls, max_calls), tokens)


async def _prime(question: Question, report: Report, project: Project) -> tuple[float, AnswerPoint | None, list[str]]:
    """A report's answer to the question: its score, its point, and follow-up questions."""
    source = report_source(report)
    prompt = load_prompt("abstractive/primer", project.settings.prompts)
    script = await TokenDensity.measure(project.model.count, question.text, source.text, language=project.settings.language)
    fields = _primer_fields(script)
    messages, schema = prompt.fill(question=question.text, report=source.text, shape=shape_text(fields)), schema_of(fields)
    answer = await try_ask_within_budget(
        question, project, "primer", messages, json_object(schema), await max_json_tokens(schema, script, project.model.count)
    )
    if answer is None:
        return 0.0, None, []
    value, echo = trim_strings(json.loads(answer), schema), EchoDetector(prompt, question.text, source.text, shape_text(fields))
    point = None if echo.is_in(value["answer"]) else AnswerPoint(value["answer"], source.quotes, is_generated=True)
    return float(value["score"]), point, [collapse_whitespace(q) for q in value["questions"] if not echo.is_in(q)]


def _primer_fields(script: TokenDensity) -> tuple[Field, ...]:
    follow_up = {"type": "string", "minLength": 8, "maxLength": script.max_chars(MAX_FOLLOW_UP_CHARS)}
    asked = "[up to three short questions about people, places or things of the report that would help to answer better]"
    answer = {"type": "string", "minLength": 10, "maxLength": script.max_chars(MAX_REPORT_ANSWER_CHARS)}
    return (
        Field("answer", "one or two whole sentences of at most 60 words", answer),
        Field("score", "from 0 (the report does not help) to 100 (it answers the question)", PERCENT),
        Field("questions", asked, {"type": "array", "maxItems": 3, "items": follow_up}),
    )


async def _follow(question: Question, text: str, project: Project) -> AnswerDraft:
    """The local answer to a follow-up question; empty if it fails."""
    try:
        return await ask_local(
            replace(question, text=text, vector=project.embedder.embed([text])[0], on_point=None, watch=NO_CALLBACKS), project
        )
    except CALL_ERRORS as error:
        question.budget.failures.append(str(error))
        return AnswerDraft(())
