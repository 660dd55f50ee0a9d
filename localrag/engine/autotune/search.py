"""Search for the fastest settings of a model on this machine, and what fits into its memory.

Runs in a child process. Memory needs are estimates with a margin; each layout is verified before it is measured, and the result once more
with its full context. Results differ by machine: on the CPUs tested, separate KV streams with q8_0 keys and without flash attention are
fastest; on a GPU another layout.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from localrag.engine.autotune import measure
from localrag.engine.autotune.measure import (
    MachineBusy,
    Measurement,
    MeasurementEffort,
    fastest,
    kl_divergence,
    reference_settings,
    save_reference,
    with_invariant_rows,
)
from localrag.engine.autotune.trial import TrialLog
from localrag.engine.llama.library import offload_devices
from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.weights import COPY_TYPES, copy_path, faster_weight_types
from localrag.engine.memory import ModelMemory, read_model_memory
from localrag.engine.settings import AUTOTUNE_HINT, EngineSettings, layout_key, layout_summary, sized_layout_key
from localrag.errors import ModelError, NativeTrialFailed
from localrag.model_files import ModelFile, total_size
from localrag.system.resources import available_cores, available_memory

MIB = 1 << 20
MEMORY_MARGIN = 0.05  # share of a device's memory that stays free, besides COMPUTE_BUFFER_BYTES
COMPUTE_BUFFER_BYTES = 400 * MIB  # on a GPU: llama.cpp's buffers of a step, the driver's context
KV_MEMORY_SHARE = 0.5  # of the memory free beside the weights; the rest is for the embedder, FAISS, and other programs
LARGE_MODEL_PARAMETERS = 1_000_000_000  # a model of this size gets the longer window
CONTEXT_SIZES = (16384, 8192, 4096, 2048, 1024, 512, 256)  # tokens of a sequence
SMALL_MODEL_CONTEXT = 4096  # tokens, below LARGE_MODEL_PARAMETERS
MIN_SEQUENCES = 4  # parallel sequences; the window is shortened to reach this number


@dataclass(frozen=True, slots=True)
class Offload:
    """The part of a model on the GPU: number of layers (-1: all), without the experts of the first `cpu_experts`; bytes left for KV."""

    gpu_layers: int = 0
    cpu_experts: int = 0
    kv_bytes: int = 0


def offload(shape: ModelMemory, free: Sequence[int], totals: Sequence[int], *, layers: int | None = None) -> Offload:
    """The largest part of the model that fits into the GPUs' free memory beside a KV of MIN_SEQUENCES small windows.

    Experts stay on the CPU first. `layers`: a number of layers set by the user, for which only the KV is sized.
    """
    room = sum(max(0, f - COMPUTE_BUFFER_BYTES - int(MEMORY_MARGIN * t)) for f, t in zip(free, totals, strict=True))
    min_kv_bytes = shape.kv_bytes_per_token * MIN_SEQUENCES * min(SMALL_MODEL_CONTEXT, shape.window)
    if layers is not None:
        count = len(shape.layers) if layers < 0 else min(layers, len(shape.layers))
        return Offload(layers, 0, max(0, room - _offloaded(shape, count)))
    offloaded_bytes = _offloaded(shape, len(shape.layers))
    if offloaded_bytes + min_kv_bytes <= room:
        return Offload(-1, 0, room - offloaded_bytes)
    all_experts = len(shape.layers) if any(shape.experts) else 0
    for n_cpu_experts in range(1, all_experts + 1):
        offloaded_bytes -= shape.experts[n_cpu_experts - 1]
        if offloaded_bytes + min_kv_bytes <= room:
            return Offload(-1, n_cpu_experts, room - offloaded_bytes)
    for count in range(len(shape.layers) - 1, 0, -1):
        used = _offloaded(shape, count) - sum(shape.experts[len(shape.layers) - count :])
        if used + min_kv_bytes * count / len(shape.layers) <= room:
            return Offload(count, all_experts, room - used)
    return Offload()


def _offloaded(shape: ModelMemory, count: int) -> int:
    """Bytes of the last `count` layers, which llama.cpp offloads first; all layers include the output."""
    is_complete = count == len(shape.layers)
    return sum(shape.layers[len(shape.layers) - count :]) + (shape.other_weights if is_complete else 0)


def kv_cache_budget(shape: ModelMemory, placed: Offload, free: int | None) -> float:
    """Bytes available for the KV if `placed` is offloaded and `free` bytes of main memory are free."""
    share = 1.0 if placed.gpu_layers < 0 else placed.gpu_layers / max(1, len(shape.layers))
    of_ram = KV_MEMORY_SHARE * max(0, (free if free is not None else 8 << 30) - shape.weights * (placed.gpu_layers >= 0))
    return min(placed.kv_bytes / share if share else of_ram, of_ram / (1 - share) if share < 1 else placed.kv_bytes)


def context_and_slots(
    shape: ModelMemory, room: float, *, most: int, context: int | None = None, slots: int | None = None
) -> tuple[int, int]:
    """Tokens per sequence and number of sequences (at most `most`) in a KV of `room` bytes; set `context` and `slots` are kept.

    The window is shortened before there are fewer than MIN_SEQUENCES sequences.
    """
    max_context = max(CONTEXT_SIZES) if shape.parameters >= LARGE_MODEL_PARAMETERS else SMALL_MODEL_CONTEXT
    windows = [context] if context else [w for w in CONTEXT_SIZES if w <= max_context and w < 2 * shape.window]
    for min_slots in (slots,) if slots else (min(MIN_SEQUENCES, most), 1):
        for window in windows:
            fitting_slots = int(room / max(1.0, shape.kv_bytes_per_token * min(window, shape.window)))
            if fitting_slots >= min_slots:
                return window, slots or min(fitting_slots, most)
    return windows[-1], slots or 1


BENCHMARK_CONTEXT = 768  # tokens of a sequence while measuring
MAX_SLOTS = 32
CPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv_cache_type": "q8_0/bf16"},
    {"kv_cache_type": "q8_0/f32"},
    {"kv_cache_type": "f16"},
    {"kv_cache_type": "f16", "flash_attention": True},
)
# On a CPU, attention over a unified KV costs every sequence the length of all (124 ms a step against 47, eight of 700 tokens).
GPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv_cache_type": "f16", "flash_attention": True},
    {"kv_cache_type": "f16", "flash_attention": True, "kv_unified": True},
    {"kv_cache_type": "q8_0", "flash_attention": True, "kv_unified": True},
    {"kv_cache_type": "f16"},
)
MAX_DUPLICATED_WEIGHT_BYTES = 1 << 30  # weights that may be loaded several times while types are compared


def search_settings(journal: TrialLog, *, file: dict[str, str], values: str, deterministic: bool) -> dict[str, Any]:
    """`{"settings", "measured", "busy"}`: the best settings, with the overrides in `values`. Raises ModelError if nothing works.

    Takes some 40 s for 135M parameters on 2 cores, longer for larger models.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(_SettingsSearch(journal, model_file_from_json(file), values, Path(folder))) as search,
    ):
        return search.run(deterministic=deterministic)


def verify_settings(journal: TrialLog, *, file: dict[str, str], settings: dict[str, Any]) -> float:
    """The divergence of settings from the plain layout, in nats, with their full context. Raises NativeTrialFailed, ModelError."""
    with tempfile.TemporaryDirectory() as folder, closing(_SettingsSearch(journal, model_file_from_json(file), "", Path(folder))) as search:
        return search.prove(EngineSettings(**settings))


def model_file_to_json(file: ModelFile) -> dict[str, str]:
    """A model file as a value of a job."""
    return {"name": file.name, "kind": file.kind, "path": str(file.path)}


def model_file_from_json(values: dict[str, str]) -> ModelFile:
    """The model file of a job's value."""
    return ModelFile(values["name"], values["kind"], Path(values["path"]))


class _SettingsSearch:
    """The search over one model's settings. `_loaded` holds the loaded weights by layout."""

    def __init__(self, journal: TrialLog, file: ModelFile, values: str, folder: Path) -> None:
        self.journal, self.file, self.values, self.folder = journal, file, values, folder
        self.by_hand = {part.partition("=")[0].strip().replace("-", "_") for part in values.split(",")}
        self.placed = Offload()
        self._loaded: dict[tuple[Any, ...], LlamaModel] = {}
        self.effort: MeasurementEffort | None = None
        self.busy = False
        self.rows: list[Measurement] = []

    def run(self, *, deterministic: bool) -> dict[str, Any]:
        """Run the whole search; the user's overrides hold throughout. Raises ModelError if nothing works."""
        base = self._base()
        while True:
            settings = self._best("ways", self._working(self._weight_layouts(base)))
            self._drop_copies(settings.weights)
            settings = self._best("layouts", self._working(self._layouts(settings)))
            if settings.threads >= 4 and "threads" not in self.by_hand:  # hyperthreads may gain nothing
                settings = self._best(f"threads {layout_key(settings)}", [settings, replace(settings, threads=settings.threads // 2)])
            settings = self._sized(settings)
            try:
                settings = self._deterministic(settings) if deterministic else self._with_user_overrides(self._with_row_rules(settings))
            except NativeTrialFailed:  # the next round excludes this layout
                continue
            return {"settings": asdict(self._at_full_size(settings)), "measured": [m.to_json() for m in self.rows], "busy": self.busy}

    def close(self) -> None:
        """Free the loaded weights."""
        while self._loaded:
            self._loaded.popitem()[1].close()

    def prove(self, settings: EngineSettings) -> float:
        """The divergence of a layout from the plain one; tried once. Raises NativeTrialFailed, ModelError."""
        try:
            self.journal.check(layout_key(settings))  # a user's process may have crashed with it at any size
            return float(self.journal.run_once(sized_layout_key(settings), lambda: self._compared(settings)))
        except NativeTrialFailed as error:
            raise NativeTrialFailed(
                f"{self.file.name} with {layout_summary(layout_key(settings))} does not work on this machine: {error}.",
                AUTOTUNE_HINT,
            ) from error

    def _compared(self, settings: EngineSettings) -> float:
        reference = self._reference(settings)
        model = self._model(settings).share_weights(settings)
        try:
            return kl_divergence(model, reference)
        finally:
            model.close()

    def _reference(self, settings: EngineSettings) -> Path:
        path = self.folder / "reference.npz"
        if not path.exists():
            plain = reference_settings(settings)
            model = self._model(plain).share_weights(plain)
            save_reference(model, path)
            model.close()
        return path

    def _model(self, settings: EngineSettings) -> LlamaModel:
        """The model loaded according to the settings: one at a time on the GPU, and one large one on the CPU."""
        layout = (bool(settings.gpu_layers), settings.gpu_layers, settings.cpu_experts, settings.weights, settings.extra_buffers)
        if layout not in self._loaded:
            for other in [
                w for w, model in self._loaded.items() if w[0] == layout[0] and (layout[0] or model.size > MAX_DUPLICATED_WEIGHT_BYTES)
            ]:
                self._loaded.pop(other).close()
            small = replace(settings, slots=1, n_ctx=256, kv_unified=False, kv_cache_type="f16", flash_attention=False)
            self._loaded[layout] = LlamaModel(self.file, small)
        return self._loaded[layout]

    def _with_user_overrides(self, settings: EngineSettings) -> EngineSettings:
        """The settings with the user's overrides."""
        return settings.with_values(self.values)

    def _base(self) -> EngineSettings:
        """The starting point: what goes to a GPU, and the context for measuring."""
        start = EngineSettings(threads=available_cores(), gpu_layers=0, slots=8, n_ctx=BENCHMARK_CONTEXT)
        if gpus := offload_devices():
            by_hand = self._with_user_overrides(start).gpu_layers if "gpu_layers" in self.by_hand else None
            free, total = [d.free for d in gpus], [d.total for d in gpus]
            self.placed = offload(read_model_memory(self.file.path, "f16"), free, total, layers=by_hand)
        return self._with_user_overrides(replace(start, gpu_layers=self.placed.gpu_layers, cpu_experts=self.placed.cpu_experts))

    def _weight_layouts(self, base: EngineSettings) -> Iterator[EngineSettings]:
        """Ways to load the weights, most promising first; without extra buffers where a large model does not work with them."""
        if base.gpu_layers:
            yield self._with_user_overrides(replace(base, flash_attention=True))
            # A small or integrated GPU may be slower than the CPU.
            base = self._with_user_overrides(replace(base, gpu_layers=0, cpu_experts=0))
            if base.gpu_layers:
                return
        copies = faster_weight_types(self.file) if not self.placed.gpu_layers else ()
        for weights in sorted(("own", *copies), key=lambda name: name != "q8_0"):  # q8_0 is only made of types with slow kernels
            layout = self._with_user_overrides(replace(base, weights=weights))
            yield layout
            plain = self._with_user_overrides(replace(layout, extra_buffers=False))
            if plain != layout and (self.journal.is_refused(sized_layout_key(layout)) or (weights == "own" and self._is_small())):
                yield plain

    def _is_small(self) -> bool:
        return total_size(self.file.path) <= MAX_DUPLICATED_WEIGHT_BYTES

    def _layouts(self, base: EngineSettings) -> Iterator[EngineSettings]:
        for change in GPU_LAYOUTS if base.gpu_layers else CPU_LAYOUTS:
            yield self._with_user_overrides(replace(base, **change))

    def _working(self, choices: Iterable[EngineSettings]) -> list[EngineSettings]:
        """The choices that work here, each once. Raises ModelError if none does."""
        working: dict[EngineSettings, None] = {}
        last_error: ModelError | None = None
        for settings in choices:
            try:
                self.prove(settings)
                working[settings] = None
            except ModelError as error:
                last_error = error
        if not working:
            raise last_error or ModelError("No layout works for this model.", "Check this machine: localrag doctor")
        return list(working)

    def _best(self, stage: str, choices: list[EngineSettings]) -> EngineSettings:
        """The fastest choice; the first if the machine is too busy to measure."""
        if len(choices) == 1:
            return choices[0]
        measured = self._measured(stage, choices[0], lambda effort: measure.compare_layouts([(self._model(s), s) for s in choices], effort))
        valid = [m for m in measured if m.settings in choices]  # others were rejected since
        return fastest(valid, prefer_exact=not choices[0].gpu_layers).settings if valid else choices[0]

    def _measured(self, stage: str, first: EngineSettings, work: Callable[[MeasurementEffort], list[Measurement]]) -> list[Measurement]:
        """The measurements of a stage, run once; empty if the machine is busy."""

        def measured() -> list[Any] | None:
            try:
                return [
                    {"settings": asdict(m.settings), "reads": m.prefill_seconds, "writes": m.decode_seconds}
                    for m in work(self._effort(first))
                ]
            except MachineBusy:
                return None

        try:
            results = None if self.busy else self.journal.run_once(f"measured {stage}", measured)
        except NativeTrialFailed:  # a verified layout crashed while measured: keep the order of preference
            return []
        self.busy |= results is None
        rows = [Measurement(EngineSettings(**m["settings"]), tuple(m["reads"]), tuple(m["writes"])) for m in results or ()]
        self.rows += rows
        return rows

    def _effort(self, settings: EngineSettings) -> MeasurementEffort:
        """The effort that this model's speed allows, computed once. Raises MachineBusy."""
        self.effort = self.effort or measure.effort_for(self._model(settings))
        return self.effort

    def _drop_copies(self, chosen: str) -> None:
        """Delete the copies of the weights that were not chosen."""
        for layout in [w for w in self._loaded if w[3] != chosen]:
            self._loaded.pop(layout).close()
        for weights in COPY_TYPES:
            if weights != chosen:
                copy_path(self.file, weights).unlink(missing_ok=True)

    def _sized(self, settings: EngineSettings) -> EngineSettings:
        """The settings with the context that fits, the fastest number of sequences, and the measured step costs."""
        shape = read_model_memory(self.file.path, settings.kv_cache_type)
        room = kv_cache_budget(shape, self.placed if settings.gpu_layers else Offload(), available_memory())
        context, slots = (getattr(settings, n) if n in self.by_hand else None for n in ("n_ctx", "slots"))
        context, max_slots = context_and_slots(shape, room, most=MAX_SLOTS, context=context, slots=slots)
        counts = [n for n in (16, 8, 4, 32) if n <= max_slots and not slots] or [max_slots]
        measured: list[Measurement] = []
        if len(counts) > 1:
            measured = self._measured(
                f"sizes {layout_key(settings)}", settings, lambda e: measure.measure_slot_counts(self._model(settings), settings, counts, e)
            )
        settings = replace(fastest(measured).settings if measured else replace(settings, slots=counts[0]), n_ctx=BENCHMARK_CONTEXT)
        with suppress(NativeTrialFailed):
            step = None if self.busy else self.journal.run_once(f"measured costs {layout_key(settings)}", lambda: self._costs(settings))
            settings = replace(settings, step_overhead_rows=step[0], sequence_overhead_rows=step[1]) if step else settings
        return replace(self._with_user_overrides(settings), n_ctx=context)

    def _costs(self, settings: EngineSettings) -> list[float] | None:
        try:
            return list(measure.measure_step_costs(self._model(settings), settings, self._effort(settings)))
        except MachineBusy:
            return None

    def _with_row_rules(self, settings: EngineSettings) -> EngineSettings:
        """The settings with the rules for rows that make answers independent of the batch, if there are any."""
        # The number of threads does not change rounding; on a busy machine two threads mostly wait for each other.
        tried = replace(settings, threads=1) if self.busy else settings
        try:
            rules = self.journal.run_once(
                f"rules {layout_key(settings)}", lambda: asdict(with_invariant_rows(self._model(settings), tried))
            )
        except NativeTrialFailed as error:  # indexing would crash with it, too
            self.journal.refuse(layout_key(settings), str(error))
            raise
        return replace(settings, **{n: rules[n] for n in ("min_rows", "row_multiple", "batch_invariant")})

    def _deterministic(self, settings: EngineSettings) -> EngineSettings:
        """The nearest exact settings, with which every answer depends on its request alone. Raises NativeTrialFailed."""
        candidate = settings
        for tried in (settings, replace(settings, kv_unified=False, flash_attention=False, kv_cache_type="f16")):
            with suppress(NativeTrialFailed):
                self.prove(replace(tried, n_ctx=BENCHMARK_CONTEXT))
                candidate = self._with_row_rules(tried)
                if candidate.batch_invariant:
                    return candidate
        self.journal.check(layout_key(candidate))
        # One request at a time, each computed from its first token.
        return replace(candidate, slots=1, share_prefixes=False, prompt_lookup=False)

    def _at_full_size(self, settings: EngineSettings) -> EngineSettings:
        """The settings verified with their full context, reduced until they work."""
        while True:
            try:
                self.prove(settings)
                return settings
            except ModelError:
                if settings.slots > 1 and "slots" not in self.by_hand:
                    settings = replace(settings, slots=settings.slots // 2)
                elif settings.n_ctx > 512 and "n_ctx" not in self.by_hand:
                    settings = replace(settings, n_ctx=settings.n_ctx // 2)
                elif settings.gpu_layers and "gpu_layers" not in self.by_hand:
                    settings = self._with_user_overrides(
                        replace(settings, gpu_layers=0, cpu_experts=0, kv_unified=False, flash_attention=False, kv_cache_type="f16")
                    )
                else:
                    raise
