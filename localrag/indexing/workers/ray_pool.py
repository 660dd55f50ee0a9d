"""The worker pool on a Ray cluster: a worker on each machine that offers the resource."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from localrag.engine.settings import layout_summary
from localrag.errors import LocalragError, ModelError, UsageError
from localrag.indexing.workers import ray_cluster
from localrag.indexing.workers.pool import MAX_RESTARTS, MakeWorkerConfig, PoolFactory, open_scheduler, supervise_worker, worker_config
from localrag.indexing.workers.process_worker import ProcessWorker
from localrag.indexing.workers.ray_worker import ModelManifest, RayWorker
from localrag.indexing.workers.scheduler import Scheduler
from localrag.indexing.workers.worker import MajorityVote, WorkerLost, software_versions, version_mismatch
from localrag.project import Project

POLL_EVERY_S = 10.0  # seconds between two queries of the cluster's machines
SLOW_START_S = 60.0  # seconds after which a worker that has not started is reported
MAX_CLOCK_SKEW_S = 3600.0  # clocks that differ more are reported; nothing depends on them


class _RayPoolManager:
    """Watches the cluster's machines, runs a worker on each, and lets those with the same numerics class work."""

    def __init__(
        self,
        address: str,
        scheduler: Scheduler,
        config: Any,
        wanted: list[ModelManifest],
        say: Callable[[str], None],
        hosts: tuple[str, ...],
        *,
        probes: bool,
        mixed: bool,
        every: float,
    ) -> None:
        self._address, self._scheduler, self._config, self._wanted, self._say = address, scheduler, config, wanted, say
        self._hosts, self._probes, self._mixed, self._every = hosts, probes, mixed, every
        self._places: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._layout, self._class = MajorityVote(), MajorityVote()  # of engine settings that may change an answer, and of numerics classes
        self._waits = False
        self._cluster_ended = asyncio.Event()  # else calls would wait for Ray itself

    async def poll_nodes(self) -> None:
        """Add and remove workers until the head stops answering."""
        silent = 0
        try:
            while silent < 2:
                if await ray_cluster.is_listening(self._address):
                    silent = 0
                    await self._add_workers(await asyncio.to_thread(ray_cluster.cluster_nodes))
                else:
                    silent += 1
                await asyncio.sleep(self._every)
            ended = ModelError(f"The Ray cluster at {self._address} has ended.", _RESTART_HINT)
        except Exception as error:  # noqa: BLE001 — raised to those waiting for a task
            ended = ModelError(f"The Ray cluster at {self._address} cannot be reached: {type(error).__name__}.", _RESTART_HINT)
        self._scheduler.no_worker_error = lambda _: ended
        self._cluster_ended.set()
        await self.close()
        self._scheduler.reschedule()

    async def close(self) -> None:
        """End all workers."""
        for task in self._places.values():
            task.cancel()
        await asyncio.gather(*self._places.values(), return_exceptions=True)

    async def _add_workers(self, nodes: list[dict[str, Any]]) -> None:
        there = set()
        for node in nodes:
            if not node["Resources"].get(ray_cluster.RAY_RESOURCE):
                continue
            gpus = int(node["Resources"].get("GPU", 0))
            there |= (keys := {(node["NodeID"], n) for n in range(max(1, gpus))})
            new = keys - self._places.keys()
            if new and not ray_cluster.is_allowed(node["NodeManagerAddress"], self._hosts):
                self._say(f"A machine that was not allowed has joined: {node['NodeManagerAddress']}. It gets nothing.")
            for key in sorted(new):
                allowed = ray_cluster.is_allowed(node["NodeManagerAddress"], self._hosts)
                self._places[key] = asyncio.create_task(self._supervise_worker(node, key[1], gpus) if allowed else asyncio.sleep(0))
        for key in self._places.keys() - there:
            self._places.pop(key).cancel()
        for task in self._places.values():
            if task.done():
                task.result()
        idle = all(task.done() for task in self._places.values())
        if idle and not self._waits:
            self._say(f"There is no worker yet; waiting. On a machine that is to help: localrag worker --ray {self._address}")
        self._waits = idle

    async def _supervise_worker(self, node: dict[str, Any], number: int, gpus: int) -> None:
        """Run a worker on a node and restart it when it ends, at most MAX_RESTARTS times in a row without finished work."""
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})" + f" GPU {number}" * (gpus > 1)

        def made() -> RayWorker:
            return RayWorker(name, node, gpus, self._prepare_worker, self._cluster_ended, asks=self._config.has_llm, noted=self._mixed)

        try:
            # The pause: meanwhile a lost machine is detected.
            await supervise_worker(self._scheduler, made, pause=min(1.0, self._every))
            self._say(f"{name} cannot work: its process ended {MAX_RESTARTS} times. See whether it has the same localrag.")
        except LocalragError as error:
            self._say(f"{name} cannot work: {error}" + f"\n  → {error.hint}" * bool(error.hint))

    def _delay_vote_until(self, worker: RayWorker, *, no_more: bool = False) -> None:
        """Hold the votes until a worker has voted, or, with `no_more`, stop waiting for it."""
        for vote in (self._layout, self._class):
            (vote.awaited.discard if no_more else vote.awaited.add)(worker)

    async def _prepare_worker(self, worker: RayWorker) -> None:
        """Prepare a worker; the votes wait for it. Raises WorkerLost, and LocalragError if it must not work."""
        self._delay_vote_until(worker)
        try:
            await self._check(worker)
        finally:
            self._delay_vote_until(worker, no_more=True)

    async def _check(self, worker: RayWorker) -> None:
        """Check a worker's software, send it missing models, and probe its numerics. Raises WorkerLost, and LocalragError if it must not
        work.
        """
        about = asyncio.ensure_future(worker.software_info())
        try:
            started, _ = await asyncio.wait({about}, timeout=SLOW_START_S)
            if not started:
                self._delay_vote_until(worker, no_more=True)  # the votes no longer wait for this worker
                self._say(f"{worker.name} has not started yet: another run may use it, or its localrag is another.")
            software = await about
        finally:
            about.cancel()
        if differs := version_mismatch(software_versions(), software["software"]):
            raise UsageError(f"it has {differs[0]}.", f"There: {differs[1]}")
        if abs(away := software["time"] - time.time()) > MAX_CLOCK_SKEW_S:
            self._say(f"The clock of {worker.name} is {away / 3600:+.1f} hours off. The index is not affected.")
        for wanted in self._wanted:
            if await worker.send_model(wanted):
                self._say(f"Sent the model {wanted.name} to {worker.name}.")
        await worker.ask("open", self._config)
        if self._probes and not self._mixed:
            await self._apply_common_layout(worker)
        kind = await worker.ask("probe", self._probes)
        worker.location, worker.numerics = f"{software['cores']} cores", kind
        if not self._mixed and (chosen := await self._class.cast(worker, kind)) != kind:
            raise UsageError(f"it computes differently from the others ({kind} instead of {chosen}).", MIXED_HINT)

    async def _apply_common_layout(self, worker: RayWorker) -> None:
        """Set up a worker's engine like the majority: equal machines need not have measured the same. Raises WorkerLost, UsageError."""
        own_layout = await worker.ask("layout", None)
        if (chosen := await self._layout.cast(worker, own_layout)) == own_layout:
            return
        message = f"its engine cannot use the settings of the others ({layout_summary(chosen)})"
        try:
            await worker.ask("open", self._config.with_engine_layout(chosen))
            got = await worker.ask("layout", None)
        except LocalragError as error:
            if isinstance(error, WorkerLost):
                raise
            raise UsageError(f"{message}: {error}", MIXED_HINT) from error
        if got != chosen:
            raise UsageError(f"{message}; it would be {layout_summary(got)}.", MIXED_HINT)
        self._say(
            f"The engine of {worker.name} is set up as those of the others: {layout_summary(chosen)}. By "
            f"itself it would be {layout_summary(own_layout)}."
        )


MIXED_HINT = "To use it anyway: --allow-mixed-hardware."


async def _add_local_llm_worker(project: Project, scheduler: Scheduler) -> None:
    """Add a process of this machine that only sends requests to the model server; the cluster computes everything else.

    The server may answer this machine only, and only this machine was allowed to send documents to it.
    """
    model, config = project.model, worker_config(project, asks=True, cores=0)
    make_worker = partial(ProcessWorker, "this machine", config, asks=True, only_asks=True, place=model.file.url, say=model.options.notify)
    await supervise_worker(scheduler, make_worker)
    nobody, ended = scheduler.no_worker_error, ModelError("The process that connects to the model server keeps crashing.", _RESTART_HINT)
    scheduler.no_worker_error = lambda asks: ended if asks else nobody(asks)
    scheduler.reschedule()


_RESTART_HINT = "Start it again, and run the same command again; finished work is saved."


def ray_pool(address: str, *, mixed: bool = False, every: float = POLL_EVERY_S, pack: MakeWorkerConfig | None = None) -> PoolFactory:
    """The pool of the machines of the cluster at `HOST:RAY_PORT`: those with the same numerics class, or with `mixed` all.

    Documents may go to the hosts that the project's engine options allow.
    """

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, Scheduler]]:
        ray_cluster.check_token()
        await ray_cluster.check_requires_token(address)
        served = bool(project.model.file.url)
        hosts, config = project.model.options.allowed_hosts, (pack or worker_config)(project, asks=not served, cores=0)
        wanted = [ModelManifest.of(file) for file in (project.model.file, project.embedder.file) if not file.url]
        ray_cluster.connect(address)
        try:
            ray_cluster.check_allowed_nodes(ray_cluster.cluster_nodes(), hosts)
            scheduling_project, scheduler = open_scheduler(project)
            scheduler.no_worker_error = lambda _: None
            probes = project.settings.extractor != "phrases" and not served
            employer = _RayPoolManager(
                address, scheduler, config, wanted, project.model.options.notify, hosts, probes=probes, mixed=mixed, every=every
            )
            tasks = [asyncio.create_task(employer.poll_nodes())]
            if served:
                tasks.append(asyncio.create_task(_add_local_llm_worker(project, scheduler)))
            try:
                yield scheduling_project, scheduler
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await employer.close()
                scheduler.close()
        finally:
            ray_cluster.disconnect()

    return hired
