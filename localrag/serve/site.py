"""What the handlers of a server share: the index, who answers its questions, what the page may change."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localrag.contents import Unknown
from localrag.errors import IndexBusy, LocalragError, NoIndex, UsageError, kind_and_place
from localrag.index.documents.load import USUAL
from localrag.serve.guard import error
from localrag.serve.jobs import Jobs
from localrag.serve.worker import Busy, Worker
from localrag.store.connect import snapshot


class Gone(LocalragError):
    """The file of a document is not there, or cannot be shown."""


@dataclass(frozen=True, slots=True)
class Site:
    """One index as it is served. `root` is the folder that stored paths are relative to, `address` where the server is reached.

    `inbox` is the folder for files that are dragged into the page, each of at most `most_bytes`, since larger ones are not read.
    `read_only` lets nothing be changed. `max_seconds` is what a program's question may take; None: as long as it takes.
    `list_sources`: behind the text of an answer. `outside` are the hosts beyond this machine that a model may be asked at.
    """

    folder: Path
    root: Path
    worker: Worker
    jobs: Jobs
    inbox: Path
    address: str = ""
    most_bytes: int = USUAL.size
    read_only: bool = False
    max_seconds: float | None = None
    list_sources: bool = True
    outside: tuple[str, ...] = ()


def failure(failed: BaseException) -> JSONResponse:
    """What a client is told of a failure; an unexpected one by kind and place only, for its message may hold text of the documents."""
    if isinstance(failed, HTTPException):
        return error(failed.status_code, failed.detail)
    if isinstance(failed, LocalragError):
        status, kind, code = _STATUSES.get(type(failed), (500, "server_error", None))
        return error(status, str(failed), kind, code, failed.hint)
    if isinstance(failed, ValueError):  # raised by what reads a request, for its sender
        return error(400, str(failed))
    return error(500, f"Something unexpected happened: {kind_and_place(failed)}.", "server_error")


_STATUSES: Mapping[type, tuple[int, str, str | None]] = {
    Gone: (410, "invalid_request_error", "gone"),
    Busy: (503, "server_error", "busy"),
    IndexBusy: (409, "invalid_request_error", "index_busy"),
    NoIndex: (503, "server_error", "no_index"),
    Unknown: (404, "invalid_request_error", "not_found"),
    UsageError: (400, "invalid_request_error", None),
}


def read(site: Site, value: Callable[[Request, Database], Any]) -> Callable[[Request], Response]:
    """A handler that answers with a value read from the index as it is at that moment."""

    @wraps(value)
    def handled(request: Request) -> Response:
        with snapshot(site.folder) as db:
            return JSONResponse(value(request, db))

    return handled


def changed(site: Site, change: Callable[[Request, Site], dict[str, Any]], status: int = 202) -> Callable[[Request], Awaitable[Response]]:
    """A handler of what a page may ask for only where the server lets things be changed; `status` 202: it goes on afterwards."""

    async def handled(request: Request) -> Response:
        if site.read_only:
            return error(403, "This server lets nothing be changed.", hint="Start it without --read-only.")
        return JSONResponse(await run_in_threadpool(change, request, site), status)

    return handled


def number(request: Request, name: str, least: int, most: int, otherwise: int | None = None) -> int:
    """A whole number of the query string, brought within bounds. Raises ValueError, also where it is missing and there is no other."""
    text = request.query_params.get(name)
    if text is None and otherwise is not None:
        return otherwise
    try:
        return max(least, min(most, int(text or "")))
    except ValueError:
        raise ValueError(f"`{name}` is a whole number, not {text!r}.") from None


def since(started: float) -> float:
    """Seconds since a moment of time.monotonic(), to one decimal."""
    return round(time.monotonic() - started, 1)
