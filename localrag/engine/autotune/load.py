"""Opening models with tuned settings; tuning records.

Native code never runs for the first time in the user's process: layouts are verified and measured once, in child processes. The record of a
(model file, llama.cpp build, machine) stores which layouts work, which do not and why, and the best settings.
"""

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.engine.autotune.search import model_file_to_json
from localrag.engine.autotune.trial import hang_timeout, run_in_child
from localrag.engine.llama.library import HAS_GPU_OFFLOAD, LLAMA_CPP_VERSION, offload_devices
from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.pooled import PooledModel
from localrag.engine.llama.weights import copy_path, is_repacked
from localrag.engine.memory import COMPUTE_BUFFER_BYTES, Offload, context_and_slots, kv_cache_budget, read_kv_shape, read_model_memory
from localrag.engine.settings import AUTOTUNE_HINT, EngineOptions, EngineSettings, layout_key, layout_summary, sized_layout_key, validate
from localrag.errors import NativeTrialFailed
from localrag.model_files import ModelFile, total_size
from localrag.system.files import cache_dir, ensure_private_folder, write_atomically
from localrag.system.resources import available_cores, available_memory

UNMEASURED_SLOTS = 4  # sequences at once, before the model is measured


@dataclass(slots=True)
class TuningRecord:
    """The tuning of one model on one machine: layouts by `sized_layout_key`, `choices` by the GPU memory that was free."""

    path: Path
    verified_layouts: dict[str, float] = field(default_factory=dict)
    rejected_layouts: dict[str, str] = field(default_factory=dict)
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self) -> None:
        """Write the record; if that fails, the next start measures again."""
        with suppress(OSError):
            ensure_private_folder(self.path.parent)
            content = {"proved": self.verified_layouts, "refused": self.rejected_layouts, "choices": self.choices}
            write_atomically(self.path, json.dumps(content, indent=1).encode())

    def add_trial(self, name: str, value: Any) -> None:
        """Record a trial of a child process; a verified or rejected layout is saved at once."""
        if not name.startswith("weights="):
            return
        if not isinstance(value, dict):
            self.verified_layouts[name] = float(value)
        elif not value["passing"]:
            self.rejected_layouts[name] = value["refused"]
        self.save()

    def known(self) -> dict[str, Any]:
        """The trials that a child process need not repeat."""
        return {**self.verified_layouts, **{name: {"refused": reason, "passing": False} for name, reason in self.rejected_layouts.items()}}

    def cached_settings(self, gpu_free: int = 0) -> EngineSettings | None:
        """The stored settings that need no more GPU memory than is free; None if there are none. Those of another version are ignored."""
        usable = []
        for key, choice in self.choices.items():
            needed = int(key.rpartition("@")[2])
            if needed <= gpu_free and choice["settings"].keys() == asdict(EngineSettings()).keys():
                usable.append((needed, EngineSettings(**choice["settings"])))
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

    def save_settings(self, gpu_free: int, settings: dict[str, Any]) -> EngineSettings:
        """Store the chosen settings, and the free GPU memory they were measured with; returns the settings."""
        self.choices[f"@{gpu_free}"] = {"settings": settings}
        self.save()
        return EngineSettings(**settings)

    def is_verified(self, s: EngineSettings) -> bool:
        """Whether these settings, or the same layout with at least as much context, have run here."""
        for name in self.verified_layouts:
            layout, _, context = name.rpartition(",n_ctx=")
            layout, _, slots = layout.rpartition(",slots=")
            if layout == layout_key(s) and int(slots) >= s.slots and int(context) >= s.n_ctx:
                return True
        return False


def open_backend(file: ModelFile, options: EngineOptions) -> LlamaModel:
    """Load the model with settings tuned for this machine, now if needed. Raises ModelError, and NativeTrialFailed for the user's own."""
    record = read_record(file)
    if options.retune:
        record = TuningRecord(record.path)
    settings = _choose_settings(file, options, record)
    if not record.is_verified(settings):
        _verify(file, settings, record)
    return LlamaModel(file, settings)


def _choose_settings(file: ModelFile, options: EngineOptions, record: TuningRecord) -> EngineSettings:
    free = sum(d.free for d in offload_devices())
    # 5 % less memory than when measured is tolerated; if other programs have taken more, fewer layers or less KV fit.
    settings = record.cached_settings(int(free * 1.05))
    if settings is None and options.measure_later and not (options.retune or free):
        settings = _usual_settings(file, record)
    settings = (settings or _autotune(file, options, record, free)).with_values(options.overrides)
    chosen = with_row_rules(file, settings).with_values(options.overrides)
    if options.deterministic:
        chosen = _deterministic(chosen)
    return validate(chosen if "slots" in options.overrides else _for_free_memory(file, chosen))


def with_row_rules(file: ModelFile, settings: EngineSettings) -> EngineSettings:
    """The settings with the rows per step for which an answer on a CPU does not depend on what is computed beside it (measured).

    One row alone rounds differently from several. Kernels for repacked weights compute four rows at once, and the remainder differently. On
    a GPU there is no such rule.
    """
    if settings.gpu_layers:
        return replace(settings, min_rows=1, row_multiple=1)
    repacked = settings.extra_buffers and settings.weights == "own" and is_repacked(file)
    return replace(settings, min_rows=2, row_multiple=4 if repacked else 1)


def _deterministic(settings: EngineSettings) -> EngineSettings:
    """The settings with which every answer depends on its request alone: plain kernels, or one request at a time on a GPU."""
    if settings.gpu_layers:
        return replace(settings, slots=1, share_prefixes=False, prompt_lookup=False)
    plain = replace(settings, weights="own", extra_buffers=False, kv_cache_type="f16", flash_attention=False)
    return replace(plain, min_rows=max(2, settings.min_rows))


def _usual_settings(file: ModelFile, record: TuningRecord) -> EngineSettings | None:
    """Settings for a CPU that are not measured, only tried once; None if they do not work. A person who asks need not wait longer."""
    room = kv_cache_budget(read_model_memory(file.path, "f16"), Offload(), available_memory())
    n_ctx, slots = context_and_slots(read_model_memory(file.path, "f16"), room, most=UNMEASURED_SLOTS)
    settings = EngineSettings(threads=available_cores(), gpu_layers=0, slots=slots, n_ctx=n_ctx, kv_cache_type="f16")
    try:
        if not record.is_verified(settings):
            _verify(file, settings, record)
    except NativeTrialFailed:
        return None
    return settings


def measure_if_new(file: ModelFile, options: EngineOptions) -> None:
    """Find the fastest settings of a model that has run with usual ones. Raises ModelError, NativeTrialFailed."""
    record, free = read_record(file), sum(d.free for d in offload_devices())
    if record.cached_settings(int(free * 1.05)) is None:
        _autotune(file, options, record, free)


def _for_free_memory(file: ModelFile, settings: EngineSettings) -> EngineSettings:
    """The settings with as many sequences as currently fit into memory, if the KV is in main memory."""
    free = available_memory()
    shape = read_kv_shape(file.path)
    sequence_bytes = shape.bytes_per_token(settings.kv_cache_type) * min(settings.n_ctx, shape.window or settings.n_ctx)
    while free is not None and settings.gpu_layers == 0 and settings.slots > 1 and sequence_bytes * settings.slots > 0.9 * free:
        settings = replace(settings, slots=settings.slots // 2)
    return settings


def _autotune(file: ModelFile, options: EngineOptions, record: TuningRecord, gpu_free: int) -> EngineSettings:
    notify = options.notify
    notify(f"Measuring how {file.name} runs fastest on this machine (only once).")

    def on_trial(name: str, value: Any) -> None:
        record.add_trial(name, value)
        if isinstance(value, dict) and "refused" in value and name.startswith("weights="):
            notify(f"Not used here: {layout_summary(name)}: {value['refused']}.")

    timeout = hang_timeout(total_size(file.path))
    chosen = run_in_child("search:search_settings", {"file": model_file_to_json(file)}, record.known(), on_trial, seconds=timeout)
    settings = record.save_settings(gpu_free, chosen)
    notify(settings_summary(settings))
    return settings


def _verify(file: ModelFile, settings: EngineSettings, record: TuningRecord) -> None:
    if reason := record.rejected_layouts.get(sized_layout_key(settings)):
        raise NativeTrialFailed(
            f"{file.name} with {layout_summary(sized_layout_key(settings))} does not work on this machine: {reason}.", AUTOTUNE_HINT
        )
    job = {"file": model_file_to_json(file), "settings": asdict(settings)}
    run_in_child("search:verify_settings", job, record.known(), record.add_trial, seconds=hang_timeout(total_size(file.path)))


def settings_summary(s: EngineSettings) -> str:
    """The settings in one line."""
    weights = "" if s.weights == "own" else f"weights in {s.weights}, "
    gpu = f"{'all' if s.gpu_layers < 0 else s.gpu_layers} layers on the GPU, " if HAS_GPU_OFFLOAD and s.gpu_layers else ""
    attention = "flash attention, " if s.flash_attention else ""
    return f"{s.slots} parallel sequences, {weights}{gpu}{attention}{s.kv_cache_type}, {s.threads} threads"


def estimate_memory(file: ModelFile, options: EngineOptions) -> tuple[float, float, EngineSettings]:
    """Bytes of a model's weights, bytes of its KV, and the settings assumed; nothing is loaded or measured. Raises ModelError."""
    settings = validate((read_record(file).cached_settings(1 << 62) or EngineSettings()).with_values(options.overrides))
    copied = copy_path(file, settings.weights)
    shape = read_kv_shape(file.path)
    n_tokens = min(settings.n_ctx, shape.window or settings.n_ctx) * settings.slots
    path = copied if settings.weights != "own" and copied.exists() else file.path
    return total_size(path), n_tokens * shape.bytes_per_token(settings.kv_cache_type), settings


def read_record(file: ModelFile) -> TuningRecord:
    """The tuning record of a model on this machine."""
    machine = sha256(json.dumps(_machine()).encode()).hexdigest()[:12]
    record = TuningRecord(cache_dir() / "tuning" / f"{file.fingerprint}-{machine}.json")
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(record.path.read_text())
        record.verified_layouts, record.rejected_layouts, record.choices = stored["proved"], stored["refused"], stored["choices"]
    return record


def _machine() -> list[Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    cards = [[d.name, d.description, d.total] for d in offload_devices()]
    return [cpu, available_cores(), os.cpu_count(), LLAMA_CPP_VERSION, cards]


def open_pooled(file: ModelFile, *, scores: bool = False, threads: int | None = None) -> PooledModel:
    """Load an embedding model or reranker: on a GPU that has room for it, else with the plain kernels of the CPU. Raises ModelError."""
    fits = any(d.free > COMPUTE_BUFFER_BYTES + 1.2 * total_size(file.path) for d in offload_devices())
    return PooledModel(file, EngineSettings(gpu_layers=-1 if fits else 0, extra_buffers=False), scores=scores, threads=threads)
