"""Child processes: what is sent arrives, what hangs is given up, and a child that ends says why."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from localrag.system.child_process import ChildProcess

ECHO = "tests.system.echo_child"


@pytest.fixture
def child():
    with closing(ChildProcess(ECHO)) as started:
        yield started


def test_messages_arrive_as_they_were_sent(child):
    """Long ones, and names of files with bytes that are no text; what the child prints is no message."""
    for message in ({"do": "echo", "path": os.fsdecode(b"a\xff.txt")}, {"do": "echo", "text": "ä" * 2_000_000}):
        child.send(message)
        assert child.receive(60) == message


def test_messages_of_several_threads_are_not_mixed(child):
    """Each is whole, and what is sent meanwhile is answered."""
    child.send({"do": "listen"})
    child.send({"n": 8})
    received = [child.receive(60) for _ in range(9)]

    assert sorted(m["n"] for m in received) == list(range(9))
    assert {len(m.get("text", "")) for m in received} == {0, 300_000}


def test_a_child_that_says_nothing_is_given_up_at_the_deadline(child):
    """The wait ends when it is due, and the process with `close`."""
    child.send({"do": "hang"})
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        child.receive(0.5)
    child.close()

    assert time.monotonic() - began < 30
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"do": "fail"}, "its process ended with code 1: ValueError: the disk is full"),
        ({"do": "exit"}, "its process ended with code 7: nothing to do"),
        ({"do": "signal", "signal": signal.SIGABRT}, "it ended its process by SIGABRT"),
        ({"do": "signal", "signal": signal.SIGKILL}, "its process was killed, most likely because memory ran out"),
    ],
)
def test_why_a_child_ended_is_said(child, message, why):
    """By its exit code or signal, and the end of what it wrote about it."""
    child.send(message)
    with pytest.raises(EOFError):
        child.receive(60)

    assert child.why_ended() == why


def test_a_program_that_the_child_starts_does_not_get_its_messages(child):
    """Its stdin is empty."""
    child.send({"do": "read stdin"})
    assert child.receive(60) == ""


def test_an_isolated_child_has_no_variables_but_those_given(monkeypatch):
    """And is in a process group of its own, which an interrupt at the terminal does not reach."""
    monkeypatch.setenv("SECRET_TOKEN", "treasure")
    root = str(Path(__file__).parents[2])
    with closing(ChildProcess(ECHO, environment={"PYTHONPATH": root}, isolated=True)) as child:
        child.send({"do": "echo"})
        assert child.receive(60) == {"do": "echo"}
        assert "SECRET_TOKEN" not in psutil.Process(child.pid).environ()
        assert os.getpgid(child.pid) == child.pid != os.getpgrp()


@pytest.mark.ci
def test_a_child_ends_with_its_parent():
    """Also one that computes, as long as it listens."""
    code = f"""from localrag.system.child_process import ChildProcess
child = ChildProcess({ECHO!r}); child.send({{"do": "listen"}}); child.receive(); print(child.pid, flush=True); child.receive(); input()"""
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}
    ) as parent:
        process = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    assert psutil.wait_procs([process], timeout=30)[1] == []
