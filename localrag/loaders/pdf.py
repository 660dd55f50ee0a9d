"""PDF and images: page lines in reading order, running heads removed, paragraphs joined, scanned pages by OCR; pages are parts."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from statistics import median
from typing import Any, NamedTuple

from localrag.loaders.content import (
    A_PICTURE,
    ONLY_IMAGES,
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    join_sections,
    metadata_pairs,
)
from localrag.loaders.ocr import LOW_CONFIDENCE, mean_confidence
from localrag.loaders.page_images import frame_count
from localrag.text.sentences import CJK

HYPHEN = "\ufffe"  # PDFium's code for a hyphen that divides a word, and the line end after it
CELL_SEPARATOR = " · "  # between the cells of a row
SENTENCE_END = tuple(".!?:;。！？：；\"”')")
LIST_ITEM = re.compile(r"(?:[-*•‣▪●○·–]|\(?\d{1,3}[.)]|\(?[a-z][.)]|\[\d+\])\s")
_LAST_WORD = re.compile(r"(\w+)[\ufffe-]$")
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


def page_sections(pages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pages with their labels; a word divided by a page break is completely on the first page."""
    remaining = list(pages)
    for n, page in enumerate(remaining):
        following = remaining[n + 1] if n + 1 < len(remaining) else ""
        if following[:1].islower() and _LAST_WORD.search(page):
            words = following.split(maxsplit=1)
            yield f"page {n + 1}", rejoin_hyphenated(page, words[0], f"{page}\n{following}")
            remaining[n + 1] = "".join(words[1:])
        else:
            yield f"page {n + 1}", page


def sentence_continues(page: str, following: str) -> bool:
    """Whether a sentence continues on the next page."""
    last_line = page.rpartition("\n")[2]
    return (
        following[:1].islower()
        and not last_line.endswith(SENTENCE_END)
        and CELL_SEPARATOR not in last_line
        and not LIST_ITEM.match(following)
    )


def rejoin_hyphenated(text: str, following: str, full_text: str) -> str:
    """Join a divided word; its hyphen stays if `full_text` has it elsewhere, or before a capital letter or digit."""
    start, end = _LAST_WORD.search(text), _FIRST_WORD.match(following)
    is_compound = start is not None and end is not None and f"{start[1]}-{end[0]}" in full_text
    return text[:-1] + ("-" if is_compound or not following[:1].islower() else "") + following


_UNSPACED_CHARACTER = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


def join_paragraphs(lines: Sequence[PageLine]) -> Iterator[str]:
    """Paragraphs, one per line, separated by blank lines, but not between rows of a table."""
    steps = [a.bottom - b.bottom for a, b in pairwise(lines) if a.bottom > b.bottom]
    step = median(steps) if steps else 0.0
    full_text = " ".join(line.text for line in lines)
    text = ""
    for n, line in enumerate(lines):
        if n and _continues_paragraph(lines, n, step):
            text = (
                rejoin_hyphenated(text, line.text, full_text)
                if text.endswith(HYPHEN)
                else text + _line_separator(text, line.text) + line.text
            )
        else:
            if text:
                yield text if lines[n - 1].is_row and line.is_row else f"{text}\n"
            text = line.text
    if text:
        yield f"{text.replace(HYPHEN, '-')}\n"


def _line_separator(text: str, following: str) -> str:
    """The separator of two lines of a paragraph: none in Chinese and Japanese."""
    return "" if _UNSPACED_CHARACTER.match(text[-1:]) and _UNSPACED_CHARACTER.match(following) else " "


def _continues_paragraph(lines: Sequence[PageLine], n: int, step: float) -> bool:
    """Whether line `n` continues the paragraph of the line before: same size, near, no list item, and its first word did not fit."""
    before, line = lines[n - 1], lines[n]
    if before.text.endswith(HYPHEN) or before.is_row or line.is_row or LIST_ITEM.match(line.text):
        return before.text.endswith(HYPHEN)
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
    """Metadata: unread pages with their reasons."""
    return metadata_pairs(**{"not read": "; ".join(f"page {n}: {reason}" for n, reason in sorted(pages.items()))})


_CELL_GAP = 1.3  # times the line height: a gap between cells, wider than the spaces of justified text
MAX_STAMP_CHARS = 40  # letters that scanners and their programs stamp on pages
_JUNK_TITLE = re.compile(r"^(?:untitled.*|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex|dvi|qxp|pdf|rtf|odt|ps))$", re.IGNORECASE)
_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")


def parse_pdf(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a PDF with a text layer or by OCR. Raises Unreadable for protected, damaged and unread ones."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file.mapped())
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected") from error
        raise Unreadable(f"damaged: {error}", failed=True) from error
    named = _document_properties(document)
    layers = [_page(document, n) for n in range(count)]
    scans = tuple(n for n, (_, is_scan) in enumerate(layers, 1) if is_scan)
    if options.ocr and any(n not in options.pages for n in scans):
        return ParsedFile("", pages_to_ocr=scans)
    page_lines = [ocr_lines(options.pages[n]) or lines if n in options.pages else lines for n, (lines, _) in enumerate(layers, 1)]
    text, parts = join_sections(
        page_sections([clean_text("\n".join(join_paragraphs(page))) for page in strip_running_heads(page_lines)]), sentence_continues
    )
    if not text:
        raise Unreadable(_empty(count, options))
    title = " ".join(clean_text(named.get("title", "")).split())
    title = "" if _JUNK_TITLE.match(title) else title
    created = _DATE.match(named.get("creationdate", ""))
    date = "-".join(filter(None, created.groups())) if created else ""
    values = {key: clean_text(named.get(key, "")) for key in ("author", "subject", "keywords")}
    metadata = metadata_pairs(title=title, author=values.pop("author"), date=date, **values)
    metadata += ocr_metadata(options.pages) if options.pages else unread_page_metadata(dict.fromkeys(scans, "a scan"))
    return ParsedFile(text, title, metadata, parts)


def _empty(count: int, options: LoadOptions) -> str:
    """The reason why a document has no text."""
    reasons = [value for name, value in ocr_metadata(options.pages) if name == "not read"]
    return f"only images, {reasons[0]}" if reasons else ONLY_IMAGES if count else "empty"


def _document_properties(document: Any) -> dict[str, str]:
    """The document properties of a PDF, by lower-case name."""
    try:
        return {key.lower(): str(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    except UnicodeDecodeError:
        return {}  # the text may still be readable


def _page(document: Any, n: int) -> tuple[list[PageLine], bool]:
    """The lines of a page's text layer, and whether the page is a scan."""
    import pypdfium2

    try:
        page = document[n]
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return [], False  # a broken page must not affect the others
    try:
        lines = list(_lines(textpage))
        return lines, _is_scan(page, lines)
    finally:
        textpage.close()
        page.close()


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
    """The lines of a page; a piece beside the one before (the next cell of a row, a superscript) belongs to its line.

    A line whose last word continues in the next ends with HYPHEN, which PDFium returns instead of hyphen and line end.
    """
    count = textpage.count_chars()
    text = textpage.get_text_range(0, count) if count else ""
    has_boxes = len(text) == count
    position = 0
    before: PageLine | None = None
    for raw in re.findall(rf"[^\r\n{HYPHEN}]*(?:\r\n|[\r\n{HYPHEN}]|$)", text.replace("\x02", HYPHEN)):
        line = raw.strip(" \t\r\n" + HYPHEN)
        if line:
            start = position + raw.index(line[0])
            line_text = line + HYPHEN * raw.endswith(HYPHEN)
            merged = _pdf_line(textpage, line_text, start, start + len(line)) if has_boxes else PageLine(line_text)
            if before is not None and _is_beside(before, merged):
                gap = (merged.left - before.right) / (before.top - before.bottom)
                space = CELL_SEPARATOR if gap > _CELL_GAP else " " if gap > 0.1 else ""
                text_so_far = before.text + space + merged.text
                is_row = before.is_row or merged.is_row or gap > _CELL_GAP
                merged = PageLine(text_so_far, before.left, before.bottom, merged.right, before.top, is_row)
            elif before is not None:
                yield before
            before = merged
        position += len(raw)
    if before is not None:
        yield before


def _pdf_line(textpage: Any, text: str, start: int, end: int) -> PageLine:
    """A line with its box; wide gaps become cell separators."""
    left, bottom, right, top = _box(textpage, start, end - 1)
    words = text.split(" ")
    position = start
    for n, word in enumerate(words[:-1]):
        position += len(word)
        if position - start > 0 and position + 1 < end and word and words[n + 1]:
            gap = textpage.get_charbox(position + 1, loose=True)[0] - textpage.get_charbox(position - 1, loose=True)[2]
            words[n] += CELL_SEPARATOR if gap > _CELL_GAP * (top - bottom) else " "
        else:
            words[n] += " "
        position += 1
    joined = re.sub(r" {3,}", CELL_SEPARATOR, "".join(words))
    return PageLine(joined, left, bottom, right, top, CELL_SEPARATOR in joined)


def _box(textpage: Any, first: int, last: int) -> tuple[float, float, float, float]:
    left, bottom, _, top = textpage.get_charbox(first, loose=True)
    _, end_bottom, right, end_top = textpage.get_charbox(last, loose=True)
    return left, min(bottom, end_bottom), right, max(top, end_top)


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
    text, parts = join_sections(page_sections([clean_text("\n".join(join_paragraphs(page))) for page in pages]), sentence_continues)
    if not text:
        reasons = [reason for n in numbers if (reason := unread_reason(options.pages[n]))]
        raise Unreadable(f"a picture: {reasons[0] if reasons else 'blank'}")
    return ParsedFile(text, metadata=ocr_metadata(options.pages), parts=parts)
