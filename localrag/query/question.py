"""Question with its options and budget, and the draft of an answer before its citations are verified."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.query.answer_markdown import AnswerUnit
from localrag.records import Answer, AnswerPassage, Chunk, Citation, Quote
from localrag.text.quotes import quote_text


@dataclass(frozen=True, slots=True)
class DraftSource:
    """A numbered source in a prompt: a text, the quotes behind it, and where it stands (`place`): its file and the headings above it."""

    text: str
    quotes: tuple[Quote, ...]
    place: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPoint:
    """A part of an answer with its quotes and an optional `title`; one that a model wrote (`is_generated`) has to be checked.

    `given` are all passages that the model was shown: one that it did not cite may support the point. `unit` is the point as the model
    wrote it, in an answer of several. `passage`, of a point that is its one quote as it stands: the headings above it, and the offsets of
    the short answer in the document.
    """

    text: str
    quotes: tuple[Quote, ...]
    title: str = ""
    is_generated: bool = False
    given: tuple[Quote, ...] = ()
    unit: AnswerUnit | None = None
    passage: tuple[tuple[str, ...], tuple[int, int] | None] | None = None


def quote_point(*quotes: Quote, title: str = "") -> AnswerPoint:
    """A point that says what its quotes do, in their words but without their markup."""
    return AnswerPoint(" ".join(filter(None, map(quote_text, quotes))), quotes, title)


@dataclass(frozen=True, slots=True)
class AnswerDraft:
    """An answer before its citations are numbered. `note` tells the user how it was produced.

    `short_answer`: the answer in a few words of the documents, if there is one. `is_refused`: the points only come closest to an answer.
    `is_list`: each point is an item of a list. `mode` and `reason`: how it was made, unless as the question was routed.
    """

    points: tuple[AnswerPoint, ...]
    opening: str = ""
    level: int | None = None
    note: str = ""
    short_answer: str = ""
    is_refused: bool = False
    confidence: float | None = None
    is_list: bool = False
    mode: str = ""
    reason: str = ""


# Limits if the user sets none. In the paper (table 3) the coarsest reports had 26,657 and 39,770 tokens.
MAX_QUESTION_CALLS, MAX_QUESTION_TOKENS = 50, 100_000
MAX_QUESTION_CHARS = 10_000
NO_LIMIT = sys.maxsize  # value of `max_calls`


def check_question(text: str) -> None:
    """Raises UsageError for a question or query that is empty or too long."""
    hint = 'Ask something: localrag ask "What are the main themes?"'
    if not text.strip():
        raise UsageError("The question is empty.", hint)
    if any("\ud800" <= c <= "\udfff" for c in text):  # surrogates replace undecodable bytes
        raise UsageError("The question is not valid UTF-8.", hint)
    if len(text) > MAX_QUESTION_CHARS:
        raise UsageError(
            f"The question has {len(text)} characters; {MAX_QUESTION_CHARS} at most are read.", "Put long texts into a file and index it."
        )


@dataclass(slots=True)
class QueryBudget:
    """The remaining calls, tokens and seconds of a question; `is_exhausted` once something was omitted for lack of them.

    `tokens` limits map calls together; other steps have their own limits. It also records the calls' results: their number, failures, texts
    read by map calls, whether an answer was truncated or ended because the model repeated itself, the words in which the model `declined`
    to answer, whether it `echoed` its prompt, and whether the user has confirmed the cost.
    """

    calls: int | None = None
    deadline: float | None = None  # time.monotonic()
    tokens: int | None = None
    is_exhausted: bool = False
    calls_made: int = 0
    failures: list[str] = field(default_factory=list)
    was_truncated: bool = False
    was_repetitive: bool = False
    declined: str = ""
    echoed: bool = False
    texts_read: int = 0
    is_confirmed: bool = False

    @classmethod
    def of(cls, options: "QueryOptions") -> "QueryBudget":
        """The budget of the options, starting now; the default limits if they set none."""
        deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
        if options.max_calls is None:
            return cls(MAX_QUESTION_CALLS, deadline, MAX_QUESTION_TOKENS)
        return cls(None if options.max_calls == NO_LIMIT else options.max_calls, deadline)

    def take_call(self) -> bool:
        """Count one more call if the budget allows it; whether it does."""
        if (self.calls is not None and self.calls <= 0) or (self.deadline is not None and time.monotonic() >= self.deadline):
            self.is_exhausted = True
            return False
        if self.calls is not None:
            self.calls -= 1
        self.calls_made += 1
        return True

    def timeout(self) -> asyncio.Timeout:
        """A timeout context for the remaining time."""
        remaining = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        return asyncio.timeout(remaining)


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of an answer. `level` None: chosen automatically; `style` empty: the index's own; `max_calls` None: the default limits.

    `strict` omits unsupported sentences. `context_only` returns the model's context instead of an answer. `selection`: the documents to
    answer from; None: those of the conversation's last answer, else all. `by_program`: kept apart from what a person asks.
    """

    mode: str = "auto"
    level: int | None = None
    dynamic: bool = False
    seed: int = 0
    style: str = ""
    strict: bool = False
    max_calls: int | None = None
    max_seconds: float | None = None
    response_type: str = ""
    context_only: bool = False
    conversation: int | None = None  # id of the conversation to continue
    temperature: float = 0.0  # of generated prose, sampled with `seed`
    selection: DocumentFilter | None = None
    by_program: bool = False


@dataclass(frozen=True, slots=True)
class AnswerCallbacks:
    """Callbacks during an answer.

    `on_text` receives every new part of the final text, `on_citation` each citation before the text with its number, `on_draft` the
    unchecked sentence being generated, `on_status` the current step. `confirm_cost` is asked if the answer may take more than a minute.
    `on_stored` receives the stored answer, also a cancelled one; `on_passage` each passage of an extractive answer before its text.
    """

    on_text: Callable[[str], None] | None = None
    on_citation: Callable[[Citation], None] | None = None
    on_draft: Callable[[str], None] | None = None
    on_status: Callable[[str], None] | None = None
    confirm_cost: Callable[[], bool] | None = None
    on_stored: Callable[[Answer], None] | None = None
    on_passage: Callable[[AnswerPassage], None] | None = None


NO_CALLBACKS = AnswerCallbacks()


@dataclass(frozen=True, slots=True)
class Question:
    """A standalone question, its vector, (d,) float32, its options, budget and callbacks.

    `asked`: the question as it was put. `history`: the answers that it is about, the last one and those before it; `text` is then the
    question that was answered last. `on_point` receives each point of the final prose as soon as it is complete. `mode`,
    `reason` and `mode_note`: how it is routed; `near`: the nearest passages; `uncounted`: said below passages, where all or a number was
    asked for.
    """

    text: str
    vector: NDArray[np.float32]
    style: str
    options: QueryOptions = QueryOptions()
    budget: QueryBudget = field(default_factory=QueryBudget)
    on_point: Callable[[AnswerPoint], None] | None = None
    watch: AnswerCallbacks = NO_CALLBACKS
    history: tuple[Answer, ...] = ()
    asked: str = ""
    mode: str = ""
    reason: str = ""
    mode_note: str = ""
    near: tuple[Chunk, ...] = ()
    uncounted: str = ""

    def report_status(self, status: str) -> None:
        """Report the current step."""
        if self.watch.on_status:
            self.watch.on_status(status)

    def progress_counter(self, status: str, total: int) -> Callable[[int], None]:
        """Report a status text with the progress in place of `{}`; returns a function that advances it by `n` of `total`."""
        done = 0

        def more(n: int) -> None:
            nonlocal done
            done += n
            self.report_status(status.format(f"{done} of {total}"))

        more(0)
        return more

    def show_draft(self, draft: str) -> None:
        """Show the sentence being generated in place of the previous one."""
        if self.watch.on_draft:
            self.watch.on_draft(draft)

    @property
    def is_extractive(self) -> bool:
        """Whether the answer consists of sentences of the documents."""
        return self.style == "extractive" and not self.options.context_only

    @property
    def wants_one_sentence(self) -> bool:
        """Whether a single sentence was requested."""
        return any(w in self.options.response_type.lower() for w in ("single sentence", "one sentence"))
