"""Files that are dragged into the page: one folder takes them, under a plain name, whole or not at all, and never over another file."""

import os
import shutil
import unicodedata
from contextlib import suppress
from pathlib import Path

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


async def receive(request: Request, site: Site) -> Response:
    """Take a file that is sent as the body of a request."""
    if site.read_only:
        return error(403, "This server lets nothing be changed.", hint="Start it without --read-only.")
    name = accepted_name(request.path_params["name"])
    length = request.headers.get("content-length", "")
    if length.isdecimal():
        _check_size(int(length), site)
    size = await _kept(request, name, site)
    return JSONResponse({"name": name, "bytes": size}, 201)


def accepted_name(sent: str) -> str:
    """The name a file is kept under. Raises ValueError for one that is no plain name of a file."""
    name = unicodedata.normalize("NFC", sent)
    wrong = (
        not name.strip(". ")
        or name != name.strip()
        or name.startswith(".")
        or name.endswith((".", PART))
        or name.casefold() in OF_AN_INDEX  # two of them would make the inbox look like an index, which is not read
        or any(c in '/\\<>:"|?*' or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in name)
        or name.partition(".")[0].strip().lower() in _DEVICES
    )
    if wrong or len(name.encode()) > LONGEST:
        raise ValueError(f"{sent[:80]!a} is no name for a file here. Send a plain name of at most {LONGEST} bytes, without a folder.")
    return name


def _check_size(size: int, site: Site) -> None:
    if size > site.most_bytes:
        raise HTTPException(413, f"At most {site.most_bytes:,} bytes are taken; copy a larger file into an indexed folder by hand.")
    site.inbox.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(site.inbox).free < size + SPARE:
        raise HTTPException(507, "There is not enough room on the disk.")


async def _kept(request: Request, name: str, site: Site) -> int:
    """Write the body to a file that has its name only when it is whole; what came of one that breaks off is removed. Its size."""
    _check_size(0, site)
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
                if size > site.most_bytes:
                    _check_size(size, site)
                await run_in_threadpool(f.write, piece)
        _named(part, target)
    except FileExistsError:
        raise HTTPException(409, f"There is a file {name} in the inbox already.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The file broke off.") from None
    finally:
        part.unlink(missing_ok=True)
    return size


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
