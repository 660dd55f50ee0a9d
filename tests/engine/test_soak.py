"""Long mixed work on the engine leaves nothing behind.

`LOCALRAG_TEST_SOAK=1800 pytest tests/engine/test_soak.py` soaks for half an hour.
"""

import asyncio
import gc
import os
import random
import resource
import time

import pytest

from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.request import Request
from localrag.engine.settings import EngineSettings
from localrag.errors import EngineError
from localrag.llm.model import bounded_map
from tests.fakes import FakeLlama, inconsistencies

SECONDS = float(os.environ.get("LOCALRAG_TEST_SOAK", "10"))
ROUNDS = 300  # at most, if the time is too short on a busy machine for every outcome to occur
POISON = 63  # a token the fake refuses


def memory() -> int:
    """The most memory this process ever had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.timeout(SECONDS * 2 + 600)
@pytest.mark.ci
def test_random_work_leaks_nothing():
    """Requests, cancellations, failures, preemptions, people in a hurry, at random: in the end no sequence, slot, cell or task is left."""
    chance = random.Random(7)
    backend = FakeLlama(slots=6, fail_on=POISON)
    engine = Engine(lambda: backend, max_rows=32)
    ended = {"answered": 0, "failed": 0, "cancelled": 0}
    shared = [1 + n % 5 for n in range(60)]

    async def one():
        tokens = shared[: chance.choice([0, 60])] + [chance.randrange(1, 60) for _ in range(chance.randrange(1, 50))]
        if chance.random() < 0.01:
            tokens[-1] = POISON
        request = Request(tuple(tokens), chance.randrange(1, 60), priority=chance.choice([0, 1, 1, 1]), task=chance.choice("ab"))
        task = asyncio.create_task(engine.generate(request))
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() / 100)
            task.cancel()
        try:
            await task
            ended["answered"] += 1
        except EngineError:
            ended["failed"] += 1
        except asyncio.CancelledError:
            ended["cancelled"] += 1

    async def soak():
        until = time.monotonic() + SECONDS / 2
        early = rounds = 0
        while time.monotonic() < until or (rounds < ROUNDS and not all(ended.values())):
            await bounded_map((one() for _ in range(200)), size=24)
            early, rounds = early or memory(), rounds + 1
        await engine.generate(Request((1, 2), 1))  # whatever was cancelled last has been taken in
        return early, len(asyncio.all_tasks())

    early, tasks = asyncio.run(soak())
    leaks = inconsistencies(engine)
    engine.close()  # the thread tidies up the last step after its answer is out
    held = [len(cells) for cells in backend.kv]
    kept = [engine.slots.cached_tokens(slot) for slot in range(6)]
    gc.collect()

    assert leaks == []
    assert held == kept
    assert tasks == 1
    assert all(ended.values()), ended
    assert memory() - early < 50_000


class Sabotaged(LlamaModel):
    """A real model from whose KV cells vanish now and then, which llama.cpp answers by failing the step."""

    chance = random.Random(5)
    failures = 0

    def decode(self, rows):
        if len(rows) > 2 and self.chance.random() < 0.003:
            _, position, slot, _ = rows[0]
            self.truncate(slot, max(0, position - 2))
        try:
            return super().decode(rows)
        except EngineError:
            self.failures += 1
            raise


@pytest.mark.timeout(SECONDS * 4 + 1200)
@pytest.mark.ci
def test_steps_that_llama_cpp_fails_harm_no_answer(tiny):
    """llama.cpp fails steps at random, requests come and go: those that are answered get the words of an undisturbed engine, none leaks."""
    file, settings = tiny("llama"), EngineSettings(threads=1, slots=4, n_ctx=512, kv_cache_type="f32")
    chance = random.Random(11)
    shared = [chance.randrange(20, 40000) for _ in range(50)]
    prompts = [tuple(shared[: 50 * (n % 2)] + [chance.randrange(20, 40000) for _ in range(5 + 3 * n)]) for n in range(24)]
    plain = Engine(lambda: LlamaModel(file, settings))
    expected = [asyncio.run(plain.generate(Request(p, 10))).token_ids for p in prompts]
    plain.close()
    engine = Engine(lambda: Sabotaged(file, settings))
    answered = wrong = cancelled = failed = 0

    async def one(n):
        nonlocal answered, wrong, cancelled, failed
        task = asyncio.create_task(engine.generate(Request(prompts[n], 10, priority=chance.choice([0, 1, 1]), task="ab"[n % 2])))
        if chance.random() < 0.1:
            await asyncio.sleep(chance.random() / 50)
            task.cancel()
        try:
            answer = await task
            answered, wrong = answered + 1, wrong + (answer.token_ids != expected[n])
        except asyncio.CancelledError:
            cancelled += 1
        except EngineError:
            failed += 1

    async def soak():
        until, rounds = time.monotonic() + SECONDS / 2, 0
        while time.monotonic() < until or (rounds < ROUNDS and not (answered > 20 and failed and cancelled)):
            await bounded_map((one(chance.randrange(24)) for _ in range(50)), size=10)
            rounds += 1
        await engine.generate(Request((1, 2), 1))
        return len(asyncio.all_tasks())

    tasks, failures = asyncio.run(soak()), engine.backend.failures
    leaks = inconsistencies(engine)
    engine.close()

    assert leaks == []
    assert tasks == 1
    assert wrong == 0
    assert answered > 20
    assert failed and failures
    assert cancelled
