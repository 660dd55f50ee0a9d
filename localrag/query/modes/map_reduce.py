"""global: map-reduce over community reports (paper, section 3.1.6). ts: the same over the source text, without a graph (section 4.1.2)."""

import json
import random
from collections.abc import Sequence
from typing import Any

from localrag.errors import ContextTooSmall, UsageError
from localrag.llm.budgets import Script, room
from localrag.llm.echo import Echo
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.limits import whole_strings
from localrag.llm.model import CALL_FAILED, in_window
from localrag.llm.prompts import load_prompt
from localrag.project import Project
from localrag.query.answering.written import best_within, budgets_of, call, write_prose
from localrag.query.cost import POINT, Load, agree_on, batches_of, bearing, map_tokens
from localrag.query.draft import Draft, Point, Source
from localrag.query.modes.passages import passage_sources
from localrag.query.modes.select_reports import select_reports
from localrag.query.modes.themes import themes
from localrag.query.question import Question
from localrag.query.retrieval.context import quoted_answer
from localrag.records import Report
from localrag.store import corpus, extent, graph, vectors

REPORTS = 30  # a level with about this many reports is the default: enough detail, few enough calls
QUOTED = 100  # the same where no model reads them
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
        level, note = _level(question.options.level, project, QUOTED if question.extractive else REPORTS)
        ids = graph.reported_at(project.db, level)
    if question.extractive:
        points = themes(question, ids, project)
        return Draft(points, "" if points else "No report of this level bears on the question.", level, note)
    scored = bearing(question, ids, extent.coverage_of(project.db, ids), project)
    order = [*scored, *(i for i in ids if i not in scored)]
    points, read = await _map_reduce(question, project, order, _reports(project), "reports")
    if not points:
        read += " The model gave no point; these are the most relevant reports."
    return Draft(points or themes(question, ids, project), level=level, note=f"{note} {read}".strip())


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


def _level(asked: int | None, project: Project, most: int) -> tuple[int, str]:
    """The level asked for, else the deepest with at most `most` communities, else the coarsest."""
    sizes = graph.communities_per_level(project.db)
    if asked is not None:
        if asked not in sizes:
            raise UsageError(f"There is no community level {asked}.", f"Levels here: 0 (coarsest) to {max(sizes)}.")
        return asked, ""
    level = max((n for n, size in sizes.items() if size <= most), default=0)
    return level, f"Level {level} of 0 to {max(sizes)}: {sizes[level]} reports."


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
    more = question.count(f"reading {{}} {what} …", sum(map(len, batches)))

    async def mapped(batch: list[Source]) -> list[Scored]:
        found = await _map(question, batch, project, budgets.points)
        more(len(batch))
        return found

    scored = [p for part in await in_window(mapped(batch) for batch in batches) for p in part]
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
    prompt = load_prompt("abstractive/map", project.settings.prompts)
    messages = prompt.fill(question=question.text, reports=reports)
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
    echo = Echo(prompt, question.text, reports)
    return [
        (p["score"], Point(p["description"], tuple(q for i in dict.fromkeys(p["evidence"]) for q in by_id[i].quotes), written=True))
        for p in whole_strings(json.loads(said), schema)["points"]
        if not echo.is_in(p["description"])
    ]


def _points_schema(ids: list[str], points: int, script: Script) -> dict[str, Any]:
    point = object_schema(
        description={"type": "string", "minLength": 10, "maxLength": script.characters(POINT)},
        evidence={"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ids}},
        score={"type": "integer", "minimum": 0, "maximum": 100},
    )
    return object_schema(points={"type": "array", "maxItems": points, "items": point})
