"""MCP over HTTP at one address of the server."""

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


class McpHttp:
    """The address, and what must run while it is served: `lifespan`, once."""

    def __init__(self, worker: QueryWorker, folder: Path, tables: TableWorker) -> None:
        self._worker, self._folder, self._tables = worker, folder, tables
        self._manager: Any = None

    def routes(self) -> list[Route]:
        """The one address."""
        return [Route("/mcp", self, methods=["GET", "POST", "DELETE"])]

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Take requests until it is left; then every session has ended."""
        manager = await asyncio.to_thread(self._make_manager)
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    def _make_manager(self) -> Any:
        from mcp.server.transport_security import TransportSecuritySettings

        from localrag.serve.mcp_server import LocalBackend, make_server

        server = make_server(self._folder, LocalBackend(self._worker, self._tables))
        server.streamable_http_app(
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=256,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has done it
        )
        return server.session_manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if self._manager is None:
            await openai_error(503, "The server is not running.", "server_error")(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        await self._manager.handle_request(scope, receive, sent)
        if begun:  # a stream that the end of the server cut short, which uvicorn would report as an error
            await send({"type": "http.response.body"})
