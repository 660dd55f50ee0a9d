"""One model measured on this machine: what it costs, how fast it is, how well it extracts and answers. Runs in a process of its own."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from localrag.bench.engine import read_workload, run_workload
from localrag.bench.machine import joules_between, peak_memory, read_energy
from localrag.bench.paragraphs import LANGUAGES, Tell, paragraphs, questions, read
from localrag.bench.standard import index_and_ask
from localrag.bench.yes_no import ask_questions, with_probabilities
from localrag.config import Settings
from localrag.engine.engine import Engine
from localrag.engine.prefixes import Prefixes
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.llm.model import Model
from localrag.models import ModelFile, find_chat_model, weights_size
from localrag.opening import tagger_for
from localrag.store.ledger import CallLedger
from localrag.store.schema import open_index

STYLES = ("auto", "extractive", "abstractive")
SPEED_CHUNKS, SPEED_WORDS, SPEED_TOKENS = 16, 150, 64  # of the speed test: short answers, for models of a few tokens a second


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured of a model: `model` as --model takes it, None for the bundled one.

    `repeat`: how often the speed test runs; `quick`: without the standard index; `limit`: so many paragraphs, 0 for all.
    """

    model: str | None = None
    engine: str = ""
    deterministic: bool = False
    repeat: int = 3
    quick: bool = False
    limit: int = 0
    style: str = "auto"
    hosts: str = ""  # other machines that may see the texts, with commas
    at_once: int = 0


def check(task: Task) -> None:
    """Raises UsageError for a style that does not exist."""
    if task.style not in STYLES:
        raise UsageError(f"There is no style {task.style!r}.", f"Styles: {', '.join(STYLES)}")


def prepare(task: Task, say: Callable[[str], None]) -> dict[str, Any]:
    """What the model's file is. Measures the settings it runs best with, if that was never done here: a process that did has a higher peak.

    Raises ModelError.
    """
    file = find_chat_model(task.model)
    if file.url:
        from localrag.engine.remote.remote import identified

        return {"name": file.name, "given": file.given, "fingerprint": identified(file, _options(task)).fingerprint}
    from localrag.engine.hardware.opened import open_backend
    from localrag.engine.shape import file_type

    kind = file_type(file.path)
    open_backend(file, replace(_options(task), say=say)).close()
    return {
        "name": file.name,
        "given": file.given,
        "fingerprint": file.fingerprint,
        "file_bytes": weights_size(file.path),
        "quantisation": quantisation(kind),
    }


def quantisation(kind: int) -> str:
    """The name of llama.cpp's file type number, such as Q4_K_M."""
    from gguf.constants import LlamaFileType

    try:
        return str(LlamaFileType(kind).name).removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return f"type {kind}"


def measure(task: Task, tell: Tell) -> dict[str, Any]:
    """Everything that is measured of a model, as JSON-ready values; what fails of single calls is counted. Raises ModelError."""
    file, options = find_chat_model(task.model), _options(task)
    found = asyncio.run(_quality(task, file, options, tell))
    speeds = []
    for n in range(0 if file.url else task.repeat):
        tell("speed", n, task.repeat)
        work = read_workload(None, None, None, chunks=SPEED_CHUNKS, words=SPEED_WORDS, max_tokens=SPEED_TOKENS)
        speeds.append(run_workload(file, options, work))
    found |= {"speeds": speeds, "peak_bytes": None if file.url else peak_memory()}
    if task.quick:
        return found | {"index": None, "questions": []}
    before = read_energy()
    found |= asyncio.run(index_and_ask(task.model, options, task.style, tell))
    return found | {"index_joules": joules_between(before, read_energy()), "index_peak_bytes": None if file.url else peak_memory()}


def _options(task: Task) -> EngineOptions:
    hosts = tuple(filter(None, task.hosts.split(",")))
    return EngineOptions.of(task.engine, deterministic=task.deterministic, allowed_hosts=hosts, at_once=task.at_once)


async def _quality(task: Task, file: ModelFile, options: EngineOptions, tell: Tell) -> dict[str, Any]:
    """The paragraphs, language by language, and the questions about them."""
    settings, texts, asked = Settings(), paragraphs(task.limit), questions(task.limit)
    with TemporaryDirectory() as folder:
        db = open_index(Path(folder), create=True)
        model = Model(CallLedger(db), file, options)
        try:
            about = await _load(model, Path(folder))
            small = await model.is_small()
            style = ("extractive" if small else "abstractive") if task.style == "auto" else task.style
            before, readings = read_energy(), {}
            tagger = tagger_for(file, options)
            for language in LANGUAGES:
                some = [d for d in texts if d.id.startswith(language)]
                readings[language] = await read(some, model, settings, style, tell, tagger)
            joules = joules_between(before, read_energy())
            extraction = {"calls": model.calls + model.failed, "failed_calls": model.failed, **_tokens(model)}
            said = await ask_questions(asked, model, tell)
        finally:
            model.close()
            db.close()
    said = await with_probabilities(said, asked, file, options)
    seconds = {k: round(r.seconds, 3) for k, r in readings.items()}
    return {
        **about,
        "style": style,
        "paragraphs": [asdict(f) for r in readings.values() for f in r.found],
        "extraction": extraction | {"seconds": seconds, "joules": joules},
        "yes_no": [asdict(s) for s in said],
    }


async def _load(model: Model, folder: Path) -> dict[str, Any]:
    """Load the model, timed; a server's is loaded already."""
    started = time.perf_counter()
    engine = await model.engine()
    seconds = time.perf_counter() - started
    if not isinstance(engine, Engine):
        return {"load_seconds": None, "parameters": None, "engine": {}}
    engine.prefixes = Prefixes(folder / "prefixes")  # no beginning is taken over from earlier runs
    return {"load_seconds": round(seconds, 3), "parameters": engine.backend.parameters, "engine": engine.settings.to_json()}


def _tokens(model: Model) -> dict[str, int]:
    tasks = model.report()["tasks"].values()
    names = ("prompt_tokens", "cached_tokens", "output_tokens", "forced_tokens")
    return {name: sum(task[name] for task in tasks) for name in names}
