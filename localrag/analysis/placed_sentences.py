"""The sentences of documents, each with its place."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from localrag.analysis.tables import cite_document
from localrag.project import Project
from localrag.records import Chunk, Citation, Document
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.text.outline import Outline
from localrag.text.sentences import cached_sentences, collapse_whitespace


class OpenedDocument:
    """A document with its outline, which is made when first needed, and its chunks."""

    def __init__(self, document: Document, chunks: list[Chunk]) -> None:
        self.document, self.chunks = document, chunks

    @cached_property
    def outline(self) -> Outline:
        """The headings and blocks of its text."""
        return Outline(self.document.text)

    @cached_property
    def day(self) -> date | None:
        """The day of the document; None if it is not known."""
        try:
            return date.fromisoformat(self.document.date)
        except ValueError:
            return None

    def cite(self, start: int, end: int, chunk_id: str = "") -> Citation:
        """The citation of a span of the text."""
        return cite_document(self.document, self.outline, start, end, chunk_id)


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence, list item, row or heading at characters `start` to `end` of a document, on one line as `text`."""

    source: OpenedDocument
    chunk_id: str
    start: int
    end: int
    text: str

    @property
    def citation(self) -> Citation:
        """Its citation."""
        return self.source.cite(self.start, self.end, self.chunk_id)


def opened_documents(project: Project) -> Iterator[OpenedDocument]:
    """The documents of a project, or those that it is filtered to, by path."""
    for path in sorted(documents_store.document_hashes(project.db)):
        document = documents_store.find_document(project.db, path)
        if document is not None:
            yield OpenedDocument(document, chunks_store.chunks_of(project.db, document.id))


def sentences_of(source: OpenedDocument) -> Iterator[PlacedSentence]:
    """The sentences of a document in order; where chunks overlap, each once."""
    read_to = 0
    for chunk in source.chunks:
        for span in cached_sentences(chunk.text):
            start, end = chunk.start + span.start, chunk.start + span.end
            if start >= read_to and end > start:
                read_to = end
                yield PlacedSentence(source, chunk.id, start, end, collapse_whitespace(chunk.text[span.start : span.end]))
