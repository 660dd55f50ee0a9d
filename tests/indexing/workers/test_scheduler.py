"""Jobs to workers: simulated ones that only wait, so that what is measured is the order, the loss and the time of the one who hands out."""

import asyncio
import random
import statistics
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from localrag.errors import EngineError, ModelError
from localrag.indexing.tasks import Task, TaskContext, run_in_order
from localrag.indexing.workers.scheduler import Scheduler
from localrag.indexing.workers.worker import MAX_SHOWN_WORKERS, CacheAccess, CacheMiss, TaskResult, WorkerLost
from localrag.settings import IndexSettings


@dataclass(frozen=True)
class Wait(Task[int]):
    """A job that takes some time, about one chunk."""

    number: int
    seconds: float = 0.01

    async def run(self, _tools):
        await asyncio.sleep(self.seconds)
        return self.number


@dataclass(frozen=True)
class Several(Task[tuple]):
    """A job about several things, one of which may be deadly."""

    numbers: tuple
    deadly: int = -1

    @property
    def n_chunks(self):
        return len(self.numbers)

    @property
    def parts(self):
        return [Several((n,), self.deadly) for n in self.numbers]

    def join(self, results):
        return tuple(r for some in results for r in some)

    def on_failure(self, error):
        return tuple(error.kind for _ in self.numbers)

    async def run(self, _tools):
        if self.deadly in self.numbers:
            raise WorkerLost("it died")
        return self.numbers


class Simulated:
    """A worker that does jobs in this process: `slots` at once, `speed` times as fast."""

    numerics = ""

    def __init__(self, name="w", *, slots=4, speed=1.0, asks=True, only_asks=False, room=None):
        self.is_llm_only = only_asks
        self.name, self.has_llm, self.location, self.capacity = name, asks, "here", room or slots
        self.speed, self._slots = speed, asyncio.Semaphore(slots)
        self.died = asyncio.Event()
        self.did = []

    async def run_task(self, task_request):
        dying = asyncio.ensure_future(self.died.wait())
        working = asyncio.ensure_future(self._work(task_request.task))
        await asyncio.wait((dying, working), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if self.died.is_set():
            working.cancel()
            raise WorkerLost("it was killed")
        try:
            return TaskResult(working.result())
        except CacheMiss:
            return TaskResult(missing="engine")
        except WorkerLost:
            self.died.set()
            raise

    async def _work(self, job):
        async with self._slots:
            if isinstance(job, Wait):
                await asyncio.sleep(job.seconds / self.speed)
                self.did.append(job.number)
                return job.number
            if isinstance(job, Asks) and not self.has_llm:
                raise CacheMiss
            self.did.append(job)
            return await job.run(None)

    async def engine_limits(self):
        return {"window": 4096, "at_once": 4}

    def close(self):
        self.died.set()


@dataclass(frozen=True)
class Asks(Task[str]):
    """A job that asks the chat model."""

    llm_task = "entities"

    async def run(self, _tools):
        return "asked"


def scheduler(*workers, tagger=None):
    committing = CacheAccess(lambda _: [], lambda *_: None, may_have_calls=False)
    model = SimpleNamespace(calls=0, prompt_tokens=0, output_tokens=0)
    made = Scheduler(TaskContext(model, None, tagger, IndexSettings(), lambda _: "text"), committing)
    made.no_worker_error = lambda _: ModelError("Nobody is left.")
    for worker in workers:
        made.add(worker)
    return made


async def all_of(worker_pool, jobs):
    return [result async for some in run_in_order(worker_pool, jobs) for _, result in some]


def test_results_come_in_the_order_of_their_jobs():
    """However long each took, and by whomever it was done."""
    chance = random.Random(0)

    async def run():
        worker_pool = scheduler(Simulated("a"), Simulated("b", speed=3))
        return await all_of(worker_pool, [Wait(n, chance.uniform(0, 0.02)) for n in range(200)])

    assert asyncio.run(run()) == list(range(200))


def test_only_as_much_is_under_way_as_there_is_room_for():
    """Jobs are made when they are needed: a million of them are not a million objects."""
    made = []

    async def run():
        worker_pool = scheduler(Simulated(slots=4))
        jobs = (made.append(n) or Wait(n, 0.001) for n in range(500))
        most = 0
        async for some in run_in_order(worker_pool, jobs):
            most = max(most, len(made) - some[-1][0].number)
        return most

    assert asyncio.run(run()) < 100


def test_what_a_lost_worker_had_is_done_by_others():
    """All of it."""

    async def run():
        lost, stays = Simulated("lost"), Simulated("stays")
        worker_pool = scheduler(lost, stays)
        asyncio.get_running_loop().call_later(0.1, lost.died.set)
        found = await all_of(worker_pool, [Wait(n, 0.02) for n in range(100)])
        return found, lost.did + stays.did

    found, did = asyncio.run(run())
    assert found == list(range(100))
    assert set(did) == set(range(100))


def test_a_worker_that_joins_late_gets_its_share():
    """From the moment on at which it is there."""

    async def run():
        first, late = Simulated("first"), Simulated("late")
        worker_pool = scheduler(first)
        asyncio.get_running_loop().call_later(0.1, worker_pool.add, late)
        await all_of(worker_pool, [Wait(n, 0.02) for n in range(150)])
        return len(late.did)

    assert asyncio.run(run()) > 30


def test_a_job_that_takes_workers_down_is_taken_apart_and_blamed_alone():
    """Those that were under way beside it are done; of its parts only the deadly one fails."""

    async def run():
        worker_pool = scheduler()
        worker_pool.no_worker_error = lambda _: None
        workers = 0

        async def keep():
            nonlocal workers
            while True:
                worker = Simulated(f"w{workers}", slots=8, room=64)
                workers += 1
                worker_pool.add(worker)
                await worker.died.wait()
                await asyncio.sleep(0.01)

        keeping = asyncio.ensure_future(keep())
        found = await all_of(worker_pool, [Several(tuple(range(n, n + 5)), deadly=22) for n in range(0, 50, 5)])
        keeping.cancel()
        return [x for some in found for x in some], workers

    found, workers = asyncio.run(run())
    assert found == [WorkerLost.kind if n == 22 else n for n in range(50)]
    assert workers == 7  # three over the whole job, three over its part, and the one that is left


@pytest.mark.parametrize("tagger", [None, "tagger"])
def test_who_has_no_engine_gets_what_needs_none(tagger):
    """Where a tagger reads, a job that comes to a question for the model is done again by one who has an engine."""

    async def run():
        engine, text = Simulated("engine"), Simulated("text", asks=False)
        worker_pool = scheduler(text, engine, tagger=tagger)
        found = await all_of(worker_pool, [Asks() if n % 2 else Wait(n) for n in range(40)])
        return found, [job for job in text.did if isinstance(job, Asks)]

    found, wrong = asyncio.run(run())
    assert found == ["asked" if n % 2 else n for n in range(40)]
    assert not wrong


def test_who_only_asks_gets_nothing_else():
    """What needs no model is done by the others; where there are none, the run ends with an error and does not wait."""

    async def run():
        asks, text = Simulated("asks", only_asks=True), Simulated("text", asks=False)
        worker_pool = scheduler(asks, text)
        await all_of(worker_pool, [Asks() if n % 2 else Wait(n) for n in range(40)])
        found = [job for job in asks.did if not isinstance(job, Asks)], [job for job in text.did if isinstance(job, Asks)]
        asyncio.get_running_loop().call_later(0.05, text.died.set)
        with pytest.raises(ModelError, match="Nobody is left"):
            await all_of(worker_pool, [Wait(n, 0.05) for n in range(50)])
        return found

    assert asyncio.run(run()) == ([], [])


def test_where_nobody_is_left_the_run_ends_with_an_error():
    """And not with a wait."""

    async def run():
        worker = Simulated()
        worker_pool = scheduler(worker)
        asyncio.get_running_loop().call_later(0.05, worker.died.set)
        await all_of(worker_pool, [Wait(n, 0.05) for n in range(50)])

    with pytest.raises(ModelError, match="Nobody is left"):
        asyncio.run(run())


def test_where_nobody_with_an_engine_is_left_the_run_ends_with_an_error():
    """Also where others are there, who have none."""

    async def run():
        worker_pool = scheduler(Simulated(asks=False))
        worker_pool.no_worker_error = lambda engine: ModelError("No engine is left.") if engine else None
        await all_of(worker_pool, [Wait(0), Asks()])

    with pytest.raises(ModelError, match="No engine is left"):
        asyncio.run(run())


def test_the_first_error_ends_the_rest():
    """What a job raises is raised, and nothing is under way afterwards."""

    @dataclass(frozen=True)
    class Fails(Task[int]):
        async def run(self, _tools):
            raise EngineError("no")

    class Works(Simulated):
        async def run_task(self, task_request):
            try:
                return await super().run_task(task_request)
            except EngineError as error:
                return TaskResult(error=error)

    async def run():
        worker = Works()
        worker_pool = scheduler(worker)
        with pytest.raises(EngineError):
            await all_of(worker_pool, [Wait(0), Wait(1), Fails(), *(Wait(n, 1) for n in range(10))])
        return worker_pool.status()[0]["under_way"]

    assert asyncio.run(run()) == 0


@pytest.mark.ci
def test_late_joiners_and_losses_in_any_order_lose_nothing():
    """Fifty random histories of workers that come, die and work at their own speeds."""

    async def history(seed):
        chance = random.Random(seed)
        worker_pool = scheduler()
        worker_pool.no_worker_error = lambda _: None
        workers = [Simulated("0")]
        worker_pool.add(workers[0])

        async def fate():
            for n in range(1, 8):
                await asyncio.sleep(chance.uniform(0, 0.03))
                if n in (2, 5):  # a third one might be the third of the same job, which is then blamed
                    chance.choice(workers).died.set()
                workers.append(Simulated(str(n), speed=chance.uniform(0.3, 3)))
                worker_pool.add(workers[-1])

        fates = asyncio.ensure_future(fate())
        found = await asyncio.wait_for(all_of(worker_pool, [Wait(n, chance.uniform(0, 0.01)) for n in range(60)]), 20)
        await fates
        return found

    for seed in range(50):
        assert asyncio.run(history(seed)) == list(range(60))


def test_the_speed_of_each_worker_is_told():
    """Units, chunks, when it was last heard of; of one that is gone as well."""

    async def run():
        quick, gone = Simulated("quick", speed=2), Simulated("gone")
        worker_pool = scheduler(quick, gone)
        asyncio.get_running_loop().call_later(0.1, gone.died.set)
        await all_of(worker_pool, [Wait(n) for n in range(400)])
        return {row["name"]: row for row in worker_pool.status()}

    rows = asyncio.run(run())
    assert rows["quick"]["chunks"] + rows["gone"]["chunks"] == 400
    assert rows["gone"]["state"] == "it was killed"
    assert rows["quick"]["state"] == "waiting"
    assert statistics.fmean([rows["quick"]["seen_at"], rows["gone"]["seen_at"]]) > 1e9


def test_workers_that_have_ended_are_shown_up_to_a_number():
    """Of many that came and went the last are shown, and one row for those before them; nothing of what they did is lost."""

    class Reads(Simulated):
        async def run_task(self, task_request):
            return replace(await super().run_task(task_request), counters=(10, 1.0, 4, 1.0, 14), seconds=0.5)

    async def run():
        worker_pool = scheduler()
        for n in range(100):
            worker_pool.add(worker := Reads(str(n)))
            await all_of(worker_pool, [Wait(n, 0)])
            worker_pool.remove(worker, "its machine is gone")
        return worker_pool.status(), worker_pool.counters

    rows, figures = asyncio.run(run())
    assert len(rows) == MAX_SHOWN_WORKERS + 1
    assert [row["name"] for row in rows[:2]] == ["99", "98"]
    assert rows[-1]["name"] == f"{100 - MAX_SHOWN_WORKERS} before them"
    assert (rows[-1]["chunks"], rows[-1]["chunks_per_s"], rows[-1]["prefill_tokens_per_s"]) == (100 - MAX_SHOWN_WORKERS, 2.0, 10.0)
    assert sum(row["chunks"] for row in rows) == 100
    assert figures == (1000, 100.0, 400, 100.0, 1400)


def test_what_cannot_be_committed_ends_the_run():
    """A full disk, say."""

    class Answers(Simulated):
        async def run_task(self, task_request):
            return replace(await super().run_task(task_request), new_calls=("an answer",))

    def full(*_):
        raise OSError("the disk is full")

    async def run():
        made = scheduler(Answers())
        made._committing = replace(made._committing, save=full)
        await all_of(made, [Wait(n) for n in range(20)])

    with pytest.raises(OSError, match="full"):
        asyncio.run(run())
