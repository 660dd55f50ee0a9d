"""Abstractive answers: model calls within the question's budget, and free Markdown over numbered sources."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.errors import AnswerTruncated, ContextTooSmall, EmptyAnswer
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity
from localrag.llm.model import CALL_ERRORS, PERSON, EchoDetector
from localrag.llm.prompts import Message, load_prompt
from localrag.project import Project, current_token_budgets, resolve_token_budgets
from localrag.query.answer_markdown import AnswerUnit, UnitKind, UnitParser
from localrag.query.attribution import declines
from localrag.query.citations import ANSWER_MARK, round_marks, unit_point
from localrag.query.extractive import is_refusal
from localrag.query.question import AnswerPoint, DraftSource, Question
from localrag.records import Answer, Quote
from localrag.text.language import LANGUAGE_NAMES, detect_language
from localrag.text.sentences import RepetitionFilter, collapse_whitespace

MAX_LAST_UNIT_CHARS = 600  # characters, of the last sentence, row or code block of an answer, and of all citations
LEAST_PROSE = 250  # tokens; with less room, fewer sources are used
FIRST_WORD_S = 10.0  # seconds until the first word of an answer
LEAST_SOURCES, PROMPT_TOKENS = 500, 150  # tokens of sources, and of a prompt besides them that are not cached
CHARS_PER_WORD, CHARS_PER_TOKEN = 7, 3
MAX_TURNS, MAX_TURN_CHARS = 2, 800  # of the conversation before a question
MAX_REPEATED = 3  # repeated sentences in a row, at which an answer ends
MIN_JUDGED_CHARS = 30  # of prose, from which its language is told
RETRY_INSTRUCTIONS = {  # after an answer that was discarded
    "echo": "Answer in your own words from the sources above. Repeat neither the question nor these instructions.",
    "language": "Write the whole answer in {language}.",
}


async def effective_budgets(question: Question, project: Project) -> TokenBudgets:
    """The index's budgets, or those for a window set by the user; extractive answers always use the index's.

    Where this machine's speed with the model is known or estimated, a prompt has only what it reads within FIRST_WORD_S.
    """
    if question.style == "extractive":
        return MIN_BUDGETS
    budgets = await (current_token_budgets if project.model.has_context_override else resolve_token_budgets)(project)
    speed = project.model.prefill_speed()
    if speed is None:
        return budgets
    most = max(LEAST_SOURCES, int(speed * FIRST_WORD_S) - PROMPT_TOKENS)
    return replace(budgets, sources=min(budgets.sources, most), reduce_context=min(budgets.reduce_context, most))


async def ask_within_budget(
    question: Question,
    project: Project,
    task: str,
    messages: Sequence[Message],
    grammar: Grammar | None,
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


async def write_cited_prose(
    question: Question, project: Project, sources: Sequence[DraftSource], task: str, max_chars: int = 0
) -> list[AnswerPoint]:
    """The model's answer from sources, as points of one Markdown unit each, of about `max_chars` if given. A small window gets fewer.

    Asked a second time if it repeats its prompt, or writes in another language than requested. Empty if the budget is used up, if the model
    says that the sources do not answer the question (`budget.declined`), or if it repeats its prompt twice (`budget.echoed`). With
    `context_only` the sources themselves are the points.
    """
    if question.options.context_only:
        return [AnswerPoint(s.text, s.quotes) for s in sources]
    question.budget.declined, question.budget.echoed = "", False
    if not sources:
        return []
    budgets = await effective_budgets(question, project)
    budgets = replace(budgets, max_answer_chars=max_chars or budgets.max_answer_chars)
    question.report_status(f"reading {len(sources)} {'passages' if task == 'answer' else 'points'} …")
    more = ""
    for is_last in (False, True):
        stream = await _write_points(question, project, sources, task, budgets, more, is_last=is_last)
        if not stream.objection:
            break
        more = RETRY_INSTRUCTIONS[stream.objection].format(language=answer_language(question, project))
    question.budget.echoed = stream.objection == "echo" and not stream.points
    return stream.points


async def _write_points(
    question: Question,
    project: Project,
    sources: Sequence[DraftSource],
    task: str,
    budgets: TokenBudgets,
    more: str,
    most_tokens: int = 0,
    *,
    is_last: bool,
) -> "_PointStream":
    """The points that the model writes, in at most `most_tokens` unless that is 0; `more` is an instruction after the question."""
    numbered = numbered_sources(sources)
    prompt = load_prompt(f"abstractive/{task}", project.settings.prompts)
    language = answer_language(question, project)
    script = await TokenDensity.measure(project.model.count, question.text, numbered, language=project.settings.language)
    enough = script.max_chars(budgets.max_answer_chars)
    tokens = most_tokens or script.max_tokens(enough + script.max_chars(MAX_LAST_UNIT_CHARS))
    most_words = budgets.max_answer_chars // CHARS_PER_WORD
    form = f"{question.options.response_type or 'as the question needs it'}, at most {most_words} words"
    *system, asked = prompt.fill(question=f"{_asked_text(question)}\n\n{more}".strip(), sources=numbered, language=language, form=form)
    messages = [*system, *conversation_messages(question), asked]
    echo = EchoDetector(prompt, question.text, numbered, more, form)
    stream = _PointStream(question, sources, echo, language, enough, is_last=is_last)
    try:
        await stream.of(lambda on_text: ask_within_budget(question, project, task, messages, None, tokens, on_text))
    except EmptyAnswer as error:
        question.budget.failures.append(str(error))
    except ContextTooSmall as error:
        if not most_tokens and LEAST_PROSE <= error.left < tokens:
            return await _write_points(question, project, sources, task, budgets, more, error.left, is_last=is_last)
        if len(sources) == 1:
            raise
        return await _write_points(question, project, sources[: len(sources) // 2], task, budgets, more, is_last=is_last)
    return stream


def numbered_sources(sources: Sequence[DraftSource]) -> str:
    """The sources in a prompt, each below its number and place; their own numbers in brackets are changed, so that none is confused."""
    return "\n\n".join(f"[{n}] {round_marks(s.place)}".rstrip() + f"\n{round_marks(s.text.strip())}" for n, s in enumerate(sources, 1))


def _asked_text(question: Question) -> str:
    """The question in a prompt; one about the last answer names that."""
    if not question.history:
        return question.text
    return f"{question.asked}\n(This is about your last answer: “{unmarked_text(question.history[-1])[:MAX_TURN_CHARS]}”)"


def answer_language(question: Question, project: Project) -> str:
    """The English name of the language to answer in: the index's, if it is set, else the question's, which may ask for a translation."""
    name = project.settings.language or LANGUAGE_NAMES.get(detect_language(question.text), "the language of the question")
    return f"{name}, unless the question asks for another language" if question.history else name


def conversation_messages(question: Question) -> list[Message]:
    """The last turns of the conversation before a question about its last answer, as messages."""
    return [
        {"role": role, "content": text[:MAX_TURN_CHARS]}
        for turn in question.history[-MAX_TURNS:]
        for role, text in (("user", turn.question), ("assistant", unmarked_text(turn)))
    ]


def unmarked_text(answer: Answer) -> str:
    """The text of an answer without its marks and states, on one line."""
    return collapse_whitespace(ANSWER_MARK.sub("", answer.answer))


def previous_sources(question: Question, budget: int) -> list[DraftSource]:
    """What the last answer of the conversation cites, up to about so many tokens, for a question about that answer."""
    cited = question.history[-1].citations if question.history else ()
    sources, left = [], budget * CHARS_PER_TOKEN
    for citation in cited:
        left -= len(citation.quote)
        if left > 0:
            quote = Quote(citation.chunk_id, citation.start, citation.end, citation.quote)
            sources.append(DraftSource(citation.quote, (quote,), citation.path))
    return sources


class _PointStream:
    """Collects the units of an answer while it is generated, and passes each on as a point when it is complete.

    The first units are held back until it is clear that the answer is one: neither the prompt's own words, nor in another language than
    requested. If it is not, `objection` says what is wrong, and the answer is stopped; unless it `is_last`. A unit that repeats the prompt
    is dropped, and the answer ends when it goes round in circles or is long enough (`enough` characters).
    """

    def __init__(
        self, question: Question, sources: Sequence[DraftSource], echo: EchoDetector, language: str, enough: int, *, is_last: bool
    ) -> None:
        self.points: list[AnswerPoint] = []
        self.objection = ""
        self._question, self._sources, self._echo, self._language, self._enough = question, sources, echo, language, enough
        self._is_last = is_last
        self._parser = UnitParser()
        self._held: list[AnswerUnit] = []
        self._is_accepted = self._is_over = False
        self._said = RepetitionFilter()
        self._echoes = self._repeated = self._n_chars = 0
        self._n_read = 0  # characters of the model's text

    async def of(self, calling: Callable[[Callable[[str], None]], Coroutine[Any, Any, str | None]]) -> None:
        """Process the prose of a call. Points are passed on by this task, so that their errors are raised here."""
        chunks: asyncio.Queue[str | None] = asyncio.Queue()
        call = asyncio.create_task(calling(chunks.put_nowait))
        call.add_done_callback(lambda _: chunks.put_nowait(None))
        is_cut = False
        try:
            while (chunk := await chunks.get()) is not None and not self._is_over:
                self._feed(chunk)
            if not self._is_over:
                self._feed((await call or "")[self._n_read :])
        except AnswerTruncated as error:
            self._feed(error.partial_text[self._n_read :])
            self._question.budget.was_truncated = is_cut = True
        finally:
            call.cancel()
            await asyncio.wait([call])
        if not self._is_over:
            self._finish(is_cut=is_cut)

    def _feed(self, chunk: str) -> None:
        self._n_read += len(chunk)
        self._add_units(self._parser.feed(chunk))
        unfinished = self._parser.unfinished
        if not self._is_over and not self._echo.is_in(unfinished):
            held = "".join(unit.before + unit.text for unit in self._held)
            self._question.show_draft(f"{held} {unfinished}".strip())

    def _finish(self, *, is_cut: bool) -> None:
        self._add_units(self._parser.finish(is_cut=is_cut))
        claims = [unit.claim for unit in self._held if unit.claim]
        if len(claims) == 1 and _declines(claims[0]) and not self._is_over:
            self._question.budget.declined, self._held = claims[0], []
        if any(unit.claim for unit in self._held) and not self._is_over:
            self._decide(is_complete=True)
        if self._echoes and not self.points:
            self.objection = "echo"

    def _add_units(self, units: Iterable[AnswerUnit]) -> None:
        for unit in units:
            if self._is_over:
                return
            self._add_unit(unit)

    def _add_unit(self, unit: AnswerUnit) -> None:
        """Take the next unit, unless it is the prompt's; end the answer where it says nothing new any more or is long enough."""
        if self._echo.is_in(unit.claim or unit.text):
            self._echoes += 1
            return
        is_repeated = unit.kind is UnitKind.SENTENCE and not self._said.is_new(unit.claim)
        self._repeated = self._repeated + 1 if is_repeated else 0
        self._held.append(unit)
        self._n_chars += len(unit.before) + len(unit.text)
        if self._is_accepted:
            self._release()
        else:
            self._decide()
        is_repetitive, is_long = self._repeated >= MAX_REPEATED, self._n_chars > self._enough
        self._question.budget.was_repetitive |= is_repetitive
        self._question.budget.was_truncated |= is_long
        self._is_over |= is_repetitive or is_long

    def _decide(self, *, is_complete: bool = False) -> None:
        """Pass on the units held back once they show that the answer is in the requested language."""
        said = " ".join(u.claim for u in self._held if u.kind is UnitKind.SENTENCE)
        is_judged = len(said) >= MIN_JUDGED_CHARS or any(u.kind in (UnitKind.ROW, UnitKind.CODE) for u in self._held)
        is_first_refusal = len([u for u in self._held if u.claim]) < 2 and _declines(said)
        if not is_complete and (is_first_refusal or not is_judged):
            return
        if not self._is_last and len(said) >= MIN_JUDGED_CHARS and self._language != detected_name(said, self._language):
            self.objection, self._is_over = "language", True
            return
        self._is_accepted = True
        self._release()

    def _release(self) -> None:
        """Pass on the units held back; of an answer in one sentence only the first claim."""
        for unit in self._held:
            point = unit_point(unit, self._sources)
            self.points.append(point)
            if self._question.on_point:
                self._question.on_point(point)
            if self._question.wants_one_sentence and unit.claim:
                self._is_over = True
                break
        self._held = []


def _declines(text: str) -> bool:
    """Whether a text says that the sources do not answer, in the model's words or in the standard phrase for it."""
    return is_refusal(text) or declines(text)


def detected_name(text: str, expected: str) -> str:
    """The name of a text's language; `expected` where that is not a language that is detected."""
    return LANGUAGE_NAMES.get(detect_language(text), expected) if expected in LANGUAGE_NAMES.values() else expected


def best_points(scored: Iterable[tuple[float, AnswerPoint]]) -> list[AnswerPoint]:
    """The points with a score above 0, the best first."""
    return [point for _, point in sorted((f for f in scored if f[0] > 0), key=lambda f: -f[0])]


async def fit_sources(sources: Iterable[DraftSource], project: Project, budget: int) -> list[DraftSource]:
    """The sources from the front that have at most so many tokens together."""
    taken, used = list[DraftSource](), 0
    for source in sources:
        used += await project.model.count(source.text)
        if used > budget:
            break
        taken.append(source)
    return taken
