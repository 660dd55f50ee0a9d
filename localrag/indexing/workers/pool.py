"""Worker pools on this machine: this process alone, with helper processes where there are many chunks, or worker processes only.

A task whose process ends goes to another one, and a new process replaces it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from localrag.engine.settings import EngineOptions
from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, EmbedTexts, Result, Task, TaskContext, WorkerPool
from localrag.indexing.workers.process_worker import ProcessWorker
from localrag.indexing.workers.scheduler import BATCHES_PER_WORKER, Scheduler
from localrag.indexing.workers.worker import (
    CacheAccess,
    CacheOnlyChatModel,
    NoWorkersLeft,
    RecordingCache,
    Worker,
    WorkerConfig,
    WorkerLost,
)
from localrag.llm.model import LlmCache
from localrag.model_files import ModelFile
from localrag.project import Project
from localrag.store import documents, llm_cache, runs
from localrag.system.resources import available_cores

PoolFactory = Callable[[Project], AbstractAsyncContextManager[tuple[Project, WorkerPool]]]
MakeWorkerConfig = Callable[..., WorkerConfig]  # makes the config of one worker, as `worker_config` does

MAX_RESTARTS = 5  # times in a row that a worker may end without finished work
HELPERS_FROM_CHUNKS = 500  # some seconds of work: for fewer chunks starting a process does not pay
MAX_HELPERS = 8  # processes: this one stores the results of all of them


class PooledChatModel(CacheOnlyChatModel):
    """The chat model of a run whose workers have the engines: it returns cached replies, and reports the workers' figures."""

    scheduler: Scheduler  # set by `open_scheduler`

    def __init__(self, committed: LlmCache, file: ModelFile, options: EngineOptions) -> None:
        super().__init__(RecordingCache(committed), file, options)

    async def context_size(self) -> int:
        """Tokens of a prompt and its answer together."""
        return await self.scheduler.context_size()

    async def parallel_requests(self) -> int:
        """Number of requests that an engine processes at the same time."""
        return await self.scheduler.parallel_requests()

    @property
    def token_counters(self) -> tuple[int, float, int, float]:
        """Tokens read, their seconds, tokens written, their seconds, of all workers together."""
        return self.scheduler.counters[:4]

    @property
    def computed_tokens(self) -> int:
        """Tokens that the workers have computed."""
        return self.scheduler.counters[4]

    def metrics(self) -> dict[str, Any]:
        """The speed of all workers together, and the statistics of each."""
        read, reading, written, writing = self.token_counters
        speeds = {
            "prefill_tokens_per_s": reading and round(read / reading, 1),
            "decode_tokens_per_s": writing and round(written / writing, 1),
        }
        return speeds | {"workers": self.scheduler.status()}


def choose_pool(workers: int | PoolFactory) -> PoolFactory:
    """The pool for a number of workers: this process alone for 1, with helpers for 0, else that many processes; or the given factory."""
    if not isinstance(workers, int):
        return workers
    return process_pool(workers) if workers > 1 else in_process_pool if workers else hybrid_pool()


@asynccontextmanager
async def in_process_pool(project: Project) -> AsyncIterator[tuple[Project, WorkerPool]]:
    """Run everything in this process, with the project's own models."""
    yield project, LocalPool(task_context(project))


def hybrid_pool(from_chunks: int = HELPERS_FROM_CHUNKS) -> PoolFactory:
    """Run in this process with the project's own models, and with helper processes if a stage has `from_chunks` or more."""

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, WorkerPool]]:
        n = min(MAX_HELPERS, available_cores())
        pool = LocalPool(task_context(project), lambda: process_pool(n)(project), n_helpers=n, from_chunks=from_chunks)
        try:
            yield project, pool
        finally:
            await pool.stop_helpers()

    return hired


class LocalPool:
    """Runs tasks in this process, where the models use all cores and every reply is committed when it comes.

    With `n_helpers`, other processes find sentences and phrases: they start when a stage has `from_chunks` or more, and end before the chat
    model is asked. If none can be started, this process does all the work.
    """

    def __init__(
        self,
        tools: TaskContext,
        start_helpers: Callable[[], AbstractAsyncContextManager[tuple[Project, WorkerPool]]] | None = None,
        *,
        n_helpers: int = 0,
        from_chunks: int = 0,
    ) -> None:
        self._tools, self._start_helpers, self._n_helpers, self._from_chunks = tools, start_helpers, n_helpers, from_chunks
        self._helpers: WorkerPool | None = None
        self._stack, self._starting, self._one_task = AsyncExitStack(), asyncio.Lock(), asyncio.Lock()
        self._use_helpers = False
        self._parallel_requests = 0

    def batch_size(self, remaining: int) -> int:
        """One chunk in this process, since results are stored a chunk at a time; with helpers, a share of the remaining ones."""
        self._use_helpers = self._n_helpers > 1 and (self._use_helpers or remaining >= self._from_chunks)
        return max(1, min(MAX_CHUNKS_PER_TASK, remaining // (BATCHES_PER_WORKER * self._n_helpers))) if self._use_helpers else 1

    async def prepare(self, *, asks: bool) -> None:
        """Load the chat model if it is needed, and stop the helpers, whose cores and memory it needs. Raises ModelError."""
        self._use_helpers = False
        if asks:
            await self.stop_helpers()
        self._parallel_requests = await self._tools.model.parallel_requests() if asks else 0

    def capacity(self, *, asks: bool) -> int:
        """As many chunks as the engine takes requests; for other tasks as many as the helpers take, or a few, run one after the other."""
        return self._parallel_requests if asks else max(MAX_CHUNKS_PER_TASK, self._helpers.capacity(asks=False) if self._helpers else 0)

    async def run(self, task: Task[Result]) -> Result:
        """The result of a task. Raises what the task raises."""
        if self._use_helpers and not task.llm_task and not isinstance(task, EmbedTexts):
            try:
                return await (await self._started_helpers()).run(task)
            except NoWorkersLeft:
                self._n_helpers, self._use_helpers = 0, False
        if task.llm_task:
            return await task.run(self._tools)
        async with self._one_task:  # nothing in it waits: a result is stored before the next task begins
            return await task.run(self._tools)

    async def _started_helpers(self) -> WorkerPool:
        async with self._starting:
            if self._helpers is None:
                assert self._start_helpers is not None
                _, helpers = await self._stack.enter_async_context(self._start_helpers())
                self._helpers = helpers
            return self._helpers

    async def stop_helpers(self) -> None:
        """End the helper processes; they may start again."""
        self._helpers = None
        await self._stack.aclose()

    def status(self) -> list[dict[str, Any]]:
        """Empty: the progress of the run includes the helpers' work."""
        return []


def process_pool(n: int, pack: MakeWorkerConfig | None = None) -> PoolFactory:
    """Run in `n` processes on this machine; one of them has the engine, or one for each GPU. `pack` makes the workers' configs."""

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, WorkerPool]]:
        scheduling_project, scheduler = open_scheduler(project)
        gpus = gpu_names()
        engines = max(1, min(n, len(gpus)))
        cores = max(1, available_cores() // n)

        def made(number: int) -> ProcessWorker:
            has_llm = number < engines
            card = {"CUDA_VISIBLE_DEVICES": str(number)} if number < len(gpus) > 1 else {}
            place = gpus[number] if number < len(gpus) else f"{cores} of {available_cores()} cores"
            config, say = (pack or worker_config)(project, asks=has_llm, cores=cores), project.model.options.notify
            return ProcessWorker(f"process {number + 1}", config, asks=has_llm, place=place, environment=card, say=say)

        first = [asyncio.Event() for _ in range(n)]
        keeping = [asyncio.create_task(supervise_worker(scheduler, partial(made, number), first[number])) for number in range(n)]
        scheduler.no_worker_error = lambda engine: _all_ended(keeping[:engines] if engine else keeping)
        try:
            await asyncio.gather(*(event.wait() for event in first))
            yield scheduling_project, scheduler
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            scheduler.close()

    return hired


async def supervise_worker(
    scheduler: Scheduler, make_worker: Callable[[], Worker], first: asyncio.Event | None = None, *, pause: float = 0.0
) -> str:
    """Run one worker and start another when it ends, at most MAX_RESTARTS times in a row without finished work, `pause` seconds apart.

    Returns why the last one ended. `first` is set once one has started, or none will. Raises LocalragError if it must not work.
    """
    tries, reason, started = 0, "", first or asyncio.Event()
    try:
        while tries < MAX_RESTARTS:
            worker = make_worker()
            try:
                await worker.start()
                scheduler.add(worker)
                started.set()
                reason = await worker.ended()
            except WorkerLost as error:
                reason = str(error)
            except OSError as error:  # the machine allows no further process
                reason = f"its process could not be started: {error}"
            finally:  # also when the run is over
                worker.close()
                await worker.ended()
                scheduler.remove(worker, reason)
            tries = 0 if worker.worked else tries + 1
            await asyncio.sleep(pause)
        return reason
    finally:
        started.set()
        asyncio.get_running_loop().call_soon(scheduler.reschedule)


def _all_ended(keeping: Sequence["asyncio.Task[str]"]) -> NoWorkersLeft | None:
    """The error to raise once every worker's `supervise_worker` has returned; None while one may still start."""
    if any(not task.done() for task in keeping):
        return None
    reasons = [str(task.exception() or task.result()) for task in keeping if not task.cancelled()]
    reason = f": {reasons[0]}" if reasons else ""
    return NoWorkersLeft(f"All workers have ended{reason}.", "Run without them: leave out --workers.")


def task_context(project: Project) -> TaskContext:
    """The context of tasks that run in this process."""
    db = project.db
    return TaskContext(project.model, project.embedder, project.tagger, project.settings, lambda key: documents.document_by_id(db, key))


def open_scheduler(project: Project) -> tuple[Project, Scheduler]:
    """A scheduler without workers yet, and the project for the scheduling process: its chat model returns cached replies only."""
    db = project.db
    model = PooledChatModel(llm_cache.SqliteLlmCache(db), project.model.file, project.model.options)
    project = replace(project, model=model)
    committing = CacheAccess(partial(llm_cache.calls_about, db), partial(llm_cache.save_calls, db), runs.last_run(db) is not None)
    model.scheduler = Scheduler(task_context(project), committing)
    return project, model.scheduler


def worker_config(project: Project, *, asks: bool, cores: int) -> WorkerConfig:
    """The configuration that is sent to a new worker."""
    options = replace(project.model.options, notify=_silent)
    return WorkerConfig(project.model.file, project.embedder.file, project.tagger is not None, project.settings, options, asks, cores)


def _silent(_text: str) -> None:
    """Print nothing: a worker's messages are sent to this process."""


def gpu_names() -> list[str]:
    """The names of this machine's GPUs, if llama.cpp was built for them."""
    from localrag.engine.llama.library import HAS_GPU_OFFLOAD

    if not HAS_GPU_OFFLOAD:
        return []
    from localrag.engine.llama.library import offload_devices

    return [d.description or d.name for d in offload_devices()]
