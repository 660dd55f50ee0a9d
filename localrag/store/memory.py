"""What questions keep of an index in memory: for as long as this process has the index open, and no longer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

Memory = dict[str, tuple[Any, ...]]  # name → the state of the index that it is of, and what is kept

_users: Counter[Path] = Counter()  # by index folder
_kept: dict[Path, Memory] = {}
_changing = Lock()


@contextmanager
def kept_in_memory(folder: Path) -> Iterator[None]:
    """Keep what questions read of an index until the end of the block; other blocks of the same index share it."""
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
    """What is kept of an index, to be looked up and added to; of one that nobody has open nothing is kept."""
    return _kept.get(folder.resolve(), {})
