"""Which rows a step computes: checked on the fake backend against computing one request after the other."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.engine.engine import Engine
from localrag.engine.request import Request, Sequence
from localrag.engine.scheduler import SlotManager, StepPlanner
from localrag.engine.settings import EngineSettings
from localrag.errors import ContextTooSmall, EngineError
from tests.fakes import FakeLlama, inconsistencies

PIECE = 16
prompts = st.lists(st.integers(1, 5), min_size=1, max_size=60)


def generate(requests, backend, *, together=True):
    """The texts of all requests, run side by side or one after the other."""
    engine = Engine(lambda: backend, max_rows=PIECE)

    async def run():
        if together:
            return await asyncio.gather(*(engine.generate(r) for r in requests))
        return [await engine.generate(r) for r in requests]

    try:
        return asyncio.run(run())
    finally:
        engine.close()


def request(tokens, max_tokens=12):
    return Request(tuple(tokens), max_tokens, task="t")


@settings(max_examples=80)
@given(
    st.lists(prompts, min_size=1, max_size=10),
    st.integers(1, 5),
    st.sampled_from([(1, 1), (2, 1), (2, 4)]),
    st.sampled_from([2, 10_000]),
    st.booleans(),
)
def test_what_runs_beside_a_request_does_not_change_its_answer(token_lists, slots, rule, memory, drafts):
    """Batched over any number of slots, with shared prefixes and guesses, every answer is that of the request alone on a fresh model."""
    rules = {"min_rows": rule[0], "row_multiple": rule[1], "memory": memory}
    alone = [generate([request(t)], FakeLlama(slots=1, prompt_lookup=False, **rules))[0].text for t in token_lists]
    batched = [g.text for g in generate([request(t) for t in token_lists], FakeLlama(slots=slots, prompt_lookup=drafts, **rules))]

    assert alone == batched


def test_guesses_that_come_true_save_steps():
    """On a text that repeats itself, several tokens are written in one step, and they are the same tokens."""
    steps = {}
    for drafts in (True, False):
        backend = FakeLlama(slots=1, memory=1, prompt_lookup=drafts)
        backend.end_tokens = frozenset()
        (answer,) = generate([request([3, 4], max_tokens=200)], backend)
        steps[drafts] = (len(backend.steps), answer.text)

    assert steps[True][1] == steps[False][1]
    assert steps[True][0] < steps[False][0] / 2


def test_a_shared_beginning_is_kept_for_the_next_run(tmp_path):
    """What a task's prompts begin with is read once in the life of its file, not once a process; a spoilt file is read anew."""
    prefix = [1 + n % 5 for n in range(100)]
    work = [request([*prefix, n + 10, n + 20]) for n in range(4)]
    first, second, third = (FakeLlama(prefix_folder=tmp_path) for _ in range(3))

    texts = [g.text for g in generate(work, first)]
    kept = list(tmp_path.iterdir())
    assert [g.text for g in generate(work, second)] == texts
    kept[0].write_text("spoilt")
    assert [g.text for g in generate(work, third)] == texts

    assert [path.name.split("-")[0] for path in kept] == ["100"]
    assert second.computed_rows < first.computed_rows - 90
    assert third.loads == 1
    assert not list(tmp_path.iterdir())


@settings(max_examples=30)
@given(st.lists(prompts, min_size=2, max_size=6), st.lists(st.integers(1, 5), min_size=20, max_size=40))
@pytest.mark.ci
def test_a_conversation_goes_on_as_if_it_were_never_evicted(token_lists, shared):
    """A second turn gives the same answer whether its first turn is still in the KV or was overwritten and computed again."""

    async def second_turn(tokens, slots, *between):
        engine = Engine(lambda: FakeLlama(slots=slots), max_rows=PIECE)
        first = await engine.generate(request(shared + tokens))
        for other in between:
            await engine.generate(request(other))
        answer = await engine.generate(Request((*first.token_ids, *tokens), 8))
        engine.close()
        return answer.text

    for tokens in token_lists:
        assert asyncio.run(second_turn(tokens, 2)) == asyncio.run(second_turn(tokens, 1, [5, 5, 4, 5, 5]))


def test_a_shared_prefix_is_computed_once():
    """Eight requests with a common prefix read it once; the others copy it."""
    prefix = [1 + n % 5 for n in range(100)]
    backend = FakeLlama(slots=4)

    generate([request([*prefix, n + 10, n + 20], max_tokens=1) for n in range(8)], backend)

    assert backend.computed_rows < 2 * len(prefix)


def test_indexing_does_not_stall_a_person():
    """A person's answer takes turns with the pieces of an indexing prompt; without a person the prompt is read first, to fill its slot."""
    for priority, expected in ((0, ["person", "long"] * 2), (1, ["long"] * 4)):
        slots = SlotManager(EngineSettings(slots=2))
        planner = StepPlanner(EngineSettings(slots=2), slots, PIECE)
        running, long = (Sequence(Request(cells, 50, priority=p)) for cells, p in (((1, 2), priority), ((4,) * 90, 1)))
        slots.add(running)
        slots.admit()
        planner.plan().mark_computed()
        running.append([3])
        slots.add(long)
        slots.admit()
        planner._read_last = True

        order = []
        for _ in range(4):
            step = planner.plan()
            order.append("long" if len(step.scheduled_sequences) == 1 else "person")
            for run in step.mark_computed():
                run.sequence.append([3])

        assert order == expected


def test_a_person_gets_the_slot_of_an_indexing_request():
    """When every slot is taken, the newest indexing sequence waits again and the person's runs; the other's answer stays the same."""
    backend = FakeLlama(slots=1, seconds=0.001)
    engine = Engine(lambda: backend, max_rows=PIECE)
    order = []

    async def run():
        async def one(name, tokens, priority, length):
            answer = await engine.generate(Request(tuple(tokens), length, priority=priority))
            order.append(name)
            return answer.text

        indexing = asyncio.create_task(one("indexing", [1, 2, 3], 1, 150))
        await asyncio.sleep(0.01)
        return await asyncio.gather(indexing, one("person", [4, 5], 0, 2))

    backend.end_tokens = frozenset()
    indexed, _ = asyncio.run(run())
    engine.close()
    alone = FakeLlama(slots=1)
    alone.end_tokens = frozenset()

    assert order == ["person", "indexing"]
    assert indexed == generate([Request((1, 2, 3), 150)], alone)[0].text


def test_a_request_that_cannot_fit_says_the_numbers():
    """A prompt and answer over the window are refused before anything is computed."""
    with pytest.raises(ContextTooSmall, match=r"250 tokens.*up to 20.*270.*256"):
        generate([request([1] * 250, max_tokens=20)], FakeLlama())


def test_a_failed_step_fails_only_the_requests_it_carried():
    """When the model refuses a step, the KV is made anew: its requests get the error, and those that come later are answered."""
    backend = FakeLlama(slots=1, fail_on=99)
    engine = Engine(lambda: backend, max_rows=PIECE)

    async def run():
        tasks = [engine.generate(r) for r in (request([1, 2, 3]), request([99, 99, 99]), request([4, 5]))]
        return await asyncio.gather(*tasks, return_exceptions=True)

    good, bad, also_good = asyncio.run(run())
    engine.close()
    assert backend.resets == 1
    assert inconsistencies(engine) == []

    assert isinstance(bad, EngineError)
    assert [good.text, also_good.text] == [g.text for g in generate([request([1, 2, 3]), request([4, 5])], FakeLlama())]


def test_cancelling_frees_the_slot():
    """A cancelled request leaves its slot to the next one."""
    engine = Engine(lambda: FakeLlama(slots=1), max_rows=PIECE)

    async def run():
        task = asyncio.create_task(engine.generate(request([1] * 100, max_tokens=150)))
        await asyncio.sleep(0.01)
        task.cancel()
        return await asyncio.wait_for(engine.generate(request([2, 3])), 5)

    assert asyncio.run(run()).output_tokens > 0
    engine.close()


def test_models_whose_state_cannot_be_cut_are_never_cut():
    """On a recurrent model a prefix is reused only as a whole; answers stay the same."""
    requests = [request([1, 2, 3, 4, n]) for n in range(10, 16)]

    cut = generate(requests, FakeLlama(slots=2, can_truncate=False))

    assert [g.text for g in cut] == [g.text for g in generate(requests, FakeLlama(slots=1), together=False)]


def test_closing_fails_what_still_runs_and_frees_the_model():
    """Requests under way when the engine is closed end in an error, not in silence."""
    backend = FakeLlama(slots=1, seconds=0.05)
    backend.end_tokens = frozenset()
    engine = Engine(lambda: backend, max_rows=PIECE)

    async def run():
        task = asyncio.create_task(engine.generate(request([1] * 5, max_tokens=200)))
        await asyncio.sleep(0)
        await asyncio.to_thread(engine.close)
        with pytest.raises(EngineError):
            await task

    asyncio.run(run())
    assert backend.closed
