"""Runs that the page starts: one at a time, as processes that leave the processors to questions."""

import os
import sys

import psutil
import pytest

from localrag.errors import IndexBusy
from localrag.serve.jobs import NICE, Jobs


@pytest.fixture
def jobs(tmp_path):
    """Runs over a folder without an index."""
    made = Jobs(tmp_path / ".localrag")
    yield made
    made.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX priorities")
def test_a_run_has_little_priority_and_is_not_met_by_an_interrupt_at_the_terminal(jobs, tmp_path):
    """It is of this session, among whose processes priorities count, and of a process group of its own."""
    jobs.start("index", [str(tmp_path)])
    pid = jobs._process.pid
    assert psutil.Process(pid).nice() == NICE
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid


def test_a_second_run_is_refused_until_the_first_has_ended(jobs, tmp_path):
    """It is said, with what to do."""
    jobs.start("index", [str(tmp_path)])
    with pytest.raises(IndexBusy, match="being changed already"):
        jobs.start("index", [str(tmp_path)])
    jobs.close()
    assert not jobs.running


def test_what_a_run_said_when_it_failed_is_kept(jobs, tmp_path):
    """The reason is there for the page."""
    jobs.start("index", [str(tmp_path / "missing")])
    jobs._process.wait(60)
    assert "missing" in jobs.failed_with
