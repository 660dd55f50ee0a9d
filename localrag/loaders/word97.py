"""Documents of Word 97 to 2003 (MS-DOC): paragraphs with headings and lists, tables, notes, headers and comments.

The text lies in pieces; the properties of its paragraphs and characters lie in pages of 512 bytes, by the place of the text in the file.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from localrag.loaders.content import Unreadable
from localrag.loaders.document_tree import TextBlock, TextRun, heading, inline_text, item, paragraph
from localrag.loaders.inline_text import comment_line, field_link, running_lines
from localrag.loaders.spans import fill_spans
from localrag.loaders.tabular import tables

_IDENT = 0xA5EC
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200  # flags of the file's header
_STYLES, _CLX, _PAPX, _CHPX = 1, 33, 13, 12  # positions of tables in the header
_FOOTNOTES, _ENDNOTES, _HEADERS, _COMMENTS = 3, 47, 11, 5  # their places in the text: tables of character positions
_RAISED, _DELETED, _HIDDEN, _HIGHLIGHTED = 0x2A48, 0x0800, 0x083C, 0x2A0C  # properties of characters
_STRUCK, _STRUCK_TWICE = 0x0837, 0x2A53
_IN_TABLE, _ROW_END, _LIST, _LIST_LEVEL = 0x2416, 0x2417, 0x460B, 0x260A  # properties of paragraphs
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_TITLE = 62  # the number of the built-in style for titles
_MAX_PAGES = 200_000  # pages of properties
_CHARACTERS = {"\t": "\t", "\x0b": "\n", "\x0c": "\n", "\x1e": "-", "\xa0": "\xa0", "\x0e": "\n"}
_LONG_OPERANDS = frozenset({0xD606, 0xD608})
_MAX_INSTRUCTION_CHARS = 2000

_FormatRun = tuple[int, int, int, dict[int, int]]  # where it begins and ends in the file, its style and its values


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int  # of its first character in the document
    text: str
    place: int
    width: int


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
        self._n_notes = 0

    def blocks(self) -> Iterator[TextBlock]:
        """The document, with its headers before it, its notes, comments and footers after it."""
        lengths = [max(n, 0) for n in (*self._lengths[3:10], *[0] * 7)][:7]  # text, footnotes, headers, macros, comments, endnotes, boxes
        starts = [sum(lengths[:n]) for n in range(8)]
        headers, footers = self._running_texts(starts[2], lengths[2])
        yield from map(paragraph, headers)
        yield from self._blocks(self._read(starts[0], starts[1]))
        yield from (paragraph(box.text.strip()) for box in self._read(starts[6], starts[7]))
        notes = [*self._stories(_FOOTNOTES, starts[1], lengths[1]), *self._stories(_ENDNOTES, starts[5], lengths[5])]
        yield from (paragraph(f"[{n}] {text}") for n, text in enumerate(notes, 1))
        yield from (paragraph(comment_line(text, "", "")) for text in self._stories(_COMMENTS, starts[4], lengths[4]))
        yield from map(paragraph, footers)

    def _table_bytes(self, index: int) -> bytes:
        offset = self._places + 2 + 8 * index
        if offset + 8 > len(self._main) or index >= struct.unpack_from("<H", self._main, self._places)[0]:
            return b""
        start, size = struct.unpack_from("<II", self._main, offset)
        return self._table[start : start + size]

    def _heading_levels(self) -> dict[int, int]:
        data = self._table_bytes(_STYLES)
        levels = {n: n for n in range(1, 10)}  # the built-in styles have fixed numbers
        n = 2 + struct.unpack_from("<H", data)[0] if len(data) > 2 else 0
        style = 0
        while 0 < n <= len(data) - 4:
            size, kind = struct.unpack_from("<HH", data, n)
            if size and (kind := kind & 0xFFF) in {*range(1, 10), _TITLE}:
                levels[style] = 1 if kind == _TITLE else kind
            n += 2 + size + size % 2
            style += 1
        return levels

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

    def _read_properties(self, index: int) -> list[_FormatRun]:
        table = self._table_bytes(index)
        count = min((len(table) - 4) // 8, _MAX_PAGES)
        runs: dict[int, _FormatRun] = {}
        for number in struct.unpack_from(f"<{count}I", table, 4 * (count + 1)) if count > 0 else ():
            page = self._main[(number & 0x3FFFFF) * 512 :][:512]
            if len(page) == 512:
                runs.update((run[0], run) for run in _page_runs(page, is_paragraph=index == _PAPX))
        return sorted(runs.values(), key=itemgetter(0))

    def _read(self, start: int, end: int) -> Iterator[_Paragraph]:
        runs: list[TextRun] = []
        fields: list[list[str]] = []  # open fields: the instruction of each, whether its result has begun, and the address it leads to
        for character, place in self._characters_of(start, end):
            _, values = _properties(self._characters, place)
            if character in "\r\x07":
                style, properties = _properties(self._paragraphs, place)
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
            fields.pop()
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
        for piece in self._pieces[max(bisect_right(self._starts, start) - 1, 0) :]:
            if piece.start >= end:
                return
            first = max(start - piece.start, 0)
            for n, character in enumerate(piece.text[first : max(end - piece.start, 0)], first):
                yield character, piece.place + n * piece.width

    def _blocks(self, paragraphs: Iterator[_Paragraph]) -> Iterator[TextBlock]:
        """Paragraphs, and tables; the last row of one may lack its end."""
        row: list[list[str]] = [[]]
        grid: list[list[list[str]]] = []
        for read in paragraphs:
            ends_row = read.values.get(_ROW_END) if self._paragraphs else len(row) > 1 and not read.text
            if read.mark == "\x07" and ends_row:
                grid.append(row[:-1])
                row = [[]]
            elif read.mark == "\x07" or (read.values.get(_IN_TABLE) and read.text):
                row[-1].append(read.text)
                row += [[]] if read.mark == "\x07" else []
            else:
                yield from _tables([*grid, row])
                row, grid = [[]], []
                yield self._block(read)
        yield from _tables([*grid, row])

    def _block(self, read: _Paragraph) -> TextBlock:
        text = read.text.strip()
        level = self._levels.get(read.style, 0)
        if text and level:
            return heading(level, text)
        return item(read.values.get(_LIST_LEVEL, 0), "-", text) if text and read.values.get(_LIST) else paragraph(text)

    def _story_paragraphs(self, index: int, start: int, length: int) -> Iterator[list[_Paragraph]]:
        table = self._table_bytes(index)
        positions = [p for p in struct.unpack(f"<{len(table) // 4}I", table[: len(table) // 4 * 4]) if p <= length] if length else []
        for first, last in pairwise(positions):
            yield list(self._read(start + first, start + last))

    def _stories(self, index: int, start: int, length: int) -> list[str]:
        before, self._n_notes = self._n_notes, 0
        texts: list[str] = []
        for parts in self._story_paragraphs(index, start, length):
            shown = "".join(f"{part.text} " for part in parts)
            texts.append(" ".join(shown.replace(f" [{self._n_notes}]", "").split()))
        self._n_notes = before
        return [text for text in texts if text]

    def _running_texts(self, start: int, length: int) -> tuple[list[str], list[str]]:
        """The headers and footers; the first six stories are separators of notes, then come six for each section."""
        texts: tuple[list[str], list[str]] = [], []
        for n, parts in enumerate(self._story_paragraphs(_HEADERS, start, length)):
            if n >= 6:  # in each section: header of even and odd pages, footer of even and odd pages, those of the first page
                texts[n % 6 in {2, 3, 5}].extend(part.text.strip() for part in parts)
        return running_lines("Header", texts[0]), running_lines("Footer", texts[1])


def _properties(runs: list[_FormatRun], place: int) -> tuple[int, dict[int, int]]:
    """The style and the values at a place in the file."""
    n = bisect_right(runs, place, key=itemgetter(0)) - 1
    return runs[n][2:] if n >= 0 and place < runs[n][1] else (0, {})


def _page_runs(page: bytes, *, is_paragraph: bool) -> Iterator[_FormatRun]:
    count, step = page[511], 13 if is_paragraph else 1
    if 4 * (count + 1) + step * count > 511:
        return
    places = struct.unpack_from(f"<{count + 1}I", page)
    for n in range(count):
        offset = 2 * page[4 * (count + 1) + step * n]
        size = page[offset]
        if not is_paragraph:
            style, values = 0, _values(page[offset + 1 : offset + 1 + size]) if offset else {}
        else:
            begin = offset + 1 if size else offset + 2
            length = 2 * size - 1 if size else 2 * page[offset + 1] if offset < 510 else 0
            data = page[begin : begin + length] if offset else b""
            style, values = struct.unpack_from("<H", data)[0] if len(data) > 1 else 0, _values(data[2:])
        yield places[n], places[n + 1], style, values


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


def _tables(rows: list[list[list[str]]]) -> Iterator[TextBlock]:
    grid = [[" ".join(" ".join(cell).split()) for cell in row] for row in rows if any(row)]
    if grid:
        likely = max(map(len, grid)) > 2
        yield from tables(fill_spans(enumerate(grid), (), likely=likely), likely=likely)
