"""Reads files into Documents, through parser processes that can be stopped and replaced."""

import operator
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from queue import LifoQueue
from typing import Any, NoReturn

from localrag.filters import day_from_metadata, day_of_file
from localrag.loaders.containers import SplitText, are_nested, safe_name, split_text
from localrag.loaders.content import A_PICTURE, MEGABYTE, ONLY_IMAGES, UNKNOWN_FONTS, InnerDocument, LoadOptions, OpenFile, open_file
from localrag.loaders.discover import DigestCache, relative_path
from localrag.loaders.file_kinds import CODE_SUFFIXES
from localrag.loaders.latex_inputs import definitions_for
from localrag.loaders.ocr import OcrPages, read_hash
from localrag.loaders.parser_process import BINARY_SUFFIXES, OCR_SUFFIXES, PARSER_VERSIONS, PARSERS, TABULAR_SUFFIXES
from localrag.records import Document, DocumentBlock, DocumentPart, SkippedFile, content_id
from localrag.system.child_process import ChildProcess, isolated_environment
from localrag.system.files import stat_key
from localrag.text.outline import BlockKind

_ENVIRONMENT_NAMES = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_SCANS = {ONLY_IMAGES, A_PICTURE, UNKNOWN_FONTS}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a single file: seconds, bytes of memory, bytes of the file."""

    seconds: float = 60.0
    memory: int = 2 * 2**30
    size: int = 200 * MEGABYTE


FILES_AHEAD = 2  # files per reader that are being read or wait to be stored
DEFAULT_OPTIONS = LoadOptions()
DEFAULT_LIMITS = Limits()


def load_files(
    files: Iterable[Path],
    root: Path,
    options: LoadOptions = DEFAULT_OPTIONS,
    limits: Limits = DEFAULT_LIMITS,
    scans: OcrPages | None = None,
    digests: DigestCache | None = None,
    readers: int = 1,
) -> Iterator[Document | SkippedFile]:
    """Read files in order, each into a Document or a SkippedFile with the reason; paths are relative to `root`. Raises LocalragError.

    After the Document of a file come those of the files within it, whose paths are below the file's.

    `scans`: the OCR of pages without text. `digests`: the known digests. `readers`: number of parallel parser processes, which read a few
    files ahead.
    """
    digests = digests or DigestCache({})
    if readers == 1:
        with closing(ParserProcess(limits)) as worker:
            for file in files:
                yield from _load(file, root, options, limits, worker, scans, digests)
        return

    def read(file: Path, worker: "ParserProcess", read_scans: OcrPages | None) -> FileDocuments:
        return _load(file, root, options, limits, worker, read_scans, digests)

    yield from _parallel(files, read, limits, scans, readers)


FileDocuments = Sequence[Document] | tuple[SkippedFile]
ParseFile = Callable[[Path, "ParserProcess", OcrPages | None], FileDocuments]


def _parallel(
    files: Iterable[Path], read: ParseFile, limits: Limits, scans: OcrPages | None, readers: int
) -> Iterator[Document | SkippedFile]:
    workers = [ParserProcess(limits) for _ in range(readers)]
    idle = LifoQueue[ParserProcess]()  # last in, first out: reuse processes that have started
    for worker in reversed(workers):
        idle.put(worker)

    def load(file: Path, read_scans: OcrPages | None) -> FileDocuments:
        worker = idle.get()
        try:
            return read(file, worker, read_scans)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(readers)
    try:
        deferred_ocr = scans and _defer_ocr
        for file, future in _in_order(files, lambda file: pool.submit(load, file, deferred_ocr), FILES_AHEAD * readers):
            try:
                yield from future.result()
            except _NeedsOcr:  # OCR results are stored in the index, whose connection belongs to this thread
                yield from load(file, scans)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        pool.shutdown()
        for worker in workers:
            worker.close()


def _in_order(files: Iterable[Path], begin: Callable[[Path], Future[Any]], most: int) -> Iterator[tuple[Path, Future[Any]]]:
    """Files with their futures, in order; at most `most` at a time."""
    pending = deque[tuple[Path, Future[Any]]]()
    for file in files:
        pending.append((file, begin(file)))
        if len(pending) >= most:
            yield pending.popleft()
    yield from pending


class _NeedsOcr(Exception):
    pass


def _defer_ocr(*_: Any) -> NoReturn:
    raise _NeedsOcr


def is_current(reason: str, options: LoadOptions) -> bool:
    """Whether a file skipped for `reason` would be skipped for the same reason now; for a scan, because of the same lack of OCR."""
    is_scan = reason.startswith(tuple(f"{kind}: " for kind in _SCANS))
    return not (is_scan and options.ocr_unavailable_reason) or options.ocr_unavailable_reason in reason


def content_hash_of(file: Path, digest: str, options: LoadOptions = DEFAULT_OPTIONS, kind: str = "") -> str:
    """The content hash of a document: of its digest, its parser and the parser's version, and the options that matter to its kind.

    Of LaTeX and chats also of what the file takes from others. `kind`: the suffix by which it was read; the hash begins with one that
    is not its own.
    """
    suffix = file.suffix.lower()
    kind = kind if kind in PARSERS else suffix
    relevant = (options.text_column, *options.metadata_columns) if kind in TABULAR_SUFFIXES else ()
    relevant += ("ocr", options.ocr) if options.ocr and kind in OCR_SUFFIXES else ()
    relevant += ("all files",) if options.all_files and suffix in CODE_SUFFIXES else ()
    relevant += (definitions,) if (definitions := definitions_for(file)) else ()
    parser = PARSERS.get(kind, PARSERS[".txt"])
    key = content_id("load", parser, PARSER_VERSIONS[parser], digest, *relevant)
    return key if kind == suffix else f"{kind} {key}"


def stored_kind(content_hash: str, path: str) -> str:
    """The suffix by which a document was read: of its path, unless the content hash begins with another."""
    kind, space, _ = content_hash.partition(" ")
    return kind if space and kind in PARSERS else Path(path).suffix.lower()


def _load(
    file: Path,
    root: Path,
    options: LoadOptions,
    limits: Limits,
    worker: "ParserProcess",
    scans: OcrPages | None,
    digests: DigestCache,
) -> FileDocuments:
    path = relative_path(file, root)
    try:
        before = file.stat()
        if not 0 < before.st_size <= limits.size:
            return (SkippedFile(path, f"larger than {limits.size // MEGABYTE} MB" if before.st_size else "empty", False),)
        digest = digests.digest_of(path, file)
        answer, content_hash = _parse_in_worker(file, digest, options, worker, scans)
        after = file.stat()
        is_longer_text = after.st_size > before.st_size and file.suffix.lower() not in BINARY_SUFFIXES  # such as a log
        if stat_key(before) != stat_key(after) and not is_longer_text:
            return (SkippedFile(path, "changed while it was read", True),)
    except OSError as error:
        return (SkippedFile(path, f"cannot be read: {error.strerror}", True),)
    if "reason" in answer:
        reason = answer["reason"]
        if reason in _SCANS and options.ocr_unavailable_reason:
            reason += f": {options.ocr_unavailable_reason}"
        # The hash changes once scans can be read.
        return (SkippedFile(path, reason, answer["failed"], "" if answer["failed"] else content_hash),)
    text = answer["text"]
    parts = tuple(DocumentPart(p["label"], p["start"], p["end"], p["number"]) for p in answer["parts"])
    whole = SplitText("", text, parts, _valid_blocks(answer.get("blocks"), text), answer["title"], _metadata(answer["metadata"]))
    inner = _inner_documents(answer.get("inner"), text)
    if not inner:
        return (_document(path, whole, content_hash, after.st_mtime),)
    main, *others = split_text(text, parts, whole.blocks, inner)
    found = {path: _document(path, replace(main, title=whole.title, metadata=whole.metadata), content_hash, after.st_mtime)}
    for other in others:
        own = f"{path}/{other.name}"
        document = _document(own, other, content_id(content_hash, other.name), after.st_mtime)
        around = next(found[parent] for p in Path(own).parents if (parent := p.as_posix()) in found)
        if document.date_source == "file" and around.date_source != "file":  # as the message that it came with
            document = replace(document, date=around.date, date_source=around.date_source)
        found[own] = document
    return tuple(found.values())


def _document(path: str, content: SplitText, content_hash: str, changed_at: float) -> Document:
    own_title = dict(content.metadata).get("title", "") or content.title
    metadata_day = day_from_metadata(content.metadata)
    date = (metadata_day, "metadata") if metadata_day else day_of_file(path, changed_at)
    title = (own_title or Path(path).stem, "document" if own_title else "file")
    key = content_id(path, content_id(content.text))
    return Document(key, path, title[0], content.text, content_hash, content.metadata, content.parts, content.blocks, *date, title[1])


def _metadata(pairs: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(value)) for name, value in pairs)


def _records(rows: Any, record_of: Callable[[Any], Any]) -> list[Any]:
    try:
        return list(map(record_of, rows or ()))
    except (TypeError, ValueError, KeyError, OverflowError):
        return []


def _inner_documents(rows: Any, text: str) -> list[InnerDocument]:
    """The documents within a file as the parser process sent them; none if they are invalid, since a hostile file may control it."""

    def document_of(row: Any) -> InnerDocument:
        cut, start, end = (int(row[key]) for key in ("cut", "start", "end"))
        return InnerDocument(safe_name(str(row["name"])), cut, start, end, str(row["title"]), _metadata(row["metadata"]))

    found = _records(rows, document_of)
    return found if all(0 <= d.cut <= d.start <= d.end <= len(text) for d in found) and are_nested(found) else []


def _valid_blocks(rows: Any, text: str) -> tuple[DocumentBlock, ...]:
    """The blocks sent by the parser process, in order and apart; none if they are invalid, since a hostile file may control it."""

    def block_of(row: Any) -> DocumentBlock:
        columns = tuple(map(str, row["columns"]))
        return DocumentBlock(BlockKind(row["kind"]), int(row["start"]), int(row["end"]), int(row["level"]), columns)

    found = tuple(_records(rows, block_of))
    edges = [edge for block in found for edge in (block.start, block.end)]
    is_valid = all(map(operator.le, edges, edges[1:])) and (not edges or (edges[0] >= 0 and edges[-1] <= len(text)))
    return found if is_valid else ()


def _parse_in_worker(
    file: Path, digest: str, options: LoadOptions, worker: "ParserProcess", scans: OcrPages | None
) -> tuple[dict[str, Any], str]:
    columns = {"text_column": options.text_column, "metadata_columns": options.metadata_columns}
    request: dict[str, Any] = columns | {"path": str(file), "all_files": options.all_files}
    request["definitions"] = definitions_for(file)
    answer = worker.request(request | {"ocr": options.ocr if scans else ""})
    content_hash = content_hash_of(file, digest, options, str(answer.get("kind", "")))
    if scans is None or not answer.get("pages_to_ocr"):
        return answer, content_hash

    def draw(page: int) -> dict[str, Any]:
        rendered = worker.request({"path": str(file), "page": page})
        return rendered | {"image": b64decode(rendered["image"])} if "image" in rendered else rendered

    pages = scans(file, content_hash, answer["pages_to_ocr"], draw)
    return worker.request(request | {"ocr": options.ocr, "read": list(pages.items())}), read_hash(content_hash, pages)


class ParserProcess:
    """A parser process: started for the first file, replaced after a file that hung or crashed it. One request at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: ChildProcess | None = None
        self._ended = False

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request about the file at "path", and return the answer or the reason of a failure.

        The process gets the open file and its name, not the path: it may open libraries only.
        """
        is_new = self._running is None
        message = {name: value for name, value in request.items() if name != "path"}
        try:
            with open_file(Path(request["path"])) as file:
                answer = self._asked(message, file)
                if answer is None and not is_new and not self._ended:  # an earlier file may have damaged the process
                    answer = self._asked(message, file)
        except OSError as error:
            return {"reason": f"cannot be read: {error.strerror}", "failed": True}
        return answer or {"reason": "damaged: it crashed the program that reads it", "failed": True}

    def _asked(self, request: dict[str, Any], file: OpenFile) -> dict[str, Any] | None:
        if self._ended:
            return None
        self._running = running = self._running or _start(self._limits)
        deadline = time.monotonic() + self._limits.seconds
        try:
            running.send(request | {"name": file.name}, descriptor=file.descriptor, timeout=self._limits.seconds)
            answer: dict[str, Any] = running.receive(deadline - time.monotonic())
        except TimeoutError:
            self.close()
            return {"reason": f"took longer than {self._limits.seconds:g} s", "failed": True}
        except (EOFError, ConnectionError, ValueError, RecursionError):  # or an invalid answer
            self.close()
            return None
        if answer.get("reason") == "memory":
            self.close()
            answer["reason"] = f"needed more than {self._limits.memory / 2**30:g} GB of memory"
        return answer

    def kill(self) -> None:
        """Kill the process, from any thread; the pending request gets no answer, and no other process is started."""
        self._ended = True
        if running := self._running:
            running.kill()

    def close(self) -> None:
        """Kill the process, and release its resources."""
        running, self._running = self._running, None
        if running is not None:
            running.close()


def _start(limits: Limits) -> ChildProcess:  # with few environment variables, no inherited files, no modules of the working folder (-P)
    arguments, env = (str(limits.memory), str(int(limits.seconds) + 1)), isolated_environment(_ENVIRONMENT_NAMES)
    return ChildProcess("localrag.loaders.parser_process", *arguments, environment=env, isolated=True)
