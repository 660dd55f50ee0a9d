"""How much is written to the write-ahead log of an index, told by the log itself (https://sqlite.org/walformat.html).

Never by its index, the `-shm` file: who opens and closes that drops the locks that SQLite holds on it in the same process.
"""

import struct
from contextlib import suppress
from io import FileIO
from pathlib import Path

_HEADER = struct.Struct(">8xI4x8s8x")  # of the log: size of a page, what its frames are told from those of earlier logs by
_FRAME = struct.Struct(">8x8s8x")  # before each page


class LogMeter:
    """Counts what is added to the log of a database; it is to look (`note`) after each transaction, before the log may begin anew.

    What others write between two looks counts as well. A page counts once for each transaction that changes it, as in the log.
    """

    def __init__(self, database: Path) -> None:
        self.bytes = 0
        self._file = Path(f"{database}-wal")
        self._salts, self._frames = b"", 0
        self.note()
        self.bytes = 0

    def note(self) -> None:
        """Count what was added since the last look."""
        with suppress(OSError, struct.error), FileIO(self._file) as log:  # there may be no log, or an empty one
            page, salts = _HEADER.unpack(log.read(_HEADER.size))
            before = self._frames if salts == self._salts else 0
            self._salts, self._frames = salts, _frames(log, page, salts, before)
            self.bytes += (self._frames - before) * (page + _FRAME.size)


def _frames(log: FileIO, page: int, salts: bytes, known: int) -> int:
    """How many frames a log has, `known` at least: those behind them are of an earlier log, so it is the first that is none of it."""

    def there(n: int) -> bool:
        log.seek(_HEADER.size + n * (page + _FRAME.size))
        head = log.read(_FRAME.size)
        return len(head) == _FRAME.size and bool(_FRAME.unpack(head)[0] == salts)

    low, step = known, 1
    while there(low + step - 1):
        low, step = low + step, 2 * step
    high = low + step - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if there(middle) else (low, middle)
    return low
