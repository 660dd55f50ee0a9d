"""Texts → unit vectors by sentence-transformers: the models of folders that are no plain BERT, and every one on a GPU."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends, own_cores

TOKENS = 512  # of a batch: enough rows for full speed, and one question takes 50 ms
WIDTHS = tuple(width for n in range(4, 16) for width in (2**n, 3 * 2 ** (n - 1)))  # what texts are padded to: 16, 24, 32, 48 …


class SentenceEmbedder:
    """Embeds texts with the model in `file.path`; the model (seconds, 400 MB) is loaded on first use.

    Batches have one of a few shapes, filled up with empty texts where needed: so computed, a text's vector is bit for bit the same in any
    company, as an index that is continued or updated must be equal to one made at once.
    """

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised. A text over the model's window is split, its parts averaged by token weight.

        Raises ModelError where the model cannot be loaded.
        """
        return in_a_thread_that_ends(lambda: self._embed(texts))

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        torch.set_num_threads(own_cores())
        parts: list[str] = []
        owners: list[int] = []
        weights: list[int] = []
        for n, text in enumerate(texts):
            for part, tokens in self._windows(text):
                parts.append(part)
                owners.append(n)
                weights.append(tokens)
        vectors = self._encode(parts, weights)
        summed = np.zeros((len(texts), vectors.shape[1]), np.float32)
        np.add.at(summed, owners, vectors * np.asarray(weights, np.float32)[:, None])
        norms = np.linalg.norm(summed, axis=1, keepdims=True)
        return np.asarray(summed / np.maximum(norms, 1e-12), np.float32)

    def _encode(self, parts: list[str], lengths: list[int]) -> NDArray[np.float32]:
        """(n, d) float32 of texts that fit the window, with their numbers of tokens: those of about a length together."""
        model, groups = self._load(), defaultdict[int, list[int]](list)
        special = model.tokenizer.num_special_tokens_to_add()
        for n, length in enumerate(lengths):
            width = next((w for w in WIDTHS if length + special <= w), model.max_seq_length)
            groups[min(width, model.max_seq_length)].append(n)
        vectors = np.zeros((len(parts), model.get_embedding_dimension()), np.float32)
        for width, members in groups.items():
            size = max(1, TOKENS // width)
            vectors[members] = model.encode(
                [parts[n] for n in members] + [""] * (-len(members) % size),
                batch_size=size,
                normalize_embeddings=True,
                show_progress_bar=False,
                processing_kwargs={"text": {"padding": "max_length", "max_length": width}},
            )[: len(members)]
        return vectors

    def _windows(self, text: str) -> list[tuple[str, int]]:
        """The text in pieces that fit the model's window, each with its number of tokens."""
        model = self._load()
        room = model.max_seq_length - model.tokenizer.num_special_tokens_to_add()
        spans = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)[
            "offset_mapping"
        ]
        if len(spans) <= room:
            return [(text, max(1, len(spans)))]
        cuts = range(0, len(spans), room)
        return [(text[spans[i][0] : spans[min(i + room, len(spans)) - 1][1]], min(room, len(spans) - i)) for i in cuts]

    def _load(self) -> Any:
        if self._model is None:
            import torch
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging

            logging.set_verbosity_error()  # type: ignore[no-untyped-call]
            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            device = "cuda" if torch.cuda.is_available() else "cpu"  # ROCm calls itself cuda, too
            try:
                self._model = SentenceTransformer(str(self.file.path), device=device, local_files_only=True)
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                raise ModelError(f"The embedding model in {self.file.path} cannot be loaded: {error}", "Reinstall its package.") from error
            able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
            if device == "cpu" and (
                able.get("avx512_bf16") or able.get("amx_bf16")
            ):  # twice as fast there; cosine to float32's vectors over 0.9998 (measured)
                self._model.to(torch.bfloat16)
        return self._model
