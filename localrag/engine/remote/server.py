"""HTTP to model servers. No other module of localrag opens a connection, and this one only to this machine and to hosts that were allowed.

No proxy, no redirect, no cookie: nothing but the address that the user gave decides where documents go. A connection is made for every
request: it costs a millisecond, and neither an event loop that has ended nor a server that was restarted leaves a stale one behind.
"""

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

from localrag.errors import EngineFailed, UsageError
from localrag.system.trust import is_known, remember

PATIENCE = 600  # seconds between two signs of life of an answer
CONNECT = 5  # seconds until a connection stands
KEY_HINT = "Give its key as LOCALRAG_API_KEY, or the key's file as LOCALRAG_API_KEY_FILE."
MOST_BYTES = 4 << 20  # of one answer; the longest takes a tenth of that


class Lost(Exception):
    """The server could not be reached, or the connection broke before the answer was complete."""


class Malformed(Exception):
    """The answer is no JSON, no stream of events, or endless; the message never quotes it."""


class Refused(Exception):
    """The server answered with an error. `words` is for telling errors apart only: it may echo what was sent."""

    def __init__(self, status: int, kind: str = "", words: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{status} {kind}".strip())
        self.status, self.kind, self.words, self.retry_after = status, kind, words.lower(), retry_after


@dataclass(frozen=True, slots=True)
class Wire:
    """How to talk to servers: with which key, and whose certificates are trusted."""

    headers: dict[str, str]
    trust: ssl.SSLContext | bool
    keys: dict[str, str] = field(default_factory=dict, repr=False)  # by scheme, host and port
    unbound: str = ""  # the hash of a key bound to no server yet; it is bound to those in `keys` when one of them answers

    def headers_for(self, url: str) -> dict[str, str]:
        """The headers of a request to an address, with the key of that server only."""
        key = self.keys.get(_origin(url))
        return self.headers | ({"Authorization": f"Bearer {key}"} if key else {})

    def bind_key(self) -> None:
        """Bind a key that was used for the first time to its servers. Only a hash of the key is stored."""
        if self.unbound:
            _bind_key(self.unbound, list(self.keys))


def check_host(url: str, allowed: Sequence[str]) -> None:
    """Refuse every host but this machine and those allowed by name, without looking any name up. Raises UsageError."""
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL:
        host = ""
    if not host:
        raise UsageError(f"{url} is no address of a server.", "Write it like this: --model http://127.0.0.1:8080/v1#NAME")
    if host in allowed or host == "localhost" or _is_loopback(host):
        return
    raise UsageError(f"{url} is not on this machine: documents would leave it.", f"If that is what you want: --allow-host {host}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_wire(urls: Sequence[str], *, by_index: bool = False) -> Wire:
    """The keys of LOCALRAG_API_KEY or of the file LOCALRAG_API_KEY_FILE, and the CA of LOCALRAG_CA_FILE. Raises UsageError.

    A key is sent only to the servers it is bound to: those that it is given with, as `ADDRESS KEY`; otherwise those that the user, not the
    index (`by_index`), named when it was first used.
    """
    headers = {"Accept-Encoding": "identity", "User-Agent": "localrag", "Content-Type": "application/json"}
    keys, unbound = _keys([_origin(url) for url in urls], bind=not by_index)
    if not any(url.startswith("https:") for url in urls):
        return Wire(headers, trust=False, keys=keys, unbound=unbound)
    ca = os.environ.get("LOCALRAG_CA_FILE")
    try:
        return Wire(headers, ssl.create_default_context(cafile=ca), keys, unbound)
    except OSError as error:
        raise UsageError(f"LOCALRAG_CA_FILE={ca} holds no certificates that can be read.", "Give a PEM file.") from error


def _keys(asked: Sequence[str], *, bind: bool) -> tuple[dict[str, str], str]:
    """The key of each server that gets one, and the hash of a key that is used for the first time, else an empty string."""
    words = _key().split()
    if len(words) == 1:
        digest = _digest(words[0])
        new = bind and not is_known("key", digest)
        return {origin: words[0] for origin in asked if new or is_known("key", digest, origin)}, digest if new else ""
    if len(words) % 2 or not all(word.startswith(("http://", "https://")) for word in words[::2]):
        raise UsageError(
            "The key of the model server has spaces in it, but is no list of servers with their keys.",
            "Give one word, or for each server: http://HOST:PORT KEY",
        )
    keys = {_origin(url): key for url, key in zip(words[::2], words[1::2], strict=True)}
    for origin, key in keys.items():
        _bind_key(_digest(key), [origin])
    return keys, ""


def _digest(key: str) -> str:
    return sha256(f"key of a model server {key}".encode()).hexdigest()


def _bind_key(digest: str, origins: Sequence[str]) -> None:
    remember("key", digest)
    for origin in origins:
        remember("key", digest, origin)


def _origin(url: str) -> str:
    """Scheme, host and port of an address."""
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    return f"{found.scheme}://{found.host}:{found.port or (443 if found.scheme == 'https' else 80)}"


def key_refused(wire: Wire, url: str) -> EngineFailed:
    """The error for a server that refuses a request for its key: it got the wrong one, or none."""
    if _key() and _origin(url) not in wire.keys:
        return EngineFailed(
            f"{url} asks for a key. The key that is set belongs to another server, so it was not sent.",
            f"Set the key of this server: LOCALRAG_API_KEY='{_origin(url)} KEY'",
        )
    return EngineFailed(f"{url} does not take the key.", KEY_HINT)


def _key() -> str:
    key, file = os.environ.get("LOCALRAG_API_KEY", ""), os.environ.get("LOCALRAG_API_KEY_FILE")
    if not key and file:
        try:
            key = Path(file).expanduser().read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise UsageError(f"The key in {file} (LOCALRAG_API_KEY_FILE) cannot be read.", "Check its path and rights.") from error
    key = key.strip()
    if not all(line.isascii() and line.isprintable() for line in key.splitlines()):
        raise UsageError("The key of the model server holds characters that no key has.", "It is one line of ASCII characters.")
    return key


async def get(wire: Wire, url: str, seconds: float = CONNECT) -> Any:
    """The JSON value at an address. Raises Lost, Refused, Malformed, EngineFailed."""
    async with _opened(wire, "GET", url, None, seconds) as response:
        return _json(b"".join([part async for part in _parts(response)]))


async def post(wire: Wire, url: str, body: dict[str, Any], seconds: float = CONNECT) -> Any:
    """The JSON value that a small request brings back. Raises Lost, Refused, Malformed, EngineFailed."""
    async with _opened(wire, "POST", url, body, seconds) as response:
        return _json(b"".join([part async for part in _parts(response)]))


async def stream(wire: Wire, url: str, body: dict[str, Any], take: Callable[[Any], None]) -> bool:
    """Send a request and hand on every event of its answer as it comes; an answer in one piece is one event. Whether it said that it ended.

    Leaving by an exception or by cancellation closes the connection, at which servers stop computing. (llama.cpp's does so for streamed
    answers only: a slot whose plain request had been dropped went on to the end of its answer, 25 s, and was free after 0.03 s when it
    streamed. So every request streams.) Raises Lost, Refused, Malformed, EngineFailed.
    """
    async with _opened(wire, "POST", url, body, PATIENCE) as response:
        waiting, streams, done = b"", None, False
        async for part in _parts(response):
            waiting += part
            if streams is None and (start := waiting.lstrip()):
                streams = start.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))
            if streams:
                *lines, waiting = waiting.split(b"\n")
                done = _events(lines, take) or done
        if streams:
            return _events([waiting], take) or done
        take(_json(waiting))
        return True


def _events(lines: Sequence[bytes], take: Callable[[Any], None]) -> bool:
    """Hand on the values of a stream's lines; whether the stream said that it is done."""
    done = False
    for line in lines:
        name, _, value = line.strip().partition(b":")
        if name in (b"data", b"error") and (said := value.strip()):
            if said == b"[DONE]":
                done = True
            else:
                take(_json(said) if name == b"data" else {"error": _json(said)})
    return done


async def _parts(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body in pieces, as long as it is of a size that an answer may have. Raises Malformed."""
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MOST_BYTES:
            raise Malformed(f"more than {MOST_BYTES >> 20} MB")
        yield part


@asynccontextmanager
async def _opened(wire: Wire, method: str, url: str, body: dict[str, Any] | None, seconds: float) -> AsyncIterator[httpx.Response]:
    content = None if body is None else json.dumps(body).encode()
    limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT))
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
            raise EngineFailed(
                f"The certificate of {url} is not trusted here.", "Name the CA behind it: LOCALRAG_CA_FILE=ca.pem"
            ) from error
        raise Lost(type(error).__name__) from error


async def _refusal(response: httpx.Response) -> Refused:
    """What an error answer says, as far as its words can be told apart."""
    try:
        said = _json(b"".join([part async for part in _parts(response)]))
    except Malformed:
        said = None
    about = said.get("error", said) if isinstance(said, dict) else said
    after = response.headers.get("Retry-After", "")
    return refused(response.status_code, about, float(after) if after.isdigit() else 0.0)


def refused(status: int, about: Any, retry_after: float = 0.0) -> Refused:
    """An error as servers describe it: `{"type", "code", "message"}` or a sentence."""
    kind = about.get("type") if isinstance(about, dict) else ""
    kind = kind if isinstance(kind, str) and kind.replace("_", "").isalpha() and len(kind) < 40 else ""
    return Refused(status, kind, json.dumps(about), retry_after)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON, in {len(data)} bytes") from error
