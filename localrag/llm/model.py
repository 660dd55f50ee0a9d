"""`Model.ask(prompt, grammar)`: the committed answer if there is one, else the engine's, committed before it is returned."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from localrag.about import Use, side_by_side
from localrag.engine.engine import Engine
from localrag.engine.prefixes import Prefixes
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.engine.settings import EngineOptions
from localrag.engine.tokens import Tokenizer
from localrag.errors import AnswerTruncated, ContextTooSmall, EngineFailed, ModelError
from localrag.llm.ledger import Ledger
from localrag.llm.prompts import Message
from localrag.models import ModelFile, parameters_of, shards
from localrag.records import OF_A_QUESTION, UNSURE, Call, content_id

if TYPE_CHECKING:  # a client for the network is loaded only where a model is behind a server
    from localrag.engine.remote.remote import Remote

SMALL_MODEL = 1_000_000_000  # parameters; below, free prose is unreliable and answers select sentences instead
ABOUT: ContextVar[str] = ContextVar("ABOUT", default="")  # what the calls made here are about, as `Call` has it
RECIPE: ContextVar[str] = ContextVar("RECIPE", default="")  # what the chunk that they are about is read by
CALL_FAILED = (AnswerTruncated, ContextTooSmall, EngineFailed)  # one call's failure, which others survive
PERSON, INDEXING = 0, 1  # priorities: someone who waits for an answer overtakes indexing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer; `messages` and `cells` let a next turn continue it."""

    text: str
    messages: tuple[Message, ...]
    prompt: tuple[int, ...] | None
    tokens: tuple[int, ...]
    prompt_tokens: int
    output_tokens: int
    seconds: float


class Model:
    """A chat model that is loaded when the first uncommitted answer is needed, and the ledger its answers are committed to."""

    def __init__(self, ledger: Ledger, file: ModelFile, options: EngineOptions | None = None) -> None:
        self._ledger = ledger
        self.options = options or EngineOptions()
        self.file = file
        if file.url:
            from localrag.engine.remote.remote import identified

            self.file = identified(file, self.options)
        self.calls = self.prompt_tokens = self.output_tokens = 0  # of this process; committed answers cost nothing
        self.failed = 0  # calls of this process that gave no answer
        self._engine: Engine | Remote | None = None
        self._loading: Future[Engine] | None = None
        self._asked: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # what is being asked at this moment
        self._stamp: list[tuple[int, int, int]] = []  # of the model's files when they were loaded

    async def engine(self) -> "Engine | Remote":
        """The engine, loaded on first use. Where a caller is cancelled, the loading goes on for the next one. Raises ModelError."""
        if self._engine is None and self.file.url:
            from localrag.engine.remote.remote import Remote

            self._engine = Remote(self.file, self.options)
        if self._engine is None:
            loading = self._loading = self._loading or started(self._load)
            try:
                self._engine = await asyncio.wrap_future(loading)
            except Exception:
                self._loading = None if self._loading is loading else self._loading
                raise
        return self._engine

    def _load(self) -> Engine:
        from localrag.engine.hardware.opened import open_backend  # loading llama.cpp takes half a second: only where it is needed

        engine = Engine(lambda: open_backend(self.file, self.options))
        if not self.options.prefix_files:
            engine.prefixes = Prefixes(None)
        if note := engine.backend.chat.note:
            self.options.say(note)
        return engine

    async def ask(
        self,
        task: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        grammar: Grammar | None = None,
        after: Reply | None = None,
        sampling: Sampling = GREEDY,
        stop: tuple[str, ...] = (),
        priority: int = INDEXING,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The model's answer to a conversation; with `after`, `messages` go on from that reply in the KV it left.

        Raises AnswerTruncated where `max_tokens` cut it off, ContextTooSmall, EngineFailed, ModelError.
        """
        conversation = (*after.messages, *messages) if after else tuple(messages)
        prompt_hash = content_id(*(part for m in conversation for part in (m["role"], m["content"])))
        drawn = f"{sampling.temperature} {sampling.top_p} {sampling.min_p} {sampling.seed} {max_tokens} {stop}"
        request_key = content_id(self.file.fingerprint, prompt_hash, grammar.key if grammar else "", drawn)
        about = ABOUT.get() if priority == INDEXING else OF_A_QUESTION
        key = side_by_side(request_key, about)
        once = self._asked.setdefault(key, asyncio.Lock())  # asked twice at the same time, the model answers once
        async with once:
            if call := self._committed(key, request_key):
                if on_text:
                    on_text(call.text)
                if priority == INDEXING and _is_new(use := Use(call.key, about, RECIPE.get()), call):
                    self._ledger.confirm(use)
                return _reply(call, conversation, None)
            request = Request((), max_tokens, grammar, sampling, stop, priority, on_text, task, conversation)
            try:
                prompt, generation = await self._generate(request, after)
            except CALL_FAILED:
                self.failed += 1
                raise
            call = Call(
                key,
                task,
                self.file.fingerprint,
                prompt_hash,
                grammar.key if grammar else "",
                drawn,
                generation.text,
                tuple(generation.cells[len(prompt) :]),
                generation.prompt_tokens,
                generation.output_tokens,
                generation.seconds,
                about,
                recipe=RECIPE.get() if priority == INDEXING else "",
            )
            self._ledger.save(call, needed=priority == INDEXING)
        self.calls += 1
        self.prompt_tokens += call.prompt_tokens
        self.output_tokens += call.output_tokens
        return _reply(call, conversation, prompt)

    async def ask_within(
        self,
        task: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        least: int,
        grammar: Callable[[int], Grammar],
        share: float = 1.0,
        after: Reply | None = None,
    ) -> Reply:
        """As `ask`; where the window has no room for `max_tokens`, the answer gets a `share` of the tokens left, at least `least`.

        `grammar` makes the grammar for a number of tokens. Raises ContextTooSmall also where an answer shortened in this way was cut off,
        since the prompt was too long for the window.
        """
        try:
            return await self.ask(task, messages, max_tokens=max_tokens, grammar=grammar(max_tokens), after=after)
        except ContextTooSmall as error:
            refusal = error
        told = min(max_tokens - 1, int(refusal.left * share))
        for room in (told,) if told else (max_tokens // 2, max_tokens // 4, max_tokens // 8):  # a server may not tell its window
            if room < least:
                break
            try:
                return await self.ask(task, messages, max_tokens=room, grammar=grammar(room), after=after)
            except ContextTooSmall as error:
                refusal = error
            except AnswerTruncated as cut:
                raise ContextTooSmall(str(cut), cut.hint) from cut
        raise refusal

    def _committed(self, *keys: str) -> Call | None:
        """The committed answer; of an older localrag it is kept under the request's key alone."""
        return next(filter(None, map(self._ledger.find, dict.fromkeys(keys))), None)

    async def _generate(self, request: Request, after: Reply | None) -> tuple[tuple[int, ...], Generation]:
        """The prompt of the request's conversation and what the engine makes of it. Raises AnswerTruncated."""
        engine = await self.engine()
        self._check_file()
        prompt = self._cells(engine, request.messages, after) if isinstance(engine, Engine) else ()
        generation = await engine.generate(replace(request, cells=prompt))
        if not generation.complete:
            raise AnswerTruncated(
                f"The model's answer ({request.task}) was cut off at {request.max_tokens} tokens.",
                "Try a larger model: --model PATH.gguf",
                so_far=generation.text,
            )
        return prompt, generation

    def _check_file(self) -> None:
        """Refuse to go on with a file that is not the one whose fingerprint stands in the ledger. Raises ModelError."""
        try:
            stamp = [(s.st_ino, s.st_size, s.st_mtime_ns) for s in (file.stat() for file in shards(self.file.path))]
        except OSError:  # removed
            stamp = []
        self._stamp = self._stamp or stamp
        if not stamp or stamp != self._stamp:
            raise ModelError(f"{self.file.path} was replaced while it was in use.", "Run the same command again; what is done is saved.")

    def _cells(self, engine: Engine, conversation: Sequence[Message], after: Reply | None) -> tuple[int, ...]:
        chat = engine.backend.chat
        rest = chat.rest(after.messages, conversation) if after else None
        if after is None or rest is None:
            return chat.cells(conversation)
        return (*(after.prompt or chat.cells(after.messages[:-1])), *after.tokens, *rest)

    async def count(self, text: str) -> int:
        """The number of tokens of a text; the model need not be loaded."""
        return self._tokenizer.count(text)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.file)

    async def is_small(self) -> bool:
        """Whether the model is too small for free prose; a file's header tells, so that it need not be loaded."""
        if self._engine is None and not self.file.url:
            return parameters_of(self.file.path) < SMALL_MODEL
        engine = await self.engine()
        parameters = engine.backend.parameters if isinstance(engine, Engine) else engine.parameters
        return parameters is not None and parameters < SMALL_MODEL

    async def window(self) -> int:
        """Tokens that a prompt and its answer may have together."""
        return (await self.engine()).window

    async def at_once(self) -> int:
        """How many requests the engine works on at the same time."""
        return (await self.engine()).at_once

    @property
    def window_by_hand(self) -> bool:
        """Whether the user has said how large the window is to be."""
        return "context" in (part.partition("=")[0].strip() for part in self.options.values.split(","))

    def say(self, text: str) -> None:
        """Tell the user something that is no result."""
        self.options.say(text)

    @property
    def computed(self) -> int:
        """Tokens this process has computed, read or written; those found in a KV cache or in the ledger cost nothing."""
        return self._engine.figures.rows if self._engine else 0

    @property
    def counters(self) -> tuple[int, float, int, float]:
        """Tokens read, the seconds that took, tokens written, their seconds; zeros where the engine does not tell them apart."""
        if self._engine is None:
            return 0, 0.0, 0, 0.0
        f = self._engine.figures
        return f.read_tokens, f.read_seconds, f.written_tokens, f.write_seconds

    def report(self) -> dict[str, Any]:
        """The engine's figures and settings as JSON-ready values; empty where no model was needed."""
        return self._engine.report() if self._engine else {}

    def close(self) -> None:
        """Stop the engine and free the model; one that is still being loaded is waited for."""
        if self._loading is not None:
            with suppress(Exception):  # whoever asked for it got the error
                self._engine = self._loading.result()
        if self._engine is not None:
            self._engine.close()
        self._engine = self._loading = None


def _reply(call: Call, conversation: tuple[Message, ...], prompt: tuple[int, ...] | None) -> Reply:
    answered = (*conversation, {"role": "assistant", "content": call.text})
    return Reply(call.text, answered, prompt, call.tokens, call.prompt_tokens, call.output_tokens, call.seconds)


def _is_new(use: Use, call: Call) -> bool:
    """Whether the ledger does not say yet that an answer is used for this."""
    if call.about == UNSURE or (use.about and call.unused_since is not None):
        return True
    return bool(use.about) and (use.about, use.recipe) != (call.about, call.recipe)


def started(work: Callable[[], T]) -> Future[T]:
    """What `work` will give, computed in a thread of its own; it cannot be cancelled, and belongs to no event loop."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 — those who wait get it
            future.set_exception(error)

    threading.Thread(target=run, name="localrag-loading", daemon=True).start()
    return future


async def in_window(jobs: Iterable[Coroutine[Any, Any, T]], size: int = 256) -> list[T]:
    """The results of all jobs in order, with at most `size` under way: a hundred thousand chunks are not a hundred thousand tasks.

    The default keeps full all the slots that an engine can have. The first error cancels the rest and is raised.
    """
    results: dict[int, T] = {}
    waiting = iter(enumerate(jobs))

    async def worker() -> None:
        for i, job in waiting:
            results[i] = await job

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    finally:
        for _, job in waiting:
            job.close()
    return [results[i] for i in sorted(results)]


def seconds_since(start: float) -> float:
    """Seconds since a `time.perf_counter()` reading, to two places."""
    return round(time.perf_counter() - start, 2)
