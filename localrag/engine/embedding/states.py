"""The states of a text's tokens, computed by the bundled embedding model merged with an adapter."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.adapter import Adapter
from localrag.engine.hardware.pooling import open_pooled
from localrag.engine.llama.convert import as_gguf
from localrag.engine.llama.pooled import Pooled
from localrag.errors import ModelError
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends


class States:
    """Computes the states of tokens with the model in `file` merged with `adapter`; it is made and loaded on first use."""

    def __init__(self, file: ModelFile, adapter: Adapter) -> None:
        self._file, self._adapter = file, adapter

    @cached_property
    def _pooled(self) -> Pooled:
        merged = as_gguf(self._file, self._adapter)
        if merged is None:
            raise ModelError(
                f"{self._file.name} cannot be merged with its adapter.", "Make room in the cache, or do without: --engine adapter=no"
            )
        return open_pooled(merged, "states")

    def compute(self, texts: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """For each text, given as tokens, (tokens, width) float32. Raises ModelError, EngineFailed."""
        return in_a_thread_that_ends(lambda: self._pooled.each(texts))
