"""The model list: recommended and local models as rows, changes to the list, a self-test, and the hint that a better model exists.

Completion in a shell loads this module, so the engine and numpy are loaded only by the functions that use them.
"""

import asyncio
import re
import shlex
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from localrag.catalog.local_models import MEMORY_MARGIN, LocalModel, ModelInfo, find_local_models, memory_fit, read_model_info
from localrag.errors import LocalragError, ModelError, UsageError
from localrag.model_files import (
    MODEL_KINDS,
    ModelFile,
    add_model,
    find_chat_model,
    find_embedder,
    find_reranker,
    first_shard,
    hub_target,
    merged_models,
    model_hint,
    parameters_of,
    path_mode,
    remove_model,
    shard_paths,
    shipped_models,
    total_size,
    user_models,
)
from localrag.records import CheckLine
from localrag.system.files import data_dir
from localrag.system.resources import available_cores

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


def is_fast_enough(size: int) -> bool:
    """Whether the free cores read this many bytes of weights fast enough for indexing to take hours, not days."""
    return size <= next(most for cores, most in _FOR_CORES if available_cores() >= cores)


def best_chat_model(gpu_memory: int) -> RecommendedModel | None:
    """The largest chat model for this machine: one that fits the GPU, or that its cores run fast enough; None if there is none.

    `gpu_memory`: bytes of the largest GPU, 0 without one.
    """
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
    raise ModelError(f"No model is called {name!r}.{did_you_mean}{worth}", f"See: localrag models list. {model_hint('', name)}")


def model_details(name: str) -> dict[str, Any]:
    """The details of a model for `localrag models show`. Raises ModelError."""
    file = find_model(name)
    details: dict[str, Any] = {"name": file.name, "kind": file.kind, "path": str(file.path), "fingerprint": file.fingerprint}
    if not file.is_gguf:
        return details | {"quantisation": "none (a sentence-transformers folder)" if file.path.is_dir() else "Q4_0"}
    about = read_model_info(file.path)
    needs = about.memory_needed
    details |= {
        "title": about.name,
        "architecture": about.architecture,
        "parameters": about.parameters,
        "quantisation": about.quantization,
        "window": about.context_length,
        "template": about.has_chat_template,
        "licence": about.licence,
        "size": about.size,
    }
    if file.kind == "chat":
        from localrag.engine.autotune.load import estimate_memory
        from localrag.engine.settings import EngineOptions

        weights, kv, settings = estimate_memory(file, EngineOptions())
        needs = round(weights + kv)
        details |= {"slots": settings.slots, "context": settings.n_ctx}
    return details | {"needs": needs, "fits": memory_fit(needs)}


def model_at(path: Path, name: str, kind: str) -> ModelFile:
    """The model at a path, with `name` or its file's name; `kind` empty: by its header. Raises ModelError, UsageError."""
    path = first_shard(str(path))
    if not path_mode(path):
        raise ModelError(f"There is no model at {path}.", model_hint("", str(path)))
    if path.is_dir():
        if not (path / "modules.json").exists() and not (path / "config.json").exists():
            raise ModelError(f"{path} is no model: it has no config.json.", "Give a GGUF file, or a sentence-transformers folder.")
        kind = kind or "embedder"
    kind = kind or read_model_info(path).kind
    name = name or name_from(re.sub(r"-00001-of-\d{5}$", "", path.name.removesuffix(".gguf")))
    if not re.fullmatch(r"[\w.:+-]+", name) or name.endswith(".gguf"):
        raise UsageError(f"{name!r} cannot be the name of a model.", "Use letters, digits, dots and dashes: --name my-model")
    other = next((k for k in MODEL_KINDS if k != kind and name in merged_models()[k]), None)
    if other:
        raise UsageError(f"{name} is already the name of a model of another kind ({other}).", "Choose another: --name NAME")
    return ModelFile(name, kind, path.parent.resolve() / path.name)


def name_from(file_name: str) -> str:
    """The model name for a file name: `My Model` → `my-model`."""
    return re.sub(r"[^\w.+-]+", "-", file_name).strip("-").lower() or "model"


def add_local_models(models: Sequence[LocalModel]) -> dict[Path, str]:
    """Add the usable models to the list, under unused names; returns each path's name."""
    table, added = merged_models(), {}
    have = {entry["path"]: name for kind in MODEL_KINDS for name, entry in table[kind].items()}
    taken = {name for kind in MODEL_KINDS for name in table[kind]}
    for one in models:
        if one.info is None or str(one.path) in have:
            continue
        base = name_from(one.name)
        name = next(n for n in (base, *(f"{base}-{i}" for i in range(2, 1000))) if n not in taken)
        taken.add(name)
        add_model(one.info.kind, name, str(one.path))
        added[one.path] = name
    return added


def local_model_row(model: LocalModel, added: dict[Path, str]) -> dict[str, Any]:
    """A local model as a row; `added`: path → its name on the list."""
    table = merged_models()
    name = next((n for k in MODEL_KINDS for n, e in table[k].items() if e["path"] == str(model.path)), "")
    row: dict[str, Any] = {"name": model.name, "path": str(model.path), "program": model.program, "listed": name, "problem": model.problem}
    if about := model.info:
        row |= {"kind": about.kind, "parameters": about.parameters, "quantisation": about.quantization, "window": about.context_length}
        row |= {"size": about.size, "needs": about.memory_needed, "fits": memory_fit(about.memory_needed)}
    return row | {"added": model.path in added}


def remove_from_list(name: str) -> None:
    """Remove a model from the user's list. Raises UsageError if it is not on it."""
    kind = next((k for k in MODEL_KINDS if name in user_models().get(k, {})), "chat")
    remove_model(kind, name)


def downloaded_files(name: str) -> list[Path]:
    """The files of a model in the folder of pulled models; none for any other model."""
    entry: dict[str, str] = next((user_models()[k][name] for k in MODEL_KINDS if name in user_models().get(k, {})), {})
    path = Path(entry.get("path", ""))
    folder = data_dir() / "models"
    return shard_paths(path) if entry.get("source") and path.is_file() and path.resolve().is_relative_to(folder.resolve()) else []


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


_TEST_SENTENCE = "The ferry Skua belongs to Ingrid Holm."
_JSON = 'start: "{\\"owner\\": \\"" /[A-Z][a-z]+( [A-Z][a-z]+)?/ "\\"}"'
_PAIRS = (
    ("The ferry was sold to a woman from the harbour.", "A boat got a new owner.", "Add two spoons of sugar and stir."),
    ("The council met on Monday.", "There was a meeting of the town's government.", "Whales breathe air."),
)
_QUESTION = "Who owns the ferry?"
_PASSAGES = (_TEST_SENTENCE, "Add two spoons of sugar and stir.", "Whales breathe air.")


def self_test(file: ModelFile) -> list[CheckLine]:
    """Test a model, one line a test; a model with a line marked `fail` cannot be used. Runs in child processes first."""
    tests = {"chat": _chat, "embedder": _embedder, "reranker": _reranker}
    try:
        return tests[file.kind](file)
    except LocalragError as error:
        return [CheckLine("loads", "fail", str(error), error.hint)]


def _chat(file: ModelFile) -> list[CheckLine]:
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.engine import Engine
    from localrag.engine.request import Request
    from localrag.engine.settings import EngineOptions
    from localrag.llm.grammar import from_lark

    about, lines = read_model_info(file.path), []
    if about.kind != "chat":
        remedy = f"Add it with its own kind: --kind {about.kind}"
        raise ModelError(f"{file.path.name} is not a chat model, but a{'n' * (about.kind == 'embedder')} {about.kind}.", remedy)
    started = time.perf_counter()
    engine = Engine(lambda: open_backend(file, EngineOptions("slots=1,n_ctx=512", measure_later=True)))
    try:
        ask = [{"role": "user", "content": f"{_TEST_SENTENCE} Who owns it? Answer with JSON."}]
        cells = engine.backend.chat.encode(ask)
        lines.append(CheckLine("loads", "ok", f"in {time.perf_counter() - started:.1f} s"))
        held = asyncio.run(engine.generate(Request(cells, 64, from_lark(_JSON))))
        free = asyncio.run(engine.generate(Request(cells, 64)))
    finally:
        engine.close()
    owner = held.text[len('{"owner": "') : -2]
    result = f"held to a grammar it answers {owner!r}, which is {'right' if 'Ingrid' in owner or 'Holm' in owner else 'wrong'}"
    lines.append(CheckLine("answers", "ok" if held.is_complete else "fail", result, "" if held.is_complete else "Take another model."))
    if not free.text.strip():
        lines.append(CheckLine("writes", "warn", "nothing, when left free", "Check that the file is an instruct model, not a base model."))
    speed = free.output_tokens / max(free.seconds, 1e-3)
    lines.append(CheckLine("speed", "ok" if speed >= 2 else "warn", f"{speed:.1f} tokens/s, one answer at a time, not tuned"))
    if not about.has_chat_template:
        lines.append(
            CheckLine("template", "warn", "the file has no chat template; a common one is used", "Prefer a file with its own template.")
        )
    return lines


def _embedder(file: ModelFile) -> list[CheckLine]:
    import numpy as np

    from localrag.engine.embedder import open_embedder

    embedder = open_embedder(file)
    vectors = embedder.embed([text for group in _PAIRS for text in group])
    norms = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(vectors).all() or np.abs(norms - 1).max() > 0.01:
        return [CheckLine("loads", "fail", "its vectors do not have length 1", "Use another file of this model.")]
    similar_scores = [float(a @ b) for a, b, _ in zip(*[iter(vectors)] * 3, strict=True)]
    far = [float(a @ c) for a, _, c in zip(*[iter(vectors)] * 3, strict=True)]
    right = all(n > f for n, f in zip(similar_scores, far, strict=True))
    result = f"{vectors.shape[1]} dimensions; alike {min(similar_scores):.2f}, unlike {max(far):.2f}"
    return [
        CheckLine("loads", "ok", "and gives unit vectors"),
        CheckLine("meaning", "ok" if right else "fail", result, "" if right else "Use another file of this model."),
    ]


def _reranker(file: ModelFile) -> list[CheckLine]:
    import numpy as np

    from localrag.engine.embedder import open_reranker

    scores = open_reranker(file)(_QUESTION, _PASSAGES)
    # Some conversions of rerankers lack their last layer: every score is then nearly 0.
    right = bool(np.isfinite(scores).all()) and int(np.argmax(scores)) == 0 and float(np.ptp(scores)) > 1e-6
    result = (
        "scores the passage that answers highest" if right else f"its scores do not distinguish anything: {np.round(scores, 6).tolist()}"
    )
    remedy = "Its file may lack the last layer: use one that was converted with llama.cpp's own tools."
    return [CheckLine("loads", "ok", ""), CheckLine("meaning", "ok" if right else "fail", result, "" if right else remedy)]


MIN_PARAMETERS = 1_000_000_000  # least parameters of a model that writes useful answers
_PATIENCE = 2.0  # seconds of the search for models of other programs


def best_model_for_machine() -> RecommendedModel | None:
    """The recommended model that suits this machine best; None if none does."""
    return best_chat_model(_gpu_memory())


def better_model_hint(ask_command: str) -> tuple[str, str] | None:
    """A better model than the bundled one, and the commands to use it; None if there is none, or if another is the default.

    A model on this machine is preferred. `ask_command` asks the index a question.
    """
    if merged_models()["default_chat"] != shipped_models()["default_chat"]:
        return None
    hint = "The bundled models index and quote, and do not write. "
    if here := max(_suitable(), key=lambda found: found[2].parameters, default=None):
        option, where, about = here
        return f"{hint}Better, and {where}: {about.name} ({about.size / 1e9:.1f} GB)", f"{ask_command} --model {option}"
    best = best_model_for_machine()
    if best is None:
        return None
    return (
        f"{hint}Best for this machine: {best.name} ({best.size / 1e9:.1f} GB, {best.licence}; {best.good_for})",
        f"localrag models pull {best.name} --use && {ask_command}",
    )


def _suitable() -> Iterator[tuple[str, str, ModelInfo]]:
    """Chat models on this machine that write well enough and fit it: value for --model, location, info."""
    gpu = _gpu_memory()
    for option, where, about in _local_chat_models():
        writes = about.kind == "chat" and about.has_chat_template and about.parameters >= MIN_PARAMETERS
        if writes and (about.memory_needed <= gpu or (is_fast_enough(about.size) and memory_fit(about.memory_needed) == "fits")):
            yield option, where, about


def _local_chat_models() -> Iterator[tuple[str, str, ModelInfo]]:
    for name, entry in user_models().get("chat", {}).items():
        with suppress(ModelError, OSError):
            yield name, "on your list", read_model_info(first_shard(entry["path"]))
    for model in find_local_models(until=time.monotonic() + _PATIENCE):
        if model.info:
            yield shlex.quote(str(model.path)), f"here already ({model.program})", model.info


def _gpu_memory() -> int:
    """Bytes of the largest GPU, 0 without one."""
    from localrag.engine.llama.library import offload_devices

    return max((device.total for device in offload_devices()), default=0)
