"""PDF: the text of each page in reading order, with the lines of a paragraph joined; pages are parts."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from localrag.index.documents.load.content import Content, Options, Unreadable, clean, compose, described
from localrag.index.documents.load.formats.pages import CELL, ENDED, HYPHEN, ITEM, Line, goes_on, mended, sections, without_running

_WIDE = 1.3  # times the height of a line: a gap between cells, wider than justified text has between words
_JUNK_TITLE = re.compile(r"^(?:untitled.*|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex|dvi|qxp|pdf|rtf|odt|ps))$", re.IGNORECASE)
_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")


def parse_pdf(file: Path, _options: Options) -> Content:
    """A PDF with text in it. Raises Unreadable for protected, scanned and damaged ones."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected") from error
        raise Unreadable(f"damaged: {error}", failed=True) from error
    named = _named(document)
    pages = without_running([_page(document, n) for n in range(count)])
    text, parts = compose(sections([clean("\n".join(_paragraphs(page))) for page in pages]), goes_on)
    if not text:
        raise Unreadable("only images, no text (scanned?)" if count else "empty")
    title = " ".join(clean(named.get("title", "")).split())
    title = "" if _JUNK_TITLE.match(title) else title
    when = _DATE.match(named.get("creationdate", ""))
    date = "-".join(filter(None, when.groups())) if when else ""
    values = {key: clean(named.get(key, "")) for key in ("author", "subject", "keywords")}
    return Content(text, title, described(title=title, author=values.pop("author"), date=date, **values), parts)


def _named(document: Any) -> dict[str, str]:
    """What the file says of itself."""
    try:
        return {key.lower(): str(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    except UnicodeDecodeError:
        return {}  # no reason to leave out the text


def _page(document: Any, n: int) -> list[Line]:
    import pypdfium2

    try:
        page = document[n]
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return []  # one broken page does not take the others with it
    try:
        return list(_lines(textpage))
    finally:
        textpage.close()
        page.close()


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


def _paragraphs(lines: Sequence[Line]) -> Iterator[str]:
    """Paragraphs, each on a line of its own, a blank line between them; rows of a table keep close."""
    steps = [a.bottom - b.bottom for a, b in pairwise(lines) if a.bottom > b.bottom]
    step = median(steps) if steps else 0.0
    whole = " ".join(line.text for line in lines)
    text = ""
    for n, line in enumerate(lines):
        if n and _goes_on(lines, n, step):
            text = mended(text, line.text, whole) if text.endswith(HYPHEN) else f"{text} {line.text}"
        else:
            if text:
                yield text if lines[n - 1].is_row and line.is_row else f"{text}\n"
            text = line.text
    if text:
        yield f"{text.replace(HYPHEN, '-')}\n"


def _goes_on(lines: Sequence[Line], n: int, step: float) -> bool:
    """Whether line `n` goes on with the paragraph of the one before: as large, near, no item of a list, and its first word did not fit."""
    before, line = lines[n - 1], lines[n]
    if before.text.endswith(HYPHEN) or before.is_row or line.is_row or ITEM.match(line.text):
        return before.text.endswith(HYPHEN)
    if not before.top:  # nothing is known of their places
        return len(before.text) > 60 and not before.text.endswith(ENDED)
    small, large = sorted((before.top - before.bottom, line.top - line.bottom))
    gap = before.bottom - line.bottom
    if large > 1.25 * max(small, 0.1) or gap > max(1.45 * step, 1.2 * large):
        return False
    unfinished = line.text[:1].islower() and not before.text.endswith(ENDED)
    if gap < 0:
        return unfinished  # the next column
    near = [other.right for other in lines[max(n - 5, 0) : n + 5] if abs(other.left - before.left) < 2.5 * large]
    word = (line.right - line.left) * len(line.text.split(" ")[0]) / max(len(line.text), 1)
    full = before.right + word + 0.2 * large > max(near, default=before.right)
    indented = line.left - before.left > 0.8 * large and before.text.endswith(ENDED)
    return (full or unfinished) and not indented
