"""Dates as the Extended Date/Time Format writes them (EDTF, ISO 8601-2): `1974-03`, `196X`, `1850~`, `1914/1918`, `../1900`.

Of the format these parts are used: days, months and years; quarters (`2019-35` is the third); decades (`196X`); `~` behind a date that is
only about right; intervals, also with an open end.
"""

import re
from calendar import monthrange
from dataclasses import dataclass

MONTH_NAMES = "January February March April May June July August September October November December".split()
FIRST_QUARTER = 33  # EDTF's month of the first quarter
Day = tuple[int, int, int]
_DATE = re.compile(r"(\d{4}|\d{3}X)(?:-(\d\d)(?:-(\d\d))?)?(~?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A day, month or year. `month` is also a quarter (33 to 36); 0 is not given, as `day` 0.

    `years` is how many begin with `year`: 1, or a decade's 10.
    """

    year: int
    month: int = 0
    day: int = 0
    years: int = 1

    def __str__(self) -> str:
        year = f"{self.year:04d}" if self.years == 1 else f"{self.year // 10:03d}X"
        return "-".join([year, *(f"{part:02d}" for part in (self.month, self.day) if part)])

    @property
    def first_day(self) -> Day:
        """Its first day."""
        return self.year, self._months[0], self.day or 1

    @property
    def last_day(self) -> Day:
        """Its last day."""
        return self.year + self.years - 1, self._months[1], self.day or _days_of(self.year, self._months[1])

    @property
    def _months(self) -> tuple[int, int]:
        if self.month >= FIRST_QUARTER:
            return 3 * (self.month - FIRST_QUARTER) + 1, 3 * (self.month - FIRST_QUARTER) + 3
        return (self.month, self.month) if self.month else (1, 12)

    @property
    def text(self) -> str:
        """The date as people write it, in English: `12 March 2019`, `the 1960s`, `quarter 3 of 2019`."""
        if self.years == 10:
            return f"the {self.year}s"
        if self.month >= FIRST_QUARTER:
            return f"quarter {self.month - FIRST_QUARTER + 1} of {self.year}"
        return " ".join([*[str(self.day)] * bool(self.day), *MONTH_NAMES[self.month - 1 : self.month], str(self.year)])

    @property
    def is_possible(self) -> bool:
        """Whether the calendar has it: no 31 February, no year 0."""
        if not 1 <= self.year <= 9999:
            return False
        if self.day:
            return 1 <= self.month <= 12 and 1 <= self.day <= _days_of(self.year, self.month)
        return 0 <= self.month <= 12 or FIRST_QUARTER <= self.month <= FIRST_QUARTER + 3


def _days_of(year: int, month: int) -> int:
    return monthrange(year, month)[1]


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
    if any(found is not None and not found.is_possible for found in dates):
        return None
    return DateRange(dates[0], dates[-1], any(match is not None and match[4] == "~" for match in matches))


def _partial(match: re.Match[str]) -> PartialDate:
    return PartialDate(int(match[1].replace("X", "0")), int(match[2] or 0), int(match[3] or 0), 10 if "X" in match[1] else 1)
