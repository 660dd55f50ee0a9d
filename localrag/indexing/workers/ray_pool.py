"""The worker pool on a Ray cluster: Ray runs the tasks, on the machines that this process names; what comes back is committed here.

A task whose process ends is tried again by Ray. Those of a machine that is lost go to another one.
"""

import asyncio
import math
import os
import pickle
import platform
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from localrag.errors import LocalragError, ModelError
from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, Result, Task, TaskContext
from localrag.indexing.workers import ray_cluster
from localrag.indexing.workers.pool import PoolFactory, share_of, task_context, worker_config
from localrag.indexing.workers.worker import (
    TaskRequest,
    TaskResult,
    WorkerConfig,
    WorkerLost,
    check_versions,
    model_to_send,
    run_divided,
    run_request,
    software_versions,
    worker_error,
)
from localrag.llm.model import ChatModel
from localrag.project import Project
from localrag.store import llm_cache
from localrag.system.child_process import set_oom_score

POLL_EVERY_S = 10.0  # seconds between two queries of the cluster's machines
BATCHES_PER_MACHINE = 2  # the next one is there when one ends


# What runs on the machines. Nothing is raised: an error's text could contain text of a document, and Ray writes errors into its logs.


def run_on_machine(versions: dict[str, str], work: bytes) -> Any:
    """The results of task requests, or the engine's limits if there are none; or a LocalragError.

    `work`: the pickled worker's config, itself pickled, and the requests; read only if the software here is the same.
    """
    try:
        check_versions(versions, software_versions(), platform.node())
        config, requests = pickle.loads(work)
        runner, context = _open_config(config)
        return runner.run(_all(context, requests) if requests else _limits(context))
    except Exception as error:  # noqa: BLE001 — raised by the process that sent the work
        return worker_error(error)


@lru_cache(1)
def _open_config(config: bytes) -> tuple[asyncio.Runner, TaskContext]:
    """The event loop and the models of this process. It prints nothing, for the same reason."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    set_oom_score(500)
    return asyncio.Runner(), pickle.loads(config).on_this_machine().open()


async def _all(context: TaskContext, requests: Sequence[TaskRequest]) -> list[TaskResult]:
    return await asyncio.gather(*(asyncio.create_task(run_request(context, request)) for request in requests))


async def _limits(context: TaskContext) -> dict[str, int]:
    return {"window": await context.model.context_size(), "at_once": await context.model.parallel_requests()}


# What runs here.


@dataclass(eq=False, slots=True)
class _Machine:
    """A machine of the cluster, and its work so far."""

    node: str
    name: str
    batches: int = 0  # that it has at the moment
    under_way: int = 0  # their chunks
    tasks: int = 0
    chunks: int = 0
    calls: int = 0
    joined_at: float = field(default_factory=time.time)
    seen_at: float = field(default_factory=time.time)

    def to_json(self, state: str) -> dict[str, Any]:
        """The statistics for a person, JSON-ready."""
        return {
            "name": self.name,
            "place": "",
            "state": state,
            "units": self.tasks,
            "chunks": self.chunks,
            "chunks_per_s": round(self.chunks / max(1.0, self.seen_at - self.joined_at), 2),
            "calls": self.calls,
            "under_way": self.under_way,
            "seen_at": self.seen_at,
        }


@dataclass(eq=False, slots=True)
class _Waiting:
    """A task that waits for its result."""

    task: Task[Any]
    result: "asyncio.Future[TaskResult]"


class RayPool:
    """Runs tasks on the allowed machines of a cluster. Replies are committed with each result, in one transaction.

    Tasks that ask a model server run in this process: the server may answer this machine only, and only this machine was allowed to send
    documents to it.
    """

    def __init__(self, address: str, project: Project, config: WorkerConfig) -> None:
        self._address, self._context, self._db = address, task_context(project), project.db
        self._config, self._asks_server = pickle.dumps(config), bool(config.chat.url)
        self._hosts, self._say = project.model.options.allowed_hosts, project.model.options.notify
        self._machines: dict[str, _Machine] = {}  # by node
        self._gone: list[_Machine] = []
        self._refused: set[str] = set()
        self._queue: deque[_Waiting] = deque()
        self._open: set[_Waiting] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._limits: dict[str, int] = {}
        self._ended: LocalragError | None = None
        self._told = False

    def batch_size(self, remaining: int) -> int:
        """A machine's share of the remaining chunks."""
        return share_of(remaining, len(self._machines))

    async def prepare(self, *, asks: bool) -> None:
        """Nothing to do: workers prepare themselves."""

    def capacity(self, *, asks: bool) -> int:  # noqa: ARG002 — parameter of the protocol
        """Chunks that keep all machines at work."""
        return BATCHES_PER_MACHINE * MAX_CHUNKS_PER_TASK * max(1, len(self._machines))

    async def run(self, task: Task[Result]) -> Result:
        """The result of a task. Raises what the task raises, and ModelError if the cluster has ended."""
        if task.llm_task and self._asks_server:
            return await task.run(self._context)
        return await run_divided(task, self._submit)

    async def limits(self) -> dict[str, int]:
        """The limits of an engine: `window` in tokens, `at_once` requests. Raises ModelError."""
        while not self._limits:
            if self._ended:
                raise self._ended
            with suppress(WorkerLost, StopIteration):
                self._limits = await self._ask(next(iter(self._machines.values())), [])
                break
            await asyncio.sleep(0.1)
        return self._limits

    def status(self) -> list[dict[str, Any]]:
        """Each machine's name, state, tasks and chunks done, chunks per second of its time, and when it last answered."""
        present = [machine.to_json("working" if machine.batches else "waiting") for machine in self._machines.values()]
        return present + [machine.to_json("gone") for machine in self._gone]

    async def _submit(self, task: Task[Any]) -> TaskResult:
        if self._ended:
            raise self._ended
        waiting = _Waiting(task, asyncio.get_running_loop().create_future())
        self._open.add(waiting)
        self._queue.append(waiting)
        asyncio.get_running_loop().call_soon(self._dispatch)  # after other tasks of this moment, for larger batches
        try:
            return await waiting.result
        finally:
            self._open.discard(waiting)

    def _dispatch(self) -> None:
        """Give batches of tasks to the machines, the freest first."""
        while free := [machine for machine in self._machines.values() if machine.batches < BATCHES_PER_MACHINE]:
            if not (batch := self._next_batch()):
                return
            self._begin(min(free, key=lambda one: one.under_way), batch)

    def _begin(self, machine: _Machine, batch: Sequence[_Waiting]) -> None:
        machine.batches += 1
        machine.under_way += sum(waiting.task.n_chunks for waiting in batch)
        running = asyncio.create_task(self._run_batch(machine, batch))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def _next_batch(self) -> list[_Waiting]:
        """The first tasks of the queue: a fair share, no more than MAX_CHUNKS_PER_TASK together."""
        batch, n = list[_Waiting](), 0
        share = math.ceil(sum(waiting.task.n_chunks for waiting in self._queue) / (BATCHES_PER_MACHINE * len(self._machines)))
        while self._queue and not (batch and n + self._queue[0].task.n_chunks > min(share, MAX_CHUNKS_PER_TASK)):
            waiting = self._queue.popleft()
            if not waiting.result.done():
                batch.append(waiting)
                n += waiting.task.n_chunks
        return batch

    async def _run_batch(self, machine: _Machine, batch: Sequence[_Waiting]) -> None:
        n_chunks = sum(waiting.task.n_chunks for waiting in batch)
        try:
            results = await self._ask(machine, [self._request(waiting.task) for waiting in batch])
            self._commit(machine, results)
            machine.chunks += n_chunks
        except WorkerLost as error:
            await self._again(machine, batch, error)
        except Exception as error:  # noqa: BLE001 — for example a full disk: raised to the callers that wait
            self._fail(batch, error)
        else:
            for waiting, result in zip(batch, results, strict=True):
                if not waiting.result.done():
                    waiting.result.set_result(result)
        finally:
            machine.batches, machine.under_way = machine.batches - 1, machine.under_way - n_chunks
            self._dispatch()

    def _request(self, task: Task[Any]) -> TaskRequest:
        text = self._context.text_of(task.document_id) if task.document_id else ""
        return TaskRequest(task, text, tuple(llm_cache.calls_about(self._db, task.subjects)) if task.llm_task else ())

    async def _ask(self, machine: _Machine, requests: Sequence[TaskRequest]) -> Any:
        """What `run_on_machine` returns there. Raises WorkerLost, and the LocalragError that it returns."""
        answer = await ray_cluster.run_on_node(machine.node, run_on_machine, software_versions(), pickle.dumps((self._config, requests)))
        if isinstance(answer, LocalragError):
            raise answer
        return answer

    def _commit(self, machine: _Machine, results: Sequence[TaskResult]) -> None:
        """Store replies, in one transaction, and count them, and the tasks as the machine's."""
        calls = [call for result in results for call in result.new_calls]
        references = [reference for result in results for reference in result.references]
        if calls or references:
            llm_cache.save_calls(self._db, calls, references)
        machine.seen_at, machine.tasks, machine.calls = time.time(), machine.tasks + len(results), machine.calls + len(calls)
        model = self._context.model
        model.calls += len(calls)
        model.prompt_tokens += sum(call.prompt_tokens for call in calls)
        model.output_tokens += sum(call.output_tokens for call in calls)

    async def _again(self, machine: _Machine, batch: Sequence[_Waiting], error: WorkerLost) -> None:
        """Queue the tasks of a lost machine again; those of a process that ended again and again one by one, to find the deadly one."""
        await self.update_machines()
        if machine.node not in self._machines:
            self._queue.extendleft(reversed(batch))
        elif len(batch) == 1:
            self._fail(batch, error)
        else:
            for waiting in batch:
                self._begin(machine, [waiting])

    async def close(self) -> None:
        """Wait for nothing any more."""
        self._queue.clear()
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _fail(self, batch: Iterable[_Waiting], error: Exception) -> None:
        for waiting in batch:
            if not waiting.result.done():
                waiting.result.set_exception(error)

    async def update_machines(self) -> None:
        """Read which machines are in the cluster; those that were not allowed get nothing."""
        nodes = {node["NodeID"]: node for node in await asyncio.to_thread(ray_cluster.cluster_nodes)}
        workers = {key: node for key, node in nodes.items() if node["Resources"].get(ray_cluster.RAY_RESOURCE)}
        for key, node in workers.items():
            address = node["NodeManagerAddress"]
            if ray_cluster.is_allowed(address, self._hosts):
                self._machines.setdefault(key, _Machine(key, f"{node['NodeManagerHostname']} ({address})"))
            elif key not in self._refused:
                self._refused.add(key)
                self._say(f"A machine that was not allowed has joined: {address}. It gets nothing.")
        for key in self._machines.keys() - workers.keys():
            self._gone.append(self._machines.pop(key))
        if not self._machines and not self._told:
            self._say(f"There is no worker yet; waiting. On a machine that is to help: localrag worker --ray {self._address}")
        self._told = not self._machines

    async def watch(self, every: float) -> None:
        """Follow the cluster until its head stops answering; then end what waits with an error."""
        silent = 0
        try:
            while silent < 2:
                if await ray_cluster.is_listening(self._address):
                    silent = 0
                    await self.update_machines()
                    self._dispatch()
                else:
                    silent += 1
                await asyncio.sleep(every)
            self._ended = ModelError(f"The Ray cluster at {self._address} has ended.", _RESTART_HINT)
        except Exception as error:  # noqa: BLE001 — raised to those waiting for a task
            reason = type(error).__name__
            self._ended = ModelError(f"The Ray cluster at {self._address} cannot be reached: {reason}.", _RESTART_HINT)
        self._fail(self._open, self._ended)


_RESTART_HINT = "Start it again, and run the same command again; finished work is saved."


class RayChatModel(ChatModel):
    """The chat model of a run whose machines have the engines: it reports their limits and work."""

    pool: RayPool  # set by `ray_pool`

    async def context_size(self) -> int:
        """Tokens of a prompt and its answer together."""
        return (await self.pool.limits())["window"]

    async def parallel_requests(self) -> int:
        """Number of requests that an engine processes at the same time."""
        return (await self.pool.limits())["at_once"]

    def metrics(self) -> dict[str, Any]:
        """The statistics of each machine."""
        return {"workers": self.pool.status()}


def ray_pool(address: str, *, every: float = POLL_EVERY_S, pack: Callable[[Project], WorkerConfig] = worker_config) -> PoolFactory:
    """The pool of the machines of the cluster at `HOST:RAY_PORT`, which documents may go to if the project's engine options allow it."""

    @asynccontextmanager
    async def opened(project: Project) -> AsyncIterator[tuple[Project, RayPool]]:
        ray_cluster.check_token()
        await ray_cluster.check_requires_token(address)
        config = pack(project)
        config = replace(config, chat=model_to_send(config.chat), embedder=model_to_send(config.embedder))
        ray_cluster.connect(address)
        try:
            ray_cluster.check_allowed_nodes(ray_cluster.cluster_nodes(), project.model.options.allowed_hosts)
            if not config.chat.url:
                project = replace(
                    project, model=RayChatModel(llm_cache.SqliteLlmCache(project.db), project.model.file, project.model.options)
                )
            pool = RayPool(address, project, config)
            if isinstance(project.model, RayChatModel):
                project.model.pool = pool
            watching = asyncio.create_task(pool.watch(every))
            try:
                yield project, pool
            finally:
                watching.cancel()
                await asyncio.gather(watching, pool.close(), return_exceptions=True)
        finally:
            ray_cluster.disconnect()

    return opened
