"""Scheduler: SlotManager (admission, preemption) and StepPlanner (chunked prefill, decode). Pure Python, without a model.

A step gives every participating sequence the same number of rows, because llama.cpp computes separate KV streams in one pass only if they
are equally long. A sequence fills its rows with known tokens (of the prompt, or a sampled token and those its grammar forces), then with
drafts, then with padding. Every row is computed beside at least one more of its sequence: then a token's KV does not depend on the chunk or
the batch it was computed in, and every answer is a pure function of its request, whatever ran beside it, was evicted, or was shared.
"""

import heapq
from dataclasses import dataclass, field
from itertools import pairwise

from localrag.engine.request import BatchRow, Sequence, common_prefix_length
from localrag.engine.settings import EngineSettings

# A sequence waits for another that prefills a shared prefix if that prefix is this much longer than what is cached already.
MIN_WAIT_GAIN_TOKENS = 32


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """A slot for `sequence`: copy the first `n_reused` cells of `source` there (None: truncate the slot to `n_reused` cells)."""

    sequence: Sequence
    slot: int
    source: int | None
    n_reused: int


@dataclass(slots=True)
class _Slot:
    token_ids: list[int] = field(default_factory=list)  # tokens in its KV cache; of a running sequence only the computed part counts
    sequence: Sequence | None = None
    last_used: int = 0


class SlotManager:
    """Assigns the slots of the KV cache, each with cells of its own, to waiting sequences."""

    def __init__(self, settings: EngineSettings, *, can_truncate: bool = True) -> None:
        self.can_truncate, self._settings = can_truncate, settings
        self._slots = [_Slot() for _ in range(settings.slots)]
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._clock = 0
        self.reused = self.preempted = 0  # tokens found in the KV cache; preempted sequences

    @property
    def running(self) -> list[Sequence]:
        """The sequences that hold a slot, in slot order."""
        return [s.sequence for s in self._slots if s.sequence is not None]

    @property
    def preemption_candidate(self) -> Sequence:
        """The newest of the least urgent running sequences, which is preempted first."""
        return max(self.running, key=lambda s: (s.request.priority, s.arrival_order))

    @property
    def is_idle(self) -> bool:
        """Whether no sequence runs or waits."""
        return not self._waiting and not self.running

    def cached_tokens(self, slot: int) -> int:
        """Number of tokens in the slot's KV cache."""
        holder = self._slots[slot]
        return holder.sequence.n_computed if holder.sequence else len(holder.token_ids)

    # Admission

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence: lower `priority` first, then in order of arrival."""
        self._clock += 1
        sequence.arrival_order = sequence.arrival_order or self._clock
        heapq.heappush(self._waiting, (sequence.request.priority, sequence.arrival_order, sequence))

    def admit(self) -> SlotAssignment | None:
        """Assign a slot to the first waiting sequence, or None; the caller must carry out the assignment before the next call."""
        sequence = self._next()
        if sequence is None or not self._has_slot(sequence):
            return None
        slot, source, keep = self._best_slot(sequence)
        if self._shares_running_prefill(sequence, keep):
            return None
        heapq.heappop(self._waiting)
        sequence.slot, sequence.n_computed = slot, keep
        self._slots[slot].token_ids, self._slots[slot].sequence = sequence.token_ids, sequence
        self.reused += keep
        return SlotAssignment(sequence, slot, source, keep)

    def _next(self) -> Sequence | None:
        while self._waiting and self._waiting[0][2].is_cancelled:
            heapq.heappop(self._waiting)
        return self._waiting[0][2] if self._waiting else None

    def _has_slot(self, urgent: Sequence) -> bool:
        """Whether a slot is free, after preempting the newest of the least urgent running sequences if it is less urgent."""
        if any(s.sequence is None for s in self._slots):
            return True
        candidate = self.preemption_candidate
        if candidate.request.priority <= urgent.request.priority:
            return False
        self.preempt(candidate)
        return True

    def _best_slot(self, sequence: Sequence) -> tuple[int, int | None, int]:
        """The cheapest free slot, the slot to copy from if any, and the number of cells that need no computing.

        A free slot that holds only the shared prefix is continued, or one that holds more is truncated: a copy costs more. Otherwise the
        least recently used slot is overwritten.
        """
        free = [i for i, s in enumerate(self._slots) if s.sequence is None]
        shared = self._settings.share_prefixes
        held = {i: self._usable(i, sequence) for i in range(len(self._slots))} if shared else dict.fromkeys(free, 0)
        best = max(held, key=lambda i: (held[i], i in free))
        keep = held[best]
        ready = [i for i in free if held[i] == keep] or free
        slot = min(ready, key=lambda i: (held[i] < len(self._slots[i].token_ids) - 1, self._slots[i].last_used, i))
        return slot, best if held[slot] < keep else None, keep

    def _usable(self, slot: int, sequence: Sequence) -> int:
        """Number of tokens at the start of `sequence` that the slot's KV cache holds, leaving at least one to compute."""
        have = self.cached_tokens(slot)
        n = common_prefix_length(self._slots[slot].token_ids[:have], sequence.token_ids[:-1])
        return n if self.can_truncate or n == have else 0

    def _shares_running_prefill(self, sequence: Sequence, keep: int) -> bool:
        """Whether a running sequence is prefilling a prefix that `sequence` shares, so that waiting saves the work."""
        if not self._settings.share_prefixes or not self.can_truncate:
            return False
        return any(
            common_prefix_length(other.token_ids, sequence.token_ids[:-1]) > max(keep, other.n_computed) + MIN_WAIT_GAIN_TOKENS
            for other in self.running
            if other.n_pending > MIN_WAIT_GAIN_TOKENS and other.request.priority <= sequence.request.priority
        )

    # Preemption and release

    def preempt(self, sequence: Sequence) -> None:
        """Take a running sequence's slot; it returns to its former place in the queue and reuses what remains of its KV."""
        self.release(sequence)
        self.preempted += 1
        self.add(sequence)

    def release(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Remove a finished, failed or cancelled sequence. Its KV is kept for a continuation unless `keep` is False."""
        if sequence.slot is None:
            sequence.is_cancelled = True
            return
        self._clock += 1
        token_ids = sequence.token_ids[: sequence.n_computed] if keep else []
        self._slots[sequence.slot] = _Slot(token_ids, None, self._clock)
        sequence.slot, sequence.n_computed = None, 0

    def requeue_all(self) -> None:
        """Return all running sequences to their former places in the queue after the KV cache was lost."""
        for sequence in self.running:
            self.preempt(sequence)
        self._slots = [_Slot() for _ in self._slots]


MIN_PREFILL_ROWS = 16  # fewer known tokens are never prefilled alone: they fill rows of decode steps
DECODE_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows per sequence in a decode step
# What a step costs besides its rows, and what every sequence in it costs besides them, counted in rows.
STEP_OVERHEAD_ROWS, SEQUENCE_OVERHEAD_ROWS = 8.0, 2.0


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """A sequence's part in a step: `n_known` of its tokens from `n_computed` on, in `n_rows` rows."""

    sequence: Sequence
    n_known: int
    n_rows: int

    @property
    def n_drafted(self) -> int:
        """Number of rows that verify drafted tokens."""
        return min(self.n_rows - self.n_known, len(self.sequence.draft))

    def as_rows(self) -> list[BatchRow]:
        """The rows for the model: known tokens, then drafts, then padding."""
        sequence, start = self.sequence, self.sequence.n_computed
        assert sequence.slot is not None
        tokens = sequence.token_ids[start : start + self.n_known]
        first_output = self.n_known - 1 if self.n_known == sequence.n_pending else self.n_rows  # the first row with logits
        last_output = first_output + self.n_drafted
        tokens += sequence.draft[: self.n_rows - self.n_known] if first_output < self.n_rows else []
        tokens += [tokens[0]] * (self.n_rows - len(tokens))
        return [(token, start + i, sequence.slot, first_output <= i <= last_output) for i, token in enumerate(tokens)]


@dataclass(frozen=True, slots=True)
class Step:
    """One decode call: the scheduled sequences in slot order."""

    scheduled_sequences: tuple[ScheduledSequence, ...]

    def mark_computed(self) -> list[ScheduledSequence]:
        """Record that the step was computed; returns the scheduled sequences that now need a token, in row order."""
        for run in self.scheduled_sequences:
            run.sequence.n_computed += run.n_known
        return [r for r in self.scheduled_sequences if r.sequence.n_pending == 0]


class StepPlanner:
    """Plans the steps of the running sequences, with at most `max_rows` rows each."""

    def __init__(self, settings: EngineSettings, slots: SlotManager, max_rows: int) -> None:
        self.max_rows = max_rows
        self._settings, self._slots = settings, slots
        self._read_last = False  # whether the last step was a prefill chunk

    def plan(self) -> Step | None:
        """The step that advances most tokens for its cost: a prefill chunk, which alternates with more urgent sequences, or rows of all."""
        running = self._slots.running
        if not running:
            return None
        longest = max(running, key=lambda s: (s.n_pending, -s.arrival_order))
        decode, gain = self._decode(running)
        prefill = self._prefill(longest)
        urgent = self._read_last and any(s.request.priority < longest.request.priority for s in running)
        self._read_last = longest.n_pending > MIN_PREFILL_ROWS and not urgent and prefill.n_known / _cost(1, prefill.n_rows) > gain
        return Step((prefill,) if self._read_last else tuple(decode))

    def _prefill(self, sequence: Sequence) -> ScheduledSequence:
        """A prefill chunk of one prompt, its rows rounded up to an allowed number."""
        n_known, s = min(sequence.n_pending, self.max_rows, sequence.n_to_boundary), self._settings
        rows = -(-max(n_known, s.min_rows) // s.row_multiple) * s.row_multiple
        return ScheduledSequence(sequence, n_known, rows if self._slots.can_truncate else n_known)

    def _decode(self, running: list[Sequence]) -> tuple[list[ScheduledSequence], float]:
        """The same number of rows of every running sequence, and their gain: expected tokens per cost."""
        if not self._slots.can_truncate:
            rows = min(self.max_rows // len(running), *(min(q.n_pending, q.n_to_boundary) for q in running))
            return [ScheduledSequence(q, rows, rows) for q in running], len(running) * rows / _cost(len(running), rows)
        gains, sizes, s = [], _ubatches([q.slot for q in running if q.slot is not None]), self._settings
        for rows in DECODE_ROWS:
            if rows >= s.min_rows and sum(sizes) * rows <= self.max_rows and not any(size * rows % s.row_multiple for size in sizes):
                gains.append((sum(q.expected_accepted(rows) for q in running) / sum(_cost(size, rows) for size in sizes), rows))
        if not gains:
            return [self._prefill(running[0])], 0.0
        gain, rows = max(gains)
        return [ScheduledSequence(q, min(rows, q.n_pending, q.n_to_boundary), rows) for q in running], gain


def _cost(slots: int, rows: int) -> float:
    return STEP_OVERHEAD_ROWS + slots * (SEQUENCE_OVERHEAD_ROWS + rows)


def _ubatches(slots: list[int]) -> list[int]:
    """Number of slots in each pass of llama.cpp, which splits a step where slot numbers have a gap."""
    sizes = [1]
    for before, slot in pairwise(slots):
        if slot == before + 1:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes
