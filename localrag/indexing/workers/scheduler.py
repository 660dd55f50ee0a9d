"""The scheduler: hands out tasks to workers in order.

Tasks of a lost worker go to others; a task that ends several workers is given up.
"""

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from localrag.errors import LocalragError, ModelError
from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, Result, Task, TaskContext
from localrag.indexing.workers.worker import (
    CURRENT_TASK_CALLS,
    CacheAccess,
    CacheMiss,
    EndedWorkers,
    TaskCalls,
    TaskRequest,
    TaskResult,
    TokenCounters,
    Worker,
    WorkerLost,
    WorkerStats,
    sum_counters,
)
from localrag.records import LlmCall

RETRY_HINT = "Run the same command again; finished work is saved."
MAX_WORKERS_LOST_PER_TASK = 3  # workers that a task may end
BATCHES_PER_WORKER = 4  # batches that the remaining chunks are divided into, for each worker
QUEUE_FACTOR = 2.5  # chunks in progress per chunk of capacity: the next task is ready when one ends
MAX_TEXTS_ON_WORKER = 8  # documents whose text a worker is assumed to have still


def _accepts(worker: Worker, asks: bool) -> bool:
    """Whether a worker accepts tasks that ask the chat model (`asks`), or tasks that do not."""
    return worker.has_llm if asks else not worker.is_llm_only


@dataclass(eq=False, slots=True)
class _QueuedTask:
    """A queued or running task, and how many workers it ended. Ordered by `number`."""

    number: int
    job: Task[Any]
    result: "asyncio.Future[TaskResult]"
    cached_calls: tuple[LlmCall, ...] = ()
    workers_lost: int = 0
    needs_llm: bool = False

    def __lt__(self, other: "_QueuedTask") -> bool:
        return self.number < other.number


@dataclass(eq=False, slots=True)
class _WorkerSlot:
    """A worker, its running tasks and its statistics."""

    worker: Worker
    tasks: dict[_QueuedTask, "asyncio.Task[None]"] = field(default_factory=dict)
    texts_sent: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    stats: WorkerStats = field(default_factory=WorkerStats)

    @property
    def free_capacity(self) -> int:
        """Chunks that it can take now. A task that ended a worker runs alone, so that no other task is blamed if it ends this one too."""
        return 0 if any(u.workers_lost for u in self.tasks) else self.worker.capacity - sum(u.job.n_chunks for u in self.tasks)


class Scheduler:
    """Runs tasks on workers. Replies are committed with each result, in one transaction; results go to the waiting callers.

    No committed reply is requested again. A lost worker costs only the tasks it was running.
    """

    def __init__(self, tools: TaskContext, committing: CacheAccess) -> None:
        """`tools` is the context of this process; its model's cache is a `RecordingCache`."""
        self._tools, self._committing = tools, committing
        self._places: list[_WorkerSlot] = []
        self._gone = EndedWorkers()
        self._queue: dict[bool, list[_QueuedTask]] = {False: [], True: []}  # by whether an engine is needed
        self._numbers = count()
        self._facts: dict[str, Any] = {}
        # The error if no worker can run the tasks (by whether they need an engine); None while a worker may still come.
        self.no_worker_error: Callable[[bool], LocalragError | None] = lambda _: ModelError("All workers have ended.", RETRY_HINT)

    # Adding and removing workers.

    def add(self, worker: Worker) -> None:
        """Add a worker, which gets tasks from now on."""
        self._places.append(_WorkerSlot(worker))
        self._dispatch()

    def remove(self, worker: Worker, reason: str = "") -> None:
        """Remove a worker that has ended; its tasks go to others."""
        slot = next((p for p in self._places if p.worker is worker), None)
        if slot is None:
            return
        self._places.remove(slot)
        self._gone.add(slot.stats, self._worker_row(slot, reason or "gone"))
        for queued, task in list(slot.tasks.items()):
            if task is not asyncio.current_task():
                task.cancel()
            self._requeue(queued, slot)
        self._dispatch()

    def reschedule(self) -> None:
        """Dispatch again, or fail the waiting tasks, once no new worker will come."""
        self._dispatch()

    def batch_size(self, remaining: int) -> int:
        """Ever fewer chunks towards the end, so that all workers end together (guided self-scheduling, Polychronopoulos and Kuck 1987)."""
        return max(1, min(MAX_CHUNKS_PER_TASK, remaining // (BATCHES_PER_WORKER * max(1, len(self._places)))))

    async def prepare(self, *, asks: bool) -> None:
        """Nothing to do: workers prepare themselves."""

    def capacity(self, *, asks: bool) -> int:
        """Chunks that should be in progress."""
        able = [p.worker.capacity for p in self._places if _accepts(p.worker, asks)]
        return max(MAX_CHUNKS_PER_TASK, int(QUEUE_FACTOR * sum(able)))

    async def run(self, task: Task[Result]) -> Result:
        """Run a task. Raises what the task raises, and WorkerLost if it ended three workers and has no result for that case."""
        cached_calls: tuple[LlmCall, ...] = ()
        if task.llm_task and task.subjects:
            cached_calls = tuple(self._committing.calls_about(task.subjects))
        elif task.llm_task and self._committing.may_have_calls:
            CURRENT_TASK_CALLS.set(carried := TaskCalls({}))
            try:
                return await task.run(self._tools)
            except CacheMiss:
                cached_calls = tuple(carried.received_calls.values())
        return await self._submit(task, cached_calls)

    async def _submit(self, task: Task[Result], cached_calls: tuple[LlmCall, ...]) -> Result:
        future = asyncio.get_running_loop().create_future()
        queued = _QueuedTask(next(self._numbers), task, future, cached_calls, needs_llm=task.begins_with_llm)
        self._enqueue(queued)
        self._dispatch()
        try:
            task_result = await queued.result
        except WorkerLost as error:
            if len(task.parts) > 1:
                return task.join([await self._submit(part, cached_calls) for part in task.parts])
            return task.on_failure(error)
        finally:
            self._forget(queued)
        if task_result.error is not None:
            raise task_result.error
        return task_result.result  # type: ignore[no-any-return]

    async def context_size(self) -> int:
        """Tokens of a prompt and its answer together, as the first worker with an engine reports it."""
        return int((await self._known_facts())["window"])

    async def parallel_requests(self) -> int:
        """Number of requests that an engine processes at the same time."""
        return int((await self._known_facts())["at_once"])

    async def _known_facts(self) -> dict[str, Any]:
        while not self._facts:
            if able := [p.worker for p in self._places if p.worker.has_llm]:
                with suppress(WorkerLost):  # try another one
                    self._facts = await able[0].engine_limits()
                    break
                self.remove(able[0], "gone")
            elif error := self.no_worker_error(True):
                raise error
            await asyncio.sleep(0.1)
        return self._facts

    @property
    def counters(self) -> TokenCounters:
        """Tokens read, their seconds, tokens written, their seconds, tokens computed: of all workers together."""
        return sum_counters([self._gone.counters, *(p.stats.counters for p in self._places)])

    def status(self) -> list[dict[str, Any]]:
        """Each worker's name, location, state, tasks and chunks done, chunks per second of its time, and when it last answered."""
        return [self._worker_row(p, "working" if p.tasks else "waiting") for p in self._places] + self._gone.rows()

    @staticmethod
    def _worker_row(slot: _WorkerSlot, state: str) -> dict[str, Any]:
        worker = slot.worker
        return slot.stats.to_json(worker.name, worker.location, worker.numerics, state, sum(u.job.n_chunks for u in slot.tasks))

    def close(self) -> None:
        """End all workers."""
        for place in self._places:
            for task in place.tasks.values():
                task.cancel()
            place.worker.close()
        self._places.clear()

    # Dispatching tasks.

    def _dispatch(self) -> None:
        """Give tasks in order to workers with free capacity, the freest first."""
        if error := self._no_worker_for_queue():
            for queued in [*self._queue[True], *self._queue[False]]:
                if not queued.result.done():
                    queued.result.set_exception(error)
            return
        while open_ := [p for p in self._places if p.free_capacity > 0 or not p.tasks]:
            slot = max(open_, key=lambda p: (self._next(p) is not None, p.free_capacity))
            queue = self._next(slot)
            if queue is None:
                break
            queued = heapq.heappop(queue)
            if not queued.result.done():
                self._begin(queued, slot)

    def _next(self, slot: _WorkerSlot) -> "list[_QueuedTask] | None":
        """The queue whose first task a worker should run next; None if there is no task for it."""
        able = [q for asks, q in self._queue.items() if q and _accepts(slot.worker, asks) and not (q[0].workers_lost and slot.tasks)]
        return min(able, key=lambda q: q[0], default=None)

    def _no_worker_for_queue(self) -> LocalragError | None:
        """The error if a task is waiting and no worker can run it, now or later."""
        stuck = [asks for asks, q in self._queue.items() if q and not any(_accepts(p.worker, asks) for p in self._places)]
        return self.no_worker_error(any(stuck)) if stuck else None

    def _enqueue(self, queued: _QueuedTask) -> None:
        heapq.heappush(self._queue[queued.needs_llm], queued)

    def _begin(self, queued: _QueuedTask, slot: _WorkerSlot) -> None:
        slot.tasks[queued] = asyncio.get_running_loop().create_task(self._do(queued, slot))

    async def _do(self, queued: _QueuedTask, slot: _WorkerSlot) -> None:
        try:
            self._accept_result(queued, slot, await self._sent(queued, slot))
        except WorkerLost as error:
            self.remove(slot.worker, str(error))
        except Exception as error:  # noqa: BLE001 — for example a full disk: raised to the caller that waits for the task
            if not queued.result.done():
                queued.result.set_exception(error)
        self._dispatch()

    async def _sent(self, queued: _QueuedTask, slot: _WorkerSlot) -> TaskResult:
        """Send a task to a worker, and its document's text if the worker is not known to have it."""
        task = queued.job
        text = self._tools.text_of(task.document_id) if task.document_id and task.document_id not in slot.texts_sent else None
        task_result = await slot.worker.run_task(TaskRequest(task, text, queued.cached_calls))
        if task_result.missing == "text":
            task_result = await slot.worker.run_task(TaskRequest(task, self._tools.text_of(task.document_id), queued.cached_calls))
        if task.document_id:
            slot.texts_sent[task.document_id] = None
            slot.texts_sent.move_to_end(task.document_id)
            while len(slot.texts_sent) > MAX_TEXTS_ON_WORKER:
                slot.texts_sent.popitem(last=False)
        return task_result

    def _accept_result(self, queued: _QueuedTask, slot: _WorkerSlot, task_result: TaskResult) -> None:
        """Commit a result's replies, count the worker's work, and return the result to its caller."""
        slot.tasks.pop(queued, None)
        did = slot.stats
        did.last_seen, did.counters = time.time(), task_result.counters
        if task_result.new_calls or task_result.references:
            self._committing.save(task_result.new_calls, task_result.references)
        if task_result.missing == "engine":
            queued.needs_llm, queued.cached_calls = True, (*queued.cached_calls, *task_result.new_calls)
            self._requeue(queued, slot, lost=False)
            return
        did.tasks, did.chunks, did.busy_seconds = did.tasks + 1, did.chunks + queued.job.n_chunks, did.busy_seconds + task_result.seconds
        did.llm_calls += len(task_result.new_calls)
        model = self._tools.model
        model.calls += len(task_result.new_calls)
        model.prompt_tokens += sum(c.prompt_tokens for c in task_result.new_calls)
        model.output_tokens += sum(c.output_tokens for c in task_result.new_calls)
        if not queued.result.done():
            queued.result.set_result(task_result)

    def _requeue(self, item: _QueuedTask, slot: _WorkerSlot, *, lost: bool = True) -> None:
        """Put a task at the front of the queue again; give it up if it ended too many workers."""
        slot.tasks.pop(item, None)
        item.workers_lost += lost
        if item.result.done():
            return
        if item.workers_lost >= MAX_WORKERS_LOST_PER_TASK:
            item.result.set_exception(WorkerLost(f"It took {item.workers_lost} workers down.", "See what is special about the document."))
            return
        self._enqueue(item)

    def _forget(self, queued: _QueuedTask) -> None:
        """Drop a task that no caller waits for."""
        if not queued.result.done():
            queued.result.cancel()
        for slot in self._places:
            if task := slot.tasks.pop(queued, None):
                task.cancel()
                self._dispatch()
