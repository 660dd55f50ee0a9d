"""Rich Text Format (specification 1.9.1): paragraphs, headings, lists, tables, notes, comments, headers and footers; no hidden text.

Groups are kept on a stack, so the time is linear in the length of the file and nesting costs nothing.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from localrag.loaders.code_pages import code_page_encoding
from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, metadata_pairs
from localrag.loaders.document_tree import TextBlock, TextRun, heading_block, inline_text, item, paragraph, render
from localrag.loaders.inline_text import comment_line, field_link
from localrag.loaders.tabular import tables

_TOKEN = re.compile(r"\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})?\d* ?|\\([^a-zA-Z])|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\", re.DOTALL)
_CHARACTER_SETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_CHARACTERS = {
    "tab": "\t", "line": "\n", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ", "~": "\u00a0", "_": "-", "\n": "\n", "\r": "\n",
    "{": "{", "}": "}", "\\": "\\",
}  # fmt: skip
_ENDS = frozenset({"par", "sect", "page", "column"})
_UNREAD_GROUPS = frozenset(
    """
    colortbl pict objdata objclass objname bkmkstart bkmkend themedata colorschememapping datastore latentstyles listtable
    listoverridetable revtbl rsidtbl generator xmlnstbl pgdsctbl filetbl nonshppict sp atnid atntime atnicn atnparent template operator
    company category keywords comment doccomm docvar userprops mmathPr upr xe tc pnseclvl passwordhash password protusertbl ftnsep
    ftnsepc aftnsep aftnsepc
    """.split()
)
_KNOWN_OPTIONAL = frozenset({"shpinst", "annotation", "shptxt", "pn", "pntext", "listtext", "txfieldtext", "ud"})  # read also behind \*
_COLLECTED = {
    "footnote": "note", "annotation": "comment", "listtext": "marker", "pntext": "marker", "title": "title", "author": "author",
    "subject": "subject", "stylesheet": "styles", "fonttbl": "fonts", "info": "info", "fldinst": "field",
    "atnauthor": "commenter",
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "header"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "footer"),
}  # fmt: skip
_PLAIN_STATE = TextRun("")
_MAX_NESTED_FLOWS = 20  # notes within notes
_MAX_FONTS = 10_000
_INFO = frozenset({"title", "author", "subject"})


@dataclass(slots=True, eq=False)
class _TextFlow:
    """A sequence of paragraphs and rows: the body, a note, a header. `rows`: of the table that is being read."""

    kind: str = "body"
    blocks: list[TextBlock] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    cell: list[str] = field(default_factory=list)  # paragraphs of the current cell
    runs: list[TextRun] = field(default_factory=list)
    marker: str = ""  # of an item of a list

    def add(self, block: TextBlock) -> None:
        """Add a block behind the table before it."""
        self.end_table()
        self.blocks.append(block)

    def end_table(self) -> None:
        """Add the table that has been read."""
        self.blocks += tables(self.rows, likely=True)
        self.rows = []

    def keep_text(self) -> str:
        """The text of the runs since the last paragraph or cell."""
        text = inline_text(self.runs).encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip(" \t")
        self.runs = []
        return text


@dataclass(frozen=True, slots=True)
class _GroupState:
    """The properties of characters and paragraphs, which end with their group. `run`: how text is set."""

    run: TextRun = _PLAIN_STATE
    is_skipped: bool = False
    is_hidden: bool = False
    is_optional: bool = False  # directly behind \*
    encoding: str = "cp1252"
    n_fallback: int = 1  # characters after \u for programs without Unicode
    is_in_table: bool = False
    heading: int = 0
    depth: int = 0  # of an item of a list
    flow: _TextFlow | None = None  # that the group began


@dataclass(slots=True)
class _RtfReader:
    """Reads the tokens of a file. `notes`: the texts of footnotes; `named`: title, author and subject."""

    source: str
    state: _GroupState = field(default_factory=_GroupState)
    stack: list[_GroupState] = field(default_factory=list)
    flows: list[_TextFlow] = field(default_factory=lambda: [_TextFlow()])
    pending: bytearray = field(default_factory=bytearray)  # bytes not yet decoded
    to_skip: int = 0  # characters to skip after \u
    notes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    commenter: str = ""  # of the next comment
    margins: dict[str, list[str]] = field(default_factory=lambda: {"header": [], "footer": []})
    named: dict[str, str] = field(default_factory=dict)
    fonts: dict[int, str] = field(default_factory=dict)
    styles: dict[int, int] = field(default_factory=dict)  # number of a style → level of its heading
    number: int = 0  # of the font or style being defined

    def read(self) -> None:
        """Read all tokens, and close the flows that are open at the end."""
        position = 0
        while position < len(self.source) and (token := _TOKEN.match(self.source, position)):
            position = token.end()
            if token[1] or token[6]:
                self._text(bytes([int(token[1], 16)]) if token[1] else token[6].encode("latin-1"))
            elif token[2]:
                number = int(token[3]) if token[3] else None
                position += max(number or 0, 0) if token[2] == "bin" else 0
                self._control(token[2], number)
            elif token[4]:
                self._symbol(token[4])
            elif token[5]:
                self._brace(token[5])
        while self.stack:
            self._brace("}")
        self._decode_pending()
        self._end_flow_text(self.flows[0])

    def _text(self, data: bytes) -> None:
        skipped = min(self.to_skip, len(data))
        self.to_skip -= skipped
        self.pending += data[skipped:]

    def _decode_pending(self) -> None:
        if self.pending:
            data, self.pending = bytes(self.pending), bytearray()
            self._add(data.decode(self.state.encoding, "replace"))

    def _add(self, text: str) -> None:
        state = self.state
        if not (state.is_skipped or state.is_hidden):
            self.flows[-1].runs.append(replace(state.run, text=text))

    def _brace(self, brace: str) -> None:
        self._decode_pending()
        self.to_skip = 0
        if brace == "{":
            self.stack.append(self.state)
            if self.state.flow is not None or self.state.is_optional:
                self.state = replace(self.state, flow=None, is_optional=False)
        elif self.stack:
            before, self.state = self.state, self.stack.pop()
            if before.flow is not None:
                self._end_flow(before.flow, before)

    def _symbol(self, symbol: str) -> None:
        self._decode_pending()
        if symbol == "*":
            self.state = replace(self.state, is_optional=True)
        elif symbol in "\r\n":
            self._end_paragraph()
        elif symbol in _CHARACTERS and self.to_skip:
            self.to_skip -= 1
        elif symbol in _CHARACTERS:
            self._add(_CHARACTERS[symbol])

    def _control(self, word: str, number: int | None) -> None:
        self._decode_pending()
        if word == "u":
            self._unicode(number or 0)
            return
        self.to_skip = 0
        if word in _CHARACTERS:
            self._add(_CHARACTERS[word])
        elif word in _ENDS:
            self._end_paragraph()
        elif word in _COLLECTED and (self.state.is_optional or (self.state.flow is None and self.stack)):
            self._begin_flow(_COLLECTED[word])
        elif word in _UNREAD_GROUPS or (self.state.is_optional and word not in _KNOWN_OPTIONAL):
            self.state = replace(self.state, is_skipped=True, is_optional=False)
        else:
            self.state = replace(self.state, is_optional=False)
            self._property(word, number)

    def _property(self, word: str, number: int | None) -> None:
        if word in _RUN_SWITCHES:
            name, value = _RUN_SWITCHES[word]
            changed: dict[str, Any] = {name: value * (number != 0)}
            self.state = replace(self.state, run=replace(self.state.run, **changed))
        elif word in _SWITCHES:
            _set(_SWITCHES[word])(self, number != 0)
        elif word in _PROPERTIES:
            _PROPERTIES[word](self, number or 0)

    def _unicode(self, number: int) -> None:
        code = number + 0x10000 if -0x8000 <= number < 0 else number
        self._add(chr(code) if 0 < code <= 0x10FFFF else "\ufffd")
        self.to_skip = self.state.n_fallback

    def _begin_flow(self, kind: str) -> None:
        if len(self.flows) > _MAX_NESTED_FLOWS:
            self.state = replace(self.state, is_skipped=True)
            return
        flow = _TextFlow(kind)
        self.flows.append(flow)
        is_unread = kind == "info" or (kind not in _INFO and any(f.kind in {"info", "fonts", "styles"} for f in self.flows[:-1]))
        is_skipped = is_unread or (self.state.is_skipped and kind not in _INFO)
        run = replace(self.state.run, link="", shift=0)
        self.state = replace(self.state, flow=flow, is_skipped=is_skipped, is_optional=False, run=run)

    def _end_flow(self, flow: _TextFlow, state: _GroupState) -> None:
        around, self.state = self.state, state
        self._end_flow_text(flow)
        self.state = around
        if flow in self.flows[1:]:
            self.flows.remove(flow)
        text = render(flow.blocks).text
        if flow.kind in _FLOW_ENDS and text:
            _FLOW_ENDS[flow.kind](self, text)
        elif flow.kind in self.margins and sum(map(str.isalpha, text)) > 1 and text not in self.margins[flow.kind]:
            self.margins[flow.kind].append(text)
        elif flow.kind in _INFO and text:
            self.named[flow.kind] = " ".join(text.split())

    def _end_flow_text(self, flow: _TextFlow) -> None:
        self._end_row()
        self._end_paragraph()
        flow.end_table()

    def _end_paragraph(self) -> None:
        flow, state = self.flows[-1], self.state
        text, marker = flow.keep_text(), flow.marker
        flow.marker = ""
        if state.is_in_table and flow.kind == "body":
            flow.cell.append(f"{marker} {text}" if marker else text)
        elif state.heading and text:
            flow.add(heading_block(state.heading, f"{marker} {text}"))
        else:
            flow.add(item(state.depth, marker, text) if marker else paragraph(text))

    def _end_cell(self) -> None:
        flow = self.flows[-1]
        text = " ".join([*flow.cell, flow.marker, flow.keep_text()])
        flow.cell, flow.marker = [], ""
        flow.cells.append(" ".join(text.split()))

    def _end_row(self) -> None:
        flow = self.flows[-1]
        if flow.cells:
            flow.rows.append(flow.cells)
            flow.cells = []


def _end_note(reader: _RtfReader, text: str) -> None:
    if not reader.state.is_hidden:
        reader.notes.append(text)
        reader.flows[-1].runs.append(TextRun(f" [{len(reader.notes)}]"))


def _end_comment(reader: _RtfReader, text: str) -> None:
    reader.comments.append(comment_line(text, reader.commenter, ""))
    reader.commenter = ""


def _end_marker(reader: _RtfReader, text: str) -> None:
    is_bullet = len(text) == 1 and not (text.isascii() and text.isalnum())
    reader.flows[-1].marker = "-" if is_bullet else text


def _end_field(reader: _RtfReader, text: str) -> None:
    reader.state = replace(reader.state, run=replace(reader.state.run, link=field_link(text)))


_FLOW_ENDS: dict[str, Callable[[_RtfReader, str], object]] = {
    "note": _end_note, "marker": _end_marker, "field": _end_field,
    "commenter": lambda reader, name: setattr(reader, "commenter", name), "comment": _end_comment,
}  # fmt: skip


def _set_encoding(reader: _RtfReader, name: str) -> None:
    reader.state = replace(reader.state, encoding=name)
    reader.fonts.setdefault(-1, name)


def _font(reader: _RtfReader, number: int) -> None:
    reader.number = number
    if not any(flow.kind == "fonts" for flow in reader.flows):
        default = reader.fonts.get(-1, "cp1252")
        reader.state = replace(reader.state, encoding=reader.fonts.get(number, default) if number != -1 else default)


def _character_set(reader: _RtfReader, number: int) -> None:
    if number in _CHARACTER_SETS and len(reader.fonts) < _MAX_FONTS:
        reader.fonts[reader.number] = _CHARACTER_SETS[number]


def _style(reader: _RtfReader, number: int) -> None:
    reader.number = number
    reader.state = replace(reader.state, heading=reader.styles.get(number, 0))


def _outline(reader: _RtfReader, number: int) -> None:
    level = number + 1 if number < 6 else 0
    reader.state = replace(reader.state, heading=level)
    if any(flow.kind == "styles" for flow in reader.flows) and len(reader.styles) < _MAX_FONTS:
        reader.styles[reader.number] = level


def _plain_characters(reader: _RtfReader, _number: int) -> None:
    reader.state = replace(reader.state, run=replace(_PLAIN_STATE, link=reader.state.run.link), is_hidden=False)


def _set(name: str) -> Callable[[_RtfReader, int], None]:
    def change(reader: _RtfReader, number: int) -> None:
        changed: dict[str, Any] = {name: min(max(number, 0), 10)}
        reader.state = replace(reader.state, **changed)

    return change


_RUN_SWITCHES: dict[str, tuple[str, int]] = {
    **{word: ("shift", shift) for word, shift in (("super", 1), ("up", 1), ("sub", -1), ("dn", -1), ("nosupersub", 0))},
    **dict.fromkeys(("strike", "striked", "strikedl"), ("is_deleted", True)),
    "highlight": ("is_highlighted", True),
}
_SWITCHES = {"deleted": "is_hidden", "v": "is_hidden", "webhidden": "is_hidden", "intbl": "is_in_table"}
_PROPERTIES: dict[str, Callable[[_RtfReader, int], None]] = {
    "pard": lambda reader, _: setattr(reader, "state", replace(reader.state, is_in_table=False, heading=0, depth=0)),
    "cell": lambda reader, _: reader._end_cell(), "nestcell": lambda reader, _: reader._end_cell(),
    "row": lambda reader, _: reader._end_row(), "nestrow": lambda reader, _: reader._end_row(),
    "ansicpg": lambda reader, number: _set_encoding(reader, code_page_encoding(number)),
    "mac": lambda reader, _: _set_encoding(reader, "mac_roman"), "pc": lambda reader, _: _set_encoding(reader, "cp437"),
    "pca": lambda reader, _: _set_encoding(reader, "cp850"), "f": _font, "fcharset": _character_set, "s": _style,
    "outlinelevel": _outline, "plain": _plain_characters, "uc": _set("n_fallback"), "ilvl": _set("depth"),
}  # fmt: skip


def parse_rtf(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Rich text as paragraphs; the texts of headers stand before them, notes, comments and footers after them."""
    reader = _RtfReader(file.read_bytes().decode("latin-1"))
    reader.read()
    rendered = render(_flow_blocks(reader))
    named = {name: reader.named.get(name, "") for name in ("title", "author", "subject")}
    return ParsedFile(rendered.text, named["title"], metadata_pairs(**named), blocks=rendered.blocks)


def _flow_blocks(reader: _RtfReader) -> Iterator[TextBlock]:
    yield from map(paragraph, reader.margins["header"])
    yield from reader.flows[0].blocks
    yield from map(paragraph, (f"[{n}] {note}" for n, note in enumerate(reader.notes, 1)))
    yield from map(paragraph, reader.comments)
    yield from map(paragraph, reader.margins["footer"])
