"""The header of a GGUF file, read without llama.cpp: metadata, tensors, and whether the file is complete."""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from localrag.errors import ModelError

NO_GGUF_HINT = "localrag runs GGUF files. Give the path of one, or download one: localrag models list --all"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # type → struct format
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 8  # ggml itself has 4
_MAX_LAYERS = 4096  # longer arrays have a value per token, not per layer


class _Damaged(Exception):
    """The header is not valid GGUF."""


class _HeaderReader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.at = 4  # after the magic number
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
        """A value of this type; None for an array of strings or a long array, which is skipped."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise _Damaged
        inner, count = self.number("I"), self.number("Q")
        if inner in _NUMBERS:
            start, length = self.at, struct.calcsize(_NUMBERS[inner])
            self.skip(count * length)
            return list(struct.unpack_from(f"<{count}{_NUMBERS[inner]}", self._data, start)) if count <= _MAX_LAYERS else None
        if inner == _STRING:
            self._skip_texts(count)
        else:
            raise _Damaged
        return None

    def _skip_texts(self, count: int) -> None:
        position, data, unpack_length = self.at, self._data, struct.Struct("<Q").unpack_from
        for _ in range(count):
            position += 8 + unpack_length(data, position)[0]
        self.at = position
        self.skip(0)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file: number of values, size in bytes (0 for an unknown type), and offset from the first tensor's data."""

    name: str
    values: int
    size: int
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """`values`: the metadata, including short numeric arrays. `min_file_size`: the size in bytes of a complete file."""

    values: dict[str, Any]
    tensors: tuple[Tensor, ...]
    min_file_size: int


def read_header(path: Path) -> Header:
    """Read the header of a GGUF file. Raises ModelError if it is not one, is unreadable, or is shorter than its header says."""
    try:
        with path.open("rb") as f:
            if f.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file.", NO_GGUF_HINT)
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _checked(path, data)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.", "Check the file's disk and its permissions.") from error


def is_complete(path: Path) -> bool:
    """Whether a complete GGUF file exists at `path`."""
    try:
        read_header(path)
    except ModelError:
        return False
    return True


def _checked(path: Path, data: mmap.mmap) -> Header:
    reader, header = _HeaderReader(data), None
    remedy = "Copy or download the file again, or give another one."
    try:
        header = _read_header(reader)
    except struct.error:
        pass
    except (_Damaged, OverflowError):  # a length beyond every address
        raise ModelError(f"{path} cannot be loaded: its {reader.part} is damaged.", remedy) from None
    if header is None or header.min_file_size > len(data):
        raise ModelError(
            f"{path} cannot be loaded: the file is incomplete, it ends within its {reader.part} at byte {len(data):,}.", remedy
        )
    return header


def _read_header(reader: _HeaderReader) -> Header:
    version = reader.number("I")
    if version not in (2, 3):  # version 1 is from 2023, and llama.cpp does not read it either
        raise _Damaged
    tensors, keys = reader.number("Q"), reader.number("Q")
    values: dict[str, Any] = {}
    for _ in range(keys):
        reader.part = "metadata"
        key, kind = reader.text(), reader.number("I")
        reader.part = "vocabulary" if key.startswith("tokenizer.") else "metadata"
        values[key] = reader.value(kind)
    reader.part = "list of tensors"
    tensors_read = tuple(_tensor(reader.text, reader.number) for _ in range(tensors))
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _Damaged
    reader.part = "weights"
    end = max((t.start + t.size for t in tensors_read), default=0)
    return Header(values, tensors_read, -(-reader.at // alignment) * alignment + end if tensors_read else reader.at)


def _tensor(text: Callable[[], str], number: Callable[[str], Any]) -> Tensor:
    """An entry of the tensor list; of a type that the library does not know, only the start is checked."""
    from gguf.constants import GGML_QUANT_SIZES  # type → (values, bytes) of a block; importing it takes a tenth of a second

    name = text()
    dimensions = number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise _Damaged
    count = prod([number("Q") for _ in range(dimensions)])
    kind, start = number("I"), number("Q")
    values, size = GGML_QUANT_SIZES.get(kind, (1, 0))
    return Tensor(name, int(count), int(count // values * size), int(start))
