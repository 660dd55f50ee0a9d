"""Local model files: what a GGUF file is by its header, and the models that other programs have on this machine.

Models are used in place, never copied or changed: in Hugging Face's cache (`HF_HUB_CACHE`, else `HF_HOME`, else XDG's), LM Studio's folder,
Ollama's blobs by its manifests (`OLLAMA_MODELS`), and llama.cpp's cache (`LLAMA_CACHE`).
"""

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from localrag.errors import ModelError
from localrag.model_files import checked_header, first_shard, model_kind, parameters_of, total_size
from localrag.system.files import data_dir, home_dir
from localrag.system.resources import available_memory

MEMORY_MARGIN = 1 << 30  # bytes that localrag itself needs beside the chat model: Python, the embedder, FAISS
_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L",
    14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip  # llama.cpp's file types (`llama_ftype`)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The header of a model file. `context_length` in tokens, `size` in bytes; empty or 0 if unknown.

    `memory_needed` is approximate: weights, KV cache of four short windows, and localrag itself, in bytes.
    """

    kind: str
    name: str
    architecture: str
    quantization: str
    licence: str
    parameters: int
    context_length: int
    size: int
    memory_needed: int
    has_chat_template: bool


def read_model_info(path: Path) -> ModelInfo:
    """Read a GGUF model's header. Raises ModelError if it is no model, is incomplete, or is a part of a model."""
    header = checked_header(path)
    values = header.values
    part = str(values.get("general.type", "model"))
    if part != "model" or str(values.get("general.architecture")) in ("clip", "mmproj"):
        description = "the image encoder of a model" if part in ("model", "mmproj") else f"of type {part}"
        raise ModelError(f"{path.name} is not a model by itself: it is {description}.", "Give the model's own file.")
    if not header.tensors:
        raise ModelError(f"{path.name} contains a vocabulary but no weights.", "Give the model's own file.")
    architecture = str(values.get("general.architecture", ""))
    size = total_size(path)
    return ModelInfo(
        model_kind(header),
        str(values.get("general.name") or path.stem),
        architecture,
        _TYPES.get(values.get("general.file_type", -1), "") or _in_name(path.name),
        str(values.get("general.license", "")),
        parameters_of(path),
        _int_value(values, f"{architecture}.context_length"),
        size,
        size + 4 * 2048 * _kv_bytes(values, architecture) + MEMORY_MARGIN,
        bool(values.get("tokenizer.chat_template")),
    )


def memory_fit(needs: int) -> str:
    """Whether this many bytes fit this machine: fits, tight (only once other programs are closed), or too big."""
    total = psutil.virtual_memory().total
    free = available_memory()
    if needs > 0.9 * total:
        return "too big"
    return "tight" if free is not None and needs > 0.95 * free else "fits"


def _kv_bytes(values: dict[str, Any], architecture: str) -> int:
    """Approximate bytes of the KV cache per token, in 16-bit floats."""
    layers, heads = (_int_value(values, f"{architecture}.{name}") for name in ("block_count", "attention.head_count"))
    kv_heads, width = (_int_value(values, f"{architecture}.{name}") for name in ("attention.head_count_kv", "embedding_length"))
    each = _int_value(values, f"{architecture}.attention.key_length") or width // max(1, heads)
    return 2 * 2 * layers * (kv_heads or heads) * each


def _int_value(values: dict[str, Any], key: str) -> int:
    value = values.get(key)
    if isinstance(value, list):
        value = max((v for v in value if isinstance(v, int)), default=0)
    return value if isinstance(value, int) else 0


def _in_name(name: str) -> str:
    """The quantisation at the end of a file's name."""
    match = re.search(r"(?i)[-._]((?:I?Q\d(?:_\w{1,20})?)|(?:B?F16)|F32)(?=[-.]|$)", name)
    return match[1].upper() if match else ""


_OLLAMA_MODEL = "application/vnd.ollama.image.model"  # the layer of a manifest that is the GGUF file
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_DEPTH = 6  # of folders below one that is searched


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model file: name, path, the program it belongs to, and `info` or, if it cannot be used, `problem`."""

    name: str
    path: Path
    program: str
    info: ModelInfo | None = None
    problem: str = ""


def find_local_models(folders: Iterable[Path] = (), until: float = math.inf) -> list[LocalModel]:
    """The models in these folders, or else in those of other programs; each file once, usable ones first.

    At `until` (of `time.monotonic`) the search stops with the models found. Raises ModelError for a missing folder.
    """
    user_folders = list(folders)
    for folder in user_folders:
        if not folder.is_dir():
            raise ModelError(
                f"There is no folder {folder}.", "Check the path, or scan where other programs keep models: localrag models scan"
            )
    files = ((path.stem, path, "") for folder in user_folders for path in _below(folder)) if user_folders else _of_programs()
    seen: dict[Path, LocalModel] = {}
    for name, path, program in files:
        with suppress(OSError):
            real = first_shard(str(path)).resolve()
            if time.monotonic() > until:
                break
            if real not in seen:
                seen[real] = _inspect_model(re.sub(r"-00001-of-\d{5}$", "", name), first_shard(str(path)), program)
    return sorted(seen.values(), key=lambda f: (f.info is None, f.program, f.name.lower()))


def _inspect_model(name: str, path: Path, program: str) -> LocalModel:
    try:
        return LocalModel(name, path, program, read_model_info(path))
    except ModelError as error:
        return LocalModel(name, path, program, problem=str(error))


def _of_programs() -> Iterator[tuple[str, Path, str]]:
    """Name, file and program of every model of other programs."""
    for path in _below(data_dir() / "models"):
        yield path.stem, path, "localrag"
    for path in _below(hugging_face_cache()):
        if "snapshots" in path.parts:
            yield path.stem, path, "Hugging Face"
    for folder in _lm_studio():
        for path in _below(folder):
            yield path.stem, path, "LM Studio"
    for folder in _ollama():
        yield from ((name, path, "Ollama") for name, path in _manifests(folder))
    for path in _below(_llama_cpp()):
        yield path.stem, path, "llama.cpp"


def _below(folder: Path) -> Iterator[Path]:
    """The GGUF files below a folder, in order; links to files are followed, links to folders are not."""
    for at, folders, names in os.walk(folder):
        folders.sort()
        if len(Path(at).relative_to(folder).parts) >= _DEPTH:
            folders.clear()
        for name in sorted(names):
            if name.lower().endswith(".gguf"):
                yield Path(at, name)


def hugging_face_cache() -> Path:
    """The folder of Hugging Face's hub cache, whether or not it exists."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache)
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else _xdg_cache() / "huggingface") / "hub"


def _xdg_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or home_dir() / ".cache")


def _lm_studio() -> Iterator[Path]:
    """LM Studio's folders of models: the one in its settings, and those of older versions."""
    home = home_dir() / ".lmstudio"
    with suppress(OSError, UnicodeDecodeError):
        home = Path((home_dir() / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip() or home)
    with suppress(OSError, ValueError, AttributeError):
        if chosen := json.loads((home / "settings.json").read_text(encoding="utf-8")).get("downloadsFolder"):
            yield Path(chosen)
    yield from (home / "models", home_dir() / ".cache" / "lm-studio" / "models")


def _ollama() -> Iterator[Path]:
    """Ollama's folders: the configured one, the user's, and the service's on Linux."""
    if chosen := os.environ.get("OLLAMA_MODELS"):
        yield Path(chosen)
    yield from (home_dir() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models"))


def _manifests(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and file of each model of Ollama, whose manifest names the blob. Unreadable manifests are skipped."""
    for at, folders, names in os.walk(folder / "manifests"):
        folders.sort()
        for tag in sorted(names):
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                layers = json.loads(Path(at, tag).read_text(encoding="utf-8"))["layers"]
                for layer in layers:
                    digest = _DIGEST.fullmatch(str(layer["digest"]))
                    if layer["mediaType"] == _OLLAMA_MODEL and digest:
                        yield f"{Path(at).name}-{tag}", folder / "blobs" / f"sha256-{digest[1]}"


def _llama_cpp() -> Path:
    if chosen := os.environ.get("LLAMA_CACHE"):
        return Path(chosen)
    return platformdirs.user_cache_path("llama.cpp", appauthor=False) if sys.platform in ("darwin", "win32") else _xdg_cache() / "llama.cpp"
