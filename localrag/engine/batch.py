"""What the next step computes: a piece of one prompt, or some rows of every running sequence. Pure Python, knows no model.

A step gives every sequence that takes part the same number of rows, because llama.cpp computes separate KV streams in one pass only
if they are equally long. A sequence fills its rows with the cells it knows (a prompt's, or a sampled token and those its grammar
forces), then with drafts, then with rows that are thrown away. Every row is computed beside at least one more of its sequence:
so computed, a cell's KV does not depend on the piece or the company it was computed in, and every answer is a pure function of its
request, whatever ran beside it, was evicted, or was shared.
"""

from dataclasses import dataclass
from itertools import pairwise

from localrag.engine.request import Row
from localrag.engine.sequence import Sequence
from localrag.engine.settings import EngineSettings
from localrag.engine.slots import Slots

SHORT = 16  # so few known cells are never computed on their own: they fill rows that others would waste
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows a sequence may have in a step of several


@dataclass(frozen=True, slots=True)
class Run:
    """A sequence's part in a step: `known` of its cells from `computed` on, in `rows` rows."""

    sequence: Sequence
    known: int
    rows: int

    @property
    def drafted(self) -> int:
        """How many of the rows check guesses."""
        return min(self.rows - self.known, len(self.sequence.draft))

    def as_rows(self) -> list[Row]:
        """The rows as the model takes them: known cells, then drafts, then whatever fills it up."""
        sequence, start = self.sequence, self.sequence.computed
        assert sequence.slot is not None
        tokens = sequence.cells[start : start + self.known]
        first = self.known - 1 if self.known == sequence.pending else self.rows  # the first row that wants logits
        last = first + self.drafted
        tokens += sequence.draft[: self.rows - self.known] if first < self.rows else []
        tokens += [tokens[0]] * (self.rows - len(tokens))
        return [(token, start + i, sequence.slot, first <= i <= last) for i, token in enumerate(tokens)]


@dataclass(frozen=True, slots=True)
class Step:
    """One call: the runs in slot order, and the slots whose KV makes room for them."""

    runs: tuple[Run, ...]
    evict: tuple[int, ...] = ()

    def computed(self) -> list[Run]:
        """Note that the step was carried out; returns the runs whose sequences now need a token, in row order."""
        for run in self.runs:
            run.sequence.computed += run.known
            run.sequence.suspect &= run.sequence.pending > 0
        return [r for r in self.runs if r.sequence.pending == 0]


class Planner:
    """Plans step after step for the sequences that hold slots; `piece` is the most rows of a step."""

    def __init__(self, settings: EngineSettings, slots: Slots, piece: int) -> None:
        self.piece = piece
        self._settings, self._slots = settings, slots
        self._read_last = False  # whether the last step read a piece of one prompt

    def plan(self) -> Step | None:
        """The next step: what brings most known and drafted cells further for its cost. That is a piece of one prompt, or some rows of all.

        A prompt takes turns with sequences more urgent than its own.
        """
        running = self._slots.running
        if not running:
            return None
        if suspects := [s for s in running if s.suspect]:
            return self._fitted([self._read(suspects[0])])
        longest = max(running, key=lambda s: (s.pending, -s.arrival))
        together, gain = self._joint(running)
        alone = self._read(longest)
        urgent = self._read_last and any(s.request.priority < longest.request.priority for s in running)
        self._read_last = longest.pending > SHORT and not urgent and alone.known / self._cost(1, alone.rows) > gain
        return self._fitted([alone] if self._read_last else together)

    def _cost(self, slots: int, rows: int) -> float:
        """What a step of `rows` rows each for `slots` adjacent slots costs, in rows."""
        return self._settings.pass_rows + slots * (self._settings.slot_rows + rows)

    def _read(self, sequence: Sequence) -> Run:
        """A piece of one prompt, its rows rounded up to what a step may have."""
        known, s = min(sequence.pending, self.piece, sequence.to_boundary), self._settings
        whole = -(-max(known, s.least_rows) // s.row_multiple) * s.row_multiple
        return Run(sequence, known, whole if self._slots.can_truncate else known)

    def _joint(self, running: list[Sequence]) -> tuple[list[Run], float]:
        """Equally many rows of every running sequence, as many as pay best, and what a row's cost then brings."""
        if not self._slots.can_truncate:
            rows = min(self.piece // len(running), *(min(q.pending, q.to_boundary) for q in running))
            return [Run(q, rows, rows) for q in running], len(running) * rows / self._cost(len(running), rows)
        slots, s = [q.slot for q in running if q.slot is not None], self._settings
        gains, sizes = [], self._passes(slots)
        for rows in LENGTHS:
            if rows >= s.least_rows and sum(sizes) * rows <= self.piece and not any(size * rows % s.row_multiple for size in sizes):
                gains.append((sum(q.useful(rows) for q in running) / sum(self._cost(size, rows) for size in sizes), rows))
        if not gains:
            return [self._read(running[0])], 0.0
        gain, rows = max(gains)
        return [Run(q, min(rows, q.pending, q.to_boundary), rows) for q in running], gain

    def _passes(self, slots: list[int]) -> list[int]:
        """How many slots each pass has in which llama.cpp computes those slots: it splits a step where their numbers have a gap."""
        if self._settings.unified:  # no streams, so no gaps: any rows go in one pass
            return [len(slots)]
        sizes = [1]
        for before, slot in pairwise(slots):
            if slot == before + 1:
                sizes[-1] += 1
            else:
                sizes.append(1)
        return sizes

    def _fitted(self, runs: list[Run]) -> Step:
        """The step, with the KV it needs made free: cached slots go first, then the newest sequences."""
        evict: tuple[int, ...] = ()
        if (capacity := self._slots.capacity) is not None:
            need = sum(r.rows for r in runs) + sum(s.computed for s in self._slots.running)
            evict = self._slots.evict(capacity - need)
            while need > capacity and len(self._slots.running) > 1:
                last = self._slots.newest
                need -= last.computed + sum(r.rows for r in runs if r.sequence is last)
                runs = [r for r in runs if r.sequence is not last]
                evict = (*evict, self._slots.send_back(last))
        return Step(tuple(runs), evict)
