"""Benchmark of one model in a child process, whose peak memory is the model's: costs, speed, and extraction from paragraphs."""

import asyncio
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from localrag.bench.engine import read_workload, run_workload
from localrag.engine.engine import Engine
from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import LocalragError, error_location, known_error
from localrag.eval.datasets import TYPE_MAPPINGS, GoldDocument, load_gold
from localrag.eval.extraction import ExtractionScores, PrecisionRecall, count_names, gold_chunks
from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing
from localrag.llm.model import CALL_ERRORS, ChatModel, bounded_map
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile, find_chat_model, total_size
from localrag.project import tagger_for
from localrag.records import Extraction
from localrag.settings import IndexSettings
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from localrag.system.child_process import ParentConnection
from localrag.system.resources import available_cores


def peak_memory() -> int | None:
    """Peak memory of this process; None if not reported. Linux's getrusage would begin with the parent's peak."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) * 1024 if lines else None
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

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


GOLD_FILE = Path(__file__).parent / "gold" / "paragraphs.md"
PARALLEL_PARAGRAPHS = 8  # as many as indexing has in progress
LANGUAGE_NAMES = {"en": "English", "zh": "Chinese"}

Counts = tuple[int, int, int]  # correct, predicted, gold
ReportProgress = Callable[[str, int, int], None]
SPEED_CHUNKS, SPEED_WORDS, SPEED_TOKENS = 16, 150, 64  # of the speed test: short answers, for models of a few tokens a second


@dataclass(frozen=True, slots=True)
class ModelBenchmark:
    """A model's benchmark: `model` as --model takes it, `repeat` runs of the speed test, `limit` of paragraphs (0 for all)."""

    model: str | None = None
    engine: str = ""
    deterministic: bool = False
    repeat: int = 3
    limit: int = 0
    style: str = "auto"
    hosts: str = ""  # other machines that may receive the texts, separated by commas
    parallel: int = 0


def prepare_model(task: ModelBenchmark, say: Callable[[str], None]) -> dict[str, Any]:
    """Describe the model's file, and tune it if that was never done here, as tuning raises a process's peak memory. Raises ModelError."""
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
    return quality | {"speeds": speeds, "peak_bytes": None if file.url else peak_memory()}


def _engine_options(task: ModelBenchmark) -> EngineOptions:
    hosts = tuple(filter(None, task.hosts.split(",")))
    return EngineOptions.of(task.engine, deterministic=task.deterministic, allowed_hosts=hosts, parallel_requests=task.parallel)


async def _quality(task: ModelBenchmark, file: ModelFile, options: EngineOptions, on_progress: ReportProgress) -> dict[str, Any]:
    settings, texts = IndexSettings(), load_paragraphs(task.limit)
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
        finally:
            model.close()
            db.close()
    seconds = {k: round(r.seconds, 3) for k, r in readings.items()}
    return {
        **about,
        "style": style,
        "paragraphs": [asdict(f) for r in readings.values() for f in r.found],
        "extraction": extraction | {"seconds": seconds},
    }


async def _load(model: ChatModel, folder: Path) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class ParagraphResult:
    """The result of one paragraph. Without an answer, `error` is the reason, and all its gold items count as missed.

    `names`, `typed` and `relations` are counts; `listed` is the number of listed names, `in_text` of those that occur in the paragraph.
    `words` are the paragraph's.
    """

    id: str
    names: Counts
    typed: Counts
    relations: Counts
    listed: int = 0
    in_text: int = 0
    duplicates: int = 0
    words: int = 0
    error: str = ""

    @property
    def language(self) -> str:
        """The first part of its id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class LanguageResult:
    """The results of all paragraphs of a language, and their seconds."""

    found: tuple[ParagraphResult, ...]
    seconds: float


def load_paragraphs(limit: int = 0) -> list[GoldDocument]:
    """The annotated paragraphs; with `limit`, a selection spread over languages and kinds of text."""
    paragraphs = load_gold(GOLD_FILE, "marked")
    return [paragraphs[i * len(paragraphs) // limit] for i in range(limit)] if 0 < limit < len(paragraphs) else paragraphs


async def extract_paragraphs(
    documents: Sequence[GoldDocument],
    model: ChatModel,
    settings: IndexSettings,
    style: str,
    on_progress: ReportProgress,
    tagger: Tagger | None = None,
) -> LanguageResult:
    """Extract from the paragraphs as indexing does; one that fails is a result with its error, and the others go on."""
    tokenizer, done = Tokenizer(model.file), 0

    async def one(document: GoldDocument) -> ParagraphResult:
        nonlocal done
        try:
            chunks = gold_chunks(document, tokenizer, settings)
            extractions = [await extract_chunk(c, DocumentCasing(document.text), model, settings, style, tagger=tagger) for c in chunks]
            result = score_paragraph(document, extractions, settings)
        except CALL_ERRORS as error:
            result = score_paragraph(document, [], settings, error.kind)
        done += 1
        on_progress(f"{LANGUAGE_NAMES.get(result.language, '')} paragraphs".strip(), done, len(documents))
        return result

    started = time.perf_counter()
    results = await bounded_map((one(d) for d in documents), size=PARALLEL_PARAGRAPHS)
    return LanguageResult(tuple(results), time.perf_counter() - started)


def score_paragraph(document: GoldDocument, extractions: Sequence[Extraction], settings: IndexSettings, error: str = "") -> ParagraphResult:
    """The counts of one paragraph's extractions."""
    scores = ExtractionScores(TYPE_MAPPINGS["marked"], frozenset(settings.entity_types))
    count_names(scores, document, extractions)
    spans, typed, relations = (_tally_counts(tally) for tally in (scores.spans, scores.typed, scores.relations))
    counts = (scores.names, scores.verbatim, scores.duplicates, len(document.text.split()))
    return ParagraphResult(document.id, spans, typed, relations, *counts, error)


def _tally_counts(tally: PrecisionRecall) -> Counts:
    return tally.n_correct, tally.n_predicted, tally.gold


PROGRESS_EVERY_S = 0.2  # seconds between lines of progress


def main() -> None:
    """Receive `{"do": …, "task": {…}}`; send progress, at last `{"result": …}` or `{"error": …, "hint": …}`."""
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
