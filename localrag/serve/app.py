"""The server's application: routes, static files under a content security policy, limits on connections, and running uvicorn."""

import asyncio
import logging
import os
import resource
import signal
from asyncio import Transport
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from errno import EADDRINUSE
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from localrag.errors import LocalragError, UsageError
from localrag.serve import api, files, ollama, openai, runs, tables
from localrag.serve.auth import (
    AccessMiddleware,
    AccessPolicy,
    announce_server,
    find_running_server,
    json_body,
    openai_error,
    refusal_response,
)
from localrag.serve.context import ServerContext, error_response
from localrag.serve.mcp_http import McpHttp
from localrag.serve.table_worker import TableWorker
from localrag.system.files import remove_stale_temp_files

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
MEDIA_TYPES = {  # fixed, because the system's table may be wrong
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


def page_routes(policy: AccessPolicy) -> list[Route]:
    """Routes of the page, its static files, the exchange of a code for the token, and the health check."""
    folder = Path(__file__).parent / "static"
    responses = {file.relative_to(folder).as_posix(): _file_response(file) for file in folder.rglob("*") if file.suffix in MEDIA_TYPES}

    def page(_request: Request) -> Response:
        return responses["index.html"]

    def static(request: Request) -> Response:
        return responses.get(request.path_params["name"]) or openai_error(404, f"There is nothing at {request.url.path}.")

    async def session(request: Request) -> Response:
        code = str(json_body(await request.body(), ["code"])["code"]).strip()
        token = policy.token_for(code)
        if token is None and code in policy.login_codes:
            return openai_error(401, "The link was already used, or has expired.", "authentication_error", hint="Give the key instead.")
        if token is None:
            hint = "It is what `localrag serve` printed behind `Key:`."
            return openai_error(401, "The key is wrong.", "authentication_error", hint=hint)
        return JSONResponse({"token": token})

    return [
        Route("/", page),
        Route("/static/{name:path}", static),
        Route("/api/session", session, methods=["POST"]),
        Route("/healthz", lambda _request: JSONResponse({"ok": True})),
    ]


def _file_response(file: Path) -> Response:
    # Loaded anew each time, which is cheap on one machine, so that pages and files of two versions are never mixed.
    headers = {"cache-control": "no-cache", "content-security-policy": CONTENT_SECURITY_POLICY}
    return Response(file.read_bytes(), headers=headers, media_type=MEDIA_TYPES[file.suffix])


def all_routes(
    site: ServerContext, policy: AccessPolicy, pages: files.PageRenderer, mcp: McpHttp, table_worker: TableWorker
) -> Sequence[BaseRoute]:
    """All routes of the server."""
    programs = (openai.openai_routes, ollama.ollama_routes)
    page = (api.question_routes, api.model_routes, runs.status_routes, api.browse_routes, api.graph_routes)
    routes = [route for part in (*programs, *page) for route in part(site)]
    return [*page_routes(policy), *routes, *files.file_routes(site, pages), *tables.table_routes(site, table_worker), *mcp.routes()]


def make_app(site: ServerContext, policy: AccessPolicy) -> Starlette:
    """The application behind AccessMiddleware, CORS and the handler of failures."""
    shared = Middleware(
        CORSMiddleware, allow_origins=policy.origins, allow_methods=["*"], allow_headers=["*"], expose_headers=["mcp-session-id"]
    )
    table_worker = TableWorker(site.query_worker)
    mcp = McpHttp(site.query_worker, site.folder, table_worker)
    # Innermost, so that no exception reaches uvicorn's log: its message may contain text of documents.
    failing = Middleware(ExceptionMiddleware, handlers={Exception: _failure_response})
    pages = files.PageRenderer()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        remove_stale_temp_files(site.inbox)  # unfinished uploads of a server that was killed
        try:
            async with mcp.lifespan():
                yield
        finally:
            pages.close()
            table_worker.close()

    around = [Middleware(AccessMiddleware, policy=policy), shared, failing]
    return Starlette(
        routes=all_routes(site, policy, pages, mcp, table_worker),
        middleware=around,
        exception_handlers=_EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )


async def _failure_response(_request: Request, failed: Exception) -> Response:
    return error_response(failed)


async def _http_error(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    return refusal_response(request.url.path, refused.status_code, refused.detail)


async def _not_found_response(request: Request, _error: Exception) -> Response:
    return refusal_response(request.url.path, 404, f"There is nothing at {request.url.path} for {request.method}.")


_EXCEPTION_HANDLERS: dict[Any, Any] = {404: _not_found_response, 405: _not_found_response, HTTPException: _http_error}

MAX_CONNECTIONS = 512  # a browser opens six, a program a few
REQUEST_TIMEOUT_S = 30.0  # for the headers of a request, from its first byte or from the end of the previous response
SEND_TIMEOUT_S = 60.0  # in which a client must read MIN_SENT_BYTES of the pending response, or all of it
MIN_SENT_BYTES = 64 << 10
TOO_MANY_CONNECTIONS_BODY = (
    b'{"error":{"message":"Too many connections are open.","type":"server_error","param":null,"code":"busy","hint":"Close some."}}'
)
_TOO_MANY_CONNECTIONS_HEAD = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n"
)
_REFUSED_RESPONSE = _TOO_MANY_CONNECTIONS_HEAD + b"content-length: %d\r\n\r\n%b"


class LimitedConnection(H11Protocol):
    """An HTTP connection with limits that uvicorn lacks: on open connections, on time for headers, and on time to read a response.

    Every request has its own deadline for headers. AccessMiddleware limits the time of a body that is being read; here, a body that
    continues after its response has a deadline. A response may take any time to compute, but the client must read the bytes sent.
    """

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it with 503 if too many are open."""
        if len(self.connections) >= MAX_CONNECTIONS:
            transport.write(_REFUSED_RESPONSE % (len(TOO_MANY_CONNECTIONS_BODY), TOO_MANY_CONNECTIONS_BODY))
            transport.close()
            self.transport = transport
            return
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # `pause_writing` is called at the first unread byte
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        for timer in (self._deadline, self._unread):
            if timer:
                timer.cancel()
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes, and update the deadline for headers."""
        if self not in self.connections:
            return
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_watch()  # first byte of a request: its deadline starts now
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start the deadline for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Start the deadline for reading: the client has unread bytes."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Stop the deadline for reading: the client has read everything."""
        if self._unread:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        """Start the deadline, unless it runs, while the server waits for headers or for the rest of an answered request's body."""
        answered = self.cycle is None or self.cycle.response_complete
        if not answered or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

    def _stop_watch(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _watch_reading(self) -> None:
        self._unread = self.loop.call_later(SEND_TIMEOUT_S, self._check_reading, self.transport.get_write_buffer_size())

    def _check_reading(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < MIN_SENT_BYTES:
            self.transport.abort()
        else:
            self._watch_reading()


def uvicorn_limits() -> dict[str, Any]:
    """Arguments of `uvicorn.Config` that set the limits."""
    return {"http": LimitedConnection, "ws": "none", "timeout_keep_alive": 30, "timeout_graceful_shutdown": 3}


TCP_NODELAY = (6, 1)  # values of `socket`, which tests reserve for clients; small responses do not wait for an acknowledgement


def run_server(site: ServerContext, policy: AccessPolicy, host: str, port: int, key_file: Path, announce: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `announce` gets the address once connections are accepted. `key_file` is for `localrag mcp`."""
    _allow_open_files()
    listener = _listen(site.folder, host, port)
    config = uvicorn.Config(_not_ready_app, host=host, port=port, access_log=False, log_level="warning", lifespan="on", **uvicorn_limits())
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    site = replace(site, address=address)
    config.app = make_app(site, policy)
    server = uvicorn.Server(config)
    if os.name == "posix" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # uvicorn knows SIGINT and SIGTERM
        signal.signal(signal.SIGHUP, lambda _, frame: server.handle_exit(signal.SIGTERM, frame))
    failures: list[BaseException] = []

    def failed(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    site.query_worker.start(failed)
    try:
        with announce_server(site.folder, host, listener.getsockname()[1], key_file):
            announce(address)
            server.run(sockets=[listener])
    finally:
        try:
            site.query_worker.close()
        finally:  # also if Ctrl-C interrupts the wait for loading models
            site.index_runs.close()
    if failures:
        raise failures[0]


def _listen(folder: Path, host: str, port: int) -> Any:
    silent = uvicorn.Config(_not_ready_app, host=host, port=port, log_level=logging.CRITICAL + 1)
    try:
        listener = silent.bind_socket()
        listener.setsockopt(*TCP_NODELAY, 1)  # connections inherit it
        listener.listen(MAX_CONNECTIONS)
    except (OSError, SystemExit, UnicodeError) as error:  # SystemExit: as uvicorn ends after an OSError
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(cause, OSError) or cause.errno != EADDRINUSE:
            why = cause.strerror if isinstance(cause, OSError) else cause
            raise UsageError(f"Nothing can listen on {host}, port {port}: {why}.", "Change --host or --port.") from error
        other = "Choose another port: --port N, or --port 0 for any that is free."
        if (running := find_running_server(folder)) and running.port == port:
            remedy = f"Open http://{host}:{port} with the key in {running.key_file}. {other}"
            raise LocalragError("localrag serves this index there already.", remedy) from error
        raise LocalragError(f"Another program listens on port {port} of {host}.", other) from error
    return listener


async def _not_ready_app(*_: object) -> None:
    """Placeholder for the application until its address is known."""


def _allow_open_files() -> None:
    with suppress(ValueError, OSError):
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
