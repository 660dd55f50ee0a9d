"""The review table: the same questions put to every document, each cell with its quote.

A row is a document, a chapter, or a record of a table. Cells are stored as they are made, so a review that was stopped goes on, and one
that is repeated reads only what changed. What a person decided about a cell stays.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from sqlite3 import OperationalError

import numpy as np
from numpy.typing import NDArray

from localrag.analysis.placed_sentences import OpenedDocument, opened_documents
from localrag.analysis.review_cells import CELL_VERSION, make_cells
from localrag.analysis.review_questions import ReviewQuestion
from localrag.analysis.review_reading import open_section, read_section
from localrag.analysis.tables import Cell, CellState, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.text_records import records_in
from localrag.analysis.written_cells import SECONDS_PER_CELL, TOKENS_PER_CELL, write_cell
from localrag.errors import UsageError
from localrag.llm.budgets import estimate_seconds
from localrag.llm.model import bounded_map
from localrag.project import Project, resolve_answer_style
from localrag.records import Chunk, content_id, format_path
from localrag.store import documents as documents_store
from localrag.store import reviews
from localrag.store.reviews import CellKey, StoredCell

ROW_KINDS = ("document", "chapter", "record")
MAX_CELLS = 1_000_000
CELLS_PER_GROUP = 32  # that a chat model writes at once
SECONDS_PER_READING = 0.35  # of a cell on two cores without instructions for bfloat16
LONG_CHARS = 3000  # from which on a document takes no longer to be read for a question
MAX_SECTIONS = 10_000  # of a document
MAX_LABEL_CHARS = 80  # of a record


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """What a review will do: rows, cells in all and those to be made, and about how many seconds that takes."""

    rows: int
    cells: int
    new_cells: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Section:
    """A row before it is read: its document, its label (empty for a whole document), its chunks, and what writes its cells.

    `writer`: the fingerprint of the chat model; empty if the reader answers alone.
    """

    source: OpenedDocument
    label: str
    chunks: tuple[Chunk, ...]
    writer: str

    def key(self, question: ReviewQuestion) -> CellKey:
        return self.source.document.path, self.label, question.line

    @property
    def text_hash(self) -> str:
        """Of all that a cell is made from, but the question and the chat model."""
        return content_id(CELL_VERSION, self.source.document.id, *(c.id for c in self.chunks))

    @property
    def input_hash(self) -> str:
        """The hash of the text, and behind it the chat model, if there is one."""
        return f"{self.text_hash} {self.writer}".rstrip()

    def has_text_of(self, stored: StoredCell) -> bool:
        """Whether a stored cell was made from this text."""
        return stored.input_hash.split(" ")[0] == self.text_hash

    def is_current(self, stored: StoredCell | None) -> bool:
        """Whether a cell need not be made: a person decided it, or it was made from this text by this chat model, or by any without one."""
        if stored is None or stored.decided_at:
            return stored is not None
        return self.has_text_of(stored) and (not self.writer or stored.input_hash == self.input_hash)


def plan_review(questions: Sequence[ReviewQuestion], project: Project, *, rows: str = "document") -> ReviewPlan:
    """What `review_documents` would do. Raises UsageError for an unknown kind of row, and for more than MAX_CELLS cells; ModelError."""
    return _plan(questions, project, rows, _writer_of(project))


def _plan(questions: Sequence[ReviewQuestion], project: Project, rows: str, writer: str) -> ReviewPlan:
    stored = reviews.stored_cells(project.db, [q.line for q in questions])
    n_rows = n_new = 0
    readings = 0.0
    for section in _sections(project, rows, writer):
        n_rows += 1
        if n_rows * len(questions) > MAX_CELLS:
            raise UsageError(f"This review has more than {MAX_CELLS:,} cells.", "Choose documents: --filter, --collection")
        new = sum(not section.is_current(stored.get(section.key(q))) for q in questions)
        n_new += new
        readings += new * min(1.0, sum(c.end - c.start for c in section.chunks) / LONG_CHARS)
    written = (estimate_seconds(TOKENS_PER_CELL, project.model.file) or SECONDS_PER_CELL) if writer else 0.0
    return ReviewPlan(n_rows, n_rows * len(questions), n_new, readings * SECONDS_PER_READING + n_new * written)


def _writer_of(project: Project) -> str:
    """The fingerprint of the project's chat model if it writes prose; empty for a small one."""
    return project.model.file.fingerprint if asyncio.run(resolve_answer_style(project)) == "abstractive" else ""


def review_documents(
    questions: Sequence[ReviewQuestion],
    project: Project,
    *,
    rows: str = "document",
    max_seconds: float | None = None,
    on_work: OnWork | None = None,
) -> ResultTable:
    """The table of the answers of each document to each question.

    `rows`: "document", "chapter" (a section below a heading of the highest level) or "record" (a row of a table). After `max_seconds` the
    other cells stay empty; the same call goes on. A chat model that writes prose writes the cells, from what the reader finds. Raises
    UsageError as `plan_review` does, and without the reader; ModelError.
    """
    writer = _writer_of(project)
    plan = _plan(questions, project, rows, writer)
    until = time.monotonic() + max_seconds if max_seconds is not None else float("inf")
    stored = reviews.stored_cells(project.db, [q.line for q in questions])
    vectors = dict(zip(questions, project.embedder.embed([q.text for q in questions]), strict=True))
    made, n_made, n_missing = list[TableRow](), 0, 0
    for group in _batch_sections(_sections(project, rows, writer), questions, stored):
        if any(wanted for _, wanted in group) and time.monotonic() < until:
            new = asyncio.run(_make_cells(group, vectors, project))
            stored |= new
            if project.keep_answers:
                with suppress(OperationalError):  # a read-only index can still be reviewed
                    reviews.save_cells(project.write_db, new)
            n_made += len(new)
            if on_work:
                on_work(n_made, plan.new_cells)
        for section, _ in group:
            cells = [_current_cell(stored.get(section.key(q)), section) for q in questions]
            n_missing += sum(c is None for c in cells)
            made.append(_table_row(section, cells))
    columns = [Column(rows.capitalize()), *(Column(q.text, str(q.kind)) for q in questions)]
    return make_table(
        "review", "Review", columns, made, _note(plan, n_missing), {"rows": plan.rows, "cells": plan.cells, "cells_read": n_made}
    )


def _table_row(section: _Section, cells: Sequence[Cell | None]) -> TableRow:
    path = section.source.document.path
    name = " › ".join(filter(None, (format_path(path), section.label)))
    empty = Cell(note="Not read yet: the same command goes on.")
    return TableRow((Cell(name), *(c or empty for c in cells)), path + f"#{section.label}" * bool(section.label))


def _note(plan: ReviewPlan, n_missing: int) -> str:
    if not plan.rows:
        return "No document is selected."
    return f"{n_missing:,} of {plan.cells:,} cells are not read yet; the same command goes on." if n_missing else ""


def _batch_sections(
    sections: Iterable[_Section], questions: Sequence[ReviewQuestion], stored: Mapping[CellKey, StoredCell]
) -> Iterator[list[tuple[_Section, list[ReviewQuestion]]]]:
    """Sections with the questions whose cells have to be made, in groups that keep a chat model busy; without one, each alone."""
    group, n_cells = list[tuple[_Section, list[ReviewQuestion]]](), 0
    for section in sections:
        wanted = [q for q in questions if not section.is_current(stored.get(section.key(q)))]
        group.append((section, wanted))
        n_cells += len(wanted)
        if not section.writer or n_cells >= CELLS_PER_GROUP or len(group) >= CELLS_PER_GROUP:
            yield group
            group, n_cells = [], 0
    if group:
        yield group


async def _make_cells(
    group: Iterable[tuple[_Section, list[ReviewQuestion]]], vectors: Mapping[ReviewQuestion, NDArray[np.float32]], project: Project
) -> dict[CellKey, StoredCell]:
    keys, jobs = list[tuple[CellKey, str]](), list[Coroutine[None, None, Cell]]()
    for section, wanted in group:
        if not wanted:
            continue
        opened = open_section(section.source, section.chunks, section.label, project)
        reads = read_section(wanted, [vectors[q] for q in wanted], opened, project)
        for question, read, found in zip(wanted, reads, make_cells(wanted, reads, opened, project), strict=True):
            keys.append((section.key(question), section.input_hash))
            jobs.append(write_cell(question, read, opened, project, found) if section.writer else _ready(found))
    cells = await bounded_map(jobs)
    return {key: StoredCell(input_hash, cell.to_json()) for (key, input_hash), cell in zip(keys, cells, strict=True)}


async def _ready(cell: Cell) -> Cell:
    return cell


def _current_cell(stored: StoredCell | None, section: _Section) -> Cell | None:
    """A stored cell; of a decided one whose document changed since, the quotes are those of that time."""
    if stored is None or not section.is_current(stored):
        return None
    cell = Cell.from_json(stored.cell)
    if stored.decided_at and not section.has_text_of(stored):
        return replace(cell, note="The document has changed since this was decided.")
    return cell


def _sections(project: Project, rows: str, writer: str = "") -> Iterator[_Section]:
    if rows not in ROW_KINDS:
        raise UsageError(f"There are no rows of kind {rows!r}.", f"Kinds: {', '.join(ROW_KINDS)}")
    for source in opened_documents(project):
        if rows == "document":
            yield _Section(source, "", tuple(source.chunks), writer)
        else:
            spans = _chapters(source) if rows == "chapter" else _records(source)
            for label, start, end in spans[:MAX_SECTIONS]:
                if chunks := _cut_chunks(source, start, end):
                    yield _Section(source, label, chunks, writer)


def _cut_chunks(source: OpenedDocument, start: int, end: int) -> tuple[Chunk, ...]:
    text, parts, reached = source.document.text, list[Chunk](), start
    for chunk in source.chunks:
        first, last = max(chunk.start, reached), min(chunk.end, end)
        if first < last and text[first:last].strip():
            parts.append(replace(chunk, start=first, end=last, text=text[first:last]))
            reached = last
    return tuple(parts)


def _chapters(source: OpenedDocument) -> list[tuple[str, int, int]]:
    """The sections below the headings of the highest level that occurs more than once; the whole document without such headings."""
    headings = source.outline.headings
    levels = sorted({h.level for h in headings if sum(h.level == other.level for other in headings) > 1})
    text = source.document.text
    if not levels:
        return [("", 0, len(text))]
    tops = [h for h in headings if h.level == levels[0]]
    ends = [*(h.start for h in tops[1:]), len(text)]
    before = [("", 0, tops[0].start)] if text[: tops[0].start].strip() else []
    return before + _distinct([(h.title, h.start, end) for h, end in zip(tops, ends, strict=True)])


def _records(source: OpenedDocument) -> list[tuple[str, int, int]]:
    """The rows of tables, each called by its first value; none where a document has no table."""
    rows = (record for record, is_keyed in records_in(source) if not is_keyed)
    return _distinct([(r.cells[0][1][:MAX_LABEL_CHARS], r.start, r.end) for r in rows])


def _distinct(spans: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Spans with labels that differ: a number behind the second of a name."""
    seen: dict[str, int] = {}
    named = list[tuple[str, int, int]]()
    for label, start, end in spans:
        seen[label] = seen.get(label, 0) + 1
        named.append((label if seen[label] == 1 else f"{label} ({seen[label]})", start, end))
    return named


def decide_cell(
    project: Project, path: str, question: ReviewQuestion, text: str | None, *, section: str = "", rows: str = "document"
) -> Cell:
    """Approve a cell of a review, or correct it if `text` is given; it stays when the document changes. Returns the cell.

    A corrected cell quotes the document where the text stands in it, else what it quoted before. Raises UsageError for an unknown document,
    and for an approval of a cell that was not read.
    """
    found = next((s for s in _sections(project, rows) if (s.source.document.path, s.label) == (path, section)), None)
    if found is None:
        raise UsageError(f"There is no document {path!r}{f' with a part {section!r}' if section else ''}.", "List them: localrag files")
    key = found.key(question)
    stored = reviews.stored_cells(project.db, [question.line]).get(key)
    if text is None and stored is None:
        raise UsageError("The cell was not read yet, so it cannot be approved.", "Run the review first: localrag review QUESTIONS.txt")
    cell = Cell.from_json(stored.cell) if stored else Cell()
    if text is None:
        cell = replace(cell, state=CellState.APPROVED, note="")
    else:
        at = found.source.document.text.find(text) if text.strip() else -1
        cited = (found.source.cite(at, at + len(text)),) if at >= 0 else cell.citations
        cell = replace(cell, text=text, citations=cited, state=CellState.CORRECTED, confidence=None, value=None, note="")
    at_time = datetime.now(UTC).isoformat(timespec="seconds")
    reviews.decide_cell(project.write_db, key, StoredCell(found.text_hash, cell.to_json(), at_time))
    return cell


def reopen_cell(project: Project, path: str, question: ReviewQuestion, *, section: str = "") -> None:
    """Forget what a person decided about a cell; the next review reads it anew. Raises UsageError for an unknown document."""
    if path not in documents_store.document_hashes(project.db):
        raise UsageError(f"There is no document {path!r}.", "List them: localrag files")
    reviews.delete_cell(project.write_db, (path, section, question.line))
