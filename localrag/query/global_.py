"""global: map-reduce over the community reports of one level (paper, section 3.1.6)."""

import json
import random
from dataclasses import dataclass

import numpy as np

from localrag.errors import UsageError
from localrag.llm import PERSON, in_window
from localrag.llm.grammar import json_object
from localrag.llm.project import Project
from localrag.llm.prompts import load_prompt
from localrag.query.cite import Draft, Point
from localrag.query.context import Question
from localrag.query.write import write_prose
from localrag.quotes import marginal_relevance
from localrag.records import Quote, Report
from localrag.store import graph, vectors
from localrag.text import is_cjk, squeeze

REPORTS = 30  # a level with about this many reports is the default: enough detail, few enough calls
BATCH = 1800  # tokens of reports in one map call
REDUCE = 2000  # tokens of points in the reduce call
MAP_TOKENS = 700
POINTS = 6  # of an extractive answer


@dataclass(frozen=True, slots=True)
class Scored:
    """A point of the map step: `score` 0 to 100 says how much it helps to answer."""

    text: str
    score: float
    quotes: tuple[Quote, ...]
    title: str = ""


async def ask_global(question: Question, project: Project) -> Draft:
    """Answer from the reports of a level: each gives scored points, zeros are dropped, the best are put together."""
    level, note = _level(question.level, project)
    reports = graph.reports(project.db, level)
    random.Random(question.seed).shuffle(reports)
    if question.style == "extractive":
        points = _extractive(question, reports, project)
        return Draft(points, "" if points else "No report of this level bears on the question.", level, note)
    scored = [p for part in await in_window(_map(question, batch, project) for batch in await _batches(reports, project)) for p in part]
    kept = sorted((p for p in scored if p.score > 0), key=lambda p: -p.score)
    sources = await _fit(kept, project)
    if not sources:
        points = _extractive(question, reports, project)
        return Draft(points, level=level, note=f"{note} The model found nothing to the point; these are the most relevant reports.")
    return Draft(tuple(await write_prose(question, project, sources, "reduce")), level=level, note=note)


def _level(asked: int | None, project: Project) -> tuple[int, str]:
    """The level asked for, else the deepest with at most REPORTS communities, else the coarsest."""
    sizes = graph.communities_per_level(project.db)
    if asked is not None:
        if asked not in sizes:
            raise UsageError(f"There is no community level {asked}.", f"Levels here: 0 (coarsest) to {max(sizes)}.")
        return asked, ""
    level = max((n for n, size in sizes.items() if size <= REPORTS), default=0)
    return level, f"Level {level} of 0 to {max(sizes)}: {sizes[level]} reports."


def _extractive(question: Question, reports: list[Report], project: Project) -> tuple[Point, ...]:
    """Map: a report scores by its nearness to the question and its rating. Reduce: the best, unlike each other, two sentences each."""
    ids, matrix = vectors.load(project.db, "report")
    row = {key: n for n, key in enumerate(ids)}
    found = [r for r in reports if r.community_id in row and r.findings]
    if not found:
        return ()
    near = matrix[[row[r.community_id] for r in found]]
    score = 100 * np.clip(0.4 * (near @ question.vector) + 0.08 * np.array([r.rating for r in found]), 0, 1)
    kept = [i for i in np.argsort(-score, kind="stable") if score[i] > 0][: 2 * POINTS]
    order = marginal_relevance((score[kept] / 100).astype(np.float32), near[kept], POINTS, diversity=0.4)
    return tuple(_report_point(found[kept[i]], question, project) for i in order)


def _report_point(report: Report, question: Question, project: Project) -> Point:
    quotes = list(dict.fromkeys(q for f in report.findings for q in f.quotes))
    relevance = project.embedder.embed([squeeze(q.text) for q in quotes]) @ question.vector
    # Findings come most central first, which decides unless one is clearly nearer the question.
    foreign = [is_cjk(q.text) != is_cjk(question.text) for q in quotes]
    order = sorted(range(len(quotes)), key=lambda i: (foreign[i], i - 8 * float(relevance[i])))
    chosen = tuple(quotes[i] for i in order[:2])
    return Point(" ".join(squeeze(q.text) for q in chosen), chosen, report.title)


async def _batches(reports: list[Report], project: Project) -> list[list[Report]]:
    """The shuffled reports in groups of at most BATCH tokens; one that is larger alone is a group of its own summary."""
    batches: list[list[Report]] = [[]]
    used = 0
    for report in reports:
        size = await project.model.count(_text(report))
        if used + size > BATCH and batches[-1]:
            batches.append([])
            used = 0
        batches[-1].append(report)
        used += size
    return [b for b in batches if b]


def _text(report: Report) -> str:
    return report.markdown[:5000]


async def _map(question: Question, batch: list[Report], project: Project) -> list[Scored]:
    ids = [f"C{n}" for n in range(1, len(batch) + 1)]
    messages = load_prompt("abstractive/map").fill(
        question=question.text, reports="\n\n".join(f"{i}\n{_text(r)}" for i, r in zip(ids, batch, strict=True))
    )
    point = {
        "type": "object",
        "additionalProperties": False,
        "required": ["description", "evidence", "score"],
        "properties": {
            "description": {"type": "string", "minLength": 10, "maxLength": 400},
            "evidence": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ids}},
            "score": {"type": "integer", "minimum": 0, "maximum": 100},
        },
    }
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["points"],
        "properties": {"points": {"type": "array", "maxItems": 4, "items": point}},
    }
    reply = await project.model.ask("map", messages, max_tokens=MAP_TOKENS, grammar=json_object(schema), priority=PERSON)
    by_id = dict(zip(ids, batch, strict=True))
    return [
        Scored(
            p["description"],
            p["score"],
            tuple(q for i in dict.fromkeys(p["evidence"]) for f in by_id[i].findings for q in f.quotes[:1])[:2],
        )
        for p in json.loads(reply.text)["points"]
    ]


async def _fit(points: list[Scored], project: Project) -> list[tuple[str, tuple[Quote, ...]]]:
    sources, used = [], 0
    for point in points:
        used += await project.model.count(point.text)
        if used > REDUCE:
            break
        sources.append((f"(importance {point.score}) {point.text}", point.quotes))
    return sources
