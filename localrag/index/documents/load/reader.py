"""Files → Documents, through worker processes that can be stopped and replaced."""

import json
import os
import selectors
import subprocess
import sys
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from typing import IO, Any, NamedTuple, NoReturn, cast

import numpy as np

from localrag.index.documents.load.content import A_PICTURE, MEGABYTE, ONLY_IMAGES, Options
from localrag.index.documents.load.digests import Digests
from localrag.index.documents.load.files import stored_path
from localrag.index.documents.load.messages import LENGTH, Link, link_pair, send
from localrag.index.documents.load.open_file import OpenFile, open_file
from localrag.index.documents.load.parse import WITH_ROWS, WITH_SCANS
from localrag.index.documents.load.scans import ReadScans
from localrag.records import Document, Part, Skipped, content_id
from localrag.system.files import check_system
from localrag.system.seen import stamp_of
from localrag.text.dates import file_day, metadata_day
from localrag.text.plain import Span

VERSION = 1  # of what the parsers make of a file: with another one, every file is read again
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_LONGEST_ANSWER = 2**31
_SCANS = {ONLY_IMAGES, A_PICTURE}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a single file may cost."""

    seconds: float = 60.0
    memory: int = 2 * 2**30
    size: int = 200 * MEGABYTE


AHEAD = 2  # files for each reader that are read or wait to be stored
PLAIN = Options()
USUAL = Limits()


def load_all(
    files: Iterable[Path],
    root: Path,
    options: Options = PLAIN,
    limits: Limits = USUAL,
    scans: ReadScans | None = None,
    digests: Digests | None = None,
    readers: int = 1,
    sentences: dict[str, list[Span]] | None = None,
) -> Iterator[Document | Skipped]:
    """Read files, each into a Document or a reason why not, in their order; paths are stored relative to `root`. Raises LocalragError.

    `scans`: how pages without text are read, in the languages that `options` name. `digests`: what is known of the files' bytes. `readers`:
    so many processes read at the same time, a few files ahead. `sentences`: filled with path → sentences by these
    processes, but not for very long texts, nor where one process reads.
    """
    check_system()
    digests = digests or Digests({})
    if readers == 1:
        with closing(Confined(limits)) as worker:
            for file in files:
                yield _load(file, root, options, limits, worker, scans, digests)
        return

    def read(file: Path, worker: "Confined", read_scans: ReadScans | None) -> Document | Skipped:
        return _load(file, root, options, limits, worker, read_scans, digests, sentences)

    yield from _side_by_side(files, read, limits, scans, readers)


Read = Callable[[Path, "Confined", ReadScans | None], Document | Skipped]


def _side_by_side(files: Iterable[Path], read: Read, limits: Limits, scans: ReadScans | None, readers: int) -> Iterator[Document | Skipped]:
    """What `read` makes of files, in their order; so many processes work on the next ones meanwhile."""
    confined = [Confined(limits) for _ in range(readers)]
    idle = LifoQueue[Confined]()  # whoever has read something has started
    for worker in reversed(confined):
        idle.put(worker)

    def load(file: Path, read_scans: ReadScans | None) -> Document | Skipped:
        worker = idle.get()
        try:
            return read(file, worker, read_scans)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(readers)
    try:
        ahead = scans and _later
        for file, found in _in_order(files, lambda file: pool.submit(load, file, ahead), AHEAD * readers):
            try:
                yield found.result()
            except _HasScans:  # their words are kept in the index, which belongs to this thread
                yield load(file, scans)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in confined:
            worker.end()
        pool.shutdown()
        for worker in confined:
            worker.close()


def _in_order(files: Iterable[Path], begin: Callable[[Path], Future[Any]], most: int) -> Iterator[tuple[Path, Future[Any]]]:
    """Files with what is begun of them, in their order; no more than `most` at a time."""
    waiting = deque[tuple[Path, Future[Any]]]()
    for file in files:
        waiting.append((file, begin(file)))
        if len(waiting) >= most:
            yield waiting.popleft()
    yield from waiting


class _HasScans(Exception):
    """A file has pages to be read as pictures."""


def _later(*_: Any) -> NoReturn:
    raise _HasScans


def is_current(reason: str, options: Options) -> bool:
    """Whether a file that was skipped for `reason` would be skipped for the same one now: for a scan, why OCR cannot read it."""
    is_scan = reason.startswith(tuple(f"{kind}: " for kind in _SCANS))
    return not (is_scan and options.no_ocr) or options.no_ocr in reason


def content_hash_of(file: Path, digest: str, options: Options = PLAIN) -> str:
    """What `Document.content_hash` will be: of the bytes' digest, the loader's version and the options that bear on this kind of file."""
    suffix = file.suffix.lower()
    bearing = (options.text_column, *options.metadata_columns) if suffix in WITH_ROWS else ()
    bearing += ("ocr", options.ocr) if options.ocr and suffix in WITH_SCANS else ()
    return content_id("load", VERSION, digest, *bearing)


def _load(
    file: Path,
    root: Path,
    options: Options,
    limits: Limits,
    worker: "Confined",
    scans: ReadScans | None,
    digests: Digests,
    sentences: dict[str, list[Span]] | None = None,
) -> Document | Skipped:
    path = stored_path(file, root)
    try:
        before = file.stat()
        if reason := _unfit(before, limits):
            return Skipped(path, reason, False)
        content_hash = content_hash_of(file, digests.of(path, file), options)
        answer = _answer(file, content_hash, options, worker, scans, split=sentences is not None)
        after = file.stat()
    except OSError as error:
        return Skipped(path, f"cannot be read: {error.strerror}", True)
    if stamp_of(before) != stamp_of(after):
        return Skipped(path, "changed while it was read", True)
    if "reason" in answer:
        reason = f"{answer['reason']}: {options.no_ocr}" if answer["reason"] in _SCANS and options.no_ocr else answer["reason"]
        return Skipped(path, reason, answer["failed"], "" if answer["failed"] else content_hash)  # it changes once scans can be read
    text = answer["text"]
    if sentences is not None and (found := _spans(answer.get("sentences"), text)):
        sentences[path] = found
    metadata = tuple((str(name), str(value)) for name, value in answer["metadata"])
    parts = tuple(Part(p["label"], p["start"], p["end"]) for p in answer["parts"])
    own = dict(metadata).get("title", "") or answer["title"]
    day = metadata_day(metadata)
    when = (day, "metadata") if day else (file_day(after.st_mtime), "file")
    title = (own or Path(path).stem, "document" if own else "file")
    return Document(content_id(path, content_id(text)), path, title[0], text, content_hash, metadata, parts, *when, title[1])


def _spans(given: Any, text: str) -> list[Span]:
    """What the process says are the sentences of a text; none where they cannot be, as a hostile file may have taken it over."""
    try:
        flat = np.array(given or [], np.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        return []
    fits = len(flat) and len(flat) % 2 == 0 and flat[0] >= 0 and flat[-1] <= len(text) and (np.diff(flat) >= 0).all()
    return [Span(*pair) for pair in flat.reshape(-1, 2).tolist()] if fits else []


def _answer(file: Path, content_hash: str, options: Options, worker: "Confined", scans: ReadScans | None, *, split: bool) -> dict[str, Any]:
    """What the worker makes of a file, with the words of its scanned pages. Raises OSError."""
    request = {"path": str(file), "text_column": options.text_column, "metadata_columns": options.metadata_columns, "split": split}
    answer = worker.ask(request | {"ocr": options.ocr if scans else ""})
    if scans is None or not answer.get("scans"):
        return answer

    def draw(page: int) -> dict[str, Any]:
        drawn = worker.ask({"path": str(file), "page": page})
        return drawn | {"image": b64decode(drawn["image"])} if "image" in drawn else drawn

    read = scans(file, content_hash, answer["scans"], draw)
    return worker.ask(request | {"ocr": options.ocr, "read": list(read.items())})


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
        self._ended = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request about the file at "path" (see `worker`) and return the answer, or the reason why there is none.

        The process gets the open file and its name, not the path: it may open libraries only.
        """
        fresh = self._running is None
        asked = {name: value for name, value in request.items() if name != "path"}
        try:
            with open_file(Path(request["path"])) as file:
                answer = self._asked(asked, file)
                if answer is None and not fresh and not self._ended:  # the fault may be that of a file before it
                    answer = self._asked(asked, file)
        except OSError as error:
            return {"reason": f"cannot be read: {error.strerror}", "failed": True}
        return answer or {"reason": "damaged: it crashed the program that reads it", "failed": True}

    def _asked(self, request: dict[str, Any], file: OpenFile) -> dict[str, Any] | None:
        """None where the process ended without an answer."""
        if self._ended:
            return None
        self._running = running = self._running or _start(self._limits)
        deadline = time.monotonic() + self._limits.seconds
        try:
            running.requests.settimeout(self._limits.seconds)
            send(running.requests, request | {"name": file.name}, file.descriptor)
            length = _length(_read(running.answers, LENGTH.size, deadline))
            answer: dict[str, Any] = json.loads(_read(running.answers, length, deadline))
        except TimeoutError:
            self.close()
            return {"reason": f"took longer than {self._limits.seconds:g} s", "failed": True}
        except (EOFError, ConnectionError, ValueError):
            self.close()
            return None
        if answer.get("reason") == "memory":
            self.close()
            answer["reason"] = f"needed more than {self._limits.memory / 2**30:g} GB of memory"
        return answer

    def end(self) -> None:
        """End the process, from whichever thread; what it is asked now has no answer, and no other one is started for it."""
        self._ended = True
        if running := self._running:
            running.process.kill()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._running is None:
            return
        running, self._running = self._running, None
        running.process.kill()
        running.process.wait()
        running.answers.close()
        running.requests.close()


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    requests: Link
    answers: IO[bytes]


def _start(limits: Limits) -> _Running:
    """Start a worker with few environment variables, no inherited files, and no modules of the working folder (-P)."""
    home = str(Path(__file__).resolve().parents[4])
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (*given, home)))  # an empty entry would be the working folder
    ours, theirs = link_pair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "localrag.index.documents.load.worker", str(limits.memory), str(int(limits.seconds) + 1)],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            process_group=0,  # an interrupt at the terminal is for us; we end it
        )
    return _Running(process, ours, cast("IO[bytes]", process.stdout))


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
