"""ServerContext, error responses, filters of requests, and the child process that indexes; killing it loses nothing that was committed."""

import signal
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, Any

import psutil
from sqlite_utils import Database
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localrag.errors import IndexBusy, LocalragError, NoIndex, UsageError, error_location, known_error
from localrag.filters import DocumentFilter, parse_collection_names, parse_filter
from localrag.loaders.reader import DEFAULT_LIMITS
from localrag.serializers import NotFound
from localrag.serve.auth import openai_error
from localrag.serve.query_worker import QueryWorker, ServerBusy
from localrag.serve.values import read_int
from localrag.store.database import is_of_store, snapshot, store_error
from localrag.store.filtered import NoMatchingDocuments
from localrag.system.python_process import RUN_MODULE, python_process

STDERR_TAIL_BYTES = 2_000  # shown of the error output of a failed run
STOP_TIMEOUT_S = 20.0  # between interrupt and kill; a kill loses nothing that was committed
NICE = 10


class IndexProcess:
    """Runs `localrag` as a child process that changes the index: at most one at a time, with low priority."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._follow_up: threading.Thread | None = None
        self._follow_up_error = ""  # error of `then` after the last process

    def start(self, command: str, paths: Sequence[str], then: Callable[[], None] | None = None) -> None:
        """Start `localrag COMMAND PATHS` on this index, and call `then` if it succeeds. Raises IndexBusy while another one runs."""
        with self._lock:
            if self.is_running:
                raise IndexBusy("The index is being changed already.", "Wait for it, or stop it.")
            if self._stderr:
                self._stderr.close()
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 — read while and after the process runs
            words = command, "--index", str(self._folder), "-q", *self._options, "--", *paths
            line, environment = python_process(RUN_MODULE, "localrag", *words)
            # In its own process group, so that it does not receive Ctrl-C from the terminal. In this session, because Linux divides
            # processor time among sessions first: in its own session the low priority would have no effect.
            self._process = subprocess.Popen(
                line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._stderr, process_group=0
            )
            with suppress(psutil.Error):  # it has ended already
                psutil.Process(self._process.pid).nice(NICE)
            self._follow_up_error, self._follow_up = "", None
            if then:
                self._follow_up = threading.Thread(target=self._follow, args=(self._process, then), name="localrag-run", daemon=True)
                self._follow_up.start()

    def _follow(self, process: "subprocess.Popen[bytes]", then: Callable[[], None]) -> None:
        if process.wait() == 0:
            try:
                then()
            except (OSError, ValueError) as error:
                self._follow_up_error = str(error)

    @property
    def is_running(self) -> bool:
        """Whether a process started here is changing the index."""
        follow_up = self._follow_up is not None and self._follow_up.is_alive()
        return follow_up or (self._process is not None and self._process.poll() is None)

    @property
    def error_text(self) -> str:
        """Error output of the last process if it failed, else empty. Unreadable files (5) and an interrupt (130) are no failure."""
        if self._process is None or self._stderr is None or self._process.poll() in (None, 0, 5, 130, -signal.SIGINT, -signal.SIGKILL):
            return self._follow_up_error
        size = self._stderr.seek(0, 2)
        self._stderr.seek(max(0, size - STDERR_TAIL_BYTES))
        return self._stderr.read().decode(errors="replace").strip()

    def stop(self) -> None:
        """Interrupt the process if one runs; it commits its results first."""
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Interrupt the process and wait until it has ended."""
        if self._process is not None and self.is_running:
            self.stop()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._follow_up is not None:
            self._follow_up.join()
        if self._stderr:
            self._stderr.close()


class FileUnavailable(LocalragError):
    """The file of a document is missing or cannot be shown."""


class UnknownModel(LocalragError):
    """A request names a model that this server does not have."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The served index, shared by all request handlers.

    `root` is the folder that stored paths are relative to, `address` the server's URL. `inbox` is the folder for files uploaded from the
    page, each of at most `most_bytes` (larger files are not indexed). `read_only` forbids every change. `max_seconds` limits a program's
    question (None: no limit). `list_sources` appends the sources to the text of an answer. `external_hosts` are the remote model servers.
    """

    folder: Path
    root: Path
    query_worker: QueryWorker
    index_runs: IndexProcess
    inbox: Path
    address: str = ""
    most_bytes: int = DEFAULT_LIMITS.size
    read_only: bool = False
    max_seconds: float | None = None
    list_sources: bool = True
    external_hosts: tuple[str, ...] = ()


def told_error(failed: BaseException) -> BaseException:
    """The error to tell a client of: a LocalragError for what the machine lacks or the index holds; a ValueError of a request as it is."""
    is_of_request = isinstance(failed, OverflowError) or (type(failed) is ValueError and not is_of_store(failed))
    return failed if is_of_request else known_error(failed) or store_error(failed) or failed


def error_response(failed: BaseException) -> JSONResponse:
    """The response for an exception. Of an unexpected one only type and location, since its message may contain text of documents."""
    failed = told_error(failed)
    if isinstance(failed, HTTPException):
        return openai_error(failed.status_code, failed.detail)
    if isinstance(failed, LocalragError):
        status, kind, code = _HTTP_STATUSES.get(type(failed), (500, "server_error", None))
        return openai_error(status, str(failed), kind, code, failed.hint)
    if isinstance(failed, OverflowError):
        return openai_error(400, "The request has a number of more than 64 bits.")
    if isinstance(failed, ValueError):  # raised while reading a request, with a message for the client
        return openai_error(400, str(failed))
    return openai_error(500, f"Something unexpected happened: {error_location(failed)}.", "server_error")


_HTTP_STATUSES: Mapping[type, tuple[int, str, str | None]] = {
    FileUnavailable: (410, "invalid_request_error", "gone"),
    ServerBusy: (503, "server_error", "busy"),
    IndexBusy: (409, "invalid_request_error", "index_busy"),
    NoIndex: (503, "server_error", "no_index"),
    NotFound: (404, "invalid_request_error", "not_found"),
    NoMatchingDocuments: (400, "invalid_request_error", None),
    UnknownModel: (404, "invalid_request_error", "model_not_found"),
    UsageError: (400, "invalid_request_error", None),
}


def read_handler(site: ServerContext, value: Callable[[Request, Database], Any]) -> Callable[[Request], Response]:
    """A request handler that returns a value read from a snapshot of the index, as JSON."""

    @wraps(value)
    def handled(request: Request) -> Response:
        with snapshot(site.folder) as db:
            return JSONResponse(value(request, db))

    return handled


def write_handler(
    site: ServerContext, change: Callable[[Request, ServerContext], dict[str, Any]], status: int = 202
) -> Callable[[Request], Awaitable[Response]]:
    """A request handler that changes the index, refused with 403 if the server is read-only. Status 202: it continues afterwards."""

    async def handled(request: Request) -> Response:
        if site.read_only:
            return openai_error(403, "This server is read-only.", hint="Start it without --read-only.")
        return JSONResponse(await run_in_threadpool(change, request, site), status)

    return handled


def query_int(request: Request, name: str, minimum: int, maximum: int, default: int | None = None) -> int:
    """An integer of the query string, clamped to the bounds. Raises ValueError if it is invalid, or missing without a default."""
    text = request.query_params.get(name)
    return default if text is None and default is not None else read_int(name, text, minimum, maximum)


def filter_text_of(body: Mapping[str, Any]) -> str:
    """The `filter` of a request; empty where it has none. Raises ValueError and UsageError."""
    text = body.get("filter")
    if text is not None and not isinstance(text, str):
        raise ValueError(f"`filter` is a text like path=contracts/*,type=pdf, not {text!r:.40}.")
    parse_filter(text or "")
    return text or ""


def document_filter_of(body: Mapping[str, Any]) -> DocumentFilter | None:
    """The filter of a request: `filter` and `collections` (a list, or names with commas); None without. Raises ValueError, UsageError."""
    names = body.get("collections")
    if isinstance(names, list) and all(isinstance(n, str) for n in names):
        names = ",".join(names)
    if names is not None and not isinstance(names, str):
        raise ValueError(f"`collections` is a list of names, not {names!r:.40}.")
    text = filter_text_of(body)
    if names is None and body.get("filter") is None:
        return None
    return DocumentFilter(text, parse_collection_names(names or ""))
