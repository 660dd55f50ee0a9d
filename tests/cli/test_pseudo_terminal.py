"""Every command on a real terminal of 60 columns: its help, its first use in an empty home, what it lists, without colours, and in a pipe.

The commands come from the program itself: one that is new and not in FIRST fails here.
"""

import contextlib
import os
import pty
import re
import shutil
import termios
import unicodedata

import pytest

from tests.forked import Forked, run_forked
from tests.terminals import STYLE, runnable

COLUMNS = 60
# What a command ends in where there is nothing yet: no index, no model of one's own, no file. 0: it works all the same.
FIRST = {
    "index": ("docs", 2), "ask": ("Who?", 3), "chat": ("", 3), "source": ("1", 3), "search": ("ferry", 3), "entity": ("Skua", 3),
    "themes": ("", 3),
    "tree": ("", 3), "report": ("0.0", 3), "questions": ("", 3), "logs": ("", 3), "status": ("", 3), "files": ("", 3), "check": ("", 3),
    "doctor": ("--index nowhere", 3), "rm": ("a.txt", 3), "reembed": ("", 3), "demo": ("-i /dev/null/x", 1), "tune": ("", 3),
    "serve": ("", 3), "mcp": ("", 3), "help": ("", 0), "models list": ("--all", 0), "models add": ("a.gguf", 4),
    "models test": ("nothing", 4), "models use": ("nothing", 4), "models rm": ("nothing", 2),
    "models pull": ("nothing", 2), "merges list": ("", 3), "merges undo": ("1", 3), "merges add": ("a b", 3),
    "eval extraction": ("nothing --format marked", 2), "eval retrieval": ("nothing", 2), "eval qa": ("nothing", 2),
    "eval support": ("nothing", 2), "bench": ("--style nothing", 2),
    "bench compare": ("a b", 2), "bench runs": ("", 0), "bench engine": ("--model nothing", 4),
    "collections list": ("", 3), "collections rename": ("a b", 3), "collections rm": ("a", 3),
    "config": ("", 0), "config get": ("mode", 0), "config set": ("mode best", 2),
    "config unset": ("mode", 2), "config trust": ("", 2),
    "prompts list": ("", 0), "prompts show": ("nothing", 2), "prompts edit": ("nothing", 2), "prompts trust": ("", 2),
    "sessions list": ("", 3), "sessions search": ("ferry", 3),
    "sessions show": ("1", 3), "sessions rm": ("1", 3), "export": ("jsonl out", 3), "pack": ("a.pack", 3), "unpack": ("a.pack", 2),
    "import graphrag": ("nothing", 2),
    "worker": ("", 2), "gc": ("", 3), "wiki": ("out", 3),
    "review": ("nothing", 2), "timeline": ("", 3), "list": ("ships", 3), "compare": ("a b", 3),
}  # fmt: skip


ALL = sorted(name for name, _ in runnable())


def environment(home, **more):
    """That of a user who has just logged in: a home, and nothing of Python's or localrag's."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "LOCALRAG_HOME")}
    return kept | {"HOME": str(home), "TERM": "xterm-256color"} | more


def typed(line, cwd, **env):
    """What a command shows on a terminal, and its exit code."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, COLUMNS))
    process = Forked(*line.split(), cwd=cwd, env=environment(cwd, **env), stdin=slave, stdout=slave, stderr=slave, terminal=True)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the process has closed its end
        while piece := os.read(master, 65536):
            shown += piece
    os.close(master)
    return shown.decode(errors="replace").replace("\r\n", "\n"), process.wait(280)


def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def too_wide(text):
    """The lines that a terminal has to break; those that name a file are as long as its path."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines()
    return [line for line in lines if width(line.rstrip()) > COLUMNS and "/" not in line]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A home in which there is nothing, not even localrag's own."""
    return tmp_path_factory.mktemp("empty")


def test_no_command_is_forgotten():
    """What is tried here is what there is."""
    assert sorted(FIRST) == ALL


@pytest.mark.parametrize("name", ALL)
@pytest.mark.ci
def test_help_fits_a_narrow_terminal(name, empty):
    """No line is wider than 60 columns, none is coloured, and it begins with how the command is used."""
    shown, code = typed(f"{name} --help", empty, NO_COLOR="1")

    assert code == 0, shown
    assert shown.startswith("Usage: ")
    assert too_wide(shown) == []
    assert not STYLE.search(shown)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.ci
def test_a_first_use_in_an_empty_home_ends_in_words(name, empty):
    """Where there is nothing yet, a command says so and what to do, in one known exit code; nothing is made, and nothing coloured."""
    args, expected = FIRST[name]
    shown, code = typed(f"{name} {args}", empty, NO_COLOR="1", LOCALRAG_HOME=str(empty / "own"))

    assert code == expected, shown
    assert "Traceback" not in shown
    assert "unexpected" not in shown
    assert expected == 0 or "→" in shown or "Usage:" in shown
    assert not re.search(r"\x1b\[[0-9;]*[349][0-7]m", shown)
    assert not (empty / ".localrag").exists()


@pytest.fixture(scope="module")
def town(plain_town, tmp_path_factory):
    """A copy of the indexed town."""
    folder = tmp_path_factory.mktemp("shown") / "town"
    shutil.copytree(plain_town, folder)
    return folder


LISTS = ("status", "files", "tree", "merges list", "models list --all", "help")


@pytest.mark.parametrize("line", LISTS)
@pytest.mark.ci
def test_lists_fit_a_narrow_terminal_and_leave_pipes_clean(line, town):
    """On 60 columns nothing is wider but paths; in a pipe there is not one escape."""
    shown, code = typed(line, town)
    piped = run_forked(*line.split(), cwd=town, env=environment(town))

    assert code == piped.returncode == 0, shown
    assert too_wide(shown) == []
    assert "\x1b" not in piped.stdout + piped.stderr
