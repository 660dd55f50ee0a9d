"""Office files from before 2007: DOC, PPT and XLS.

Many files of these names are in fact RTF, HTML, CSV or newer files, and are read as such.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, first_heading, join_sections, metadata_pairs
from localrag.loaders.html import parse_html
from localrag.loaders.inline_text import TextRun, join_runs, running_lines
from localrag.loaders.markup import parse_rtf, parse_text
from localrag.loaders.number_formats import format_number_cell, format_text_cell, iso_date
from localrag.loaders.open_xml import parsed_file
from localrag.loaders.presentation import parse_pptx
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.spreadsheet import SheetComments, parse_xlsx, sheet_title
from localrag.loaders.tabular import format_cell, parse_csv, table_lines, text_rows
from localrag.loaders.word import parse_docx

OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_HEAD_BYTES = 1_000_000
_MAX_NESTING = 20  # nested lists and boxes
_HTML_STARTS = (b"<html", b"<!doctype", b"<table", b"<?xml", b"<meta", b"<head", b"<body", b"<div")

Parser = Callable[[OpenFile, LoadOptions], ParsedFile]


def parse_doc(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a Word document of 1997 to 2003."""
    return _parse_old(file, options, "doc", parse_docx, parse_text)


def parse_ppt(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a presentation of 1997 to 2003: each slide is a part."""
    return _parse_old(file, options, "ppt", parse_pptx, parse_text)


def parse_xls(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a workbook of 1993 to 2003: each sheet is a part."""
    head = _head(file)
    return (_misnamed(head, parse_xlsx, parse_csv) or _parse_workbook)(file, options)


def _head(file: OpenFile) -> bytes:
    with file.open() as f:
        head = f.read(_HEAD_BYTES)
    if head.startswith(OLE_MAGIC) and _ENCRYPTED in head:
        raise Unreadable("password-protected")
    return head


def _misnamed(head: bytes, new: Parser, plain: Parser) -> Parser | None:
    """The parser of a file that is not what its suffix says; None for a file in the old format."""
    if head.startswith(b"PK\x03\x04"):
        return new
    start = head[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"{\\rtf"):
        return parse_rtf
    if start.startswith(_HTML_STARTS):
        return parse_html
    return None if head.startswith(OLE_MAGIC) or b"\0" in head[:2000] else plain


def _parse_old(file: OpenFile, options: LoadOptions, suffix: Literal["doc", "ppt"], new: Parser, plain: Parser) -> ParsedFile:
    head = _head(file)
    if parser := _misnamed(head, new, plain):
        return parser(file, options)
    try:
        import office_oxide
    except ImportError as error:
        raise Unreadable(f"format not supported here; convert it: soffice --headless --convert-to {suffix}x FILE") from error

    try:
        with office_oxide.Document.from_bytes(file.read_bytes(), suffix) as document:
            content = document.to_ir()
    except office_oxide.OfficeOxideError as error:
        is_locked = any(word in str(error).lower() for word in ("encrypt", "password"))
        raise Unreadable("password-protected" if is_locked else f"damaged: {error}", failed=not is_locked) from error
    metadata = _metadata(content.get("metadata") or {})
    sections = content.get("sections") or []
    if suffix == "ppt":
        text, parts = join_sections((f"slide {n}", clean_text("\n".join(_slide_lines(s)))) for n, s in enumerate(sections, 1))
    else:
        text, parts = clean_text("\n".join(_document_lines(content, sections))), ()
    return parsed_file(text, metadata, first_heading(text), parts)


def _metadata(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return metadata_pairs(
        title=values.get("title"),
        author="" if values.get("author") in {"python-docx", "python-pptx"} else values.get("author"),
        date=iso_date(str(values.get("modified") or "")) or iso_date(str(values.get("created") or "")),
        subject=values.get("subject"),
        keywords=", ".join(map(str, values.get("keywords") or ())),
    )


def _slide_lines(section: Mapping[str, Any]) -> Iterator[str]:
    yield from _element_lines(section.get("elements") or ())
    if notes := " ".join(_flat_text(section.get("speaker_notes") or ()).split()):
        yield f"\nNotes: {notes}"


def _document_lines(content: Mapping[str, Any], sections: list[Any]) -> Iterator[str]:
    running: dict[str, list[str]] = {"header": [], "footer": []}
    for section in sections:
        for kind, texts in running.items():
            for name in (kind, f"first_page_{kind}", f"even_page_{kind}"):
                texts.append(_flat_text((section.get(name) or {}).get("content") or ()))
    yield from (line for text in running_lines("Header", running["header"]) for line in (text, ""))
    for section in sections:
        yield from _element_lines(section.get("elements") or ())
    for name in ("footnotes", "endnotes"):
        for note in content.get(name) or ():
            yield f"\n[{note.get('marker') or note.get('id')}] {_flat_text(note.get('content') or ())}"
    yield from (line for text in running_lines("Footer", running["footer"]) for line in ("", text))


def _element_lines(elements: Any, depth: int = 0) -> Iterator[str]:
    """The lines of headings, paragraphs, lists, tables and boxes."""
    if depth > _MAX_NESTING:
        return
    for element in elements:
        kind = element.get("type")
        text = " ".join(_inline_text(element.get("content") or ()).split()) if kind in {"heading", "paragraph"} else ""
        if kind == "heading":
            yield f"\n{'#' * min(max(int(element.get('level') or 1), 1), 6)} {text}\n" if text else ""
        elif kind == "paragraph":
            yield f"\n{text}\n" if text else ""
        elif kind == "list":
            yield from _list_lines(element, depth)
        elif kind == "table":
            yield from ("", *_table_lines(element), "")
        elif isinstance(element.get("content"), list):
            yield from _element_lines(element["content"], depth + 1)


def _list_lines(element: Mapping[str, Any], depth: int) -> Iterator[str]:
    if depth > _MAX_NESTING:
        return
    number = int(element.get("start_number") or 1) - 1
    for item in element.get("items") or ():
        text = " ".join(_flat_text(item.get("content") or ()).split())
        if text:
            number += 1
            yield "  " * depth + (f"{number}. " if element.get("ordered") else "- ") + text
        if isinstance(nested := item.get("nested"), Mapping):
            yield from _list_lines(nested, depth + 1)


def _table_lines(table: Mapping[str, Any]) -> Iterator[str]:
    grid: list[list[str]] = []
    ranges: list[CellRange] = []
    covered: dict[tuple[int, int], None] = {}
    for n, row in enumerate(table.get("rows") or ()):
        line: list[str] = []
        for cell in row.get("cells") or ():
            while (n, len(line)) in covered:
                line.append("")
            n_rows, n_columns = (min(max(int(cell.get(name) or 1), 1), 200) for name in ("row_span", "col_span"))
            if n_rows * n_columns > 1:
                ranges.append(CellRange(n, len(line), n + n_rows - 1, len(line) + n_columns - 1))
                covered |= {(n + k, len(line) + m): None for k in range(1, n_rows) for m in range(n_columns)}
            line += [format_cell(_flat_text(cell.get("content") or ())), *[""] * (n_columns - 1)]
        grid.append(line)
    likely = max(map(len, grid), default=0) > 2
    yield from table_lines(fill_spans(enumerate(grid), ranges, likely=likely), likely=likely)


def _flat_text(elements: Any) -> str:
    """All texts of elements on one line."""
    return " ".join(" ".join("\n".join(_element_lines(elements)).split()).split())


def _inline_text(content: Any) -> str:
    return join_runs(_text_runs(content))


def _text_runs(content: Any) -> Iterator[TextRun]:
    for part in content:
        kind = part.get("type")
        if kind == "text":
            shift = {"superscript": 1, "subscript": -1}.get(str(part.get("vertical_align")), 0)
            yield str(part.get("text") or ""), shift
        elif kind in {"footnote_ref", "endnote_ref"}:
            yield f" [{part.get('note_id') or part.get('id')}]", 0
        elif kind == "line_break":
            yield "\n", 0


def _parse_workbook(file: OpenFile, options: LoadOptions) -> ParsedFile:
    import xlrd

    data = file.read_bytes()
    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO(), ragged_rows=True)
        named = [(sheet.name, _old_sheet_text(book, sheet, options)) for sheet in book.sheets()]
    except xlrd.XLRDError as error:
        is_locked = "encrypted" in str(error)
        raise Unreadable("password-protected" if is_locked else f"damaged: {error}", failed=not is_locked) from error
    has_sheets = len(named) > 1
    text, parts = join_sections((f"sheet {name}", sheet_title(name, text, always=has_sheets)) for name, text in named)
    return parsed_file(text, _ole_metadata(data), "", parts)


def _ole_metadata(data: bytes) -> tuple[tuple[str, str], ...]:
    """The title, author and date of an old Office file."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            values = ole.get_metadata()
    except (OSError, ValueError, IndexError, TypeError, AttributeError):
        return ()

    def text(value: Any) -> str:
        return value.decode("cp1252", "replace").strip("\0 ") if isinstance(value, bytes) else str(value or "")

    changed = values.last_saved_time or values.create_time
    return metadata_pairs(
        title=text(values.title),
        author="" if text(values.author) == "xlwt" else text(values.author),
        date=iso_date(str(changed or "")),
        subject=text(values.subject),
        keywords=text(values.keywords),
    )


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
    lines = list(table_lines(fill_spans(enumerate(rows), ranges), likely=True))
    return clean_text("\n".join([*lines, *(line for text in comments.lines() for line in ("", text))]))


def _old_row(book: Any, sheet: Any, n: int) -> list[str]:
    row = [_old_cell(book, sheet, n, column) for column in range(sheet.row_len(n))]
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


def _old_rich_text(book: Any, sheet: Any, n: int, column: int, text: str) -> str:
    """The text of a cell with raised and lowered parts."""
    fonts = sheet.rich_text_runlist_map.get((n, column)) or []
    starts = [(0, 0), *((start, _escapement(book, font)) for start, font in fonts), (len(text), 0)]
    runs = [(text[start:end], shift) for (start, shift), (end, _) in pairwise(starts)]
    return " ".join(join_runs(runs).split())


def _escapement(book: Any, font: int) -> int:
    return {1: 1, 2: -1}.get(book.font_list[font].escapement, 0) if 0 <= font < len(book.font_list) else 0
