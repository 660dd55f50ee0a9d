"""The rows of a call as llama.cpp wants them, filled in microseconds."""

import ctypes
from collections.abc import Sequence as Seq
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray


class Rows:
    """A llama_batch of up to `size` rows over numpy arrays."""

    def __init__(self, size: int) -> None:
        self.token, self.pos, self.n_seq, self.seq = (np.zeros(size, np.int32) for _ in range(4))
        self.logits = np.zeros(size, np.int8)
        self.n_seq[:] = 1
        row_pointers = self.seq.ctypes.data + 4 * np.arange(size, dtype=np.uint64)
        self._pointers = (ctypes.POINTER(llama_cpp.llama_seq_id) * size)(
            *(ctypes.cast(int(p), ctypes.POINTER(llama_cpp.llama_seq_id)) for p in row_pointers)
        )

    def fill(self, rows: Seq[tuple[int, int, int, bool]]) -> llama_cpp.llama_batch:
        """A batch of (token, position, sequence, wants output), at most as many as there is room for; valid until the next one."""
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
