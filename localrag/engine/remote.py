"""A model behind an OpenAI-compatible server (llama-server, LM Studio, vLLM, Ollama) instead of one in this process.

Such a server takes a JSON schema, no grammar. So a request's schema goes there, and what comes back is held to the request's own grammar
here: a line the grammar would not have allowed is left out, and an answer of which nothing is left is an error.
"""

import asyncio
import ipaddress
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from llguidance import LLMatcher, LLTokenizer

from localrag.engine.figures import Figures
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import LIMITS, Grammar
from localrag.errors import EngineFailed, UsageError

AT_ONCE = 8  # requests under way; servers queue or refuse beyond their slots
PATIENCE = 600  # seconds for one answer


def check_host(url: str, allowed: tuple[str, ...]) -> None:
    """Refuse every host but this machine and those allowed by name, without looking any name up. Raises UsageError."""
    host = urlsplit(url).hostname or ""
    if host in allowed or host == "localhost" or _is_loopback(host):
        return
    raise UsageError(f"{url} is not on this machine: documents would leave it.", f"If that is what you want: --allow-host {host or 'HOST'}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A server must not send documents elsewhere."""


class Remote:
    """Answers requests through the server at `url` (up to and with its /v1), with the model it calls `name`."""

    def __init__(self, url: str, name: str, *, allowed: tuple[str, ...] = ()) -> None:
        """Raises UsageError for a host that is neither this machine nor allowed."""
        check_host(url, allowed)
        self.figures = Figures()
        self.window, self.at_once = 4096, AT_ONCE
        self._url, self._name = url.rstrip("/") + "/chat/completions", name
        self._free = asyncio.Semaphore(AT_ONCE)
        # No proxy: the environment must not decide where documents go.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
        self._bytes = LLTokenizer("byte")

    async def generate(self, request: Request) -> Generation:
        """The server's answer to the request's messages. Raises EngineFailed."""
        asked = time.perf_counter()
        async with self._free:
            waited = time.perf_counter() - asked
            answer = await asyncio.to_thread(self._post, _body(self._name, request))
        try:
            text, ended = answer["choices"][0]["message"]["content"] or "", answer["choices"][0].get("finish_reason")
        except (KeyError, IndexError, TypeError) as error:
            raise EngineFailed(f"{self._url} answered in an unknown form, of {len(str(answer))} characters.") from error
        complete = ended != "length"
        if complete and request.grammar:
            text = self._held(request.grammar, text)
        usage = answer.get("usage") or {}
        counts = (int(usage.get("prompt_tokens", 0)), 0, int(usage.get("completion_tokens", 0)), 0)
        seconds = time.perf_counter() - asked
        self._count(request.task, counts, seconds, waited)
        if request.on_text:
            request.on_text(text)
        return Generation(text, complete, (), *counts, seconds, waited)

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
        try:
            with self._opener.open(urllib.request.Request(self._url, json.dumps(body).encode(), headers), timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            said = error.read(300).decode(errors="replace")
            raise EngineFailed(f"{self._url} refused the request ({error.code}): {said}") from error
        except (OSError, ValueError) as error:
            raise EngineFailed(f"{self._url} gave no answer: {error}", "Is the server running? Check its address.") from error

    def _held(self, grammar: Grammar, text: str) -> str:
        """The answer in the grammar's own form, without what the grammar would not have allowed. Raises EngineFailed if nothing is left."""
        try:
            pieces = grammar.from_json(json.loads(text)) if grammar.from_json else [text]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineFailed(
                f"{self._url} did not keep to the schema, in an answer of {len(text)} characters.",
                "Use a server that supports response_format.",
            ) from error
        kept = ""
        for piece in pieces:
            lark = grammar.following(kept)
            if lark is not None and self._accepts(lark, piece):
                kept += piece
        lark = grammar.following(kept)
        if lark is not None and not self._accepts(lark, ""):
            raise EngineFailed(f"{self._url} answered what the request does not allow, in {len(text)} characters.", "Try a larger model.")
        return kept

    def _accepts(self, lark: str, piece: str) -> bool:
        matcher = LLMatcher(self._bytes, lark, log_level=0, limits=LIMITS)
        return not matcher.is_error() and matcher.consume_tokens(list(piece.encode())) and bool(matcher.is_accepting())

    def _count(self, task: str, counts: tuple[int, int, int, int], seconds: float, waited: float) -> None:
        figures = self.figures.tasks[task]
        figures.requests += 1
        figures.prompt_tokens += counts[0]
        figures.output_tokens += counts[2]
        figures.seconds.append(seconds)
        figures.waits.append(waited)
        self.figures.steps += 1
        self.figures.rows += counts[0] + counts[2]

    def report(self) -> dict[str, Any]:
        """What was done so far, as JSON-ready values."""
        return self.figures.to_json(AT_ONCE) | {"server": self._url}

    def close(self) -> None:
        """Nothing is held open."""


def _body(name: str, request: Request) -> dict[str, Any]:
    s = request.sampling
    body: dict[str, Any] = {
        "model": name,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": s.temperature,
        "top_p": s.top_p,
        "seed": s.seed,
        "stream": False,
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.grammar and request.grammar.schema:
        shape = {"name": "answer", "schema": request.grammar.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return body
