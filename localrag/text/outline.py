"""The outline of a document's text: its headings, and its blocks (paragraphs, lists, tables, code) between them.

Headings are those of Markdown (`# Title`, and underlined ones) and of reStructuredText (underlined by any sign, levels in the order in
which the signs occur); loaders of other formats write `# Title`. Every line is looked at once.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, pairwise

from localrag.records import DocumentBlock

MAX_TITLE_CHARS = 160  # a longer line is no heading
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_RULE = re.compile(r"([=\-~^\"'`*+#.:_<>])\1{2,}[ \t]*")
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣▪◦·]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|\d{1,3}(?:\.\d{1,3})+)[ \t]+\S")
_INDENTED = re.compile(r"(?: {2,}|\t)\S")
_DIRECTIVE = re.compile(r"[ \t]*\.\. \S")
_TABLE = re.compile(r"\s*[|+]|.*\S(?:\t| · | \| )\S|\s*=+(?:[ \t]+=+)+[ \t]*$")
_PROSE = re.compile(r"[^\W\d_]")
_MAX_TITLE_LINE, _MAX_TITLE_WORDS = 80, 10
_NO_TITLE = re.compile(
    r"\n| · |: |(?<![\W_])(?:(?![.,;:!?。，；：！？])[\W_])*+[.,;:!?。，；：！？][\W_]*+\Z"
)  # a sentence, a row, a field with its value


class BlockKind(StrEnum):
    """What a block of a text is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading at characters `start` to `end`, with its underline; `level` 1 is the outermost."""

    start: int
    end: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Block:
    """A block at characters `start` to `end`, without the empty lines around it; `headings` are those above it, outermost first."""

    start: int
    end: int
    kind: BlockKind
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str  # without the line break

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def _lines(text: str, start: int, end: int) -> list[_Line]:
    lines = []
    for line in text[start:end].splitlines(keepends=True):
        lines.append(_Line(start, start + len(line.rstrip("\r\n")), line.rstrip("\r\n")))
        start += len(line)
    return lines


class Outline:
    """The headings and blocks of a text: those that its format marks (`known`), and where it marks none, those that the text shows."""

    def __init__(self, text: str, known: Sequence[DocumentBlock] = ()) -> None:
        self.text = text
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._levels: dict[str, int] = {}  # sign of an underline, with that of an overline → level
        gaps = pairwise([0, *(place for block in known for place in (block.start, block.end)), len(text)])
        parts = [_lines(text, *gap) for gap in islice(gaps, 0, None, 2)]  # before, between and behind the known blocks
        pairs = (pair for lines in parts for pair in pairwise(line.text.rstrip() for line in lines))
        self._separators = {rule for line, rule in pairs if len(line) > 2 * len(rule) and _RULE.fullmatch(rule)}  # that underline no title
        self._path: list[Heading] = []
        for lines, block in zip(parts, known, strict=False):
            self._read(lines)
            self._add_known(block)
        self._read(parts[-1])
        self._starts = [block.start for block in self.blocks]

    def blocks_between(self, start: int, end: int) -> Sequence[Block]:
        """The blocks of which some character is between two offsets."""
        first = max(0, bisect_right(self._starts, start) - 1)
        last = bisect_right(self._starts, max(start, end - 1))
        return [block for block in self.blocks[first:last] if block.end > start]

    def headings_at(self, offset: int) -> tuple[str, ...]:
        """The headings above a character, outermost first, with the one that it is in."""
        n = bisect_right(self._starts, offset)
        return self.blocks[n - 1].headings if n else ()

    def _add_known(self, block: DocumentBlock) -> None:
        if block.kind == BlockKind.HEADING:
            title = _title(self.text[block.start : block.end].lstrip("# "))
            self._add_heading(Heading(block.start, block.end, block.level, title))
        else:
            self._add(block.start, block.end, BlockKind(block.kind))

    def _add_heading(self, heading: Heading) -> None:
        self.headings.append(heading)
        self._path = [h for h in self._path if h.level < heading.level] + [heading]
        self._add(heading.start, heading.end, BlockKind.HEADING)

    def _read(self, lines: list[_Line]) -> None:
        n = 0
        while n < len(lines):
            if lines[n].is_blank:
                n += 1
            elif (heading := self._heading(lines, n)) is not None:
                found, n = heading
                self._add_heading(found)
            else:
                n = self._block(lines, n)

    def _add(self, start: int, end: int, kind: BlockKind) -> None:
        before = self.blocks[-1] if self.blocks else None
        if before and kind is before.kind is BlockKind.LIST and start == before.end + 1:  # the next item
            self.blocks[-1] = replace(before, end=end)
            return
        self.blocks.append(Block(start, end, kind, tuple(h.title for h in self._path)))

    def _heading(self, lines: list[_Line], n: int) -> tuple[Heading, int] | None:
        """The heading that begins in line `n`, and the number of the line after it."""
        line = lines[n]
        if atx := _ATX.fullmatch(line.text[: MAX_TITLE_CHARS + 8]):
            return (Heading(line.start, line.end, len(atx[1]), _title(atx[2].rstrip("# \t"))), n + 1) if atx[2].strip("# \t") else None
        over = _RULE.fullmatch(line.text)
        at = n + bool(over)
        if at + 1 >= len(lines):
            return None
        title, under = lines[at].text.rstrip(), _RULE.fullmatch(lines[at + 1].text)
        if under is None or not _PROSE.search(title) or len(title) > MAX_TITLE_CHARS or (title[0].isspace() and not over):
            return None
        rule = lines[at + 1].text.rstrip()
        follows_text = bool(n) and not over and not lines[n - 1].is_blank
        is_too_short = len(rule) < (4 if follows_text else min(4, len(title)))
        if is_too_short or rule in self._separators or (over and over[1] != under[1]):
            return None
        level = self._levels.setdefault(under[1] * (1 + bool(over)), len(self._levels) + 1)
        return Heading(line.start, lines[at + 1].end, level, _title(title)), at + 2

    def _block(self, lines: list[_Line], n: int) -> int:
        """Add the block that begins in line `n`; returns the number of the line after it."""
        first = n
        if fence := _FENCE.match(lines[n].text):
            n += 1
            while n < len(lines) and not lines[n].text.lstrip(" \t>").startswith(fence[1]):
                n += 1
            n = min(n + 1, len(lines))
            self._add(lines[first].start, lines[n - 1].end, BlockKind.CODE)
            return n
        n += 1
        while n < len(lines) and not (lines[n].is_blank or _FENCE.match(lines[n].text) or _ATX.fullmatch(lines[n].text)):
            n += 1
        if n > first + 1 and self._is_underlined(lines, n - 2):  # a heading right below a paragraph
            n -= 2
        self._add(lines[first].start, lines[n - 1].end, _kind(lines[first:n]))
        return n

    def _is_underlined(self, lines: list[_Line], n: int) -> bool:
        return n + 1 < len(lines) and bool(_RULE.fullmatch(lines[n + 1].text)) and self._heading(lines, n) is not None


def _title(text: str) -> str:
    text = re.sub(r"\{#[^{}]*\}|:[\w-]+:`([^`<]*+)[^`]*`", r"\1", text)
    text = re.sub(r"\[([^\]]{0,500})\]\([^)]{0,900}\)", r"\1", text)
    return " ".join(text.replace("``", "").replace("`", "").replace("**", "").split())


def _kind(lines: Sequence[_Line]) -> BlockKind:
    if _ITEM.match(lines[0].text):
        return BlockKind.LIST
    if len(lines) > 1 and sum(bool(_TABLE.match(line.text)) for line in lines) > len(lines) / 2:
        return BlockKind.TABLE
    return BlockKind.CODE if _INDENTED.match(lines[0].text) or _DIRECTIVE.match(lines[0].text) else BlockKind.PARAGRAPH


def is_title_line(block: Block, text: str) -> bool:
    """Whether a block is a line that looks like an unmarked heading, such as those of a PDF."""
    if block.kind is not BlockKind.PARAGRAPH or block.end - block.start > _MAX_TITLE_LINE:
        return False
    line = text[block.start : block.end]
    first = _PROSE.search(line)
    begins = first is not None and not first[0].islower()
    return begins and len(line.split()) <= _MAX_TITLE_WORDS and not _NO_TITLE.search(line)


def is_title_of(block: Block, following: Block, text: str) -> bool:
    """Whether a block looks like the unmarked heading of the block after it."""
    return following.kind is not BlockKind.HEADING and is_title_line(block, text) and not is_title_line(following, text)


def attached(blocks: Sequence[Block], text: str) -> Iterator[list[Block]]:
    """The blocks in groups that stand together: what looks like a title, or ends in a colon, with what follows; code, and list items."""
    group: list[Block] = []
    for block in blocks:
        if group and not _is_attached(group[-1], block, text):
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _is_attached(before: Block, block: Block, text: str) -> bool:
    """Whether a block stands together with the one before it."""
    if block.kind is BlockKind.HEADING:
        return False
    if before.kind is BlockKind.HEADING or text[before.start : before.end].rstrip(" *_`").endswith((":", "：")):
        return True
    if block.kind in (BlockKind.CODE, BlockKind.LIST) and before.kind is block.kind:
        return True
    return is_title_of(before, block, text)
