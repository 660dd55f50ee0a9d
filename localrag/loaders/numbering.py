"""Numbers of list items and headings, counted while a document is read: neither Word nor OpenDocument stores them as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localrag.loaders.content import number_in

WORD_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_CHINESE_FORMS = frozenset(
    {"chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting", "taiwaneseCountingThousand"}
)
_MAX_START = 1_000_000
MAX_DEPTH = 9  # the deepest list level, counted from 0


@dataclass(frozen=True, slots=True)
class ListLevel:
    """The numbering of a list level: format (decimal, lowerLetter, bullet …), text template (`%1.%2`), first number.

    `restart`: the level (from 1) after which it starts again; 0 never, None after any higher one. `is_legal`: all numbers are decimal.
    """

    form: str
    text: str
    start: int = 1
    restart: int | None = None
    is_legal: bool = False


@dataclass(slots=True)
class ListNumbering:
    """The lists of a document and their counters. Lists of one definition go on counting, unless one of them sets its start."""

    levels: dict[str, Mapping[int, ListLevel]]  # definition → depth → level
    lists: dict[str, str]  # id of a list → its definition
    own_levels: Mapping[str, Mapping[int, ListLevel]] = field(default_factory=dict)  # list → levels that differ from its definition's
    starts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # list → depth → first number
    styles: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # paragraph style → definition and depth
    counted: dict[tuple[str, int], int] = field(default_factory=dict)
    begun: set[tuple[str, int]] = field(default_factory=set)  # lists and depths with a start of their own that has been used

    def next(self, number: str, depth: int) -> str:
        """The number before the next paragraph of a list at a depth: `2.1`, or `-` for a bullet."""
        key = self.lists.get(number, "")
        level = self._level(number, depth)
        if level is None or level.form in {"bullet", "none"} or not level.text:
            return "-"
        start = self.starts.get(number, {}).get(depth)
        if start is not None and (number, depth) not in self.begun:
            self.begun.add((number, depth))
            self.counted[key, depth] = start - 1
        self.counted[key, depth] = self.counted.get((key, depth), (level.start if start is None else start) - 1) + 1
        for deeper in range(depth + 1, MAX_DEPTH + 1):
            if (key, deeper) in self.counted and self._restarts(number, deeper, depth):
                del self.counted[key, deeper]

        def format_level(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            kind = self._level(number, index) or level
            return format_number(self.counted.get((key, index), kind.start), "decimal" if level.is_legal else kind.form)

        return re.sub(r"%([1-9])", format_level, level.text).strip() or "-"

    def set_next(self, number: str, depth: int, value: int) -> None:
        """Let the next paragraph of a list at a depth have the number `value`."""
        self.counted[self.lists.get(number, ""), depth] = value - 1

    def _level(self, number: str, depth: int) -> ListLevel | None:
        return self.own_levels.get(number, {}).get(depth) or self.levels.get(self.lists.get(number, ""), {}).get(depth)

    def _restarts(self, number: str, depth: int, after: int) -> bool:
        level = self._level(number, depth)
        return level is None or level.restart is None or after < level.restart


def format_number(number: int, form: str) -> str:
    """A number in one of Word's numbering formats."""
    if form in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 % 50 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        text = _roman(number)
    elif form == "decimalZero":
        text = f"{number:02}"
    elif form == "ordinal":
        text = f"{number}{'th' if number % 100 in {11, 12, 13} else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    elif form in _CHINESE_FORMS and 0 < number < 100:
        text = _chinese(number)
    elif form == "decimalEnclosedCircle" and 0 < number < 21:
        text = chr(ord("①") + number - 1)
    else:
        text = str(number)
    return text.upper() if form.startswith("upper") else text


def _roman(number: int) -> str:
    text, remaining = "", number
    for value, sign in _ROMAN:
        text += sign * (remaining // value)
        remaining %= value
    return text


def _chinese(number: int) -> str:
    digits = "一二三四五六七八九"
    tens, ones = divmod(number, 10)
    return (digits[tens - 1] if tens > 1 else "") + "十" * bool(tens) + (digits[ones - 1] if ones else "")


def read_numbering(root: Any) -> ListNumbering:
    """The lists defined in Word's `numbering.xml`; empty without it."""
    if root is None:
        return ListNumbering({}, {})
    definitions = {str(a.get(f"{WORD_NS}abstractNumId")): a for a in root.iter(f"{WORD_NS}abstractNum")}
    levels: dict[str, Mapping[int, ListLevel]] = {key: _levels(a) for key, a in definitions.items()}
    styled = {style: key for key, a in definitions.items() if (style := word_value(a.find(f"{WORD_NS}styleLink")))}
    linked = {key: styled.get(word_value(a.find(f"{WORD_NS}numStyleLink")), key) for key, a in definitions.items()}
    lists: dict[str, str] = {}
    own_levels: dict[str, dict[int, ListLevel]] = {}
    starts: dict[str, dict[int, int]] = {}
    for num in root.iter(f"{WORD_NS}num"):
        number = str(num.get(f"{WORD_NS}numId"))
        key = word_value(num.find(f"{WORD_NS}abstractNumId"))
        lists[number] = linked.get(key, key)
        for override in num.iter(f"{WORD_NS}lvlOverride"):
            depth = number_in(str(override.get(f"{WORD_NS}ilvl")))
            if (start := override.find(f"{WORD_NS}startOverride")) is not None:
                starts.setdefault(number, {})[depth] = _start_in(word_value(start))
            if (level := override.find(f"{WORD_NS}lvl")) is not None:
                own_levels.setdefault(number, {})[depth] = _level(level)
                starts.setdefault(number, {}).setdefault(depth, own_levels[number][depth].start)
    styles = {
        style: (key, number_in(str(lvl.get(f"{WORD_NS}ilvl"))))
        for key, a in definitions.items()
        for lvl in a.iter(f"{WORD_NS}lvl")
        if (style := word_value(lvl.find(f"{WORD_NS}pStyle")))
    }
    return ListNumbering(levels, lists, own_levels, starts, styles)


def _levels(definition: Any) -> dict[int, ListLevel]:
    return {number_in(str(lvl.get(f"{WORD_NS}ilvl"))): _level(lvl) for lvl in definition.iter(f"{WORD_NS}lvl")}


def _level(lvl: Any) -> ListLevel:
    form = lvl.find(f"{WORD_NS}numFmt")
    if form is None:  # in a choice of formats, of which the second is for older programs
        form = next(lvl.iter(f"{WORD_NS}numFmt"), None)
    restart = lvl.find(f"{WORD_NS}lvlRestart")
    legal = lvl.find(f"{WORD_NS}isLgl")
    return ListLevel(
        word_value(form) or "decimal",
        word_value(lvl.find(f"{WORD_NS}lvlText")),
        _start_in(word_value(lvl.find(f"{WORD_NS}start")) or "1"),
        None if restart is None else number_in(word_value(restart)),
        legal is not None and is_on(legal),
    )


def _start_in(text: str) -> int:
    return min(number_in(text), _MAX_START)


def word_value(element: Any) -> str:
    """The `w:val` of an element; empty if either is missing."""
    return "" if element is None else str(element.get(f"{WORD_NS}val") or "")


def is_on(element: Any) -> bool:
    """Whether a property of Word is set: the element is there, and its `w:val` does not say otherwise."""
    return element is not None and word_value(element).lower() not in {"0", "false", "off", "none"}
