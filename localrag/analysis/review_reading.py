"""What one document says to a question: its nearest passages and sentences, read.

A window that says many things hides the sentence that answers, and a sentence alone may lack what its window says, so both are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.reading import read_pairs
from localrag.analysis.review_questions import AnswerKind, ReviewQuestion
from localrag.llm.reader import PassageReading
from localrag.project import Project
from localrag.query.passages import SPAN_WEIGHT, Window, chunk_windows
from localrag.query.retriever import content_stems
from localrag.records import Chunk, Citation
from localrag.text.sentences import cached_sentences, collapse_whitespace

# Read of a document for each question: the nearest windows and sentences by meaning and words. Twice as many find hardly more
# (docs/how-to/review.md).
WINDOWS_READ, SENTENCES_READ, SENTENCES_READ_YES_NO = 1, 6, 3
WORD_WEIGHT = 0.4  # of the share of the question's words, beside the cosine
MIN_SENTENCE_CHARS = 60  # a shorter sentence is also read with the one before it, which says what it is about
MAX_SENTENCES = 4_000  # of a document; the rest is not read


@dataclass(frozen=True, slots=True)
class ReadingUnit:
    """Characters `start` to `end` of a document, in a window; a sentence, or the window itself."""

    window: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """What a row of a review is about: a document or a part of it, named by `label`.

    `sentences`, (n,), with their embeddings, (n, d), and their word stems.
    """

    source: OpenedDocument
    label: str
    windows: tuple[Window, ...]
    sentences: tuple[ReadingUnit, ...]
    vectors: NDArray[np.float32]
    stems: tuple[frozenset[str], ...]

    def text(self, unit: ReadingUnit) -> str:
        """The text of a unit in the document."""
        return self.source.document.text[unit.start : unit.end]

    def cite(self, start: int, end: int, unit: ReadingUnit) -> Citation:
        """The citation of a span in a unit."""
        return self.source.cite(start, end, self.windows[unit.window].chunk_id)


@dataclass(frozen=True, slots=True)
class UnitReading:
    """A unit with what the reader says of it."""

    unit: ReadingUnit
    reading: PassageReading

    @property
    def score(self) -> float:
        """Log odds, up to a constant, that the unit answers."""
        return self.reading.relevance + SPAN_WEIGHT * self.reading.score

    @property
    def span(self) -> tuple[int, int]:
        """The likeliest short answer as offsets in the document."""
        return self.unit.start + self.reading.start, self.unit.start + self.reading.end


@dataclass(frozen=True, slots=True)
class SectionReading:
    """The units that were read, the likeliest to answer first; of the nearest sentence the share of the question's words and the cosine."""

    units: tuple[UnitReading, ...] = ()
    word_share: float = 0.0
    cosine: float = 0.0


def open_section(source: OpenedDocument, chunks: Sequence[Chunk], label: str, project: Project) -> DocumentSection:
    """The windows and sentences of some chunks of a document, with the sentences' embeddings."""
    windows = tuple(chunk_windows(chunks, project))
    sentences = tuple(unit for n, window in enumerate(windows) for unit in _sentences_of(n, window))[:MAX_SENTENCES]
    texts = [collapse_whitespace(source.document.text[s.start : s.end]) for s in sentences]
    vectors = project.embedder.embed(texts) if texts else np.zeros((0, 1), np.float32)
    return DocumentSection(source, label, windows, sentences, vectors, tuple(frozenset(content_stems(text)) for text in texts))


def _sentences_of(number: int, window: Window) -> list[ReadingUnit]:
    """The sentences of a window; a short one also together with the one before it in the same block."""
    units = list[ReadingUnit]()
    for block in window.blocks:
        text, before = window.document.text[block.start : block.end], -1
        for start, end in cached_sentences(text):
            units.append(ReadingUnit(number, block.start + start, block.start + end))
            if end - start < MIN_SENTENCE_CHARS and before >= 0:
                units.append(ReadingUnit(number, block.start + before, block.start + end))
            before = start
    return units


def read_section(
    questions: Sequence[ReviewQuestion], vectors: Sequence[NDArray[np.float32]], section: DocumentSection, project: Project
) -> list[SectionReading]:
    """The nearest windows and sentences of a section as read for each question, with its vector, (d,). Raises as `read_pairs` does."""
    nearest = [_nearest_units(question, vector, section) for question, vector in zip(questions, vectors, strict=True)]
    pairs = [(question.text, section.text(unit)) for question, (units, _) in zip(questions, nearest, strict=True) for unit in units]
    readings = iter(read_pairs(pairs, project))
    return [
        replace(near, units=tuple(sorted((UnitReading(unit, next(readings)) for unit in units), key=lambda u: -u.score)))
        for units, near in nearest
    ]


def _nearest_units(
    question: ReviewQuestion, vector: NDArray[np.float32], section: DocumentSection
) -> tuple[list[ReadingUnit], SectionReading]:
    """The units to read for a question; and how near its nearest sentence is."""
    if not section.sentences:
        return [], SectionReading()
    wanted = content_stems(question.text)
    shares = np.array([len(wanted & stems) / max(1, len(wanted)) for stems in section.stems], np.float32)
    cosines = section.vectors @ vector
    order = np.argsort(-(cosines + WORD_WEIGHT * shares), kind="stable")
    sentences = [section.sentences[i] for i in order[: SENTENCES_READ_YES_NO if question.kind is AnswerKind.YES_NO else SENTENCES_READ]]
    numbers = list(dict.fromkeys(section.sentences[i].window for i in order))[:WINDOWS_READ]
    windows = [ReadingUnit(n, section.windows[n].start, section.windows[n].end) for n in numbers]
    return list(dict.fromkeys([*sentences, *windows])), SectionReading((), float(shares.max()), float(cosines.max()))
