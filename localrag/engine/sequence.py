"""A request under way in the engine: its cells and the slot that holds them, what was written so far, and who waits for it."""

import asyncio
import codecs
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

from localrag.engine.draft import Lookup
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import Constraint, Sampler


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for an answer: a future, and the event loop that it belongs to."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Generation]"

    def settle(self, result: Generation | Exception) -> None:
        """Give the caller the answer or the error, unless it was cancelled meanwhile."""

        def settle() -> None:
            if self.future.done():
                return
            if isinstance(result, Exception):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)

        self.call(settle)

    def call(self, what: Any, *values: Any) -> None:
        """Call something on the caller's event loop, unless that is closed."""
        try:
            self.loop.call_soon_threadsafe(what, *values)
        except RuntimeError:
            return


@dataclass(eq=False, slots=True)
class Sequence:
    """A request on its way: `cells[:computed]` are in the KV of `slot`; `draft` guesses what follows the cells.

    Only the engine's thread changes it. Without a `caller` nobody hears of its end.
    """

    request: Request
    caller: Caller | None = None
    # Placing and computing it.
    cells: list[int] = field(init=False)
    arrival: int = 0
    computed: int = 0
    slot: int | None = None
    generated: int = 0
    draft: list[int] = field(default_factory=list)
    luck: float = 0.6  # share of its drafts that came true of late
    boundary: int = 0  # a piece ends here, because the cells up to it are worth keeping
    cancelled: bool = False
    suspect: bool = False  # it was in a step that failed: it is tried alone
    # What it writes.
    sampler: Sampler | None = None
    constraint: Constraint | None = None
    lookup: Lookup = field(default_factory=Lookup)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    text: str = ""
    forced: int = 0
    cached: int = 0
    asked: float = field(default_factory=time.perf_counter)
    waited: float = -1.0  # seconds until it first had a slot

    def __post_init__(self) -> None:
        self.cells = list(self.request.cells)

    @property
    def pending(self) -> int:
        """Known cells that are not computed yet."""
        return len(self.cells) - self.computed

    @property
    def to_boundary(self) -> int:
        """Cells up to the boundary at which a piece must end; without one, as many as there are."""
        left = self.boundary - self.computed
        return left if left > 0 else len(self.cells)

    def append(self, tokens: Seq[int]) -> None:
        """Add generated tokens: the one sampled and those the grammar forced after it."""
        self.cells.extend(tokens)
        self.generated += len(tokens)

    def useful(self, rows: int) -> float:
        """How many of `rows` rows are expected to bring it further."""
        known = min(rows, self.pending)
        drafted = min(rows - known, len(self.draft)) if known == self.pending else 0
        return known + (self.luck * (1 - self.luck**drafted) / (1 - self.luck) if drafted else 0.0)

    def emit(self, data: bytes) -> None:
        """Add bytes to the text, and tell the caller who listens."""
        new = self.decoder.decode(data)
        self.text += new
        if new and self.request.on_text and self.caller:
            self.caller.call(self.request.on_text, new)

    def stopped(self) -> bool:
        """Whether a stop text was written; the text then ends before it."""
        for stop in self.request.stop:
            at = self.text.find(stop)
            if at >= 0:
                self.text = self.text[:at]
                return True
        return False

    def settle(self, result: Generation | Exception) -> None:
        """Give the caller the answer or the error."""
        if self.caller:
            self.caller.settle(result)


def common_length(a: Seq[int], b: Seq[int]) -> int:
    """How many cells two sequences share from the start."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low, high = 0, n  # the first difference lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle)
    return low
