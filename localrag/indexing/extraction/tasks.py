"""Tasks on chunks: split sentences, find names and phrases, extract with a model."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, TypeVar

from localrag.errors import LocalragError
from localrag.indexing.extraction.extract import extract_chunk, extraction_hash
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.indexing.tasks import Task, TaskContext
from localrag.llm.model import CALL_ERRORS, CURRENT_CONFIG_HASH, CURRENT_SUBJECT, DROPPED_ROWS, bounded_map
from localrag.records import Chunk, Extraction, content_id
from localrag.text.sentences import cache_sentence_bounds, sentence_bounds

TAGGER_BATCH = 8  # chunks: the tagger computes one text at a time, and some of them also need the model

One = TypeVar("One")
T = TypeVar("T")


@dataclass(frozen=True)
class ChunkTask(Task[tuple[One, ...]]):
    """A task on chunks of one document with one result for each. `bounds`: their sentence spans, if known."""

    chunks: tuple[Chunk, ...]
    bounds: tuple[bytes, ...] = ()

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunks)

    @property
    def document_id(self) -> str:
        """The document of the chunks."""
        return self.chunks[0].document_id

    @property
    def parts(self) -> Sequence[Any]:
        """A task for each chunk."""
        bounds = self.bounds or (b"",) * len(self.chunks)
        return [replace(self, chunks=(c,), bounds=(b,) if b else ()) for c, b in zip(self.chunks, bounds, strict=True)]

    def join(self, results: Sequence[tuple[One, ...]]) -> tuple[One, ...]:
        """The results of all chunks, in order."""
        return tuple(chain.from_iterable(results))

    def _remember(self) -> None:
        for chunk, bounds in zip(self.chunks, self.bounds, strict=False):
            cache_sentence_bounds(chunk.text, bounds)


class SplitSentences(ChunkTask[bytes]):
    """Finds the sentences of chunks."""

    document_id = ""  # the chunks themselves are enough

    async def run(self, _tools: TaskContext) -> tuple[bytes, ...]:
        """The sentence spans of each chunk, as the index stores them."""
        return tuple(sentence_bounds(c.text) for c in self.chunks)


class FindPhrases(ChunkTask[Extraction]):
    """Extracts the names and phrases of chunks, without a model."""

    async def run(self, tools: TaskContext) -> tuple[Extraction, ...]:
        """An extraction of each chunk."""
        self._remember()
        case = tools.cached_per_document(self.document_id, DocumentCasing)
        return tuple(extract_noun_phrases(c, case) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class ExtractionAttempt:
    """The model's extraction of a chunk: complete, partial after a failed call (`error`, of a `kind`), or None if nothing could be
    extracted. `dropped_rows`: rows of the model's lists that name nothing in the text or have another form.
    """

    extraction: Extraction | None
    error: str = ""
    kind: str = ""
    dropped_rows: int = 0


@dataclass(frozen=True)
class ExtractChunks(ChunkTask[ExtractionAttempt]):
    """Extracts from chunks with the model, or with the tagger.

    `neighbour_texts`: content ids of the texts of the adjacent chunks, which share sentences with them. `path`: of their document.
    `uses_tagger`, `asks_model`: see `IndexingMethod`.
    """

    style: str = "extractive"
    neighbour_texts: tuple[str, ...] = ()
    path: str = ""
    uses_tagger: bool = False
    asks_model: bool = True

    @property
    def llm_task(self) -> str:
        """The first call's name stands for all calls on a chunk; empty if the tagger alone extracts."""
        return "entities" if self.asks_model or not self.uses_tagger else ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The content ids of the texts of the chunks and of the adjacent ones."""
        return (*(content_id(c.text) for c in self.chunks), *self.neighbour_texts)

    async def run(self, tools: TaskContext) -> tuple[ExtractionAttempt, ...]:
        """An attempt at each chunk. Raises ModelError if the model cannot be asked at all."""
        self._remember()
        # Abstractive: a conversation has one call at a time and needs its slot's KV for the next, so as many run as there are slots. An
        # extractive chunk has many calls at once.
        tagger = tools.tagger if self.uses_tagger else None
        size = TAGGER_BATCH if tagger else await tools.model.parallel_requests()
        size = size if self.style == "abstractive" else max(TAGGER_BATCH, size)
        of = (tools.settings, tools.model.file.fingerprint, self.style, tagger)
        CURRENT_CONFIG_HASH.set(extraction_hash(*of, asks_model=self.asks_model))
        return tuple(await bounded_map((self._one(c, tools) for c in self.chunks), size=size))

    async def _one(self, chunk: Chunk, tools: TaskContext) -> ExtractionAttempt:
        CURRENT_SUBJECT.set(content_id(chunk.text))
        case = tools.cached_per_document(self.document_id, DocumentCasing)
        lost: list[LocalragError] = []
        dropped = Counter[str]()
        DROPPED_ROWS.set(dropped)
        try:
            tagger = tools.tagger if self.uses_tagger else None
            of = (chunk, case, tools.model, tools.settings, self.style, lost, tagger)
            extraction = await extract_chunk(*of, path=self.path, asks_model=self.asks_model)
        except CALL_ERRORS as error:
            return ExtractionAttempt(None, str(error), error.kind)
        failure = (str(lost[0]), lost[0].kind) if lost else ("", "")
        return ExtractionAttempt(extraction, *failure, dropped.total())

    def on_failure(self, error: LocalragError) -> tuple[ExtractionAttempt, ...]:
        """An empty attempt for each chunk."""
        return tuple(ExtractionAttempt(None, str(error), error.kind) for _ in self.chunks)


def batch_by(items: Iterable[T], n: int, max_size: Callable[[int], int], of: Callable[[T], object] = bool) -> Iterator[tuple[T, ...]]:
    """Batches of consecutive items with the same `of(item)`, each of at most `most(remaining)` of the `n` items."""
    remaining = n
    for _, group in groupby(items, key=of):
        unit: list[T] = []
        for item in group:
            unit.append(item)
            if len(unit) >= max_size(remaining):
                yield tuple(unit)
                remaining, unit = remaining - len(unit), []
        if unit:
            yield tuple(unit)
            remaining -= len(unit)


def batches_of_document(chunks: Collection[Chunk], max_size: Callable[[int], int]) -> Iterator[tuple[Chunk, ...]]:
    """Batches of the chunks of each document."""
    return batch_by(chunks, len(chunks), max_size, lambda c: c.document_id)
