"""llama.cpp library: build features, log, devices (by ggml's interface, the same for every kind of card), model loading and metadata."""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp._ggml import libggml

from localrag.engine.settings import EngineSettings
from localrag.errors import ModelError

HAS_GPU_OFFLOAD = bool(llama_cpp.llama_supports_gpu_offload())
LLAMA_CPP_VERSION = str(llama_cpp.__version__)

_log_lines: list[str] = []


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _record_log(_level: int, text: bytes, _data: object) -> None:
    _log_lines.append(text.decode(errors="replace"))
    del _log_lines[:-40]


llama_cpp.llama_log_set(_record_log, None)
llama_cpp.llama_backend_init()


def metadata_value(model: Any, key: str) -> str:
    """A value of a loaded model's metadata as text, empty if missing."""
    size = 1 << 16
    buffer = ctypes.create_string_buffer(size)
    n = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, size)
    return "" if n < 0 else buffer.value.decode(errors="replace")


def load_model(path: Path, params: Any) -> Any:
    """The model of a GGUF file. Raises ModelError."""
    clear_log()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelError(
            f"{path} cannot be loaded, it may be damaged: {last_log_line()}", "Copy the file again, or give another with --model."
        )
    return model


def clear_log() -> None:
    """Discard the log lines kept so far."""
    _log_lines.clear()


def last_log_line() -> str:
    """llama.cpp's last complaint, as one line of at most 300 characters; it names tokens and files, never the content of texts."""
    for word in ("error", "failed"):  # lines with "error" name the cause, those with "failed" a consequence
        if lines := [" ".join(line.split()) for line in _log_lines if word in line.lower()]:
            return lines[-1][:300]
    return "no reason given"


DEVICE_KINDS = ("cpu", "gpu", "igpu", "accel", "meta")  # ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Device:
    """A ggml device. `kind`: cpu, gpu, igpu (shares main memory), accel or meta; memory in bytes."""

    name: str
    description: str
    kind: str
    free: int
    total: int


class _Properties(ctypes.Structure):
    """ggml_backend_dev_props; the trailing capabilities are not interpreted."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("free", ctypes.c_size_t),
        ("total", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("id", ctypes.c_char_p),
        ("capabilities", ctypes.c_byte * 64),
    )


def devices() -> tuple[Device, ...]:
    """All devices of this build of llama.cpp, with their free memory at this moment."""
    libggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    libggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    listed = []
    for n in range(libggml.ggml_backend_dev_count()):
        p = _Properties()
        libggml.ggml_backend_dev_get_props(ctypes.c_void_p(libggml.ggml_backend_dev_get(ctypes.c_size_t(n))), ctypes.byref(p))
        listed.append(
            Device((p.name or b"").decode(), (p.description or b"").decode(errors="replace"), DEVICE_KINDS[p.kind], p.free, p.total)
        )
    return tuple(listed)


def offload_devices() -> tuple[Device, ...]:
    """The devices that layers are offloaded to: GPUs, or integrated ones if there are no others, as in llama.cpp."""
    available = devices() if llama_cpp.llama_supports_gpu_offload() else ()
    return tuple(d for d in available if d.kind == "gpu") or tuple(d for d in available if d.kind == "igpu")


def model_params(settings: EngineSettings) -> tuple[Any, object]:
    """llama_model_params for these settings, and an object that must live as long as the model."""
    params = llama_cpp.llama_model_default_params()
    params.use_extra_bufts = settings.extra_buffers
    params.n_gpu_layers = settings.gpu_layers if llama_cpp.llama_supports_gpu_offload() else 0
    no_device = (ctypes.c_void_p * 1)(None)
    if not params.n_gpu_layers and offload_devices():  # else llama.cpp still runs single multiplications there
        params.devices = ctypes.cast(no_device, ctypes.c_void_p)
    return params, no_device
