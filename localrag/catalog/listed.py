"""The models on the list, as rows for a table or as JSON, and what is put on it."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from localrag.catalog.about import fits, read_about
from localrag.catalog.curated import curated
from localrag.catalog.scan import Found
from localrag.errors import LocalragError, ModelError, UsageError
from localrag.model_table import KINDS, add_model, known_models, remove_model, user_models
from localrag.models import ModelFile, find_chat_model, find_embedder, find_reranker, first_shard, parameters_of, shards, weights_size
from localrag.system.files import data_dir

_FIND = {"chat": find_chat_model, "embedder": find_embedder, "reranker": find_reranker}
_REPO = re.compile(r"[\w.-]+/[\w.-]+")


def listed() -> list[dict[str, Any]]:
    """A row for each model on the list: name, kind, default, size, parameters, path, problem."""
    table = known_models()
    return [
        {"name": name, "kind": kind, "default": table.get(f"default_{kind}") == name} | _here(kind, name)
        for kind in KINDS
        for name in table[kind]
    ]


def _here(kind: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"size": 0, "parameters": 0, "path": "", "problem": ""}
    try:
        file = _FIND[kind](name)
        row |= {"path": str(file.path)}
        if file.path.is_dir():
            row |= {"size": sum(p.stat().st_size for p in file.path.rglob("*") if p.is_file())}
        else:
            row |= {"size": weights_size(file.path), "parameters": parameters_of(file.path)}
    except (LocalragError, OSError) as error:
        row |= {"problem": str(error)}
    return row


def find_any(name: str) -> ModelFile:
    """The model of that name, of whatever kind, or the file at that path. Raises ModelError."""
    if name.endswith(".gguf") or "/" in name:
        return model_at(Path(name), "", "")
    table = known_models()
    if kind := next((k for k in KINDS if name in table[k]), None):
        return _FIND[kind](name)
    near = get_close_matches(name, [n for k in KINDS for n in table[k]], n=1)
    worth = f" To download it: localrag models pull {name}" if name in {m.name for m in curated()} else ""
    raise ModelError(f"No model is called {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}{worth}", "See: localrag models list")


def details(name: str) -> dict[str, Any]:
    """What `localrag models show` says of a model. Raises ModelError."""
    file = find_any(name)
    found: dict[str, Any] = {"name": file.name, "kind": file.kind, "path": str(file.path), "fingerprint": file.fingerprint}
    if file.path.is_dir():
        return found | {"quantisation": "none (a sentence-transformers folder)"}
    about = read_about(file.path)
    needs = about.needs
    found |= {
        "title": about.title,
        "architecture": about.architecture,
        "parameters": about.parameters,
        "quantisation": about.quantisation,
        "window": about.window,
        "template": about.template,
        "licence": about.licence,
        "size": about.size,
    }
    if file.kind == "chat":
        from localrag.engine.hardware.opened import memory_needed
        from localrag.engine.settings import EngineOptions

        weights, kv, settings = memory_needed(file, EngineOptions())
        needs = round(weights + kv)
        found |= {"slots": settings.slots, "context": settings.context}
    return found | {"needs": needs, "fits": fits(needs)}


def model_at(path: Path, name: str, kind: str) -> ModelFile:
    """The model at a path, called `name` or by its file's name; `kind` empty: what its file says. Raises ModelError, UsageError."""
    path = first_shard(str(path))
    if not path.exists():
        raise ModelError(f"There is no model at {path}.", "Check the path. Models that are here already: localrag models scan")
    if path.is_dir():
        if not (path / "modules.json").exists() and not (path / "config.json").exists():
            raise ModelError(f"{path} is no model: it has no config.json.", "Give a GGUF file, or a sentence-transformers folder.")
        kind = kind or "embedder"
    kind = kind or read_about(path).kind
    name = name or name_from(re.sub(r"-00001-of-\d{5}$", "", path.name.removesuffix(".gguf")))
    if not re.fullmatch(r"[\w.:+-]+", name) or name.endswith(".gguf"):
        raise UsageError(f"{name!r} cannot be the name of a model.", "Use letters, digits, dots and dashes: --name my-model")
    other = next((k for k in KINDS if k != kind and name in known_models()[k]), None)
    if other:
        raise UsageError(f"{name} is already the name of a model of another kind ({other}).", "Choose another: --name NAME")
    return ModelFile(name, kind, path.parent.resolve() / path.name)


def name_from(file_name: str) -> str:
    """The name that a model gets by its file's: `My Model` → `my-model`."""
    return re.sub(r"[^\w.+-]+", "-", file_name).strip("-").lower() or "model"


def add_found(found: Sequence[Found]) -> dict[Path, str]:
    """Put the models of use on the list, under names that are free; the name of each by its path."""
    table, added = known_models(), {}
    have = {entry["path"]: name for kind in KINDS for name, entry in table[kind].items()}
    taken = {name for kind in KINDS for name in table[kind]}
    for one in found:
        if one.about is None or str(one.path) in have:
            continue
        base = name_from(one.name)
        name = next(n for n in (base, *(f"{base}-{i}" for i in range(2, 1000))) if n not in taken)
        taken.add(name)
        add_model(one.about.kind, name, str(one.path))
        added[one.path] = name
    return added


def found_row(found: Found, added: dict[Path, str]) -> dict[str, Any]:
    """A model that was found, as a row; `listed` is its name on the list, if it has one."""
    table = known_models()
    name = next((n for k in KINDS for n, e in table[k].items() if e["path"] == str(found.path)), "")
    row: dict[str, Any] = {"name": found.name, "path": str(found.path), "program": found.program, "listed": name, "problem": found.problem}
    if about := found.about:
        row |= {"kind": about.kind, "parameters": about.parameters, "quantisation": about.quantisation, "window": about.window}
        row |= {"size": about.size, "needs": about.needs, "fits": fits(about.needs)}
    return row | {"added": found.path in added}


def forget(name: str) -> None:
    """Take a model off the user's list. Raises UsageError where it is not on it."""
    kind = next((k for k in KINDS if name in user_models().get(k, {})), "chat")
    remove_model(kind, name)


def pulled_files(name: str) -> list[Path]:
    """The files of a model that `pull` put into localrag's own folder; none of any other."""
    entry: dict[str, str] = next((user_models()[k][name] for k in KINDS if name in user_models().get(k, {})), {})
    path = Path(entry.get("path", ""))
    own = data_dir() / "models"
    return shards(path) if entry.get("source") and path.is_file() and path.resolve().is_relative_to(own.resolve()) else []


def wanted(what: str) -> tuple[str, str, str]:
    """Repository, quantisation and name that are meant by a name of the list, `REPO:QUANT`, or an address of the hub. Raises UsageError."""
    known = {m.name: m for m in curated()}
    if what in known:
        return known[what].repo, known[what].quant, what
    short = re.sub(r"^(https://)?(huggingface\.co|hf\.co)/", "", what)
    repo, _, quant = short.partition(":")
    if not _REPO.fullmatch(repo) or (quant and not re.fullmatch(r"[\w.-]+", quant)):
        near = get_close_matches(what, known, n=1)
        mean = f" Did you mean {near[0]!r}?" if near else ""
        mend = "Known: localrag models list --all. Or a repository: localrag models pull ORG/NAME-GGUF:Q4_K_M"
        raise UsageError(f"{what!r} names no model.{mean}", mend)
    return repo, quant, ""
