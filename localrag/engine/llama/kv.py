"""How much memory a model's KV takes, by what its file says of each layer; no weights are loaded."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from localrag.errors import ModelError

KV_TYPES = {"f32": (0, 4.0), "f16": (1, 2.0), "q8_0": (8, 34 / 32), "bf16": (30, 2.0)}  # ggml_type, bytes a value
_FORMATS = dict(enumerate("BbHhIif?"))  # GGUF's types of values as struct knows them; 8 is a text, 9 a list
_FORMATS |= {10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


class _NotGguf(Exception):
    """The file does not begin like one."""


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
    try:
        with path.open("rb") as file:
            metadata = _metadata(file)
    except _NotGguf:
        raise ModelError(f"{path} is not a GGUF file.", "Give a .gguf chat model with --model.") from None
    except (OSError, struct.error, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise ModelError(
            f"{path} cannot be loaded, it may be damaged: {error}", "Copy the file again, or give another with --model."
        ) from error
    model = metadata.get("general.architecture", "")
    return _shape({key.removeprefix(f"{model}."): value for key, value in metadata.items()})


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


def _metadata(file: BinaryIO) -> dict[str, Any]:
    """The metadata of a GGUF, without its texts but for the architecture, and without lists of them."""
    if file.read(4) != b"GGUF":
        raise _NotGguf
    _version, _tensors, count = struct.unpack("<IQQ", file.read(20))
    found: dict[str, Any] = {}
    for _ in range(count):
        key = _text(file).decode(errors="replace")
        (kind,) = struct.unpack("<I", file.read(4))
        if (value := _value(file, kind, keep=key == "general.architecture")) is not None:
            found[key] = value
    return found


def _value(file: BinaryIO, kind: int, *, keep: bool) -> Any:
    if kind == _TEXT:
        text = _text(file)
        return text.decode(errors="replace") if keep else None
    if kind != _LIST:
        return struct.unpack(f"<{_FORMATS[kind]}", file.read(struct.calcsize(_FORMATS[kind])))[0]
    kind, length = struct.unpack("<IQ", file.read(12))
    if kind in (_TEXT, _LIST):
        for _ in range(length):
            _value(file, kind, keep=False)
        return None
    size = struct.calcsize(_FORMATS[kind])
    if length > 4096:  # a number for each token, not for each layer
        file.seek(length * size, 1)
        return None
    return list(struct.unpack(f"<{length}{_FORMATS[kind]}", file.read(length * size)))


def _text(file: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    text = file.read(length)
    if len(text) != length:
        raise ValueError("it ends too early")
    return text
