"""Access control of the server: AccessPolicy and AccessMiddleware; the private file that opens the page in a browser.

Any web page in a browser on this machine can send requests to the server. They are refused by four checks, made before any route: the Host
header must be a name of the server (against DNS rebinding), an Origin must be its own or allowed, requests that the browser marks as
cross-site are refused, and everything but the empty page needs the key.
"""

import asyncio
import hmac
import html
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localrag.system.files import ensure_private_file, home_dir, read_regular_file, write_atomically

OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
PAGE_PATH = "/"  # may be opened by a link on any site: it contains no data
PUBLIC_PATHS = (PAGE_PATH, "/healthz", "/api/session")  # answer without a key, and so does everything below /static/
FILES_PATH = "/api/files/"  # the only path for large bodies that are not JSON
CHAT_PATHS = ("/v1/chat/completions", "/api/chat", "/api/generate")  # conversations, which may contain pictures
# Ollama's addresses, also those that this server has not: their errors are texts.
OLLAMA_PATHS = {f"/api/{name}" for name in "tags version show chat generate embed embeddings ps pull push create copy delete".split()}
MAX_BODY_BYTES = 1 << 20
MAX_CHAT_BODY_BYTES = 32 << 20
SENDS_WITHIN = 30.0  # seconds for a body, plus the time that the received bytes take at SLOWEST
SLOWEST = 10_000  # bytes a second
CODE_LIFETIME = 600.0  # seconds for which the page's link is valid
BODYLESS_METHODS = ("GET", "HEAD", "OPTIONS", "DELETE")  # requests without a body
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SLASHES = re.compile("/{2,}")
_HOST = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\[\]]+)(?::[0-9]+)?")
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Access rules. The page exchanges a one-time code for the token: neither is in a history or on a visible command line."""

    key: str
    host_names: tuple[str, ...] = OWN_NAMES
    origins: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    login_codes: dict[str, float] = field(default_factory=lambda: {secrets.token_urlsafe(16): time.monotonic()})  # with the time of each

    def token_for(self, code: str) -> str | None:
        """The page's token if `code` is an unexpired one-time code or the API key, else None."""
        if code in self.login_codes:
            created_at, self.login_codes[code] = self.login_codes[code], -CODE_LIFETIME  # used
            return self.token if time.monotonic() - created_at < CODE_LIFETIME else None
        return self.token if hmac.compare_digest(code.encode(), self.key.encode()) else None

    def is_valid_key(self, key: str) -> bool:
        """Whether a text is the API key or the page's token."""
        return any(hmac.compare_digest(key.encode(), known.encode()) for known in (self.key, self.token))


AccessError = tuple[int, str, str]  # status, OpenAI's kind of error, message


def check_access(scope: Scope, policy: AccessPolicy) -> AccessError | None:
    """The reason to refuse a request, or None if it is allowed."""
    headers = Headers(scope=scope)
    refusal = _cross_site_refusal(scope, headers, policy)
    if refusal or scope["method"] == "OPTIONS":
        return refusal
    if not _is_open(scope["path"]) and not any(map(policy.is_valid_key, _keys_in_headers(headers))):
        return 401, "authentication_error", "Give the key that `localrag serve` printed: Authorization: Bearer KEY"
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] not in BODYLESS_METHODS and not _is_file(scope) and kind != "application/json":
        return 415, "invalid_request_error", "Send application/json."
    return None


def _keys_in_headers(headers: Headers) -> list[str]:
    keys = [headers.get(name, "").strip() for name in ("x-api-key", "api-key")]
    words = headers.get("authorization", "").split()
    if len(words) in (1, 2) and words[0].lower() != "basic":
        keys.append(words[-1])
    return keys


def _is_open(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith("/static/")


def _is_file(scope: Scope) -> bool:
    return bool(scope["method"] == "PUT" and scope["path"].startswith(FILES_PATH))


def _cross_site_refusal(scope: Scope, headers: Headers, policy: AccessPolicy) -> AccessError | None:
    """The reason to refuse a request as cross-site, or None. A link to the page from another site is allowed."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if _name(host) not in policy.host_names:
        return 421, "invalid_request_error", "This is not a known name of this server. Allow it: localrag serve --trust-host NAME"
    allowed = origin is not None and (origin in policy.origins or _is_own(origin, host))
    if origin is not None and not allowed:
        return 403, "invalid_request_error", "Pages of that origin may not use this server. Allow one: localrag serve --cors ORIGIN"
    followed = scope["path"] == PAGE_PATH and scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not allowed and not followed:
        return 403, "invalid_request_error", "Pages of other sites may not use this server."
    return None


def _name(host: str) -> str:
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else ""


def _is_own(origin: str, host: str) -> bool:
    """Whether a page was loaded from this server, under the name that the request uses."""
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


class AccessMiddleware:
    """Middleware that checks access, limits request bodies, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward an allowed request, or answer with the refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "//" in scope["path"]:  # of an address that ends with a slash, joined with a path that begins with one
            path = _SLASHES.sub("/", scope["path"])
            scope = {**scope, "path": path, "raw_path": path.encode()}

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", [])}
                more = [(k.encode(), v.encode()) for k, v in SECURITY_HEADERS.items() if k.encode() not in own]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        if refusal := check_access(scope, self._policy):
            status, kind, text = refusal
            await refusal_response(scope["path"], status, text, kind)(scope, receive, sent)
            return
        await self._app(scope, _limited_receive(receive, _body_limit(scope)), sent)


def _body_limit(scope: Scope) -> int | None:
    if _is_file(scope):
        return None
    return MAX_CHAT_BODY_BYTES if scope["path"] in CHAT_PATHS else MAX_BODY_BYTES


def _limited_receive(receive: Receive, limit: int | None) -> Receive:
    """Wrap `receive`: bodies of more than `limit` bytes, or for which the server waits past the deadline, raise HTTPException."""
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
        if limit is not None and read > limit:
            raise HTTPException(413, f"At most {limit:,} bytes are read.")
        return message

    return received


def openai_error(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None, hint: str = "") -> JSONResponse:
    """An error response in OpenAI's format; `hint` says how to fix the problem."""
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code, "hint": hint}}, status)


def refusal_response(path: str, status: int, message: str, kind: str = "invalid_request_error") -> JSONResponse:
    """An error response in the form of the API that a path belongs to."""
    return JSONResponse({"error": message}, status) if path in OLLAMA_PATHS else openai_error(status, message, kind)


def json_body(data: bytes, required: Sequence[str] = ()) -> dict[str, object]:
    """Parse a JSON object with the required keys. Raises ValueError with a message for the client."""
    try:
        body = json.loads(data)
        if _SURROGATE.search(data):
            json.dumps(body, ensure_ascii=False).encode()  # raises for half a character
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The body is not valid JSON: {type(error).__name__}.") from None
    if not isinstance(body, dict):
        raise ValueError("The body is not a JSON object.")
    if missing := [name for name in required if name not in body]:
        raise ValueError(f"The body lacks {', '.join(missing)}.")
    return body


SNAP_FOLDER = Path("/snap")  # browsers installed by snap see neither the folder for temporary files nor hidden folders at home
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>localrag</title>
<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">localrag</a></html>
"""


@contextmanager
def redirect_file(link: str) -> Iterator[Path]:
    """A file that redirects a browser to a link and that only its owner may read; removed at the end."""
    home = home_dir() if SNAP_FOLDER.is_dir() and os.access(home_dir(), os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="localrag-", dir=home))  # mode 0700
    try:
        page = ensure_private_file(folder / "open.html")
        page.write_text(_PAGE.format(link=html.escape(link)), encoding="utf-8")
        yield page
    finally:
        shutil.rmtree(folder, ignore_errors=True)


SERVER_FILE = "serve.lock"  # a file of the index folder
MAX_LOCK_BYTES = 10_000
WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}  # what is listened on: where that is reached
LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server of an index: process id and start time, loopback address and port, and the file of its key."""

    pid: int
    started_at: float
    host: str
    port: int
    key_file: str

    @property
    def address(self) -> str:
        """Where it speaks MCP."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/mcp"


@contextmanager
def announce_server(folder: Path, host: str, port: int, key_file: Path) -> Iterator[None]:
    """Write the address of this process's server to the index folder while the context lasts, if the folder can be written."""
    mine = RunningServer(os.getpid(), psutil.Process().create_time(), WILDCARD_HOSTS.get(host, host), port, str(key_file.absolute()))
    if mine.host not in LOOPBACK:  # only reached over the network, which a bridge does not use
        yield
        return
    with suppress(OSError):
        write_atomically(folder / SERVER_FILE, json.dumps(asdict(mine)).encode())
    try:
        yield
    finally:
        if _read_lock_file(folder) == mine:
            (folder / SERVER_FILE).unlink(missing_ok=True)


def find_running_server(folder: Path) -> RunningServer | None:
    """The server of an index, if its own process is alive and listens on the port: no other process is given the key."""
    found = _read_lock_file(folder)
    if found is None or found.host not in LOOPBACK:
        return None
    try:
        process = psutil.Process(found.pid)
        if abs(process.create_time() - found.started_at) > 1:
            return None
        listening = {c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    except (psutil.Error, OSError):
        return None
    return found if found.port in listening else None


def _read_lock_file(folder: Path) -> RunningServer | None:
    """The content of the lock file; None if it is missing, damaged, or may have been written by another user."""
    file = folder / SERVER_FILE
    try:
        if os.name == "posix" and ((state := file.stat()).st_uid != os.getuid() or state.st_mode & 0o077):
            return None
        return RunningServer(**json.loads(read_regular_file(file, MAX_LOCK_BYTES)))
    except (OSError, ValueError, TypeError):
        return None
