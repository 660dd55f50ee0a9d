"""Office files from before 2007: DOC, PPT and XLS."""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from localrag.loaders.code_pages import code_page_encoding
from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, metadata_pairs
from localrag.loaders.document_tree import TextBlock, join_sections, marked_text, paragraph, render
from localrag.loaders.headers import HeadCell
from localrag.loaders.number_formats import format_number_cell, format_text_cell
from localrag.loaders.open_xml import parsed_file
from localrag.loaders.powerpoint97 import PowerPoint97Presentation
from localrag.loaders.sheet_tables import sheet_blocks
from localrag.loaders.spans import CellRange
from localrag.loaders.spreadsheet import SheetComments, sheet_section
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
_WESTERN = 1252
_BOLD_WEIGHT = 600
_NO_YEAR = 1601  # where times begin, which a program wrote that knew none


def parse_doc(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a Word document of 1997 to 2003."""
    data = file.read_bytes()
    with _open_ole(data) as ole:
        tables = {name: _ole_stream(ole, name) for name in ("0Table", "1Table")}
        document = Word97Document(_ole_stream(ole, "WordDocument"), tables)
    return parsed_file(render(document.blocks()), _ole_metadata(data))


def parse_ppt(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a presentation of 1997 to 2003: each slide is a part."""
    data = file.read_bytes()
    with _open_ole(data) as ole:
        presentation = PowerPoint97Presentation(_ole_stream(ole, "PowerPoint Document"), _ole_stream(ole, "Current User"))
    return parsed_file(
        join_sections((f"slide {n}", render(blocks)) for n, blocks in enumerate(presentation.slides(), 1)), _ole_metadata(data)
    )


def parse_xls(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a workbook of 1993 to 2003: each sheet is a part."""
    import xlrd

    data = file.read_bytes()
    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO(), ragged_rows=True)
        sections = [sheet_section(sheet.name, _old_sheet(book, sheet, options), always=book.nsheets > 1) for sheet in book.sheets()]
    except (xlrd.XLRDError, xlrd.compdoc.CompDocError, *_DAMAGES) as error:
        is_locked = "encrypted" in str(error)
        raise Unreadable("password-protected" if is_locked else f"damaged: {error}", failed=not is_locked) from error
    return parsed_file(join_sections(sections), _ole_metadata(data), is_sheet=True)


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
    try:
        with _open_ole(data) as ole:
            found = ole.get_metadata()
            encoding = code_page_encoding(found.codepage or _WESTERN)
    except (Unreadable, *_DAMAGES):
        return ()

    def text(value: bytes | str | None) -> str:
        return (value.decode(encoding, "replace") if isinstance(value, bytes) else value or "").partition("\0")[0].strip()

    saved = next((d for d in (found.last_saved_time, found.create_time) if d and d.year > _NO_YEAR), None)
    return metadata_pairs(
        title=text(found.title),
        author=text(found.author),
        date=saved.date().isoformat() if saved else "",
        subject=text(found.subject),
        keywords=text(found.keywords),
    )


def _old_sheet(book: Any, sheet: Any, options: LoadOptions) -> Iterator[TextBlock]:
    rows = [_old_row(book, sheet, n) for n in range(sheet.nrows)]
    if options.text_column and (header := next((row for row in rows if options.text_column in row), [])):
        yield from map(paragraph, text_rows(header, rows[rows.index(header) + 1 :], options))
        return
    comments = SheetComments()
    for (row, column), note in sheet.cell_note_map.items():
        author = str(note.author or "")
        comments.add(row, column, " ".join(str(note.text or "").removeprefix(f"{author}:").split()), author, "")
    for n, row in enumerate(rows):
        comments.note_row(n, row)
    ranges = [CellRange(top, left, bottom - 1, right - 1) for top, bottom, left, right in sheet.merged_cells]
    yield from sheet_blocks(enumerate(rows), ranges)
    yield from map(paragraph, comments.lines())


def _old_row(book: Any, sheet: Any, n: int) -> list[str]:
    row: list[str] = []
    for column in range(sheet.row_len(n)):
        code, font = _old_style(book, sheet.cell_xf_index(n, column))
        text, link = _old_cell(book, sheet, n, column, code), sheet.hyperlink_map.get((n, column))
        is_struck = bool(font and font.struck_out)
        text = marked_text(text, link.url_or_path if link and isinstance(link.url_or_path, str) else "", is_struck)
        row.append(HeadCell(text) if text and font and font.weight >= _BOLD_WEIGHT else text)
    while row and not row[-1]:
        row.pop()
    return row


def _old_style(book: Any, number: int) -> tuple[str, Any]:
    try:
        style = book.xf_list[number]
        return str(book.format_map[style.format_key].format_str or ""), book.font_list[style.font_index]
    except (KeyError, IndexError):
        return "", None


def _old_cell(book: Any, sheet: Any, n: int, column: int, code: str) -> str:
    import xlrd

    kind, value = sheet.cell_type(n, column), sheet.cell_value(n, column)
    if kind == xlrd.XL_CELL_TEXT:
        return format_text_cell(" ".join(str(value).split()), code)
    if kind in {xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE}:
        return format_number_cell(float(value), code, is_1904=bool(book.datemode))
    if kind == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if value else "FALSE"
    return str(xlrd.error_text_from_code.get(value, "")) if kind == xlrd.XL_CELL_ERROR else ""
