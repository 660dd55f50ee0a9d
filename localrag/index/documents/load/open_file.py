"""A file as an open descriptor: a process that holds it can read it without the right to open its path."""

import ctypes
import errno
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
    """A file's name, without its folder, and its open descriptor. Every read may raise OSError."""

    name: str
    descriptor: int

    @property
    def suffix(self) -> str:
        """The suffix of its name, with the dot."""
        return Path(self.name).suffix

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return os.fstat(self.descriptor).st_size

    def open(self) -> BinaryIO:
        """A stream that reads from the beginning, with a position of its own."""
        return cast("BinaryIO", io.BufferedReader(_RawReader(self.descriptor), 1 << 16))

    def read_bytes(self) -> bytes:
        """Its whole content."""
        with self.open() as file:
            return file.read()

    def mapped(self) -> "ctypes.Array[ctypes.c_char]":
        """Its whole content, mapped into memory without a copy. Raises ValueError for an empty file."""
        pages = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        return (ctypes.c_char * len(pages)).from_buffer(pages)


class _RawReader(io.RawIOBase):
    """Reads with `preadv` at a position of its own: duplicates of a descriptor share one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._position = os.dup(descriptor), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        read = os.preadv(self._descriptor, [buffer], self._position)
        self._position += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: os.fstat(self._descriptor).st_size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open a regular file until the block ends, without waiting for a pipe's writer. Raises OSError, also if it is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        yield OpenFile(path.name, descriptor)
    finally:
        os.close(descriptor)
