"""What scripts that measure stages of a run have in common: an index without models, and how long and how large each stage was."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from localrag.model_files import find_chat_model, find_embedder
from localrag.settings import IndexSettings
from localrag.store.opening import open_index

DIMENSIONS = 384
OFTEN = 20.0  # seconds after which a stage that goes on is told of: what a kill loses at most


class Stages:
    """What a run tells its progress to; `said` hears of each stage, part by part: its name, seconds, CPU seconds, highest memory in MiB."""

    def __init__(self, said: Callable[[str, float, float, int], None]) -> None:
        self._said, self._stage = said, ""
        self._begin()

    def _begin(self) -> None:
        reset_peak()
        self._since, self._cpu = time.perf_counter(), time.process_time()

    def __call__(self, stage: str, *_: Any) -> None:
        """A stage goes on; the time since the last word is that one's."""
        if stage == self._stage and time.perf_counter() - self._since < OFTEN:
            return
        if self._stage:
            self._said(self._stage, time.perf_counter() - self._since, time.process_time() - self._cpu, peak_mib())
        self._stage = stage
        self._begin()

    def found(self, *_: Any) -> None:
        """Nobody counts."""

    resolved = found


def project_at(folder: Path) -> Any:
    """An index with an embedder that gives random vectors, and no model."""
    db = open_index(folder, create=True)
    embedder = SimpleNamespace(embed=lambda texts: unit_vectors(len(texts), 1), file=find_embedder(None))
    model = SimpleNamespace(file=find_chat_model(None), calls=0)
    settings = replace(IndexSettings(), extractor="phrases")
    known = {"settings": settings, "model": model, "embedder": embedder, "tagger": None, "rerank": None}
    return SimpleNamespace(db=db, folder=folder, root=folder, **known)


def unit_vectors(n: int, seed: int) -> Any:
    """`n` random unit vectors."""
    made = np.random.default_rng(seed).standard_normal((n, DIMENSIONS), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def reset_peak() -> None:
    """Begin to measure the highest memory anew, where the kernel can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> int:
    """The highest memory since then; without /proc, of the whole process."""
    try:
        return peak_of("self")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def peak_of(process: int | str) -> int:
    """The highest memory of a process so far, in MiB (Linux). Raises OSError, IndexError where it has ended."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))[0]) // 1024
