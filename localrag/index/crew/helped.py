"""The default crew: this process, helped by others with sentences and phrases where there are many chunks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from localrag.index.crew.here import Here
from localrag.index.crew.hire import Hire, alone, processes, tools_of
from localrag.index.crew.parcel import WorkersEnded
from localrag.index.crew.scheduler import SHARES
from localrag.index.jobs import UNIT, Crew, Embed, Job, Result
from localrag.project import Project
from localrag.system.cores import free_cores

MANY = 500  # chunks, some seconds: for fewer it is not worth beginning a process
MOST = 8  # processes: this one stores what all of them give


def hire(workers: int | Hire) -> Hire:
    """Who does the work: so many processes, this one alone where it is one, helped by others where it is 0; or whoever is hired already."""
    if not isinstance(workers, int):
        return workers
    return processes(workers) if workers > 1 else alone if workers else helped()


class Helped:
    """Runs the models in this process, where they use all cores; other processes find sentences and phrases.

    These start when a stage has `many` chunks or more, and end before the chat model is asked.
    """

    def __init__(self, project: Project, *, many: int) -> None:
        self._project, self._many = project, many
        self._here, self._stack, self._one = Here(tools_of(project)), AsyncExitStack(), asyncio.Lock()
        self._helpers: Crew | None = None
        self._wanted = self._ended = False
        self._number = min(MOST, free_cores())

    def unit(self, left: int) -> int:
        """One where this process does it all."""
        self._wanted = not self._ended and (self._wanted or left >= self._many) and self._number > 1
        return max(1, min(UNIT, left // (SHARES * self._number))) if self._wanted else self._here.unit(left)

    async def ready(self, *, asks: bool) -> None:
        """Load the chat model where it is asked; it needs the cores and the memory. Raises ModelError."""
        self._wanted = False
        if asks:
            await self.end()
        await self._here.ready(asks=asks)

    def room(self, *, asks: bool) -> int:
        """As many chunks as this process has room for, or those beside it."""
        mine = self._here.room(asks=asks)
        return max(mine, self._helpers.room(asks=False)) if self._helpers and not asks else mine

    async def run(self, job: Job[Result]) -> Result:
        """What a job gives. Raises what the job raises."""
        if self._wanted and not job.task and not isinstance(job, Embed):
            try:
                return await (await self._begun()).run(job)
            except WorkersEnded:  # where no process can begin, this one does it
                self._ended, self._wanted = True, False
        return await self._here.run(job)

    async def _begun(self) -> Crew:
        async with self._one:
            if self._helpers is None:
                hired = processes(self._number)(self._project)
                _, crew = await self._stack.enter_async_context(hired)
                self._helpers = crew
            return self._helpers

    async def end(self) -> None:
        """End the processes; they may begin again."""
        self._helpers = None
        await self._stack.aclose()

    def status(self) -> list[dict[str, Any]]:
        """Nobody else: the progress of the run includes what the helpers do."""
        return []

    def close(self) -> None:
        """The models stay as they are."""


def helped(many: int = MANY) -> Hire:
    """This process with the project's own models, helped by others where a stage has `many` chunks or more."""

    @asynccontextmanager
    async def hired(project: Project) -> AsyncIterator[tuple[Project, Crew]]:
        crew = Helped(project, many=many)
        try:
            yield project, crew
        finally:
            await crew.end()

    return hired
