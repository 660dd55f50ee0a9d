"""Files of documents: originals, pages, boxes of quotes, and uploads, stored under plain names, completely or not at all."""

import asyncio
import base64
import os
import shutil
import stat
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

from sqlite_utils import Database
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from localrag.loaders.discover import HIDDEN_PREFIXES, OF_AN_INDEX, relative_path
from localrag.loaders.encodings import looks_binary
from localrag.loaders.file_kinds import SNIFF_BYTES, first_bytes_kind
from localrag.loaders.parser_process import BINARY_SUFFIXES, OCR_SUFFIXES, PARSERS
from localrag.loaders.reader import Limits, ParserProcess, stored_kind
from localrag.project import is_own_place
from localrag.serializers import NotFound
from localrag.serve.auth import openai_error
from localrag.serve.context import FileUnavailable, ServerContext, query_int
from localrag.settings import PROJECT_FILE
from localrag.store import browse, documents
from localrag.store.database import snapshot
from localrag.system.files import containing_file, open_part_file
from localrag.system.trust import record_written_file, written_file_hash

MAX_NAME_BYTES = 255  # of a file name, on all usual file systems
MIN_FREE_BYTES = 256 << 20  # kept free on the disk
_RESERVED_NAMES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})  # on Windows
_OWN_NAMES = {*OF_AN_INDEX, PROJECT_FILE}  # the inbox would look like an index, or bring settings
_JOINERS = "\u200c\u200d"  # of letters in Persian and of emoji


async def receive_upload(request: Request, site: ServerContext) -> Response:
    """Store a file sent as the body of a request in the inbox."""
    if site.read_only:
        return openai_error(403, "This server is read-only.", hint="Start it without --read-only.")
    name = validate_name(request.path_params["name"])
    length = request.headers.get("content-length", "")
    expected = int(length) if length.isascii() and length.isdecimal() else 0
    site.inbox.mkdir(parents=True, exist_ok=True)
    _check_size(expected, expected, site)
    size = await _write_body(request, name, site)
    return JSONResponse({"name": name, "bytes": size}, 201)


def validate_name(sent: str) -> str:
    """The NFC-normalised file name. Raises ValueError, with the reason, unless it is a plain name that files of the inbox may have."""
    name = unicodedata.normalize("NFC", sent)
    unseen = next((c for c in name if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in _JOINERS), "")
    separator = next((c for c in name if c in "/\\"), "")
    if unseen:
        raise _name_error(sent, f"it has a character that cannot be seen (U+{ord(unseen):04X})")
    if separator:
        raise _name_error(sent, f"it has a {separator}, which separates folders")
    if not name.strip():
        raise _name_error(sent, "it is blank")
    if name.startswith(HIDDEN_PREFIXES):
        raise _name_error(sent, "it begins as the names of hidden files do, which are not indexed")
    if name.casefold() in _OWN_NAMES:
        raise _name_error(sent, "localrag uses this name itself")
    if name.partition(".")[0].strip().lower() in _RESERVED_NAMES:
        raise _name_error(sent, "it is the name of a device on Windows")
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        raise _name_error(sent, f"it has {size} bytes, and a name may have {MAX_NAME_BYTES}")
    return name


def _name_error(sent: str, reason: str) -> ValueError:
    return ValueError(f"{sent[:80]!a} cannot be the name of a file here: {reason}. Rename the file, and send it again.")


def _check_size(size: int, unwritten: int, site: ServerContext) -> None:
    if size > site.most_bytes:
        raise HTTPException(413, f"At most {site.most_bytes:,} bytes are accepted; copy a larger file into an indexed folder by hand.")
    if shutil.disk_usage(site.inbox).free < unwritten + MIN_FREE_BYTES:
        raise HTTPException(507, "There is not enough space on the disk.")


async def _write_body(request: Request, name: str, site: ServerContext) -> int:
    """Write the body to a partial file, rename it when it is complete, and return its size. An interrupted upload is deleted."""
    target, digest = site.inbox / name, sha256()
    if os.path.lexists(target):
        raise HTTPException(409, f"The inbox already has a file {name}.")
    part, file = open_part_file(target)
    try:
        with file:
            size = 0
            async for piece in request.stream():
                if not size:
                    _check_format(name, piece)
                size += len(piece)
                _check_size(size, len(piece), site)
                await run_in_threadpool(_write_chunk, file, piece)
                digest.update(piece)
        record_written_file(site.inbox, name, digest.hexdigest())
        _publish(part, target)
    except FileExistsError:
        raise HTTPException(409, f"The inbox already has a file {name}.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The file broke off.") from None
    finally:
        part.unlink(missing_ok=True)
    return size


def _write_chunk(f: IO[bytes], piece: bytes) -> None:
    f.write(piece)
    f.flush()  # so that the disk's free space says how much is left


def _publish(part: Path, target: Path) -> None:
    """Rename a complete upload without overwriting a file. Raises FileExistsError."""
    try:
        os.link(part, target)  # fails if the target exists, unlike renaming
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError from None
        part.rename(target)


def _check_format(name: str, head: bytes) -> None:
    """Check by its first bytes that a file is text or has a supported binary format. Raises HTTPException."""
    suffix = Path(name).suffix.lower()
    if suffix not in BINARY_SUFFIXES and looks_binary(head[:SNIFF_BYTES]) and not first_bytes_kind(head):
        kinds = ", ".join(sorted(s.removeprefix(".") for s in PARSERS if s in BINARY_SUFFIXES))
        raise HTTPException(415, f"{name} is not text, and its format is not supported ({kinds}).")


def uploaded_name(path: str, root: Path, inbox: Path) -> str:
    """The file name of a document that was uploaded to the inbox, which may be any folder of the user's; empty for any other."""
    name = Path(path).name
    return name if path == relative_path(inbox / name, root) and written_file_hash(inbox, name) else ""


PAGE_LIMITS = Limits(seconds=20.0)
PROCESSES = 3  # parser processes
PAGE_WIDTH = 1_200  # pixels


class PageRenderer:
    """Renders pages and finds the boxes of words in sandboxed processes, at most one per file."""

    def __init__(self) -> None:
        self._processes = [ParserProcess(PAGE_LIMITS) for _ in range(PROCESSES)]
        self._idle = list(self._processes)
        self._limiter = asyncio.Semaphore(PROCESSES)
        self._files: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()  # locked while a process reads the file

    async def picture(self, file: Path, page: int, width: int) -> bytes:
        """Page number `page` (from 1) as PNG. Raises FileUnavailable."""
        _check_readable(file)
        return base64.b64decode((await self._request(file, picture=[page, width]))["png"])

    async def find_boxes(
        self, file: Path, pages: list[int], words: str, before: float, read: dict[int, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Boxes of words on pages, see `quote_boxes.find_quote_boxes`. Raises FileUnavailable."""
        answer = await self._request(file, places=[pages, words, before], read=list((read or {}).items()))
        boxes: list[dict[str, Any]] = answer["pages"]
        return boxes

    async def _request(self, file: Path, **what: Any) -> dict[str, Any]:
        async with self._process(file) as process:
            answer = await run_in_threadpool(process.request, {"path": str(file)} | what)
        if "reason" in answer:
            raise FileUnavailable(f"{file.name} cannot be shown: {answer['reason']}", "Its text is in the index anyway.")
        return answer

    @asynccontextmanager
    async def _process(self, file: Path) -> AsyncIterator[ParserProcess]:
        """A parser process for a file, as soon as no other one reads it. Waiting occupies no thread."""
        async with self._files.setdefault(file, asyncio.Lock()), self._limiter:
            process = self._idle.pop()
            try:
                yield process
            finally:
                self._idle.append(process)

    def close(self) -> None:
        """Kill the processes. Running requests fail."""
        for process in self._processes:
            process.kill()
        for process in self._idle:
            process.close()


def file_routes(site: ServerContext, pages: PageRenderer) -> list[Route]:
    """Routes of uploads, and of pages, boxes and originals of documents."""

    async def put(request: Request) -> Response:
        return await receive_upload(request, site)

    async def picture(request: Request) -> Response:
        _, file = await run_in_threadpool(_document, request, site)
        data = await pages.picture(file, request.path_params["n"], query_int(request, "width", 100, 2_000, PAGE_WIDTH))
        return Response(data, media_type="image/png")

    async def boxes(request: Request) -> Response:
        file, numbers, words, before, read = await run_in_threadpool(_range, request, site)
        return JSONResponse({"pages": await pages.find_boxes(file, numbers, words, before, read) if numbers else []})

    def original(request: Request) -> Response:
        return _attachment(_document(request, site)[1])

    return [
        Route("/api/files/{name:path}", put, methods=["PUT"]),
        Route("/api/documents/{id}/pages/{n:int}.png", picture),
        Route("/api/documents/{id}/boxes", boxes),
        Route("/api/documents/{id}/original", original),
    ]


def _document(request: Request, site: ServerContext) -> tuple[dict[str, Any], Path]:
    with snapshot(site.folder) as db:
        return _file(request, db, site)


def _range(request: Request, site: ServerContext) -> tuple[Path, list[int], str, float, dict[int, Any]]:
    with snapshot(site.folder) as db:
        document, file = _file(request, db, site)
        if stored_kind(document["content_hash"], document["path"]) not in OCR_SUFFIXES or file != site.root / document["path"]:
            raise NotFound(f"{Path(document['path']).name} has no pages to show.")
        start = query_int(request, "start", 0, document["length"])
        end = query_int(request, "end", start, min(document["length"], start + 20_000))
        words = browse.text_window(db, document["id"], start, end)
        shown = [
            (int([label.rpartition(" ")[2], *number][-1]), a, b) for label, a, b, *number in document["parts"] if a < end and b > start
        ]
        read = documents.ocr_pages_of(db, document["content_hash"], [n for n, *_ in shown])
    first, last = (shown[0][1], shown[-1][2]) if shown else (0, 0)
    return file, [n for n, *_ in shown], words, (start - first) / max(1, last - first), dict(read)


def _file(request: Request, db: Database, site: ServerContext) -> tuple[dict[str, Any], Path]:
    """A document and its file, whose path comes from the index and not from the request. Raises NotFound and FileUnavailable.

    The index of another user may name any file of this machine, so one outside the root must be of a place that was indexed here.
    """
    key = request.path_params["id"]
    document = browse.document_summary(db, key)
    if document is None:
        raise NotFound(f"There is no document {key}.")
    file = containing_file(site.root / document["path"])
    if not is_own_place(db, site.root, file):
        raise FileUnavailable(f"{file.name} was not read on this machine.", "If it is yours, index its folder: localrag index PATH")
    return document, file


def _check_readable(file: Path) -> None:
    try:
        state = file.stat()
    except OSError as error:
        raise FileUnavailable(f"{file.name} cannot be read: {error.strerror}.", "Its text is in the index anyway.") from None
    if not stat.S_ISREG(state.st_mode):
        raise FileUnavailable(f"{file.name} no longer exists.", "Its text is in the index anyway.")


def _attachment(file: Path) -> Response:
    """Response that makes a browser save a file instead of showing it, so that its content cannot act as a page of this server."""
    _check_readable(file)
    return FileResponse(file, media_type="application/octet-stream", filename=file.name, headers={"content-security-policy": "sandbox"})
