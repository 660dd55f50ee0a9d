"""Which rows a step computes: checked on the fake backend against computing one request after the other."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.engine.engine import Engine, Request
from localrag.engine.scheduler import Cell, Scheduler, Sequence, common_length, read, without_lone_cell
from localrag.errors import ContextTooSmall, EngineFailed
from tests.fakes import FakeLlama

PIECE = 16
prompts = st.lists(st.integers(1, 5), min_size=1, max_size=60)


def generate(requests, backend, *, together=True):
    """The texts of all requests, run side by side or one after the other."""
    engine = Engine(backend, piece=PIECE)

    async def run():
        if together:
            return await asyncio.gather(*(engine.generate(r) for r in requests))
        return [await engine.generate(r) for r in requests]

    try:
        return asyncio.run(run())
    finally:
        engine.close()


def request(tokens, max_tokens=12):
    return Request(tuple(read(tokens)), max_tokens)


@settings(deadline=None, max_examples=60)
@given(st.lists(prompts, min_size=1, max_size=10), st.integers(1, 5))
def test_what_runs_beside_a_request_does_not_change_its_answer(token_lists, slots):
    """Batched over any number of slots, with shared prefixes copied, every answer is that of the request alone on a fresh model."""
    alone = [generate([request(t)], FakeLlama(slots=1))[0].text for t in token_lists]
    batched = [g.text for g in generate([request(t) for t in token_lists], FakeLlama(slots=slots))]

    assert alone == batched


@settings(deadline=None, max_examples=30)
@given(st.lists(prompts, min_size=2, max_size=6), st.lists(st.integers(1, 5), min_size=20, max_size=40))
def test_a_conversation_goes_on_as_if_it_were_never_evicted(token_lists, shared):
    """A second turn gives the same answer whether its first turn is still in the KV or was overwritten and computed again."""

    def second_turn(first, tail):
        return Request((*first.cells, *read(tail)), 8)

    async def kept(tokens):
        engine = Engine(FakeLlama(slots=2), piece=PIECE)
        first = await engine.generate(request(shared + tokens))
        answer = await engine.generate(second_turn(first, tokens))
        engine.close()
        return answer.text

    async def evicted(tokens):
        engine = Engine(FakeLlama(slots=1), piece=PIECE)
        first = await engine.generate(request(shared + tokens))
        await engine.generate(request([5, 5, 4, 5, 5]))
        answer = await engine.generate(second_turn(first, tokens))
        engine.close()
        return answer.text

    for tokens in token_lists:
        assert asyncio.run(kept(tokens)) == asyncio.run(evicted(tokens))


def test_a_shared_prefix_is_computed_once():
    """Eight requests with a common prefix read it once; the others copy it."""
    prefix = [1 + n % 5 for n in range(100)]
    backend = FakeLlama(slots=4)

    generate([request([*prefix, n + 10, n + 20], max_tokens=1) for n in range(8)], backend)

    assert backend.computed_rows <= len(prefix) + 8 * 4


def test_a_long_prompt_does_not_stall_running_sequences():
    """A prompt over the piece size is read in pieces, with a decode step of the others after each."""
    scheduler = Scheduler(2, 256, PIECE)
    running, long = Sequence(read([1, 2]), 50), Sequence(read([4] * 60), 50)
    scheduler.add(running)
    scheduler.admit()
    scheduler.computed(scheduler.plan())
    running.append([3])
    scheduler.add(long)
    scheduler.admit()

    order = []
    while long.computed < 60:
        step = scheduler.plan()
        order.append("long" if step.runs[0][0] is long else "running")
        for sequence in scheduler.computed(step):
            sequence.append([3])

    assert order == ["running", "long"] * 4


def test_people_overtake_indexing():
    """Of the waiting sequences the lowest priority number comes first, then the oldest."""
    scheduler = Scheduler(1, 256, PIECE)
    first, second, person = Sequence(read([1]), 1, priority=1), Sequence(read([2]), 1, priority=1), Sequence(read([3]), 1, priority=0)
    for sequence in (first, second, person):
        scheduler.add(sequence)

    order = []
    for _ in range(3):
        place = scheduler.admit()
        order.append(place.sequence)
        scheduler.release(place.sequence)

    assert order == [person, first, second]


@given(prompts, st.integers(2, 20))
def test_no_read_cell_is_computed_alone(tokens, limit):
    """A run of two or more read cells is cut into pieces of two or more."""
    sequence = Sequence(read(tokens), 1)
    lengths = []
    while sequence.computed < len(sequence.cells):
        lengths.append(sequence.next_run(limit))
        sequence.computed += lengths[-1]

    assert sum(lengths) == len(tokens)
    assert max(lengths) <= limit
    assert len(tokens) == 1 or limit == 2 or 1 not in lengths


@given(prompts, prompts)
def test_common_length_is_the_first_difference(a, b):
    """The shared length equals that of a cell by cell comparison."""
    cells_a, cells_b = read(a), read(b)
    expected = next((n for n, (x, y) in enumerate(zip(cells_a, cells_b, strict=False)) if x != y), min(len(a), len(b)))

    assert common_length(cells_a, cells_b) == expected


def test_a_kept_prefix_never_leaves_one_read_cell():
    """Where reuse would leave a single prompt cell to compute, one cell less is reused."""
    cells = read([1, 2, 3, 4])

    assert without_lone_cell(cells, 3) == 2
    assert without_lone_cell(cells, 2) == 2
    assert without_lone_cell([*read([1, 2]), Cell(3, True)], 2) == 2


def test_a_request_that_cannot_fit_says_the_numbers():
    """A prompt and answer over the window are refused before anything is computed."""
    with pytest.raises(ContextTooSmall, match=r"250 tokens.*up to 20.*270.*256"):
        generate([request([1] * 250, max_tokens=20)], FakeLlama())


def test_a_failed_step_fails_only_the_requests_it_carried():
    """When the model refuses a step, its requests get the error and all others go on."""
    backend = FakeLlama(slots=2, fail_on=99)
    engine = Engine(backend, piece=PIECE)

    async def run():
        tasks = [engine.generate(r) for r in (request([1, 2, 3]), request([99, 99, 99]), request([4, 5]))]
        return await asyncio.gather(*tasks, return_exceptions=True)

    good, bad, also_good = asyncio.run(run())
    engine.close()

    assert isinstance(bad, EngineFailed)
    assert [good.text, also_good.text] == [g.text for g in generate([request([1, 2, 3]), request([4, 5])], FakeLlama())]


def test_cancelling_frees_the_slot():
    """A cancelled request leaves its slot to the next one."""
    engine = Engine(FakeLlama(slots=1), piece=PIECE)

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
    engine = Engine(backend, piece=PIECE)

    async def run():
        task = asyncio.create_task(engine.generate(request([1] * 5, max_tokens=200)))
        await asyncio.sleep(0)
        await asyncio.to_thread(engine.close)
        with pytest.raises(EngineFailed):
            await task

    asyncio.run(run())
    assert backend.closed
