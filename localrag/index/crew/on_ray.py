"""The crew on other machines: a worker on each machine of a Ray cluster that offers itself. Part of the pipeline."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from localrag.engine.settings import brief
from localrag.errors import LocalragError, ModelError, UsageError
from localrag.index.crew import cluster
from localrag.index.crew.alike import Vote, difference, software
from localrag.index.crew.hire import ANEW, Hire, Pack, keep, kit_of, scheduled
from localrag.index.crew.parcel import WorkerLost
from localrag.index.crew.processes import ProcessWorker
from localrag.index.crew.ray_worker import RayWorker
from localrag.index.crew.scheduler import Scheduler
from localrag.index.crew.shipping import Wanted
from localrag.project import Project

EVERY = 10.0  # seconds between two looks at which machines there are
SLOW = 60.0  # seconds after which a worker that has not started is named
CLOCK = 3600.0  # seconds that clocks may differ unsaid: nothing depends on them


class _Employer:
    """Looks which machines there are, has a worker on each, and lets those work that compute alike."""

    def __init__(self, address: str, crew: Scheduler, kit: Any, wanted: list[Wanted], say: Callable[[str], None], hosts: tuple[str, ...],
                 *, probes: bool, mixed: bool, every: float) -> None:  # fmt: skip
        self._address, self._crew, self._kit, self._wanted, self._say = address, crew, kit, wanted, say
        self._hosts, self._probes, self._mixed, self._every = hosts, probes, mixed, every
        self._places: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._layout, self._class = Vote(), Vote()  # of the engine's settings that may change an answer, of arithmetic
        self._waits = self._over = False

    async def look(self) -> None:
        """Go on for as long as the head answers."""
        silent = 0
        try:
            while silent < 2:
                if await cluster.answers(self._address):
                    silent = 0
                    await self._meet(await asyncio.to_thread(cluster.machines))
                else:
                    silent += 1
                await asyncio.sleep(self._every)
            ended = ModelError(f"The Ray cluster at {self._address} has ended.", _AGAIN)
        except Exception as error:  # noqa: BLE001 — whoever waits for a job is told
            ended = ModelError(f"The Ray cluster at {self._address} cannot be reached: {type(error).__name__}.", _AGAIN)
        self._crew.nobody, self._over = lambda _: ended, True
        await self.close()
        self._crew.look()

    async def close(self) -> None:
        """End all workers."""
        for task in self._places.values():
            task.cancel()
        await asyncio.gather(*self._places.values(), return_exceptions=True)

    async def _meet(self, nodes: list[dict[str, Any]]) -> None:
        there = set()
        for node in nodes:
            if not node["Resources"].get(cluster.RESOURCE):
                continue
            gpus = int(node["Resources"].get("GPU", 0))
            there |= (keys := {(node["NodeID"], n) for n in range(max(1, gpus))})
            new = keys - self._places.keys()
            if new and not cluster.is_allowed(node["NodeManagerAddress"], self._hosts):
                self._say(f"A machine that was not allowed has joined: {node['NodeManagerAddress']}. It gets nothing.")
            for key in sorted(new):
                allowed = cluster.is_allowed(node["NodeManagerAddress"], self._hosts)
                self._places[key] = asyncio.create_task(self._employ(node, key[1], gpus) if allowed else asyncio.sleep(0))
        for key in self._places.keys() - there:
            self._places.pop(key).cancel()
        for task in self._places.values():
            if task.done():
                task.result()
        idle = all(task.done() for task in self._places.values())
        if idle and not self._waits:
            self._say(f"No worker is there; waiting. On a machine that is to work: localrag worker --ray {self._address}")
        self._waits = idle

    async def _employ(self, node: dict[str, Any], number: int, gpus: int) -> None:
        """Have a worker at a place, a new one for one that ended; not for ever where none does anything."""
        tries, host = 0, node["NodeManagerHostname"]
        name = f"{host} ({node['NodeManagerAddress']})" + f" GPU {number}" * (gpus > 1)
        while tries < ANEW:
            worker = RayWorker(name, node, gpus, asks=self._kit.asks, noted=self._mixed)
            self._await(worker)
            try:
                worker.begin()
                await self._admit(worker)
                self._crew.join(worker)
                await worker.lost.wait()
            except WorkerLost:
                pass
            except LocalragError as error:
                self._say(f"{name} cannot work: {error}" + f"\n  → {error.hint}" * bool(error.hint))
                return
            finally:
                self._await(worker, no_more=True)
                self._crew.leave(worker, "its process or its machine is gone")
                if not self._over:  # Ray itself would be waited for
                    worker.close()
            tries = 0 if worker.worked else tries + 1
            await asyncio.sleep(min(1.0, self._every))  # where its machine is gone, that is found out meanwhile
        self._say(f"{name} cannot work: its process ended {ANEW} times. See whether it has the same localrag.")

    def _await(self, worker: RayWorker, *, no_more: bool = False) -> None:
        """Choose nothing until a worker has said how it computes, or until it is not looked at any more."""
        for vote in (self._layout, self._class):
            (vote.awaited.discard if no_more else vote.awaited.add)(worker)

    async def _admit(self, worker: RayWorker) -> None:
        """Look at a worker, bring it what it lacks, and try how it computes. Raises WorkerLost, LocalragError where it may not work."""
        about = asyncio.ensure_future(worker.about())
        try:
            started, _ = await asyncio.wait({about}, timeout=SLOW)
            if not started:
                self._await(worker, no_more=True)  # the others begin
                self._say(f"{worker.name} has not started yet: another run may use it, or its localrag is another.")
            found = await about
        finally:
            about.cancel()
        if differs := difference(software(), found["software"]):
            raise UsageError(f"it has {differs[0]}.", f"There: {differs[1]}")
        if abs(away := found["time"] - time.time()) > CLOCK:
            self._say(f"The clock of {worker.name} is {away / 3600:+.1f} hours off. The index is not affected.")
        for wanted in self._wanted:
            if await worker.bring(wanted):
                self._say(f"Sent the model {wanted.name} to {worker.name}.")
        await worker.ask("open", self._kit)
        if self._probes and not self._mixed:
            await self._dictate(worker)
        kind = await worker.ask("probe", self._probes)
        worker.place, worker.arithmetic = f"{found['cores']} cores", kind
        if not self._mixed and (chosen := await self._class.say(worker, kind)) != kind:
            raise UsageError(f"it computes otherwise than the others ({kind} instead of {chosen}).", MIXED)

    async def _dictate(self, worker: RayWorker) -> None:
        """Have a worker's engine set up as most are: equal machines need not have measured the same. Raises WorkerLost, UsageError."""
        own = await worker.ask("layout", None)
        if (chosen := await self._layout.say(worker, own)) == own:
            return
        said = f"its engine cannot be set up as those of the others ({brief(chosen)})"
        try:
            await worker.ask("open", self._kit.told(chosen))
            got = await worker.ask("layout", None)
        except LocalragError as error:
            if isinstance(error, WorkerLost):
                raise
            raise UsageError(f"{said}: {error}", MIXED) from error
        if got != chosen:
            raise UsageError(f"{said}; it would be {brief(got)}.", MIXED)
        self._say(f"The engine of {worker.name} is set up as those of the others: {brief(chosen)}. By itself it would be {brief(own)}.")


MIXED = "Take it all the same: --mixed."


async def _ask_here(project: Project, crew: Scheduler) -> None:
    """Have a process of this machine that asks the model server and does nothing else: what is computed is the cluster's to compute.

    The server may answer this machine alone, and it is this machine that was allowed to send it documents.
    """
    model, kit = project.model, kit_of(project, asks=True, cores=0)
    made = partial(ProcessWorker, "this machine", kit, asks=True, only_asks=True, place=model.file.url, say=model.options.say)
    await keep(crew, made, asyncio.Event())
    nobody, ended = crew.nobody, ModelError("The process that asks the model server ends again and again.", _AGAIN)
    crew.nobody = lambda asks: ended if asks else nobody(asks)
    crew.look()


_AGAIN = "Start it again, and run the same command again; what is done is saved."


def on_ray(address: str, *, mixed: bool = False, every: float = EVERY, pack: Pack | None = None) -> Hire:
    """The machines of the cluster at an address, `HOST:PORT`; only those that compute alike, or with `mixed` all.

    The hosts that documents may go to are those that the project's engine options allow.
    """

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, Scheduler]]:
        cluster.check_token()
        await cluster.check_guarded(address)
        served = bool(project.model.file.url)
        hosts, made = project.model.options.allowed_hosts, (pack or kit_of)(project, asks=not served, cores=0)
        wanted = [Wanted.of(file) for file in (project.model.file, project.embedder.file) if not file.url]
        cluster.connect(address)
        try:
            cluster.check_machines(cluster.machines(), hosts)
            with_crew, crew = scheduled(project)
            crew.nobody = lambda _: None
            probes = project.settings.extractor == "model" and not served
            employer = _Employer(address, crew, made, wanted, project.model.options.say, hosts, probes=probes, mixed=mixed, every=every)
            tasks = [asyncio.create_task(employer.look())]
            if served:
                tasks.append(asyncio.create_task(_ask_here(project, crew)))
            try:
                yield with_crew, crew
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await employer.close()
                crew.close()
        finally:
            cluster.disconnect()

    return hired
