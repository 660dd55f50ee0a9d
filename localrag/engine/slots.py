"""Who holds which slot of the KV, who waits for one, and whose cached cells make room. Pure Python, knows no model."""

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass, field

from localrag.engine.request import MARGIN
from localrag.engine.sequence import Sequence, common_length
from localrag.engine.settings import EngineSettings

TAIL = 32  # a sequence waits for another that is reading a beginning it shares, if that is so many cells longer than what it has


@dataclass(frozen=True, slots=True)
class Place:
    """Put `sequence` into `slot`: copy `keep` cells of `source` there first (None: cut what it holds to `keep`)."""

    sequence: Sequence
    slot: int
    source: int | None
    keep: int
    evict: tuple[int, ...] = ()  # slots whose KV makes room


@dataclass(slots=True)
class _Slot:
    cells: list[int] = field(default_factory=list)  # what its KV holds; of a running sequence only the computed part counts
    sequence: Sequence | None = None
    used: int = 0


class Slots:
    """Moves sequences from waiting to running over the settings' slots.

    `capacity` is the number of KV cells where all sequences share one buffer; None where each slot has `context` of its own.
    """

    def __init__(self, settings: EngineSettings, *, can_truncate: bool = True, capacity: int | None = None) -> None:
        self.capacity, self.can_truncate = capacity, can_truncate
        self._settings = settings
        self._slots = [_Slot() for _ in range(settings.slots)]
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._sizes: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=64))
        self._clock = 0
        self.reused = self.preempted = 0  # cells taken from KV that was there already; sequences that had to leave and come again

    @property
    def running(self) -> list[Sequence]:
        """The sequences that hold a slot, in slot order."""
        return [s.sequence for s in self._slots if s.sequence is not None]

    @property
    def newest(self) -> Sequence:
        """The newest of the least urgent running sequences: the first to leave."""
        return max(self.running, key=lambda s: (s.request.priority, s.arrival))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self.running

    def held(self, slot: int) -> int:
        """How many cells the slot's KV holds."""
        holder = self._slots[slot]
        return holder.sequence.computed if holder.sequence else len(holder.cells)

    # Coming in.

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence: lower `priority` first, then in order of arrival."""
        self._clock += 1
        sequence.arrival = sequence.arrival or self._clock
        heapq.heappush(self._waiting, (sequence.request.priority, sequence.arrival, sequence))

    def admit(self) -> Place | None:
        """Give the first waiting sequence a slot, if there is one; the caller carries out the placement before the next call."""
        sequence = self._next()
        if sequence is None or not self._has_slot(sequence):
            return None
        slot, source, keep = self._best_place(sequence)
        if self._behind_a_reader(sequence, keep):
            return None
        evict = self._room_for(sequence, slot)
        if evict is None:
            return None
        if source in evict:  # what was to be copied had to go
            source, keep = None, self._usable(slot, sequence) if self._settings.share_prefixes else 0
        heapq.heappop(self._waiting)
        sequence.slot, sequence.computed = slot, keep
        self._slots[slot].cells, self._slots[slot].sequence = sequence.cells, sequence
        self.reused += keep
        return Place(sequence, slot, source, keep, evict)

    def _next(self) -> Sequence | None:
        """The first waiting sequence that was not cancelled."""
        while self._waiting and self._waiting[0][2].cancelled:
            heapq.heappop(self._waiting)
        return self._waiting[0][2] if self._waiting else None

    def _has_slot(self, urgent: Sequence) -> bool:
        """Whether a slot is free; the newest of the least urgent running sequences is sent back to wait if it is less urgent."""
        if any(s.sequence is None for s in self._slots):
            return True
        last = self.newest
        if last.request.priority <= urgent.request.priority:
            return False
        self.preempt(last)
        return True

    def _best_place(self, sequence: Sequence) -> tuple[int, int | None, int]:
        """The free slot that costs least, the slot to copy from if any, and how many cells are there without computing.

        A free slot that holds nothing beyond what is shared is continued, or one that holds more is cut back: a copy costs more. Where none
        holds as much, the longest unused one is overwritten.
        """
        free = [i for i, s in enumerate(self._slots) if s.sequence is None]
        shared = self._settings.share_prefixes
        held = {i: self._usable(i, sequence) for i in range(len(self._slots))} if shared else dict.fromkeys(free, 0)
        best = max(held, key=lambda i: (held[i], i in free))
        keep = held[best]
        ready = [i for i in free if held[i] == keep] or free
        slot = min(ready, key=lambda i: (held[i] < len(self._slots[i].cells) - 1, self._slots[i].used, i))
        return slot, best if held[slot] < keep else None, keep

    def _usable(self, slot: int, sequence: Sequence) -> int:
        """How many cells at the start of `sequence` the slot's KV holds, leaving at least one to compute."""
        have = self.held(slot)
        n = common_length(self._slots[slot].cells[:have], sequence.cells[:-1])
        return n if self.can_truncate or n == have else 0

    def _behind_a_reader(self, sequence: Sequence, keep: int) -> bool:
        """Whether a running sequence is still reading a beginning that `sequence` shares: then waiting for it saves the work."""
        if not self._settings.share_prefixes or not self.can_truncate:
            return False
        return any(
            common_length(other.cells, sequence.cells[:-1]) > max(keep, other.computed) + TAIL
            for other in self.running
            if other.pending > TAIL and other.request.priority <= sequence.request.priority
        )

    # Making room.

    def expected(self, sequence: Sequence) -> int:
        """How many more tokens it will generate: what 95 in 100 of its task's last ones did not pass, `max_tokens` until known."""
        most, seen = sequence.request.max_tokens, sorted(self._sizes[sequence.request.task])
        likely = seen[int(len(seen) * 0.95)] if len(seen) >= 8 else most
        return max(1, min(most, likely) - sequence.generated)

    def _room_for(self, sequence: Sequence, slot: int) -> tuple[int, ...] | None:
        """Which free slots must lose their KV for it to fit with what the running ones are expected to need; None: it must wait."""
        if self.capacity is None:
            return ()
        need = len(sequence.cells) + self.expected(sequence) + MARGIN
        running = sum(len(s.cells) + self.expected(s) + MARGIN for s in self.running)
        if running + need > self.capacity and self.running:
            return None
        return self.evict(self.capacity - running - need, spare=slot)

    def evict(self, room: int, spare: int | None = None) -> tuple[int, ...]:
        """Empty free slots, longest unused first, until those that stay hold at most `room` cells; returns their numbers."""
        free = sorted(
            (i for i, s in enumerate(self._slots) if s.sequence is None and s.cells and i != spare), key=lambda i: self._slots[i].used
        )
        gone = []
        while free and sum(len(self._slots[i].cells) for i in free) > room:
            gone.append(free.pop(0))
            self._slots[gone[-1]] = _Slot()
        return tuple(gone)

    def preempt(self, sequence: Sequence) -> None:
        """Take a running sequence's slot; it waits in its old place of the queue and is computed again from what is left of it."""
        self.release(sequence)
        self.preempted += 1
        self.add(sequence)

    def send_back(self, sequence: Sequence) -> int:
        """Preempt a sequence whose KV is needed; returns the slot that must be emptied."""
        slot = sequence.slot
        assert slot is not None
        self.preempt(sequence)
        self._slots[slot] = _Slot()
        return slot

    # Going out.

    def release(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Take a sequence out, finished, failed or cancelled. Its KV stays for a continuation unless `keep` is False."""
        if sequence.slot is None:
            sequence.cancelled = True
            return
        self._clock += 1
        cells = sequence.cells[: sequence.computed] if keep else []
        self._slots[sequence.slot] = _Slot(cells, None, self._clock)
        sequence.slot, sequence.computed = None, 0

    def finished(self, sequence: Sequence) -> None:
        """Note how long an answer became, for the admission of the next ones of its task."""
        self._sizes[sequence.request.task].append(sequence.generated)

    def lost(self) -> None:
        """All KV is gone: what runs waits again in its old place, to be computed anew."""
        for sequence in self.running:
            self.preempt(sequence)
        self._slots = [_Slot() for _ in self._slots]

    def leaks(self) -> list[str]:
        """What is wrong with the books while nothing runs; empty when all is well."""
        wrong = [f"slot {i} is held by a sequence" for i, s in enumerate(self._slots) if s.sequence is not None]
        return wrong + [f"{len(self._waiting)} sequences wait"] * bool([s for *_, s in self._waiting if not s.cancelled])
