"""Processes of the command line that start at once: each is forked from one process that has loaded the libraries."""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_servers: dict[int, tuple[socket.socket, subprocess.Popen[bytes]]] = {}  # by the process that uses it


def _server() -> socket.socket:
    """The connection to the process that forks; it is started by the first who needs it, and ends with this one."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)}
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, stdin=subprocess.DEVNULL)
        theirs.close()
        _servers[os.getpid()] = ours, process
        atexit.register(_end, os.getpid())
    return _servers[os.getpid()][0]


def _end(user: int) -> None:
    if os.getpid() == user:
        connection, process = _servers.pop(user)
        connection.close()
        process.wait(10)


class Forked:
    """A process of `localrag` with the interface of `subprocess.Popen`: files or `subprocess.PIPE` for its streams.

    `terminal`: its standard input becomes the terminal that controls it, as in a window of its own. `program`: the name by which it was
    called; without one it is `python -m localrag`.
    """

    def __init__(
        self,
        *args: str,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        new_session: bool = False,
        terminal: bool = False,
        program: str = "",
    ) -> None:
        self.args, self.returncode = args, None
        ends, self.stdin, self.stdout, self.stderr = [], None, None, None
        for number, wanted in enumerate((stdin, stdout, stderr)):
            if wanted == subprocess.PIPE:
                reads, writes = os.pipe()
                ends.append(reads if number == 0 else writes)
                if number == 0:
                    self.stdin = os.fdopen(writes, "w", encoding="utf-8")
                else:
                    setattr(self, ("stdout", "stderr")[number - 1], os.fdopen(reads, encoding="utf-8"))
            elif wanted == subprocess.DEVNULL:
                ends.append(os.open(os.devnull, os.O_RDWR))
            else:
                ends.append(os.dup(number if wanted is None else wanted))
        self._state, theirs = socket.socketpair()
        given = {"args": args, "cwd": str(cwd), "env": dict(os.environ if env is None else env), "program": program}
        request = json.dumps(given | {"new_session": new_session or terminal, "terminal": terminal}).encode()
        server = _server()
        socket.send_fds(server, [len(request).to_bytes(4, "big")], [*ends, theirs.fileno()])
        server.sendall(request)
        for end in ends:
            os.close(end)
        theirs.close()
        self.pid = int.from_bytes(self._state.recv(4), "big")

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._read_code(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. Raises subprocess.TimeoutExpired."""
        code = self._read_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def _read_code(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._state.settimeout(timeout)
            with contextlib.suppress(TimeoutError, BlockingIOError):
                said = self._state.recv(4)
                assert said, "the process that forks has ended"
                self.returncode = int.from_bytes(said, "big", signed=True)
                self._state.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: str | bytes | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write to it, read what it says, and wait for its end. Raises subprocess.TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        said = {"stdout": "", "stderr": ""}

        def read(name: str) -> None:
            with getattr(self, name) as stream:
                said[name] = stream.read()

        def write() -> None:
            with contextlib.suppress(BrokenPipeError), self.stdin.buffer as stdin:
                stdin.write(given.encode() if isinstance(given, str) else given or b"")

        tasks = [threading.Thread(target=read, args=(name,), daemon=True) for name in said if getattr(self, name)]
        tasks += [threading.Thread(target=write, daemon=True)] if self.stdin else []
        for task in tasks:
            task.start()
        for task in tasks:
            task.join(None if until is None else max(0.0, until - time.monotonic()))
        self.wait(None if until is None else max(0.001, until - time.monotonic()))
        return said["stdout"], said["stderr"]


def run_forked(
    *args: str,
    cwd: Path,
    timeout: float = 600,
    given: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    program: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, to its end."""
    pipe, stdin = subprocess.PIPE, subprocess.DEVNULL if given is None else subprocess.PIPE
    process = Forked(*args, cwd=cwd, env=env, stdin=stdin, stdout=pipe, stderr=pipe, program=program)
    try:
        said, told = process.communicate(given, timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(args, process.wait(), said, told)
