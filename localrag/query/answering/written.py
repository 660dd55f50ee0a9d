"""What the model is asked while a question is answered, within the question's budget; and the prose it writes over numbered sources."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.errors import AnswerTruncated, ContextTooSmall
from localrag.llm.budgets import LEAST, Budgets, Script
from localrag.llm.grammar import cited_lines
from localrag.llm.model import CALL_FAILED, PERSON
from localrag.llm.prompts import Message, load_prompt
from localrag.project import Project, budgets_here, choose_budgets
from localrag.query.answering.cite import points_of
from localrag.query.draft import Point, Source
from localrag.query.question import Question

LINE = 300  # characters of a sentence
MARKS = 24  # tokens of a sentence's citations, also where a server writes them as JSON


async def budgets_of(question: Question, project: Project) -> Budgets:
    """The index's budgets, or what fits the window that the user has set by hand; an extractive answer needs no model to tell."""
    if question.style == "extractive":
        return LEAST
    return await (budgets_here if project.model.window_by_hand else choose_budgets)(project)


async def call(
    question: Question,
    project: Project,
    task: str,
    messages: Sequence[Message],
    grammar: Grammar,
    max_tokens: int,
    on_text: Callable[[str], None] | None = None,
) -> str | None:
    """The model's answer, or None where the question's calls or seconds are used up. Raises what `Model.ask` raises."""
    if not question.budget.take():
        return None
    sampling = Sampling(question.options.temperature, seed=question.options.seed) if question.options.temperature else GREEDY
    try:
        async with question.budget.timeout():
            reply = await project.model.ask(
                task, messages, max_tokens=max_tokens, grammar=grammar, sampling=sampling, priority=PERSON, on_text=on_text
            )
    except TimeoutError:
        question.budget.stopped = True
        return None
    return reply.text


async def call_alone(
    question: Question, project: Project, task: str, messages: Sequence[Message], grammar: Grammar, max_tokens: int
) -> str | None:
    """As `call`, but a call that fails costs what it would have said and nothing else: None, and the answer's note says so."""
    try:
        return await call(question, project, task, messages, grammar, max_tokens)
    except CALL_FAILED as error:
        question.budget.failures.append(str(error))
        return None


async def write_prose(question: Question, project: Project, sources: Sequence[Source], task: str) -> list[Point]:
    """The model's answer from sources, as cited points; none where its budget is used up. Fewer sources are shown to a small window.

    Asked for the context only, the sources themselves are the points.
    """
    if question.options.context_only:
        return [Point(s.text, s.quotes) for s in sources]
    if not sources:
        return []
    numbered = "\n".join(f"[{n}] {s.text}" for n, s in enumerate(sources, 1))
    messages = load_prompt(f"abstractive/{task}", project.settings.prompts).fill(
        question=question.text,
        sources=numbered,
        language=project.settings.language or "the language of the question",
        form=question.options.response_type or "short, plain sentences",
    )
    budgets, count = await budgets_of(question, project), project.model.count
    script = await Script.of(count, question.text, numbered, language=project.settings.language)
    most, longest, enough = 1 if question.one_sentence else budgets.sentences, script.characters(LINE), script.characters(budgets.prose)
    grammar = cited_lines([f"[{n}]" for n in range(1, len(sources) + 1)], most=most, longest=longest, enough=enough)
    max_tokens = script.tokens(longest + enough) + MARKS * most
    question.tell(f"reading {len(sources)} {'passages' if task == 'answer' else 'points'} …")
    lines = _Lines(question, sources)
    try:
        await lines.of(lambda on_text: call(question, project, task, messages, grammar, max_tokens, on_text))
    except ContextTooSmall:
        if len(sources) == 1:
            raise
        return await write_prose(question, project, sources[: len(sources) // 2], task)
    return lines.points


class _Lines:
    """The points of prose while it is written, each handed on as soon as its line is complete; what is cut off keeps its complete lines."""

    def __init__(self, question: Question, sources: Sequence[Source]) -> None:
        self.points: list[Point] = []
        self._question, self._sources = question, sources
        self._taken = 0  # characters

    async def of(self, calling: Callable[[Callable[[str], None]], Coroutine[Any, Any, str | None]]) -> None:
        """Take the prose of a call. Points are handed on by this task, so that what goes wrong with one is raised here."""
        arriving: asyncio.Queue[str | None] = asyncio.Queue()
        writing = asyncio.create_task(calling(arriving.put_nowait))
        writing.add_done_callback(lambda _: arriving.put_nowait(None))
        try:
            text = ""
            while (new := await arriving.get()) is not None:
                text += new
                self._take(text[: text.rfind("\n") + 1])
                self._question.sketch(text[self._taken :].strip())
            self._take(await writing or "")
        except AnswerTruncated as error:
            self._question.budget.cut_off = True
            self._take(error.so_far[: error.so_far.rfind("\n") + 1])
        finally:
            writing.cancel()

    def _take(self, text: str) -> None:
        new = points_of(text[self._taken :], self._sources)
        self._taken = max(self._taken, len(text))
        for point in new:
            self.points.append(point)
            if self._question.on_point:
                self._question.on_point(point)


async def best_within(found: Iterable[tuple[float, Point]], project: Project, budget: int) -> list[Source]:
    """The best of scored points as sources to put an answer together from, in so many tokens."""
    best: list[Source] = []
    used = 0
    for score, point in sorted((f for f in found if f[0] > 0), key=lambda f: -f[0]):
        used += await project.model.count(point.text)
        if used > budget:
            break
        best.append(Source(f"(score {score:.0f}) {point.text}", point.quotes))
    return best
