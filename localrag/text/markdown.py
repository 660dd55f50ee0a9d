"""Markdown of models and documents: the kinds of its lines, and its pictures, links and HTML made inert.

Blocks are those of CommonMark and of GitHub's tables, parsed by markdown-it. Programs parse Markdown in different ways, so a code span
counts as code only if it is one in every way: within one line, within one cell of a table, and within its paragraph.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt

from localrag.text.sentences import collapse_whitespace, replace_control_characters

_TEXT_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BACKTICKS = re.compile("`+")
_CELL = re.compile(r"(?:\\.|[^|\r\n])+")  # the part of a line between unescaped `|`
_ACTIVE = re.compile(r"!\[|\][(:]|<(?=[A-Za-z/!?]|\Z)")  # pictures, links and their definitions, HTML and autolinks
_CITATION_MARK = re.compile(r"\[(\d+)\]")
_CONTAINER_SIGNS = " \t>*+-.)0123456789"  # before the text of quotes and list items
_EMPHASIS = re.compile(r"(?<![\w\\])(?:\*{1,3}|_{1,3})(?=\S)|(?<=\S)(?:\*{1,3}|_{1,3})(?!\w)|`+|~~")
_DELETED = re.compile(r"(?<!~)~~(?![\s~])[^~]{1,4000}~~(?!~)")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
_MARKUP = re.compile(r"[\\`*_\[\]<>#|%^~$&]|==|^[-+](?=[\s-])|^\d+[.)](?=\s)")
_BLOCK_START = re.compile(r"^([^\S\n]*)(#|>|[-+*]\s|\d+[.)]\s|```|~~~|---)", re.MULTILINE)
_KINDS = {"fence": "fence", "code_block": "code", "table_open": "table", "heading_open": "heading"}
MAX_BLOCK_CHARS = 6_000  # of a block that is parsed again with each part of it
Span = tuple[int, int]


def plain_text(markdown: str) -> str:
    """A line of Markdown without emphasis, code marks and link targets, on one line."""
    return collapse_whitespace(_EMPHASIS.sub("", _LINK.sub(r"\1", markdown)))


def without_deleted(text: str) -> str:
    """The text with blanks for what is struck through (`~~…~~`), so that it counts for nothing and every offset holds."""
    return _DELETED.sub(lambda match: " " * len(match[0]), text) if "~~" in text else text


def escape_markdown(text: str) -> str:
    """A text on one line that Markdown shows unchanged."""
    return _MARKUP.sub(
        lambda found: "".join(c if c.isdigit() else f"\\{c}" for c in found[0]), collapse_whitespace(replace_control_characters(text))
    )


def escape_plain_text(text: str) -> str:
    """Escape a text that is no Markdown, except for bold titles and lists; its lines stay."""
    escaped = _BLOCK_START.sub(lambda m: m[0] if m[2][0] in "-+*0123456789" and m[2] != "---" else f"{m[1]}\\{m[2]}", text)
    return neutralize(escaped).text


@cache
def _block_parser(*, tables: bool) -> MarkdownIt:
    """The parser of blocks. Link definitions and HTML are text to it, as they are in neutralized Markdown."""
    parser = MarkdownIt("commonmark", {"html": False}).disable(["reference", "inline", "text_join"])
    return parser.enable("table") if tables else parser


@dataclass(frozen=True, slots=True)
class MarkdownLines:
    """The lines of a Markdown text.

    `starts`: offset of each line, and of the end. `kinds`: "text", "heading", "table", "fence" (also its first and last line) or "code"
    (indented). `units`: number of the first line of the paragraph, heading or table that a line belongs to. `items`: lines with which list
    items begin; `openings`: those that open a fence. `last_block`: offset of the last top-level block, or of the last item of a list.
    `open_fence`: the line that would close a fence that is open at the end; empty without one.
    """

    starts: tuple[int, ...]
    kinds: tuple[str, ...]
    units: tuple[int, ...]
    items: frozenset[int]
    openings: frozenset[int]
    last_block: int
    open_fence: str


def markdown_lines(text: str, *, tables: bool = True) -> MarkdownLines:
    """Parse a Markdown text into lines; without `tables`, those are paragraphs."""
    starts = (0, *(match.end() for match in _TEXT_LINE.finditer(text)))
    n_lines = len(starts) - 1
    kinds, units = ["text"] * n_lines, list(range(n_lines))
    items, openings = set(), set()
    last, fence_end, fence = 0, 0, ""
    for token in _block_parser(tables=tables).parse(text):
        if token.map is None or token.nesting < 0:
            continue
        begin, end = token.map[0], min(token.map[1], n_lines)
        if kind := _KINDS.get(token.type):
            kinds[begin:end] = [kind] * (end - begin)
        if token.type == "fence":
            openings.add(begin)
        if token.type == "table_open" or (token.type == "inline" and kinds[begin] != "table"):
            units[begin:end] = [begin] * (end - begin)
        if token.type == "list_item_open":
            items.add(begin)
        if token.level == 0 or (token.type == "list_item_open" and token.level == 1):
            last, fence_end, fence = begin, end, token.markup if token.type == "fence" else ""
    if fence and fence_end - last > 1:
        closing = text[starts[fence_end - 1] : starts[fence_end]].strip()
        fence = "" if len(closing) >= len(fence) and not closing.strip(fence[0]) else fence
    return MarkdownLines(starts, tuple(kinds), tuple(units), frozenset(items), frozenset(openings), starts[last], fence)


@dataclass(frozen=True, slots=True)
class NeutralMarkdown:
    """Neutralized Markdown. `places` in the original, and how many characters were `added` up to each and after the last."""

    text: str
    places: tuple[int, ...] = ()
    added: tuple[int, ...] = (0,)
    citation_marks: tuple[Span, ...] = ()

    def offset(self, original: int) -> int:
        """The offset in `text` of an offset in the original."""
        return original + self.added[bisect_left(self.places, original)]


def neutralize(text: str) -> NeutralMarkdown:
    """Markdown that looks the same, but loads no picture, and has no links and no HTML, in any program that shows it.

    Signs of Markdown are escaped, outside code. Addresses stay as text, as do marks like `[1]`. A fence that is open at the end is closed,
    so that text can follow. A neutralized text does not change again.
    """
    stream = NeutralStream()
    neutral = stream.write(text, is_last=True)
    return replace(neutral, text=neutral.text + stream.finish())


class NeutralStream:
    """Neutralizes Markdown that comes in parts; of a very long paragraph or list item also signs in its code spans are escaped."""

    def __init__(self) -> None:
        self._block = self._closing = ""  # the last top-level block so far; what closes its fence
        self._is_whole = True  # whether it has its beginning; otherwise it has no code but fences

    def write(self, part: str, *, is_last: bool = False) -> NeutralMarkdown:
        """The next part, neutralized. `citation_marks` are the marks `[n]` in it, as (offset, n): those that stand outside fences."""
        done = len(self._block)
        text = self._block + part
        lines = markdown_lines(text)
        untabled = markdown_lines(text, tables=False) if "|" in text else lines  # some programs know no tables, or find others
        edits = sorted(
            {edit for way in (lines, untabled) for edit in _edits(text, way, is_last=is_last, is_whole=self._is_whole) if edit[0] >= done}
        )
        neutral = NeutralMarkdown(
            _replaced(text, edits, done),
            # What is inserted before a character stands before its offset, what replaces a character begins at its offset.
            tuple(start - done - (start == end) for start, end, _ in edits),
            (0, *accumulate(len(new) - end + start for start, end, new in edits)),
        )
        line_break = "" if text.endswith("\n") else "\n"
        self._closing = lines.open_fence and line_break + lines.open_fence
        self._keep_block(text, lines, untabled)
        marks = tuple((neutral.offset(at - done), n) for at, n in _citation_marks(text, lines) if at >= done)
        return replace(neutral, citation_marks=marks)

    def _keep_block(self, text: str, lines: MarkdownLines, untabled: MarkdownLines) -> None:
        """Keep what the next part continues: the last block, of a long one no more than shows what its next line is."""
        start = lines.last_block
        if lines.last_block == untabled.last_block:
            self._is_whole |= text[:start].endswith("\n\n") and not text[start:].startswith((" ", "\t"))
            text = text[start:]
        if len(text) > MAX_BLOCK_CHARS and lines.open_fence == untabled.open_fence:
            text = self._shortened(text, lines)
        self._block = text

    def _shortened(self, text: str, lines: MarkdownLines) -> str:
        """The unfinished line of a block, within its fence if it is in one."""
        last, unfinished = len(lines.kinds) - 1, text[text.rfind("\n") + 1 :]
        is_open = bool(lines.open_fence)
        # An unfinished line may go on, so that it neither opens nor closes a fence, and one below may make a line that opens one a table's.
        if (is_open and last - max(lines.openings) < 3) or (not is_open and unfinished and lines.kinds[last] == "fence"):
            return text if len(unfinished) <= MAX_BLOCK_CHARS else unfinished[:MAX_BLOCK_CHARS]  # a fence of so many signs
        if is_open:
            return f"{lines.open_fence}\n\n\n{unfinished}"
        self._is_whole = False
        return unfinished if len(unfinished) <= MAX_BLOCK_CHARS else f".{unfinished[-1]}"

    def finish(self) -> str:
        """The lines that close what is open: a fence."""
        return self._closing


Edit = tuple[int, int, str]  # start, end, and the text instead


def _replaced(text: str, edits: Sequence[Edit], start: int) -> str:
    parts = []
    for begin, end, new in edits:
        parts += [text[start:begin], new]
        start = end
    return "".join([*parts, text[start:]])


def _edits(text: str, lines: MarkdownLines, *, is_last: bool, is_whole: bool) -> Iterator[Edit]:
    """The changes that make a text neutral, in its order. Unless `is_last`, it may go on; unless `is_whole`, something came before it."""
    n_lines, first = len(lines.kinds), 0
    while first < n_lines:
        last = first + 1
        while last < n_lines and lines.units[last] == lines.units[first]:
            last += 1
        kind, line = lines.kinds[first], text[lines.starts[first] : lines.starts[last]]
        # What may still become another line counts as one: a backtick after a fence, a table below indented code.
        is_code = (kind == "fence" and first not in lines.openings) or (
            kind == "code" and is_whole and "|" not in line and (is_last or line.endswith(("\n", "\r")))
        )
        if not is_code:
            unit = lines.starts[first : last + 1]
            spans = _code_spans(text, unit[0], unit[-1]) if is_whole else ()
            yield from _unit_edits(text, unit, [span for span in spans if is_last or span[1] < len(text)])  # a backtick may follow
        first = last


def _unit_edits(text: str, starts: Sequence[int], spans: Sequence[Span]) -> Iterator[Edit]:
    """The changes in the lines of a paragraph, heading or table, outside its code `spans`."""
    code = iter([*spans, (len(text), len(text))])
    code_start, code_end = next(code)
    for start, end in pairwise(starts):
        opening = text.find("[", start, end)
        may_define = opening < 0 or not text[start:opening].strip(_CONTAINER_SIGNS)
        for match in _ACTIVE.finditer(text, start, end):
            while code_end <= match.start():
                code_start, code_end = next(code)
            if code_start <= match.start():
                continue
            if match[0] == "<":
                yield match.start() - _is_escaped(text, match.start(), start), match.end(), "&lt;"
            elif match[0] != "]:" or may_define or match.start() < opening:
                yield match.start() + 1, match.start() + 1, "\\"


def _code_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """The code spans of a paragraph or table that are within one line and one cell, and also within one of the whole."""
    whole = iter(list(_backtick_pairs(text, start, end)))
    outer = next(whole, None)
    for cell in _CELL.finditer(text, start, end):
        for span in _backtick_pairs(text, *cell.span()):
            while outer and outer[1] < span[1]:
                outer = next(whole, None)
            if outer and outer[0] <= span[0]:
                yield span


def _backtick_pairs(text: str, start: int, end: int) -> Iterator[Span]:
    """The code spans of CommonMark in a stretch of inline text."""
    runs = [match.span() for match in _BACKTICKS.finditer(text, start, end)]
    by_length: dict[int, list[int]] = {}
    for n, (a, b) in enumerate(runs):
        by_length.setdefault(b - a, []).append(n)
    n = 0
    while n < len(runs):
        a, b = runs[n]
        a += _is_escaped(text, a, start)  # then the run begins with the next one
        others = by_length.get(b - a, [])
        closing = others[k] if (k := bisect_right(others, n)) < len(others) else None
        if closing is None:
            n += 1
        else:
            start = runs[closing][1]
            yield a, start
            n = closing + 1


def _is_escaped(text: str, at: int, start: int) -> bool:
    """Whether an odd number of backslashes from `start` on stand before a character."""
    first = at
    while first > start and text[first - 1] == "\\":
        first -= 1
    return (at - first) % 2 == 1


def _citation_marks(text: str, lines: MarkdownLines) -> Iterator[Span]:
    """The marks `[n]` outside fences. A text's own `[n]` is escaped there."""
    for line, kind in enumerate(lines.kinds):
        if kind != "fence":
            for match in _CITATION_MARK.finditer(text, lines.starts[line], lines.starts[line + 1]):
                yield match.start(), int(match[1])
