"""Opening models with tuned settings; tuning records.

Native code never runs for the first time in the user's process: layouts are verified and measured once, in child processes. The record of a
(model file, llama.cpp build, machine) stores which layouts work, which do not and why, and the best settings for each set of overrides. A
layout with which a user's process crashed is recognised by the marker file it left, and is not used again.
"""

import atexit
import faulthandler
import json
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from localrag.engine.autotune.search import model_file_from_json, model_file_to_json
from localrag.engine.autotune.trial import TrialLog, hang_timeout, run_in_child
from localrag.engine.llama.library import HAS_GPU_OFFLOAD, LLAMA_CPP_VERSION, gpu_driver_version, offload_devices
from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.pooled import OutputKind, PooledModel
from localrag.engine.llama.weights import copy_path
from localrag.engine.memory import COMPUTE_BUFFER_BYTES, Offload, context_and_slots, kv_cache_budget, read_kv_shape, read_model_memory
from localrag.engine.settings import (
    AUTOTUNE_HINT,
    EngineOptions,
    EngineSettings,
    layout_key,
    layout_summary,
    sized_layout_key,
    validate,
)
from localrag.errors import ModelError, NativeTrialFailed
from localrag.model_files import ModelFile, total_size
from localrag.system.files import cache_dir, ensure_private_file, ensure_private_folder, write_atomically
from localrag.system.resources import available_cores, available_memory

UNMEASURED_SLOTS = 4  # sequences at once, before their number is measured
RETRY_AFTER_S = 3600  # until a machine that was too busy is measured again
# Overrides with which the other settings are measured.
_MEASURED_WITH = ("gpu_layers", "gpu-layers", "cpu_experts", "cpu-experts", "weights")
_SETTINGS_WITHOUT_EFFECT = frozenset({"share_prefixes", "forced_tokens", "prompt_lookup", "lazy_masks"})  # on measurements


@dataclass(slots=True)
class TuningRecord:
    """The tuning results of one model on one machine.

    `verified_layouts` and `rejected_layouts` are keyed by `sized_layout_key`, `choices` by the overrides.
    """

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
        if not name.startswith(("weights=", "vocabulary")):
            return
        if not isinstance(value, dict):
            self.verified_layouts[name] = float(value)
        elif not value["passing"]:
            self.rejected_layouts[name] = value["refused"]
        self.save()

    def known(self) -> dict[str, Any]:
        """The trials that a child process need not repeat."""
        return {**self.verified_layouts, **{name: {"refused": reason, "passing": False} for name, reason in self.rejected_layouts.items()}}

    def cached_settings(self, values: str, gpu_free: int = 0) -> EngineSettings | None:
        """The stored settings for these overrides that need no more GPU memory than is free; None if there are none.

        Settings of another version, those measured on a busy machine some time ago, and those rejected since are ignored.
        """
        usable = []
        for key, choice in self.choices.items():
            name, _, needed = key.rpartition("@")
            if name != _key(values) or int(needed) > gpu_free or (choice["busy"] and time.time() - choice["at"] > RETRY_AFTER_S):
                continue
            if choice["settings"].keys() == asdict(EngineSettings()).keys() and not self.rejection_reason(
                settings := EngineSettings(**choice["settings"])
            ):
                usable.append((int(needed), settings))
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

    def save_settings(self, values: str, gpu_free: int, choice: dict[str, Any]) -> None:
        """Store the settings chosen for these overrides, and the free GPU memory they were measured with."""
        self.choices[f"{_key(values)}@{gpu_free}"] = choice | {"at": time.time()}
        self.save()

    def rejection_reason(self, s: EngineSettings) -> str:
        """Why these settings are rejected; empty if they are not."""
        return self.rejected_layouts.get(layout_key(s), "") or self.rejected_layouts.get(sized_layout_key(s), "")

    def is_verified(self, s: EngineSettings) -> bool:
        """Whether these settings, or the same layout with at least as much context, have run here."""
        for name in self.verified_layouts:
            layout, _, context = name.rpartition(",n_ctx=")
            layout, _, slots = layout.rpartition(",slots=")
            if layout == layout_key(s) and int(slots) >= s.slots and int(context) >= s.n_ctx:
                return True
        return False


def open_backend(file: ModelFile, options: EngineOptions) -> LlamaModel:
    """Load the model with the settings tuned for this machine (tuning now if needed) and the user's overrides.

    Raises ModelError, and NativeTrialFailed if the overrides do not work on this machine.
    """
    record = read_record(file)
    if options.retune:
        record = TuningRecord(record.path)
    return _open(file, _choose_layout(file, options, record), record)


def open_with(file: ModelFile, settings: EngineSettings) -> LlamaModel:
    """Load the model with given settings, or without the CPU's extra buffers if they do not work; nothing is measured.

    Raises ModelError, and NativeTrialFailed if neither works on this machine.
    """
    record = read_record(file)
    try:
        return _open(file, settings, record)
    except NativeTrialFailed:
        return _open(file, replace(settings, extra_buffers=False), record)


def _open(file: ModelFile, settings: EngineSettings, record: TuningRecord) -> LlamaModel:
    if not record.is_verified(settings):
        _verify(file, settings, record)
    write_crash_marker(record, settings)
    return LlamaModel(file, settings)


def _choose_layout(file: ModelFile, options: EngineOptions, record: TuningRecord) -> EngineSettings:
    values = options.overrides + (",deterministic" if options.deterministic else "")
    free = sum(d.free for d in offload_devices())
    # 5 % less memory than when measured is tolerated; if other programs have taken more, fewer layers or less KV fit.
    enough = int(free * 1.05)
    settings = None if options.retune else record.cached_settings(values, enough)
    if settings is None and not (options.deterministic or options.retune or any(name in values for name in _MEASURED_WITH)):
        settings = record.cached_settings("", enough)
    if settings is None and options.measure_later and not (values or options.retune or free):
        settings = _usual_settings(file, record)
    if settings is None:
        settings = _autotune(file, options, record, values, free)
    by_hand = validate(settings if options.deterministic else settings.with_values(options.overrides))
    return by_hand if "slots" in values or "n_ctx" in values else _for_free_memory(file, by_hand)


def _usual_settings(file: ModelFile, record: TuningRecord) -> EngineSettings | None:
    """Settings for a CPU that are not measured, only tried once; None if they do not work. A person who asks need not wait longer."""
    shape = read_model_memory(file.path, "f16")
    room = kv_cache_budget(shape, Offload(), available_memory())
    n_ctx, slots = context_and_slots(shape, room, most=UNMEASURED_SLOTS)
    settings = EngineSettings(threads=available_cores(), gpu_layers=0, slots=slots, n_ctx=n_ctx, kv_cache_type="f16", batch_invariant=False)
    try:
        if not record.is_verified(settings):
            _verify(file, settings, record)
    except NativeTrialFailed:
        return None
    return settings


def measure_if_new(file: ModelFile, options: EngineOptions) -> None:
    """Find the fastest settings of a model that has run with usual ones. Raises ModelError, NativeTrialFailed."""
    record = read_record(file)
    free = sum(d.free for d in offload_devices())
    if not options.overrides and not options.deterministic and record.cached_settings("", int(free * 1.05)) is None:
        _autotune(file, options, record, "", free)


def _for_free_memory(file: ModelFile, settings: EngineSettings) -> EngineSettings:
    """The settings with as many sequences as currently fit into memory, if the KV is in main memory."""
    free = available_memory()
    shape = read_kv_shape(file.path)
    sequence_bytes = shape.bytes_per_token(settings.kv_cache_type) * min(settings.n_ctx, shape.window or settings.n_ctx)
    while free is not None and settings.gpu_layers == 0 and settings.slots > 1 and sequence_bytes * settings.slots > 0.9 * free:
        settings = replace(settings, slots=settings.slots // 2)
    return settings


def _autotune(file: ModelFile, options: EngineOptions, record: TuningRecord, values: str, gpu_free: int) -> EngineSettings:
    """Tune in a child process and store the result."""
    notify = options.notify
    notify(f"Measuring how {file.name} runs fastest on this machine (only once).")
    known = record.known()

    def on_trial(name: str, value: Any) -> None:
        record.add_trial(name, value)
        if isinstance(value, dict) and "refused" in value and name.startswith("weights="):
            notify(f"Not used here: {layout_summary(name)}: {value['refused']}.")

    job = {"file": model_file_to_json(file), "values": options.overrides, "deterministic": options.deterministic}
    choice = run_in_child("search:search_settings", job, known, on_trial, seconds=hang_timeout(total_size(file.path)))
    record.save_settings(values, gpu_free, choice)
    if choice["busy"]:
        notify("The machine is busy: default settings are used now and measured later.")
    settings = EngineSettings(**choice["settings"])
    notify(settings_summary(settings))
    return settings


def _verify(file: ModelFile, settings: EngineSettings, record: TuningRecord) -> None:
    """Try settings in a child process. Raises NativeTrialFailed, ModelError."""
    if reason := record.rejection_reason(settings):
        raise NativeTrialFailed(
            f"{file.name} with {layout_summary(sized_layout_key(settings))} does not work on this machine: {reason}.", AUTOTUNE_HINT
        )
    job = {"file": model_file_to_json(file), "settings": asdict(settings)}
    run_in_child("search:verify_settings", job, record.known(), record.add_trial, seconds=hang_timeout(total_size(file.path)))


def check_vocabulary(file: ModelFile) -> None:
    """Check, once and in a child process, that llama.cpp can open a model's vocabulary. Raises NativeTrialFailed."""
    record = read_record(file)
    if "vocabulary" not in record.verified_layouts:
        run_in_child("measure:check_tokenizer", {"path": str(file.path)}, record.known(), record.add_trial)


def settings_summary(s: EngineSettings) -> str:
    """The settings in one line."""
    weights = "" if s.weights == "own" else f"weights in {s.weights}, "
    gpu = f"{'all' if s.gpu_layers < 0 else s.gpu_layers} layers on the GPU, " if HAS_GPU_OFFLOAD and s.gpu_layers else ""
    layout = weights + gpu + ("one KV for all" if s.kv_unified else "a KV each") + (", flash attention" if s.flash_attention else "")
    return f"{s.slots} parallel sequences, {layout}, {s.kv_cache_type}, {s.threads} threads" + (
        "" if s.batch_invariant else "; answers may depend on parallel requests"
    )


def estimate_memory(file: ModelFile, options: EngineOptions) -> tuple[float, float, EngineSettings]:
    """Bytes of a model's weights, bytes of its KV, and the settings assumed; nothing is loaded or measured. Raises ModelError."""
    settings = validate((read_record(file).cached_settings("", 1 << 62) or EngineSettings()).with_values(options.overrides))
    copied = copy_path(file, settings.weights)
    shape = read_kv_shape(file.path)
    n_tokens = min(settings.n_ctx, shape.window or settings.n_ctx) * settings.slots
    path = copied if settings.weights != "own" and copied.exists() else file.path
    return total_size(path), n_tokens * shape.bytes_per_token(settings.kv_cache_type), settings


def read_record(file: ModelFile) -> TuningRecord:
    """The tuning record of a model on this machine, updated from the crash markers of earlier processes."""
    machine = sha256(json.dumps(_machine()).encode()).hexdigest()[:12]
    record = TuningRecord(cache_dir() / "tuning" / f"{file.fingerprint}-{machine}.json")
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(record.path.read_text())
        record.verified_layouts, record.rejected_layouts, record.choices = stored["proved"], stored["refused"], stored["choices"]
    _read_crash_markers(record)
    return record


def _machine() -> list[Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    cards = [[d.name, d.description, d.total] for d in offload_devices()]
    return [cpu, available_cores(), os.cpu_count(), LLAMA_CPP_VERSION, cards, gpu_driver_version() if cards else ""]


def _key(values: str) -> str:
    """The overrides in normalised order, without those that do not affect measurements."""
    parts = {p.strip().replace("-", "_").replace(" ", "") for p in values.split(",") if p.strip()}
    return ",".join(sorted(p for p in parts if p.partition("=")[0] not in _SETTINGS_WITHOUT_EFFECT))


_crash_markers: list[Any] = []  # open until the process ends


def write_crash_marker(record: TuningRecord, settings: EngineSettings) -> None:
    """Write a marker file before a model is loaded, so that the next process learns if this one crashes while computing."""
    if faulthandler.is_enabled() and not _crash_markers:  # another program has enabled it
        return  # afterwards the marker names the model loaded last
    with suppress(OSError):
        mark = ensure_private_file(record.path.with_name(f"{record.path.stem}.{os.getpid()}.died"))
        stream = mark.open("w", encoding="utf-8")
        # A GPU's driver may crash for lack of memory, so only this size is rejected. On a CPU the layout is the cause.
        stream.write(f"{sized_layout_key(settings) if settings.gpu_layers else layout_key(settings)}\n")
        stream.flush()
        faulthandler.enable(stream)
        _crash_markers.append(stream)
        atexit.register(mark.unlink, missing_ok=True)


def _read_crash_markers(record: TuningRecord) -> None:
    """Reject the layouts of processes that crashed in llama.cpp; markers of processes that were killed are deleted."""
    for mark in record.path.parent.glob(f"{record.path.stem}.*.died"):
        with suppress(OSError, ValueError):
            if psutil.pid_exists(int(mark.name.split(".")[-2])):
                continue
            name, _, text = mark.read_text(encoding="utf-8", errors="replace").partition("\n")
            mark.unlink()
            died = re.match(r"Fatal Python error: (.*)", text)
            if died and "engine/llama/" in text.replace(os.sep, "/"):
                record.verified_layouts = {
                    layout: divergence for layout, divergence in record.verified_layouts.items() if not f"{layout},".startswith(f"{name},")
                }
                record.rejected_layouts[name] = f"it ended a process that used it ({died[1]})"
                record.save()


MIN_COSINE = 0.99  # to the plain layout's vectors; 16-bit floats and other kernels stay over 0.999 (measured)


def open_pooled(file: ModelFile, gives: OutputKind = "vectors", threads: int | None = None) -> PooledModel:
    """Load an embedding model or reranker. Raises ModelError, and NativeTrialFailed if no layout works on this machine."""
    record = read_record(file)
    settings = record.cached_settings("")
    if settings is None:
        job = {"file": model_file_to_json(file), "gives": gives}
        chosen = run_in_child(
            "load:choose_pooled_settings", job, record.known(), record.add_trial, seconds=hang_timeout(total_size(file.path))
        )
        record.save_settings("", 0, {"settings": chosen, "busy": False})
        settings = EngineSettings(**chosen)
    write_crash_marker(record, settings)
    return PooledModel(file, settings, gives, threads)


def choose_pooled_settings(journal: TrialLog, *, file: dict[str, str], gives: OutputKind) -> dict[str, Any]:
    """The first layout whose outputs equal those of the plain layout. Raises NativeTrialFailed if there is none."""
    model = model_file_from_json(file)
    expected = _probe_outputs(model, EngineSettings(gpu_layers=0, extra_buffers=False), gives)
    last_error: ModelError | None = None

    def tried(settings: EngineSettings) -> float:
        return _check_equal(expected, _probe_outputs(model, settings, gives), gives)

    for settings in _pooled_layouts(model):
        try:
            journal.run_once(layout_key(settings), partial(tried, settings))
            return asdict(settings)
        except NativeTrialFailed as error:
            last_error = error
    raise last_error or NativeTrialFailed(f"{model.path.name} does not work on this machine.", "Give another model.")


def _pooled_layouts(model: ModelFile) -> Iterator[EngineSettings]:
    on_cpu = EngineSettings(gpu_layers=0)
    if any(d.free > COMPUTE_BUFFER_BYTES + 1.2 * total_size(model.path) for d in offload_devices()):
        yield replace(on_cpu, gpu_layers=-1)
    yield on_cpu
    yield replace(on_cpu, extra_buffers=False)


def _probe_outputs(model: ModelFile, settings: EngineSettings, gives: OutputKind) -> NDArray[np.float32]:
    """The outputs for texts of one token up to a full batch."""
    pooled = PooledModel(model, settings, gives)
    lengths = [1, 2, 7, 16, 33, 64, pooled.window // 2, pooled.window]
    return pooled.compute([[5 + 13 * i % min(997, pooled.tokens - 6) for i in range(n)] for n in lengths])


def _check_equal(expected: NDArray[np.float32], got: NDArray[np.float32], gives: OutputKind) -> float:
    """The deviation from the plain layout: 1 - cosine; for scores, the largest difference over their spread. Raises NativeTrialFailed."""
    if gives == "scores":
        away = float(np.abs(expected - got).max() / max(1e-3, float(np.ptp(expected))))
    else:
        lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(got, axis=1)
        away = float(1 - ((expected * got).sum(axis=1) / np.maximum(lengths, 1e-12)).min())
    if not away <= 1 - MIN_COSINE:
        raise NativeTrialFailed(f"its results differ from those of the plain layout ({away:.2g} away)")
    return round(away, 6)
