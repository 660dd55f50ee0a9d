"""Documents as they were before they were read: the file itself; of PDFs and pictures how pages look, and where words stand on them."""

import base64
import os
import stat
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from localrag.contents import Unknown
from localrag.index.documents.load import WITH_SCANS, Confined, Limits
from localrag.serve.inbox import receive
from localrag.serve.site import Gone, Site, number
from localrag.store import look, scans
from localrag.store.connect import snapshot
from localrag.store.seen import seen

KEPT = 64 << 20  # bytes of pictures
PER_PAGE = Limits(seconds=20.0)
WIDTH = 1_200  # pixels of a picture


class Pages:
    """Pictures of pages and the places of words on them, by one confined process; the newest pictures are kept."""

    def __init__(self) -> None:
        self._process = Confined(PER_PAGE)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def picture(self, file: Path, page: int, width: int) -> bytes:
        """A page, from 1, as PNG. Raises Gone."""
        key = (file, _changed(file), page, width)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = base64.b64decode(self._asked(file, picture=[page, width])["png"])
                while sum(map(len, self._kept.values())) > KEPT and len(self._kept) > 1:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def places(self, file: Path, pages: list[int], words: str, before: float, read: dict[int, Any] | None = None) -> list[dict[str, Any]]:
        """Where words stand on pages, see `page_places.places`. Raises Gone."""
        _changed(file)
        with self._lock:
            found: list[dict[str, Any]] = self._asked(file, places=[pages, words, before], read=list((read or {}).items()))["pages"]
            return found

    def _asked(self, file: Path, **what: Any) -> dict[str, Any]:
        answer = self._process.ask({"path": str(file)} | what)
        if "reason" in answer:
            raise Gone(f"{file.name} cannot be shown: {answer['reason']}", "Its text is in the index all the same.")
        return answer

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._process.close()


def routes(site: Site, pages: Pages) -> list[Route]:
    """Files that come in, and those that are looked at."""

    async def put(request: Request) -> Response:
        return await receive(request, site)

    def picture(request: Request) -> Response:
        with snapshot(site.folder) as db:
            _, file = _file(request, db, site)
        data = pages.picture(file, request.path_params["n"], number(request, "width", 100, 2_000, WIDTH))
        return Response(data, media_type="image/png")

    def boxes(request: Request) -> Response:
        with snapshot(site.folder) as db:
            found, file = _file(request, db, site)
            if file.suffix.lower() not in WITH_SCANS:
                raise Unknown(f"{file.name} has no pages that could be shown.")
            start = number(request, "start", 0, found["length"])
            end = number(request, "end", start, min(found["length"], start + 20_000))
            words = look.window(db, found["id"], start, end)
            shown = [(int(label.rpartition(" ")[2]), a, b) for label, a, b in found["parts"] if a < end and b > start]
            read = scans.pages_of(db, found["content_hash"], [n for n, *_ in shown])
        if not shown:
            return JSONResponse({"pages": []})
        first = shown[0][1]
        before = (start - first) / max(1, shown[-1][2] - first)
        return JSONResponse({"pages": pages.places(file, [n for n, *_ in shown], words, before, read)})

    def original(request: Request) -> Response:
        with snapshot(site.folder) as db:
            _, file = _file(request, db, site)
        return _sent(file)

    return [
        Route("/api/files/{name:path}", put, methods=["PUT"]),
        Route("/api/documents/{id}/pages/{n:int}.png", picture),
        Route("/api/documents/{id}/boxes", boxes),
        Route("/api/documents/{id}/original", original),
    ]


def _file(request: Request, db: Database, site: Site) -> tuple[dict[str, Any], Path]:
    """A document and its file, which is named by the index and by nothing that was sent. Raises Unknown, Gone.

    An index that came from elsewhere may name any file of this machine: one outside of the index's root must have been read here.
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
