"""Prefix KV states on disk: prefixes shared by the prompts of a task, learned from the prompts and kept across runs."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from localrag.engine.request import common_prefix_length
from localrag.system.files import ensure_private_folder

MIN_PREFIX_TOKENS = 64  # a shorter prefix is computed as fast as its file is read
MAX_CACHE_BYTES = 2 << 30  # files of all models together; the least recently used are deleted first


class PrefixCache:
    """The shared prefixes of tasks and the files that hold their KV states.

    `folder` is specific to model, build and KV layout, beside those of other models; None: write no files. The files only save time: if the
    disk is full or another process deletes them, everything is computed instead.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._shared: dict[str, list[int]] = {}
        self._files: dict[tuple[int, str], Path] = {}
        with suppress(OSError):
            for path in folder.glob("*-*.kv") if folder is not None else ():
                self._note(path)

    def learn(self, task: str, token_ids: Sequence[int]) -> int:
        """Record a prompt; returns the length of the prefix shared by its task's prompts if that should be saved to a file, else 0."""
        prefix = self._shared.get(task)
        if prefix is None:
            self._shared[task] = list(token_ids[:-1])
            return 0
        del prefix[common_prefix_length(prefix, token_ids[:-1]) :]
        is_worth_saving = self._folder is not None and len(prefix) >= MIN_PREFIX_TOKENS
        return len(prefix) if is_worth_saving and (len(prefix), _digest(prefix)) not in self._files else 0

    def find(self, token_ids: Sequence[int]) -> tuple[int, Path | None]:
        """The longest stored prefix of `token_ids` that leaves at least one token to compute: its length and file; else (0, None)."""
        for length in sorted({n for n, _ in self._files if n < len(token_ids)}, reverse=True):
            if path := self._files.get((length, _digest(token_ids[:length]))):
                return length, path
        return 0, None

    def store(self, token_ids: Sequence[int], save: Callable[[Path], bool]) -> None:
        """Write the KV state of `token_ids` with `save`, which returns success. After a failure nothing more is stored."""
        if self._folder is None:
            return
        path = self._folder / f"{len(token_ids)}-{_digest(token_ids)}.kv"
        try:
            ensure_private_folder(self._folder)
            saved = save(path)
        except OSError:
            saved = False
        if not saved:
            self._folder = None
            return
        self._note(path)
        self._evict(path.parent.parent)

    def touch(self, path: Path) -> None:
        """Mark a file as most recently used."""
        with suppress(OSError):
            os.utime(path)

    def discard(self, path: Path) -> None:
        """Delete a file that is of no use."""
        self._files = {key: stored for key, stored in self._files.items() if stored != path}
        with suppress(OSError):
            path.unlink()

    def _note(self, path: Path) -> None:
        length, _, digest = path.stem.partition("-")
        if length.isdecimal():
            self._files[int(length), digest] = path

    def _evict(self, folder: Path) -> None:
        total = 0
        for _, size, path in sorted(_sizes(folder), reverse=True):
            total += size
            if total > MAX_CACHE_BYTES:
                self.discard(path)
                with suppress(OSError):  # not empty
                    path.parent.rmdir()


def _sizes(folder: Path) -> Iterator[tuple[int, int, Path]]:
    for path in folder.glob("*/*-*.kv"):
        with suppress(OSError):  # deleted meanwhile
            status = path.stat()
            yield status.st_mtime_ns, status.st_size, path


def _digest(token_ids: Sequence[int]) -> str:
    return sha256(np.asarray(token_ids, np.int32).tobytes()).hexdigest()[:24]
