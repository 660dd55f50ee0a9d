"""What looks like a name and is none: pronouns, weekdays, units, numbers, page furniture and licence texts."""

import re
from collections import Counter
from collections.abc import Iterator

from localrag.text.plain import FUNCTION_WORDS, stretches

_NOISE = frozenset(
    """
    mon tue tues wed thu thur thurs fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec gmt est edt pst pdt cst utc am pm ad
    bc bce ce vol pp ed eds isbn issn doi fig figs tab eq http https www com org net pdf nbsp
    他 她 它 我 你 他们 她们 它们 我们 你们 自己 咱们 大家 人家 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天 周一 周二 周三
    周四 周五 周六 周日 今天 明天 昨天
    """.split()
)
_LICENCE = re.compile(
    r"all rights reserved|copyright|©|licen[cs]e|warrant(?:y|ies)|liabilit|permission is hereby|terms of use|project gutenberg|trademark",
    re.IGNORECASE,
)
_MARK = re.compile(r"^\*\*\* ?(START|END) OF (?:THE|THIS) PROJECT GUTENBERG", re.MULTILINE)
_REPEATED = 3  # times a line stands in a document before it is taken for a page's head or foot
_LONGEST_LINE = 100
_AT_ONCE = 1_000_000  # characters whose lines are looked at together
_LOOKED_IN = 100_000  # characters of licences that the ends of chunks are looked for in: more than any licence has


def is_noise(name: str) -> bool:
    """Whether a name is a pronoun, weekday, unit or bare number, or holds no letter at all."""
    low = name.lstrip(" ,;:'’\"").rstrip(" .,;:'’\"").lower()  # .NET is none
    return low in FUNCTION_WORDS or low in _NOISE or not any(c.isalpha() for c in low) or low.isdigit()


class Furniture:
    """The lines of a document that carry no content: heads and feet repeated on every page, licence texts."""

    def __init__(self, text: str) -> None:
        shapes = Counter(_shape(line) for a, b in stretches(text, _AT_ONCE) for line in text[a:b].splitlines())
        self._shapes = {s for s, n in shapes.items() if n >= _REPEATED and any(c.isalpha() for c in s)}
        licences = [*_outside(text), *(p for p in _paragraphs(text) if len(_LICENCE.findall(p)) > 1)]
        self._lines = dict.fromkeys(line.strip() for part in licences for line in part.splitlines() if line.strip())
        self._joined = "\n".join(self._lines)[:_LOOKED_IN]

    def blank(self, text: str) -> str:
        """`text`, a stretch of the document, with such lines turned into spaces: as long as before."""
        return "".join(self._blank(text[a:b]) for a, b in stretches(text, _AT_ONCE))

    def _blank(self, text: str) -> str:
        lines = text.splitlines(keepends=True)
        cut = {0, len(lines) - 1}  # a chunk begins and ends within lines
        gone = [self._is_furniture(line) or (n in cut and self._is_part(line)) for n, line in enumerate(lines)]
        return "".join(re.sub(r"[^\n]", " ", line) if g else line for line, g in zip(lines, gone, strict=True))

    def _is_furniture(self, line: str) -> bool:
        return line.strip() in self._lines or _shape(line) in self._shapes

    def _is_part(self, line: str) -> bool:
        part = line.strip()
        return len(part) > 10 and part in self._joined


def _paragraphs(text: str) -> Iterator[str]:
    start = 0
    for gap in re.finditer(r"\n\s*\n", text):
        yield text[start : gap.start()]
        start = gap.end()
    yield text[start:]


def _outside(text: str) -> Iterator[str]:
    """What stands before, between and after the books of a Project Gutenberg file, which may hold several."""
    marks = list(_MARK.finditer(text))
    start = 0 if marks and marks[0][1] == "START" else None
    for mark in marks:
        if mark[1] == "START" and start is not None:
            yield text[start : mark.end()]
            start = None
        elif mark[1] == "END" and start is None:
            start = mark.start()
    if start is not None:
        yield text[start:]


def _shape(line: str) -> str:
    """A line with its numbers made alike, Page 3 of 10 and Page 4 of 10 are one; empty for a sentence or what is too long for a foot."""
    line = line.strip()
    return "" if len(line) > _LONGEST_LINE or line.endswith((".", "!", "?", "。", "！", "？")) else re.sub(r"\d+", "0", line)
