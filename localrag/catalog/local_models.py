"""Local model files: what a GGUF file is by its header, and the models that other programs have on this machine.

Models are used in place, never copied or changed: in Hugging Face's cache (`HF_HUB_CACHE`, else `HF_HOME`, else XDG's), LM Studio's folder,
Ollama's blobs by its manifests (`OLLAMA_MODELS`), and llama.cpp's cache (`LLAMA_CACHE`).
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from localrag.errors import ModelError
from localrag.model_files import checked_header, first_shard, model_kind, parameters_of, total_size
from localrag.system.files import data_dir, home_dir
from localrag.system.resources import available_memory

MEMORY_MARGIN = 1 << 30  # bytes that localrag itself needs beside the chat model: Python, the embedder, FAISS


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
        _quantization(values.get("general.file_type"), path.name),
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


def _quantization(file_type: object, name: str) -> str:
    """The quantisation as the header tells it, else as the end of the file's name does."""
    from gguf.constants import LlamaFileType

    with suppress(ValueError):
        return LlamaFileType(file_type).name.removeprefix("MOSTLY_").removeprefix("ALL_")
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


def find_local_models(folders: Iterable[Path] = ()) -> list[LocalModel]:
    """The models in these folders, or else in those of other programs; each file once, usable ones first.

    Raises ModelError for a missing folder.
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
            if real not in seen:
                seen[real] = _inspect_model(re.sub(r"-00001-of-\d{5}$", "", name), first_shard(str(path)), program)
    return sorted(seen.values(), key=lambda f: (f.info is None, f.program, f.name.lower()))


def _inspect_model(name: str, path: Path, program: str) -> LocalModel:
    try:
        return LocalModel(name, path, program, read_model_info(path))
    except ModelError as error:
        return LocalModel(name, path, program, problem=str(error))


def _of_programs() -> Iterator[tuple[str, Path, str]]:
    """Name, file and program of every model of other programs, and of those that localrag downloaded."""
    home = home_dir()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    hugging_face = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or caches / "huggingface") / "hub")
    folders = {
        data_dir() / "models": "localrag",
        hugging_face: "Hugging Face",
        home / ".lmstudio" / "models": "LM Studio",
        Path(os.environ.get("LLAMA_CACHE") or caches / "llama.cpp"): "llama.cpp",
    }
    for folder, program in folders.items():
        yield from ((path.stem, path, program) for path in _below(folder) if program != "Hugging Face" or "snapshots" in path.parts)
    for ollama in (os.environ.get("OLLAMA_MODELS"), home / ".ollama" / "models", "/usr/share/ollama/.ollama/models"):
        yield from ((name, path, "Ollama") for name, path in (_manifests(Path(ollama)) if ollama else ()))


def _below(folder: Path) -> Iterator[Path]:
    """The GGUF files below a folder, in order; links to files are followed, links to folders are not."""
    for at, folders, names in os.walk(folder):
        folders.sort()
        if len(Path(at).relative_to(folder).parts) >= _DEPTH:
            folders.clear()
        for name in sorted(names):
            if name.lower().endswith(".gguf"):
                yield Path(at, name)


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
