"""Child processes that run a module: messages in both directions, deadlines, the reason of an end. A child ends with its parent.

Messages go through an unnamed socket pair, which no other process can write to: a length, then JSON, or a pickle if both ends run only this
package. The child's end is its stdin. Its stdout and stderr go to a file, whose tail tells why it failed.
"""

import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from localrag.system.python_process import RUN_MODULE, python_process

MAX_MESSAGE_BYTES = 2**31
STDERR_TAIL_CHARS = 300
EXIT_TIMEOUT_S = 10.0  # for a process that closed its end of the connection
_LENGTH = struct.Struct("<Q")
_READ_BYTES = 1 << 20


def isolated_environment(names: Iterable[str]) -> dict[str, str]:
    """The environment of a process that gets only these variables, and PYTHONPATH."""
    _, env = python_process("")
    return {name: env[name] for name in (*names, "PYTHONPATH") if name in env}


@dataclass(frozen=True, slots=True)
class Codec:
    """The encoding of messages as bytes."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


# File names may hold any byte, hence surrogates; `json.loads` reads them too.
JSON = Codec(lambda message: json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass"), json.loads)
PICKLE = Codec(partial(pickle.dumps, protocol=5), pickle.loads)


class _Connection:
    def __init__(self, end: socket.socket, codec: Codec) -> None:
        self._socket, self._codec = end, codec

    def _packed(self, message: Any) -> bytes:
        data = self._codec.encode(message)
        return _LENGTH.pack(len(data)) + data

    def receive(self, timeout: float | None = None) -> Any:
        """Receive a message. Raises TimeoutError, EOFError if the other end is closed, ValueError for an invalid message."""
        deadline = None if timeout is None else time.monotonic() + timeout
        length = _checked_length(self._read(_LENGTH.size, deadline))
        return self._codec.decode(self._read(length, deadline))

    def _read(self, count: int, deadline: float | None = None) -> bytes:
        # `os.read` instead of `recv`: the seccomp filter of the parser process allows no other call.
        parts: list[bytes] = []
        while count:
            if deadline is not None:
                self._wait_for_bytes(deadline)
            try:
                part = os.read(self._socket.fileno(), min(count, _READ_BYTES))
            except ConnectionError:  # closed with unread messages
                part = b""
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait_for_bytes(self, deadline: float) -> None:
        with DefaultSelector() as selector:
            selector.register(self._socket, EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError


def _checked_length(head: bytes) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {length} bytes")
    return int(length)


class ChildProcess(_Connection):
    """A child process, seen from its parent."""

    def __init__(
        self, module: str, *arguments: str, codec: Codec = JSON, environment: Mapping[str, str] | None = None, isolated: bool = False
    ) -> None:
        """Start the process. Raises OSError if the machine allows no further process.

        `environment`: variables besides those of this process. `isolated`: only these variables, no imports but of libraries and
        localrag, no interrupts from the terminal, and its output is discarded.
        """
        self._output = None if isolated else tempfile.TemporaryFile()  # noqa: SIM115 — closed in `_release`
        command, variables = python_process(RUN_MODULE, module, *arguments, isolated=isolated)
        parent_end, child_end = socket.socketpair()
        super().__init__(parent_end, codec)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=child_end.fileno(),
                stdout=self._output or subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                env=environment if isolated else variables | dict(environment or {}),
                process_group=0 if isolated else None,
            )
        except OSError:
            self._release()
            raise
        finally:
            child_end.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Any, *, descriptor: int | None = None, timeout: float | None = None) -> None:
        """Send a message, and an open file if `descriptor` is given. Raises TimeoutError, OSError if the child has ended."""
        data, sent = self._packed(message), 0
        self._socket.settimeout(timeout)
        try:
            if descriptor is not None:
                sent = socket.send_fds(self._socket, [data[: _LENGTH.size]], [descriptor])
            self._socket.sendall(data[sent:])
        finally:
            self._socket.settimeout(None)

    def wait(self) -> int:
        """The exit code of a child that closed its end; kills it if it does not exit within EXIT_TIMEOUT_S."""
        try:
            return self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def why_ended(self) -> str:
        """The reason why a child ended: its exit code or signal, and its error output."""
        code, text = self.wait(), ""
        if self._output is not None:
            self._output.seek(0)
            text = self._output.read().decode(errors="replace").strip()
        reason = next((line.strip() for line in reversed(text.splitlines()) if "GGML_ASSERT" in line or "error" in line.lower()), "")
        if code == -signal.SIGKILL:
            return "its process was killed, most likely because memory ran out"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return f"it ended its process by {name}" + (f": {reason[:STDERR_TAIL_CHARS]}" if reason else "")
        detail = reason[:STDERR_TAIL_CHARS] or " ".join(text[-STDERR_TAIL_CHARS:].split())
        return f"its process ended with code {code}" + (f": {detail}" if detail else "")

    def kill(self) -> None:
        """Kill the process, from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and release its resources."""
        self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        self._socket.close()
        if self._output is not None:
            self._output.close()


class ParentConnection(_Connection):
    """The connection to the parent, seen from a child."""

    def __init__(self, codec: Codec = JSON, *, at_stdin: bool = False) -> None:
        """`at_stdin`: keep descriptor 0, the only one on which the sandbox's filter allows receiving files."""
        super().__init__(socket.socket(fileno=0 if at_stdin else os.dup(0)), codec)
        if not at_stdin:  # otherwise programs started by this process would keep the connection open
            with Path(os.devnull).open("rb") as null:
                os.dup2(null.fileno(), 0)
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a message, from any thread. Raises OSError if the parent has ended."""
        data = memoryview(self._packed(message))
        with self._lock:
            while data:
                data = data[os.write(self._socket.fileno(), data) :]

    def receive_with_file(self) -> tuple[Any, int]:
        """Receive a message and the descriptor of the file sent with it. Raises EOFError once the parent has ended."""
        head, descriptors, *_ = socket.recv_fds(self._socket, _LENGTH.size, 1)
        if not head or not descriptors:
            raise EOFError
        length = _checked_length(head + self._read(_LENGTH.size - len(head)))
        return self._codec.decode(self._read(length)), descriptors[0]

    def listen(self, on_message: Callable[[Any], object] = lambda _: None) -> None:
        """Pass every further message to `on_message`, in a thread; exit this process once the parent has ended."""

        def receive_all() -> None:
            try:
                while True:
                    on_message(self.receive())
            except EOFError:
                pass
            except Exception:  # noqa: BLE001 — printed for the parent to read
                traceback.print_exc()
            os._exit(1)

        threading.Thread(target=receive_all, daemon=True).start()


def set_oom_score(score: int) -> None:
    """Let the kernel kill this process before its parent when memory runs out: `score` is 0 to 1000 (Linux)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(score), encoding="ascii")
