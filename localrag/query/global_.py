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
from localrag.prose import Kind, asked_for, kind_of
from localrag.query.basic import passage_sources
from localrag.query.cite import Draft, Point, Source
from localrag.query.context import quoted, quoted_answer, readable
from localrag.query.cost import POINT, Load, agree_on, batches_of, bearing, map_tokens
from localrag.query.question import Question
from localrag.query.select import select_reports
from localrag.query.write import best_within, budgets_of, call, write_prose
from localrag.quotes import marginal_relevance, repeats
from localrag.records import Report
from localrag.store import corpus, graph, vectors
from localrag.text import is_cjk

REPORTS = 30  # a level with about this many reports is the default: enough detail, few enough calls
POINTS = 6  # of an extractive answer
LOOKED_AT = 100  # passages an extractive answer over the source text is chosen from
NEAREST = 1000  # passages that map calls over the source text may read, unless they may read all

Scored = tuple[float, Point]  # 0 to 100 says how much a point of the map step helps to answer


async def ask_global(question: Question, project: Project) -> Draft:
    """Answer from the reports of one level, or from those chosen from the coarsest level down (`dynamic`)."""
    if question.options.dynamic:
        ids, note = await select_reports(question, project)
        level = None
    else:
        level, note = _level(question.options.level, project)
        ids = graph.reported_at(project.db, level)
    if question.extractive:
        points = extractive_points(question, ids, project)
        return Draft(points, "" if points else "No report of this level bears on the question.", level, note)
    scored = bearing(question, ids, project)
    order = [*scored, *(i for i in ids if i not in scored)]
    points, read = await _map_reduce(question, project, order, _reports(project), "reports")
    if not points:
        read += " The model gave no point; these are the most relevant reports."
    return Draft(points or extractive_points(question, ids, project), level=level, note=f"{note} {read}".strip())


async def ask_ts(question: Question, project: Project) -> Draft:
    """Answer from all of the source text, or from the passages nearest the question where that is more than a question may cost."""
    ids = corpus.chunk_ids(project.db)
    if not question.extractive:
        points, read = await _map_reduce(question, project, _nearest(question, ids, project), _passages(project), "passages", len(ids))
        if points:
            return Draft(points, note=read)
    drawn = random.Random(question.options.seed).sample(ids, min(LOOKED_AT, len(ids)))
    note = f"Chosen from {len(drawn)} of {len(ids)} passages, drawn at random." if len(drawn) < len(ids) else ""
    return Draft(quoted_answer(question, [(c, 0.0) for c in corpus.chunks_by_id(project.db, drawn)], project), note=note)


def report_source(report: Report) -> Source:
    """A report as a model is shown it."""
    return Source(report.markdown, tuple(dict.fromkeys(q for f in report.findings for q in f.quotes)))


def _reports(project: Project) -> Load:
    return lambda ids: [report_source(r) for r in graph.reports_of(project.db, ids)]


def _passages(project: Project) -> Load:
    return lambda ids: passage_sources(corpus.chunks_by_id(project.db, ids), project)


def _nearest(question: Question, ids: Sequence[str], project: Project) -> list[str]:
    """The passages in the order of their nearness to the question; only the first of them where not all can be read."""
    k = len(ids) if question.budget.calls is None else NEAREST
    near = [i for i, _ in vectors.nearest(project.db, project.folder, "chunk", question.vector, k)]
    return [*near, *sorted(set(ids) - set(near))][:k]


def _level(asked: int | None, project: Project) -> tuple[int, str]:
    """The level asked for, else the deepest with at most REPORTS communities, else the coarsest."""
    sizes = graph.communities_per_level(project.db)
    if asked is not None:
        if asked not in sizes:
            raise UsageError(f"There is no community level {asked}.", f"Levels here: 0 (coarsest) to {max(sizes)}.")
        return asked, ""
    level = max((n for n, size in sizes.items() if size <= REPORTS), default=0)
    return level, f"Level {level} of 0 to {max(sizes)}: {sizes[level]} reports."


def extractive_points(question: Question, ids: Sequence[str], project: Project) -> tuple[Point, ...]:
    """Map: a report scores by how much it bears on the question. Reduce: the best, unlike each other, two sentences each."""
    scores = bearing(question, ids, project)
    best = [i for i, score in scores.items() if score > 0]
    found: list[Report] = []
    for at in range(0, len(best), 2 * POINTS):
        found += [r for r in graph.reports_of(project.db, best[at : at + 2 * POINTS]) if r.findings]
        if len(found) >= 2 * POINTS:
            break
    kept = found[: 2 * POINTS]
    if not kept:
        return ()
    keys, matrix = vectors.load(project.db, "report", [r.community_id for r in kept])
    near = matrix[[keys.index(r.community_id) for r in kept]]
    score = np.array([scores[r.community_id] for r in kept], np.float32)
    order = marginal_relevance(score, near, 1 if question.one_sentence else POINTS, diversity=0.4)
    points: list[Point] = []
    said: list[str] = []
    for i in order:
        point = _report_point(kept[i], question, project, said)
        said += [readable(q) for q in point.quotes]
        points += [point] * bool(point.quotes)
    return tuple(points)


def _report_point(report: Report, question: Question, project: Project, said: Sequence[str]) -> Point:
    found = {readable(q): q for f in report.findings for q in f.quotes}
    texts = [t for t in found if not any(repeats(t, s) for s in said)]
    if not texts:
        return Point("", ())
    relevance = project.embedder.embed(texts) @ question.vector
    asked = {Kind.PROSE, *asked_for(question.text)}
    # Sentences come before code and rows, then findings come most central first, which decides unless one is clearly nearer the question.
    last = [(is_cjk(t) != is_cjk(question.text), kind_of(found[t].text) not in asked) for t in texts]
    order = sorted(range(len(texts)), key=lambda i: (*last[i], i - 8 * float(relevance[i])))
    chosen: list[str] = []
    for i in order:
        if not any(repeats(texts[i], c) for c in chosen):
            chosen.append(texts[i])
    if any(not last[texts.index(t)][1] for t in chosen):
        chosen = [t for t in chosen if not last[texts.index(t)][1]]
    return quoted(*(found[t] for t in chosen[: 1 if question.one_sentence else 2]), title=report.title)


async def _map_reduce(
    question: Question, project: Project, ids: Sequence[str], load: Load, what: str, total: int = 0
) -> tuple[tuple[Point, ...], str]:
    """Points of every batch, those scored 0 dropped, the best put together; and how much of `total` (of all `ids`) was read for it.

    `ids`: most relevant first. Where nothing is left for putting together, the best points stand for themselves.
    """
    budgets, total = await budgets_of(question, project), total or len(ids)
    batches = await batches_of(question, project, ids, load, budgets)
    if question.options.context_only:
        return tuple(await write_prose(question, project, [s for batch in batches for s in batch], "reduce")), ""
    if batches:
        texts = sum([await project.model.count(s.text) for batch in batches for s in batch])
        fixed = await map_tokens(question, project, budgets)
        agree_on(question, project, len(batches) + 1, texts + fixed * len(batches) + budgets.reduce)
    question.tell(f"reading {sum(map(len, batches))} {what} in {len(batches)} calls …")
    scored = [p for part in await in_window(_map(question, batch, project, budgets.points) for batch in batches) for p in part]
    points = await write_prose(question, project, await best_within(scored, project, budgets.reduce), "reduce")
    if not points:
        best = sorted((s for s in scored if s[0] > 0), key=lambda s: -s[0])
        points = [p for _, p in best[:POINTS]]
    return tuple(points), _said_of_reading(question, what, total, len(batches))


def _said_of_reading(question: Question, what: str, total: int, calls: int) -> str:
    read = question.budget.read
    if read >= total:
        return f"{total} {what} read in {calls} calls."
    enough = 1 + -(-calls * total // max(1, read)) if read else total
    return f"{read} of {total} {what} read in {calls} calls, those first that bear most on the question. All: --max-calls {enough}"


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
    if said is None:
        return []
    question.budget.read += len(batch)
    return [
        (p["score"], Point(p["description"], tuple(q for i in dict.fromkeys(p["evidence"]) for q in by_id[i].quotes), written=True))
        for p in json.loads(said)["points"]
    ]


def _points_schema(ids: list[str], points: int, script: Script) -> dict[str, Any]:
    point = object_schema(
        description={"type": "string", "minLength": 10, "maxLength": script.characters(POINT)},
        evidence={"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ids}},
        score={"type": "integer", "minimum": 0, "maximum": 100},
    )
    return object_schema(points={"type": "array", "maxItems": points, "items": point})
