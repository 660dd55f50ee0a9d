"""llama.cpp itself: what this build can do, its own log, loading a file's weights and reading its metadata."""

import ctypes
import re
from pathlib import Path
from typing import Any

import llama_cpp

from localrag.errors import ModelError

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


def meta(model: Any, key: str) -> str:
    """A value of a loaded model's metadata as text, empty where it is missing."""
    size = 1 << 16
    buffer = ctypes.create_string_buffer(size)
    n = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, size)
    return "" if n < 0 else buffer.value.decode(errors="replace")


def cpu_features() -> frozenset[str]:
    """What this build of llama.cpp uses of the CPU, in its own names: AVX2, AVX512_BF16 …"""
    return frozenset(re.findall(r"(\w+) = 1\b", llama_cpp.llama_print_system_info().decode(errors="replace")))


def load(path: Path, params: Any) -> Any:
    """The model of a GGUF file. Raises ModelError."""
    clear_log()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelError(f"{path} cannot be loaded, it may be damaged: {last_log()}", "Copy the file again, or give another with --model.")
    return model


def clear_log() -> None:
    """Forget what llama.cpp has said so far."""
    _log_lines.clear()


def last_log() -> str:
    """The last thing llama.cpp complained about, in a line; it sees tokens and files, not texts, and a line is cut at 300 characters."""
    for word in ("error", "failed"):  # the reason is an error; that something failed is only its consequence
        if lines := [" ".join(line.split()) for line in _log_lines if word in line.lower()]:
            return lines[-1][:300]
    return "no reason given"
