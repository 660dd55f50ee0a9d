"""What a page read by OCR says: its legible words as lines, or why nothing of it is taken."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any

from localrag.index.documents.load.content import described
from localrag.index.documents.load.formats.pages import CELL, HYPHEN, Line
from localrag.index.documents.load.tesseract import DOUBTFUL, confidence
from localrag.text.plain import CJK

SURE = 40  # a word of less confidence is a stain, a line of a drawing, a signature
ILLEGIBLE = "no legible text"
_WIDE = 2.0  # times the height of a line: a gap between the cells of a row
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐¬]$")
_NO_SPACE = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")
Word = Sequence[Any]


def why_unread(page: Mapping[str, Any]) -> str:
    """Why nothing of a page is taken; empty where something is, or where it is blank."""
    if "why" in page:
        return str(page["why"])
    if page.get("blank"):
        return ""
    return ILLEGIBLE if confidence(dict(page)) < DOUBTFUL or not legible(page) else ""


def legible(page: Mapping[str, Any]) -> list[Word]:
    """The words of a page that are taken."""
    return [word for word in page["words"] if word[5] >= SURE]


def lines(page: Mapping[str, Any]) -> list[Line]:
    """The lines of a page in reading order, as those of a PDF: heights are counted from the foot."""
    if why_unread(page) or page.get("blank"):
        return []
    found = [list(words) for _, words in groupby(legible(page), key=lambda word: word[6])]
    usual = median(max(w[4] for w in line) - min(w[2] for w in line) for line in found)
    made = [_line(line, page["height"], usual) for line in found]
    divided = [bool(_HYPHEN.search(a.text)) and b.text[:1].islower() for a, b in pairwise(made)] + [False]
    return [a._replace(text=_HYPHEN.sub(HYPHEN, a.text)) if goes_on else a for a, goes_on in zip(made, divided, strict=True)]


def _line(words: Sequence[Word], foot: float, usual: float) -> Line:
    """A line; one of about the usual height is as high as all: a word without long letters is no smaller print."""
    top, bottom = min(w[2] for w in words), max(w[4] for w in words)
    height = float(bottom - top)
    if 0.6 * usual < height < 1.5 * usual:
        middle, height = (top + bottom) / 2, usual
        top, bottom = middle - usual / 2, middle + usual / 2
    text = "".join(_spaced(words, height))
    return Line(text, words[0][1], foot - bottom, max(w[3] for w in words), foot - top, CELL in text)


def _spaced(words: Sequence[Word], height: float) -> Iterator[str]:
    yield words[0][0]
    for before, word in pairwise(words):
        close = _NO_SPACE.match(before[0][-1]) and _NO_SPACE.match(word[0][0])
        yield CELL if word[1] - before[3] > _WIDE * height else "" if close else " "
        yield word[0]


def told(pages: Mapping[int, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Metadata: who read the pages and how surely; those that were not taken, each with the reason."""
    taken = {n: page for n, page in pages.items() if not why_unread(page) and not page.get("blank")}
    words = [word for page in taken.values() for word in page["words"]]
    sure = confidence({"words": words})
    count = f"{len(taken)} page{'s' * (len(taken) != 1)}"
    by = sorted({str(page.get("by", "")) for page in taken.values()})
    read = f"{', '.join(by)}; {count}, mean confidence of words {sure:.0f} %" if taken else ""
    return described(ocr=read) + not_read({n: why for n, page in pages.items() if (why := why_unread(page))})


def not_read(pages: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    """Metadata: pages of which nothing is taken, with the reasons."""
    return described(**{"not read": "; ".join(f"page {n}: {why}" for n, why in sorted(pages.items()))})
