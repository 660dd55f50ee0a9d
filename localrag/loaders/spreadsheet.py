"""Workbooks (XLSX): each sheet a part, each row a line with its headers, cells as they are shown; comments, text boxes and charts after it.

Sheets are read row by row, so that memory does not grow with their size.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from zipfile import BadZipFile

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, number_in
from localrag.loaders.document_tree import (
    RenderedText,
    TextBlock,
    TextRun,
    heading_block,
    inline_text,
    join_sections,
    marked_text,
    paragraph,
    render,
)
from localrag.loaders.headers import HeadCell
from localrag.loaders.inline_text import comment_line, embedded_files_line, picture_text, running_lines
from localrag.loaders.number_formats import BUILTIN_FORMATS, format_number_cell, format_text_cell
from localrag.loaders.open_xml import (
    DIAGRAM_NS,
    RELATION_NS,
    OpenXmlPackage,
    Relation,
    chart_blocks,
    clicked_link,
    core_metadata,
    diagram_blocks,
    drawing_texts,
    external_target,
    open_package,
    parsed_file,
    part_name,
)
from localrag.loaders.sheet_tables import sheet_blocks
from localrag.loaders.spans import MAX_RANGES, CellRange
from localrag.loaders.tabular import format_cell, text_rows

_UNNAMED = re.compile(r"(?:sheet|tabelle|feuil|hoja|blad|foglio|лист|工作表) ?\d*", re.IGNORECASE)
_CHART = re.compile(r"xl/charts/chart\d*\.xml")
_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7})")
_RUNNING = tuple(f"{pages}{kind}" for pages in ("odd", "even", "first") for kind in ("Header", "Footer"))
_MAX_RUNNING_CHARS = 2000
_RUNNING_CODE = re.compile(r'&(?:"[^"]{0,100}"|K[0-9A-Fa-f]{6}|\d{1,3}|&|[A-Za-z])')
_LINK_FORMULA = re.compile(r'\bHYPERLINK\(\s*"((?:[^"]|""){1,2000})"\s*(?:\)|,(?:\s*"((?:[^"]|""){1,500})"\s*\))?)', re.IGNORECASE)
_MAX_LINKED_CELLS = 200_000
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
MAX_COLUMNS = 16_384
_ERRORS = (BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError, RuntimeError)


@dataclass(slots=True)
class Workbook:
    """What the sheets of a workbook share: texts, number formats by style, and whether days are counted from 1904.

    `head_styles`: the styles of cells in bold letters or with a fill; `struck_styles`: of those that are struck through.
    """

    package: OpenXmlPackage
    texts: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    head_styles: frozenset[str] = frozenset()
    struck_styles: frozenset[str] = frozenset()
    is_1904: bool = False
    authors: Mapping[str, str] = field(default_factory=dict)  # id → name, of threaded comments


@dataclass(slots=True)
class SheetComments:
    """The comments of a sheet: row → column → text, author and date of each; and the cells they belong to, once they have been read."""

    texts: dict[int, dict[int, list[tuple[str, str, str]]]] = field(default_factory=dict)
    places: dict[tuple[int, int], str] = field(default_factory=dict)

    def add(self, row: int, column: int, text: str, author: str, date: str) -> None:
        """Add a comment of a cell."""
        if text:
            self.texts.setdefault(row, {}).setdefault(column, []).append((text, author, date))

    def note_row(self, index: int, row: Sequence[str]) -> None:
        """Remember the cells of a row that have comments."""
        for column in self.texts.get(index, ()):
            cell = row[column] if column < len(row) else ""
            label = next(filter(None, row), "")
            named = " · ".join(dict.fromkeys(text[:60] for text in (label, cell) if text))
            self.places[index, column] = f"{cell_name(index, column)}{f' ({named})' if named else ''}"

    def lines(self) -> Iterator[str]:
        """The comments in the order of their cells."""
        for row, columns in sorted(self.texts.items()):
            for column, comments in sorted(columns.items()):
                place = self.places.get((row, column), cell_name(row, column))
                yield from (comment_line(text, author, date, place) for text, author, date in comments)


def parse_xlsx(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a workbook or template; formulas as the values last computed, else as they are written."""
    package = open_package(file, "xl/workbook.xml")
    root = package.root(package.main)
    relations = package.relations(package.main)
    book = _read_workbook(package, root, relations)
    listed = [(str(s.get("name") or ""), relations.get(s.get(f"{RELATION_NS}id") or "")) for s in root.iter("{*}sheet")]
    sheets = [(name, relation.target) for name, relation in listed if relation and relation.kind == "worksheet"]
    sections = [sheet_section(name, _sheet(book, part, options), always=len(sheets) > 1) for name, part in sheets]
    charts = (render(chart_blocks(package, name, "Chart:")) for name in sorted(package.names.values()) if _CHART.fullmatch(name))
    sections += [(f"chart {n}", chart) for n, chart in enumerate(charts, 1)]
    return parsed_file(join_sections(sections), core_metadata(package), is_sheet=True)


def sheet_section(name: str, blocks: Iterable[TextBlock], *, always: bool) -> tuple[str, RenderedText]:
    """The label and text of a sheet, below its name, `always` or if the name is not a default one."""
    filled = [block for block in blocks if block.text.strip()]
    is_named = bool(filled) and (always or not _UNNAMED.fullmatch(name))
    return f"sheet {name}", render([heading_block(1, name)] * is_named + filled)


def cell_name(row: int, column: int) -> str:
    """The name of a cell by its indices from 0: `B2`."""
    letters, number = "", column + 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def parse_cell_name(name: str) -> tuple[int, int] | None:
    """The row and column, from 0, of a cell such as `B2`; None if it is no such name."""
    match = _REFERENCE.fullmatch(name)
    if match is None or match[2].strip("0") == "":
        return None
    column = 0
    for letter in match[1].upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(match[2]) - 1, column - 1


def parse_cell_range(name: str) -> CellRange | None:
    """The cells of a range such as `A3:A5`, or a single one; None if it is no such name."""
    first, _, last = name.partition(":")
    start, end = parse_cell_name(first), parse_cell_name(last or first)
    if start is None or end is None or end[0] < start[0] or end[1] < start[1]:
        return None
    return CellRange(start[0], start[1], end[0], min(end[1], MAX_COLUMNS - 1))


def _read_workbook(package: OpenXmlPackage, root: Any, relations: Mapping[str, Relation]) -> Workbook:
    parts = {r.kind: r.target for r in relations.values() if not r.is_external}
    properties = root.find("{*}workbookPr")
    is_1904 = properties is not None and str(properties.get("date1904") or "0").lower() in {"1", "true", "on"}
    people = package.optional_root(parts.get("person", ""))
    authors = {} if people is None else {str(p.get("id")): str(p.get("displayName") or "") for p in people.iter("{*}person")}
    texts = list(_shared_texts(package, parts["sharedStrings"])) if "sharedStrings" in parts else []
    return Workbook(package, texts, *_read_styles(package.optional_root(parts.get("styles", ""))), is_1904, authors)


def _shared_texts(package: OpenXmlPackage, name: str) -> Iterator[str]:
    return (rich_text(element) for element in _elements(package, name, "si"))


def _elements(package: OpenXmlPackage, name: str, *tags: str) -> Iterator[Any]:
    """The elements of some names in a part, one at a time; each is discarded when the next one is asked for. Raises Unreadable."""
    from lxml import etree

    try:
        with package.archive.open(package.names.get(name.lower(), name)) as source:
            found = [f"{{*}}{tag}" for tag in tags]
            for _, element in etree.iterparse(
                source, tag=found, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True
            ):
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except (*_ERRORS, etree.XMLSyntaxError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error


def rich_text(element: Any) -> str:
    """The text of a cell with raised, lowered and struck parts, without the readings of Japanese words."""
    return " ".join(_unescaped(inline_text(_rich_runs(element))).split())


def _rich_runs(element: Any) -> Iterator[TextRun]:
    for child in element:
        name = _local_name(child)
        if name == "t":
            yield TextRun(child.text or "")
        elif name == "r":
            text = "".join(t.text or "" for t in child.iterchildren("{*}t"))
            aligned = child.find("{*}rPr/{*}vertAlign")
            shift = 0 if aligned is None else {"superscript": 1, "subscript": -1}.get(str(aligned.get("val")), 0)
            yield TextRun(text, shift, is_deleted=_has(child.find("{*}rPr"), "strike"))


def _has(font: Any, name: str) -> bool:
    """Whether a font is bold or struck through."""
    element = None if font is None else font.find(f"{{*}}{name}")
    return element is not None and str(element.get("val") or "1") not in {"0", "false"}


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def _read_styles(root: Any) -> tuple[list[str], frozenset[str], frozenset[str]]:
    """The number format of each cell style; the numbers of those in bold letters or with a fill, and of those that are struck through."""
    if root is None:
        return [], frozenset(), frozenset()
    codes = BUILTIN_FORMATS | {number_in(str(f.get("numFmtId"))): str(f.get("formatCode") or "") for f in root.iter("{*}numFmt")}
    fonts = list(root.iterfind("{*}fonts/{*}font"))
    bold, struck = ({str(n) for n, font in enumerate(fonts) if _has(font, name)} for name in ("b", "strike"))
    fills = {str(n) for n, fill in enumerate(root.iterfind("{*}fills/{*}fill")) if _is_filled(fill)}
    styles = list(root.iterfind("{*}cellXfs/{*}xf"))
    heads = frozenset(str(n) for n, style in enumerate(styles) if style.get("fontId") in bold or style.get("fillId") in fills)
    formats = [codes.get(number_in(str(style.get("numFmtId") or "0")), "") for style in styles]
    return formats, heads, frozenset(str(n) for n, style in enumerate(styles) if style.get("fontId") in struck)


def _is_filled(fill: Any) -> bool:
    pattern = fill.find("{*}patternFill[@patternType='solid']")
    color = None if pattern is None else pattern.find("{*}fgColor")
    return color is not None and not (str(color.get("rgb") or "").upper().endswith("FFFFFF") or color.get("theme") == "0")


def _sheet(book: Workbook, name: str, options: LoadOptions) -> Iterator[TextBlock]:
    """The tables of a sheet, then its comments, text boxes, embedded files, headers and footers."""
    package = book.package
    relations = package.relations(name)
    comments = _read_comments(book, relations)
    ranges, running, links = _scan_sheet(package, name, relations)
    rows = _numbered_rows(book, name, comments, _table_heads(book, relations), links)
    if options.text_column:
        all_rows = [row for _, row in rows]
        header = next((row for row in all_rows if options.text_column in row), [])
        if header:
            yield from map(paragraph, text_rows(header, all_rows[all_rows.index(header) + 1 :], options))
            return
        rows = enumerate(all_rows)
    yield from sheet_blocks(rows, ranges)
    yield from map(paragraph, comments.lines())
    for relation in relations.values():
        yield from _drawing_blocks(package, relation.target) if relation.kind == "drawing" else ()
    yield from map(paragraph, embedded_files_line(package.embedded_names(name)))
    for kind in ("Header", "Footer"):
        yield from map(paragraph, running_lines(kind, (text for found, text in running if found == kind)))


def _scan_sheet(
    package: OpenXmlPackage, name: str, relations: Mapping[str, Relation]
) -> tuple[list[CellRange], list[tuple[str, str]], dict[int, dict[int, str]]]:
    """What stands behind the rows of a sheet: its merged cells, its headers and footers, and the links of its cells."""
    ranges: list[CellRange] = []
    running: list[tuple[str, str]] = []
    linked: list[tuple[CellRange, str]] = []
    for element in _elements(package, name, "row", "mergeCell", "hyperlink", *_RUNNING):
        tag, ref = _local_name(element), str(element.get("ref") or "")
        if tag in _RUNNING:
            running += [(tag[-6:], part) for part in _running_parts(element.text or "")]
        elif tag == "mergeCell" and len(ranges) < MAX_RANGES and (cells := parse_cell_range(ref)):
            ranges.append(cells)
        elif tag == "hyperlink" and (cells := parse_cell_range(ref)):
            key = next((str(value) for name, value in element.items() if name.endswith("}id")), "")
            target, location = external_target(relations, key), str(element.get("location") or "")
            linked.append((cells, f"{target}#{location}" if target and location else target or location))
    return ranges, running, _cell_links(linked)


def _cell_links(linked: Iterable[tuple[CellRange, str]]) -> dict[int, dict[int, str]]:
    """Row → column → the address that a cell leads to."""
    links: dict[int, dict[int, str]] = {}
    n_cells = 0
    for cells, link in linked:
        n_cells += (cells.bottom - cells.top + 1) * (cells.right - cells.left + 1)
        for row in range(cells.top, cells.bottom + 1) if link and n_cells <= _MAX_LINKED_CELLS else ():
            links.setdefault(row, {}).update(dict.fromkeys(range(cells.left, cells.right + 1), link))
    return links


def _running_parts(code: str) -> list[str]:
    """The texts of the left, middle and right of a header, without page numbers and formatting."""
    parts = re.split(r"&[LCR]", code[:_MAX_RUNNING_CHARS])
    return [" ".join(_RUNNING_CODE.sub(lambda match: "&" if match[0] == "&&" else "", part).split()) for part in parts]


def _table_heads(book: Workbook, relations: Mapping[str, Relation]) -> dict[int, list[CellRange]]:
    """Row → the tables of a sheet that have their header there."""
    heads: dict[int, list[CellRange]] = {}
    for root in _related_roots(book, relations, "table"):
        place = parse_cell_range(str(root.get("ref") or ""))
        if place is not None and root.get("headerRowCount") != "0":
            heads.setdefault(place.top, []).append(place)
    return heads


def _numbered_rows(
    book: Workbook, name: str, comments: SheetComments, heads: Mapping[int, Sequence[CellRange]], links: Mapping[int, Mapping[int, str]]
) -> Iterator[tuple[int, list[str]]]:
    """The rows with their index, without trailing empty cells; consecutive empty rows become one.

    `heads`: see `_table_heads`; `links`: see `_cell_links`.
    """

    def all_rows() -> Iterator[tuple[int, list[str]]]:
        formulas: dict[str, str] = {}
        expected = 0
        for element in _elements(book.package, name, "row"):
            index = number_in(str(element.get("r") or ""), expected + 1) - 1
            if index > expected:
                yield index - 1, []
            row = _row(element, book, formulas, links.get(index, {}))
            for table in heads.get(index, ()):
                row[table.left : table.right + 1] = map(HeadCell, row[table.left : table.right + 1])
            comments.note_row(index, row)
            yield index, row
            expected = index + 1

    for is_empty, rows in groupby(all_rows(), key=lambda item: not item[1]):
        if is_empty:
            yield next(rows)
        else:
            yield from rows


def _row(element: Any, book: Workbook, formulas: dict[str, str], links: Mapping[int, str]) -> list[str]:
    row: list[str] = []
    for cell in element:
        if _local_name(cell) != "c":
            continue
        place = parse_cell_name(cell.get("r") or "")
        column = len(row) if place is None else place[1]
        if column >= MAX_COLUMNS:
            continue
        text = _cell_text(cell, book, formulas)
        if text:
            style = cell.get("s")
            if column in links or (style in book.struck_styles and "~~" not in text):
                text = marked_text(text, links.get(column, ""), style in book.struck_styles)
            text = HeadCell(text) if style in book.head_styles else text
            row += [""] * (column + 1 - len(row))
            row[column] = text
        elif place is None:
            row.append("")
    while row and not row[-1]:
        row.pop()
    return row


def _cell_text(cell: Any, book: Workbook, formulas: dict[str, str]) -> str:
    """A cell as it is shown; a formula without a value as it is written, one that is a link with its address."""
    value = formula = inline = None
    for child in cell:
        name = _local_name(child)
        if name == "v":
            value = child.text or ""
        elif name == "f":
            formula = _formula_text(child, formulas)
        elif name == "is":
            inline = child
    if inline is not None:
        return rich_text(inline)
    link = _LINK_FORMULA.search(formula) if formula else None
    if link:
        return marked_text(format_cell(_unescaped(value)) if value else link[2] or link[1], link[1])
    if not value:
        return formula or ""
    style = number_in(cell.get("s") or "")
    return _shown_value(value, cell.get("t") or "n", book.formats[style] if style < len(book.formats) else "", book)


def _shown_value(value: str, kind: str, code: str, book: Workbook) -> str:
    """A stored value of a kind (s: shared text, b: boolean, n: number, d: date) in a number format."""
    if kind == "s":
        index = number_in(value, -1)
        return format_text_cell(book.texts[index], code) if 0 <= index < len(book.texts) else ""
    if kind == "b":
        return "TRUE" if value.strip() in {"1", "true"} else "FALSE"
    if kind == "n":
        try:
            return format_number_cell(float(value), code, is_1904=book.is_1904) if len(value) < 400 else format_cell(value)
        except ValueError:
            pass
    text = format_cell(_unescaped(value))
    return text.removesuffix("T00:00:00").replace("T", " ") if kind == "d" else text


def _formula_text(element: Any, formulas: dict[str, str]) -> str:
    """A formula, also where it is shared with another cell and stands only there."""
    text = " ".join((element.text or "").replace("_xlfn.", "").replace("_xlws.", "").split())
    shared = element.get("si") if element.get("t") == "shared" else None
    if shared is not None:
        text = formulas.setdefault(shared, text) if text else formulas.get(shared, "")
    return f"={text}" if text else ""


def _local_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _read_comments(book: Workbook, relations: Mapping[str, Relation]) -> SheetComments:
    """The comments of a sheet; threads replace the plain comments of their cells, which older programs show instead."""
    comments = SheetComments()
    for root in _related_roots(book, relations, "threadedComment"):
        for element in root.iter("{*}threadedComment"):
            if place := parse_cell_name(element.get("ref") or ""):
                text = " ".join("".join(element.itertext("{*}text")).split())
                comments.add(*place, text, book.authors.get(str(element.get("personId")), ""), str(element.get("dT") or ""))
    threaded = {(row, column) for row, columns in comments.texts.items() for column in columns}
    for root in _related_roots(book, relations, "comments"):
        authors = ["".join(a.itertext()) for a in root.iterfind("{*}authors/{*}author")]
        for element in root.iter("{*}comment"):
            place, body = parse_cell_name(element.get("ref") or ""), element.find("{*}text")
            if place and body is not None and place not in threaded:
                index = number_in(str(element.get("authorId") or ""), len(authors))
                author = authors[index] if index < len(authors) else ""
                comments.add(*place, _without_author(rich_text(body), author), author, "")
    return comments


def _related_roots(book: Workbook, relations: Mapping[str, Relation], kind: str) -> Iterator[Any]:
    roots = (book.package.optional_root(r.target) for r in relations.values() if r.kind == kind and not r.is_external)
    return (root for root in roots if root is not None)


def _without_author(text: str, author: str) -> str:
    """A comment without the name of its author, which Excel writes before it."""
    return text.removeprefix(f"{author}:").strip() if author else text


def _drawing_blocks(package: OpenXmlPackage, name: str) -> Iterator[TextBlock]:
    """The text boxes, descriptions of pictures, and diagrams of a sheet."""
    root = package.optional_root(name)
    if root is None:
        return
    relations = package.relations(name)
    for body in root.iter("{*}txBody"):
        text = "\n".join(drawing_texts(body, relations))
        yield paragraph(marked_text(text, clicked_link(body.getparent().find("*/{*}cNvPr"), relations)))
    for described in root.iterfind(".//{*}pic/{*}nvPicPr/{*}cNvPr"):
        yield paragraph(marked_text(picture_text(described.get("descr") or ""), clicked_link(described, relations)))
    for diagram in root.iter(f"{DIAGRAM_NS}relIds"):
        yield from diagram_blocks(package, part_name(relations, diagram.get(f"{RELATION_NS}dm")))
