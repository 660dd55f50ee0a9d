"""Servers that drip: a byte now and then keeps no exchange alive, and Ctrl-C and --max-seconds end a question in every phase."""

import asyncio
import shutil
import signal
import subprocess
import sys
import time

import pytest

from localrag.engine.remote import client
from localrag.engine.remote.client import ConnectionLost, http_config
from localrag.engine.remote.servers import query_server
from localrag.model_files import find_chat_model
from tests.conftest import run_process
from tests.servers import Dripping

PHASES = ("/v1/models", "/props", "/tokenize", "/v1/chat/completions")  # listing, probing, counting tokens, answering


@pytest.fixture(scope="module")
def town(plain_town, tmp_path_factory):
    """An index whose questions a model server answers."""
    return shutil.copytree(plain_town, tmp_path_factory.mktemp("dripping") / "town")


@pytest.mark.parametrize("form", ["spaces", "headers"])
@pytest.mark.ci
def test_a_small_exchange_has_one_deadline_for_all_of_it(form):
    """Whether the headers or the body drip, for a value that is fetched and for one that is posted."""
    with Dripping(["/v1/models"], form) as server:
        for exchange in (
            lambda: client.get(http_config(server.url), f"{server.url}/models", 0.5),
            lambda: client.post(http_config(server.url), f"{server.url}/models", {}, 0.5),
        ):
            began = time.monotonic()
            with pytest.raises(ConnectionLost):
                asyncio.run(exchange())
            assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("form", ["spaces", "headers", "comments"])
@pytest.mark.ci
def test_an_answer_that_brings_nothing_ends(form, monkeypatch):
    """Bytes that are no event of an answer do not prolong it."""
    monkeypatch.setattr(client, "READ_TIMEOUT_S", 0.6)
    with Dripping(["/v1/chat/completions"], form) as server:
        began = time.monotonic()
        with pytest.raises(ConnectionLost):
            asyncio.run(client.stream(http_config(server.url), f"{server.url}/chat/completions", {}, lambda _: None))
        assert time.monotonic() - began < 1.5


@pytest.mark.ci
def test_an_answer_may_take_longer_than_each_of_its_parts(monkeypatch):
    """Events prolong it, up to the time that the whole of it may take."""
    monkeypatch.setattr(client, "READ_TIMEOUT_S", 0.6)
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_S", 1.5)
    events = []
    with Dripping(["/v1/chat/completions"], "text") as server:
        began = time.monotonic()
        with pytest.raises(ConnectionLost):
            asyncio.run(client.stream(http_config(server.url), f"{server.url}/chat/completions", {}, events.append))
        assert 1.2 < time.monotonic() - began < 3
    assert len(events) >= 5


@pytest.mark.ci
@pytest.mark.parametrize("slow", [PHASES[:1], PHASES[1:2], PHASES[:3]])
def test_what_a_server_is_asked_first_has_a_deadline(slow):
    """However many of its addresses drip, and whichever."""
    with Dripping(slow) as server:
        began = time.monotonic()
        assert asyncio.run(query_server(http_config(server.url), server.url, find_chat_model(f"{server.url}#m"))) is None
        assert time.monotonic() - began < 12


@pytest.mark.ci
@pytest.mark.parametrize(("phase", "form"), [*((phase, "spaces") for phase in PHASES), ("/v1/models", "headers")])
@pytest.mark.parametrize("command", [("ask", "Who is the mate of the Skua?"), ("index",)])
def test_an_interrupt_ends_a_command_in_every_phase(town, tmp_path, command, phase, form):
    """Within seconds, wherever the server drips; also where the exchange takes place while an event loop runs."""
    if command[0] == "index":
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "a.txt").write_text("Ingrid Holm bought the ferry Skua in Vardby.")
        command = ("index", str(tmp_path / "docs"), "--index", str(tmp_path / ".localrag"), "--extractor", "model")
    else:
        command = (*command, "--index", str(town / ".localrag"), "--style", "abstractive")
    with Dripping([phase], form) as server:
        command = [sys.executable, "-m", "localrag", *command, "--model", f"{server.url}#m"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert server.begun.wait(60)
            time.sleep(0.5)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
            assert time.monotonic() - began < 10
            assert process.returncode == 130
        finally:
            process.kill()


@pytest.mark.ci
@pytest.mark.parametrize("phase", PHASES)
def test_the_time_of_a_question_holds_in_every_phase(town, phase):
    """What is over it is no more than the deadline of the first exchanges; a server that is known to be there leaves the answer so far."""
    with Dripping([phase], "comments" if phase == PHASES[-1] else "spaces") as server:
        asked = ("ask", "Who is the mate of the Skua?", "--style", "abstractive", "--model", f"{server.url}#m", "--max-seconds", "5")
        done = run_process(*asked, cwd=town, timeout=40)
    if phase in PHASES[2:]:
        assert done.returncode == 0, done.stderr
        assert "Stopped at the limit of 5 s" in done.stderr
