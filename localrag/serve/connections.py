"""How many connections are held, and how long one may take to say what it wants and to read what it gets: uvicorn bounds neither."""

import asyncio
from asyncio import Transport
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 512  # connections; a browser opens six, a program a few
SAYS_WITHIN = 30.0  # seconds from the first byte of a request, or from where it could come, to the end of its headers
READS_WITHIN = 60.0  # seconds in which a client takes at least TAKES bytes of what waits for it, or all
TAKES = 64 << 10
FULL = b'{"error":{"message":"Too many connections are open.","type":"server_error","param":null,"code":"busy","hint":"Close some."}}'
_HEAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n"
_REFUSED = _HEAD + b"content-length: %d\r\n\r\n%b"


class Bounded(H11Protocol):
    """A connection that is refused where too many are open, and closed where its client is too slow.

    Every request has its time for headers, also one that follows another on the same connection. The time for a body is the guard's matter
    (`guard.py`) while somebody reads it; here it is that of one which goes on after its request was answered. An answer may take as long
    as it takes, but what is sent of it is to be read.
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
        transport.set_write_buffer_limits(high=0)  # so that `pause_writing` tells of the first byte which the client does not take
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
            self._stop_watch()  # the first byte of a request: it has all the time from now on
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Not everything that was sent has been taken."""
        super().pause_writing()
        self._look_again()

    def resume_writing(self) -> None:
        """Everything that was sent has been taken."""
        if self._unread:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        """Have a deadline while the client is to say something that nobody else waits for; one that runs goes on."""
        answered = self.cycle is None or self.cycle.response_complete
        if not answered or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SAYS_WITHIN, self.transport.abort)

    def _stop_watch(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _look_again(self) -> None:
        self._unread = self.loop.call_later(READS_WITHIN, self._read_on, self.transport.get_write_buffer_size())

    def _read_on(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < TAKES:
            self.transport.abort()
        else:
            self._look_again()


def limits() -> dict[str, Any]:
    """What `uvicorn.Config` is given besides."""
    return {"http": Bounded, "ws": "none", "timeout_keep_alive": 30, "timeout_graceful_shutdown": 3}
