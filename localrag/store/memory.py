"""Caches in memory of what questions read from an index, kept for as long as this process has the index open."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

Memory = dict[str, tuple[Any, ...]]  # name → the state of the index it belongs to, and the cached values

_users: Counter[Path] = Counter()  # by index folder
_kept: dict[Path, Memory] = {}
_changing = Lock()


@contextmanager
def kept_in_memory(folder: Path) -> Iterator[None]:
    """Keep an index's caches until the end of the block; all blocks of the same index share them."""
    folder = folder.resolve()
    with _changing:
        _users[folder] += 1
        _kept.setdefault(folder, {})
    try:
        yield
    finally:
        with _changing:
            _users[folder] -= 1
            if not _users[folder]:
                del _users[folder], _kept[folder]


def memory_of(folder: Path) -> Memory:
    """The caches of an index, to read and to add to; for an index that nobody has open, an empty dict that is not kept."""
    return _kept.get(folder.resolve(), {})
