"""What of a model takes memory, by the header of its file: layers, experts, KV. No weights are loaded."""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from localrag.engine.kv import kv_shape
from localrag.gguf_header import Tensor, read_header
from localrag.models import shards, whole_header


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model takes memory, in bytes: each layer's weights, the experts in them, all other weights; KV of a cell; its window.

    `kv` is the KV of one cell of all layers in the type that is meant; `window` the longest in tokens; `parameters` a number.
    """

    layers: tuple[int, ...]
    experts: tuple[int, ...]
    rest: int
    kv: float
    window: int
    parameters: int

    @property
    def weights(self) -> int:
        """Bytes of all weights."""
        return sum(self.layers) + self.rest


def file_type(path: Path) -> int:
    """llama.cpp's file type number of a GGUF model, -1 where it does not say; its files are checked to be whole. Raises ModelError."""
    kind = whole_header(path).values.get("general.file_type")
    return kind if isinstance(kind, int) else -1


@cache
def shape_of(path: Path, kv: str) -> Shape:
    """What of a model takes memory, by its header; `kv` is the type of its keys and values. Raises ModelError."""
    layers: defaultdict[int, list[Tensor]] = defaultdict(list)
    rest = parameters = 0
    for tensor in (t for file in shards(path) for t in read_header(file).tensors):
        parameters += tensor.values
        if found := re.match(r"blk\.(\d+)\.", tensor.name):
            layers[int(found[1])].append(tensor)
        else:
            rest += tensor.size
    sizes = tuple(sum(t.size for t in layers[i]) for i in sorted(layers))
    experts = tuple(sum(t.size for t in layers[i] if "exps" in t.name) for i in sorted(layers))
    of_kv = kv_shape(path)
    return Shape(sizes, experts, rest, of_kv.bytes_per_token(kv), of_kv.window, parameters)
