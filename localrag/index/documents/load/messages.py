"""What goes between the reader and its worker: JSON behind its length, which is never code."""

import json
import struct
from typing import IO, Any

LENGTH = struct.Struct("<Q")


def packed(message: dict[str, Any]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")  # file names may hold any byte
    return LENGTH.pack(len(data)) + data


def read_message(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message, or None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    found: dict[str, Any] = json.loads(stream.read(LENGTH.unpack(head)[0]))
    return found
