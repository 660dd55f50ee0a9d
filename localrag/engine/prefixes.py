"""The beginnings that the prompts of a task share: learned from the prompts, their KV kept as files across runs."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from localrag.engine.sequence import common_length
from localrag.system.files import private_folder

SHORTEST = 64  # tokens: a shorter beginning is read as fast as its file
MOST_BYTES = 2 << 30  # of the files of all models together; the longest unused go first


class Prefixes:
    """The shared beginnings of tasks and the files that hold their KV.

    `folder` names model, build and KV layout, and stands in one with those of other models; None: keep no files. The files save time and
    nothing else: where the disk does not take them, or another process removes them, everything is computed as without them.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._shared: dict[str, list[int]] = {}
        self._files: dict[tuple[int, str], Path] = {}
        with suppress(OSError):
            for path in folder.glob("*-*.kv") if folder is not None else ():
                self._note(path)

    def learn(self, task: str, cells: Sequence[int]) -> int:
        """Take in a prompt; returns the length of the beginning it shares with its task's others, if that is worth a file of its own."""
        known = self._shared.get(task)
        if known is None:
            self._shared[task] = list(cells[:-1])
            return 0
        del known[common_length(known, cells[:-1]) :]
        worth = self._folder is not None and len(known) >= SHORTEST
        return len(known) if worth and (len(known), _digest(known)) not in self._files else 0

    def find(self, cells: Sequence[int]) -> tuple[int, Path | None]:
        """The longest kept beginning of `cells` that leaves at least one to compute: its length and its file; else (0, None)."""
        for length in sorted({n for n, _ in self._files if n < len(cells)}, reverse=True):
            if path := self._files.get((length, _digest(cells[:length]))):
                return length, path
        return 0, None

    def keep(self, cells: Sequence[int], save: Callable[[Path], bool]) -> None:
        """Have `save` write the KV of `cells` to a file and say whether that worked; where not, no more is tried: the disk may be full."""
        if self._folder is None:
            return
        path = self._folder / f"{len(cells)}-{_digest(cells)}.kv"
        try:
            private_folder(self._folder)
            saved = save(path)
        except OSError:
            saved = False
        if not saved:
            self._folder = None
            return
        self._note(path)
        self._make_room(path.parent.parent)

    def used(self, path: Path) -> None:
        """A file was read: it is the newest now."""
        with suppress(OSError):
            os.utime(path)

    def dropped(self, path: Path) -> None:
        """A file is of no use: remove it."""
        self._files = {key: known for key, known in self._files.items() if known != path}
        with suppress(OSError):
            path.unlink()

    def _note(self, path: Path) -> None:
        length, _, digest = path.stem.partition("-")
        if length.isdecimal():
            self._files[int(length), digest] = path

    def _make_room(self, place: Path) -> None:
        """Remove the files of any model that were not used for the longest time, and folders that are empty then."""
        total = 0
        for _, size, path in sorted(_sizes(place), reverse=True):
            total += size
            if total > MOST_BYTES:
                self.dropped(path)
                with suppress(OSError):  # not empty
                    path.parent.rmdir()


def _sizes(place: Path) -> Iterator[tuple[int, int, Path]]:
    """When each file was last used, its bytes, and its path."""
    for path in place.glob("*/*-*.kv"):
        with suppress(OSError):  # gone meanwhile
            found = path.stat()
            yield found.st_mtime_ns, found.st_size, path


def _digest(cells: Sequence[int]) -> str:
    return sha256(np.asarray(cells, np.int32).tobytes()).hexdigest()[:24]
