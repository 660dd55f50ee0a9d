"""The lines of pages: running heads removed, footnotes apart, cells and columns told apart, paragraphs joined."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, takewhile
from statistics import median
from typing import NamedTuple

from localrag.loaders.line_numbers import without_line_numbers
from localrag.text.hyphenation import DocumentWords, document_words, is_compound
from localrag.text.sentences import CJK

NO_WORDS = DocumentWords()
HYPHEN = "\ufffe"  # PDFium's code for a hyphen that divides a word, and the line end after it
OMITTED = "\uffff"  # in place of a character that is not read, in a page's text
BLANKS = " \t\r\n\xa0" + HYPHEN + OMITTED
CELL_SEPARATOR = " · "  # between the cells of a row
SENTENCE_END = tuple(".!?:;。！？：；\"”')")
LIST_ITEM = re.compile(r"(?:[-*•‣▪●○·–]|\(?\d{1,3}[.)]|\(?[a-z][.)]|\[\d+\])\s")
_LAST_WORD = re.compile(r"(?<!\w)(\w+)[\ufffe-]$")
_FIRST_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(?<![\d.,])\d{1,4}(?![.,]?\d)")
_OWN_LINE = re.compile(
    r"(?:[^\w#]|_)*+(?:page|p\.?|seite|sida|strona|página|стр\.?|第)?\s*+#\s*+(?:页|頁|ページ)?(?:\s*+(?:/|of|von|de)\s*+\d++)?[\W_]*+",
    re.IGNORECASE,
)
_EDGE_LINES = 2  # lines at the top and bottom of a page that may be running heads
_MIN_RUNNING_PAGES, _MIN_RUNNING_SHARE = 3, 0.3  # running heads occur on at least three pages and 3 of 10: left and right pages may differ


class PageLine(NamedTuple):
    """A line of a page and its box; all zeros if PDFium does not give it."""

    text: str
    left: float = 0.0
    bottom: float = 0.0
    right: float = 0.0
    top: float = 0.0
    is_row: bool = False  # a table row: it has wide gaps
    gap: float = 0.0  # left edge of the second cell of a row of two
    has_space: bool = False  # behind its last word


class _PageLines(NamedTuple):
    """A page's running heads, body and running feet; heads and feet with the key shared with other pages."""

    head: list[tuple[str, PageLine]]
    body: list[PageLine]
    foot: list[tuple[str, PageLine]]


def strip_running_heads(pages: Sequence[Sequence[PageLine]]) -> list[list[PageLine]]:
    """Remove page numbers, and running heads and feet that interrupt a sentence.

    Other heads and feet stay: a question may ask for the letterhead of a page.
    """
    offset = _page_number_offset(pages)
    keys = [{_key(line, n + offset) for line in _edge_lines(page)} for n, page in enumerate(pages)]
    counts = Counter(key for of_page in keys for key in of_page if key)
    running = {key for key, times in counts.items() if times >= max(_MIN_RUNNING_PAGES, _MIN_RUNNING_SHARE * len(pages))}
    divided = [_divided(page, n + offset, running) for n, page in enumerate(pages)]
    ends = [(a.body[-1].text, b.body[0].text) if a.body and b.body else ("", "") for a, b in pairwise(divided)]
    interrupts = [line.endswith(HYPHEN) or sentence_continues(line, following) for line, following in ends]
    return [
        [line for key, line in page.head if not (before or _OWN_LINE.fullmatch(key))]
        + page.body
        + [line for key, line in page.foot if not (after or _OWN_LINE.fullmatch(key))]
        for page, before, after in zip(divided, [False, *interrupts], [*interrupts, False], strict=bool(pages))
    ]


def _edge_lines(page: Sequence[PageLine]) -> Sequence[PageLine]:
    return (*page[:_EDGE_LINES], *page[_EDGE_LINES:][-_EDGE_LINES:])


def _divided(page: Sequence[PageLine], number: int, running: set[str]) -> _PageLines:
    keyed = [(_key(line, number), line) for line in page[:_EDGE_LINES]]
    head = list(takewhile(lambda pair: pair[0] in running, keyed))
    remaining = page[len(head) :]
    keyed = [(_key(line, number), line) for line in reversed(remaining[-_EDGE_LINES:])]
    foot = list(takewhile(lambda pair: pair[0] in running, keyed))[::-1]
    return _PageLines(head, list(remaining[: len(remaining) - len(foot)]), foot)


def _page_number_offset(pages: Sequence[Sequence[PageLine]]) -> int:
    """The difference between printed page numbers and page indices from 0; arbitrary without printed numbers."""
    offsets = Counter(
        offset for n, page in enumerate(pages) for offset in {int(m) - n for line in _edge_lines(page) for m in _NUMBER.findall(line.text)}
    )
    return offsets.most_common(1)[0][0] if offsets else 0


def _key(line: PageLine, number: int) -> str:
    """The text that a running line shares with other pages, the page number as #; empty for a line that cannot be one.

    That is a line with another number, because the totals of invoices differ in nothing else, or a table row.
    """
    key = _NUMBER.sub(lambda m: "#" if int(m[0]) == number else m[0], line.text)
    is_plain = not line.is_row and not any(c.isdigit() for c in key)
    return key if "#" in key or is_plain else ""


def page_sections(pages: Sequence[str], notes: Sequence[str] = (), known: DocumentWords = NO_WORDS) -> Iterator[tuple[str, str]]:
    """The pages with their labels; a word divided by a page break is completely on the first page.

    `notes`: the footnotes of each page. They stand behind the sentence that goes on on the next page. `known`: see `rejoin_hyphenated`.
    """
    remaining = list(pages)
    for n, page in enumerate(remaining):
        following = remaining[n + 1] if n + 1 < len(remaining) else ""
        note = notes[n] if n < len(notes) else ""
        if following[:1].islower() and _LAST_WORD.search(page):
            words = following.split(maxsplit=1)
            page = rejoin_hyphenated(page, words[0], known)  # noqa: PLW2901
            following = "".join(words[1:])
        if note and sentence_continues(page, following):
            rest = _REST_OF_SENTENCE.match(following)
            end = rest.end() if rest else len(following.partition("\n")[0])
            page, following = f"{page} {following[:end].strip()}", following[end:].lstrip()  # noqa: PLW2901
        if n + 1 < len(remaining):
            remaining[n + 1] = following
        yield f"page {n + 1}", "\n\n".join(filter(None, (page, note)))


_REST_OF_SENTENCE = re.compile(r"[^\n.!?]{0,600}[.!?][\"'”’)]?(?=\s|\Z)")
_NOTE_START = re.compile(r"(?:\[?\d{1,3}(?!\d)[\].)]?|\[?[*†‡§]\]?)\s?\S")
_NOTE_SIZE = 0.92  # of the usual height of a page's lines, below which a line may be one of a footnote


def split_footnotes(lines: Sequence[PageLine]) -> tuple[list[PageLine], list[PageLine]]:
    """A page's lines, and the footnotes at the end of its columns.

    They are smaller lines, of which the first begins with a mark and continues no sentence.
    """
    heights = [line.top - line.bottom for line in lines if line.top > line.bottom]
    if len(heights) < 2:
        return list(lines), []
    usual = median(sorted(heights)[len(heights) // 3 :])
    body, notes = list[PageLine](), list[PageLine]()
    ends = [n for n in range(1, len(lines)) if lines[n].bottom > lines[n - 1].top + _COLUMN_JUMP * usual]
    for start, end in pairwise([0, *ends, len(lines)]):
        first = _first_note(lines, start, end, usual)
        body += lines[start:first]
        notes += lines[first:end]
    return body, notes


_COLUMN_JUMP = 5.0  # times the line height, that the next column begins higher


def _first_note(lines: Sequence[PageLine], start: int, end: int, usual: float) -> int:
    """The first line of the footnotes of a column; its end without any."""
    small = end
    while small > start and 0 < lines[small - 1].top - lines[small - 1].bottom < _NOTE_SIZE * usual and not lines[small - 1].is_row:
        small -= 1
    for n in range(small, end) if small > start else ():
        if _NOTE_START.match(lines[n].text) and (n == small or lines[n - 1].text.endswith(SENTENCE_END)):
            return n
    return end


_MIN_COLUMN_ROWS = 4  # rows of two cells that may be two columns of text
_COLUMN_GAP_SHIFT = 3.0  # points that the second column's left edge may vary by
_MIN_RUN_ON = 0.5  # of the lines of columns, which go on in the next one


def split_columns(lines: Sequence[PageLine]) -> list[PageLine]:
    """Lines in which rows of two cells that are columns of running text are read column by column."""
    found: list[PageLine] = []
    for is_pair, group in groupby(lines, key=lambda line: bool(line.gap)):
        rows = list(group)
        found += _columns(rows) if is_pair and len(rows) >= _MIN_COLUMN_ROWS else rows
    return found


def _columns(rows: list[PageLine]) -> list[PageLine]:
    """The left column's lines, then the right one's; the rows as they are, if they are a table's."""
    gap = median(row.gap for row in rows)
    pairs = [row.text.split(CELL_SEPARATOR) for row in rows]
    if any(abs(row.gap - gap) > _COLUMN_GAP_SHIFT for row in rows) or any(len(pair) != 2 for pair in pairs):
        return rows
    columns = list(zip(*pairs, strict=True))
    steps = [(a, b) for column in columns for a, b in pairwise(column)]
    run_on = sum(b[:1].islower() and not a.endswith((".", "!", "?")) for a, b in steps)
    if run_on < _MIN_RUN_ON * len(steps) or median(len(text.split()) for column in columns for text in column) < 4:
        return rows
    left = [row._replace(text=a, right=row.gap, is_row=False, gap=0.0) for row, (a, _) in zip(rows, pairs, strict=True)]
    right = [row._replace(text=b, left=row.gap, is_row=False, gap=0.0) for row, (_, b) in zip(rows, pairs, strict=True)]
    return left + right


def sentence_continues(page: str, following: str) -> bool:
    """Whether a sentence continues on the next page."""
    last_line = page.rpartition("\n")[2]
    return (
        following[:1].islower()
        and not last_line.endswith(SENTENCE_END)
        and CELL_SEPARATOR not in last_line
        and not LIST_ITEM.match(following)
    )


def rejoin_hyphenated(text: str, following: str, known: DocumentWords) -> str:
    """Join a divided word; its hyphen stays if it is one of a compound, or before a capital letter or digit.

    `known`: the words of the document, by which compounds are told.
    """
    start, end = _LAST_WORD.search(text), _FIRST_WORD.match(following)
    has_hyphen = not following[:1].islower() or (start is not None and end is not None and is_compound(start[1], end[0], known))
    return text[:-1] + "-" * has_hyphen + following


UNSPACED = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


def line_words(pages: Iterable[Sequence[PageLine]]) -> DocumentWords:
    """The words of a document's lines, without those that the end of a line divides."""
    return document_words("\n".join(_WHOLE_LINE.sub(" ", line.text) for page in pages for line in page))


_WHOLE_LINE = re.compile(r"^[^\W\d_]++$|(?<!\w)\w+[\ufffe-]$")


def join_paragraphs(lines: Sequence[PageLine], known: DocumentWords | None = None) -> Iterator[str]:
    """Paragraphs, one per line, separated by blank lines, but not between rows of a table. `known`: the document's words, if more."""
    known = known or line_words([lines])
    steps = [a.bottom - b.bottom for a, b in pairwise(lines) if a.bottom > b.bottom]
    step = median(steps) if steps else 0.0
    text = ""
    for n, line in enumerate(lines):
        if n and _continues_paragraph(lines, n, step):
            text = (
                rejoin_hyphenated(text, line.text, known)
                if text.endswith(HYPHEN)
                else text + _line_separator(text, line.text, has_space=lines[n - 1].has_space) + line.text
            )
        else:
            if text:
                text = text.replace(HYPHEN, "-")
                yield text if lines[n - 1].is_row and line.is_row else f"{text}\n"
            text = line.text
    if text:
        yield f"{text.replace(HYPHEN, '-')}\n"


def _line_separator(text: str, following: str, *, has_space: bool) -> str:
    """The separator of two lines of a paragraph: none in Chinese and Japanese, in Korean the one that is there, none after a hyphen."""
    if _DIVIDED_AT_HYPHEN.search(text[-3:]) and following[:1].isalnum():
        return ""
    if not (UNSPACED.match(text[-1:]) and UNSPACED.match(following)):
        return " "
    return " " if has_space and _HANGUL.match(text[-1:]) else ""


_DIVIDED_AT_HYPHEN = re.compile(r"\w-\Z")
_HANGUL = re.compile("[\uac00-\ud7af]")


_MAX_MOVED = 3  # characters that a line of Chinese or Japanese may be short of, as the next one may not begin with a comma


def _continues_paragraph(lines: Sequence[PageLine], n: int, step: float) -> bool:
    """Whether line `n` continues the paragraph of the line before: same size, near, no list item, and its first word did not fit."""
    before, line = lines[n - 1], lines[n]
    if before.text.endswith(HYPHEN):
        return not (LIST_ITEM.match(line.text) or line.is_row) or line.text[:1].isalpha()
    if before.is_row or line.is_row or LIST_ITEM.match(line.text):
        return False
    if not before.top:  # without boxes
        return len(before.text) > 60 and not before.text.endswith(SENTENCE_END)
    small, large = sorted((before.top - before.bottom, line.top - line.bottom))
    gap = before.bottom - line.bottom
    if large > 1.25 * max(small, 0.1) or gap > max(1.45 * step, 1.2 * large):
        return False
    unfinished = line.text[:1].islower() and not before.text.endswith(SENTENCE_END)
    if gap < 0:
        return unfinished  # the next column
    right_edges = [other.right for other in lines[max(n - 5, 0) : n + 5] if abs(other.left - before.left) < 2.5 * large]
    n_first = _MAX_MOVED if UNSPACED.match(line.text) else len(line.text.split(" ")[0])
    word_width = (line.right - line.left) * n_first / max(len(line.text), 1)
    is_full = before.right + word_width + 0.2 * large > max(right_edges, default=before.right)
    is_indented = line.left - before.left > 0.8 * large and before.text.endswith(SENTENCE_END)
    return (is_full or unfinished) and not is_indented


def with_fields(lines: list[PageLine], fields: Sequence[PageLine]) -> list[PageLine]:
    """The lines of a page with the values of fields: behind the line that they stand beside, else in a line of their own."""
    whole = list(lines)
    for field in fields:
        beside = [n for n, line in enumerate(whole) if is_beside(line, field)]
        if beside:
            n = max(beside, key=lambda m: whole[m].right)
            whole[n] = whole[n]._replace(text=f"{whole[n].text} {field.text}", right=field.right, is_row=True)
        elif right := [n for n, line in enumerate(whole) if is_beside(field, line)]:  # a box before its words
            whole[right[0]] = whole[right[0]]._replace(text=f"{field.text} {whole[right[0]].text}", left=field.left, is_row=True)
        else:
            n = next((m for m, line in enumerate(whole) if line.top < field.bottom), len(whole))
            whole.insert(n, field)
    return whole


def is_beside(a: PageLine, b: PageLine) -> bool:
    """Whether one line is at the vertical center of the other, and `b` to the right; text without height is not."""
    level = a.top > a.bottom and (a.bottom < (b.bottom + b.top) / 2 < a.top or b.bottom < (a.bottom + a.top) / 2 < b.top)
    return level and b.left >= a.right - 1 and not a.text.endswith(HYPHEN)


def without_margin_numbers(pages: Sequence[Sequence[PageLine]]) -> Sequence[Sequence[PageLine]]:
    """The lines of pages without the numbers that count them in the left margin."""
    numbered = [_without_number_column(page) for page in pages]
    told = without_line_numbers([line.text for page in numbered for line in page])
    if told is None:
        return numbered
    texts = iter(told)
    return [[_unnumbered(line, text) for line in page if (text := next(texts))] for page in numbered]


def _unnumbered(line: PageLine, text: str) -> PageLine:
    is_row = CELL_SEPARATOR in text
    return line if text == line.text else line._replace(text=text, left=line.gap or line.left, is_row=is_row, gap=0.0)


def _without_number_column(page: Sequence[PageLine]) -> Sequence[PageLine]:
    """A page's lines without a column, drawn apart, that counts them."""
    numbers = [line for line in page if line.text.isdecimal() and len(line.text) < 5]
    is_column = 1 in (len({round(n.left) for n in numbers}), len({round(n.right) for n in numbers}))
    if len(numbers) < 5 or not is_column or any(int(b.text) - int(a.text) != 1 for a, b in pairwise(numbers)):
        return page
    return [line for line in page if not (line.text.isdecimal() and len(line.text) < 5)]
