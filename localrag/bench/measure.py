"""Benchmark of one model on this machine, in a child process: costs, speed, extraction and answers.

The child process receives a task and sends messages; its peak memory is the model's. Also describes the machine.
"""

import asyncio
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from localrag.bench.engine import read_workload, run_workload
from localrag.bench.tasks import (
    LANGUAGE_NAMES,
    LanguageResult,
    ReportProgress,
    ask_questions,
    extract_paragraphs,
    index_and_ask,
    load_paragraphs,
    questions,
)
from localrag.engine.engine import Engine
from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, UsageError, error_location, known_error
from localrag.llm.model import ChatModel
from localrag.model_files import ModelFile, find_chat_model, total_size
from localrag.project import tagger_for
from localrag.records import to_row
from localrag.settings import IndexSettings
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from localrag.system.child_process import ParentConnection
from localrag.system.resources import available_cores


def peak_memory() -> int | None:
    """Peak memory of this process in bytes; None if the system does not report it.

    Not by getrusage on Linux: there a new process begins with its parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) * 1024 if lines else None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine_info() -> dict[str, Any]:
    """The machine in JSON-ready values: system, CPU, cores, memory."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    memory: int | None = None
    with suppress(OSError, RuntimeError, NotImplementedError):
        memory = int(psutil.virtual_memory().total)
    return {"system": platform.system(), "cpu": cpu, "cores": available_cores(), "all_cores": os.cpu_count(), "memory": memory}


BENCHMARK_STYLES = ("auto", "extractive", "abstractive")
SPEED_CHUNKS, SPEED_WORDS, SPEED_TOKENS = 16, 150, 64  # of the speed test: short answers, for models of a few tokens a second


@dataclass(frozen=True, slots=True)
class ModelBenchmark:
    """The settings of a model's benchmark: `model` as --model takes it, None for the bundled one.

    `repeat`: runs of the speed test; `quick`: without the standard index; `limit`: number of paragraphs, 0 for all.
    """

    model: str | None = None
    engine: str = ""
    deterministic: bool = False
    repeat: int = 3
    quick: bool = False
    limit: int = 0
    style: str = "auto"
    hosts: str = ""  # other machines that may receive the texts, separated by commas
    parallel: int = 0


def check_benchmark(task: ModelBenchmark) -> None:
    """Raises UsageError for an unknown style."""
    if task.style not in BENCHMARK_STYLES:
        raise UsageError(f"There is no style {task.style!r}.", f"Styles: {', '.join(BENCHMARK_STYLES)}")


def prepare_model(task: ModelBenchmark, say: Callable[[str], None]) -> dict[str, Any]:
    """Describe the model's file, and tune its engine settings if that was never done here: a process that tunes has a higher peak memory.

    Raises ModelError.
    """
    file = find_chat_model(task.model)
    if file.url:
        from localrag.engine.remote.servers import with_server_info

        return {"name": file.name, "given": file.cli_argument, "fingerprint": with_server_info(file, _engine_options(task)).fingerprint}
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.memory import file_type

    kind = file_type(file.path)
    open_backend(file, replace(_engine_options(task), notify=say)).close()
    return {
        "name": file.name,
        "given": file.cli_argument,
        "fingerprint": file.fingerprint,
        "file_bytes": total_size(file.path),
        "quantisation": quantisation(kind),
    }


def quantisation(kind: int) -> str:
    """The name of llama.cpp's file type number, such as Q4_K_M."""
    from gguf.constants import LlamaFileType

    try:
        return str(LlamaFileType(kind).name).removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return f"type {kind}"


def measure_model(task: ModelBenchmark, on_progress: ReportProgress) -> dict[str, Any]:
    """Measure a model; JSON-ready values, in which failed calls are counted. Raises ModelError."""
    file, options = find_chat_model(task.model), _engine_options(task)
    quality = asyncio.run(_quality(task, file, options, on_progress))
    speeds = []
    for n in range(0 if file.url else task.repeat):
        on_progress("speed", n, task.repeat)
        work = read_workload(chunks=SPEED_CHUNKS, words=SPEED_WORDS, max_tokens=SPEED_TOKENS)
        speeds.append(run_workload(file, options, work))
    quality |= {"speeds": speeds, "peak_bytes": None if file.url else peak_memory()}
    if task.quick:
        return quality | {"index": None, "questions": []}
    quality |= asyncio.run(index_and_ask(task.model, options, task.style, on_progress))
    return quality | {"index_peak_bytes": None if file.url else peak_memory()}


def _engine_options(task: ModelBenchmark) -> EngineOptions:
    hosts = tuple(filter(None, task.hosts.split(",")))
    return EngineOptions.of(task.engine, deterministic=task.deterministic, allowed_hosts=hosts, parallel_requests=task.parallel)


async def _quality(task: ModelBenchmark, file: ModelFile, options: EngineOptions, on_progress: ReportProgress) -> dict[str, Any]:
    """The results of paragraphs, language by language, and of the questions about them."""
    settings, texts, known_questions = IndexSettings(), load_paragraphs(task.limit), questions(task.limit)
    with TemporaryDirectory() as folder:
        db = open_index(Path(folder), create=True)
        model = ChatModel(SqliteLlmCache(db), file, options)
        try:
            about = await _load(model, Path(folder))
            small = await model.is_small()
            style = ("extractive" if small else "abstractive") if task.style == "auto" else task.style
            readings: dict[str, LanguageResult] = {}
            tagger = tagger_for(file, options)
            for language in LANGUAGE_NAMES:
                paragraphs = [d for d in texts if d.id.startswith(language)]
                readings[language] = await extract_paragraphs(paragraphs, model, settings, style, on_progress, tagger)
            extraction = {"calls": model.calls + model.failed, "failed_calls": model.failed, **_tokens(model)}
            answers = await ask_questions(known_questions, model, on_progress)
        finally:
            model.close()
            db.close()
    seconds = {k: round(r.seconds, 3) for k, r in readings.items()}
    return {
        **about,
        "style": style,
        "paragraphs": [asdict(f) for r in readings.values() for f in r.found],
        "extraction": extraction | {"seconds": seconds},
        "yes_no": [to_row(s, {"predicted_answer": "said"}) for s in answers],
    }


async def _load(model: ChatModel, folder: Path) -> dict[str, Any]:
    """Load the model and time it; a server's is loaded already."""
    started = time.perf_counter()
    engine = await model.engine()
    seconds = time.perf_counter() - started
    if not isinstance(engine, Engine):
        return {"load_seconds": None, "parameters": None, "engine": {}}
    engine.prefixes = PrefixCache(folder / "prefixes")  # no prefix of an earlier run is reused
    return {"load_seconds": round(seconds, 3), "parameters": engine.backend.parameters, "engine": engine.settings.to_json()}


def _tokens(model: ChatModel) -> dict[str, int]:
    tasks = model.metrics()["tasks"].values()
    names = ("prompt_tokens", "cached_tokens", "output_tokens", "forced_tokens")
    return {name: sum(task[name] for task in tasks) for name in names}


PROGRESS_EVERY_S = 0.2  # seconds between lines of progress


def main() -> None:
    """Receive `{"do": "prepare_model" | "measure_model", "task": {…}}`; send progress, then a result or an error.

    The last message is `{"result": …}` or `{"error": …, "hint": …}`.
    """
    parent = ParentConnection()
    request = parent.receive()
    parent.listen()
    task, tell = ModelBenchmark(**request["task"]), _JsonLinesWriter(parent)
    try:
        parent.send({"result": prepare_model(task, tell.say) if request["do"] == "prepare" else measure_model(task, tell)})
    except Exception as error:  # noqa: BLE001 — any error becomes the reason in the model's row
        told = known_error(error) or LocalragError(f"something unexpected happened: {error_location(error)}")
        parent.send({"error": str(told), "hint": told.hint})


class _JsonLinesWriter:
    """Sends messages as JSON lines; progress at most every PROGRESS_EVERY_S seconds."""

    def __init__(self, parent: ParentConnection) -> None:
        self._parent, self._spoke, self._stage = parent, 0.0, ""

    def say(self, text: str) -> None:
        self._parent.send({"say": text})

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage or time.monotonic() - self._spoke > PROGRESS_EVERY_S:
            self._stage, self._spoke = stage, time.monotonic()
            self._parent.send({"stage": stage, "done": done, "total": total, "pid": os.getpid()})


if __name__ == "__main__":
    main()
