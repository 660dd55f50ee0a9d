"""Memory of a model's weights and KV cache, computed from the header of its file, and how much of it fits; no weights are loaded."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from localrag.errors import ModelError
from localrag.gguf import read_header
from localrag.model_files import checked_header, shard_paths

KV_BYTES = {"f32": (0, 4.0), "f16": (1, 2.0), "q8_0": (8, 34 / 32), "bf16": (30, 2.0)}  # ggml_type, bytes per value


@dataclass(frozen=True, slots=True)
class KvShape:
    """Numbers that one token stores in the keys and in the values of all layers; `window`: the model's training context in tokens."""

    key_width: int
    value_width: int
    window: int

    def bytes_per_token(self, kv: str) -> float:
        """Bytes of one token in a KV cache of this type; never 0."""
        keys, values = (KV_BYTES[kind][1] for kind in kv_types(kv))
        return max(1.0, self.key_width * keys + self.value_width * values)


def kv_types(kv: str) -> tuple[str, str]:
    """The types of keys and of values: `q8_0/f32`, or one type for both."""
    keys, _, values = kv.partition("/")
    return keys, values or keys


def read_kv_shape(path: Path) -> KvShape:
    """The KV shape of the model in a GGUF file. Raises ModelError."""
    values = checked_header(path).values
    prefix = f"{values.get('general.architecture', '')}."
    try:
        return _shape({key.removeprefix(prefix): value for key, value in values.items()})
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path} cannot be loaded: its metadata is damaged ({error}).", "Copy the file again, or give another.") from error


def _shape(metadata: dict[str, Any]) -> KvShape:
    layers = int(metadata.get("block_count", 0))

    def each(key: str, default: Any) -> list[int]:
        value = metadata.get(key, default)
        values = [int(n) for n in value] if isinstance(value, list) else [int(value)] * layers
        return (values + [0] * layers)[:layers]

    heads = each("attention.head_count", 0)
    kv_heads = each("attention.head_count_kv", heads)
    width = int(metadata.get("embedding_length", 0)) // max(1, max(heads, default=1))
    key, value = (int(metadata.get(f"attention.{part}_length", width)) for part in ("key", "value"))
    window_key, window_value = (int(metadata.get(f"attention.{part}_length_swa", full)) for part, full in (("key", key), ("value", value)))
    has_window = (
        each("attention.sliding_window_pattern", 0) if isinstance(metadata.get("attention.sliding_window_pattern"), list) else [0] * layers
    )
    n_own = layers - int(metadata.get("attention.shared_kv_layers", 0))  # the last layers may share the KV of earlier ones
    attention_interval = int(metadata.get("full_attention_interval", 1))  # the other layers of a hybrid model have a state of fixed size
    attention_layers = [n for n in range(n_own) if kv_heads[n] and (n + 1) % attention_interval == 0]
    keys = sum(kv_heads[n] * (window_key if has_window[n] else key) for n in attention_layers)
    # Where layers differ, llama.cpp allocates the width of the widest one for values, unless flash attention is on.
    widest = max((kv_heads[n] * (window_value if has_window[n] else value) for n in attention_layers), default=0)
    values = 0 if "attention.key_length_mla" in metadata else len(attention_layers) * widest
    return KvShape(keys, values, int(metadata.get("context_length", 0)))


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of a model's weights, per layer and other, and of a token's KV in the chosen type; `window` in tokens, a count `parameters`."""

    layers: tuple[int, ...]
    other_weights: int
    kv_bytes_per_token: float
    window: int
    parameters: int

    @property
    def weights(self) -> int:
        """Bytes of all weights."""
        return sum(self.layers) + self.other_weights


def file_type(path: Path) -> int:
    """llama.cpp's file type number of a GGUF model, -1 if unknown; checks that its files are complete. Raises ModelError."""
    kind = checked_header(path).values.get("general.file_type")
    return kind if isinstance(kind, int) else -1


@cache
def read_model_memory(path: Path, kv: str) -> ModelMemory:
    """The memory needs of a model by its header; `kv` is the type of its KV cache. Raises ModelError."""
    layers: defaultdict[int, int] = defaultdict(int)
    other_weights = parameters = 0
    for tensor in (t for file in shard_paths(path) for t in read_header(file).tensors):
        parameters += tensor.values
        if match := re.match(r"blk\.(\d+)\.", tensor.name):
            layers[int(match[1])] += tensor.size
        else:
            other_weights += tensor.size
    sizes, kv_shape = tuple(layers[i] for i in sorted(layers)), read_kv_shape(path)
    return ModelMemory(sizes, other_weights, kv_shape.bytes_per_token(kv), kv_shape.window, parameters)


MEMORY_MARGIN = 0.05  # share of a device's memory that stays free, besides COMPUTE_BUFFER_BYTES
COMPUTE_BUFFER_BYTES = 400 << 20  # on a GPU: llama.cpp's buffers of a step, the driver's context
KV_MEMORY_SHARE = 0.5  # of the memory free beside the weights; the rest is for the embedder, FAISS, and other programs
LARGE_MODEL_PARAMETERS = 1_000_000_000  # a model of this size gets the longer window
CONTEXT_SIZES = (16384, 8192, 4096, 2048, 1024, 512, 256)  # tokens of a sequence
SMALL_MODEL_CONTEXT = 4096  # tokens, below LARGE_MODEL_PARAMETERS
MIN_SEQUENCES = 4  # parallel sequences; the window is shortened to reach this number
MAX_SLOTS = 16  # sequences; no other number was clearly faster on the CPUs measured


@dataclass(frozen=True, slots=True)
class Offload:
    """The part of a model on the GPU: number of layers (-1: all), and bytes left there for KV."""

    gpu_layers: int = 0
    kv_bytes: int = 0


def offload(shape: ModelMemory, free: Sequence[int], totals: Sequence[int]) -> Offload:
    """What fits into the GPUs' free memory beside a KV of MIN_SEQUENCES small windows. llama.cpp offloads the last layers first."""
    room = sum(max(0, f - COMPUTE_BUFFER_BYTES - int(MEMORY_MARGIN * t)) for f, t in zip(free, totals, strict=True))
    min_kv_bytes = shape.kv_bytes_per_token * MIN_SEQUENCES * min(SMALL_MODEL_CONTEXT, shape.window)
    if shape.weights + min_kv_bytes <= room:
        return Offload(-1, room - shape.weights)
    for count in range(len(shape.layers) - 1, 0, -1):
        used = sum(shape.layers[-count:])
        if used + min_kv_bytes * count / len(shape.layers) <= room:
            return Offload(count, room - used)
    return Offload()


def kv_cache_budget(shape: ModelMemory, placed: Offload, free: int | None) -> float:
    """Bytes available for the KV if `placed` is offloaded and `free` bytes of main memory are free."""
    share = 1.0 if placed.gpu_layers < 0 else placed.gpu_layers / max(1, len(shape.layers))
    of_ram = KV_MEMORY_SHARE * max(0, (free if free is not None else 8 << 30) - shape.weights * (placed.gpu_layers >= 0))
    return min(placed.kv_bytes / share if share else of_ram, of_ram / (1 - share) if share < 1 else placed.kv_bytes)


def context_and_slots(shape: ModelMemory, room: float, *, most: int) -> tuple[int, int]:
    """Tokens per sequence and number of sequences in a KV of `room` bytes. The window is shortened before there are under MIN_SEQUENCES."""
    max_context = max(CONTEXT_SIZES) if shape.parameters >= LARGE_MODEL_PARAMETERS else SMALL_MODEL_CONTEXT
    windows = [w for w in CONTEXT_SIZES if w <= max_context and w < 2 * shape.window]
    for min_slots in (min(MIN_SEQUENCES, most), 1):
        for window in windows:
            slots = int(room / max(1.0, shape.kv_bytes_per_token * min(window, shape.window)))
            if slots >= min_slots:
                return window, min(slots, most)
    return windows[-1], 1
