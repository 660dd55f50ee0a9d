"""Opening a chat model with the settings measured for it here: proved and measured once in processes of their own, and kept.

Nothing native is tried for the first time in the user's process. The record of a (model file, llama.cpp build, machine) holds which layouts
work, which do not and why, and the best settings for each set of values given by hand. A layout during which the user's process itself
died is found by the mark it left, and is not used again.
"""

import atexit
import faulthandler
import json
import os
import platform
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil

from localrag.engine.hardware.choose import write_file
from localrag.engine.hardware.trial import apart, patience
from localrag.engine.kv import kv_shape
from localrag.engine.llama.chat import Llama
from localrag.engine.llama.copies import copy_path
from localrag.engine.llama.devices import driver, gpus
from localrag.engine.llama.library import BUILD, GPU
from localrag.engine.settings import LEAVE, EngineOptions, EngineSettings, brief, checked, layout, sized
from localrag.errors import Refused
from localrag.models import ModelFile, weights_size
from localrag.system.cores import free_cores, free_memory
from localrag.system.files import cache_dir, private_file, private_folder, replace_file

LATER = 3600  # seconds after which a machine that was too busy to measure is tried again
_MEASURED_WITH = ("gpu_layers", "gpu-layers", "cpu_experts", "cpu-experts", "weights")  # given by hand, the rest is measured for them
_OWN = frozenset({"share_prefixes", "forced_tokens", "drafts", "lazy_masks"})  # of no consequence for what is measured


@dataclass(slots=True)
class Record:
    """What is known of one model on one machine. `proved` and `refused` go by `sized`, `choices` by the values given by hand."""

    path: Path
    proved: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self) -> None:
        """Write the record; where that cannot be, the next start finds everything out again."""
        with suppress(OSError):
            private_folder(self.path.parent)
            content = {"proved": self.proved, "refused": self.refused, "choices": self.choices}
            replace_file(self.path, json.dumps(content, indent=1).encode())

    def told(self, name: str, value: Any) -> None:
        """Take in what a child process tried: a layout's proof or refusal is kept at once."""
        if not name.startswith(("weights=", "vocabulary")):
            return
        if not isinstance(value, dict):
            self.proved[name] = float(value)
        elif not value["passing"]:
            self.refused[name] = value["refused"]
        self.save()

    def known(self) -> dict[str, Any]:
        """What a child process need not try again."""
        return {**self.proved, **{name: {"refused": why, "passing": False} for name, why in self.refused.items()}}

    def choice(self, values: str, gpu_free: int = 0) -> EngineSettings | None:
        """The settings kept for such values, and for no more free memory of GPUs than there is; None where there are none.

        Those of another version, of a busy moment some time ago, or refused since, do not count.
        """
        usable = []
        for key, kept in self.choices.items():
            name, _, needed = key.rpartition("@")
            if name != _key(values) or int(needed) > gpu_free or (kept["busy"] and time.time() - kept["at"] > LATER):
                continue
            if kept["settings"].keys() == asdict(EngineSettings()).keys() and not self.why_not(found := EngineSettings(**kept["settings"])):
                usable.append((int(needed), found))
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

    def keep(self, values: str, gpu_free: int, found: dict[str, Any]) -> None:
        """Keep the settings found for such values while so much memory of the GPUs was free."""
        self.choices[f"{_key(values)}@{gpu_free}"] = found | {"at": time.time()}
        self.save()

    def why_not(self, s: EngineSettings) -> str:
        """Why these settings are refused; empty where they are not."""
        return self.refused.get(layout(s), "") or self.refused.get(sized(s), "")

    def proves(self, s: EngineSettings) -> bool:
        """Whether these settings, or the same layout with at least as many cells, ran."""
        for name in self.proved:
            way, _, context = name.rpartition(",context=")
            way, _, slots = way.rpartition(",slots=")
            if way == layout(s) and int(slots) >= s.slots and int(context) >= s.context:
                return True
        return False


def open_backend(file: ModelFile, options: EngineOptions) -> Llama:
    """The model, loaded with the settings measured for it here (now, if never before) and those given by hand.

    Raises ModelError, and Refused where settings given by hand do not work on this machine.
    """
    record = read_record(file)
    if options.remeasure:
        record = Record(record.path)
    return _open(file, _chosen(file, options, record), record)


def open_with(file: ModelFile, settings: EngineSettings) -> Llama:
    """The model, loaded with given settings, or without the CPU's own instructions where they do not work; nothing is measured.

    Raises ModelError, and Refused where neither works on this machine.
    """
    record = read_record(file)
    try:
        return _open(file, settings, record)
    except Refused:
        return _open(file, replace(settings, extra_buffers=False), record)


def _open(file: ModelFile, settings: EngineSettings, record: Record) -> Llama:
    if not record.proves(settings):
        _prove(file, settings, record)
    leave_mark(record, settings)
    return Llama(file, settings)


def _chosen(file: ModelFile, options: EngineOptions, record: Record) -> EngineSettings:
    values = options.values + (",deterministic" if options.deterministic else "")
    free = sum(d.free for d in gpus())
    # A few percent less than when it was measured is nothing; what others have taken since means fewer layers or less KV.
    enough = int(free * 1.05)
    known = None if options.remeasure else record.choice(values, enough)
    if known is None and not (options.deterministic or options.remeasure or any(name in values for name in _MEASURED_WITH)):
        known = record.choice("", enough)
    if known is None:
        known = _tune(file, options, record, values, free)
    by_hand = checked(known if options.deterministic else known.with_values(options.values))
    return by_hand if "slots" in values or "context" in values else _for_free_memory(file, by_hand)


def _for_free_memory(file: ModelFile, settings: EngineSettings) -> EngineSettings:
    """The settings with as many sequences as there is memory for at this moment, where the KV is in the computer's."""
    free = free_memory()
    shape = kv_shape(file.path)
    cell = shape.bytes_per_token(settings.kv) * min(settings.context, shape.window or settings.context)
    while free is not None and settings.gpu_layers == 0 and settings.slots > 1 and cell * settings.slots > 0.9 * free:
        settings = replace(settings, slots=settings.slots // 2)
    return settings


def _tune(file: ModelFile, options: EngineOptions, record: Record, values: str, gpu_free: int) -> EngineSettings:
    """Measure in a child process, and keep what came of it."""
    say = options.say
    say(f"Measuring how {file.name} runs best on this machine; it is done once.")
    known = record.known()

    def told(name: str, value: Any) -> None:
        record.told(name, value)
        if isinstance(value, dict) and "refused" in value and name.startswith("weights="):
            say(f"Not used here: {brief(name)}: {value['refused']}.")

    job = {"file": write_file(file), "values": options.values, "deterministic": options.deterministic}
    found = apart("choose:search", job, known, told, seconds=patience(weights_size(file.path)))
    record.keep(values, gpu_free, found)
    if found["busy"]:
        say("The machine is busy: usual settings are taken, and measured at another time.")
    settings = EngineSettings(**found["settings"])
    say(describe(settings))
    return settings


def _prove(file: ModelFile, settings: EngineSettings, record: Record) -> None:
    """Try settings in a child process. Raises Refused, ModelError."""
    if why := record.why_not(settings):
        raise Refused(f"{file.name} with {brief(sized(settings))} does not work on this machine: {why}.", LEAVE)
    job = {"file": write_file(file), "settings": asdict(settings)}
    apart("choose:prove", job, record.known(), record.told, seconds=patience(weights_size(file.path)))


def check_vocabulary(file: ModelFile) -> None:
    """Do nothing where llama.cpp can open a model's vocabulary, tried once in a child process. Raises Refused."""
    record = read_record(file)
    if "vocabulary" not in record.proved:
        apart("proof:vocabulary", {"path": str(file.path)}, record.known(), record.told)


def describe(s: EngineSettings) -> str:
    """The settings in a line."""
    weights = "" if s.weights == "own" else f"weights in {s.weights}, "
    place = f"{'all' if s.gpu_layers < 0 else s.gpu_layers} layers on the GPU, " if GPU and s.gpu_layers else ""
    layout = weights + place + ("one KV for all" if s.unified else "a KV each") + (", flash attention" if s.flash_attention else "")
    return f"{s.slots} sequences at once, {layout}, {s.kv}, {s.threads} threads" + (
        "" if s.exact else "; answers may depend on what else runs"
    )


def memory_needed(file: ModelFile, options: EngineOptions) -> tuple[float, float, EngineSettings]:
    """Bytes of a model's weights, bytes of its KV, and the settings that makes so; nothing is loaded or measured. Raises ModelError."""
    settings = checked((read_record(file).choice("", 1 << 62) or EngineSettings()).with_values(options.values))
    copied = copy_path(file, settings.weights)
    shape = kv_shape(file.path)
    cells = min(settings.context, shape.window or settings.context) * settings.slots
    path = copied if settings.weights != "own" and copied.exists() else file.path
    return weights_size(path), cells * shape.bytes_per_token(settings.kv), settings


def read_record(file: ModelFile) -> Record:
    """What is known of a model on this machine, with what its last user's process died of."""
    machine = sha256(json.dumps(_machine()).encode()).hexdigest()[:12]
    record = Record(cache_dir() / "tuning" / f"{file.fingerprint}-{machine}.json")
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(record.path.read_text())
        record.proved, record.refused, record.choices = kept["proved"], kept["refused"], kept["choices"]
    _take_in_marks(record)
    return record


def _machine() -> list[Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    cards = [[d.name, d.description, d.total] for d in gpus()]
    return [cpu, free_cores(), os.cpu_count(), BUILD, cards, driver() if cards else ""]


def _key(values: str) -> str:
    """Values given by hand as the record knows them: in order, without those of no consequence."""
    parts = {p.strip().replace("-", "_").replace(" ", "") for p in values.split(",") if p.strip()}
    return ",".join(sorted(p for p in parts if p.partition("=")[0] not in _OWN))


_marks: list[Any] = []  # kept open for as long as the process lives


def leave_mark(record: Record, settings: EngineSettings) -> None:
    """A mark on disk, from before a model is loaded, that tells the next process should this one die while it computes."""
    if faulthandler.is_enabled() and not _marks:  # someone else looks after this process
        return  # else the model loaded last is the one that is marked
    with suppress(OSError):
        mark = private_file(record.path.with_name(f"{record.path.stem}.{os.getpid()}.died"))
        stream = mark.open("w", encoding="utf-8")
        # A GPU's driver may have died of too little memory: less of it is tried then. On a CPU it is the layout.
        stream.write(f"{sized(settings) if settings.gpu_layers else layout(settings)}\n")
        stream.flush()
        faulthandler.enable(stream)
        _marks.append(stream)
        atexit.register(mark.unlink, missing_ok=True)


def _take_in_marks(record: Record) -> None:
    """Refuse what processes died of in llama.cpp; the marks of processes that were killed otherwise mean nothing."""
    for mark in record.path.parent.glob(f"{record.path.stem}.*.died"):
        with suppress(OSError, ValueError):
            if psutil.pid_exists(int(mark.name.split(".")[-2])):
                continue
            name, _, said = mark.read_text(encoding="utf-8", errors="replace").partition("\n")
            mark.unlink()
            died = re.match(r"Fatal Python error: (.*)", said)
            if died and "engine/llama/" in said.replace(os.sep, "/"):
                record.proved = {known: away for known, away in record.proved.items() if not f"{known},".startswith(f"{name},")}
                record.refused[name] = f"it ended a process that used it ({died[1]})"
                record.save()
