"""The asyncio face of the model and the one thread that owns it: requests enter between steps, answers leave the same way."""

import asyncio
import codecs
import queue
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.engine.sampler import GREEDY, Constraint, Grammar, Sampler, Sampling
from localrag.engine.scheduler import Cell, Scheduler, Sequence, Step, read
from localrag.errors import ContextTooSmall, EngineFailed


class Chat(Protocol):
    """A model's chat template."""

    def render(self, messages: Seq[dict[str, str]]) -> str:
        """The text of a conversation, ready for the model to answer."""


class Backend(Protocol):
    """What the engine asks of a model: `llama.Llama`, or the fake of the tests."""

    parameters: int
    n_ctx: int
    slots: int
    can_truncate: bool
    end_tokens: frozenset[int]

    @property
    def chat(self) -> Chat:
        """The chat template."""

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """The tokens of a text."""

    def piece(self, token: int) -> bytes:
        """The bytes of a token."""

    def grammar_tokenizer(self) -> Any:
        """llguidance's view of the vocabulary."""

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> NDArray[np.float32]:
        """Logits of the wanted rows of (token, position, slot, wanted)."""

    def copy(self, source: int, target: int) -> None:
        """Copy a slot's KV."""

    def truncate(self, sequence: int, length: int) -> None:
        """Cut a slot's KV."""

    def close(self) -> None:
        """Free the model."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to continue. `cells` may hold an earlier generation's, which then goes on in the KV it left."""

    cells: tuple[Cell, ...]
    max_tokens: int
    grammar: Grammar | None = None
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()
    priority: int = 0
    on_text: Callable[[str], None] | None = None  # called on the event loop with each new stretch of text


@dataclass(frozen=True, slots=True)
class Generation:
    """What came out. `complete` is False where `max_tokens` cut it off; `cells` is the whole sequence, to be continued."""

    text: str
    complete: bool
    cells: tuple[Cell, ...]
    prompt_tokens: int
    output_tokens: int
    forced_tokens: int
    seconds: float


@dataclass(eq=False, slots=True)
class _Job:
    request: Request
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Generation]"
    sequence: Sequence
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    sampler: Sampler | None = None
    constraint: Constraint | None = None
    text: str = ""
    forced: int = 0
    started: float = 0.0


class Engine:
    """Runs many generations at once over one backend. Create it, `await generate(...)`, and `close()` it."""

    def __init__(self, backend: Backend, *, piece: int = 512) -> None:
        self.backend = backend
        self.scheduler = Scheduler(backend.slots, backend.n_ctx, piece, can_truncate=backend.can_truncate)
        self.steps = self.rows = 0
        self._inbox: queue.SimpleQueue[tuple[str, _Job | None]] = queue.SimpleQueue()
        self._jobs: dict[Sequence, _Job] = {}
        self._grammar_tokenizer: Any = None
        self._thread = threading.Thread(target=self._run, name="localrag-engine", daemon=True)
        self._thread.start()

    async def generate(self, request: Request) -> Generation:
        """Continue the request's cells until its grammar is complete, the model ends, or `max_tokens` are out.

        Cancelling the awaiting task frees the sequence before the next step. Raises ContextTooSmall, EngineFailed.
        """
        needed, window = len(request.cells) + request.max_tokens, self.backend.n_ctx
        if needed > window:
            raise ContextTooSmall(
                f"A prompt of {len(request.cells)} tokens and an answer of up to {request.max_tokens} need {needed} tokens; "
                f"the model's window here is {window}.",
                "Use a model with a larger window, or a smaller chunk size.",
            )
        loop = asyncio.get_running_loop()
        sequence = Sequence(list(request.cells), request.max_tokens, request.priority)
        job = _Job(request, loop, loop.create_future(), sequence)
        self._inbox.put(("add", job))
        try:
            return await job.future
        except asyncio.CancelledError:
            self._inbox.put(("cancel", job))
            raise

    def cells(self, text: str) -> tuple[Cell, ...]:
        """The cells of a rendered prompt."""
        return tuple(read(self.backend.tokenize(text, special=True, start=True)))

    def forget(self) -> None:
        """Drop every KV that no running sequence uses, before the next step; for measurements from a cold start."""
        self._inbox.put(("forget", None))

    def close(self) -> None:
        """Stop after the step under way and free the model; generations still running fail."""
        self._inbox.put(("close", None))
        self._thread.join()

    # Everything below runs on the engine's own thread.

    def _run(self) -> None:
        while self._drain():
            try:
                self._place_waiting()
                if step := self.scheduler.plan():
                    self._carry_out(step)
            except Exception as error:  # noqa: BLE001 — the thread must outlive any step: its jobs get the error
                self._fail(list(self._jobs.values()), error)
        self._fail(list(self._jobs.values()), EngineFailed("The engine was closed while this was being generated."))
        self.backend.close()

    def _drain(self) -> bool:
        """Take in what callers sent, waiting for them only when there is nothing to compute. False: close."""
        while True:
            try:
                kind, job = self._inbox.get(block=self.scheduler.idle)
            except queue.Empty:
                return True
            if kind == "forget":
                for slot in self.scheduler.forget():
                    self.backend.truncate(slot, 0)
                continue
            if job is None:
                return False
            if kind == "cancel":
                self._jobs.pop(job.sequence, None)
                self.scheduler.release(job.sequence)
            else:
                self._start(job)

    def _start(self, job: _Job) -> None:
        job.started = time.perf_counter()
        try:
            if grammar := job.request.grammar:
                self._grammar_tokenizer = self._grammar_tokenizer or self.backend.grammar_tokenizer()
                job.constraint = Constraint(self._grammar_tokenizer, grammar)
        except Exception as error:  # noqa: BLE001 — a grammar that cannot be built fails its own request only
            self._settle(job, error)
            return
        job.sampler = Sampler(job.request.sampling, job.constraint)
        self._jobs[job.sequence] = job
        self.scheduler.add(job.sequence)

    def _place_waiting(self) -> None:
        while place := self.scheduler.admit():
            if place.source is not None:
                self.backend.copy(place.source, place.slot)
            self.backend.truncate(place.slot, place.keep)

    def _carry_out(self, step: Step) -> None:
        rows = []
        for sequence, count in step.runs:
            end = sequence.computed + count
            assert sequence.slot is not None
            rows += [(sequence.cells[i].token, i, sequence.slot, i == len(sequence.cells) - 1) for i in range(sequence.computed, end)]
        spare = self._fill_gaps(rows)
        try:
            logits = self.backend.decode(sorted(rows + spare, key=lambda row: row[2]))
            for _, position, slot, _ in spare:
                self.backend.truncate(slot, position)
        except EngineFailed as error:
            self._fail([self._jobs[s] for s, _ in step.runs], error)
            return
        self.steps, self.rows = self.steps + 1, self.rows + len(rows)
        for row, sequence in zip(logits, self.scheduler.computed(step), strict=True):
            job = self._jobs[sequence]
            try:
                self._take(job, row)
            except EngineFailed as error:
                self._fail([job], error)

    def _fill_gaps(self, rows: list[tuple[int, int, int, bool]]) -> list[tuple[int, int, int, bool]]:
        """Rows for the slots between those of a decode step, taken back after it: llama.cpp computes neighbouring slots in one pass, and
        a pass costs more than a row (4 slots: 26 ms together, 54 ms with gaps)."""
        used = {row[2] for row in rows}
        if len(used) < 2 or not self.backend.can_truncate:
            return []
        gaps = {slot: self.scheduler.held(slot) for slot in range(min(used), max(used)) if slot not in used}
        return [(rows[0][0], held, slot, False) for slot, held in gaps.items() if held < self.backend.n_ctx]

    def _take(self, job: _Job, row: NDArray[np.float32]) -> None:
        """Draw a job's next token from its row, append it with what it forces, and finish the job where it is complete."""
        assert job.sampler is not None
        token = job.sampler.choose(row)
        if token in self.backend.end_tokens:
            self._finish(job, complete=True)
            return
        tokens = [token]
        if constraint := job.constraint:
            tokens += constraint.forced()
            job.forced += len(tokens) - 1
        room = job.sequence.max_tokens - len(job.sequence.generated)
        job.sequence.append(tokens[:room])
        self._emit(job, b"".join(self.backend.piece(t) for t in tokens[:room]))
        if constraint and len(tokens) <= room:
            constraint.advance(lambda: job.text)
        stopped = self._stop_at(job)
        if stopped or (constraint and constraint.finished):
            self._finish(job, complete=True)
        elif len(job.sequence.generated) >= job.sequence.max_tokens:
            self._finish(job, complete=False)

    def _emit(self, job: _Job, data: bytes) -> None:
        new = job.decoder.decode(data)
        job.text += new
        if new and job.request.on_text:
            job.loop.call_soon_threadsafe(job.request.on_text, new)

    @staticmethod
    def _stop_at(job: _Job) -> bool:
        for stop in job.request.stop:
            at = job.text.find(stop)
            if at >= 0:
                job.text = job.text[:at]
                return True
        return False

    def _finish(self, job: _Job, *, complete: bool) -> None:
        self.scheduler.release(job.sequence)
        self._jobs.pop(job.sequence, None)
        generation = Generation(
            job.text,
            complete,
            tuple(job.sequence.cells),
            len(job.request.cells),
            len(job.sequence.generated),
            job.forced,
            time.perf_counter() - job.started,
        )
        self._settle(job, generation)

    def _fail(self, jobs: list[_Job], error: Exception) -> None:
        for job in jobs:
            slot = job.sequence.slot
            self.scheduler.release(job.sequence, keep=False)
            self._jobs.pop(job.sequence, None)
            if slot is not None:
                self.backend.truncate(slot, 0)
            self._settle(job, error if isinstance(error, EngineFailed) else EngineFailed(f"The engine failed: {error!r}"))

    @staticmethod
    def _settle(job: _Job, result: Generation | Exception) -> None:
        def settle() -> None:
            if job.future.done():  # cancelled meanwhile
                return
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

        try:
            job.loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the caller's loop has closed: nobody waits any more
            return
