"""The layout of the one kind of FAISS file that localrag writes, compared with a file before FAISS reads and believes it."""

import struct
from typing import BinaryIO

BYTES = 0  # FAISS's number of a scalar quantizer with a byte for each dimension
INNER_PRODUCT = 0  # FAISS's number of the metric


class _Reader:
    """Values of a file, one behind the other. Raises ValueError where it ends."""

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

    def name(self, *known: bytes) -> bytes:
        found = self.file.read(4)
        if found not in known:
            raise ValueError(f"it holds {found!r}, not {known[0]!r}")
        return found

    def sizes(self) -> list[int]:
        (count,) = self.take("Q")
        if 8 * count > self.size:
            raise ValueError("it ends too early")
        return list(self.take(f"{count}Q"))


def check_file(file: BinaryIO, size: int, vectors: int) -> None:
    """Raises ValueError where a file is not an index as `vector_index` makes it (IVF, one byte a dimension), of so many vectors."""
    read = _Reader(file, size)
    read.name(b"IwSq")
    width, total = _index(read)
    lists, probed = read.take("QQ")
    read.name(b"IxFI")
    _agree(0 < lists <= size, 0 < probed <= lists, total == vectors, 0 < width <= size, _index(read) == (width, lists))
    _agree(read.take("Q") == (lists * width,))
    read.skip(4 * lists * width)
    _agree(read.take("BQ") == (0, 0))  # no map from numbers to places
    kind, _, _, *widths = read.take("iifQQ")
    _agree(kind == BYTES, widths == [width, width], read.take("Q") == (2 * width,))
    read.skip(4 * 2 * width)
    code, by_residual = read.take("QB")
    _agree(code == width, by_residual in (0, 1))
    read.name(b"ilar")
    _agree(read.take("QQ") == (lists, width))
    _agree(_entries(read, lists) == total, file.tell() + total * (width + 8) == size)


def _index(read: _Reader) -> tuple[int, int]:
    """What an index says of itself: how wide vectors are, and how many there are."""
    width, total, _, _, trained, metric = read.take("iqqqBi")
    _agree(trained == 1, metric == INNER_PRODUCT)
    return width, total


def _entries(read: _Reader, lists: int) -> int:
    """How many vectors are in all lists: a number for each list, or for each that has any its place and a number."""
    if read.name(b"full", b"sprs") == b"full":
        sizes = read.sizes()
        _agree(len(sizes) == lists)
        return sum(sizes)
    pairs = read.sizes()
    places = pairs[::2]
    _agree(len(pairs) % 2 == 0, places == sorted(set(places)), all(place < lists for place in places))
    return sum(pairs[1::2])


def _agree(*said: bool) -> None:

    if not all(said):
        raise ValueError("what it says does not fit together")
