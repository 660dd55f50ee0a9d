"""A worker: what it is sent and returns, how it runs tasks, and whether its software and its models are the same as here."""

import platform
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from localrag import __version__
from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError, LocalragError, ModelError, UsageError, error_location, known_error
from localrag.indexing.tasks import Result, Task, TaskContext
from localrag.llm.model import ChatModel
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile, find_chat_model, find_embedder, fingerprint, merged_models
from localrag.records import CallReference, LlmCall
from localrag.settings import IndexSettings
from localrag.system.files import PACKAGE_DIR, shipped_data_path
from localrag.system.resources import limit_cores

RETRY_HINT = "Run the same command again; finished work is saved."
MAX_TRIES = 3  # processes that a task may end before it is given up


class WorkerLost(EngineError):
    """A task ended the processes that ran it."""

    kind = "took its worker down"


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task with its input: the text of its document, and the cached calls about it."""

    task: Task[Any]
    document_text: str = ""
    cached_calls: tuple[LlmCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task: result or error, new model calls, and references to cached ones."""

    result: Any = None
    error: LocalragError | None = None
    new_calls: tuple[LlmCall, ...] = ()
    references: tuple[CallReference, ...] = ()


@dataclass(slots=True)
class _TaskCalls:
    """The model calls that are known to one task, and those to return with its result."""

    known: dict[str, LlmCall]
    new: list[LlmCall] = field(default_factory=list)
    references: list[CallReference] = field(default_factory=list)


_CALLS: ContextVar[_TaskCalls] = ContextVar("_CALLS")
_TEXT: ContextVar[str] = ContextVar("_TEXT")  # of the document of the task that runs


class WorkerLlmCache:
    """A worker's LLM cache: calls come with a task and return with its result."""

    def find(self, key: str) -> LlmCall | None:
        """The reply that came with the task, or that it asked for before."""
        return _CALLS.get().known.get(key)

    def save(self, call: LlmCall, *, needed: bool) -> None:  # noqa: ARG002 — parameter of the protocol
        """Return a reply with the task's result."""
        calls = _CALLS.get()
        calls.known[call.key] = call
        calls.new.append(call)

    def add_reference(self, use: CallReference) -> None:
        """Record that the stored result depends on a cached call."""
        _CALLS.get().references.append(use)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker: models, settings with their prompts, engine options, and its share of cores (0: all)."""

    chat: ModelFile
    embedder: ModelFile
    has_tagger: bool
    settings: IndexSettings
    options: EngineOptions
    cores: int = 0

    def open(self) -> TaskContext:
        """Create the context of tasks; models are loaded when first needed."""
        limit_cores(self.cores)
        model, tagger = ChatModel(WorkerLlmCache(), self.chat, self.options), Tagger() if self.has_tagger else None
        return TaskContext(model, open_embedder(self.embedder), tagger, self.settings, lambda _: _TEXT.get())

    def on_this_machine(self) -> "WorkerConfig":
        """The config with this machine's files of the same models. Raises ModelError if one is missing.

        Prompt prefixes are not stored as files: they may contain text of a document.
        """
        chat, embedder = map(local_model, (self.chat, self.embedder))
        return replace(self, chat=chat, embedder=embedder, options=replace(self.options, prefix_files=False))


async def run_request(context: TaskContext, request: TaskRequest) -> TaskResult:
    """Run a task; every error is in the result."""
    calls = _TaskCalls({call.key: call for call in request.cached_calls})
    _CALLS.set(calls)
    _TEXT.set(request.document_text)
    result, error = None, None
    try:
        result = await request.task.run(context)
    except Exception as failed:  # noqa: BLE001 — raised by the process that sent the request
        error = worker_error(failed)
    return TaskResult(result, error, tuple(calls.new), tuple(calls.references))


async def run_divided(task: Task[Result], run: Callable[[Task[Any]], Awaitable[TaskResult]]) -> Result:
    """The result of a task; one that ended its workers is divided, and a part that ends them too is a failure.

    Raises the task's error.
    """
    try:
        result = await run(task)
    except WorkerLost as error:
        if len(task.parts) > 1:
            return task.join([await run_divided(part, run) for part in task.parts])
        reason = f"It took {MAX_TRIES} workers down: {error}."
        return task.on_failure(WorkerLost(reason, "See what is special about the document."))
    if result.error is not None:
        raise result.error
    return result.result  # type: ignore[no-any-return]


def worker_error(error: Exception) -> LocalragError:
    """The error that a worker returns: itself if it is made for users, else its kind and location, without any text."""
    return known_error(error) or LocalragError(f"A worker failed: {error_location(error)}.", RETRY_HINT)


def model_to_send(file: ModelFile) -> ModelFile:
    """A model file that names its content, for `local_model` on another machine. Raises ModelError."""
    return replace(file, bound_fingerprint=file.fingerprint)


def local_model(wanted: ModelFile) -> ModelFile:
    """The same model on this machine, whatever its name and path. Raises ModelError if there is none."""
    if wanted.url:
        return wanted
    find = find_embedder if wanted.kind == "embedder" else find_chat_model
    for name in (str(wanted.path), *merged_models()[wanted.kind]):
        with suppress(ModelError, OSError):
            path = find(name).path
            if fingerprint(path) == wanted.fingerprint:
                return replace(wanted, path=path)
    raise ModelError(
        f"{platform.node()} does not have the model {wanted.name}.",
        f"Copy {wanted.path} to that machine, and there: localrag models add {wanted.path.name}",
    )


@cache
def software_versions() -> dict[str, str]:
    """The versions that must be equal on all machines, by name. Ray compares those of Python and of itself."""
    digest = sha256()
    for path in [*sorted(PACKAGE_DIR.rglob("*.py")), *sorted(shipped_data_path("prompts").rglob("*.md")), shipped_data_path("models.toml")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    try:
        llama = version("llama-cpp-python")
    except PackageNotFoundError:
        llama = "?"
    return {"localrag": __version__, "localrag's own files": digest.hexdigest()[:8], "llama.cpp": llama}


def check_versions(expected: dict[str, str], found: dict[str, str], machine: str) -> None:
    """Raise UsageError, with the remedy, if a machine's software differs from what is expected."""
    for name, wanted in expected.items():
        if (other := found.get(name, "none")) != wanted:
            llama = f'python -m pip install "llama-cpp-python=={wanted}", with the Python that runs localrag'
            remedy = llama if name == "llama.cpp" else "install localrag from the same checkout or wheel as here"
            raise UsageError(f"{machine} has {name} {other} instead of {wanted}.", f"There: {remedy}")
