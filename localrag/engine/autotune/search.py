"""Search for the fastest settings of a model on this machine.

Runs in a child process. Memory needs are estimates with a margin; each layout is verified before it is measured, and the result once more
with its full context. Results differ by machine: on the CPUs tested, separate KV streams with q8_0 keys and without flash attention are
fastest; on a GPU another layout.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from localrag.engine.autotune import measure
from localrag.engine.autotune.measure import (
    MachineBusy,
    Measurement,
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
from localrag.engine.memory import MAX_SLOTS, Offload, context_and_slots, kv_cache_budget, offload, read_model_memory
from localrag.engine.settings import AUTOTUNE_HINT, EngineSettings, layout_key, layout_summary, sized_layout_key
from localrag.errors import ModelError, NativeTrialFailed
from localrag.model_files import ModelFile, total_size
from localrag.system.resources import available_cores, available_memory

BENCHMARK_CONTEXT = 768  # tokens of a sequence while measuring
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
                settings = self._deterministic(settings) if deterministic else self._with_row_rules(settings).with_values(self.values)
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

    def _base(self) -> EngineSettings:
        """The starting point: what goes to a GPU, and the context for measuring."""
        start = EngineSettings(threads=available_cores(), gpu_layers=0, slots=8, n_ctx=BENCHMARK_CONTEXT)
        if gpus := offload_devices():
            by_hand = start.with_values(self.values).gpu_layers if "gpu_layers" in self.by_hand else None
            free, total = [d.free for d in gpus], [d.total for d in gpus]
            self.placed = offload(read_model_memory(self.file.path, "f16"), free, total, layers=by_hand)
        return replace(start, gpu_layers=self.placed.gpu_layers, cpu_experts=self.placed.cpu_experts).with_values(self.values)

    def _weight_layouts(self, base: EngineSettings) -> Iterator[EngineSettings]:
        """Ways to load the weights, most promising first; without extra buffers where a large model does not work with them."""
        if base.gpu_layers:
            yield replace(base, flash_attention=True).with_values(self.values)
            # A small or integrated GPU may be slower than the CPU.
            base = replace(base, gpu_layers=0, cpu_experts=0).with_values(self.values)
            if base.gpu_layers:
                return
        copies = faster_weight_types(self.file) if not self.placed.gpu_layers else ()
        for weights in sorted(("own", *copies), key=lambda name: name != "q8_0"):  # q8_0 is only made of types with slow kernels
            layout = replace(base, weights=weights).with_values(self.values)
            yield layout
            plain = replace(layout, extra_buffers=False).with_values(self.values)
            if plain != layout and (self.journal.is_refused(sized_layout_key(layout)) or (weights == "own" and self._is_small())):
                yield plain

    def _is_small(self) -> bool:
        return total_size(self.file.path) <= MAX_DUPLICATED_WEIGHT_BYTES

    def _layouts(self, base: EngineSettings) -> Iterator[EngineSettings]:
        for change in GPU_LAYOUTS if base.gpu_layers else CPU_LAYOUTS:
            yield replace(base, **change).with_values(self.values)

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
        """The fastest choice; the first if there is no other, or the machine is too busy to measure."""
        measured = self._measured(stage, choices) if len(choices) > 1 else []
        valid = [m for m in measured if m.settings in choices]  # others were rejected since
        return fastest(valid, prefer_exact=not choices[0].gpu_layers).settings if valid else choices[0]

    def _measured(self, stage: str, choices: list[EngineSettings]) -> list[Measurement]:
        """The measurements of a stage, run once; empty if the machine is busy."""

        def compare() -> list[Any] | None:
            try:
                return [asdict(m) for m in measure.compare_layouts([(self._model(s), s) for s in choices])]
            except MachineBusy:
                return None

        try:
            results = None if self.busy else self.journal.run_once(f"measured {stage}", compare)
        except NativeTrialFailed:  # a verified layout crashed while measured: keep the order of preference
            return []
        self.busy |= results is None
        rows = [
            Measurement(EngineSettings(**m["settings"]), tuple(m["prefill_seconds"]), tuple(m["decode_seconds"])) for m in results or ()
        ]
        self.rows += rows
        return rows

    def _drop_copies(self, chosen: str) -> None:
        """Delete the copies of the weights that were not chosen."""
        for layout in [w for w in self._loaded if w[3] != chosen]:
            self._loaded.pop(layout).close()
        for weights in COPY_TYPES:
            if weights != chosen:
                copy_path(self.file, weights).unlink(missing_ok=True)

    def _sized(self, settings: EngineSettings) -> EngineSettings:
        """The settings with the context and the number of sequences that fit into memory."""
        shape = read_model_memory(self.file.path, settings.kv_cache_type)
        room = kv_cache_budget(shape, self.placed if settings.gpu_layers else Offload(), available_memory())
        context, slots = (getattr(settings, n) if n in self.by_hand else None for n in ("n_ctx", "slots"))
        n_ctx, n_slots = context_and_slots(shape, room, most=MAX_SLOTS, context=context, slots=slots)
        return replace(settings, n_ctx=n_ctx, slots=n_slots).with_values(self.values)

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
                    on_cpu = replace(settings, gpu_layers=0, cpu_experts=0, kv_unified=False, flash_attention=False, kv_cache_type="f16")
                    settings = on_cpu.with_values(self.values)
                else:
                    raise
