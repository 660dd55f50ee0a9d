"""Cost estimate of an answer, and ranking and batching of the reports and passages to read within the budget."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from localrag.errors import LocalragError
from localrag.llm.budgets import TokenBudgets, TokenDensity, estimate_seconds
from localrag.llm.prompts import load_prompt
from localrag.project import Project
from localrag.query.question import DraftSource, Question
from localrag.records import Quote, Report
from localrag.store import vectors

CONFIRM_FROM_CALLS = 10  # the cost is shown before so many calls
CONFIRM_FROM_S = 60.0  # confirmation is requested for longer answers
MAX_POINT_CHARS = 400  # of a point of the map step
TYPICAL_OUTPUT_SHARE = 1 / 3  # of max_tokens, on average
MAX_MAP_S = 60.0  # seconds of map calls without being asked for
SAME_QUOTES = 0.8  # share of a report's quotes that another has, from which on both say the same
VECTORS_PER_READ = 2000  # in memory at a time
SOURCES_PER_READ = 50

LoadSources = Callable[[Sequence[str]], list[DraftSource]]


def confirm_cost(question: Question, project: Project, calls: int, tokens: int) -> None:
    """Show the cost of an answer if it is high, and ask for confirmation if it may take more than a minute and someone can answer.

    Once per question. Raises LocalragError if the user declines.
    """
    seconds = estimate_seconds(tokens, project.model.file)  # None if its speed on this machine is unknown
    if question.budget.is_confirmed or (calls < CONFIRM_FROM_CALLS and (seconds or 0) <= CONFIRM_FROM_S):
        return
    question.budget.is_confirmed = True
    time = "this machine's speed with the model is not known yet"
    if seconds is not None:
        time = f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} minutes"
    cost = f"{calls} model calls, about {tokens:,} tokens, {time}"
    project.model.notify(f"This takes {cost}. Less: --max-calls N, --max-seconds S, --style extractive")
    if (seconds is None or seconds > CONFIRM_FROM_S) and question.watch.confirm_cost is not None and not question.watch.confirm_cost():
        raise LocalragError("The model was not called.", "With fewer calls: --max-calls N. With none: --style extractive")


def distinct_reports(reports: Sequence[Report]) -> list[Report]:
    """The reports without those that quote nearly the same as one before them: of nested communities that are equal."""
    chosen: list[tuple[Report, set[Quote]]] = []
    for report in reports:
        quotes = {q for f in report.findings for q in f.quotes}
        is_known = any(len(quotes & other) >= SAME_QUOTES * max(1, len(quotes)) or report.summary == r.summary for r, other in chosen)
        if not is_known:
            chosen.append((report, quotes))
    return [report for report, _ in chosen]


def is_slow_map(question: Question, project: Project, tokens: int) -> bool:
    """Whether map calls over so many tokens take longer on this machine than a person waits, or allows; not if calls were asked for."""
    speed, options = project.model.prefill_speed(), question.options
    allowed = MAX_MAP_S if options.max_seconds is None else options.max_seconds / 2  # the rest is for the answer
    return speed is not None and options.max_calls is None and tokens / speed > allowed


def cosine_to_question(question: Question, ids: Sequence[str], project: Project) -> dict[str, float]:
    """Cosine to the question by report id, for reports with a vector; reads VECTORS_PER_READ at a time."""
    cosines: dict[str, float] = {}
    for start in range(0, len(ids), VECTORS_PER_READ):
        found_ids, matrix = vectors.load_vectors(project.db, "report", ids[start : start + VECTORS_PER_READ])
        if found_ids:
            cosines |= zip(found_ids, (matrix @ question.vector).tolist(), strict=True)
    return cosines


def rank_by_relevance(question: Question, ids: Sequence[str], covered: Mapping[str, float], project: Project) -> dict[str, float]:
    """Report ids ranked by relevance, 0 to 1, best first: cosine to the question, weighted by corpus coverage.

    Reports without a vector are omitted.
    """
    cosines = cosine_to_question(question, ids, project)
    share = np.array([covered.get(i, 0.0) for i in cosines])
    score = np.clip(0.4 * np.array(list(cosines.values())) + 0.08 * (1 + 9 * np.sqrt(share)), 0, 1)
    keys = list(cosines)
    return {keys[n]: float(score[n]) for n in np.argsort(-score, kind="stable")}


async def map_batches(
    question: Question, project: Project, ids: Sequence[str], load: LoadSources, budgets: TokenBudgets
) -> list[list[DraftSource]]:
    """Batches of sources for map calls: as many of `ids` (most relevant first) as the question's budget allows, shuffled.

    A source larger than a batch is a batch of its own. `question.budget.is_exhausted` is set if a user's limit excluded some.
    """
    calls = await _map_calls(question, project, budgets)
    sources = await _sources_within(ids, load, project, None if calls is None else calls * budgets.map_batch)
    while True:
        shuffled = list(sources)
        random.Random(question.options.seed).shuffle(shuffled)
        batches = list(_packed(shuffled, budgets.map_batch))
        if calls is None or len(batches) <= calls:
            break
        sources.pop()
    if len(sources) < len(ids) and question.options.max_calls is not None:
        question.budget.is_exhausted = True
    return batches


async def map_call_overhead(question: Question, project: Project, budgets: TokenBudgets) -> int:
    """Tokens of a map call besides the texts: its instructions, and its expected output."""
    script = await TokenDensity.measure(project.model.count, question.text, language=project.settings.language)
    bodies = [body for _, body in load_prompt("abstractive/map", project.settings.prompts).messages]
    fixed = sum([await project.model.count(body) for body in (*bodies, question.text)])
    return fixed + int(TYPICAL_OUTPUT_SHARE * script.max_tokens(budgets.points * MAX_POINT_CHARS))


async def _map_calls(question: Question, project: Project, budgets: TokenBudgets) -> int | None:
    """Number of map calls that the question's budget allows, with one call reserved for the answer; None for any number."""
    budget = question.budget
    if budget.calls is None:
        return None
    calls = max(budget.calls - 1, min(budget.calls, 1))
    if budget.tokens is None:
        return calls
    remaining = budget.tokens - budgets.reduce_context
    return min(calls, max(1, remaining // (budgets.map_batch + await map_call_overhead(question, project, budgets))))


async def _sources_within(ids: Sequence[str], load: LoadSources, project: Project, room: int | None) -> list[tuple[DraftSource, int]]:
    """The first sources, with their tokens, that fit into `room` tokens together; at least one if there is any room."""
    sources: list[tuple[DraftSource, int]] = []
    used = 0
    for start in range(0, len(ids) if room is None or room > 0 else 0, SOURCES_PER_READ):
        for source in load(ids[start : start + SOURCES_PER_READ]):
            size = await project.model.count(source.text)
            if room is not None and used + size > room and sources:
                return sources
            sources.append((source, size))
            used += size
    return sources


def _packed(sources: Sequence[tuple[DraftSource, int]], budget: int) -> Iterator[list[DraftSource]]:
    batch: list[DraftSource] = []
    used = 0
    for source, size in sources:
        if used + size > budget and batch:
            yield batch
            batch, used = [], 0
        batch.append(source)
        used += size
    if batch:
        yield batch
