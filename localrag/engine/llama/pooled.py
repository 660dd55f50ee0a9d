"""Models that turn a text into vectors or scores, as GGUF files: loading and computing batches."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localrag.engine.bert_folder import LONGEST
from localrag.engine.llama.devices import model_params
from localrag.engine.llama.library import last_log, load, meta
from localrag.engine.llama.rows import Rows
from localrag.engine.settings import EngineSettings
from localrag.errors import EngineFailed, ModelError
from localrag.models import ModelFile, whole_header
from localrag.system.cores import own_cores

AT_ONCE = 64  # texts of one call
FASTEST = 512  # tokens of one call, on 2 cores: 256 take a tenth longer, 2048 nearly twice as long


Gives = Literal["vectors", "scores", "states"]  # a vector or a score of each text, or a vector of each of its tokens


class Pooled:
    """A loaded model. `window`: the most tokens of a text; `width`: numbers a text, or a token of it, becomes."""

    def __init__(self, file: ModelFile, settings: EngineSettings, gives: Gives = "vectors") -> None:
        """Load it. Raises ModelError, also where it does not give what is asked for."""
        self._file, self._gives = file, gives
        params, self._kept = model_params(settings)
        whole_header(file.path)
        self.model = load(file.path, params)
        try:
            self._prepare()
        except BaseException:
            llama_cpp.llama_model_free(self.model)
            raise

    def _prepare(self) -> None:
        pooling = meta(self.model, f"{meta(self.model, 'general.architecture')}.pooling_type")
        kinds = {str(llama_cpp.LLAMA_POOLING_TYPE_RANK): "scores", str(llama_cpp.LLAMA_POOLING_TYPE_NONE): "states"}
        scores = self._gives == "scores"
        if not pooling or kinds.get(pooling, "vectors") != self._gives:
            kind, option = ("reranker", "--reranker") if scores else ("embedding model", "--embedder")
            raise ModelError(f"{self._file.path.name} is no {kind}.", f"Give one with {option}, or leave it out.")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = int(llama_cpp.llama_vocab_n_tokens(self.vocab)) or 1000  # of a file without a vocabulary nobody knows
        self.width = int((llama_cpp.llama_model_n_cls_out if scores else llama_cpp.llama_model_n_embd)(self.model))
        self.window = max(64, min(LONGEST, int(llama_cpp.llama_model_n_ctx_train(self.model))))
        self._room = max(FASTEST, self.window)
        self._rows = Rows(self._room)
        self._ctx = self._context()
        # Whoever opened it need not free it; at the end of the process the system does, sooner.
        weakref.finalize(self, _free, self._ctx, self.model).atexit = False

    def _context(self) -> Any:
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = self._room  # more tokens than n_ubatch would abort the process
        options.n_seq_max = AT_ONCE
        options.kv_unified = True
        options.embeddings = True
        options.n_threads = options.n_threads_batch = own_cores()
        options.no_perf = True
        made = llama_cpp.llama_init_from_model(self.model, options) or None
        if made is None:
            raise ModelError(f"{self._file.path.name} loads, but no context can be made for it: {last_log()}", "Give another model.")
        return made

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """(n, width) float32 of texts given as tokens, none longer than the window; of states their mean. Raises EngineFailed."""
        found = self.each(texts)
        return np.array([f.mean(axis=0) for f in found] if self._gives == "states" else found, np.float32).reshape(len(texts), self.width)

    def each(self, texts: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """What becomes of each text, float32: (width,), or (tokens, width) of a model that gives states; those of one length together.

        Raises EngineFailed.
        """
        if any(len(tokens) > self.window for tokens in texts):  # llama.cpp would end the process
            raise EngineFailed(f"A text is longer than the {self.window} tokens that {self._file.path.name} reads.")
        found: dict[int, NDArray[np.float32]] = {}
        for batch in self._batches(texts):
            found.update(zip(batch, self._compute([texts[n] for n in batch]), strict=True))
        return [found[n] for n in range(len(texts))]

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
        if self._gives == "states":
            states = np.ctypeslib.as_array(llama_cpp.llama_get_embeddings(self._ctx), shape=(len(rows), self.width))
            return [part.copy() for part in np.split(states, np.cumsum([len(tokens) for tokens in batch])[:-1])]
        found = [llama_cpp.llama_get_embeddings_seq(self._ctx, n) for n in range(len(batch))]
        if not all(found):
            raise EngineFailed(f"{self._file.path.name} gives nothing for a whole text: it has no pooling.", "Give another model.")
        return [np.ctypeslib.as_array(vector, shape=(self.width,)).copy() for vector in found]


def _free(ctx: Any, model: Any) -> None:
    llama_cpp.llama_free(ctx)
    llama_cpp.llama_model_free(model)
