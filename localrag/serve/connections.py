"""How many connections are held, and how long one may take to say what it wants: uvicorn bounds neither."""

import asyncio
from asyncio import Transport
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 512  # connections; a browser opens six, a program a few
SAYS_WITHIN = 30.0  # seconds from the first byte that could come to the end of the headers
FULL = b'{"error":{"message":"Too many connections are open.","type":"server_error","param":null,"code":"busy","hint":"Close some."}}'
_HEAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n"
_REFUSED = _HEAD + b"content-length: %d\r\n\r\n%b"


class Bounded(H11Protocol):
    """A connection that is refused where too many are open, and closed where it says nothing."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are too many."""
        if len(self.connections) >= MOST:
            transport.write(_REFUSED % (len(FULL), FULL))
            transport.close()
            self.transport = transport
            return
        super().connection_made(transport)
        self._deadline = self.loop.call_later(SAYS_WITHIN, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._deadline:
            self._deadline.cancel()
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self in self.connections:
            super().data_received(data)

    def _too_slow(self) -> None:
        if self.cycle is None:
            self.transport.close()


def limits() -> dict[str, Any]:
    """What `uvicorn.Config` is given besides."""
    return {"http": Bounded, "ws": "none", "timeout_keep_alive": 30, "timeout_graceful_shutdown": 3}
