"""Whether a process that said so goes on."""

import os
from contextlib import suppress
from datetime import UTC, datetime

import psutil

CLOCKS = 5.0  # seconds by which the start of a process and what it wrote then may differ


def is_alive(pid: int, since: str) -> bool:
    """Whether the process that had this number at a time (`YYYY-MM-DD HH:MM:SS`, UTC) still runs, and not another of its number."""
    began = datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and (pid == os.getpid() or process.create_time() <= began + CLOCKS)
    return False
