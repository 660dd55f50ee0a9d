"""Embedding models as GGUF files, through llama.cpp."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedding.windows import embed_windows
from localrag.engine.hardware.pooling import open_pooled
from localrag.engine.llama.pooled import Pooled
from localrag.engine.llama.vocabulary import tokenize
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends


class GgufEmbedder:
    """Embeds texts with the GGUF embedding model in `file`, which is loaded on first use.

    `windows` gives a text's tokens, in pieces that fit the model's window; without it the file's own vocabulary does.
    """

    def __init__(self, file: ModelFile, windows: Callable[[str], list[list[int]]] | None = None) -> None:
        self.file = file
        self._windows = windows or self._own_windows

    @cached_property
    def _pooled(self) -> Pooled:
        return open_pooled(self.file)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised. A text over the model's window is split, its parts averaged by token weight.

        Raises ModelError where the model cannot be loaded, EngineFailed where it cannot compute.
        """
        return in_a_thread_that_ends(lambda: embed_windows(texts, self._windows, self._pooled.compute))

    def _own_windows(self, text: str) -> list[list[int]]:
        """The tokens of the text, or of its halves where they do not fit the window."""
        tokens = tokenize(self._pooled.vocab, text, special=False, start=True)
        if len(tokens) <= self._pooled.window:
            return [tokens]
        middle = text.rfind(" ", 1, len(text) // 2 + 1)
        middle = middle if middle > 0 else max(1, len(text) // 2)
        return self._own_windows(text[:middle]) + self._own_windows(text[middle:])
