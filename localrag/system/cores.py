"""How many cores and how much memory this process may use, and a thread that gives its own back."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import psutil

from localrag.system.cgroups import core_limit, memory_left

T = TypeVar("T")


def free_cores() -> int:
    """How many cores the engine may use: those this process is allowed on, and no more than its container has time for."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no affinity call
        allowed = os.cpu_count() or 1
    return max(1, int(min(allowed, core_limit() or allowed)))


_share: list[int] = []  # of one number: the cores of this process where others like it work beside it


def share_cores(cores: int) -> None:
    """Leave all but so many cores to others like this process; 0: there are none."""
    _share[:] = [cores] * bool(cores)


def own_cores() -> int:
    """How many cores to use for what every worker does at the same time: this process's share of those that are free."""
    return min([free_cores(), *_share])


def in_a_thread_that_ends(work: Callable[[], T]) -> T:
    """The result of `work`, computed in a thread of its own.

    OpenMP keeps a team of workers for every thread that ever computed with it. Torch and llama.cpp share one OpenMP: once it counts more
    workers than cores, they sleep instead of spin at each of a step's thousand barriers (measured: 258 ms a step against 95). A thread that
    ends takes its team along.
    """
    with ThreadPoolExecutor(1) as once:
        return once.submit(work).result()


def free_memory() -> int | None:
    """Bytes of memory that are free or can be freed, on the machine and in this process's container, where the system says."""
    found = [memory_left()]
    with suppress(OSError, RuntimeError, NotImplementedError):
        found.append(int(psutil.virtual_memory().available))
    return min((n for n in found if n is not None), default=None)
