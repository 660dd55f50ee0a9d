"""Processes beside this one that run tasks which ask no chat model."""

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from localrag.indexing.workers.worker import MAX_TRIES, TaskRequest, TaskResult, WorkerConfig, WorkerLost, run_request
from localrag.system.child_process import PICKLE, ChildProcess, ParentConnection, set_oom_score


class ProcessWorker:
    """A worker in a process of its own, which ends with this one; if it ends before, the next task starts it anew."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._child: ChildProcess | None = None

    def start(self) -> None:
        """Start the process; models are loaded when a task needs them. Raises OSError (no further process is allowed), WorkerLost."""
        self._child = ChildProcess("localrag.indexing.workers.process_worker", codec=PICKLE)
        self._ask(self._config)

    def run(self, request: TaskRequest) -> TaskResult:
        """The result of a task. Raises OSError and WorkerLost, as `start`."""
        if self._child is None:
            self.start()
        result = self._ask(request)
        assert isinstance(result, TaskResult)
        return result

    def _ask(self, message: Any) -> Any:
        assert self._child is not None
        try:
            self._child.send(message)
            return self._child.receive()
        except (EOFError, OSError) as error:
            reason = self._child.why_ended()
            self.close()
            raise WorkerLost(reason) from error

    def kill(self) -> None:
        """Kill the process; a thread that waits for its answer goes on."""
        if (child := self._child) is not None:
            child.kill()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None


class WorkerProcesses:
    """Worker processes, each with a thread of this process that waits for its answers."""

    def __init__(self, config: WorkerConfig, n: int) -> None:
        """Start `n` processes, or as many as the machine allows."""
        self._workers = [ProcessWorker(config) for _ in range(n)]
        self._threads = ThreadPoolExecutor(n)
        self._free: SimpleQueue[ProcessWorker] = SimpleQueue()
        for worker, error in zip(self._workers, self._threads.map(_started, self._workers), strict=True):
            if error is None:
                self._free.put(worker)
        self.size = self._free.qsize()
        self._is_closed = False

    async def run(self, request: TaskRequest) -> TaskResult:
        """The result of a task, which is tried again if its process ends. Raises WorkerLost if it ended MAX_TRIES processes."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, request)

    def _run(self, request: TaskRequest) -> TaskResult:
        worker = self._free.get()
        try:
            for remaining in reversed(range(MAX_TRIES)):
                try:
                    return worker.run(request)
                except WorkerLost:
                    if not remaining or self._is_closed:
                        raise
            raise AssertionError
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()


def _started(worker: ProcessWorker) -> Exception | None:
    try:
        worker.start()
    except (OSError, WorkerLost) as error:
        return error
    return None


def main() -> None:
    """The worker process: receive tasks, send results."""
    parent = ParentConnection(PICKLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the parent ends this one
    set_oom_score(500)
    requests: SimpleQueue[Any] = SimpleQueue()
    parent.listen(requests.put)  # ends this process with its parent
    context = requests.get().open()
    parent.send(None)
    with asyncio.Runner() as runner:
        while True:
            parent.send(runner.run(run_request(context, requests.get())))


if __name__ == "__main__":
    main()
