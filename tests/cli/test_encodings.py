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


@pytest.mark.ci
def test_arguments_in_a_plain_locale_are_read_as_utf8(own_town):
    """A question in Chinese is understood where the locale is C and nothing puts UTF-8 in its place."""
    done = ask(own_town, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert done.returncode == 0, done.stderr
    assert b"2 txt, 1 md" in done.stdout
