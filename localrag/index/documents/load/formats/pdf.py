"""PDF: the text of each page in reading order, with the lines of a paragraph joined; pages are parts. Scanned ones are read by OCR."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from localrag.index.documents.load.content import ONLY_IMAGES, Content, Options, Unreadable, clean, compose, described
from localrag.index.documents.load.formats.pages import CELL, HYPHEN, Line, goes_on, sections, without_running
from localrag.index.documents.load.formats.paragraphs import paragraphs
from localrag.index.documents.load.formats.scan import lines as scanned
from localrag.index.documents.load.formats.scan import not_read, told
from localrag.index.documents.load.open_file import OpenFile

_WIDE = 1.3  # times the height of a line: a gap between cells, wider than justified text has between words
STAMP = 40  # letters that scanners and their programs put on a page by themselves
_JUNK_TITLE = re.compile(r"^(?:untitled.*|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex|dvi|qxp|pdf|rtf|odt|ps))$", re.IGNORECASE)
_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")


def parse_pdf(file: OpenFile, options: Options) -> Content:
    """A PDF with text in it, its own or read by OCR. Raises Unreadable for protected and damaged ones, and those nothing is read of."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file.mapped())
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected") from error
        raise Unreadable(f"damaged: {error}", failed=True) from error
    named = _named(document)
    read = [_page(document, n) for n in range(count)]
    scans = tuple(n for n, (_, is_scan) in enumerate(read, 1) if is_scan)
    if options.ocr and any(n not in options.pages for n in scans):
        return Content("", scans=scans)
    found = [scanned(options.pages[n]) or lines if n in options.pages else lines for n, (lines, _) in enumerate(read, 1)]
    text, parts = compose(sections([clean("\n".join(paragraphs(page))) for page in without_running(found)]), goes_on)
    if not text:
        raise Unreadable(_empty(count, options))
    title = " ".join(clean(named.get("title", "")).split())
    title = "" if _JUNK_TITLE.match(title) else title
    when = _DATE.match(named.get("creationdate", ""))
    date = "-".join(filter(None, when.groups())) if when else ""
    values = {key: clean(named.get(key, "")) for key in ("author", "subject", "keywords")}
    metadata = described(title=title, author=values.pop("author"), date=date, **values)
    metadata += told(options.pages) if options.pages else not_read(dict.fromkeys(scans, "a scan"))
    return Content(text, title, metadata, parts)


def _empty(count: int, options: Options) -> str:
    """Why there is no text in a document."""
    reasons = [value for name, value in told(options.pages) if name == "not read"]
    return f"only images, {reasons[0]}" if reasons else ONLY_IMAGES if count else "empty"


def _named(document: Any) -> dict[str, str]:
    """What the file says of itself."""
    try:
        return {key.lower(): str(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    except UnicodeDecodeError:
        return {}  # no reason to leave out the text


def _page(document: Any, n: int) -> tuple[list[Line], bool]:
    """The lines of a page's text layer, and whether the page is a scan."""
    import pypdfium2

    try:
        page = document[n]
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return [], False  # one broken page does not take the others with it
    try:
        lines = list(_lines(textpage))
        return lines, _is_scan(page, lines)
    finally:
        textpage.close()
        page.close()


def _is_scan(page: Any, lines: Sequence[Line]) -> bool:
    """Whether a page is a picture: it shows something and has no text, or an image over half of it and no more text than a stamp."""
    import pypdfium2.raw as pdfium

    letters = sum(c.isalnum() for line in lines for c in line.text)
    if letters > STAMP:
        return False
    if not letters:
        return any(True for _ in page.get_objects(max_depth=2))
    width, height = page.get_size()
    for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > 0.5 * width * height:
            return True
    return False


def _lines(textpage: Any) -> Iterator[Line]:
    """The lines of a page; a piece beside the one before it (the next cell of a row, a raised number) is part of its line.

    A line whose last word goes on in the next ends with HYPHEN: PDFium gives that in place of hyphen and line end.
    """
    count = textpage.count_chars()
    text = textpage.get_text_range(0, count) if count else ""
    placed = len(text) == count
    at = 0
    before: Line | None = None
    for raw in re.findall(rf"[^\r\n{HYPHEN}]*(?:\r\n|[\r\n{HYPHEN}]|$)", text.replace("\x02", HYPHEN)):
        line = raw.strip(" \t\r\n" + HYPHEN)
        if line:
            start = at + raw.index(line[0])
            shown = line + HYPHEN * raw.endswith(HYPHEN)
            found = _line(textpage, shown, start, start + len(line)) if placed else Line(shown)
            if before is not None and _beside(before, found):
                gap = (found.left - before.right) / (before.top - before.bottom)
                space = CELL if gap > _WIDE else " " if gap > 0.1 else ""
                text_so_far = before.text + space + found.text
                is_row = before.is_row or found.is_row or gap > _WIDE
                found = Line(text_so_far, before.left, before.bottom, found.right, before.top, is_row)
            elif before is not None:
                yield before
            before = found
        at += len(raw)
    if before is not None:
        yield before


def _line(textpage: Any, text: str, start: int, end: int) -> Line:
    """A line in its place; wide gaps in it are those between the cells of a row."""
    left, bottom, right, top = _box(textpage, start, end - 1)
    pieces = text.split(" ")
    at = start
    for n, piece in enumerate(pieces[:-1]):
        at += len(piece)
        if at - start > 0 and at + 1 < end and piece and pieces[n + 1]:
            gap = textpage.get_charbox(at + 1, loose=True)[0] - textpage.get_charbox(at - 1, loose=True)[2]
            pieces[n] += CELL if gap > _WIDE * (top - bottom) else " "
        else:
            pieces[n] += " "
        at += 1
    found = re.sub(r" {3,}", CELL, "".join(pieces))
    return Line(found, left, bottom, right, top, CELL in found)


def _box(textpage: Any, first: int, last: int) -> tuple[float, float, float, float]:
    left, bottom, _, top = textpage.get_charbox(first, loose=True)
    _, end_bottom, right, end_top = textpage.get_charbox(last, loose=True)
    return left, min(bottom, end_bottom), right, max(top, end_top)


def _beside(a: Line, b: Line) -> bool:
    """Whether the middle of one is at the height of the other, and `b` to the right; text drawn flat has no height."""
    level = a.top > a.bottom and (a.bottom < (b.bottom + b.top) / 2 < a.top or b.bottom < (a.bottom + a.top) / 2 < b.top)
    return level and b.left >= a.right - 1 and not a.text.endswith(HYPHEN)
