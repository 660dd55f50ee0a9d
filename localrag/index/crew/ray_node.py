"""This machine as one of a Ray cluster: Ray runs as a child process, in a private folder that is removed when it ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from localrag.errors import UsageError
from localrag.index.crew.cluster import NO_HTTP, SILENT, other_versions, start_arguments
from localrag.system.cores import free_cores

LEAVE = 20.0  # seconds for Ray to end by itself
SHORT = 20  # characters of a folder's path below which Ray's sockets still have room
VERSIONS = 5  # lines in which Ray says which versions differ, before it ends
STARTED = b"Ray runtime started"


def run_node(address: str, *, head: bool, ready: Callable[[], None]) -> int:
    """Be a machine of the cluster until an interrupt, or until Ray ends; the exit code, 0 after an interrupt.

    `ready` is called when Ray runs. Raises UsageError where the cluster refuses this machine.
    """
    # Short: the paths of sockets below it must be. Ray makes folders that everybody may read, so they stand in one that nobody else may.
    room = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="localrag-", dir=room if len(room) <= SHORT else "/tmp"))
    environment = {"OMP_NUM_THREADS": str(free_cores())} | os.environ | SILENT | NO_HTTP | {"RAY_AUTH_MODE": "token"}
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start"]
    command += start_arguments(folder / "r", address, head=head, gpus=gpus() if not head else 0)
    child = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        with suppress(ProcessLookupError):
            child.terminate()

    before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert child.stdout is not None
        for line in child.stdout:  # what Ray goes on to say is about itself
            if STARTED in line:
                ready()
            elif b"nauthenticated" in line:
                raise UsageError(f"The cluster at {address} refuses this token.", "Copy the token's file of its first machine.")
            elif b"ersion mismatch" in line:
                raise other_versions(address, b"".join(islice(child.stdout, VERSIONS)).decode(errors="replace"))
        code = child.wait()
    finally:
        _end(child)
        for number, handler in before.items():
            signal.signal(number, handler)
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if stopped.is_set() else code or 1


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End Ray with all its processes: they are a session of their own."""
    with suppress(ProcessLookupError):
        child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(LEAVE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.2)  # what was just ended may still be writing to the folder


def gpus() -> int:
    """How many GPUs llama.cpp can use here: each gets a worker."""
    from localrag.index.crew.hire import gpu_names

    return len(gpu_names())
