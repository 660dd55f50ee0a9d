"""Embedding models and rerankers in GGUF: how their weights are loaded here, tried in a process of its own before the user's computes."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.hardware import fit
from localrag.engine.hardware.choose import read_file, write_file
from localrag.engine.hardware.opened import leave_mark, read_record
from localrag.engine.hardware.trial import Journal, apart, patience
from localrag.engine.llama.devices import gpus
from localrag.engine.llama.pooled import Gives, Pooled
from localrag.engine.settings import EngineSettings, layout
from localrag.errors import ModelError, Refused
from localrag.models import ModelFile, weights_size

ALIKE = 0.99  # cosine to the plain layout's vectors; 16-bit floats and other kernels stay over 0.999 (measured)


def open_pooled(file: ModelFile, gives: Gives = "vectors") -> Pooled:
    """The loaded model. Raises ModelError, and Refused where none of the ways to load it works on this machine."""
    record = read_record(file)
    settings = record.choice("")
    if settings is None:
        job = {"file": write_file(file), "gives": gives}
        found = apart("pooling:choose", job, record.known(), record.told, seconds=patience(weights_size(file.path)))
        record.keep("", 0, {"settings": found, "busy": False})
        settings = EngineSettings(**found)
    leave_mark(record, settings)
    return Pooled(file, settings, gives)


def choose(journal: Journal, *, file: dict[str, str], gives: Gives) -> dict[str, Any]:
    """The first way to load the weights that computes what the plain way does. Raises Refused where none does."""
    model = read_file(file)
    expected = _figures(model, EngineSettings(gpu_layers=0, extra_buffers=False), gives)
    last: ModelError | None = None

    def tried(settings: EngineSettings) -> float:
        return _alike(expected, _figures(model, settings, gives), gives)

    for settings in _ways(model):
        try:
            journal.once(layout(settings), partial(tried, settings))
            return asdict(settings)
        except Refused as error:
            last = error
    raise last or Refused(f"{model.path.name} does not work on this machine.", "Give another model.")


def _ways(model: ModelFile) -> Iterator[EngineSettings]:
    on_cpu = EngineSettings(gpu_layers=0)
    if any(d.free > fit.COMPUTE + 1.2 * weights_size(model.path) for d in gpus()):
        yield replace(on_cpu, gpu_layers=-1)
    yield on_cpu
    yield replace(on_cpu, extra_buffers=False)


def _figures(model: ModelFile, settings: EngineSettings, gives: Gives) -> NDArray[np.float32]:
    """What becomes of texts of one token up to a whole call's."""
    pooled = Pooled(model, settings, gives)
    lengths = [1, 2, 7, 16, 33, 64, pooled.window // 2, pooled.window]
    return pooled.compute([[5 + 13 * i % min(997, pooled.tokens - 6) for i in range(n)] for n in lengths])


def _alike(expected: NDArray[np.float32], got: NDArray[np.float32], gives: Gives) -> float:
    """How far the figures are from the plain way's: 1 - cosine, of scores their largest difference over their spread. Raises Refused."""
    if gives == "scores":
        away = float(np.abs(expected - got).max() / max(1e-3, float(np.ptp(expected))))
    else:
        lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(got, axis=1)
        away = float(1 - ((expected * got).sum(axis=1) / np.maximum(lengths, 1e-12)).min())
    if not away <= 1 - ALIKE:
        raise Refused(f"it computes other values than the plain layout does ({away:.2g} away)")
    return round(away, 6)
