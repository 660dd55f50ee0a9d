"""Word documents: text with list numbers, notes, comments, form fields, tables, text boxes, charts, diagrams and inserted documents.

Deleted and hidden text is left out. Headers and footers stand once, at the beginning and the end.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from localrag.loaders.content import InnerFile, LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, decode, first_heading, number_in
from localrag.loaders.headers import HeadCell
from localrag.loaders.html import html_content
from localrag.loaders.inline_text import (
    TextRun,
    checkbox,
    comment_line,
    embedded_files_line,
    join_runs,
    picture_text,
    ruby_text,
    running_lines,
    symbol_text,
)
from localrag.loaders.numbering import MAX_DEPTH, WORD_NS, ListNumbering, is_on, read_numbering, word_value
from localrag.loaders.open_xml import (
    CHART_NS,
    DIAGRAM_NS,
    DRAWING_NS,
    MATH_NS,
    RELATION_NS,
    OpenXmlPackage,
    Relation,
    chart_part_lines,
    core_metadata,
    diagram_part_lines,
    drawing_text,
    formula_text,
    open_package,
    parsed_file,
)
from localrag.loaders.spans import CellRange, divides_first_row, fill_spans
from localrag.loaders.tabular import HEADER_SAMPLE_ROWS, table_lines

_WORD_2010_NS = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_PICTURE = f"*/{DRAWING_NS}graphic/{DRAWING_NS}graphicData/{{http://schemas.openxmlformats.org/drawingml/2006/picture}}pic"
_PLACED_NS = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_P, _R, _TBL, _TR, _TC = (f"{WORD_NS}{name}" for name in ("p", "r", "tbl", "tr", "tc"))
_BOX = f"{WORD_NS}txbxContent"
_DELETED = frozenset({f"{WORD_NS}del", f"{WORD_NS}moveFrom"})
_WITHOUT_TEXT = _DELETED | {
    f"{WORD_NS}{name}"
    for name in ("instrText", "delInstrText", "delText", "txbxContent", "pPr", "rPr", "sdtPr", "sdtEndPr", "sectPr", "tblPr", "tblGrid")
}
_CHARACTERS = {
    f"{WORD_NS}tab": "\t",
    f"{WORD_NS}ptab": "\t",
    f"{WORD_NS}br": "\n",
    f"{WORD_NS}cr": "\n",
    f"{WORD_NS}noBreakHyphen": "-",
    f"{WORD_NS}softHyphen": "",
}
_NOTES = {f"{WORD_NS}footnoteReference": "footnotes", f"{WORD_NS}endnoteReference": "endnotes"}
_PAGE_FIELD = re.compile(r"\s*(?:PAGE|NUMPAGES|SECTIONPAGES)\b", re.IGNORECASE)
_OBJECTS = (f"{CHART_NS}chart", f"{DIAGRAM_NS}relIds", _BOX, f"{DRAWING_NS}txBody")
MAX_INSERTED_DEPTH = 3  # documents inserted into inserted documents


@dataclass(slots=True)
class _WordStyles:
    """The styles of a document: heading levels and lists of paragraph styles, raised (1) or lowered (-1) text of character styles.

    `bold`: whether a style says that its text is bold. `table_parts`: the parts of a table that its style makes bold or fills.
    """

    level: dict[str, int] = field(default_factory=dict)
    listed: dict[str, tuple[str, int]] = field(default_factory=dict)  # style id → (list, depth)
    shift: dict[str, int] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    bold: dict[str, bool] = field(default_factory=dict)
    table_parts: dict[str, set[str]] = field(default_factory=dict)  # style id → `firstRow`, `firstCol`


@dataclass(slots=True)
class _Field:
    """An open field. `value`: shown if it has no result, as with checkboxes."""

    value: str = ""
    instruction: str = ""
    is_result: bool = False
    has_text: bool = False


def parse_docx(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a Word document or template."""
    return _parse_word(file, options, 0)


def _parse_word(file: OpenFile, options: LoadOptions, depth: int) -> ParsedFile:
    package = open_package(file, "word/document.xml")
    root = package.root(package.main)
    body = root.find(f"{WORD_NS}body")
    if body is None:
        raise Unreadable("damaged: it has no text", failed=True)
    parts = {r.kind: r.target for r in package.relations(package.main).values() if not r.is_external}
    numbering = read_numbering(package.optional_root(parts.get("numbering", "")))
    styles = _read_styles(package.optional_root(parts.get("styles", "")), numbering)
    reader = WordReader(package, package.relations(package.main), styles, numbering, options, depth)
    headers, footers = _running_texts(body, reader, package.optional_root(parts.get("settings", "")))
    lines = [line for header in headers for line in ("", header)]
    lines += ["", *reader.blocks(body)]
    lines += reader.note_lines({kind: package.optional_root(parts.get(kind, "")) for kind in ("footnotes", "endnotes")})
    lines += _comment_lines(package.optional_root(parts.get("comments", "")), reader)
    lines += [line for text in (*embedded_files_line(package.embedded_names(package.main)), *footers) for line in ("", text)]
    text = clean_text("\n".join(lines))
    return parsed_file(text, core_metadata(package), first_heading(text))


def _comment_lines(root: Any, reader: "WordReader") -> Iterator[str]:
    if root is not None:
        for comment in root.iter(f"{WORD_NS}comment"):
            if text := reader.flat_text(comment):
                yield ""
                yield comment_line(text, comment.get(f"{WORD_NS}author") or "", comment.get(f"{WORD_NS}date") or "")


def _running_texts(body: Any, reader: "WordReader", settings: Any) -> tuple[list[str], list[str]]:
    """The lines of the headers and footers that are shown on some page."""
    has_even = settings is not None and is_on(settings.find(f"{WORD_NS}evenAndOddHeaders"))
    texts: dict[str, list[str]] = {"header": [], "footer": []}
    read = set[str]()
    for section in body.iter(f"{WORD_NS}sectPr"):
        has_first = is_on(section.find(f"{WORD_NS}titlePg"))
        shown = {"default", *["first"] * has_first, *["even"] * has_even}
        for reference in section.iterchildren(f"{WORD_NS}headerReference", f"{WORD_NS}footerReference"):
            relation = reader.relations.get(reference.get(f"{RELATION_NS}id") or "")
            if relation is None or relation.target in read or reference.get(f"{WORD_NS}type", "default") not in shown:
                continue
            read.add(relation.target)
            root = reader.package.optional_root(relation.target)
            if root is not None:
                inner = WordReader(reader.package, reader.package.relations(relation.target), reader.styles, hides_page_numbers=True)
                kind = "header" if reference.tag.endswith("headerReference") else "footer"
                texts[kind] += [inner.paragraph_text(p) for p in root.iter(_P)]
    return running_lines("Header", texts["header"]), running_lines("Footer", texts["footer"])


def _read_styles(root: Any, numbering: ListNumbering) -> _WordStyles:
    styles = _WordStyles()
    parents: dict[str, str] = {}
    depths: dict[str, int] = {}
    for style in root.iter(f"{WORD_NS}style") if root is not None else ():
        key = style.get(f"{WORD_NS}styleId") or ""
        name = word_value(style.find(f"{WORD_NS}name")).lower()
        parents[key] = word_value(style.find(f"{WORD_NS}basedOn"))
        if level := _heading_level(name, word_value(style.find(f"{WORD_NS}pPr/{WORD_NS}outlineLvl"))):
            styles.level[key] = level
        is_list = name.startswith("list")
        number = style.find(f"{WORD_NS}pPr/{WORD_NS}numPr")
        if number is not None and number.find(f"{WORD_NS}numId") is None and key not in numbering.styles and not is_list:
            depths[key] = _list_place(number, ("", 0))[1]  # in the list of the style that it is based on, if any
        elif number is not None or is_list:
            styles.listed[key] = _list_place(number, ("", 0), numbering.styles.get(key))
        if (properties := style.find(f"{WORD_NS}rPr")) is not None and style.get(f"{WORD_NS}type") == "character":
            _read_character_style(key, properties, styles)
        _read_emphasis(key, style, styles)
    for key in parents:
        _inherit(key, parents, styles)
    for key, depth in depths.items():
        if key in styles.listed:
            styles.listed[key] = styles.listed[key][0], depth
    return styles


def _heading_level(name: str, outline: str) -> int:
    """The level of headings of a paragraph style, by its name or outline; 0 of other styles."""
    if heading := re.fullmatch(r"(?:heading|berschrift|titre) ?([1-9])", name):
        return int(heading[1])
    return 1 if name == "title" else number_in(outline) + 1 if number_in(outline, 9) < 9 else 0


def _read_character_style(key: str, properties: Any, styles: _WordStyles) -> None:
    shift = _vertical_shift(properties)
    if shift is not None:
        styles.shift[key] = shift
    if is_on(properties.find(f"{WORD_NS}vanish")):
        styles.hidden.add(key)


def _read_emphasis(key: str, style: Any, styles: _WordStyles) -> None:
    if (bold := style.find(f"{WORD_NS}rPr/{WORD_NS}b")) is not None:
        styles.bold[key] = is_on(bold)
    parts = (e for e in style.iterchildren(f"{WORD_NS}tblStylePr") if is_on(e.find(f"{WORD_NS}rPr/{WORD_NS}b")) or _is_filled(e))
    styles.table_parts[key] = {str(e.get(f"{WORD_NS}type")) for e in parts}


def _inherit(key: str, parents: Mapping[str, str], styles: _WordStyles) -> None:
    """Give a style what the styles have that it is based on."""
    parent = parents[key]
    for _ in range(10):
        if parent in styles.level:
            styles.level.setdefault(key, styles.level[parent])
        if parent in styles.listed:
            styles.listed.setdefault(key, styles.listed[parent])
        if parent in styles.shift:
            styles.shift.setdefault(key, styles.shift[parent])
        if parent in styles.bold:
            styles.bold.setdefault(key, styles.bold[parent])
        parent = parents.get(parent, "")


def _list_place(numbering: Any, of_style: tuple[str, int], of_level: tuple[str, int] | None = None) -> tuple[str, int]:
    """The list and depth of a numbered paragraph; what it does not say, its style says (`of_style`), or the level that names the style."""
    if numbering is None:
        return of_style
    depth, number = numbering.find(f"{WORD_NS}ilvl"), numbering.find(f"{WORD_NS}numId")
    default = of_level[1] if of_level else of_style[1]
    place = min(number_in(word_value(depth)), MAX_DEPTH) if depth is not None else min(default, MAX_DEPTH)
    return word_value(number) if number is not None else of_style[0], place


def _vertical_shift(properties: Any) -> int | None:
    element = properties.find(f"{WORD_NS}vertAlign")
    return None if element is None else {"superscript": 1, "subscript": -1}.get(word_value(element), 0)


@dataclass(slots=True)
class WordReader:
    """Reads the text of a part of a Word document. `notes`: the (kind, id) of notes in the order of their references."""

    package: OpenXmlPackage
    relations: Mapping[str, Relation]
    styles: _WordStyles = field(default_factory=_WordStyles)
    numbering: ListNumbering = field(default_factory=lambda: ListNumbering({}, {}))
    options: LoadOptions = field(default_factory=LoadOptions)
    depth: int = 0  # documents around this one
    hides_page_numbers: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)
    fields: list[_Field] = field(default_factory=list)

    def blocks(self, parent: Any) -> Iterator[str]:
        """The lines of paragraphs and tables, including content controls, text boxes and inserted documents."""
        for child in parent:
            if child.tag == _P:
                yield from self._paragraph(child)
            elif child.tag == _TBL:
                yield from ("", *self._table(child), "")
            elif child.tag == f"{WORD_NS}altChunk":
                yield from ("", self._inserted_text(child.get(f"{RELATION_NS}id") or ""), "")
            elif isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
                yield from self.blocks(child)

    def flat_text(self, element: Any) -> str:
        """All paragraphs of an element on one line."""
        return " ".join(" ".join(self.paragraph_text(p) for p in element.iter(_P)).split())

    def paragraph_text(self, p: Any) -> str:
        """The text of a paragraph, without its number and what is anchored in it."""
        self.fields.clear()
        return join_runs(self._runs(p)).strip()

    def note_lines(self, roots: Mapping[str, Any]) -> Iterator[str]:
        """The notes in the order of their references; notes may have notes."""
        texts = {kind: {n.get(f"{WORD_NS}id") or "": n for n in root} for kind, root in roots.items() if root is not None}
        n = 0
        while n < len(self.notes):
            kind, key = self.notes[n]
            note = texts.get(kind, {}).pop(key, None)
            n += 1
            yield f"\n[{n}] {self.flat_text(note) if note is not None else ''}".rstrip()

    def _paragraph(self, p: Any) -> Iterator[str]:
        text = self.paragraph_text(p)
        style = word_value(p.find(f"{WORD_NS}pPr/{WORD_NS}pStyle"))
        listed = self._listed(p, style)
        mark = self.numbering.next(*listed) if text and listed is not None else ""
        level = self.styles.level.get(style, 0)
        if text and level:
            number_before = "" if mark in ("", "-") else f"{mark} "
            yield f"\n{'#' * min(level, 6)} {number_before}{' '.join(text.split())}\n"
        elif text and listed is not None:
            yield "  " * listed[1] + f"{mark} {text}"
        elif text:
            yield f"\n{text}\n"
        yield from self._objects(p)

    def _listed(self, p: Any, style: str) -> tuple[str, int] | None:
        """The list and depth of a paragraph; None if it has no number or bullet."""
        own = p.find(f"{WORD_NS}pPr/{WORD_NS}numPr")
        of_style = self.styles.listed.get(style)
        listed = _list_place(own, of_style or ("", 0)) if own is not None else of_style
        return None if listed and listed[0] == "0" else listed  # list 0 removes a style's number

    def _objects(self, p: Any) -> Iterator[str]:
        """The charts, diagrams and text boxes anchored in a paragraph."""
        for element in p.iter(*_OBJECTS):
            owner = list(takewhile(lambda a: a.tag != _P, element.iterancestors()))
            if (owner and owner[-1].getparent() is not p) or any(a.tag in _DELETED or a.tag in _OBJECTS for a in owner):
                continue
            if element.tag == _BOX:
                yield from self.blocks(element)
            elif element.tag == f"{DRAWING_NS}txBody":
                yield from (f"\n{text}\n" for inner in element.iterchildren(f"{DRAWING_NS}p") if (text := drawing_text(inner)))
            elif element.tag == f"{DIAGRAM_NS}relIds":
                yield from ("", *diagram_part_lines(self.package, self.relations, element.get(f"{RELATION_NS}dm") or ""), "")
            else:
                yield from ("", *chart_part_lines(self.package, self.relations, element.get(f"{RELATION_NS}id") or ""), "")

    def _inserted_text(self, relation_id: str) -> str:
        """The text of a document that is inserted as a file of its own: HTML, RTF, Word or plain text."""
        relation = self.relations.get(relation_id)
        if relation is None or relation.is_external or self.depth >= MAX_INSERTED_DEPTH:
            return ""
        try:
            return _parse_inserted(relation.target, self.package.read(relation.target), self.options, self.depth + 1)
        except (Unreadable, ValueError, KeyError, AttributeError, TypeError, IndexError):
            return f"[{relation.target.rpartition('/')[2]} cannot be read]"

    def _runs(self, element: Any) -> Iterator[TextRun]:
        for child in element:
            if child.tag == _R:
                yield from self._run(child)
            elif child.tag == f"{MATH_NS}oMath":
                yield formula_text(child), 0
            elif child.tag == f"{WORD_NS}fldSimple":
                if not (self.hides_page_numbers and _PAGE_FIELD.match(child.get(f"{WORD_NS}instr") or "")):
                    yield from self._runs(child)
            elif child.tag == f"{WORD_NS}sdt":
                yield from self._content_control(child)
            elif child.tag not in _WITHOUT_TEXT and isinstance(child.tag, str):
                yield from self._runs(child)

    def _content_control(self, control: Any) -> Iterator[TextRun]:
        """The content of a control; for a checkbox without content, its state."""
        runs = list(self._runs(control))
        state = control.find(f"{WORD_NS}sdtPr/{_WORD_2010_NS}checkbox")
        if state is not None and not any(text.strip() for text, _ in runs):
            checked = state.find(f"{_WORD_2010_NS}checked")
            value = "0" if checked is None else str(checked.get(f"{_WORD_2010_NS}val") or "1")
            runs = [(checkbox(value.lower() in {"1", "true", "on"}), 0)]
        yield from runs

    def _format(self, properties: Any) -> tuple[int, str, bool]:
        """Of the properties of a run: whether it is raised (1) or lowered (-1), its font, whether it is hidden."""
        if properties is None:
            return 0, "", False
        style = word_value(properties.find(f"{WORD_NS}rStyle"))
        own, hidden, fonts = _vertical_shift(properties), properties.find(f"{WORD_NS}vanish"), properties.find(f"{WORD_NS}rFonts")
        font = "" if fonts is None else str(fonts.get(f"{WORD_NS}ascii") or fonts.get(f"{WORD_NS}hAnsi") or "")
        is_hidden = style in self.styles.hidden if hidden is None else is_on(hidden)
        return self.styles.shift.get(style, 0) if own is None else own, font, is_hidden

    def _run(self, run: Any) -> Iterator[TextRun]:
        shift, font, is_hidden = self._format(run.find(f"{WORD_NS}rPr"))
        if is_hidden and run.find(f"{WORD_NS}fldChar") is None:
            return
        has_own_mark = False  # the mark of a note that follows its reference as text
        for child in run:
            if child.tag in _NOTES:
                if self._is_shown():
                    self.notes.append((_NOTES[child.tag], child.get(f"{WORD_NS}id") or ""))
                    yield f" [{len(self.notes)}]", 0
                has_own_mark = str(child.get(f"{WORD_NS}customMarkFollows") or "0").lower() in {"1", "true", "on"}
            elif child.tag == f"{WORD_NS}fldChar":
                yield from self._field_character(child)
            elif child.tag == f"{WORD_NS}instrText":
                if self.fields:
                    self.fields[-1].instruction += (child.text or "")[:100]
            elif self._is_shown() and not (has_own_mark and child.tag == f"{WORD_NS}t"):
                for text in self._run_texts(child, font):
                    self._note_field_text(text)
                    yield text, shift

    def _run_texts(self, child: Any, font: str) -> Iterator[str]:
        """The texts of a child of a run."""
        if child.tag == f"{WORD_NS}t":
            yield symbol_text(font, child.text or "")
        elif child.tag in _CHARACTERS:
            yield _CHARACTERS[child.tag]
        elif child.tag == f"{WORD_NS}sym":
            yield _symbol(child)
        elif child.tag == f"{WORD_NS}ruby":
            yield ruby_text(*(join_runs(self._runs(part)) for part in _ruby_parts(child)))
        elif child.tag not in _WITHOUT_TEXT and isinstance(child.tag, str):
            yield join_runs(self._runs(child))
            if child.tag == f"{WORD_NS}drawing" and child.find(_PICTURE) is not None:
                described = child.find(f"*/{_PLACED_NS}docPr")
                text = "" if described is None else picture_text(described.get("descr") or "")
                yield from [f" {text} "] if text else []

    def _is_shown(self) -> bool:
        return all(f.is_result and not (self.hides_page_numbers and _PAGE_FIELD.match(f.instruction)) for f in self.fields)

    def _note_field_text(self, text: str) -> None:
        if text.strip():
            for opened in self.fields:
                opened.has_text = True

    def _field_character(self, element: Any) -> Iterator[TextRun]:
        """Begin, divide or end a field; a form field without a result shows its value."""
        kind = element.get(f"{WORD_NS}fldCharType")
        if kind == "begin":
            self.fields.append(_Field(_form_value(element)))
        elif kind == "separate" and self.fields:
            self.fields[-1].is_result = True
        elif kind == "end" and self.fields:
            ended = self.fields.pop()
            if ended.value and not ended.has_text and self._is_shown():
                self._note_field_text(ended.value)
                yield ended.value, 0

    def _table(self, table: Any) -> Iterator[str]:
        """The rows of a table; for a layout table (one column, or nested tables) its blocks."""
        rows = [tr for tr in table.iter(_TR) if next(tr.iterancestors(_TBL)) is table and not _is_deleted_row(tr)]
        cells = [list(_cells(tr)) for tr in rows]
        width = max((sum(span for _, span in row) for row in cells), default=0)
        if width < 2 or next(table.iterdescendants(_TBL), None) is not None:
            for row in cells:
                for tc, _ in row:
                    yield from self.blocks(tc)
            return
        grid, ranges = self._grid(rows, cells)
        self._mark_heads(table, grid)
        n_header = sum(1 for _ in takewhile(_is_header_row, rows))
        likely = n_header > 0 or (width > 2 and not divides_first_row(grid, ranges))
        yield from table_lines(fill_spans(enumerate(grid), ranges, n_header=n_header, likely=likely), likely=likely)
        for row in cells:
            for tc, _ in row:
                for p in tc.iter(_P):
                    if next(p.iterancestors(_BOX, _TC)).tag == _TC:
                        yield from self._objects(p)

    def _grid(self, rows: list[Any], cells: list[list[tuple[Any, int]]]) -> tuple[list[list[str]], list[CellRange]]:
        """The texts of a table by row and column, and its spanning cells."""
        grid: list[list[str]] = []
        ranges: list[CellRange] = []
        tall: dict[int, tuple[int, int]] = {}  # column → first row and last column of a cell that goes on below
        for n, (tr, row) in enumerate(zip(rows, cells, strict=True)):
            before = word_value(tr.find(f"{WORD_NS}trPr/{WORD_NS}gridBefore"))
            line = [""] * min(number_in(before), 200)
            going_on: dict[int, tuple[int, int]] = {}
            for tc, span in row:
                column, right = len(line), len(line) + span - 1
                merged = tc.find(f"{WORD_NS}tcPr/{WORD_NS}vMerge")
                if merged is not None and word_value(merged) != "restart" and column in tall:
                    going_on[column] = tall.pop(column)
                    line += [""] * span
                    continue
                text = self._cell_text(tc)
                is_marked = n < HEADER_SAMPLE_ROWS and (_is_header_row(tr) or self._is_set_apart(tc))
                line += [HeadCell(text) if is_marked else text, *[""] * (span - 1)]
                if merged is not None:
                    going_on[column] = n, right
                elif span > 1:
                    ranges.append(CellRange(n, column, n, right))
            ranges += [CellRange(top, column, n - 1, right) for column, (top, right) in tall.items()]
            tall = going_on
            grid.append(line)
        return grid, ranges + [CellRange(top, column, len(rows) - 1, right) for column, (top, right) in tall.items()]

    def _mark_heads(self, table: Any, grid: list[list[str]]) -> None:
        """Mark the cells of the first row and column that the style of a table sets apart."""
        properties = table.find(f"{WORD_NS}tblPr")
        if properties is None:
            return
        parts = self.styles.table_parts.get(word_value(properties.find(f"{WORD_NS}tblStyle")), set())
        look = properties.find(f"{WORD_NS}tblLook")
        if "firstRow" in parts and _has_look(look, "firstRow", 0x20):
            grid[0] = list(map(HeadCell, grid[0]))
        if "firstCol" in parts and _has_look(look, "firstColumn", 0x80):
            grid[:] = [[*map(HeadCell, row[:1]), *row[1:]] for row in grid]

    def _is_set_apart(self, tc: Any) -> bool:
        """Whether a cell has a fill, or all its text is bold."""
        if _is_filled(tc.find(f"{WORD_NS}tcPr")):
            return True
        written = [run for run in tc.iter(_R) if any((t.text or "").strip() for t in run.iterchildren(f"{WORD_NS}t"))]
        return bool(written) and all(map(self._is_bold, written))

    def _is_bold(self, run: Any) -> bool:
        own = run.find(f"{WORD_NS}rPr/{WORD_NS}b")
        if own is not None:
            return is_on(own)
        p = next(run.iterancestors(_P), None)
        of_paragraph = "" if p is None else word_value(p.find(f"{WORD_NS}pPr/{WORD_NS}pStyle"))
        style = word_value(run.find(f"{WORD_NS}rPr/{WORD_NS}rStyle"))
        return self.styles.bold.get(style, False) or self.styles.bold.get(of_paragraph, False)

    def _cell_text(self, tc: Any) -> str:
        """The paragraphs of a cell on one line, with the numbers of numbered lists."""
        texts: list[str] = []
        for p in tc.iter(_P):
            if next(p.iterancestors(_BOX), None) is not None:
                continue
            text = self.paragraph_text(p)
            listed = self._listed(p, word_value(p.find(f"{WORD_NS}pPr/{WORD_NS}pStyle")))
            mark = self.numbering.next(*listed) if text and listed is not None else "-"
            texts += [text if mark == "-" else f"{mark} {text}"] * bool(text)
        return " ".join(" ".join(texts).split())


def _parse_inserted(name: str, data: bytes, options: LoadOptions, depth: int) -> str:
    """The text of a document inside a document, by its suffix, or else by how it begins."""
    from email import message_from_bytes

    from localrag.loaders.rtf import parse_rtf

    suffix = name.rpartition(".")[2].lower()
    if data.startswith(b"PK\x03\x04"):
        return _parse_word(InnerFile(name, -1, data), options, depth).text
    if data.lstrip()[:5] == b"{\\rtf":
        return parse_rtf(InnerFile(name, -1, data), options).text
    if suffix in {"mht", "mhtml", "eml"}:
        pages = [part for part in message_from_bytes(data).walk() if part.get_content_type() == "text/html"]
        data = bytes(pages[0].get_payload(decode=True) or b"") if pages else b""
        suffix = "html"
    text = decode(data) if data else ""
    return html_content(text).text if suffix in {"html", "htm", "xhtml", "xml"} or text.lstrip()[:1] == "<" else text


def _is_filled(element: Any) -> bool:
    shading = None if element is None else next(element.iter(f"{WORD_NS}shd"), None)
    return shading is not None and str(shading.get(f"{WORD_NS}fill") or "auto").lower() not in {"auto", "ffffff"}


def _has_look(look: Any, name: str, bit: int) -> bool:
    """Whether a table shows a part of its style: by an attribute, or in older files by a bit of the value."""
    if look is None:
        return False
    if (own := look.get(f"{WORD_NS}{name}")) is not None:
        return str(own) in {"1", "true", "on"}
    return bool(int(bits, 16) & bit) if re.fullmatch("[0-9A-Fa-f]{1,8}", bits := word_value(look)) else False


def _is_deleted_row(tr: Any) -> bool:
    return tr.find(f"{WORD_NS}trPr/{WORD_NS}del") is not None


def _is_header_row(tr: Any) -> bool:
    return is_on(tr.find(f"{WORD_NS}trPr/{WORD_NS}tblHeader"))


def _cells(row: Any) -> Iterator[tuple[Any, int]]:
    """The cells of a row, and how many columns each spans."""
    for tc in row.iter(_TC):
        if next(tc.iterancestors(_TR)) is row:
            span = word_value(tc.find(f"{WORD_NS}tcPr/{WORD_NS}gridSpan"))
            yield tc, min(max(number_in(span, 1), 1), 200)


def _symbol(element: Any) -> str:
    code = str(element.get(f"{WORD_NS}char") or "")
    if not re.fullmatch(r"[0-9A-Fa-f]{1,6}", code) or not 0x20 <= int(code, 16) < 0x110000:
        return ""
    return symbol_text(str(element.get(f"{WORD_NS}font") or ""), chr(int(code, 16)))


def _ruby_parts(ruby: Any) -> list[Any]:
    parts = (ruby.find(f"{WORD_NS}{name}") for name in ("rubyBase", "rt"))
    return [() if part is None else part for part in parts]


def _form_value(begin: Any) -> str:
    """The value of a form field as it is stored: the state of a checkbox, the chosen entry of a list, the default of a text."""
    data = begin.find(f"{WORD_NS}ffData")
    if data is None:
        return ""
    box, choices, text = (data.find(f"{WORD_NS}{name}") for name in ("checkBox", "ddList", "textInput"))
    if box is not None:
        checked = box.find(f"{WORD_NS}checked")
        return checkbox(is_on(checked if checked is not None else box.find(f"{WORD_NS}default")))
    if choices is not None:
        entries = [word_value(entry) for entry in choices.iterchildren(f"{WORD_NS}listEntry")]
        result = choices.find(f"{WORD_NS}result")
        index = number_in(word_value(result if result is not None else choices.find(f"{WORD_NS}default")))
        return entries[index] if index < len(entries) else ""
    return word_value(text.find(f"{WORD_NS}default")) if text is not None else ""
