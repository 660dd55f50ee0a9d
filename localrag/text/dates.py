"""The day that a text of metadata gives, in the forms that files have."""

import re
from collections.abc import Iterable
from datetime import date

KEYS = ("date", "published", "created")  # of metadata that say of which day a document is, the first that is there

_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})(?:[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?)?(?![\d/])", re.ASCII)
_PACKED = re.compile(r"(?<!\d)(\d{4})(\d{2})(\d{2})(?:\d{6})?(?!\d)", re.ASCII)  # 20240301, as PDF has it
_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_NAMED = re.compile(r"(?:(\d{1,2})(?:st|nd|rd|th)?\.?\s+)?([A-Za-z]{3,9})\.?\s+(?:(\d{1,2})(?:st|nd|rd|th)?,?\s+)?(\d{4})(?!\d)", re.ASCII)


def day_of(text: str) -> str:
    """The day a text begins with or names, as YYYY-MM-DD; the first of the month or year where it names no day; empty where it names none.

    `3/4/2024` may be of March or of April, so it is no day.
    """
    for match in _PACKED.finditer(text):
        if found := _iso(match[1], match[2], match[3]):
            return found
    for match in _NAMED.finditer(text):
        month = _MONTHS.get(match[2][:3].lower())
        if month and (found := _iso(match[4], str(month), match[1] or match[3])):
            return found
    for match in _YEAR_FIRST.finditer(text):
        if not text[: match.start()].endswith(("/", ".")) and (found := _iso(*match.groups())):
            return found
    return ""


def _iso(year: str, month: str | None, day: str | None) -> str:
    try:
        return date(int(year), int(month or 1), int(day or 1)).isoformat()
    except ValueError:
        return ""


def metadata_day(metadata: Iterable[tuple[str, str]]) -> str:
    """The day a document is of by its metadata (name, value); empty where that does not say."""
    known = {name.lower(): value for name, value in metadata}
    return next((day for key in KEYS if (day := day_of(known.get(key, "")))), "")


def file_day(seconds: float) -> str:
    """The day here of a file's time, in seconds since 1970; of one that no calendar has, the first of 1970."""
    try:
        return date.fromtimestamp(seconds).isoformat()
    except (OverflowError, ValueError, OSError):
        return "1970-01-01"
