"""Which rows the next step computes: sequences, slots, prompt pieces, drafts and shared prefixes. Pure Python, knows no model.

A step gives every sequence that takes part the same number of rows, because llama.cpp computes separate KV streams in one pass only
if they are equally long. A sequence fills its rows with the cells it knows (a prompt's, or a sampled token and those its grammar
forces), then with drafts, then with rows that are thrown away. Every row is computed beside at least one more of its sequence:
so computed, a cell's KV does not depend on the piece or the company it was computed in, and every answer is a pure function of its
request, whatever ran beside it, was evicted, or was shared.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from localrag.engine.settings import EngineSettings

SHORT = 16  # so few known cells are never computed on their own: they fill rows that others would waste
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows a sequence may have in a step of several
MARGIN = 32  # cells beyond a sequence's own that a step may touch
TAIL = 32  # a sequence waits for another that is reading a beginning it shares, if that is so many cells longer than what it has


@dataclass(eq=False, slots=True)
class Sequence:
    """A request on its way: `cells[:computed]` are in the KV of `slot`; `draft` guesses what follows the cells."""

    cells: list[int]
    max_tokens: int
    priority: int = 0
    task: str = ""
    arrival: int = 0
    computed: int = 0
    slot: int | None = None
    generated: int = 0
    draft: list[int] = field(default_factory=list)
    luck: float = 0.6  # share of its drafts that came true of late
    boundary: int = 0  # a piece ends here, because the cells up to it are worth keeping
    cancelled: bool = False
    suspect: bool = False  # it was in a step that failed: it is tried alone

    @property
    def pending(self) -> int:
        """Known cells that are not computed yet."""
        return len(self.cells) - self.computed

    def append(self, tokens: Seq[int]) -> None:
        """Add generated tokens: the one sampled and those the grammar forced after it."""
        self.cells.extend(tokens)
        self.generated += len(tokens)

    def useful(self, rows: int) -> float:
        """How many of `rows` rows are expected to bring it further."""
        known = min(rows, self.pending)
        drafted = min(rows - known, len(self.draft)) if known == self.pending else 0
        return known + (self.luck * (1 - self.luck**drafted) / (1 - self.luck) if drafted else 0.0)


@dataclass(frozen=True, slots=True)
class Place:
    """Put `sequence` into `slot`: copy `keep` cells of `source` there first (None: cut what it holds to `keep`)."""

    sequence: Sequence
    slot: int
    source: int | None
    keep: int
    evict: tuple[int, ...] = ()  # slots whose KV makes room


@dataclass(frozen=True, slots=True)
class Run:
    """A sequence's part in a step: `known` of its cells from `computed` on, in `rows` rows."""

    sequence: Sequence
    known: int
    rows: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call: the runs in slot order, and (slot, position, rows) of free slots between them, to be taken back."""

    runs: tuple[Run, ...]
    gaps: tuple[tuple[int, int, int], ...] = ()
    evict: tuple[int, ...] = ()


@dataclass(slots=True)
class _Slot:
    cells: list[int] = field(default_factory=list)  # what its KV holds; of a running sequence only the computed part counts
    sequence: Sequence | None = None
    used: int = 0


class Scheduler:
    """Moves sequences from waiting to running over the settings' slots; `piece` is the most rows of a step.

    `capacity` is the number of KV cells where all sequences share one buffer; None where each slot has `context` of its own.
    """

    def __init__(self, settings: EngineSettings, n_ctx: int, piece: int, *, can_truncate: bool = True, capacity: int | None = None) -> None:
        self.n_ctx, self.piece, self.capacity = n_ctx, piece, capacity
        self.can_truncate = can_truncate
        self._settings = settings
        self._slots = [_Slot() for _ in range(settings.slots)]
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._sizes: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=64))
        self._clock = 0
        self._read_last = False
        self.reused = self.preempted = 0  # cells taken from KV that was there already; sequences that had to leave and come again

    @property
    def running(self) -> list[Sequence]:
        """The sequences that hold a slot, in slot order."""
        return [s.sequence for s in self._slots if s.sequence is not None]

    @property
    def newest(self) -> Sequence:
        """The newest of the least urgent running sequences: the first to leave."""
        return max(self.running, key=lambda s: (s.priority, s.arrival))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self.running

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence: lower `priority` first, then in order of arrival."""
        self._clock += 1
        sequence.arrival = sequence.arrival or self._clock
        heapq.heappush(self._waiting, (sequence.priority, sequence.arrival, sequence))

    def expected(self, sequence: Sequence) -> int:
        """How many more tokens it will generate: what 95 in 100 of its task's last ones did not pass, `max_tokens` until known."""
        seen = sorted(self._sizes[sequence.task])
        likely = seen[int(len(seen) * 0.95)] if len(seen) >= 8 else sequence.max_tokens
        return max(1, min(sequence.max_tokens, likely) - sequence.generated)

    def admit(self) -> Place | None:
        """Give the first waiting sequence a slot, if there is one; the caller carries out the placement before the next call."""
        while self._waiting and self._waiting[0][2].cancelled:
            heapq.heappop(self._waiting)
        if not self._waiting:
            return None
        sequence = self._waiting[0][2]
        if all(s.sequence is not None for s in self._slots) and not self._make_way(sequence):
            return None
        free = [i for i, s in enumerate(self._slots) if s.sequence is None]
        held = {i: self._usable(i, sequence) for i in range(len(self._slots))} if self._settings.share_prefixes else dict.fromkeys(free, 0)
        best = max(held, key=lambda i: (held[i], i in free))
        # A free slot that holds nothing beyond what is shared is continued, or one that holds more is cut back: a copy costs more.
        # Where none holds as much, the longest unused one is overwritten.
        ready = [i for i in free if held[i] == held[best]] or free
        slot = min(ready, key=lambda i: (held[i] < len(self._slots[i].cells) - 1, self._slots[i].used, i))
        keep = held[best]
        if self._behind_a_reader(sequence, keep):
            return None
        evict = self._room_for(sequence, slot)
        if evict is None:
            return None
        heapq.heappop(self._waiting)
        sequence.slot, sequence.computed = slot, keep
        source = best if keep and held[slot] < keep and best not in evict else None
        if source is None and held[slot] < keep:
            sequence.computed = keep = held[slot]
        self._slots[slot].cells, self._slots[slot].sequence = sequence.cells, sequence
        self.reused += keep
        return Place(sequence, slot, source, keep, evict)

    def _make_way(self, urgent: Sequence) -> bool:
        """Send the newest of the least urgent running sequences back to wait, if it is less urgent than this one."""
        last = self.newest
        if last.priority <= urgent.priority:
            return False
        self.preempt(last)
        return True

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

    def _room_for(self, sequence: Sequence, slot: int) -> tuple[int, ...] | None:
        """Which free slots must lose their KV for it to fit with what the running ones are expected to need; None: it must wait."""
        if self.capacity is None:
            return ()
        need = len(sequence.cells) + self.expected(sequence) + MARGIN
        running = sum(len(s.cells) + self.expected(s) + MARGIN for s in self.running)
        if running + need > self.capacity and self.running:
            return None
        return self._evict(self.capacity - running - need, spare=slot)

    def _evict(self, room: int, spare: int | None = None) -> tuple[int, ...]:
        """Empty free slots, longest unused first, until those that stay hold at most `room` cells; returns their numbers."""
        free = sorted(
            (i for i, s in enumerate(self._slots) if s.sequence is None and s.cells and i != spare), key=lambda i: self._slots[i].used
        )
        gone = []
        while free and sum(len(self._slots[i].cells) for i in free) > room:
            gone.append(free.pop(0))
            self._slots[gone[-1]] = _Slot()
        return tuple(gone)

    def held(self, slot: int) -> int:
        """How many cells the slot's KV holds."""
        holder = self._slots[slot]
        return holder.sequence.computed if holder.sequence else len(holder.cells)

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
            if other.pending > TAIL and other.priority <= sequence.priority
        )

    def plan(self) -> Step | None:
        """The next step: what brings most known and drafted cells further for its cost. That is a piece of one prompt, or some rows of all.

        A prompt takes turns with sequences more urgent than its own.
        """
        running = self.running
        if not running:
            return None
        if suspects := [s for s in running if s.suspect]:
            return self._fitted([self._read(suspects[0])])
        longest = max(running, key=lambda s: (s.pending, -s.arrival))
        together, gain = self._joint(running)
        alone = self._read(longest)
        urgent = self._read_last and any(s.priority < longest.priority for s in running)
        self._read_last = longest.pending > SHORT and not urgent and alone.known / self._cost(1, alone.rows) > gain
        return self._fitted([alone] if self._read_last else together)

    def _cost(self, slots: int, rows: int) -> float:
        """What a step of `rows` rows each for `slots` adjacent slots costs, in rows."""
        return self._settings.pass_rows + slots * (self._settings.slot_rows + rows)

    def _read(self, sequence: Sequence) -> Run:
        known = min(sequence.pending, self.piece, _to_boundary(sequence))
        return Run(sequence, known, self._whole(known))

    def _whole(self, known: int) -> int:
        """`known` rows rounded up to what a step may have."""
        s = self._settings
        return known if not self.can_truncate else -(-max(known, s.least_rows) // s.row_multiple) * s.row_multiple

    def _joint(self, running: list[Sequence]) -> tuple[list[Run], float]:
        """Equally many rows of every running sequence, as many as pay best, and what a row's cost then brings."""
        if not self.can_truncate:
            rows = min(self.piece // len(running), *(min(q.pending, _to_boundary(q)) for q in running))
            return [Run(q, rows, rows) for q in running], len(running) * rows / self._cost(len(running), rows)
        slots, s = [q.slot for q in running if q.slot is not None], self._settings
        gains = []
        for rows in LENGTHS:
            sizes = [last - first + 1 for first, last in self._passes(slots, rows)]
            if rows >= s.least_rows and sum(sizes) * rows <= self.piece and not any(size * rows % s.row_multiple for size in sizes):
                gains.append((sum(q.useful(rows) for q in running) / sum(self._cost(size, rows) for size in sizes), rows))
        if not gains:
            return [self._read(running[0])], 0.0
        gain, rows = max(gains)
        return [Run(q, min(rows, q.pending, _to_boundary(q)), rows) for q in running], gain

    def _passes(self, slots: list[int], rows: int) -> list[tuple[int, int]]:
        """First and last slot of the passes in which llama.cpp computes those slots: it splits a step where their numbers have a gap.

        A gap is filled with rows that are thrown away where that costs less than another pass.
        """
        if self._settings.unified:  # no streams, so no gaps: any rows go in one pass
            return [(0, len(slots) - 1)]
        passes: list[tuple[int, int]] = []
        for slot in slots:
            if passes and (slot - passes[-1][1] - 1) * (self._settings.slot_rows + rows) <= self._settings.pass_rows:
                passes[-1] = (passes[-1][0], slot)
            else:
                passes.append((slot, slot))
        return passes

    def _fitted(self, runs: list[Run]) -> Step:
        """The step, with the KV it needs made free: cached slots go first, then the newest sequences."""
        evict: tuple[int, ...] = ()
        if self.capacity is not None:
            need = sum(r.rows for r in runs) + sum(s.computed for s in self.running)
            evict = self._evict(self.capacity - need)
            while need > self.capacity and len(self.running) > 1:
                last = self.newest
                need -= last.computed + sum(r.rows for r in runs if r.sequence is last)
                runs = [r for r in runs if r.sequence is not last]
                evict = (*evict, self.send_back(last))
        return Step(tuple(runs), self._gaps(runs), evict)

    def _gaps(self, runs: list[Run]) -> tuple[tuple[int, int, int], ...]:
        """Rows for the free slots inside the passes of a step."""
        if len(runs) < 2 or not self.can_truncate or self._settings.unified:
            return ()
        slots, rows = [r.sequence.slot for r in runs if r.sequence.slot is not None], runs[0].rows
        passes = self._passes(slots, rows)
        return tuple((i, self.held(i), rows) for first, last in passes for i in range(first, last) if i not in slots)

    def computed(self, step: Step) -> list[Run]:
        """Note that a step was carried out; returns the runs whose sequences now need a token, in row order."""
        for run in step.runs:
            run.sequence.computed += run.known
            run.sequence.suspect &= run.sequence.pending > 0
        return [r for r in step.runs if r.sequence.pending == 0]

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
        self._sizes[sequence.task].append(sequence.generated)

    def lost(self) -> None:
        """All KV is gone: what runs waits again in its old place, to be computed anew."""
        for sequence in self.running:
            self.preempt(sequence)
        self._slots = [_Slot() for _ in self._slots]

    def leaks(self) -> list[str]:
        """What is wrong with the books while nothing runs; empty when all is well."""
        wrong = [f"slot {i} is held by a sequence" for i, s in enumerate(self._slots) if s.sequence is not None]
        return wrong + [f"{len(self._waiting)} sequences wait"] * bool([s for *_, s in self._waiting if not s.cancelled])


def _to_boundary(sequence: Sequence) -> int:
    """Cells up to the boundary at which a piece must end; without one, as many as there are."""
    left = sequence.boundary - sequence.computed
    return left if left > 0 else len(sequence.cells)


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
