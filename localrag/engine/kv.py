"""How much memory a model's KV takes, by what its file says of each layer; no weights are loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.errors import ModelError
from localrag.models import whole_header

KV_TYPES = {"f32": (0, 4.0), "f16": (1, 2.0), "q8_0": (8, 34 / 32), "bf16": (30, 2.0)}  # ggml_type, bytes a value


@dataclass(frozen=True, slots=True)
class KvShape:
    """The numbers that one token leaves in all layers' keys, and in their values; `window` is the longest text the model was trained on."""

    keys: int
    values: int
    window: int

    def bytes_per_token(self, kv: str) -> float:
        """Bytes one token takes in a KV of that type; never 0."""
        keys, values = (KV_TYPES[kind][1] for kind in kv_types(kv))
        return max(1.0, self.keys * keys + self.values * values)


def kv_types(kv: str) -> tuple[str, str]:
    """The types of keys and of values: `q8_0/f32`, or one for both."""
    keys, _, values = kv.partition("/")
    return keys, values or keys


def kv_shape(path: Path) -> KvShape:
    """The KV of the model in a GGUF file. Raises ModelError."""
    values = whole_header(path).values
    prefix = f"{values.get('general.architecture', '')}."
    try:
        return _shape({key.removeprefix(prefix): value for key, value in values.items()})
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path} cannot be loaded: its metadata is damaged ({error}).", "Copy the file again, or give another.") from error


def _shape(of: dict[str, Any]) -> KvShape:
    layers = int(of.get("block_count", 0))

    def each(key: str, default: Any) -> list[int]:
        value = of.get(key, default)
        found = [int(n) for n in value] if isinstance(value, list) else [int(value)] * layers
        return (found + [0] * layers)[:layers]

    heads = each("attention.head_count", 0)
    kv_heads = each("attention.head_count_kv", heads)
    width = int(of.get("embedding_length", 0)) // max(1, max(heads, default=1))
    key, value = (int(of.get(f"attention.{part}_length", width)) for part in ("key", "value"))
    near_key, near_value = (int(of.get(f"attention.{part}_length_swa", full)) for part, full in (("key", key), ("value", value)))
    near = each("attention.sliding_window_pattern", 0) if isinstance(of.get("attention.sliding_window_pattern"), list) else [0] * layers
    own = layers - int(of.get("attention.shared_kv_layers", 0))  # the last layers may use the KV of earlier ones
    every = int(of.get("full_attention_interval", 1))  # of a hybrid, the others keep a state of fixed size
    kept = [n for n in range(own) if kv_heads[n] and (n + 1) % every == 0]
    keys = sum(kv_heads[n] * (near_key if near[n] else key) for n in kept)
    # Where layers differ, llama.cpp gives all of them the widest one's room for values, unless flash attention is on.
    widest = max((kv_heads[n] * (near_value if near[n] else value) for n in kept), default=0)
    values = 0 if "attention.key_length_mla" in of else len(kept) * widest
    return KvShape(keys, values, int(of.get("context_length", 0)))
