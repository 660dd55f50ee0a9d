"""Search for the fastest settings of a model on this machine.

Runs in a child process. Memory needs are estimates with a margin; each layout is verified before it is measured, and the result once more
with its full context. Results differ by machine: on the CPUs tested, q8_0 keys without flash attention are fastest.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from localrag.engine.autotune.measure import Measurement, compare_layouts, fastest, kl_divergence, probe_logits, reference_settings
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
CPU_LAYOUTS: tuple[dict[str, Any], ...] = ({"kv_cache_type": "q8_0/bf16"}, {"kv_cache_type": "q8_0/f32"}, {"kv_cache_type": "f16"})
GPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv_cache_type": "f16", "flash_attention": True},
    {"kv_cache_type": "q8_0", "flash_attention": True},
    {"kv_cache_type": "f16"},
)
MAX_DUPLICATED_WEIGHT_BYTES = 1 << 30  # weights that may be loaded several times while types are compared


def search_settings(journal: TrialLog, *, file: dict[str, str]) -> dict[str, Any]:
    """The best settings. Raises ModelError if nothing works. Takes some 40 s for 135M parameters on 2 cores, longer for larger models."""
    with closing(_SettingsSearch(journal, model_file_from_json(file))) as search:
        return asdict(search.run())


def verify_settings(journal: TrialLog, *, file: dict[str, str], settings: dict[str, Any]) -> float:
    """The divergence of settings from the plain layout, in nats, with their full context. Raises NativeTrialFailed, ModelError."""
    with closing(_SettingsSearch(journal, model_file_from_json(file))) as search:
        return search.prove(EngineSettings(**settings))


def model_file_to_json(file: ModelFile) -> dict[str, str]:
    """A model file as a value of a job."""
    return {"name": file.name, "kind": file.kind, "path": str(file.path)}


def model_file_from_json(values: dict[str, str]) -> ModelFile:
    """The model file of a job's value."""
    return ModelFile(values["name"], values["kind"], Path(values["path"]))


class _SettingsSearch:
    """The search over one model's settings. `_loaded` holds the loaded weights by layout."""

    def __init__(self, journal: TrialLog, file: ModelFile) -> None:
        self.journal, self.file = journal, file
        self.placed = Offload()
        self._loaded: dict[tuple[Any, ...], LlamaModel] = {}
        self._reference: Any = None  # logits of the plain layout

    def run(self) -> EngineSettings:
        """Run the whole search. Raises ModelError if nothing works."""
        settings = self._best("ways", self._weight_layouts())
        self._drop_copies(settings.weights)
        settings = self._best("layouts", [replace(settings, **change) for change in (GPU_LAYOUTS if settings.gpu_layers else CPU_LAYOUTS)])
        if settings.threads >= 4:  # hyperthreads may gain nothing
            settings = self._best("threads", [settings, replace(settings, threads=settings.threads // 2)])
        return self._at_full_size(self._sized(settings))

    def close(self) -> None:
        """Free the loaded weights."""
        while self._loaded:
            self._loaded.popitem()[1].close()

    def prove(self, settings: EngineSettings) -> float:
        """The divergence of a layout from the plain one; tried once. Raises NativeTrialFailed, ModelError."""
        try:
            return float(self.journal.run_once(sized_layout_key(settings), lambda: self._compared(settings)))
        except NativeTrialFailed as error:
            raise NativeTrialFailed(
                f"{self.file.name} with {layout_summary(layout_key(settings))} does not work on this machine: {error}.",
                AUTOTUNE_HINT,
            ) from error

    def _compared(self, settings: EngineSettings) -> float:
        if self._reference is None:
            plain = reference_settings(settings)
            with closing(self._model(plain).share_weights(plain)) as model:
                self._reference = probe_logits(model)
        with closing(self._model(settings).share_weights(settings)) as model:
            return kl_divergence(model, self._reference)

    def _model(self, settings: EngineSettings) -> LlamaModel:
        """One model at a time on the GPU, and one large one on the CPU."""
        layout = (bool(settings.gpu_layers), settings.gpu_layers, settings.weights, settings.extra_buffers)
        if layout not in self._loaded:
            for other in [
                w for w, model in self._loaded.items() if w[0] == layout[0] and (layout[0] or model.size > MAX_DUPLICATED_WEIGHT_BYTES)
            ]:
                self._loaded.pop(other).close()
            small = replace(settings, slots=1, n_ctx=256, kv_cache_type="f16", flash_attention=False)
            self._loaded[layout] = LlamaModel(self.file, small)
        return self._loaded[layout]

    def _weight_layouts(self) -> Iterator[EngineSettings]:
        """Most promising first; without extra buffers where a large model does not work with them."""
        on_cpu = EngineSettings(threads=available_cores(), gpu_layers=0, slots=8, n_ctx=BENCHMARK_CONTEXT)
        if gpus := offload_devices():
            self.placed = offload(read_model_memory(self.file.path, "f16"), [d.free for d in gpus], [d.total for d in gpus])
        if self.placed.gpu_layers:  # a small or integrated GPU may be slower than the CPU
            yield replace(on_cpu, gpu_layers=self.placed.gpu_layers, flash_attention=True)
        copies = () if self.placed.gpu_layers else faster_weight_types(self.file)
        for weights in sorted(("own", *copies), key=lambda name: name != "q8_0"):  # q8_0 is only made of types with slow kernels
            layout = replace(on_cpu, weights=weights)
            yield layout
            is_small = weights == "own" and total_size(self.file.path) <= MAX_DUPLICATED_WEIGHT_BYTES
            if is_small or self.journal.is_refused(sized_layout_key(layout)):
                yield replace(layout, extra_buffers=False)

    def _best(self, stage: str, choices: Iterable[EngineSettings]) -> EngineSettings:
        working = self._working(choices)
        if len(working) == 1:
            return working[0]

        def compare() -> list[Any]:
            return [asdict(m) for m in compare_layouts([(self._model(s), s) for s in working])]

        try:
            results = self.journal.run_once(f"measured {stage}", compare)
        except NativeTrialFailed:  # a verified layout crashed while measured: keep the order of preference
            return working[0]
        return fastest([Measurement(**m | {"settings": EngineSettings(**m["settings"])}) for m in results]).settings

    def _working(self, choices: Iterable[EngineSettings]) -> list[EngineSettings]:
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

    def _drop_copies(self, chosen: str) -> None:
        for layout in [w for w in self._loaded if w[2] != chosen]:
            self._loaded.pop(layout).close()
        for weights in COPY_TYPES:
            if weights != chosen:
                copy_path(self.file, weights).unlink(missing_ok=True)

    def _sized(self, settings: EngineSettings) -> EngineSettings:
        shape = read_model_memory(self.file.path, settings.kv_cache_type)
        room = kv_cache_budget(shape, self.placed if settings.gpu_layers else Offload(), available_memory())
        n_ctx, slots = context_and_slots(shape, room, most=MAX_SLOTS)
        return replace(settings, n_ctx=n_ctx, slots=slots)

    def _at_full_size(self, settings: EngineSettings) -> EngineSettings:
        """The settings verified with their full context, reduced until they work. Raises ModelError."""
        while True:
            try:
                self.prove(settings)
                return settings
            except ModelError:
                if settings.slots > 1:
                    settings = replace(settings, slots=settings.slots // 2)
                elif settings.n_ctx > 512:
                    settings = replace(settings, n_ctx=settings.n_ctx // 2)
                elif settings.gpu_layers:
                    settings = replace(settings, gpu_layers=0, flash_attention=False, kv_cache_type="f16")
                else:
                    raise
