"""Who may speak to the server: the names it goes by, where a page comes from, a key, and how much may be sent.

Any web page that a browser on this machine has open can send requests to this machine. What keeps it out: the Host header must be a name of
ours (a rebound name is not), an Origin must be ours or allowed, what the browser calls cross-site is refused, and everything but `/healthz`
needs the key. Checked before any route, so a new route cannot forget it.
"""

import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
OPEN = ("/healthz",)  # answers without a key, and says nothing but that somebody listens
MOST_BYTES = 1 << 20  # of a body
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
    """What is let in: names the server goes by, origins of pages beside its own, and the key (a random text)."""

    key: str
    names: tuple[str, ...] = OWN_NAMES
    origins: tuple[str, ...] = ()


Refusal = tuple[int, str, str]  # status, OpenAI's kind of error, message


def refusal(scope: Scope, door: Door) -> Refusal | None:
    """Why a request is turned away; None where it is not."""
    headers = Headers(scope=scope)
    found = _from_elsewhere(headers, door)
    if found or scope["path"] in OPEN or scope["method"] == "OPTIONS":
        return found
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), door.key.encode()):
        return 401, "authentication_error", "Give the key that `localrag serve` printed: Authorization: Bearer KEY"
    if scope["method"] not in ANY_TYPE and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return 415, "invalid_request_error", "Send application/json."
    return None


def _from_elsewhere(headers: Headers, door: Door) -> Refusal | None:
    """Why a request is taken for one of another site's page."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if _name(host) not in door.names:
        return 421, "invalid_request_error", "This server does not go by that name. Allow it: localrag serve --trust-host NAME"
    allowed = origin is not None and (origin in door.origins or _is_own(origin, host))
    if origin is not None and not allowed:
        return 403, "invalid_request_error", "Pages of that origin may not use this server. Allow one: localrag serve --cors ORIGIN"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not allowed:
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
        origin = Headers(scope=scope).get("origin", "")

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = dict(HEADERS)
                if origin in self._door.origins:
                    own |= {"access-control-allow-origin": origin, "vary": "Origin"}
                    own |= {"access-control-allow-headers": "authorization, content-type", "access-control-allow-methods": "GET, POST"}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in own.items())]
            await send(message)

        if found := refusal(scope, self._door):
            status, kind, text = found
            await error(status, text, kind)(scope, receive, sent)
            return
        if scope["method"] == "OPTIONS":
            await JSONResponse({})(scope, receive, sent)
            return
        await self._app(scope, _bounded(receive), sent)


def _bounded(receive: Receive) -> Receive:
    """`receive`, but for a body without a length that does not end."""
    read = 0

    async def received() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BYTES:
            raise HTTPException(413, f"At most {MOST_BYTES:,} bytes are read.")
        return message

    return received


def error(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> JSONResponse:
    """An error as OpenAI's clients read it."""
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)


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
