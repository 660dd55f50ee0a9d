"""Embedding and reranking models in GGUF files."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localrag.engine.llama.chat_template import tokenize
from localrag.engine.llama.library import last_log_line, load_model, metadata_value, model_params
from localrag.engine.llama.model import BatchBuffer
from localrag.engine.settings import EngineSettings
from localrag.engine.weights import MAX_WINDOW
from localrag.errors import EngineError, ModelError
from localrag.model_files import ModelFile, checked_header
from localrag.system.resources import worker_cores

MAX_SEQUENCES = 64  # texts per call
BATCH_TOKENS = 512  # tokens per call; on 2 cores 256 take a tenth longer, 2048 nearly twice as long


class PooledModel:
    """A loaded embedding model, or with `scores` a reranker. `window`: maximal tokens of a text; `width`: numbers per text."""

    def __init__(self, file: ModelFile, settings: EngineSettings, *, scores: bool = False, threads: int | None = None) -> None:
        self._file, self._threads = file, threads or worker_cores()
        params, self._kept = model_params(settings)
        checked_header(file.path)
        self.model = load_model(file.path, params)
        try:
            self._prepare(scores=scores)
        except BaseException:
            llama_cpp.llama_model_free(self.model)
            raise

    def _prepare(self, *, scores: bool) -> None:
        pooling = metadata_value(self.model, f"{metadata_value(self.model, 'general.architecture')}.pooling_type")
        if pooling in ("", str(llama_cpp.LLAMA_POOLING_TYPE_NONE)) or scores != (pooling == str(llama_cpp.LLAMA_POOLING_TYPE_RANK)):
            kind, option = ("a reranker", "--reranker") if scores else ("an embedding model", "--embedder")
            raise ModelError(f"{self._file.path.name} is not {kind}.", f"Give one with {option}, or leave it out.")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = int(llama_cpp.llama_vocab_n_tokens(self.vocab)) or 1000  # unknown without a vocabulary
        self.width = int((llama_cpp.llama_model_n_cls_out if scores else llama_cpp.llama_model_n_embd)(self.model))
        self.window = max(64, min(MAX_WINDOW, int(llama_cpp.llama_model_n_ctx_train(self.model))))
        self._room = max(BATCH_TOKENS, self.window)
        self._rows = BatchBuffer(self._room)
        self._ctx = self._context()
        # Freed with the object, but not at the end of the process, where the system is faster.
        weakref.finalize(self, _free, self._ctx, self.model).atexit = False

    def _context(self) -> Any:
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = self._room  # more tokens than n_ubatch would abort the process
        options.n_seq_max = MAX_SEQUENCES
        options.kv_unified = True
        options.embeddings = True
        options.n_threads = options.n_threads_batch = self._threads
        options.no_perf = True
        context = llama_cpp.llama_init_from_model(self.model, options) or None
        if context is None:
            raise ModelError(
                f"{self._file.path.name} loads, but no context can be created for it: {last_log_line()}", "Give another model."
            )
        return context

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """(n, width) float32 of texts as tokens, none longer than the window; those of similar length are batched. Raises EngineError."""
        if any(len(tokens) > self.window for tokens in texts):  # llama.cpp would end the process
            raise EngineError(f"A text is longer than the {self.window} tokens that {self._file.path.name} reads.")
        outputs = np.zeros((len(texts), self.width), np.float32)
        for batch in self._batches(texts):
            outputs[batch] = self._compute([texts[n] for n in batch])
        return outputs

    def _batches(self, texts: Sequence[list[int]]) -> Iterator[list[int]]:
        batch: list[int] = []
        rows = 0
        for n in sorted(range(len(texts)), key=lambda n: len(texts[n])):
            if batch and (len(batch) == MAX_SEQUENCES or rows + len(texts[n]) > max(BATCH_TOKENS, len(texts[n]))):
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
            raise EngineError(f"llama.cpp could not compute {len(batch)} texts of {len(rows)} tokens (code {status}): {last_log_line()}")
        vectors = [llama_cpp.llama_get_embeddings_seq(self._ctx, n) for n in range(len(batch))]
        if not all(vectors):
            raise EngineError(f"{self._file.path.name} gives no vector for a whole text: it has no pooling.", "Give another model.")
        return [np.ctypeslib.as_array(vector, shape=(self.width,)).copy() for vector in vectors]


def _free(ctx: Any, model: Any) -> None:
    llama_cpp.llama_free(ctx)
    llama_cpp.llama_model_free(model)


def rerank_input(pooled: PooledModel, question: str, passage: str) -> list[int]:
    """Tokens of a question and a passage in the format the reranker was trained with: its template, or a cross-encoder's pair."""
    vocab = pooled.vocab
    if template := llama_cpp.llama_model_chat_template(pooled.model, b"rerank"):
        before, after = template.decode().replace("{query}", question).split("{document}")
        parts = [tokenize(vocab, text, special=True, start=n == 0) for n, text in enumerate((before, passage, after))]
    else:
        question_ids, end = tokenize(vocab, question, special=False, start=False), llama_cpp.llama_vocab_eos(vocab)
        separator = llama_cpp.llama_vocab_sep(vocab)
        start = [llama_cpp.llama_vocab_bos(vocab)] * llama_cpp.llama_vocab_get_add_bos(vocab)
        close = [end if end >= 0 else separator] * llama_cpp.llama_vocab_get_add_eos(vocab)
        between = [separator] * llama_cpp.llama_vocab_get_add_sep(vocab)
        body = tokenize(vocab, passage, special=False, start=False)
        parts = [[*start, *question_ids[: pooled.window // 2], *close, *between], body, close]
    room = max(0, pooled.window - len(parts[0]) - len(parts[2]))
    return [*parts[0], *parts[1][:room], *parts[2]][: pooled.window]
