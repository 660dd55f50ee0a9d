"""An adapter: what teaches the bundled embedding model to read, as low-rank differences to its weights in a GGUF file.

The names are llama.cpp's own for such adapters (LoRA, Hu et al. 2021): `blk.0.attn_q.weight.lora_a`. Beside them the file holds characters
that the model's vocabulary lacks, with their rows of the embedding, and the heads: `head.span`, `head.kind`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
CHARACTERS, WINDOW, ALPHA = "localrag.characters", "localrag.window", "adapter.lora.alpha"


@dataclass(frozen=True)
class Adapter:
    """An adapter's file in memory. `window`: the most tokens it was trained on; `characters` have the rows of `tensors["characters"]`."""

    window: int
    alpha: float
    characters: tuple[str, ...]
    tensors: Mapping[str, Array]
    fingerprint: str

    def merged(self, name: str, weights: Array) -> Array:
        """The weights named as in GGUF, (out, in), with what the adapter adds to them: scale · B · A; the embedding with its new rows."""
        if name == "token_embd.weight":
            return np.concatenate([weights, self.tensors["characters"]])
        if f"{name}.lora_a" not in self.tensors:
            return weights
        a, b = self.tensors[f"{name}.lora_a"], self.tensors[f"{name}.lora_b"]
        return np.asarray(weights + self.alpha / len(a) * (b @ a), np.float32)

    @cached_property
    def heads(self) -> tuple[Array, Array]:
        """Weights and bias that turn a state, (width,), into logits, (6,): start, end, and those of `KINDS`."""
        parts = ("head.span", "head.kind")
        return np.concatenate([self.tensors[f"{p}.weight"] for p in parts]), np.concatenate([self.tensors[f"{p}.bias"] for p in parts])


def read_adapter(path: Path) -> Adapter:
    """The adapter in a GGUF file. Raises OSError, ValueError, KeyError where it is none."""
    import gguf

    reader = gguf.GGUFReader(path)
    values: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: np.asarray(t.data, np.float32) for t in reader.tensors}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return Adapter(int(values[WINDOW]), float(values[ALPHA]), tuple(values[CHARACTERS]), tensors, digest)


def write_adapter(path: Path, tensors: Iterable[tuple[str, Array]], *, characters: Iterable[str], alpha: float, window: int) -> None:
    """Write an adapter as `read_adapter` reads it, its tensors in 16-bit floats."""
    import gguf

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32(ALPHA, alpha)
    writer.add_uint32(WINDOW, window)
    writer.add_string(CHARACTERS, "".join(characters))
    for name, values in tensors:
        writer.add_tensor(name, np.ascontiguousarray(values, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
