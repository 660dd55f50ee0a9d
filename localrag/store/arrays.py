"""Arrays in one file, one after the other as `np.save` writes them: validated, then mapped into memory.

NumPy accepts data types from a file that are addresses in memory, and SciPy accepts indices outside of an array. So a file is validated
before either of them reads it: this process may not have written it.
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
MAX_ARRAYS = 64  # in a file
_HEADER = re.compile(rb"\{'descr': '([<>|])([fiS])([1-9]\d{0,3})', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n")
_SIZES = {b"f": {4, 8}, b"i": {4, 8}}  # bytes of a number; strings may have any length


def mapped_arrays(file: Path) -> list[NDArray[Any]]:
    """The arrays of a file, each one-dimensional, of numbers or byte strings. Raises OSError, ValueError."""
    with open_regular(file) as f:
        size, arrays = os.fstat(f.fileno()).st_size, list[NDArray[Any]]()
        whole = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        at = 0
        while at < size:
            dtype, count, start = _header(whole, at)
            at = start + count * dtype.itemsize
            if at > size or len(arrays) == MAX_ARRAYS:
                raise ValueError("it ends before its arrays do")
            arrays.append(np.frombuffer(whole, dtype, count, start) if count else np.empty(0, dtype))
    return arrays


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file for reading, and no link, pipe or device. Raises OSError, ValueError."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    opened = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        opened.close()
        raise ValueError("it is no regular file")
    return opened


def _header(whole: Any, at: int) -> tuple[np.dtype[Any], int, int]:
    """The data type of an array's values, their number, and the offset of the first."""
    if whole[at : at + len(MAGIC)] != MAGIC:
        raise ValueError("an array has no NumPy header")
    begin = at + len(MAGIC) + 2
    end = begin + int.from_bytes(whole[begin - 2 : begin], "little")
    header = _HEADER.fullmatch(whole[begin:end])
    if header is None or (header[2] in _SIZES and int(header[3]) not in _SIZES[header[2]]):
        raise ValueError("an array is not of numbers or byte strings")
    return np.dtype((header[1] + header[2] + header[3]).decode()), int(header[4]), end


def check_kind(kind: str, *arrays: NDArray[Any]) -> None:
    """Raise ValueError unless all arrays have this type of value: `f4`, `i4` or `S`."""
    for array in arrays:
        if (array.dtype.kind if kind == "S" else array.dtype.str[1:]) != kind:
            raise ValueError(f"an array holds {array.dtype}, not {kind}")


def check_ids(ids: NDArray[Any]) -> None:
    """Raise ValueError unless ids are ASCII, unique and in the order of their bytes."""
    check_kind("S", ids)
    letters = np.frombuffer(np.ascontiguousarray(ids).data, np.uint8) if len(ids) else np.empty(0, np.uint8)
    if (letters > 127).any() or (ids[1:] <= ids[:-1]).any():
        raise ValueError("ids are not in order")


def check_indices(indices: NDArray[Any], length: int) -> None:
    """Raise ValueError unless all are indices of something of that length."""
    check_kind("i4", indices)
    if len(indices) and not (indices.min() >= 0 and indices.max() < length):
        raise ValueError("an index is out of range")


def check_lengths(*arrays: Sequence[Any] | NDArray[Any]) -> None:
    """Raise ValueError unless all arrays have one length."""
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("arrays that belong together have different lengths")


def check_columns(data: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raise ValueError unless the arrays are a sparse matrix (CSC, float32) of that shape: rows, columns."""
    check_kind("f4", data)
    check_kind("i4", starts)
    check_indices(indices, shape[0])
    check_lengths(data, indices)
    if len(starts) != shape[1] + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("the columns of a matrix are not in order")
