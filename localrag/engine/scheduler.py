"""Which rows the next step computes: sequences, slots, prompt pieces and shared prefixes. Pure Python, knows no model.

A sequence is a list of cells. A cell is either *read* (part of a prompt, computed in pieces of two or more) or *decoded* (one row
of its own). The distinction is kept because llama.cpp's kernels round differently for one row than for several: computing every
cell again in the way it was first computed makes the KV, and so every answer, a pure function of the request, whatever ran beside
it, was evicted, or was shared.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple

FORCED_PIECE = 6  # from this many known tokens on, reading them as a piece beats decoding them beside seven others (measured)


class Cell(NamedTuple):
    """One token of a sequence and how it is computed."""

    token: int
    decoded: bool


def read(tokens: Seq[int]) -> list[Cell]:
    """Cells of a prompt. A single one is computed alone, like a decoded one, and says so."""
    return [Cell(t, len(tokens) == 1) for t in tokens]


@dataclass(eq=False, slots=True)
class Sequence:
    """A request on its way: `cells[:computed]` are in the KV of `slot`."""

    cells: list[Cell]
    max_tokens: int
    priority: int = 0
    arrival: int = 0
    computed: int = 0
    slot: int | None = None
    generated: list[int] = field(default_factory=list)

    def append(self, tokens: Seq[int]) -> None:
        """Add generated tokens: the one sampled and those the grammar forced after it."""
        decoded = len(tokens) < FORCED_PIECE
        self.cells.extend(Cell(t, decoded) for t in tokens)
        self.generated.extend(tokens)

    def next_run(self, limit: int) -> int:
        """How many cells the next computation takes: 1 for a decoded cell, else up to `limit` read ones, never leaving one alone."""
        if self.cells[self.computed].decoded:
            return 1
        end = self.computed
        while end < len(self.cells) and not self.cells[end].decoded:
            end += 1
        length = end - self.computed
        return length if length <= limit else limit - (length - limit == 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Put `sequence` into `slot`: copy the KV of `source` there first (None: keep what it holds), then cut it to `keep` cells."""

    sequence: Sequence
    slot: int
    source: int | None
    keep: int


@dataclass(frozen=True, slots=True)
class Step:
    """The rows of one call: for each sequence, how many of its cells from `computed` on."""

    runs: tuple[tuple[Sequence, int], ...]


@dataclass(slots=True)
class _Slot:
    cells: list[Cell] = field(default_factory=list)  # what its KV holds; of a running sequence only the computed part counts
    sequence: Sequence | None = None
    used: int = 0


class Scheduler:
    """Moves sequences from waiting to running over `slots` slots; `piece` is the most read cells of a step."""

    def __init__(self, slots: int, n_ctx: int, piece: int, *, can_truncate: bool = True) -> None:
        self.n_ctx = n_ctx
        self.piece = piece
        self._can_truncate = can_truncate
        self._slots = [_Slot() for _ in range(slots)]
        self._waiting: list[Sequence] = []
        self._clock = 0
        self._read_last = False
        self.reused = 0  # cells taken from KV that was there already

    @property
    def running(self) -> list[Sequence]:
        """The sequences that hold a slot, in slot order."""
        return [s.sequence for s in self._slots if s.sequence is not None]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self.running

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence: lower `priority` first, then in order of arrival."""
        self._clock += 1
        sequence.arrival = self._clock
        self._waiting.append(sequence)

    def admit(self) -> Place | None:
        """Give the first waiting sequence a free slot, if there is one; the caller carries out the placement before the next call."""
        free = [i for i, s in enumerate(self._slots) if s.sequence is None]
        if not free or not self._waiting:
            return None
        sequence = min(self._waiting, key=lambda s: (s.priority, s.arrival))
        held = {i: self._usable(i, sequence) for i in range(len(self._slots))}
        best = max(held, key=lambda i: (held[i], i in free))
        # A free slot that holds nothing beyond what is shared is continued; otherwise the longest unused one is overwritten.
        extends = [i for i in free if held[i] == held[best] and held[i] >= len(self._slots[i].cells) - 1]
        slot = extends[0] if extends else min(free, key=lambda i: (self._slots[i].used, i))
        keep = held[best] if self._can_truncate or held[best] == len(self._slots[best].cells) else 0
        if self._behind_a_reader(sequence, keep):
            return None
        self._waiting.remove(sequence)
        source = best if keep and held[slot] < keep else None
        sequence.slot, sequence.computed = slot, keep
        self._slots[slot].cells = sequence.cells
        self._slots[slot].sequence = sequence
        self.reused += keep
        return Place(sequence, slot, source, keep)

    def held(self, slot: int) -> int:
        """How many cells the slot's KV holds."""
        holder = self._slots[slot]
        return holder.sequence.computed if holder.sequence else len(holder.cells)

    def _usable(self, slot: int, sequence: Sequence) -> int:
        """How many cells at the start of `sequence` the slot's KV holds, leaving at least one to compute and no read cell alone."""
        holder = self._slots[slot]
        have = self.held(slot)
        want = sequence.cells
        n = common_length(holder.cells[:have], want[:-1])
        return without_lone_cell(want, n)

    def _behind_a_reader(self, sequence: Sequence, keep: int) -> bool:
        """Whether a running sequence is still reading a prefix that `sequence` shares: then waiting for it saves the work."""
        for other in self.running:
            if other.computed < len(other.cells) and not other.cells[other.computed].decoded:
                shared = without_lone_cell(sequence.cells, common_length(other.cells, sequence.cells[:-1]))
                if shared > max(keep, other.computed) and shared > self.piece // 4:
                    return True
        return False

    def plan(self) -> Step | None:
        """The next step: a piece of one prompt, in turn with one decoded row of every sequence that is past its prompt."""
        ready = [s for s in self.running if s.computed < len(s.cells)]
        readers = [s for s in ready if not s.cells[s.computed].decoded]
        decoders = [s for s in ready if s.cells[s.computed].decoded]
        if readers and not (decoders and self._read_last):
            self._read_last = True
            reader = min(readers, key=lambda s: (s.priority, s.arrival))
            return Step(((reader, reader.next_run(self.piece)),))
        self._read_last = False
        return Step(tuple((s, 1) for s in decoders)) if decoders else None

    def computed(self, step: Step) -> list[Sequence]:
        """Note that a step was carried out; returns the sequences that now need a token, in row order."""
        for sequence, count in step.runs:
            sequence.computed += count
        return [s for s, _ in step.runs if s.computed == len(s.cells)]

    def release(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Take a sequence out, finished, failed or cancelled. Its KV stays for a continuation unless `keep` is False."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        if sequence.slot is not None:
            self._clock += 1
            cells = sequence.cells[: sequence.computed] if keep else []
            self._slots[sequence.slot] = _Slot(cells, None, self._clock)
            sequence.slot = None

    def forget(self) -> list[int]:
        """Take every free slot's KV for empty; returns their numbers, for the caller to clear."""
        free = [i for i, s in enumerate(self._slots) if s.sequence is None]
        for i in free:
            self._slots[i] = _Slot()
        return free


def common_length(a: Seq[Cell], b: Seq[Cell]) -> int:
    """How many cells two sequences share from the start."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low, high = 0, n  # the first difference lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle)
    return low


def without_lone_cell(cells: Seq[Cell], n: int) -> int:
    """The largest length up to `n` at which `cells` may be continued without computing one cell of a longer read run alone."""
    if 0 < n < len(cells) and not cells[n].decoded and not cells[n - 1].decoded and (n + 1 == len(cells) or cells[n + 1].decoded):
        return n - 1
    return n
