"""A question followed from its beginning to its end: what is heard of it, in order, for whoever streams it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from localrag.query.question import Options, Watch
from localrag.records import Answer
from localrag.serve.worker import Worker

STILL_THERE = 10.0  # seconds of nothing, after which a stream says that it lives


@dataclass(slots=True)
class Asked:
    """A question that is being answered; `kept` is its answer as the index keeps it, also where it was stopped."""

    task: "asyncio.Task[Answer]"
    heard: "asyncio.Queue[tuple[str, Any]]"
    kept: list[Answer] = field(default_factory=list)
    stopped: bool = False

    def stop(self) -> None:
        """End it; what there is of the answer stays."""
        self.stopped = True
        self.task.cancel()

    async def end(self) -> None:
        """Cancel the question and wait until it has ended, however it ends. If this is cancelled, it no longer waits."""
        self.task.cancel()
        await asyncio.wait({self.task})
        if not self.task.cancelled():
            self.task.exception()  # retrieved, so that asyncio does not report it


def ask(worker: Worker, text: str, options: Options, history: Sequence[Answer] = (), *, person: bool = False) -> Asked:
    """Begin to answer a question."""
    heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    kept: list[Answer] = []

    def told(kind: str) -> Any:
        return lambda value: heard.put_nowait((kind, value))

    watch = Watch(told("text"), told("citation"), told("draft"), told("status"), kept=kept.append)
    return Asked(asyncio.create_task(worker.ask(text, options, watch, history, person=person)), heard, kept)


async def follow(asked: Asked) -> AsyncIterator[tuple[str, Any]]:
    """What is heard of it, as kind and value: text, citation, draft, status, and `nothing` now and then; it ends with the question."""
    while not asked.task.done() or not asked.heard.empty():
        waiting = asyncio.ensure_future(asked.heard.get())
        try:
            done, _ = await asyncio.wait({waiting, asked.task}, timeout=STILL_THERE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting in done:
            kind, value = waiting.result()
            if kind != "draft" or asked.heard.empty():  # a draft that is replaced already need not be sent
                yield kind, value
        elif not done:
            yield "nothing", None


async def unless_gone(asked: Asked, request: Request) -> Answer:
    """The answer to a question whose asker waits for the whole of it; where they leave, it ends. Raises what the question raises."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(left())
    try:
        await asyncio.wait({asked.task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.task.done():
            await asked.end()
            raise ConnectionResetError("The client has gone.")
        return asked.task.result()
    finally:
        leaving.cancel()
        asked.task.cancel()  # in case this was cancelled; otherwise it has ended
