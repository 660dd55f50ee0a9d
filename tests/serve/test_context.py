"""Runs that the page starts: one at a time, as processes that leave the processors to questions."""

import json
import os
import shutil
import sys
import time

import psutil
import pytest

from localrag.errors import IndexBusy
from localrag.serve.context import NICE, IndexProcess
from tests.conftest import run_process
from tests.serve.server import served


@pytest.fixture
def jobs(tmp_path):
    """Runs over a folder without an index."""
    made = IndexProcess(tmp_path / ".localrag")
    yield made
    made.close()


def run_of(folder):
    """The process that runs on a folder's index."""
    (found,) = [p for p in psutil.Process().children() if str(folder / ".localrag") in p.cmdline()]
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX priorities")
@pytest.mark.ci
def test_a_run_has_little_priority_and_is_not_met_by_an_interrupt_at_the_terminal(jobs, tmp_path):
    """It is of this session, among whose processes priorities count, and of a process group of its own."""
    jobs.start("index", [str(tmp_path)])
    process = run_of(tmp_path)
    assert process.nice() == NICE
    assert os.getsid(process.pid) == os.getsid(0)
    assert os.getpgid(process.pid) == process.pid


@pytest.mark.ci
def test_a_second_run_is_refused_until_the_first_has_ended(jobs, tmp_path):
    """It is said, with what to do."""
    jobs.start("index", [str(tmp_path)])
    with pytest.raises(IndexBusy, match="being changed already"):
        jobs.start("index", [str(tmp_path)])
    jobs.close()
    assert not jobs.is_running


def test_what_a_run_said_when_it_failed_is_kept(jobs, tmp_path):
    """The reason is there for the page."""
    jobs.start("index", [str(tmp_path / "missing")])
    for _ in range(600):
        if not jobs.is_running:
            break
        time.sleep(0.1)
    assert "missing" in jobs.error_text


@pytest.mark.slow
@pytest.mark.ci
def test_a_run_that_the_page_starts_says_how_far_the_whole_is(plain_town, tmp_path):
    """Its share grows in the page's status, and `status --watch` in a terminal follows it to its end."""
    folder = tmp_path / "town"
    shutil.copytree(plain_town, folder)
    for n in range(30):
        (folder / "docs" / f"letter{n}.txt").write_text(f"Ada Quist met Number{n} Berg in Port{n}. " * 60, encoding="utf-8")
    with served(folder) as server, server.client() as client:
        client.post("/api/index", json={})
        shares, lines = [], ""
        for _ in range(600):
            run = client.get("/api/status").json()["run"]
            if run["state"] != "running":
                break
            if run["fraction"] and not lines:
                lines = run_process("status", "--watch", "--json", cwd=folder).stdout
            shares.append(run["fraction"] or 0.0)
            time.sleep(0.1)
    followed = [json.loads(line) for line in lines.splitlines()]

    assert run["state"] == "done"
    assert shares == sorted(shares)
    assert len(followed) > 2
    assert followed[-1]["state"] == "complete"
    assert followed[-1]["progress"]["fraction"] == 1.0
