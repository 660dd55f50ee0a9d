"""An adapter: what teaches a bundled model a task, as low-rank differences to its weights in a GGUF file.

The names are llama.cpp's own for such adapters (LoRA, Hu et al. 2021): `blk.0.attn_q.weight.lora_a`. Heads on the states of an embedding
model lie beside them: `tags.0.weight`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
ALPHA = "adapter.lora.alpha"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's file in memory; `fingerprint` identifies its content."""

    alpha: float
    tensors: Mapping[str, Array]
    fingerprint: str

    def changes(self, name: str) -> bool:
        """Whether it changes the weights of that name in GGUF."""
        return f"{name}.lora_a" in self.tensors

    def merged(self, name: str, weights: Array) -> Array:
        """The weights named as in GGUF, (out, in), with what the adapter adds to them: alpha / rank · B · A."""
        a, b = self.tensors[f"{name}.lora_a"], self.tensors[f"{name}.lora_b"]
        return np.asarray(weights + self.alpha / len(a) * (b @ a), np.float32)


def read_adapter(path: Path) -> Adapter:
    """The adapter in a GGUF file. Raises OSError, ValueError, KeyError where it is none."""
    import gguf  # a tenth of a second

    reader = gguf.GGUFReader(path)
    values: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: np.asarray(t.data, np.float32) for t in reader.tensors}
    return Adapter(float(values[ALPHA]), tensors, fingerprint_of(path))


def fingerprint_of(path: Path) -> str:
    """What identifies the content of an adapter's file. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def write_adapter(path: Path, tensors: Iterable[tuple[str, Array]], *, alpha: float, architecture: str = "llama") -> None:
    """Write an adapter for a model of that architecture as `read_adapter` and llama.cpp read it, its tensors in 16-bit floats."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32(ALPHA, alpha)
    for name, values in tensors:
        writer.add_tensor(name, np.ascontiguousarray(values, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
