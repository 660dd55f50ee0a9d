"""What one document says to a question: its nearest windows, read, and the evidence that they answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.reading import read_passages
from localrag.llm.reader import PassageReading
from localrag.project import Project
from localrag.query.passages import SPAN_WEIGHT, Window, chunk_windows
from localrag.query.retriever import word_share
from localrag.records import Chunk
from localrag.store.vectors import load_vectors

WINDOWS_READ = 6  # of a document, for each question: the nearest ones by meaning and words
WORD_WEIGHT = 0.4  # of the share of the question's words, beside the cosine


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """What a row of a review is about: a document or a part of it, named by `label`, with its windows, (n,), and their vectors, (n, d)."""

    source: OpenedDocument
    label: str
    windows: tuple[Window, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SectionReading:
    """A window of a section with what the reader says of it."""

    window: Window
    reading: PassageReading

    @property
    def score(self) -> float:
        """Log odds, up to a constant, that the window answers."""
        return self.reading.relevance + SPAN_WEIGHT * self.reading.score

    @property
    def span(self) -> tuple[int, int]:
        """The likeliest short answer as offsets in the document."""
        return self.window.start + self.reading.start, self.window.start + self.reading.end


def open_section(source: OpenedDocument, chunks: Sequence[Chunk], label: str, project: Project) -> DocumentSection:
    """The windows of some chunks of a document, each with the vector of its chunk."""
    windows = tuple(chunk_windows(chunks, project))
    ids, matrix = load_vectors(project.db, "chunk", [c.id for c in chunks])
    rows = {chunk: n for n, chunk in enumerate(ids)}
    zero = np.zeros(matrix.shape[1], np.float32)
    vectors = [matrix[rows[w.chunk_id]] if w.chunk_id in rows else zero for w in windows]
    return DocumentSection(source, label, windows, np.array(vectors, np.float32).reshape(len(windows), matrix.shape[1]))


def nearest_windows(question: str, vector: NDArray[np.float32], section: DocumentSection, n: int = WINDOWS_READ) -> list[Window]:
    """The windows of a section nearest a question, (d,), best first."""
    if len(section.windows) <= n:
        return list(section.windows)
    shares = np.array([word_share(question, " ".join([*w.blocks[0].headings, w.text])) for w in section.windows])
    order = np.argsort(-(section.vectors @ vector + WORD_WEIGHT * shares), kind="stable")
    return [section.windows[i] for i in order[:n]]


def read_section(question: str, vector: NDArray[np.float32], section: DocumentSection, project: Project) -> list[SectionReading]:
    """The nearest windows of a section as read for a question, the likeliest to answer first. Raises as `read_passages` does."""
    windows = nearest_windows(question, vector, section)
    readings = read_passages(question, [w.text for w in windows], project)
    return sorted((SectionReading(w, r) for w, r in zip(windows, readings, strict=True)), key=lambda s: -s.score)
