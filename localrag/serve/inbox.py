"""Files that are dragged into the page: one folder takes them, under a plain name, whole or not at all, and never over another file."""

import os
import shutil
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from localrag.index.documents.load import BINARY, FORMATS, OF_AN_INDEX, stored_path
from localrag.index.documents.load.encoding import looks_binary
from localrag.index.documents.load.parse import HEAD
from localrag.serve.guard import error
from localrag.serve.site import Site

PART = ".part"  # of a file that is still coming
LONGEST = 200  # bytes of a name: that of the part is longer
SPARE = 256 << 20  # bytes of the disk that are left free
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})  # of another system


class Room:
    """Hands out free disk space to uploads: no more than is free, less a reserve and what other uploads were promised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._promised = 0  # bytes not written yet
        self._lock = threading.Lock()

    @contextmanager
    def promised(self, size: int) -> Iterator["Promise"]:
        """Reserve `size` bytes for a file; what it did not use is released at the end. Raises HTTPException."""
        self._folder.mkdir(parents=True, exist_ok=True)
        promise = Promise(self)
        promise.have(size)
        try:
            yield promise
        finally:
            self.change(-promise.left)

    def change(self, size: int) -> None:
        """Change the bytes promised in all by `size`. Raises HTTPException where the disk has no room for them."""
        with self._lock:
            if size >= 0 and shutil.disk_usage(self._folder).free < self._promised + size + SPARE:
                raise HTTPException(507, "There is not enough room on the disk.")
            self._promised += size


class Promise:
    """The bytes that one file may still write."""

    def __init__(self, room: Room) -> None:
        self._room, self.left = room, 0

    def have(self, size: int) -> None:
        """Raise the promise to at least `size` bytes. Raises HTTPException."""
        more = max(0, size - self.left)
        self._room.change(more)
        self.left += more

    def written(self, size: int) -> None:
        """Take off `size` bytes that are now on the disk."""
        self.left -= size
        self._room.change(-size)


async def receive(request: Request, site: Site, room: Room) -> Response:
    """Take a file that is sent as the body of a request."""
    if site.read_only:
        return error(403, "This server lets nothing be changed.", hint="Start it without --read-only.")
    name = accepted_name(request.path_params["name"])
    length = request.headers.get("content-length", "")
    expected = int(length) if length.isascii() and length.isdecimal() else 0
    _check_size(expected, site)
    with room.promised(expected) as promise:
        size = await _kept(request, name, site, promise)
    return JSONResponse({"name": name, "bytes": size}, 201)


def accepted_name(sent: str) -> str:
    """The name a file is kept under. Raises ValueError for one that is no plain name of a file."""
    name = unicodedata.normalize("NFC", sent)
    wrong = (
        not name.strip(". ")
        or name != name.strip()
        or name.startswith(".")
        or name.endswith((".", PART))
        or name.casefold() in OF_AN_INDEX  # two such files would make the inbox look like an index, which is not read
        or any(c in '/\\<>:"|?*' or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in name)
        or name.partition(".")[0].strip().lower() in _DEVICES
    )
    if wrong or len(name.encode()) > LONGEST:
        raise ValueError(f"{sent[:80]!a} is no name for a file here. Send a plain name of at most {LONGEST} bytes, without a folder.")
    return name


def _check_size(size: int, site: Site) -> None:
    if size > site.most_bytes:
        raise HTTPException(413, f"At most {site.most_bytes:,} bytes are taken; copy a larger file into an indexed folder by hand.")


async def _kept(request: Request, name: str, site: Site, promise: Promise) -> int:
    """Write the body to a file that has its name only when it is whole; what came of one that breaks off is removed. Its size."""
    target, part = site.inbox / name, site.inbox / f"{name}{PART}"
    if target.exists() or target.is_symlink():
        raise HTTPException(409, f"There is a file {name} in the inbox already.")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise HTTPException(409, f"{name} is being sent already.") from None
    try:
        with os.fdopen(handle, "wb") as f:
            size = 0
            async for piece in request.stream():
                if not size:
                    _check_kind(name, piece)
                size += len(piece)
                _check_size(size, site)
                promise.have(len(piece))
                await run_in_threadpool(_write, f, piece)
                promise.written(len(piece))
        _named(part, target)
    except FileExistsError:
        raise HTTPException(409, f"There is a file {name} in the inbox already.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The file broke off.") from None
    finally:
        part.unlink(missing_ok=True)
    return size


def _write(f: IO[bytes], piece: bytes) -> None:
    f.write(piece)
    f.flush()  # its bytes are to be missing from the free space before they are taken off the promise


def _named(part: Path, target: Path) -> None:
    """Give a file its name. Raises FileExistsError."""
    try:
        os.link(part, target)  # fails where there is a file, unlike renaming
    except FileExistsError:
        raise
    except OSError:  # a disk that knows one name for a file only
        if target.exists():
            raise FileExistsError from None
        part.rename(target)


def _check_kind(name: str, head: bytes) -> None:
    """Text of any kind is taken, and the formats that are read. Raises HTTPException."""
    suffix = Path(name).suffix.lower()
    if suffix not in BINARY and looks_binary(head[:HEAD]):
        kinds = ", ".join(sorted(s.removeprefix(".") for s in FORMATS if s in BINARY))
        raise HTTPException(415, f"{name} is no text, and of no format that is read ({kinds}).")


def remove_parts(inbox: Path) -> None:
    """Remove what is left of files that broke off when an earlier server ended."""
    with suppress(OSError):
        for part in inbox.glob(f"*{PART}"):
            part.unlink(missing_ok=True)


def name_in_inbox(path: str, root: Path, inbox: Path) -> str:
    """The name of a document's file in the inbox; empty where it lies elsewhere. `path` as it is stored."""
    name = Path(path).name
    return name if path == stored_path(inbox / name, root) else ""


def remove_from_inbox(name: str, inbox: Path) -> None:
    """Remove a file that was dragged in."""
    with suppress(FileNotFoundError):
        (inbox / accepted_name(name)).unlink()
