"""Dates in digits: 2019-03-12, 3/12/2019, 12.03.2019, years alone, and ranges of years."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from localrag.analysis.date_candidates import Candidate, candidate_of, is_taken
from localrag.analysis.date_words import SPACE
from localrag.analysis.day_patterns import DAY, months_pattern
from localrag.analysis.edtf import PartialDate
from localrag.analysis.year_contexts import PAIRING_WORDS, is_year, is_year_range

ORDER_CHARS = 100_000  # of a text that tell whether it writes the day or the month first
FIRST_SHORT_YEAR = 50  # 50 is 1950, 49 is 2049
_NO_MORE = r"(?!\d|[-/.]\d|-?[A-SU-Za-z_])"  # behind a date in digits, which a T and a time may follow
_YEAR_FIRST = re.compile(
    rf"(?<![\w/.:-])(?P<y>\d{{4}})(?P<sep>[-/])(?P<m>0?[1-9]|1[0-2])(?P=sep)(?P<d>0?[1-9]|[12]\d|3[01]){_NO_MORE}"
    rf"|(?<![\w/.:-])(?P<y2>\d{{4}})\.(?P<m2>0[1-9]|1[0-2])\.(?P<d2>0[1-9]|[12]\d|3[01]){_NO_MORE}"
)
_YEAR_MONTH = re.compile(r"(?<![\w/.:–-])(?P<y>[12]\d{3})-(?P<m>0[1-9]|1[0-2])(?![\w/–-]|[.,:]\d)")
_YEAR_LAST = re.compile(
    r"(?<![\w/.:,$€£#-])(?P<a>\d{1,2})(?P<sep>[-/.])(?:(?<=\.)\s)?(?P<b>\d{1,2})(?P=sep)(?:(?<=\.)\s)?"
    r"(?P<y>\d{4}|(?<=/)\d{2})(?![\w/-]|[.,]\d)"
)
_NO_DATE_AFTER = re.compile(
    r"(?:version|release|build|tag|v|v\.|section|chapter|kapitel|abschnitt|§|no\.|nr\.|python|ip)\s?$", re.IGNORECASE
)
_SEASON = re.compile(r"(?:\bthe|\bseason|\byear)\s$")
_LONE_YEAR = re.compile(r"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{3})(?![\w%°€£$]|[.,:]\d|[/–-]\d|-\w)(?!\s?[*+=×]|\s(?:to|bis|al?|à)\s\d)")
_YEAR_RANGE = re.compile(
    rf"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{{3}})(?P<to>(?:{SPACE})?[–—/-](?:{SPACE})?"
    rf"|{SPACE}(?:to|until|till|through|and|bis|und|al?|y|à|au|et){SPACE})(?P<y2>[12]\d{{3}}|\d{{2}})(?![\w–%°€£$]|-[\w]|[.,:]\d|/\d)"
)


def numeric_dates(text: str, language: str) -> Iterator[Candidate]:
    """The days and months in digits in a text."""
    for m in _YEAR_FIRST.finditer(text):
        year, month, day = (int(m[group] or m[f"{group}2"]) for group in "ymd")
        if year and not (m["y2"] and _is_numbered(m)) and (found := candidate_of(m, PartialDate(year, month, day))):
            yield found
    for m in _YEAR_MONTH.finditer(text):
        year, month = int(m["y"]), int(m["m"])
        is_season = month == (year + 1) % 100 and _SEASON.search(text[max(0, m.start() - 8) : m.start()])  # the 2003-04 season
        if not is_season and (found := candidate_of(m, PartialDate(year, month))):
            yield found
    yield from _year_last_dates([m for m in _YEAR_LAST.finditer(text) if not _is_numbered(m)], text, language)


def _is_numbered(m: re.Match[str]) -> bool:
    """Whether the word before a number says that it is that of a version or a section."""
    return _NO_DATE_AFTER.search(m.string[max(0, m.start() - 10) : m.start()]) is not None


def _year_last_dates(matches: Sequence[re.Match[str]], text: str, language: str) -> Iterator[Candidate]:
    """3/12/2019: the order of day and month is that of the text's other dates, else that of its language.

    An English text without a telling date leaves both possible: the date is then known to the year.
    """
    is_day_first = _is_day_first(matches, text, language)
    for m in matches:
        a, b, year = int(m["a"]), int(m["b"]), int(m["y"])
        if len(m["y"]) == 2:
            year += 1900 if year >= FIRST_SHORT_YEAR else 2000
        if not (a and b and year):
            continue
        if m["sep"] == "." or is_day_first or a > 12:
            date = PartialDate(year, b, a)
        elif is_day_first is False or b > 12:
            date = PartialDate(year, a, b)
        else:
            date = PartialDate(year, a, b) if a == b else PartialDate(year)
        if found := candidate_of(m, date):
            yield found


def _is_day_first(matches: Iterable[re.Match[str]], text: str, language: str) -> bool | None:
    """Whether numeric dates of a text give the day first; None if it does not say."""
    votes = Counter(int(m["a"]) > 12 for m in matches if (int(m["a"]) > 12) != (int(m["b"]) > 12))
    if votes:
        return votes[True] > votes[False] if votes[True] != votes[False] else None
    if language != "en":
        return True
    months, beginning = months_pattern(["en"])[0], text[:ORDER_CHARS]
    day_first = len(re.findall(rf"\b{DAY}\s(?:{months})\b", beginning))
    month_first = len(re.findall(rf"\b(?:{months})\s{DAY}\b", beginning))
    return None if day_first == month_first else day_first > month_first


def years(text: str, language: str, others: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
    """Years alone, and ranges of them, where the text around them says that they are years. `others`: spans of other dates, in order."""
    ranges = [found for m in _YEAR_RANGE.finditer(text) if (found := _year_range(m, language)) and not is_taken(found, others)]
    yield from ranges
    taken = sorted([*others, *((c.start, c.end) for c in ranges)])
    before = None
    for m in _LONE_YEAR.finditer(text):
        found = Candidate(m.start(), m.end(), PartialDate(int(m["y"])), PartialDate(int(m["y"])))
        if not is_taken(found, taken) and is_year(text, m.start(), m.end(), language, before):
            before = m.end()
            yield found


def _year_range(m: re.Match[str], language: str) -> Candidate | None:
    """Two numbers as a range of years, or as one of other things; None where each may be a year by itself."""
    first = int(m["y"])
    last = int(m["y2"]) if len(m["y2"]) == 4 else first - first % 100 + int(m["y2"])
    is_range = first < last and is_year_range(m.string, m, first, last, language)
    if first >= last or (not is_range and m["to"].strip() in PAIRING_WORDS):
        return None
    return Candidate(m.start(), m.end(), PartialDate(first), PartialDate(last), is_possible=is_range)
