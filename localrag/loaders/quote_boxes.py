"""Boxes of a quote on the pages of PDFs and images. Runs in the sandboxed parser process, because the files are untrusted."""

import ctypes
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from localrag.loaders.content import OpenFile
from localrag.loaders.page_images import is_picture
from localrag.loaders.pdf import legible_words

Box = tuple[float, float, float, float]  # left, top, right, bottom
MIN_QUOTE_CHARS = 8  # characters of a partial match, if the quote is not found in one piece
_UNITS = 100_000  # PDFium returns positions in whole pixels: render size that makes them precise
# Ignored characters: hyphens that may end a line, PDFium's codes for them, the separator of a table row's cells, signs of marks, accents.
_LEFT_OUT = frozenset("-\u00ad\u2010\u2011\x02\ufffe\ufeff\u00b7~=^`ˆˇˉ")
_TARGET = re.compile(r" \((?:\w+:|www\.|[^\s()@]+@)[^\s()]+\)")  # of a link, which the page does not show


def find_quote_boxes(
    file: OpenFile, pages: Sequence[int], quote: str, before: float, read: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """The boxes of a quote on consecutive pages, as fractions of the page from the top left.

    `before`: the share of these pages' text before the quote, 0 to 1; of several matches the nearest is taken. `read`: the OCR pages by
    number.
    """
    shown = [_ocr_page(n, read[n]) for n in pages if n in read]
    if len(shown) < len(pages) and not is_picture(file):
        import pypdfium2

        document = pypdfium2.PdfDocument(file.read_bytes())
        shown += [_pdf_page(n, document[n - 1]) for n in pages if n not in read and 0 < n <= len(document)]
        shown.sort(key=lambda sheet: sheet.number)
    letters = [(n, i, letter) for n, sheet in enumerate(shown) for i, letter in sheet.letters]
    wanted = "".join(letter for _, letter in _comparable_characters(enumerate(_TARGET.sub("", quote))))
    matched = [letters[i] for i in _aligned("".join(letter for *_, letter in letters), wanted, before)]
    found = [(sheet, sheet.boxes([i for k, i, _ in matched if k == n])) for n, sheet in enumerate(shown)]
    return {
        "pages": [
            {"n": sheet.number, "width": sheet.width, "height": sheet.height, "boxes": boxes}
            for sheet, boxes in found
            if boxes or len(shown) == 1
        ]
    }


class _Page(NamedTuple):
    """A page: its letters, each with the index of its character or word, and a function from indices to boxes."""

    number: int
    width: float
    height: float
    letters: list[tuple[int, str]]
    boxes: Callable[[Sequence[int]], list[Box]]


def _pdf_page(number: int, page: Any) -> _Page:
    import pypdfium2.raw as pdfium

    text = page.get_textpage()
    codes = (pdfium.FPDFText_GetUnicode(text, i) for i in range(text.count_chars()))
    letters = list(_comparable_characters((i, chr(code)) for i, code in enumerate(codes) if 0 < code < 0x110000))
    return _Page(number, page.get_width(), page.get_height(), letters, lambda indices: _boxes(page, text, indices))


def _ocr_page(number: int, page: Mapping[str, Any]) -> _Page:
    words = legible_words(page)
    width, height = max(1, page["width"]), max(1, page["height"])

    def boxes(indices: Sequence[int]) -> list[Box]:
        lines = groupby(sorted(set(indices)), key=lambda i: words[i][6])
        cited = (zip(*(words[i][1:5] for i in numbers), strict=True) for _, numbers in lines)
        return [(min(left) / width, min(top) / height, max(right) / width, max(bottom) / height) for left, top, right, bottom in cited]

    letters = list(_comparable_characters((i, c) for i, word in enumerate(words) for c in word[0]))
    return _Page(number, width, height, letters, boxes)


def _comparable_characters(characters: Any) -> Iterator[tuple[int, str]]:
    """Characters without whitespace, hyphens and accents; ligatures and full-width forms as plain letters."""
    for i, character in characters:
        if character not in _LEFT_OUT:
            for letter in unicodedata.normalize("NFKD", character):
                if not (letter.isspace() or unicodedata.combining(letter)):
                    yield i, letter


def _aligned(text: str, wanted: str, before: float) -> list[int]:
    """The positions of `wanted` in a text: in one piece, or in consecutive pieces (around a page footer, for example)."""
    if not wanted:
        return []
    expected = int(before * len(text))
    match = _nearest(text, wanted, expected)
    if match >= 0:
        return list(range(match, match + len(wanted)))
    positions: list[int] = []
    position = n_matched = 0
    while len(wanted) - n_matched >= MIN_QUOTE_CHARS:
        start = text.find(wanted[n_matched : n_matched + MIN_QUOTE_CHARS], position)
        if start < 0:
            n_matched += 1
            continue
        length = MIN_QUOTE_CHARS
        while n_matched + length < len(wanted) and start + length < len(text) and text[start + length] == wanted[n_matched + length]:
            length += 1
        positions += range(start, start + length)
        position, n_matched = start + length, n_matched + length
    return positions if 2 * len(positions) > len(wanted) else []


def _nearest(text: str, wanted: str, expected: int) -> int:
    after = text.find(wanted, expected)
    before = text.rfind(wanted, 0, expected + len(wanted))
    matches = [position for position in (after, before) if position >= 0]
    return min(matches, key=lambda position: abs(position - expected), default=-1)


def _boxes(page: Any, textpage: Any, characters: Sequence[int]) -> list[Box]:
    """A box for each line, or for each font in it, with some of the characters."""
    rects = (
        textpage.get_rect(n) for first, last in _character_runs(characters) for n in range(textpage.count_rects(first, last - first + 1))
    )
    boxes = (_on_picture(page, rect) for rect in rects)
    return [box for box in boxes if box[0] < box[2] and box[1] < box[3]]  # the others are outside the cropped page


def _character_runs(characters: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of consecutive characters, allowing whitespace and hyphens between them."""
    starts = [n for n, i in enumerate(characters) if not n or i > characters[n - 1] + 3]
    return ((characters[start], characters[end - 1]) for start, end in pairwise([*starts, len(characters)]))


def _on_picture(page: Any, rect: Box) -> Box:
    """A rectangle in page coordinates as fractions of the rendered page, with its rotation and crop."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = rect
    corners = []
    for x, y in ((left, top), (right, bottom)):
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, _UNITS, _UNITS, 0, x, y, across, down)
        corners.append((min(1.0, max(0.0, across.value / _UNITS)), min(1.0, max(0.0, down.value / _UNITS))))
    (a, b), (c, d) = corners
    return min(a, c), min(b, d), max(a, c), max(b, d)
