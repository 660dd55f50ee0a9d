"""What lies on the pages of a PDF: fields of forms, links, and what readers wrote, struck out and highlighted."""

import ctypes
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import product, takewhile
from typing import Any, NamedTuple

from localrag.loaders.content import MEGABYTE, clean_text
from localrag.loaders.inline_text import checkbox, comment_line
from localrag.loaders.page_lines import BLANKS, PageLine, comparable_characters, nearest

DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")
_MAX_ANNOTATIONS = 2000  # of a page
_MAX_RECTANGLES = 500  # of an annotation
_MAX_MARKED = 5000  # characters in a rectangle
_MAX_QUOTED = 150  # characters of the words that a comment is about
_CONTEXT = 12  # letters before and behind marked words, by which they are told from the same words elsewhere
_MAX_TARGET_CHARS = 200  # a longer address is shown without its query
_ADDRESS = re.compile(r"(?:https?|ftps?)://.|(?:mailto|tel|sms|news|doi|urn|geo):.|www\..", re.IGNORECASE)
_SCHEME = re.compile(r"(?:(?:https?|ftps?)://)?(?:www\.)?|(?:mailto|tel|sms):", re.IGNORECASE)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\uffff"  # scripts without spaces between words, and what is no character
_TOKEN = re.compile(rf"[^\s{_UNSPACED}]+|[^\s\ufffe\uffff]")
_Box = tuple[float, float, float, float]  # left, bottom, right, top


class Mark(NamedTuple):
    """Characters `start` to `end` of a page's text that are struck out or highlighted, by the sign for it, or lead to an address."""

    start: int
    end: int
    sign: str = ""
    link: str = ""


def page_annotations(page: Any, textpage: Any, text: str) -> tuple[list[PageLine], list[str], list[Mark]]:
    """The filled fields of a page's form with their places, the comments of readers, and the marked words. `text`: the page's."""
    import pypdfium2.raw as pdfium

    fields, comments, marks = list[PageLine](), list[str](), list[Mark]()
    signs = {pdfium.FPDF_ANNOT_STRIKEOUT: "~~", pdfium.FPDF_ANNOT_HIGHLIGHT: "=="}
    for n in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, n)
        if annotation is None:
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind == pdfium.FPDF_ANNOT_WIDGET and page.formenv is not None:
            if value := _field_value(page.formenv, annotation):
                fields.append(PageLine(value, *_rectangle(annotation)))
        elif kind == pdfium.FPDF_ANNOT_LINK:
            if link := _link(page, annotation):
                _add_mark(marks, text, Mark(*_marked(textpage, text, annotation), link=link))
        elif kind != pdfium.FPDF_ANNOT_POPUP:
            has_words = kind in signs or pdfium.FPDFAnnot_HasAttachmentPoints(annotation)
            start, end = _marked(textpage, text, annotation) if has_words else (0, 0)
            if kind in signs:
                _add_mark(marks, text, Mark(start, end, signs[kind]))
            comments += _comment(annotation, " ".join(clean_text(text[start:end]).split()))
        pdfium.FPDFPage_CloseAnnot(annotation)
    return fields, comments, marks


def _comment(annotation: Any, words: str) -> Iterator[str]:
    """A reader's comment, if there is one. `words`: what it is about, which some programs put into it."""
    text = " ".join(clean_text(_annotation_text(annotation, b"Contents")).split())
    if text and text != words:
        date = DATE.match(_annotation_text(annotation, b"M"))
        day = "-".join(filter(None, date.groups())) if date else ""
        shown = words if len(words) <= _MAX_QUOTED else f"{words[:_MAX_QUOTED]}…"
        yield comment_line(text, " ".join(_annotation_text(annotation, b"T").split()), day, f"“{shown}”" if words else "")


def _link(page: Any, annotation: Any) -> str:
    """The address outside the document that a link leads to."""
    import pypdfium2.raw as pdfium

    action = pdfium.FPDFLink_GetAction(pdfium.FPDFAnnot_GetLink(annotation))
    address = _buffered(lambda buffer, size: pdfium.FPDFAction_GetURIPath(page.pdf, action, buffer, size))
    link = "".join(clean_text(address.partition(b"\0")[0].decode("utf-8", "replace")).split())
    return link if _ADDRESS.match(link) else ""


def link_target(link: str, words: str) -> str:
    """The address of a link as it is shown: empty where the words are the address, that of a mail without its subject."""
    if len(link) > _MAX_TARGET_CHARS:
        link = re.split(r"[?#]", link, maxsplit=1)[0][:_MAX_TARGET_CHARS]
    target = link[7:].partition("?")[0] if link.lower().startswith("mailto:") else link
    return "" if _bare(target) in _bare(words) else target


def _bare(address: str) -> str:
    return "".join(filter(str.isalnum, _SCHEME.sub("", address))).lower()


def _rectangle(annotation: Any) -> _Box:
    import pypdfium2.raw as pdfium

    box = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, box)
    return box.left, box.bottom, box.right, box.top


def _marked(textpage: Any, text: str, annotation: Any) -> tuple[int, int]:
    """The first character below an annotation and the one behind the last, of whole words unless it is within one; twice 0 without any."""
    import pypdfium2.raw as pdfium

    points, boxes = pdfium.FS_QUADPOINTSF(), list[_Box]()
    for n in range(min(pdfium.FPDFAnnot_CountAttachmentPoints(annotation), _MAX_RECTANGLES)):
        pdfium.FPDFAnnot_GetAttachmentPoints(annotation, n, points)
        xs, ys = (points.x1, points.x2, points.x3, points.x4), (points.y1, points.y2, points.y3, points.y4)
        boxes.append((min(xs), min(ys), max(xs), max(ys)))
    inside = {n for box in boxes or [_rectangle(annotation)] for n in _characters_in(textpage, text, box) if text[n] not in BLANKS}
    if not inside:
        return 0, 0
    start, end = min(inside), max(inside) + 1
    around = max(0, start - _CONTEXT)
    words = [m.span() for m in _TOKEN.finditer(text, around, end + _CONTEXT) if sum(n in inside for n in range(*m.span())) * 2 >= len(m[0])]
    return (words[0][0], words[-1][1]) if words else (start, end)


def _characters_in(textpage: Any, text: str, box: _Box) -> set[int]:
    """The numbers of the characters whose middle is in a rectangle, from those at nine points of it on."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = box
    near, middle, up = min((right - left) / 2, 2.0), (left + right) / 2, (top - bottom) / 4

    def is_inside(n: int) -> bool:
        a, b, c, d = textpage.get_charbox(n, loose=True)
        return text[n] in BLANKS or bool(left - 1 <= (a + c) / 2 <= right + 1 and bottom - 1 <= (b + d) / 2 <= top + 1)

    found = set[int]()
    for x, y in product((left + near, middle, right - near), (bottom + up, bottom + 2 * up, top - up)):
        n = pdfium.FPDFText_GetCharIndexAtPos(textpage, x, y, 3.0, 3.0)
        if 0 <= n < len(text) and n not in found:
            found.update(takewhile(is_inside, range(n, max(-1, n - _MAX_MARKED), -1)))
            found.update(takewhile(is_inside, range(n, min(len(text), n + _MAX_MARKED))))
    return found


def _add_mark(marks: list[Mark], text: str, mark: Mark) -> None:
    """Add a mark; to the one before, if it is of the same kind and only blanks are between them."""
    before = marks[-1] if marks else None
    if before and before[2:] == mark[2:] and before.start <= mark.start and not text[before.end : mark.start].strip(BLANKS):
        marks[-1] = before._replace(end=max(before.end, mark.end))
    elif mark.end > mark.start:
        marks.append(mark)


def with_marks(text: str, page_text: str, marks: Sequence[Mark]) -> str:
    """A page's text with the marks of its words, which are found by their letters. `page_text`: its text in PDFium's order."""
    if not marks:
        return text
    places, letters = _letters(text)
    page_places, page_letters = _letters(page_text)
    inserted = list[tuple[int, int, str]]()  # at the same place, the marks of fewer words close first
    for mark in marks:
        start, end = bisect_left(page_places, mark.start), bisect_left(page_places, mark.end)
        if end == start or (at := _place(letters, page_letters, start, end)) < 0:
            continue
        head, tail = page_text[mark.start : page_places[start]], page_text[page_places[end - 1] + 1 : mark.end]  # quotation marks, stops
        first, last = places[at], places[at + end - start - 1] + 1
        if target := mark.link and link_target(mark.link, page_text[mark.start : mark.end]):
            inserted.append((last, last - first, f" ({target})"))
        first, last = first - len(head) * text.endswith(head, 0, first), last + len(tail) * text.startswith(tail, last)
        for line in re.finditer(r"\S(?:.*\S)?", text[first:last]) if mark.sign else ():
            opening, closing = first + line.start(), first + line.end()
            inserted += [(opening, MEGABYTE - last + first, mark.sign), (closing, last - first, mark.sign)]
    pieces, position = list[str](), 0
    for place, _, sign in sorted(inserted):
        pieces += [text[position:place], sign]
        position = place
    return "".join([*pieces, text[position:]])


def _letters(text: str) -> tuple[list[int], str]:
    """The places of the letters and digits of a text, and these, by which the same words are found in another one."""
    found = [(n, c) for n, c in comparable_characters(enumerate(text)) if c.isalnum()]
    return [n for n, _ in found], "".join(c for _, c in found)


def _place(letters: str, page_letters: str, start: int, end: int) -> int:
    """Where letters `start` to `end` of a page stand in the text that was made of it; -1 if they are not there."""
    expected = start * len(letters) // len(page_letters)
    for before, behind in ((_CONTEXT, _CONTEXT), (_CONTEXT, 0), (0, _CONTEXT), (0, 0)):
        first = max(start - before, 0)
        found = nearest(letters, page_letters[first : end + behind], expected)
        if found >= 0:
            return found + start - first
    return -1


def _field_value(form: Any, annotation: Any) -> str:
    """What was entered into a field of a form; a box that may be ticked as ☒ or ☐."""
    import pypdfium2.raw as pdfium

    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON):
        return checkbox(bool(pdfium.FPDFAnnot_IsChecked(form, annotation)))
    if kind == pdfium.FPDF_FORMFIELD_PUSHBUTTON:
        return ""
    return " ".join(clean_text(_wide_text(lambda *buffer: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *buffer))).split())


def _annotation_text(annotation: Any, key: bytes) -> str:
    import pypdfium2.raw as pdfium

    return _wide_text(lambda *buffer: pdfium.FPDFAnnot_GetStringValue(annotation, key, *buffer))


def _wide_text(call: Callable[[Any, int], int]) -> str:
    """The UTF-16 text that a function of PDFium writes."""
    return _buffered(call).decode("utf-16-le", "replace").partition("\0")[0]


def _buffered(call: Callable[[Any, int], int]) -> bytes:
    """What a function of PDFium writes into a buffer, after telling its size in bytes."""
    import pypdfium2.raw as pdfium

    size = min(call(None, 0), MEGABYTE)
    buffer = ctypes.create_string_buffer(size)
    call(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return buffer.raw
