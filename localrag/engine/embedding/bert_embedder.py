"""Texts → unit vectors by a BERT of a sentence-transformers folder on the CPU; sentence-transformers itself takes seconds to load."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.bert_folder import is_bert, windows_of
from localrag.engine.embedding.bert import Bert
from localrag.engine.embedding.windows import embed_windows
from localrag.models import ModelFile


class BertEmbedder:
    """Embeds texts with the model in a loaded `bert`."""

    def __init__(self, file: ModelFile, bert: Bert) -> None:
        self.file, self._bert = file, bert

    @cached_property
    def _windows(self) -> Callable[[str], list[list[int]]]:
        return windows_of(self.file.path)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised; equal windows are computed once."""
        return embed_windows(texts, self._windows, self._bert.vectors)


def bert_embedder(file: ModelFile) -> BertEmbedder | None:
    """The embedder of a folder; None where the model is no plain BERT, is not laid out as one, or a GPU is there to compute it."""
    import torch
    from safetensors import SafetensorError

    if torch.cuda.is_available():  # ROCm calls itself cuda, too
        return None
    try:
        return BertEmbedder(file, Bert(file.path)) if is_bert(file.path) else None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None
