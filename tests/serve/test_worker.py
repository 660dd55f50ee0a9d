"""The worker's thread: when it closes an index, how it ends, and that a caller who waits for it can be cancelled."""

import asyncio
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager

import pytest

from localrag.project import open_for_query
from localrag.query.question import QueryOptions
from localrag.serve.query_worker import QueryWorker

SOON = 60.0  # seconds after which a test gives up


@pytest.fixture
def folder(own_town):
    """The index of a copy of the letters."""
    return own_town / ".localrag"


def replaced(folder):
    """The same index as another file, as a rebuilt or unpacked one is."""
    shutil.copy(folder / "index.db", folder / "other.db")
    (folder / "other.db").replace(folder / "index.db")


def in_time(work):
    return asyncio.run(asyncio.wait_for(work, SOON))


class Watched:
    """An index that records when it is opened and closed, and whose model counts only when `go_on` is set."""

    def __init__(self, folder):
        self.said, self.counting, self.go_on = [], threading.Event(), threading.Event()
        self._folder = folder

    @contextmanager
    def opened(self):
        number = self.said.count("opened") + 1
        self.said.append("opened")
        with open_for_query(self._folder) as project:

            async def count(text):
                self.counting.set()
                try:
                    while number == 1 and not self.go_on.is_set():
                        await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    self.said.append(f"gave up {text}")
                    raise
                list(project.db["documents"].rows)  # raises where the index was closed under the question
                self.said.append(f"counted {text} by {number}")
                return len(text)

            project.model.count = count
            try:
                yield project
            finally:
                self.said.append("closed")


@contextmanager
def working(folder, opened):
    """A worker that has been started."""
    worker = QueryWorker(folder, opened)
    worker.start()
    try:
        yield worker
    finally:
        worker.close()


async def two_questions(worker, index, between, *, gives_up=False):
    """What the first question is answered, and one that comes after something has happened while the first was under way."""
    first = asyncio.create_task(worker.count(["a"]))
    await asyncio.to_thread(index.counting.wait, SOON)
    between()
    second = asyncio.create_task(worker.count(["bb"]))
    await asyncio.wait({second}, timeout=0.5)
    if gives_up:
        first.cancel()
        return None, await second
    index.go_on.set()
    return await first, await second


@pytest.mark.parametrize("gives_up", [False, True])
def test_an_index_that_is_replaced_is_closed_when_its_questions_have_ended(folder, gives_up):
    """A question that runs is answered from the index it began with, or given up; one that comes after waits for the new one."""
    index = Watched(folder)
    with working(folder, index.opened) as worker:
        found = in_time(two_questions(worker, index, lambda: replaced(folder), gives_up=gives_up))
    assert found == (None if gives_up else [1], [2])
    assert index.said == ["opened", "gave up a" if gives_up else "counted a by 1", "closed", "opened", "counted bb by 2", "closed"]


def test_another_model_answers_from_the_next_question_on(folder):
    """A question that runs ends with the model it began with; then the index is opened with the chosen one."""
    index, names = Watched(folder), []

    def opened(*name):
        names.append(name)
        return index.opened()

    with working(folder, opened) as worker:
        assert in_time(two_questions(worker, index, lambda: worker.use_model("other"))) == ([1], [2])
        assert worker.answers_with == "other"
    assert names == [(), ("other",)]
    assert index.said == ["opened", "counted a by 1", "closed", "opened", "counted bb by 2", "closed"]


def test_a_worker_that_was_never_started_is_closed_at_once(tmp_path):
    """Closing a worker that never started does not block."""
    worker = QueryWorker(tmp_path, None)
    closing = threading.Thread(target=worker.close, daemon=True)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.ci
def test_an_interrupt_ends_the_wait_for_models_that_are_being_loaded(folder):
    """`close` waits for them, but Ctrl-C interrupts it."""
    script = textwrap.dedent(f"""
        import pathlib, threading, time
        from localrag.serve.query_worker import QueryWorker

        def opened():
            time.sleep(600)

        worker = QueryWorker(pathlib.Path({str(folder)!r}), opened)
        worker.start()
        print("waiting", flush=True)
        worker.close()
        print("closed", flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said, failed = process.communicate(timeout=SOON)
    finally:
        process.kill()
    assert "closed" not in said
    assert "KeyboardInterrupt" in failed


def test_a_question_ends_in_the_worker_before_its_caller_goes_on(folder):
    """Also a question that was cancelled."""
    index = Watched(folder)

    async def asked(worker):
        first = asyncio.create_task(worker.count(["a"]))
        await asyncio.to_thread(index.counting.wait, SOON)
        first.cancel()
        await asyncio.wait({first})
        assert first.cancelled()
        assert index.said == ["opened", "gave up a"]
        return (await worker.ask("Who is the mate of the Skua?", QueryOptions(mode="basic"))).answer

    with working(folder, index.opened) as worker:
        assert in_time(asked(worker))
