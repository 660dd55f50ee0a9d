"""The application: every address there is, behind the guard."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from localrag.serve import asking, events, files, graph, openai, page, reading
from localrag.serve.guard import Door, Guard, error
from localrag.serve.inbox import remove_parts
from localrag.serve.mcp import Mcp
from localrag.serve.site import Site, failure

READ_BY_PAGES = ("mcp-session-id",)  # of an answer, by pages of other origins


def routes(site: Site, door: Door, pages: files.Pages, mcp: Mcp) -> Sequence[BaseRoute]:
    """Every address there is."""
    parts = (openai, asking, events, reading, graph)
    return [*page.routes(door), *(route for part in parts for route in part.routes(site)), *files.routes(site, pages), *mcp.routes()]


def make_app(site: Site, door: Door) -> Starlette:
    """The application, whose every answer has passed the guard."""
    shared = Middleware(
        CORSMiddleware, allow_origins=door.origins, allow_methods=["*"], allow_headers=["*"], expose_headers=list(READ_BY_PAGES)
    )
    mcp = Mcp(site.worker, site.folder)
    # Innermost, so that no failure reaches the server's own log: its message may hold text of the documents.
    failing = Middleware(ExceptionMiddleware, handlers={Exception: _failed})
    pages = files.Pages()

    @asynccontextmanager
    async def living(_app: Starlette) -> AsyncIterator[None]:
        remove_parts(site.inbox)
        try:
            async with mcp.lifespan():
                yield
        finally:
            pages.close()

    around = [Middleware(Guard, door=door), shared, failing]
    return Starlette(routes=routes(site, door, pages, mcp), middleware=around, exception_handlers=_REFUSALS, lifespan=living)


async def _failed(_request: Request, failed: Exception) -> Response:
    return failure(failed)


async def _refused(_request: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    return error(refused.status_code, refused.detail)


async def _missing(request: Request, _error: Exception) -> Response:
    return error(404, f"There is nothing at {request.url.path} for {request.method}.")


_REFUSALS: dict[Any, Any] = {404: _missing, 405: _missing, HTTPException: _refused}
