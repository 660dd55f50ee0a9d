"""Hiring a crew for a run of indexing: this process alone, or processes beside it. Part of the pipeline."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from localrag.engine.settings import EngineOptions
from localrag.index.crew.here import Here
from localrag.index.crew.kit import Kit
from localrag.index.crew.parcel import Committed, Committing, Recalling, WorkerLost, WorkersEnded
from localrag.index.crew.processes import Opens, ProcessWorker
from localrag.index.crew.scheduler import Scheduler
from localrag.index.jobs import Crew, Tools
from localrag.llm.ledger import Ledger
from localrag.models import ModelFile
from localrag.project import Project
from localrag.store import corpus, ledger
from localrag.system.cores import free_cores

Hire = Callable[[Project], AbstractAsyncContextManager[tuple[Project, Crew]]]


class Pack(Protocol):
    """What gives a worker's kit."""

    def __call__(self, project: Project, *, asks: bool, cores: int) -> Opens:
        """The kit of one worker."""


ANEW = 5  # times in a row that a worker may end without having done anything


class CrewsModel(Committed):
    """The chat model of a run whose engines are the workers': it gives what is committed, and tells what the workers tell."""

    def __init__(self, committed: Ledger, file: ModelFile, options: EngineOptions, crew: Callable[[], Scheduler]) -> None:
        super().__init__(Recalling(committed), file, options)
        self._crew = crew

    async def window(self) -> int:
        """Tokens that a prompt and its answer may have together."""
        return await self._crew().window()

    async def at_once(self) -> int:
        """How many requests an engine works on at the same time."""
        return await self._crew().at_once()

    @property
    def counters(self) -> tuple[int, float, int, float]:
        """Tokens read, the seconds that took, tokens written, their seconds, of all workers together."""
        return self._crew().figures[:4]

    @property
    def computed(self) -> int:
        """Tokens that the workers have computed."""
        return self._crew().figures[4]

    def report(self) -> dict[str, Any]:
        """How fast they were together, and what each worker did."""
        read, reading, written, writing = self.counters
        speeds = {
            "prefill_tokens_per_s": reading and round(read / reading, 1),
            "decode_tokens_per_s": writing and round(written / writing, 1),
        }
        return speeds | {"workers": self._crew().status()}


@asynccontextmanager
async def alone(project: Project) -> AsyncIterator[tuple[Project, Crew]]:
    """This process does everything, with the project's own models."""
    yield project, Here(tools_of(project))


def processes(n: int, pack: Pack | None = None) -> Hire:
    """So many processes on this machine; one of them has the engine, or one for each GPU. `pack` gives what each begins with: `kit_of`."""

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, Crew]]:
        with_crew, crew = scheduled(project)
        gpus = gpu_names()
        engines = max(1, min(n, len(gpus)))
        cores = max(1, free_cores() // n)
        keeping, first = list[asyncio.Task[str]](), list[asyncio.Event]()
        crew.nobody = lambda engine: _all_ended(keeping[:engines] if engine else keeping)
        try:
            for number in range(n):
                asks = number < engines
                card = {"CUDA_VISIBLE_DEVICES": str(number)} if number < len(gpus) > 1 else {}
                place = gpus[number] if number < len(gpus) else f"{cores} of {free_cores()} cores"
                kit = (pack or kit_of)(project, asks=asks, cores=cores)
                made = partial(
                    ProcessWorker, f"process {number + 1}", kit, asks=asks, place=place, environment=card, say=project.model.options.say
                )
                first.append(asyncio.Event())
                keeping.append(asyncio.create_task(keep(crew, made, first[-1])))
            await asyncio.gather(*(event.wait() for event in first))
            yield with_crew, crew
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            crew.close()

    return hired


async def keep(crew: Scheduler, made: Callable[[], ProcessWorker], first: asyncio.Event) -> str:
    """Run one worker process and restart it when it ends, at most ANEW times in a row without finished work.

    Returns why the last one ended. `first` is set once a process has started, or none will.
    """
    tries, why = 0, ""
    try:
        while tries < ANEW:
            worker = made()
            try:
                await worker.start()
                crew.join(worker)
                first.set()
                await worker.ended()
                why = "its process ended"
            except (WorkerLost, OSError) as error:  # OSError: the machine allows no further process
                why = f"its process could not be started: {error}" if isinstance(error, OSError) else str(error)
            finally:  # also when the run is over
                worker.close()
                await worker.ended()
            crew.leave(worker, "its process ended")
            tries = 0 if worker.worked else tries + 1
        return why
    finally:
        first.set()
        asyncio.get_running_loop().call_soon(crew.look)


def _all_ended(keeping: Sequence["asyncio.Task[str]"]) -> WorkersEnded | None:
    """The error to raise once every worker's `keep` has returned; None while one may still start."""
    if any(not task.done() for task in keeping):
        return None
    reasons = [task.result() for task in keeping if not task.cancelled() and task.exception() is None]
    why = f": {reasons[0]}" if reasons else ""
    return WorkersEnded(f"All workers have ended{why}.", "Do without them: leave out --workers.")


def tools_of(project: Project) -> Tools:
    """What jobs are done with in this process."""
    db = project.db
    return Tools(project.model, project.embedder, project.tagger, project.settings, lambda key: corpus.document_by_id(db, key))


def scheduled(project: Project) -> tuple[Project, Scheduler]:
    """A crew without workers yet, and the project as it is for the one who hands out jobs: its chat model gives only what is committed."""
    db, file = project.db, project.model.file
    committed = ledger.CallLedger(db)
    options = project.model.options
    resumed = ledger.last_run(db) is not None
    model = CrewsModel(committed, file, options, lambda: crew)
    project = replace(project, model=model)
    committing = Committing(lambda about: ledger.calls_about(db, about), lambda calls, uses: ledger.save_calls(db, calls, uses), resumed)
    crew = Scheduler(tools_of(project), committing)
    return project, crew


def kit_of(project: Project, *, asks: bool, cores: int) -> Kit:
    """What a worker is sent to begin with."""
    options = replace(project.model.options, say=_silent)
    return Kit(project.model.file, project.embedder.file, project.tagger is not None, project.settings, options, asks, cores)


def _silent(_text: str) -> None:
    """A worker's messages come by its own way."""


def gpu_names() -> list[str]:
    """The names of this machine's GPUs, where llama.cpp was built for them."""
    from localrag.engine.llama.library import GPU

    if not GPU:
        return []
    from localrag.engine.llama.devices import gpus

    return [d.description or d.name for d in gpus()]
