"""What goes to a worker and what comes back, and the models as they are where no engine is: answers that are committed, and no others."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from localrag.about import Use
from localrag.engine.request import Generation, Request
from localrag.errors import EngineFailed, LocalragError, ModelError
from localrag.index.jobs import Job
from localrag.llm.ledger import Ledger
from localrag.llm.model import Model, Reply
from localrag.records import Call

KEPT = 4096  # calls that a worker remembers: what a document says twice is asked once


class NeedsEngine(Exception):
    """A job came to a question that is not answered yet, where there is no engine to ask."""


class WorkerLost(EngineFailed):
    """A job ended the workers that did it."""

    kind = "took its worker down"


class WorkersEnded(ModelError):
    """There is nobody left to do anything."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A job with what it needs: the text of its document, where the worker is not known to have it, and the committed answers about it."""

    job: Job[Any]
    text: str | None = None
    known: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """What came of a job: its result or its error, the answers it took from the model, and what else it found is asked for.

    `needs` says what was missing: "engine" or "text". `figures` are tokens read, their seconds, tokens written, their seconds, and tokens
    computed in all by the worker so far.
    """

    result: Any = None
    error: LocalragError | None = None
    needs: str = ""
    calls: tuple[Call, ...] = ()
    confirmed: tuple[Use, ...] = ()
    seconds: float = 0.0
    figures: tuple[int, float, int, float, int] = (0, 0.0, 0, 0.0, 0)


@dataclass(slots=True)
class Carried:
    """The answers that came with one job, and what becomes of them."""

    known: dict[str, Call]
    calls: dict[str, Call] = field(default_factory=dict)
    confirmed: list[Use] = field(default_factory=list)


CARRIED: ContextVar[Carried] = ContextVar("CARRIED")


@dataclass(frozen=True, slots=True)
class Recalling:
    """The ledger of the one who hands out jobs: what a job finds in it is noted, and goes along where that is not all."""

    committed: Ledger

    def find(self, key: str) -> Call | None:
        """The committed answer to exactly this request."""
        call = self.committed.find(key)
        if call is not None and (carried := CARRIED.get(None)) is not None:
            carried.known[key] = call
        return call

    def save(self, call: Call, *, needed: bool) -> None:
        """Commit an answer."""
        self.committed.save(call, needed=needed)

    def confirm(self, use: Use) -> None:
        """Say of an answer that what is stored now asks for it."""
        self.committed.confirm(use)


class CarriedLedger:
    """A worker's ledger: answers come with a job and go back with it. Those of the last jobs are remembered, in memory alone."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Call] = OrderedDict()

    def find(self, key: str) -> Call | None:
        """The answer that came with the job, or that a job before it got; such a one goes back with both."""
        carried = CARRIED.get()
        if (call := carried.known.get(key)) is None and (call := self._last.get(key)) is not None:
            carried.calls.setdefault(key, call)
        return call

    def save(self, call: Call, *, needed: bool) -> None:  # noqa: ARG002 — as the protocol has it
        """Let an answer go back with the job."""
        CARRIED.get().calls.setdefault(call.key, call)
        self._last[call.key] = call
        while len(self._last) > KEPT:
            self._last.popitem(last=False)

    def confirm(self, use: Use) -> None:
        """Say of an answer that what is stored now asks for it."""
        CARRIED.get().confirmed.append(use)


class Committed(Model):
    """A model of which only the committed answers can be had."""

    async def _generate(self, request: Request, after: Reply | None) -> tuple[tuple[int, ...], Generation]:  # noqa: ARG002
        raise NeedsEngine


@dataclass(frozen=True, slots=True)
class Committing:
    """How the one who hands out jobs looks into the ledger, and writes to it."""

    about: Callable[[Sequence[str]], list[Call]]  # the answers about texts with these content ids
    save: Callable[[Iterable[Call], Iterable[Use]], None]  # commits answers; and what else committed ones are asked for
    resumed: bool  # whether an earlier run may have left answers
