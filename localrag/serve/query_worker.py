"""Questions of the server: QueryWorker answers them on its own thread, RunningQuestion streams the events of one."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from localrag import serializers
from localrag.asking import answer_question
from localrag.errors import LocalragError, NoIndex
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.project import Project, filter_project
from localrag.query.conversation import suggest_questions
from localrag.query.question import NO_CALLBACKS, AnswerCallbacks, QueryOptions
from localrag.query.retriever import search_passages
from localrag.records import Answer
from localrag.store import browse
from localrag.store.database import snapshot
from localrag.store.location import DATABASE_FILE

MAX_CONCURRENT_QUESTIONS = 4  # answered concurrently
MAX_QUEUED_QUESTIONS = 60  # waiting, of people and of programs each; further ones raise ServerBusy

T = TypeVar("T")


class ServerBusy(LocalragError):
    """Too many questions are waiting."""


class QueryWorker:
    """Answers questions on a thread that owns the opened project, between `start` and `close`. Until it is open, questions wait.

    `opened` opens it, with the chat model of a name if one was chosen (`use_model`).

    Answering embeds, reads SQLite and walks the graph without awaiting, so it must not run on the event loop that serves connections. A
    cancelled question stops on the thread, and the engine frees its memory.
    """

    def __init__(self, folder: Path, opened: Callable[..., AbstractContextManager[Project]]) -> None:
        self.folder, self._opened = folder, opened
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._pending: Counter[bool] = Counter()  # by whether a person asks
        self._holder: AbstractContextManager[Project] | None = None
        self._opened_as = (0, "", "")
        self._model = self._answers_with = ""
        self._thread = threading.Thread(target=self._run, name="localrag-questions", daemon=True)

    def start(self, failed: Callable[[BaseException], None] = lambda _: None) -> None:
        """Start opening the project; if that raises, `failed` is called with the exception, on the worker's thread."""
        self._failed = failed
        self._thread.start()

    def close(self) -> None:
        """Cancel running questions and free the models; if they are still loading, wait for that first. Does nothing before `start`."""
        if self._thread.ident is None:
            return
        if self._ready.exception() is None:
            with suppress(RuntimeError):  # already closed
                self._ready.result().call_soon_threadsafe(self._ends.set)
        self._thread.join()

    @property
    def question_counts(self) -> dict[str, int]:
        """Numbers of questions being answered (`active`) and waiting (`waiting`)."""
        asked = self._pending.total()
        return {"active": min(MAX_CONCURRENT_QUESTIONS, asked), "waiting": max(0, asked - MAX_CONCURRENT_QUESTIONS)}

    @property
    def answers_with(self) -> str:
        """The name of the chat model that answers; empty until it is known."""
        return self._model or self._answers_with

    def open_project(self) -> AbstractContextManager[Project]:
        """The index opened once more, on the thread that asks for it, for other work than questions. Raises the errors of opening it."""
        return self._opened()

    def use_model(self, name: str) -> None:
        """Answer with another chat model from the next question on; questions that run end with theirs."""
        self._model = name

    async def ask(
        self,
        text: str,
        options: QueryOptions,
        watch: AnswerCallbacks = NO_CALLBACKS,
        history: Sequence[Answer] = (),
        *,
        person: bool = False,
    ) -> Answer:
        """Answer a question; callbacks run on the caller's loop. `person`: no program asks. When cancelled, it waits for the end."""
        if self._pending[person] >= MAX_CONCURRENT_QUESTIONS + MAX_QUEUED_QUESTIONS:
            raise ServerBusy("Too many questions are waiting.", "Ask again in a moment.")
        self._pending[person] += 1
        try:
            return await self._run_in_worker(self._answer(text, options, _callbacks_on_this_loop(watch), history, person=person))
        finally:
            self._pending[person] -= 1

    async def search(self, query: str, k: int, documents: DocumentFilter = NO_FILTER) -> list[dict[str, Any]]:
        """The `k` passages that best match a query, as `serialize_passages` returns them. Raises UsageError and NoMatchingDocuments."""

        async def find() -> list[dict[str, Any]]:
            async with self._current_project() as full_project:
                with filter_project(full_project, documents) as project:
                    return serializers.serialize_passages(query, search_passages(query, project, k), project)

        return await self._run_in_worker(find())

    async def suggest_questions(self, n: int) -> list[str]:
        """Up to `n` suggested opening questions, without a model."""

        async def suggest() -> list[str]:
            async with self._current_project() as project:
                return suggest_questions(project, n=n)

        return await self._run_in_worker(suggest())

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of texts by the index's model: (n, d) float32, rows L2-normalised."""

        async def embedded() -> NDArray[np.float32]:
            async with self._current_project() as project:
                return project.embedder.embed(texts)

        return await self._run_in_worker(embedded())

    async def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""

        async def counted() -> list[int]:
            async with self._current_project() as project:
                return [await project.model.count(text) for text in texts]

        return await self._run_in_worker(counted())

    async def _run_in_worker(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's thread and return its result. If the caller is cancelled, cancel it and wait for its end."""
        caller_loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = caller_loop.create_future()
        try:
            worker_loop = await asyncio.shield(asyncio.wrap_future(self._ready))
        except BaseException:
            work.close()
            raise
        running: list[asyncio.Task[T]] = []

        def begin() -> None:
            running.append(worker_loop.create_task(work))
            running[0].add_done_callback(lambda task: caller_loop.call_soon_threadsafe(_forward_result, task, done))

        worker_loop.call_soon_threadsafe(begin)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            worker_loop.call_soon_threadsafe(_cancel, running)
            await asyncio.wait([done])
            raise

    # The methods below run on the worker's thread.

    async def _answer(self, text: str, options: QueryOptions, watch: AnswerCallbacks, history: Sequence[Answer], *, person: bool) -> Answer:
        options = replace(options, by_program=not person)
        async with self._limiter, self._current_project() as project:
            return await answer_question(text, project, options, watch, history)

    @asynccontextmanager
    async def _current_project(self) -> AsyncIterator[Project]:
        """The opened project, which stays open while it is used.

        If the index was replaced or is bound to other models now, the project is reopened when no question uses it, so that the models of
        both are never in memory at once. Raises NoIndex and the errors of opening a project.
        """
        if self._identity() != self._opened_as:
            async with self._reopening:
                while self._uses:
                    await self._unused.wait()
                if (now := self._identity()) != self._opened_as:
                    self._close_project()
                    self._open_project(now)
        self._uses += 1  # no await since the check above
        self._unused.clear()
        try:
            yield self._project
        finally:
            self._uses -= 1
            if not self._uses:
                self._unused.set()

    def _identity(self) -> tuple[int, str, str]:
        return (*_index_identity(self.folder), self._model)

    def _open_project(self, identity: tuple[int, str, str]) -> None:
        opened = self._opened(identity[2]) if identity[2] else self._opened()
        self._project, self._holder, self._opened_as = opened.__enter__(), opened, identity
        self._answers_with = self._project.model.file.name

    def _close_project(self) -> None:
        self._opened_as = (0, "", "")
        if self._holder is not None:
            holder, self._holder = self._holder, None
            holder.__exit__(None, None, None)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._ends, self._limiter, self._reopening = asyncio.Event(), asyncio.Semaphore(MAX_CONCURRENT_QUESTIONS), asyncio.Lock()
        self._uses, self._unused = 0, asyncio.Event()
        self._unused.set()
        try:
            self._open_project(self._identity())
        except BaseException as error:  # noqa: BLE001 — passed on to everything that waits for the project
            try:
                self._failed(error)  # before the waiting questions are, so that their retry finds the failure handled
            finally:
                self._ready.set_exception(error)
            return
        self._ready.set_result(asyncio.get_running_loop())
        await self._ends.wait()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close_project()


def _index_identity(folder: Path) -> tuple[int, str]:
    """Identity of the index in a folder: the inode of its database, and its model binding. Raises NoIndex."""
    try:
        inode = (folder / DATABASE_FILE).stat().st_ino
    except OSError:
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH") from None
    with snapshot(folder) as db:
        return inode, browse.model_binding_token(db)


def _callbacks_on_this_loop(watch: AnswerCallbacks) -> AnswerCallbacks:
    """Callbacks that can be called on any thread, and run on the event loop that is running now."""
    loop = asyncio.get_running_loop()

    def forward(callback: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        return callback and (lambda value: void(loop.call_soon_threadsafe(callback, value)))

    def void(_: object) -> None:
        return None

    return AnswerCallbacks(
        forward(watch.on_text),
        forward(watch.on_citation),
        forward(watch.on_draft),
        forward(watch.on_status),
        on_stored=forward(watch.on_stored),
    )


def _cancel(running: "list[asyncio.Task[T]]") -> None:
    running[0].cancel()  # not empty: `begin` was scheduled before this


def _forward_result(task: "asyncio.Task[T]", done: "asyncio.Future[T]") -> None:
    if done.done():
        return
    if task.cancelled():
        done.cancel()
    elif error := task.exception():
        done.set_exception(error)
    else:
        done.set_result(task.result())


KEEPALIVE_S = 10.0  # silence after which a stream sends a keep-alive


@dataclass(slots=True)
class RunningQuestion:
    """A question that is being answered, with its events. `stored_answers` gets the answer as stored, also if it was stopped."""

    task: "asyncio.Task[Answer]"
    events: "asyncio.Queue[tuple[str, Any]]"
    stored_answers: list[Answer] = field(default_factory=list)
    is_stopped: bool = False

    def stop(self) -> None:
        """Stop the question; the answer so far is stored."""
        self.is_stopped = True
        self.task.cancel()

    async def end(self) -> None:
        """Cancel the question and wait until it has ended, without raising its exception."""
        self.task.cancel()
        await asyncio.wait({self.task})
        if not self.task.cancelled():
            self.task.exception()  # retrieved, so that asyncio does not report it


def start_question(
    worker: QueryWorker, text: str, options: QueryOptions, history: Sequence[Answer] = (), *, person: bool = False
) -> RunningQuestion:
    """Start answering a question, in a task."""
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    stored: list[Answer] = []

    def emit(kind: str) -> Any:
        return lambda value: events.put_nowait((kind, value))

    callbacks = AnswerCallbacks(emit("text"), emit("citation"), emit("draft"), emit("status"), on_stored=stored.append)
    return RunningQuestion(asyncio.create_task(worker.ask(text, options, callbacks, history, person=person)), events, stored)


async def question_events(asked: RunningQuestion) -> AsyncIterator[tuple[str, Any]]:
    """Events of a question until it ends, as (kind, value): text, citation, draft, status; `nothing` every KEEPALIVE_S of silence."""
    while not asked.task.done() or not asked.events.empty():
        waiting = asyncio.ensure_future(asked.events.get())
        try:
            done, _ = await asyncio.wait({waiting, asked.task}, timeout=KEEPALIVE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting in done:
            kind, value = waiting.result()
            if kind != "draft" or asked.events.empty():  # a draft that was already replaced is not sent
                yield kind, value
        elif not done:
            yield "nothing", None


async def answer_unless_disconnected(asked: RunningQuestion, request: Request) -> Answer:
    """The complete answer. If the client disconnects, the question is cancelled. Raises ConnectionResetError and the question's errors."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(disconnected())
    try:
        await asyncio.wait({asked.task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.task.done():
            await asked.end()
            raise ConnectionResetError("The client has gone.")
        return asked.task.result()
    finally:
        leaving.cancel()
        asked.task.cancel()  # in case this was cancelled; otherwise it has ended
