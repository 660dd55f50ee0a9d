"""What ggml computes on, by its own device interface (CUDA, Metal, ROCm, Vulkan and SYCL alike), and which weights go where."""

import ctypes
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp._ggml import libggml

from localrag.engine.settings import EngineSettings

KINDS = ("cpu", "gpu", "igpu", "accel", "meta")  # ggml_backend_dev_type
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"  # llama.cpp's LLM_FFN_EXPS_REGEX


@dataclass(frozen=True, slots=True)
class Device:
    """One of ggml's devices. `kind`: cpu, gpu, igpu (shares the computer's memory), accel or meta; memory in bytes."""

    name: str
    description: str
    kind: str
    free: int
    total: int


class _Properties(ctypes.Structure):
    """ggml_backend_dev_props, without the capabilities at its end."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("free", ctypes.c_size_t),
        ("total", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("id", ctypes.c_char_p),
        ("capabilities", ctypes.c_byte * 64),
    )


class _Override(ctypes.Structure):
    """llama_model_tensor_buft_override: tensors whose name matches the pattern go into buffers of that type."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


def devices() -> tuple[Device, ...]:
    """Every device of this build of llama.cpp, with what is free on it at this moment."""
    libggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    libggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    found = []
    for n in range(libggml.ggml_backend_dev_count()):
        p = _Properties()
        libggml.ggml_backend_dev_get_props(ctypes.c_void_p(libggml.ggml_backend_dev_get(ctypes.c_size_t(n))), ctypes.byref(p))
        found.append(Device((p.name or b"").decode(), (p.description or b"").decode(errors="replace"), KINDS[p.kind], p.free, p.total))
    return tuple(found)


def gpus() -> tuple[Device, ...]:
    """The devices that layers are offloaded to; as llama.cpp does it, integrated ones only where there is no other."""
    found = devices() if llama_cpp.llama_supports_gpu_offload() else ()
    return tuple(d for d in found if d.kind == "gpu") or tuple(d for d in found if d.kind == "igpu")


@cache
def driver() -> str:
    """The version of the GPU's driver, where the system tells."""
    for place in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/sys/module/i915/version"):
        try:
            return Path(place).read_text().splitlines()[0]
        except (OSError, IndexError):
            continue
    return platform.release()  # of drivers that come with the system


def model_params(settings: EngineSettings) -> tuple[Any, object]:
    """llama_model_params for these settings, and what must be kept alive while the model is loaded."""
    params = llama_cpp.llama_model_default_params()
    params.use_extra_bufts = settings.extra_buffers
    params.n_gpu_layers = settings.gpu_layers if llama_cpp.llama_supports_gpu_offload() else 0
    kept: object = None
    if not params.n_gpu_layers and gpus():  # or llama.cpp would still hand it single multiplications, and need memory there
        kept = none = (ctypes.c_void_p * 1)(None)
        params.devices = ctypes.cast(none, ctypes.c_void_p)
    if settings.cpu_experts and params.n_gpu_layers:
        libggml.ggml_backend_cpu_buffer_type.restype = ctypes.c_void_p
        layers = "|".join(map(str, range(settings.cpu_experts)))
        pattern = rf"blk\.({layers}){_EXPERTS}".encode()
        kept = overrides = (_Override * 2)(_Override(pattern, libggml.ggml_backend_cpu_buffer_type()), _Override(None, None))
        params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
    return params, kept
