"""Who may speak to the server: the names it goes by, where a page comes from, a key, and how much may be sent.

Any web page that a browser on this machine has open can send requests to this machine. What keeps it out: the Host header must be a name of
ours (a rebound name is not), an Origin must be ours or allowed, what the browser calls cross-site is refused, and everything but the empty
page needs the key. Checked before any route, so a new route cannot forget it.
"""

import asyncio
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
PAGE = "/"  # may be reached by a link on any page: it holds nothing
OPEN = (PAGE, "/healthz", "/api/session")  # answer without a key; what is below /static/ does, too
FILES = "/api/files/"  # the one place for bodies that are no JSON, and large
MOST_BYTES = 1 << 20  # of a body
SENDS_WITHIN = 30.0  # seconds for a body, plus those that the bytes received take at SLOWEST
SLOWEST = 10_000  # bytes a second
CODE_LIFETIME = 600.0  # seconds in which the page's link opens it
ANY_TYPE = ("GET", "HEAD", "OPTIONS", "DELETE")  # have no body
_HOST = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\[\]]+)(?::[0-9]+)?")
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Door:
    """What is let in: names the server goes by, origins of pages beside its own, the programs' key, and the page's token of this launch.

    The page is given the token for a code that works once, so that neither is in a browser's history or on a command line that others see.
    """

    key: str
    names: tuple[str, ...] = OWN_NAMES
    origins: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    codes: dict[str, float] = field(default_factory=lambda: {secrets.token_urlsafe(16): time.monotonic()})  # with their times

    def token_for(self, code: str) -> str | None:
        """The page's token, for an unused code that is not too old, or for the key."""
        made = self.codes.pop(code, None)
        if made is not None and time.monotonic() - made < CODE_LIFETIME:
            return self.token
        return self.token if hmac.compare_digest(code.encode(), self.key.encode()) else None

    def opens(self, key: str) -> bool:
        """Whether a key or token opens the documents."""
        return any(hmac.compare_digest(key.encode(), known.encode()) for known in (self.key, self.token))


Refusal = tuple[int, str, str]  # status, OpenAI's kind of error, message


def refusal(scope: Scope, door: Door) -> Refusal | None:
    """Why a request is turned away; None where it is not."""
    headers = Headers(scope=scope)
    found = _from_elsewhere(scope, headers, door)
    if found or scope["method"] == "OPTIONS":
        return found
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if not _is_open(scope["path"]) and (scheme.lower() != "bearer" or not door.opens(key)):
        return 401, "authentication_error", "Give the key that `localrag serve` printed: Authorization: Bearer KEY"
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] not in ANY_TYPE and not _is_file(scope) and kind != "application/json":
        return 415, "invalid_request_error", "Send application/json."
    return None


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/static/")


def _is_file(scope: Scope) -> bool:
    return bool(scope["method"] == "PUT" and scope["path"].startswith(FILES))


def _from_elsewhere(scope: Scope, headers: Headers, door: Door) -> Refusal | None:
    """Why a request is taken for one of another site's page. A link to our page is none."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if _name(host) not in door.names:
        return 421, "invalid_request_error", "This server does not go by that name. Allow it: localrag serve --trust-host NAME"
    allowed = origin is not None and (origin in door.origins or _is_own(origin, host))
    if origin is not None and not allowed:
        return 403, "invalid_request_error", "Pages of that origin may not use this server. Allow one: localrag serve --cors ORIGIN"
    followed = scope["path"] == PAGE and scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not allowed and not followed:
        return 403, "invalid_request_error", "Pages of other sites may not use this server."
    return None


def _name(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else ""


def _is_own(origin: str, host: str) -> bool:
    """Whether a page was loaded from this server, under the name that the request uses."""
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


class Guard:
    """The middleware: refuses, limits what is read, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or turn it away."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", [])}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        if found := refusal(scope, self._door):
            status, kind, text = found
            await error(status, text, kind)(scope, receive, sent)
            return
        await self._app(scope, _bounded(receive, None if _is_file(scope) else MOST_BYTES), sent)


def _bounded(receive: Receive, most: int | None) -> Receive:
    """`receive`, but a body of more than `most` bytes, or one that comes too slowly, is refused.

    Only the time in which the server waits for the client counts.
    """
    read, waited, ended = 0, 0.0, False

    async def received() -> Message:
        nonlocal read, waited, ended
        if ended:
            return await receive()  # waits for the client to leave
        began = time.monotonic()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, SENDS_WITHIN + read / SLOWEST - waited))
        except TimeoutError:
            raise HTTPException(408, f"The body came too slowly: {read:,} bytes in {SENDS_WITHIN + read / SLOWEST:.0f} seconds.") from None
        waited += time.monotonic() - began
        read += len(message.get("body", b""))
        ended = not message.get("more_body", False)
        if most is not None and read > most:
            raise HTTPException(413, f"At most {most:,} bytes are read.")
        return message

    return received


def error(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None, hint: str = "") -> JSONResponse:
    """An error as OpenAI's clients read it; `hint` says what mends it."""
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code, "hint": hint}}, status)


def json_body(data: bytes, required: Sequence[str] = ()) -> dict[str, object]:
    """The object in a body. Raises ValueError with a message for the sender."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"The body is no JSON: {type(wrong).__name__}.") from None
    if not isinstance(found, dict):
        raise ValueError("The body is no JSON object.")
    if missing := [name for name in required if name not in found]:
        raise ValueError(f"The body lacks {', '.join(missing)}.")
    return found
