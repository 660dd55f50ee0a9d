"""Does a layout compute what the model says? Its logits beside those of the plainest layout there is; and what keeps them exact.

The plain layout: the file's own weights as they are in the file, on the CPU, one sequence, 16-bit KV, no flash attention. Kernels that
end the process do so in the child process this runs in (`trial`); ones that are silently wrong are found by their numbers.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.hardware.trial import Journal
from localrag.engine.llama.chat import PIECE, Llama
from localrag.engine.llama.vocabulary import open_vocabulary
from localrag.engine.settings import EngineSettings
from localrag.errors import Refused

TEXT = (
    "The harbour master wrote to the council of the town that the old ferry leaked and that its owner, who lived in the north, had been "
    "told of it twice. In March 1973 he was fined six hundred pounds, and the ferry was towed to the yard, where it was repaired by June."
)
READ, LAST = 40, 8  # tokens read before a joint step, and how many of the last of them are compared
WRONG = 0.1  # nats of the median row: q8_0 copies and KV stay below 0.01 (measured), kernels that compute garbage are at several


def plain(settings: EngineSettings) -> EngineSettings:
    """The layout to compare with."""
    return replace(
        settings, weights="own", extra_buffers=False, gpu_layers=0, cpu_experts=0, kv="f16", unified=False, flash_attention=False,
        slots=1, context=256,
    )  # fmt: skip


def figures(backend: Llama) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits of a layout's typical steps: (LAST, n_vocab) of a piece of a text, and (slots, 2, n_vocab) of a joint step after it."""
    tokens = _tokens(backend)
    slots = min(backend.settings.slots, PIECE // 2)
    for slot in range(backend.settings.slots):
        backend.truncate(slot, 0)
    backend.decode([(t, i, 0, False) for i, t in enumerate(tokens[: READ - LAST])])
    piece = [(t, i, 0, True) for i, t in enumerate(tokens[:READ]) if i >= READ - LAST]
    read = backend.decode(piece).copy()
    for slot in range(1, slots):
        backend.copy(0, slot, READ)
    joint = [(tokens[READ + i], READ + i, slot, True) for slot in range(slots) for i in range(2)]
    wrote = backend.decode(joint).copy().reshape(slots, 2, -1)
    backend.decode([(tokens[READ + 2], READ + 2, 0, True)])  # a step of one row, which has kernels of its own
    return read, wrote


def _tokens(backend: Llama) -> list[int]:
    tokens = backend.tokenize(TEXT)[: READ + 3]
    return tokens + [(3 + 7 * i) % backend.n_vocab for i in range(READ + 3 - len(tokens))]


def keep_reference(backend: Llama, path: Path) -> None:
    """Write the plain layout's figures to a file for `compare`."""
    read, wrote = figures(backend)
    np.savez(path, read=read, wrote=wrote[0])


def compare(backend: Llama, reference: Path) -> float:
    """The median over rows of the divergence from the plain layout, in nats (Kullback-Leibler). Raises Refused where it is too large."""
    with np.load(reference) as kept:
        expected_read, expected_wrote = kept["read"], kept["wrote"]
    read, wrote = figures(backend)
    rows = [*zip(expected_read, read, strict=True), *((e, g) for slot in wrote for e, g in zip(expected_wrote, slot, strict=True))]
    found = [_divergence(e, g) for e, g in rows]
    worst_slot = max(float(np.median([_divergence(e, g) for e, g in zip(expected_wrote, slot, strict=True)])) for slot in wrote)
    away = max(float(np.median(found)), worst_slot / 10)
    if not away <= WRONG:  # also where it is no number
        raise Refused(f"it computes other values than the plain layout does (by {away:.2g} nats)")
    return round(away, 6)


def _divergence(expected: NDArray[np.float32], got: NDArray[np.float32]) -> float:
    log_p, log_q = _log_softmax(expected), _log_softmax(got)
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))


def _log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = row.astype(np.float64) - float(row.max())
    return exact - float(np.log(np.exp(exact).sum()))


EXACT = 144  # tokens: with some weights one row and several round alike for the first hundred (measured: q8_0 weights and keys)
EXACT_LARGE = 72  # of a model of gigabytes, which takes minutes for them on a CPU
LARGE = 1 << 30  # bytes


def vocabulary(journal: Journal, *, path: str) -> int:
    """How many tokens a model's own tokenizer makes of a text. Raises Refused where it cannot be opened."""
    return int(journal.once("vocabulary", lambda: len(open_vocabulary(Path(path))(TEXT))))


def with_rules(backend: Llama, settings: EngineSettings) -> EngineSettings:
    """The settings with the fewest rows for which a sequence's logits do not depend on pieces and company, if there are such."""
    for least, multiple in ((1, 1), (2, 1), (2, 4)):
        tried = replace(settings, least_rows=least, row_multiple=multiple, exact=True)
        if is_exact(backend, tried):
            return tried
    return replace(settings, least_rows=1, row_multiple=1, exact=False)


def is_exact(backend: Llama, settings: EngineSettings) -> bool:
    """Whether the logits after a text are bit for bit the same however it is cut and whatever runs beside it."""
    tokens = (_tokens(backend) * 4)[: EXACT if backend.size <= LARGE else EXACT_LARGE]
    company = min(3, settings.slots - 1)
    # Flash attention on a CPU has another kernel from 64 rows on.
    cut = [([len(tokens)], 0), ([60], 0), ([settings.least_rows], 0), ([9], company), ([3, 5, 17, 2], company)]
    ways = cut if backend.can_truncate else [([len(tokens)], 0), ([60], 0), ([2], 0)]
    held = backend.sibling(replace(settings, context=256))
    try:
        first, *rest = ways
        expected = _logits(held, settings, tokens, *first)
        return all(np.array_equal(expected, _logits(held, settings, tokens, *way)) for way in rest)
    finally:
        held.close()


def _logits(backend: Llama, settings: EngineSettings, tokens: list[int], cuts: Sequence[int], others: int) -> Any:
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
            (((tokens + tokens)[at + i] + 13 * slot) % backend.n_vocab, at + i, slot, slot == 0 and at + i == len(tokens) - 1)
            for slot in range(others + 1)
            for i in range(rows)
        ]
        logits = backend.decode(step).copy()
        at, turn = at + known, turn + 1
        for slot in range(others + 1):
            if rows > known:
                backend.truncate(slot, at)
    return logits
