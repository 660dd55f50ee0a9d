"""The routes, behind the guard."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localrag.serve.guard import Door, Guard, error
from localrag.serve.openai import Api


def routes(api: Api) -> Sequence[BaseRoute]:
    """Every address there is."""
    return [
        Route("/healthz", _healthz),
        Route("/v1/models", api.models),
        Route("/v1/chat/completions", api.chat, methods=["POST"]),
        Route("/v1/embeddings", api.embeddings, methods=["POST"]),
    ]


def make_app(api: Api, door: Door) -> Starlette:
    """The application, whose every answer has passed the guard."""
    handlers = {413: _too_much, 404: _missing, 405: _missing}
    return Starlette(routes=routes(api), middleware=[Middleware(Guard, door=door)], exception_handlers=handlers)


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"ok": True})


async def _too_much(_request: Request, refused: Exception) -> Response:
    return error(413, str(getattr(refused, "detail", "")))


async def _missing(request: Request, _error: Exception) -> Response:
    return error(404, f"There is nothing at {request.url.path} for {request.method}.")
