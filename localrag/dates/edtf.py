"""Dates as the Extended Date/Time Format writes them (EDTF, ISO 8601-2): `1974-03`, `196X`, `1850~`, `1914/1918`, `../1900`.

Of the format these parts are used: days, months and years, also before the year 1; seasons (`1974-22` is summer) and quarters (`2019-35`
is the third); decades (`196X`) and centuries (`18XX`); `~` behind a date that is only about right; intervals, also with an open end.
"""

import re
from calendar import monthrange
from dataclasses import dataclass

MONTH_NAMES = "January February March April May June July August September October November December".split()
SEASON_NAMES = {21: "spring", 22: "summer", 23: "autumn", 24: "winter"}
FIRST_QUARTER = 33  # EDTF's month of the first quarter
Day = tuple[int, int, int]
_DATE = re.compile(r"(-?\d{4}|\d{3}X|\d{2}XX)(?:-(\d\d)(?:-(\d\d))?)?(~?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A day, month or year. `month` is also a season (21 to 24) or a quarter (33 to 36); 0 is not given, as `day` 0.

    `years` is how many begin with `year`: 1, a decade's 10 or a century's 100.
    """

    year: int
    month: int = 0
    day: int = 0
    years: int = 1

    def __str__(self) -> str:
        year = f"{'-' if self.year < 0 else ''}{abs(self.year):04d}"
        shown = year if self.years == 1 else f"{year[:-1]}X" if self.years == 10 else f"{year[:-2]}XX"
        return "-".join([shown, *(f"{part:02d}" for part in (self.month, self.day) if part)])

    @property
    def first_day(self) -> Day:
        """Its first day; of winter that of December before, where most of the winter that people call by a year begins."""
        if self.month > 12:
            year, month = self._first_month
            return year, month, 1
        return self.year, self.month or 1, self.day or 1

    @property
    def last_day(self) -> Day:
        """Its last day."""
        if self.month > 12:
            year, month = self._first_month
            return _end_of_month(year + (month + 2 > 12), (month + 1) % 12 + 1)
        if self.day:
            return self.year, self.month, self.day
        return _end_of_month(self.year, self.month) if self.month else (self.year + self.years - 1, 12, 31)

    @property
    def _first_month(self) -> tuple[int, int]:
        if self.month >= FIRST_QUARTER:
            return self.year, 3 * (self.month - FIRST_QUARTER) + 1
        return (self.year, 3 * (self.month - 20)) if self.month < 24 else (self.year, 12)

    @property
    def text(self) -> str:
        """The date as people write it, in English: `12 March 2019`, `the 1960s`, `the 19th century`, `44 BC`."""
        if self.years == 100:
            n = self.year // 100 + 1
            suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
            return f"the {n}{suffix} century"
        year = f"the {self.year}s" if self.years == 10 else f"{1 - self.year} BC" if self.year < 1 else f"AD {self.year}"
        year = str(self.year) if self.years == 1 and self.year > 99 else year
        if not self.month:
            return year
        if self.month > 12:
            return f"{SEASON_NAMES.get(self.month) or f'quarter {self.month - FIRST_QUARTER + 1} of'} {year}"
        return " ".join([str(self.day)] * bool(self.day) + [MONTH_NAMES[self.month - 1], year])

    @property
    def is_possible(self) -> bool:
        """Whether the calendar has it: no 31 February, no year 0 in numerals."""
        if not -9999 <= self.year <= 9999 or (self.day and not 1 <= self.month <= 12):
            return False
        return not self.day or 1 <= self.day <= _end_of_month(self.year, self.month)[2]


def _end_of_month(year: int, month: int) -> Day:
    return year, month, monthrange(2000 + year % 400, month)[1]  # leap years repeat; the library knows none before the year 1


@dataclass(frozen=True, slots=True)
class DateRange:
    """From the beginning of `start` to the end of `end`; None is open. For a single date both are the same. `is_about`: not exact."""

    start: PartialDate | None
    end: PartialDate | None
    is_about: bool = False

    def __str__(self) -> str:
        mark = "~" * self.is_about
        if self.start == self.end:
            return f"{self.start}{mark}"
        return "/".join(f"{date}{mark}" if date else ".." for date in (self.start, self.end))

    @property
    def first_day(self) -> Day:
        """Its first day; where the beginning is open, the first day of its end."""
        date = self.start or self.end
        assert date is not None
        return date.first_day

    @property
    def last_day(self) -> Day:
        """Its last day; where the end is open, the last day of its beginning."""
        date = self.end or self.start
        assert date is not None
        return date.last_day

    @property
    def text(self) -> str:
        """The range as people write it, in English: `about 1850`, `1914 to 1918`, `until 1900`, `from 1967 on`."""
        about = "about " * self.is_about
        if self.start is None or self.end is None:
            return f"until {about}{self.end.text}" if self.end else f"from {about}{self.start.text} on" if self.start else ""
        return about + self.start.text if self.start == self.end else f"{about}{self.start.text} to {self.end.text}"


def parse_edtf(text: str) -> DateRange | None:
    """The dates that this module writes, read back; None for anything else."""
    ends = text.split("/")
    if len(ends) > 2:
        return None
    matches = [_DATE.fullmatch(end) for end in ends]
    if any(match is None and end != ".." for match, end in zip(matches, ends, strict=True)) or not any(matches):
        return None
    dates = [_partial(match) if match else None for match in matches]
    return DateRange(dates[0], dates[-1], any(match is not None and match[4] == "~" for match in matches))


def _partial(match: re.Match[str]) -> PartialDate:
    year = match[1]
    return PartialDate(int(year.replace("X", "0")), int(match[2] or 0), int(match[3] or 0), 10 ** year.count("X"))
