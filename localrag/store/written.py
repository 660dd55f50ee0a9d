"""How much is written to the write-ahead log of an index, told by SQLite's own index of it (https://sqlite.org/walformat.html)."""

import struct
from contextlib import suppress
from pathlib import Path

_HEADER = struct.Struct("=IIIBBHI12xII")  # of the `-shm` file: version, unused, change, set up, order of bytes, page size, frames; salts
_FRAME = 24  # bytes before each page in the log


class LogMeter:
    """Counts what is added to the log of a database; it is to look (`note`) after each transaction, before the log may begin anew.

    What others write between two looks counts as well. A page counts once for each transaction that changes it, as in the log.
    """

    def __init__(self, database: Path) -> None:
        self.bytes = 0
        self._file = Path(f"{database}-shm")
        self._salts, self._frames = self._state()[1:]

    def note(self) -> None:
        """Count what was added since the last look."""
        page, salts, frames = self._state()
        self.bytes += max(0, frames - (self._frames if salts == self._salts else 0)) * (page + _FRAME)
        self._salts, self._frames = salts, frames

    def _state(self) -> tuple[int, tuple[int, int], int]:
        """Bytes of a page, what the log is told from those before it by, and how many pages it holds."""
        with suppress(OSError, struct.error):  # no log, or no index of one
            with self._file.open("rb", buffering=0) as f:
                *_, page, frames, first, second = _HEADER.unpack(f.read(_HEADER.size))
            return page if page > 1 else 1 << 16, (first, second), frames
        return 0, (0, 0), 0
