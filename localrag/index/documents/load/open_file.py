"""A file as an open descriptor: whoever has it can read it, and needs no right to open anything by its path."""

import ctypes
import io
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file's name, without its folder, and the descriptor of what is in it. Raises OSError wherever it is read."""

    name: str
    descriptor: int

    @property
    def suffix(self) -> str:
        """What its name ends with, and its dot."""
        return Path(self.name).suffix

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.fstat(self.descriptor).st_size

    def open(self) -> BinaryIO:
        """The file to be read from its beginning; one such does not move another."""
        return cast("BinaryIO", io.BufferedReader(_Reading(self.descriptor), 1 << 16))

    def read_bytes(self) -> bytes:
        """All that is in it."""
        with self.open() as file:
            return file.read()

    def mapped(self) -> "ctypes.Array[ctypes.c_char]":
        """All that is in it, where it is, without a copy."""
        pages = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        return (ctypes.c_char * len(pages)).from_buffer(pages)


class _Reading(io.RawIOBase):
    """Reads from a place of its own: duplicates of a descriptor share theirs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = os.dup(descriptor), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        read = os.preadv(self._descriptor, [buffer], self._at)
        self._at += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._descriptor).st_size}[whence]
        if start + offset < 0:
            raise OSError(22, os.strerror(22))
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """A regular file, open until the block ends. Raises OSError, also for anything else than a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "it is no regular file")
        yield OpenFile(path.name, descriptor)
    finally:
        os.close(descriptor)
