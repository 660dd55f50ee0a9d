"""Worker processes on this machine."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from localrag.errors import LocalragError
from localrag.indexing.workers.worker import TaskRunner, Worker, WorkerConfig, WorkerLost, worker_error
from localrag.system.child_process import PICKLE, ChildProcess, ParentConnection, set_oom_score


class ProcessWorker(Worker):
    """A worker in a process of its own, which ends with this process."""

    def __init__(
        self,
        name: str,
        config: WorkerConfig,
        *,
        asks: bool,
        place: str,
        say: Callable[[str], None],
        environment: dict[str, str] | None = None,
        only_asks: bool = False,
    ) -> None:
        self.name, self.has_llm, self.is_llm_only, self.location = name, asks, only_asks, place
        self._say, self._why = say, "its process has ended"
        self._config, self._environment = config, environment or {}
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._child: ChildProcess | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; models are loaded when a task needs them. Raises OSError (no further process is allowed), WorkerLost."""
        self._child = ChildProcess("localrag.indexing.workers.process_worker", codec=PICKLE, environment=self._environment)
        await self._child.open_streams()
        self._child.post((0, "kit", self._config))
        self._listening = asyncio.create_task(self._listen(self._child))
        await self.ask("ready", None)

    async def ask(self, what: str, value: Any) -> Any:  # noqa: D102
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        if self._child is None or self._listening is None or self._listening.done():
            raise WorkerLost(self._why)
        self._waiting[number] = answer
        self._child.post((number, what, value))
        try:
            value_received = await answer
        except asyncio.CancelledError:
            self._child.post((number, "stop", None))
            raise
        finally:
            self._waiting.pop(number, None)
        if isinstance(value_received, LocalragError):
            raise value_received
        return value_received

    async def _listen(self, child: ChildProcess) -> None:
        try:
            with suppress(EOFError):
                while True:
                    number, value = await child.next_message()
                    if number == 0:
                        self._say(value)
                    elif (answer := self._waiting.get(number)) and not answer.done():
                        answer.set_result(value)
            self._why = await asyncio.to_thread(child.why_ended)
        finally:
            child.close()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(WorkerLost(self._why))

    async def ended(self) -> str:
        """The reason why its process has ended, once it has."""
        if self._listening is not None:
            await asyncio.wait([self._listening])
        return self._why

    def close(self) -> None:
        """End its process."""
        if self._child is not None:
            self._child.kill()


def main() -> None:
    """The worker process: receive requests, send results."""
    parent = ParentConnection(PICKLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the scheduling process ends this one
    set_oom_score(500)
    _, _, config = parent.receive()
    asyncio.run(_serve(config, parent))


async def _serve(config: WorkerConfig, parent: ParentConnection) -> None:
    loop = asyncio.get_running_loop()
    running: dict[int, asyncio.Task[None]] = {}
    runner = TaskRunner(config.open(replace(config.options, notify=lambda text: parent.send((0, text)))))

    async def one(number: int, what: str, value: Any) -> None:
        try:
            result: Any = await runner.run_task(value) if what == "do" else await runner.engine_limits() if what == "facts" else None
        except Exception as error:  # noqa: BLE001 — sent to the requesting process, which raises it
            result = worker_error(error)
        parent.send((number, result))

    def heard(number: int, what: str, value: Any) -> None:
        if what == "stop":
            if task := running.get(number):
                task.cancel()
            return
        running[number] = task = loop.create_task(one(number, what, value))
        task.add_done_callback(lambda _: running.pop(number, None))

    parent.listen(lambda message: loop.call_soon_threadsafe(heard, *message))
    await loop.create_future()


if __name__ == "__main__":
    main()
