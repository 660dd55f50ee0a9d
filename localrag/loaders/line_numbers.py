"""The numbers of lines in transcripts, bills and manuscripts: 1 to 25 on every page, or throughout."""

import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"\s*(\d{1,5})(?:\s+(.*))?")
_MIN_COUNTED_SHARE = 0.6  # of the lines
_MIN_CONTINUED_SHARE = 0.1  # of the numbered lines, that go on within a sentence: items of a list do not
_MIN_LINE_CHARS = 20  # on average


def without_line_numbers(lines: Sequence[str]) -> list[str] | None:
    """The lines of a text without the numbers that count them, and without blank lines that have no number; None if none are counted."""
    filled = [line.strip() for line in lines if line.strip()]
    matches = {n: match for n, line in enumerate(filled) if (match := _NUMBERED.fullmatch(line))}
    offsets = {n: int(match[1]) - n for n, match in matches.items()}
    texts = {n: matches[n][2] or "" for n, offset in offsets.items() if offset in (offsets.get(n - 1), offsets.get(n + 1))}
    stripped = [texts.get(n, line) for n, line in enumerate(filled)]
    n_continued = sum(stripped[n - 1][-1:].isalnum() and stripped[n][:1].isalpha() and not stripped[n][0].isupper() for n in texts if n)
    is_counted = len(texts) > _MIN_COUNTED_SHARE * len(filled) and n_continued >= _MIN_CONTINUED_SHARE * len(texts)
    return stripped if is_counted and sum(map(len, stripped)) >= _MIN_LINE_CHARS * len(stripped) else None
