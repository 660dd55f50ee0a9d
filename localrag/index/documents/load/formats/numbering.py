"""The numbers Word puts before paragraphs: they are not in the text, but counted while it is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


@dataclass(frozen=True, slots=True)
class _Level:
    """How a level of a list is numbered: decimal, lowerLetter, bullet …, the text around it (`%1.%2`), the first number."""

    form: str
    text: str
    start: int


@dataclass(slots=True)
class Numbering:
    """The lists of a document and how far each has been counted."""

    levels: Mapping[str, Mapping[int, _Level]]
    lists: Mapping[str, str]  # the number a paragraph names → the list it counts in
    counted: dict[tuple[str, int], int] = field(default_factory=dict)

    def next(self, number: str, depth: int) -> str:
        """What stands before the next paragraph of a list at a depth: `2.1`, or `-` for a bullet."""
        key = self.lists.get(number, "")
        level = self.levels.get(key, {}).get(depth)
        if level is None or level.form in {"bullet", "none"} or not level.text:
            return "-"
        self.counted[key, depth] = self.counted.get((key, depth), level.start - 1) + 1
        for deeper in [d for k, d in self.counted if k == key and d > depth]:
            del self.counted[key, deeper]

        def shown(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            kind = self.levels[key].get(at, level)
            return written(self.counted.get((key, at), kind.start), kind.form)

        return re.sub(r"%([1-9])", shown, level.text).strip() or "-"


def written(number: int, form: str) -> str:
    """A number as Word's forms write it."""
    if form in {"lowerLetter", "upperLetter"}:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 % 50 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 0 < number < 400:
        text, left = "", number
        for value, sign in _ROMAN:
            text += sign * (left // value)
            left %= value
    else:
        text = str(number)
    return text.upper() if form.startswith("upper") else text


def read_numbering(root: Any) -> Numbering:
    """The lists that `numbering.xml` defines; without one, none."""
    if root is None:
        return Numbering({}, {})
    levels = {
        str(a.get(f"{_W}abstractNumId")): {_number(lvl.get(f"{_W}ilvl")): _level(lvl) for lvl in a.iter(f"{_W}lvl")}
        for a in root.iter(f"{_W}abstractNum")
    }
    lists = {str(n.get(f"{_W}numId")): _of(n, "abstractNumId") for n in root.iter(f"{_W}num")}
    return Numbering(levels, lists)


def _level(lvl: Any) -> _Level:
    return _Level(_of(lvl, "numFmt"), _of(lvl, "lvlText"), _number(_of(lvl, "start") or "1"))


def _of(element: Any, name: str) -> str:
    found = element.find(f"{_W}{name}")
    return "" if found is None else str(found.get(f"{_W}val") or "")


def _number(text: object) -> int:
    return int(str(text)) if str(text).isdecimal() and len(str(text)) < 7 else 0
