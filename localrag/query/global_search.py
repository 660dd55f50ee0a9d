"""Modes global and ts: map-reduce over reports or source text, dynamic community selection, answers by theme.

global: map-reduce over community reports (paper, section 3.1.6). ts: the same over the source text, without a graph (section 4.1.2).
Dynamic selection descends from the coarsest level through relevant reports only. Extractive answers go by theme (`theme_answers`).
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from localrag.errors import ContextTooSmall, UsageError
from localrag.llm.budgets import TokenDensity, max_json_tokens
from localrag.llm.grammar import choice_of, json_object
from localrag.llm.model import CALL_ERRORS, EchoDetector, bounded_map, trim_strings
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import PERCENT, Field, schema_of, shape_text
from localrag.project import Project
from localrag.query.abstractive import (
    ask_within_budget,
    best_points,
    effective_budgets,
    fit_sources,
    try_ask_within_budget,
    write_cited_prose,
)
from localrag.query.basic_search import answer_from_passages, nearest_passages, passage_sources
from localrag.query.extractive import extractive_draft, refusal_draft
from localrag.query.passages import CHUNKS_READ
from localrag.query.question import AnswerDraft, AnswerPoint, DraftSource, Question, quote_point
from localrag.query.question_kind import WholeForm, whole_form
from localrag.query.reading_budget import (
    MAX_POINT_CHARS,
    LoadSources,
    confirm_cost,
    cosine_to_question,
    distinct_reports,
    is_slow_map,
    map_batches,
    map_call_overhead,
    rank_by_relevance,
)
from localrag.query.theme_answers import draft_by_theme
from localrag.records import Report
from localrag.store import chunks, graph, vectors
from localrag.text.language import frame_text
from localrag.themes import stored_themes

MIN_RATING = 1  # of 0 to 5, for a relevant report
MAX_COSINE_GAP = 0.05  # to the best report of a level, for a relevant report
TOKENS_PER_RATING = 4


async def select_reports(question: Question, project: Project) -> tuple[list[str], str]:
    """The ids of the most detailed relevant reports, and a note.

    A report is replaced by its relevant sub-reports. If a level has more reports than the budget allows, the nearest to the question are
    rated: half of the calls are for ratings, in equal parts for every remaining level.
    """
    reported = graph.communities_with_report(project.db)
    below: defaultdict[str | None, list[str]] = defaultdict(list)
    for community, _, above in reported:
        below[above].append(community)
    parent = {community: above for community, _, above in reported}
    levels = 1 + max((level for _, level, _ in reported), default=0)
    remaining_ratings = await _ratings(question, project, len(reported))
    selected: dict[str, None] = {}
    rated = passed = 0
    waiting = [community for community, level, _ in reported if level == 0]
    for level in range(levels):
        cosines = cosine_to_question(question, waiting, project)
        max_rated = len(waiting) if remaining_ratings is None else max(1, remaining_ratings // (levels - level))
        chosen = sorted(waiting, key=lambda i: -cosines.get(i, 0.0))[:max_rated]
        rated, passed, remaining_ratings = (
            rated + len(chosen),
            passed + len(waiting) - len(chosen),
            None if remaining_ratings is None else remaining_ratings - len(chosen),
        )
        ratings = await _rate(question, chosen, cosines, project)
        relevant = [i for i in chosen if ratings[i] >= MIN_RATING]
        for i in relevant:
            selected.pop(parent[i] or "", None)
            selected[i] = None
        # If no report of a level is relevant, sub-reports may still be.
        waiting = [part for i in (relevant or ([] if selected else chosen)) for part in below[i]]
    note = f"{len(selected)} reports selected of {rated} looked at, from the coarsest level down."
    return list(selected), note + f" {passed} less relevant ones were skipped." * bool(passed)


async def _ratings(question: Question, project: Project, reports: int) -> int | None:
    """The number of ratings that the model may be asked for, None for any; shows the cost and subtracts it from the budget."""
    if not _rates_with_model(question):
        return None
    budget = question.budget
    max_ratings = reports if budget.calls is None else min(reports, budget.calls // 2)
    sample = graph.reports_of(project.db, [i for i, *_ in graph.communities_with_report(project.db)[:20]])
    sizes = [await project.model.count(r.markdown) for r in sample]
    size = sum(sizes) // max(1, len(sizes))
    prompt = load_prompt("abstractive/rate", project.settings.prompts)
    fixed = sum([await project.model.count(body) for _, body in prompt.messages]) + TOKENS_PER_RATING
    batch = (await effective_budgets(question, project)).map_batch
    reading = min(max_ratings, -(-2 * max_ratings * size // batch))  # batches are more than half full, except with a single report
    confirm_cost(question, project, max_ratings + reading + 1, max_ratings * (size + fixed) + (reading + 1) * batch)
    if budget.tokens is not None:
        budget.tokens -= max_ratings * (size + fixed)
    return None if budget.calls is None else max_ratings


def _rates_with_model(question: Question) -> bool:
    return not (question.is_extractive or question.options.context_only)


async def _rate(question: Question, ids: Sequence[str], cosines: dict[str, float], project: Project) -> dict[str, int]:
    """A rating of 0 to 5 for each report: by the model, or by cosine if the answer is extractive or the budget is used up."""
    best = max((cosines.get(i, 0.0) for i in ids), default=0.0)
    by_cosine = {i: 5 if cosines.get(i, 0.0) >= best - MAX_COSINE_GAP else 0 for i in ids}
    if not _rates_with_model(question):
        return by_cosine

    advance = question.progress_counter("rating {} reports …", len(ids))

    async def rate_report(community: str) -> int | None:
        (report,) = graph.reports_of(project.db, [community])
        messages = load_prompt("abstractive/rate", project.settings.prompts).fill(question=question.text, report=report.markdown)
        answer = await try_ask_within_budget(question, project, "rate", messages, choice_of(list("012345")), TOKENS_PER_RATING)
        advance(1)
        return None if answer is None else int(answer)

    ratings = await bounded_map(rate_report(i) for i in ids)
    return {i: by_cosine[i] if s is None else s for i, s in zip(ids, ratings, strict=True)}


def quote_reports(question: Question, ids: Sequence[str], project: Project) -> tuple[AnswerPoint, ...]:
    """The first quotes of the most relevant reports, none of which say nearly the same."""
    scored = rank_by_relevance(question, ids, graph.coverage_of(project.db, ids), project)
    found = {r.community_id: r for r in graph.reports_of(project.db, list(scored)[: 4 * MAX_POINTS])}
    reports = distinct_reports([found[i] for i in scored if i in found])
    quotes = [(r, list(dict.fromkeys(q for f in r.findings for q in f.quotes))[:QUOTES_PER_REPORT]) for r in reports]
    return tuple(quote_point(*some, title=r.title) for r, some in quotes if some)[: 1 if question.wants_one_sentence else MAX_POINTS]


SAMPLE_REPORTS = 5  # whose size and author are looked up: the model wrote one of them if it wrote any but those too small for it
TARGET_REPORTS = 30  # the default level has about this many reports: enough detail, few calls
TARGET_QUOTED_REPORTS = 100  # the same for extractive answers
N_NAMED_THEMES = 4  # that are named where the documents say nothing of a topic
MAX_POINTS, QUOTES_PER_REPORT = 6, 2  # of an extractive answer
MAX_CHUNKS_READ = 1000  # by map calls over the source text, if calls are limited

ScoredPoint = tuple[float, AnswerPoint]  # helpfulness of 0 to 100, and the point


async def ask_global(question: Question, project: Project) -> AnswerDraft:
    """Answer from the reports of one level, or from a dynamic selection of reports (`dynamic`)."""
    chosen = question.options.dynamic or question.options.level is not None or question.options.max_calls is not None
    if question.is_extractive and not chosen and (by_theme := await _told_by_theme(question, project)):
        return by_theme
    level: int | None = None
    if question.options.dynamic:
        ids, note = await select_reports(question, project)
    else:
        level, note = _level(question.options.level, project, TARGET_QUOTED_REPORTS if question.is_extractive else TARGET_REPORTS)
        ids = graph.report_communities_at_level(project.db, level)
    if question.is_extractive:
        points = quote_reports(question, ids, project)
        return AnswerDraft(points, "" if points else "No report of this level is relevant to the question.", level, note)
    is_slow = is_slow_map(question, project, await _size_of_reports(ids, project))
    if not ids or (is_slow and not question.options.context_only):
        draft = await _told_by_theme(question, project) or AnswerDraft(quote_reports(question, ids, project))
        return replace(draft, note=f"{draft.note} Not all reports were read: that takes too long here. All: --max-calls 50".strip())
    scored = rank_by_relevance(question, ids, graph.coverage_of(project.db, ids), project)
    order = [*scored, *(i for i in ids if i not in scored)]
    quoted = all(r.rating is None for r in graph.reports_of(project.db, order[:SAMPLE_REPORTS]))
    points, read = await _map_reduce(question, project, order, _report_loader(project), "reports")
    if not points:
        read += " The model returned no points; these are the most relevant reports."
    hint = " These reports quote the documents; to have the model write them: localrag index --write-reports" if quoted else ""
    return AnswerDraft(points or quote_reports(question, ids, project), level=level, note=f"{note} {read}{hint}".strip())


async def _size_of_reports(ids: Sequence[str], project: Project) -> int:
    sample = graph.reports_of(project.db, ids[:SAMPLE_REPORTS])
    sizes = [await project.model.count(r.markdown) for r in sample]
    return sum(sizes) * len(ids) // max(1, len(sizes))


def _size_of_passages(ids: Sequence[str], project: Project) -> int:
    sample = chunks.chunks_by_id(project.db, ids[:SAMPLE_REPORTS])
    return sum(c.tokens for c in sample) * len(ids) // max(1, len(sample))


async def _told_by_theme(question: Question, project: Project) -> AnswerDraft | None:
    """Sentences of the documents by theme; a refusal that names themes if they say nothing of the topic; None without themes."""
    by_theme = draft_by_theme(question, project)
    if by_theme.points or whole_form(question.text, project) not in (WholeForm.TOPIC, WholeForm.CHANGE):
        return by_theme if by_theme.points else None
    labels = ", ".join(theme.label for theme in stored_themes(project.db, project.folder)[:N_NAMED_THEMES])
    return replace(await refusal_draft(question, question.near, project), note=frame_text("themes", question.text, labels=labels))


async def ask_text_map_reduce(question: Question, project: Project) -> AnswerDraft:
    """Answer from all of the source text, or from the passages nearest the question if all would exceed the budget, or without a model."""
    if not question.is_extractive:
        ids = chunks.chunk_ids(project.db)
        if not question.options.context_only and is_slow_map(question, project, _size_of_passages(ids, project)):
            return await answer_from_passages(question, project, nearest_passages(question, project, CHUNKS_READ))
        points, read = await _map_reduce(question, project, _nearest(question, ids, project), _passages(project), "passages", len(ids))
        if points:
            return AnswerDraft(points, note=read)
    return await extractive_draft(question, nearest_passages(question, project, CHUNKS_READ), project)


def report_source(report: Report) -> DraftSource:
    """A report as a source of a prompt."""
    return DraftSource(report.markdown, tuple(dict.fromkeys(q for f in report.findings for q in f.quotes)))


def _report_loader(project: Project) -> LoadSources:
    return lambda ids: [report_source(r) for r in graph.reports_of(project.db, ids)]


def _passages(project: Project) -> LoadSources:
    return lambda ids: passage_sources(chunks.chunks_by_id(project.db, ids), project)


def _nearest(question: Question, ids: Sequence[str], project: Project) -> list[str]:
    k = len(ids) if question.budget.calls is None else MAX_CHUNKS_READ
    ranked = [i for i, _ in vectors.nearest(project.db, project.folder, "chunk", question.vector, k)]
    return [*ranked, *sorted(set(ids) - set(ranked))][:k]


def _level(requested: int | None, project: Project, max_reports: int) -> tuple[int, str]:
    """The requested level, else the deepest with at most `max_reports`, else the coarsest; and a note."""
    sizes = {n: len(graph.report_communities_at_level(project.db, n)) for n in graph.communities_per_level(project.db)}
    if requested is not None:
        if requested not in sizes:
            raise UsageError(f"There is no community level {requested}.", f"Levels here: 0 (coarsest) to {max(sizes)}.")
        return requested, ""
    level = max((n for n, size in sizes.items() if size <= max_reports), default=0)
    return level, f"Level {level} of 0 to {max(sizes)}: {sizes[level]} reports."


async def _map_reduce(
    question: Question, project: Project, ids: Sequence[str], load: LoadSources, unit: str, total: int = 0
) -> tuple[tuple[AnswerPoint, ...], str]:
    """Map: score points in every batch. Reduce: combine the best. Also returns a note on the share of `total` that was read.

    `ids`: most relevant first. If the reduce step gives nothing, the best points are returned themselves.
    """
    budgets, total = await effective_budgets(question, project), total or len(ids)
    batches = await map_batches(question, project, ids, load, budgets)
    if question.options.context_only:
        return tuple(await write_cited_prose(question, project, [s for batch in batches for s in batch], "reduce")), ""
    if batches:
        texts = sum([await project.model.count(s.text) for batch in batches for s in batch])
        fixed = await map_call_overhead(question, project, budgets)
        confirm_cost(question, project, len(batches) + 1, texts + fixed * len(batches) + budgets.reduce_context)
    advance = question.progress_counter(f"reading {{}} {unit} …", sum(map(len, batches)))

    async def mapped(batch: list[DraftSource]) -> list[ScoredPoint]:
        points = await _map(question, batch, project, budgets.points)
        advance(len(batch))
        return points

    scored = [p for part in await bounded_map(mapped(batch) for batch in batches) for p in part]
    best = best_points(scored)
    sources = await fit_sources((DraftSource(p.text, p.quotes) for p in best), project, budgets.reduce_context)
    points = await write_cited_prose(question, project, sources, "reduce") or best[:MAX_POINTS]
    return tuple(points), _reading_note(question, unit, total, len(batches))


def _reading_note(question: Question, unit: str, total: int, calls: int) -> str:
    read = question.budget.texts_read
    if read >= total:
        return f"{total} {unit} read in {calls} calls."
    needed_calls = 1 + -(-calls * total // max(1, read)) if read else total
    return f"{read} of {total} {unit} read in {calls} calls, the most relevant ones first. All: --max-calls {needed_calls}"


async def _map(question: Question, batch: list[DraftSource], project: Project, points: int) -> list[ScoredPoint]:
    """The points of one batch; it is halved if too large for the window; empty if the call fails."""
    by_id = {f"C{n}": source for n, source in enumerate(batch, 1)}
    reports = "\n\n".join(f"{i}\n{source.text}" for i, source in by_id.items())
    script = await TokenDensity.measure(project.model.count, question.text, reports, language=project.settings.language)
    fields, prompt = _point_fields(list(by_id), points, script), load_prompt("abstractive/map", project.settings.prompts)
    schema, messages = schema_of(fields), prompt.fill(question=question.text, reports=reports, shape=shape_text(fields))
    max_tokens = await max_json_tokens(schema, script, project.model.count)
    try:
        answer = await ask_within_budget(question, project, "map", messages, json_object(schema), max_tokens)
    except CALL_ERRORS as error:
        if isinstance(error, ContextTooSmall) and len(batch) > 1:
            half = len(batch) // 2
            return [p for part in (batch[:half], batch[half:]) for p in await _map(question, part, project, points)]
        question.budget.failures.append(str(error))
        return []
    if answer is None:
        return []
    question.budget.texts_read += len(batch)
    echo = EchoDetector(prompt, question.text, reports, shape_text(fields))
    return [
        (
            p["score"],
            AnswerPoint(p["description"], tuple(q for i in dict.fromkeys(p["evidence"]) for q in by_id[i].quotes), is_generated=True),
        )
        for p in trim_strings(json.loads(answer), schema)["points"]
        if not echo.is_in(p["description"])
    ]


def _point_fields(ids: Sequence[str], points: int, script: TokenDensity) -> tuple[Field, ...]:
    description = {"type": "string", "minLength": 10, "maxLength": script.max_chars(MAX_POINT_CHARS)}
    evidence = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": list(ids)}}
    point = (
        Field("description", "the point in one or two whole sentences of at most 40 words", description),
        Field("evidence", "[the ids of the reports it comes from]", evidence),
        Field("score", "from 0 (does not help) to 100 (answers the question)", PERCENT),
    )
    return (Field("points", "the most helpful ones", {"maxItems": points}, point),)
