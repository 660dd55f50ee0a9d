"""Which reports a global question needs: from the coarsest level down, following only what bears on it (dynamic community selection)."""

from collections import defaultdict
from collections.abc import Sequence

from localrag.llm.grammar import choice
from localrag.llm.model import in_window
from localrag.llm.prompts import load_prompt
from localrag.project import Project
from localrag.query.answering.written import budgets_of, call_alone
from localrag.query.cost import agree_on, nearness
from localrag.query.question import Question
from localrag.store import graph

NEEDED = 1  # a rating of 0 to 5 from which on a report is kept and its parts are looked at
NEAR = 0.05  # cosine below the best report of a level, from which on a report does not bear on the question
RATING = 4  # tokens of a rating


async def select_reports(question: Question, project: Project) -> tuple[list[str], str]:
    """The most detailed reports that bear on the question, by community, and a note.

    A report gives way to those below it that bear on it too. Where a level has more than the question may ask about, those nearest it are
    rated: half of its calls are for ratings, an equal part of what is left of them for every level.
    """
    reported = graph.reported(project.db)
    below: defaultdict[str | None, list[str]] = defaultdict(list)
    for community, _, above in reported:
        below[above].append(community)
    parent = {community: above for community, _, above in reported}
    levels = 1 + max((level for _, level, _ in reported), default=0)
    left = await _ratings(question, project, len(reported))
    kept: dict[str, None] = {}
    rated = passed = 0
    waiting = [community for community, level, _ in reported if level == 0]
    for level in range(levels):
        near = nearness(question, waiting, project)
        most = len(waiting) if left is None else max(1, left // (levels - level))
        chosen = sorted(waiting, key=lambda i: -near.get(i, 0.0))[:most]
        rated, passed, left = rated + len(chosen), passed + len(waiting) - len(chosen), None if left is None else left - len(chosen)
        ratings = await _rate(question, chosen, near, project)
        relevant = [i for i in chosen if ratings[i] >= NEEDED]
        for i in relevant:
            kept.pop(parent[i] or "", None)
            kept[i] = None
        # Where nothing of a level bears on the question, its parts may still.
        waiting = [part for i in (relevant or ([] if kept else chosen)) for part in below[i]]
    note = f"{len(kept)} reports chosen of {rated} looked at, from the coarsest level down."
    return list(kept), note + f" {passed} that are less near the question were passed over." * bool(passed)


async def _ratings(question: Question, project: Project, reports: int) -> int | None:
    """How many ratings the model may be asked for, None for any number; what they and the answer may cost is said, and is taken off."""
    if not _asks_the_model(question):
        return None
    budget = question.budget
    most = reports if budget.calls is None else min(reports, budget.calls // 2)
    first = graph.reports_of(project.db, [i for i, *_ in graph.reported(project.db)[:20]])
    sizes = [await project.model.count(r.markdown) for r in first]
    size = sum(sizes) // max(1, len(sizes))
    prompt = load_prompt("abstractive/rate", project.settings.prompts)
    fixed = sum([await project.model.count(body) for _, body in prompt.messages]) + RATING
    batch = (await budgets_of(question, project)).map_batch
    reading = min(most, -(-2 * most * size // batch))  # a batch is more than half full, but for one of a single report
    agree_on(question, project, most + reading + 1, most * (size + fixed) + (reading + 1) * batch)
    if budget.tokens is not None:
        budget.tokens -= most * (size + fixed)
    return None if budget.calls is None else most


def _asks_the_model(question: Question) -> bool:
    return not (question.extractive or question.options.context_only)


async def _rate(question: Question, ids: Sequence[str], near: dict[str, float], project: Project) -> dict[str, int]:
    """0 to 5 for each report: by the model; by nearness to the question where the answer is extractive or the budget is used up."""
    best = max((near.get(i, 0.0) for i in ids), default=0.0)
    by_nearness = {i: 5 if near.get(i, 0.0) >= best - NEAR else 0 for i in ids}
    if not _asks_the_model(question):
        return by_nearness

    more = question.count("rating {} reports …", len(ids))

    async def one(community: str) -> int | None:
        (report,) = graph.reports_of(project.db, [community])
        messages = load_prompt("abstractive/rate", project.settings.prompts).fill(question=question.text, report=report.markdown)
        said = await call_alone(question, project, "rate", messages, choice(list("012345")), RATING)
        more(1)
        return None if said is None else int(said)

    said = await in_window(one(i) for i in ids)
    return {i: by_nearness[i] if s is None else s for i, s in zip(ids, said, strict=True)}
