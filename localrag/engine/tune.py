"""Finding the settings a model runs best with on this machine: a handful are measured on typical steps, once, and kept.

What wins differs: on this project's CPUs KV streams of their own with keys in q8_0, without flash attention; on a GPU another.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from localrag.config import cache_dir, free_cores, free_memory, private_folder, replace_file
from localrag.engine.llama.chat import Llama
from localrag.engine.llama.kv import kv_shape
from localrag.engine.llama.weights import BUILD, GPU, copy_path, useful_copies
from localrag.engine.settings import EngineOptions, EngineSettings, checked
from localrag.errors import EngineFailed, ModelError
from localrag.models import ModelFile

READ_ROWS, WRITE_ROWS, READ_SHARE = 64, 2, 1.5  # a typical request reads three rows for every two it writes
MOST_KV = 2 << 30  # bytes, and no more than a third of the free memory
EXACT_IS_WORTH = 1.15  # an exact layout is taken unless another is so much faster
CPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv": "q8_0/bf16"},
    {"kv": "q8_0/f32"},
    {"kv": "f16"},
    {"kv": "f16", "flash_attention": True},
)
# On CPU, attention over one KV for all costs every sequence the length of all of them (124 ms a step against 47, eight of 700 tokens).
GPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv": "f16", "flash_attention": True},
    {"kv": "f16", "flash_attention": True, "unified": True},
    {"kv": "q8_0", "flash_attention": True, "unified": True},
    {"kv": "f16"},
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly to measure: cells of a typical sequence, and how often each step is timed (the best time counts)."""

    cells: int
    rounds: int


QUICK_MODEL, SLOW_MODEL, SLOW_ROW = Effort(512, 4), Effort(128, 2), 5e-3  # seconds


@dataclass(frozen=True, slots=True)
class Measured:
    """One choice's figures: seconds to read a row, and to write one in a step of all slots."""

    settings: EngineSettings
    read: float
    write: float

    @property
    def score(self) -> float:
        """Seconds of a typical request for each row it writes; lower is better."""
        loose = self.settings.unified or self.settings.flash_attention
        return (READ_SHARE * self.read + self.write) * (EXACT_IS_WORTH if loose and not GPU else 1)

    def to_json(self) -> dict[str, Any]:
        """What was chosen and what it costs."""
        shown = ("weights", "threads", "slots", "kv", "unified", "flash_attention", "gpu_layers")
        figures = {"read_ms": round(self.read * 1e3, 3), "write_ms": round(self.write * 1e3, 3)}
        return {n: getattr(self.settings, n) for n in shown} | figures


def open_backend(file: ModelFile, options: EngineOptions) -> Llama:
    """The model, loaded with the settings measured for it here (now, if never before) and those given by hand. Raises ModelError."""
    kept = _record(file)
    known = None if options.retune else _load(kept)
    if known is None:
        options.say(f"Measuring how {file.name} runs best on this machine; it is done once.")
        known, rows = measure(file, options.say)
        private_folder(kept.parent)
        replace_file(kept, json.dumps({"settings": known.to_json(), "measured": rows}, indent=1).encode())
        options.say(describe(known))
    settings = checked(known.with_values(options.values))
    backend = Llama(file, settings)
    return _deterministic(backend) if options.deterministic else backend


def memory_needed(file: ModelFile, options: EngineOptions) -> tuple[float, float, EngineSettings]:
    """Bytes of a model's weights, bytes of its KV, and the settings that makes so; nothing is loaded or measured. Raises ModelError."""
    settings = checked((_load(_record(file)) or EngineSettings()).with_values(options.values))
    copied = copy_path(file, settings.weights)
    shape = kv_shape(file.path)
    cells = min(settings.context, shape.window or settings.context) * settings.slots
    path = copied if settings.weights != "own" and copied.exists() else file.path
    return path.stat().st_size, cells * shape.bytes_per_token(settings.kv), settings


def describe(s: EngineSettings) -> str:
    """The settings in a line."""
    weights = "" if s.weights == "own" else f"weights in {s.weights}, "
    layout = weights + ("one KV for all" if s.unified else "a KV each") + (", flash attention" if s.flash_attention else "")
    return f"{s.slots} sequences at once, {layout}, {s.kv}, {s.threads} threads" + (
        "" if s.exact else "; answers may depend on what else runs"
    )


def measure(file: ModelFile, say: Callable[[str], None]) -> tuple[EngineSettings, list[dict[str, Any]]]:
    """The best settings for a model on this machine, and what was measured.

    Takes 23 s for 135M parameters on 2 cores, longer for more. Raises ModelError.
    """
    base = EngineSettings(threads=free_cores(), slots=8, context=768)
    own = Llama(file, base)
    effort = _effort(own)
    backend = _with_best_weights(own, file, effort, say)
    base = replace(base, weights=backend.settings.weights)
    try:
        layouts = _compare([(backend, s) for s in _layouts(base)], effort)
        best = _best(layouts).settings
        if best.threads >= 4:  # two threads of one core may gain nothing
            layouts += _compare([(backend, best), (backend, replace(best, threads=best.threads // 2))], effort)
            best = _best(layouts[-2:]).settings
        best, sizes = _with_slots(backend, best, effort)
        best = _with_rules(backend, best)
        return replace(best, context=EngineSettings().context), [m.to_json() for m in (*layouts, *sizes)]
    finally:
        backend.close()


def _effort(backend: Llama) -> Effort:
    """What this model's speed allows."""
    probe = backend.sibling(replace(backend.settings, slots=1, context=256))
    seconds = _times(probe, [(1, 16)], 0, 2)[0]
    probe.close()
    return SLOW_MODEL if seconds / 16 > SLOW_ROW else QUICK_MODEL


def _best(measured: list[Measured]) -> Measured:
    """The first that none of the later beats by 8 %: they are tried in the order of what is expected, and machines are noisy."""
    best = measured[0]
    for other in measured[1:]:
        if other.score < 0.92 * best.score:
            best = other
    return best


def _with_best_weights(plain: Llama, file: ModelFile, effort: Effort, say: Callable[[str], None]) -> Llama:
    """The model with its own weights, or with those of a copy of another type if that wins; the copies that lose are deleted."""
    models = [plain]
    for weights in useful_copies(file, plain.parameters):
        with suppress(ModelError):
            models.append(Llama(file, replace(plain.settings, weights=weights)))
    if len(models) == 1:
        return plain
    own, *_ = measured = _compare([(m, m.settings) for m in models], effort)
    best = _best(measured)
    for model in models:
        if model.settings.weights != best.settings.weights:
            model.close()
            if model.settings.weights != "own":
                copy_path(file, model.settings.weights).unlink(missing_ok=True)
    if best is not own:
        gain = f"reads {own.read / best.read:.1f} and writes {own.write / best.write:.1f} times as fast as the file itself"
        say(f"A copy of {file.path.name} in {best.settings.weights}, kept in {cache_dir() / 'models'}, {gain}.")
    return next(m for m in models if m.settings.weights == best.settings.weights)


def _layouts(base: EngineSettings) -> Iterator[EngineSettings]:
    if GPU:
        for layout in GPU_LAYOUTS:
            yield replace(base, **layout)
        base = replace(base, gpu_layers=0)
    for layout in CPU_LAYOUTS:
        yield replace(base, **layout)


def _with_slots(backend: Llama, best: EngineSettings, effort: Effort) -> tuple[EngineSettings, list[Measured]]:
    """How many sequences at once pay best among those whose KV the memory can hold, and what a step then costs."""
    budget = min(MOST_KV, (free_memory() or 3 * MOST_KV) // 3)
    most = max(1, int(budget / (EngineSettings().context * backend.kv_bytes_per_token(best.kv))))
    sizes = [n for n in (16, 8, 4, 32) if n <= most] or [most]
    held = _hold(backend.sibling(replace(best, slots=max(sizes))), effort.cells)
    try:
        read, *writes = _times(held, [(1, READ_ROWS), *((n, WRITE_ROWS) for n in sizes)], effort.cells, effort.rounds)
        measured = [
            Measured(replace(best, slots=n), read / READ_ROWS, write / (WRITE_ROWS * n)) for n, write in zip(sizes, writes, strict=True)
        ]
        best = _best(measured).settings
        n = best.slots
        one, few, many = _times(held, [(1, 2), (n, 2), (n, 8)], effort.cells, effort.rounds)
    finally:
        held.close()
    row = max(1e-7, (many - few) / (6 * n))
    each = max(0.0, (few - one) / row - 2 * (n - 1)) / max(1, n - 1)
    alone = max(1.0, one / row - 2 - each)
    return replace(best, pass_rows=round(min(500.0, alone), 1), slot_rows=round(min(50.0, each), 2)), measured


def _compare(choices: list[tuple[Llama, EngineSettings]], effort: Effort) -> list[Measured]:
    """The figures of those choices that this model and machine can have, measured in turn so that a busy moment spoils none.

    Raises ModelError where it can have none.
    """
    held: list[Llama] = []
    try:
        for backend, settings in choices:
            with suppress(ModelError, EngineFailed):
                held.append(_hold(backend.sibling(settings), effort.cells))
        if not held:
            raise ModelError("No layout of the KV works for this model.", "Give one by hand: --engine slots=1,context=1024")
        shapes = [[(1, READ_ROWS), (b.settings.slots, WRITE_ROWS)] for b in held]
        rounds = [[_times(b, s, effort.cells, 1) for b, s in zip(held, shapes, strict=True)] for _ in range(effort.rounds)]
        best = [tuple(map(min, zip(*each, strict=True))) for each in zip(*rounds, strict=True)]
        return [
            Measured(replace(b.settings), read / READ_ROWS, write / (WRITE_ROWS * b.settings.slots))
            for b, (read, write) in zip(held, best, strict=True)
        ]
    finally:
        for backend in held:
            backend.close()


def _hold(backend: Llama, cells: int) -> Llama:
    """The model with that many cells in every slot; with none where they could not be gone back to."""
    if not backend.can_truncate:
        return backend
    unified, slots = backend.settings.unified, backend.settings.slots
    for slot in range(slots if unified else 1):  # a copy in a KV for all would share its cells
        for start in range(0, cells, 128):
            backend.decode([(1 + (start + i) % 997, start + i, slot, False) for i in range(128)])
    for slot in range(1, 1 if unified else slots):
        backend.copy(0, slot, cells)
    return backend


def _times(backend: Llama, shapes: list[tuple[int, int]], cells: int, rounds: int) -> list[float]:
    """Seconds of steps of (sequences, rows of each) after `cells` cells each: the best of some rounds."""
    return [min(times) for times in zip(*([_step(backend, *shape, cells) for shape in shapes] for _ in range(rounds)), strict=True)]


def _step(backend: Llama, slots: int, rows: int, cells: int) -> float:
    cells = cells if backend.can_truncate else 0
    step = [(5 + i, cells + i, slot, i == rows - 1) for slot in range(slots) for i in range(rows)]
    started = time.perf_counter()
    backend.decode(step)
    seconds = time.perf_counter() - started
    for slot in range(slots):
        backend.truncate(slot, cells)
    return seconds


def _with_rules(backend: Llama, settings: EngineSettings) -> EngineSettings:
    """The settings with the fewest rows for which a sequence's logits do not depend on pieces and company, if there are such."""
    for least, multiple in ((1, 1), (2, 1), (2, 4)):
        tried = replace(settings, least_rows=least, row_multiple=multiple, exact=True)
        if _is_exact(backend, tried):
            return tried
    return replace(settings, least_rows=1, row_multiple=1, exact=False)


def _is_exact(backend: Llama, settings: EngineSettings) -> bool:
    """Whether the logits after a text are bit for bit the same however it is cut and whatever runs beside it."""
    tokens = [3 + 7 * i % 991 for i in range(72)]  # over short texts one row and several round alike
    company = min(3, settings.slots - 1)
    cut = [([60], 0), ([settings.least_rows], 0), ([9], company), ([3, 5, 17, 2], company)]
    ways = cut if backend.can_truncate else [([60], 0), ([2], 0)]
    held = backend.sibling(replace(settings, context=256))
    try:
        first, *rest = ways
        expected = _logits(held, settings, tokens, *first)
        return all(np.array_equal(expected, _logits(held, settings, tokens, *way)) for way in rest)
    finally:
        held.close()


def _logits(backend: Llama, settings: EngineSettings, tokens: list[int], cuts: list[int], others: int) -> Any:
    """Logits after `tokens`, computed in pieces of `cuts` lengths beside `others` sequences, under the settings' rules for rows."""
    for slot in range(others + 1):
        backend.truncate(slot, 0)
    at = turn = 0
    while at < len(tokens):
        known = min(max(cuts[turn % len(cuts)], 1), len(tokens) - at)
        rows = max(known, settings.least_rows)
        while backend.can_truncate and rows * (others + 1) % settings.row_multiple:
            rows += 1
        step = [
            ((tokens + tokens)[at + i] + 13 * slot, at + i, slot, slot == 0 and at + i == len(tokens) - 1)
            for slot in range(others + 1)
            for i in range(rows)
        ]
        logits = backend.decode(step).copy()
        at, turn = at + known, turn + 1
        for slot in range(others + 1):
            if rows > known:
                backend.truncate(slot, at)
    return logits


def _deterministic(backend: Llama) -> Llama:
    """The model set up so that every answer depends on its request alone."""
    if backend.settings.exact:
        return backend
    plain = replace(backend.settings, unified=False, flash_attention=False, kv="f16")
    ruled = _with_rules(backend, plain)
    if not ruled.exact:  # one request at a time, each computed from its first token on
        ruled = replace(ruled, slots=1, share_prefixes=False, drafts=False)
    backend.open(ruled)
    return backend


def _record(file: ModelFile) -> Path:
    machine = sha256(json.dumps(_machine()).encode()).hexdigest()[:12]
    return cache_dir() / "tuning" / f"{file.fingerprint}-{machine}.json"


def _machine() -> list[Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    return [cpu, free_cores(), os.cpu_count(), BUILD, GPU]


def _load(path: Path) -> EngineSettings | None:
    """Settings kept earlier; None where there are none, or they are of another version."""
    try:
        values = json.loads(path.read_text())["settings"]
        return EngineSettings(**values) if values.keys() == asdict(EngineSettings()).keys() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
