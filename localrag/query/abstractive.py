"""Abstractive answers: model calls within the question's budget, and cited prose over numbered sources."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.errors import AnswerTruncated, ContextTooSmall
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity
from localrag.llm.grammar import cited_lines
from localrag.llm.model import CALL_ERRORS, PERSON, EchoDetector
from localrag.llm.prompts import Message, load_prompt
from localrag.project import Project, current_token_budgets, resolve_token_budgets
from localrag.query.citations import parse_cited_prose, round_marks
from localrag.query.extractive import is_refusal
from localrag.query.question import AnswerPoint, DraftSource, Question
from localrag.text.sentences import collapse_whitespace, sentences

MAX_LINE_CHARS = 600  # of the last line of an answer
LEAST_PROSE = 250  # tokens; with less room, fewer sources are used
LINE_TOKENS = 60  # of a sentence with its citations
NOT_SAID = "[0]"  # marks a line that says that the sources do not answer the question
RETRY_INSTRUCTION = "Answer in your own words from the sources above. Repeat neither the question nor these instructions."
TOKENS_FOR_MARKS = 24  # of a sentence's citations, also as a server's JSON


async def effective_budgets(question: Question, project: Project) -> TokenBudgets:
    """The index's budgets, or those for a window set by the user; extractive answers always use the index's."""
    if question.style == "extractive":
        return MIN_BUDGETS
    return await (current_token_budgets if project.model.has_context_override else resolve_token_budgets)(project)


async def ask_within_budget(
    question: Question,
    project: Project,
    task: str,
    messages: Sequence[Message],
    grammar: Grammar,
    max_tokens: int,
    on_text: Callable[[str], None] | None = None,
) -> str | None:
    """The model's answer, or None if the question's calls or seconds are used up. Raises the errors of `ChatModel.ask`."""
    if not question.budget.take_call():
        return None
    sampling = Sampling(question.options.temperature, seed=question.options.seed) if question.options.temperature else GREEDY
    try:
        async with question.budget.timeout():
            reply = await project.model.ask(
                task, messages, max_tokens=max_tokens, grammar=grammar, sampling=sampling, priority=PERSON, on_text=on_text
            )
    except TimeoutError:
        question.budget.is_exhausted = True
        return None
    return reply.text


async def try_ask_within_budget(
    question: Question, project: Project, task: str, messages: Sequence[Message], grammar: Grammar, max_tokens: int
) -> str | None:
    """As `ask_within_budget`, but None also for a call that fails; the failure is noted with the answer."""
    try:
        return await ask_within_budget(question, project, task, messages, grammar, max_tokens)
    except CALL_ERRORS as error:
        question.budget.failures.append(str(error))
        return None


async def write_cited_prose(question: Question, project: Project, sources: Sequence[DraftSource], task: str) -> list[AnswerPoint]:
    """The model's answer from sources, as cited points. A small window gets fewer sources.

    Empty if the budget is used up, if the model says that the sources do not answer the question (`budget.declined`), or if it repeats its
    prompt twice (`budget.echoed`). With `context_only` the sources themselves are the points.
    """
    if question.options.context_only:
        return [AnswerPoint(s.text, s.quotes) for s in sources]
    question.budget.declined, question.budget.echoed = "", False
    if not sources:
        return []
    budgets = await effective_budgets(question, project)
    question.report_status(f"reading {len(sources)} {'passages' if task == 'answer' else 'points'} …")
    for more in ("", RETRY_INSTRUCTION):
        lines = await _lines(question, project, sources, task, budgets, more)
        question.budget.echoed = lines.echoes > 0 and not lines.points
        if not question.budget.echoed:
            break
    return lines.points


async def _lines(
    question: Question, project: Project, sources: Sequence[DraftSource], task: str, budgets: TokenBudgets, more: str, most_tokens: int = 0
) -> "_PointStream":
    """The lines that the model writes, in at most `most_tokens` unless that is 0; `more` is an instruction after the question."""
    numbered = numbered_lines(sources)
    prompt = load_prompt(f"abstractive/{task}", project.settings.prompts)
    script = await TokenDensity.measure(project.model.count, question.text, numbered, language=project.settings.language)
    max_lines, max_line_chars, max_chars = (
        1 if question.wants_one_sentence else budgets.max_answer_sentences,
        script.max_chars(MAX_LINE_CHARS),
        script.max_chars(budgets.max_answer_chars),
    )
    tokens = script.max_tokens(max_line_chars + max_chars) + TOKENS_FOR_MARKS * max_lines
    if most_tokens:
        max_chars = max(1, max_chars - int((tokens - most_tokens) / script.tokens_per_char))
        tokens, max_lines = most_tokens, max(1, min(max_lines, most_tokens // LINE_TOKENS))
    messages = prompt.fill(
        question=f"{question.text}\n\n{more}".strip(),
        sources=numbered,
        language=project.settings.language or "the language of the question",
        form=_form(question, max_lines),
    )
    marks = [f"[{n}]" for n in range(1, len(sources) + 1)]
    grammar = cited_lines(marks, most=max_lines, enough=max_chars, none=NOT_SAID)
    lines = _PointStream(question, sources, EchoDetector(prompt, question.text, numbered, more, _form(question, max_lines)))
    try:
        await lines.of(lambda on_text: ask_within_budget(question, project, task, messages, grammar, tokens, on_text))
    except ContextTooSmall as error:
        if not most_tokens and LEAST_PROSE <= error.left < tokens:
            return await _lines(question, project, sources, task, budgets, more, error.left)
        if len(sources) == 1:
            raise
        return await _lines(question, project, sources[: len(sources) // 2], task, budgets, more)
    return lines


def numbered_lines(sources: Sequence[DraftSource]) -> str:
    """The sources in a prompt, one numbered line each; their own numbers in brackets are changed, so that they cannot be confused."""
    return "\n".join(f"[{n}] {round_marks(collapse_whitespace(s.text))}" for n, s in enumerate(sources, 1))


def _form(question: Question, max_sentences: int) -> str:
    """The requested form of the answer for the prompt, with the maximal number of sentences."""
    if question.wants_one_sentence:
        return question.options.response_type
    return f"{question.options.response_type or 'short, plain sentences'} (at most {max_sentences})"


class _PointStream:
    """Collects the points of prose while it is generated, and passes each on when its line is complete.

    A line that repeats the prompt is dropped. Of a truncated answer, the complete sentences are kept.
    """

    def __init__(self, question: Question, sources: Sequence[DraftSource], echo: EchoDetector) -> None:
        self.points: list[AnswerPoint] = []
        self.echoes = 0
        self._declined: AnswerPoint | None = None
        self._question, self._sources, self._echo = question, sources, echo
        self._taken = 0  # characters processed

    async def of(self, calling: Callable[[Callable[[str], None]], Coroutine[Any, Any, str | None]]) -> None:
        """Process the prose of a call. Points are passed on by this task, so that their errors are raised here."""
        chunks: asyncio.Queue[str | None] = asyncio.Queue()
        call = asyncio.create_task(calling(chunks.put_nowait))
        call.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            text = ""
            while (chunk := await chunks.get()) is not None:
                text += chunk
                self._take(text[: text.rfind("\n") + 1])
                if not self._echo.is_in(unfinished := text[self._taken :].strip()):
                    self._question.show_draft(unfinished)
            self._take(await call or "")
        except AnswerTruncated as error:
            self._question.budget.was_truncated = True
            line_start = error.partial_text.rfind("\n") + 1
            self._take(error.partial_text[:line_start])
            self._take_unfinished_line(error.partial_text[line_start:])
        finally:
            call.cancel()

    def _take(self, text: str) -> None:
        for line in text[self._taken :].splitlines():
            for point in parse_cited_prose(line, self._sources):
                if self._echo.is_in(point.text):
                    self.echoes += 1
                elif not self.points and not self._declined and _declines(line, point.text):
                    self._declined, self._question.budget.declined = point, point.text.replace(NOT_SAID, "").strip()
                else:
                    self._add(point)
        self._taken = max(self._taken, len(text))

    def _take_unfinished_line(self, line: str) -> None:
        """Add the complete sentences of a line that was truncated before its citations; they are checked against all sources."""
        spans = sentences(line)
        if spans and not _ENDED.search(line):
            spans.pop()
        text = line[: spans[-1].end].strip() if spans else ""
        if text and not self._echo.is_in(text):
            self._add(AnswerPoint(text, tuple(dict.fromkeys(q for s in self._sources for q in s.quotes)), is_generated=True))

    def _add(self, point: AnswerPoint) -> None:
        before, self._declined = self._declined, None
        self._question.budget.declined = ""  # an answer follows
        for new in (before, point) if before else (point,):
            self.points.append(new)
            if self._question.on_point:
                self._question.on_point(new)


def _declines(line: str, text: str) -> bool:
    """Whether a line only says that the sources do not answer the question: one marked sentence, or the standard phrase for it."""
    return (line.rstrip().endswith(NOT_SAID) and len(sentences(text)) == 1) or is_refusal(line)


_ENDED = re.compile(r"[.!?…。！？][\"”’')\]]*\s*$")


async def sources_within(scored: Iterable[tuple[float, AnswerPoint]], project: Project, budget: int) -> list[DraftSource]:
    """The best of scored points, up to a number of tokens, as sources of the final answer."""
    best: list[DraftSource] = []
    used = 0
    for score, point in sorted((f for f in scored if f[0] > 0), key=lambda f: -f[0]):
        used += await project.model.count(point.text)
        if used > budget:
            break
        best.append(DraftSource(f"(score {score:.0f}) {point.text}", point.quotes))
    return best
