"""Jobs, the part of indexing that needs no database, and the crew that does them: here, in processes beside this one, or on other machines.

A job is a frozen record that can be sent: some chunks of one document, a community with what its report is written from. What it gives
depends on nothing else but the models. Stages hand jobs to a crew and store what comes back; they know nothing of where it was done.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.config import Settings
from localrag.engine.embedding.embedder import Embeds
from localrag.errors import LocalragError
from localrag.llm.model import Model
from localrag.llm.tagging import Tagger

UNIT = 32  # chunks of a job, at most
STORED_TOGETHER = 64  # jobs whose results are stored in one transaction
WAITING = 1000  # jobs that are done and wait for one before them; beyond them nothing is begun
EMBED_BATCH = 64  # texts of a job
DOCUMENTS = 4  # texts of documents that are kept, with what was found out about them

T = TypeVar("T")
Result = TypeVar("Result")
J = TypeVar("J", bound="Job[Any]")


@dataclass(frozen=True)
class Tools:
    """What a job is done with. `text_of` gives the text of the document with an id."""

    model: Model
    embedder: Embeds
    tagger: Tagger | None
    settings: Settings
    text_of: Callable[[str], str]
    _known: "OrderedDict[tuple[str, Callable[[str], Any]], Any]" = field(default_factory=OrderedDict)

    def of_document(self, document_id: str, make: Callable[[str], T]) -> T:
        """What `make` makes of the text of a document; kept for the last few documents, whose chunks come together."""
        key = (document_id, make)
        if key not in self._known:
            self._known[key] = make(self.text_of(document_id))
            while len(self._known) > DOCUMENTS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]  # type: ignore[no-any-return]


class Job(Protocol[Result]):
    """Something to be done for an index, as a frozen record."""

    @property
    def weight(self) -> int:
        """How many chunks' worth of work it is."""

    @property
    def task(self) -> str:
        """What the chat model is asked for, as its calls are named; empty where it is not asked."""

    @property
    def document_id(self) -> str:
        """The document whose text it needs; empty where it needs none."""

    @property
    def about(self) -> tuple[str, ...]:
        """The content ids of the texts of the chunks that the model is asked about; empty where it is about several at once."""

    @property
    def parts(self) -> Sequence[Any]:
        """The same in smaller jobs, whose results are joined by `joined`; itself where it is as small as can be."""

    def joined(self, results: Sequence[Result]) -> Result:
        """The result, from those of its parts."""

    def failed(self, error: LocalragError) -> Result:
        """The result where it takes down whatever does it. Raises the error where there is none."""

    async def work(self, tools: Tools) -> Result:
        """Do it. Raises LocalragError."""


class Alone(Generic[Result]):
    """A job that is as small as can be and needs no document; where it takes down what does it, that is its error."""

    weight = 1
    task = ""
    document_id = ""
    about: tuple[str, ...] = ()

    @property
    def parts(self) -> Sequence[Any]:
        """Itself."""
        return [self]

    def joined(self, results: Sequence[Result]) -> Result:
        """The one there is."""
        return results[0]

    def failed(self, error: LocalragError) -> Result:
        """Nothing stands for it."""
        raise error


@dataclass(frozen=True)
class Embed(Alone[NDArray[np.float32]]):
    """The vectors of texts: (n, d) float32, each row L2-normalised."""

    texts: tuple[str, ...]
    weight = UNIT

    async def work(self, tools: Tools) -> NDArray[np.float32]:
        """The vectors, in the order of the texts."""
        return tools.embedder.embed(self.texts)


class Crew(Protocol):
    """Those who do the jobs of an index."""

    def unit(self, left: int) -> int:
        """How many chunks a job should have at most, where so many are left to do."""

    async def ready(self, *, asks: bool) -> None:
        """Make ready for jobs; `asks`: such that ask the chat model. Raises ModelError."""

    def room(self, *, asks: bool) -> int:
        """How many chunks are worth having under way at the moment."""

    async def run(self, job: Job[Result]) -> Result:
        """What a job gives; the answers of the model that it needed are committed. Raises what the job raises."""

    def status(self) -> list[dict[str, Any]]:
        """What each of several workers does, JSON-ready; empty where this process does everything itself."""

    def close(self) -> None:
        """End the workers."""


async def in_order(crew: Crew, jobs: Iterable[J], *, asks: bool = False, least: int = 1) -> AsyncIterator[list[tuple[J, Any]]]:
    """The results of jobs, in their order, in lists of those that may be stored together: what is done waits for what comes before it.

    As many chunks are under way as the crew has room for, and `least`. The first error cancels the rest and is raised.
    """
    await crew.ready(asks=asks)
    rest, ahead = iter(jobs), deque[tuple[J, asyncio.Task[Any]]]()
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    under_way = 0

    async def one(job: J) -> Any:
        nonlocal under_way
        try:
            return await crew.run(job)
        except Exception as error:
            if not failure.done():
                failure.set_exception(error)
            raise
        finally:
            under_way -= job.weight
            begin()

    def begin() -> None:
        nonlocal under_way
        while under_way < max(least, crew.room(asks=asks)) and len(ahead) < WAITING and not failure.done():
            job = next(rest, None)
            if job is None:
                return
            under_way += job.weight
            ahead.append((job, asyncio.create_task(one(job))))

    try:
        begin()
        while ahead:
            await asyncio.wait((ahead[0][1], failure), return_when=asyncio.FIRST_COMPLETED)
            if failure.done():
                failure.result()
            yield _done(ahead)
            begin()  # where as many waited as may
    finally:
        failure.cancel()
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


def _done(ahead: "deque[tuple[J, asyncio.Task[Any]]]") -> list[tuple[J, Any]]:
    """The first ones, as far as they are done, taken out."""
    done: list[tuple[J, Any]] = []
    while ahead and ahead[0][1].done() and len(done) < STORED_TOGETHER:
        job, task = ahead.popleft()
        done.append((job, task.result()))
    return done


async def embed(crew: Crew, texts: Sequence[str]) -> NDArray[np.float32]:
    """(n, d) float32, each row L2-normalised: the vectors of texts, computed by a crew; similar lengths together, as they are padded."""
    if not texts:
        return np.empty((0, 0), np.float32)
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    batches = [order[at : at + EMBED_BATCH] for at in range(0, len(order), EMBED_BATCH)]
    found: list[NDArray[np.float32]] = []
    async for some in in_order(crew, (Embed(tuple(texts[n] for n in batch)) for batch in batches)):
        found += [vectors for _, vectors in some]
    vectors = np.concatenate(found)
    return vectors[np.argsort(order)]
