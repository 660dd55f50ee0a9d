"""Indexing and removal that the page starts: `localrag` itself, as a process of its own with little priority.

How far it is, it writes into the index, as every run does; being killed harms it as little as Ctrl-C.
"""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from localrag.errors import IndexBusy

LAST_WORDS = 2_000  # bytes of what a failed run said
STOPS_WITHIN = 20.0  # seconds after an interrupt; then it is killed, which loses nothing that was committed
NICE = 10


class Jobs:
    """At most one process that changes the index, started by this server."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._following: threading.Thread | None = None
        self._unfinished = ""  # why `then` failed after the last process

    def start(self, command: str, paths: Sequence[str], then: Callable[[], None] | None = None) -> None:
        """Start `localrag COMMAND PATHS` on this index, and call `then` if it succeeds. Raises IndexBusy while another runs."""
        with self._lock:
            if self.running:
                raise IndexBusy("The index is being changed already.", "Wait for it, or stop it.")
            if self._said:
                self._said.close()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 — read while and after the process runs
            line = [sys.executable, "-m", "localrag", command, "--index", str(self._folder), "-q", *self._options, "--", *paths]
            # A group of its own, so that Ctrl-C in the terminal is not meant for it; but this session: Linux shares the processors out
            # among sessions first, so that in one of its own its little priority would mean nothing.
            self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said, process_group=0)
            with suppress(psutil.Error):  # it has ended already
                psutil.Process(self._process.pid).nice(NICE)
            self._unfinished, self._following = "", None
            if then:
                self._following = threading.Thread(target=self._follow, args=(self._process, then), name="localrag-run", daemon=True)
                self._following.start()

    def _follow(self, process: "subprocess.Popen[bytes]", then: Callable[[], None]) -> None:
        if process.wait() == 0:
            try:
                then()
            except (OSError, ValueError) as error:
                self._unfinished = str(error)

    @property
    def running(self) -> bool:
        """Whether a process of this server changes the index."""
        following = self._following is not None and self._following.is_alive()
        return following or (self._process is not None and self._process.poll() is None)

    @property
    def failed_with(self) -> str:
        """What the last process said, where it failed; files that could not be read (5) and an interrupt (130) are no failure."""
        if self._process is None or self._said is None or self._process.poll() in (None, 0, 5, 130, -signal.SIGINT, -signal.SIGKILL):
            return self._unfinished
        size = self._said.seek(0, 2)
        self._said.seek(max(0, size - LAST_WORDS))
        return self._said.read().decode(errors="replace").strip()

    def stop(self) -> None:
        """Interrupt the process, if one runs; it saves what it has."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Interrupt the process and wait until it has ended."""
        if self._process is not None and self.running:
            self.stop()
            try:
                self._process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._following is not None:
            self._following.join()
        if self._said:
            self._said.close()
