"""Jobs to workers, who pull them in order: what a lost one had is done by others, what is late is done twice, what kills is left out."""

import asyncio
import heapq
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from localrag.errors import LocalragError, ModelError
from localrag.index.crew.did import Did, Ended, Figures, total
from localrag.index.crew.parcel import CARRIED, Bundle, Carried, Committing, NeedsEngine, Parcel, WorkerLost
from localrag.index.jobs import UNIT, Job, Result, Tools
from localrag.records import Call

AGAIN = "Run the same command again; what is done is saved."
MOST_LOST = 3  # workers that a job may take down
LATE = 2.0  # times the usual seconds of its kind, from which on a job is given to a second worker that has nothing to do
SHARES = 4  # units that what is left is shared out in, for each worker
SURPLUS = 2.5  # chunks under way for each that workers have room for: the next is at hand when one is done
TEXTS_SENT = 8  # documents whose text a worker is taken to have still


class Worker(Protocol):
    """One who does jobs. `asks`: it can ask the chat model, `only_asks`: and does nothing else; `room`: chunks it takes at once."""

    name: str
    asks: bool
    only_asks: bool
    room: int
    place: str  # where it is and what it computes with, for a person
    arithmetic: str  # the class of its arithmetic, where that was probed; empty otherwise

    async def do(self, parcel: Parcel) -> Bundle:
        """What comes of a parcel. Raises WorkerLost where the worker is no more."""

    async def facts(self) -> dict[str, Any]:
        """What its engine can do. Raises ModelError, WorkerLost."""

    def close(self) -> None:
        """End the worker."""


def _can(worker: Worker, asks: bool) -> bool:
    """Whether a worker does what asks the chat model, or what does not."""
    return worker.asks if asks else not worker.only_asks


@dataclass(eq=False, slots=True)
class _Unit:
    """A job under way: who does it, since when, and how many it took down. Units stand in the order they came."""

    number: int
    job: Job[Any]
    done: "asyncio.Future[Bundle]"
    known: tuple[Call, ...] = ()
    lost: int = 0
    engine: bool = False
    by: dict["_Place", float] = field(default_factory=dict)

    def __lt__(self, other: "_Unit") -> bool:
        return self.number < other.number


@dataclass(eq=False, slots=True)
class _Place:
    """A worker's place: what it does at the moment, and what it has done."""

    worker: Worker
    units: dict[_Unit, "asyncio.Task[None]"] = field(default_factory=dict)
    texts: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    did: Did = field(default_factory=Did)

    @property
    def free(self) -> int:
        """Chunks it has room for. A unit that cost a worker runs alone, so that no other unit is blamed if it costs this one too."""
        return 0 if any(u.lost for u in self.units) else self.worker.room - sum(u.job.weight for u in self.units)


class Scheduler:
    """A crew of workers. Answers are committed when a bundle comes, in one transaction; results go to whoever waits for them.

    No committed answer is asked for again. A lost worker costs the units it was working on and nothing else.
    """

    def __init__(self, tools: Tools, committing: Committing) -> None:
        """`tools` are those of the one who hands out jobs; its model is `Recalling`."""
        self._tools, self._committing = tools, committing
        self._places: list[_Place] = []
        self._gone = Ended()
        self._queue: dict[bool, list[_Unit]] = {False: [], True: []}  # by whether an engine is needed
        self._running: dict[_Unit, None] = {}
        self._seconds: defaultdict[type, deque[float]] = defaultdict(lambda: deque(maxlen=50))
        self._numbers = count()
        self._facts: dict[str, Any] = {}
        self._late: asyncio.TimerHandle | None = None
        # What to say where nobody can do what is to be done (that needs an engine?); None while somebody may come who can.
        self.nobody: Callable[[bool], LocalragError | None] = lambda _: ModelError("All workers have ended.", AGAIN)

    # Workers come and go.

    def join(self, worker: Worker) -> None:
        """Let a worker do jobs from now on."""
        self._places.append(_Place(worker))
        self._hand_out()

    def leave(self, worker: Worker, why: str = "") -> None:
        """A worker is no more: what it had goes to others."""
        place = next((p for p in self._places if p.worker is worker), None)
        if place is None:
            return
        self._places.remove(place)
        self._gone.add(place.did, self._shown(place, why or "gone"))
        for unit, task in list(place.units.items()):
            if task is not asyncio.current_task():
                task.cancel()
            self._requeue(unit, place)
        self._hand_out()

    def look(self) -> None:
        """See whether anybody can go on at all, after nobody new will come."""
        self._hand_out()

    def unit(self, left: int) -> int:
        """Ever fewer chunks towards the end, so that all workers end together (guided self-scheduling, Polychronopoulos and Kuck 1987)."""
        return max(1, min(UNIT, left // (SHARES * max(1, len(self._places)))))

    async def ready(self, *, asks: bool) -> None:
        """Workers get ready by themselves."""

    def room(self, *, asks: bool) -> int:
        """Chunks worth having under way."""
        able = [p.worker.room for p in self._places if _can(p.worker, asks)]
        return max(UNIT, int(SURPLUS * sum(able)))

    async def run(self, job: Job[Result]) -> Result:
        """What a job gives. Raises what the job raises, WorkerLost where it took three workers down and nothing stands for its result."""
        known: tuple[Call, ...] = ()
        if job.task and job.about:
            known = tuple(self._committing.about(job.about))
        elif job.task and self._committing.resumed:
            CARRIED.set(carried := Carried({}))
            try:
                return await job.work(self._tools)
            except NeedsEngine:
                known = tuple(carried.known.values())
        return await self._given(job, known)

    async def _given(self, job: Job[Result], known: tuple[Call, ...]) -> Result:
        engine = bool(job.task) and self._tools.tagger is None
        unit = _Unit(next(self._numbers), job, asyncio.get_running_loop().create_future(), known, engine=engine)
        self._push(unit)
        self._hand_out()
        try:
            bundle = await unit.done
        except WorkerLost as error:
            if len(job.parts) > 1:
                return job.joined([await self._given(part, known) for part in job.parts])
            return job.failed(error)
        finally:
            self._forget(unit)
        if bundle.error is not None:
            raise bundle.error
        return bundle.result  # type: ignore[no-any-return]

    async def window(self) -> int:
        """Tokens that a prompt and its answer may have together, as the first worker with an engine reports it."""
        return int((await self._known_facts())["window"])

    async def at_once(self) -> int:
        """Requests that an engine works on at the same time."""
        return int((await self._known_facts())["at_once"])

    async def _known_facts(self) -> dict[str, Any]:
        while not self._facts:
            if able := [p.worker for p in self._places if p.worker.asks]:
                with suppress(WorkerLost):  # another one will do
                    self._facts = await able[0].facts()
                    break
                self.leave(able[0], "gone")
            elif error := self.nobody(True):
                raise error
            await asyncio.sleep(0.1)
        return self._facts

    @property
    def figures(self) -> Figures:
        """Tokens read, their seconds, tokens written, their seconds, tokens computed: of all workers together."""
        return total([self._gone.figures, *(p.did.figures for p in self._places)])

    def status(self) -> list[dict[str, Any]]:
        """Each worker: name, place, state, units and chunks done, chunks a second of its time, when it was last heard of."""
        return [self._shown(p, "working" if p.units else "waiting") for p in self._places] + self._gone.rows()

    @staticmethod
    def _shown(place: _Place, state: str) -> dict[str, Any]:
        worker = place.worker
        return place.did.row(worker.name, worker.place, worker.arithmetic, state, sum(u.job.weight for u in place.units))

    def close(self) -> None:
        """End all workers."""
        if self._late:
            self._late.cancel()
        for place in self._places:
            for task in place.units.values():
                task.cancel()
            place.worker.close()
        self._places.clear()

    # Who does what.

    def _hand_out(self) -> None:
        """Give units in their order to workers with room, those with most first; then what is late to those who have nothing."""
        if error := self._stranded():
            for unit in [*self._queue[True], *self._queue[False], *self._running]:
                if not unit.done.done():
                    unit.done.set_exception(error)
            return
        while open_ := [p for p in self._places if p.free > 0 or not p.units]:
            place = max(open_, key=lambda p: (self._next(p) is not None, p.free))
            queue = self._next(place)
            if queue is None:
                break
            unit = heapq.heappop(queue)
            if not unit.done.done():
                self._begin(unit, place)
        if not any(self._queue.values()):
            self._double()

    def _next(self, place: _Place) -> "list[_Unit] | None":
        """The queue whose first unit a worker is to do next; None where there is nothing for it."""
        able = [q for asks, q in self._queue.items() if q and _can(place.worker, asks) and not (q[0].lost and place.units)]
        return min(able, key=lambda q: q[0], default=None)

    def _stranded(self) -> LocalragError | None:
        """What to say where there is something to do and nobody who can, now or later."""
        waits = {asks for asks, q in self._queue.items() if q} | {u.engine for u in self._running if not u.by}
        stuck = [asks for asks in waits if not any(_can(p.worker, asks) for p in self._places)]
        return self.nobody(any(stuck)) if stuck else None

    def _push(self, unit: _Unit) -> None:
        heapq.heappush(self._queue[unit.engine], unit)

    def _begin(self, unit: _Unit, place: _Place) -> None:
        unit.by[place] = time.monotonic()
        self._running[unit] = None
        place.units[unit] = asyncio.get_running_loop().create_task(self._do(unit, place))

    def _double(self) -> None:
        """The oldest unit that is late goes to a worker that has nothing to do as well."""
        idle = [p for p in self._places if not p.units]
        now, soonest = time.monotonic(), float("inf")
        for unit in list(self._running):
            usual = self._usual(unit.job)
            able = [p for p in idle if p not in unit.by and _can(p.worker, unit.engine)]
            if len(unit.by) != 1 or not able or usual is None:
                continue
            due = next(iter(unit.by.values())) + LATE * usual
            if due <= now:
                self._begin(unit, able[0])
                idle.remove(able[0])
            else:
                soonest = min(soonest, due)
        if self._late:
            self._late.cancel()
            self._late = None
        if soonest < float("inf"):
            self._late = asyncio.get_running_loop().call_later(max(0.05, soonest - now), self._hand_out)

    def _usual(self, job: Job[Any]) -> float | None:
        """Seconds that such a job takes, once a few were done."""
        known = self._seconds[type(job)]
        return sum(known) / len(known) * job.weight if len(known) >= 3 else None

    async def _do(self, unit: _Unit, place: _Place) -> None:
        began = time.monotonic()
        try:
            bundle = await self._sent(unit, place)
            self._take(unit, place, bundle, time.monotonic() - began)
        except WorkerLost as error:
            self.leave(place.worker, str(error))
        except Exception as error:  # noqa: BLE001 — the disk is full, say: raised to whoever waits for the unit
            if not unit.done.done():
                unit.done.set_exception(error)
        self._hand_out()

    async def _sent(self, unit: _Unit, place: _Place) -> Bundle:
        """What a worker makes of a unit, and of its document's text where it is not known to have that."""
        job = unit.job
        text = self._tools.text_of(job.document_id) if job.document_id and job.document_id not in place.texts else None
        bundle = await place.worker.do(Parcel(job, text, unit.known))
        if bundle.needs == "text":
            bundle = await place.worker.do(Parcel(job, self._tools.text_of(job.document_id), unit.known))
        if job.document_id:
            place.texts[job.document_id] = None
            place.texts.move_to_end(job.document_id)
            while len(place.texts) > TEXTS_SENT:
                place.texts.popitem(last=False)
        return bundle

    def _take(self, unit: _Unit, place: _Place, bundle: Bundle, seconds: float) -> None:
        """Commit what came back, note who did it, and let go on who waits for it."""
        place.units.pop(unit, None)
        unit.by.pop(place, None)
        did = place.did
        did.seen, did.figures = time.time(), bundle.figures
        if bundle.calls or bundle.confirmed:
            self._committing.save(bundle.calls, bundle.confirmed)
        if bundle.needs == "engine":
            unit.engine, unit.known = True, (*unit.known, *bundle.calls)
            self._requeue(unit, place, lost=False)
            return
        did.units, did.chunks, did.busy = did.units + 1, did.chunks + unit.job.weight, did.busy + bundle.seconds
        did.calls += len(bundle.calls)
        model = self._tools.model
        model.calls += len(bundle.calls)
        model.prompt_tokens += sum(c.prompt_tokens for c in bundle.calls)
        model.output_tokens += sum(c.output_tokens for c in bundle.calls)
        self._seconds[type(unit.job)].append(seconds / unit.job.weight)
        if not unit.done.done():
            unit.done.set_result(bundle)

    def _requeue(self, unit: _Unit, place: _Place, *, lost: bool = True) -> None:
        """A unit comes to the front again; one that took several workers down is given up."""
        place.units.pop(unit, None)
        unit.by.pop(place, None)
        unit.lost += lost
        if unit.done.done() or unit.by:
            return
        self._running.pop(unit, None)
        if unit.lost >= MOST_LOST:
            unit.done.set_exception(WorkerLost(f"It took {unit.lost} workers down.", "See what is special about the document."))
            return
        self._push(unit)

    def _forget(self, unit: _Unit) -> None:
        """Nobody waits for a unit any more: a second one who still does it may stop."""
        self._running.pop(unit, None)
        if not unit.done.done():
            unit.done.cancel()
        others, unit.by = list(unit.by), {}
        for place in others:
            if task := place.units.pop(unit, None):
                task.cancel()
        if others:
            self._hand_out()
