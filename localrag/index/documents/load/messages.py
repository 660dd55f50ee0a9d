"""What goes between the reader and its worker: JSON behind its length, which is never code; with a request, a file that is open."""

import json
import os
import socket
import struct
from typing import Any

LENGTH = struct.Struct("<Q")
Link = socket.socket  # one end of a pair that two processes of this machine hold; it has no address


def link_pair() -> tuple[Link, Link]:
    """Two ends of a new link: what is sent into one comes out of the other."""
    return socket.socketpair()


def link_at(descriptor: int) -> Link:
    """The end of a link that this process was started with."""
    return socket.socket(fileno=descriptor)


def packed(message: dict[str, Any]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")  # file names may hold any byte
    return LENGTH.pack(len(data)) + data


def send(link: Link, message: dict[str, Any], descriptor: int) -> None:
    """Send a message and a file that is open. Raises OSError: where nobody is there any more, or takes it in the link's time."""
    data = packed(message)
    socket.send_fds(link, [data[: LENGTH.size]], [descriptor])
    link.sendall(data[LENGTH.size :])


def receive(link: Link) -> tuple[dict[str, Any], int] | None:
    """The next message and the file that came with it, or None at the end."""
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
