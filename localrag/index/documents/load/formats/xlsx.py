"""Excel: each sheet a part, each row a line that carries its headers."""

import re
import zipfile
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from localrag.index.documents.load.archive import open_archive
from localrag.index.documents.load.content import Content, Options, Unreadable, clean, compose
from localrag.index.documents.load.formats.charts import chart_lines
from localrag.index.documents.load.formats.docx import core_metadata
from localrag.index.documents.load.formats.tables import cell, table_lines, text_rows
from localrag.index.documents.load.formats.xml import xml_root
from localrag.index.documents.load.open_file import OpenFile

_UNNAMED = re.compile(r"(?:sheet|tabelle|feuil|hoja|blad|foglio|лист|工作表) ?\d*", re.IGNORECASE)
_CHART = re.compile(r"xl/charts/chart\d*\.xml")


def parse_xlsx(file: OpenFile, options: Options) -> Content:
    """A workbook; of formulas the value that Excel last saw."""
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    with open_archive(file) as archive:
        charts = [list(chart_lines(xml_root(archive.read(name)))) for name in sorted(archive.namelist()) if _CHART.fullmatch(name)]
    try:
        book = openpyxl.load_workbook(file.open(), read_only=True, data_only=True, keep_links=False)
        sheets = [(sheet.title, _sheet(sheet, options)) for sheet in book.worksheets]
    except (InvalidFileException, ValueError, KeyError, TypeError, AttributeError, IndexError, zipfile.BadZipFile) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    drawn = [(f"chart {n}", "\n".join(["Chart:", *lines])) for n, lines in enumerate(charts, 1) if lines]
    several = len(sheets) > 1
    text, parts = compose([(f"sheet {name}", titled(name, text, always=several)) for name, text in sheets] + drawn)
    metadata = core_metadata(book.properties) if hasattr(book.properties, "author") else ()
    return Content(text, dict(metadata).get("title", ""), metadata, parts)


def titled(name: str, text: str, *, always: bool) -> str:
    """A sheet under its name, `always` or if somebody gave it one."""
    return f"# {name}\n\n{text}" if text and (always or not _UNNAMED.fullmatch(name)) else text


def _sheet(sheet: Any, options: Options) -> str:
    sheet.reset_dimensions()  # what a file says of its size may be wrong by a million rows
    rows = _rows(sheet)
    if options.text_column:
        held = list(rows)
        header = next((row for row in held if options.text_column in row), [])
        if header:
            return "\n\n".join(text_rows(header, held[held.index(header) + 1 :], options))
        rows = iter(held)
    return clean("\n".join(table_lines(rows, likely=True)))


def _rows(sheet: Any) -> Iterator[list[str]]:
    """The rows as text, without the empty cells at their ends; of empty rows, however many, one."""
    for empty, rows in groupby((_row(values) for values in sheet.iter_rows(values_only=True)), key=lambda row: not row):
        yield from [[]] if empty else rows


def _row(values: Any) -> list[str]:
    row = [cell(value) for value in values or ()]
    while row and not row[-1]:
        row.pop()
    return row
