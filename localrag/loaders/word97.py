"""Documents of Word 97 to 2003 (MS-DOC): paragraphs with headings and lists, tables, notes, headers and comments.

The text lies in pieces; the properties of its paragraphs and characters lie in pages of 512 bytes, by the place of the text in the file.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from localrag.loaders.content import Unreadable
from localrag.loaders.document_tree import TextBlock, TextRun, heading_block, inline_text, item, paragraph
from localrag.loaders.inline_text import checkbox, comment_line, field_link, running_lines
from localrag.loaders.numbering import ListLevel, ListNumbering
from localrag.loaders.spans import fill_spans
from localrag.loaders.tabular import tables

_IDENT = 0xA5EC
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200  # flags of the file's header
_STYLES, _CLX, _PAPX, _CHPX = 1, 33, 13, 12  # positions of tables in the header
_FOOTNOTES, _ENDNOTES, _HEADERS, _COMMENTS = 3, 47, 11, 5  # their places in the text: tables of character positions
_COMMENT_REFERENCES = 4
_LISTS, _LIST_USES = 73, 74  # definitions of lists, and the lists that use them
_NUMBER_FORMS = {
    1: "upperRoman",
    2: "lowerRoman",
    3: "upperLetter",
    4: "lowerLetter",
    5: "ordinal",
    22: "decimalZero",
    23: "bullet",
    255: "none",
}
_MAX_LISTS = 5000
_RAISED, _DELETED, _HIDDEN, _HIGHLIGHTED = 0x2A48, 0x0800, 0x083C, 0x2A0C  # properties of characters
_STRUCK, _STRUCK_TWICE = 0x0837, 0x2A53
_IN_TABLE, _ROW_END, _LIST, _LIST_LEVEL = 0x2416, 0x2417, 0x460B, 0x260A  # properties of paragraphs
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_TITLE = 62  # the number of the built-in style for titles
_MAX_PAGES = 200_000  # pages of properties
_CHARACTERS = {"\t": "\t", "\x0b": "\n", "\x0c": "\n", "\x1e": "-", "\xa0": "\xa0", "\x0e": "\n"}
_LONG_OPERANDS = frozenset({0xD606, 0xD608})
_MAX_INSTRUCTION_CHARS = 2000
_CHECKED_FORM = "FORMCHECKBOX"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the text: its characters, its place in the file, and the bytes of each character."""

    start: int  # of its first character in the document
    text: str
    place: int
    width: int


@dataclass(frozen=True, slots=True)
class _FormatRuns:
    """Runs of properties by their place in the file: ends of the runs, then their style and their values."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    values: list[tuple[int, dict[int, int]]] = field(default_factory=list)

    def at(self, place: int) -> tuple[int, dict[int, int]]:
        """The style and the values at a place in the file."""
        n = bisect_right(self.starts, place) - 1
        return self.values[n] if n >= 0 and place < self.ends[n] else (0, {})


@dataclass(slots=True)
class _Paragraph:
    """A paragraph: its text, its mark (\\r, or \\x07 at the end of a cell or row), its style and properties."""

    text: str
    mark: str
    style: int
    values: dict[int, int]


class Word97Document:
    """The text of a document. Raises Unreadable for an encrypted or damaged one."""

    def __init__(self, main: bytes, tables: dict[str, bytes]) -> None:
        if len(main) < 154 or struct.unpack_from("<H", main)[0] != _IDENT:
            raise Unreadable("damaged: it is no document of Word 97 or later", failed=True)
        flags = struct.unpack_from("<H", main, 10)[0]
        if flags & _ENCRYPTED:
            raise Unreadable("password-protected")
        self._main = main
        self._table = tables["1Table" if flags & _SECOND_TABLE else "0Table"]
        n_words = struct.unpack_from("<H", main, 32)[0]
        counts = 34 + 2 * n_words
        n_counts = struct.unpack_from("<H", main, counts)[0]
        self._lengths = struct.unpack_from(f"<{n_counts}i", main, counts + 2)
        self._places = counts + 2 + 4 * n_counts
        self._pieces = list(self._read_pieces())
        self._starts = [piece.start for piece in self._pieces]
        self._paragraphs = self._read_properties(_PAPX)
        self._characters = self._read_properties(_CHPX)
        self._levels = self._heading_levels()
        self._numbering = self._read_lists()
        self._n_notes = 0

    def blocks(self) -> Iterator[TextBlock]:
        """The document, with its headers before it, its notes, comments and footers after it."""
        lengths = [max(n, 0) for n in (*self._lengths[3:10], *[0] * 7)][:7]  # text, footnotes, headers, macros, comments, endnotes, boxes
        starts = [sum(lengths[:n]) for n in range(8)]
        headers, footers = self._running_texts(starts[2], lengths[2])
        yield from map(paragraph, headers)
        yield from self._blocks(list(self._read(starts[0], starts[1])))
        yield from (paragraph(box.text.strip()) for box in self._read(starts[6], starts[7]))
        notes = [*self._stories(_FOOTNOTES, starts[1], lengths[1]), *self._stories(_ENDNOTES, starts[5], lengths[5])]
        yield from (paragraph(f"[{n}] {text}") for n, text in enumerate(notes, 1))
        authors = self._comment_authors()
        for n, text in enumerate(self._stories(_COMMENTS, starts[4], lengths[4])):
            yield paragraph(comment_line(text, authors[n] if n < len(authors) else "", ""))
        yield from map(paragraph, footers)

    def _table_bytes(self, index: int) -> bytes:
        """A table of the document, by its position in the header."""
        offset = self._places + 2 + 8 * index
        if offset + 8 > len(self._main) or index >= struct.unpack_from("<H", self._main, self._places)[0]:
            return b""
        start, size = struct.unpack_from("<II", self._main, offset)
        return self._table[start : start + size]

    def _heading_levels(self) -> dict[int, int]:
        """Style → level of headings; the title is one of the first level. The built-in styles have fixed numbers."""
        data = self._table_bytes(_STYLES)
        levels = {n: n for n in range(1, 10)}
        n = 2 + struct.unpack_from("<H", data)[0] if len(data) > 2 else 0
        style = 0
        while 0 < n <= len(data) - 4:
            size, kind = struct.unpack_from("<HH", data, n)
            if size and (kind := kind & 0xFFF) in {*range(1, 10), _TITLE}:
                levels[style] = 1 if kind == _TITLE else kind
            n += 2 + size + size % 2
            style += 1
        return levels

    def _read_lists(self) -> ListNumbering:
        """The lists of the document; a list that cannot be read has bullets."""
        definitions, uses = self._table_bytes(_LISTS), self._table_bytes(_LIST_USES)
        numbering = ListNumbering({}, {})
        starts: dict[str, dict[int, int]] = {}
        try:
            place = struct.unpack_from("<I", self._main, self._places + 2 + 8 * _LISTS)[0] + len(definitions)
            for n in range(min(struct.unpack_from("<H", definitions)[0], _MAX_LISTS)):
                key, flags = str(struct.unpack_from("<I", definitions, 2 + 28 * n)[0]), definitions[2 + 28 * n + 26]
                numbering.levels[key] = levels = {}
                for depth in range(1 if flags & 1 else 9):
                    levels[depth], place = _list_level(self._table, place)
            count = min(struct.unpack_from("<I", uses)[0], _MAX_LISTS)
            numbering.lists.update({str(n + 1): str(struct.unpack_from("<I", uses, 4 + 16 * n)[0]) for n in range(count)})
            place = 4 + 16 * count
            for n in range(count):
                place += 4  # where the list is used first
                for _ in range(uses[4 + 16 * n + 12]):
                    start, flags = struct.unpack_from("<iI", uses, place)
                    place += 8
                    if flags & 0x20:
                        level, place = _list_level(uses, place)
                        start = level.start
                    if flags & 0x30:
                        starts.setdefault(str(n + 1), {})[flags & 0xF] = max(start, 0)
        except (struct.error, IndexError):
            pass
        numbering.starts = starts
        return numbering

    def _read_pieces(self) -> Iterator[_Piece]:
        data, n = self._table_bytes(_CLX), 0
        while n + 3 <= len(data) and data[n] == 1:  # properties that whole pieces share
            n += 3 + struct.unpack_from("<H", data, n + 1)[0]
        if n + 5 > len(data) or data[n] != 2:
            raise Unreadable("damaged: its text cannot be found", failed=True)
        table = data[n + 5 : n + 5 + struct.unpack_from("<I", data, n + 1)[0]]
        count = (len(table) - 4) // 12
        positions = struct.unpack_from(f"<{count + 1}I", table) if count > 0 else ()
        for k in range(count):
            packed = struct.unpack_from("<I", table, 4 * (count + 1) + 8 * k + 2)[0]
            length = max(positions[k + 1] - positions[k], 0)
            place, width = ((packed & 0x3FFFFFFF) // 2, 1) if packed & 0x40000000 else (packed & 0x3FFFFFFF, 2)
            data_of_piece = self._main[place : place + length * width]
            yield _Piece(positions[k], data_of_piece.decode("cp1252" if width == 1 else "utf-16-le", "replace"), place, width)

    def _read_properties(self, index: int) -> _FormatRuns:
        """The properties of paragraphs or characters, from the pages that a table names."""
        table = self._table_bytes(index)
        count = min((len(table) - 4) // 8, _MAX_PAGES)
        runs: dict[int, tuple[int, tuple[int, dict[int, int]]]] = {}
        for number in struct.unpack_from(f"<{count}I", table, 4 * (count + 1)) if count > 0 else ():
            page = self._main[(number & 0x3FFFFF) * 512 :][:512]
            if len(page) == 512:
                for start, end, value in _page_runs(page, is_paragraph=index == _PAPX):
                    runs[start] = end, value
        ordered = sorted(runs.items())
        return _FormatRuns([start for start, _ in ordered], [end for _, (end, _) in ordered], [value for _, (_, value) in ordered])

    def _read(self, start: int, end: int) -> Iterator[_Paragraph]:
        """The paragraphs of a range of characters."""
        runs: list[TextRun] = []
        fields: list[list[str]] = []  # open fields: the instruction of each, whether its result has begun, and the address it leads to
        for character, place in self._characters_of(start, end):
            _, values = self._characters.at(place)
            if character in "\r\x07":
                style, properties = self._paragraphs.at(place)
                yield _Paragraph(inline_text(runs), character, style, properties)
                runs, fields = [], []
            elif values.get(_DELETED) or (values.get(_HIDDEN) and character not in "\x13\x14\x15"):
                continue
            else:
                shift = {1: 1, 2: -1}.get(values.get(_RAISED, 0), 0)
                is_struck, is_highlighted = bool(values.get(_STRUCK) or values.get(_STRUCK_TWICE)), bool(values.get(_HIGHLIGHTED))
                for text in self._shown(character, fields):
                    link = next((opened[2] for opened in reversed(fields) if opened[2]), "")
                    runs.append(TextRun(text, shift if text == character else 0, link, is_struck, is_highlighted))
        if runs:
            yield _Paragraph(inline_text(runs), "\r", 0, {})

    def _shown(self, character: str, fields: list[list[str]]) -> Iterator[str]:
        """What is shown for a character: nothing for the instruction of a field, a number for the mark of a note."""
        if character == "\x13":
            fields.append(["", "", ""])
        elif character == "\x14" and fields:
            fields[-1][1:] = "result", field_link(fields[-1][0])
        elif character == "\x15" and fields:
            if fields.pop()[0].strip().upper().startswith(_CHECKED_FORM):
                yield checkbox(False)
        elif fields and not all(opened[1] for opened in fields):
            fields[-1][0] += character if len(fields[-1][0]) < _MAX_INSTRUCTION_CHARS else ""
        elif character == "\x02":
            self._n_notes += 1
            yield f" [{self._n_notes}]"
        elif character in _CHARACTERS:
            yield _CHARACTERS[character]
        elif character >= " ":
            yield character

    def _characters_of(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        """The characters of a range with their places in the file."""
        for piece in self._pieces[max(bisect_right(self._starts, start) - 1, 0) :]:
            if piece.start >= end:
                return
            first = max(start - piece.start, 0)
            for n, character in enumerate(piece.text[first : max(end - piece.start, 0)], first):
                yield character, piece.place + n * piece.width

    def _blocks(self, paragraphs: list[_Paragraph]) -> Iterator[TextBlock]:
        row: list[list[str]] = [[]]
        grid: list[list[str]] = []
        for n, read in enumerate(paragraphs):
            if read.mark == "\x07" and (read.values.get(_ROW_END) or self._ends_row(paragraphs, n, row)):
                grid.append([" ".join(" ".join(cell).split()) for cell in row[:-1]])
                row = [[]]
            elif read.mark == "\x07" or (read.values.get(_IN_TABLE) and read.text):
                row[-1].append(read.text)
                row += [[]] if read.mark == "\x07" else []
            else:
                yield from _tables(grid)
                grid = []
                yield self._block(read)
        yield from _tables(grid)

    def _block(self, read: _Paragraph) -> TextBlock:
        """A paragraph as a heading, an item of a list, or a paragraph."""
        text = read.text.strip()
        level = self._levels.get(read.style, 0)
        if text and level:
            return heading_block(level, text)
        if text and (number := read.values.get(_LIST)):
            depth = min(read.values.get(_LIST_LEVEL, 0), 8)
            return item(depth, self._numbering.next(str(number), depth), text)
        return paragraph(text)

    def _ends_row(self, paragraphs: list[_Paragraph], n: int, row: list[list[str]]) -> bool:
        """Whether an empty cell is in fact the end of a row, in a file that does not say where rows end."""
        has_ends = bool(self._paragraphs.values)
        return not has_ends and not paragraphs[n].text and len(row) > 1 and not row[-1] and paragraphs[n - 1].mark == "\x07"

    def _stories(self, index: int, start: int, length: int) -> list[str]:
        """The notes or comments of a part of the text, each on one line."""
        table = self._table_bytes(index)
        positions = [p for p in struct.unpack(f"<{len(table) // 4}I", table[: len(table) // 4 * 4]) if p <= length] if length else []
        before, self._n_notes = self._n_notes, 0
        texts: list[str] = []
        for first, last in pairwise(positions):
            if last > first:
                shown = "".join(f"{part.text} " for part in self._read(start + first, start + last))
                texts.append(" ".join(shown.replace(f" [{self._n_notes}]", "").split()))
        self._n_notes = before
        return [text for text in texts if text]

    def _comment_authors(self) -> list[str]:
        """The author of each comment, as its initials in the table of references."""
        table = self._table_bytes(_COMMENT_REFERENCES)
        count = (len(table) - 4) // 34
        names: list[str] = []
        for n in range(max(count, 0)):
            entry = table[4 * (count + 1) + 30 * n :][:30]
            size = min(struct.unpack_from("<H", entry)[0], 9) if len(entry) == 30 else 0
            names.append(entry[2 : 2 + 2 * size].decode("utf-16-le", "replace"))
        return names

    def _running_texts(self, start: int, length: int) -> tuple[list[str], list[str]]:
        """The headers and footers; the first six stories are separators of notes, then come six for each section."""
        table = self._table_bytes(_HEADERS)
        positions = [p for p in struct.unpack(f"<{len(table) // 4}I", table[: len(table) // 4 * 4]) if p <= length] if length else []
        texts: tuple[list[str], list[str]] = [], []
        for n, (first, last) in enumerate(pairwise(positions[6:])):
            if last > first:  # in each section: header of even and odd pages, footer of even and odd pages, those of the first page
                kind = n % 6 in {2, 3, 5}
                texts[kind].extend(part.text.strip() for part in self._read(start + first, start + last))
        return running_lines("Header", texts[0]), running_lines("Footer", texts[1])


def _page_runs(page: bytes, *, is_paragraph: bool) -> Iterator[tuple[int, int, tuple[int, dict[int, int]]]]:
    """Of a page of properties: start and end of each run in the file, its style and its values."""
    count, step = page[511], 13 if is_paragraph else 1
    if 4 * (count + 1) + step * count > 511:
        return
    places = struct.unpack_from(f"<{count + 1}I", page)
    for n in range(count):
        offset = 2 * page[4 * (count + 1) + step * n]
        size = page[offset]
        if not is_paragraph:
            value = 0, _values(page[offset + 1 : offset + 1 + size]) if offset else {}
        else:
            begin = offset + 1 if size else offset + 2
            length = 2 * size - 1 if size else 2 * page[offset + 1] if offset < 510 else 0
            data = page[begin : begin + length] if offset else b""
            value = struct.unpack_from("<H", data)[0] if len(data) > 1 else 0, _values(data[2:])
        yield places[n], places[n + 1], value


def _values(data: bytes) -> dict[int, int]:
    """Property → value of a list of changes."""
    found: dict[int, int] = {}
    n = 0
    while n + 3 <= len(data):
        code = struct.unpack_from("<H", data, n)[0]
        n += 2
        kind = code >> 13
        if kind == 6:
            size = struct.unpack_from("<H", data, n)[0] + 1 if code in _LONG_OPERANDS and n + 2 <= len(data) else data[n] + 1
        else:
            size = _OPERAND_BYTES[kind]
            found[code] = int.from_bytes(data[n : n + size], "little")
        n += size
    return found


def _list_level(data: bytes, place: int) -> tuple[ListLevel, int]:
    """A level of a list, and where the next one begins. Raises struct.error."""
    start, form = struct.unpack_from("<iB", data, place)
    n_characters, n_paragraphs = struct.unpack_from("<BB", data, place + 24)
    place += 28 + n_characters + n_paragraphs
    size = struct.unpack_from("<H", data, place)[0]
    units = struct.unpack_from(f"<{size}H", data, place + 2)
    text = "".join(f"%{unit + 1}" if unit < 9 else chr(unit) if chr(unit).isprintable() and unit != ord("%") else "" for unit in units[:50])
    return ListLevel(_NUMBER_FORMS.get(form, "decimal"), text, min(max(start, 0), 1_000_000)), place + 2 + 2 * size


def _tables(grid: list[list[str]]) -> Iterator[TextBlock]:
    if grid:
        likely = max(map(len, grid)) > 2
        yield from tables(fill_spans(enumerate(grid), (), likely=likely), likely=likely)
