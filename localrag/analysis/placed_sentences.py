"""The sentences of documents, each with its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from localrag.analysis.tables import OnWork, cite_document
from localrag.dates.date_mentions import find_dates
from localrag.dates.edtf import PartialDate, parse_edtf
from localrag.project import Project
from localrag.query.collection_questions import own_date
from localrag.records import Chunk, Citation, Document
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.text.language import detect_language
from localrag.text.outline import Outline
from localrag.text.sentences import cached_sentences, collapse_whitespace

LANGUAGE_CHARS = 3000  # of a document that tell its language
DATELINE_CHARS = 500  # at the beginning of a document that may hold its date
_DATELINE_START = re.compile(r"[^\n\d(]{0,60}")
_LIFE = re.compile(r"\b(?:born|died|geboren|gestorben|nació|murió|né|née|mort)\b", re.IGNORECASE)


class OpenedDocument:
    """A document with its outline, which is made when first needed, and its chunks."""

    def __init__(self, document: Document, chunks: list[Chunk]) -> None:
        self.document, self.chunks = document, chunks

    @cached_property
    def outline(self) -> Outline:
        """The headings and blocks of its text."""
        return Outline(self.document.text, self.document.blocks)

    @cached_property
    def own_date(self) -> PartialDate | None:
        """Its date by its metadata, name, title or dateline. When its file was last changed says nothing about what it tells."""
        document = self.document
        own = own_date(document.path, document.title, document.date, document.date_source)
        known = parse_edtf(own) if own else None
        return known.start if known else _dateline(document.text, self.language)

    @cached_property
    def language(self) -> str:
        """The language that its beginning is in."""
        return detect_language(self.document.text[:LANGUAGE_CHARS])

    def cite(self, start: int, end: int, chunk_id: str = "") -> Citation:
        """The citation of a span of the text."""
        return cite_document(self.document, self.outline, start, end, chunk_id)


def _dateline(text: str, language: str) -> PartialDate | None:
    """The day that stands alone, or behind a place, in one of the first lines, as in a letter; None without one."""
    for mention in find_dates(text[:DATELINE_CHARS], language=language).mentions:
        before = text[text.rfind("\n", 0, mention.start) + 1 : mention.start]
        behind = text[mention.end : mention.end + DATELINE_CHARS].partition("\n")[0]
        is_alone = _DATELINE_START.fullmatch(before) and not _LIFE.search(before) and not behind.strip(" .*_|")
        if is_alone and mention.value.start and mention.value.start.day and mention.value.end == mention.value.start:
            return mention.value.start
    return None


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


def opened_documents(project: Project, on_work: OnWork | None = None) -> Iterator[OpenedDocument]:
    """Yield the documents of a project, or those that it is filtered to, by path; `on_work` is told after each."""
    paths = sorted(documents_store.document_hashes(project.db))
    for n, path in enumerate(paths, 1):
        document = documents_store.find_document(project.db, path)
        if document is not None:
            yield OpenedDocument(document, chunks_store.chunks_of(project.db, document.id))
        if on_work:
            on_work(n, len(paths))


def sentences_of(source: OpenedDocument) -> Iterator[PlacedSentence]:
    """The sentences of a document in order; where chunks overlap, each once."""
    read_to = 0
    for chunk in source.chunks:
        for span in cached_sentences(chunk.text):
            start, end = chunk.start + span.start, chunk.start + span.end
            if start >= read_to and end > start:
                read_to = end
                yield PlacedSentence(source, chunk.id, start, end, collapse_whitespace(chunk.text[span.start : span.end]))
