"""An embedding model that needs no weights, for tests of what is done with vectors and not of the vectors themselves."""

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from localrag.engine.embedder import TextVectors
from localrag.model_files import ModelFile

WIDTH = 384  # of the bundled model
_WORDS = re.compile(r"[^\W_一-鿿]+|[一-鿿]")


class HashedEmbedder:
    """A text's vector counts its words, each in a place and with a sign that the word's hash gives: texts that share words are near."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), WIDTH if texts else 0), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _WORDS.findall(text.lower()) or [text]:
                number = zlib.crc32(word.encode())
                row[number % WIDTH] += 1 if number >> 31 else -1
            if not row.any():  # its words cancel each other out
                row[zlib.crc32(text.encode()) % WIDTH] = 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if texts else vectors

    def embed_windows(self, texts: Sequence[str]) -> TextVectors:
        return whole_texts(texts, self.embed(texts))


def whole_texts(texts: Sequence[str], vectors: np.ndarray) -> TextVectors:
    """Vectors of texts that are one window each."""
    spans = np.array([(0, len(text)) for text in texts], np.int32).reshape(-1, 2)
    return TextVectors(vectors, np.arange(len(texts), dtype=np.int32), spans, vectors)


def open_hashed(file: ModelFile, *, quick: bool = False) -> HashedEmbedder:
    """Takes the place of `open_embedder`."""
    return HashedEmbedder(file)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Indexes and questions in this process use `HashedEmbedder`, under the name of the model they would have used."""
    from localrag import project
    from localrag.indexing.workers import worker

    with ExitStack() as stack:
        for module in (project, worker):
            stack.enter_context(mock.patch.object(module, "open_embedder", open_hashed))
        yield
