"""Rich Text Format (specification 1.9.1): paragraphs, headings, lists, tables, notes, headers and footers; no deleted or hidden text.

Groups are kept on a stack, so the time is linear in the length of the file and nesting costs nothing.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, clean_text, metadata_pairs, subscript, superscript
from localrag.loaders.tabular import table_lines

_TOKEN = re.compile(r"\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})?\d* ?|\\([^a-zA-Z])|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\", re.DOTALL)
_CODE_PAGES = {
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
    colortbl pict objdata objclass objname fldinst bkmkstart bkmkend themedata colorschememapping datastore latentstyles listtable
    listoverridetable revtbl rsidtbl generator xmlnstbl pgdsctbl filetbl nonshppict sp atnid atnauthor atnref atndate atntime atnicn
    atnparent atrfstart atrfend template operator company category keywords comment doccomm docvar userprops mmathPr upr xe tc
    pnseclvl passwordhash password protusertbl ftnsep ftnsepc aftnsep aftnsepc
    """.split()
)
_KNOWN_OPTIONAL = frozenset({"shpinst", "annotation", "shptxt", "pn", "pntext", "listtext", "txfieldtext", "ud"})  # read also behind \*
_COLLECTED = {
    "footnote": "note", "annotation": "comment", "listtext": "marker", "pntext": "marker", "title": "title", "author": "author",
    "subject": "subject", "stylesheet": "styles", "fonttbl": "fonts", "creatim": "date", "info": "info",
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "header"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "footer"),
}  # fmt: skip
_MAX_NESTED_FLOWS = 20  # notes within notes
_INFO = frozenset({"title", "author", "subject", "date"})


@dataclass(slots=True)
class _TextFlow:
    """A sequence of paragraphs and rows: the body, a note, a header."""

    kind: str = "body"
    blocks: list[tuple[bool, list[str]]] = field(default_factory=list)  # (is a row of a table, its cells or the paragraph)
    pieces: list[str] = field(default_factory=list)
    cell: list[str] = field(default_factory=list)  # paragraphs of the current cell
    cells: list[str] = field(default_factory=list)

    def text(self) -> str:
        """All blocks, the rows of tables with their headers."""
        lines: list[str] = []
        for is_row, group in groupby(self.blocks, key=lambda block: block[0]):
            texts = [cells for _, cells in group]
            lines += ["", *table_lines(texts, likely=True), ""] if is_row else [text for cells in texts for text in cells]
        return clean_text("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _GroupState:
    """The properties of characters and paragraphs, which end with their group."""

    is_skipped: bool = False
    is_deleted: bool = False
    is_hidden: bool = False
    is_optional: bool = False  # directly behind \*
    raised: str = ""  # "super", "sub"
    encoding: str = "cp1252"
    n_fallback: int = 1  # characters after \u for programs without Unicode
    is_in_table: bool = False
    heading: int = 0
    flow: _TextFlow | None = None  # that the group began


@dataclass(slots=True)
class _RtfReader:
    """Reads the tokens of a file. `notes`: the texts of footnotes and comments; `named`: title, author, subject and date."""

    source: str
    state: _GroupState = field(default_factory=_GroupState)
    stack: list[_GroupState] = field(default_factory=list)
    flows: list[_TextFlow] = field(default_factory=lambda: [_TextFlow()])
    pending: bytearray = field(default_factory=bytearray)  # bytes not yet decoded
    raised: list[str] = field(default_factory=list)  # pieces of raised or lowered text
    to_skip: int = 0  # characters to skip after \u
    notes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    margins: dict[str, list[str]] = field(default_factory=lambda: {"header": [], "footer": []})
    named: dict[str, str] = field(default_factory=dict)
    fonts: dict[int, str] = field(default_factory=dict)
    styles: dict[int, int] = field(default_factory=dict)  # number of a style → level of its heading
    number: int = 0  # of the font or style being defined
    day: list[int] = field(default_factory=list)  # year, month, day of creation

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
        self._end_row()
        self._end_paragraph()

    def _text(self, data: bytes) -> None:
        skipped = min(self.to_skip, len(data))
        self.to_skip -= skipped
        self.pending += data[skipped:]

    def _decode_pending(self) -> None:
        """Add the collected bytes as text."""
        if self.pending:
            data, self.pending = bytes(self.pending), bytearray()
            try:
                self._add(data.decode(self.state.encoding, "replace"))
            except LookupError:
                self._add(data.decode("cp1252", "replace"))

    def _add(self, text: str) -> None:
        state = self.state
        if state.is_skipped or state.is_deleted or state.is_hidden:
            return
        if state.raised:
            self.raised.append(text)
            return
        self._end_raised()
        self.flows[-1].pieces.append(text)

    def _end_raised(self, kind: str = "super") -> None:
        if self.raised:
            text, self.raised = "".join(self.raised), []
            self.flows[-1].pieces.append(superscript(text) if kind == "super" else subscript(text))

    def _brace(self, brace: str) -> None:
        self._decode_pending()
        self.to_skip = 0
        if brace == "{":
            self.stack.append(self.state)
            if self.state.flow is not None or self.state.is_optional:
                self.state = replace(self.state, flow=None, is_optional=False)
        elif self.stack:
            before, self.state = self.state, self.stack.pop()
            if before.raised != self.state.raised:
                self._end_raised(before.raised)
            if before.flow is not None:
                self._end_flow(before.flow)

    def _symbol(self, symbol: str) -> None:
        self._decode_pending()
        if symbol == "*":
            self.state = replace(self.state, is_optional=True)
        elif symbol in "\r\n":
            self._end_paragraph()
        elif symbol in _CHARACTERS:
            self._character(_CHARACTERS[symbol])

    def _character(self, text: str) -> None:
        if self.to_skip:
            self.to_skip -= 1
        else:
            self._add(text)

    def _control(self, word: str, number: int | None) -> None:
        if word == "u":
            self._unicode(number or 0)
            return
        self._decode_pending()
        self.to_skip = 0
        if word in _CHARACTERS:
            self._add(_CHARACTERS[word])
        elif word in _ENDS:
            self._end_paragraph()
        elif word in _COLLECTED and (self.state.is_optional or self._begins_group()):
            self._begin_flow(_COLLECTED[word])
        elif word in _UNREAD_GROUPS or (self.state.is_optional and word not in _KNOWN_OPTIONAL):
            self.state = replace(self.state, is_skipped=True, is_optional=False)
        elif word in _PROPERTIES:
            self.state = replace(self.state, is_optional=False)
            _PROPERTIES[word](self, number)
        else:
            self.state = replace(self.state, is_optional=False)

    def _begins_group(self) -> bool:
        return self.state.flow is None and bool(self.stack)

    def _unicode(self, number: int) -> None:
        """A character by its code: half of a pair, negative above 32,767, and followed by others for old programs."""
        self._decode_pending()
        code = number + 0x10000 if -0x8000 <= number < 0 else number
        self._add(chr(code) if 0 < code <= 0x10FFFF else "\ufffd")
        self.to_skip = self.state.n_fallback

    def _begin_flow(self, kind: str) -> None:
        if len(self.flows) > _MAX_NESTED_FLOWS:
            self.state = replace(self.state, is_skipped=True)
            return
        flow = _TextFlow(kind)
        self._end_raised()
        self.flows.append(flow)
        is_unread = kind == "info" or (kind not in _INFO and any(f.kind in {"info", "fonts", "styles"} for f in self.flows[:-1]))
        self.state = replace(self.state, flow=flow, is_skipped=self.state.is_skipped and kind not in _INFO, is_optional=False, raised="")
        if is_unread:
            self.state = replace(self.state, is_skipped=True)

    def _end_flow(self, flow: _TextFlow) -> None:
        """Keep what a group collected where it belongs."""
        self._end_row()
        self._end_paragraph()
        if flow in self.flows[1:]:
            self.flows.remove(flow)
        text = flow.text()
        if flow.kind == "note" and text and not self.state.is_deleted:
            self.notes.append(text)
            self.flows[-1].pieces.append(f" [{len(self.notes)}]")
        elif flow.kind == "comment" and text:
            self.comments.append(text)
        elif flow.kind == "marker" and text:
            is_bullet = len(text) == 1 and not (text.isascii() and text.isalnum())
            self.flows[-1].pieces.append("- " if is_bullet else f"{text} ")
        elif flow.kind in self.margins and sum(map(str.isalpha, text)) > 1 and text not in self.margins[flow.kind]:
            self.margins[flow.kind].append(text)
        elif flow.kind == "date" and len(self.day) == 3:
            self.named["date"] = "{:04}-{:02}-{:02}".format(*self.day)
        elif flow.kind in _INFO and text:
            self.named[flow.kind] = " ".join(text.split())

    def _end_paragraph(self) -> None:
        self._end_raised(self.state.raised or "super")
        flow = self.flows[-1]
        text = _joined_pairs("".join(flow.pieces)).strip(" \t")
        flow.pieces = []
        if self.state.is_in_table and flow.kind == "body":
            flow.cell.append(text)
        elif self.state.heading and text:
            flow.blocks.append((False, [f"\n{'#' * self.state.heading} {' '.join(text.split())}\n"]))
        else:
            flow.blocks.append((False, [text]))

    def _end_cell(self) -> None:
        flow = self.flows[-1]
        self._end_raised()
        text = " ".join([*flow.cell, _joined_pairs("".join(flow.pieces))])
        flow.pieces, flow.cell = [], []
        flow.cells.append(" ".join(text.split()))

    def _end_row(self) -> None:
        flow = self.flows[-1]
        if flow.cells:
            flow.blocks.append((True, flow.cells))
            flow.cells = []


def _joined_pairs(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Property = Callable[[_RtfReader, int | None], None]


def _deleted(reader: _RtfReader, number: int | None) -> None:
    reader.state = replace(reader.state, is_deleted=number != 0)


def _hidden(reader: _RtfReader, number: int | None) -> None:
    reader.state = replace(reader.state, is_hidden=number != 0)


def _in_table(reader: _RtfReader, number: int | None) -> None:
    reader.state = replace(reader.state, is_in_table=number != 0)


def _raise(kind: str) -> _Property:
    def switch(reader: _RtfReader, number: int | None) -> None:
        raised = kind if number != 0 else ""
        if raised != reader.state.raised:
            reader._end_raised(reader.state.raised or "super")
        reader.state = replace(reader.state, raised=raised)

    return switch


def _raise_by(kind: str) -> _Property:
    """`\\up6`, in half points, is raised text; `\\up0` is not."""
    return lambda reader, number: _raise(kind)(reader, 6 if number is None else number)


def _encoding(name: str) -> _Property:
    def select(reader: _RtfReader, number: int | None) -> None:
        code_page = name or (f"cp{number}" if number in range(437, 1362) or number == 10000 else "cp1252")
        reader.state = replace(reader.state, encoding={"cp936": "gb18030", "cp10000": "mac_roman"}.get(code_page, code_page))
        reader.fonts.setdefault(-1, reader.state.encoding)

    return select


def _font(reader: _RtfReader, number: int | None) -> None:
    reader.number = number or 0
    if not any(flow.kind == "fonts" for flow in reader.flows):
        default = reader.fonts.get(-1, "cp1252")
        reader.state = replace(reader.state, encoding=reader.fonts.get(number or 0, default) if number != -1 else default)


def _character_set(reader: _RtfReader, number: int | None) -> None:
    if number in _CODE_PAGES and len(reader.fonts) < 10_000:
        reader.fonts[reader.number] = _CODE_PAGES[number]


def _style(reader: _RtfReader, number: int | None) -> None:
    reader.number = number or 0
    reader.state = replace(reader.state, heading=reader.styles.get(number or 0, 0))


def _outline(reader: _RtfReader, number: int | None) -> None:
    level = (number or 0) + 1 if (number or 0) < 6 else 0
    reader.state = replace(reader.state, heading=level)
    if any(flow.kind == "styles" for flow in reader.flows) and len(reader.styles) < 10_000:
        reader.styles[reader.number] = level


def _plain_paragraph(reader: _RtfReader, _number: int | None) -> None:
    reader.state = replace(reader.state, is_in_table=False, heading=0)


def _plain_characters(reader: _RtfReader, _number: int | None) -> None:
    _raise("")(reader, 0)
    reader.state = replace(reader.state, is_hidden=False, is_deleted=False)


def _fallback(reader: _RtfReader, number: int | None) -> None:
    reader.state = replace(reader.state, n_fallback=min(max(number or 0, 0), 10))


def _date(index: int) -> _Property:
    def note(reader: _RtfReader, number: int | None) -> None:
        if reader.flows[-1].kind == "date" and len(reader.day) == index:
            reader.day.append(number or 0)

    return note


def _row_end(reader: _RtfReader, _number: int | None) -> None:
    reader._end_row()


def _cell_end(reader: _RtfReader, _number: int | None) -> None:
    reader._end_cell()


_PROPERTIES: dict[str, _Property] = {
    "deleted": _deleted, "v": _hidden, "webhidden": _hidden, "super": _raise("super"),
    "sub": _raise("sub"), "nosupersub": _raise(""), "up": _raise_by("super"), "dn": _raise_by("sub"), "intbl": _in_table,
    "pard": _plain_paragraph, "plain": _plain_characters, "cell": _cell_end, "nestcell": _cell_end, "row": _row_end, "nestrow": _row_end,
    "ansicpg": _encoding(""), "mac": _encoding("mac_roman"), "pc": _encoding("cp437"), "pca": _encoding("cp850"), "f": _font,
    "fcharset": _character_set, "s": _style, "outlinelevel": _outline, "uc": _fallback, "yr": _date(0), "mo": _date(1), "dy": _date(2),
}  # fmt: skip


def parse_rtf(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Rich text as paragraphs; the texts of headers stand before them, notes, comments and footers after them."""
    reader = _RtfReader(file.read_bytes().decode("latin-1"))
    reader.read()
    text = "\n\n".join(filter(None, _sections(reader)))
    named = {name: reader.named.get(name, "") for name in ("title", "author", "date", "subject")}
    return ParsedFile(clean_text(text), named["title"], metadata_pairs(**named))


def _sections(reader: _RtfReader) -> Iterator[str]:
    yield from reader.margins["header"]
    yield reader.flows[0].text()
    yield "\n".join(f"[{n}] {note}" for n, note in enumerate(reader.notes, 1))
    yield from (f"Comment: {text}" for text in reader.comments)
    yield from reader.margins["footer"]
