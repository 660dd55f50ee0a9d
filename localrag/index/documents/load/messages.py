"""Messages between the reader and its worker: a length, then JSON, never code. A request brings an open file descriptor."""

import json
import os
import socket
import struct
from typing import Any

LENGTH = struct.Struct("<Q")
Link = socket.socket  # one end of a socket pair between two processes of this machine; it has no address


def link_pair() -> tuple[Link, Link]:
    """The two ends of a new socket pair."""
    return socket.socketpair()


def link_at(descriptor: int) -> Link:
    """The end of a socket pair that this process inherited as a descriptor."""
    return socket.socket(fileno=descriptor)


def packed(message: dict[str, Any]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")  # file names may hold any byte
    return LENGTH.pack(len(data)) + data


def send(link: Link, message: dict[str, Any], descriptor: int) -> None:
    """Send a message and an open file descriptor. Raises OSError: the other end is closed, or the link's timeout passes (TimeoutError)."""
    data = packed(message)
    sent = socket.send_fds(link, [data[: LENGTH.size]], [descriptor])
    link.sendall(data[sent:])


def receive(link: Link) -> tuple[dict[str, Any], int] | None:
    """The next message and the descriptor that came with it; None once the other end is closed."""
    head, descriptors, *_ = socket.recv_fds(link, LENGTH.size, 1)
    if not head or not descriptors:
        return None
    length = LENGTH.unpack(head + _exactly(link, LENGTH.size - len(head)))[0]
    return json.loads(_exactly(link, length)), descriptors[0]


def _exactly(link: Link, count: int) -> bytes:
    pieces: list[bytes] = []
    while count and (piece := os.read(link.fileno(), min(count, 1 << 20))):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
