"""Which reports a global question needs: from the coarsest level down, following only what bears on it (dynamic community selection)."""

from localrag.llm import in_window
from localrag.llm.grammar import choice
from localrag.llm.project import Project
from localrag.llm.prompts import load_prompt
from localrag.query.question import Question
from localrag.query.write import call_alone
from localrag.records import Report
from localrag.store import graph, vectors

NEEDED = 1  # a rating of 0 to 5 from which on a report is kept and its parts are looked at
NEAR = 0.05  # cosine below the best report of a level, from which on a report does not bear on the question


async def select_reports(question: Question, project: Project) -> tuple[list[Report], str]:
    """The most detailed reports that bear on the question, and a note. A report gives way to those below it that bear on it too."""
    levels = graph.communities(project.db)
    own = {r.community_id: r for r in graph.reports(project.db)}
    kept: dict[str, Report] = {}
    rated = 0
    waiting = [c for c in levels if c.level == 0 and c.id in own]
    level = 0
    while waiting:
        ratings = await _rate(question, [own[c.id] for c in waiting], project)
        rated += len(waiting)
        relevant = [c for c, rating in zip(waiting, ratings, strict=True) if rating >= NEEDED]
        for c in relevant:
            kept.pop(c.parent_id or "", None)
            kept[c.id] = own[c.id]
        level += 1
        # Where nothing of a level bears on the question, its parts may still.
        above = {c.id for c in (relevant or ([] if kept else waiting))}
        waiting = [c for c in levels if c.level == level and c.parent_id in above and c.id in own and c.entity_ids]
    return list(kept.values()), f"{len(kept)} reports chosen of {rated} looked at, from the coarsest level down."


async def _rate(question: Question, reports: list[Report], project: Project) -> list[int]:
    """0 to 5 for each report: by the model; by nearness to the question where the answer is extractive or the budget is used up."""
    if question.extractive or question.options.context_only:
        return _by_nearness(question, reports, project)

    async def one(report: Report) -> int | None:
        messages = load_prompt("abstractive/rate").fill(question=question.text, report=report.markdown)
        said = await call_alone(question, project, "rate", messages, choice(list("012345")), 4)
        return None if said is None else int(said)

    said = await in_window(one(r) for r in reports)
    near = _by_nearness(question, reports, project)
    return [n if s is None else s for s, n in zip(said, near, strict=True)]


def _by_nearness(question: Question, reports: list[Report], project: Project) -> list[int]:
    ids, matrix = vectors.load(project.db, "report")
    row = {key: n for n, key in enumerate(ids)}
    near = [float(matrix[row[r.community_id]] @ question.vector) if r.community_id in row else 0.0 for r in reports]
    return [5 if s >= max(near) - NEAR else 0 for s in near]
