"""OpenDocument: texts (.odt), spreadsheets (.ods) and presentations (.odp), each one XML file in an archive, or that file alone.

List and heading numbers are counted while reading; notes, comments, headers and footers stand after the text they belong to.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from zipfile import BadZipFile, ZipFile

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
from localrag.loaders.headers import HeadCell
from localrag.loaders.html import xml_root
from localrag.loaders.inline_text import (
    TextRun,
    checkbox,
    comment_line,
    embedded_files_line,
    join_runs,
    picture_text,
    ruby_text,
    running_lines,
)
from localrag.loaders.numbering import ListLevel, ListNumbering
from localrag.loaders.open_xml import parsed_file
from localrag.loaders.sheet_tables import sheet_lines
from localrag.loaders.spans import CellRange, divides_first_row, fill_spans
from localrag.loaders.spreadsheet import SheetComments, sheet_title
from localrag.loaders.tabular import format_cell, format_row, table_lines

_OF = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _OFFICE, _STYLE, _FORM, _SHOW, _CHART = (
    f"{{{_OF}{name}:1.0}}" for name in ("text", "table", "drawing", "office", "style", "form", "presentation", "chart")
)
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FIELDMARK = "{urn:openoffice:names:experimental:ooo-ms-field:xmlns:field:1.0}"
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
_P, _H, _LIST, _CELL = f"{_TEXT}p", f"{_TEXT}h", f"{_TEXT}list", f"{_TABLE}table-cell"
_WITHOUT_TEXT = {
    f"{_TEXT}tracked-changes",
    f"{_TEXT}sequence-decls",
    f"{_TEXT}variable-decls",
    f"{_TEXT}user-field-decls",
    f"{_OFFICE}forms",
    f"{_OFFICE}annotation",
    f"{_OFFICE}binary-data",
    f"{_SHOW}notes",
}
_OBJECTS = frozenset({f"{_DRAW}{name}" for name in ("object", "object-ole", "control")})
_CHARACTERS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_PAGE_FIELDS = frozenset({f"{_TEXT}{n}" for n in ("page-number", "page-count", "page-continuation", "sheet-name", "date", "time", "title")})
_FORMS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "一, 二, 三, ...": "chineseCounting",
}
_RAISED_NAMES, _LOWERED_NAMES = frozenset({"sup", "super", "superscript"}), frozenset({"sub", "subscript"})
_HEADERS = {"header": "Header", "header-left": "Header", "header-first": "Header"}
_RUNNING = _HEADERS | {"footer": "Footer", "footer-left": "Footer", "footer-first": "Footer"}
_SHOWN_ELSEWHERE = frozenset({"page-number", "header", "footer", "date-time", "notes"})  # kinds of placeholders on slides
_BOLD_WEIGHTS = frozenset({"bold", "600", "700", "800", "900"})
_MAX_REPEATED = 1000  # repetitions of a row or cell; more fill an empty sheet
_MAX_INNER_DEPTH = 2  # objects in objects
_TABLE_HEADING = "Table_20_Heading"  # the style of LibreOffice
_OUTLINE = "outline"  # the list of numbered headings


@dataclass(slots=True)
class _OdfStyles:
    """Raised (1) and lowered (-1) text by style, lists of paragraph styles, and the numbering of lists and headings.

    `head`: whether a style makes text bold, or fills a cell.
    """

    shift: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[int, ListLevel]] = field(default_factory=dict)
    head: dict[str, bool] = field(default_factory=dict)

    def is_head(self, element: Any, attribute: str) -> bool:
        """Whether the style of an element is one of table heads: bold, with a fill, or called so."""
        name = str(element.get(attribute) or "")
        for _ in range(10):
            if name in self.head or name == _TABLE_HEADING or name not in self.parents:
                return self.head.get(name, name == _TABLE_HEADING)
            name = self.parents[name]
        return False

    def shift_of(self, name: str) -> int:
        """Whether a style raises or lowers text; a style that is not defined by its name."""
        for _ in range(10):
            if name in self.shift:
                return self.shift[name]
            if name not in self.parents:
                return (name.lower() in _RAISED_NAMES) - (name.lower() in _LOWERED_NAMES)
            name = self.parents[name]
        return 0


@dataclass(slots=True)
class _Position:
    """Where a paragraph stands: the list, its style, its depth from 1, and whether it is the first of its item."""

    number: str = ""
    style: str = ""
    depth: int = 0
    is_first: bool = True


def parse_opendocument(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a text, spreadsheet or presentation, a template of one, or one in a single XML file (`.fodt`)."""
    with file.open() as f:
        is_flat = f.read(100).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    if is_flat:
        root = xml_root(file.read_bytes())
        return _parsed(root, root, root, None)
    with open_archive(file) as archive:
        if b"encryption-data" in read_entry(archive, "META-INF/manifest.xml", needed=False):
            raise Unreadable("password-protected")
        data = read_entry(archive, "meta.xml", needed=False)
        meta = xml_root(data) if data else None
        return _parsed(xml_root(read_entry(archive, "content.xml")), _optional_root(archive, "styles.xml"), meta, archive)


def _parsed(content: Any, styles: Any, meta: Any, archive: ZipFile | None) -> ParsedFile:
    """The document with these parts, which are the same element in a single XML file."""
    reader = OdfReader(archive, _read_styles(content, styles), _form_values(content))
    body = content.find(f"{_OFFICE}body")
    if body is None or not len(body):
        raise Unreadable("damaged: it has no content", failed=True)
    sheets, slides = body[0].findall(f"{_TABLE}table"), body[0].findall(f"{_DRAW}page")
    headers, footers = _running_texts(content, styles, reader)
    if body[0].tag == f"{_OFFICE}spreadsheet":
        named = [(str(s.get(f"{_TABLE}name") or ""), reader.sheet(s)) for s in sheets]
        sections = [(f"sheet {name}", sheet_title(name, text, always=len(named) > 1)) for name, text in named]
        text, parts = join_sections([*sections, ("", "\n".join([*headers, *footers]))])
    elif slides:
        shown = [(f"slide {n}", clean_text("\n\n".join(reader.slide(s)))) for n, s in enumerate(slides, 1)]
        text, parts = join_sections([*shown, ("", "\n".join(_declared_lines(body[0])))])
    else:
        lines = [*reader.blocks(body[0]), *reader.note_lines()]
        around = ("\n\n".join(headers), "\n".join(lines), "\n\n".join([*reader.embedded_line(), *footers]))
        text, parts = clean_text("\n\n".join(filter(None, around))), ()
    return parsed_file(text, _metadata(meta), first_heading(text), parts)


def _optional_root(archive: ZipFile, name: str) -> Any:
    try:
        return xml_root(archive.read(name))
    except (Unreadable, KeyError, BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return None


def _metadata(root: Any) -> tuple[tuple[str, str], ...]:
    meta = None if root is None else next(root.iter(f"{_OFFICE}meta"), None)
    if meta is None:
        return ()
    values = {str(e.tag).rpartition("}")[2]: "".join(e.itertext()) for e in meta.iter("*") if not len(e)}
    return metadata_pairs(
        title=values.get("title"),
        author=values.get("initial-creator") or values.get("creator"),
        date=(values.get("date") or values.get("creation-date") or "")[:10],
        subject=values.get("subject"),
        description=values.get("description"),
    )


def _used_pages(content: Any, styles: Any) -> list[Any]:
    """The page styles of a document that a paragraph, table or other page style names; the first one is used where none does."""
    pages = {str(p.get(f"{_STYLE}name")): p for p in styles.iter(f"{_STYLE}master-page")} if styles is not None else {}
    named = (
        [str(s.get(f"{_STYLE}master-page-name") or "") for root in (content, styles) for s in root.iter(f"{_STYLE}style")] if pages else []
    )
    pending = list(dict.fromkeys([*(["Standard"] if "Standard" in pages else list(pages)[:1]), *filter(None, named)]))
    used: dict[str, Any] = {}
    while pending:
        name = pending.pop(0)
        if name in pages and name not in used:
            used[name] = pages[name]
            pending.append(str(pages[name].get(f"{_STYLE}next-style-name") or ""))
    return list(used.values())


def _running_texts(content: Any, styles: Any, reader: "OdfReader") -> tuple[list[str], list[str]]:
    """The lines of the headers and footers of the pages that are used."""
    texts: dict[str, list[str]] = {"Header": [], "Footer": []}
    for page in _used_pages(content, styles):
        for element in page.iter(*(f"{_STYLE}{name}" for name in _RUNNING)):
            if element.get(f"{_STYLE}display") != "false":
                kind = _RUNNING[str(element.tag).rpartition("}")[2]]
                texts[kind] += [reader.running_text(p) for p in element.iter(_P, _H)]
    return running_lines("Header", texts["Header"]), running_lines("Footer", texts["Footer"])


def _declared_lines(presentation: Any) -> list[str]:
    """The headers and footers that some slide of a presentation shows."""
    used = {value for page in presentation.iter(f"{_DRAW}page") for key, value in page.attrib.items() if key.startswith(f"{_SHOW}use-")}
    lines: list[str] = []
    for kind in ("header", "footer"):
        declared = presentation.iter(f"{_SHOW}{kind}-decl")
        texts = ["".join(d.itertext()) for d in declared if d.get(f"{_SHOW}name") in used]
        lines += running_lines(kind.capitalize(), texts)
    return lines


def _read_styles(*roots: Any) -> _OdfStyles:
    styles = _OdfStyles()
    for root in roots:
        if root is None:
            continue
        for style in root.iter(f"{_STYLE}style"):
            _read_style(style, styles)
        for element in root.iter(f"{_TEXT}list-style", f"{_TEXT}outline-style"):
            name = _OUTLINE if element.tag.endswith("}outline-style") else str(element.get(f"{_STYLE}name") or "")
            styles.levels.setdefault(name, {number_in(str(e.get(f"{_TEXT}level") or "1"), 1) - 1: _list_level(e) for e in element})
    return styles


def _read_style(style: Any, styles: _OdfStyles) -> None:
    name = str(style.get(f"{_STYLE}name") or "")
    styles.parents.setdefault(name, str(style.get(f"{_STYLE}parent-style-name") or ""))
    if listed := style.get(f"{_STYLE}list-style-name"):
        styles.listed.setdefault(name, str(listed))
    properties = style.find(f"{_STYLE}text-properties")
    cell = style.find(f"{_STYLE}table-cell-properties")
    fill = "" if cell is None else str(cell.get(f"{_FO}background-color") or "")
    weight = "" if properties is None else str(properties.get(f"{_FO}font-weight") or "")
    if weight or fill:
        styles.head.setdefault(name, weight in _BOLD_WEIGHTS or fill.lower() not in {"", "transparent", "#ffffff"})
    position = "" if properties is None else str(properties.get(f"{_STYLE}text-position") or "")
    if position and style.get(f"{_STYLE}family") == "text":
        height = position.split()[0].rstrip("%") if position.split() else ""
        raised = {"super": 1, "sub": -1}.get(height)
        if raised is None:
            raised = 0 if not height.strip("-0.") else -1 if height.startswith("-") else 1
        styles.shift.setdefault(name, raised)


def _list_level(element: Any) -> ListLevel:
    """A level of a list style; its text as in Word: `%1.%2.`."""
    form = str(element.get(f"{_STYLE}num-format") or "")
    if str(element.tag).rpartition("}")[2] not in {"list-level-style-number", "outline-level-style"} or not form:
        return ListLevel("bullet" if "bullet" in str(element.tag) else "none", "")
    level = min(max(number_in(str(element.get(f"{_TEXT}level") or "1"), 1), 1), 9)
    n_shown = min(max(number_in(str(element.get(f"{_TEXT}display-levels") or "1"), 1), 1), level)
    numbers = ".".join(f"%{n}" for n in range(level - n_shown + 1, level + 1))
    prefix, suffix = (str(element.get(f"{_STYLE}num-{name}") or "").replace("%", "")[:20] for name in ("prefix", "suffix"))
    return ListLevel(
        _FORMS.get(form, "decimal"), f"{prefix}{numbers}{suffix}", number_in(str(element.get(f"{_TEXT}start-value") or "1"), 1)
    )


def _form_values(content: Any) -> dict[str, str]:
    """Id → value of the form controls: the state of a checkbox with its label, the text of a field, the chosen entries of a list."""
    values: dict[str, str] = {}
    for form in content.iter(f"{_OFFICE}forms"):
        for control in form.iter("*"):
            key = control.get(f"{_FORM}id") or control.get(_XML_ID)
            if key:
                values[str(key)] = values[str(control.get(f"{_FORM}id") or key)] = _form_value(control)
    return values


def _form_value(control: Any) -> str:
    name = str(control.tag).rpartition("}")[2]
    if name in {"checkbox", "radio"}:
        is_checked = (control.get(f"{_FORM}current-state") or control.get(f"{_FORM}state")) == "checked"
        is_checked |= (control.get(f"{_FORM}current-selected") or control.get(f"{_FORM}selected")) == "true"
        return f"{checkbox(is_checked)} {control.get(f'{_FORM}label') or ''}".strip()
    chosen = [
        str(option.get(f"{_FORM}label") or option.get(f"{_FORM}value") or "")
        for option in control.iterchildren(f"{_FORM}option")
        if (option.get(f"{_FORM}current-selected") or option.get(f"{_FORM}selected")) == "true"
    ]
    text = control.get(f"{_FORM}current-value") or control.get(f"{_FORM}value") or ""
    return ", ".join(chosen) or (str(text) if name not in {"button", "hidden", "image"} else "")


@dataclass(slots=True)
class OdfReader:
    """Reads the text of a document. `notes`: bodies of notes in the order of their marks; `comments`: those not written yet.

    `archive`: with the files of the objects; None where they are within the document.
    """

    archive: ZipFile | None
    styles: _OdfStyles = field(default_factory=_OdfStyles)
    form_values: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""  # of an object inside the document
    depth: int = 0
    notes: list[Any] = field(default_factory=list)
    comments: list[Any] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)
    numbering: ListNumbering = field(default_factory=lambda: ListNumbering({}, {}))
    n_lists: int = 0
    named_lists: dict[str, str] = field(default_factory=dict)  # xml:id of a list → its number
    last_lists: dict[str, str] = field(default_factory=dict)  # list style → number of the last list with it
    hides_page_numbers: bool = False

    def blocks(self, parent: Any, position: _Position | None = None) -> Iterator[str]:
        """The lines of headings, paragraphs, lists, tables, frames and controls."""
        position = position or _Position()
        for child in parent:
            if child.tag == _H:
                yield from self._heading(child)
            elif child.tag == _P:
                yield from self._paragraph(child, position)
            elif child.tag == _LIST:
                yield from self._list(child, position)
            elif child.tag == f"{_TABLE}table":
                yield from ("", *self._table(child), "")
            elif child.tag in _OBJECTS:
                yield from self._object(child)
            elif isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
                yield from filter(None, [_picture(child)])
                yield from self.blocks(child, position)
            elif child.tag == f"{_OFFICE}annotation":
                self.comments.append(child)

    def note_lines(self) -> Iterator[str]:
        """The notes, then the comments; notes may have notes."""
        n = 0
        while n < len(self.notes):
            n += 1
            yield f"\n[{n}] {self.flat_text(self.notes[n - 1])}"
        for comment in self.comments:
            if text := self.flat_text(comment):
                yield f"\n{comment_line(text, *_signature(comment))}"
        self.comments = []

    def embedded_line(self) -> list[str]:
        """A line with the names of embedded files, if there are any."""
        return embedded_files_line(self.embedded)

    def flat_text(self, element: Any) -> str:
        """All paragraphs of an element on one line, without those of its comments, notes and text boxes."""
        return " ".join(" ".join(map(self._line, _own_paragraphs(element))).split())

    def running_text(self, p: Any) -> str:
        """A paragraph of a header or footer, without page numbers."""
        self.hides_page_numbers = True
        text = self._line(p)
        self.hides_page_numbers = False
        return text

    def slide(self, page: Any) -> Iterator[str]:
        """A slide: its title, its other texts, its speaker notes and comments."""
        shapes = [shape for shape in page if shape.get(f"{_SHOW}class") not in _SHOWN_ELSEWHERE]
        title = next((shape for shape in shapes if shape.get(f"{_SHOW}class") == "title"), None)
        if title is not None and (text := self.flat_text(title)):
            yield f"# {text}"
        yield "\n".join(line for shape in shapes if shape is not title for line in self.blocks([shape]))
        for notes in page.iterchildren(f"{_SHOW}notes"):
            frames = [frame for frame in notes if frame.get(f"{_SHOW}class") == "notes"] or [
                frame for frame in notes if frame.get(f"{_SHOW}class") is None
            ]
            text = clean_text("\n".join(line for frame in frames for line in self.blocks(frame))).strip()
            yield from [f"Notes: {text}"] if text else []
        yield from (line.strip() for line in self.note_lines())
        yield from self.embedded_line()
        self.notes, self.embedded = [], []

    def sheet(self, table: Any) -> str:
        """The rows of a sheet, then its comments and what is drawn on it."""
        comments = SheetComments()
        grid, ranges = self._grid(table, comments)
        lines = list(sheet_lines(enumerate(grid), ranges))
        shapes = [line for shapes in table.iterchildren(f"{_TABLE}shapes") for line in self.blocks(shapes)]
        after = [*comments.lines(), *shapes, *(line.strip() for line in self.note_lines()), *self.embedded_line()]
        self.notes, self.embedded = [], []
        return clean_text("\n".join([*lines, *(line for text in after for line in ("", text))])).strip()

    def _heading(self, h: Any) -> Iterator[str]:
        depth = min(max(number_in(str(h.get(f"{_TEXT}outline-level") or "1"), 1), 1), 9)
        text = " ".join(self._line(h).split())
        number = ""
        if text and _OUTLINE in self.styles.levels and h.get(f"{_TEXT}is-list-header") != "true":
            number = self._next_number(_OUTLINE, _OUTLINE, depth - 1)
        yield f"\n{'#' * min(depth, 6)} {'' if number in ('', '-') else f'{number} '}{text}\n" if text else ""
        yield from self._anchored(h)

    def _paragraph(self, p: Any, position: _Position) -> Iterator[str]:
        text = self._line(p).strip()
        if text and position.depth:
            mark = "  "
            if position.is_first:
                mark = f"{self._next_number(position.number, position.style, position.depth - 1)} "
                position.is_first = False
            yield "  " * (min(position.depth, 10) - 1) + mark + text
        elif text:
            yield f"\n{text}\n"
        yield from self._anchored(p)

    def _list(self, element: Any, around: _Position) -> Iterator[str]:
        """The items of a list. A list inside another is a deeper level of it."""
        style = str(element.get(f"{_TEXT}style-name") or around.style or self._paragraph_list_style(element))
        number = around.number or self._list_number(element, style)
        if key := element.get(_XML_ID):
            self.named_lists[str(key)] = number
        self.last_lists[style] = number
        depth = around.depth + 1
        for item in element:
            start = number_in(str(item.get(f"{_TEXT}start-value") or ""), -1)
            if start >= 0:
                self.numbering.lists[number] = number
                self.numbering.set_next(number, depth - 1, start)
            yield from self.blocks(item, _Position(number, style, depth, is_first=item.tag == f"{_TEXT}list-item"))

    def _list_number(self, element: Any, style: str) -> str:
        """The list that a list goes on with, or a new one."""
        continued = self.named_lists.get(str(element.get(f"{_TEXT}continue-list") or ""), "")
        if not continued and element.get(f"{_TEXT}continue-numbering") == "true":
            continued = self.last_lists.get(style, "")
        if not continued:
            self.n_lists += 1
        return continued or str(self.n_lists)

    def _paragraph_list_style(self, element: Any) -> str:
        p = next(element.iter(_P, _H), None)
        return "" if p is None else self.styles.listed.get(str(p.get(f"{_TEXT}style-name") or ""), "")

    def _next_number(self, number: str, style: str, depth: int) -> str:
        self.numbering.lists[number] = number
        self.numbering.levels[number] = self.styles.levels.get(style, {})
        return self.numbering.next(number, min(depth, 9))

    def _anchored(self, p: Any) -> Iterator[str]:
        """The text boxes, shapes, objects and controls anchored in a paragraph."""
        for element in p.iter(f"{_DRAW}*"):
            owner = list(takewhile(lambda a: a is not p, element.iterancestors()))
            if any(a.tag in {_P, _H} or (a.tag.startswith(_DRAW) and _has_text(a)) or a.tag in _WITHOUT_TEXT for a in owner):
                continue
            if element.tag in _OBJECTS and element.tag != f"{_DRAW}control":
                yield from self._object(element)
            elif _has_text(element):
                yield from self.blocks(element)

    def _object(self, element: Any) -> Iterator[str]:
        """An object in a document: a chart as a table, a formula, another document, the value of a form control."""
        if element.tag == f"{_DRAW}control":
            yield from filter(None, [self.form_values.get(element.get(f"{_DRAW}control") or "", "")])
            return
        name = f"{self.folder}{str(element.get(_HREF) or '').removeprefix('./')}"
        if element.tag == f"{_DRAW}object-ole":
            self.embedded.append(name)
            return
        root = next(element.iterchildren("*"), None)  # within the document
        if root is None and name and self.archive is not None:
            root = _optional_root(self.archive, f"{name}/content.xml")
        if root is None or self.depth >= _MAX_INNER_DEPTH:
            return
        if str(root.tag).endswith("}math"):
            yield from filter(None, [" ".join("".join(root.itertext()).split())])
            return
        inner = OdfReader(self.archive, _read_styles(root), _form_values(root), f"{name}/", self.depth + 1)
        for chart in root.iter(f"{_CHART}chart"):
            yield from (text for title in chart.iter(f"{_CHART}title") if (text := inner.flat_text(title)))
            for table in chart.iter(f"{_TABLE}table"):
                header, *rows = inner._grid(table, SheetComments())[0] or [[]]
                yield from (format_row(header, row) for row in rows)
            return
        for body in root.iterfind(f"{_OFFICE}body/*"):
            yield from inner.blocks(body)

    def _table(self, table: Any) -> list[str]:
        """The rows of a table, or the blocks of a layout table."""
        comments = SheetComments()
        grid, ranges = self._grid(table, comments)
        is_nested = next(table.iterdescendants(f"{_TABLE}table"), None) is not None
        if max(map(len, grid), default=0) < 2 or (is_nested and not _has_head(table, grid)):
            return [line for tc in table.iter(_CELL) if next(tc.iterancestors(f"{_TABLE}table")) is table for line in self.blocks(tc)]
        marked = [rows for rows in table.iterchildren(f"{_TABLE}table-header-rows")]
        n_header = sum(_repeated(tr, "rows") for rows in marked for tr in rows.iterchildren(f"{_TABLE}table-row"))
        likely = bool(marked) or (len(grid[0]) > 2 and not divides_first_row(grid, ranges))
        lines = list(table_lines(fill_spans(enumerate(grid), ranges, n_header=n_header, likely=likely), likely=likely))
        return [*lines, *comments.lines()]

    def _grid(self, table: Any, comments: SheetComments) -> tuple[list[list[str]], list[CellRange]]:
        """The texts of a table by row and column, without trailing empty cells, and its spanning cells."""
        grid: list[list[str]] = []
        ranges: list[CellRange] = []
        for tr in table.iter(f"{_TABLE}table-row"):
            if next(tr.iterancestors(f"{_TABLE}table")) is not table:
                continue
            row: list[str] = []
            for tc in tr:
                if tc.tag not in (_CELL, f"{_TABLE}covered-table-cell"):
                    continue
                text = self._cell(tc) if tc.tag == _CELL else ""
                n_rows, n_columns = (
                    max(number_in(str(tc.get(f"{_TABLE}number-{axis}-spanned") or "1"), 1), 1) for axis in ("rows", "columns")
                )
                if text and n_rows * n_columns > 1:
                    ranges.append(CellRange(len(grid), len(row), len(grid) + n_rows - 1, len(row) + min(n_columns, 1000) - 1))
                for comment in tc.iterchildren(f"{_OFFICE}annotation"):
                    comments.add(len(grid), len(row), self.flat_text(comment), *_signature(comment))
                row += [HeadCell(text) if text and self._is_set_apart(tc) else text] * _repeated(tc, "columns")
            while row and not row[-1]:
                row.pop()
            comments.note_row(len(grid), row)
            grid += [list(row) for _ in range(_repeated(tr, "rows") if row else 1)]
        return grid, ranges

    def _is_set_apart(self, tc: Any) -> bool:
        """Whether a cell has a fill, or all its text is bold."""
        if self.styles.is_head(tc, f"{_TABLE}style-name"):
            return True
        written = [p for p in tc.iterchildren(_P, _H) if "".join(p.itertext()).strip()]
        return bool(written) and all(self.styles.is_head(p, f"{_TEXT}style-name") or self._is_span_bold(p) for p in written)

    def _is_span_bold(self, p: Any) -> bool:
        spans = [span for span in p.iterchildren(f"{_TEXT}span") if self.styles.is_head(span, f"{_TEXT}style-name")]
        return sum(len("".join(span.itertext())) for span in spans) >= len("".join(p.itertext()).strip())

    def _cell(self, tc: Any) -> str:
        """A cell as it is shown, dates as ISO; a formula without a value as it is written."""
        kind = tc.get(f"{_OFFICE}value-type")
        if kind == "date":
            return str(tc.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00").replace("T", " ")
        if tc.find(f".//{_TABLE}table") is not None:
            return "; ".join(text for line in self.blocks(tc) if (text := " ".join(line.split())))
        pictures = (_picture(shape) for shape in tc.iterchildren(f"{_DRAW}frame"))
        texts = [format_cell(self.flat_text(tc)), *pictures, *(line for p in tc.iter(_P) for line in self._anchored(p))]
        text = " ".join(" ".join(filter(None, texts)).split())
        if text:
            return text
        value = tc.get(f"{_OFFICE}string-value") or tc.get(f"{_OFFICE}value") or (tc.get(f"{_OFFICE}boolean-value") or "").upper()
        return format_cell(value) or _formula(str(tc.get(f"{_TABLE}formula") or ""))

    def _line(self, p: Any) -> str:
        return join_runs(self._runs(p, 0))

    def _runs(self, element: Any, shift: int) -> Iterator[TextRun]:
        """The text of a paragraph, without its comments and text boxes."""
        yield element.text or "", shift
        for child in element:
            yield from self._inline(child, shift)
            yield child.tail or "", shift

    def _drawn(self, child: Any) -> Iterator[TextRun]:
        """The value of a control, or the description of a picture, that stands in a line."""
        yield self.form_values.get(child.get(f"{_DRAW}control") or "", ""), 0
        for shape in (child, *child.iterchildren(f"{_DRAW}frame")):
            if text := _picture(shape):
                yield f" {text} ", 0

    def _is_inline(self, tag: object) -> bool:
        is_hidden = tag == f"{_TEXT}number" or (self.hides_page_numbers and tag in _PAGE_FIELDS)
        return isinstance(tag, str) and not is_hidden

    def _inline(self, child: Any, shift: int) -> Iterator[TextRun]:
        if child.tag == f"{_TEXT}s":
            yield " " * min(number_in(str(child.get(f"{_TEXT}c") or "1"), 1), 100), 0
        elif child.tag in _CHARACTERS:
            yield _CHARACTERS[child.tag], 0
        elif child.tag == f"{_TEXT}note":
            self.notes += child.findall(f"{_TEXT}note-body")[:1]
            yield f" [{len(self.notes)}]", 0
        elif child.tag == f"{_TEXT}ruby":
            yield (
                ruby_text(
                    *(
                        join_runs(r for part in child.iterchildren(f"{_TEXT}ruby-{n}") for r in self._runs(part, 0))
                        for n in ("base", "text")
                    )
                ),
                0,
            )
        elif child.tag == f"{_OFFICE}annotation":
            self.comments.append(child)
        elif isinstance(child.tag, str) and child.tag.startswith(_DRAW):
            yield from self._drawn(child)
        elif child.tag in {f"{_FIELDMARK}fieldmark", f"{_FIELDMARK}fieldmark-start"}:
            yield _fieldmark_value(child), 0
        elif child.tag == f"{_TEXT}span":
            own = self.styles.shift_of(str(child.get(f"{_TEXT}style-name") or ""))
            yield from self._runs(child, own or shift)
        elif self._is_inline(child.tag):
            yield from self._runs(child, shift)


def _has_head(table: Any, grid: list[list[str]]) -> bool:
    if table.find(f"{_TABLE}table-header-rows") is not None:
        return True
    return len(grid) > 1 and all(isinstance(text, HeadCell) for text in grid[0]) and not any(isinstance(t, HeadCell) for t in grid[1])


def _own_paragraphs(element: Any) -> Iterator[Any]:
    """The paragraphs of an element, without those of comments, notes and text boxes in them."""
    if element.tag in {_P, _H}:
        yield element
        return
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
            yield from _own_paragraphs(child)


def _has_text(shape: Any) -> bool:
    return any(child.tag in {_P, _H, _LIST, f"{_TABLE}table"} for child in shape)


def _picture(frame: Any) -> str:
    """The title and description of a picture in brackets; empty for other shapes."""
    if frame.tag != f"{_DRAW}frame" or frame.find(f"{_DRAW}image") is None or frame.find(f"{_DRAW}object") is not None:
        return ""
    texts = (str(frame.findtext(f"{_SVG}{name}") or "").strip() for name in ("title", "desc"))
    return picture_text(": ".join(dict.fromkeys(filter(None, texts))))


def _signature(comment: Any) -> tuple[str, str]:
    return str(comment.findtext(f"{_DC}creator") or ""), str(comment.findtext(f"{_DC}date") or "")


def _fieldmark_value(mark: Any) -> str:
    """The state of a checkbox, or the chosen entry of a list, of a form taken over from Word."""
    kind = str(mark.get(f"{_FIELDMARK}type") or "").rpartition(".")[2]
    values = [(str(p.get(f"{_FIELDMARK}name")), str(p.get(f"{_FIELDMARK}value") or "")) for p in mark.iter(f"{_FIELDMARK}param")]
    if kind == "FORMCHECKBOX":
        return checkbox(("Checkbox_Checked", "true") in values)
    if kind != "FORMDROPDOWN":
        return ""
    entries = [value for name, value in values if name == "Dropdown_ListEntry"]
    chosen = next((number_in(value, 0) for name, value in values if name == "Dropdown_Selected"), len(entries))
    return entries[chosen] if chosen < len(entries) else ""


def _formula(text: str) -> str:
    """A formula as it is written in a cell: `=SUM(B2:B3)`."""
    return text.removeprefix("of:").removeprefix("oooc:").replace("[.", "").replace(":.", ":").replace("]", "") if text else ""


def _repeated(element: Any, axis: str) -> int:
    value = str(element.get(f"{_TABLE}number-{axis}-repeated") or "1")
    return min(max(number_in(value, 1), 1), _MAX_REPEATED)
