"""ChatModel.ask with the LLM cache protocol; replies that repeat the prompt or were truncated."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from string import Template
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from localrag.engine.engine import Engine
from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import AnswerTruncated, ContextTooSmall, EngineError, ModelError
from localrag.llm.budgets import MIN_PREFILL_TOKENS, prefill_speed
from localrag.llm.prompts import Message, Prompt
from localrag.model_files import ModelFile, parameters_of, shard_paths
from localrag.records import IN_DOUBT_SUBJECT, QUERY_SUBJECT, CallReference, LlmCall, clustered_key, content_id
from localrag.system.resources import available_cores, run_in_thread
from localrag.text.sentences import CJK

if TYPE_CHECKING:
    from localrag.engine.remote.remote_engine import RemoteEngine


class LlmCache(Protocol):
    """Storage of LLM calls: the index's database, or a worker's cache that is sent back to it."""

    def find(self, key: str) -> LlmCall | None:
        """The cached call with exactly this key."""

    def save(self, call: LlmCall, *, needed: bool) -> None:
        """Store a call unless its key is cached already. If that fails and it is not `needed`, the answer is used without being stored."""

    def add_reference(self, reference: CallReference) -> None:
        """Record that stored content depends on a cached call."""


SMALL_MODEL_PARAMETERS = 300_000_000  # below, a model writes no prose, and answers are passages of the documents
TYPICAL_FLOPS = 6e10  # of a core that multiplies matrices
CURRENT_SUBJECT: ContextVar[str] = ContextVar("CURRENT_SUBJECT", default="")  # `LlmCall.subject` of calls in this context
CURRENT_CONFIG_HASH: ContextVar[str] = ContextVar("CURRENT_CONFIG_HASH", default="")  # `LlmCall.config_hash` of calls in this context
DROPPED_ROWS: ContextVar[Counter[str] | None] = ContextVar("DROPPED_ROWS", default=None)  # counts rows by task, if it is set
CALL_ERRORS = (AnswerTruncated, ContextTooSmall, EngineError)  # failures of a single call
MAX_SHORTER_ANSWERS = 4  # sizes that are tried of an answer that does not fit
PERSON, INDEXING = 0, 1  # request priorities, most urgent first

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer; `messages` are the conversation up to it, which a next turn continues."""

    text: str
    messages: tuple[Message, ...]
    prompt_tokens: int
    output_tokens: int
    seconds: float


class ChatModel:
    """A chat model with its LLM cache; the model is loaded when an answer is not cached."""

    def __init__(self, cache: LlmCache, file: ModelFile, options: EngineOptions | None = None) -> None:
        self._cache = cache
        self.options = options or EngineOptions()
        self.file = file
        if file.url:
            from localrag.engine.remote.servers import with_server_info

            self.file = with_server_info(file, self.options)
        self.calls = self.prompt_tokens = self.output_tokens = 0  # of this process, without cached calls
        self.failed = 0  # failed calls of this process
        self._engine: Engine | RemoteEngine | None = None
        self._loading: Future[Engine] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # one lock per key being computed
        self._dropped_rows: dict[str, int] = {}  # of this process, by the key of the call
        self._stamp: list[tuple[int, int, int]] = []  # file status of the model's files when loaded

    async def engine(self) -> "Engine | RemoteEngine":
        """The engine, loaded on first use. If a caller is cancelled, loading continues for the next one. Raises ModelError."""
        if self._engine is None and self.file.url:
            from localrag.engine.remote.remote_engine import RemoteEngine

            self._engine = RemoteEngine(self.file, self.options)
        if self._engine is None:
            loading = self._loading = self._loading or run_in_thread(self._load)
            try:
                self._engine = await asyncio.wrap_future(loading)
            except Exception:
                self._loading = None if self._loading is loading else self._loading
                raise
        return self._engine

    def _load(self) -> Engine:
        from localrag.engine.autotune.load import open_backend  # takes half a second

        engine = Engine(lambda: open_backend(self.file, self.options))
        if not self.options.prefix_files:
            engine.prefixes = PrefixCache(None)
        return engine

    async def ask(
        self,
        task: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        grammar: Grammar | None = None,
        after: ModelReply | None = None,
        sampling: Sampling = GREEDY,
        priority: int = INDEXING,
        on_text: Callable[[str], None] | None = None,
    ) -> ModelReply:
        """The model's answer; `messages` continue from `after`. Raises AnswerTruncated, ContextTooSmall, EngineError, ModelError."""
        conversation = (*after.messages, *messages) if after else tuple(messages)
        prompt_hash = content_id(*(part for m in conversation for part in (m["role"], m["content"])))
        drawn = f"{sampling.temperature} 1.0 0.0 {sampling.seed} {max_tokens} ()"  # with what keys once had for top-p, min-p and stop texts
        request_key = content_id(self.file.fingerprint, prompt_hash, grammar.key if grammar else "", drawn)
        subject = CURRENT_SUBJECT.get() if priority == INDEXING else QUERY_SUBJECT
        key = clustered_key(request_key, subject)
        lock = self._locks.setdefault(key, asyncio.Lock())  # equal requests at the same time are computed once
        async with lock:
            if call := self._cache.find(key):
                self._count_dropped(task, key)
                if on_text:
                    on_text(call.text)
                if priority == INDEXING and _is_new_reference(
                    reference := CallReference(call.key, subject, CURRENT_CONFIG_HASH.get()), call
                ):
                    self._cache.add_reference(reference)
                return _reply(call, conversation)
            request = Request((), max_tokens, grammar, sampling, priority, on_text, task, conversation)
            try:
                prompt, generation = await self._generate(request)
            except CALL_ERRORS:
                self.failed += 1
                raise
            call = LlmCall(
                key,
                task,
                self.file.fingerprint,
                prompt_hash,
                grammar.key if grammar else "",
                drawn,
                generation.text,
                tuple(generation.token_ids[len(prompt) :]),
                generation.prompt_tokens,
                generation.output_tokens,
                generation.seconds,
                subject,
                config_hash=CURRENT_CONFIG_HASH.get() if priority == INDEXING else "",
            )
            self._cache.save(call, needed=priority == INDEXING)
            self._count_call(call, generation.dropped_rows)
        return _reply(call, conversation)

    async def ask_within(
        self,
        task: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        least: int,
        grammar: Callable[[int], Grammar],
        share: float = 1.0,
        after: ModelReply | None = None,
    ) -> ModelReply:
        """As `ask`; if the window has no room for `max_tokens`, the answer gets a `share` of the remaining tokens, at least `least`.

        `grammar` builds the grammar for a number of tokens. Raises ContextTooSmall also if an answer shortened in this way was cut off,
        since the prompt was too long for the window.
        """
        try:
            return await self.ask(task, messages, max_tokens=max_tokens, grammar=grammar(max_tokens), after=after)
        except ContextTooSmall as error:
            refusal = error
        room = max_tokens
        for _ in range(MAX_SHORTER_ANSWERS):
            # A server may not report its window, or another one after the next refusal: then smaller sizes are tried.
            told = int(refusal.left * share)
            room = told if 0 < told < room else room // 2
            if room < least:
                break
            try:
                return await self.ask(task, messages, max_tokens=room, grammar=grammar(room), after=after)
            except ContextTooSmall as error:
                refusal = error
            except AnswerTruncated as cut:
                raise ContextTooSmall(str(cut), cut.hint) from cut
        raise refusal

    def _count_call(self, call: LlmCall, dropped_rows: int) -> None:
        self.calls += 1
        self.prompt_tokens += call.prompt_tokens
        self.output_tokens += call.output_tokens
        if dropped_rows:
            self._dropped_rows[call.key] = dropped_rows
        self._count_dropped(call.task, call.key)

    def _count_dropped(self, task: str, key: str) -> None:
        if (counter := DROPPED_ROWS.get()) is not None:
            counter[task] += self._dropped_rows.get(key, 0)

    async def _generate(self, request: Request) -> tuple[tuple[int, ...], Generation]:
        engine = await self.engine()
        self._check_file()
        prompt = engine.backend.chat.encode(request.messages) if isinstance(engine, Engine) else ()
        generation = await engine.generate(replace(request, token_ids=prompt))
        if not generation.is_complete:
            raise AnswerTruncated(
                f"The model's answer ({request.task}) was cut off at {request.max_tokens} tokens.",
                "Try a larger model: --model PATH.gguf",
                so_far=generation.text,
            )
        return prompt, generation

    def _check_file(self) -> None:
        """Check that the model file has not changed since its fingerprint was computed. Raises ModelError."""
        try:
            stamp = [(s.st_ino, s.st_size, s.st_mtime_ns) for s in (file.stat() for file in shard_paths(self.file.path))]
        except OSError:  # removed
            stamp = []
        self._stamp = self._stamp or stamp
        if not stamp or stamp != self._stamp:
            raise ModelError(f"{self.file.path} was replaced while it was in use.", "Run the same command again; finished work is saved.")

    async def count(self, text: str) -> int:
        """Number of tokens of a text; the model need not be loaded."""
        return self._tokenizer.count(text)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.file)

    async def is_small(self) -> bool:
        """Whether the model is too small for free prose, by the header of its file."""
        if self._engine is None and not self.file.url:
            return parameters_of(self.file.path) < SMALL_MODEL_PARAMETERS
        engine = await self.engine()
        parameters = engine.backend.parameters if isinstance(engine, Engine) else engine.parameters
        return parameters is not None and parameters < SMALL_MODEL_PARAMETERS

    async def context_size(self) -> int:
        """Tokens that a prompt and its answer may have together."""
        return (await self.engine()).window

    async def parallel_requests(self) -> int:
        """Number of requests that the engine processes at the same time."""
        return (await self.engine()).parallel_requests

    @property
    def has_context_override(self) -> bool:
        """Whether the user has set the window size."""
        return "n_ctx" in (part.partition("=")[0].strip() for part in self.options.overrides.split(","))

    def notify(self, text: str) -> None:
        """Show the user a message."""
        self.options.notify(text)

    @property
    def computed_tokens(self) -> int:
        """Tokens that this process has prefilled and decoded, without those from KV caches and the LLM cache."""
        return self._engine.figures.rows if self._engine else 0

    @property
    def token_counters(self) -> tuple[int, float, int, float]:
        """Prefilled tokens, their seconds, decoded tokens, their seconds; zeros if the engine does not separate them."""
        if self._engine is None:
            return 0, 0.0, 0, 0.0
        f = self._engine.figures
        return f.prefill_tokens, f.prefill_seconds, f.decode_tokens, f.decode_seconds

    def prefill_speed(self) -> float | None:
        """Tokens of a prompt per second: measured, else estimated from the model's size; None on a GPU or a server not yet measured."""
        tokens, seconds, *_ = self.token_counters
        measured = tokens / seconds if tokens >= MIN_PREFILL_TOKENS and seconds else prefill_speed(self.file)
        if self.file.url:
            return measured
        from localrag.engine.llama.library import offload_devices  # imports llama.cpp

        if offload_devices():
            return None
        return measured or TYPICAL_FLOPS * available_cores() / (2 * parameters_of(self.file.path))

    def metrics(self) -> dict[str, Any]:
        """The engine's metrics and settings as JSON-ready values; empty if no engine was started."""
        return self._engine.metrics() if self._engine else {}

    def close(self) -> None:
        """Stop the engine and free the model; wait for a model that is being loaded."""
        if self._loading is not None:
            with suppress(Exception):  # the caller has received the error
                self._engine = self._loading.result()
        if self._engine is not None:
            self._engine.close()
        self._engine = self._loading = None


def _reply(call: LlmCall, conversation: tuple[Message, ...]) -> ModelReply:
    messages = (*conversation, {"role": "assistant", "content": call.text})
    return ModelReply(call.text, messages, call.prompt_tokens, call.output_tokens, call.seconds)


def _is_new_reference(reference: CallReference, call: LlmCall) -> bool:
    if call.subject == IN_DOUBT_SUBJECT or (reference.subject and call.unused_since is not None):
        return True
    return bool(reference.subject) and (reference.subject, reference.config_hash) != (call.subject, call.config_hash)


async def bounded_map(jobs: Iterable[Coroutine[Any, Any, T]], size: int = 256) -> list[T]:
    """Run coroutines, as many at a time as keep an engine busy, and return results in order. The first error cancels the others."""
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


def elapsed_seconds(start: float) -> float:
    """Seconds since a `time.perf_counter()` reading, rounded to two places."""
    return round(time.perf_counter() - start, 2)


MIN_COPIED_WORDS = 4  # so many consecutive words that also occur in the prompt count as copied
MIN_COPIED_SHARE = 0.6  # of copied words, for a text to be an echo of the prompt
_ECHO_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


class EchoDetector:
    """Detects answers that repeat the fixed text of a prompt or the question, as small models do; words of the sources do not count."""

    def __init__(self, prompt: Prompt, question: str, sources: str, *more: str) -> None:
        source_runs = set(_word_runs(_echo_words(sources)))
        fixed = [part for _, text in prompt.messages for part in Template.pattern.split(text) if part and " " in part]
        self._fixed = {run for text in (*fixed, *more) for run in _word_runs(_echo_words(text))} - source_runs
        self._question = set(_word_runs(_echo_words(question))) - source_runs
        self._locks = _echo_words(question)

    def is_in(self, text: str) -> bool:
        """Whether a text mostly repeats the prompt, or only the question."""
        words = _echo_words(text)
        if len(words) < MIN_COPIED_WORDS:
            return bool(words) and words == self._locks
        return _copied_share(words, self._fixed) >= MIN_COPIED_SHARE or _copied_share(words, self._question) == 1


def _echo_words(text: str) -> list[str]:
    return _ECHO_WORD.findall(text.casefold())


def _word_runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[n : n + MIN_COPIED_WORDS]) for n in range(len(words) - MIN_COPIED_WORDS + 1))


def _copied_share(words: Sequence[str], known_runs: Iterable[tuple[str, ...]]) -> float:
    copied: set[int] = set()
    for n, run in enumerate(_word_runs(words)):
        if run in known_runs:
            copied.update(range(n, n + MIN_COPIED_WORDS))
    return len(copied) / len(words)


def end_at_sentence(text: str, longest: int) -> str:
    """Trim a text that reached its limit to its last whole sentence, or whole word; return any other text unchanged."""
    if len(text) < longest - 2:
        return text
    complete = _SENTENCES.match(text) or _WORDS_BUT_LAST.match(text)
    return complete.group().rstrip(" ,;:，；：、") if complete else text


def trim_strings(value: Any, schema: dict[str, Any]) -> Any:
    """A value of a schema with every string that reached its `maxLength` trimmed to its last whole sentence or word."""
    if isinstance(value, dict):
        return {name: trim_strings(part, schema["properties"][name]) for name, part in value.items()}
    if isinstance(value, list):
        return [trim_strings(part, schema["items"]) for part in value]
    return end_at_sentence(value, schema["maxLength"]) if isinstance(value, str) and "maxLength" in schema else value


_SENTENCES = re.compile(r".*(?:[.!?…](?=[\s\"”’')]|$)|[。！？])", re.DOTALL)
_WORDS_BUT_LAST = re.compile(r".*(?=\s)", re.DOTALL)
