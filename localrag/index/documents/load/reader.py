"""Files → Documents, through one worker process that can be stopped and replaced."""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from localrag.index.documents.load.content import MEGABYTE, Options
from localrag.index.documents.load.files import stored_path
from localrag.index.documents.load.messages import LENGTH, packed
from localrag.index.documents.load.parse import WITH_ROWS
from localrag.records import Document, Part, Skipped, content_id
from localrag.system.files import check_system
from localrag.text.dates import file_day, metadata_day

VERSION = 1  # of what the parsers make of a file: with another one, every file is read again
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_LONGEST_ANSWER = 2**31


@dataclass(frozen=True, slots=True)
class Limits:
    """What a single file may cost."""

    seconds: float = 60.0
    memory: int = 2 * 2**30
    size: int = 200 * MEGABYTE


PLAIN = Options()
USUAL = Limits()


def load_all(files: Iterable[Path], root: Path, options: Options = PLAIN, limits: Limits = USUAL) -> Iterator[Document | Skipped]:
    """Read files one after another, each into a Document or a reason why not; paths are stored relative to `root`. Raises LocalragError."""
    check_system()
    with closing(Confined(limits)) as worker:
        for file in files:
            yield _load(file, root, options, limits, worker)


def file_hash(file: Path, options: Options = PLAIN) -> str:
    """What `Document.content_hash` will be: of the bytes, the loader's version and the options that bear on this kind. Raises OSError."""
    with file.open("rb") as f:
        digest = file_digest(f, lambda: blake2b(digest_size=20)).hexdigest()
    bearing = (options.text_column, *options.metadata_columns) if file.suffix.lower() in WITH_ROWS else ()
    return content_id("load", VERSION, digest, *bearing)


def _load(file: Path, root: Path, options: Options, limits: Limits, worker: "Confined") -> Document | Skipped:
    path = stored_path(file, root)
    try:
        before = file.stat()
        if reason := _unfit(before, limits):
            return Skipped(path, reason, False)
        content_hash = file_hash(file, options)
        answer = worker.ask({"path": str(file), "text_column": options.text_column, "metadata_columns": options.metadata_columns})
        after = file.stat()
    except OSError as error:
        return Skipped(path, f"cannot be read: {error.strerror}", True)
    if (before.st_mtime_ns, before.st_size, before.st_ino) != (after.st_mtime_ns, after.st_size, after.st_ino):
        return Skipped(path, "changed while it was read", True)
    if "reason" in answer:
        return Skipped(path, answer["reason"], answer["failed"], "" if answer["failed"] else content_hash)
    text = answer["text"]
    metadata = tuple((str(name), str(value)) for name, value in answer["metadata"])
    parts = tuple(Part(p["label"], p["start"], p["end"]) for p in answer["parts"])
    title = dict(metadata).get("title", "") or answer["title"] or Path(path).stem
    day = metadata_day(metadata)
    when = (day, "metadata") if day else (file_day(after.st_mtime), "file")
    return Document(content_id(path, content_id(text)), path, title, text, content_hash, metadata, parts, *when)


def _unfit(found: os.stat_result, limits: Limits) -> str:
    """Why a file need not be opened; empty if it must."""
    if found.st_size > limits.size:
        return f"larger than {limits.size // MEGABYTE} MB"
    return "" if found.st_size else "empty"


class Confined:
    """The process that reads files: started for the first one, replaced after one that hung or crashed it. One request at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: _Running | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the process makes of a file, or the reason why it makes nothing of it: see `worker` for what it can be asked."""
        fresh = self._running is None
        answer = self._asked(request)
        if answer is None and not fresh:  # the fault may be that of a file before it
            answer = self._asked(request)
        return answer or {"reason": "damaged: it crashed the program that reads it", "failed": True}

    def _asked(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """None where the process ended without an answer."""
        self._running = running = self._running or _start(self._limits)
        deadline = time.monotonic() + self._limits.seconds
        try:
            running.requests.write(packed(request))
            running.requests.flush()
            length = _length(_read(running.answers, LENGTH.size, deadline))
            answer: dict[str, Any] = json.loads(_read(running.answers, length, deadline))
        except TimeoutError:
            self.close()
            return {"reason": f"took longer than {self._limits.seconds:g} s", "failed": True}
        except (EOFError, BrokenPipeError, ValueError):
            self.close()
            return None
        if answer.get("reason") == "memory":
            self.close()
            answer["reason"] = f"needed more than {self._limits.memory / 2**30:g} GB of memory"
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._running is None:
            return
        running, self._running = self._running, None
        running.process.kill()
        running.process.wait()
        running.answers.close()
        with suppress(BrokenPipeError):  # what was still to be written is of no use any more
            running.requests.close()


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]


def _start(limits: Limits) -> _Running:
    """A process that knows nothing of ours: few variables, no open files, and no module of the working folder (-P)."""
    home = str(Path(__file__).resolve().parents[4])
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), home)))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "localrag.index.documents.load.worker", str(limits.memory), str(int(limits.seconds) + 1)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        process_group=0,  # an interrupt at the terminal is for us; we end it
    )
    return _Running(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))


def _length(head: bytes) -> int:
    length: int = LENGTH.unpack(head)[0]
    if length > _LONGEST_ANSWER:
        raise ValueError(f"an answer of {length} bytes")
    return length


def _read(answers: IO[bytes], count: int, deadline: float) -> bytes:
    """Exactly `count` bytes of what the worker says. Raises TimeoutError, EOFError."""
    pieces: list[bytes] = []
    with selectors.DefaultSelector() as ready:
        ready.register(answers, selectors.EVENT_READ)
        while count:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            piece = os.read(answers.fileno(), min(count, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            count -= len(piece)
    return b"".join(pieces)
