"""Which server gets a request: that with most free slots, or that which holds the conversation's KV; and waiting for those that are down.

Everything here is plain state without an event loop of its own: `localrag chat` runs a loop a question.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

from localrag.errors import EngineFailed, ModelError
from localrag.models import Facts

LONG, SHORT = 1800.0, 60.0  # seconds to wait for servers that are down: while indexing, and while a person waits
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds between two tries, doubled from the first to the longest
KEPT_CONVERSATIONS = 4096

Look = Callable[[str], Awaitable[Facts | None]]


def pause(tries: int) -> float:
    """Seconds to wait before the next try: doubling, and never the same for two who wait, so that they do not come back together."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 20)) * random.uniform(0.5, 1.5)


def patience(priority: int) -> float:
    """Seconds to wait for a server: a person (priority 0) would rather be told."""
    return SHORT if priority == 0 else LONG


@dataclass(eq=False, slots=True)
class Server:
    """One server: what it told, what it is doing, and since when it has not answered (0: it does)."""

    url: str
    facts: Facts
    capacity: int
    busy: int = 0
    down_since: float = 0.0
    announced: bool = False  # that it does not answer
    error: ModelError | None = None  # why it is no longer used
    without: frozenset[str] = frozenset()  # optional fields that it refused
    thinks: bool = False  # whatever it is told: its answers get more tokens
    probe: "asyncio.Task[None] | None" = None

    @property
    def free(self) -> int:
        """Slots that no request of ours is in."""
        return self.capacity - self.busy if not self.down_since and self.error is None else 0


@dataclass(slots=True)
class Pool:
    """The servers of a model. `look` asks one how it is; `say` tells the user; `digest` identifies the model they must have."""

    servers: list[Server]
    look: Look
    say: Callable[[str], None]
    digest: str
    _waiting: "list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]]" = field(default_factory=list)
    _turn: "count[int]" = field(default_factory=count)
    _holds: dict[str, Server] = field(default_factory=dict)  # conversation → where its KV is

    @property
    def capacity(self) -> int:
        """Requests that all servers together answer at once."""
        return sum(s.capacity for s in self.servers)

    async def take(self, conversation: str, priority: int) -> Server:
        """A slot of a server, which `give` gives back. Waits for one; raises EngineFailed where no server has answered for too long."""
        asked, turn = time.monotonic(), next(self._turn)
        while (server := self._choose(conversation)) is None:
            self._probe_those_down()
            self._give_up(asked, priority)
            loop = asyncio.get_running_loop()
            waiter = (priority, turn, loop, loop.create_future())
            self._waiting.append(waiter)
            try:
                await waiter[3]
            finally:
                self._waiting.remove(waiter)
        server.busy += 1
        return server

    def give(self, server: Server) -> None:
        """A request has left its slot."""
        server.busy -= 1
        self._wake()

    def keep(self, conversation: str, server: Server) -> None:
        """Remember that a conversation's KV is there."""
        self._holds[conversation] = server
        if len(self._holds) > KEPT_CONVERSATIONS:
            del self._holds[next(iter(self._holds))]

    def lost(self, server: Server) -> None:
        """A connection broke: nobody is sent there until it answers again."""
        server.down_since = server.down_since or time.monotonic()
        self._probe_those_down()

    def _choose(self, conversation: str) -> Server | None:
        holder = self._holds.get(conversation)
        if holder and not holder.down_since and holder.error is None:
            return holder if holder.free > 0 else None
        best = max(self.servers, key=lambda s: s.free)
        return best if best.free > 0 else None

    def _give_up(self, asked: float, priority: int) -> None:
        if any(s.error is None and not (s.down_since and s.announced) for s in self.servers):
            return
        if (errors := [s.error for s in self.servers if s.error]) and len(errors) == len(self.servers):
            raise errors[0]
        since = asked if priority == 0 else max(s.down_since for s in self.servers)
        if time.monotonic() - since > patience(priority):
            names = " and ".join(s.url for s in self.servers) + (" has" if len(self.servers) == 1 else " have")
            waited = f"{LONG / 60:.0f} minutes" if priority else f"{SHORT:.0f} seconds"
            raise EngineFailed(
                f"{names} not answered for {waited}.", "Start the server and run the same command again; what is done is saved."
            )

    def _probe_those_down(self) -> None:
        for server in self.servers:
            if server.down_since and server.error is None and (server.probe is None or server.probe.done()):
                server.probe = asyncio.get_running_loop().create_task(self._until_it_answers(server))

    async def _until_it_answers(self, server: Server) -> None:
        for tries in count():
            try:
                facts = await self.look(server.url)
            except ModelError as error:
                server.error = error
                break
            if facts is not None:
                self._back(server, facts)
                break
            if not server.announced:
                server.announced, server.down_since = True, time.monotonic()
                others = any(not s.down_since and s.error is None for s in self.servers)
                self.say(f"{server.url} does not answer; {'going on without it' if others else 'waiting for it'} …")
            self._wake()  # those who have waited long enough give up
            await asyncio.sleep(pause(tries))
        self._wake()

    def _back(self, server: Server, facts: Facts) -> None:
        if self.digest and facts.digest and facts.digest != self.digest:
            server.error = ModelError(
                f"{server.url} serves another model than before.",
                "Serve the same one, or run the same command again: what is done is saved.",
            )
            self.say(f"{server.error} It is left out.")
            return
        if server.announced:
            self.say(f"{server.url} is back.")
        server.facts, server.down_since, server.announced = facts, 0.0, False

    def _wake(self) -> None:
        """Let those who wait look again, the most urgent first."""
        for _, _, loop, future in sorted(self._waiting, key=lambda w: w[:2]):
            try:
                loop.call_soon_threadsafe(_set, future)
            except RuntimeError:  # its loop has closed: nobody waits any more
                continue


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
