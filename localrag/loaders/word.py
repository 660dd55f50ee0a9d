"""Word documents: text with list numbers, notes, comments, form fields, tables, text boxes, charts, diagrams and inserted documents.

Tracked deletions and hidden text are left out. Headers and footers stand once, at the beginning and the end.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from localrag.loaders.content import InnerFile, LoadOptions, OpenFile, ParsedFile, Unreadable, number_in
from localrag.loaders.document_tree import TextBlock, TextRun, apart_block, heading_block, inline_text, item, marked_text, paragraph, render
from localrag.loaders.formulas import MATH_NS, after, office_formula
from localrag.loaders.headers import HeadCell
from localrag.loaders.inline_text import (
    checkbox,
    comment_line,
    embedded_files_line,
    field_link,
    picture_text,
    quoted_words,
    ruby_text,
    running_lines,
    symbol_text,
)
from localrag.loaders.numbering import MAX_DEPTH, WORD_NS, ListNumbering, is_on, read_numbering, word_value
from localrag.loaders.open_xml import (
    CHART_NS,
    DIAGRAM_NS,
    DRAWING_NS,
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
from localrag.loaders.spans import CellRange, divides_first_row, fill_spans
from localrag.loaders.tabular import HEADER_SAMPLE_ROWS, tables

_WORD_2010_NS = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_PICTURE = f"*/{DRAWING_NS}graphic/{DRAWING_NS}graphicData/{{http://schemas.openxmlformats.org/drawingml/2006/picture}}pic"
_WORD_2012_NS = "{http://schemas.microsoft.com/office/word/2012/wordml}"
_PARAGRAPH_ID = f"{_WORD_2010_NS}paraId"
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
_COMMENTED = tuple(f"{WORD_NS}{name}" for name in ("commentRangeStart", "commentRangeEnd", "t", "tab", "br", "p"))
_SWITCHES = frozenset({"b", "strike", "dstrike", "vanish"})  # properties of text that are on or off
_MAX_INHERITED = 10  # styles that a style is based on
_MAX_HIGHLIGHTED = 0.8  # of the text, above which that is how the document looks
_MAX_COMMENTED_CHARS = 200
_MAX_INSTRUCTION_CHARS = 2000  # of a field
_INSERTED = ((b"PK\x03\x04", ".docx"), (b"{\\rtf", ".rtf"), (b"<", ".html"))  # how documents inside a document begin


@dataclass(slots=True)
class _WordStyles:
    """The styles of a document: heading levels and lists of paragraph styles, and how each sets its text, see `_text_properties`.

    `table_parts`: the parts of a table that its style makes bold or fills.
    """

    level: dict[str, int] = field(default_factory=dict)
    listed: dict[str, tuple[str, int]] = field(default_factory=dict)  # style id → (list, depth)
    text: dict[str, dict[str, str]] = field(default_factory=dict)
    table_parts: dict[str, set[str]] = field(default_factory=dict)  # style id → `firstRow`, `firstCol`


@dataclass(slots=True)
class _Field:
    """An open field. `value`: shown if it has no result, as with checkboxes. `link`: the address of its result."""

    value: str = ""
    instruction: str = ""
    link: str = ""
    is_result: bool = False
    has_text: bool = False


def parse_docx(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a Word document or template."""
    package = open_package(file, "word/document.xml")
    body = package.root(package.main).find(f"{WORD_NS}body")
    if body is None:
        raise Unreadable("damaged: it has no text", failed=True)
    relations = package.relations(package.main)
    parts = {r.kind: r.target for r in relations.values() if not r.is_external}
    numbering = read_numbering(package.optional_root(parts.get("numbering", "")))
    styles = _read_styles(package.optional_root(parts.get("styles", "")), numbering)
    reader = WordReader(package, relations, styles, numbering, options, _is_partly_highlighted(body))
    return parsed_file(render(_document_blocks(body, reader, parts)), core_metadata(package))


def _document_blocks(body: Any, reader: "WordReader", parts: Mapping[str, str]) -> Iterator[TextBlock]:
    package = reader.package
    headers, footers = _running_texts(body, reader, package.optional_root(parts.get("settings", "")))
    yield from map(paragraph, headers)
    yield from reader.blocks(body)
    yield from reader.note_blocks({kind: parts.get(kind, "") for kind in ("footnotes", "endnotes")})
    yield from _comment_blocks(body, reader, parts)
    yield from map(paragraph, (*embedded_files_line(package.embedded_names(package.main)), *footers))


def _is_partly_highlighted(body: Any) -> bool:
    """Whether a reader seems to have highlighted words, rather than the document being set on a colour."""
    marked = [run for mark in body.iter(f"{WORD_NS}highlight") if (run := mark.getparent().getparent()) is not None and run.tag == _R]
    if not marked:
        return False
    n_marked, n_all = (sum(len(t.text or "") for part in parts for t in part.iter(f"{WORD_NS}t")) for parts in (marked, [body]))
    return n_marked < _MAX_HIGHLIGHTED * n_all


def _is_highlighted(properties: Any) -> bool:
    highlight = None if properties is None else properties.find(f"{WORD_NS}highlight")
    return highlight is not None and word_value(highlight) not in {"none", "white"}


def _commented_words(body: Any) -> dict[str, str]:
    """Comment → the words it is about, which may begin and end in any paragraph or cell."""
    words: dict[str, str] = {}
    opened: dict[str, None] = {}
    for element in body.iter(*_COMMENTED):
        key = element.get(f"{WORD_NS}id") or ""
        if element.tag == _COMMENTED[0]:
            opened[key] = None
        elif element.tag == _COMMENTED[1]:
            opened.pop(key, None)
        else:
            for key in list(opened):
                words[key] = words.get(key, "") + (element.text or "" if element.tag == _COMMENTED[2] else " ")
                if len(words[key]) > _MAX_COMMENTED_CHARS:
                    del opened[key]
    return words


def _comment_blocks(body: Any, reader: "WordReader", parts: Mapping[str, str]) -> Iterator[TextBlock]:
    """The comments, each with the replies to it."""
    name = parts.get("comments", "")
    root, extended = (reader.package.optional_root(part) for part in (name, parts.get("commentsExtended", "")))
    if root is None:
        return
    inner, words = reader.of_part(name), _commented_words(body)
    answers = () if extended is None else extended.iter(f"{_WORD_2012_NS}commentEx")
    answered = {e.get(f"{_WORD_2012_NS}paraId"): e.get(f"{_WORD_2012_NS}paraIdParent") for e in answers}
    comments = list(root.iter(f"{WORD_NS}comment"))
    place = {p.get(_PARAGRAPH_ID): n for n, comment in enumerate(comments) for p in comment.iter(_P)}
    threads: dict[int, list[str]] = {}
    for n, comment in enumerate(comments):
        last = next((p.get(_PARAGRAPH_ID) for p in reversed(list(comment.iter(_P)))), None)
        first = place.get(answered.get(last) or "", n)
        signature = comment.get(f"{WORD_NS}author") or "", comment.get(f"{WORD_NS}date") or ""
        about = "" if first != n else quoted_words(words.get(comment.get(f"{WORD_NS}id") or "", ""))
        if text := inner.flat_text(comment):
            threads.setdefault(first, []).append(comment_line(text, *signature, about, "Comment" if first == n else "Reply"))
    yield from (paragraph("\n".join(lines)) for _, lines in sorted(threads.items()))


def _running_texts(body: Any, reader: "WordReader", settings: Any) -> tuple[list[str], list[str]]:
    """The lines of the headers and footers that are shown on some page."""
    has_even = settings is not None and is_on(settings.find(f"{WORD_NS}evenAndOddHeaders"))
    texts: dict[str, list[str]] = {"header": [], "footer": []}
    read = set[str]()
    for section in body.iter(f"{WORD_NS}sectPr"):
        has_first = is_on(section.find(f"{WORD_NS}titlePg"))
        shown = {"default", *["first"] * has_first, *["even"] * has_even}
        for reference in section.iterchildren(f"{WORD_NS}headerReference", f"{WORD_NS}footerReference"):
            name = part_name(reader.relations, reference.get(f"{RELATION_NS}id"))
            if name in read or reference.get(f"{WORD_NS}type", "default") not in shown:
                continue
            read.add(name)
            root = reader.package.optional_root(name)
            if root is not None:
                inner = replace(reader.of_part(name), hides_page_numbers=True, notes=[])
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
        styles.text[key] = _text_properties(style.find(f"{WORD_NS}rPr"))
        parts = (e for e in style.iterchildren(f"{WORD_NS}tblStylePr") if is_on(e.find(f"{WORD_NS}rPr/{WORD_NS}b")) or _is_filled(e))
        styles.table_parts[key] = {str(e.get(f"{WORD_NS}type")) for e in parts}
    _inherit(parents, styles)
    for key, depth in depths.items():
        if key in styles.listed:
            styles.listed[key] = styles.listed[key][0], depth
    return styles


def _inherit(parents: Mapping[str, str], styles: _WordStyles) -> None:
    """Give the styles what those have that they are based on."""
    for key in parents:
        parent = parents[key]
        for _ in range(_MAX_INHERITED):
            if parent in styles.level:
                styles.level.setdefault(key, styles.level[parent])
            if parent in styles.listed:
                styles.listed.setdefault(key, styles.listed[parent])
            styles.text[key] = styles.text.get(parent, {}) | styles.text[key]
            parent = parents.get(parent, "")


def _heading_level(name: str, outline: str) -> int:
    """The level of headings of a paragraph style, by its name or outline; 0 of other styles."""
    if heading := re.fullmatch(r"(?:heading|berschrift|titre) ?([1-9])", name):
        return int(heading[1])
    return 1 if name == "title" else number_in(outline) + 1 if number_in(outline, 9) < 9 else 0


def _text_properties(properties: Any) -> dict[str, str]:
    """How a run or style sets its text, as far as it says: its font, style and shift, and switches as `1` or empty."""
    found: dict[str, str] = {}
    for element in properties if properties is not None else ():
        name = str(element.tag).removeprefix(WORD_NS)
        if name in _SWITCHES:
            found[name] = "1" * is_on(element)
        elif name in {"rStyle", "vertAlign"}:
            found[name] = word_value(element)
        elif name == "rFonts":
            found[name] = str(element.get(f"{WORD_NS}ascii") or element.get(f"{WORD_NS}hAnsi") or "")
    return found


def _list_place(numbering: Any, of_style: tuple[str, int], of_level: tuple[str, int] | None = None) -> tuple[str, int]:
    """The list and depth of a numbered paragraph; what it does not say, its style says (`of_style`), or the level that names the style."""
    if numbering is None:
        return of_style
    depth, number = numbering.find(f"{WORD_NS}ilvl"), numbering.find(f"{WORD_NS}numId")
    default = of_level[1] if of_level else of_style[1]
    place = min(number_in(word_value(depth)), MAX_DEPTH) if depth is not None else min(default, MAX_DEPTH)
    return word_value(number) if number is not None else of_style[0], place


@dataclass(slots=True)
class WordReader:
    """Reads the text of a part of a Word document. `notes`: the (kind, id) of notes in the order of their references."""

    package: OpenXmlPackage
    relations: Mapping[str, Relation]
    styles: _WordStyles = field(default_factory=_WordStyles)
    numbering: ListNumbering = field(default_factory=lambda: ListNumbering({}, {}))
    options: LoadOptions = field(default_factory=LoadOptions)
    shows_highlights: bool = False
    hides_page_numbers: bool = False
    style: str = ""  # of the current paragraph
    before: str = ""  # the last text of it so far
    notes: list[tuple[str, str]] = field(default_factory=list)
    fields: list[_Field] = field(default_factory=list)

    def of_part(self, name: str) -> "WordReader":
        """The reader of another part of the document, which has relations of its own."""
        return replace(self, relations=self.package.relations(name))

    def blocks(self, parent: Any) -> Iterator[TextBlock]:
        """Paragraphs and tables, including content controls, text boxes and inserted documents."""
        for child in parent:
            if child.tag == _P:
                yield from self._paragraph(child)
            elif child.tag == _TBL:
                yield from self._table(child)
            elif child.tag == f"{WORD_NS}altChunk":
                yield from apart_block(self._inserted(child.get(f"{RELATION_NS}id") or ""))
            elif isinstance(child.tag, str) and child.tag not in _WITHOUT_TEXT:
                yield from self.blocks(child)

    def flat_text(self, element: Any) -> str:
        """All paragraphs of an element on one line."""
        return " ".join(" ".join(self.paragraph_text(p) for p in element.iter(_P)).split())

    def paragraph_text(self, p: Any) -> str:
        """The text of a paragraph, without its number and what is anchored in it."""
        self.fields.clear()
        self.style, self.before = word_value(p.find(f"{WORD_NS}pPr/{WORD_NS}pStyle")), ""
        return inline_text(self._runs(p)).strip()

    def note_blocks(self, names: Mapping[str, str]) -> Iterator[TextBlock]:
        """The notes in the order of their references; notes may have notes."""
        roots = {kind: self.package.optional_root(name) for kind, name in names.items()}
        readers = {kind: self.of_part(name) for kind, name in names.items()}
        texts = {kind: {n.get(f"{WORD_NS}id") or "": n for n in root} for kind, root in roots.items() if root is not None}
        n = 0
        while n < len(self.notes):
            kind, key = self.notes[n]
            note = texts.get(kind, {}).pop(key, None)
            n += 1
            yield paragraph(f"[{n}] {readers[kind].flat_text(note) if note is not None else ''}".rstrip())

    def _paragraph(self, p: Any) -> Iterator[TextBlock]:
        text = self.paragraph_text(p)
        style = self.style
        listed = self._listed(p, style)
        mark = self.numbering.next(*listed) if text and listed is not None else ""
        level = self.styles.level.get(style, 0)
        if text and level:
            yield heading_block(level, text if mark in ("", "-") else f"{mark} {text}")
        elif text and listed is not None:
            yield item(listed[1], mark, text)
        elif text:
            yield paragraph(text)
        yield from self._objects(p)

    def _listed(self, p: Any, style: str) -> tuple[str, int] | None:
        """The list and depth of a paragraph; None if it has no number or bullet."""
        own = p.find(f"{WORD_NS}pPr/{WORD_NS}numPr")
        of_style = self.styles.listed.get(style)
        listed = _list_place(own, of_style or ("", 0)) if own is not None else of_style
        return None if listed and listed[0] == "0" else listed  # list 0 removes a style's number

    def _objects(self, p: Any) -> Iterator[TextBlock]:
        """The charts, diagrams and text boxes anchored in a paragraph."""
        for element in p.iter(*_OBJECTS):
            owner = list(takewhile(lambda a: a.tag != _P, element.iterancestors()))
            if (owner and owner[-1].getparent() is not p) or any(a.tag in _DELETED or a.tag in _OBJECTS for a in owner):
                continue
            if element.tag == _BOX:
                yield from self.blocks(element)
            elif element.tag == f"{DRAWING_NS}txBody":
                yield from map(paragraph, drawing_texts(element, self.relations))
            elif element.tag == f"{DIAGRAM_NS}relIds":
                yield from apart_block(diagram_blocks(self.package, part_name(self.relations, element.get(f"{RELATION_NS}dm"))))
            else:
                yield from chart_blocks(self.package, part_name(self.relations, element.get(f"{RELATION_NS}id")))

    def _inserted(self, relation_id: str) -> Iterator[TextBlock]:
        """A document that is inserted as a file of its own: HTML, RTF, Word or plain text, whatever its name."""
        name, inner = part_name(self.relations, relation_id), self.options.inner
        if not name or inner is None or inner.depth <= 1:
            return
        try:
            data = self.package.read(name)
            suffix = next((suffix for start, suffix in _INSERTED if data.lstrip().startswith(start)), "")
            options = replace(self.options, inner=replace(inner, depth=inner.depth - 1))
            text = inner.parse(InnerFile(name + suffix, -1, data), options).text
        except (Unreadable, ValueError, KeyError, AttributeError, TypeError, IndexError):
            text = f"[{name.rpartition('/')[2]} cannot be read]"
        for piece in text.split("\n\n"):
            marks = re.match(r"(#{1,6}) (?=\S)", piece)
            yield heading_block(len(marks[1]), piece[marks.end() :]) if marks else paragraph(piece)

    def _runs(self, element: Any, link: str = "") -> Iterator[TextRun]:
        """The runs in an element of a paragraph; `link`: the address that they lead to."""
        for child in element:
            if child.tag == _R:
                yield from self._run(child, link)
            elif child.tag == f"{MATH_NS}oMath":
                yield TextRun(after(self.before, office_formula(child)), link=link)
            elif child.tag == f"{WORD_NS}fldSimple":
                instruction = child.get(f"{WORD_NS}instr") or ""
                if not (self.hides_page_numbers and _PAGE_FIELD.match(instruction)):
                    yield from self._runs(child, field_link(instruction) or link)
            elif child.tag == f"{WORD_NS}hyperlink":
                target, anchor = external_target(self.relations, child.get(f"{RELATION_NS}id")), child.get(f"{WORD_NS}anchor")
                yield from self._runs(child, f"{target}#{anchor}" if target and anchor else target)
            elif child.tag == f"{WORD_NS}sdt":
                yield from self._content_control(child, link)
            elif child.tag not in _WITHOUT_TEXT and isinstance(child.tag, str):
                yield from self._runs(child, link)

    def _content_control(self, control: Any, link: str) -> Iterator[TextRun]:
        """The content of a control; for a checkbox without content, its state."""
        runs = list(self._runs(control, link))
        state = control.find(f"{WORD_NS}sdtPr/{_WORD_2010_NS}checkbox")
        if state is not None and not any(run.text.strip() for run in runs):
            checked = state.find(f"{_WORD_2010_NS}checked")
            value = "0" if checked is None else str(checked.get(f"{_WORD_2010_NS}val") or "1")
            runs = [TextRun(checkbox(value.lower() in {"1", "true", "on"}))]
        yield from runs

    def _properties(self, run: Any) -> dict[str, str]:
        """How a run is set: by the style of its paragraph, its own style, and what it says itself."""
        own = _text_properties(run.find(f"{WORD_NS}rPr"))
        return self.styles.text.get(self.style, {}) | self.styles.text.get(own.get("rStyle", ""), {}) | own

    def _run(self, run: Any, link: str) -> Iterator[TextRun]:
        style = self._properties(run)
        if style.get("vanish") and run.find(f"{WORD_NS}fldChar") is None:
            return
        is_highlighted = self.shows_highlights and _is_highlighted(run.find(f"{WORD_NS}rPr"))
        shift = {"superscript": 1, "subscript": -1}.get(style.get("vertAlign", ""), 0)
        is_struck = bool(style.get("strike") or style.get("dstrike"))
        has_own_mark = False  # the mark of a note that follows its reference as text
        for child in run:
            if child.tag in _NOTES:
                if self._is_shown():
                    self.notes.append((_NOTES[child.tag], child.get(f"{WORD_NS}id") or ""))
                    yield TextRun(f" [{len(self.notes)}]")
                has_own_mark = str(child.get(f"{WORD_NS}customMarkFollows") or "0").lower() in {"1", "true", "on"}
            elif child.tag == f"{WORD_NS}fldChar":
                yield from self._field_character(child)
            elif not self._is_shown() or child.tag == f"{WORD_NS}instrText":
                self._add_instruction(child)
            elif not (has_own_mark and child.tag == f"{WORD_NS}t"):
                target = next((f.link for f in reversed(self.fields) if f.link), link)
                for text in self._run_texts(child, style.get("rFonts", "")):
                    self._note_text(text)
                    yield TextRun(text, shift, target, is_struck, is_highlighted)

    def _run_texts(self, child: Any, font: str) -> Iterator[str]:
        """The texts of a child of a run."""
        if child.tag == f"{WORD_NS}t":
            yield symbol_text(font, child.text or "")
        elif child.tag in _CHARACTERS:
            yield _CHARACTERS[child.tag]
        elif child.tag == f"{WORD_NS}sym":
            yield _symbol(child)
        elif child.tag == f"{WORD_NS}ruby":
            yield ruby_text(*(inline_text(self._runs(part)) for part in _ruby_parts(child)))
        elif child.tag not in _WITHOUT_TEXT and isinstance(child.tag, str):
            yield inline_text(self._runs(child))
            described = child.find(f"*/{_PLACED_NS}docPr") if child.find(_PICTURE) is not None else None
            text = "" if described is None else picture_text(described.get("descr") or "")
            yield from [f" {marked_text(text, clicked_link(described, self.relations))} "] if text else []

    def _is_shown(self) -> bool:
        return all(f.is_result and not (self.hides_page_numbers and _PAGE_FIELD.match(f.instruction)) for f in self.fields)

    def _note_text(self, text: str) -> None:
        """Remember a text that is shown, and the fields that it is in the results of."""
        self.before = text or self.before
        if text.strip():
            for opened in self.fields:
                opened.has_text = True

    def _add_instruction(self, element: Any) -> None:
        """Add a text to the instruction of the field that it belongs to; the result of a field within an instruction is part of it."""
        if element.tag in {f"{WORD_NS}instrText", f"{WORD_NS}t"}:
            for opened in reversed(self.fields):
                if not opened.is_result:
                    opened.instruction = (opened.instruction + (element.text or ""))[:_MAX_INSTRUCTION_CHARS]
                    return

    def _field_character(self, element: Any) -> Iterator[TextRun]:
        """Begin, divide or end a field; a form field without a result shows its value."""
        kind = element.get(f"{WORD_NS}fldCharType")
        if kind == "begin":
            self.fields.append(_Field(_form_value(element)))
        elif kind == "separate" and self.fields:
            self.fields[-1].is_result = True
            self.fields[-1].link = field_link(self.fields[-1].instruction)
        elif kind == "end" and self.fields:
            ended = self.fields.pop()
            if ended.value and not ended.has_text and self._is_shown():
                self._note_text(ended.value)
                yield TextRun(ended.value)

    def _table(self, table: Any) -> Iterator[TextBlock]:
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
        yield from tables(fill_spans(enumerate(grid), ranges, n_header=n_header, likely=likely), likely=likely)
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
        self.style = next((word_value(e) for e in tc.iterfind(f"{_P}/{WORD_NS}pPr/{WORD_NS}pStyle")), "")
        written = [run for run in tc.iter(_R) if any((t.text or "").strip() for t in run.iterchildren(f"{WORD_NS}t"))]
        return bool(written) and all(self._properties(run).get("b") for run in written)

    def _cell_text(self, tc: Any) -> str:
        """The paragraphs of a cell on one line, with the numbers of numbered lists."""
        texts: list[str] = []
        for p in tc.iter(_P):
            if next(p.iterancestors(_BOX), None) is not None:
                continue
            text = self.paragraph_text(p)
            listed = self._listed(p, self.style)
            mark = self.numbering.next(*listed) if text and listed is not None else "-"
            texts += [text if mark == "-" else f"{mark} {text}"] * bool(text)
        return " ".join(" ".join(texts).split())


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
