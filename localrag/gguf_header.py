"""The header of a GGUF file, read without llama.cpp: what a model says of itself, and whether its file is whole."""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from localrag.errors import ModelError

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # struct's letters
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 8  # ggml itself has 4
_MOST_LAYERS = 4096  # of a longer array a value belongs to each token, not to each layer
# Of a tensor's type: how many values stand in how many bytes. Of a type that is not here only the beginning is checked.
BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84), 11: (256, 110),
    12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50),
    20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8),
    29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip


class _Damaged(Exception):
    """The header holds what no GGUF file holds."""


class _Reader:
    """Reads the header's values one after the other; struct.error where the file ends before."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.at = 4  # behind the magic number
        self.part = "beginning"

    def number(self, letter: str) -> Any:
        (value,) = struct.unpack_from(f"<{letter}", self._data, self.at)
        self.at += struct.calcsize(f"<{letter}")
        return value

    def text(self) -> str:
        length = self.number("Q")
        self.skip(length)
        return self._data[self.at - length : self.at].decode(errors="replace")

    def skip(self, length: int) -> None:
        if length > len(self._data) - self.at:
            raise struct.error
        self.at += length

    def value(self, kind: int) -> Any:
        """A value of that kind; None in place of an array of texts or of many numbers, which is passed over."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise _Damaged
        inner, count = self.number("I"), self.number("Q")
        if inner in _NUMBERS:
            at, length = self.at, struct.calcsize(_NUMBERS[inner])
            self.skip(count * length)
            return list(struct.unpack_from(f"<{count}{_NUMBERS[inner]}", self._data, at)) if count <= _MOST_LAYERS else None
        if inner == _STRING:
            self._skip_texts(count)
        else:
            raise _Damaged
        return None

    def _skip_texts(self, count: int) -> None:
        """Pass over texts: 50,000 of a vocabulary take 15 ms."""
        at, data, length_at = self.at, self._data, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length_at(data, at)[0]
        self.at = at
        self.skip(0)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file: how many values it has, in how many bytes (0 of a type that is not known), and where they begin."""

    name: str
    values: int
    size: int
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """`values`: the metadata, of its arrays the short ones of numbers. `size`: how many bytes the file has at least, if it is whole."""

    values: dict[str, Any]
    tensors: tuple[Tensor, ...]
    size: int


def read_header(path: Path) -> Header:
    """The header of a GGUF file. Raises ModelError where it is none, cannot be read, or ends before what its header announces."""
    try:
        with path.open("rb") as f:
            if f.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file.", "Give a .gguf model file.")
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _checked(path, data)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.", "Check the file's disk and its permissions.") from error


def is_whole(path: Path) -> bool:
    """Whether there is a GGUF file at `path` that has all its header announces."""
    try:
        read_header(path)
    except ModelError:
        return False
    return True


def _checked(path: Path, data: mmap.mmap) -> Header:
    reader, header = _Reader(data), None
    again = "Copy or download the file again, or give another one."
    try:
        header = _read(reader)
    except struct.error:
        pass
    except _Damaged:
        raise ModelError(f"{path} cannot be loaded: its {reader.part} is damaged.", again) from None
    if header is None or header.size > len(data):
        raise ModelError(f"{path} cannot be loaded: the file is incomplete, it ends within its {reader.part} at byte {len(data):,}.", again)
    return header


def _read(reader: _Reader) -> Header:
    version = reader.number("I")
    if version not in (2, 3):  # version 1 is of 2023, and llama.cpp does not read it either
        raise _Damaged
    tensors, keys = reader.number("Q"), reader.number("Q")
    values: dict[str, Any] = {}
    for _ in range(keys):
        reader.part = "metadata"
        key, kind = reader.text(), reader.number("I")
        reader.part = "vocabulary" if key.startswith("tokenizer.") else "metadata"
        values[key] = reader.value(kind)
    reader.part = "list of tensors"
    found = tuple(_tensor(reader.text, reader.number) for _ in range(tensors))
    aligned = values.get("general.alignment", 32)
    if not isinstance(aligned, int) or aligned < 1:
        raise _Damaged
    reader.part = "weights"
    end = max((t.start + t.size for t in found), default=0)
    return Header(values, found, -(-reader.at // aligned) * aligned + end if found else reader.at)


def _tensor(text: Callable[[], str], number: Callable[[str], Any]) -> Tensor:
    """A tensor of the list; its values begin as far behind those of the first."""
    name = text()
    dimensions = number("I")
    if dimensions > _MOST_DIMENSIONS:
        raise _Damaged
    count = prod([number("Q") for _ in range(dimensions)])
    kind, start = number("I"), number("Q")
    values, size = BLOCKS.get(kind, (1, 0))
    return Tensor(name, int(count), int(count // values * size), int(start))
