"""Questions from the server's event loop to the one thread that answers them.

Answering embeds, reads SQLite and walks the graph without ever waiting, so it must not run on the loop that serves connections. The thread
has an event loop of its own and the opened project; a question that is cancelled stops there, and the engine frees what it held.
"""

import asyncio
import heapq
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag import contents
from localrag.errors import LocalragError, NoIndex
from localrag.project import Project, selected
from localrag.query.answer import answer
from localrag.query.converse import suggested
from localrag.query.question import NOBODY, Options, Watch
from localrag.query.retrieval.retrieve import search
from localrag.records import Answer
from localrag.store import look
from localrag.store.connect import snapshot
from localrag.store.names import FILE_NAME
from localrag.where import EVERYTHING, Selection

AT_ONCE = 4  # questions that are answered side by side
WAITING = 60  # more that may wait, of people and of programs each; beyond them the server says that it is busy

T = TypeVar("T")


class Busy(LocalragError):
    """Too many questions wait already."""


class Worker:
    """Answers questions in a thread of its own. `start` it, `close` it; until the project is open, questions wait."""

    def __init__(self, folder: Path, opened: Callable[[], AbstractContextManager[Project]]) -> None:
        self._folder, self._opened = folder, opened
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._pending: Counter[bool] = Counter()  # by whether a person asks
        self._holder: AbstractContextManager[Project] | None = None
        self._opened_as = (0, "")
        self._thread = threading.Thread(target=self._run, name="localrag-questions", daemon=True)

    def start(self, failed: Callable[[BaseException], None] = lambda _: None) -> None:
        """Begin to open the project; `failed` is told in the worker's thread what opening it raises."""
        self._failed = failed
        self._thread.start()

    def wait(self) -> None:
        """Wait until the project is open. Raises what opening it raises."""
        self._ready.result()

    def close(self) -> None:
        """End the questions under way and free the models; if they are still being loaded, wait for that. Does nothing before `start`."""
        if self._thread.ident is None:
            return
        if self._ready.exception() is None:
            with suppress(RuntimeError):  # it was closed before
                self._ready.result().call_soon_threadsafe(self._ends.set)
        self._thread.join()

    @property
    def questions(self) -> dict[str, int]:
        """How many questions are being answered, and how many wait."""
        asked = self._pending.total()
        return {"active": min(AT_ONCE, asked), "waiting": max(0, asked - AT_ONCE)}

    async def ask(
        self, text: str, options: Options, watch: Watch = NOBODY, history: Sequence[Answer] = (), *, person: bool = False
    ) -> Answer:
        """Answer a question that follows a conversation; `watch` hears of it on the caller's loop. A person's question goes first.

        Cancelled, it has ended in the worker before the cancellation is raised here. Raises Busy and what `answer` raises.
        """
        if self._pending[person] >= AT_ONCE + WAITING:
            raise Busy("Too many questions are waiting.", "Ask again in a moment.")
        self._pending[person] += 1
        try:
            return await self._there(self._answer(text, options, _here(watch), history, person=person))
        finally:
            self._pending[person] -= 1

    async def search(self, query: str, k: int, documents: Selection = EVERYTHING) -> list[dict[str, Any]]:
        """The passages nearest a query, see `contents.passages`. Raises UsageError and NothingSelected."""

        async def found() -> list[dict[str, Any]]:
            async with self._current() as whole:
                with selected(whole, documents) as project:
                    vector = project.embedder.embed([query])[0]
                    return contents.passages(query, vector, search(query, vector, project, k), project)

        return await self._there(found())

    async def suggested(self, n: int) -> list[str]:
        """Questions to begin with; no model is asked for them."""

        async def found() -> list[str]:
            async with self._current() as project:
                return suggested(project, n=n)

        return await self._there(found())

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised, by the index's embedding model."""

        async def embedded() -> NDArray[np.float32]:
            async with self._current() as project:
                return project.embedder.embed(texts)

        return await self._there(embedded())

    async def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""

        async def counted() -> list[int]:
            async with self._current() as project:
                return [await project.model.count(text) for text in texts]

        return await self._there(counted())

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the worker's thread. Where the caller is cancelled, so is the coroutine, to its end."""
        here = asyncio.get_running_loop()
        done: asyncio.Future[T] = here.create_future()
        try:
            there = await asyncio.shield(asyncio.wrap_future(self._ready))
        except BaseException:
            work.close()
            raise
        running: list[asyncio.Task[T]] = []

        def begin() -> None:
            running.append(there.create_task(work))
            running[0].add_done_callback(lambda task: here.call_soon_threadsafe(_hand_over, task, done))

        there.call_soon_threadsafe(begin)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            there.call_soon_threadsafe(_cancel, running)
            await asyncio.wait([done])
            raise

    # Everything below runs in the worker's thread.

    async def _answer(self, text: str, options: Options, watch: Watch, history: Sequence[Answer], *, person: bool) -> Answer:
        async with self._places.taken(person=person), self._current() as project:
            return await answer(text, project, options, watch, history)

    @asynccontextmanager
    async def _current(self) -> AsyncIterator[Project]:
        """The project, which stays open while it is used.

        Where its index was replaced or is bound to other models, it is reopened once nobody uses it, so that the models of both are never
        in memory at once. Raises NoIndex and what opening it raises.
        """
        if _identity(self._folder) != self._opened_as:
            async with self._reopening:
                while self._uses:
                    await self._unused.wait()
                if (now := _identity(self._folder)) != self._opened_as:
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

    def _open_project(self, identity: tuple[int, str]) -> None:
        opened = self._opened()
        self._project, self._holder, self._opened_as = opened.__enter__(), opened, identity

    def _close_project(self) -> None:
        self._opened_as = (0, "")
        if self._holder is not None:
            holder, self._holder = self._holder, None
            holder.__exit__(None, None, None)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._ends, self._places, self._reopening = asyncio.Event(), _Places(AT_ONCE), asyncio.Lock()
        self._uses, self._unused = 0, asyncio.Event()
        self._unused.set()
        try:
            self._open_project(_identity(self._folder))
        except BaseException as error:  # noqa: BLE001 — whoever waits for the project is told
            try:
                self._failed(error)  # before those who wait: by their next question it has been heard
            finally:
                self._ready.set_exception(error)
            return
        self._ready.set_result(asyncio.get_running_loop())
        await self._ends.wait()
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        self._close_project()


class _Places:
    """So many at once; of those who wait people are let in before programs, each in the order they came."""

    def __init__(self, n: int) -> None:
        self._free, self._came = n, 0
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def taken(self, *, person: bool) -> AsyncIterator[None]:
        """Wait for a place, and have it."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._came += 1
            heapq.heappush(self._waiting, (not person, self._came, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()  # it was let in at the moment it left
                raise
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _identity(folder: Path) -> tuple[int, str]:
    """Which index is in a folder, and the models it is bound to. Raises NoIndex."""
    try:
        inode = (folder / FILE_NAME).stat().st_ino
    except OSError:
        raise NoIndex(f"There is no index in {folder}.", "Make one: localrag index PATH") from None
    with snapshot(folder) as db:
        return inode, look.bound_models(db)


def _here(watch: Watch) -> Watch:
    """What a watch hears is told to it on the loop that runs now."""
    loop = asyncio.get_running_loop()

    def passed(tell: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        return tell and (lambda said: void(loop.call_soon_threadsafe(tell, said)))

    def void(_: object) -> None:
        return None

    return Watch(passed(watch.text), passed(watch.citation), passed(watch.draft), passed(watch.status), kept=passed(watch.kept))


def _cancel(running: "list[asyncio.Task[T]]") -> None:
    running[0].cancel()  # by now: what began it was called before this


def _hand_over(task: "asyncio.Task[T]", done: "asyncio.Future[T]") -> None:
    if done.done():
        return
    if task.cancelled():
        done.cancel()
    elif error := task.exception():
        done.set_exception(error)
    else:
        done.set_result(task.result())
