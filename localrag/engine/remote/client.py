"""HTTP client for model servers: requests and event streams. No other module of localrag opens such a connection.

Only this machine and explicitly allowed hosts are contacted, without proxy, redirects or cookies. Every request has its own connection: it
costs a millisecond, and no stale one remains after an event loop ends or a server restarts. Every exchange has one deadline for all of it:
a server that sends a byte now and then is as good as one that sends none.
"""

import asyncio
import ipaddress
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from localrag.engine.remote.refusals import MAX_ERROR_CHARS, HttpError, refused, retry_delay
from localrag.engine.remote.replies import MalformedResponse, NoResponse
from localrag.errors import EngineError, UsageError
from localrag.system.trust import is_trust_known, remember_trust

READ_TIMEOUT_S = 600.0  # to the first event of an answer, and between two of them
ANSWER_TIMEOUT_S = 3600.0  # for a whole answer
CONNECT_TIMEOUT_S = 5
KEY_HINT = "Give its key as LOCALRAG_API_KEY, or the key's file as LOCALRAG_API_KEY_FILE."
MAX_RESPONSE_BYTES = 4 << 20  # ten times the longest answer


class ConnectionLost(Exception):
    """The server could not be reached, or the connection broke before the answer was complete."""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Headers and trusted certificates for requests to one server, whose key is among the headers."""

    origin: str  # scheme, host and port
    headers: dict[str, str] = field(repr=False)
    trust: ssl.SSLContext | bool
    unbound: str = ""  # hash of a key that is bound to the server when it answers

    def bind_key(self) -> None:
        """Bind a new key to its server. Only a hash of the key is stored."""
        if self.unbound:
            _bind_key(self.unbound, self.origin)


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


def http_config(url: str, *, by_index: bool = False) -> HttpConfig:
    """The key of LOCALRAG_API_KEY or the file LOCALRAG_API_KEY_FILE, and the CA of LOCALRAG_CA_FILE. Raises UsageError.

    A key is sent only to the server it is bound to: the one given with it, as `ADDRESS KEY`; otherwise the one that the user, not the index
    (`by_index`), named when it was first used.
    """
    origin = _origin(url)
    headers = {"Accept-Encoding": "identity", "User-Agent": "localrag", "Content-Type": "application/json"}
    key, unbound = _key_of(origin, bind=not by_index)
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    if not url.startswith("https:"):
        return HttpConfig(origin, headers, trust=False, unbound=unbound)
    ca = os.environ.get("LOCALRAG_CA_FILE")
    try:
        return HttpConfig(origin, headers, ssl.create_default_context(cafile=ca), unbound)
    except OSError as error:
        raise UsageError(f"LOCALRAG_CA_FILE={ca} contains no readable certificates.", "Give a PEM file.") from error


def _key_of(origin: str, *, bind: bool) -> tuple[str, str]:
    """The key that a server gets, and the key's hash if it is used for the first time; empty strings for none."""
    words = _key().split()
    if len(words) == 2 and words[0].startswith(("http://", "https://")):
        _bind_key(_digest(words[1]), _origin(words[0]))
        return words[1] if _origin(words[0]) == origin else "", ""
    if len(words) > 1:
        raise UsageError(
            "The key of the model server contains spaces, but is not a server with its key.",
            "Give one word, or the server and its key: http://HOST:PORT KEY",
        )
    digest = _digest("".join(words))
    new = bool(words) and bind and not is_trust_known("key", digest)
    return words[0] if new or (words and is_trust_known("key", digest, origin)) else "", digest if new else ""


def _digest(key: str) -> str:
    return sha256(f"key of a model server {key}".encode()).hexdigest()


def _bind_key(digest: str, origin: str) -> None:
    remember_trust("key", digest)
    remember_trust("key", digest, origin)


def _origin(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    return f"{parsed.scheme}://{parsed.host}:{parsed.port or (443 if parsed.scheme == 'https' else 80)}"


def key_refused(wire: HttpConfig, url: str) -> EngineError:
    """The error for a server that rejects a request because of a missing or wrong key."""
    if _key() and "Authorization" not in wire.headers:
        return EngineError(
            f"{url} asks for a key. The key that is set belongs to another server, so it was not sent.",
            f"Set the key of this server: LOCALRAG_API_KEY='{wire.origin} KEY'",
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
    """GET a JSON value within `seconds`. Raises ConnectionLost, HttpError, MalformedResponse, EngineError."""
    async with _open_response(wire, "GET", url, None, seconds) as (response, _):
        return _json(b"".join([part async for part in _body_chunks(response)]))


async def post(wire: HttpConfig, url: str, body: dict[str, Any], seconds: float = CONNECT_TIMEOUT_S) -> Any:
    """POST a small request and return the JSON answer, within `seconds`. Raises what `get` raises."""
    async with _open_response(wire, "POST", url, body, seconds) as (response, _):
        return _json(b"".join([part async for part in _body_chunks(response)]))


async def stream(wire: HttpConfig, url: str, body: dict[str, Any], on_event: Callable[[Any], None]) -> bool:
    """Send a request and pass every event of its answer to `on_event`; whether the stream ended properly. A plain JSON answer is one event.

    Leaving by an exception or cancellation closes the connection, and the server stops computing. llama-server does so for streamed answers
    only: a slot whose plain request was dropped worked on for 25 s, a streamed one was free after 0.03 s. So requests stream wherever that
    is possible. Raises ConnectionLost, HttpError, NoResponse, MalformedResponse, EngineError.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + ANSWER_TIMEOUT_S
    async with _open_response(wire, "POST", url, body, READ_TIMEOUT_S) as (response, deadline):

        def extend_and_pass(event: Any) -> None:
            deadline.reschedule(min(loop.time() + READ_TIMEOUT_S, end))
            on_event(event)

        reader = _EventReader(extend_and_pass)
        async for part in _body_chunks(response):
            reader.add(part)
        return reader.finish()


class _EventReader:
    """Passes the events of an answer on as their lines end, or one JSON value; a line of many parts is joined once."""

    def __init__(self, on_event: Callable[[Any], None]) -> None:
        self._on_event = on_event
        self._parts: list[bytes] = []  # of the line that has not ended
        self._other_lines: list[bytes] = []  # of an answer that is no stream
        self._streams, self._done = False, False

    def add(self, part: bytes) -> None:
        """Add a part of the body."""
        self._parts.append(part)
        if b"\n" not in part:
            return
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts = [rest]
        for line in lines:
            self._read(line)

    def _read(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b":")
        if not self._streams and (self._other_lines or name not in (b"data", b"error", b"event", b"id", b"retry", b"")):
            self._other_lines.append(line)
            return
        self._streams = self._streams or bool(line.strip())
        if name in (b"data", b"error") and (data := value.strip()):
            if data == b"[DONE]":
                self._done = True
            else:
                self._on_event(_json(data) if name == b"data" else {"error": _json(data)})

    def finish(self) -> bool:
        """Read what is left; whether the answer ended properly."""
        self._read(b"".join(self._parts))
        if self._streams:
            return self._done
        value = b"\n".join(self._other_lines)
        if not value.strip():
            raise NoResponse("nothing")
        self._on_event(_json(value))
        return True


async def _body_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise MalformedResponse(f"more than {MAX_RESPONSE_BYTES >> 20} MB")
        yield part


@asynccontextmanager
async def _open_response(
    wire: HttpConfig, method: str, url: str, body: dict[str, Any] | None, seconds: float
) -> AsyncIterator[tuple[httpx.Response, asyncio.Timeout]]:
    content = None if body is None else json.dumps(body).encode()
    limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_S))
    try:
        async with (
            asyncio.timeout(seconds) as deadline,
            httpx.AsyncClient(headers=wire.headers, verify=wire.trust, trust_env=False, timeout=limits) as client,
            client.stream(method, url, content=content) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise await _refusal(response)
            wire.bind_key()
            yield response, deadline
    except TimeoutError as error:
        raise ConnectionLost("its answer did not end in time") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise EngineError(
                f"The certificate of {url} is not trusted here.", "Name its certificate authority: LOCALRAG_CA_FILE=ca.pem"
            ) from error
        raise ConnectionLost(type(error).__name__) from error


async def _refusal(response: httpx.Response) -> HttpError:
    retry_after = retry_delay(response.headers.get("Retry-After", ""))
    try:
        data = b"".join([part async for part in _body_chunks(response)])
    except MalformedResponse:
        return refused(response.status_code, None, retry_after)
    try:
        body = _json(data)
    except MalformedResponse:
        return refused(response.status_code, data[: 4 * MAX_ERROR_CHARS].decode(errors="replace"), retry_after)
    details = body.get("error", body) if isinstance(body, dict) else body
    return refused(response.status_code, details, retry_after)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedResponse(f"no JSON, in {len(data)} bytes") from error
