"""global: map-reduce over community reports (paper, section 3.1.6). ts: the same over the source text, without a graph (section 4.1.2)."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localrag.errors import UsageError
from localrag.llm import in_window
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.project import Project
from localrag.llm.prompts import load_prompt
from localrag.query.basic import passage_sources
from localrag.query.cite import Draft, Point, Source
from localrag.query.context import quoted_answer
from localrag.query.question import Question
from localrag.query.select import select_reports
from localrag.query.write import call, write_prose
from localrag.quotes import marginal_relevance
from localrag.records import Quote, Report
from localrag.store import corpus, graph, vectors
from localrag.text import is_cjk, squeeze

REPORTS = 30  # a level with about this many reports is the default: enough detail, few enough calls
BATCH = 1800  # tokens of reports or text in one map call
REDUCE = 2000  # tokens of points in the reduce call
MAP_TOKENS = 700
POINTS = 6  # of an extractive answer
LOOKED_AT = 100  # passages an extractive answer over the source text is chosen from
LONGEST = 5000  # characters of a report


@dataclass(frozen=True, slots=True)
class Scored:
    """A point of the map step: `score` 0 to 100 says how much it helps to answer."""

    text: str
    score: float
    quotes: tuple[Quote, ...]


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
    points = await _map_reduce(question, [report_source(r) for r in reports], project)
    if not points:
        note = f"{note} The model found nothing to the point; these are the most relevant reports.".strip()
    return Draft(points or extractive_points(question, reports, project), level=level, note=note)


async def ask_ts(question: Question, project: Project) -> Draft:
    """Answer from all of the source text."""
    chunks = corpus.all_chunks(project.db)
    if not question.extractive and (points := await _map_reduce(question, passage_sources(chunks, project), project)):
        return Draft(points)
    chosen = random.Random(question.options.seed).sample(chunks, min(LOOKED_AT, len(chunks)))
    note = f"Chosen from {len(chosen)} of {len(chunks)} passages, drawn at random." if len(chosen) < len(chunks) else ""
    return Draft(quoted_answer(question, [(c, 0.0) for c in chosen], project), note=note)


def report_source(report: Report) -> Source:
    """A report as a model is shown it."""
    return Source(report.markdown[:LONGEST], tuple(dict.fromkeys(q for f in report.findings for q in f.quotes)))


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


async def _map_reduce(question: Question, sources: list[Source], project: Project) -> tuple[Point, ...]:
    """Points of every batch of the shuffled sources, those scored 0 dropped, the best put together."""
    random.Random(question.options.seed).shuffle(sources)
    if question.options.context_only:
        return tuple(await write_prose(question, project, sources, "reduce"))
    batches = await _batches(sources, project)
    scored = [p for part in await in_window(_map(question, batch, project) for batch in batches) for p in part]
    best: list[Source] = []
    used = 0
    for point in sorted((p for p in scored if p.score > 0), key=lambda p: -p.score):
        used += await project.model.count(point.text)
        if used > REDUCE:
            break
        best.append(Source(f"(importance {point.score}) {point.text}", point.quotes))
    return tuple(await write_prose(question, project, best, "reduce"))


async def _batches(sources: Sequence[Source], project: Project) -> list[list[Source]]:
    """The sources in groups of at most BATCH tokens; one that is larger alone is a group of its own."""
    batches: list[list[Source]] = [[]]
    used = 0
    for source in sources:
        size = await project.model.count(source.text)
        if used + size > BATCH and batches[-1]:
            batches.append([])
            used = 0
        batches[-1].append(source)
        used += size
    return [b for b in batches if b]


async def _map(question: Question, batch: list[Source], project: Project) -> list[Scored]:
    by_id = {f"C{n}": source for n, source in enumerate(batch, 1)}
    messages = load_prompt("abstractive/map").fill(
        question=question.text, reports="\n\n".join(f"{i}\n{source.text}" for i, source in by_id.items())
    )
    said = await call(question, project, "map", messages, json_object(_points_schema(list(by_id))), MAP_TOKENS)
    return [
        Scored(p["description"], p["score"], tuple(q for i in dict.fromkeys(p["evidence"]) for q in by_id[i].quotes))
        for p in (json.loads(said)["points"] if said else ())
    ]


def _points_schema(ids: list[str]) -> dict[str, object]:
    point = object_schema(
        description={"type": "string", "minLength": 10, "maxLength": 400},
        evidence={"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ids}},
        score={"type": "integer", "minimum": 0, "maximum": 100},
    )
    return object_schema(points={"type": "array", "maxItems": 4, "items": point})
