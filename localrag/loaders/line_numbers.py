"""The numbers of lines in transcripts, bills and manuscripts: 1 to 25 on every page, throughout, or at each fifth line."""

import re
from collections.abc import Sequence
from itertools import groupby

_NUMBERED = re.compile(r"\s*(\d{1,5})(?:[\s·|]+(.*))?", re.DOTALL)
_MIN_NUMBERED = 5  # lines
_MIN_RUN = 3  # numbered lines that count on
_MIN_COUNTED_SHARE = 0.6  # of the lines
_MIN_CONTINUED_SHARE = 0.1  # of the numbered lines, that go on within a sentence: items of a list do not
_MIN_LINE_CHARS = 20  # on average


def without_line_numbers(lines: Sequence[str]) -> list[str] | None:
    """The lines of a text without the numbers that count them, and without blank lines that have no number; None if none are counted."""
    filled = [line.strip() for line in lines if line.strip()]
    matches = [(n, match) for n, line in enumerate(filled) if (match := _NUMBERED.fullmatch(line))]
    texts: dict[int, str] = {}
    n_counted = 0
    for _, group in groupby(matches, key=lambda item: int(item[1][1]) - item[0]):  # numbers that grow with the lines
        run = list(group)
        if len(run) >= _MIN_RUN:
            n_counted += run[-1][0] - run[0][0] + 1
            texts |= {n: match[2] or "" for n, match in run}
    if len(texts) < _MIN_NUMBERED or n_counted < _MIN_COUNTED_SHARE * len(filled):
        return None
    stripped = [texts.get(n, line) for n, line in enumerate(filled)]
    n_continued = sum(_continues(stripped[n - 1], stripped[n]) for n in texts if n)
    is_prose = sum(map(len, stripped)) >= _MIN_LINE_CHARS * len(stripped)
    return stripped if is_prose and n_continued >= _MIN_CONTINUED_SHARE * len(texts) else None


def _continues(before: str, line: str) -> bool:
    """Whether a line goes on with the sentence of the line before."""
    is_small = line[:1].isalpha() and not line[0].isupper()
    return is_small and before[-1:].isalnum()
