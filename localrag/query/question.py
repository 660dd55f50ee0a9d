"""A question on its way through a mode: how it is to be answered, and what it may still cost."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from localrag.query.draft import Point
from localrag.records import Answer, Citation
from localrag.where import Selection

# What a question costs at most where the user sets no limit. In the paper (table 3) the coarsest reports had 26,657 and 39,770 tokens.
CALLS, TOKENS = 50, 100_000
LONGEST_QUESTION = 10_000  # characters
UNBOUNDED = sys.maxsize  # as `max_calls`: everything is read, whatever it costs


@dataclass(slots=True)
class Budget:
    """Calls, tokens and seconds that may still be spent; `stopped` once something was left undone for it.

    `tokens` bounds what map calls take together; every other step is bounded by its own. It also keeps what became of the calls: how many
    were made, why some gave nothing, how many texts map calls have read, whether an answer was cut off, the words in which the model
    `declined` to answer, whether it `echoed` its prompt instead; and whether the user has agreed.
    """

    calls: int | None = None
    until: float | None = None  # time.monotonic()
    tokens: int | None = None
    stopped: bool = False
    made: int = 0
    failures: list[str] = field(default_factory=list)
    cut_off: bool = False
    declined: str = ""
    echoed: bool = False
    read: int = 0
    agreed: bool = False

    @classmethod
    def of(cls, options: "Options") -> "Budget":
        """What the options allow, from now on; the usual limits where they set none."""
        until = None if options.max_seconds is None else time.monotonic() + options.max_seconds
        if options.max_calls is None:
            return cls(CALLS, until, TOKENS)
        return cls(None if options.max_calls == UNBOUNDED else options.max_calls, until)

    def take(self) -> bool:
        """Whether one more call may be made; if so, it counts."""
        if (self.calls is not None and self.calls <= 0) or (self.until is not None and time.monotonic() >= self.until):
            self.stopped = True
            return False
        if self.calls is not None:
            self.calls -= 1
        self.made += 1
        return True

    def timeout(self) -> asyncio.Timeout:
        """A timeout context for what is under way."""
        left = None if self.until is None else max(0.0, self.until - time.monotonic())
        return asyncio.timeout(left)


@dataclass(frozen=True, slots=True)
class Options:
    """How to answer. `level` None: the community level that fits; `style` empty: the index's own; `max_calls` None: the usual limits.

    `strict` leaves out sentences without support. `context_only` gives what the model would see instead of an answer.
    `selection`: from which documents to answer; None: from those of the conversation's last answer, else from all.
    """

    mode: str = "auto"
    level: int | None = None
    dynamic: bool = False
    seed: int = 0
    style: str = ""
    strict: bool = False
    max_calls: int | None = None
    max_seconds: float | None = None
    response_type: str = ""
    context_only: bool = False
    conversation: int | None = None  # its number, to go on with it
    temperature: float = 0.0  # of what the model writes; `seed` decides what is drawn
    selection: Selection | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who hears of an answer while it is made.

    `text` is given every new stretch of the answer as it will stand, `citation` each citation before the text that has its number, `draft`
    the sentence being written, which is not checked yet, `status` what is being done until then. `agree` is asked whether to go on where
    it may take more than a minute. `kept` is given the answer as the index keeps it, also what there was of one that was cancelled.
    """

    text: Callable[[str], None] | None = None
    citation: Callable[[Citation], None] | None = None
    draft: Callable[[str], None] | None = None
    status: Callable[[str], None] | None = None
    agree: Callable[[], bool] | None = None
    kept: Callable[[Answer], None] | None = None


NOBODY = Watch()


@dataclass(frozen=True, slots=True)
class Question:
    """A question that stands on its own, its vector, (d,) float32, how to answer it, and who hears of it.

    `on_point` is given each point of the final prose as soon as it is written.
    """

    text: str
    vector: NDArray[np.float32]
    style: str
    options: Options = Options()
    budget: Budget = field(default_factory=Budget)
    on_point: Callable[[Point], None] | None = None
    watch: Watch = NOBODY

    def tell(self, status: str) -> None:
        """Say what is being done now."""
        if self.watch.status:
            self.watch.status(status)

    def count(self, what: str, total: int) -> Callable[[int], None]:
        """Say `what`, in which `{}` is how many of a `total` are done: none at first; the function that is returned takes how many more."""
        done = 0

        def more(n: int) -> None:
            nonlocal done
            done += n
            self.tell(what.format(f"{done} of {total}"))

        more(0)
        return more

    def sketch(self, draft: str) -> None:
        """Show the sentence being written; it replaces the one shown before."""
        if self.watch.draft:
            self.watch.draft(draft)

    @property
    def extractive(self) -> bool:
        """Whether the answer is put together from sentences of the documents."""
        return self.style == "extractive" and not self.options.context_only

    @property
    def one_sentence(self) -> bool:
        """Whether a single sentence was asked for."""
        return any(w in self.options.response_type.lower() for w in ("single sentence", "one sentence"))
