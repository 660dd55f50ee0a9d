"""What the model is asked while a question is answered, within the question's budget; and the prose it writes over numbered sources."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.errors import AnswerTruncated, ContextTooSmall
from localrag.llm.budgets import LEAST, Budgets, Script
from localrag.llm.echo import Echo
from localrag.llm.grammar import cited_lines
from localrag.llm.model import CALL_FAILED, PERSON
from localrag.llm.prompts import Message, load_prompt
from localrag.project import Project, budgets_here, choose_budgets
from localrag.query.answering.cite import points_of
from localrag.query.draft import Point, Source
from localrag.query.question import Question
from localrag.query.retrieval.answerable import begins_unsaid
from localrag.text.marks import round_marks
from localrag.text.plain import sentences, squeeze

LINE = 600  # characters allowed for the line that makes an answer long enough
LEAST_PROSE = 250  # tokens; with room for less, an answer is written from fewer sources
LINE_TOKENS = 60  # of a sentence with its citations
UNSAID = "[0]"  # the mark of a line that says that the sources do not answer the question
AGAIN = "Answer in your own words from the sources above. Repeat neither the question nor these instructions."
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
    """The model's answer from sources, as cited points. A small window is shown fewer sources.

    There are no points where the budget is used up, where the model says that the sources do not answer the question (`budget.declined`),
    or where it repeats its prompt twice (`budget.echoed`). With `context_only` the sources themselves are the points.
    """
    if question.options.context_only:
        return [Point(s.text, s.quotes) for s in sources]
    question.budget.declined, question.budget.echoed = "", False
    if not sources:
        return []
    budgets = await budgets_of(question, project)
    question.tell(f"reading {len(sources)} {'passages' if task == 'answer' else 'points'} …")
    for more in ("", AGAIN):
        lines = await _lines(question, project, sources, task, budgets, more)
        question.budget.echoed = lines.echoes > 0 and not lines.points
        if not question.budget.echoed:
            break
    return lines.points


async def _lines(
    question: Question, project: Project, sources: Sequence[Source], task: str, budgets: Budgets, more: str, most_tokens: int = 0
) -> "_Lines":
    """The lines that the model writes, in at most `most_tokens` unless that is 0; `more` is an instruction after the question."""
    numbered = numbered_lines(sources)
    prompt = load_prompt(f"abstractive/{task}", project.settings.prompts)
    script = await Script.of(project.model.count, question.text, numbered, language=project.settings.language)
    most, longest, enough = 1 if question.one_sentence else budgets.sentences, script.characters(LINE), script.characters(budgets.prose)
    tokens = script.tokens(longest + enough) + MARKS * most
    if most_tokens:
        enough = max(1, enough - int((tokens - most_tokens) / script.density))
        tokens, most = most_tokens, max(1, min(most, most_tokens // LINE_TOKENS))
    messages = prompt.fill(
        question=f"{question.text}\n\n{more}".strip(),
        sources=numbered,
        language=project.settings.language or "the language of the question",
        form=_form(question, most),
    )
    marks = [f"[{n}]" for n in range(1, len(sources) + 1)]
    grammar = cited_lines(marks, most=most, enough=enough, none=UNSAID)
    lines = _Lines(question, sources, Echo(prompt, question.text, numbered, more, _form(question, most)))
    try:
        await lines.of(lambda on_text: call(question, project, task, messages, grammar, tokens, on_text))
    except ContextTooSmall as error:
        if not most_tokens and LEAST_PROSE <= error.left < tokens:
            return await _lines(question, project, sources, task, budgets, more, error.left)
        if len(sources) == 1:
            raise
        return await _lines(question, project, sources[: len(sources) // 2], task, budgets, more)
    return lines


def numbered_lines(sources: Sequence[Source]) -> str:
    """The sources as a prompt shows them, one a line: a number of a source's own can neither begin a line nor look like ours."""
    return "\n".join(f"[{n}] {round_marks(squeeze(s.text))}" for n, s in enumerate(sources, 1))


def _form(question: Question, most: int) -> str:
    """The form of answer that the prompt asks for, with the number of sentences that there is room for."""
    if question.one_sentence:
        return question.options.response_type
    return f"{question.options.response_type or 'short, plain sentences'} (at most {most})"


class _Lines:
    """Collects the points of prose while it is written, and hands each on as soon as its line is complete.

    A line that repeats the prompt is dropped. Of an answer that was cut off, the whole sentences are kept.
    """

    def __init__(self, question: Question, sources: Sequence[Source], echo: Echo) -> None:
        self.points: list[Point] = []
        self.echoes = 0
        self._declined: Point | None = None
        self._question, self._sources, self._echo = question, sources, echo
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
                if not self._echo.is_in(begun := text[self._taken :].strip()):
                    self._question.sketch(begun)
            self._take(await writing or "")
        except AnswerTruncated as error:
            self._question.budget.cut_off = True
            whole = error.so_far.rfind("\n") + 1
            self._take(error.so_far[:whole])
            self._take_unfinished_line(error.so_far[whole:])
        finally:
            writing.cancel()

    def _take(self, text: str) -> None:
        for line in text[self._taken :].splitlines():
            for point in points_of(line, self._sources):
                if self._echo.is_in(point.text):
                    self.echoes += 1
                elif not self.points and not self._declined and _declines(line, point.text):
                    self._declined, self._question.budget.declined = point, point.text.replace(UNSAID, "").strip()
                else:
                    self._add(point)
        self._taken = max(self._taken, len(text))

    def _take_unfinished_line(self, line: str) -> None:
        """Take the whole sentences of a line that was cut off before its citations; they are checked against all sources."""
        spans = sentences(line)
        if spans and not _ENDED.search(line):
            spans.pop()
        text = line[: spans[-1].end].strip() if spans else ""
        if text and not self._echo.is_in(text):
            self._add(Point(text, tuple(dict.fromkeys(q for s in self._sources for q in s.quotes)), written=True))

    def _add(self, point: Point) -> None:
        before, self._declined = self._declined, None
        self._question.budget.declined = ""  # an answer follows, so the model has not declined
        for new in (before, point) if before else (point,):
            self.points.append(new)
            if self._question.on_point:
                self._question.on_point(new)


def _declines(line: str, text: str) -> bool:
    """Whether a line only says that the sources do not answer the question: one sentence marked so, or the program's own phrase for it."""
    return (line.rstrip().endswith(UNSAID) and len(sentences(text)) == 1) or begins_unsaid(line)


_ENDED = re.compile(r"[.!?…。！？][\"”’')\]]*\s*$")


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
