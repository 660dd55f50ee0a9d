"""What is found out about chunks, as jobs: their sentences, their names and phrases, what a model reads in them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, Generic, TypeVar

from localrag.errors import LocalragError
from localrag.index.extraction.extract import extract, recipe
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.phrases import extract_phrases
from localrag.index.jobs import Tools
from localrag.llm.model import ABOUT, CALL_FAILED, RECIPE, in_window
from localrag.records import Chunk, Extraction, content_id
from localrag.text.plain import remember_sentences, sentence_bounds

TAGGED_AT_ONCE = 8  # chunks: the tagger computes one text at a time, and the model is asked of some of them

One = TypeVar("One")
T = TypeVar("T")


@dataclass(frozen=True)
class OfChunks(Generic[One]):
    """A job about chunks of one document, which gives something for each. `bounds` are those of their sentences, where they are known."""

    chunks: tuple[Chunk, ...]
    bounds: tuple[bytes, ...] = ()

    @property
    def weight(self) -> int:
        """How many chunks they are."""
        return len(self.chunks)

    @property
    def task(self) -> str:
        """No model is asked."""
        return ""

    @property
    def document_id(self) -> str:
        """The document they are of."""
        return self.chunks[0].document_id

    @property
    def about(self) -> tuple[str, ...]:
        """No model is asked about them."""
        return ()

    @property
    def parts(self) -> Sequence[Any]:
        """A job for each chunk."""
        kept = self.bounds or (b"",) * len(self.chunks)
        return [replace(self, chunks=(c,), bounds=(b,) if b else ()) for c, b in zip(self.chunks, kept, strict=True)]

    def joined(self, results: Sequence[tuple[One, ...]]) -> tuple[One, ...]:
        """What each chunk gave."""
        return tuple(chain.from_iterable(results))

    def failed(self, error: LocalragError) -> tuple[One, ...]:
        """Nothing stands for it."""
        raise error

    def _remember(self) -> None:
        for chunk, bounds in zip(self.chunks, self.bounds, strict=False):
            remember_sentences(chunk.text, bounds)


class SplitSentences(OfChunks[bytes]):
    """Where the sentences of chunks are."""

    async def work(self, _tools: Tools) -> tuple[bytes, ...]:
        """As an index keeps it, for each chunk."""
        return tuple(sentence_bounds(c.text) for c in self.chunks)

    @property
    def document_id(self) -> str:
        """The chunks themselves are enough."""
        return ""


class FindPhrases(OfChunks[Extraction]):
    """The names and phrases of chunks, without a model."""

    async def work(self, tools: Tools) -> tuple[Extraction, ...]:
        """An extraction of each chunk."""
        self._remember()
        case = tools.of_document(self.document_id, Case)
        return tuple(extract_phrases(c, case) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a model read in a chunk: all of it, a part where a call failed (`error`, of a `kind`), or nothing where all depends on that."""

    found: Extraction | None
    error: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Extract(OfChunks[Attempt]):
    """What the model, or the tagger, reads in chunks.

    `beside`: content ids of the texts of the chunks before and after, which have sentences in common with them.
    """

    style: str = "extractive"
    beside: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """All the questions that are asked about a chunk go by the first one."""
        return "entities"

    @property
    def about(self) -> tuple[str, ...]:
        """The content ids of the chunks' texts, and of those beside them."""
        return (*(content_id(c.text) for c in self.chunks), *self.beside)

    async def work(self, tools: Tools) -> tuple[Attempt, ...]:
        """An attempt at each chunk. Raises ModelError where the model cannot be asked at all."""
        self._remember()
        # A conversation has one call at a time and needs its slot's KV for the next, so there are as many as slots; an extractive chunk has
        # many calls at once.
        by_tagger = tools.tagger is not None and self.style == "extractive"
        size = TAGGED_AT_ONCE if by_tagger else await tools.model.at_once()
        size = size if self.style == "abstractive" else max(TAGGED_AT_ONCE, size)
        RECIPE.set(recipe(tools.settings, tools.model.file.fingerprint, self.style, tools.tagger))
        return tuple(await in_window((self._one(c, tools) for c in self.chunks), size=size))

    async def _one(self, chunk: Chunk, tools: Tools) -> Attempt:
        ABOUT.set(content_id(chunk.text))
        case = tools.of_document(self.document_id, Case)
        lost: list[LocalragError] = []
        try:
            found = await extract(chunk, case, tools.model, tools.settings, self.style, lost, tools.tagger)
        except CALL_FAILED as error:
            return Attempt(None, str(error), error.kind)
        return Attempt(found, str(lost[0]), lost[0].kind) if lost else Attempt(found)

    def failed(self, error: LocalragError) -> tuple[Attempt, ...]:
        """An attempt that gave nothing, of each chunk."""
        return tuple(Attempt(None, str(error), error.kind) for _ in self.chunks)


def in_units(items: Iterable[T], n: int, most: Callable[[int], int], of: Callable[[T], object] = bool) -> Iterator[tuple[T, ...]]:
    """Those of `n` items that follow each other and are `of` the same, `most(how many are left)` together at most."""
    left = n
    for _, some in groupby(items, key=of):
        unit: list[T] = []
        for item in some:
            unit.append(item)
            if len(unit) >= most(left):
                yield tuple(unit)
                left, unit = left - len(unit), []
        if unit:
            yield tuple(unit)
            left -= len(unit)


def units_of(chunks: Collection[Chunk], most: Callable[[int], int]) -> Iterator[tuple[Chunk, ...]]:
    """The chunks of each document, in units."""
    return in_units(chunks, len(chunks), most, lambda c: c.document_id)
