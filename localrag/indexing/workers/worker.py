"""A worker: the messages it receives and sends, its configuration, the runner of tasks, statistics, and compatibility with other workers.

Workers are compatible if they have the same software and the same numerics. Software is compared by versions, and by the bytes of
localrag's own. Numerics are probed: the models answer a few fixed texts, and the results are hashed to the last bit. Machines with the same
hash are of one numerics class; an index built by one class is the same as if one machine had built it.
"""

import asyncio
import platform
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from localrag import __version__
from localrag.engine.embedder import open_embedder
from localrag.engine.engine import Engine
from localrag.engine.request import Generation, Request
from localrag.engine.settings import EngineOptions, layout_key
from localrag.errors import EngineError, LocalragError, ModelError, error_location, known_error
from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, Task, TaskContext
from localrag.llm.model import ChatModel, LlmCache
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile
from localrag.records import CallReference, LlmCall
from localrag.settings import IndexSettings
from localrag.system.files import PACKAGE_DIR, shipped_data_path
from localrag.system.resources import limit_cores

MAX_CACHED_CALLS = 4096  # that a worker remembers: a repeated text of a document is asked once


class CacheMiss(Exception):
    """A task needs a reply that is not cached, and there is no engine."""


class WorkerLost(EngineError):
    """A task ended the workers that ran it."""

    kind = "took its worker down"


class NoWorkersLeft(ModelError):
    """There are no workers left."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task with its input: the document's text, if the worker may not have it, and the cached calls about it."""

    task: Task[Any]
    document_text: str | None = None
    cached_calls: tuple[LlmCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task: result or error, new model calls, and references to cached ones.

    `missing` says what the worker lacked: "engine" or "text". `counters` are tokens read, their seconds, tokens written, their seconds, and
    tokens computed in all by the worker so far.
    """

    result: Any = None
    error: LocalragError | None = None
    missing: str = ""
    new_calls: tuple[LlmCall, ...] = ()
    references: tuple[CallReference, ...] = ()
    seconds: float = 0.0
    counters: tuple[int, float, int, float, int] = (0, 0.0, 0, 0.0, 0)


class Worker(ABC):
    """Runs tasks elsewhere; the process that hands them out starts and replaces it.

    `has_llm`: it can ask the chat model, `is_llm_only`: and runs no other task; `capacity`: chunks at a time; `location`: machine and
    device, for a person; `numerics`: its numerics class, if that was probed; `worked`: it has finished a task.
    """

    name: str
    has_llm: bool
    is_llm_only = False
    capacity = MAX_CHUNKS_PER_TASK + 1
    location = ""
    numerics = ""
    worked = False

    @abstractmethod
    async def start(self) -> None:
        """Start the worker, in the running event loop. Raises OSError, WorkerLost, and LocalragError if it must not work."""

    @abstractmethod
    async def ended(self) -> str:
        """The reason why it has ended, once it has."""

    @abstractmethod
    async def ask(self, what: str, value: Any) -> Any:
        """Send a request and return the answer. Raises WorkerLost, and the LocalragError that the worker answers."""

    @abstractmethod
    def close(self) -> None:
        """End the worker at once."""

    async def run_task(self, request: TaskRequest) -> TaskResult:
        """Run a task and return its result. Raises WorkerLost if the worker has ended."""
        task_result = await self.ask("do", request)
        assert isinstance(task_result, TaskResult)
        self.worked = True
        return task_result

    async def engine_limits(self) -> dict[str, Any]:
        """The limits of its engine. Raises WorkerLost, ModelError."""
        return dict(await self.ask("facts", None))


@dataclass(slots=True)
class TaskCalls:
    """The model calls that came with one task, and those to return with its result."""

    received_calls: dict[str, LlmCall]
    new_calls: dict[str, LlmCall] = field(default_factory=dict)
    references: list[CallReference] = field(default_factory=list)


CURRENT_TASK_CALLS: ContextVar[TaskCalls] = ContextVar("CURRENT_TASK_CALLS")


@dataclass(frozen=True, slots=True)
class RecordingCache:
    """The scheduler's LLM cache: records which cached calls a task reads, so that they can be sent along with it."""

    persistent: LlmCache

    def find(self, key: str) -> LlmCall | None:
        """The committed reply to exactly this request."""
        call = self.persistent.find(key)
        if call is not None and (carried := CURRENT_TASK_CALLS.get(None)) is not None:
            carried.received_calls[key] = call
        return call

    def save(self, call: LlmCall, *, needed: bool) -> None:
        """Commit a reply."""
        self.persistent.save(call, needed=needed)

    def add_reference(self, use: CallReference) -> None:
        """Record that the stored result depends on a cached call."""
        self.persistent.add_reference(use)


class WorkerLlmCache:
    """A worker's LLM cache: calls come with a task and return with its result. Calls of the last tasks stay in memory."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, LlmCall] = OrderedDict()

    def find(self, key: str) -> LlmCall | None:
        """The reply that came with the task or was computed for an earlier one; the latter is returned with both results."""
        carried = CURRENT_TASK_CALLS.get()
        if (call := carried.received_calls.get(key)) is None and (call := self._last.get(key)) is not None:
            carried.new_calls.setdefault(key, call)
        return call

    def save(self, call: LlmCall, *, needed: bool) -> None:  # noqa: ARG002 — parameter of the protocol
        """Return a reply with the task's result."""
        CURRENT_TASK_CALLS.get().new_calls.setdefault(call.key, call)
        self._last[call.key] = call
        while len(self._last) > MAX_CACHED_CALLS:
            self._last.popitem(last=False)

    def add_reference(self, use: CallReference) -> None:
        """Record that the stored result depends on a cached call."""
        CURRENT_TASK_CALLS.get().references.append(use)


class CacheOnlyChatModel(ChatModel):
    """A chat model that returns cached replies only."""

    async def _generate(self, request: Request) -> tuple[tuple[int, ...], Generation]:  # noqa: ARG002
        raise CacheMiss


@dataclass(frozen=True, slots=True)
class CacheAccess:
    """The scheduler's access to the LLM cache in the database."""

    calls_about: Callable[[Sequence[str]], list[LlmCall]]  # the calls about texts with these content ids
    save: Callable[[Iterable[LlmCall], Iterable[CallReference]], None]  # commits calls, and references to committed ones
    may_have_calls: bool  # whether an earlier run may have left calls


MAX_CACHED_TEXTS = 16  # of documents, that a worker keeps in memory


class DocumentTextMissing(Exception):
    """A task needs the text of a document that the worker does not have."""


def worker_error(error: Exception) -> LocalragError:
    """The error that a worker returns: itself if it is made for users, else its kind and location, without any text."""
    return known_error(error) or LocalragError(
        f"A worker failed: {error_location(error)}.", "Run the same command again; finished work is saved."
    )


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker: models, settings with their prompts, engine options, and its share of cores.

    `has_llm`: whether it has an engine of its own for the chat model.
    """

    chat: ModelFile
    embedder: ModelFile
    has_tagger: bool
    settings: IndexSettings
    options: EngineOptions
    has_llm: bool = True
    cores: int = 0  # 0: all that are free

    def with_files(self, paths: Mapping[str, Path]) -> "WorkerConfig":
        """The config for another machine, with the paths there of the chat model, if it has one, and the embedder, by their kinds.

        Prompt prefixes are not stored as files there: they may contain text of a document.
        """
        chat, embedder = (replace(file, path=paths.get(file.kind, file.path)) for file in (self.chat, self.embedder))
        return replace(self, chat=chat, embedder=embedder, options=replace(self.options, prefix_files=False))

    def with_engine_layout(self, layout: str) -> "WorkerConfig":
        """The config with another worker's engine settings, as far as they may change an answer; settings for speed stay this machine's."""
        return replace(self, options=replace(self.options, overrides=",".join(filter(None, (self.options.overrides, layout)))))

    def open(self, options: EngineOptions | None = None) -> TaskContext:
        """Create the context of tasks; models are loaded when first needed."""
        limit_cores(self.cores)
        model = (ChatModel if self.has_llm else CacheOnlyChatModel)(WorkerLlmCache(), self.chat, options or self.options)
        return TaskContext(model, open_embedder(self.embedder), Tagger() if self.has_tagger else None, self.settings, _no_text)


def _no_text(_document_id: str) -> str:
    raise DocumentTextMissing


class TaskRunner:
    """Runs a worker's tasks. Text of documents stays in memory only."""

    def __init__(self, tools: TaskContext) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._tools = TaskContext(tools.model, tools.embedder, tools.tagger, tools.settings, self._text_of)

    def _text_of(self, document_id: str) -> str:
        if document_id not in self._texts:
            raise DocumentTextMissing
        return self._texts[document_id]

    async def engine_limits(self) -> dict[str, Any]:
        """The limits of the chat model's engine: `window` in tokens, `parallel_requests`."""
        return {"window": await self._tools.model.context_size(), "at_once": await self._tools.model.parallel_requests()}

    async def run_task(self, request: TaskRequest) -> TaskResult:
        """Run a task; every error is in the result."""
        if request.document_text is not None:
            self._texts[request.task.document_id] = request.document_text
            while len(self._texts) > MAX_CACHED_TEXTS:
                self._texts.popitem(last=False)
        carried = TaskCalls({call.key: call for call in request.cached_calls})
        CURRENT_TASK_CALLS.set(carried)
        result, error, needs, began = None, None, "", time.perf_counter()
        try:
            result = await request.task.run(self._tools)
        except CacheMiss:
            needs = "engine"
        except DocumentTextMissing:
            needs = "text"
        except Exception as failed:  # noqa: BLE001 — raised by the scheduling process
            error = worker_error(failed)
        model, took = self._tools.model, time.perf_counter() - began
        figures = (*model.token_counters, model.computed_tokens)
        return TaskResult(result, error, needs, tuple(carried.new_calls.values()), tuple(carried.references), took, figures)

    def close(self) -> None:
        """Free the models."""
        self._tools.model.close()


PROBE_TEXTS = (
    "The ferry left the harbour at seven.",
    "Who bought the old mill, and for how much?",
    "Anna Berg wrote to the Northern Line on 3 May 1921: the boiler leaks, and nobody pays.",
    "1 + 1 = 2; 17 × 23 = 391; √2 ≈ 1.41421",
    "小镇因出售造船厂而分裂。",
    "Der Vertrag vom 12. März gilt für beide Häuser, auch für den Garten hinter der Mauer.",
    "a",
    "A list of things: nails, rope, tar, two lamps, a chart of the sound, bread, salt, and a letter that nobody had opened. " * 3,
)
PROBE_TOKENS = 16  # tokens of each answer
SHOWN_HASH_DIGITS = 8  # hex digits


@cache
def software_versions() -> dict[str, str]:
    """The versions that must be equal on all machines, by name."""
    digest = sha256()
    for path in [*sorted(PACKAGE_DIR.rglob("*.py")), *sorted(shipped_data_path("prompts").rglob("*.md")), shipped_data_path("models.toml")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    try:
        llama = version("llama-cpp-python")
    except PackageNotFoundError:
        llama = "?"
    return {
        "localrag": __version__,
        "localrag's own files": digest.hexdigest()[:SHOWN_HASH_DIGITS],
        "llama.cpp": llama,
        "Python": platform.python_version(),
    }


def version_mismatch(ours: dict[str, str], theirs: dict[str, str]) -> tuple[str, str] | None:
    """The difference between this machine's software and another's, and the remedy; None if there is none."""
    for name, own_version in ours.items():
        if (other := theirs.get(name, "none")) != own_version:
            remedy = {
                "llama.cpp": f'python -m pip install "llama-cpp-python=={own_version}", with the Python that runs localrag',
                "Python": f"make its environment with Python {own_version}",
            }.get(name, "install localrag from the same checkout or wheel as here")
            return f"{name} {other} instead of {own_version}", remedy
    return None


async def engine_layout(tools: TaskContext) -> str:
    """The settings of this machine's engine that may change an answer, as text; empty without an engine. Raises ModelError."""
    engine = await tools.model.engine()
    return layout_key(engine.settings) if isinstance(engine, Engine) else ""


async def numerics_class(tools: TaskContext, *, asks: bool) -> str:
    """Probe the numerics class of this machine. Raises ModelError."""
    digest = sha256()
    digest.update(tools.embedder.embed(PROBE_TEXTS).tobytes())
    if tools.tagger is not None:
        for text in PROBE_TEXTS:
            digest.update(repr(await tools.tagger.tag(text, ())).encode())
    if asks:
        engine = await tools.model.engine()
        for text in PROBE_TEXTS:
            messages = ({"role": "user", "content": text},)
            cells = engine.backend.chat.encode(messages) if isinstance(engine, Engine) else ()
            generation = await engine.generate(Request(cells, PROBE_TOKENS, with_log_probability=True, task="probe", messages=messages))
            # The probability of the written tokens depends on every logit of every step.
            digest.update(repr((generation.text, generation.token_ids, generation.log_probability)).encode())
    return digest.hexdigest()[:SHOWN_HASH_DIGITS]


class MajorityVote:
    """The most frequent value among voters. The same machines choose the same each time, whoever answers first."""

    def __init__(self) -> None:
        self.awaited = set[object]()  # voters that have not voted yet
        self.chosen: str | None = None
        self._said: list[str] = []

    async def cast(self, voter: object, value: str) -> str:
        """Vote, and wait for the result until all awaited voters have voted; a later vote changes nothing."""
        self._said.append(value)
        self.awaited.discard(voter)
        while self.chosen is None and self.awaited:
            await asyncio.sleep(0.05)
        if self.chosen is None:
            self.chosen = max(sorted(set(self._said)), key=self._said.count)
        return self.chosen


MAX_SHOWN_WORKERS = 16  # ended workers that are shown one by one: on a shaky network there would be ever more

TokenCounters = tuple[int, float, int, float, int]
NO_TOKENS: TokenCounters = (0, 0.0, 0, 0.0, 0)


def sum_counters(figures: list[TokenCounters]) -> TokenCounters:
    """Tokens read, their seconds, tokens written, their seconds, tokens computed: the sums."""
    a, b, c, d, e = zip(NO_TOKENS, *figures, strict=True)
    return sum(a), sum(b), sum(c), sum(d), sum(e)


@dataclass(slots=True)
class WorkerStats:
    """The work of a worker so far, and when it last answered."""

    tasks: int = 0
    chunks: int = 0
    llm_calls: int = 0
    busy_seconds: float = 0.0
    last_seen: float = field(default_factory=time.time)
    counters: TokenCounters = NO_TOKENS

    def add(self, other: "WorkerStats") -> None:
        """Add another worker's work."""
        self.tasks, self.chunks, self.llm_calls = self.tasks + other.tasks, self.chunks + other.chunks, self.llm_calls + other.llm_calls
        self.busy_seconds, self.last_seen = self.busy_seconds + other.busy_seconds, max(self.last_seen, other.last_seen)
        self.counters = sum_counters([self.counters, other.counters])

    def to_json(self, name: str, place: str, arithmetic: str, state: str, under_way: int = 0) -> dict[str, Any]:
        """The statistics for a person, JSON-ready."""
        f = self.counters
        return {
            "name": name,
            "place": place,
            "numerics": arithmetic,
            "state": state,
            "units": self.tasks,
            "chunks": self.chunks,
            "chunks_per_s": round(self.chunks / self.busy_seconds, 2) if self.busy_seconds else None,
            "calls": self.llm_calls,
            "prefill_tokens_per_s": round(f[0] / f[1], 1) if f[1] else None,
            "decode_tokens_per_s": round(f[2] / f[3], 1) if f[3] else None,
            "under_way": under_way,
            "seen_at": self.last_seen,
        }


class EndedWorkers:
    """The workers that have ended: the last ones one by one, earlier ones as one sum."""

    def __init__(self) -> None:
        self._last: deque[tuple[WorkerStats, dict[str, Any]]] = deque()
        self._before, self._many = WorkerStats(last_seen=0.0), 0

    def add(self, did: WorkerStats, row: dict[str, Any]) -> None:
        """Add an ended worker, with its row."""
        self._last.append((did, row))
        if len(self._last) > MAX_SHOWN_WORKERS:
            self._before.add(self._last.popleft()[0])
            self._many += 1

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the last ones, and one for all before them."""
        before = [self._before.to_json(f"{self._many} before them", "", "", "ended")] if self._many else []
        return [*(row for _, row in reversed(self._last)), *before]

    @property
    def counters(self) -> TokenCounters:
        """The counters of all of them together."""
        return sum_counters([self._before.counters, *(did.counters for did, _ in self._last)])
