"""How fast a layout's typical steps are, in rounds that noise cannot fool.

The choices take turns. A round in which the process had less of the CPU than its threads is thrown away (with a core to itself a thread
spins through its waits: measured 0.93 to 1.0 of wall time alone, 0.6 beside one busy process, 0.5 beside two). A choice beats an earlier
one only where it is faster in nearly all of the rounds that count.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from localrag.engine.llama.chat import Llama
from localrag.engine.settings import EngineSettings

READ_SHARE = 1.5  # a typical request reads three rows for every two it writes
WRITE_ROWS = 2
EXACT_IS_WORTH = 1.15  # an exact layout is taken unless another is so much faster
FASTER = 0.92  # of the time of an earlier choice, at most, for a later one to be taken
MOSTLY = 0.75  # of the rounds, in which it must be faster at all
ALONE = 0.9  # CPU seconds for each thread's wall second, from which on a round counts
BRIEF = 5e-3  # seconds of a step within which nobody else gets a turn
KV_TOGETHER = 1 << 30  # bytes of KV that may be held by the contexts that are compared
TRIES = 2  # rounds for each that must count, before the machine is called busy
PROBED = 6  # short rounds that tell a busy machine at once: beside another process every comparison takes ten times as long
LOST = 10.0  # seconds of rounds that do not count, before it is called so all the same


class Busy(Exception):
    """Other processes use the CPU: nothing can be measured now."""


@dataclass(frozen=True, slots=True)
class Step:
    """A timed step: its wall seconds, and whether its threads had the CPU to themselves (taken for granted of a GPU's)."""

    seconds: float
    alone: bool


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly to measure: cells of a typical sequence, rows of a reading step, and how many rounds must count."""

    cells: int
    read_rows: int
    rounds: int


EFFORTS = ((5e-3, Effort(256, 64, 4)), (5e-2, Effort(128, 64, 3)), (1e9, Effort(32, 16, 3)))  # up to so many seconds a row


@dataclass(frozen=True, slots=True)
class Measured:
    """One choice's figures: seconds to read a row, and to write one in a step of all slots, of each round that counts."""

    settings: EngineSettings
    reads: tuple[float, ...]
    writes: tuple[float, ...]

    def scores(self, *, prefer_exact: bool) -> list[float]:
        """Seconds of a typical request for each row it writes, by round; lower is better."""
        loose = prefer_exact and (self.settings.unified or self.settings.flash_attention)
        return [(READ_SHARE * r + w) * (EXACT_IS_WORTH if loose else 1) for r, w in zip(self.reads, self.writes, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """What was chosen and what it costs, by the best round."""
        shown = ("weights", "extra_buffers", "threads", "slots", "kv", "unified", "flash_attention", "gpu_layers", "cpu_experts")
        figures = {"read_ms": round(min(self.reads) * 1e3, 3), "write_ms": round(min(self.writes) * 1e3, 3)}
        return {n: getattr(self.settings, n) for n in shown} | figures


def best(measured: Sequence[Measured], *, prefer_exact: bool = True) -> Measured:
    """The first that no later one clearly beats: they stand in the order of what is expected."""
    chosen = measured[0]
    for other in measured[1:]:
        pairs = list(zip(other.scores(prefer_exact=prefer_exact), chosen.scores(prefer_exact=prefer_exact), strict=True))
        faster = sum(a < b for a, b in pairs) >= MOSTLY * len(pairs)
        if faster and median(a / b for a, b in pairs) < FASTER:
            chosen = other
    return chosen


def effort_for(backend: Llama) -> Effort:
    """What this model's speed allows. Raises Busy."""
    with opened(backend, replace(backend.settings, slots=1, context=256), 0) as probe:
        counted = rounds([lambda: [timed(probe, 1, 16, 0)]], PROBED)
    row = min(r[0][0] for r in counted) / 16
    return next(effort for most, effort in EFFORTS if row <= most)


def compare(choices: Sequence[tuple[Llama, EngineSettings]], effort: Effort) -> list[Measured]:
    """The figures of some layouts; one context at a time where they are large or on a GPU. Raises Busy, ModelError."""

    def read_and_write(made: Llama) -> list[Step]:
        shapes = ((1, effort.read_rows), (made.settings.slots, WRITE_ROWS))
        return [min((timed(made, *shape, effort.cells) for _ in range(2)), key=lambda step: step.seconds) for shape in shapes]

    def opened_anew(backend: Llama, settings: EngineSettings) -> list[Step]:
        with opened(backend, settings, effort.cells) as made:
            return read_and_write(made)

    needed = sum(s.slots * s.context * b.kv_bytes_per_token(s.kv) for b, s in choices)
    with ExitStack() as stack:
        if needed > KV_TOGETHER or any(b.on_gpu for b, _ in choices):
            works = [partial(opened_anew, *choice) for choice in choices]
        else:
            works = [partial(read_and_write, stack.enter_context(opened(b, s, effort.cells))) for b, s in choices]
        counted = rounds(works, effort.rounds)
    return [
        Measured(s, tuple(r[n][0] / effort.read_rows for r in counted), tuple(r[n][1] / (WRITE_ROWS * s.slots) for r in counted))
        for n, (_, s) in enumerate(choices)
    ]


def sizes(backend: Llama, settings: EngineSettings, counts: Sequence[int], effort: Effort) -> list[Measured]:
    """The figures of so many sequences at once. Raises Busy, ModelError."""
    with opened(backend, replace(settings, slots=max(counts)), effort.cells) as made:
        shapes = ((1, effort.read_rows), *((n, WRITE_ROWS) for n in counts))
        counted = rounds([partial(timed_all, made, shapes, effort.cells)], effort.rounds)
    reads = tuple(r[0][0] / effort.read_rows for r in counted)
    return [
        Measured(replace(settings, slots=n), reads, tuple(r[0][1 + i] / (WRITE_ROWS * n) for r in counted)) for i, n in enumerate(counts)
    ]


def costs(backend: Llama, settings: EngineSettings, effort: Effort) -> tuple[float, float]:
    """What a step costs besides its rows, and what every sequence in it does, both counted in rows. Raises Busy, ModelError."""
    n = settings.slots
    with opened(backend, settings, effort.cells) as made:
        counted = rounds([partial(timed_all, made, ((1, 2), (n, 2), (n, 8)), effort.cells)], effort.rounds)
    one, few, many = (min(r[0][i] for r in counted) for i in range(3))
    row = max(1e-7, (many - few) / (6 * n))
    each = max(0.0, (few - one) / row - 2 * (n - 1)) / max(1, n - 1)
    alone = max(1.0, one / row - 2 - each)
    return round(min(500.0, alone), 1), round(min(50.0, each), 2)


def rounds(works: Sequence[Callable[[], list[Step]]], count: int) -> list[list[list[float]]]:
    """Seconds by round, work and step, of the rounds that count: every work is done once in each. Raises Busy."""
    counted: list[list[list[float]]] = []
    lost = 0.0
    for _ in range(TRIES * count):
        started = time.perf_counter()
        steps = [work() for work in works]
        if all(step.alone for some in steps for step in some):
            counted.append([[step.seconds for step in some] for some in steps])
        else:
            lost += time.perf_counter() - started
        if len(counted) == count:
            return counted
        if lost > LOST:
            break
    raise Busy


@contextmanager
def opened(backend: Llama, settings: EngineSettings, cells: int) -> Iterator[Llama]:
    """The model with a context of these settings, every slot holding so many cells where they can be gone back to. Raises ModelError."""
    made = backend.sibling(settings)
    try:
        if made.can_truncate:
            _fill(made, cells)
        yield made
    finally:
        made.close()


def _fill(backend: Llama, cells: int) -> None:
    unified, slots = backend.settings.unified, backend.settings.slots
    for slot in range(slots if unified else 1):  # a copy in a KV for all would share its cells
        for start in range(0, cells, 128):
            rows = range(start, min(cells, start + 128))
            backend.decode([(1 + i % min(997, backend.n_vocab - 1), i, slot, False) for i in rows])
    for slot in range(1, 1 if unified else slots):
        backend.copy(0, slot, cells)


def timed_all(backend: Llama, shapes: Sequence[tuple[int, int]], cells: int) -> list[Step]:
    """A step of each of these numbers of slots and rows, after `cells` cells."""
    return [timed(backend, slots, rows, cells) for slots, rows in shapes]


def timed(backend: Llama, slots: int, rows: int, cells: int) -> Step:
    """A step of so many slots and rows of each after `cells` cells."""
    cells = cells if backend.can_truncate else 0
    step = [(5 + i, cells + i, slot, i == rows - 1) for slot in range(slots) for i in range(rows)]
    started, cpu = time.perf_counter(), time.process_time()
    backend.decode(step)
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    for slot in range(slots):
        backend.truncate(slot, cells)
    return Step(seconds, backend.on_gpu or seconds < BRIEF or used >= ALONE * seconds * backend.settings.threads)
