"""Amounts in text: numbers with a currency, a percent sign or a unit."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from localrag.entailment.lexicon import Quantity, chinese_quantities, english_quantities
from localrag.text.sentences import STOP_WORDS, is_cjk

MAX_DAY, FIRST_YEAR, LAST_YEAR = 31, 1000, 2100  # a bare number up to the first or between the others may belong to a date
MIN_WORD_CHARS = 3

# A currency by its ISO code or a sign that the quantities do not know, before or behind the number.
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|RMB|AUD|CAD|INR|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|KRW|ZAR|NZD|SGD|HKD|Fr|Rs|kr|R\\$|₹|₩"
_BEFORE = re.compile(rf"(?:{_CODES})\s?$")
_AFTER = re.compile(rf"\s?(?:{_CODES}|€|元|円)(?!\w)")
_GROUPED = re.compile(r"(?<!\d)(?:\d{1,3}(?:\.\d{3}){1,9}(?:,\d{1,4})?(?![\d.])|\d+,\d{1,2}(?![\d,.]))")  # 1.234,56 as in most of Europe
_IN_BRACKETS = re.compile(r"\((\d{1,6})\)")  # thirty (30) days
_APOSTROPHE = re.compile(r"(?<=\d)['’](?=\d{3})")  # 300'000
_UNIT_WORD = re.compile(r"[\s-]?[^\W\d_]{1,20}")  # behind a number whose unit is known by it
_WITH_UNIT = frozenset({"percent", "pound", "dollar", "euro", "km", "kg"})  # quantities that end behind their unit
_FIGURE = re.compile(r"\d++(?:[.,]\d++)*+")
_ORDINAL = "th"


class FoundAmount(NamedTuple):
    """An amount at characters `start` to `end` of a text, its value, and its unit: a currency, percent, a measure in short."""

    start: int
    end: int
    value: float
    unit: str


def find_amounts(text: str) -> Iterator[FoundAmount]:
    """Yield the numbers of a text that have a unit, in order. Numbers of dates and sections have none."""
    bracket_of = {m.start() + 2: m.start() for m in _IN_BRACKETS.finditer(text)}  # where its number stands below
    text = _APOSTROPHE.sub(",", _IN_BRACKETS.sub(r"  \1", text))  # of the same length
    continental = {m.start(): m for m in _GROUPED.finditer(text)}
    reached, written = 0, (0, 0, "")  # the number in words before one in brackets
    for q in (chinese_quantities if is_cjk(text) else english_quantities)(text):
        at = next((n for n in range(q.start, min(q.end, q.start + 4)) if n in continental), None)
        m = None if at is None else continental[at]
        end = max(q.end, m.end()) if m else q.end
        if _is_clock_time(text, q.start, end):
            continue
        before, after = _BEFORE.search(text, max(0, q.start - 5), q.start), _AFTER.match(text, end)
        unit = (before or after or [q.unit])[0].strip() or _counted_word(text, q, end)
        if q.start < reached or not unit or unit == _ORDINAL:
            written = q.start, q.end, q.value
            continue
        value = _to_float(m[0].replace(".", "").replace(",", ".") if m and unit != "percent" else q.value)
        if value is not None:
            behind = after or (None if before or unit in _WITH_UNIT else _UNIT_WORD.match(text, end))
            reached = behind.end() if behind else end
            start = before.start() if before else bracket_of.get(q.start, q.start)
            if start < q.start and written[1:] == (start - 1, q.value):
                start = written[0]
            yield FoundAmount(start, reached, value, unit)


def _is_clock_time(text: str, start: int, end: int) -> bool:
    is_minute = text[start - 1 : start] == ":" and text[start - 2 : start - 1].isdigit()
    return is_minute or (text[end : end + 1] == ":" and text[end + 1 : end + 2].isdigit())


def _counted_word(text: str, q: Quantity, end: int) -> str:
    """The word that a number counts, such as a currency that is not known; empty where it may be a year, a day or a number of a list."""
    word = _UNIT_WORD.match(text, end)
    unit = word[0].strip(" -") if word else ""
    if "." in q.value and unit[:1].isupper():
        return ""  # the number of a section, before its first word
    unit = unit.lower()
    is_small = q.value.isdecimal() and int(q.value) <= MAX_DAY
    is_year = (
        q.value.isdecimal()
        and FIRST_YEAR <= int(q.value) <= LAST_YEAR
        and "," not in text[q.start : end]
        and "." not in text[q.start : end]
    )
    return "" if len(unit) < MIN_WORD_CHARS or unit in STOP_WORDS or is_small or is_year else unit


def _to_float(written: str) -> float | None:
    try:
        return float(written)
    except ValueError:  # a range, a version
        return None


def figures_of(text: str) -> set[str]:
    """The numbers of a text as they are written: `1,200`, `3.5`."""
    return set(_FIGURE.findall(text))
