"""Cores, memory, cgroup limits, process liveness, garbage collector frequency, optional extras."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from localrag.errors import LocalragError
from localrag.system.installation import EXTRAS, install_hint

GROUPS, ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
RECLAIMABLE_KEYS = ("inactive_file", "active_file")  # page cache, which the kernel frees when memory is needed


def cgroup_core_limit(groups: Path = GROUPS, root: Path = ROOT) -> float | None:
    """The number of cores' time this process may use: the smallest quota of its cgroups; None without a limit."""
    words = (_read_text(folder / "cpu.max").split() for folder in _folders(groups, root, "cpu.max"))
    return min((int(quota) / int(period) for quota, period in words if quota.isdigit() and int(period)), default=None)


def cgroup_memory_left(groups: Path = GROUPS, root: Path = ROOT) -> int | None:
    """The bytes this process and its cgroups may still allocate, file caches counted as free; None without a limit."""
    free = (_memory_left(folder) for folder in _folders(groups, root, "memory.max"))
    return min((n_bytes for n_bytes in free if n_bytes is not None), default=None)


def _folders(groups: Path, root: Path, file: str) -> list[Path]:
    path = next((line[3:] for line in _read_text(groups).splitlines() if line.startswith("0::")), None)
    if path is None:
        return []
    inner = root / path.lstrip("/")  # may be missing inside a container, whose cgroup is the mount itself
    above = (inner, *inner.parents, root)
    return [folder for folder in dict.fromkeys(above) if folder.is_relative_to(root) and (folder / file).is_file()]


def _memory_left(folder: Path) -> int | None:
    limits = [int(text) for name in ("memory.max", "memory.high") if (text := _read_text(folder / name)).isdigit()]
    used = _read_text(folder / "memory.current")
    if not limits or not used.isdigit():
        return None
    counts = dict(line.split(" ", 1) for line in _read_text(folder / "memory.stat").splitlines() if " " in line)
    cached = sum(int(counts.get(name, 0)) for name in RECLAIMABLE_KEYS)
    return max(0, min(limits) - max(0, int(used) - cached))


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


T = TypeVar("T")


def available_cores() -> int:
    """The number of cores for the engine: within this process's CPU affinity and its container's quota."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity call
        allowed = os.cpu_count() or 1
    return max(1, int(min(allowed, cgroup_core_limit() or allowed)))


_core_share: list[int] = []  # [cores of this process] if other workers run beside it, else empty


def limit_cores(cores: int) -> None:
    """Set the number of cores of this process beside other workers; 0 removes the limit."""
    _core_share[:] = [cores] * bool(cores)


def worker_cores() -> int:
    """The number of cores for work that all workers do at the same time: this process's share of the available ones."""
    return min([available_cores(), *_core_share])


def run_in_short_lived_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread, and return its result.

    OpenMP keeps a team of workers for every thread that computed with it. Torch and llama.cpp share one OpenMP: once it has more workers
    than cores, they sleep instead of spinning at each of a step's thousand barriers (258 ms instead of 95 per step). The team ends with the
    thread.
    """
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result()


def run_in_thread(work: Callable[[], T]) -> Future[T]:
    """The future result of `work`, computed in its own thread, which belongs to no event loop and keeps no process alive."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 — passed to the waiting caller
            future.set_exception(error)

    threading.Thread(target=run, name="localrag-work", daemon=True).start()
    return future


def wait_for(future: Future[T]) -> T:
    """The result of a future. Ctrl-C ends the wait, also where an event loop runs in this thread: that cancels the task that waits."""
    while not wait([future], 0.1).done:
        with suppress(RuntimeError):  # no event loop runs here
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError
    return future.result()


def available_memory() -> int | None:
    """The bytes of memory that are free or can be freed, on the machine and in this container; None if unknown."""
    limits = [cgroup_memory_left()]
    with suppress(OSError, RuntimeError, NotImplementedError):
        import psutil

        limits.append(int(psutil.virtual_memory().available))
    return min((n for n in limits if n is not None), default=None)


# Net container allocations between two collections; with Python's default 700 they take a tenth of the time of a hundred edits.
GC_THRESHOLD = 20_000


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Run the garbage collector less often, for work on many rows, whose objects form no cycles."""
    thresholds = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


MAX_CLOCK_SKEW_S = 5.0  # tolerance between a process's start and a time it recorded then


def is_alive(pid: int, since: str) -> bool:
    """Whether the process that had this id at a time (`YYYY-MM-DD HH:MM:SS`, UTC) still runs, as opposed to a later process of this id."""
    import psutil  # 10 ms, which --help has no use for

    began = datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and (pid == os.getpid() or process.create_time() <= began + MAX_CLOCK_SKEW_S)
    return False


def require_extra(extra: str, *modules: str) -> None:
    """Raise LocalragError if a library of an extra is not installed, before any work is done."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise LocalragError(f"This needs {' and '.join(missing)}, not installed here.", install_hint(*EXTRAS[extra]))
