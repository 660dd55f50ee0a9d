"""Questions from the server's event loop to the one thread that answers them.

Answering embeds, reads SQLite and walks the graph without ever waiting, so it must not run on the loop that serves connections. The thread
has an event loop of its own and the opened project; a question that is cancelled stops there, and the engine frees what it held.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LocalragError
from localrag.project import Project
from localrag.query.answer import answer
from localrag.query.question import Options
from localrag.records import Answer

AT_ONCE = 4  # questions that are answered side by side
WAITING = 8  # more that may wait; beyond them the server says that it is busy

T = TypeVar("T")


class Busy(LocalragError):
    """Too many questions wait already."""


class Worker:
    """Answers questions in a thread of its own. `start` it, `close` it."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Project]]) -> None:
        self._opened = opened
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._ends: asyncio.Event | None = None
        self._pending = 0
        self._thread = threading.Thread(target=self._run, name="localrag-questions", daemon=True)

    def start(self) -> None:
        """Open the project and wait for it. Raises what opening it raises."""
        self._thread.start()
        self._ready.result()

    def close(self) -> None:
        """End the questions under way and free the models."""
        if self._ready.done() and self._ready.exception() is None and self._ends is not None:
            self._ready.result().call_soon_threadsafe(self._ends.set)
            self._thread.join()

    async def ask(
        self,
        text: str,
        options: Options,
        on_text: Callable[[str], None],
        on_status: Callable[[str], None],
        history: Sequence[Answer] = (),
    ) -> Answer:
        """Answer a question that follows a conversation; what is told of it meanwhile is told on the caller's loop. Cancelled, it ends.

        Raises Busy and what `answer` raises.
        """
        here = asyncio.get_running_loop()

        def heard(tell: Callable[[str], None]) -> Callable[[str], None]:
            def passed(said: str) -> None:
                here.call_soon_threadsafe(tell, said)

            return passed

        if self._pending >= AT_ONCE + WAITING:
            raise Busy("Too many questions are waiting.", "Ask again in a moment.")
        self._pending += 1
        try:
            return await self._there(self._answer(text, options, heard(on_text), heard(on_status), history))
        finally:
            self._pending -= 1

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised, by the index's embedding model."""

        async def embedded() -> NDArray[np.float32]:
            return self._project.embedder.embed(texts)

        return await self._there(embedded())

    async def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""

        async def counted() -> list[int]:
            return [await self._project.model.count(text) for text in texts]

        return await self._there(counted())

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the worker's thread; where the caller is cancelled, so is the coroutine."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._ready.result()))

    # Everything below runs in the worker's thread.

    async def _answer(
        self, text: str, options: Options, on_text: Callable[[str], None], on_status: Callable[[str], None], history: Sequence[Answer]
    ) -> Answer:
        async with self._places:
            return await answer(text, self._project, options, on_text, on_status, history=history)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._ends, self._places = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
        try:
            with self._opened() as self._project:
                self._ready.set_result(asyncio.get_running_loop())
                await self._ends.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                return
            raise
