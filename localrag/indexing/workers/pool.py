"""Worker pools: this process alone, or with processes beside it that run what asks no chat model.

What a lost process was running is tried again; a task that ends several processes is divided, and its deadly part is given up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, EmbedPassages, EmbedTexts, Result, Task, TaskContext, WorkerPool
from localrag.indexing.workers.process_worker import WorkerProcesses
from localrag.indexing.workers.worker import TaskRequest, TaskResult, WorkerConfig, run_divided
from localrag.project import Project
from localrag.store import documents
from localrag.system.resources import available_cores

PoolFactory = Callable[[Project], AbstractAsyncContextManager[tuple[Project, WorkerPool]]]

HELPERS_FROM_CHUNKS = 500  # some seconds of work: for fewer chunks starting a process does not pay
MAX_HELPERS = 8  # processes: this one stores the results of all of them
BATCHES_PER_WORKER = 4  # batches that the remaining chunks are divided into, for each worker


def choose_pool(workers: int | PoolFactory) -> PoolFactory:
    """The pool for a number of workers: this process alone for 1, with helpers where they pay for 0, else so many; or the given factory."""
    if not isinstance(workers, int):
        return workers
    return local_pool(workers, from_chunks=0) if workers > 1 else in_process_pool if workers else local_pool()


@asynccontextmanager
async def in_process_pool(project: Project) -> AsyncIterator[tuple[Project, WorkerPool]]:
    """Run everything in this process, with the project's own models."""
    yield project, LocalPool(task_context(project))


def local_pool(n: int = 0, *, from_chunks: int = HELPERS_FROM_CHUNKS) -> PoolFactory:
    """Run in this process, and in `n` beside it (0: one for each core) if a stage has `from_chunks` or more."""

    @asynccontextmanager
    async def opened(project: Project) -> AsyncIterator[tuple[Project, WorkerPool]]:
        helpers = n or min(MAX_HELPERS, available_cores())
        config = worker_config(project, cores=max(1, available_cores() // helpers))
        pool = LocalPool(task_context(project), config, n_helpers=helpers, from_chunks=from_chunks)
        try:
            yield project, pool
        finally:
            pool.stop_helpers()

    return opened


class LocalPool:
    """Runs tasks in this process, where the models use all cores and every reply is committed when it comes.

    With `n_helpers`, other processes run tasks that need no chat model: they start when a stage has `from_chunks` or more, and end before
    the chat model is asked. If none can be started, this process does all the work.
    """

    def __init__(self, context: TaskContext, config: WorkerConfig | None = None, *, n_helpers: int = 0, from_chunks: int = 0) -> None:
        self._context, self._config, self._n_helpers, self._from_chunks = context, config, n_helpers, from_chunks
        self._helpers: WorkerProcesses | None = None
        self._starting, self._one_task = asyncio.Lock(), asyncio.Lock()
        self._use_helpers = False
        self._parallel_requests = 0

    def batch_size(self, remaining: int) -> int:
        """One chunk in this process, since results are stored a chunk at a time; with helpers, a share of the remaining ones."""
        self._use_helpers = self._n_helpers > 1 and (self._use_helpers or remaining >= self._from_chunks)
        return share_of(remaining, self._n_helpers) if self._use_helpers else 1

    async def prepare(self, *, asks: bool) -> None:
        """Load the chat model if it is needed, and stop the helpers, whose cores and memory it needs. Raises ModelError."""
        self._use_helpers = not asks and self._n_helpers > 1 and not self._from_chunks
        if asks:
            self.stop_helpers()
        self._parallel_requests = await self._context.model.parallel_requests() if asks else 0

    def capacity(self, *, asks: bool) -> int:
        """As many chunks as the engine takes requests; for other tasks as many as keep the helpers at work."""
        return self._parallel_requests if asks else MAX_CHUNKS_PER_TASK * max(1, 2 * self._n_helpers * self._use_helpers)

    async def run(self, task: Task[Result]) -> Result:
        """The result of a task. Raises what the task raises."""
        if self._use_helpers and not task.llm_task and not isinstance(task, EmbedTexts | EmbedPassages):
            try:
                return await run_divided(task, self._run_beside)
            except OSError:  # the machine allows no further process
                self._n_helpers, self._use_helpers = 0, False
        if task.llm_task:
            return await task.run(self._context)
        async with self._one_task:  # nothing in it waits: a result is stored before the next task begins
            return await task.run(self._context)

    async def _run_beside(self, task: Task[Any]) -> TaskResult:
        text = self._context.text_of(task.document_id) if task.document_id else ""
        return await (await self._started_helpers()).run(TaskRequest(task, text))

    async def _started_helpers(self) -> WorkerProcesses:
        async with self._starting:
            if self._helpers is None:
                assert self._config is not None
                self._helpers = await asyncio.to_thread(WorkerProcesses, self._config, self._n_helpers)
            if not self._helpers.size:
                raise OSError("No helper could be started.")
            return self._helpers

    def stop_helpers(self) -> None:
        """End the helper processes; they may start again."""
        if self._helpers is not None:
            self._helpers.close()
            self._helpers = None

    def status(self) -> list[dict[str, Any]]:
        """Empty: the progress of the run includes the helpers' work."""
        return []


def share_of(remaining: int, workers: int) -> int:
    """The chunks of the next task: ever fewer towards the end, so that all workers end together (guided self-scheduling, Polychronopoulos
    and Kuck 1987).
    """
    return max(1, min(MAX_CHUNKS_PER_TASK, remaining // (BATCHES_PER_WORKER * max(1, workers))))


def task_context(project: Project) -> TaskContext:
    """The context of tasks that run in this process."""
    db = project.db
    return TaskContext(
        project.model, project.embedder, project.tagger, project.settings, lambda key: documents.document_by_id(db, key).text
    )


def worker_config(project: Project, *, cores: int = 0) -> WorkerConfig:
    """The configuration that is sent to a worker, whose output nobody reads."""
    options = replace(project.model.options, notify=print)
    return WorkerConfig(project.model.file, project.embedder.file, project.tagger is not None, project.settings, options, cores)
