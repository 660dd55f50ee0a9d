"""GGUF models that other programs have put on this machine already. They are found where they are; nothing is copied or changed.

Hugging Face's cache (`HF_HUB_CACHE`, else `HF_HOME`, else XDG's), LM Studio's folder, Ollama's blobs by its manifests (`OLLAMA_MODELS`),
and llama.cpp's cache (`LLAMA_CACHE`).
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

import platformdirs

from localrag.catalog.about import About, read_about
from localrag.errors import ModelError
from localrag.models import first_shard
from localrag.system.files import data_dir

_OLLAMA_MODEL = "application/vnd.ollama.image.model"  # the layer of a manifest that is the GGUF file
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_DEPTH = 6  # of folders below one that is searched


@dataclass(frozen=True, slots=True)
class Found:
    """A model file: what to call it, where it is, which program put it there; `about` or, where it is of no use, `problem`."""

    name: str
    path: Path
    program: str
    about: About | None = None
    problem: str = ""


def scan(folders: Iterable[Path] = (), until: float = math.inf) -> list[Found]:
    """The models in these folders, or, without any, in those of the programs; each file once, those of use first.

    At `until` (of `time.monotonic`) the search ends with what it has found. Raises ModelError for a folder that is not there.
    """
    given = list(folders)
    for folder in given:
        if not folder.is_dir():
            raise ModelError(
                f"There is no folder {folder}.", "Check the path, or scan where other programs keep models: localrag models scan"
            )
    files = ((path.stem, path, "") for folder in given for path in _below(folder)) if given else _of_programs()
    seen: dict[Path, Found] = {}
    for name, path, program in files:
        with suppress(OSError):
            real = first_shard(str(path)).resolve()
            if time.monotonic() > until:
                break
            if real not in seen:
                seen[real] = _look(re.sub(r"-00001-of-\d{5}$", "", name), first_shard(str(path)), program)
    return sorted(seen.values(), key=lambda f: (f.about is None, f.program, f.name.lower()))


def _look(name: str, path: Path, program: str) -> Found:
    try:
        return Found(name, path, program, read_about(path))
    except ModelError as error:
        return Found(name, path, program, problem=str(error))


def _of_programs() -> Iterator[tuple[str, Path, str]]:
    """Name, file and program of every model that the programs have."""
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
    """The GGUF files below a folder, in order; links are followed to files, not to folders."""
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
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _lm_studio() -> Iterator[Path]:
    """LM Studio's folder of models: the one its settings name, and those it had in older versions."""
    home = Path.home() / ".lmstudio"
    with suppress(OSError, UnicodeDecodeError):
        home = Path((Path.home() / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip() or home)
    with suppress(OSError, ValueError, AttributeError):
        if chosen := json.loads((home / "settings.json").read_text(encoding="utf-8")).get("downloadsFolder"):
            yield Path(chosen)
    yield from (home / "models", Path.home() / ".cache" / "lm-studio" / "models")


def _ollama() -> Iterator[Path]:
    """Ollama's folders: the one that is set, the user's, and that of the service on Linux."""
    if chosen := os.environ.get("OLLAMA_MODELS"):
        yield Path(chosen)
    yield from (Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models"))


def _manifests(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and file of each model of Ollama: a manifest names the blob. One that cannot be read is passed over."""
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
