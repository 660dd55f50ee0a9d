"""Tasks, the part of indexing that needs no database, and the protocol of the worker pools that run them.

A task is a frozen, picklable record: some chunks of one document, or a community with its report's input. Its result depends on nothing
else but the models. Stages pass tasks to a pool and store the results; the pool decides where they run.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedder import EmbeddingModel, TextVectors
from localrag.errors import LocalragError
from localrag.llm.model import ChatModel
from localrag.llm.tagger import Tagger
from localrag.settings import IndexSettings

MAX_CHUNKS_PER_TASK = 32  # chunks of a task
MAX_RESULTS_PER_COMMIT = 64  # tasks whose results are stored in one transaction
MAX_RESULTS_AHEAD = 1000  # finished tasks that may wait for an earlier one; beyond them no task is started
EMBED_BATCH = 64  # texts of a task
MAX_CACHED_DOCUMENTS = 4  # documents whose derived values stay in memory

T = TypeVar("T")
Result = TypeVar("Result")
J = TypeVar("J", bound="Task[Any]")


@dataclass(frozen=True)
class TaskContext:
    """The models and settings that a task runs with. `text_of` returns the text of a document by its id."""

    model: ChatModel
    embedder: EmbeddingModel
    tagger: Tagger | None
    settings: IndexSettings
    text_of: Callable[[str], str]
    _known: "OrderedDict[tuple[str, Callable[[str], Any]], Any]" = field(default_factory=OrderedDict)

    def cached_per_document(self, document_id: str, make: Callable[[str], T]) -> T:
        """`make(text)` of a document's text, cached for the last few documents, since chunks of one document come together."""
        key = (document_id, make)
        if key not in self._known:
            self._known[key] = make(self.text_of(document_id))
            while len(self._known) > MAX_CACHED_DOCUMENTS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]  # type: ignore[no-any-return]


class Task(Generic[Result]):
    """A unit of work for an index, as a frozen record. By default it is one chunk's work, cannot be divided and needs no model or text."""

    @property
    def n_chunks(self) -> int:
        """The size of the task, in chunks."""
        return 1

    @property
    def llm_task(self) -> str:
        """The name that the task's chat model calls go by; empty if it needs no chat model."""
        return ""

    @property
    def document_id(self) -> str:
        """The document whose text the task needs; empty if none."""
        return ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects of its model calls, under which they are cached."""
        return ()

    @property
    def parts(self) -> Sequence[Any]:
        """The same work as smaller tasks, whose results `join` combines; only itself if it cannot be divided."""
        return [self]

    def join(self, results: Sequence[Result]) -> Result:
        """Combine the results of the parts."""
        return results[0]

    def on_failure(self, error: LocalragError) -> Result:
        """The result to use if the task ended several workers. Raises the error if there is none."""
        raise error

    async def run(self, tools: TaskContext) -> Result:
        """Run the task. Raises LocalragError."""
        raise NotImplementedError


@dataclass(frozen=True)
class EmbedTexts(Task[NDArray[np.float32]]):
    """Embeds texts: (n, d) float32, each row L2-normalised."""

    texts: tuple[str, ...]
    n_chunks = MAX_CHUNKS_PER_TASK

    async def run(self, tools: TaskContext) -> NDArray[np.float32]:
        """The vectors, in the order of the texts."""
        return tools.embedder.embed(self.texts)


@dataclass(frozen=True)
class EmbedPassages(Task[TextVectors]):
    """Embeds texts and their windows."""

    texts: tuple[str, ...]
    n_chunks = MAX_CHUNKS_PER_TASK

    async def run(self, tools: TaskContext) -> TextVectors:
        """The vectors, in the order of the texts."""
        return tools.embedder.embed_windows(self.texts)


class WorkerPool(Protocol):
    """Runs the tasks of an index."""

    def batch_size(self, left: int) -> int:
        """The largest number of chunks of the next task, if `left` chunks remain."""

    async def prepare(self, *, asks: bool) -> None:
        """Get ready for tasks; `asks`: for those that need the chat model. Raises ModelError."""

    def capacity(self, *, asks: bool) -> int:
        """Number of chunks that should be in progress at the moment."""

    async def run(self, job: Task[Result]) -> Result:
        """Run a task and return its result; the model replies it used are committed. Raises the task's errors."""

    def status(self) -> list[dict[str, Any]]:
        """The state of each worker, JSON-ready; empty if this process does everything itself."""


async def run_in_order(
    pool: WorkerPool, jobs: Iterable[J], *, asks: bool = False, min_chunks: int = 1
) -> AsyncIterator[list[tuple[J, Any]]]:
    """Run tasks and yield the results in the order of the tasks, in lists that may be stored together.

    At least `min_chunks` chunks are in progress, and as many as the pool has capacity for. The first error cancels the other tasks and is
    raised.
    """
    await pool.prepare(asks=asks)
    remaining, ahead = iter(jobs), deque[tuple[J, asyncio.Task[Any]]]()
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    under_way = 0

    async def one(job: J) -> Any:
        nonlocal under_way
        try:
            return await pool.run(job)
        except Exception as error:
            if not failure.done():
                failure.set_exception(error)
            raise
        finally:
            under_way -= job.n_chunks
            begin()

    def begin() -> None:
        nonlocal under_way
        while under_way < max(min_chunks, pool.capacity(asks=asks)) and len(ahead) < MAX_RESULTS_AHEAD and not failure.done():
            job = next(remaining, None)
            if job is None:
                return
            under_way += job.n_chunks
            ahead.append((job, asyncio.create_task(one(job))))

    try:
        begin()
        while ahead:
            await asyncio.wait((ahead[0][1], failure), return_when=asyncio.FIRST_COMPLETED)
            if failure.done():
                failure.result()
            yield _pop_finished(ahead)
            begin()  # if MAX_RESULTS_AHEAD were waiting
    finally:
        failure.cancel()
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


def _pop_finished(ahead: "deque[tuple[J, asyncio.Task[Any]]]") -> list[tuple[J, Any]]:
    """Remove and return the finished tasks at the front, at most MAX_RESULTS_PER_COMMIT."""
    done: list[tuple[J, Any]] = []
    while ahead and ahead[0][1].done() and len(done) < MAX_RESULTS_PER_COMMIT:
        job, task = ahead.popleft()
        done.append((job, task.result()))
    return done
