"""A request under way in the engine: what is known of it besides its sequence, and how its caller hears of the end."""

import asyncio
import codecs
import time
from dataclasses import dataclass, field
from typing import Any

from localrag.engine.draft import Lookup
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import Constraint, Sampler
from localrag.engine.scheduler import Sequence


@dataclass(eq=False, slots=True)
class Job:
    """A request, the loop and the future of its caller, and what was generated so far."""

    request: Request
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Generation]"
    sequence: Sequence
    lookup: Lookup = field(default_factory=Lookup)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    sampler: Sampler | None = None
    constraint: Constraint | None = None
    text: str = ""
    forced: int = 0
    cached: int = 0
    asked: float = field(default_factory=time.perf_counter)
    waited: float = -1.0  # seconds until it first had a slot

    def emit(self, data: bytes) -> None:
        """Add bytes to the text, and tell the caller who listens."""
        new = self.decoder.decode(data)
        self.text += new
        if new and self.request.on_text:
            self._call(self.request.on_text, new)

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

        def settle() -> None:
            if self.future.done():  # cancelled meanwhile
                return
            if isinstance(result, Exception):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)

        self._call(settle)

    def _call(self, what: Any, *values: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(what, *values)
        except RuntimeError:  # the caller's loop has closed: nobody waits any more
            return
