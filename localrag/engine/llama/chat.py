"""A chat model: tokenize, decode rows, move KV cells.

With a KV stream for each sequence (kv_unified=False) and flash attention off, logits on CPU do not depend on what else is in the
batch: a row computed in a piece of two or more is bit for bit the same in any piece and beside any company. Everything above builds
on this; `hardware/proof.py` measures whether it holds.
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

from localrag.engine.kv import KV_TYPES, kv_shape, kv_types
from localrag.engine.llama.copies import load_weights
from localrag.engine.llama.devices import model_params
from localrag.engine.llama.library import BUILD, GPU, last_log, meta
from localrag.engine.llama.rows import Rows
from localrag.engine.llama.template import open_format
from localrag.engine.llama.vocabulary import Vocabulary
from localrag.engine.request import MARGIN
from localrag.engine.settings import EngineSettings
from localrag.errors import EngineFailed, ModelError, NoRoom
from localrag.models import ModelFile, weights_size
from localrag.system.cores import free_memory
from localrag.system.files import cache_dir, new_file

PIECE = 512  # tokens of a prompt computed in one call (n_ubatch)


class Llama:
    """A loaded model with `slots` sequences of at most `n_ctx` tokens each. Not thread-safe, but for `tokenize` and `piece`."""

    def __init__(self, file: ModelFile, settings: EngineSettings) -> None:
        """Load `file`. Raises ModelError, also where the memory does not suffice."""
        params, self._kept = model_params(settings)
        self._ctx: Any = None
        self._borrowed = False
        self.path, self._model = load_weights(file, settings.weights, settings.threads, params)
        self.size = weights_size(self.path)
        self.on_gpu = GPU and settings.gpu_layers != 0
        try:
            self._prepare(file, settings)
        except BaseException:
            self.close()
            raise

    def _prepare(self, file: ModelFile, settings: EngineSettings) -> None:
        self._check_chat_model(file)
        self._kv = kv_shape(file.path)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocabulary = Vocabulary(self._vocab)
        self.n_vocab = self._vocabulary.size
        self.parameters = int(llama_cpp.llama_model_n_params(self._model))
        self.end_tokens = frozenset(t for t in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(self._vocab, t))
        template = llama_cpp.llama_model_chat_template(self._model, None) or b""
        self.chat = open_format(file.path.name, template.decode(errors="replace"), self._vocabulary)
        self._fingerprint = file.fingerprint
        self._rows = Rows(PIECE)
        self._copied: set[int] = set()  # streams whose copy llama.cpp carries out only with the next step
        self.open(settings)

    def open(self, settings: EngineSettings) -> None:
        """Make the KV as `settings` say, in place of the one there is. Raises ModelError where memory does not suffice."""
        self._close_context()
        if settings.unified and llama_cpp.llama_model_n_swa(self._model) > 0:
            # There llama.cpp takes cells outside a sequence's window for others, so what a slot is believed to hold may be gone.
            raise ModelError(f"{self.path.name} has sliding windows, which need a KV for each sequence.", "Use --engine unified=no.")
        trained = int(llama_cpp.llama_model_n_ctx_train(self._model)) // 256 * 256
        self.settings = settings
        self._cells = max(256, min(settings.context, trained))  # of a sequence
        self.n_ctx = self._cells - MARGIN
        total = self._cells * settings.slots
        self.capacity = total if settings.unified else None
        self._check_memory(total * self.kv_bytes_per_token(settings.kv))
        self._ctx = self._open_context()
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        try:
            self.can_truncate = self._probe_truncate()
        except BaseException:
            self._close_context()
            raise
        layout = f"{settings.kv}-{'u' if settings.unified else 's'}{'f' if settings.flash_attention else ''}".replace("/", "_")
        kind = f"{self._fingerprint}-{settings.weights}-{BUILD}-{self._cells}-{layout}"
        self.prefix_folder: Path | None = cache_dir() / "prefixes" / kind

    def sibling(self, settings: EngineSettings) -> "Llama":
        """The same loaded weights with a KV of its own; close it before this one. Raises ModelError."""
        twin = copy(self)
        twin._rows, twin._copied, twin._ctx, twin._borrowed = Rows(PIECE), set(), None, True
        twin.open(settings)
        return twin

    def _check_chat_model(self, file: ModelFile) -> None:
        architecture = self.meta("general.architecture")
        if self.meta(f"{architecture}.pooling_type") or "bert" in architecture:
            raise ModelError(f"{file.path.name} is an embedding model; a chat model is needed.", "Give another file with --model.")
        if llama_cpp.llama_model_has_encoder(self._model):
            raise ModelError(f"{file.path.name} is an encoder-decoder model; a chat model is needed.", "Give another file with --model.")

    def kv_bytes_per_token(self, kv: str) -> float:
        """Bytes one token takes in a KV of that type."""
        return self._kv.bytes_per_token(kv)

    def _check_memory(self, needed: float) -> None:
        free = free_memory()
        if free is not None and needed > free:
            s = self.settings
            raise ModelError(
                f"{self.path.name} with {s.slots} slots of {self._cells} tokens needs {needed / 2**30:.1f} GiB for its KV; "
                f"{free / 2**30:.1f} GiB are free.",
                f"Take less: --engine slots={max(1, s.slots // 2)},context={max(256, self._cells // 2)}",
            )

    def _open_context(self) -> Any:
        s = self.settings
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = self._cells * s.slots
        params.n_batch = params.n_ubatch = PIECE
        params.n_seq_max = s.slots
        params.n_threads = params.n_threads_batch = s.threads
        params.kv_unified = s.unified
        params.flash_attn_type = int(s.flash_attention)
        params.type_k, params.type_v = (KV_TYPES[kind][0] for kind in kv_types(s.kv))
        params.offload_kqv = params.op_offload = self.on_gpu
        params.swa_full = True  # a sliding window would make shared beginnings unusable
        params.no_perf = True
        ctx = llama_cpp.llama_init_from_model(self._model, params)
        if not ctx:
            raise ModelError(
                f"{self.path.name} loads, but no context of {s.slots} × {self._cells} tokens can be made for it: {last_log()}",
                f"Take less: --engine slots={max(1, s.slots // 2)},context={max(256, self._cells // 2)}",
            )
        return ctx

    def _probe_truncate(self) -> bool:
        """Whether a sequence can be cut back (not so for recurrent and hybrid models)."""
        self.decode([(0, 0, 0, False), (0, 1, 0, True)])
        recurrent = llama_cpp.llama_model_is_recurrent(self._model) or llama_cpp.llama_model_is_hybrid(self._model)
        cut = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 1, -1)) and not recurrent
        llama_cpp.llama_memory_seq_rm(self._memory, 0, -1, -1)
        return cut

    def meta(self, key: str) -> str:
        """A value of the GGUF's metadata as text, empty where it is missing."""
        return meta(self._model, key)

    def tokenize(self, text: str) -> list[int]:
        """The tokens of `text`; control tokens such as <|im_end|> in it are read as plain text."""
        return self._vocabulary.plain(text)

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for."""
        return self._vocabulary.piece(token)

    def grammar_tokenizer(self) -> LLTokenizer:
        """llguidance's view of the vocabulary; takes about 0.15 s for 49k tokens, so ask once. The model must outlive it."""
        return self._vocabulary.for_grammars(self.end_tokens)

    def decode(self, rows: Seq[tuple[int, int, int, bool]]) -> NDArray[np.float32]:
        """Compute rows of (token, position, sequence, wants logits); returns (wanted rows, n_vocab) float32, valid until the next call.

        At most PIECE rows; positions of a sequence continue from its last one. Raises NoRoom, which leaves everything as it was, and
        EngineFailed, which leaves the KV in an unknown state: `reset` it.
        """
        if not 0 < len(rows) <= PIECE:  # more would abort the process inside llama.cpp
            raise EngineFailed(f"A step of {len(rows)} rows was asked for; 1 to {PIECE} are possible.")
        token, _, slot, _ = max(rows, key=lambda row: row[0])
        if token >= self.n_vocab or not all(0 <= row[2] < self.settings.slots and 0 <= row[1] < self._cells for row in rows):
            raise EngineFailed(f"A row outside the vocabulary or the KV was asked for (token {token}, slot {slot}).")
        status = llama_cpp.llama_decode(self._ctx, self._rows.fill(rows))
        self._copied.clear()
        if status == 1:
            raise NoRoom(
                f"The KV of {self.capacity or self._cells} cells has no room for a step of {len(rows)} rows.",
                "Take more: --engine context=…",
            )
        if status != 0:
            raise EngineFailed(f"llama.cpp could not compute a step of {len(rows)} rows (code {status}): {last_log()}")
        wanted = sum(row[3] for row in rows)
        if not wanted:
            return np.empty((0, self.n_vocab), np.float32)
        logits: NDArray[np.float32] = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape=(wanted, self.n_vocab))
        return logits

    def truncate(self, sequence: int, length: int) -> None:
        """Forget everything of a sequence from position `length` on."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, length if length else -1, -1)

    def copy(self, source: int, target: int, length: int) -> None:
        """Make sequence `target` hold the first `length` cells of `source`."""
        llama_cpp.llama_memory_seq_rm(self._memory, target, -1, -1)
        if self.settings.unified and self.can_truncate:  # shares the cells
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, length)
            return
        self._copied |= {target}
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)  # a part of a stream cannot be copied: the process would abort
        if self.can_truncate:
            self.truncate(target, length)

    def save(self, sequence: int, path: Path, cells: Seq[int]) -> bool:
        """Write a sequence's KV, which holds just `cells`, to a file; whether that worked."""
        self._settle_copies(sequence, len(cells))
        tokens = (llama_cpp.llama_token * len(cells))(*cells)
        with suppress(OSError), new_file(path) as part:
            if not llama_cpp.llama_state_seq_save_file(self._ctx, str(part).encode(), sequence, tokens, len(cells)):
                raise OSError
        return path.exists()

    def _settle_copies(self, sequence: int, length: int) -> None:
        """Have pending copies carried out, by a row that is taken back: a state saved before them would be the old one."""
        if self._copied and self.can_truncate:
            llama_cpp.llama_memory_seq_rm(self._memory, sequence, length or -1, -1)
            self.decode([(0, length, sequence, False)])
            self.truncate(sequence, length)

    def load(self, sequence: int, path: Path, cells: Seq[int]) -> bool:
        """Read a sequence's KV from a file that `save` wrote; where that fails, or it holds other tokens, the sequence is empty."""
        self._settle_copies(sequence, 0)
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        tokens, count = (llama_cpp.llama_token * len(cells))(), ctypes.c_size_t(0)
        read = llama_cpp.llama_state_seq_load_file(self._ctx, str(path).encode(), sequence, tokens, len(cells), ctypes.byref(count))
        if read and list(tokens[: count.value]) == list(cells):
            return True
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return False

    def reset(self) -> None:
        """Make the context anew after a failed step: all sequences are empty. Raises ModelError."""
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
        self._ctx = self._memory = None  # without a memory llama.cpp cuts nothing
