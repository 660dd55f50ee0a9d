"""PDF and images: page lines in reading order, running heads removed, paragraphs joined, scanned pages by OCR; pages are parts."""

import ctypes
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, groupby, pairwise, takewhile
from statistics import fmean, median
from typing import Any, NamedTuple

from localrag.loaders.containers import InnerFiles
from localrag.loaders.content import (
    A_PICTURE,
    MEGABYTE,
    ONLY_IMAGES,
    UNKNOWN_CHARACTERS,
    UNKNOWN_FONTS,
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    metadata_pairs,
    superscript,
)
from localrag.loaders.document_tree import join_sections
from localrag.loaders.inline_text import comment_line
from localrag.loaders.ocr import LOW_CONFIDENCE, mean_confidence
from localrag.loaders.page_images import frame_count
from localrag.text.hyphenation import DocumentWords, document_words, is_compound
from localrag.text.sentences import CJK

NO_WORDS = DocumentWords()
HYPHEN = "\ufffe"  # PDFium's code for a hyphen that divides a word, and the line end after it
CELL_SEPARATOR = " · "  # between the cells of a row
_SEPARATOR_CHARACTERS = " ·"
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
    spaces: tuple[tuple[int, float, float], ...] = ()  # that no one typed: place in the text, left and right edge


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
    interrupts = [bool(a.body and b.body) and _unfinished(a.body[-1].text, b.body[0].text) for a, b in pairwise(divided)]
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


def _unfinished(line: str, following: str) -> bool:
    return line.endswith(HYPHEN) or sentence_continues(line, following)


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


_MIN_TABLE_ROWS = 3
_NOTED_GAP = 0.3  # times the line height: a space that may divide cells
_NARROW_GAP = 0.4  # times the usual height of a table's lines: wider than a space
_MAX_CROSSING = 0.25  # of the rows with a gap between cells, that may have text where it is


def split_cells(lines: Sequence[PageLine]) -> list[PageLine]:
    """Lines in which the cells of table rows that stand close are divided where the other rows have gaps."""
    found: list[PageLine] = []
    for is_row, group in groupby(lines, key=lambda line: line.is_row and bool(line.spaces)):
        rows = list(group)
        found += map(_CloseCells(rows).divided, rows) if is_row and len(rows) >= _MIN_TABLE_ROWS else rows
    return found


class _CloseCells:
    """The gaps between the cells of a table's rows."""

    def __init__(self, rows: Sequence[PageLine]) -> None:
        self._rows = rows
        self._least = _NARROW_GAP * median(row.top - row.bottom for row in rows)
        self._gaps = [[(a, b) for at, a, b in row.spaces if row.text.startswith(CELL_SEPARATOR, at)] for row in rows]

    def divided(self, row: PageLine) -> PageLine:
        """A row with separators in place of the spaces that stand in a gap of other rows."""
        text = row.text
        for at, a, b in reversed(row.spaces):
            is_wide = b - a > self._least and not text.startswith(CELL_SEPARATOR, at) and text.startswith(" ", at)
            if is_wide and self._is_gap((a + b) / 2):
                text = text[:at] + CELL_SEPARATOR + text[at + 1 :]
        return row if text == row.text else row._replace(text=text, gap=0.0, spaces=())

    def _is_gap(self, x: float) -> bool:
        n_gaps = sum(any(a <= x <= b for a, b in gaps) for gaps in self._gaps)
        n_crossed = sum(row.left < x < row.right and not any(a <= x <= b for _, a, b in row.spaces) for row in self._rows)
        return n_gaps >= 2 and n_crossed <= _MAX_CROSSING * n_gaps


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


_UNSPACED_CHARACTER = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


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
    if not (_UNSPACED_CHARACTER.match(text[-1:]) and _UNSPACED_CHARACTER.match(following)):
        return " "
    return " " if has_space and _HANGUL.match(text[-1:]) else ""


_DIVIDED_AT_HYPHEN = re.compile(r"\w-\Z")
_HANGUL = re.compile("[\uac00-\ud7af]")


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
    word_width = (line.right - line.left) * len(line.text.split(" ")[0]) / max(len(line.text), 1)
    is_full = before.right + word_width + 0.2 * large > max(right_edges, default=before.right)
    is_indented = line.left - before.left > 0.8 * large and before.text.endswith(SENTENCE_END)
    return (is_full or unfinished) and not is_indented


MIN_CONFIDENCE = 40  # words of lower confidence are stains, lines of drawings, signatures
ILLEGIBLE = "no legible text"
_OCR_CELL_GAP = 2.0  # times the line height: a gap between cells of a row
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐¬]$")
_OCR_CJK = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")
OcrWord = Sequence[Any]


def unread_reason(page: Mapping[str, Any]) -> str:
    """The reason why an OCR page is not used; empty if it is used or blank."""
    if "why" in page:
        return str(page["why"])
    if page.get("blank"):
        return ""
    return ILLEGIBLE if mean_confidence(dict(page)) < LOW_CONFIDENCE or not legible_words(page) else ""


def legible_words(page: Mapping[str, Any]) -> list[OcrWord]:
    """The words of an OCR page with sufficient confidence."""
    return [word for word in page["words"] if word[5] >= MIN_CONFIDENCE]


def ocr_lines(page: Mapping[str, Any]) -> list[PageLine]:
    """The lines of an OCR page in reading order, with heights from the bottom as in a PDF."""
    if unread_reason(page) or page.get("blank"):
        return []
    line_words = [list(words) for _, words in groupby(legible_words(page), key=lambda word: word[6])]
    usual_height = median(max(w[4] for w in line) - min(w[2] for w in line) for line in line_words)
    lines = [_ocr_line(line, page["height"], usual_height) for line in line_words]
    is_divided = [bool(_HYPHEN.search(a.text)) and b.text[:1].islower() for a, b in pairwise(lines)] + [False]
    return [
        a._replace(text=_HYPHEN.sub(HYPHEN, a.text)) if is_hyphenated else a for a, is_hyphenated in zip(lines, is_divided, strict=True)
    ]


def _ocr_line(words: Sequence[OcrWord], page_height: float, usual_height: float) -> PageLine:
    """A line; if about as high as usual, it gets the usual height: a word without tall letters is not in smaller print."""
    top, bottom = min(w[2] for w in words), max(w[4] for w in words)
    height = float(bottom - top)
    if 0.6 * usual_height < height < 1.5 * usual_height:
        middle, height = (top + bottom) / 2, usual_height
        top, bottom = middle - usual_height / 2, middle + usual_height / 2
    text = "".join(_spaced(words, height))
    return PageLine(text, words[0][1], page_height - bottom, max(w[3] for w in words), page_height - top, CELL_SEPARATOR in text)


def _spaced(words: Sequence[OcrWord], height: float) -> Iterator[str]:
    yield words[0][0]
    for before, word in pairwise(words):
        close = _OCR_CJK.match(before[0][-1]) and _OCR_CJK.match(word[0][0])
        yield CELL_SEPARATOR if word[1] - before[3] > _OCR_CELL_GAP * height else "" if close else " "
        yield word[0]


def ocr_metadata(pages: Mapping[int, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Metadata: OCR program, number of pages and confidence; and unused pages with their reasons."""
    used = {n: page for n, page in pages.items() if not unread_reason(page) and not page.get("blank")}
    words = [word for page in used.values() for word in page["words"]]
    confidence = mean_confidence({"words": words})
    count = f"{len(used)} page{'s' * (len(used) != 1)}"
    programs = sorted({str(page.get("by", "")) for page in used.values()})
    summary = f"{', '.join(programs)}; {count}, mean confidence of words {confidence:.0f} %" if used else ""
    return metadata_pairs(ocr=summary) + unread_page_metadata({n: reason for n, page in pages.items() if (reason := unread_reason(page))})


def unread_page_metadata(pages: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    """Metadata: unread pages with their reasons, those in a row with the same one together."""
    runs: list[tuple[int, int, str]] = []
    for n, reason in sorted(pages.items()):
        first = runs.pop()[0] if runs and runs[-1][1:] == (n - 1, reason) else n
        runs.append((first, n, reason))
    shown = (f"page {last}: {reason}" if first == last else f"pages {first} to {last}: {reason}" for first, last, reason in runs)
    return metadata_pairs(**{"not read": "; ".join(shown)})


_CELL_GAP = 1.3  # times the line height: a gap between cells, wider than the spaces of justified text
MAX_STAMP_CHARS = 40  # letters that scanners and their programs stamp on pages
_JUNK_TITLE = re.compile(
    r"^(?:untitled.*|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex|dvi|qxp|pdf|rtf|odt|ps)|[\d\W_]{12,})$", re.IGNORECASE
)  # the last: numbers of filings and scans
_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")


def parse_pdf(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a PDF with a text layer or by OCR. Raises Unreadable for protected, damaged and unread ones."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file.read_bytes())
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected") from error
        raise Unreadable(f"damaged: {error}", failed=True) from error
    named = _document_properties(document)
    if document.get_formtype():
        document.init_forms()  # for the values of fields; no script of the file runs
    layers = [_page(document, n) for n in range(count)]
    scans = {n: reason for n, (_, _, reason) in enumerate(layers, 1) if reason}
    if options.ocr and any(n not in options.pages for n in scans):
        return ParsedFile("", pages_to_ocr=tuple(scans))
    page_lines = [ocr_lines(options.pages[n]) or lines if n in options.pages else lines for n, (lines, _, _) in enumerate(layers, 1)]
    split = [split_footnotes(page) for page in strip_running_heads(page_lines)]
    known = line_words(page_lines)
    bodies, notes = ([_text(lines, known) for lines in part] for part in zip(*split, strict=True)) if split else ([], [])
    notes = ["\n\n".join(filter(None, (note, *comments))) for note, (_, comments, _) in zip(notes, layers, strict=True)]
    inner = _attached_files(document, options)
    rendered = join_sections([*page_sections(bodies, notes, known), *inner.sections], sentence_continues)
    text, parts = rendered.text, rendered.parts
    if not text:
        raise Unreadable(UNKNOWN_FONTS if UNKNOWN_CHARACTERS in scans.values() and not options.pages else _empty(count, options))
    title = " ".join(clean_text(named.get("title", "")).split())
    title = "" if _JUNK_TITLE.match(title) else title
    created = _DATE.match(named.get("creationdate", ""))
    date = "-".join(filter(None, created.groups())) if created else ""
    values = {key: clean_text(named.get(key, "")) for key in ("author", "subject", "keywords")}
    metadata = metadata_pairs(title=title, author=values.pop("author"), date=date, **values)
    metadata += ocr_metadata(options.pages) if options.pages else unread_page_metadata(scans)
    return ParsedFile(text, title, metadata + inner.metadata(), parts, inner=inner.documents(parts))


def _text(lines: Sequence[PageLine], known: DocumentWords) -> str:
    return _NUMBER_SIGN.sub("\\1\u00a0", clean_text("\n".join(join_paragraphs(lines, known))))


_NUMBER_SIGN = re.compile(r"^(#{1,6})[ \t]", re.MULTILINE)  # with a space behind it, it would begin a heading of Markdown


def _attached_files(document: Any, options: LoadOptions) -> InnerFiles:
    """The files attached to a PDF."""
    import pypdfium2

    inner = InnerFiles(options)
    for n in range(document.count_attachments()):
        with suppress(pypdfium2.PdfiumError):
            attached = document.get_attachment(n)
            inner.read(" ".join(attached.get_name().split()) or f"unnamed {n + 1}", bytes(attached.get_data()))
    return inner


def _empty(count: int, options: LoadOptions) -> str:
    reasons = [value for name, value in ocr_metadata(options.pages) if name == "not read"]
    return f"only images, {reasons[0]}" if reasons else ONLY_IMAGES if count else "empty"


def _document_properties(document: Any) -> dict[str, str]:
    """The document properties of a PDF, by lower-case name."""
    try:
        return {key.lower(): str(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    except UnicodeDecodeError:
        return {}  # the text may still be readable


def _page(document: Any, n: int) -> tuple[list[PageLine], list[str], str]:
    """The lines of a page's text layer with the fields of its form, its comments, and why OCR must read it; empty if it need not."""
    import pypdfium2

    try:
        page = document[n]
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return [], [], ""  # a broken page must not affect the others
    try:
        if _has_unknown_characters(textpage):
            return [], [], UNKNOWN_CHARACTERS
        lines = split_columns(split_cells(list(_lines(textpage))))
        fields, comments = _annotations(page)
        return _with_fields(lines, fields), comments, "a scan" if not fields and _is_scan(page, lines) else ""
    finally:
        textpage.close()
        page.close()


_CHARACTERS_TRIED = 300  # of a page


def _has_unknown_characters(textpage: Any) -> bool:
    """Whether most characters of a page have no known meaning: text of a font without a map to Unicode is gibberish.

    Not always: the codes of many drawn fonts, such as those of plots, are those of the characters.
    """
    import pypdfium2.raw as pdfium

    count = textpage.count_chars()
    tried = range(0, count, max(1, count // _CHARACTERS_TRIED))
    unknown = [n for n in tried if pdfium.FPDFText_HasUnicodeMapError(textpage, n) == 1]
    return len(unknown) > len(tried) / 2 and not reads_like_words("".join(chr(pdfium.FPDFText_GetUnicode(textpage, n)) for n in unknown))


_MIN_LETTERS = 20
_MIN_LETTER_SCORE = -4.55  # bits; words of European languages have -4.5 to -4.1, letters at random -5.3
# How often the letters from a to z occur, per thousand: the mean of English, French, German and Polish.
_LETTERS = (81, 15, 33, 41, 133, 13, 18, 32, 74, 8, 17, 38, 27, 73, 62, 21, 4, 62, 67, 67, 40, 9, 24, 2, 20, 20)
_LETTER_SCORES = {chr(ord("a") + n): math.log2(per_thousand / 1000) for n, per_thousand in enumerate(_LETTERS)}


def reads_like_words(text: str) -> bool:
    """Whether characters are those of words in Latin letters, by their frequencies, rather than the codes of unknown ones."""
    letters = [_LETTER_SCORES[c] for c in text.lower() if c in _LETTER_SCORES]
    n_readable = sum(c.isascii() and c.isprintable() for c in text)
    return len(letters) >= _MIN_LETTERS and n_readable >= _READABLE_SHARE * len(text) and fmean(letters) > _MIN_LETTER_SCORE


_READABLE_SHARE = 0.9  # of the characters of words


def _annotations(page: Any) -> tuple[list[PageLine], list[str]]:
    """The filled fields of a page's form with their places, and the comments of readers."""
    import pypdfium2.raw as pdfium

    fields, comments = list[PageLine](), list[str]()
    for n in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, n)
        if annotation is None:
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind == pdfium.FPDF_ANNOT_WIDGET and page.formenv is not None:
            if value := _field_value(page.formenv, annotation):
                box = pdfium.FS_RECTF()
                pdfium.FPDFAnnot_GetRect(annotation, box)
                fields.append(PageLine(value, box.left, box.bottom, box.right, box.top))
        elif kind != pdfium.FPDF_ANNOT_POPUP and (text := " ".join(clean_text(_annotation_text(annotation, b"Contents")).split())):
            date = _DATE.match(_annotation_text(annotation, b"M"))
            day = "-".join(filter(None, date.groups())) if date else ""
            comments.append(comment_line(text, " ".join(_annotation_text(annotation, b"T").split()), day))
        pdfium.FPDFPage_CloseAnnot(annotation)
    return fields, comments


_MAX_ANNOTATIONS = 2000  # of a page


def _field_value(form: Any, annotation: Any) -> str:
    """What was entered into a field of a form; a box that may be ticked as ☒ or ☐."""
    import pypdfium2.raw as pdfium

    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON):
        return "☒" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "☐"
    if kind == pdfium.FPDF_FORMFIELD_PUSHBUTTON:
        return ""
    value = _wide_text(lambda buffer, size: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
    return " ".join(clean_text(value).split())


def _annotation_text(annotation: Any, key: bytes) -> str:
    import pypdfium2.raw as pdfium

    return _wide_text(lambda buffer, size: pdfium.FPDFAnnot_GetStringValue(annotation, key, buffer, size))


def _wide_text(call: Callable[[Any, int], int]) -> str:
    """The UTF-16 text that a function of PDFium writes into a buffer, after telling its size in bytes."""
    import pypdfium2.raw as pdfium

    size = min(call(None, 0), MEGABYTE)
    buffer = ctypes.create_string_buffer(size)
    call(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").partition("\0")[0]


def _with_fields(lines: list[PageLine], fields: Sequence[PageLine]) -> list[PageLine]:
    """The lines of a page with the values of fields: behind the line that they stand beside, else in a line of their own."""
    whole = list(lines)
    for field in fields:
        beside = [n for n, line in enumerate(whole) if _is_beside(line, field)]
        if beside:
            n = max(beside, key=lambda m: whole[m].right)
            whole[n] = whole[n]._replace(text=f"{whole[n].text} {field.text}", right=field.right, is_row=True)
        elif right := [n for n, line in enumerate(whole) if _is_beside(field, line)]:  # a box before its words
            whole[right[0]] = whole[right[0]]._replace(text=f"{field.text} {whole[right[0]].text}", left=field.left, is_row=True)
        else:
            n = next((m for m, line in enumerate(whole) if line.top < field.bottom), len(whole))
            whole.insert(n, field)
    return whole


def _is_scan(page: Any, lines: Sequence[PageLine]) -> bool:
    """Whether a page is a scan: no text but objects, or an image over half of it and no more text than a stamp."""
    import pypdfium2.raw as pdfium

    letters = sum(c.isalnum() for line in lines for c in line.text)
    if letters > MAX_STAMP_CHARS:
        return False
    if not letters:
        return any(True for _ in page.get_objects(max_depth=2))
    width, height = page.get_size()
    for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > 0.5 * width * height:
            return True
    return False


def _lines(textpage: Any) -> Iterator[PageLine]:
    """The lines of a page; a piece beside the one before (the next cell of a row, a superscript) belongs to its line."""
    before: PageLine | None = None
    for piece in _pieces(textpage):
        merged = piece
        if before is not None and _is_beside(before, piece):
            merged = _join_pieces(before, piece)
        elif before is not None:
            yield before
        before = merged
    if before is not None:
        yield before


def _pieces(textpage: Any) -> list[PageLine]:
    """The stretches of text between line ends, in PDFium's order; on a page that lies on its side from top to bottom.

    A line whose last word continues in the next ends with HYPHEN, which PDFium returns instead of hyphen and line end.
    """
    count = textpage.count_chars()
    text = _page_text(textpage, count)
    turn = _quarter_turns(textpage, count)
    position, pieces = 0, list[PageLine]()
    for raw in re.findall(rf"[^\r\n{HYPHEN}]*(?:\r\n|[\r\n{HYPHEN}]|$)", text):
        line = raw.strip(" \t\r\n" + HYPHEN)
        if line:
            start = position + raw.index(line[0])
            line_text = line + HYPHEN * raw.endswith(HYPHEN)
            piece = _pdf_line(textpage, line_text, start, start + len(line), turn, pieces[-1] if pieces else None)
            joined = piece.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            pieces.append(piece._replace(text=joined, has_space=raw.rstrip("\r\n").endswith(" ")))
        position += len(raw)
    return sorted(pieces, key=lambda piece: (-round(piece.bottom), piece.left)) if turn else pieces


def _page_text(textpage: Any, count: int) -> str:
    """The text of a page, in which each of PDFium's characters is one; those beyond the first 65,536 are two.

    PDFium leaves characters without a meaning out of its text, but counts them, and gives their places.
    """
    import pypdfium2.raw as pdfium

    text = str(textpage.get_text_range(0, count)) if count else ""
    if len(text) != count:
        text = "".join(chr(pdfium.FPDFText_GetUnicode(textpage, n)) for n in range(count))
    return text.replace("\x02", HYPHEN)


def _join_pieces(before: PageLine, line: PageLine) -> PageLine:
    """Two pieces of a line as one."""
    height = before.top - before.bottom
    gap = (line.left - before.right) / height
    if _is_raised_piece(line, before):
        mark = superscript(line.text, is_note=not _EXPONENT_BASE.search(before.text))
        return before._replace(text=before.text + mark, right=line.right, has_space=line.has_space)
    if _is_raised_piece(before, line):
        return line._replace(text=_marked_word(before.text, line.text, ""), left=before.left, spaces=())
    space = CELL_SEPARATOR if gap > _CELL_GAP else " " if gap > 0.1 else ""
    is_row = before.is_row or line.is_row or gap > _CELL_GAP
    is_second = gap > _CELL_GAP and not before.is_row and not line.is_row
    edge = line.left if is_second else before.gap if not line.is_row and gap <= _CELL_GAP else 0.0
    moved = ((at + len(before.text) + len(space), left, right) for at, left, right in line.spaces)
    spaces = (*before.spaces, *[(len(before.text), before.right, line.left)] * bool(space), *moved)
    text = before.text + space + line.text
    return PageLine(text, before.left, before.bottom, line.right, before.top, is_row, edge, line.has_space, spaces)


def _is_raised_piece(piece: PageLine, base: PageLine) -> bool:
    """Whether a piece of a line is a raised mark of another, which is near."""
    height = base.top - base.bottom
    is_near = max(base.left - piece.right, piece.left - base.right) < _RAISED_GAP * height
    is_small = piece.top - piece.bottom < _RAISED_SIZE * height
    return is_near and is_small and piece.bottom > base.bottom + _RAISED_SHIFT * height and bool(_RAISED_MARK.fullmatch(piece.text))


_RAISED_MARK = re.compile(r"[\d*†‡§]{1,3}")
_RAISED_GAP = 0.35  # times the line height, that a mark is near the word before


def _quarter_turns(textpage: Any, count: int) -> int:
    """By how many quarter turns, clockwise, most of a page's characters are turned."""
    import pypdfium2.raw as pdfium

    tried = range(0, count, max(1, count // 50))
    turns = Counter(round(pdfium.FPDFText_GetCharAngle(textpage, n) / (math.pi / 2)) % 4 for n in tried)
    return turns.most_common(1)[0][0] if turns else 0


def _pdf_line(textpage: Any, text: str, start: int, end: int, turn: int, before: PageLine | None) -> PageLine:
    """A line with its box, as upright text has it; wide gaps become cell separators, raised digits marks of notes or exponents.

    `before`: the line that the page has before it.
    """
    import pypdfium2.raw as pdfium

    first_box = _char_box(textpage, start, turn)
    left = first_box[0]
    mark = _raised_start(textpage, text, start, turn)
    _, bottom, right, top = _box(textpage, start + len(mark), end - 1, turn)
    words = text.split(" ")
    position, gap_at = start, 0.0
    gaps = list[tuple[int, float, float]]()  # number of a word, and the edges of the space behind it
    for n, word in enumerate(words):
        at, position = position, position + len(word) + 1
        words[n] = _with_raised(textpage, word[len(mark) :] if n == 0 else word, at + len(mark) if n == 0 else at, turn)
        if n == len(words) - 1:
            break
        space = " "
        if word and words[n + 1] and position < end:
            before_gap, after = _char_box(textpage, position - 2, turn)[2], _char_box(textpage, position, turn)[0]
            if after - before_gap > _CELL_GAP * (top - bottom):
                space, gap_at = CELL_SEPARATOR, after
            is_wide = after - before_gap > _NOTED_GAP * (top - bottom)
            if is_wide and (space == CELL_SEPARATOR or pdfium.FPDFText_IsGenerated(textpage, position - 1) == 1):
                gaps.append((n, before_gap, after))  # typed spaces are within a cell
        words[n] += space
    if mark:
        words[0] = _marked_word(mark, words[0], before.text if before and _is_near(before, PageLine("", *first_box)) else "")
    ends = list(accumulate(map(len, words)))
    spaces = tuple((ends[n] - len(words[n]) + len(words[n].rstrip(_SEPARATOR_CHARACTERS)), a, b) for n, a, b in gaps)
    joined = re.sub(r" {3,}", CELL_SEPARATOR, "".join(words))
    gap_at = gap_at if joined.count(CELL_SEPARATOR) == 1 else 0.0
    has_places = len(joined) == ends[-1]
    return PageLine(joined, left, bottom, right, top, CELL_SEPARATOR in joined, gap_at, spaces=spaces if has_places else ())


_MAYBE_RAISED = re.compile(r"(?<=\S)[\d*†‡§]+\)?")
_MAYBE_RAISED_START = re.compile(r"[\d*†‡§]{1,3}\)?(?=[^\s\d*†‡§/⁄])")
_RAISED_SIZE = 0.85  # of the size of the character before, below which a digit may be raised
_RAISED_SHIFT = 0.15  # of that size, that its foot is higher
_EXPONENT_BASE = re.compile(r"(?:\b(?:[kcdmµ]?m|ft|in|[a-zA-Z])|(?<!\d)10)\Z")
_ISOTOPE = re.compile(r"(?:[23]H|[67]Li|\d{2,3}(?:C|N|O|P|K|U|Na|Cl|Ca|Cr|Fe|Ga|Kr|Rb|Sr|Tc|Cs|Ba|Xe|Pb|Rn|Ra|Th|Pu))\b")


def _with_raised(textpage: Any, word: str, at: int, turn: int) -> str:
    """A word, whose first character is number `at` of its page, with its raised digits told apart."""

    def told_apart(match: re.Match[str]) -> str:
        base = at + match.start() - 1
        raised = [n for n in range(match.start(), match.end()) if _is_raised(textpage, at + n, base, turn)]
        if not raised:
            return match[0]
        start, end = raised[0], raised[-1] + 1
        mark = superscript(word[start:end], is_note=not _EXPONENT_BASE.search(word[:start]))
        return word[match.start() : start] + mark + word[end : match.end()]

    return _MAYBE_RAISED.sub(told_apart, word)


def _raised_start(textpage: Any, text: str, at: int, turn: int) -> str:
    """The raised mark that a text begins with: PDFium often ends a line before it."""
    mark = _MAYBE_RAISED_START.match(text)
    is_raised = mark is not None and all(_is_raised(textpage, at + n, at + mark.end(), turn) for n in range(mark.end()))
    return mark[0] if mark and is_raised else ""


def _marked_word(mark: str, word: str, before: str) -> str:
    """A word behind a raised mark, which belongs to the text before or is that of a note."""
    is_note = not (_EXPONENT_BASE.search(before) or _ISOTOPE.match(mark + word))
    return superscript(mark, is_note=is_note) + (" " if is_note and word[:1].isalnum() else "") + word


def _is_raised(textpage: Any, n: int, base: int, turn: int) -> bool:
    """Whether a character is smaller than another and stands higher."""
    size = _font_size(textpage, base)
    if _font_size(textpage, n) >= _RAISED_SIZE * size:
        return False
    return _char_box(textpage, n, turn)[1] > _char_box(textpage, base, turn)[1] + _RAISED_SHIFT * size


def _is_near(before: PageLine, line: PageLine) -> bool:
    """Whether a line follows another without a gap."""
    return _is_beside(before, line) and line.left - before.right < _RAISED_GAP * (before.top - before.bottom)


def _font_size(textpage: Any, n: int) -> float:
    """The size of a character as it is drawn: many fonts of size 1 are enlarged."""
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(textpage, n, matrix)
    return float(pdfium.FPDFText_GetFontSize(textpage, n)) * math.hypot(matrix.c, matrix.d)


def _box(textpage: Any, first: int, last: int, turn: int) -> tuple[float, float, float, float]:
    left, bottom, _, top = _char_box(textpage, first, turn)
    _, end_bottom, right, end_top = _char_box(textpage, last, turn)
    return left, min(bottom, end_bottom), right, max(top, end_top)


def _char_box(textpage: Any, n: int, turn: int) -> tuple[float, float, float, float]:
    """The box of a character, as upright text has it: left, bottom, right, top."""
    left, bottom, right, top = textpage.get_charbox(n, loose=True)
    match turn:
        case 1:
            return -top, left, -bottom, right
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return bottom, -right, top, -left
        case _:
            return left, bottom, right, top


def _is_beside(a: PageLine, b: PageLine) -> bool:
    """Whether one line is at the vertical center of the other, and `b` to the right; text without height is not."""
    level = a.top > a.bottom and (a.bottom < (b.bottom + b.top) / 2 < a.top or b.bottom < (a.bottom + a.top) / 2 < b.top)
    return level and b.left >= a.right - 1 and not a.text.endswith(HYPHEN)


def parse_image(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse an image by OCR; each page of a TIFF is a part. Raises Unreadable without OCR or without legible text."""
    if not options.ocr:
        raise Unreadable(A_PICTURE)
    numbers = range(1, frame_count(file) + 1)
    if missing := tuple(n for n in numbers if n not in options.pages):
        return ParsedFile("", pages_to_ocr=missing)
    pages = strip_running_heads([ocr_lines(options.pages[n]) for n in numbers])
    known = line_words(pages)
    rendered = join_sections(page_sections([_text(page, known) for page in pages], known=known), sentence_continues)
    if not rendered.text:
        reasons = [reason for n in numbers if (reason := unread_reason(options.pages[n]))]
        raise Unreadable(f"a picture: {reasons[0] if reasons else 'blank'}")
    return ParsedFile(rendered.text, metadata=ocr_metadata(options.pages), parts=rendered.parts)
