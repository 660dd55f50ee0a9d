"""global: map-reduce over community reports (paper, section 3.1.6). ts: the same over the source text, without a graph (section 4.1.2)."""

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from localrag.errors import ContextTooSmall, UsageError
from localrag.llm import CALL_FAILED, in_window
from localrag.llm.budgets import Script, room
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.project import Project
from localrag.llm.prompts import load_prompt
from localrag.query.basic import passage_sources
from localrag.query.cite import Draft, Point, Source
from localrag.query.context import quoted_answer
from localrag.query.question import Question
from localrag.query.select import select_reports
from localrag.query.write import best_within, budgets_of, call, write_prose
from localrag.quotes import marginal_relevance
from localrag.records import Report
from localrag.store import corpus, graph, vectors
from localrag.text import is_cjk, squeeze

REPORTS = 30  # a level with about this many reports is the default: enough detail, few enough calls
READ = 200  # reports read where no level was asked for: a level of thousands would take hours
MANY = 50  # calls from which on their number is said beforehand
POINT = 400  # characters of a point of the map step
POINTS = 6  # of an extractive answer
LOOKED_AT = 100  # passages an extractive answer over the source text is chosen from

Scored = tuple[float, Point]  # 0 to 100 says how much a point of the map step helps to answer


async def ask_global(question: Question, project: Project) -> Draft:
    """Answer from the reports of one level, or from those chosen from the coarsest level down (`dynamic`)."""
    if question.options.dynamic:
        reports, note = await select_reports(question, project)
        level = None
    else:
        level, note = _level(question.options.level, project)
        reports = graph.reports_at(project.db, level)
    if question.extractive:
        points = extractive_points(question, reports, project)
        return Draft(points, "" if points else "No report of this level bears on the question.", level, note)
    if level is not None and question.options.level is None and len(reports) > READ:
        reports, note = _nearest(question, reports, project), f"{note} The {READ} nearest the question are read; all: --level {level}."
    points, read = await _map_reduce(question, [report_source(r) for r in reports], project)
    if not points:
        read += " The model gave no point; these are the most relevant reports."
    return Draft(points or extractive_points(question, reports, project), level=level, note=f"{note} {read}".strip())


async def ask_ts(question: Question, project: Project) -> Draft:
    """Answer from all of the source text."""
    chunks = corpus.all_chunks(project.db)
    if not question.extractive:
        points, read = await _map_reduce(question, passage_sources(chunks, project), project)
        if points:
            return Draft(points, note=read)
    chosen = random.Random(question.options.seed).sample(chunks, min(LOOKED_AT, len(chunks)))
    note = f"Chosen from {len(chosen)} of {len(chunks)} passages, drawn at random." if len(chosen) < len(chunks) else ""
    return Draft(quoted_answer(question, [(c, 0.0) for c in chosen], project), note=note)


def report_source(report: Report) -> Source:
    """A report as a model is shown it."""
    return Source(report.markdown, tuple(dict.fromkeys(q for f in report.findings for q in f.quotes)))


def _level(asked: int | None, project: Project) -> tuple[int, str]:
    """The level asked for, else the deepest with at most REPORTS communities, else the coarsest."""
    sizes = graph.communities_per_level(project.db)
    if asked is not None:
        if asked not in sizes:
            raise UsageError(f"There is no community level {asked}.", f"Levels here: 0 (coarsest) to {max(sizes)}.")
        return asked, ""
    level = max((n for n, size in sizes.items() if size <= REPORTS), default=0)
    return level, f"Level {level} of 0 to {max(sizes)}: {sizes[level]} reports."


def extractive_points(question: Question, reports: Sequence[Report], project: Project) -> tuple[Point, ...]:
    """Map: a report scores by its nearness to the question and its rating. Reduce: the best, unlike each other, two sentences each."""
    ids, matrix = vectors.load(project.db, "report")
    row = {key: n for n, key in enumerate(ids)}
    found = [r for r in reports if r.community_id in row and r.findings]
    if not found:
        return ()
    near = matrix[[row[r.community_id] for r in found]]
    score = 100 * np.clip(0.4 * (near @ question.vector) + 0.08 * np.array([r.rating for r in found]), 0, 1)
    kept = [i for i in np.argsort(-score, kind="stable") if score[i] > 0][: 2 * POINTS]
    order = marginal_relevance((score[kept] / 100).astype(np.float32), near[kept], 1 if question.one_sentence else POINTS, diversity=0.4)
    points, said = [], set[str]()
    for i in order:
        point = _report_point(found[kept[i]], question, project, said)
        said |= {squeeze(q.text) for q in point.quotes}
        points += [point] * bool(point.quotes)
    return tuple(points)


def _report_point(report: Report, question: Question, project: Project, said: set[str]) -> Point:
    quotes = [q for q in dict.fromkeys(q for f in report.findings for q in f.quotes) if squeeze(q.text) not in said]
    if not quotes:
        return Point("", ())
    relevance = project.embedder.embed([squeeze(q.text) for q in quotes]) @ question.vector
    # Findings come most central first, which decides unless one is clearly nearer the question.
    foreign = [is_cjk(q.text) != is_cjk(question.text) for q in quotes]
    order = sorted(range(len(quotes)), key=lambda i: (foreign[i], i - 8 * float(relevance[i])))
    chosen = tuple(quotes[i] for i in order[: 1 if question.one_sentence else 2])
    return Point(" ".join(squeeze(q.text) for q in chosen), chosen, report.title)


def _nearest(question: Question, reports: Sequence[Report], project: Project) -> list[Report]:
    """The READ reports that are nearest the question."""
    ids, matrix = vectors.load(project.db, "report")
    near = dict(zip(ids, matrix @ question.vector, strict=True))
    return sorted(reports, key=lambda r: (-near.get(r.community_id, 0.0), r.community_id))[:READ]


async def _map_reduce(question: Question, sources: list[Source], project: Project) -> tuple[tuple[Point, ...], str]:
    """Points of every batch of the shuffled sources, those scored 0 dropped, the best put together; and what that took."""
    random.Random(question.options.seed).shuffle(sources)
    if question.options.context_only:
        return tuple(await write_prose(question, project, sources, "reduce")), ""
    budgets = await budgets_of(question, project)
    batches = await _batches(sources, project, budgets.map_batch)
    if len(batches) >= MANY:
        project.model.say(f"Reading takes {len(batches)} calls to the model. Fewer: --max-calls N, --max-seconds S")
    question.tell(f"reading {len(sources)} texts in {len(batches)} calls …")
    scored = [p for part in await in_window(_map(question, batch, project, budgets.points) for batch in batches) for p in part]
    best = await best_within(scored, project, budgets.reduce)
    return tuple(await write_prose(question, project, best, "reduce")), f"{len(sources)} texts read in {len(batches)} calls."


async def _batches(sources: Sequence[Source], project: Project, budget: int) -> list[list[Source]]:
    """The sources in groups of at most so many tokens; one that is larger alone is a group of its own."""
    batches: list[list[Source]] = [[]]
    used = 0
    for source in sources:
        size = await project.model.count(source.text)
        if used + size > budget and batches[-1]:
            batches.append([])
            used = 0
        batches[-1].append(source)
        used += size
    return [b for b in batches if b]


async def _map(question: Question, batch: list[Source], project: Project, points: int) -> list[Scored]:
    """The points of one batch; of its halves, where it is too large for the window; none, where the call fails."""
    by_id = {f"C{n}": source for n, source in enumerate(batch, 1)}
    reports = "\n\n".join(f"{i}\n{source.text}" for i, source in by_id.items())
    script = await Script.of(project.model.count, question.text, reports, language=project.settings.language)
    schema = _points_schema(list(by_id), points, script)
    messages = load_prompt("abstractive/map").fill(question=question.text, reports=reports)
    max_tokens = await room(schema, script, project.model.count)
    try:
        said = await call(question, project, "map", messages, json_object(schema), max_tokens)
    except CALL_FAILED as error:
        if isinstance(error, ContextTooSmall) and len(batch) > 1:
            half = len(batch) // 2
            return [p for part in (batch[:half], batch[half:]) for p in await _map(question, part, project, points)]
        question.budget.failures.append(str(error))
        return []
    return [
        (p["score"], Point(p["description"], tuple(q for i in dict.fromkeys(p["evidence"]) for q in by_id[i].quotes)))
        for p in (json.loads(said)["points"] if said else ())
    ]


def _points_schema(ids: list[str], points: int, script: Script) -> dict[str, Any]:
    point = object_schema(
        description={"type": "string", "minLength": 10, "maxLength": script.characters(POINT)},
        evidence={"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ids}},
        score={"type": "integer", "minimum": 0, "maximum": 100},
    )
    return object_schema(points={"type": "array", "maxItems": points, "items": point})
