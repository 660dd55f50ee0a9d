"""The states of a text's tokens, computed by the bundled embedding model merged with an adapter."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.adapter import Adapter
from localrag.engine.embedding.bert import Bert
from localrag.engine.hardware.pooling import open_pooled
from localrag.engine.llama.convert import as_gguf
from localrag.engine.llama.devices import gpus
from localrag.errors import ModelError
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends

Compute = Callable[[Sequence[list[int]]], list[NDArray[np.float32]]]


class States:
    """Computes the states of tokens with the model in `file` merged with `adapter`; it is loaded on first use.

    Torch takes two thirds of llama.cpp's time on a CPU; only llama.cpp is sure to reach the GPU that it was built for.
    """

    def __init__(self, file: ModelFile, adapter: Adapter) -> None:
        self._file, self._adapter = file, adapter

    @cached_property
    def _compute(self) -> Compute:
        from safetensors import SafetensorError

        if gpus() and (merged := as_gguf(self._file, self._adapter)):
            pooled = open_pooled(merged, "states")
            return lambda texts: in_a_thread_that_ends(lambda: pooled.each(texts))
        try:
            return Bert(self._file.path, self._adapter).states
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ModelError(
                f"{self._file.name} cannot be merged with its adapter: {error}", "Reinstall its package, or do without: --engine adapter=no"
            ) from error

    def compute(self, texts: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """For each text, given as tokens, (tokens, width) float32. Raises ModelError, EngineFailed."""
        return self._compute(texts)
