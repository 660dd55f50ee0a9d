"""Runs that the page starts: one at a time, as processes that leave the processors to questions."""

import os
import sys

import psutil
import pytest

from localrag.errors import IndexBusy
from localrag.serve.context import NICE, IndexProcess
from tests.conftest import until


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
    until(lambda: not jobs.is_running)
    assert "missing" in jobs.error_text
