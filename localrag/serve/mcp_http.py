"""MCP over HTTP at one address of the server.

The library of MCP takes half a second to load, so the first request loads it, not the start of the server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from localrag.serve.auth import MAX_BODY_BYTES, openai_error
from localrag.serve.query_worker import QueryWorker
from localrag.serve.table_worker import TableWorker

MCP_PATH = "/mcp"
MAX_SESSIONS = 256
MCP_METHODS = ["GET", "POST", "DELETE"]


class McpHttp:
    """The address, and what must run while it is served: `lifespan`, once."""

    def __init__(self, worker: QueryWorker, folder: Path, tables: TableWorker) -> None:
        self._worker, self._folder, self._tables = worker, folder, tables
        self._wanted: asyncio.Event | None = None

    def routes(self) -> list[Route]:
        """The one address."""
        return [Route(MCP_PATH, self, methods=MCP_METHODS)]

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Take requests until it is left; then every session has ended."""
        self._wanted, self._ended = asyncio.Event(), asyncio.Event()
        self._manager: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(self._run(self._wanted, self._ended))
        try:
            yield
        finally:
            self._ended.set()
            self._wanted.set()
            self._wanted = None
            await running

    async def _run(self, wanted: asyncio.Event, ended: asyncio.Event) -> None:
        """In a task of its own: a session manager must be left by the task that entered it."""
        await wanted.wait()
        if ended.is_set():
            return
        try:
            manager = await asyncio.to_thread(self._made)
        except BaseException as failed:  # noqa: BLE001 — whoever waits for it is told
            self._manager.set_exception(failed)
            return
        async with manager.run():
            self._manager.set_result(manager)
            await ended.wait()

    def _made(self) -> Any:
        from mcp.server.transport_security import TransportSecuritySettings

        from localrag.serve.mcp_server import LocalBackend, make_server

        server = make_server(self._folder, LocalBackend(self._worker, self._tables))
        server.streamable_http_app(
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=MAX_SESSIONS,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has done it
        )
        return server.session_manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, as an ASGI application."""
        if self._wanted is None:
            await openai_error(503, "The server is not running.", "server_error")(scope, receive, send)
            return
        self._wanted.set()
        manager = await asyncio.shield(self._manager)
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        await manager.handle_request(scope, receive, sent)
        if begun:  # a stream that the end of the server cut short, which uvicorn would report as an error
            await send({"type": "http.response.body"})
