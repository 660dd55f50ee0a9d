"""Tables made from documents: each cell has the verbatim quotes that it rests on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from localrag.records import Citation, Document
from localrag.text.outline import Outline

OnWork = Callable[[int, int], None]  # units of work done, units in all


class CellState(StrEnum):
    """What a cell is: quoted from the documents, not stated in them, stated differently in several places, or decided by a person."""

    FOUND = "found"
    NOT_STATED = "not stated"
    CONTRADICTORY = "contradictory"
    CORRECTED = "corrected"
    APPROVED = "approved"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell. `citations`: its quotes, best first; `confidence`: a probability; `value`: of a typed column, an ISO date or a number.

    `note`: what its reader should know.
    """

    text: str = ""
    citations: tuple[Citation, ...] = ()
    state: CellState = CellState.FOUND
    confidence: float | None = None
    value: str | float | None = None
    note: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Cell":
        """The cell of JSON-ready values."""
        cited = tuple(Citation(**c | {"headings": tuple(c["headings"])}) for c in values["citations"])
        return cls(**{**values, "citations": cited, "state": CellState(values["state"])})

    def to_json(self) -> dict[str, Any]:
        """The cell as JSON-ready values."""
        return asdict(self) | {"state": str(self.state)}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `kind`: text, date, amount, number, yes/no, list or choice."""

    title: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row, with one cell a column. `key` identifies it in a later table of the same kind, such as the path of a document."""

    cells: tuple[Cell, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table. `kind`: the command that makes it; `note`: what its reader should know; `figures`: counts of what was read, by name."""

    kind: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    figures: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations of all cells, each once, in the order of their numbers."""
        return tuple(sorted({c.n: c for row in self.rows for cell in row.cells for c in cell.citations}.values(), key=lambda c: c.n))


def make_table(
    kind: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[TableRow],
    note: str = "",
    figures: Mapping[str, int | float] | None = None,
) -> ResultTable:
    """A table whose citations are numbered from 1 in reading order, the same span always with the same number."""
    numbers: dict[tuple[str, int, int], int] = {}

    def numbered(cell: Cell) -> Cell:
        cited = (replace(c, n=numbers.setdefault((c.path, c.start, c.end), len(numbers) + 1)) for c in cell.citations)
        return replace(cell, citations=tuple(cited))

    in_order = tuple(replace(row, cells=tuple(map(numbered, row.cells))) for row in rows)
    return ResultTable(kind, title, tuple(columns), in_order, note, figures or {})


def cite_document(document: Document, outline: Outline, start: int, end: int, chunk_id: str = "") -> Citation:
    """The citation of a span of a document, without a number: white space at its ends is left out."""
    text = document.text[start:end]
    start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
    part = next((p.label for p in document.parts if p.start <= start < p.end), "")
    return Citation(0, document.path, start, end, document.text[start:end], chunk_id, part, tuple(outline.headings_at(start)))
