"""What a question may read, and what that costs: reports and passages in the order of how much they bear on it, up to its budget."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from localrag.errors import LocalragError
from localrag.llm.budgets import Budgets, Script
from localrag.llm.prompts import load_prompt
from localrag.llm.speeds import seconds_for
from localrag.project import Project
from localrag.query.draft import Source
from localrag.query.question import Question
from localrag.store import vectors

MANY = 10  # calls from which on their cost is said beforehand
MINUTE = 60.0  # seconds from which on a person is asked
POINT = 400  # characters of a point of the map step
USED = 1 / 3  # of the room for an answer, on average
PORTION = 2000  # vectors held at once
LOADED = 50  # texts loaded at once

Load = Callable[[Sequence[str]], list[Source]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer will take of a model: calls, tokens read and written, seconds; None where its speed on this machine is not known."""

    calls: int
    tokens: int
    seconds: float | None

    def __str__(self) -> str:
        if self.seconds is None:
            time = "this machine's speed with the model is not known yet"
        else:
            time = f"about {self.seconds:.0f} s" if self.seconds < 100 else f"about {self.seconds / 60:.0f} minutes"
        return f"{self.calls} calls to the model, about {self.tokens:,} tokens, {time}"


def agree_on(question: Question, project: Project, calls: int, tokens: int) -> None:
    """Say what an answer will cost where that is much, and ask where it may take more than a minute and somebody can be asked.

    Once for a question. Raises LocalragError where the answer is no.
    """
    cost = Cost(calls, tokens, seconds_for(tokens, project.model.file))
    if question.budget.agreed or (calls < MANY and (cost.seconds or 0) <= MINUTE):
        return
    question.budget.agreed = True
    project.model.say(f"This takes {cost}. Less: --max-calls N, --max-seconds S, --style extractive")
    long = cost.seconds is None or cost.seconds > MINUTE
    if long and question.watch.agree is not None and not question.watch.agree():
        raise LocalragError("The model was not asked.", "With fewer calls: --max-calls N. With none: --style extractive")


def nearness(question: Question, ids: Sequence[str], project: Project) -> dict[str, float]:
    """Report → its cosine with the question, of those that have a vector; some thousand vectors are in memory at a time."""
    found: dict[str, float] = {}
    for at in range(0, len(ids), PORTION):
        some, matrix = vectors.load(project.db, "report", ids[at : at + PORTION])
        if some:
            found |= zip(some, (matrix @ question.vector).tolist(), strict=True)
    return found


def bearing(question: Question, ids: Sequence[str], covered: Mapping[str, float], project: Project) -> dict[str, float]:
    """Report → how much it bears on the question, 0 to 1, best first, by its nearness to it and how much of the documents it covers.

    A report without a vector is left out.
    """
    near = nearness(question, ids, project)
    share = np.array([covered.get(i, 0.0) for i in near])
    score = np.clip(0.4 * np.array(list(near.values())) + 0.08 * (1 + 9 * np.sqrt(share)), 0, 1)
    keys = list(near)
    return {keys[n]: float(score[n]) for n in np.argsort(-score, kind="stable")}


async def batches_of(question: Question, project: Project, ids: Sequence[str], load: Load, budgets: Budgets) -> list[list[Source]]:
    """The sources for map calls, in batches: of `ids`, most relevant first, as many as the question's budget has room for, shuffled.

    One that is larger than a batch alone is a batch of its own. `question.budget.stopped` says that a limit of the user's cut some off.
    """
    calls = await _map_calls(question, project, budgets)
    kept = await _first(ids, load, project, None if calls is None else calls * budgets.map_batch)
    while True:
        drawn = list(kept)
        random.Random(question.options.seed).shuffle(drawn)
        batches = list(_packed(drawn, budgets.map_batch))
        if calls is None or len(batches) <= calls:
            break
        kept.pop()
    if len(kept) < len(ids) and question.options.max_calls is not None:
        question.budget.stopped = True
    return batches


async def map_tokens(question: Question, project: Project, budgets: Budgets) -> int:
    """What a map call costs besides the texts it reads: its instructions, and what it may write."""
    script = await Script.of(project.model.count, question.text, language=project.settings.language)
    bodies = [body for _, body in load_prompt("abstractive/map", project.settings.prompts).messages]
    fixed = sum([await project.model.count(body) for body in (*bodies, question.text)])
    return fixed + int(USED * script.tokens(budgets.points * POINT))


async def _map_calls(question: Question, project: Project, budgets: Budgets) -> int | None:
    """How many map calls the question's budget has room for, one call left for the answer; None for any number."""
    budget = question.budget
    if budget.calls is None:
        return None
    calls = max(budget.calls - 1, min(budget.calls, 1))
    if budget.tokens is None:
        return calls
    left = budget.tokens - budgets.reduce
    return min(calls, max(1, left // (budgets.map_batch + await map_tokens(question, project, budgets))))


async def _first(ids: Sequence[str], load: Load, project: Project, room: int | None) -> list[tuple[Source, int]]:
    """The first sources with their tokens, as many as have room together; one at least, if there is any room."""
    kept: list[tuple[Source, int]] = []
    used = 0
    for at in range(0, len(ids) if room is None or room > 0 else 0, LOADED):
        for source in load(ids[at : at + LOADED]):
            size = await project.model.count(source.text)
            if room is not None and used + size > room and kept:
                return kept
            kept.append((source, size))
            used += size
    return kept


def _packed(sources: Sequence[tuple[Source, int]], budget: int) -> Iterator[list[Source]]:
    batch: list[Source] = []
    used = 0
    for source, size in sources:
        if used + size > budget and batch:
            yield batch
            batch, used = [], 0
        batch.append(source)
        used += size
    if batch:
        yield batch
