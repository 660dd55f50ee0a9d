"""Texts of any length → unit vectors, by a model that reads windows of so many tokens."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def embed_windows(
    texts: Sequence[str],
    windows: Callable[[str], list[list[int]]],
    compute: Callable[[list[list[int]]], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """(n, d) float32, each row L2-normalised: the mean of the vectors of a text's windows, weighted by their tokens. None is cut."""
    parts = [(n, tokens) for n, text in enumerate(texts) for tokens in windows(text)]
    vectors = compute([tokens for _, tokens in parts])
    weights = np.array([len(tokens) for _, tokens in parts], np.float32) / np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    summed = np.zeros((len(texts), vectors.shape[1]), np.float32)
    np.add.at(summed, [n for n, _ in parts], vectors * weights[:, None])
    return np.asarray(summed / np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1e-12), np.float32)
