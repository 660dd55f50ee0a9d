"""The process that parses: receives open files, one at a time, from the socket on stdin and answers on stdout; confined by `confine`.

Whatever a hostile file does to it, it does to this process alone.
"""

import contextlib
import os
import sys
from dataclasses import asdict
from typing import Any
from zipfile import BadZipFile

from localrag.index.documents.load.content import Options, Unreadable
from localrag.index.documents.load.libraries import may_read, readable_paths
from localrag.index.documents.load.messages import link_at, packed, receive
from localrag.index.documents.load.open_file import OpenFile
from localrag.index.documents.load.page_places import places
from localrag.index.documents.load.parse import parse
from localrag.index.documents.load.pixels import picture, to_read
from localrag.index.documents.load.sandbox import enforce
from localrag.text.plain import sentences

try:
    import resource
except ImportError:  # Windows, where `load_all` says that it cannot read
    resource = None  # type: ignore[assignment]

_READS = ("open", "os.listdir", "os.scandir")  # audit events of reading by path; their argument may also be a descriptor
SPLIT = 1_000_000  # characters; longer texts are not split into sentences here, as the time for a file is limited
_FORBIDDEN = tuple(
    """
    socket. subprocess. os.system os.exec os.fork os.posix_spawn os.spawn pty. os.startfile os.kill os.remove os.rename os.rmdir os.mkdir
    os.link os.symlink os.truncate os.chmod os.chown os.lchown os.utime os.setxattr os.removexattr shutil.
    """.split()
)


def serve(memory: int, seconds: int) -> None:
    """Parse files until stdin ends. `memory`: bytes of address space; `seconds`: of computing for one file."""
    answers, requests = os.fdopen(os.dup(1), "wb"), link_at(0)
    os.dup2(2, 1)  # what a library prints is no answer
    confine(memory)
    sys.setrecursionlimit(8000)  # pages nest up to 2048 elements, each three calls
    while (received := receive(requests)) is not None:
        request, descriptor = received
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 5)  # should nobody be left to stop it
        answer, exhausted = _answer(request, OpenFile(request["name"], descriptor))
        os.close(descriptor)
        answers.write(packed(answer))
        answers.flush()
        if exhausted:
            return  # its memory is in pieces: the next file gets a fresh process


def confine(memory: int) -> None:
    """Limit memory (bytes) and forbid connections, other processes, writing or removing files, and opening any but `readable_paths`.

    An audit hook refuses this to Python code, everywhere; on Linux the kernel refuses it to native code too (`sandbox`). Elsewhere only
    the resource limits stop native code that a hostile file has taken over.
    """
    readable = readable_paths()
    _limit(resource.RLIMIT_AS, memory, memory)
    for nothing in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC):
        _limit(nothing, 0, 0)
    sys.modules["numpy"] = None  # type: ignore[assignment]  # openpyxl would load it, and it a hundred threads
    enforce(readable, receives=True)
    sys.addaudithook(_refuse)


def _limit(what: int, value: int, hard: int | None = None) -> None:
    """Set a soft limit, and the hard one if given."""
    with contextlib.suppress(ValueError, OSError):  # not every system knows every limit
        resource.setrlimit(what, (value, resource.getrlimit(what)[1] if hard is None else hard))


def _refuse(event: str, args: Any) -> None:
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    reads = event in _READS and not isinstance(args[0], int) and not may_read(os.fsdecode(args[0] or "."))
    foreign = event == "ctypes.dlopen" and not str(args[0]).startswith(tuple(filter(None, sys.path)))  # a library of no package
    if writes or reads or foreign or event.startswith(_FORBIDDEN):
        raise PermissionError(f"a file may not lead to {event}")


def _answer(request: dict[str, Any], file: OpenFile) -> tuple[dict[str, Any], bool]:
    """What was read or found, or why not; and whether memory ran out."""
    try:
        return _done(request, file), False
    except Unreadable as error:
        return {"reason": _squeezed(str(error)), "failed": error.failed}, False
    except MemoryError:
        return {"reason": "memory", "failed": True}, True
    except RecursionError:
        return {"reason": "damaged: it is nested too deeply", "failed": True}, False
    except Exception as error:  # noqa: BLE001 - parsers of broken files raise anything
        return {"reason": _squeezed(_said(error)), "failed": True}, False


def _done(request: dict[str, Any], file: OpenFile) -> dict[str, Any]:
    if "picture" in request:
        return picture(file, *request["picture"])
    if "page" in request:
        return to_read(file, request["page"])
    read = dict(request.get("read", ()))
    if "places" in request:
        pages, words, before = request["places"]
        return places(file, pages, words, before, read)
    options = Options(request["text_column"], tuple(request["metadata_columns"]), request.get("ocr", ""), pages=read)
    content = parse(file, options)
    found = asdict(content)
    if request.get("split") and len(content.text) <= SPLIT:
        with contextlib.suppress(MemoryError, RecursionError):  # the text is there: whoever asked splits it
            found["sentences"] = sentences(content.text)
    return found


def _said(error: Exception) -> str:
    """What a person is told of an error: its message where it is made for people, else its kind as well."""
    if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    message = str(error) or "it ends too early"
    told = isinstance(error, ValueError | SyntaxError | BadZipFile | EOFError)
    return f"damaged: {message}" if told else f"damaged: {type(error).__name__}: {message}"


def _squeezed(text: str) -> str:
    return " ".join(text.split())[:200]


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
