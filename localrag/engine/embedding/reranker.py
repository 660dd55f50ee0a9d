"""Rerankers as GGUF files (cross-encoders such as bge-reranker, or Qwen3-Reranker), through llama.cpp's RANK pooling."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.hardware.pooling import open_pooled
from localrag.engine.llama.pairs import pair
from localrag.engine.llama.pooled import Pooled
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends


class Reranker:
    """Scores how well passages answer a question with the GGUF reranker in `file`, which is loaded on first use."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    @cached_property
    def _pooled(self) -> Pooled:
        return open_pooled(self.file, "scores")

    def scores(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """(n,) float32, higher is better. What does not fit the window beside the question is left off a passage's end.

        Raises ModelError where the model cannot be loaded, EngineFailed where it cannot compute.
        """
        return in_a_thread_that_ends(lambda: self._pooled.compute([pair(self._pooled, question, p) for p in passages])[:, 0])
