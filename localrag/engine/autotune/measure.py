"""Correctness (KL divergence) and speed of a layout.

Correctness: a layout's logits are compared with those of the plain layout (the file's own weights on the CPU, one sequence, 16-bit KV, no
flash attention). Crashes are caught by the child process (`trial`), silent errors by the divergence.

Speed: the layouts take turns. A round in which the process had less CPU time than its threads is discarded (a thread with a core to itself
spins through its waits: measured 0.93 to 1.0 of wall time alone, 0.6 beside one busy process, 0.5 beside two). A layout beats an earlier
one only if it is faster in nearly all counted rounds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.engine.autotune.trial import TrialLog
from localrag.engine.llama.chat_template import open_vocabulary
from localrag.engine.llama.model import PREFILL_ROWS, LlamaModel
from localrag.engine.settings import EngineSettings, sized_layout_key
from localrag.errors import NativeTrialFailed

PROBE_TEXT = (
    "The harbour master wrote to the council of the town that the old ferry leaked and that its owner, who lived in the north, had been "
    "told of it twice. In March 1973 he was fined six hundred pounds, and the ferry was towed to the yard, where it was repaired by June."
)
PREFIX_TOKENS, COMPARED_TOKENS = 40, 8  # tokens before a joint step; the last of them are compared
MAX_KL_DIVERGENCE = 0.1  # nats, median row: q8_0 copies and KV stay below 0.01 (measured), broken kernels reach several


def reference_settings(settings: EngineSettings) -> EngineSettings:
    """The plain layout to compare with."""
    return replace(
        settings, weights="own", extra_buffers=False, gpu_layers=0, cpu_experts=0, kv_cache_type="f16", kv_unified=False,
        flash_attention=False, slots=1, n_ctx=256,
    )  # fmt: skip


def probe_logits(backend: LlamaModel) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits of typical steps of a layout.

    (COMPARED_TOKENS, n_vocab) of a prefill chunk, and (slots, 2, n_vocab) of a joint decode step after it.
    """
    tokens = _tokens(backend)
    slots = min(backend.settings.slots, PREFILL_ROWS // 2)
    for slot in range(backend.settings.slots):
        backend.truncate(slot, 0)
    backend.decode([(t, i, 0, False) for i, t in enumerate(tokens[: PREFIX_TOKENS - COMPARED_TOKENS])])
    chunk = [(t, i, 0, True) for i, t in enumerate(tokens[:PREFIX_TOKENS]) if i >= PREFIX_TOKENS - COMPARED_TOKENS]
    prefill_logits = backend.decode(chunk).copy()
    for slot in range(1, slots):
        backend.copy_prefix(0, slot, PREFIX_TOKENS)
    joint = [(tokens[PREFIX_TOKENS + i], PREFIX_TOKENS + i, slot, True) for slot in range(slots) for i in range(2)]
    decode_logits = backend.decode(joint).copy().reshape(slots, 2, -1)
    backend.decode([(tokens[PREFIX_TOKENS + 2], PREFIX_TOKENS + 2, 0, True)])  # a step of one row uses other kernels
    return prefill_logits, decode_logits


def _tokens(backend: LlamaModel) -> list[int]:
    tokens = backend.tokenize(PROBE_TEXT)[: PREFIX_TOKENS + 3]
    return tokens + [(3 + 7 * i) % backend.n_vocab for i in range(PREFIX_TOKENS + 3 - len(tokens))]


def save_reference(backend: LlamaModel, path: Path) -> None:
    """Write the plain layout's logits to a file for `kl_divergence`."""
    read, wrote = probe_logits(backend)
    np.savez(path, read=read, wrote=wrote[0])


def kl_divergence(backend: LlamaModel, reference: Path) -> float:
    """Kullback-Leibler divergence from the plain layout, in nats, median over rows. Raises NativeTrialFailed if it is too large."""
    with np.load(reference) as stored:
        expected_read, expected_wrote = stored["read"], stored["wrote"]
    read, wrote = probe_logits(backend)
    rows = [*zip(expected_read, read, strict=True), *((e, g) for slot in wrote for e, g in zip(expected_wrote, slot, strict=True))]
    divergences = [_divergence(e, g) for e, g in rows]
    worst_slot = max(float(np.median([_divergence(e, g) for e, g in zip(expected_wrote, slot, strict=True)])) for slot in wrote)
    divergence = max(float(np.median(divergences)), worst_slot / 10)
    if not divergence <= MAX_KL_DIVERGENCE:  # also if it is NaN
        raise NativeTrialFailed(f"its results differ from those of the plain layout (by {divergence:.2g} nats)")
    return round(divergence, 6)


def _divergence(expected: NDArray[np.float32], got: NDArray[np.float32]) -> float:
    log_p, log_q = _log_softmax(expected), _log_softmax(got)
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))


def _log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = row.astype(np.float64) - float(row.max())
    return exact - float(np.log(np.exp(exact).sum()))


INVARIANT_ROWS = 144  # with q8_0 weights and keys one row and several round alike for the first hundred tokens (measured)
INVARIANT_ROWS_LARGE = 72  # for a model of gigabytes, which takes minutes on a CPU
LARGE_WEIGHTS_BYTES = 1 << 30


def check_tokenizer(journal: TrialLog, *, path: str) -> int:
    """Number of tokens of a probe text with the model's own tokenizer. Raises NativeTrialFailed if it cannot be opened."""
    return int(journal.run_once("vocabulary", lambda: len(open_vocabulary(Path(path))(PROBE_TEXT))))


def with_invariant_rows(backend: LlamaModel, settings: EngineSettings) -> EngineSettings:
    """The settings with the fewest rows for which logits do not depend on chunks and batch, marked as not exact if there are none."""
    for min_rows, multiple in ((1, 1), (2, 1), (2, 4)):
        tried = replace(settings, min_rows=min_rows, row_multiple=multiple, batch_invariant=True)
        if is_batch_invariant(backend, tried):
            return tried
    return replace(settings, min_rows=1, row_multiple=1, batch_invariant=False)


def is_batch_invariant(backend: LlamaModel, settings: EngineSettings) -> bool:
    """Whether the logits after a text are bit for bit the same for all chunk sizes and whatever else is in the batch."""
    tokens = (_tokens(backend) * 4)[: INVARIANT_ROWS if backend.size <= LARGE_WEIGHTS_BYTES else INVARIANT_ROWS_LARGE]
    n_others = min(3, settings.slots - 1)
    # Flash attention on a CPU uses another kernel from 64 rows on.
    cases = [([len(tokens)], 0), ([60], 0), ([settings.min_rows], 0), ([9], n_others), ([3, 5, 17, 2], n_others)]
    tried_cases = cases if backend.can_truncate else [([len(tokens)], 0), ([60], 0), ([2], 0)]
    model = backend.share_weights(replace(settings, n_ctx=256))
    try:
        first, *other_cases = tried_cases
        expected = _logits(model, settings, tokens, *first)
        return all(np.array_equal(expected, _logits(model, settings, tokens, *case)) for case in other_cases)
    finally:
        model.close()


def _logits(backend: LlamaModel, settings: EngineSettings, tokens: list[int], cuts: Sequence[int], n_others: int) -> Any:
    """Logits after `tokens`, prefilled in chunks of `cuts` lengths beside `others` sequences, with the settings' rules for rows."""
    for slot in range(n_others + 1):
        backend.truncate(slot, 0)
    position = turn = 0
    while position < len(tokens):
        n_known = min(max(cuts[turn % len(cuts)], 1), len(tokens) - position)
        rows = max(n_known, settings.min_rows)
        while backend.can_truncate and rows * (n_others + 1) % settings.row_multiple:
            rows += 1
        step = [
            (
                ((tokens + tokens)[position + i] + 13 * slot) % backend.n_vocab,
                position + i,
                slot,
                slot == 0 and position + i == len(tokens) - 1,
            )
            for slot in range(n_others + 1)
            for i in range(rows)
        ]
        logits = backend.decode(step).copy()
        position, turn = position + n_known, turn + 1
        for slot in range(n_others + 1):
            if rows > n_known:
                backend.truncate(slot, position)
    return logits


PREFILL_SHARE = 1.5  # a typical request prefills three rows for every two it decodes
DECODE_ROWS = 2
INVARIANCE_BONUS = 1.15  # an exact layout is chosen unless another is faster by this factor
CLEARLY_FASTER = 0.92  # a later layout must take at most this share of an earlier one's time
MIN_FASTER_ROUNDS = 0.75  # share of rounds in which it must be faster
MIN_CPU_SHARE = 0.9  # CPU seconds per wall second and thread for a round to count
UNDISTURBED_STEP_S = 5e-3  # a step this short is not interrupted by other processes
MAX_COMPARED_KV_BYTES = 1 << 30  # KV of all contexts that are compared at once
ROUNDS_PER_COUNTED = 2  # tried rounds per required round until the machine counts as busy
MAX_DISCARDED_S = 10.0  # seconds of discarded rounds until the machine counts as busy


class MachineBusy(Exception):
    """Other processes use the CPU: nothing can be measured now."""


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A timed step: wall seconds, and whether no other process used the CPU meanwhile (assumed on a GPU)."""

    seconds: float
    is_undisturbed: bool


class MeasurementEffort(NamedTuple):
    """Extent of a measurement: tokens of a typical sequence, rows of a prefill step, and required rounds."""

    context_tokens: int
    prefill_rows: int
    rounds: int


SMALL_MODEL_EFFORT, LARGE_MODEL_EFFORT = MeasurementEffort(256, 64, 4), MeasurementEffort(32, 16, 3)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds per row of one choice in each counted round: of a prefill, and of a decode step of all slots."""

    settings: EngineSettings
    prefill_seconds: tuple[float, ...]
    decode_seconds: tuple[float, ...]

    def scores(self, *, prefer_exact: bool) -> list[float]:
        """Seconds of a typical request per decoded row, by round; lower is better."""
        loose = prefer_exact and (self.settings.kv_unified or self.settings.flash_attention)
        return [
            (PREFILL_SHARE * r + w) * (INVARIANCE_BONUS if loose else 1)
            for r, w in zip(self.prefill_seconds, self.decode_seconds, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """The choice and its cost in the best round."""
        figures = {"read_ms": round(min(self.prefill_seconds) * 1e3, 3), "write_ms": round(min(self.decode_seconds) * 1e3, 3)}
        return {"layout": sized_layout_key(self.settings), "threads": self.settings.threads} | figures


def fastest(measured: Sequence[Measurement], *, prefer_exact: bool = True) -> Measurement:
    """The first measurement that no later one clearly beats; the order is that of preference."""
    chosen = measured[0]
    for other in measured[1:]:
        pairs = list(zip(other.scores(prefer_exact=prefer_exact), chosen.scores(prefer_exact=prefer_exact), strict=True))
        faster = sum(a < b for a, b in pairs) >= MIN_FASTER_ROUNDS * len(pairs)
        if faster and median(a / b for a, b in pairs) < CLEARLY_FASTER:
            chosen = other
    return chosen


def compare_layouts(choices: Sequence[tuple[LlamaModel, EngineSettings]]) -> list[Measurement]:
    """Measurements of several layouts; one context at a time if they are large or on a GPU. Raises MachineBusy, ModelError."""
    effort = SMALL_MODEL_EFFORT if choices[0][0].size <= LARGE_WEIGHTS_BYTES else LARGE_MODEL_EFFORT

    def read_and_write(model: LlamaModel) -> list[TimedStep]:
        shapes = ((1, effort.prefill_rows), (model.settings.slots, DECODE_ROWS))
        return [min((time_step(model, *shape, effort.context_tokens) for _ in range(2)), key=lambda step: step.seconds) for shape in shapes]

    def open_and_time(backend: LlamaModel, settings: EngineSettings) -> list[TimedStep]:
        with open_context(backend, settings, effort.context_tokens) as model:
            return read_and_write(model)

    needed = sum(s.slots * s.n_ctx * b.kv_bytes_per_token(s.kv_cache_type) for b, s in choices)
    with ExitStack() as stack:
        if needed > MAX_COMPARED_KV_BYTES or any(b.on_gpu for b, _ in choices):
            works = [partial(open_and_time, *choice) for choice in choices]
        else:
            works = [partial(read_and_write, stack.enter_context(open_context(b, s, effort.context_tokens))) for b, s in choices]
        counted = measure_rounds(works, effort.rounds)
    return [
        Measurement(s, tuple(r[n][0] / effort.prefill_rows for r in counted), tuple(r[n][1] / (DECODE_ROWS * s.slots) for r in counted))
        for n, (_, s) in enumerate(choices)
    ]


def measure_rounds(works: Sequence[Callable[[], list[TimedStep]]], count: int) -> list[list[list[float]]]:
    """Seconds by round, work and step of the counted rounds; every work runs once per round. Raises MachineBusy."""
    counted: list[list[list[float]]] = []
    discarded_seconds = 0.0
    for _ in range(ROUNDS_PER_COUNTED * count):
        started = time.perf_counter()
        steps = [work() for work in works]
        if all(step.is_undisturbed for work_steps in steps for step in work_steps):
            counted.append([[step.seconds for step in work_steps] for work_steps in steps])
        else:
            discarded_seconds += time.perf_counter() - started
        if len(counted) == count:
            return counted
        if discarded_seconds > MAX_DISCARDED_S:
            break
    raise MachineBusy


@contextmanager
def open_context(backend: LlamaModel, settings: EngineSettings, n_tokens: int) -> Iterator[LlamaModel]:
    """The model with a context of these settings, each slot filled with `n_tokens` if slots can be truncated. Raises ModelError."""
    model = backend.share_weights(settings)
    try:
        if model.can_truncate:
            _fill(model, n_tokens)
        yield model
    finally:
        model.close()


def _fill(backend: LlamaModel, n_tokens: int) -> None:
    unified, slots = backend.settings.kv_unified, backend.settings.slots
    for slot in range(slots if unified else 1):  # copies in a unified KV share their cells
        for start in range(0, n_tokens, 128):
            rows = range(start, min(n_tokens, start + 128))
            backend.decode([(1 + i % min(997, backend.n_vocab - 1), i, slot, False) for i in rows])
    for slot in range(1, 1 if unified else slots):
        backend.copy_prefix(0, slot, n_tokens)


def time_step(backend: LlamaModel, slots: int, rows: int, n_tokens: int) -> TimedStep:
    """Time a step of so many slots and rows per slot, after `n_tokens` tokens."""
    n_tokens = n_tokens if backend.can_truncate else 0
    step = [(5 + i, n_tokens + i, slot, i == rows - 1) for slot in range(slots) for i in range(rows)]
    started, cpu = time.perf_counter(), time.process_time()
    backend.decode(step)
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    for slot in range(slots):
        backend.truncate(slot, n_tokens)
    return TimedStep(seconds, backend.on_gpu or seconds < UNDISTURBED_STEP_S or used >= MIN_CPU_SHARE * seconds * backend.settings.threads)
