"""The lines of a page joined to paragraphs, by where they stand and what they say."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from localrag.index.documents.load.formats.pages import ENDED, HYPHEN, ITEM, Line, mended
from localrag.text.plain import CJK

_NO_SPACE = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


def paragraphs(lines: Sequence[Line]) -> Iterator[str]:
    """Paragraphs, each on a line of its own, a blank line between them; rows of a table keep close."""
    steps = [a.bottom - b.bottom for a, b in pairwise(lines) if a.bottom > b.bottom]
    step = median(steps) if steps else 0.0
    whole = " ".join(line.text for line in lines)
    text = ""
    for n, line in enumerate(lines):
        if n and _goes_on(lines, n, step):
            text = mended(text, line.text, whole) if text.endswith(HYPHEN) else text + _between(text, line.text) + line.text
        else:
            if text:
                yield text if lines[n - 1].is_row and line.is_row else f"{text}\n"
            text = line.text
    if text:
        yield f"{text.replace(HYPHEN, '-')}\n"


def _between(text: str, following: str) -> str:
    """What stands between two lines of a paragraph: Chinese and Japanese have no spaces."""
    return "" if _NO_SPACE.match(text[-1:]) and _NO_SPACE.match(following) else " "


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
