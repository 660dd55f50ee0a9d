"""Reckoning of dates: from another date by so many days or months, to the next weekday, and in the year that a day is likely of."""

from dataclasses import replace
from datetime import date, timedelta

from localrag.dates.date_patterns import Candidate
from localrag.dates.edtf import DateRange, PartialDate

AGAINST_FACTOR = 3  # a date against the direction that the text goes in counts as so many times as far


def with_year(candidate: Candidate, base: PartialDate, direction: int) -> DateRange | None:
    """A date without a year in the year next to the base, and fits a weekday that is named with it; None without such a year.

    `direction`: 1 if the text goes on from the base, -1 if it looks back, 0 if that is not known.
    """
    if base.years > 1:
        return None
    if not base.month:
        return _in_year(candidate, base.year)

    def distance(year: int) -> tuple[int, int]:
        days = _days_between(base, replace(candidate.first, year=year))
        return abs(days) * (AGAINST_FACTOR if days * direction < 0 else 1), year

    years = sorted(range(base.year - 3, base.year + 4), key=distance)
    if candidate.weekday is not None:
        days = ((year, _as_date(replace(candidate.first, year=year))) for year in years)
        return _in_year(candidate, next((year for year, day in days if day and day.weekday() == candidate.weekday), years[0]))
    return _in_year(candidate, years[0])


def _in_year(candidate: Candidate, year: int) -> DateRange | None:
    first = replace(candidate.first, year=year)
    last = replace(candidate.last, year=year + (candidate.last.month < candidate.first.month))
    return DateRange(first, last) if first.is_possible and last.is_possible else None


def _days_between(base: PartialDate, other: PartialDate) -> int:
    """About how many days lie from the middle of one date to the middle of another."""

    def middle(of: PartialDate) -> float:
        return sum(day[0] * 365.2425 + day[1] * 30.44 + day[2] for day in (of.first_day, of.last_day)) / 2

    return round(middle(other) - middle(base))


def _as_date(day: PartialDate) -> date | None:
    try:
        return date(day.year, day.month, day.day)
    except ValueError:
        return None


def _as_partial(day: date) -> PartialDate:
    return PartialDate(day.year, day.month, day.day)


def reckoned(candidate: Candidate, base: PartialDate, direction: int) -> DateRange | None:
    """The date that a rule's words give from a base; None if the base is not exact enough, or the calendar ends before it.

    `direction`: where a weekday alone is looked for, as in `with_year`.
    """
    rule, m = candidate.rule, candidate.match
    assert rule is not None and m is not None
    unit, number = rule.named(m)
    try:
        if unit == "weekday":
            return _weekday(base, number, rule.direction, direction if rule.base == "near" else None)
        if unit == "month name":
            return _named_month(base, number, rule.direction)
        count = rule.number(m)
        found = _shifted(base, unit, rule.direction * (rule.count or count or 1), is_counted=bool(count))
    except (OverflowError, ValueError):
        return None
    return found


def _single(found: PartialDate) -> DateRange | None:
    return DateRange(found, found) if found.is_possible else None


def _shifted(base: PartialDate, unit: str, n: int, *, is_counted: bool) -> DateRange | None:
    """Return the base moved by `n` units: a day after days, and after counted weeks; else the week, month or year."""
    if base.years > 1 or (unit == "month" and not 1 <= base.month <= 12):
        return None
    if unit == "month":
        months = 12 * base.year + base.month - 1 + n
        return _single(PartialDate(months // 12, months % 12 + 1))
    if unit == "year":
        return _single(PartialDate(base.year + n))
    day = _as_date(base)
    if day is None:
        return None
    if unit == "week" and not is_counted:
        monday = day + timedelta(days=7 * n - day.weekday())
        return DateRange(_as_partial(monday), _as_partial(monday + timedelta(days=6)))
    return _single(_as_partial(day + timedelta(days=7 * n if unit == "week" else n)))


def _weekday(base: PartialDate, weekday: int, direction: int, tense: int | None) -> DateRange | None:
    """The next or last such weekday from a day, not that day itself; without a direction that of the same week.

    `tense`: of a weekday alone, which may also be the day itself: 1 the next, -1 the last, 0 the nearest.
    """
    day = _as_date(base)
    if day is None:
        return None
    ahead = (weekday - day.weekday()) % 7
    if tense is not None:
        days = ahead if tense > 0 or (tense == 0 and ahead <= 3) or not ahead else ahead - 7
    else:
        days = (ahead or 7) if direction > 0 else (ahead - 7) if direction < 0 else weekday - day.weekday()
    return _single(_as_partial(day + timedelta(days=days)))


def _named_month(base: PartialDate, month: int, direction: int) -> DateRange | None:
    """Return the next or last month of that name from the base; without a direction that of the base's year."""
    if base.years > 1 or (not base.month and direction):
        return None
    here = base.first_day[1]
    is_other_year = month <= here if direction > 0 else month >= here
    return _single(PartialDate(base.year + direction * is_other_year, month))
