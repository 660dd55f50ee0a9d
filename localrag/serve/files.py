"""Documents as they were before they were read: the file itself; of PDFs and pictures how pages look, and where words stand on them."""

import asyncio
import base64
import os
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from sqlite_utils import Database
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from localrag.contents import Unknown
from localrag.index.documents.load import WITH_SCANS, Confined, Limits
from localrag.serve.inbox import Room, receive
from localrag.serve.site import Gone, Site, number
from localrag.store import look, scans
from localrag.store.connect import snapshot
from localrag.store.seen import seen

KEPT = 64 << 20  # bytes of pictures
PER_PAGE = Limits(seconds=20.0)
PROCESSES = 3  # files read at once
MOST_REFUSED = 1_000  # files remembered because they took too long
WIDTH = 1_200  # pixels of a picture


class Pages:
    """Pictures of pages and the places of words on them, by a few confined processes; the newest pictures are kept.

    One process at most reads a file. A file that took too long is not tried again until it changes, so that others need not wait for it.
    """

    def __init__(self) -> None:
        self._processes = [Confined(PER_PAGE) for _ in range(PROCESSES)]
        self._idle = list(self._processes)
        self._places = asyncio.Semaphore(PROCESSES)
        self._files: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()  # held while a file is read
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._refused: OrderedDict[Path, tuple[int, Gone]] = OrderedDict()  # files that took too long, with their modification times

    async def picture(self, file: Path, page: int, width: int) -> bytes:
        """A page, from 1, as PNG. Raises Gone."""
        key = (file, _changed(file), page, width)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = base64.b64decode((await self._asked(file, picture=[page, width]))["png"])
        self._kept.move_to_end(key)  # before any is dropped: another request may have kept this one meanwhile
        while sum(map(len, self._kept.values())) > KEPT and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return found

    async def places(
        self, file: Path, pages: list[int], words: str, before: float, read: dict[int, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Where words stand on pages, see `page_places.places`. Raises Gone."""
        answer = await self._asked(file, places=[pages, words, before], read=list((read or {}).items()))
        found: list[dict[str, Any]] = answer["pages"]
        return found

    async def _asked(self, file: Path, **what: Any) -> dict[str, Any]:
        async with self._process(file) as process:
            changed = _changed(file)
            if self._refused.get(file, (0,))[0] == changed:
                raise self._refused[file][1]
            began = time.monotonic()
            answer = await run_in_threadpool(process.ask, {"path": str(file)} | what)
        if "reason" not in answer:
            return answer
        gone = Gone(f"{file.name} cannot be shown: {answer['reason']}", "Its text is in the index all the same.")
        if time.monotonic() - began >= PER_PAGE.seconds:
            self._refused[file] = (changed, gone)
            while len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        raise gone

    @asynccontextmanager
    async def _process(self, file: Path) -> AsyncIterator[Confined]:
        """Lend a process for a file, once no other reads it. Waiting for one holds no thread."""
        async with self._files.setdefault(file, asyncio.Lock()), self._places:
            process = self._idle.pop()
            try:
                yield process
            finally:
                self._idle.append(process)

    def close(self) -> None:
        """End the processes. Requests under way get no answer."""
        for process in self._processes:
            process.end()
        for process in self._idle:
            process.close()


def routes(site: Site, pages: Pages) -> list[Route]:
    """Files that come in, and those that are looked at."""

    room = Room(site.inbox)

    async def put(request: Request) -> Response:
        return await receive(request, site, room)

    async def picture(request: Request) -> Response:
        _, file = await run_in_threadpool(_document, request, site)
        data = await pages.picture(file, request.path_params["n"], number(request, "width", 100, 2_000, WIDTH))
        return Response(data, media_type="image/png")

    async def boxes(request: Request) -> Response:
        file, numbers, words, before, read = await run_in_threadpool(_range, request, site)
        return JSONResponse({"pages": await pages.places(file, numbers, words, before, read) if numbers else []})

    def original(request: Request) -> Response:
        return _sent(_document(request, site)[1])

    return [
        Route("/api/files/{name:path}", put, methods=["PUT"]),
        Route("/api/documents/{id}/pages/{n:int}.png", picture),
        Route("/api/documents/{id}/boxes", boxes),
        Route("/api/documents/{id}/original", original),
    ]


def _document(request: Request, site: Site) -> tuple[dict[str, Any], Path]:
    with snapshot(site.folder) as db:
        return _file(request, db, site)


def _range(request: Request, site: Site) -> tuple[Path, list[int], str, float, dict[int, Any]]:
    """A document's file and the arguments of `Pages.places` for a range of its text. Raises Unknown, Gone and ValueError."""
    with snapshot(site.folder) as db:
        found, file = _file(request, db, site)
        if file.suffix.lower() not in WITH_SCANS:
            raise Unknown(f"{file.name} has no pages that could be shown.")
        start = number(request, "start", 0, found["length"])
        end = number(request, "end", start, min(found["length"], start + 20_000))
        words = look.window(db, found["id"], start, end)
        shown = [(int(label.rpartition(" ")[2]), a, b) for label, a, b in found["parts"] if a < end and b > start]
        read = scans.pages_of(db, found["content_hash"], [n for n, *_ in shown])
    first, last = (shown[0][1], shown[-1][2]) if shown else (0, 0)
    return file, [n for n, *_ in shown], words, (start - first) / max(1, last - first), dict(read)


def _file(request: Request, db: Database, site: Site) -> tuple[dict[str, Any], Path]:
    """A document and its file, which is named by the index and by nothing that was sent. Raises Unknown, Gone.

    An index from elsewhere may name any file of this machine, so a file outside the index's root must have been read on this machine.
    """
    key = request.path_params["id"]
    found = look.described(db, key)
    if found is None:
        raise Unknown(f"There is no document {key}.")
    file = site.root / found["path"]
    if not Path(os.path.normpath(file)).is_relative_to(site.root) and found["path"] not in seen(db):
        raise Gone(f"{file.name} was not read on this machine.", "If it is yours, index its folder: localrag index PATH")
    return found, file


def _changed(file: Path) -> int:
    """When a file was changed last. Raises Gone."""
    try:
        found = file.stat()
    except OSError as error:
        raise Gone(f"{file.name} cannot be read: {error.strerror}.", "Its text is in the index all the same.") from None
    if not stat.S_ISREG(found.st_mode):
        raise Gone(f"{file.name} is no file any more.", "Its text is in the index all the same.")
    return found.st_mtime_ns


def _sent(file: Path) -> Response:
    """A file to be saved: a browser does not show it, so nothing in it can act for this page."""
    _changed(file)
    return FileResponse(file, media_type="application/octet-stream", filename=file.name, headers={"content-security-policy": "sandbox"})
