"""Files inside other files, in memory, as the parsers take them."""

import io
from dataclasses import dataclass
from typing import BinaryIO

from localrag.loaders.content import OpenFile


@dataclass(frozen=True)
class EmbeddedFile(OpenFile):
    """A file inside another: its name and its bytes."""

    data: bytes

    def __init__(self, name: str, data: bytes) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "descriptor", -1)
        object.__setattr__(self, "data", data)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)

    def open(self) -> BinaryIO:
        """A stream from the beginning, with its own position."""
        return io.BytesIO(self.data)

    def read_bytes(self) -> bytes:
        """The complete content."""
        return self.data
