"""OpenDocument: texts (.odt), spreadsheets (.ods) and presentations (.odp), each one XML file in an archive, or that file alone.

List and heading numbers are counted while reading; notes, comments, headers and footers stand after the text they belong to.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from zipfile import BadZipFile, ZipFile

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    metadata_pairs,
    number_in,
    open_archive,
    read_entry,
)
from localrag.loaders.document_tree import (
    TextBlock,
    TextRun,
    heading_block,
    inline_text,
    item,
    join_sections,
    marked_text,
    paragraph,
    render,
)
from localrag.loaders.formulas import after
from localrag.loaders.headers import HeadCell
from localrag.loaders.html import xml_root
from localrag.loaders.inline_text import (
    checkbox,
    comment_line,
    embedded_files_line,
    picture_text,
    quoted_words,
    ruby_text,
    running_lines,
)
from localrag.loaders.math_text import mathml_text
from localrag.loaders.numbering import ListLevel, ListNumbering
from localrag.loaders.open_xml import parsed_file
from localrag.loaders.sheet_tables import sheet_blocks
from localrag.loaders.spans import CellRange, divides_first_row, fill_spans
from localrag.loaders.spreadsheet import SheetComments, sheet_section
from localrag.loaders.tabular import format_cell, format_row, tables
from localrag.text.outline import BlockKind

_OF = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _OFFICE, _STYLE, _FORM, _SHOW, _CHART = (
    f"{{{_OF}{name}:1.0}}" for name in ("text", "table", "drawing", "office", "style", "form", "presentation", "chart")
)
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
_P, _H, _LIST, _CELL, _COMMENT = f"{_TEXT}p", f"{_TEXT}h", f"{_TEXT}list", f"{_TABLE}table-cell", f"{_OFFICE}annotation"
_WITHOUT_TEXT = {
    *(f"{_TEXT}{name}" for name in ("tracked-changes", "sequence-decls", "variable-decls", "user-field-decls", "number")),
    *(_COMMENT, f"{_OFFICE}forms", f"{_OFFICE}binary-data", f"{_SHOW}notes"),
}
_OBJECTS = frozenset({f"{_DRAW}{name}" for name in ("object", "object-ole", "control")})
_CHARACTERS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n", f"{_TEXT}s": " "}
_PAGE_FIELDS = frozenset({f"{_TEXT}{n}" for n in ("page-number", "page-count", "page-continuation", "sheet-name", "date", "time", "title")})
_FORMS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
}
_RUNNING = {f"{_STYLE}{kind}{page}": kind.capitalize() for kind in ("header", "footer") for page in ("", "-left", "-first")}
_SHOWN_ELSEWHERE = frozenset({"page-number", "header", "footer", "date-time", "notes"})  # kinds of placeholders on slides
_BOLD_WEIGHTS = frozenset({"bold", "600", "700", "800", "900"})
_MAX_REPEATED = 1000  # repetitions of a row or cell; more fill an empty sheet
_MAX_INNER_DEPTH = 2  # objects in objects
_MAX_PARENTS = 10  # of a style
_MAX_COMMENTED = 100  # elements that a comment is about
_MIN_CONTRAST = 90  # between the channels of a highlighter's color
_TABLE_HEADING = "Table_20_Heading"  # the style of LibreOffice
_LINKED_CELL = re.compile(r'of:=HYPERLINK\("([^"]+)"')
_OUTLINE = "outline"  # the list of numbered headings


@dataclass(frozen=True, slots=True)
class _OdfStyle:
    """What a style says. `is_head`: bold, or in a filled cell; `run`: of its text, by the fields of TextRun."""

    parent: str = ""
    is_head: bool | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _OdfStyles:
    """The styles of a document by family and name, and the levels of its numbered lists. `inherited`: with those they are based on."""

    styles: dict[tuple[str, str], _OdfStyle] = field(default_factory=dict)
    inherited: dict[tuple[str, str], _OdfStyle] = field(default_factory=dict)
    levels: dict[str, dict[int, ListLevel]] = field(default_factory=dict)

    def of(self, family: str, element: Any) -> _OdfStyle:
        """The style of an element with what it inherits."""
        key = family, str(element.get(f"{_TABLE if family == 'table-cell' else _TEXT}style-name") or "")
        if key not in self.inherited:
            self.inherited[key] = self._inherited(*key)
        return self.inherited[key]

    def _inherited(self, family: str, name: str, depth: int = 0) -> _OdfStyle:
        own = self.styles.get((family, name)) or _OdfStyle()
        above = self._inherited(family, own.parent, depth + 1) if own.parent and depth < _MAX_PARENTS else _OdfStyle()
        is_head = above.is_head if own.is_head is None else own.is_head
        return _OdfStyle("", is_head or name == _TABLE_HEADING, {**above.run, **own.run})


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
    reader = OdfReader(archive, _read_styles(content, styles), _form_values(content))
    body = content.find(f"{_OFFICE}body")
    if body is None or not len(body):
        raise Unreadable("damaged: it has no content", failed=True)
    sheets, slides = body[0].findall(f"{_TABLE}table"), body[0].findall(f"{_DRAW}page")
    headers, footers = _running_texts(content, styles, reader)
    if body[0].tag == f"{_OFFICE}spreadsheet":
        named = [(str(sheet.get(f"{_TABLE}name") or ""), sheet) for sheet in sheets]
        sections = [sheet_section(name, reader.sheet(sheet), always=len(sheets) > 1) for name, sheet in named]
        rendered = join_sections([*sections, ("", "\n".join([*headers, *footers]))])
    elif slides:
        shown = [(f"slide {n}", render(reader.slide(slide))) for n, slide in enumerate(slides, 1)]
        rendered = join_sections([*shown, ("", "\n".join(_declared_lines(body[0])))])
    else:
        rendered = render([*map(paragraph, headers), *reader.blocks(body[0]), *reader.after(), *map(paragraph, footers)])
    return parsed_file(rendered, _metadata(meta))


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


def _running_texts(content: Any, styles: Any, reader: "OdfReader") -> tuple[list[str], list[str]]:
    pages = {str(p.get(f"{_STYLE}name")): p for p in styles.iter(f"{_STYLE}master-page")} if styles is not None else {}
    used = {"Standard" if "Standard" in pages else next(iter(pages), "")}
    for element in (e for root in (content, styles) if pages for e in root.iter(f"{_STYLE}style", f"{_STYLE}master-page")):
        used |= {element.get(f"{_STYLE}master-page-name"), element.get(f"{_STYLE}next-style-name")}
    texts: dict[str, list[str]] = {"Header": [], "Footer": []}
    for page in (page for name, page in pages.items() if name in used):
        for element in page.iter(*_RUNNING):
            for number in element.iter(*_PAGE_FIELDS):
                number.text = None
            if element.get(f"{_STYLE}display") != "false":
                texts[_RUNNING[element.tag]] += [reader.line(p) for p in element.iter(_P, _H)]
    return running_lines("Header", texts["Header"]), running_lines("Footer", texts["Footer"])


def _declared_lines(presentation: Any) -> list[str]:
    used = {value for page in presentation.iter(f"{_DRAW}page") for key, value in page.attrib.items() if key.startswith(f"{_SHOW}use-")}
    declared = [(kind, d) for kind in ("header", "footer") for d in presentation.iter(f"{_SHOW}{kind}-decl")]
    shown = [(kind, "".join(d.itertext())) for kind, d in declared if d.get(f"{_SHOW}name") in used]
    return [line for kind, text in shown for line in running_lines(kind.capitalize(), [text])]


def _read_styles(*roots: Any) -> _OdfStyles:
    found = _OdfStyles()
    for root in roots:
        if root is None:
            continue
        for style in root.iter(f"{_STYLE}style"):
            key = str(style.get(f"{_STYLE}family") or ""), str(style.get(f"{_STYLE}name") or "")
            found.styles.setdefault(key, _read_style(style))
        for element in root.iter(f"{_TEXT}list-style", f"{_TEXT}outline-style"):
            name = _OUTLINE if element.tag.endswith("}outline-style") else str(element.get(f"{_STYLE}name") or "")
            found.levels.setdefault(name, {number_in(str(e.get(f"{_TEXT}level") or "1"), 1) - 1: _list_level(e) for e in element})
    return found


def _read_style(style: Any) -> _OdfStyle:
    properties, cell = style.find(f"{_STYLE}text-properties"), style.find(f"{_STYLE}table-cell-properties")
    text: Mapping[str, str] = {} if properties is None else dict(properties.attrib)
    fill = "" if cell is None else str(cell.get(f"{_FO}background-color") or "")
    weight = text.get(f"{_FO}font-weight", "")
    is_head = weight in _BOLD_WEIGHTS or fill.lower() not in {"", "transparent", "#ffffff"} if weight or fill else None
    run: dict[str, Any] = {}
    if position := text.get(f"{_STYLE}text-position", "").split():
        run["shift"] = _text_shift(position[0].rstrip("%"))
    if lines := {text[key] for name in ("style", "type") if (key := f"{_STYLE}text-line-through-{name}") in text}:
        run["is_deleted"] = "none" not in lines
    if color := text.get(f"{_FO}background-color"):
        run["is_highlighted"] = _is_marker(color)
    return _OdfStyle(str(style.get(f"{_STYLE}parent-style-name") or ""), is_head, run)


def _text_shift(height: str) -> int:
    named = {"super": 1, "sub": -1}.get(height)
    return named or (0 if not height.strip("-0.") else -1 if height.startswith("-") else 1)


def _is_marker(color: str) -> bool:
    """Whether a color behind text is that of a highlighter, rather than a gray or pale one."""
    channels = [int(color[n : n + 2], 16) for n in (1, 3, 5)] if re.fullmatch("#[0-9a-fA-F]{6}", color) else [0]
    return max(channels) - min(channels) >= _MIN_CONTRAST


def _list_level(element: Any) -> ListLevel:
    """A level of a list style; its text as in Word: `%1.%2.`."""
    form = str(element.get(f"{_STYLE}num-format") or "")
    if str(element.tag).rpartition("}")[2] not in {"list-level-style-number", "outline-level-style"} or not form:
        return ListLevel("bullet" if "bullet" in str(element.tag) else "none", "")
    level = min(_count(element, f"{_TEXT}level"), 9)
    n_shown = min(_count(element, f"{_TEXT}display-levels"), level)
    numbers = ".".join(f"%{n}" for n in range(level - n_shown + 1, level + 1))
    prefix, suffix = (str(element.get(f"{_STYLE}num-{name}") or "").replace("%", "")[:20] for name in ("prefix", "suffix"))
    start = number_in(str(element.get(f"{_TEXT}start-value") or "1"), 1)
    return ListLevel(_FORMS.get(form, "decimal"), f"{prefix}{numbers}{suffix}", start)


def _count(element: Any, attribute: str) -> int:
    return max(number_in(str(element.get(attribute) or "1"), 1), 1)


def _form_values(content: Any) -> dict[str, str]:
    """Id → value of the form controls: the state of a checkbox with its label, the text of a field, the chosen entries of a list."""
    controls = [control for form in content.iter(f"{_OFFICE}forms") for control in form.iter("*")]
    return {str(key): _form_value(c) for c in controls for key in (c.get(f"{_FORM}id"), c.get(_XML_ID)) if key}


def _form_value(control: Any) -> str:
    name = str(control.tag).rpartition("}")[2]
    own = {key.removeprefix(_FORM).removeprefix("current-"): str(value) for key, value in sorted(control.attrib.items(), reverse=True)}
    if name in {"checkbox", "radio"}:
        return f"{checkbox(own.get('state') == 'checked' or own.get('selected') == 'true')} {own.get('label', '')}".strip()
    chosen = (option for option in control.iterchildren(f"{_FORM}option") if option.get(f"{_FORM}current-selected") == "true")
    return ", ".join(str(option.get(f"{_FORM}label") or "") for option in chosen) or (
        "" if name in {"button", "hidden", "image"} else own.get("value", "")
    )


@dataclass(slots=True)
class OdfReader:
    """Reads the blocks of a document. `notes`: bodies of notes in the order of their marks.

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

    def blocks(self, parent: Any, position: _Position | None = None) -> Iterator[TextBlock]:
        """The headings, paragraphs, lists, tables, frames and controls within an element."""
        position = position or _Position()
        for child in parent:
            if child.tag == _H:
                yield from self._heading(child)
            elif child.tag == _P:
                yield from self._paragraph(child, position)
            elif child.tag == _LIST:
                yield from self._list(child, position)
            elif child.tag == f"{_TABLE}table":
                yield from self._table(child)
            elif child.tag in _OBJECTS:
                yield from self._object(child)
            elif child.tag == _COMMENT:
                self.comments.append(child)
            elif isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
                yield paragraph(_picture(child))
                yield from self.blocks(child, position)

    def after(self) -> Iterator[TextBlock]:
        """The notes so far, the comments, and the names of embedded files; notes may have notes."""
        n = 0
        while n < len(self.notes):
            n += 1
            yield paragraph(f"[{n}] {self.flat_text(self.notes[n - 1])}")
        for comment in self.comments:
            if text := self.flat_text(comment):
                yield paragraph(comment_line(text, *_signature(comment), _commented_words(comment)))
        yield from map(paragraph, embedded_files_line(self.embedded))
        self.notes, self.comments, self.embedded = [], [], []

    def flat_text(self, element: Any, *, is_deleted: bool = False) -> str:
        """All paragraphs of an element on one line, without those of its comments, notes and text boxes."""
        return " ".join(" ".join(self.line(p, is_deleted=is_deleted) for p in _own_paragraphs(element)).split())

    def slide(self, page: Any) -> Iterator[TextBlock]:
        """A slide: its title, its other texts, its speaker notes and comments."""
        shapes = [shape for shape in page if shape.get(f"{_SHOW}class") not in _SHOWN_ELSEWHERE]
        title = next((shape for shape in shapes if shape.get(f"{_SHOW}class") == "title"), None)
        if title is not None and (text := self.flat_text(title)):
            yield heading_block(1, text)
        yield from self.blocks([shape for shape in shapes if shape is not title])
        for notes in page.iterchildren(f"{_SHOW}notes"):
            frames = (frame for frame in notes if frame.get(f"{_SHOW}class") in {"notes", None})
            text = render(block for frame in frames for block in self.blocks(frame)).text
            yield paragraph(f"Notes: {text}" if text else "")
        yield from self.after()

    def sheet(self, table: Any) -> Iterator[TextBlock]:
        """The rows of a sheet, then its comments and what is drawn on it."""
        comments = SheetComments()
        grid, ranges = self._grid(table, comments)
        yield from sheet_blocks(enumerate(grid), ranges)
        yield from map(paragraph, comments.lines())
        for shapes in table.iterchildren(f"{_TABLE}shapes"):
            yield from self.blocks(shapes)
        yield from self.after()

    def _heading(self, h: Any) -> Iterator[TextBlock]:
        depth = min(_count(h, f"{_TEXT}outline-level"), 9)
        text = self.line(h).strip()
        number = ""
        if text and _OUTLINE in self.styles.levels and h.get(f"{_TEXT}is-list-header") != "true":
            number = self._next_number(_OUTLINE, _OUTLINE, depth - 1)
        yield heading_block(depth, text if number in ("", "-") else f"{number} {text}") if text else paragraph("")
        yield from self._anchored(h)

    def _paragraph(self, p: Any, position: _Position) -> Iterator[TextBlock]:
        text = self.line(p).strip()
        if text and position.depth:
            if position.is_first:
                yield item(position.depth - 1, self._next_number(position.number, position.style, position.depth - 1), text)
            else:
                yield item(position.depth, "", text)
            position.is_first = False
        else:
            yield paragraph(text)
        yield from self._anchored(p)

    def _list(self, element: Any, around: _Position) -> Iterator[TextBlock]:
        style = str(element.get(f"{_TEXT}style-name") or around.style)
        number = around.number or self._list_number(element, style)
        if key := element.get(_XML_ID):
            self.named_lists[str(key)] = number
        self.last_lists[style] = number
        depth = around.depth + 1
        for entry in element:
            start = number_in(str(entry.get(f"{_TEXT}start-value") or ""), -1)
            if start >= 0:
                self.numbering.lists[number] = number
                self.numbering.set_next(number, depth - 1, start)
            yield from self.blocks(entry, _Position(number, style, depth, is_first=entry.tag == f"{_TEXT}list-item"))

    def _list_number(self, element: Any, style: str) -> str:
        continued = self.named_lists.get(str(element.get(f"{_TEXT}continue-list") or ""), "")
        if not continued and element.get(f"{_TEXT}continue-numbering") == "true":
            continued = self.last_lists.get(style, "")
        if not continued:
            self.n_lists += 1
        return continued or str(self.n_lists)

    def _next_number(self, number: str, style: str, depth: int) -> str:
        self.numbering.lists[number] = number
        self.numbering.levels[number] = self.styles.levels.get(style, {})
        return self.numbering.next(number, min(depth, 9))

    def _anchored(self, element: Any) -> Iterator[TextBlock]:
        """The text boxes, shapes and objects anchored in a paragraph; formulas are part of its text."""
        for child in element:
            if not isinstance(child.tag, str) or child.tag in _WITHOUT_TEXT or child.tag in {_P, _H, f"{_DRAW}control"}:
                continue
            if child.tag in _OBJECTS:
                yield from () if self._formula(child) else self._object(child)
            elif child.tag.startswith(_DRAW) and any(c.tag in {_P, _H, _LIST, f"{_TABLE}table"} for c in child):
                yield from self.blocks(child)
            elif len(child):
                yield from self._anchored(child)

    def _object(self, element: Any) -> Iterator[TextBlock]:
        if element.tag == f"{_DRAW}control":
            yield paragraph(self.form_values.get(element.get(f"{_DRAW}control") or "", ""))
        elif element.tag == f"{_DRAW}object-ole":
            self.embedded.append(self._object_name(element))
        elif formula := self._formula(element):
            yield paragraph(formula)
        elif self.depth < _MAX_INNER_DEPTH and (root := self._object_root(element)) is not None:
            inner = OdfReader(self.archive, _read_styles(root), _form_values(root), f"{self._object_name(element)}/", self.depth + 1)
            charts = list(root.iter(f"{_CHART}chart"))
            for chart in charts:
                yield from inner.chart(chart)
            for body in root.iterfind(f"{_OFFICE}body/*") if not charts else ():
                yield from inner.blocks(body)

    def chart(self, chart: Any) -> Iterator[TextBlock]:
        """A chart: its titles, then a line per category with the values of all series."""
        lines = [text for title in chart.iter(f"{_CHART}title") if (text := self.flat_text(title))]
        header: list[str] = []
        for table in chart.iter(f"{_TABLE}table"):
            header, *rows = self._grid(table, SheetComments())[0] or [[]]
            lines += [format_row(header, row) for row in rows]
        yield TextBlock(BlockKind.TABLE, "\n".join(lines), columns=tuple(header))

    def _object_name(self, element: Any) -> str:
        return f"{self.folder}{str(element.get(_HREF) or '').removeprefix('./')}"

    def _object_root(self, element: Any) -> Any:
        root, name = next(element.iterchildren("*"), None), self._object_name(element)
        return _optional_root(self.archive, f"{name}/content.xml") if root is None and name and self.archive is not None else root

    def _formula(self, element: Any) -> str:
        root = self._object_root(element) if element.tag == f"{_DRAW}object" else None
        return mathml_text(root) if root is not None and str(root.tag).endswith("}math") else ""

    def _table(self, table: Any) -> Iterator[TextBlock]:
        comments = SheetComments()
        has_head = table.find(f"{_TABLE}table-header-rows") is not None
        is_layout = not has_head and next(table.iterdescendants(f"{_TABLE}table"), None) is not None
        grid, ranges = ([], []) if is_layout else self._grid(table, comments)
        if max(map(len, grid), default=0) < 2:
            for tc in table.iter(_CELL):
                if next(tc.iterancestors(f"{_TABLE}table")) is table:
                    yield from self.blocks(tc)
            return
        marked = [rows for rows in table.iterchildren(f"{_TABLE}table-header-rows")]
        n_header = sum(_repeated(tr, "rows") for rows in marked for tr in rows.iterchildren(f"{_TABLE}table-row"))
        likely = bool(marked) or (len(grid[0]) > 2 and not divides_first_row(grid, ranges))
        yield from tables(fill_spans(enumerate(grid), ranges, n_header=n_header, likely=likely), likely=likely)
        yield from map(paragraph, comments.lines())

    def _grid(self, table: Any, comments: SheetComments) -> tuple[list[list[str]], list[CellRange]]:
        """The texts of a table by row and column, without trailing empty cells, and its spanning cells."""
        grid: list[list[str]] = []
        ranges: list[CellRange] = []
        for tr in table.iter(f"{_TABLE}table-row"):
            if next(tr.iterancestors(f"{_TABLE}table")) is not table:
                continue
            row: list[str] = []
            for tc in tr.iterchildren(_CELL, f"{_TABLE}covered-table-cell"):
                text = self._cell(tc) if tc.tag == _CELL else ""
                n_rows, n_columns = (_count(tc, f"{_TABLE}number-{axis}-spanned") for axis in ("rows", "columns"))
                if text and n_rows * n_columns > 1:
                    ranges.append(CellRange(len(grid), len(row), len(grid) + n_rows - 1, len(row) + min(n_columns, 1000) - 1))
                for comment in tc.iterchildren(_COMMENT):
                    comments.add(len(grid), len(row), self.flat_text(comment), *_signature(comment))
                row += [HeadCell(text) if text and self._is_set_apart(tc) else text] * _repeated(tc, "columns")
            while row and not row[-1]:
                row.pop()
            comments.note_row(len(grid), row)
            grid += [list(row) for _ in range(_repeated(tr, "rows") if row else 1)]
        return grid, ranges

    def _is_set_apart(self, tc: Any) -> bool:
        """Whether a cell has a fill, or all its text is bold."""
        if self.styles.of("table-cell", tc).is_head:
            return True
        written = [p for p in tc.iterchildren(_P, _H) if "".join(p.itertext()).strip()]
        return bool(written) and all(self.styles.of("paragraph", p).is_head or self._is_span_bold(p) for p in written)

    def _is_span_bold(self, p: Any) -> bool:
        spans = [span for span in p.iterchildren(f"{_TEXT}span") if self.styles.of("text", span).is_head]
        return sum(len("".join(span.itertext())) for span in spans) >= len("".join(p.itertext()).strip())

    def _cell(self, tc: Any) -> str:
        formula, is_deleted = str(tc.get(f"{_TABLE}formula") or ""), bool(self.styles.of("table-cell", tc).run.get("is_deleted"))
        if tc.get(f"{_OFFICE}value-type") == "date":
            date = str(tc.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00").replace("T", " ")
            return marked_text(date, is_deleted=is_deleted)
        if tc.find(f".//{_TABLE}table") is not None:
            return "; ".join(" ".join(line.split()) for block in self.blocks(tc) for line in block.text.split("\n") if line.strip())
        pictures = (_picture(shape) for shape in tc.iterchildren(f"{_DRAW}frame"))
        anchored = (block.text for p in tc.iter(_P) for block in self._anchored(p))
        texts = [format_cell(self.flat_text(tc, is_deleted=is_deleted)), *pictures, *anchored]
        if text := " ".join(" ".join(filter(None, texts)).split()):
            linked = _LINKED_CELL.match(formula)
            return marked_text(text, linked[1]) if linked else text
        value = tc.get(f"{_OFFICE}string-value") or tc.get(f"{_OFFICE}value") or (tc.get(f"{_OFFICE}boolean-value") or "").upper()
        return marked_text(format_cell(value) or _written_formula(formula), is_deleted=is_deleted)

    def line(self, p: Any, *, is_deleted: bool = False) -> str:
        """The text of a paragraph, without its comments and text boxes."""
        is_deleted = self.styles.of("paragraph", p).run.get("is_deleted", is_deleted)
        runs = list(self._runs(p, TextRun("", is_deleted=is_deleted)))
        if all(run.is_highlighted for run in runs if run.text.strip()):  # a color of the whole paragraph
            runs = [replace(run, is_highlighted=False) for run in runs]
        return inline_text(runs)

    def _runs(self, element: Any, style: TextRun) -> Iterator[TextRun]:
        if element.text:
            yield replace(style, text=element.text)
        for child in element:
            if isinstance(child.tag, str):
                yield from self._inline(child, style)
            if child.tail:
                yield replace(style, text=child.tail)

    def _inline(self, child: Any, style: TextRun) -> Iterator[TextRun]:
        if child.tag in _CHARACTERS:
            yield replace(style, text=_CHARACTERS[child.tag] * min(_count(child, f"{_TEXT}c"), 100))
        elif child.tag == f"{_TEXT}note":
            self.notes += child.findall(f"{_TEXT}note-body")[:1]
            yield TextRun(f" [{len(self.notes)}]")
        elif child.tag == f"{_TEXT}ruby":
            parts = (
                [r for part in child.iterchildren(f"{_TEXT}ruby-{n}") for r in self._runs(part, TextRun(""))] for n in ("base", "text")
            )
            yield replace(style, text=ruby_text(*map(inline_text, parts)), shift=0)
        elif child.tag == _COMMENT:
            self.comments.append(child)
        elif child.tag.startswith(_DRAW):
            yield from self._drawn(child, style)
        elif child.tag not in _WITHOUT_TEXT:
            own = self.styles.of("text", child).run if child.tag == f"{_TEXT}span" else {}
            yield from self._runs(child, replace(style, link=str(child.get(_HREF) or style.link), **own))

    def _drawn(self, child: Any, style: TextRun) -> Iterator[TextRun]:
        yield TextRun(self.form_values.get(child.get(f"{_DRAW}control") or "", ""))
        for shape in (child, *child.iterchildren(f"{_DRAW}frame")):
            if text := _picture(shape):
                yield replace(style, text=f" {text} ", shift=0)
            for element in shape.iterchildren(f"{_DRAW}object"):
                before = child.getparent().text if child.getprevious() is None else child.getprevious().tail
                yield replace(style, text=after(before or "", self._formula(element)), shift=0)


def _own_paragraphs(element: Any) -> Iterator[Any]:
    if element.tag in {_P, _H}:
        yield element
        return
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
            yield from _own_paragraphs(child)


def _picture(frame: Any) -> str:
    """The title and description of a picture in brackets; empty for other shapes."""
    if frame.tag != f"{_DRAW}frame" or frame.find(f"{_DRAW}image") is None or frame.find(f"{_DRAW}object") is not None:
        return ""
    texts = (str(frame.findtext(f"{_SVG}{name}") or "").strip() for name in ("title", "desc"))
    return picture_text(": ".join(dict.fromkeys(filter(None, texts))))


def _commented_words(comment: Any) -> str:
    """The words from a comment to its end in the same paragraph."""
    text = str(comment.tail or "")
    for sibling in islice(comment.itersiblings("*"), _MAX_COMMENTED):
        if sibling.tag == f"{_OFFICE}annotation-end" and sibling.get(f"{_OFFICE}name") == comment.get(f"{_OFFICE}name"):
            return quoted_words(text)
        text += "".join(sibling.itertext()) + str(sibling.tail or "")
    return ""


def _signature(comment: Any) -> tuple[str, str]:
    return str(comment.findtext(f"{_DC}creator") or ""), str(comment.findtext(f"{_DC}date") or "")


def _written_formula(text: str) -> str:
    return text.removeprefix("of:").removeprefix("oooc:").replace("[.", "").replace(":.", ":").replace("]", "") if text else ""


def _repeated(element: Any, axis: str) -> int:
    return min(_count(element, f"{_TABLE}number-{axis}-repeated"), _MAX_REPEATED)
