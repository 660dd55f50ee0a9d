"""Office documents: DOCX, PPTX, XLSX and OpenDocument, with list numbering, tables, charts, formulas, notes and comments.

Slides and sheets are parts. Word's list numbers are not in the text but counted while reading.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    first_heading,
    join_sections,
    metadata_pairs,
    number_in,
    open_archive,
    read_entry,
)
from localrag.loaders.html import xml_root
from localrag.loaders.tabular import format_cell, format_row, table_lines, text_rows

_CHART_NS = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DRAWING_NS = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MATH_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def chart_lines(root: Any) -> Iterator[str]:
    """The titles of a chart, then one line per category with the values of all series."""
    for title in root.iter(f"{_CHART_NS}title"):
        if text := " ".join("".join(t.text or "" for t in title.iter(f"{_DRAWING_NS}t")).split()):
            yield text
    series = [
        (" ".join(_values(ser, "tx").values()), _values(ser, "cat") or _values(ser, "xVal"), _values(ser, "val") or _values(ser, "yVal"))
        for ser in root.iter(f"{_CHART_NS}ser")
    ]
    if not series:
        return
    categories: dict[int, str] = {}
    for _, named, values in series:
        categories = {n: "" for n in values} | named | categories
    header = ["", *(name for name, *_ in series)]
    yield from (format_row(header, [categories[n], *(values.get(n, "") for *_, values in series)]) for n in sorted(categories))


def _values(series: Any, name: str) -> dict[int, str]:
    """Index → cached value of a chart's row of cells."""
    values: dict[int, str] = {}
    parent = series.find(f"{_CHART_NS}{name}")
    if parent is None:
        return values
    for n, point in enumerate(parent.iter(f"{_CHART_NS}v")):
        index = str(point.getparent().get("idx") or n)
        text = format_cell(point.text)
        values[number_in(index, n)] = text.removesuffix(".0")
    return values


def formula_text(element: Any) -> str:
    """A Word formula on one line: fractions with /, powers with ^, roots with √."""
    tag = str(element.tag).removeprefix(_MATH_NS)
    if tag == "t":
        return element.text or ""
    inner = {str(c.tag).removeprefix(_MATH_NS): formula_text(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(_MATH_NS)}
    base, subscript, superscript = (inner.get(name, "") for name in ("e", "sub", "sup"))
    match tag:
        case "f":
            text = f"({inner.get('num', '')})/({inner.get('den', '')})"
        case "rad":
            text = f"√({base})"
        case "sSup" | "sSub" | "sSubSup":
            text = base + f"_{subscript}" * bool(subscript) + f"^{superscript}" * bool(superscript)
        case "d":
            text = f"({', '.join(formula_text(c) for c in element.iterchildren(f'{_MATH_NS}e'))})"
        case "nary":
            sign = element.find(f"{_MATH_NS}naryPr/{_MATH_NS}chr")
            text = f"{'∫' if sign is None else sign.get(f'{_MATH_NS}val')}_{subscript}^{superscript} {base}"
        case _:
            text = "".join(
                formula_text(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(_MATH_NS) and not c.tag.endswith("Pr")
            )
    return text


_WORD_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


@dataclass(frozen=True, slots=True)
class _ListLevel:
    """The numbering of a list level: format (decimal, lowerLetter, bullet …), text template (`%1.%2`), first number."""

    form: str
    text: str
    start: int


@dataclass(slots=True)
class ListNumbering:
    """The lists of a document and their counters."""

    levels: Mapping[str, Mapping[int, _ListLevel]]
    lists: Mapping[str, str]  # numId of a paragraph → id of its list
    counted: dict[tuple[str, int], int] = field(default_factory=dict)

    def next(self, number: str, depth: int) -> str:
        """The number before the next paragraph of a list at a depth: `2.1`, or `-` for a bullet."""
        key = self.lists.get(number, "")
        level = self.levels.get(key, {}).get(depth)
        if level is None or level.form in {"bullet", "none"} or not level.text:
            return "-"
        self.counted[key, depth] = self.counted.get((key, depth), level.start - 1) + 1
        for deeper in [d for k, d in self.counted if k == key and d > depth]:
            del self.counted[key, deeper]

        def format_level(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            kind = self.levels[key].get(index, level)
            return format_number(self.counted.get((key, index), kind.start), kind.form)

        return re.sub(r"%([1-9])", format_level, level.text).strip() or "-"


def format_number(number: int, form: str) -> str:
    """A number in one of Word's numbering formats."""
    if form in {"lowerLetter", "upperLetter"}:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 % 50 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 0 < number < 400:
        text, remaining = "", number
        for value, sign in _ROMAN:
            text += sign * (remaining // value)
            remaining %= value
    else:
        text = str(number)
    return text.upper() if form.startswith("upper") else text


def read_numbering(root: Any) -> ListNumbering:
    """The lists defined in `numbering.xml`; empty without it."""
    if root is None:
        return ListNumbering({}, {})
    levels = {
        str(a.get(f"{_WORD_NS}abstractNumId")): {_parse_int(lvl.get(f"{_WORD_NS}ilvl")): _level(lvl) for lvl in a.iter(f"{_WORD_NS}lvl")}
        for a in root.iter(f"{_WORD_NS}abstractNum")
    }
    lists = {str(n.get(f"{_WORD_NS}numId")): _of(n, "abstractNumId") for n in root.iter(f"{_WORD_NS}num")}
    return ListNumbering(levels, lists)


def _level(lvl: Any) -> _ListLevel:
    return _ListLevel(_of(lvl, "numFmt"), _of(lvl, "lvlText"), _parse_int(_of(lvl, "start") or "1"))


def _of(element: Any, name: str) -> str:
    child = element.find(f"{_WORD_NS}{name}")
    return "" if child is None else str(child.get(f"{_WORD_NS}val") or "")


def _parse_int(text: object) -> int:
    return int(str(text)) if str(text).isdecimal() and len(str(text)) < 7 else 0


_RELATED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_DOCX_SKIPPED = {
    f"{_WORD_NS}del",
    f"{_WORD_NS}moveFrom",
    f"{_WORD_NS}instrText",
    f"{_WORD_NS}txbxContent",
    f"{_WORD_NS}pPr",
    f"{_WORD_NS}rPr",
    _FALLBACK,
}
_DOCX_SPACE = {f"{_WORD_NS}tab": "\t", f"{_WORD_NS}br": "\n", f"{_WORD_NS}cr": "\n", f"{_WORD_NS}noBreakHyphen": "-"}
_NOTE = {f"{_WORD_NS}footnoteReference": "footnotes", f"{_WORD_NS}endnoteReference": "endnotes"}


@dataclass(slots=True)
class _Styles:
    """Paragraph styles and state of a Word document."""

    level: dict[str, int] = field(default_factory=dict)
    listed: dict[str, tuple[str, int]] = field(default_factory=dict)  # style id → (list, depth)
    numbering: ListNumbering = field(default_factory=lambda: ListNumbering({}, {}))
    charts: dict[str, list[str]] = field(default_factory=dict)  # relationship id → lines of the chart
    notes: list[tuple[str, str]] = field(default_factory=list)  # (kind, id) in the order of their references


def core_metadata(properties: Any) -> tuple[tuple[str, str], ...]:
    """Title, author, date, subject and keywords of an Office document."""
    changed = properties.modified or properties.created
    title = "" if properties.title in {"PowerPoint Presentation", "Word Document"} else properties.title
    return metadata_pairs(
        title=title,
        author=properties.author if properties.author not in {"python-docx", "openpyxl"} else "",
        date=changed.date().isoformat() if changed else "",
        subject=properties.subject,
        keywords=properties.keywords,
    )


def comment_line(text: str, author: str, date: str) -> str:
    """A reader's comment with author and date."""
    return f"Comment{f' by {author}' if author else ''}{f', {date[:10]}' if date else ''}: {text}"


def parse_docx(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a Word document."""
    import docx

    open_archive(file).close()
    try:
        document = docx.Document(file.open())
    except (ValueError, KeyError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    styles = _styles(document.styles.element)
    styles.charts = {
        key: list(chart_lines(xml_root(r.target_part.blob)))
        for key, r in document.part.rels.items()
        if not r.is_external and str(r.reltype).endswith("/chart")
    }
    related = {str(r.reltype).rpartition("/")[2]: r.target_part for r in document.part.rels.values() if not r.is_external}
    if "numbering" in related:
        styles.numbering = read_numbering(xml_root(related["numbering"].blob))
    lines = list(_docx_blocks(document.element.body, styles))
    notes = {kind: _note_texts(related[kind]) for kind in set(_NOTE.values()) & related.keys()}
    lines += [f"\n[{n}] {notes.get(kind, {}).get(key, '')}" for n, (kind, key) in enumerate(styles.notes, 1)]
    if "comments" in related:
        for comment in xml_root(related["comments"].blob).iter(f"{_WORD_NS}comment"):
            if text := _docx_flat_text(comment):
                lines += ["", comment_line(text, comment.get(f"{_WORD_NS}author") or "", comment.get(f"{_WORD_NS}date") or "")]
    metadata = core_metadata(document.core_properties)
    text = clean_text("\n".join(lines))
    return ParsedFile(text, dict(metadata).get("title", "") or first_heading(text), metadata)


def _styles(root: Any) -> _Styles:
    styles = _Styles()
    parents: dict[str, str] = {}
    for style in root.iter(f"{_WORD_NS}style"):
        key = style.get(f"{_WORD_NS}styleId") or ""
        name = _value(style.find(f"{_WORD_NS}name")).lower()
        outline = _value(style.find(f"{_WORD_NS}pPr/{_WORD_NS}outlineLvl"))
        parents[key] = _value(style.find(f"{_WORD_NS}basedOn"))
        if heading := re.fullmatch(r"(?:heading|berschrift|titre) ?([1-9])", name):
            styles.level[key] = int(heading[1])
        elif name == "title":
            styles.level[key] = 1
        elif number_in(outline, 9) < 9:
            styles.level[key] = number_in(outline) + 1
        if (number := style.find(f"{_WORD_NS}pPr/{_WORD_NS}numPr")) is not None or name.startswith("list"):
            styles.listed[key] = _place(number)
    for key in list(parents):
        parent = parents.get(key, "")
        for _ in range(10):
            if parent in styles.level:
                styles.level.setdefault(key, styles.level[parent])
            if parent in styles.listed:
                styles.listed.setdefault(key, styles.listed[parent])
            parent = parents.get(parent, "")
    return styles


def _value(element: Any) -> str:
    return "" if element is None else str(element.get(f"{_WORD_NS}val") or "")


def _place(numbering: Any) -> tuple[str, int]:
    """The list and depth of a numbered paragraph."""
    if numbering is None:
        return "", 0
    depth = _value(numbering.find(f"{_WORD_NS}ilvl"))
    return _value(numbering.find(f"{_WORD_NS}numId")), min(number_in(depth), 9)


def _docx_blocks(parent: Any, styles: _Styles) -> Iterator[str]:
    """The lines of paragraphs and tables, including content controls and text boxes."""
    for child in parent:
        if child.tag == f"{_WORD_NS}p":
            yield from _docx_paragraph(child, styles)
        elif child.tag == f"{_WORD_NS}tbl":
            yield from ("", *_docx_table(child, styles), "")
        elif isinstance(child.tag, str) and child.tag not in _DOCX_SKIPPED:
            yield from _docx_blocks(child, styles)


def _docx_paragraph(p: Any, styles: _Styles) -> Iterator[str]:
    text = "".join(_docx_inline(p, styles)).strip()
    style = _value(p.find(f"{_WORD_NS}pPr/{_WORD_NS}pStyle"))
    number = p.find(f"{_WORD_NS}pPr/{_WORD_NS}numPr")
    listed = _place(number) if number is not None else styles.listed.get(style)
    if listed == ("0", 0):  # numId 0 removes a style's number
        listed = None
    mark = styles.numbering.next(*listed) if text and listed is not None else ""
    if text and style in styles.level:
        number_before = "" if mark in ("", "-") else f"{mark} "
        yield f"\n{'#' * min(styles.level[style], 6)} {number_before}{' '.join(text.split())}\n"
    elif text and listed is not None:
        yield "  " * listed[1] + f"{mark} {text}"
    elif text:
        yield f"\n{text}\n"
    for chart in p.iter("{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"):
        yield from ("", *styles.charts.get(chart.get(_RELATED) or "", ()), "")
    for box in p.iter(f"{_WORD_NS}txbxContent"):
        if not any(True for _ in box.iterancestors(_FALLBACK)) and next(box.iterancestors(f"{_WORD_NS}p")) is p:
            yield from _docx_blocks(box, styles)


def _docx_inline(element: Any, styles: _Styles) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_MATH_NS}oMath":
            yield formula_text(child)
        elif child.tag == f"{_WORD_NS}t":
            yield child.text or ""
        elif child.tag in _DOCX_SPACE:
            yield _DOCX_SPACE[child.tag]
        elif child.tag in _NOTE:
            styles.notes.append((_NOTE[child.tag], child.get(f"{_WORD_NS}id") or ""))
            yield f" [{len(styles.notes)}]"
        elif child.tag not in _DOCX_SKIPPED:
            yield from _docx_inline(child, styles)


def _docx_table(table: Any, styles: _Styles) -> Iterator[str]:
    """The rows of a table; for a layout table (one column, or nested tables) its blocks."""
    rows = [list(_cells(tr)) for tr in table.iter(f"{_WORD_NS}tr") if next(tr.iterancestors(f"{_WORD_NS}tbl")) is table]
    width = max((sum(span for _, span in row) for row in rows), default=0)
    if width < 2 or next(table.iterdescendants(f"{_WORD_NS}tbl"), None) is not None:
        for row in rows:
            for tc, _ in row:
                yield from _docx_blocks(tc, styles)
        return
    grid: list[list[str]] = []
    for row in rows:
        line: list[str] = []
        for tc, span in row:
            merged = tc.find(f"{_WORD_NS}tcPr/{_WORD_NS}vMerge")
            above = grid[-1][len(line)] if grid and len(grid[-1]) > len(line) else ""
            text = above if merged is not None and _value(merged) != "restart" else _docx_flat_text(tc, styles)
            line += [text, *[""] * (span - 1)]
        grid.append(line)
    marked = table.find(f".//{_WORD_NS}tblHeader") is not None
    yield from table_lines(grid, likely=marked or width > 2)


def _cells(row: Any) -> Iterator[tuple[Any, int]]:
    for tc in row.iter(f"{_WORD_NS}tc"):
        if next(tc.iterancestors(f"{_WORD_NS}tr")) is row:
            span = _value(tc.find(f"{_WORD_NS}tcPr/{_WORD_NS}gridSpan"))
            yield tc, min(number_in(span, 1), 200)


def _docx_flat_text(element: Any, styles: _Styles | None = None) -> str:
    """All paragraphs of an element on one line."""
    styles = styles or _Styles()
    return " ".join(" ".join("".join(_docx_inline(p, styles)) for p in element.iter(f"{_WORD_NS}p")).split())


def _note_texts(part: Any) -> dict[str, str]:
    """Id → text of the footnotes or endnotes."""
    return {note.get(f"{_WORD_NS}id") or "": _docx_flat_text(note) for note in xml_root(part.blob)}


_MAX_GROUP_DEPTH = 20  # nested groups


def parse_pptx(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a presentation: each slide is a part, with its title, tables, charts, speaker notes and comments."""
    import pptx

    open_archive(file).close()
    try:
        presentation = pptx.Presentation(file.open())
    except (ValueError, KeyError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    authors = _authors(presentation.part)
    text, parts = join_sections(
        (f"slide {n}", clean_text("\n\n".join(_slide(slide, authors)))) for n, slide in enumerate(presentation.slides, 1)
    )
    metadata = core_metadata(presentation.core_properties)
    return ParsedFile(text, dict(metadata).get("title", "") or first_heading(text), metadata, parts)


def _slide(slide: Any, authors: Mapping[str, str]) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and (text := " ".join(title.text_frame.text.split())):
        yield f"# {text}"
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {notes}"
    for part in (r.target_part for r in slide.part.rels.values() if not r.is_external and str(r.reltype).endswith("/comments")):
        for comment in xml_root(part.blob).iter("{*}cm", "{*}reply"):
            yield from _comment(comment, authors)


def _shape(shape: Any, depth: int = 0) -> Iterator[str]:
    if hasattr(shape, "shapes") and depth < _MAX_GROUP_DEPTH:
        for inner in shape.shapes:
            yield from _shape(inner, depth + 1)
    elif getattr(shape, "has_table", False):
        rows = [[format_cell(c.text) for c in row.cells] for row in shape.table.rows]
        yield "\n".join(table_lines(rows, likely=shape.table.first_row or len(shape.table.columns) > 2))
    elif getattr(shape, "has_chart", False):
        yield "\n".join(chart_lines(xml_root(shape.chart.part.blob)))
    elif getattr(shape, "has_text_frame", False):
        paragraphs = [(p.level, " ".join(p.text.split())) for p in shape.text_frame.paragraphs]
        is_list = shape.is_placeholder and sum(bool(text) for _, text in paragraphs) > 1
        yield "\n".join("  " * level + ("- " if is_list else "") + text for level, text in paragraphs if text)


def _comment(comment: Any, authors: Mapping[str, str]) -> Iterator[str]:
    """A reader's comment: `text` in older files, a text body in newer ones, where replies are comments of their own."""
    elements = [e for child in comment for e in (child, *child.iter("{*}t")) if str(child.tag).endswith(("}text", "}txBody"))]
    text = " ".join(" ".join(e.text or "" for e in elements).split())
    if text:
        name = authors.get(comment.get("authorId") or "", "")
        yield comment_line(text, name, comment.get("created") or comment.get("dt") or "")


def _authors(part: Any) -> dict[str, str]:
    """Id → name of the authors of comments."""
    related = (r.target_part for r in part.rels.values() if not r.is_external and str(r.reltype).lower().endswith("authors"))
    return {a.get("id") or "": a.get("name") or "" for target in related for a in xml_root(target.blob)}


_UNNAMED = re.compile(r"(?:sheet|tabelle|feuil|hoja|blad|foglio|лист|工作表) ?\d*", re.IGNORECASE)
_CHART = re.compile(r"xl/charts/chart\d*\.xml")


def parse_xlsx(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a workbook: each sheet is a part, each row a line with its headers; formulas as Excel's last values."""
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
    has_sheets = len(sheets) > 1
    text, parts = join_sections([(f"sheet {name}", sheet_title(name, text, always=has_sheets)) for name, text in sheets] + drawn)
    metadata = core_metadata(book.properties) if hasattr(book.properties, "author") else ()
    return ParsedFile(text, dict(metadata).get("title", ""), metadata, parts)


def sheet_title(name: str, text: str, *, always: bool) -> str:
    """The text of a sheet below its name, `always` or if the name is not a default one."""
    return f"# {name}\n\n{text}" if text and (always or not _UNNAMED.fullmatch(name)) else text


def _sheet(sheet: Any, options: LoadOptions) -> str:
    sheet.reset_dimensions()  # the declared dimensions may be wrong by a million rows
    rows = _xlsx_rows(sheet)
    if options.text_column:
        all_rows = list(rows)
        header = next((row for row in all_rows if options.text_column in row), [])
        if header:
            return "\n\n".join(text_rows(header, all_rows[all_rows.index(header) + 1 :], options))
        rows = iter(all_rows)
    return clean_text("\n".join(table_lines(rows, likely=True)))


def _xlsx_rows(sheet: Any) -> Iterator[list[str]]:
    """The rows as text, without trailing empty cells; consecutive empty rows become one."""
    for empty, rows in groupby((_row(values) for values in sheet.iter_rows(values_only=True)), key=lambda row: not row):
        yield from [[]] if empty else rows


def _row(values: Any) -> list[str]:
    row = [format_cell(value) for value in values or ()]
    while row and not row[-1]:
        row.pop()
    return row


_OF = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _OFFICE = (f"{{{_OF}{name}:1.0}}" for name in ("text", "table", "drawing", "office"))
_ODF_SKIPPED = {
    f"{_TEXT}tracked-changes",
    f"{_TEXT}sequence-decls",
    f"{_TEXT}note-citation",
    f"{_TEXT}variable-decls",
    f"{_TEXT}list-header",
}
_ODF_SPACE = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MAX_REPEATED = 1000  # repetitions of a row or cell; more fill an empty sheet


def parse_opendocument(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a text (.odt), spreadsheet (.ods) or presentation (.odp): one XML file in an archive."""
    with open_archive(file) as archive:
        if b"encryption-data" in read_entry(archive, "META-INF/manifest.xml", needed=False):
            raise Unreadable("password-protected")
        body = xml_root(read_entry(archive, "content.xml")).find(f"{_OFFICE}body")
        metadata = _metadata(read_entry(archive, "meta.xml", needed=False))
    if body is None or not len(body):
        raise Unreadable("damaged: it has no content", failed=True)
    sheets, slides = body[0].findall(f"{_TABLE}table"), body[0].findall(f"{_DRAW}page")
    if body[0].tag == f"{_OFFICE}spreadsheet":
        named = [(str(s.get(f"{_TABLE}name") or ""), "\n".join(table_lines(_odf_rows(s), likely=True)).strip()) for s in sheets]
        text, parts = join_sections((f"sheet {name}", sheet_title(name, text, always=len(named) > 1)) for name, text in named)
    elif slides:
        text, parts = join_sections((f"slide {n}", clean_text("\n".join(_odf_blocks(s)))) for n, s in enumerate(slides, 1))
    else:
        text, parts = clean_text("\n".join(_odf_blocks(body[0]))), ()
    return ParsedFile(text, dict(metadata).get("title", "") or first_heading(text), metadata, parts)


def _metadata(data: bytes) -> tuple[tuple[str, str], ...]:
    if not data:
        return ()
    root = xml_root(data)
    values = {str(e.tag).rpartition("}")[2]: "".join(e.itertext()) for e in root.iter("*") if not len(e)}
    return metadata_pairs(
        title=values.get("title"),
        author=values.get("initial-creator") or values.get("creator"),
        date=(values.get("date") or values.get("creation-date") or "")[:10],
        subject=values.get("subject"),
        description=values.get("description"),
    )


def _odf_blocks(parent: Any, depth: int = 0) -> Iterator[str]:
    """The lines of headings, paragraphs, lists, tables and frames."""
    for child in parent:
        if child.tag == f"{_TEXT}h":
            level = str(child.get(f"{_TEXT}outline-level") or "1")
            text = _odf_inline(child)
            yield f"\n{'#' * min(number_in(level, 1), 6)} {' '.join(text.split())}\n" if text.strip() else ""
        elif child.tag == f"{_TEXT}p":
            yield from _odf_paragraph(child, depth)
        elif child.tag == f"{_TEXT}list":
            yield from _odf_blocks(child, depth + 1)
        elif child.tag == f"{_TABLE}table":
            yield from ("", *_odf_table(child), "")
        elif isinstance(child.tag, str) and child.tag not in _ODF_SKIPPED:
            yield from _odf_blocks(child, depth)


def _odf_paragraph(p: Any, depth: int) -> Iterator[str]:
    text = _odf_inline(p).strip()
    if text:
        yield "  " * (min(depth, 10) - 1) + f"- {text}" if depth else f"\n{text}\n"
    for note in p.iter(f"{_TEXT}note-body"):
        yield f"\n[{_odf_flat_text(note)}]\n"
    for frame in p.iter(f"{_DRAW}text-box"):
        if next(frame.iterancestors(f"{_TEXT}p")) is p:
            yield from _odf_blocks(frame)


def _odf_table(table: Any) -> list[str]:
    """The rows of a table, or the blocks of a layout table."""
    rows = list(_odf_rows(table))
    if max(map(len, rows), default=0) > 1:
        return list(table_lines(rows, likely=len(rows[0]) > 2 or table.find(f"{_TABLE}table-header-rows") is not None))
    return [line for tc in table.iter(f"{_TABLE}table-cell") for line in _odf_blocks(tc)]


def _odf_rows(table: Any) -> Iterator[list[str]]:
    for tr in table.iter(f"{_TABLE}table-row"):
        if next(tr.iterancestors(f"{_TABLE}table")) is not table:
            continue
        row: list[str] = []
        for tc in tr:
            if tc.tag in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                row += [_cell(tc)] * _repeated(tc, "columns")
        while row and not row[-1]:
            row.pop()
        for _ in range(_repeated(tr, "rows") if row else 1):
            yield row


def _cell(tc: Any) -> str:
    kind = tc.get(f"{_OFFICE}value-type")
    if kind == "date":
        return str(tc.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00")
    return format_cell(_odf_flat_text(tc))


def _repeated(element: Any, axis: str) -> int:
    value = str(element.get(f"{_TABLE}number-{axis}-repeated") or "1")
    return min(number_in(value, 1), _MAX_REPEATED)


def _odf_flat_text(element: Any) -> str:
    return " ".join(" ".join(_odf_inline(p) for p in element.iter(f"{_TEXT}p", f"{_TEXT}h")).split())


def _odf_inline(element: Any) -> str:
    """The text of a paragraph, without its notes and text boxes."""
    texts = [element.text or ""]
    for child in element:
        if child.tag == f"{_TEXT}s":
            count = str(child.get(f"{_TEXT}c") or "1")
            texts.append(" " * min(number_in(count, 1), 100))
        elif child.tag in _ODF_SPACE:
            texts.append(_ODF_SPACE[child.tag])
        elif isinstance(child.tag, str) and not child.tag.startswith(_DRAW) and child.tag not in {f"{_TEXT}note", f"{_OFFICE}annotation"}:
            texts.append(_odf_inline(child))
        texts.append(child.tail or "")
    return "".join(texts)
