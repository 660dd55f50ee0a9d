"""What workers have done, as it is shown: one by one while they are there, and the last that have ended; those before them in one sum."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

SHOWN = 16  # workers that have ended and are shown one by one: on a shaky network they would be ever more

Figures = tuple[int, float, int, float, int]
NONE: Figures = (0, 0.0, 0, 0.0, 0)


def total(figures: list[Figures]) -> Figures:
    """Tokens read, their seconds, tokens written, their seconds, tokens computed: of all together."""
    a, b, c, d, e = zip(NONE, *figures, strict=True)
    return sum(a), sum(b), sum(c), sum(d), sum(e)


@dataclass(slots=True)
class Did:
    """What a worker has done, and when it was last heard of."""

    units: int = 0
    chunks: int = 0
    calls: int = 0
    busy: float = 0.0
    seen: float = field(default_factory=time.time)
    figures: Figures = NONE

    def add(self, other: "Did") -> None:
        """Count what another did as well."""
        self.units, self.chunks, self.calls = self.units + other.units, self.chunks + other.chunks, self.calls + other.calls
        self.busy, self.seen = self.busy + other.busy, max(self.seen, other.seen)
        self.figures = total([self.figures, other.figures])

    def row(self, name: str, place: str, arithmetic: str, state: str, under_way: int = 0) -> dict[str, Any]:
        """The same for a person, JSON-ready."""
        f = self.figures
        return {
            "name": name,
            "place": place,
            "class": arithmetic,
            "state": state,
            "units": self.units,
            "chunks": self.chunks,
            "chunks_per_s": round(self.chunks / self.busy, 2) if self.busy else None,
            "calls": self.calls,
            "read_tokens_per_s": round(f[0] / f[1], 1) if f[1] else None,
            "written_tokens_per_s": round(f[2] / f[3], 1) if f[3] else None,
            "under_way": under_way,
            "seen_at": self.seen,
        }


class Ended:
    """The workers that have ended."""

    def __init__(self) -> None:
        self._last: deque[tuple[Did, dict[str, Any]]] = deque()
        self._before, self._many = Did(seen=0.0), 0

    def add(self, did: Did, row: dict[str, Any]) -> None:
        """One more, with its row."""
        self._last.append((did, row))
        if len(self._last) > SHOWN:
            self._before.add(self._last.popleft()[0])
            self._many += 1

    def rows(self) -> list[dict[str, Any]]:
        """The last ones, and a row for all before them."""
        before = [self._before.row(f"{self._many} before them", "", "", "ended")] if self._many else []
        return [*(row for _, row in reversed(self._last)), *before]

    @property
    def figures(self) -> Figures:
        """Those of all of them together."""
        return total([self._before.figures, *(did.figures for did, _ in self._last)])
