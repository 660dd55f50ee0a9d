"""Tables as CSV and as Excel workbooks: cells of documents are never formulas, typed columns hold real numbers and dates."""

import csv
import re
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

from localrag.analysis.tables import Cell, Column, ResultTable
from localrag.errors import UsageError
from localrag.exchange.cited_texts import STATE_FILLS, cell_text, place, quoted_text, remark, source, typed_value
from localrag.system.files import atomic_file, write_atomically
from localrag.text.sentences import collapse_whitespace, replace_control_characters

MAX_CELL_CHARS = 32_767  # of Excel, in UTF-16
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384
MAX_COMMENT_CHARS = 1_500
MIN_WIDTH, MAX_WIDTH = 12, 60  # characters of a column
MEASURED_ROWS = 1_000
_FORMULA_START = tuple("=+-@\t\r\n＝＋－＠")  # OWASP, "CSV Injection"
_CURRENCY = re.compile(r"[€$£¥₹]|\b[A-Z]{3}\b")
_AMOUNT = re.compile(r"(\D*)(\d[\d.,'’]*)(\D*)")  # of one number
_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")  # in a workbook, such a text stands for a character
TEXT_STYLE = "Text of documents"


def neutralize_formula(text: str) -> str:
    """A text that a spreadsheet program does not read as a formula: one that would begin like one gets an apostrophe in front."""
    return f"'{text}" if text.startswith(_FORMULA_START) else text


def write_csv(table: ResultTable, path: Path) -> None:
    """Write a table as CSV in UTF-8, beside each column one with the state, the quotes and the places of its cells."""
    with atomic_file(path) as part, part.open("w", encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)  # a semicolon in a cell must not divide it where that separates cells
        rows.writerow([neutralize_formula(t) for c in table.columns for t in (_one_line(c.title), f"{_one_line(c.title)}: source")])
        for row in table.rows:
            rows.writerow([t for cell, column in zip(row.cells, table.columns, strict=True) for t in _csv_cells(cell, column)])


def _csv_cells(cell: Cell, column: Column) -> tuple[str, str]:
    value = typed_value(cell, column) if column.kind != "amount" else None  # its text says the currency
    text = neutralize_formula(cell_text(cell)) if value is None else _plain_number(value)
    state = f"[{remark(cell)}] " if remark(cell) else ""
    return text, neutralize_formula(state + "\n".join(map(source, cell.citations)))


def _plain_number(value: float | date) -> str:
    if isinstance(value, date):
        return value.isoformat()
    return str(int(value)) if float(value).is_integer() else repr(value)


def write_workbook(table: ResultTable, path: Path) -> None:
    """Write a table as a workbook: the sheet of its cells, whose comments are their quotes, and one about it. Raises UsageError."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, NamedStyle

    if len(table.rows) >= MAX_ROWS or len(table.columns) > MAX_COLUMNS:
        raise UsageError("The table is too large for a workbook.", "Write it as CSV: name a file that ends with .csv")
    book = Workbook(write_only=True)
    # One named style is three times as fast as an alignment of each cell.
    book.add_named_style(NamedStyle(TEXT_STYLE, alignment=Alignment(wrap_text=True, vertical="top")))
    book.properties.title, book.properties.creator = _one_line(table.title)[:255], "localrag"
    _write_cells(book.create_sheet("Table"), table)
    _write_about(book.create_sheet("About"), table)
    buffer = BytesIO()
    book.save(buffer)
    write_atomically(path, buffer.getvalue())


def _write_cells(sheet: Any, table: ResultTable) -> None:
    from openpyxl.utils import get_column_letter

    sheet.freeze_panes = "A2"
    for n in range(len(table.columns)):
        sheet.column_dimensions[get_column_letter(n + 1)].width = _width(table, n)
    if table.columns:
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(table.columns))}{len(table.rows) + 1}"
    sheet.append([_head_cell(sheet, column.title) for column in table.columns])
    for row in table.rows:
        sheet.append([_table_cell(sheet, cell, column) for cell, column in zip(row.cells, table.columns, strict=True)])


def _width(table: ResultTable, n: int) -> int:
    lines = [table.columns[n].title, *(line for row in table.rows[:MEASURED_ROWS] for line in cell_text(row.cells[n]).split("\n"))]
    return min(MAX_WIDTH, max(MIN_WIDTH, *map(len, lines)) + 2)


def _head_cell(sheet: Any, title: str) -> Any:
    from openpyxl.styles import Font

    cell = text_cell(sheet, _one_line(title))
    cell.font = Font(bold=True)
    return cell


def text_cell(sheet: Any, text: str) -> Any:
    """A cell that holds a text, whatever it begins with, also after somebody edits it; cut to what a cell can hold."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value=_cut(_ESCAPE.sub("_x005F_", replace_control_characters(text)), MAX_CELL_CHARS))
    cell.data_type = "s"  # openpyxl takes what begins with "=" for a formula, and "#N/A" for an error
    cell.style = TEXT_STYLE
    if text.startswith(_FORMULA_START):
        cell.quotePrefix = True
    return cell


def _cut(text: str, most: int) -> str:
    if len(text) * 2 <= most or len(text.encode("utf-16-le")) <= most * 2:
        return text
    return text.encode("utf-16-le")[: (most - 1) * 2].decode("utf-16-le", "ignore") + "…"


def _table_cell(sheet: Any, cell: Cell, column: Column) -> Any:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.comments import Comment
    from openpyxl.styles import Alignment, PatternFill

    value = typed_value(cell, column)
    number_format = None if value is None else _number_format(cell, column)
    if number_format is None:
        written = text_cell(sheet, cell_text(cell))
    else:
        written = WriteOnlyCell(sheet, value=value)
        written.number_format = number_format
        written.alignment = Alignment(vertical="top")
    if fill := STATE_FILLS.get(cell.state):
        written.fill = PatternFill("solid", start_color=fill)
    notes = [remark(cell), *(f"[{c.n}] {place(c)}\n{quoted_text(c)}" for c in cell.citations)]
    if comment := "\n\n".join(filter(None, notes)):
        written.comment = Comment(_cut(comment, MAX_COMMENT_CHARS), "localrag", height=160, width=360)
    return written


def _number_format(cell: Cell, column: Column) -> str | None:
    """The number format of a typed cell; None of an amount that no number shows with its unit, such as "1 hour and 48 minutes"."""
    if column.kind == "date":
        return "yyyy-mm-dd"
    if column.kind != "amount":
        return "General"
    if not (found := _AMOUNT.fullmatch(cell.text.strip())):
        return None
    before, number, unit = found.groups()
    if currency := _CURRENCY.search(cell.text):
        return f'#,##0.00 "{currency[0]}"'
    is_plain = not before and number.replace(",", "") == f"{cell.value:g}"
    return f'General"{unit.replace(chr(34), "")}"' if is_plain and unit else None


def _write_about(sheet: Any, table: ResultTable) -> None:
    sheet.column_dimensions["A"].width, sheet.column_dimensions["B"].width = 24, 80
    sheet.append([_head_cell(sheet, "Title"), text_cell(sheet, table.title)])
    if table.note:
        sheet.append([_head_cell(sheet, "Note"), text_cell(sheet, table.note)])
    for name, value in table.figures.items():
        sheet.append([_head_cell(sheet, name), value])


def _one_line(text: str) -> str:
    return collapse_whitespace(replace_control_characters(text))
