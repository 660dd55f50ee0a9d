"""Limits on open connections, on the time for a request's headers, and on the time to read an answer: uvicorn has none of them."""

import asyncio
from asyncio import Transport
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 512  # connections; a browser opens six, a program a few
SAYS_WITHIN = 30.0  # seconds for the headers of a request, from its first byte or from when the connection is free for it
READS_WITHIN = 60.0  # seconds in which a client must read LEAST_READ bytes of what waits for it, or all
LEAST_READ = 64 << 10
FULL = b'{"error":{"message":"Too many connections are open.","type":"server_error","param":null,"code":"busy","hint":"Close some."}}'
_HEAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n"
_REFUSED = _HEAD + b"content-length: %d\r\n\r\n%b"


class Bounded(H11Protocol):
    """A connection that is refused where too many are open, and closed where its client is too slow.

    Every request on a connection has its own deadline for headers. A body that is being read has its deadline in `guard.py`; here, a body
    that goes on after its request was answered has one. An answer may take any time to make, but the client must read what is sent of it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are too many."""
        if len(self.connections) >= MOST:
            transport.write(_REFUSED % (len(FULL), FULL))
            transport.close()
            self.transport = transport
            return
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that `pause_writing` is called at the first byte that the client does not read
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        for timer in (self._deadline, self._unread):
            if timer:
                timer.cancel()
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self not in self.connections:
            return
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_watch()  # the first byte of a request: its time begins now
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Start the deadline for reading: some of what was sent is unread."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Stop the deadline for reading: everything that was sent is read."""
        if self._unread:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        """Run a deadline while headers, or the rest of an answered request's body, are awaited; one that runs already goes on."""
        answered = self.cycle is None or self.cycle.response_complete
        if not answered or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SAYS_WITHIN, self.transport.abort)

    def _stop_watch(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _watch_reading(self) -> None:
        self._unread = self.loop.call_later(READS_WITHIN, self._check_reading, self.transport.get_write_buffer_size())

    def _check_reading(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_READ:
            self.transport.abort()
        else:
            self._watch_reading()


def limits() -> dict[str, Any]:
    """What `uvicorn.Config` is given besides."""
    return {"http": Bounded, "ws": "none", "timeout_keep_alive": 30, "timeout_graceful_shutdown": 3}
