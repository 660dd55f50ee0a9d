"""Tables made from documents: TableRequest says which, TableWorker makes them on a thread, one at a time, and keeps the last ones."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from localrag.analysis.tables import Cell, OnWork, ResultTable, make_table
from localrag.errors import LocalragError, UsageError
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.project import Project, filter_project
from localrag.query.question import MAX_QUESTION_CHARS
from localrag.serve.query_worker import QueryWorker, ServerBusy
from localrag.serve.values import read_bool, read_int
from localrag.store import browse
from localrag.store.database import snapshot

TABLE_KINDS = ("review", "timeline", "list", "compare")
MAX_PATH_CHARS = 4_096
MAX_SECTION_CHARS = 1_000
MAX_LIMIT = 1_000  # rows of a timeline
DEFAULT_DATES = 500  # rows of a timeline
MAX_PENDING_TABLES = 8  # the one that is made and those that wait; further ones raise ServerBusy
MAX_KEPT_TABLES, MAX_KEPT_CELLS = 8, 100_000  # the newest is always kept
MAX_PAUSE_S = 5.0  # between two units of work, while questions are being answered
POLL_EVERY_S = 0.05
STOPPED_HINT = "Make it again. The cells of a review that were read are kept."


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A table to make: `text` of a timeline or list; `questions` of a review; `first`, `second`, `include_same` of a comparison."""

    kind: str
    text: str = ""
    questions: tuple[str, ...] = ()
    rows: str = "document"
    limit: int | None = None
    first: str = ""
    second: str = ""
    include_same: bool = False
    selection: DocumentFilter = NO_FILTER


def _review_request(questions: object, rows: object, selection: DocumentFilter) -> TableRequest:
    from localrag.analysis.review import ROW_KINDS
    from localrag.analysis.review_questions import parse_questions

    if not isinstance(questions, list) or not all(isinstance(line, str) for line in questions):
        raise ValueError("`questions` is a list of texts, a question each.")
    if rows not in ROW_KINDS:
        raise ValueError(f"`rows` is one of {', '.join(ROW_KINDS)}, not {rows!r:.40}.")
    return TableRequest("review", questions=tuple(q.line for q in parse_questions(questions)), rows=str(rows), selection=selection)


def parse_table_request(kind: str, body: Mapping[str, Any], selection: DocumentFilter) -> TableRequest:
    """The request of a kind of table in the values of a JSON object. Raises ValueError and UsageError with a message for the client."""
    if kind == "review":
        return _review_request(body.get("questions"), body.get("rows", "document"), selection)
    if kind == "timeline":
        limit = DEFAULT_DATES if body.get("limit") is None else read_int("limit", body["limit"], 1, MAX_LIMIT)
        return TableRequest(kind, text_of(body, "about", MAX_QUESTION_CHARS), limit=limit, selection=selection)
    if kind == "list":
        return TableRequest(kind, text_of(body, "request", MAX_QUESTION_CHARS, is_required=True), selection=selection)
    if kind == "compare":
        first, second = (text_of(body, name, MAX_PATH_CHARS, is_required=True) for name in ("first", "second"))
        return TableRequest(kind, first=first, second=second, include_same=read_bool("include_same", body.get("include_same")))
    raise UsageError(f"There are no tables of kind {kind[:40]!r}.", f"Kinds: {', '.join(TABLE_KINDS)}")


def text_of(body: Mapping[str, Any], name: str, max_chars: int, *, is_required: bool = False) -> str:
    """A text of a JSON object without white space at its ends; empty where it has none. Raises ValueError."""
    value = body.get(name)
    text = value.strip() if isinstance(value, str) else ""
    if (value is not None and not isinstance(value, str)) or len(text) > max_chars or (is_required and not text):
        raise ValueError(f"`{name}` is a text of {'1 to' if is_required else 'at most'} {max_chars:,} characters.")
    return text


def make_requested_table(request: TableRequest, project: Project, on_work: OnWork | None, max_seconds: float | None = None) -> ResultTable:
    """Make the table; `max_seconds` limits a review. Raises UsageError, NoMatchingDocuments, ModelError, and what `on_work` raises."""
    with filter_project(project, request.selection) as chosen:
        if request.kind == "review":
            from localrag.analysis.review import review_documents
            from localrag.analysis.review_questions import parse_questions

            questions = parse_questions(request.questions)
            return review_documents(questions, chosen, rows=request.rows, max_seconds=max_seconds, on_work=on_work)
        if request.kind == "timeline":
            from localrag.analysis.timeline import make_timeline

            return make_timeline(chosen, request.text, limit=request.limit, on_work=on_work)
        if request.kind == "list":
            from localrag.analysis.item_list import list_items

            return list_items(chosen, request.text, on_work=on_work)
        from localrag.analysis.document_diff import compare_documents

        return compare_documents(chosen, request.first, request.second, include_same=request.include_same, on_work=on_work)


class TableStopped(LocalragError):
    """The table was stopped before its end."""


@dataclass(slots=True, eq=False)
class TableTask:
    """A table that waits, is being made, or has ended.

    `table`: once it is made, else `error` at its end; `progress`: units of work done and in all; `watchers`: the number of those who wait
    for it; `index_token`: the state of the index that it is made from.
    """

    id: str
    request: TableRequest
    table: ResultTable | None = None
    error: BaseException | None = None
    progress: tuple[int, int] = (0, 0)
    watchers: int = 0
    index_token: str = ""
    is_stopped: threading.Event = field(default_factory=threading.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Wait for it in this block."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so many seconds. Returns whether it has ended."""
        until = time.monotonic() + seconds
        while not self.has_ended.is_set() and time.monotonic() < until:
            await asyncio.sleep(POLL_EVERY_S)
        return self.has_ended.is_set()

    def result(self) -> ResultTable:
        """The table. Raises what making it raised; it must have ended."""
        if self.error is not None:
            raise self.error
        assert self.table is not None
        return self.table

    def end(self, error: BaseException | None = None) -> None:
        """Record its end."""
        self.error = error
        self.has_ended.set()

    def check(self) -> None:
        """Raise TableStopped if it was stopped."""
        if self.is_stopped.is_set():
            raise TableStopped("The table was stopped.", STOPPED_HINT)


class TableWorker:
    """Makes tables, which takes minutes without awaiting, on a thread of its own; `questions` go first. Must be closed."""

    def __init__(self, questions: QueryWorker) -> None:
        self.questions = questions
        self._executor = ThreadPoolExecutor(1, "localrag-tables")
        self._lock = threading.Lock()
        self._pending: dict[str, TableTask] = {}  # in the order in which they are made
        self._kept: OrderedDict[str, TableTask] = OrderedDict()

    def start(self, request: TableRequest) -> TableTask:
        """Make a table as soon as those before it are made. Raises ServerBusy."""
        task = TableTask(token_hex(8), request)
        with self._lock:
            if len(self._pending) >= MAX_PENDING_TABLES:
                raise ServerBusy("Too many tables are waiting.", "Try again when one of them is made.")
            self._pending[task.id] = task
            self._executor.submit(self._run, task)
        return task

    def find(self, task_id: str) -> TableTask | None:
        """A table by its id, if it is pending or kept."""
        with self._lock:
            return self._pending.get(task_id) or self._kept.get(task_id)

    def find_same(self, request: TableRequest) -> TableTask | None:
        """The table of an equal request, pending or up to date; never a review: somebody may have decided about its cells elsewhere."""
        if request.kind == "review":
            return None
        token = self._index_token()
        with self._lock:
            same = [t for t in (*self._pending.values(), *self._kept.values()) if t.request == request and not t.is_stopped.is_set()]
        return next((t for t in same if t.table is None or t.index_token == token), None)

    def is_current(self, task: TableTask) -> bool:
        """Whether the index has not changed since a table was made. Raises NoIndex."""
        return task.index_token == self._index_token()

    def n_before(self, task: TableTask) -> int:
        """The number of tables that are made before this one."""
        with self._lock:
            return list(self._pending).index(task.id) if task.id in self._pending else 0

    def stop(self, task: TableTask) -> None:
        """Stop a table, at once if it waits, else after its current unit of work; a review then has the cells that were read."""
        task.is_stopped.set()
        with self._lock:
            waits = task.id in self._pending and next(iter(self._pending)) != task.id
            if waits:
                del self._pending[task.id]
        if waits:
            task.end(TableStopped("The table was stopped.", STOPPED_HINT))

    def decide(self, row_key: str, question: str, cell: Cell) -> None:
        """Put a decided cell into the kept reviews of which it is a part."""
        with self._lock:
            for task in self._kept.values():
                if task.table and question in task.request.questions:
                    task.table = _with_cell(task.table, row_key, task.request.questions.index(question) + 1, cell)

    def close(self) -> None:
        """Stop every table and wait for the thread."""
        with self._lock:
            pending = list(self._pending.values())
        for task in reversed(pending):
            self.stop(task)
        self._executor.shutdown()

    def _index_token(self) -> str:
        with snapshot(self.questions.folder) as db:
            return browse.change_token(db)

    # The methods below run on the thread of tables.

    def _run(self, task: TableTask) -> None:
        with self._lock:
            if task.id not in self._pending:  # stopped while it waited
                return
        error: BaseException | None = None
        try:
            task.table = self._make(task)
        except BaseException as failed:  # noqa: BLE001 — passed on to those who wait
            error = failed
        self._leave(task)
        task.end(error)

    def _leave(self, task: TableTask) -> None:
        """Take a table that has ended from the pending ones, and keep it if it was made."""
        with self._lock:
            del self._pending[task.id]
            if task.table is not None:
                self._kept[task.id] = task
            while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT_TABLES or sum(map(_n_cells, self._kept.values())) > MAX_KEPT_CELLS):
                self._kept.popitem(last=False)

    def _make(self, task: TableTask) -> ResultTable:
        def on_work(done: int, total: int) -> None:
            task.progress = (done, total)
            task.check()
            self._pause(task)

        task.check()
        task.index_token = self._index_token()
        with self.questions.open_project() as project:
            try:
                return make_requested_table(task.request, project, on_work)
            except TableStopped:
                if task.request.kind != "review" or not task.watchers:
                    raise
                return make_requested_table(task.request, project, None, max_seconds=0.0)  # with the cells that are stored

    def _pause(self, task: TableTask) -> None:
        """Leave the processor and the reader to questions that are being answered, for a while."""
        until = time.monotonic() + MAX_PAUSE_S
        while self.questions.question_counts["active"] and time.monotonic() < until:
            if task.is_stopped.wait(POLL_EVERY_S):
                task.check()


def _n_cells(task: TableTask) -> int:
    return len(task.table.rows) * len(task.table.columns) if task.table else 0


def _with_cell(table: ResultTable, row_key: str, column: int, cell: Cell) -> ResultTable:
    def changed(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        return (*cells[:column], cell, *cells[column + 1 :])

    rows = [replace(row, cells=changed(row.cells)) if row.key == row_key else row for row in table.rows]
    return make_table(table.kind, table.title, table.columns, rows, table.note, table.figures)
