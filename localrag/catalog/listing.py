"""The model list and its changes, a self-test, and the hint of a better model. Shells load it, so imports of numpy stay inside."""

import asyncio
import re
import time
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from localrag.errors import LocalragError, ModelError, UsageError
from localrag.model_files import (
    MODEL_KINDS,
    ModelFile,
    checked_header,
    find_chat_model,
    find_embedder,
    find_reranker,
    first_shard,
    hub_target,
    merged_models,
    model_hint,
    model_kind,
    parameters_of,
    path_mode,
    remove_model,
    shipped_models,
    total_size,
    user_models,
)
from localrag.records import CheckLine
from localrag.system.resources import available_cores, available_memory

MEMORY_MARGIN = 1 << 30  # bytes that localrag itself needs beside the chat model: Python, the embedder, FAISS
# Least number of cores → bytes of weights that they read fast enough: a token reads all weights once.
_FOR_CORES = ((8, 5_100_000_000), (4, 2_600_000_000), (0, 1_200_000_000))


@dataclass(frozen=True, slots=True)
class RecommendedModel:
    """A recommended model: its place on the hub, `size` in bytes, `context_length` in tokens, and its uses."""

    name: str
    kind: str
    repo: str
    quant: str
    parameters: str
    size: int
    context_length: int
    licence: str
    languages: str
    good_for: str
    is_default_choice: bool = False

    @property
    def memory_needed(self) -> int:
        """Approximate bytes of memory that it needs: weights, KV cache of four short windows, and localrag itself."""
        return round(1.15 * self.size) + MEMORY_MARGIN


def recommended_models() -> list[RecommendedModel]:
    """The list, by kind, small to large."""
    table = tomllib.loads((Path(__file__).parent / "curated.toml").read_text(encoding="utf-8"))
    return [RecommendedModel(name, kind, **values) for kind, models in table.items() for name, values in models.items()]


def memory_fit(needs: int) -> str:
    """Whether this many bytes fit this machine: fits, tight (only once other programs are closed), or too big."""
    import psutil

    if needs > 0.9 * psutil.virtual_memory().total:
        return "too big"
    free = available_memory()
    return "tight" if free is not None and needs > 0.95 * free else "fits"


def is_fast_enough(size: int) -> bool:
    """Whether the free cores read this many bytes of weights fast enough for indexing to take hours, not days."""
    return size <= next(most for cores, most in _FOR_CORES if available_cores() >= cores)


def best_model_for_machine() -> RecommendedModel | None:
    """The largest chat model that fits the largest GPU of this machine, or that its cores run fast enough; None if there is none."""
    from localrag.engine.llama.library import offload_devices

    return best_chat_model(max((device.total for device in offload_devices()), default=0))


def best_chat_model(gpu_memory: int) -> RecommendedModel | None:
    """The largest chat model for a GPU with so many bytes of memory, 0 without one, and for the cores of this machine."""
    good = [m for m in recommended_models() if m.kind == "chat" and m.is_default_choice]
    suitable = [m for m in good if m.memory_needed <= gpu_memory or (is_fast_enough(m.size) and memory_fit(m.memory_needed) == "fits")]
    return max(suitable, key=lambda m: m.size, default=None)


_FIND = {"chat": find_chat_model, "embedder": find_embedder, "reranker": find_reranker}
_REPO = re.compile(r"[\w.-]+/[\w.-]+")


def list_models() -> list[dict[str, Any]]:
    """A row for each model on the list: name, kind, default, size, parameters, path, problem."""
    table = merged_models()
    return [
        {"name": name, "kind": kind, "default": table.get(f"default_{kind}") == name} | _model_row(kind, name)
        for kind in MODEL_KINDS
        for name in table[kind]
    ]


def _model_row(kind: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"size": 0, "parameters": 0, "path": "", "problem": ""}
    try:
        file = _FIND[kind](name)
        row |= {"path": str(file.path)}
        if file.is_gguf:
            row |= {"size": total_size(file.path), "parameters": parameters_of(file.path)}
        else:
            row |= {"size": sum(p.stat().st_size for p in (file.path, *file.path.rglob("*")) if p.is_file())}
    except (LocalragError, OSError) as error:
        row |= {"problem": str(error)}
    return row


def find_model(name: str) -> ModelFile:
    """The model with this name, of any kind, or the file at this path. Raises ModelError."""
    if name.endswith(".gguf") or "/" in name:
        return model_at(Path(name), "", "")
    table = merged_models()
    if kind := next((k for k in MODEL_KINDS if name in table[k]), None):
        return _FIND[kind](name)
    similar_names = get_close_matches(name, [n for k in MODEL_KINDS for n in table[k]], n=1)
    worth = f" To download it: localrag models pull {name}" if name in {m.name for m in recommended_models()} else ""
    did_you_mean = f" Did you mean {similar_names[0]!r}?" if similar_names else ""
    raise ModelError(f"No model is called {name!r}.{did_you_mean}{worth}", f"See: localrag models list. {model_hint(name)}")


def model_at(path: Path, name: str, kind: str) -> ModelFile:
    """The model at a path, with `name` or its file's name; `kind` empty: by its header. Raises ModelError, UsageError."""
    path = first_shard(str(path))
    if not path_mode(path):
        raise ModelError(f"There is no model at {path}.", model_hint(str(path)))
    if path.is_dir():
        if not (path / "modules.json").exists() and not (path / "config.json").exists():
            raise ModelError(f"{path} is no model: it has no config.json.", "Give a GGUF file, or a sentence-transformers folder.")
        kind = kind or "embedder"
    kind = kind or _kind_of_file(path)
    name = name or name_from(re.sub(r"-00001-of-\d{5}$", "", path.name.removesuffix(".gguf")))
    if not re.fullmatch(r"[\w.:+-]+", name) or name.endswith(".gguf"):
        raise UsageError(f"{name!r} cannot be the name of a model.", "Use letters, digits, dots and dashes: --name my-model")
    other = next((k for k in MODEL_KINDS if k != kind and name in merged_models()[k]), None)
    if other:
        raise UsageError(f"{name} is already the name of a model of another kind ({other}).", "Choose another: --name NAME")
    return ModelFile(name, kind, path.parent.resolve() / path.name)


def _kind_of_file(path: Path) -> str:
    """Raises ModelError for a file that is no model, is incomplete, or is a part of one."""
    header = checked_header(path)
    part = str(header.values.get("general.type", "model"))
    if part != "model" or str(header.values.get("general.architecture")) in ("clip", "mmproj"):
        description = "the image encoder of a model" if part in ("model", "mmproj") else f"of type {part}"
        raise ModelError(f"{path.name} is not a model by itself: it is {description}.", "Give the model's own file.")
    if not header.tensors:
        raise ModelError(f"{path.name} contains a vocabulary but no weights.", "Give the model's own file.")
    return model_kind(header)


def name_from(file_name: str) -> str:
    """The model name for a file name: `My Model` → `my-model`."""
    return re.sub(r"[^\w.+-]+", "-", file_name).strip("-").lower() or "model"


def remove_from_list(name: str) -> None:
    """Remove a model from the user's list. Raises UsageError if it is not on it."""
    kind = next((k for k in MODEL_KINDS if name in user_models().get(k, {})), "chat")
    remove_model(kind, name)


def parse_pull_target(target: str) -> tuple[str, str, str]:
    """Repository, quantisation and name of a name on the list, `REPO:QUANT`, or an address of the hub. Raises UsageError."""
    by_name = {m.name: m for m in recommended_models()}
    if target in by_name:
        return by_name[target].repo, by_name[target].quant, target
    repo, _, quant = (hub_target(target) or target).partition(":")
    if not _REPO.fullmatch(repo) or (quant and not re.fullmatch(r"[\w.-]+", quant)):
        similar_names = get_close_matches(target, by_name, n=1)
        mean = f" Did you mean {similar_names[0]!r}?" if similar_names else ""
        remedy = "Known: localrag models list --all. Or a repository: localrag models pull ORG/NAME-GGUF:Q4_K_M"
        raise UsageError(f"{target!r} names no model.{mean}", remedy)
    return repo, quant, ""


_OWNER_GRAMMAR = 'start: "{\\"owner\\": \\"" /[A-Z][a-z]+( [A-Z][a-z]+)?/ "\\"}"'


def self_test(file: ModelFile) -> list[CheckLine]:
    """Test a model, one line a test; a model with a line marked `fail` cannot be used. Runs in child processes first."""
    try:
        return _test_chat_model(file) if file.kind == "chat" else _test_vectors_or_scores(file)
    except LocalragError as error:
        return [CheckLine("loads", "fail", str(error), error.hint)]


def _test_chat_model(file: ModelFile) -> list[CheckLine]:
    """Test whether a chat model loads, follows a grammar and writes, and how fast."""
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.engine import Engine
    from localrag.engine.request import Request
    from localrag.engine.settings import EngineOptions
    from localrag.llm.grammar import from_lark

    started = time.perf_counter()
    engine = Engine(lambda: open_backend(file, EngineOptions("slots=1,n_ctx=512", measure_later=True)))
    try:
        cells = engine.backend.chat.encode(
            [{"role": "user", "content": "The ferry Skua belongs to Ingrid Holm. Who owns it? Answer with JSON."}]
        )
        lines = [CheckLine("loads", "ok", f"in {time.perf_counter() - started:.1f} s")]
        held = asyncio.run(engine.generate(Request(cells, 64, from_lark(_OWNER_GRAMMAR))))
        free = asyncio.run(engine.generate(Request(cells, 64)))
    finally:
        engine.close()
    state, remedy = ("ok", "") if held.is_complete else ("fail", "Take another model.")
    lines.append(CheckLine("answers", state, f"held to a grammar it answers {held.text}", remedy))
    if not free.text.strip():
        lines.append(CheckLine("writes", "warn", "nothing, when left free", "Check that the file is an instruct model, not a base model."))
    speed = free.output_tokens / max(free.seconds, 1e-3)
    lines.append(CheckLine("speed", "ok" if speed >= 2 else "warn", f"{speed:.1f} tokens/s, one answer at a time, not tuned"))
    return lines


def _test_vectors_or_scores(file: ModelFile) -> list[CheckLine]:
    """Test whether an embedder's vectors, or a reranker's scores, tell what belongs together; some conversions lack the last layer."""
    from localrag.engine.embedder import open_embedder, open_reranker

    question, passages = "Who owns the ferry?", ["The ferry belongs to Ingrid Holm.", "Add two spoons of sugar and stir."]
    if file.kind == "reranker":
        near, far = map(float, open_reranker(file)(question, passages))
    else:
        vectors = open_embedder(file).embed([question, *passages])
        near, far = map(float, vectors[1:] @ vectors[0])
    state, remedy = ("ok", "") if near - far > 1e-6 else ("fail", "Use another file of this model.")
    return [CheckLine("loads", "ok", ""), CheckLine("meaning", state, f"what answers {near:.3g}, what does not {far:.3g}", remedy)]


def better_model_hint(ask_command: str) -> tuple[str, str] | None:
    """A better model than the bundled one, if that is the default, and the commands to use it; `ask_command` asks the index."""
    if merged_models()["default_chat"] != shipped_models()["default_chat"] or not (best := best_model_for_machine()):
        return None
    about = f"{best.name} ({best.size / 1e9:.1f} GB, {best.licence}; {best.good_for})"
    advice = f"The bundled models index and quote, and do not write. Best for this machine: {about}"
    return advice, f"localrag models pull {best.name} --use && {ask_command}"
