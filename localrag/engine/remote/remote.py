"""A model behind OpenAI-compatible servers (llama-server, LM Studio, vLLM, Ollama) instead of one in this process.

Such a server takes a JSON schema, no grammar. So a request's schema goes there, and what comes back is held to the request's own grammar
here: a line the grammar would not have allowed is left out, and an answer of which nothing is left is an error.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from localrag.engine.remote import facts as told
from localrag.engine.remote.dialect import Told, body_of, json_tokens, next_without, too_long
from localrag.engine.remote.facts import identified
from localrag.engine.remote.held import Answer
from localrag.engine.remote.pool import Pool, Server, patience, pause
from localrag.engine.remote.server import Lost, Malformed, Refused, Wire, check_host, key_refused, open_wire, stream
from localrag.engine.request import Generation, Request
from localrag.engine.settings import EngineOptions
from localrag.engine.tokens import Tokenizer
from localrag.engine.usage import Figures
from localrag.errors import ContextTooSmall, EngineFailed, LocalragError, kind_and_place
from localrag.models import Facts, ModelFile

__all__ = ["Remote", "check_host", "identified"]

MOST_LOST, MOST_FAILED = 5, 3  # how often one request may break the connection, or the server fail on it, before it is to blame itself
MARKS = 8  # tokens that a chat template puts around a message
SERVER_FAILED, BUSY, GATEWAY = (500, 501), (429, 503), (502, 504)


@dataclass(slots=True)
class _Tries:
    """What happened to a request so far."""

    asked: float
    waited: float = -1.0  # seconds until it first had a slot
    lost: int = 0
    failed: int = 0
    busy: int = 0
    spare: bool = True  # whether its answer gets more tokens than the local engine would need


class Remote:
    """Answers requests through the servers of a `ModelFile` with `url`. It may be used from several event loops, one after the other."""

    def __init__(self, file: ModelFile, options: EngineOptions) -> None:
        """Raises UsageError for a host that is neither this machine nor allowed, or a key or CA that cannot be read."""
        for url in file.urls:
            check_host(url, options.allowed_hosts)
        self.figures = Figures()
        self._file = replace(file, facts=file.facts or tuple(Facts() for _ in file.urls))
        self._wire = open_wire(file.urls, by_index=file.by_index)
        # A server is asked how it is before it gets its first document: the model behind it may be another by now.
        servers = [
            Server(url, facts, told.at_once(facts, options), down_since=time.monotonic())
            for url, facts in zip(file.urls, self._file.facts, strict=True)
        ]
        self._pool = Pool(servers, lambda url: told.look(self._wire, url, file), options.say, file.digest)
        self._tokenizer: Tokenizer | None = None
        self._under_way, self._since = 0, 0.0

    @property
    def window(self) -> int:
        """Tokens a request may have, prompt and answer; 4096 where no server tells."""
        return told.window([s.facts for s in self._pool.servers])

    @property
    def at_once(self) -> int:
        """Requests that all servers together answer at the same time."""
        return self._pool.capacity

    @property
    def parameters(self) -> int | None:
        """The model's parameters, where a server tells."""
        return next((s.facts.parameters for s in self._pool.servers if s.facts.parameters), None)

    async def generate(self, request: Request) -> Generation:
        """A server's answer to the request's messages; cancelling closes the connection, and the server stops.

        Waits for servers that are down or busy. Raises ContextTooSmall, EngineFailed; ModelError where no server has the model any more.
        """
        tries = _Tries(time.perf_counter())
        shown = _Shown(request.on_text)
        self._begin()
        try:
            while True:
                server = await self._pool.take(_conversation(request.messages), request.priority)
                if tries.waited < 0:
                    tries.waited = time.perf_counter() - tries.asked
                try:
                    return await self._ask(server, request, tries, shown)
                except Lost as error:
                    self._after_loss(server, tries, error)
                    wait = 0.0
                except Refused as error:
                    wait = self._after_refusal(server, request, tries, error)
                except Malformed as error:
                    raise EngineFailed(
                        f"{server.url} gave no answer that can be used: {error}.",
                        "Try a larger model, or a server that supports response_format.",
                    ) from error
                finally:
                    self._pool.give(server)
                await asyncio.sleep(wait)
        except (LocalragError, OSError):  # an OSError is that of whoever watches: the terminal is gone
            raise
        except Exception as error:
            raise EngineFailed(f"The answer of {self._file.url} could not be read: {kind_and_place(error)}.") from error
        finally:
            self._end()

    async def _ask(self, server: Server, request: Request, tries: _Tries, shown: "_Shown") -> Generation:
        await self._check_size(server, request)
        without, name = server.without, server.facts.model or self._file.name
        while True:
            body = body_of(name, request, without, spare=tries.spare, thinks=server.thinks)
            heard, answer = Told(), Answer(request.grammar, shown if request.on_text else None)
            try:
                whole = await stream(self._wire, f"{server.url}/chat/completions", body, lambda event: answer.add(heard.read(event)))  # noqa: B023
            except Refused as error:
                left = None if too_long(error) else next_without(error, body, without)
                if left is None:
                    raise
                without = left
                continue
            server.without = without
            if heard.ended != "length" or not heard.thought or server.thinks:
                break
            server.thinks = True
        if not heard.choices or not (whole or heard.ended):
            raise Malformed("nothing") if whole else Lost("the stream ended early")
        return self._generation(server, request, tries, heard, answer)

    def _generation(self, server: Server, request: Request, tries: _Tries, heard: Told, answer: Answer) -> Generation:
        complete = heard.ended != "length"
        text = answer.finish() if complete else answer.kept if request.on_text else answer.text
        counts = (heard.prompt_tokens, heard.cached_tokens, heard.output_tokens, 0)
        seconds = time.perf_counter() - tries.asked
        self._count(request.task, counts, seconds, tries.waited)
        if complete:
            self._pool.keep(_conversation((*request.messages, {"role": "assistant", "content": text})), server)
        return Generation(text, complete, (), *counts, seconds, tries.waited)

    async def _check_size(self, server: Server, request: Request) -> None:
        """Refuse what cannot fit where the server tells its window: some cut the prompt without a word. Raises ContextTooSmall, Lost.

        Bytes are at least as many as tokens; only where they are too many are tokens counted, by the server's own vocabulary if it tells.
        """
        window = server.facts.window
        text = "\n".join(m["content"] for m in request.messages)
        room = request.max_tokens + MARKS * len(request.messages)
        if not window or len(text.encode(errors="replace")) + room + json_tokens(request) <= window:
            return
        tokens = await told.count(self._wire, server.url, server.facts, text)
        if not tokens:
            self._tokenizer = self._tokenizer or Tokenizer(self._file)
            tokens = self._tokenizer.count(text)
        if tokens + room > window:
            left = window - tokens - MARKS * len(request.messages)
            raise _no_room(server, f"A prompt of {tokens} tokens with an answer of up to {request.max_tokens}", left)

    def _after_loss(self, server: Server, tries: _Tries, error: Lost) -> None:
        self._pool.lost(server)
        tries.lost += 1
        if tries.lost >= MOST_LOST:
            raise EngineFailed(
                f"{server.url} lost the connection {tries.lost} times over one request ({error}).", "See the server's own log."
            )

    def _after_refusal(self, server: Server, request: Request, tries: _Tries, error: Refused) -> float:
        """Seconds to wait before the request is sent again. Raises what it fails with."""
        if too_long(error):
            if tries.spare and error.kind != "exceed_context_size_error" and json_tokens(request):
                tries.spare = False
                return 0.0
            raise _no_room(server, "The request")
        if error.status in GATEWAY:
            self._after_loss(server, tries, Lost(str(error)))
            return 0.0
        if error.status in BUSY:
            tries.busy += 1
            if time.perf_counter() - tries.asked > patience(request.priority):
                raise EngineFailed(f"{server.url} has been too busy for {patience(request.priority):.0f} s.", "Lower --at-once.")
            return min(max(error.retry_after, pause(tries.busy)), patience(request.priority))
        tries.failed += 1
        if error.status not in SERVER_FAILED or tries.failed >= MOST_FAILED:
            raise EngineFailed(f"{server.url} refused the request ({error}).", _hint(error.status, self._wire, server.url))
        return pause(tries.failed)

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
        figures.waits.append(waited)
        self.figures.steps += 1
        self.figures.rows += counts[0] - counts[1] + counts[2]

    def report(self) -> dict[str, Any]:
        """What was done so far, as JSON-ready values."""
        return self.figures.to_json(self.at_once) | {"server": self._file.url}

    def close(self) -> None:
        """Stop asking servers that are down how they are; connections ended with their requests."""
        for server in self._pool.servers:
            if server.probe and not server.probe.done():
                with suppress(RuntimeError):  # its event loop is closed already
                    server.probe.cancel()


class _Shown:
    """What a person has seen of an answer. A second try may only go on from it: what is shown is what is kept."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text, self._seen = on_text, ""

    def __call__(self, kept: str) -> None:
        if self._seen.startswith(kept):
            return
        if not kept.startswith(self._seen):
            raise EngineFailed("The server began another answer after the connection was lost.", "Ask again.")
        if self._on_text:
            self._on_text(kept[len(self._seen) :])
        self._seen = kept


def _conversation(messages: Sequence[dict[str, str]]) -> str:
    """What stands for a conversation up to its last answer; empty where there is none yet."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    said = "\0".join(part for m in messages[: last + 1] for part in (m["role"], m["content"]))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest() if said else ""


def _no_room(server: Server, what: str, left: int = 0) -> ContextTooSmall:
    window = f"{server.facts.window} tokens" if server.facts.window else "its window"
    return ContextTooSmall(
        f"{what} does not fit into {window} of {server.url}.", "Give the server a larger context, or use a smaller chunk size.", left
    )


def _hint(status: int, wire: Wire, url: str) -> str:
    if status in (401, 403):
        return key_refused(wire, url).hint
    if status == 404:
        return "Check the address (it ends in /v1) and the model's name: --model http://HOST:PORT/v1#NAME"
    return "See the server's own log."
