"""Cells, citations and answers as files for people show them."""

import re
from collections.abc import Iterator, Mapping
from datetime import date

from localrag.analysis.tables import Cell, CellState, Column
from localrag.records import SUPPORTED_STATE, Answer, Citation
from localrag.text.sentences import collapse_whitespace, replace_control_characters

# Light enough for black text; the state stands in words, too.
STATE_FILLS: Mapping[CellState, str] = {
    CellState.NOT_STATED: "E7E6E6",
    CellState.CONTRADICTORY: "F8CBAD",
    CellState.CORRECTED: "BDD7EE",
    CellState.APPROVED: "C6E0B4",
}
# Around the number of a citation in a text on its way to a file; `replace_control_characters` leaves neither in any text.
MARK_START, MARK_END = "\ufdd0", "\ufdd1"
_CITATION_MARK = re.compile(f"{MARK_START}(\\d+){MARK_END}")
MAX_EXACT_NUMBER = 10**15  # from which on a spreadsheet rounds digits away


def cell_text(cell: Cell) -> str:
    """The text of a cell, without control characters; its state if it has none because nothing is stated."""
    text = replace_control_characters(cell.text).strip()
    return text or (CellState.NOT_STATED.value if cell.state is CellState.NOT_STATED else "")


def remark(cell: Cell) -> str:
    """What is to be said of a cell beside its text: its state, unless it is simply quoted or not stated, and its note."""
    state = "" if cell.state in (CellState.FOUND, CellState.NOT_STATED) else cell.state.value
    return "; ".join(filter(None, (state, collapse_whitespace(replace_control_characters(cell.note)))))


def typed_value(cell: Cell, column: Column) -> float | date | None:
    """The number or date of a cell in a typed column; None if it has none that a spreadsheet holds exactly."""
    if column.kind == "date" and isinstance(cell.value, str):
        try:
            found = date.fromisoformat(cell.value)
        except ValueError:  # a year or a month
            return None
        return found if found.year >= 1900 else None
    if column.kind in ("amount", "number") and isinstance(cell.value, int | float):
        return cell.value if abs(cell.value) < MAX_EXACT_NUMBER else None
    return None


def quoted_text(citation: Citation) -> str:
    """The quote of a citation in quotation marks, on one line."""
    return f"“{collapse_whitespace(replace_control_characters(citation.quote))}”"


def place(citation: Citation) -> str:
    """The file, part and headings of a citation, on one line."""
    return collapse_whitespace(replace_control_characters(citation.place()))


def source(citation: Citation) -> str:
    """The quote and the place of a citation."""
    return f"{quoted_text(citation)} — {place(citation)}"


def marked_answer(answer: Answer) -> str:
    """The text of an answer without control characters, in which MARK_START and MARK_END are around the number of each citation."""
    parts, position = [], 0
    known = {c.n for c in answer.citations}
    for offset, n in answer.citation_marks:
        parts.append(replace_control_characters(answer.answer[position:offset]).rstrip(" "))
        parts.append(f"{MARK_START}{n}{MARK_END}" if n in known else "")
        position = offset + len(f"[{n}]")
    return "".join([*parts, replace_control_characters(answer.answer[position:])])


def split_marks(text: str) -> Iterator[str | int]:
    """The pieces of a marked text: texts, and the numbers of citations."""
    for n, piece in enumerate(_CITATION_MARK.split(text)):
        if piece:
            yield int(piece) if n % 2 else piece


def replace_marks(text: str, template: str) -> str:
    """A marked text with the template for each mark; `{}` in it stands for the number."""
    return _CITATION_MARK.sub(lambda found: template.format(found[1]), text)


def answer_source(answer: Answer, citation: Citation) -> str:
    """The quote and the place of a citation of an answer, and its state if it does not prove what cites it."""
    state = answer.state_of(citation.n)
    return source(citation) + (f" ({state})" if state != SUPPORTED_STATE else "")
