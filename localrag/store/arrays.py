"""Arrays in one file, one behind the other as `np.save` writes them: mapped into memory only where all that is said of them can be true.

NumPy would take a kind of number from the file that are addresses in memory, and SciPy takes places that lie outside of an array. So a file
that this process did not write is compared with what it must be before anything else looks at it.
"""

import mmap
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x93NUMPY\x01\x00"
MOST = 64  # arrays in a file
_HEADER = re.compile(rb"\{'descr': '([<>|])([fiS])([1-9]\d{0,3})', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n")
_SIZES = {b"f": {4, 8}, b"i": {4, 8}}  # bytes of numbers; texts have any


def mapped_arrays(file: Path) -> list[NDArray[Any]]:
    """The arrays of a file, each of one dimension, of numbers or of texts as bytes. Raises OSError and ValueError."""
    with open_regular(file) as f:
        size, found = os.fstat(f.fileno()).st_size, list[NDArray[Any]]()
        whole = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        at = 0
        while at < size:
            dtype, count, start = _header(whole, at)
            at = start + count * dtype.itemsize
            if at > size or len(found) == MOST:
                raise ValueError("it ends before its arrays do")
            found.append(np.frombuffer(whole, dtype, count, start) if count else np.empty(0, dtype))
    return found


def open_regular(file: Path) -> BinaryIO:
    """A file to read that is no link, and none that reading waits for or that has no end. Raises OSError and ValueError."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    opened = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        opened.close()
        raise ValueError("it is no regular file")
    return opened


def _header(whole: Any, at: int) -> tuple[np.dtype[Any], int, int]:
    """The kind of an array's values, their number, and where they begin."""
    if whole[at : at + len(MAGIC)] != MAGIC:
        raise ValueError("an array does not begin as arrays do")
    begin = at + len(MAGIC) + 2
    end = begin + int.from_bytes(whole[begin - 2 : begin], "little")
    said = _HEADER.fullmatch(whole[begin:end])
    if said is None or (said[2] in _SIZES and int(said[3]) not in _SIZES[said[2]]):
        raise ValueError("an array is not of numbers or texts")
    return np.dtype((said[1] + said[2] + said[3]).decode()), int(said[4]), end


def check_kind(kind: str, *arrays: NDArray[Any]) -> None:
    """Raises ValueError where arrays are not all of a kind of value: `f4`, `i4`, `S`."""
    for array in arrays:
        if (array.dtype.kind if kind == "S" else array.dtype.str[1:]) != kind:
            raise ValueError(f"an array holds {array.dtype}, not {kind}")


def check_ids(ids: NDArray[Any]) -> None:
    """Raises ValueError where ids are not plain ASCII, each once, in the order of their bytes."""
    check_kind("S", ids)
    letters = np.frombuffer(np.ascontiguousarray(ids).data, np.uint8) if len(ids) else np.empty(0, np.uint8)
    if (letters > 127).any() or (ids[1:] <= ids[:-1]).any():
        raise ValueError("ids are not in their order")


def check_places(places: NDArray[Any], below: int) -> None:
    """Raises ValueError where a number is no place in something of that length."""
    check_kind("i4", places)
    if len(places) and not (places.min() >= 0 and places.max() < below):
        raise ValueError("a number leads to nothing")


def check_lengths(*arrays: Sequence[Any] | NDArray[Any]) -> None:
    """Raises ValueError where arrays are not all of one length."""
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("arrays that belong together have different lengths")


def check_columns(data: NDArray[Any], places: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raises ValueError where arrays are not those of a sparse matrix by columns (rows, columns), float32."""
    check_kind("f4", data)
    check_kind("i4", starts)
    check_places(places, shape[0])
    check_lengths(data, places)
    if len(starts) != shape[1] + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("columns of a matrix do not follow each other")
