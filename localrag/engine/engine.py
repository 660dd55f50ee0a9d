"""The asyncio front of a model and the one thread that runs it, which receives requests between two steps and resolves their futures."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.request import EngineMetrics, Generation, Request, Sequence
from localrag.engine.sampler import GrammarMatcher, Sampler
from localrag.engine.scheduler import MIN_PREFILL_ROWS, SlotAssignment, SlotManager, Step, StepPlanner
from localrag.errors import ContextTooSmall, EngineError, LocalragError, error_location, known_error

if TYPE_CHECKING:
    from localrag.engine.llama.model import LlamaModel


class Engine:
    """Generates for many requests at once with one model: create it, `await generate(...)`, and `close()` it."""

    def __init__(self, open_backend: "Callable[[], LlamaModel]", *, max_rows: int = 512) -> None:
        """Open the model on the engine's own thread and wait for it; raises what `open_backend` raises.

        All llama.cpp calls must come from one thread: OpenMP keeps a team of workers for every thread that has computed, and once there are
        more workers than cores they sleep instead of spin at each of a step's thousand barriers, which doubles its time (measured).
        """
        self.figures = EngineMetrics()
        self._inbox: queue.SimpleQueue[tuple[str, Sequence | None]] = queue.SimpleQueue()
        self._sequences: set[Sequence] = set()  # sequences with a waiting caller
        self._grammar_tokenizer: Any = None
        self._sending = threading.Lock()  # held from the check of `_closed` until the request is queued
        self._closed: EngineError | None = None  # once set, the error of every request
        opened: Future[LlamaModel] = Future()
        self._thread = threading.Thread(target=self._run, args=(open_backend, opened), name="localrag-engine", daemon=True)
        self._thread.start()
        try:
            self.backend = b = opened.result()
            self.settings = b.settings
            self.window, self.parallel_requests = b.n_ctx, b.settings.slots
            self.slots = SlotManager(b.settings, can_truncate=b.can_truncate)
            self._planner = StepPlanner(b.settings, self.slots, max_rows)
            self.prefixes = PrefixCache(b.prefix_folder if b.settings.share_prefixes else None)
        except BaseException:
            self._inbox.put(("close", None))
            raise
        self._inbox.put(("open", None))

    async def generate(self, request: Request) -> Generation:
        """Continue the tokens until the grammar or the model ends, or to `max_tokens`. Cancelling frees the sequence."""
        needed, window = len(request.token_ids) + request.max_tokens, self.backend.n_ctx
        if needed > window:
            raise ContextTooSmall(
                f"A prompt of {len(request.token_ids)} tokens and an answer of up to {request.max_tokens} need {needed} tokens; "
                f"the model's window here is {window}.",
                "Use a model with a larger window, a smaller chunk size, or --engine n_ctx=…",
                left=window - len(request.token_ids),
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Generation] = loop.create_future()
        sequence = Sequence(request, loop, future)
        with self._sending:
            if self._closed:
                raise EngineError(str(self._closed), self._closed.hint)
            self._inbox.put(("add", sequence))
        try:
            return await future
        except asyncio.CancelledError:
            self._inbox.put(("cancel", sequence))
            raise

    def metrics(self) -> dict[str, Any]:
        """Metrics since the start, as JSON-ready values."""
        return self.figures.to_json(self.settings.slots) | {
            "prefix_tokens_saved": self.slots.reused,
            "preempted": self.slots.preempted,
            "settings": self.settings.to_json(),
        }

    def close(self) -> None:
        """Stop after the current step and free the model; running generations fail."""
        self._inbox.put(("close", None))
        self._thread.join()

    # Everything below runs on the engine's own thread.

    def _run(self, open_backend: "Callable[[], LlamaModel]", opened: "Future[LlamaModel]") -> None:
        try:
            opened.set_result(open_backend())
        except BaseException as error:  # noqa: BLE001 — the thread that opens the engine gets it
            opened.set_exception(error)
            return
        backend = opened.result()
        try:
            if self._inbox.get()[0] == "open":
                self._loop()
        finally:  # callers must not wait for a thread that has ended
            self._shut_down(EngineError("The engine is closed."))
            backend.close()

    def _loop(self) -> None:
        while not self._closed and self._receive_requests():
            started = time.perf_counter()
            try:
                self._place_waiting()
                if step := self._planner.plan():
                    self._execute(step)
            except Exception as error:  # noqa: BLE001 — the thread must outlive any step: its callers get the error
                self._fail(list(self._sequences), error)
                if isinstance(error, EngineError):
                    self._reset_kv_cache()
            self.figures.seconds += time.perf_counter() - started

    def _shut_down(self, error: EngineError) -> None:
        """Refuse further requests and fail the present ones; the error of the first call is kept."""
        with self._sending:
            self._closed = self._closed or error
        waiting = []
        with suppress(queue.Empty):
            while True:
                kind, sequence = self._inbox.get_nowait()
                waiting += [sequence] if sequence and kind == "add" else []
        for sequence in self._sequences:
            self.slots.release(sequence, keep=False)
        for sequence in [*self._sequences, *waiting]:
            sequence.resolve(EngineError(str(self._closed), self._closed.hint))
        self._sequences.clear()

    def _receive_requests(self) -> bool:
        """Receive requests; block only if there is nothing to compute. False: close the engine."""
        while True:
            try:
                kind, sequence = self._inbox.get(block=self.slots.is_idle)
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
                sequence.constraint = GrammarMatcher(self._grammar_tokenizer, request.grammar)
            sequence.sampler = Sampler(request.sampling, sequence.constraint)
            if request.task:
                sequence.prefill_boundary = self.prefixes.learn(request.task, sequence.token_ids)
        except Exception as error:  # noqa: BLE001 — a grammar that cannot be built fails its own request only
            sequence.resolve(_failure(error))
            return
        self._sequences.add(sequence)
        self.slots.add(sequence)

    def _place_waiting(self) -> None:
        while assignment := self.slots.admit():
            self._place(assignment)
            sequence = assignment.sequence
            if not sequence.has_started:
                sequence.has_started, sequence.n_cached = True, sequence.n_computed
            self._store_prefix(sequence)

    def _place(self, assignment: SlotAssignment) -> None:
        sequence = assignment.sequence
        length, path = self.prefixes.find(sequence.token_ids)
        # Loading a file with the shared prefix alone is faster than copying another slot's whole stream.
        if path and (length > assignment.n_reused or (assignment.source is not None and length == assignment.n_reused)):
            if self.backend.load_state(assignment.slot, path, sequence.token_ids[:length]):
                self.prefixes.touch(path)
                self.slots.reused += length - assignment.n_reused
                sequence.n_computed = length
                return
            self.prefixes.discard(path)
            if assignment.source is None:
                sequence.n_computed = 0
                return
        if assignment.source is not None:
            self.backend.copy_prefix(assignment.source, assignment.slot, assignment.n_reused)
        else:
            self.backend.truncate(assignment.slot, assignment.n_reused)

    def _store_prefix(self, sequence: Sequence) -> None:
        """Save the KV of a prefix that the prompts of a task share, at the moment the slot holds exactly this prefix."""
        if sequence.prefill_boundary and sequence.n_computed == sequence.prefill_boundary and sequence.slot is not None:
            token_ids = sequence.token_ids[: sequence.prefill_boundary]
            sequence.prefill_boundary = 0
            if self.prefixes.find([*token_ids, 0])[0] < len(token_ids):
                slot = sequence.slot
                self.prefixes.store(token_ids, lambda path: self.backend.save_state(slot, path, token_ids))

    def _execute(self, step: Step) -> None:
        rows = [row for run in step.scheduled_sequences for row in run.as_rows()]
        started = time.perf_counter()
        try:
            logits = self.backend.decode(rows)
        except EngineError as error:
            self._fail([run.sequence for run in step.scheduled_sequences], error)
            self._reset_kv_cache()
            return
        before = sum(r.sequence.n_generated for r in step.scheduled_sequences)
        seconds = time.perf_counter() - started
        self._consume_logits(step, logits)
        self._record_metrics(step, seconds, len(rows), sum(r.sequence.n_generated for r in step.scheduled_sequences) - before)

    def _reset_kv_cache(self) -> None:
        self.slots.requeue_all()
        try:
            self.backend.reset()
        except Exception as error:  # noqa: BLE001 — without a context the next call would end the process
            reason = error if isinstance(error, LocalragError) else error_location(error)
            self._shut_down(
                EngineError(
                    f"The engine is closed: after a failed step its KV cache could not be created again. {reason}",
                    getattr(error, "hint", "") or "Run the same command again; finished work is saved.",
                )
            )

    def _consume_logits(self, step: Step, logits: NDArray[np.float32]) -> None:
        """Sample each sequence's tokens from the logits of a step, and remove rejected tokens from the KV cache."""
        row, ready = 0, {id(run) for run in step.mark_computed()}
        for run in step.scheduled_sequences:
            sequence, slot, end = run.sequence, run.sequence.slot, run.sequence.n_computed + run.n_rows - run.n_known
            if id(run) in ready:
                wanted = 1 + run.n_drafted
                try:
                    self._sample_row(sequence, logits[row : row + wanted], sequence.draft[: wanted - 1])
                except Exception as error:  # noqa: BLE001 — one request's grammar may fail; the others of the step go on
                    self._fail([sequence], error)
                row += wanted
            if slot is not None and (held := self.slots.cached_tokens(slot)) < end:
                self.backend.truncate(slot, held)
            self._store_prefix(sequence)

    def _sample_row(self, sequence: Sequence, rows: NDArray[np.float32], draft: list[int]) -> None:
        """Sample from a sequence's rows, (1 + len(draft), n_vocab), as long as they match its draft; finish it if it is complete."""
        base, n_accepted = len(sequence.token_ids), 0
        while not self._sample_token(sequence, rows[n_accepted]):
            while (
                n_accepted < len(draft)
                and base + n_accepted < len(sequence.token_ids)
                and sequence.token_ids[base + n_accepted] == draft[n_accepted]
            ):
                n_accepted += 1
            sequence.n_computed = base + n_accepted
            if sequence.n_pending or n_accepted == len(rows):
                break
        if draft:
            self.figures.tasks[sequence.request.task].drafted_tokens += n_accepted
            sequence.acceptance_rate = min(0.9, 0.7 * sequence.acceptance_rate + 0.3 * n_accepted / len(draft))
        if sequence in self._sequences:
            sequence.draft = self._propose_draft(sequence) if self.settings.prompt_lookup and self.slots.can_truncate else []

    def _sample_token(self, sequence: Sequence, row: NDArray[np.float32]) -> bool:
        """Sample a sequence's next token and append it with the tokens it forces; whether the sequence is finished."""
        assert sequence.sampler is not None
        token = sequence.sampler.sample(row)
        if token in self.backend.end_tokens:
            self._finish(sequence, complete=True)
            return True
        tokens = [token]
        constraint, max_tokens = sequence.constraint, sequence.request.max_tokens
        if constraint:
            tokens += constraint.forced_tokens()
            sequence.n_forced += len(tokens) - 1
        room = max_tokens - sequence.n_generated
        sequence.append(tokens[:room])
        sequence.emit(b"".join(self.backend.token_to_piece(t) for t in tokens[:room]))
        if constraint and len(tokens) <= room:
            constraint.advance(lambda: sequence.text)
        if constraint and constraint.finished:
            self._finish(sequence, complete=True)
        elif sequence.n_generated >= max_tokens:
            self._finish(sequence, complete=False)
        elif sequence.loop and sequence.loop.is_closed():  # the caller ended without cancelling
            self._drop(sequence)
        return sequence not in self._sequences

    @staticmethod
    def _propose_draft(sequence: Sequence) -> list[int]:
        draft = sequence.lookup.propose(sequence.token_ids)
        draft = draft[: max(0, sequence.request.max_tokens - sequence.n_generated - 1)]
        return draft[: sequence.constraint.count_valid(draft)] if draft and sequence.constraint else draft

    def _finish(self, sequence: Sequence, *, complete: bool) -> None:
        request, seconds = sequence.request, time.perf_counter() - sequence.submitted_at
        self._drop(sequence)
        counts = (len(request.token_ids), sequence.n_cached, sequence.n_generated, sequence.n_forced)
        self.figures.tasks[request.task].count(*counts, seconds=seconds)
        sequence.resolve(Generation(sequence.text, complete, tuple(sequence.token_ids), *counts, seconds))

    def _fail(self, sequences: list[Sequence], error: Exception) -> None:
        for sequence in sequences:
            slot = sequence.slot
            self.slots.release(sequence, keep=False)
            self._sequences.discard(sequence)
            if slot is not None:
                self.backend.truncate(slot, 0)
            sequence.resolve(_failure(error))

    def _record_metrics(self, step: Step, seconds: float, rows: int, n_generated: int) -> None:
        metrics = self.figures
        metrics.steps, metrics.rows = metrics.steps + 1, metrics.rows + rows
        metrics.decode_tokens += n_generated
        if len(step.scheduled_sequences) == 1 and step.scheduled_sequences[0].n_known > MIN_PREFILL_ROWS:
            metrics.prefill_tokens, metrics.prefill_seconds = (
                metrics.prefill_tokens + step.scheduled_sequences[0].n_known,
                metrics.prefill_seconds + seconds,
            )
            return
        metrics.decode_seconds, metrics.decode_steps = metrics.decode_seconds + seconds, metrics.decode_steps + 1
        metrics.busy_slots += len(step.scheduled_sequences)


def _failure(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    known = known_error(error)
    return EngineError(f"The engine failed: {known or error_location(error)}", known.hint if known else "")
