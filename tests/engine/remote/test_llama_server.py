"""Everything about servers once more with llama.cpp's own, in a process of its own, with the bundled model."""

import asyncio
import contextlib
import json
import sqlite3
import threading
import time

import pytest

from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.settings import EngineOptions
from localrag.llm.grammar import entity_lines
from tests.conftest import run_process
from tests.engine.remote.asking import YES_OR_NO, known, request
from tests.indexing.runs import put
from tests.servers import LlamaServer

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.ci
SLOTS, WINDOW = 2, 4096
DOCUMENTS = {
    "note.md": "# The ferry\n\nIngrid Holm bought the ferry Skua from the Northern Line in Vardby. Lars Holm is the mate of the Skua.\n",
    "letter.md": "Lars Holm wrote to Mayor Ruth Sand that the Skua leaks. Mayor Ruth Sand asked the Northern Line to pay.\n",
    "minutes.md": "The council of Vardby met in 1974. Mayor Ruth Sand said that the harbour needs a new pier.\n",
    "answer.md": "The Northern Line answered that Ingrid Holm had seen the Skua in Tromso before she signed.\n",
}


@pytest.fixture
def start(chat_file, tmp_path):
    """A function that starts a server beside a folder of documents; all are killed in the end."""
    put(tmp_path, DOCUMENTS)
    made = []

    def started():
        made.append(LlamaServer(chat_file.path, slots=SLOTS, window=WINDOW))
        return made[-1]

    yield started
    for server in made:
        server.kill()


@pytest.fixture(scope="module")
def shared(chat_file):
    """A server for the tests that leave it as it is."""
    server = LlamaServer(chat_file.path, slots=SLOTS, window=WINDOW)
    yield server
    server.kill()


def busy(server):
    """How many of a server's slots compute."""
    return sum(slot["is_processing"] for slot in server.get("/slots") or [])


QUESTION = "Ingrid Holm bought the ferry Skua in Vardby. What is the Skua?"


def remote(server):
    return RemoteEngine(known(server.url, "smol"), EngineOptions())


def calls(folder):
    """Committed calls of an index, requests that its runs' servers answered, and chunks that failed."""
    db = sqlite3.connect(folder / ".localrag" / "index.db")
    committed = db.execute("SELECT count(*) FROM llm_calls").fetchone()[0]
    figures = [json.loads(row[0] or "{}") for row in db.execute("SELECT engine_metrics FROM runs")]
    failures = db.execute("SELECT subject, reason FROM failures").fetchall()
    db.close()
    return committed, sum(t["requests"] for f in figures for t in f.get("tasks", {}).values()), failures


def test_llama_cpp_tells_and_answers(shared):
    """Its window, slots and size are known; a yes or no, names and plain text come back in their forms; streams are what is kept."""
    engine, shown = remote(shared), []
    assert (engine.window, engine.parallel_requests, engine.parameters) == (WINDOW, SLOTS, 134515008)

    async def ask():
        kinds = entity_lines(["Skua", "Vardby"], ["thing", "place"])
        asked = [request(YES_OR_NO, QUESTION, 4), request(kinds, QUESTION, 100), request(text=QUESTION, on_text=shown.append)]
        return await asyncio.gather(*(engine.generate(one) for one in asked))

    verdict, typed, plain = asyncio.run(ask())
    assert verdict.text in ("yes", "no")
    assert [json.loads(line)["name"] for line in typed.text.splitlines()] == ["Skua", "Vardby"]
    assert len(shown) > 2
    assert "".join(shown) == plain.text
    assert plain.prompt_tokens > 20


def test_llama_cpp_stops_when_nobody_waits(shared):
    """A cancelled request frees its slot long before its answer would have ended."""

    async def run():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await remote(shared).generate(request(max_tokens=1500, text="Write a long story about a ferry, in many chapters."))

    asyncio.run(run())
    until = time.monotonic() + 60
    while busy(shared) and time.monotonic() < until:
        time.sleep(0.05)
    assert busy(shared) == 0


@pytest.mark.slow
def test_a_folder_is_indexed_through_llama_cpp_and_moves_with_it(start, tmp_path):
    """Index and questions work through the server without a failed call; at another port the same model is asked nothing again."""
    folder, first = tmp_path, start()
    done = run_process("index", "docs", "--model", f"{first.url}#smol", "--extractor", "model", cwd=folder)
    assert done.returncode == 0, done.stderr
    committed, asked, failures = calls(folder)
    assert committed == asked > 5
    assert failures == []
    answer = run_process("ask", "Who is the mate of the Skua?", "--json", cwd=folder)
    assert json.loads(answer.stdout)["citations"]
    first.kill()
    second = start()
    again = run_process("index", "docs", "--model", f"{second.url}#smol", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert calls(folder)[:2] == (committed, asked)
    assert second.get("/slots")[0].get("id_task", -1) in (-1, 0)


class Kills(threading.Thread):
    """Kills a server whenever some more calls of an index are committed, and starts it again after a while."""

    def __init__(self, server, folder, after):
        super().__init__(daemon=True)
        self.server, self.folder, self.after, self.killed = server, folder, after, 0

    def run(self):
        for count in self.after:
            while not (self.committed() >= count and busy(self.server)):
                time.sleep(0.05)
            self.server.kill()
            self.killed += 1
            time.sleep(1)
            self.server.start()

    def committed(self):
        with contextlib.suppress(sqlite3.Error):
            return calls(self.folder)[0]
        return 0


@pytest.mark.slow
def test_a_server_killed_twice_costs_no_chunk(start, tmp_path):
    """Killed in the middle of answers and started again, twice: the run waits, says so, ends without a failure and repeats no answer."""
    folder, server = tmp_path, start()
    kills = Kills(server, folder, after=(2, 6))
    kills.start()
    done = run_process("index", "docs", "--model", f"{server.url}#smol", "--extractor", "model", cwd=folder)
    committed, asked, failures = calls(folder)

    assert done.returncode == 0, done.stderr
    assert kills.killed == 2
    assert done.stderr.count("does not answer; waiting for it") == done.stderr.count("is back.") == 2
    assert failures == []
    assert committed == asked
