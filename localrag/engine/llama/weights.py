"""GGUF files: loading weights, what the metadata says, vocabularies, faster copies of slow quantisations; llama.cpp's own log."""

import ctypes
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp

from localrag.config import cache_dir, new_file, private_folder
from localrag.engine.fit import Shape
from localrag.engine.llama.kv import kv_shape
from localrag.errors import ModelError
from localrag.header import Tensor, is_whole, read_header
from localrag.models import ModelFile, shards, whole_header

SLOW_TYPES = {3: "Q4_1", 8: "Q5_0", 9: "Q5_1"}  # llama_ftype without repacked CPU kernels
PLAIN_TYPES = {0: "F32", 1: "F16", 32: "BF16"}
COPY_TYPES = {"q8_0": 7, "bf16": 32}  # llama_ftype
LARGEST_COPY = 1 << 30  # bytes: of larger models nobody expects a second file

GPU = bool(llama_cpp.llama_supports_gpu_offload())
BUILD = str(llama_cpp.__version__)

_log_lines: list[str] = []


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_log(_level: int, text: bytes, _data: object) -> None:
    """llama.cpp's own words, kept for error messages instead of printed."""
    _log_lines.append(text.decode(errors="replace"))
    del _log_lines[:-40]


llama_cpp.llama_log_set(_keep_log, None)
llama_cpp.llama_backend_init()


def useful_copies(file: ModelFile) -> tuple[str, ...]:
    """In which types a copy of a quantised model's weights may compute faster on this CPU. Raises ModelError.

    Measured with 135M parameters on an AVX-512 CPU with BF16: bf16 reads prompts 1.1 to 1.4 times as fast as Q8_0 and is nearer the exact
    weights (KL 0.0002 against 0.0044 nats for a Q4_1 file, whose own kernels have 0.0032). It takes twice Q8_0's memory and bandwidth.
    """
    kind, parameters = file_type(file.path), shape_of(file.path, "f16").parameters
    if kind in PLAIN_TYPES:
        return ()
    bytes_each = {"q8_0": 34 / 32, "bf16": 2.0}
    tried = ("bf16", "q8_0") if kind in SLOW_TYPES else ("bf16",)
    return tuple(name for name in tried if parameters * bytes_each[name] <= LARGEST_COPY)


def weights_file(file: ModelFile, weights: str, threads: int) -> Path:
    """The file to load: `file` itself ("own"), or the copy of that type in the cache, made if it is missing or damaged.

    Raises ModelError.
    """
    if weights == "own":
        whole_header(file.path)
        return file.path
    target = copy_path(file, weights)
    if not is_whole(target):
        try:
            private_folder(target.parent)
            with new_file(target) as part:
                _quantise(file.path, part, weights, threads)
        except OSError as error:
            raise ModelError(
                f"The {weights} copy of {file.path.name} cannot be written to {target.parent}: {error.strerror or error}.",
                "Make room there, or do without: --engine weights=own",
            ) from error
    return target


def load_weights(file: ModelFile, weights: str, threads: int, params: Any) -> tuple[Path, Any]:
    """The file that was loaded, see `weights_file`, and its model; a copy that llama.cpp refuses is made anew once. Raises ModelError."""
    path = weights_file(file, weights, threads)
    try:
        return path, load(path, params)
    except ModelError:
        if weights == "own":
            raise
    with suppress(OSError):
        path.unlink()
    return weights_file(file, weights, threads), load(path, params)


def _quantise(source: Path, target: Path, weights: str, threads: int) -> None:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = COPY_TYPES[weights], True, threads
    _log_lines.clear()
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise OSError(last_log())
    if not is_whole(target):  # llama.cpp does not notice every write that failed
        raise OSError("the disk may be full")


def copy_path(file: ModelFile, weights: str) -> Path:
    """Where the copy of that type is kept."""
    return cache_dir() / "models" / f"{file.path.stem}.{file.fingerprint}.{weights.upper()}.gguf"


def file_type(path: Path) -> int:
    """llama.cpp's file type number of a GGUF model, -1 where it does not say; its files are checked to be whole. Raises ModelError."""
    kind = whole_header(path).values.get("general.file_type")
    return kind if isinstance(kind, int) else -1


def meta(model: Any, key: str) -> str:
    """A value of a loaded model's metadata as text, empty where it is missing."""
    size = 1 << 16
    buffer = ctypes.create_string_buffer(size)
    n = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, size)
    return "" if n < 0 else buffer.value.decode(errors="replace")


def cpu_features() -> frozenset[str]:
    """What this build of llama.cpp uses of the CPU, in its own names: AVX2, AVX512_BF16 …"""
    return frozenset(re.findall(r"(\w+) = 1\b", llama_cpp.llama_print_system_info().decode(errors="replace")))


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


def load(path: Path, params: Any) -> Any:
    """The model of a GGUF file. Raises ModelError."""
    _log_lines.clear()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelError(f"{path} cannot be loaded, it may be damaged: {last_log()}", "Copy the file again, or give another with --model.")
    return model


def last_log() -> str:
    """The last thing llama.cpp complained about, in a line; it sees tokens and files, not texts, and a line is cut at 300 characters."""
    for word in ("error", "failed"):  # the reason is an error; that something failed is only its consequence
        if lines := [" ".join(line.split()) for line in _log_lines if word in line.lower()]:
            return lines[-1][:300]
    return "no reason given"


def open_vocabulary(path: Path) -> Callable[[str], list[int]]:
    """A tokenizer over a GGUF's vocabulary alone; the weights are not loaded. Raises ModelError."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    vocabulary = llama_cpp.llama_model_get_vocab(load(path, params))
    return lambda text: tokenize(vocabulary, text, special=False, start=False)


def tokenize(vocabulary: Any, text: str, *, special: bool, start: bool) -> list[int]:
    """The tokens of a text; `special` reads control tokens in it, `start` adds BOS where the vocabulary wants it."""
    data = text.encode()
    tokens = (llama_cpp.llama_token * (len(data) + 8))()
    n = llama_cpp.llama_tokenize(vocabulary, data, len(data), tokens, len(tokens), start, special)
    return list(tokens[:n])
