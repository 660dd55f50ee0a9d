"""The settings a model runs best with on this machine: found in a child process, each layout proved before it is measured.

What wins differs: on this project's CPUs KV streams of their own with keys in q8_0, without flash attention; on a GPU another.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from localrag.engine.hardware import fit
from localrag.engine.hardware import speed as measure
from localrag.engine.hardware.proof import compare, keep_reference, plain, with_rules
from localrag.engine.hardware.speed import Busy, Effort, Measured, best
from localrag.engine.hardware.trial import Journal
from localrag.engine.llama.chat import Llama
from localrag.engine.llama.copies import COPY_TYPES, copy_path, useful_copies
from localrag.engine.llama.devices import gpus
from localrag.engine.settings import LEAVE, EngineSettings, brief, layout, sized
from localrag.engine.shape import shape_of
from localrag.errors import ModelError, Refused
from localrag.models import ModelFile, weights_size
from localrag.system.cores import free_cores, free_memory

MEASURED_CONTEXT = 768  # cells of a sequence while measuring
MOST_SLOTS = 32
CPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv": "q8_0/bf16"},
    {"kv": "q8_0/f32"},
    {"kv": "f16"},
    {"kv": "f16", "flash_attention": True},
)
# On CPU, attention over one KV for all costs every sequence the length of all of them (124 ms a step against 47, eight of 700 tokens).
GPU_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"kv": "f16", "flash_attention": True},
    {"kv": "f16", "flash_attention": True, "unified": True},
    {"kv": "q8_0", "flash_attention": True, "unified": True},
    {"kv": "f16"},
)
WEIGHTS_TOGETHER = 1 << 30  # bytes of weights that may be loaded several times over while their kinds are compared


def search(journal: Journal, *, file: dict[str, str], values: str, deterministic: bool) -> dict[str, Any]:
    """`{"settings", "measured", "busy"}`: the best settings beside those in `values`, which hold. Raises ModelError where nothing works.

    Takes some 40 s for 135M parameters on 2 cores, longer for more.
    """
    with tempfile.TemporaryDirectory() as folder, closing(_Search(journal, read_file(file), values, Path(folder))) as found:
        return found.run(deterministic=deterministic)


def prove(journal: Journal, *, file: dict[str, str], settings: dict[str, Any]) -> float:
    """How far settings are from the plain layout's logits, in nats, tried with their real context. Raises Refused, ModelError."""
    with tempfile.TemporaryDirectory() as folder, closing(_Search(journal, read_file(file), "", Path(folder))) as found:
        return found.prove(EngineSettings(**settings))


def write_file(file: ModelFile) -> dict[str, str]:
    """A model as a job's value."""
    return {"name": file.name, "kind": file.kind, "path": str(file.path)}


def read_file(values: dict[str, str]) -> ModelFile:
    """The model of a job's value."""
    return ModelFile(values["name"], values["kind"], Path(values["path"]))


class _Search:
    """The steps of a search over one model's settings. `_loaded` holds its weights as they are loaded now, by how."""

    def __init__(self, journal: Journal, file: ModelFile, values: str, folder: Path) -> None:
        self.journal, self.file, self.values, self.folder = journal, file, values, folder
        self.by_hand = {part.partition("=")[0].strip().replace("-", "_") for part in values.split(",")}
        self.placed = fit.Offload()
        self._loaded: dict[tuple[Any, ...], Llama] = {}
        self.effort: Effort | None = None
        self.busy = False
        self.rows: list[Measured] = []

    def run(self, *, deterministic: bool) -> dict[str, Any]:
        """The whole search. What the user set by hand holds in all of it. Raises ModelError where nothing works."""
        base = self._base()
        while True:
            found = self._best("ways", self._proved(self._ways(base)))
            self._drop_copies(found.weights)
            found = self._best("layouts", self._proved(self._layouts(found)))
            if found.threads >= 4 and "threads" not in self.by_hand:  # two threads of one core may gain nothing
                found = self._best(f"threads {layout(found)}", [found, replace(found, threads=found.threads // 2)])
            found = self._sized(found)
            try:
                found = self._deterministic(found) if deterministic else self._held(self._ruled(found))
            except Refused:  # a layout that fails this late is left out of the next round
                continue
            return {"settings": asdict(self._real(found)), "measured": [m.to_json() for m in self.rows], "busy": self.busy}

    def close(self) -> None:
        """Free the weights that are loaded."""
        while self._loaded:
            self._loaded.popitem()[1].close()

    def prove(self, settings: EngineSettings) -> float:
        """How far a layout is from the plain one; tried once. Raises Refused, ModelError."""
        try:
            self.journal.check(layout(settings))  # a process of the user's may have died of it, whatever the size
            return float(self.journal.once(sized(settings), lambda: self._compared(settings)))
        except Refused as error:
            raise Refused(
                f"{self.file.name} with {brief(layout(settings))} does not work on this machine: {error}.",
                LEAVE,
            ) from error

    def _compared(self, settings: EngineSettings) -> float:
        reference = self._reference(settings)
        made = self._model(settings).sibling(settings)
        try:
            return compare(made, reference)
        finally:
            made.close()

    def _reference(self, settings: EngineSettings) -> Path:
        path = self.folder / "reference.npz"
        if not path.exists():
            alone = plain(settings)
            made = self._model(alone).sibling(alone)
            keep_reference(made, path)
            made.close()
        return path

    def _model(self, settings: EngineSettings) -> Llama:
        """The model with its weights loaded as the settings say: one at a time on the GPU, and one large one on the CPU."""
        way = (bool(settings.gpu_layers), settings.gpu_layers, settings.cpu_experts, settings.weights, settings.extra_buffers)
        if way not in self._loaded:
            for other in [w for w, made in self._loaded.items() if w[0] == way[0] and (way[0] or made.size > WEIGHTS_TOGETHER)]:
                self._loaded.pop(other).close()
            small = replace(settings, slots=1, context=256, unified=False, kv="f16", flash_attention=False)
            self._loaded[way] = Llama(self.file, small)
        return self._loaded[way]

    def _held(self, settings: EngineSettings) -> EngineSettings:
        """The settings with the user's own in place."""
        return settings.with_values(self.values)

    def _base(self) -> EngineSettings:
        """Where to start from: what goes to a GPU, and the size that is measured."""
        start = EngineSettings(threads=free_cores(), gpu_layers=0, slots=8, context=MEASURED_CONTEXT)
        if found := gpus():
            by_hand = self._held(start).gpu_layers if "gpu_layers" in self.by_hand else None
            free, total = [d.free for d in found], [d.total for d in found]
            self.placed = fit.offload(shape_of(self.file.path, "f16"), free, total, layers=by_hand)
        return self._held(replace(start, gpu_layers=self.placed.gpu_layers, cpu_experts=self.placed.cpu_experts))

    def _ways(self, base: EngineSettings) -> Iterator[EngineSettings]:
        """How the weights may be loaded, in the order of what is expected; without extra buffers where a large model cannot with them."""
        if base.gpu_layers:
            yield self._held(replace(base, flash_attention=True))
            base = self._held(replace(base, gpu_layers=0, cpu_experts=0))  # a small or integrated GPU may lose to the CPU
            if base.gpu_layers:
                return
        copies = useful_copies(self.file) if not self.placed.gpu_layers else ()
        for weights in sorted(("own", *copies), key=lambda name: name != "q8_0"):  # only made of types whose own kernels are slow
            way = self._held(replace(base, weights=weights))
            yield way
            alone = self._held(replace(way, extra_buffers=False))
            if alone != way and (self.journal.refused(sized(way)) or (weights == "own" and self._is_small())):
                yield alone

    def _is_small(self) -> bool:
        return weights_size(self.file.path) <= WEIGHTS_TOGETHER

    def _layouts(self, way: EngineSettings) -> Iterator[EngineSettings]:
        for change in GPU_LAYOUTS if way.gpu_layers else CPU_LAYOUTS:
            yield self._held(replace(way, **change))

    def _proved(self, choices: Iterable[EngineSettings]) -> list[EngineSettings]:
        """Those choices, each once, that work here. Raises ModelError where none does."""
        found: dict[EngineSettings, None] = {}
        last: ModelError | None = None
        for settings in choices:
            try:
                self.prove(settings)
                found[settings] = None
            except ModelError as error:
                last = error
        if not found:
            raise last or ModelError("No layout works for this model.", "Look at this machine: localrag doctor")
        return list(found)

    def _best(self, stage: str, choices: list[EngineSettings]) -> EngineSettings:
        """The choice that the rounds agree on; the first where the machine is too busy to tell."""
        if len(choices) == 1:
            return choices[0]
        measured = self._measured(stage, choices[0], lambda effort: measure.compare([(self._model(s), s) for s in choices], effort))
        found = [m for m in measured if m.settings in choices]  # one may have been refused since
        return best(found, prefer_exact=not choices[0].gpu_layers).settings if found else choices[0]

    def _measured(self, stage: str, first: EngineSettings, work: Callable[[Effort], list[Measured]]) -> list[Measured]:
        """What is measured in a stage, done once; nothing where the machine is busy."""

        def measured() -> list[Any] | None:
            try:
                return [asdict(m) for m in work(self._effort(first))]
            except Busy:
                return None

        try:
            found = None if self.busy else self.journal.once(f"measured {stage}", measured)
        except Refused:  # a layout that passed its proof died of being measured: the order of what is expected stands
            return []
        self.busy |= found is None
        rows = [Measured(EngineSettings(**m["settings"]), tuple(m["reads"]), tuple(m["writes"])) for m in found or ()]
        self.rows += rows
        return rows

    def _effort(self, settings: EngineSettings) -> Effort:
        """What this model's speed allows, found out once. Raises Busy."""
        self.effort = self.effort or measure.effort_for(self._model(settings))
        return self.effort

    def _drop_copies(self, kept: str) -> None:
        """Remove the copies of the weights that were not chosen."""
        for way in [w for w in self._loaded if w[3] != kept]:
            self._loaded.pop(way).close()
        for weights in COPY_TYPES:
            if weights != kept:
                copy_path(self.file, weights).unlink(missing_ok=True)

    def _sized(self, found: EngineSettings) -> EngineSettings:
        """How long a window the memory holds, and how many sequences at once pay best; what a step then costs."""
        shape = shape_of(self.file.path, found.kv)
        room = fit.kv_room(shape, self.placed if found.gpu_layers else fit.Offload(), free_memory())
        context, slots = (getattr(found, n) if n in self.by_hand else None for n in ("context", "slots"))
        context, most = fit.window_and_slots(shape, room, most=MOST_SLOTS, context=context, slots=slots)
        counts = [n for n in (16, 8, 4, 32) if n <= most and not slots] or [most]
        measured: list[Measured] = []
        if len(counts) > 1:
            measured = self._measured(f"sizes {layout(found)}", found, lambda e: measure.sizes(self._model(found), found, counts, e))
        found = replace(best(measured).settings if measured else replace(found, slots=counts[0]), context=MEASURED_CONTEXT)
        with suppress(Refused):
            step = None if self.busy else self.journal.once(f"measured costs {layout(found)}", lambda: self._costs(found))
            found = replace(found, pass_rows=step[0], slot_rows=step[1]) if step else found
        return replace(self._held(found), context=context)

    def _costs(self, found: EngineSettings) -> list[float] | None:
        try:
            return list(measure.costs(self._model(found), found, self._effort(found)))
        except Busy:
            return None

    def _ruled(self, found: EngineSettings) -> EngineSettings:
        """The settings with the rules for rows that keep answers independent of their company, where there are such."""
        # Threads share out rows and round none of them; beside another process two of them wait for each other most of the time.
        tried = replace(found, threads=1) if self.busy else found
        try:
            rules = self.journal.once(f"rules {layout(found)}", lambda: asdict(with_rules(self._model(found), tried)))
        except Refused as error:  # what a step of some number of rows dies of, an index would die of
            self.journal.refuse(layout(found), str(error))
            raise
        return replace(found, **{n: rules[n] for n in ("least_rows", "row_multiple", "exact")})

    def _deterministic(self, found: EngineSettings) -> EngineSettings:
        """The settings, or where they are not exact the nearest that are: every answer depends on its request alone. Raises Refused."""
        last = found
        for tried in (found, replace(found, unified=False, flash_attention=False, kv="f16")):
            with suppress(Refused):
                self.prove(replace(tried, context=MEASURED_CONTEXT))
                last = self._ruled(tried)
                if last.exact:
                    return last
        self.journal.check(layout(last))
        # One request at a time, each computed from its first token on.
        return replace(last, slots=1, share_prefixes=False, drafts=False)

    def _real(self, found: EngineSettings) -> EngineSettings:
        """The settings as they will be used, tried with their whole context; with less of it where that does not work."""
        while True:
            try:
                self.prove(found)
                return found
            except ModelError:
                if found.slots > 1 and "slots" not in self.by_hand:
                    found = replace(found, slots=found.slots // 2)
                elif found.context > 512 and "context" not in self.by_hand:
                    found = replace(found, context=found.context // 2)
                elif found.gpu_layers and "gpu_layers" not in self.by_hand:
                    found = self._held(replace(found, gpu_layers=0, cpu_experts=0, unified=False, flash_attention=False, kv="f16"))
                else:
                    raise
