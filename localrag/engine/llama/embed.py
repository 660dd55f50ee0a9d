"""Embedding models as GGUF files, through llama.cpp."""

from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localrag.config import free_cores, in_a_thread_that_ends
from localrag.engine.llama.rows import Rows
from localrag.engine.llama.weights import GPU, file_type, last_log, load, meta, tokenize
from localrag.errors import EngineFailed, ModelError
from localrag.models import ModelFile

AT_ONCE = 64  # texts of one call
LONGEST = 2048  # tokens of one call: a model whose texts may be longer gets them in windows of that


class GgufEmbedder:
    """Embeds texts with the GGUF embedding model in `file`, which is loaded on first use."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._ctx: Any = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised. A text over the model's window is split, its parts averaged by token weight.

        Raises ModelError where the model cannot be loaded, EngineFailed where it cannot compute.
        """
        return in_a_thread_that_ends(lambda: self._embed(list(texts)))

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        self._load()
        parts = [(n, tokens) for n, text in enumerate(texts) for tokens in self._windows(text)]
        parts.sort(key=lambda part: len(part[1]))  # of one length together
        summed = np.zeros((len(texts), self._width), np.float32)
        at = 0
        while at < len(parts):
            end, rows = at, 0
            while end < len(parts) and end - at < AT_ONCE and rows + len(parts[end][1]) <= self._window:
                rows, end = rows + len(parts[end][1]), end + 1
            batch = parts[at:end]
            for (n, tokens), vector in zip(batch, self._compute([tokens for _, tokens in batch]), strict=True):
                summed[n] += vector / max(1e-12, float(np.linalg.norm(vector))) * len(tokens)
            at = end
        return np.asarray(summed / np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1e-12), np.float32)

    def _windows(self, text: str) -> list[list[int]]:
        """The tokens of the text, or of its halves where they do not fit the window."""
        tokens = tokenize(self._vocab, text, special=False, start=True)
        if len(tokens) <= self._window:
            return [tokens]
        middle = text.rfind(" ", 1, len(text) // 2 + 1)
        middle = middle if middle > 0 else max(1, len(text) // 2)
        return self._windows(text[:middle]) + self._windows(text[middle:])

    def _compute(self, batch: list[list[int]]) -> list[NDArray[np.float32]]:
        if memory := llama_cpp.llama_get_memory(self._ctx):
            llama_cpp.llama_memory_clear(memory, True)
        rows = [(token, i, n, True) for n, tokens in enumerate(batch) for i, token in enumerate(tokens)]
        compute = llama_cpp.llama_decode if memory else llama_cpp.llama_encode
        status = compute(self._ctx, self._rows.fill(rows))
        if status != 0:
            raise EngineFailed(f"llama.cpp could not embed {len(batch)} texts of {len(rows)} tokens (code {status}): {last_log()}")
        found = [llama_cpp.llama_get_embeddings_seq(self._ctx, n) for n in range(len(batch))]
        if not all(found):
            raise EngineFailed(f"{self.file.path.name} gives no embedding of a whole text: it has no pooling.", "Give another model.")
        return [np.ctypeslib.as_array(vector, shape=(self._width,)).copy() for vector in found]

    def _load(self) -> None:
        if self._ctx is not None:
            return
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = -1 if GPU else 0
        file_type(self.file.path)  # says so if it is no GGUF
        self._model = load(self.file.path, params)
        architecture = meta(self._model, "general.architecture")
        if not meta(self._model, f"{architecture}.pooling_type"):
            raise ModelError(f"{self.file.path.name} is no embedding model.", "Give one with --embedder, or leave it out.")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._width = int(llama_cpp.llama_model_n_embd(self._model))
        self._window = max(64, min(LONGEST, int(llama_cpp.llama_model_n_ctx_train(self._model))))
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = self._window  # more tokens than n_ubatch would abort the process
        options.n_seq_max = AT_ONCE
        options.kv_unified = True
        options.embeddings = True
        options.n_threads = options.n_threads_batch = free_cores()
        options.no_perf = True
        self._rows = Rows(self._window)
        self._ctx = llama_cpp.llama_init_from_model(self._model, options) or None
        if self._ctx is None:
            raise ModelError(f"{self.file.path.name} loads, but no context can be made for it: {last_log()}", "Give another model.")
