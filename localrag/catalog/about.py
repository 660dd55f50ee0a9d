"""What a model file is, by its header alone: kind, architecture, size, quantisation, window; and whether this machine holds it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from localrag.errors import ModelError
from localrag.gguf_header import Header
from localrag.models import parameters_of, weights_size, whole_header
from localrag.system.cores import free_memory

RANK = 4  # llama.cpp's pooling type of rerankers
BESIDE = 1 << 30  # bytes that localrag itself needs beside the chat model: Python, the embedder, FAISS
_EMBEDDERS = ("bert", "embedding", "t5encoder")  # in the names of architectures that only embed
_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L",
    14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip  # llama.cpp's file types (`llama_ftype`)


@dataclass(frozen=True, slots=True)
class About:
    """What a model's header says. `window` in tokens, `size` in bytes; empty or 0 where it does not say.

    `needs` is a rough number of bytes of memory: weights, KV of four short windows, and localrag itself.
    """

    kind: str
    title: str
    architecture: str
    quantisation: str
    licence: str
    parameters: int
    window: int
    size: int
    needs: int
    template: bool


def read_about(path: Path) -> About:
    """What a GGUF model is. Raises ModelError where it is none, is not whole, or is a part of a model."""
    header = whole_header(path)
    values = header.values
    part = str(values.get("general.type", "model"))
    if part != "model" or str(values.get("general.architecture")) in ("clip", "mmproj"):
        what = "the image encoder of a model" if part in ("model", "mmproj") else f"of type {part}"
        raise ModelError(f"{path.name} is not a model by itself: it is {what}.", "Give the model's own file.")
    if not header.tensors:
        raise ModelError(f"{path.name} holds a vocabulary and no weights.", "Give the model's own file.")
    architecture = str(values.get("general.architecture", ""))
    size = weights_size(path)
    return About(
        kind_of(header),
        str(values.get("general.name") or path.stem),
        architecture,
        _TYPES.get(values.get("general.file_type", -1), "") or _in_name(path.name),
        str(values.get("general.license", "")),
        parameters_of(path),
        _number(values, f"{architecture}.context_length"),
        size,
        size + 4 * 2048 * _kv_bytes(values, architecture) + BESIDE,
        bool(values.get("tokenizer.chat_template")),
    )


def kind_of(header: Header) -> str:
    """chat, embedder or reranker, by what the header says of pooling."""
    values = header.values
    architecture = str(values.get("general.architecture", ""))
    pooling = values.get(f"{architecture}.pooling_type")
    if pooling == RANK or any(t.name.startswith("cls.output") for t in header.tensors):
        return "reranker"
    return "embedder" if pooling or any(word in architecture for word in _EMBEDDERS) else "chat"


def fits(needs: int) -> str:
    """Whether so many bytes fit this machine: fits, tight (only once other programs are closed), or too big."""
    total = psutil.virtual_memory().total
    free = free_memory()
    if needs > 0.9 * total:
        return "too big"
    return "tight" if free is not None and needs > 0.95 * free else "fits"


def _kv_bytes(values: dict[str, Any], architecture: str) -> int:
    """Bytes of the KV of a token in 16-bit floats, about."""
    layers, heads = (_number(values, f"{architecture}.{name}") for name in ("block_count", "attention.head_count"))
    kv_heads, width = (_number(values, f"{architecture}.{name}") for name in ("attention.head_count_kv", "embedding_length"))
    each = _number(values, f"{architecture}.attention.key_length") or width // max(1, heads)
    return 2 * 2 * layers * (kv_heads or heads) * each


def _number(values: dict[str, Any], key: str) -> int:
    value = values.get(key)
    if isinstance(value, list):
        value = max((v for v in value if isinstance(v, int)), default=0)
    return value if isinstance(value, int) else 0


def _in_name(name: str) -> str:
    """The quantisation that a file's name ends in."""
    found = re.search(r"(?i)[-._]((?:I?Q\d(?:_\w+)?)|(?:B?F16)|F32)(?=[-.]|$)", name)
    return found[1].upper() if found else ""
