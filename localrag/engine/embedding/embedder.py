"""Texts → unit vectors by a model in a sentence-transformers folder or a GGUF file; nothing is ever cut."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.models import ModelFile

KEPT, SHORT = 20_000, 500  # vectors, some 30 MB; characters


class Embeds(Protocol):
    """What turns texts into vectors: `Embedder`, or `llama.embed.GgufEmbedder`."""

    file: ModelFile

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised; no text is cut."""


def open_embedder(file: ModelFile, *, quick: bool = False) -> Embeds:
    """The embedder for a sentence-transformers folder or a GGUF file; it is loaded on first use.

    A `quick` one is for questions: it loads at once where the folder's model is one that llama.cpp computes too, and takes twice
    as long for many texts. Its vectors are those of the other but for their rounding; an index has vectors of one rounding only.
    """
    if file.path.is_file():
        from localrag.engine.embedding.gguf_embedder import GgufEmbedder  # loads llama.cpp

        return Remembering(GgufEmbedder(file))
    return Remembering(QuickEmbedder(file) if quick else Embedder(file))


def open_reranker(file: ModelFile) -> Callable[[str, Sequence[str]], NDArray[np.float32]]:
    """What scores passages for a question with a GGUF reranker; the model is loaded on first use."""
    from localrag.engine.embedding.reranker import Reranker  # loads llama.cpp

    return Reranker(file).scores


class Remembering:
    """An embedder that keeps the vectors of the last KEPT short texts: the questions of a conversation look at the same sentences."""

    def __init__(self, embedder: Embeds) -> None:
        self.file = embedder.file
        self._embed = embedder.embed
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `Embeds.embed`; a text's vector does not depend on its company, so a kept one is the same."""
        new = [t for t in dict.fromkeys(texts) if t not in self._known]
        vectors = self._embed(new) if new or not texts else np.empty((0, 0), np.float32)
        found = dict(zip(new, vectors, strict=True))
        if texts:
            vectors = np.array([self._known[t] if t in self._known else found[t] for t in texts], np.float32)
        self._known.update((t, v) for t, v in found.items() if len(t) <= SHORT)
        for text in list(self._known)[: max(0, len(self._known) - KEPT)]:
            del self._known[text]
        return vectors


class QuickEmbedder:
    """Embeds texts with a sentence-transformers folder's model through llama.cpp, where it can."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `Embeds.embed`."""
        return self._made.embed(texts)

    @cached_property
    def _made(self) -> Embeds:
        from localrag.engine.bert_folder import windows_of
        from localrag.engine.embedding.gguf_embedder import GgufEmbedder
        from localrag.engine.llama.convert import as_gguf

        copy = as_gguf(self.file)
        return GgufEmbedder(copy, windows_of(self.file.path)) if copy else Embedder(self.file)


class Embedder:
    """Embeds texts with a sentence-transformers folder's model; it is loaded on first use.

    A text's vector is bit for bit the same in any company, as an index that is continued or updated must be equal to one made at once.
    """

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `Embeds.embed`. Raises ModelError where the model cannot be loaded."""
        return self._made.embed(texts)

    @cached_property
    def _made(self) -> Embeds:
        from localrag.engine.embedding.bert_embedder import bert_embedder
        from localrag.engine.embedding.sentence_embedder import SentenceEmbedder

        return bert_embedder(self.file) or SentenceEmbedder(self.file)
