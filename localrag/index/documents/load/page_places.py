"""Where words stand on the pages of PDFs and pictures. Runs in the confined process: it reads what nobody has vouched for."""

import ctypes
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any, NamedTuple

from localrag.index.documents.load.formats.scan import legible
from localrag.index.documents.load.open_file import OpenFile

Box = tuple[float, float, float, float]  # left, top, right, bottom
SHORTEST = 8  # characters of a quote that are looked for by themselves, where the whole is not found in one piece
_UNITS = 100_000  # PDFium tells places on a picture in whole pixels: of one this wide and high
# Hyphens, which a line may end with or not, PDFium's signs for them, and the mark that stands between a row's cells in the text.
_LEFT_OUT = frozenset("-\u00ad\u2010\u2011\x02\ufffe\ufeff\u00b7")


def places(file: OpenFile, pages: Sequence[int], quote: str, before: float, read: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Where a quote stands on pages that follow each other, as boxes in fractions of the page, from the top left.

    `before` is the part of these pages' text, 0 to 1, that comes before the quote: of several places the nearest is taken. `read` are the
    pages whose words come from OCR.
    """
    with ExitStack() as stack:
        shown = [_read_sheet(n, read[n]) for n in pages if n in read]
        if len(shown) < len(pages) and file.suffix.lower() == ".pdf":
            import pypdfium2

            document = stack.enter_context(pypdfium2.PdfDocument(file.mapped()))
            shown += [_drawn_sheet(n, document[n - 1]) for n in pages if n not in read and 0 < n <= len(document)]
            shown.sort(key=lambda sheet: sheet.number)
        letters = [(n, i, letter) for n, sheet in enumerate(shown) for i, letter in sheet.letters]
        wanted = "".join(letter for _, letter in _kept(enumerate(quote)))
        found = [letters[i] for i in _aligned("".join(letter for *_, letter in letters), wanted, before)]
        return {
            "pages": [
                {"n": sheet.number, "width": sheet.width, "height": sheet.height, "boxes": boxes}
                for n, sheet in enumerate(shown)
                if (boxes := sheet.boxes([i for k, i, _ in found if k == n])) or len(shown) == 1
            ]
        }


class _Sheet(NamedTuple):
    """A page: its letters, each with the number of what it is part of, and the boxes of some of these."""

    number: int
    width: float
    height: float
    letters: list[tuple[int, str]]
    boxes: Callable[[Sequence[int]], list[Box]]


def _drawn_sheet(number: int, page: Any) -> _Sheet:
    text = page.get_textpage()
    return _Sheet(number, page.get_width(), page.get_height(), list(_letters(text)), lambda found: _boxes(page, text, found))


def _read_sheet(number: int, page: Mapping[str, Any]) -> _Sheet:
    """A page read by OCR: its letters are those of the words that are taken."""
    words = legible(page)
    across, down = max(1, page["width"]), max(1, page["height"])

    def boxes(found: Sequence[int]) -> list[Box]:
        lines = groupby(sorted(set(found)), key=lambda i: words[i][6])
        cited = ([words[i] for i in numbers] for _, numbers in lines)
        return [
            (
                min(w[1] for w in line) / across,
                min(w[2] for w in line) / down,
                max(w[3] for w in line) / across,
                max(w[4] for w in line) / down,
            )
            for line in cited
        ]

    letters = list(_kept((i, c) for i, word in enumerate(words) for c in word[0]))
    return _Sheet(number, across, down, letters, boxes)


def _letters(textpage: Any) -> Iterator[tuple[int, str]]:
    """What is compared of a page's text, each letter with the number of its character."""
    import pypdfium2.raw as pdfium

    codes = (pdfium.FPDFText_GetUnicode(textpage, i) for i in range(textpage.count_chars()))
    return _kept((i, chr(code)) for i, code in enumerate(codes) if 0 < code < 0x110000)


def _kept(characters: Any) -> Iterator[tuple[int, str]]:
    """Characters without spaces and hyphens, ligatures and wide forms as the letters they stand for."""
    for i, character in characters:
        if character not in _LEFT_OUT:
            for letter in unicodedata.normalize("NFKC", character):
                if not letter.isspace():
                    yield i, letter


def _aligned(text: str, wanted: str, before: float) -> list[int]:
    """The places in a text of what is wanted: in one piece, or in pieces that follow each other (around a page's foot, say)."""
    if not wanted:
        return []
    expected = int(before * len(text))
    whole = _nearest(text, wanted, expected)
    if whole >= 0:
        return list(range(whole, whole + len(wanted)))
    found: list[int] = []
    at = done = 0
    while len(wanted) - done >= SHORTEST:
        start = text.find(wanted[done : done + SHORTEST], at)
        if start < 0:
            done += 1
            continue
        length = SHORTEST
        while done + length < len(wanted) and start + length < len(text) and text[start + length] == wanted[done + length]:
            length += 1
        found += range(start, start + length)
        at, done = start + length, done + length
    return found if 2 * len(found) > len(wanted) else []


def _nearest(text: str, wanted: str, expected: int) -> int:
    """Where a text holds another, nearest to a place; -1 where it does not."""
    after = text.find(wanted, expected)
    ahead = text.rfind(wanted, 0, expected + len(wanted))
    near = [place for place in (after, ahead) if place >= 0]
    return min(near, key=lambda place: abs(place - expected), default=-1)


def _boxes(page: Any, textpage: Any, characters: Sequence[int]) -> list[Box]:
    """A box for each line that some characters of a page stand on."""
    boxes: list[Box] = []
    turned = page.get_rotation() % 180 == 90
    for first, last in _runs(characters):
        for n in range(textpage.count_rects(first, last - first + 1)):
            box = _on_picture(page, textpage.get_rect(n))
            if box[0] == box[2] or box[1] == box[3]:
                continue  # the page is cropped there
            if boxes and _same_line(boxes[-1], box, turned):
                begun = boxes.pop()
                box = min(begun[0], box[0]), min(begun[1], box[1]), max(begun[2], box[2]), max(begun[3], box[3])
            boxes.append(box)
    return boxes


def _runs(characters: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of characters that follow each other, but for spaces and hyphens between them."""
    start = last = None
    for i in characters:
        if start is None or last is None:
            start = i
        elif i > last + 3:
            yield start, last
            start = i
        last = i
    if start is not None and last is not None:
        yield start, last


def _on_picture(page: Any, rect: Box) -> Box:
    """A rectangle of a page's own space as fractions of its picture, which is turned and cropped as the page says."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = rect
    corners = []
    for x, y in ((left, top), (right, bottom)):
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, _UNITS, _UNITS, 0, x, y, across, down)
        corners.append((min(1.0, max(0.0, across.value / _UNITS)), min(1.0, max(0.0, down.value / _UNITS))))
    (a, b), (c, d) = corners
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _same_line(a: Box, b: Box, turned: bool) -> bool:
    """Whether two boxes stand beside each other in a line, which runs down the picture of a page that is turned."""
    along, across = (1, 0) if turned else (0, 1)
    shared = [min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1)]
    height = min(a[across + 2] - a[across], b[across + 2] - b[across])
    return shared[across] > 0.5 * height and shared[along] > -height
