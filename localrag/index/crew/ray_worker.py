"""A worker on another machine, as the one who hands out jobs sees it: questions to an actor of Ray's, and its answers."""

import asyncio
import pickle
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any

from localrag.errors import LocalragError
from localrag.index.crew.bench import Bench, in_pieces
from localrag.index.crew.cluster import RESOURCE
from localrag.index.crew.parcel import Bundle, Parcel, WorkerLost
from localrag.index.crew.shipping import Wanted
from localrag.index.jobs import UNIT


class RayWorker:
    """A worker on another machine. `begin` it in an event loop; `close` ends it."""

    only_asks, room = False, UNIT + 1

    def __init__(self, name: str, node: dict[str, Any], gpus: int, *, asks: bool, noted: bool) -> None:
        """`asks`: whether it has the chat model; `noted`: its answers say what class of arithmetic they are of."""
        self.name, self.asks, self.place, self.arithmetic = name, asks, "", ""
        self._noted = noted
        self.lost, self.worked = asyncio.Event(), False
        self._node, self._gpus = node, gpus
        self._numbers = count(1)
        self._actor: Any = None

    def begin(self) -> None:
        """Ask Ray for it, on its machine and nowhere else; no retries: the one who hands out jobs knows better what is left to do."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        share = self._node["Resources"][RESOURCE] / max(1, self._gpus)
        self._actor = (
            ray.remote(max_restarts=0, max_task_retries=0)(Bench)
            .options(
                num_cpus=0,
                num_gpus=min(1, self._gpus),
                resources={RESOURCE: int(share * 10_000) / 10_000},
                max_concurrency=1000,
                scheduling_strategy=NodeAffinitySchedulingStrategy(self._node["NodeID"], soft=False),
            )
            .remote()
        )

    async def about(self) -> dict[str, Any]:
        """What runs there. Raises WorkerLost."""
        return dict(await self._told(self._actor.about.remote()))

    async def do(self, parcel: Parcel) -> Bundle:
        """What comes of a parcel. Raises WorkerLost."""
        bundle = await self.ask("do", parcel)
        assert isinstance(bundle, Bundle)
        self.worked = True
        if not self._noted:
            return bundle
        return replace(bundle, calls=tuple(replace(call, arithmetic=self.arithmetic) for call in bundle.calls))

    async def facts(self) -> dict[str, Any]:
        """What its engine can do. Raises WorkerLost, ModelError."""
        return dict(await self.ask("facts", None))

    async def bring(self, wanted: Wanted) -> bool:
        """Let it have a model; whether it had to be sent. Raises WorkerLost, LocalragError where its disk is full."""
        if await self.ask("has", wanted):
            return False
        digests: dict[str, Any] = {}
        for name, at, piece in wanted.pieces():
            digests.setdefault(name, sha256()).update(piece)
            if error := await self._told(self._actor.put.remote(wanted.fingerprint, name, at, piece)):
                raise error
        await self.ask("seal", (wanted.fingerprint, {name: digest.hexdigest() for name, digest in digests.items()}))
        return True

    async def ask(self, what: str, value: Any) -> Any:
        """What it answers. Raises WorkerLost, and the LocalragError that it answers."""
        number, (*others, last) = next(self._numbers), in_pieces((what, value))
        try:
            for piece in others:
                await self._told(self._actor.take.remote(number, piece))
            found, more = await self._told(self._actor.ask.remote(number, last))
            for _ in range(more):
                found += await self._told(self._actor.more.remote(number))
        except asyncio.CancelledError:
            with suppress(Exception):
                self._actor.stop.remote(number)
            raise
        answer = pickle.loads(found)
        if isinstance(answer, LocalragError):
            raise answer
        return answer

    async def _told(self, reference: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return await reference
        except (RayError, ConnectionError, RuntimeError) as error:
            self.lost.set()
            raise WorkerLost("its process or its machine is gone") from error

    def close(self) -> None:
        """End its process."""
        import ray

        if self._actor is not None:
            with suppress(Exception):  # it may be gone, and Ray with it
                ray.kill(self._actor, no_restart=True)
