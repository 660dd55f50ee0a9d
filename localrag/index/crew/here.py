"""The crew that is this process alone."""

import asyncio
from typing import Any

from localrag.index.jobs import UNIT, Job, Result, Tools


class Here:
    """Does every job in this process, with models of its own; every answer is committed when it comes."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._one = asyncio.Lock()
        self._slots = 0

    def unit(self, left: int) -> int:  # noqa: ARG002 — as the protocol has it
        """One: what is done is stored a chunk at a time."""
        return 1

    async def ready(self, *, asks: bool) -> None:
        """Load the chat model where it is asked. Raises ModelError."""
        self._slots = await self._tools.model.at_once() if asks else 0

    def room(self, *, asks: bool) -> int:
        """As many chunks as the engine has slots; of other jobs a few, which are done one after the other."""
        return self._slots if asks else UNIT

    async def run(self, job: Job[Result]) -> Result:
        """What a job gives. Raises what the job raises."""
        if job.task:
            return await job.work(self._tools)
        async with self._one:  # nothing in it waits: what is done is to be stored before the next is begun
            return await job.work(self._tools)

    def status(self) -> list[dict[str, Any]]:
        """Nobody else."""
        return []

    def close(self) -> None:
        """The models stay as they are."""
