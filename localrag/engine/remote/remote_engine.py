"""RemoteEngine: requests to an OpenAI-compatible model server (llama-server, LM Studio, vLLM, Ollama), with retries.

Servers take a JSON schema instead of a grammar. The answer is then filtered by the request's grammar: lines it does not allow are dropped,
and an answer without any allowed line is an error.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from localrag.engine.remote import servers as servers_remote
from localrag.engine.remote.client import ConnectionLost, HttpConfig, check_host, http_config, key_refused, stream
from localrag.engine.remote.refusals import (
    BUSY,
    GATEWAY,
    SERVER_FAILED,
    HttpError,
    is_passing,
    is_too_long,
    is_unknown_model,
    next_omitted_fields,
    window_in,
)
from localrag.engine.remote.replies import EmptyResponse, GrammarFilter, MalformedResponse, NoResponse, StreamState
from localrag.engine.remote.request_body import REASONING_TOKENS, json_tokens, request_body, request_messages
from localrag.engine.remote.servers import ModelServer, backoff_delay, down_timeout
from localrag.engine.request import EngineMetrics, Generation, Request
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import ContextTooSmall, EmptyAnswer, EngineError, LocalragError, error_location
from localrag.model_files import ModelFile, ServerInfo

MAX_LOST_CONNECTIONS, MAX_SERVER_FAILURES = 5, 3  # per request, before the request itself fails
MAX_TOKEN_CHARS, MIN_ANSWER_TOKENS = 32, 1_000  # an answer with more characters than so many for each token is refused
MARKER_TOKENS = 8  # of a chat template around each message
MIN_LEARNED_WINDOW = 1024  # where a server does not tell by how much a request was too long
SMALLER_SHARE = 0.75  # of a rejected request's size: what is taken to fit
LONG_ANSWER_TOKENS = 1000  # of a request whose answer ended before its limit where the server tells no window
NEAR_WINDOW_SHARE = 0.75  # of the window, from which on an answer that ended before its limit has met its end


@dataclass(slots=True)
class _RetryState:
    submitted_at: float
    lost: int = 0
    failed: int = 0
    busy: int = 0
    allow_extra_tokens: bool = True  # more tokens than the local engine needs
    in_words: bool = False  # the answer is asked for without a schema
    forms: int = 0  # in which the answer has been asked for
    unfinished_text: str = ""  # of an answer that nothing ended


@dataclass(slots=True)
class _Exchange:
    body: dict[str, Any]
    begun: float  # time.perf_counter()
    state: StreamState
    answer: GrammarFilter
    is_complete: bool = False

    @property
    def has_reasoning(self) -> bool:
        """Whether the model thought."""
        return self.state.has_reasoning or self.answer.has_reasoning

    @property
    def was_cut_while_thinking(self) -> bool:
        """Whether the answer's limit was reached by a model that thinks."""
        return self.state.finish_reason == "length" and self.has_reasoning


class RemoteEngine:
    """Sends requests to the server of a `ModelFile` with `url`. It may be used from several event loops, one after the other."""

    def __init__(self, file: ModelFile, options: EngineOptions) -> None:
        """Raises UsageError for a host that is neither this machine nor allowed, or an unreadable key or CA."""
        check_host(file.url, options.allowed_hosts)
        self.figures = EngineMetrics()
        self._file, info = file, file.server or ServerInfo()
        self._wire = http_config(file.url, by_index=file.by_index)
        capacity = options.parallel_requests or info.slots or servers_remote.DEFAULT_PARALLEL_REQUESTS
        read_info = partial(servers_remote.query_server, self._wire, file.url, file)
        self._server = ModelServer(file.url, info, capacity, read_info, options.notify, file.digest)
        self._tokenizer: Tokenizer | None = None
        self._under_way, self._since = 0, 0.0

    @property
    def window(self) -> int:
        """Tokens of a request, prompt and answer; DEFAULT_CONTEXT if the server does not report it."""
        return self._server.window or servers_remote.DEFAULT_CONTEXT

    @property
    def parallel_requests(self) -> int:
        """Requests that the server processes at the same time."""
        return self._server.capacity

    @property
    def parameters(self) -> int | None:
        """The model's number of parameters, if the server reports it."""
        return self._server.info.parameters or None

    async def generate(self, request: Request) -> Generation:
        """The server's answer, also of a busy one; cancelling stops it. Raises ContextTooSmall, EngineError, ModelError."""
        tries = _RetryState(time.perf_counter(), in_words=self._server.in_words and _has_schema(request))
        shown = _MonotonicStream(request.on_text)
        self._begin()
        try:
            while True:
                await self._server.acquire(request.priority)
                try:
                    return await self._ask(request, tries, shown)
                except ConnectionLost as error:
                    self._after_loss(tries, error)
                    wait = 0.0
                except HttpError as error:
                    wait = self._after_refusal(request, tries, error)
                except MalformedResponse as error:
                    self._after_unreadable(request, tries, shown, error)
                    wait = 0.0
                finally:
                    self._server.release()
                await asyncio.sleep(wait)
        except (LocalragError, OSError):  # an OSError comes from the callback: the terminal is closed
            raise
        except Exception as error:
            raise EngineError(f"The answer of {self._file.url} could not be read: {error_location(error)}.") from error
        finally:
            self._end()

    async def _ask(self, request: Request, tries: _RetryState, shown: "_MonotonicStream") -> Generation:
        without = self._server.omitted_fields
        while True:
            tries.in_words |= "response_format" in without and _has_schema(request)
            extra = await self._extra_tokens(request, tries)
            body = request_body(self._server.info.model or self._file.name, request, without, in_words=tries.in_words, extra_tokens=extra)
            streams = shown if request.on_text else None
            answer = GrammarFilter(request.grammar, streams)
            exchange = _Exchange(body, time.perf_counter(), StreamState(), answer)
            try:
                await self._exchange(exchange)
            except (HttpError, NoResponse) as error:
                if (omitted := _omitted_after(error, frozenset(body), without)) is None:
                    raise
                if omitted[1]:
                    self._server.omitted_fields |= omitted[0] - without
                without = omitted[0]
                continue
            if not exchange.was_cut_while_thinking or self._server.thinks:
                break
            self._server.thinks = True
            if await self._extra_tokens(request, tries) <= extra:
                break
        generation = self._generation(request, tries, exchange)
        if _has_schema(request):
            self._server.note_form(in_words=tries.in_words)
        return generation

    async def _exchange(self, exchange: _Exchange) -> None:
        def on_event(event: Any) -> None:
            exchange.answer.add(exchange.state.read(event))

        exchange.is_complete = await stream(self._wire, f"{self._server.address}/chat/completions", exchange.body, on_event)

    def _generation(self, request: Request, tries: _RetryState, exchange: _Exchange) -> Generation:
        state, answer = exchange.state, exchange.answer
        self._check_ended(tries, exchange)
        is_complete = state.finish_reason != "length"
        if not is_complete:
            self._check_cut(request, exchange)
        if is_complete and answer.accepted_text and answer.has_hidden_start:
            raise EngineError(
                f"{self._server.url} writes its thinking before its answer, without a mark where it begins.",
                "Switch its thinking off in the server, or start it with a parser for it (vLLM: --reasoning-parser).",
            )
        try:
            text = answer.finish("".join(state.reasoning)) if is_complete else answer.finish_cut()
        except EmptyResponse as error:
            raise EmptyResponse(state.why_empty()) from error
        if len(text) > MAX_TOKEN_CHARS * max(request.max_tokens, MIN_ANSWER_TOKENS):
            raise MalformedResponse(f"{len(text)} characters, where {request.max_tokens} tokens were asked for")
        counts = (state.prompt_tokens, state.cached_tokens, state.output_tokens, 0)
        seconds = time.perf_counter() - tries.submitted_at
        self.figures.tasks[request.task].count(*counts, seconds=seconds)
        self.figures.steps, self.figures.rows = self.figures.steps + 1, self.figures.rows + counts[0] - counts[1] + counts[2]
        if request.priority == servers_remote.ANSWER_PRIORITY and state.first_text_at:  # of other requests many wait for each other
            self.figures.prefill_tokens += max(0, counts[0] - counts[1])
            self.figures.prefill_seconds += state.first_text_at - exchange.begun
        self._server.is_reported_busy = False
        return Generation(text, is_complete, (), *counts, seconds, dropped_rows=answer.dropped_rows)

    def _check_ended(self, tries: _RetryState, exchange: _Exchange) -> None:
        """Check that an answer ended; without an end mark it is complete if it comes twice. Raises ConnectionLost, MalformedResponse."""
        state = exchange.state
        if state.choices and state.finish_reason:
            return
        text = exchange.answer.text
        if exchange.is_complete and not text:
            raise MalformedResponse("nothing")
        if not text or not (self._server.ends_silently or text == tries.unfinished_text):
            tries.unfinished_text = text
            raise ConnectionLost("the stream ended early")
        self._server.ends_silently = True

    def _check_cut(self, request: Request, exchange: _Exchange) -> None:
        """Check that its limit cut off an answer, not the window or endless thinking. Raises ContextTooSmall, EngineError."""
        state, limit = exchange.state, request.max_tokens
        used, least = state.prompt_tokens + state.output_tokens, self._server.window * NEAR_WINDOW_SHARE or LONG_ANSWER_TOKENS
        if state.prompt_tokens and state.output_tokens < limit and used >= least:
            self._server.learned_window = used
            raise _no_room(self._server, "The request", used - state.prompt_tokens)
        if exchange.has_reasoning and not exchange.answer.has_answer:
            raise EmptyAnswer(
                f"{self._server.url}: the model thought for {exchange.body.get('max_tokens', limit)} tokens without an answer.",
                "Switch its thinking off in the server, or use a model that does not think.",
            )

    async def _extra_tokens(self, request: Request, tries: _RetryState) -> int:
        """Tokens that an answer may have beyond those asked for, for JSON syntax and thinking, as far as the window has room for them.

        Some servers truncate silently, so a request that exceeds the window is not sent. A text has at most as many tokens as bytes; tokens
        are counted only if its bytes do not fit, with the server's vocabulary if possible. Raises ContextTooSmall, ConnectionLost.
        """
        text, markers = _text_of(request, in_words=tries.in_words)
        spare = json_tokens(request) + REASONING_TOKENS * self._server.thinks if tries.allow_extra_tokens else 0
        if not self._server.window or len(text.encode(errors="replace")) + request.max_tokens + markers + spare <= self._server.window:
            return spare
        tokens = await servers_remote.count_tokens(self._wire, self._server.url, self._server.info, text) or self._estimate(text)
        room = self._server.window - tokens - markers - request.max_tokens
        if room < 0:
            remaining = room + request.max_tokens
            raise _no_room(self._server, f"A prompt of {tokens} tokens with an answer of up to {request.max_tokens}", remaining)
        return min(spare, room)

    def _estimate(self, text: str) -> int:
        self._tokenizer = self._tokenizer or Tokenizer(self._file)
        return self._tokenizer.count(text)

    def _size(self, request: Request, *, in_words: bool) -> int:
        text, markers = _text_of(request, in_words=in_words)
        return self._estimate(text) + markers + request.max_tokens

    def _after_loss(self, tries: _RetryState, error: ConnectionLost) -> None:
        self._server.is_up = False
        tries.lost += 1
        if tries.lost >= MAX_LOST_CONNECTIONS:
            raise EngineError(
                f"{self._server.url} lost the connection {tries.lost} times during one request ({error}).", "See the server's own log."
            )

    def _after_refusal(self, request: Request, tries: _RetryState, error: HttpError) -> float:
        """Seconds to wait before the next try. Raises the request's error if there is none."""
        if is_too_long(error):
            return self._after_overflow(request, tries, error)
        if error.status in GATEWAY:
            self._after_loss(tries, ConnectionLost(str(error)))
            return 0.0
        if is_passing(error):
            tries.busy += 1
            if error.status not in BUSY and not self._server.is_reported_busy:
                self._server.is_reported_busy = True
                self._server.notify(f"{self._server.url} is busy, or has its model not loaded at the moment; waiting for it …")
            if time.perf_counter() - tries.submitted_at > down_timeout(request.priority):
                raise _still_failing(self._server, error, down_timeout(request.priority))
            return min(max(error.retry_after, backoff_delay(tries.busy)), down_timeout(request.priority))
        tries.failed += 1
        if error.status in SERVER_FAILED and tries.failed < MAX_SERVER_FAILURES:
            return backoff_delay(tries.failed)
        raise EngineError(f"{self._server.url} refused the request ({error}).", _hint(error, self._wire, self._server.url))

    def _after_overflow(self, request: Request, tries: _RetryState, error: HttpError) -> float:
        """Give up the tokens that the local engine does not need, once. Raises ContextTooSmall."""
        if tries.allow_extra_tokens and error.kind != "exceed_context_size_error" and json_tokens(request):
            tries.allow_extra_tokens = False
            return 0.0
        raise self._learn_window(request, tries, error)

    def _learn_window(self, request: Request, tries: _RetryState, error: HttpError) -> ContextTooSmall:
        """Remember that a request did not fit: the window that the error names, else a smaller one than the request."""
        size = self._size(request, in_words=tries.in_words)
        told, known = window_in(error, size), self._server.window
        if told and (told < known or not known):
            self._server.learned_window = told
        elif not known or size <= known:  # else it was sent before the window was known
            guessed = max(MIN_LEARNED_WINDOW, int(SMALLER_SHARE * size))
            self._server.learned_window = min(guessed, known or guessed)
        remaining = self._server.window - (size - request.max_tokens)
        return _no_room(self._server, f"A request of about {size} tokens", min(remaining, int(SMALLER_SHARE * request.max_tokens)))

    def _after_unreadable(self, request: Request, tries: _RetryState, shown: "_MonotonicStream", error: MalformedResponse) -> None:
        """Ask for an answer that could not be read in the other form, once. Raises EngineError if there is none, or if text was shown."""
        tries.forms += 1
        if _has_schema(request) and tries.forms < 2 and not shown.text:
            tries.in_words = not tries.in_words
            return
        if isinstance(error, EmptyResponse):
            raise EmptyAnswer(f"{self._server.url} gave no answer: {error}.", "See the server's own log, or try another model.") from error
        raise EngineError(
            f"{self._server.url} gave no usable answer: {error}.", "Try a larger model, or a server that supports response_format."
        ) from error

    def _begin(self) -> None:
        if self._under_way == 0:
            self._since = time.perf_counter()
        self._under_way += 1

    def _end(self) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self.figures.seconds += time.perf_counter() - self._since

    def metrics(self) -> dict[str, Any]:
        """Metrics since the start, as JSON-ready values."""
        return self.figures.to_json(self.parallel_requests) | {"server": self._file.url}

    def close(self) -> None:
        """Do nothing: connections end with their requests."""


class _MonotonicStream:
    """Streams an answer over retries: a new try may only extend the text already shown."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text, self.text = on_text, ""

    def __call__(self, accepted: str) -> None:
        if self.text.startswith(accepted):
            return
        if not accepted.startswith(self.text):
            raise EngineError("The server started a different answer after the connection was lost.", "Ask again.")
        if self._on_text:
            self._on_text(accepted[len(self.text) :])
        self.text = accepted


def _omitted_after(error: HttpError | NoResponse, fields: frozenset[str], without: frozenset[str]) -> tuple[frozenset[str], bool] | None:
    """The fields to omit after an error, of those that were sent, and whether that is sure; None if that does not help."""
    if isinstance(error, NoResponse):  # a server that fails once the stream began says why without one
        return (without | {"stream", "stream_options"}, False) if "stream" in fields else None
    if is_too_long(error) or is_passing(error) or is_unknown_model(error):
        return None
    return next_omitted_fields(error, fields, without)


def _no_room(server: ModelServer, subject: str, remaining: int = 0) -> ContextTooSmall:
    window = f"{server.window} tokens" if server.window else "its window"
    return ContextTooSmall(
        f"{subject} does not fit into {window} of {server.url}.",
        "Give the server a larger context, or use a smaller chunk size.",
        remaining,
    )


def _still_failing(server: ModelServer, error: HttpError, seconds: float) -> EngineError:
    remedy = "Lower --parallel." if error.status in BUSY else "Load the model in the server, and run the command again."
    return EngineError(f"{server.url} has been busy or without its model for {seconds:.0f} s.", remedy)


def _has_schema(request: Request) -> bool:
    return bool(request.grammar and request.grammar.schema)


def _text_of(request: Request, *, in_words: bool) -> tuple[str, int]:
    messages = request_messages(request, in_words=in_words)
    return "\n".join(m["content"] for m in messages), MARKER_TOKENS * len(messages)


def _hint(error: HttpError, wire: HttpConfig, url: str) -> str:
    if error.status in (401, 403):
        return key_refused(wire, url).hint
    if error.status == 404 or is_unknown_model(error):
        return "Check the address (it ends in /v1) and the model's name: --model http://HOST:PORT/v1#NAME"
    return "See the server's own log."
