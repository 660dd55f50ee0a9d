"""How an engine ends, and what a disk may do to the files it keeps: no request waits for ever, none fails for a file's sake."""

import asyncio
import os
import threading
import time

import pytest

from localrag.engine import prefix_cache
from localrag.engine.engine import Engine
from localrag.engine.request import Request
from localrag.errors import EngineError, ModelError
from tests.fakes import FakeLlama, inconsistencies

PREFIX = [1 + n % 5 for n in range(100)]


def request(tokens, max_tokens=12):
    return Request(tuple(tokens), max_tokens, task="t")


def shared(n):
    """A prompt that begins like those of its task."""
    return request([*PREFIX, n + 10, n + 20])


def texts(backend, count=6):
    """The answers to some prompts of a task, one after the other."""
    engine = Engine(lambda: backend, max_rows=16)

    async def run():
        return [(await engine.generate(shared(n))).text for n in range(count)]

    try:
        return asyncio.run(run())
    finally:
        engine.close()
        assert inconsistencies(engine) == []


class Lost(FakeLlama):
    """A backend whose KV cannot be made anew, and that takes its time to free its memory; without a KV, nothing may be asked of it."""

    gone = False

    def reset(self):
        if self.steps:
            self.gone = True
            raise ModelError("There is no memory for a KV.", "Take less: --engine slots=1")
        super().reset()

    def truncate(self, sequence, length):
        assert not self.gone, "the context was freed"
        super().truncate(sequence, length)

    def close(self):
        time.sleep(0.3)
        super().close()


def test_requests_that_arrive_while_a_lost_engine_closes_fail_at_once():
    """Callers whose request failed send the next one while memory is freed: each gets the reason and what to do, and none hangs."""
    backend = Lost(slots=3, fail_on=9)
    engine = Engine(lambda: backend, max_rows=16)

    async def caller(first):
        said = []
        for tokens in (first, [1, 2], [3, 4], [5, 5]):
            with pytest.raises(EngineError) as error:
                await engine.generate(request(tokens))
            said.append(error.value)
        return said

    async def run():
        return await asyncio.wait_for(asyncio.gather(caller([9, 9]), caller([1, 2, 3]), caller([2, 2])), 5)

    first, *others = asyncio.run(run())
    engine.close()

    assert backend.closed
    assert str(first[0]) == "the fake was told to fail"
    later = [error for said in (first, *others) for error in said[2:]]  # the first step that fails is lost, the second the engine
    assert all("There is no memory for a KV" in str(e) and e.hint == "Take less: --engine slots=1" for e in later)
    assert inconsistencies(engine) == []


def test_a_thread_that_ends_by_accident_leaves_nobody_waiting(monkeypatch):
    """Whatever goes wrong outside of a step, those who wait and those who come later get an error."""
    engine = Engine(FakeLlama, max_rows=16)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(engine.slots, "add", None)

    async def run():
        for _ in range(2):
            with pytest.raises(EngineError):
                await asyncio.wait_for(engine.generate(request([1, 2])), 60)

    asyncio.run(run())
    engine._thread.join(60)
    assert engine.backend.closed


def test_a_prompt_that_cannot_be_started_fails_alone(monkeypatch):
    """An error while a request is taken in is its own; the next one runs."""
    engine = Engine(FakeLlama, max_rows=16)
    learn, calls = engine.prefixes.learn, []

    def failing(task, cells):
        calls.append(task)
        if len(calls) == 1:
            raise ValueError
        return learn(task, cells)

    monkeypatch.setattr(engine.prefixes, "learn", failing)

    async def run():
        with pytest.raises(EngineError, match="ValueError"):
            await asyncio.wait_for(engine.generate(request([1, 2])), 60)
        return await asyncio.wait_for(engine.generate(request([1, 2])), 60)

    assert asyncio.run(run()).output_tokens
    engine.close()


def test_a_kv_in_an_unknown_state_is_made_anew(tmp_path):
    """A failed step while a kept beginning is read fails what runs, and what comes after is computed on an empty KV."""
    expected = texts(FakeLlama(slots=1, prefix_folder=tmp_path / "kind"))
    backend = FakeLlama(slots=1, prefix_folder=tmp_path / "kind")
    load, engine = backend.load_state, Engine(lambda: backend, max_rows=16)

    def failing(*args):
        backend.load_state = load
        raise EngineError("the fake failed while it read")

    backend.load_state = failing

    async def run():
        with pytest.raises(EngineError, match="while it read"):
            await engine.generate(shared(0))
        return [(await engine.generate(shared(n))).text for n in range(6)]

    assert asyncio.run(run()) == expected
    assert backend.resets == 1
    engine.close()


class FullDisk(FakeLlama):
    """A backend that finds no room to save to."""

    saves = 0

    def save_state(self, sequence, path, cells):
        self.saves += 1
        raise OSError(28, "No space left on device")


def test_a_full_disk_costs_the_file_and_is_not_tried_again(tmp_path):
    """Every answer is there; after one failure no more files are written."""
    backend = FullDisk(slots=1, prefix_folder=tmp_path / "kind")

    assert texts(backend) == texts(FakeLlama(slots=1))
    assert backend.saves == 1


def test_a_place_that_takes_no_files_costs_nothing(tmp_path):
    """A file where the folder should be: answers as without files."""
    (tmp_path / "prefixes").write_text("in the way")

    assert texts(FakeLlama(slots=1, prefix_folder=tmp_path / "prefixes" / "kind")) == texts(FakeLlama(slots=1))


def test_a_folder_that_goes_away_costs_nothing(tmp_path):
    """Another process removes all kept files while they are in use: they are missed by nobody."""
    folder = tmp_path / "kind"
    engine = Engine(lambda: FakeLlama(slots=1, prefix_folder=folder), max_rows=16)

    async def run():
        found = []
        for n in range(6):
            found.append((await engine.generate(shared(n))).text)
            for file in folder.iterdir() if n == 3 else ():
                file.unlink()
        return found

    assert asyncio.run(run()) == texts(FakeLlama(slots=1))
    engine.close()


def test_the_files_of_all_models_share_one_bound(tmp_path, monkeypatch):
    """Those of any model that were not used for the longest time make room, and folders they leave empty go."""
    monkeypatch.setattr(prefix_cache, "MAX_CACHE_BYTES", 350)
    for name, hours in {"old/70-a.kv": 9, "old/80-b.kv": 8, "other/70-a.kv": 7, "other/80-b.kv": 1}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (time.time() - 3600 * hours,) * 2)
    books = prefix_cache.PrefixCache(tmp_path / "mine")

    books.store(PREFIX, lambda path: path.write_bytes(bytes(100)) > 0)

    left = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if "mine" not in p.parts)
    assert left == ["other", "other/70-a.kv", "other/80-b.kv"]
    assert books.find([*PREFIX, 1])[0] == len(PREFIX)


def test_an_engine_marks_what_it_reads(tmp_path):
    """The file of a shared beginning is touched when its KV is taken from it."""
    texts(FakeLlama(slots=1, prefix_folder=tmp_path / "kind"))
    (file,) = (tmp_path / "kind").iterdir()
    os.utime(file, (1, 1))

    texts(FakeLlama(slots=1, prefix_folder=tmp_path / "kind"))

    assert file.stat().st_mtime > 1
