"""The asyncio face of the model and the one thread that owns it: requests enter between steps, answers leave the same way."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.batch import SHORT, Planner, Step
from localrag.engine.prefixes import Prefixes
from localrag.engine.request import Backend, Generation, Request
from localrag.engine.sampler import Constraint, Sampler
from localrag.engine.sequence import Caller, Sequence
from localrag.engine.slots import Place, Slots
from localrag.engine.usage import Figures
from localrag.errors import ContextTooSmall, EngineFailed, LocalragError, NoRoom, kind_and_place


class Engine:
    """Runs many generations at once over one model. Create it, `await generate(...)`, and `close()` it."""

    def __init__(self, open_backend: Callable[[], Backend], *, piece: int = 512) -> None:
        """Open the model on the engine's own thread and wait for it; raises what `open_backend` raises.

        All of llama.cpp's work must come from one thread: OpenMP keeps a team of workers for every thread that ever computed, and once it
        counts more workers than cores they sleep instead of spin at each of a step's thousand barriers, which doubles its time (measured).
        """
        self.figures = Figures()
        self._inbox: queue.SimpleQueue[tuple[str, Sequence | None]] = queue.SimpleQueue()
        self._sequences: set[Sequence] = set()  # those that somebody waits for
        self._grammar_tokenizer: Any = None
        self._sending = threading.Lock()  # between the look whether the engine is closed and the putting of a request
        self._closed: EngineFailed | None = None  # what every request gets from the moment on that this is set
        opened: Future[Backend] = Future()
        self._thread = threading.Thread(target=self._run, args=(open_backend, opened), name="localrag-engine", daemon=True)
        self._thread.start()
        try:
            self.backend = b = opened.result()
            self.settings = b.settings
            self.window, self.at_once = b.n_ctx, b.settings.slots
            self.slots = Slots(b.settings, can_truncate=b.can_truncate, capacity=b.capacity)
            self._planner = Planner(b.settings, self.slots, piece)
            self.prefixes = Prefixes(b.prefix_folder if b.settings.share_prefixes else None)
        except BaseException:
            self._inbox.put(("close", None))
            raise
        self._inbox.put(("open", None))

    async def generate(self, request: Request) -> Generation:
        """Continue the request's cells until its grammar is complete, the model ends, or `max_tokens` are out.

        Cancelling the awaiting task frees the sequence before the next step. Raises ContextTooSmall, EngineFailed.
        """
        needed, window = len(request.cells) + request.max_tokens, self.backend.n_ctx
        if needed > window:
            raise ContextTooSmall(
                f"A prompt of {len(request.cells)} tokens and an answer of up to {request.max_tokens} need {needed} tokens; "
                f"the model's window here is {window}.",
                "Use a model with a larger window, a smaller chunk size, or --engine context=…",
                left=window - len(request.cells),
            )
        loop = asyncio.get_running_loop()
        caller = Caller(loop, loop.create_future())
        sequence = Sequence(request, caller)
        with self._sending:
            if self._closed:
                raise EngineFailed(str(self._closed), self._closed.hint)
            self._inbox.put(("add", sequence))
        try:
            return await caller.future
        except asyncio.CancelledError:
            self._inbox.put(("cancel", sequence))
            raise

    def report(self) -> dict[str, Any]:
        """What was done so far, as JSON-ready values."""
        return self.figures.to_json(self.settings.slots) | {
            "prefix_tokens_saved": self.slots.reused,
            "preempted": self.slots.preempted,
            "settings": self.settings.to_json(),
        }

    def leaks(self) -> list[str]:
        """What is wrong with the books of an idle engine: sequences or slots that nobody waits for. Empty when all is well."""
        return self.slots.leaks() + [f"{len(self._sequences)} sequences are kept"] * bool(self._sequences)

    def close(self) -> None:
        """Stop after the step under way and free the model; generations still running fail."""
        self._inbox.put(("close", None))
        self._thread.join()

    # Everything below runs on the engine's own thread.

    def _run(self, open_backend: Callable[[], Backend], opened: "Future[Backend]") -> None:
        try:
            opened.set_result(open_backend())
        except BaseException as error:  # noqa: BLE001 — the thread that opens the engine gets it
            opened.set_exception(error)
            return
        backend = opened.result()
        try:
            if self._inbox.get()[0] == "open":
                self._serve()
        finally:  # whatever ended it: nobody waits for an answer of a thread that is gone
            self._end(EngineFailed("The engine is closed."))
            backend.close()

    def _serve(self) -> None:
        while not self._closed and self._drain():
            started = time.perf_counter()
            try:
                self._place_waiting()
                if step := self._planner.plan():
                    self._carry_out(step)
            except Exception as error:  # noqa: BLE001 — the thread must outlive any step: its callers get the error
                self._fail(list(self._sequences), error)
                if isinstance(error, EngineFailed):
                    self._renew()
            self.figures.seconds += time.perf_counter() - started

    def _end(self, why: EngineFailed) -> None:
        """Refuse requests from now on, the first reason for it standing, and fail those that are here already."""
        with self._sending:
            self._closed = self._closed or why
        waiting = []
        with suppress(queue.Empty):
            while True:
                kind, sequence = self._inbox.get_nowait()
                waiting += [sequence] if sequence and kind == "add" else []
        for sequence in self._sequences:
            self.slots.release(sequence, keep=False)
        for sequence in [*self._sequences, *waiting]:
            sequence.settle(EngineFailed(str(self._closed), self._closed.hint))
        self._sequences.clear()

    def _drain(self) -> bool:
        """Take in what callers sent, waiting for them only when there is nothing to compute. False: close."""
        while True:
            try:
                kind, sequence = self._inbox.get(block=self.slots.idle)
            except queue.Empty:
                return True
            if sequence is None:
                return False
            if kind == "cancel":
                self._drop(sequence)
            else:
                self._start(sequence)

    def _drop(self, sequence: Sequence) -> None:
        if sequence in self._sequences:
            self._sequences.remove(sequence)
            self.slots.release(sequence)

    def _start(self, sequence: Sequence) -> None:
        request = sequence.request
        try:
            if request.grammar:
                self._grammar_tokenizer = self._grammar_tokenizer or self.backend.grammar_tokenizer()
                sequence.constraint = Constraint(self._grammar_tokenizer, request.grammar)
            sequence.sampler = Sampler(request.sampling, sequence.constraint, scored=request.scored)
            if request.task:
                sequence.boundary = self.prefixes.learn(request.task, sequence.cells)
        except Exception as error:  # noqa: BLE001 — a grammar that cannot be built fails its own request only
            sequence.settle(_failure(error))
            return
        self._sequences.add(sequence)
        self.slots.add(sequence)

    def _place_waiting(self) -> None:
        while place := self.slots.admit():
            for slot in place.evict:
                self.backend.truncate(slot, 0)
            self._place(place)
            sequence = place.sequence
            if sequence.waited < 0:
                sequence.waited, sequence.cached = time.perf_counter() - sequence.asked, sequence.computed
            self._keep_prefix(sequence)

    def _place(self, place: Place) -> None:
        sequence = place.sequence
        length, path = self.prefixes.find(sequence.cells)
        # A file of the shared beginning alone is read faster than another slot's whole stream is copied.
        if path and (length > place.keep or (place.source is not None and length == place.keep)):
            if self.backend.load(place.slot, path, sequence.cells[:length]):
                self.prefixes.used(path)
                self.slots.reused += length - place.keep
                sequence.computed = length
                return
            self.prefixes.dropped(path)
            if place.source is None:
                sequence.computed = 0
                return
        if place.source is not None:
            self.backend.copy(place.source, place.slot, place.keep)
        else:
            self.backend.truncate(place.slot, place.keep)

    def _keep_prefix(self, sequence: Sequence) -> None:
        """Write the KV of a beginning that its task's prompts share to a file, at the moment the slot holds just that."""
        if sequence.boundary and sequence.computed == sequence.boundary and sequence.slot is not None:
            cells = sequence.cells[: sequence.boundary]
            sequence.boundary = 0
            if self.prefixes.find([*cells, 0])[0] < len(cells):
                slot = sequence.slot
                self.prefixes.keep(cells, lambda path: self.backend.save(slot, path, cells))

    def _carry_out(self, step: Step) -> None:
        for slot in step.evict:
            self.backend.truncate(slot, 0)
        rows = [row for run in step.runs for row in run.as_rows()]
        started = time.perf_counter()
        try:
            logits = self.backend.decode(rows)
        except NoRoom as error:
            self._make_room(step, error)
            return
        except EngineFailed as error:
            self._recover(step, error)
            return
        before = sum(r.sequence.generated for r in step.runs)
        seconds = time.perf_counter() - started
        self._use(step, logits)
        self._count(step, seconds, len(rows), sum(r.sequence.generated for r in step.runs) - before)

    def _recover(self, step: Step, error: EngineFailed) -> None:
        """A step failed: the KV is made anew. A lone request gets the error; of several each is tried alone, for one is to blame."""
        if len(step.runs) == 1:
            self._fail([r.sequence for r in step.runs], error)
        for run in step.runs:
            run.sequence.suspect = True
        self._renew()

    def _renew(self) -> None:
        """Make the KV anew, empty; where that fails, nothing can be computed any more."""
        self.slots.lost()
        try:
            self.backend.reset()
        except Exception as lost:  # noqa: BLE001 — without a context the next call would end the process
            reason = lost if isinstance(lost, LocalragError) else kind_and_place(lost)
            self._end(
                EngineFailed(
                    f"The engine is closed: after a failed step its KV could not be made anew. {reason}",
                    getattr(lost, "hint", "") or "Run the same command again; what is done is saved.",
                )
            )

    def _make_room(self, step: Step, error: NoRoom) -> None:
        """The step did not fit into the KV: the newest sequence waits; a lone one fails with the numbers."""
        if len(self.slots.running) == 1:
            self._fail([r.sequence for r in step.runs], error)
            return
        self.backend.truncate(self.slots.send_back(self.slots.newest), 0)

    def _use(self, step: Step, logits: NDArray[np.float32]) -> None:
        """Hand the rows of a step to the sequences, and take back from the KV what they did not want."""
        at, waiting = 0, {id(run) for run in step.computed()}
        for run in step.runs:
            sequence, slot, end = run.sequence, run.sequence.slot, run.sequence.computed + run.rows - run.known
            if id(run) in waiting:
                wanted = 1 + run.drafted
                try:
                    self._take(sequence, logits[at : at + wanted], sequence.draft[: wanted - 1])
                except Exception as error:  # noqa: BLE001 — one request's grammar may fail; the others of the step go on
                    self._fail([sequence], error)
                at += wanted
            if slot is not None and (held := self.slots.held(slot)) < end:
                self.backend.truncate(slot, held)
            self._keep_prefix(sequence)

    def _take(self, sequence: Sequence, rows: NDArray[np.float32], draft: list[int]) -> None:
        """Draw tokens from a sequence's rows as long as its draft foretold them, and finish it where it is complete.

        rows: (1 + len(draft), n_vocab); row i follows the i-th drafted token.
        """
        base, right = len(sequence.cells), 0
        while not self._draw(sequence, rows[right]):
            while right < len(draft) and base + right < len(sequence.cells) and sequence.cells[base + right] == draft[right]:
                right += 1
            sequence.computed = base + right
            if sequence.pending or right == len(rows):
                break
        if draft:
            self.figures.tasks[sequence.request.task].drafted_tokens += right
            sequence.luck = min(0.9, 0.7 * sequence.luck + 0.3 * right / len(draft))
        if sequence in self._sequences:
            sequence.draft = self._guess(sequence) if self.settings.drafts and self.slots.can_truncate else []

    def _draw(self, sequence: Sequence, row: NDArray[np.float32]) -> bool:
        """Draw a sequence's next token, append it with what it forces; whether that finished it."""
        assert sequence.sampler is not None
        token = sequence.sampler.choose(row)
        if token in self.backend.end_tokens:
            self._finish(sequence, complete=True)
            return True
        tokens = [token]
        constraint, most = sequence.constraint, sequence.request.max_tokens
        if constraint:
            tokens += constraint.forced()
            sequence.forced += len(tokens) - 1
        room = most - sequence.generated
        sequence.append(tokens[:room])
        sequence.emit(b"".join(self.backend.piece(t) for t in tokens[:room]))
        if constraint and len(tokens) <= room:
            constraint.advance(lambda: sequence.text)
        stopped = sequence.stopped()
        if stopped or (constraint and constraint.finished):
            self._finish(sequence, complete=True)
        elif sequence.generated >= most:
            self._finish(sequence, complete=False)
        elif sequence.caller and sequence.caller.loop.is_closed():  # gone without a word
            self._drop(sequence)
        return sequence not in self._sequences

    @staticmethod
    def _guess(sequence: Sequence) -> list[int]:
        draft = sequence.lookup.guess(sequence.cells)
        draft = draft[: max(0, sequence.request.max_tokens - sequence.generated - 1)]
        return draft[: sequence.constraint.valid(draft)] if draft and sequence.constraint else draft

    def _finish(self, sequence: Sequence, *, complete: bool) -> None:
        request, seconds = sequence.request, time.perf_counter() - sequence.asked
        self.slots.finished(sequence)
        self._drop(sequence)
        figures = self.figures.tasks[request.task]
        figures.requests += 1
        figures.prompt_tokens += len(request.cells)
        figures.cached_tokens += sequence.cached
        figures.output_tokens += sequence.generated
        figures.forced_tokens += sequence.forced
        figures.seconds.append(seconds)
        figures.waits.append(sequence.waited)
        counts = (len(request.cells), sequence.cached, sequence.generated, sequence.forced)
        likely = sequence.sampler.log_probability if sequence.sampler else 0.0
        sequence.settle(Generation(sequence.text, complete, tuple(sequence.cells), *counts, seconds, sequence.waited, likely))

    def _fail(self, sequences: list[Sequence], error: Exception) -> None:
        for sequence in sequences:
            slot = sequence.slot
            self.slots.release(sequence, keep=False)
            self._sequences.discard(sequence)
            if slot is not None:
                self.backend.truncate(slot, 0)
            sequence.settle(_failure(error))

    def _count(self, step: Step, seconds: float, rows: int, written: int) -> None:
        f = self.figures
        f.steps, f.rows = f.steps + 1, f.rows + rows
        f.written_tokens += written
        if len(step.runs) == 1 and step.runs[0].known > SHORT:
            f.read_tokens, f.read_seconds = f.read_tokens + step.runs[0].known, f.read_seconds + seconds
            return
        f.write_seconds, f.write_steps = f.write_seconds + seconds, f.write_steps + 1
        f.busy_slots += len(step.runs)


def _failure(error: Exception) -> EngineFailed:
    return error if isinstance(error, EngineFailed) else EngineFailed(f"The engine failed: {kind_and_place(error)}")
