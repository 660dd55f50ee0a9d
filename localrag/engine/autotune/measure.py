"""Correctness (KL divergence) and speed of a layout.

Correctness: a layout's logits are compared with those of the plain layout (the file's own weights on the CPU, one sequence, 16-bit KV, no
flash attention). Crashes are caught by the child process (`trial`), silent errors by the divergence.

Speed: the layouts take turns, and each counts with its best round, so that other processes disturb all alike. A layout beats an earlier one
only if it is clearly faster.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from localrag.engine.llama.model import PREFILL_ROWS, LlamaModel
from localrag.engine.settings import EngineSettings
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
        settings, weights="own", extra_buffers=False, gpu_layers=0, kv_cache_type="f16", flash_attention=False, slots=1, n_ctx=256
    )


def probe_logits(backend: LlamaModel) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A layout's logits: (COMPARED_TOKENS, n_vocab) of a prefill chunk, and (slots, 2, n_vocab) of a joint decode step after it."""
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


def kl_divergence(backend: LlamaModel, expected: tuple[NDArray[np.float32], NDArray[np.float32]]) -> float:
    """Divergence from the plain layout's `probe_logits`, in nats, median over rows. Raises NativeTrialFailed if it is too large."""
    (expected_read, (expected_wrote, *_)), (read, wrote) = expected, probe_logits(backend)
    rows = [*zip(expected_read, read, strict=True), *((e, g) for slot in wrote for e, g in zip(expected_wrote, slot, strict=True))]
    worst_slot = max(float(np.median([_divergence(e, g) for e, g in zip(expected_wrote, slot, strict=True)])) for slot in wrote)
    divergence = max(float(np.median([_divergence(e, g) for e, g in rows])), worst_slot / 10)
    if not divergence <= MAX_KL_DIVERGENCE:  # also if it is NaN
        raise NativeTrialFailed(f"its results differ from those of the plain layout (by {divergence:.2g} nats)")
    return round(divergence, 6)


def _divergence(expected: NDArray[np.float32], got: NDArray[np.float32]) -> float:
    log_p, log_q = _log_softmax(expected), _log_softmax(got)
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))


def _log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = row.astype(np.float64) - float(row.max())
    return exact - float(np.log(np.exp(exact).sum()))


PREFILL_SHARE = 1.5  # a typical request prefills three rows for every two it decodes
DECODE_ROWS = 2
CLEARLY_FASTER = 0.92  # a later layout must take at most this share of an earlier one's time
MAX_COMPARED_KV_BYTES = 1 << 30  # KV of all contexts that are compared at once
LARGE_WEIGHTS_BYTES = 1 << 30


# Tokens of a typical sequence, rows of a prefill step, and rounds: for models below and above LARGE_WEIGHTS_BYTES.
SMALL_MODEL_EFFORT, LARGE_MODEL_EFFORT = (256, 64, 4), (32, 16, 3)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds per row of one choice in its best round: of a prefill, and of a decode step of all slots."""

    settings: EngineSettings
    prefill_seconds: float
    decode_seconds: float

    @property
    def cost(self) -> float:
        """Seconds of a typical request per decoded row."""
        return PREFILL_SHARE * self.prefill_seconds + self.decode_seconds


def fastest(measured: Sequence[Measurement]) -> Measurement:
    """The first measurement that no later one clearly beats; the order is that of preference."""
    chosen = measured[0]
    for other in measured[1:]:
        if other.cost < CLEARLY_FASTER * chosen.cost:
            chosen = other
    return chosen


def compare_layouts(choices: Sequence[tuple[LlamaModel, EngineSettings]]) -> list[Measurement]:
    """Measurements of several layouts, which take turns; one context at a time if they are large or on a GPU. Raises ModelError."""
    n_tokens, prefill_rows, rounds = SMALL_MODEL_EFFORT if choices[0][0].size <= LARGE_WEIGHTS_BYTES else LARGE_MODEL_EFFORT
    needed = sum(s.slots * s.n_ctx * b.kv_bytes_per_token(s.kv_cache_type) for b, s in choices)
    is_apart = needed > MAX_COMPARED_KV_BYTES or any(b.on_gpu for b, _ in choices)
    best = [(inf, inf)] * len(choices)
    with ExitStack() as stack:
        kept = [] if is_apart else [stack.enter_context(open_context(b, s, n_tokens)) for b, s in choices]
        for _ in range(rounds):
            for n, choice in enumerate(choices):
                with nullcontext(kept[n]) if kept else open_context(*choice, n_tokens) as model:
                    prefill = time_step(model, 1, prefill_rows, n_tokens) / prefill_rows
                    decode = time_step(model, choice[1].slots, DECODE_ROWS, n_tokens) / (DECODE_ROWS * choice[1].slots)
                    best[n] = min(best[n][0], prefill), min(best[n][1], decode)
    return [Measurement(s, *seconds) for (_, s), seconds in zip(choices, best, strict=True)]


@contextmanager
def open_context(backend: LlamaModel, settings: EngineSettings, n_tokens: int) -> Iterator[LlamaModel]:
    """The model with a context of these settings, each slot filled with `n_tokens` if slots can be truncated. Raises ModelError."""
    model = backend.share_weights(settings)
    try:
        for start in range(0, n_tokens if model.can_truncate else 0, 128):
            rows = range(start, min(n_tokens, start + 128))
            model.decode([(1 + i % min(997, model.n_vocab - 1), i, 0, False) for i in rows])
        for slot in range(1, settings.slots if model.can_truncate else 1):
            model.copy_prefix(0, slot, n_tokens)
        yield model
    finally:
        model.close()


def time_step(backend: LlamaModel, slots: int, rows: int, n_tokens: int) -> float:
    """Seconds of a step of so many slots and rows per slot after `n_tokens` tokens, the better of two."""
    n_tokens = n_tokens if backend.can_truncate else 0
    step, seconds = [(5 + i, n_tokens + i, slot, i == rows - 1) for slot in range(slots) for i in range(rows)], inf
    for _ in range(2):
        started = time.perf_counter()
        backend.decode(step)
        seconds = min(seconds, time.perf_counter() - started)
        for slot in range(slots):
            backend.truncate(slot, n_tokens)
    return seconds
