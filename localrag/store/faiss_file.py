"""Validate a FAISS file against the one layout that localrag writes, before FAISS reads and trusts it."""

import struct
from typing import BinaryIO

QT_8BIT = 0  # FAISS's number of the scalar quantizer with a byte for each dimension
INNER_PRODUCT = 0  # FAISS's number of the metric


class _Reader:
    """Reads the values of a file one after the other. Raises ValueError at its end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def take(self, kinds: str) -> tuple[int, ...]:
        data = self.file.read(struct.calcsize(f"<{kinds}"))
        try:
            return struct.unpack(f"<{kinds}", data)
        except struct.error:
            raise ValueError("it ends too early") from None

    def skip(self, count: int) -> None:
        at = self.file.tell() + count
        if at > self.size:
            raise ValueError("it ends too early")
        self.file.seek(at)

    def magic(self, *known: bytes) -> bytes:
        magic = self.file.read(4)
        if magic not in known:
            raise ValueError(f"it holds {magic!r}, not {known[0]!r}")
        return magic

    def sizes(self) -> list[int]:
        (count,) = self.take("Q")
        if 8 * count > self.size:
            raise ValueError("it ends too early")
        return list(self.take(f"{count}Q"))


def check_file(file: BinaryIO, size: int, vectors: int) -> None:
    """Raise ValueError unless a file is an index as `vector_index` makes it (IVF, one byte a dimension) of so many vectors."""
    read = _Reader(file, size)
    read.magic(b"IwSq")
    width, total = _read_header(read)
    lists, probed = read.take("QQ")
    read.magic(b"IxFI")
    _require(0 < lists <= size, 0 < probed <= lists, total == vectors, 0 < width <= size, _read_header(read) == (width, lists))
    _require(read.take("Q") == (lists * width,))
    read.skip(4 * lists * width)
    _require(read.take("BQ") == (0, 0))  # no map from numbers to places
    kind, _, _, *widths = read.take("iifQQ")
    _require(kind == QT_8BIT, widths == [width, width], read.take("Q") == (2 * width,))
    read.skip(4 * 2 * width)
    code, by_residual = read.take("QB")
    _require(code == width, by_residual in (0, 1))
    read.magic(b"ilar")
    _require(read.take("QQ") == (lists, width))
    _require(_count_entries(read, lists) == total, file.tell() + total * (width + 8) == size)


def _read_header(read: _Reader) -> tuple[int, int]:
    """Read the header of an index: the vectors' dimensions, and how many there are."""
    width, total, _, _, trained, metric = read.take("iqqqBi")
    _require(trained == 1, metric == INNER_PRODUCT)
    return width, total


def _count_entries(read: _Reader, lists: int) -> int:
    """Count the vectors in all lists: stored as a size for each list, or as an index and a size for each that is not empty."""
    if read.magic(b"full", b"sprs") == b"full":
        sizes = read.sizes()
        _require(len(sizes) == lists)
        return sum(sizes)
    pairs = read.sizes()
    places = pairs[::2]
    _require(len(pairs) % 2 == 0, places == sorted(set(places)), all(place < lists for place in places))
    return sum(pairs[1::2])


def _require(*conditions: bool) -> None:
    if not all(conditions):
        raise ValueError("its fields do not fit together")
