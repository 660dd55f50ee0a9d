"""HTTP client for model servers: requests, event streams, grammar filter. No other module of localrag opens such a connection.

Only this machine and explicitly allowed hosts are contacted, without proxy, redirects or cookies. Every request has its own connection: it
costs a millisecond, and no stale one remains after an event loop ends or a server restarts.

Optional fields are those that not every server supports (llama-server, vLLM, LM Studio, Ollama); a server that rejects one gets the request
again without it. The filter drops lines of an answer that the request's grammar does not allow. Accepted text is only appended to, so it
can be streamed.
"""

import ipaddress
import json
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from llguidance import LLMatcher, LLTokenizer

from localrag.engine.request import Request
from localrag.engine.sampler import PARSER_LIMITS, Grammar
from localrag.errors import EngineError, UsageError
from localrag.system.trust import is_trust_known, remember_trust

READ_TIMEOUT_S = 600  # between two chunks of an answer
CONNECT_TIMEOUT_S = 5
KEY_HINT = "Give its key as LOCALRAG_API_KEY, or the key's file as LOCALRAG_API_KEY_FILE."
MAX_RESPONSE_BYTES = 4 << 20  # ten times the longest answer


class ConnectionLost(Exception):
    """The server could not be reached, or the connection broke before the answer was complete."""


class MalformedResponse(Exception):
    """The answer is no JSON, no event stream, or too long; the message never quotes it."""


class HttpError(Exception):
    """The server answered with an error. `words` only serves to recognise errors: it may echo the request."""

    def __init__(self, status: int, kind: str = "", words: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {kind}".strip())
        self.status, self.kind, self.words, self.retry_after = status, kind, words.lower(), retry_after


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Headers, keys and trusted certificates for requests to servers."""

    headers: dict[str, str]
    trust: ssl.SSLContext | bool
    keys: dict[str, str] = field(default_factory=dict, repr=False)  # by scheme, host and port
    unbound: str = ""  # hash of a key not bound yet; it is bound to the servers in `keys` when one answers

    def headers_for(self, url: str) -> dict[str, str]:
        """The headers of a request to this URL, with the key of that server only."""
        key = self.keys.get(_origin(url))
        return self.headers | ({"Authorization": f"Bearer {key}"} if key else {})

    def bind_key(self) -> None:
        """Bind a new key to its servers. Only a hash of the key is stored."""
        if self.unbound:
            _bind_key(self.unbound, list(self.keys))


def check_host(url: str, allowed: Sequence[str]) -> None:
    """Reject every host except this machine and those allowed, without resolving names. Raises UsageError."""
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL:
        host = ""
    if not host:
        raise UsageError(f"{url} is not the address of a server.", "Format: --model http://127.0.0.1:8080/v1#NAME")
    if host in allowed or host == "localhost" or _is_loopback(host):
        return
    raise UsageError(f"{url} is not on this machine: documents would leave it.", f"If that is what you want: --allow-host {host}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_config(urls: Sequence[str], *, by_index: bool = False) -> HttpConfig:
    """The keys of LOCALRAG_API_KEY or the file LOCALRAG_API_KEY_FILE, and the CA of LOCALRAG_CA_FILE. Raises UsageError.

    A key is sent only to the servers it is bound to: those given with it, as `ADDRESS KEY`; otherwise those that the user, not the index
    (`by_index`), named when it was first used.
    """
    headers = {"Accept-Encoding": "identity", "User-Agent": "localrag", "Content-Type": "application/json"}
    keys, unbound = _api_keys([_origin(url) for url in urls], bind=not by_index)
    if not any(url.startswith("https:") for url in urls):
        return HttpConfig(headers, trust=False, keys=keys, unbound=unbound)
    ca = os.environ.get("LOCALRAG_CA_FILE")
    try:
        return HttpConfig(headers, ssl.create_default_context(cafile=ca), keys, unbound)
    except OSError as error:
        raise UsageError(f"LOCALRAG_CA_FILE={ca} contains no readable certificates.", "Give a PEM file.") from error


def _api_keys(origins: Sequence[str], *, bind: bool) -> tuple[dict[str, str], str]:
    """The key of each server that gets one, and the hash of a key used for the first time, else an empty string."""
    words = _key().split()
    if len(words) == 1:
        digest = _digest(words[0])
        new = bind and not is_trust_known("key", digest)
        return {origin: words[0] for origin in origins if new or is_trust_known("key", digest, origin)}, digest if new else ""
    if len(words) % 2 or not all(word.startswith(("http://", "https://")) for word in words[::2]):
        raise UsageError(
            "The key of the model server contains spaces, but is not a list of servers with keys.",
            "Give one word, or one pair for each server: http://HOST:PORT KEY",
        )
    keys = {_origin(url): key for url, key in zip(words[::2], words[1::2], strict=True)}
    for origin, key in keys.items():
        _bind_key(_digest(key), [origin])
    return keys, ""


def _digest(key: str) -> str:
    return sha256(f"key of a model server {key}".encode()).hexdigest()


def _bind_key(digest: str, origins: Sequence[str]) -> None:
    remember_trust("key", digest)
    for origin in origins:
        remember_trust("key", digest, origin)


def _origin(url: str) -> str:
    """Scheme, host and port of a URL."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    return f"{parsed.scheme}://{parsed.host}:{parsed.port or (443 if parsed.scheme == 'https' else 80)}"


def key_refused(wire: HttpConfig, url: str) -> EngineError:
    """The error for a server that rejects a request because of a missing or wrong key."""
    if _key() and _origin(url) not in wire.keys:
        return EngineError(
            f"{url} asks for a key. The key that is set belongs to another server, so it was not sent.",
            f"Set the key of this server: LOCALRAG_API_KEY='{_origin(url)} KEY'",
        )
    return EngineError(f"{url} does not accept the key.", KEY_HINT)


def _key() -> str:
    key, file = os.environ.get("LOCALRAG_API_KEY", ""), os.environ.get("LOCALRAG_API_KEY_FILE")
    if not key and file:
        try:
            key = Path(file).expanduser().read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise UsageError(f"The key in {file} (LOCALRAG_API_KEY_FILE) cannot be read.", "Check its path and permissions.") from error
    key = key.strip()
    if not all(line.isascii() and line.isprintable() for line in key.splitlines()):
        raise UsageError(
            "The key of the model server contains characters that a key cannot have.", "A key is one line of ASCII characters."
        )
    return key


async def get(wire: HttpConfig, url: str, seconds: float = CONNECT_TIMEOUT_S) -> Any:
    """GET a JSON value. Raises ConnectionLost, HttpError, MalformedResponse, EngineError."""
    async with _open_response(wire, "GET", url, None, seconds) as response:
        return _json(b"".join([part async for part in _body_chunks(response)]))


async def post(wire: HttpConfig, url: str, body: dict[str, Any], seconds: float = CONNECT_TIMEOUT_S) -> Any:
    """POST a small request and return the JSON answer. Raises ConnectionLost, HttpError, MalformedResponse, EngineError."""
    async with _open_response(wire, "POST", url, body, seconds) as response:
        return _json(b"".join([part async for part in _body_chunks(response)]))


async def stream(wire: HttpConfig, url: str, body: dict[str, Any], on_event: Callable[[Any], None]) -> bool:
    """Send a request and pass every event of its answer to `take`; whether the stream ended properly. A plain JSON answer is one event.

    Leaving by an exception or cancellation closes the connection, and the server stops computing. llama-server does so for streamed answers
    only: a slot whose plain request was dropped worked on for 25 s, a streamed one was free after 0.03 s. So every request streams. Raises
    ConnectionLost, HttpError, MalformedResponse, EngineError.
    """
    async with _open_response(wire, "POST", url, body, READ_TIMEOUT_S) as response:
        waiting, streams, done = b"", None, False
        async for part in _body_chunks(response):
            waiting += part
            if streams is None and (start := waiting.lstrip()):
                streams = start.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))
            if streams:
                *lines, waiting = waiting.split(b"\n")
                done = _events(lines, on_event) or done
        if streams:
            return _events([waiting], on_event) or done
        on_event(_json(waiting))
        return True


def _events(lines: Sequence[bytes], on_event: Callable[[Any], None]) -> bool:
    """Pass the values of a stream's lines to `on_event`; whether the stream said [DONE]."""
    done = False
    for line in lines:
        name, _, value = line.strip().partition(b":")
        if name in (b"data", b"error") and (data := value.strip()):
            if data == b"[DONE]":
                done = True
            else:
                on_event(_json(data) if name == b"data" else {"error": _json(data)})
    return done


async def _body_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body in chunks, up to MAX_RESPONSE_BYTES. Raises MalformedResponse."""
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise MalformedResponse(f"more than {MAX_RESPONSE_BYTES >> 20} MB")
        yield part


@asynccontextmanager
async def _open_response(
    wire: HttpConfig, method: str, url: str, body: dict[str, Any] | None, seconds: float
) -> AsyncIterator[httpx.Response]:
    content = None if body is None else json.dumps(body).encode()
    limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_S))
    try:
        async with (
            httpx.AsyncClient(headers=wire.headers_for(url), verify=wire.trust, trust_env=False, timeout=limits) as client,
            client.stream(method, url, content=content) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise await _refusal(response)
            wire.bind_key()
            yield response
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise EngineError(
                f"The certificate of {url} is not trusted here.", "Name its certificate authority: LOCALRAG_CA_FILE=ca.pem"
            ) from error
        raise ConnectionLost(type(error).__name__) from error


async def _refusal(response: httpx.Response) -> HttpError:
    """The error of a response that is not OK."""
    try:
        body = _json(b"".join([part async for part in _body_chunks(response)]))
    except MalformedResponse:
        body = None
    details = body.get("error", body) if isinstance(body, dict) else body
    after = response.headers.get("Retry-After", "")
    return refused(response.status_code, details, float(after) if after.isdigit() else 0.0)


def refused(status: int, details: Any, retry_after: float = 0.0) -> HttpError:
    """An error from a server's description: `{"type", "code", "message"}` or a sentence."""
    kind = details.get("type") if isinstance(details, dict) else ""
    kind = kind if isinstance(kind, str) and kind.replace("_", "").isalpha() and len(kind) < 40 else ""
    return HttpError(status, kind, json.dumps(details), retry_after)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedResponse(f"no JSON, in {len(data)} bytes") from error


# Switch thinking off: llama-server and vLLM read `chat_template_kwargs`, both and Ollama `reasoning_effort`; the templates of Granite and
# DeepSeek name the switch `thinking`.
_OPTIONAL: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
    "reasoning_effort": "none",
    "stream_options": {"include_usage": True},
}
_NAMED_BY = {"chat_template_kwargs": "chat_template", "reasoning_effort": "reasoning", "stream_options": "stream_options", "seed": "seed"}
_LEAST_REASONING = "reasoning_effort=none"  # if this value is rejected, "low" is sent: gpt-oss always thinks
_JSON_OVERHEAD_TOKENS = 64  # braces, whitespace (llama.cpp's schema allows two line breaks and 20 spaces), a code fence
_REASONING_TOKENS = 2000  # added for a model that thinks although told not to
_TOO_LONG = re.compile(r"context (length|size|window)|maximum context|prompt is too long|too many tokens")


def request_body(model: str, request: Request, without: frozenset[str], *, spare: bool = True, thinks: bool = False) -> dict[str, Any]:
    """The request as JSON. `without`: optional fields that this server rejected; `spare`: add tokens for JSON syntax and thinking."""
    s = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens + (json_tokens(request) + _REASONING_TOKENS * thinks if spare else 0),
        "temperature": s.temperature,
        "top_p": s.top_p,
        "seed": s.seed,
        "stream": True,
        **_OPTIONAL,
    }
    if s.min_p:
        body["min_p"] = s.min_p
    if _LEAST_REASONING in without:
        body["reasoning_effort"] = "low"
    if request.stop:
        body["stop"] = list(request.stop)
    if request.grammar and request.grammar.schema:
        shape = {"name": "answer", "schema": request.grammar.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return {name: value for name, value in body.items() if name not in without}


def next_omitted_field(error: HttpError, body: dict[str, Any], without: frozenset[str]) -> frozenset[str] | None:
    """The fields to omit after an error: those it names, else all optional ones; None if none are left."""
    if error.status not in (400, 422):
        return None
    named = [name for name, word in _NAMED_BY.items() if name in body and word in error.words]
    if named == ["reasoning_effort"] and _LEAST_REASONING not in without:
        return without | {_LEAST_REASONING}
    omitted = named or [name for name in _NAMED_BY if name in body]
    return without | set(omitted) if omitted else None


def too_long(error: HttpError) -> bool:
    """Whether a server rejected a request because it exceeds its window."""
    return error.status in (400, 413, 422) and (error.kind == "exceed_context_size_error" or bool(_TOO_LONG.search(error.words)))


def json_tokens(request: Request) -> int:
    """Tokens of an answer's JSON syntax: callers count only the tokens of the local grammar."""
    return _JSON_OVERHEAD_TOKENS + _extra(request.grammar.schema) if request.grammar and request.grammar.schema else 0


def _extra(schema: dict[str, Any]) -> int:
    """Tokens of names, quotes and brackets in a value of a schema, and of its longest fixed value."""
    if "properties" in schema:
        return sum(len(name.encode()) // 2 + 6 + _extra(part) for name, part in schema["properties"].items())
    if schema.get("type") == "array":
        return int(schema.get("maxItems", 10)) * (3 + _extra(schema["items"]))
    return max((len(str(value).encode()) // 2 + 1 for value in schema.get("enum", [])), default=2)


@dataclass(slots=True)
class StreamState:
    """What a server's events have reported so far, besides the text."""

    finish_reason: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    choices: bool = False
    has_reasoning: bool = False
    first_text_at: float = 0.0  # time.perf_counter()

    def read(self, event: Any) -> str:
        """The text that an event adds. Raises HttpError for an error event, MalformedResponse."""
        if not isinstance(event, dict):
            raise MalformedResponse("an answer in an unknown format")
        if error := event.get("error"):
            status = as_count(error.get("code")) if isinstance(error, dict) else 0
            raise refused(status if 400 <= status < 600 else 500, error)
        if isinstance(usage := event.get("usage"), dict):
            details = usage.get("prompt_tokens_details")
            self.prompt_tokens, self.output_tokens = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
            self.cached_tokens = as_count(details.get("cached_tokens")) if isinstance(details, dict) else 0
        choices = event.get("choices")
        if not choices:
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        message = (choice.get("delta") or choice.get("message")) if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message or {}, dict):
            raise MalformedResponse("an answer in an unknown format")
        self.choices = True
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        text = (message or {}).get("content") or ""
        if not isinstance(text, str) or not isinstance(self.finish_reason, str):
            raise MalformedResponse("an answer in an unknown format")
        self.has_reasoning = (
            self.has_reasoning or "<think>" in text or any((message or {}).get(name) for name in ("reasoning_content", "reasoning"))
        )
        if (text or self.has_reasoning) and not self.first_text_at:
            self.first_text_at = time.perf_counter()
        return text


def as_count(value: Any) -> int:
    """A count from a server's JSON; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else 0


class GrammarFilter:
    """Filters an answer while it arrives: `add` text, then `finish`; `accepted_text` is the part that the grammar allows."""

    def __init__(self, grammar: Grammar | None, on_kept: Callable[[str], None] | None = None) -> None:
        self.text = self.accepted_text = ""
        self._grammar, self._on_kept = grammar, on_kept
        self._taken = 0  # parts processed
        self.dropped_rows = 0  # of these, the ones that the grammar does not allow

    def add(self, new: str) -> None:
        """Add text; with a callback, complete list items and plain text outside thinking are accepted at once."""
        self.text += new
        if self._on_kept is None:
            return
        if self._grammar is None:
            self._keep(strip_reasoning(self.text))
        elif self._grammar.from_json and (items := complete_items(json_part(self.text))):
            try:
                self._take(self._grammar, self._grammar.from_json({"items": items}))
            except (KeyError, TypeError, ValueError, AttributeError):
                return  # incomplete or malformed: `finish` decides

    def finish(self) -> str:
        """The whole answer in the grammar's form. Raises MalformedResponse if the grammar allows none of it."""
        if self._grammar is None:
            self._keep(strip_reasoning(self.text))
        else:
            self._finish(self._grammar)
        try:
            self.accepted_text.encode()
        except UnicodeEncodeError as error:
            raise MalformedResponse("half a character") from error
        return self.accepted_text

    def _finish(self, grammar: Grammar) -> None:
        try:
            value = json_value(self.text, grammar.schema or {}) if grammar.from_json else None
            parts = grammar.from_json(value) if grammar.from_json else [strip_reasoning(self.text)]
            self._take(grammar, parts)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise MalformedResponse(f"not of the form asked for, in {len(self.text)} characters") from error
        lark = grammar.next_grammar(self.accepted_text)
        if lark is not None and not _accepts(lark, ""):
            raise MalformedResponse(f"nothing that was asked for, in {len(self.text)} characters")

    def _take(self, grammar: Grammar, parts: list[str]) -> None:
        for part in parts[self._taken :]:
            lark = grammar.next_grammar(self.accepted_text)
            if lark is not None and _accepts(lark, part):
                self._keep(self.accepted_text + part)
            else:
                self.dropped_rows += 1
            self._taken += 1

    def _keep(self, text: str) -> None:
        if text != self.accepted_text and self._on_kept:
            self._on_kept(text)
        self.accepted_text = text


def _accepts(lark: str, text: str) -> bool:
    matcher = LLMatcher(_byte_tokenizer(), lark, log_level=0, limits=PARSER_LIMITS)
    return not matcher.is_error() and matcher.consume_tokens(list(text.encode())) and bool(matcher.is_accepting())


@cache
def _byte_tokenizer() -> Any:
    return LLTokenizer("byte")


def strip_reasoning(text: str) -> str:
    """The text after a thinking block, whose start tag a template may have written; empty while the block is open."""
    start = text.lstrip()
    if start.startswith("<think>") or ("</think>" in text and "<think>" not in text):
        return text.partition("</think>")[2].lstrip()
    return "" if "<think>".startswith(start) else text


def json_part(text: str) -> str:
    """The JSON object of an answer, without thinking before it and a code fence around it."""
    text = text if text.lstrip().startswith("{") else strip_reasoning(text)
    start, end = text.find("{"), text.rfind("}")
    return text[start:] if end < start else text[start : end + 1] if start >= 0 else ""


def json_value(text: str, schema: dict[str, Any]) -> Any:
    """The JSON value of an answer. A list may also come as an array, as one object a line, or under another name. Raises ValueError."""
    if list(schema.get("properties", ())) != ["items"]:
        return json.loads(json_part(text))
    values = _json_values(text if text.lstrip().startswith(("{", "[")) else strip_reasoning(text))
    if not values:
        raise ValueError("no JSON")
    rows: list[Any] = []
    for value in values:
        lists = [part for part in value.values() if isinstance(part, list)] if isinstance(value, dict) and len(value) == 1 else []
        rows += value if isinstance(value, list) else lists[0] if lists else [value]
    return {"items": rows}


def _json_values(text: str) -> list[Any]:
    """The objects and arrays that follow one another in a text, without what stands between them."""
    values: list[Any] = []
    decoder, position = json.JSONDecoder(), 0
    while start := re.compile(r"[\[{]").search(text, position):
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.end()
        else:
            values.append(value)
    return values


def complete_items(text: str) -> list[Any]:
    """The complete members of `{"items": [...`, as far as it has arrived."""
    head, bracket, body = text.partition("[")
    if not bracket or "".join(head.split()) != '{"items":':
        return []
    items: list[Any] = []
    decoder, position = json.JSONDecoder(), 0
    while True:
        while position < len(body) and body[position] in " \t\r\n,":
            position += 1
        try:
            item, position = decoder.raw_decode(body, position)
        except (ValueError, RecursionError):
            return items
        if not isinstance(item, (dict, str)):  # a number may continue
            return items
        items.append(item)
