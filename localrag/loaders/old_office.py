"""Office files from before 2007: DOC, PPT and XLS."""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from localrag.loaders.code_pages import code_page_encoding
from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, first_heading, join_sections, metadata_pairs
from localrag.loaders.headers import HeadCell
from localrag.loaders.inline_text import join_runs
from localrag.loaders.number_formats import format_number_cell, format_text_cell
from localrag.loaders.open_xml import parsed_file
from localrag.loaders.powerpoint97 import PowerPoint97Presentation
from localrag.loaders.sheet_tables import sheet_lines
from localrag.loaders.spans import CellRange
from localrag.loaders.spreadsheet import SheetComments, sheet_title
from localrag.loaders.tabular import text_rows
from localrag.loaders.word97 import Word97Document

_DAMAGES = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    struct.error,
)  # what libraries raise on damaged files
_CODE_PAGE, _TITLE, _SUBJECT, _AUTHOR, _KEYWORDS, _CREATED, _SAVED = 1, 2, 3, 4, 5, 12, 13  # properties
_TEXT, _WIDE_TEXT, _TIME = 30, 31, 64  # their types
_MAX_PROPERTIES = 1000
_BOLD_WEIGHT = 600
_NO_YEAR = 1601  # where times begin, which a program wrote that knew none


def parse_doc(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a Word document of 1997 to 2003."""
    data = file.read_bytes()
    with _open_ole(data) as ole:
        tables = {name: _ole_stream(ole, name) for name in ("0Table", "1Table")}
        document = Word97Document(_ole_stream(ole, "WordDocument"), tables)
    text = clean_text("\n".join(document.lines()))
    return parsed_file(text, _ole_metadata(data), first_heading(text))


def parse_ppt(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a presentation of 1997 to 2003: each slide is a part."""
    data = file.read_bytes()
    with _open_ole(data) as ole:
        presentation = PowerPoint97Presentation(_ole_stream(ole, "PowerPoint Document"), _ole_stream(ole, "Current User"))
    text, parts = join_sections((f"slide {n}", clean_text("\n\n".join(lines))) for n, lines in enumerate(presentation.slides(), 1))
    return parsed_file(text, _ole_metadata(data), first_heading(text), parts)


def parse_xls(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a workbook of 1993 to 2003: each sheet is a part."""
    import xlrd

    data = file.read_bytes()
    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO(), ragged_rows=True)
        named = [(sheet.name, _old_sheet_text(book, sheet, options)) for sheet in book.sheets()]
    except (xlrd.XLRDError, xlrd.compdoc.CompDocError, *_DAMAGES) as error:
        is_locked = "encrypted" in str(error)
        raise Unreadable("password-protected" if is_locked else f"damaged: {error}", failed=not is_locked) from error
    has_sheets = len(named) > 1
    text, parts = join_sections((f"sheet {name}", sheet_title(name, text, always=has_sheets)) for name, text in named)
    return parsed_file(text, _ole_metadata(data), "", parts)


@contextmanager
def _open_ole(data: bytes) -> Iterator[Any]:
    """An OLE file. Raises Unreadable if it is damaged."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            yield ole
    except (OSError, *_DAMAGES) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error


def _ole_stream(ole: Any, name: str) -> bytes:
    return bytes(ole.openstream(name).read()) if ole.exists(name) else b""


def _ole_metadata(data: bytes) -> tuple[tuple[str, str], ...]:
    """The title, author and date of an old Office file."""
    try:
        with _open_ole(data) as ole:
            values = _summary(_ole_stream(ole, "\x05SummaryInformation"))
    except (Unreadable, *_DAMAGES):
        return ()
    author = values.get(_AUTHOR, "")
    return metadata_pairs(
        title=values.get(_TITLE),
        author="" if author in {"xlwt", "python-docx"} else author,
        date=values.get(_SAVED) or values.get(_CREATED),
        subject=values.get(_SUBJECT),
        keywords=values.get(_KEYWORDS),
    )


def _summary(data: bytes) -> dict[int, str]:
    """Property → text of a summary, dates as ISO (MS-OLEPS)."""
    start = struct.unpack_from("<I", data, 44)[0]
    count = min(struct.unpack_from("<I", data, start + 4)[0], _MAX_PROPERTIES)
    places = {key: start + place for key, place in (struct.unpack_from("<II", data, start + 8 + 8 * n) for n in range(count))}
    page = struct.unpack_from("<H", data, places[_CODE_PAGE] + 4)[0] if _CODE_PAGE in places else 1252
    values: dict[int, str] = {}
    for key, place in places.items():
        kind, size = struct.unpack_from("<II", data, place)
        if kind == _TEXT:
            text = data[place + 8 : place + 8 + size].decode(code_page_encoding(page), "replace")
            values[key] = text.partition("\0")[0].strip()
        elif kind == _WIDE_TEXT:
            values[key] = data[place + 8 : place + 8 + 2 * size].decode("utf-16-le", "replace").partition("\0")[0].strip()
        elif kind == _TIME:
            moment = datetime(_NO_YEAR, 1, 1) + timedelta(microseconds=struct.unpack_from("<Q", data, place + 4)[0] // 10)
            values[key] = moment.date().isoformat() if moment.year > _NO_YEAR else ""
    return values


def _old_sheet_text(book: Any, sheet: Any, options: LoadOptions) -> str:
    rows = [_old_row(book, sheet, n) for n in range(sheet.nrows)]
    if options.text_column and (header := next((row for row in rows if options.text_column in row), [])):
        return "\n\n".join(text_rows(header, rows[rows.index(header) + 1 :], options))
    comments = SheetComments()
    for (row, column), note in sheet.cell_note_map.items():
        author = str(note.author or "")
        comments.add(row, column, " ".join(str(note.text or "").removeprefix(f"{author}:").split()), author, "")
    for n, row in enumerate(rows):
        comments.note_row(n, row)
    ranges = [CellRange(top, left, bottom - 1, right - 1) for top, bottom, left, right in sheet.merged_cells]
    lines = list(sheet_lines(enumerate(rows), ranges))
    return clean_text("\n".join([*lines, *(line for text in comments.lines() for line in ("", text))]))


def _old_row(book: Any, sheet: Any, n: int) -> list[str]:
    texts = enumerate([_old_cell(book, sheet, n, column) for column in range(sheet.row_len(n))])
    row = [HeadCell(text) if text and _is_bold(book, sheet, n, column) else text for column, text in texts]
    while row and not row[-1]:
        row.pop()
    return row


def _old_cell(book: Any, sheet: Any, n: int, column: int) -> str:
    import xlrd

    kind, value = sheet.cell_type(n, column), sheet.cell_value(n, column)
    if kind == xlrd.XL_CELL_TEXT:
        return format_text_cell(_old_rich_text(book, sheet, n, column, str(value)), _old_format(book, sheet, n, column))
    if kind in {xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE}:
        return format_number_cell(float(value), _old_format(book, sheet, n, column), is_1904=bool(book.datemode))
    if kind == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if value else "FALSE"
    return str(xlrd.error_text_from_code.get(value, "")) if kind == xlrd.XL_CELL_ERROR else ""


def _old_format(book: Any, sheet: Any, n: int, column: int) -> str:
    try:
        return str(book.format_map[book.xf_list[sheet.cell_xf_index(n, column)].format_key].format_str or "")
    except (KeyError, IndexError):
        return ""


def _is_bold(book: Any, sheet: Any, n: int, column: int) -> bool:
    try:
        return bool(book.font_list[book.xf_list[sheet.cell_xf_index(n, column)].font_index].weight >= _BOLD_WEIGHT)
    except IndexError:
        return False


def _old_rich_text(book: Any, sheet: Any, n: int, column: int, text: str) -> str:
    """The text of a cell with raised and lowered parts."""
    fonts = sheet.rich_text_runlist_map.get((n, column)) or []
    starts = [(0, 0), *((start, _escapement(book, font)) for start, font in fonts), (len(text), 0)]
    runs = [(text[start:end], shift) for (start, shift), (end, _) in pairwise(starts)]
    return " ".join(join_runs(runs).split())


def _escapement(book: Any, font: int) -> int:
    return {1: 1, 2: -1}.get(book.font_list[font].escapement, 0) if 0 <= font < len(book.font_list) else 0
