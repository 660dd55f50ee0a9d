"""LlamaModel: decode, KV cache operations, batches.

With a KV stream per sequence and flash attention off, logits on a CPU do not depend on the rest of the batch: a row computed in a chunk of
two or more is bit for bit the same in any chunk and any batch. The scheduler relies on this (`autotune.load.with_row_rules`).
"""

import ctypes
from collections.abc import Sequence as Seq
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from llguidance import LLTokenizer
from numpy.typing import NDArray

from localrag.engine.llama.chat_template import Vocabulary, open_format
from localrag.engine.llama.library import HAS_GPU_OFFLOAD, LLAMA_CPP_VERSION, last_log_line, load_model, metadata_value, model_params
from localrag.engine.llama.weights import weights_file
from localrag.engine.memory import KV_BYTES, kv_types, read_kv_shape
from localrag.engine.request import WINDOW_MARGIN
from localrag.engine.settings import EngineSettings
from localrag.errors import EngineError, ModelError
from localrag.model_files import ModelFile, total_size
from localrag.system.files import atomic_file, cache_dir
from localrag.system.resources import available_memory


class BatchBuffer:
    """A llama_batch of up to `size` rows over numpy arrays, filled in microseconds."""

    def __init__(self, size: int) -> None:
        self.token, self.pos, self.n_seq, self.seq = (np.zeros(size, np.int32) for _ in range(4))
        self.logits = np.zeros(size, np.int8)
        self.n_seq[:] = 1
        row_pointers = self.seq.ctypes.data + 4 * np.arange(size, dtype=np.uint64)
        self._pointers = (ctypes.POINTER(llama_cpp.llama_seq_id) * size)(
            *(ctypes.cast(int(p), ctypes.POINTER(llama_cpp.llama_seq_id)) for p in row_pointers)
        )

    def fill(self, rows: Seq[tuple[int, int, int, bool]]) -> llama_cpp.llama_batch:
        """A batch of (token, position, sequence, wants output) rows, at most `size`; valid until the next call."""
        n = len(rows)
        self.token[:n], self.pos[:n], self.seq[:n], self.logits[:n] = zip(*rows, strict=True)

        def pointer(array: NDArray[Any], kind: Any) -> Any:
            return array.ctypes.data_as(ctypes.POINTER(kind))

        return llama_cpp.llama_batch(
            n_tokens=n,
            token=pointer(self.token, llama_cpp.llama_token),
            embd=None,
            pos=pointer(self.pos, llama_cpp.llama_pos),
            n_seq_id=pointer(self.n_seq, ctypes.c_int32),
            seq_id=ctypes.cast(self._pointers, ctypes.POINTER(ctypes.POINTER(llama_cpp.llama_seq_id))),
            logits=pointer(self.logits, ctypes.c_int8),
        )


PREFILL_ROWS = 512  # tokens of a prompt computed in one call (n_ubatch)


class LlamaModel:
    """A loaded model with `slots` sequences of at most `n_ctx` tokens each. Not thread-safe except `tokenize` and `token_to_piece`."""

    def __init__(self, file: ModelFile, settings: EngineSettings) -> None:
        params, self._kept = model_params(settings)
        self._ctx: Any = None
        self._borrowed = False
        self.path = weights_file(file, settings.weights, settings.threads)
        self._model = load_model(self.path, params)
        self.size = total_size(self.path)
        self.on_gpu = HAS_GPU_OFFLOAD and settings.gpu_layers != 0
        try:
            self._prepare(file, settings)
        except BaseException:
            self.close()
            raise

    def _prepare(self, file: ModelFile, settings: EngineSettings) -> None:
        self._check_chat_model(file)
        self._kv = read_kv_shape(file.path)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocabulary = Vocabulary(self._vocab)
        self.n_vocab = self._vocabulary.size
        self.parameters = int(llama_cpp.llama_model_n_params(self._model))
        self.end_tokens = frozenset(t for t in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(self._vocab, t))
        template = llama_cpp.llama_model_chat_template(self._model, None) or b""
        self.chat = open_format(file.path.name, template.decode(errors="replace"), self._vocabulary)
        self._fingerprint = file.fingerprint
        self._rows = BatchBuffer(PREFILL_ROWS)
        self._copied: set[int] = set()  # target streams of copies that llama.cpp delays until the next step
        self.open(settings)

    def open(self, settings: EngineSettings) -> None:
        """Create the KV cache for `settings`, in place of the current one. Raises ModelError if there is too little memory."""
        self._close_context()
        trained = int(llama_cpp.llama_model_n_ctx_train(self._model)) // 256 * 256
        self.settings = settings
        self._cells = max(256, min(settings.n_ctx, trained))  # per sequence
        self.n_ctx = self._cells - WINDOW_MARGIN
        self._check_memory(self._cells * settings.slots * self.kv_bytes_per_token(settings.kv_cache_type))
        self._ctx = self._open_context()
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        try:
            self.can_truncate = self._probe_truncate()
        except BaseException:
            self._close_context()
            raise
        layout = settings.kv_cache_type.replace("/", "_") + "-flash" * settings.flash_attention
        kind = f"{self._fingerprint}-{settings.weights}-{LLAMA_CPP_VERSION}-{self._cells}-{layout}"
        self.prefix_folder: Path | None = cache_dir() / "prefixes" / kind

    def share_weights(self, settings: EngineSettings) -> "LlamaModel":
        """A model with the same loaded weights and its own KV cache; close it before this one. Raises ModelError."""
        twin = copy(self)
        twin._rows, twin._copied, twin._ctx, twin._borrowed = BatchBuffer(PREFILL_ROWS), set(), None, True
        twin.open(settings)
        return twin

    def _check_chat_model(self, file: ModelFile) -> None:
        architecture = self.meta("general.architecture")
        if self.meta(f"{architecture}.pooling_type") or "bert" in architecture:
            raise ModelError(f"{file.path.name} is an embedding model; a chat model is needed.", "Give another file with --model.")
        if llama_cpp.llama_model_has_encoder(self._model):
            raise ModelError(f"{file.path.name} is an encoder-decoder model; a chat model is needed.", "Give another file with --model.")

    def kv_bytes_per_token(self, kv: str) -> float:
        """Bytes of one token in a KV cache of this type."""
        return self._kv.bytes_per_token(kv)

    def _check_memory(self, needed: float) -> None:
        free = available_memory()
        if free is not None and needed > free:
            s = self.settings
            raise ModelError(
                f"{self.path.name} with {s.slots} slots of {self._cells} tokens needs {needed / 2**30:.1f} GiB for its KV; "
                f"{free / 2**30:.1f} GiB are free.",
                f"Take less: --engine slots={max(1, s.slots // 2)},n_ctx={max(256, self._cells // 2)}",
            )

    def _open_context(self) -> Any:
        s = self.settings
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = self._cells * s.slots
        params.n_batch = params.n_ubatch = PREFILL_ROWS
        params.n_seq_max = s.slots
        params.n_threads = params.n_threads_batch = s.threads
        params.kv_unified = False
        params.flash_attn_type = int(s.flash_attention)
        params.type_k, params.type_v = (KV_BYTES[kind][0] for kind in kv_types(s.kv_cache_type))
        params.offload_kqv = params.op_offload = self.on_gpu
        params.swa_full = True  # a sliding window would make shared prefixes unusable
        params.no_perf = True
        ctx = llama_cpp.llama_init_from_model(self._model, params)
        if not ctx:
            raise ModelError(
                f"{self.path.name} loads, but no context of {s.slots} × {self._cells} tokens can be made for it: {last_log_line()}",
                f"Take less: --engine slots={max(1, s.slots // 2)},n_ctx={max(256, self._cells // 2)}",
            )
        return ctx

    def _probe_truncate(self) -> bool:
        """Whether sequences can be truncated (not those of recurrent and hybrid models)."""
        self.decode([(0, 0, 0, False), (0, 1, 0, True)])
        recurrent = llama_cpp.llama_model_is_recurrent(self._model) or llama_cpp.llama_model_is_hybrid(self._model)
        cut = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 1, -1)) and not recurrent
        llama_cpp.llama_memory_seq_rm(self._memory, 0, -1, -1)
        return cut

    def meta(self, key: str) -> str:
        """A value of the GGUF's metadata as text, empty if missing."""
        return metadata_value(self._model, key)

    def tokenize(self, text: str) -> list[int]:
        """The tokens of `text`; control tokens such as <|im_end|> in it are read as plain text."""
        return self._vocabulary.tokenize_plain(text)

    def token_to_piece(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._vocabulary.token_to_piece(token)

    def grammar_tokenizer(self) -> LLTokenizer:
        """The vocabulary for llguidance; takes about 0.15 s for 49k tokens, so create it once. The model must outlive it."""
        return self._vocabulary.grammar_tokenizer(self.end_tokens)

    def decode(self, rows: Seq[tuple[int, int, int, bool]]) -> NDArray[np.float32]:
        """Compute at most PREFILL_ROWS rows; (wanted, n_vocab), valid until the next call. After an EngineError, `reset` the KV."""
        if not 0 < len(rows) <= PREFILL_ROWS:  # more would abort the process inside llama.cpp
            raise EngineError(f"A step of {len(rows)} rows was asked for; 1 to {PREFILL_ROWS} are possible.")
        token, _, slot, _ = max(rows, key=lambda row: row[0])
        if token >= self.n_vocab or not all(0 <= row[2] < self.settings.slots and 0 <= row[1] < self._cells for row in rows):
            raise EngineError(f"A row outside the vocabulary or the KV was asked for (token {token}, slot {slot}).")
        status = llama_cpp.llama_decode(self._ctx, self._rows.fill(rows))
        self._copied.clear()
        if status != 0:
            raise EngineError(f"llama.cpp could not compute a step of {len(rows)} rows (code {status}): {last_log_line()}")
        wanted = sum(row[3] for row in rows)
        if not wanted:
            return np.empty((0, self.n_vocab), np.float32)
        logits: NDArray[np.float32] = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape=(wanted, self.n_vocab))
        return logits

    def truncate(self, sequence: int, length: int) -> None:
        """Remove a sequence's tokens from position `length` on."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, length if length else -1, -1)

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of sequence `source` to `target`."""
        llama_cpp.llama_memory_seq_rm(self._memory, target, -1, -1)
        self._copied |= {target}
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)  # copying part of a stream would abort the process
        if self.can_truncate:
            self.truncate(target, length)

    def save_state(self, sequence: int, path: Path, token_ids: Seq[int]) -> bool:
        """Write the KV of a sequence, which holds exactly `token_ids`, to a file; whether that succeeded."""
        self._flush_pending_copies(sequence, len(token_ids))
        tokens = (llama_cpp.llama_token * len(token_ids))(*token_ids)
        with suppress(OSError), atomic_file(path) as part:
            if not llama_cpp.llama_state_seq_save_file(self._ctx, str(part).encode(), sequence, tokens, len(token_ids)):
                raise OSError
        return path.exists()

    def _flush_pending_copies(self, sequence: int, length: int) -> None:
        """Carry out pending copies by decoding a row that is removed again: a state saved before would be outdated."""
        if self._copied and self.can_truncate:
            llama_cpp.llama_memory_seq_rm(self._memory, sequence, length or -1, -1)
            self.decode([(0, length, sequence, False)])
            self.truncate(sequence, length)

    def load_state(self, sequence: int, path: Path, token_ids: Seq[int]) -> bool:
        """Read a sequence's KV from a file of `save_state`; the sequence is empty if that fails or the file holds other tokens."""
        self._flush_pending_copies(sequence, 0)
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        tokens, count = (llama_cpp.llama_token * len(token_ids))(), ctypes.c_size_t(0)
        read = llama_cpp.llama_state_seq_load_file(self._ctx, str(path).encode(), sequence, tokens, len(token_ids), ctypes.byref(count))
        if read and list(tokens[: count.value]) == list(token_ids):
            return True
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return False

    def reset(self) -> None:
        """Create the context again after a failed step, with all sequences empty. Raises ModelError."""
        self.open(self.settings)

    def close(self) -> None:
        """Free the context and the model."""
        self._close_context()
        if self._model and not self._borrowed:
            llama_cpp.llama_model_free(self._model)
        self._model = None

    def _close_context(self) -> None:
        if self._ctx:
            llama_cpp.llama_free(self._ctx)
        self._ctx = self._memory = None  # without it nothing is truncated
