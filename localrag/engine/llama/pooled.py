"""Models that turn a whole text into a few numbers (vectors, scores), as GGUF files: loading and computing batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localrag.config import free_cores
from localrag.engine.llama.devices import model_params
from localrag.engine.llama.rows import Rows
from localrag.engine.llama.weights import last_log, load, meta
from localrag.engine.settings import EngineSettings
from localrag.errors import EngineFailed, ModelError
from localrag.models import ModelFile, whole_header

AT_ONCE = 64  # texts of one call
FASTEST = 512  # tokens of one call, on 2 cores: 256 take a tenth longer, 2048 nearly twice as long
LONGEST = 2048  # tokens of one call: a model whose texts may be longer gets them in windows of that


class Pooled:
    """A loaded model with pooling. `window`: the most tokens of a text; `width`: numbers a text becomes."""

    def __init__(self, file: ModelFile, settings: EngineSettings, *, scores: bool = False) -> None:
        """Load it, as one that gives a text's score instead of its vector where `scores` is set. Raises ModelError."""
        self._file = file
        params, self._kept = model_params(settings)
        whole_header(file.path)
        self.model = load(file.path, params)
        try:
            self._prepare(scores)
        except BaseException:
            llama_cpp.llama_model_free(self.model)
            raise

    def _prepare(self, scores: bool) -> None:
        pooling = meta(self.model, f"{meta(self.model, 'general.architecture')}.pooling_type")
        ranks = pooling == str(llama_cpp.LLAMA_POOLING_TYPE_RANK)
        if not pooling or ranks != scores:
            kind, option = ("reranker", "--reranker") if scores else ("embedding model", "--embedder")
            raise ModelError(f"{self._file.path.name} is no {kind}.", f"Give one with {option}, or leave it out.")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = int(llama_cpp.llama_vocab_n_tokens(self.vocab)) or 1000  # of a file without a vocabulary nobody knows
        self.width = int((llama_cpp.llama_model_n_cls_out if scores else llama_cpp.llama_model_n_embd)(self.model))
        self.window = max(64, min(LONGEST, int(llama_cpp.llama_model_n_ctx_train(self.model))))
        self._room = max(FASTEST, self.window)
        self._rows = Rows(self._room)
        self._ctx = self._context()

    def _context(self) -> Any:
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = self._room  # more tokens than n_ubatch would abort the process
        options.n_seq_max = AT_ONCE
        options.kv_unified = True
        options.embeddings = True
        options.n_threads = options.n_threads_batch = free_cores()
        options.no_perf = True
        made = llama_cpp.llama_init_from_model(self.model, options) or None
        if made is None:
            raise ModelError(f"{self._file.path.name} loads, but no context can be made for it: {last_log()}", "Give another model.")
        return made

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """(n, width) float32 of texts given as tokens, none longer than the window; those of one length together. Raises EngineFailed."""
        found = np.zeros((len(texts), self.width), np.float32)
        for batch in self._batches(texts):
            found[batch] = self._compute([texts[n] for n in batch])
        return found

    def _batches(self, texts: Sequence[list[int]]) -> Iterator[list[int]]:
        batch: list[int] = []
        rows = 0
        for n in sorted(range(len(texts)), key=lambda n: len(texts[n])):
            if batch and (len(batch) == AT_ONCE or rows + len(texts[n]) > max(FASTEST, len(texts[n]))):
                yield batch
                batch, rows = [], 0
            batch.append(n)
            rows += len(texts[n])
        if batch:
            yield batch

    def _compute(self, batch: list[list[int]]) -> list[NDArray[np.float32]]:
        if memory := llama_cpp.llama_get_memory(self._ctx):
            llama_cpp.llama_memory_clear(memory, True)
        rows = [(token, i, n, True) for n, tokens in enumerate(batch) for i, token in enumerate(tokens)]
        compute = llama_cpp.llama_decode if memory else llama_cpp.llama_encode
        status = compute(self._ctx, self._rows.fill(rows))
        if status != 0:
            raise EngineFailed(f"llama.cpp could not compute {len(batch)} texts of {len(rows)} tokens (code {status}): {last_log()}")
        found = [llama_cpp.llama_get_embeddings_seq(self._ctx, n) for n in range(len(batch))]
        if not all(found):
            raise EngineFailed(f"{self._file.path.name} gives nothing for a whole text: it has no pooling.", "Give another model.")
        return [np.ctypeslib.as_array(vector, shape=(self.width,)).copy() for vector in found]
