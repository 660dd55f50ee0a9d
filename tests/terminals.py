"""Commands in this process, and a terminal for tests: a process on pseudo-terminals of its own, what it writes, and keys typed to it."""

import codecs
import os
import pty
import re
import select
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte
import typer
from typer.testing import CliRunner, Result

from localrag.cli import app
from tests.forked import Forked

STYLE = re.compile(r"\x1b\[[0-9;]*m")
# The sentence being written, dim: behind the text or on the next line, and removed before anything else is printed.
DRAFT = re.compile(r"\x1b\[2m[^\x1b]*\x1b\[22m(?:\x1b\[\d+D\x1b\[K|\Z)|\n\x1b\[2m[^\x1b]*\x1b\[22m(?:\r\x1b\[K\x1b\[A(?:\x1b\[\d+C)?|\Z)")


def plain(text: str) -> str:
    """What was written to a terminal, without styles and drafts."""
    return STYLE.sub("", DRAFT.sub("", text))


def invoke(*args: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(args))


def out(*args: str) -> str:
    """What a command that succeeds prints."""
    done = invoke(*args)
    assert done.exit_code == 0, (args, done.output, done.exception)
    return done.stdout


def commands(group: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """The name and the command of everything on the command line, groups included."""
    for name, one in (group or typer.main.get_command(app)).commands.items():
        yield (here := f"{path} {name}".strip()), one
        if hasattr(one, "commands"):
            yield from commands(one, here)


def runnable() -> Iterator[tuple[str, Any]]:
    """Those that do something without another word."""
    return ((name, one) for name, one in commands() if not hasattr(one, "commands") or one.invoke_without_command)


class Terminal:
    """`localrag` with stdout and stderr on a terminal each; stdin is the one of stdout."""

    def __init__(self, *args: str, cwd: Path, columns: int = 100, **env: str) -> None:
        self.masters: dict[str, int] = {}
        slaves = {}
        for name in ("out", "err"):
            self.masters[name], slaves[name] = pty.openpty()
            termios.tcsetwinsize(slaves[name], (50, columns))
        self._seen = {"out": b"", "err": b""}
        unwanted = ("NO_COLOR", "COLUMNS")
        kept = {k: v for k, v in os.environ.items() if k not in unwanted}
        self.process = Forked(
            *args,
            cwd=cwd,
            stdin=slaves["out"],
            stdout=slaves["out"],
            stderr=slaves["err"],
            env=kept | {"TERM": "xterm-256color"} | env,
            new_session=True,
        )
        for slave in slaves.values():
            os.close(slave)

    def text(self, name: str) -> str:
        """All that was written to one of the terminals so far; `out` or `err`."""
        return self._seen[name].decode(errors="replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self.masters["out"], text.encode())

    def interrupt(self) -> None:
        """Ctrl-C, as the kernel passes it on from a keyboard."""
        self.process.send_signal(signal.SIGINT)

    def wait_for(self, name: str, pattern: str, seconds: float = 300) -> str:
        """Wait until what was written matches; returns it all."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.text(name)):
            if not self._read(1.0) and self.process.poll() is not None and not self._read(0.5):
                break
            assert time.monotonic() < until, (self.text("out"), self.text("err"))
        assert re.search(pattern, self.text(name)), (self.text("out"), self.text("err"))
        return self.text(name)

    def end(self, seconds: float = 300) -> int:
        """Wait for the end; the exit code."""
        until = time.monotonic() + seconds
        while self._read(0.2) or self.process.poll() is None or self._read(0):  # it may have written and ended between the first two
            assert time.monotonic() < until, (self.text("out"), self.text("err"))
        for master in self.masters.values():
            os.close(master)
        return self.process.wait()

    def _read(self, seconds: float) -> bool:
        found = False
        for master in select.select(list(self.masters.values()), [], [], seconds)[0]:
            name = next(n for n, m in self.masters.items() if m == master)
            try:
                data = os.read(master, 65536)
            except OSError:  # the process has closed its end
                data = b""
            self._seen[name] += data
            found = found or bool(data)
        if not found:
            time.sleep(0.02)
        return found


def in_terminal(*args: str, cwd: Path, **env: str) -> Terminal:
    """Run a command to its end on a terminal."""
    done = Terminal(*args, cwd=cwd, **env)
    assert done.end() == 0, (done.text("out"), done.text("err"))
    return done


class Screen:
    """`localrag` on one terminal, as a person sees it: what stands on the screen now, and keys typed to it."""

    def __init__(self, *args: str, cwd: Path, columns: int = 100, rows: int = 60, **env: str) -> None:
        unwanted = ("NO_COLOR", "COLUMNS", "LINES")
        kept = {k: v for k, v in os.environ.items() if k not in unwanted}
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.Stream(self._screen)
        self.written, self._answered = "", False
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (rows, columns))
        env = kept | {"TERM": "xterm-256color"} | env
        self.process = Forked(*args, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, terminal=True)
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def lines(self) -> list[str]:
        """The lines of the screen down to the last that is not blank."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """Wait until what was typed last has had an effect and the end of what stands on the screen matches; returns the whole of it."""
        until = time.monotonic() + seconds
        while True:
            shown = "\n".join(self.lines)
            if self._answered and re.search(f"(?:{pattern})\\Z", shown):
                return shown
            assert time.monotonic() < until, shown
            assert self._read() or self.process.poll() is None or self._read(), shown

    def wait_for_passing(self, pattern: str, seconds: float = 120) -> None:
        """Wait until something that matches was written, even if it is gone again."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.written):
            assert time.monotonic() < until, self.written
            self._read()

    def type(self, text: str) -> None:
        """Type on the keyboard; a line break is the Enter key."""
        self._answered = False
        os.write(self._master, text.replace("\n", "\r").encode())

    def paste(self, text: str) -> None:
        """Paste, as terminals that mark what is pasted do."""
        self._answered = False
        os.write(self._master, f"\x1b[200~{text}\x1b[201~".encode())

    def end(self, seconds: float = 60) -> int:
        """Wait for the end; the exit code."""
        until = time.monotonic() + seconds
        while self._read() or self.process.poll() is None or self._read():
            assert time.monotonic() < until, "\n".join(self.lines)
        os.close(self._master)
        return self.process.wait()

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 0.1)[0]:
            return False
        try:
            new = self._decoder.decode(os.read(self._master, 65536))
        except OSError:  # the process has closed its end
            time.sleep(0.02)
            return False
        self._answered = True
        self.written += new
        self._stream.feed(new)
        return True
