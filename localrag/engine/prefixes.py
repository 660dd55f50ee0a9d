"""The beginnings that the prompts of a task share: learned from the prompts, their KV kept as files across runs."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from localrag.config import private_folder
from localrag.engine.scheduler import common_length

SHORTEST = 64  # tokens: a shorter beginning is read as fast as its file
MOST_BYTES = 1 << 30  # of one folder; the longest unused files go first


class Prefixes:
    """The shared beginnings of tasks and the files that hold their KV. `folder` names model, build and KV layout; None: keep no files."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._shared: dict[str, list[int]] = {}
        self._files: dict[tuple[int, str], Path] = {}
        if folder is not None and folder.is_dir():
            for path in _newest_first(folder):
                length, _, digest = path.stem.partition("-")
                self._files[int(length), digest] = path

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

    def new_file(self, cells: Sequence[int]) -> Path:
        """Where to keep the KV of `cells`; say `added` once it is there."""
        assert self._folder is not None
        return private_folder(self._folder) / f"{len(cells)}-{_digest(cells)}.kv"

    def added(self, path: Path) -> None:
        """A file is in place: it can be found from now on, and older ones make room for it."""
        length, _, digest = path.stem.partition("-")
        self._files[int(length), digest] = path
        total = 0
        for old in _newest_first(path.parent):
            total += old.stat().st_size
            if total > MOST_BYTES:
                self.dropped(old)

    def dropped(self, path: Path) -> None:
        """A file is of no use: remove it."""
        length, _, digest = path.stem.partition("-")
        self._files.pop((int(length), digest), None)
        path.unlink(missing_ok=True)


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-*.kv"), key=lambda p: p.stat().st_mtime, reverse=True)


def _digest(cells: Sequence[int]) -> str:
    return sha256(np.asarray(cells, np.int32).tobytes()).hexdigest()[:24]
