"""Copies of a model's weights in the user cache: requantised, or converted to GGUF."""

import ctypes
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np

from localrag.engine.llama.library import clear_log, last_log_line
from localrag.engine.memory import file_type, read_model_memory
from localrag.engine.weights import gguf_tensors, is_bert, max_tokens, pooling, read_json
from localrag.errors import ModelError
from localrag.gguf import is_complete
from localrag.model_files import ModelFile, checked_header
from localrag.system.files import atomic_file, cache_dir, ensure_private_folder, touch_atime

REQUANTIZED_TYPES = {3: "Q4_1", 8: "Q5_0", 9: "Q5_1"}  # llama_ftype without repacked CPU kernels
PLAIN_TYPES = {0: "F32", 1: "F16", 32: "BF16"}
COPY_TYPES = {"q8_0": 7, "bf16": 32}  # llama_ftype
MAX_COPY_BYTES = 1 << 30  # no second file of larger models


def faster_weight_types(file: ModelFile) -> tuple[str, ...]:
    """The types in which a copy of a quantised model's weights may compute faster on this CPU. Raises ModelError.

    Measured with 135M parameters on an AVX-512 CPU with BF16: bf16 prefills 1.1 to 1.4 times as fast as Q8_0 and is nearer the exact
    weights (KL 0.0002 against 0.0044 nats for a Q4_1 file, whose own kernels have 0.0032). It takes twice Q8_0's memory and bandwidth.
    """
    kind, parameters = file_type(file.path), read_model_memory(file.path, "f16").parameters
    if kind in PLAIN_TYPES:
        return ()
    bytes_each = {"q8_0": 34 / 32, "bf16": 2.0}
    tried = ("bf16", "q8_0") if kind in REQUANTIZED_TYPES else ("bf16",)
    return tuple(name for name in tried if parameters * bytes_each[name] <= MAX_COPY_BYTES)


def is_repacked(file: ModelFile) -> bool:
    """Whether llama.cpp may rearrange a model's weights for the CPU, as most quantized types. Raises ModelError."""
    return file_type(file.path) not in {*PLAIN_TYPES, *REQUANTIZED_TYPES, COPY_TYPES["q8_0"]}


def weights_file(file: ModelFile, weights: str, threads: int) -> Path:
    """The file to load: `file` itself ("own"), or its copy in the cache, made if missing or damaged. Raises ModelError."""
    if weights == "own":
        checked_header(file.path)
        return file.path
    target = copy_path(file, weights)
    if not is_complete(target):
        try:
            ensure_private_folder(target.parent)
            with atomic_file(target) as part:
                _quantize(file.path, part, weights, threads)
        except OSError as error:
            raise ModelError(
                f"The {weights} copy of {file.path.name} cannot be written to {target.parent}: {error.strerror or error}.",
                "Free some space there, or use: --engine weights=own",
            ) from error
    touch_atime(target)
    return target


def _quantize(source: Path, target: Path, weights: str, threads: int) -> None:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = COPY_TYPES[weights], True, threads
    clear_log()
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise OSError(last_log_line())
    if not is_complete(target):  # llama.cpp does not report every failed write
        raise OSError("the disk may be full")


def copy_path(file: ModelFile, weights: str) -> Path:
    """Path of the copy with this weight type."""
    return cache_dir() / "models" / f"{file.path.stem}.{file.fingerprint}.{weights.upper()}.gguf"


def convert_to_gguf(file: ModelFile) -> ModelFile | None:
    """The embedding model as a GGUF file of 16-bit floats in the user cache, made if missing or damaged; None if that is impossible.

    Possible for a BERT with mean or first-token pooling, as most small embedding models are. llama.cpp loads it in a fifth of a second,
    torch in two seconds. Cosine to the vectors of sentence-transformers over 0.9998 (measured with all-MiniLM-L6-v2, 16-bit floats on both
    sides).
    """
    from safetensors import SafetensorError

    try:
        target = cache_dir() / "embedders" / f"{file.fingerprint}.gguf"
        if not is_complete(target):
            if not is_bert(file.path):
                return None
            ensure_private_folder(target.parent)
            with atomic_file(target) as part:
                _write_gguf(file.path, part)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # not writable, or an unexpected layout: torch loads it
        return None
    touch_atime(target)
    return replace(file, path=target)


def _write_gguf(folder: Path, target: Path) -> None:
    import gguf

    config, context_length = read_json(folder / "config.json"), max_tokens(folder)
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_context_length(context_length)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType[str(pooling(folder))])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("no_vocab")  # texts come as tokens: llama.cpp's tokenizer differs for some scripts
    writer.add_vocab_size(config["vocab_size"])
    for name, full in gguf_tensors(folder):
        weights = full[:context_length] if name.startswith("position_embd") else full
        small = weights.ndim == 1 or name.startswith(("position_embd", "token_types"))
        writer.add_tensor(name, weights.astype(np.float32 if small else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
