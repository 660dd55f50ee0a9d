"""Processes beside this one do what it would do itself: the index is the same, and one that dies costs nothing that is stored."""

import asyncio
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil
import pytest

from localrag.demo import CORPUS
from localrag.indexing import report_stage
from localrag.indexing.extraction.stage import FindPhrases
from localrag.indexing.pipeline import build_index
from localrag.indexing.reports import SelectSentences
from localrag.indexing.workers import pool as pool_workers
from localrag.indexing.workers import process_worker
from localrag.indexing.workers.pool import in_process_pool, local_pool
from localrag.indexing.workers.process_worker import ProcessWorker
from localrag.project import open_for_writing
from localrag.system.child_process import ChildProcess
from tests.indexing.workers.tools import Noting, Town, tables

pytestmark = pytest.mark.ci
TWO = local_pool(2, from_chunks=0)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The index that this process makes by itself."""
    town = Town(tmp_path_factory.mktemp("alone") / "town").write()
    assert town.index().failures == ()
    return town


@pytest.fixture
def town(tmp_path):
    return Town(tmp_path / "town").write()


def workers_of(pid=None):
    found = []
    for process in psutil.Process(pid or os.getpid()).children(recursive=True):
        with suppress(psutil.Error):  # one that has just ended
            found += [process] if "workers.process_worker" in " ".join(process.cmdline()) else []
    return found


def test_without_a_model_the_index_is_that_of_one_process(tmp_path, monkeypatch):
    """Workers find the names and choose what reports quote, of several groups of communities at a time."""
    first, second = (Town(tmp_path / name).write() for name in ("alone", "town"))
    monkeypatch.setattr(report_stage, "COMMUNITIES_PER_GROUP", 1)
    first.index(extractor="phrases")
    for task in (FindPhrases, SelectSentences):
        monkeypatch.setattr(task, "run", lambda *_: pytest.fail("this process did it"))
    second.index(TWO, extractor="phrases")

    assert second.tables() == first.tables()
    assert second.tables()["reports"]
    assert not second.asked()
    assert not workers_of()


def test_the_index_is_that_of_one_process_with_a_model(alone, town, monkeypatch):
    """They find sentences and phrases, and have ended when the chat model is asked."""
    began, asked = [], []
    start, generate = ProcessWorker.start, Noting.generate
    monkeypatch.setattr(ProcessWorker, "start", lambda self: (began.append(self), start(self))[1])
    monkeypatch.setattr(Noting, "generate", lambda self, request: (asked.append(len(workers_of())), generate(self, request))[1])
    outcome = town.index(TWO)

    assert outcome.failures == ()
    assert town.tables() == alone.tables()
    assert len(began) >= 2
    assert asked
    assert not any(asked)
    assert not workers_of()


def test_for_a_few_chunks_no_process_is_begun(town, monkeypatch):
    """It would take longer than the chunks."""
    monkeypatch.setattr(ProcessWorker, "start", lambda _self: pytest.fail("a process began"))
    assert town.index(local_pool()).failures == ()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_worker_that_is_killed_costs_what_it_had_under_way(tmp_path, seed):
    """At any moment: it is done again, a new process takes its place, and the index is the same."""
    alone, town = (Town(tmp_path / name, texts=60).write() for name in ("alone", "town"))
    alone.index(extractor="phrases")
    ended, kills = threading.Event(), []

    def killer():
        chance = random.Random(seed)
        while not ended.wait(chance.uniform(0.05, 0.4)) and len(kills) < 2:  # a third might end the same task, which is then given up
            if found := workers_of():
                victim = chance.choice(found)
                kills.append(victim.pid)
                victim.kill()

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        outcome = town.index(TWO, extractor="phrases")
    finally:
        ended.set()
        thread.join()

    assert kills
    assert outcome.failures == ()
    assert town.tables() == alone.tables()


def refuses_to_start(code, first=1):
    """A `ChildProcess` that raises OSError of this code from its call number `first` on."""
    asked = count(1)

    def started(*args, **kwargs):
        if next(asked) >= first:
            raise OSError(code, os.strerror(code))
        return ChildProcess(*args, **kwargs)

    return started


def within(seconds, work):
    """The result of `work`; ends this process if it takes longer."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            return running.result(seconds)
        except TimeoutError:
            os._exit(1)  # nothing else ends an event loop that waits forever


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM])
@pytest.mark.parametrize("first", [1, 2])
def test_where_workers_cannot_be_started_the_others_or_this_process_do_the_work(alone, town, monkeypatch, code, first):
    """Where the machine has too many processes, or no memory for another one: the index is the same."""
    monkeypatch.setattr(process_worker, "ChildProcess", refuses_to_start(code, first))
    assert within(300, lambda: town.index(TWO)).failures == ()
    assert town.tables() == alone.tables()


class Broken:
    """A configuration that cannot be opened."""

    def open(self):
        os.kill(os.getpid(), signal.SIGKILL)


def test_where_every_process_ends_at_once_this_one_does_it_all(alone, town, monkeypatch):
    """As where the machine has no memory for a second one."""
    monkeypatch.setattr(pool_workers, "worker_config", lambda *_args, **_options: Broken())

    assert town.index(TWO).failures == ()
    assert town.tables() == alone.tables()


DRIVER = """
import sys
from pathlib import Path
from localrag.indexing.workers.pool import local_pool
from tests.indexing.workers.tools import Town
Town(Path(sys.argv[1]), seconds=0.05).index(local_pool(2, from_chunks=0))
"""


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_one_who_hands_out_jobs_is_killed(alone, tmp_path, seed):
    """Its workers end with it; the next run goes on, asks for no committed answer again, and the index is the same."""
    town = Town(tmp_path / "town").write()
    root = Path(__file__).parents[3]
    chance, kills = random.Random(seed), 0
    while kills < 3:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(town.folder)],
            env=os.environ | {"PYTHONPATH": str(root)},
            cwd=root,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(chance.uniform(2, 6))
        except subprocess.TimeoutExpired:
            workers = workers_of(process.pid)
            process.kill()
            process.wait()
            kills += 1
            _, alive = psutil.wait_procs(workers, timeout=10)
            assert not alive
        else:
            break
    before = town.asked()
    committed = {row for row in town.tables()["llm_calls"]} if (town.folder / ".localrag").exists() else set()
    town.index(TWO)

    assert town.tables() == alone.tables()
    again = sum(town.asked().values()) - sum(before.values())
    assert again == len(town.tables()["llm_calls"]) - len(committed)


def test_nothing_is_written_by_a_worker_but_its_caches(town, home, tmp_path, monkeypatch):
    """What a document says is in no file outside the index: neither in caches nor in temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (town.folder / "docs" / "secret.txt").write_text("Ingrid Holm hid the Zyxomma in Vardby.")
    town.index(TWO)

    assert b"Zyxomma" in (town.folder / ".localrag" / "index.db").read_bytes()
    written = [f for top in (home, tmp_path / "temporary") for f in top.rglob("*") if f.is_file()]
    assert not [f for f in written if b"Zyxomma" in f.read_bytes()]


@pytest.mark.slow
def test_the_demo_by_the_bundled_models_is_that_of_one_process(tmp_path):
    """Also where the tagger reads in every process, and the model what is in another language."""
    found = []
    for name, hire in (("one", in_process_pool), ("two", TWO)):
        shutil.copytree(CORPUS, tmp_path / name / "docs")
        with open_for_writing(tmp_path / name / ".localrag") as project:
            outcome = asyncio.run(build_index([tmp_path / name / "docs"], project, lambda _: None, hire=hire))
            assert outcome.failures == ()
            assert outcome.calls > 0
        found.append(tables(tmp_path / name / ".localrag"))

    assert found[0] == found[1]
