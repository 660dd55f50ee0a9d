"""A terminal that is not UTF-8."""

import os
import subprocess
import sys

import pytest

QUESTION = "列出所有文件"  # list all files


def ask(folder, **env):
    """Ask in a process with another locale or encoding than that of the tests."""
    words = [sys.executable, "-m", "localrag", "ask", QUESTION]
    return subprocess.run(words, cwd=folder, env=os.environ | env, capture_output=True, timeout=600, check=False)


@pytest.mark.ci
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_a_terminal_cannot_show_becomes_a_question_mark(own_town, encoding):
    """The command ends well; the rest of the line is there."""
    done = ask(own_town, PYTHONIOENCODING=encoding)

    assert done.returncode == 0, done.stderr
    assert b"???: 3 (2 txt, 1 md)" in done.stdout
