"""RemoteEngine: requests to OpenAI-compatible model servers (llama-server, LM Studio, vLLM, Ollama), with retries.

Servers take a JSON schema instead of a grammar. The answer is then filtered by the request's grammar: lines it does not allow are dropped,
and an answer without any allowed line is an error.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from localrag.engine.remote import servers as servers_remote
from localrag.engine.remote.client import (
    ConnectionLost,
    GrammarFilter,
    HttpConfig,
    HttpError,
    MalformedResponse,
    StreamState,
    check_host,
    http_config,
    json_tokens,
    key_refused,
    next_omitted_field,
    request_body,
    stream,
    too_long,
)
from localrag.engine.remote.servers import PooledServer, ServerPool, backoff_delay, down_timeout, with_server_info
from localrag.engine.request import EngineMetrics, Generation, Request
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import ContextTooSmall, EngineError, LocalragError, error_location
from localrag.model_files import ModelFile, ServerInfo

__all__ = ["RemoteEngine", "check_host", "with_server_info"]

MAX_LOST_CONNECTIONS, MAX_SERVER_FAILURES = 5, 3  # per request, before the request itself fails
MARKER_TOKENS = 8  # of a chat template around each message
SERVER_FAILED, BUSY, GATEWAY = (500, 501), (429, 503), (502, 504)


@dataclass(slots=True)
class _RetryState:
    """The state of a request over its retries."""

    submitted_at: float
    waited: float = -1.0  # seconds until the first slot
    lost: int = 0
    failed: int = 0
    busy: int = 0
    allow_extra_tokens: bool = True  # more tokens than the local engine needs


class RemoteEngine:
    """Sends requests to the servers of a `ModelFile` with `url`. It may be used from several event loops, one after the other."""

    def __init__(self, file: ModelFile, options: EngineOptions) -> None:
        """Raises UsageError for a host that is neither this machine nor allowed, or an unreadable key or CA."""
        for url in file.urls:
            check_host(url, options.allowed_hosts)
        self.figures = EngineMetrics()
        self._file = replace(file, servers=file.servers or tuple(ServerInfo() for _ in file.urls))
        self._wire = http_config(file.urls, by_index=file.by_index)
        # Servers start as down, so that each is probed before its first request: it may serve another model by now.
        servers = [
            PooledServer(url, facts, servers_remote.parallel_requests(facts, options), down_since=time.monotonic())
            for url, facts in zip(file.urls, self._file.servers, strict=True)
        ]
        self._pool = ServerPool(servers, lambda url: servers_remote.query_server(self._wire, url, file), options.notify, file.digest)
        self._tokenizer: Tokenizer | None = None
        self._under_way, self._since = 0, 0.0

    @property
    def window(self) -> int:
        """Tokens of a request, prompt and answer; 4096 if no server reports it."""
        return servers_remote.context_size([s.info for s in self._pool.servers])

    @property
    def parallel_requests(self) -> int:
        """Requests that all servers together process at the same time."""
        return self._pool.capacity

    @property
    def parameters(self) -> int | None:
        """The model's number of parameters, if a server reports it."""
        return next((s.info.parameters for s in self._pool.servers if s.info.parameters), None)

    async def generate(self, request: Request) -> Generation:
        """A server's answer to the request's messages; cancelling closes the connection, and the server stops.

        Waits for servers that are down or busy. Raises ContextTooSmall, EngineError; ModelError if no server has the model any more.
        """
        tries = _RetryState(time.perf_counter())
        shown = _MonotonicStream(request.on_text)
        self._begin()
        try:
            while True:
                server = await self._pool.acquire(_conversation(request.messages), request.priority)
                if tries.waited < 0:
                    tries.waited = time.perf_counter() - tries.submitted_at
                try:
                    return await self._ask(server, request, tries, shown)
                except ConnectionLost as error:
                    self._after_loss(server, tries, error)
                    wait = 0.0
                except HttpError as error:
                    wait = self._after_refusal(server, request, tries, error)
                except MalformedResponse as error:
                    raise EngineError(
                        f"{server.url} gave no usable answer: {error}.",
                        "Try a larger model, or a server that supports response_format.",
                    ) from error
                finally:
                    self._pool.release(server)
                await asyncio.sleep(wait)
        except (LocalragError, OSError):  # an OSError comes from the callback: the terminal is closed
            raise
        except Exception as error:
            raise EngineError(f"The answer of {self._file.url} could not be read: {error_location(error)}.") from error
        finally:
            self._end()

    async def _ask(self, server: PooledServer, request: Request, tries: _RetryState, shown: "_MonotonicStream") -> Generation:
        await self._check_size(server, request)
        without, name = server.omitted_fields, server.info.model or self._file.name
        while True:
            body = request_body(name, request, without, spare=tries.allow_extra_tokens, thinks=server.has_reasoning)
            state, answer = StreamState(), GrammarFilter(request.grammar, shown if request.on_text else None)
            begun = time.perf_counter()
            try:
                is_complete = await stream(self._wire, f"{server.url}/chat/completions", body, lambda event: answer.add(state.read(event)))  # noqa: B023
            except HttpError as error:
                omitted = None if too_long(error) else next_omitted_field(error, body, without)
                if omitted is None:
                    raise
                without = omitted
                continue
            server.omitted_fields = without
            if state.finish_reason != "length" or not state.has_reasoning or server.has_reasoning:
                break
            server.has_reasoning = True
        if not state.choices or not (is_complete or state.finish_reason):
            raise MalformedResponse("nothing") if is_complete else ConnectionLost("the stream ended early")
        return self._generation(server, request, tries, state, answer, begun)

    def _generation(
        self, server: PooledServer, request: Request, tries: _RetryState, state: StreamState, answer: GrammarFilter, begun: float
    ) -> Generation:
        complete = state.finish_reason != "length"
        text = answer.finish() if complete else answer.accepted_text if request.on_text else answer.text
        counts = (state.prompt_tokens, state.cached_tokens, state.output_tokens, 0)
        seconds = time.perf_counter() - tries.submitted_at
        self._count(request.task, counts, seconds, tries.waited)
        if request.priority == servers_remote.ANSWER_PRIORITY and state.first_text_at:  # of other requests many wait for each other
            self.figures.prefill_tokens += max(0, counts[0] - counts[1])
            self.figures.prefill_seconds += state.first_text_at - begun
        if complete:
            self._pool.remember_conversation(_conversation((*request.messages, {"role": "assistant", "content": text})), server)
        return Generation(text, complete, (), *counts, seconds, tries.waited, dropped_rows=answer.dropped_rows)

    async def _check_size(self, server: PooledServer, request: Request) -> None:
        """Reject a request that exceeds the server's window, since some servers truncate silently. Raises ContextTooSmall, ConnectionLost.

        A text has at most as many tokens as bytes; tokens are counted only if its bytes do not fit, with the server's vocabulary if
        possible.
        """
        window = server.info.window
        text = "\n".join(m["content"] for m in request.messages)
        room = request.max_tokens + MARKER_TOKENS * len(request.messages)
        if not window or len(text.encode(errors="replace")) + room + json_tokens(request) <= window:
            return
        tokens = await servers_remote.count_tokens(self._wire, server.url, server.info, text)
        if not tokens:
            self._tokenizer = self._tokenizer or Tokenizer(self._file)
            tokens = self._tokenizer.count(text)
        if tokens + room > window:
            remaining = window - tokens - MARKER_TOKENS * len(request.messages)
            raise _no_room(server, f"A prompt of {tokens} tokens with an answer of up to {request.max_tokens}", remaining)

    def _after_loss(self, server: PooledServer, tries: _RetryState, error: ConnectionLost) -> None:
        self._pool.mark_down(server)
        tries.lost += 1
        if tries.lost >= MAX_LOST_CONNECTIONS:
            raise EngineError(
                f"{server.url} lost the connection {tries.lost} times during one request ({error}).", "See the server's own log."
            )

    def _after_refusal(self, server: PooledServer, request: Request, tries: _RetryState, error: HttpError) -> float:
        """Seconds to wait before the next try. Raises the request's error if there is none."""
        if too_long(error):
            if tries.allow_extra_tokens and error.kind != "exceed_context_size_error" and json_tokens(request):
                tries.allow_extra_tokens = False
                return 0.0
            raise _no_room(server, "The request")
        if error.status in GATEWAY:
            self._after_loss(server, tries, ConnectionLost(str(error)))
            return 0.0
        if error.status in BUSY:
            tries.busy += 1
            if time.perf_counter() - tries.submitted_at > down_timeout(request.priority):
                raise EngineError(f"{server.url} has been too busy for {down_timeout(request.priority):.0f} s.", "Lower --parallel.")
            return min(max(error.retry_after, backoff_delay(tries.busy)), down_timeout(request.priority))
        tries.failed += 1
        if error.status not in SERVER_FAILED or tries.failed >= MAX_SERVER_FAILURES:
            raise EngineError(f"{server.url} refused the request ({error}).", _hint(error.status, self._wire, server.url))
        return backoff_delay(tries.failed)

    def _begin(self) -> None:
        if self._under_way == 0:
            self._since = time.perf_counter()
        self._under_way += 1

    def _end(self) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self.figures.seconds += time.perf_counter() - self._since

    def _count(self, task: str, counts: tuple[int, int, int, int], seconds: float, waited: float) -> None:
        figures = self.figures.tasks[task]
        figures.requests += 1
        figures.prompt_tokens += counts[0]
        figures.cached_tokens += counts[1]
        figures.output_tokens += counts[2]
        figures.seconds.append(seconds)
        figures.queue_seconds.append(waited)
        self.figures.steps += 1
        self.figures.rows += counts[0] - counts[1] + counts[2]

    def metrics(self) -> dict[str, Any]:
        """Metrics since the start, as JSON-ready values."""
        return self.figures.to_json(self.parallel_requests) | {"server": self._file.url}

    def close(self) -> None:
        """Stop probing servers that are down; connections end with their requests."""
        for server in self._pool.servers:
            if server.probe and not server.probe.done():
                with suppress(RuntimeError):  # its event loop is closed
                    server.probe.cancel()


class _MonotonicStream:
    """Streams an answer over retries: a new try may only extend the text already shown."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text, self._seen = on_text, ""

    def __call__(self, accepted: str) -> None:
        if self._seen.startswith(accepted):
            return
        if not accepted.startswith(self._seen):
            raise EngineError("The server started a different answer after the connection was lost.", "Ask again.")
        if self._on_text:
            self._on_text(accepted[len(self._seen) :])
        self._seen = accepted


def _conversation(messages: Sequence[dict[str, str]]) -> str:
    """A hash of a conversation up to its last answer; empty if there is none yet."""
    last_answer = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    text = "\0".join(part for m in messages[: last_answer + 1] for part in (m["role"], m["content"]))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest() if text else ""


def _no_room(server: PooledServer, subject: str, remaining: int = 0) -> ContextTooSmall:
    window = f"{server.info.window} tokens" if server.info.window else "its window"
    return ContextTooSmall(
        f"{subject} does not fit into {window} of {server.url}.",
        "Give the server a larger context, or use a smaller chunk size.",
        remaining,
    )


def _hint(status: int, wire: HttpConfig, url: str) -> str:
    if status in (401, 403):
        return key_refused(wire, url).hint
    if status == 404:
        return "Check the address (it ends in /v1) and the model's name: --model http://HOST:PORT/v1#NAME"
    return "See the server's own log."
