"""What lies on the pages of a PDF: fields of forms, links, and what readers wrote, struck out and highlighted."""

import ctypes
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from localrag.loaders.content import MEGABYTE, clean_text
from localrag.loaders.document_tree import link_target
from localrag.loaders.inline_text import checkbox, comment_line
from localrag.loaders.page_lines import BLANKS, PageLine
from localrag.text.sentences import CJK

DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")
_MAX_ANNOTATIONS = 2000  # of a page
_MAX_RECTANGLES = 500  # of an annotation
_MAX_QUOTED = 150  # characters of the words that a comment is about
_ADDRESS = re.compile(r"(?:https?|ftps?)://.|(?:mailto|tel|sms|news|doi|urn|geo):.|www\..", re.IGNORECASE)
_PUNCTUATION = '.,;:!?)]"”’'
_TOKEN = re.compile(rf"[^\s{CJK}\ufffe\uffff]+|[{CJK}]")
_TokenPlace = tuple[float, float, int, int]  # of the middle of a word, its height first, and the numbers of its characters
_Mark = tuple[int, int, str, str]  # the first character, the one behind the last, the sign for it, the address it leads to
Signs = Mapping[int, tuple[str, str]]  # by the number of a character, what is to stand before it and behind it


def page_annotations(page: Any, textpage: Any, text: str) -> tuple[list[PageLine], list[str], Signs]:
    """The filled fields of a page's form with their places, the comments of readers, and what stands by its characters. `text`: its own."""
    import pypdfium2.raw as pdfium

    fields, comments, marks, places = list[PageLine](), list[str](), list[_Mark](), list[_TokenPlace]()
    signs = {pdfium.FPDF_ANNOT_STRIKEOUT: "~~", pdfium.FPDF_ANNOT_HIGHLIGHT: "==", pdfium.FPDF_ANNOT_UNDERLINE: ""}
    for n in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, n)
        if annotation is None:
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        link = _link(page, annotation) if kind == pdfium.FPDF_ANNOT_LINK else ""
        start = end = 0
        if link or kind in signs:
            places = places or sorted(_token_places(textpage, text))
            start, end = _marked(annotation, places)
        if kind == pdfium.FPDF_ANNOT_WIDGET and page.formenv is not None:
            if value := _field_value(page.formenv, annotation):
                fields.append(PageLine(value, *_rectangle(annotation)))
        elif link and marks and marks[-1][3] == link and not text[marks[-1][1] : start].strip(BLANKS):
            marks[-1] = (marks[-1][0], max(marks[-1][1], end), "", link)  # its words on the next line
        elif end:
            marks.append((start, end, signs.get(kind, ""), link))
        if kind not in (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP):
            comments += _comment(annotation, " ".join(clean_text(text[start:end]).split()))
        pdfium.FPDFPage_CloseAnnot(annotation)
    return fields, comments, _signs(marks, text)


def _comment(annotation: Any, words: str) -> Iterator[str]:
    """A reader's comment, if there is one. `words`: what it is about, which some programs put into it."""
    text = " ".join(clean_text(_annotation_text(annotation, b"Contents")).split())
    if text and text != words:
        date = DATE.match(_annotation_text(annotation, b"M"))
        day = "-".join(filter(None, date.groups())) if date else ""
        yield comment_line(text, " ".join(_annotation_text(annotation, b"T").split()), day, f"“{words[:_MAX_QUOTED]}”" if words else "")


def _link(page: Any, annotation: Any) -> str:
    """The address outside the document that a link leads to."""
    import pypdfium2.raw as pdfium

    action = pdfium.FPDFLink_GetAction(pdfium.FPDFAnnot_GetLink(annotation))
    address = _buffered(lambda buffer, size: pdfium.FPDFAction_GetURIPath(page.pdf, action, buffer, size))
    link = "".join(clean_text(address.partition(b"\0")[0].decode("utf-8", "replace")).split())
    return link if _ADDRESS.match(link) else ""


def _rectangle(annotation: Any) -> tuple[float, float, float, float]:
    import pypdfium2.raw as pdfium

    box = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, box)
    return box.left, box.bottom, box.right, box.top


def _token_places(textpage: Any, text: str) -> Iterator[_TokenPlace]:
    """The places of the words of a page."""
    for word in _TOKEN.finditer(text):
        left, bottom, _, top = textpage.get_charbox(word.start(), loose=True)
        yield (bottom + top) / 2, (left + textpage.get_charbox(word.end() - 1, loose=True)[2]) / 2, *word.span()


def _marked(annotation: Any, places: Sequence[_TokenPlace]) -> tuple[int, int]:
    """The first character of the words below an annotation and the one behind the last; twice 0 without any."""
    import pypdfium2.raw as pdfium

    points, boxes = pdfium.FS_QUADPOINTSF(), list[tuple[float, float, float, float]]()
    for n in range(min(pdfium.FPDFAnnot_CountAttachmentPoints(annotation), _MAX_RECTANGLES)):
        pdfium.FPDFAnnot_GetAttachmentPoints(annotation, n, points)
        xs, ys = (points.x1, points.x2, points.x3, points.x4), (points.y1, points.y2, points.y3, points.y4)
        boxes.append((min(xs), min(ys), max(xs), max(ys)))
    inside = [
        word
        for left, bottom, right, top in boxes or [_rectangle(annotation)]
        for _, x, *word in places[bisect_left(places, (bottom, 0.0, 0, 0)) : bisect_left(places, (top, 0.0, 0, 0))]
        if left <= x <= right
    ]
    return (min(start for start, _ in inside), max(end for _, end in inside)) if inside else (0, 0)


def _signs(marks: Sequence[_Mark], text: str) -> Signs:
    signs = defaultdict[int, tuple[str, str]](lambda: ("", ""))
    for start, end, sign, link in marks:
        words = text[start:end]
        target = f" ({shown})" if link and (shown := link_target(link, words)) else ""
        last = start + len(words.rstrip(_PUNCTUATION) if link else words) - 1
        signs[start] = (signs[start][0] + sign, signs[start][1])
        signs[last] = (signs[last][0], sign + target + signs[last][1])
    return signs


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
