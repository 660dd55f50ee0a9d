"""Copies of a model's weights in a type that computes faster here, kept in the user cache."""

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any

import llama_cpp

from localrag.engine.llama.library import clear_log, last_log, load
from localrag.engine.shape import file_type, shape_of
from localrag.errors import ModelError
from localrag.gguf_header import is_whole
from localrag.models import ModelFile, whole_header
from localrag.system.files import cache_dir, new_file, private_folder, was_used

SLOW_TYPES = {3: "Q4_1", 8: "Q5_0", 9: "Q5_1"}  # llama_ftype without repacked CPU kernels
PLAIN_TYPES = {0: "F32", 1: "F16", 32: "BF16"}
COPY_TYPES = {"q8_0": 7, "bf16": 32}  # llama_ftype
LARGEST_COPY = 1 << 30  # bytes: of larger models nobody expects a second file


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
    was_used(target)
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
    clear_log()
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise OSError(last_log())
    if not is_whole(target):  # llama.cpp does not notice every write that failed
        raise OSError("the disk may be full")


def copy_path(file: ModelFile, weights: str) -> Path:
    """Where the copy of that type is kept."""
    return cache_dir() / "models" / f"{file.path.stem}.{file.fingerprint}.{weights.upper()}.gguf"
