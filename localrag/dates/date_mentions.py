"""Dates in a text: absolute ones, and ones that are reckoned from the document's date or from the date before them in the text.

A number is a date only where its form or its surroundings say so: precision comes before recall. Calendars other than the Gregorian are
left alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

from localrag.dates.date_patterns import Candidate, DatePattern, is_taken, numeric_dates, without_overlaps, word_patterns, years
from localrag.dates.date_words import SPACE, date_words
from localrag.dates.edtf import DateRange, PartialDate

MAX_BASE_CHARS = 600  # between a date and one without a year that is told from it
MAX_ANAPHOR_CHARS = 400  # between a date and "the following day"
TENSE_CHARS = 80  # before and behind a date that tell whether it lies ahead
AGAINST_FACTOR = 3  # a date against the direction that the text goes in counts as so many times as far
PREFIX_CHARS = 30  # before a date that may hold "by the end of"
_AHEAD = {
    "en": re.compile(
        r"(?:\b(?:will|shall|going to|to be|scheduled|due|upcoming|plan(?:s|ned|ning)?)\b|['’]ll\b|\b(?:by|soon as|early as)\s$)",
        re.IGNORECASE,
    ),
    "de": re.compile(r"\b(?:wird|werden|soll|sollen|geplant|voraussichtlich|bis)\b", re.IGNORECASE),
}
# Words before a date that say how exact it is or what it bounds, in several languages.
_BOUNDS = {
    "before": r"before|prior to|vor|vor dem|avant|avant le|antes del?",
    "until": r"until|till|up to|bis|bis zum|bis Ende|jusqu['’]en|jusqu['’]au|hasta|hasta el",
    "by": r"by",
    "after": r"after|nach|nach dem|après|après le|después del?",
    "since": r"since|seit|seit dem|ab|ab dem|depuis|depuis le|dès|à partir d[eu]|desde|desde el|a partir del?",
    "about": r"about|around|circa|ca\.?|c\.|approximately|roughly|approx\.|um|gegen|etwa|vers|environ|hacia|alrededor de|cerca de",
}
_BOUND_FORMS = "|".join(f"(?P<{bound}>{words})" for bound, words in _BOUNDS.items()).replace(" ", SPACE)
_PREFIX = re.compile(
    rf"(?:(?<!\w)(?:{_BOUND_FORMS})(?:{SPACE}(?:the{SPACE}year{SPACE}|the{SPACE}end{SPACE}of{SPACE}|das{SPACE}Jahr{SPACE})?|(?<=\.))"
    r"|(?P<cjk>大?约\s?))$",
    re.IGNORECASE,
)
_CJK_SUFFIX = re.compile(r"(?P<before>以前|之前|前)|(?P<since>以来|起)|(?P<after>以后|之后|后)|(?P<about>左右|前后)")
_JOINED = re.compile(
    rf"(?:{SPACE})?[-–—至到](?:{SPACE})?|{SPACE}(?:to|until|till|through|bis{SPACE}zum|bis|hasta{SPACE}el|hasta|al?|jusqu['’]au|au|à){SPACE}"
)
_PAIRED = re.compile(rf"{SPACE}(?:and|und|y|et){SPACE}")
_BETWEEN = re.compile(rf"\b(?:between|zwischen|entre){SPACE}(?:the{SPACE}|dem{SPACE}|el{SPACE}|le{SPACE})?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date that a text names at characters `start` to `end`.

    `is_reckoned`: told from another date: that at characters `base` of the text, or the document's own if `base` is None.
    `bound`: "before", "until", "by", "after" or "since", if it stands before the date.
    """

    start: int
    end: int
    value: DateRange
    is_reckoned: bool = False
    base: tuple[int, int] | None = None
    bound: str = ""

    @property
    def text(self) -> str:
        """The date as people write it, in English: `about 1850`, `before 1900`, `3 May 1999 to 5 May 1999`."""
        end = self.value.start or self.value.end
        return f"{self.bound} {end.text}" if self.bound and end else self.value.text


@dataclass(frozen=True, slots=True)
class FoundDates:
    """The dates of a text in order; `n_unresolved`: the number of dates in relation to another one that the text does not give."""

    mentions: tuple[DateMention, ...] = ()
    n_unresolved: int = 0


@dataclass(frozen=True, slots=True)
class _Bases:
    """What dates are reckoned from: the text's own date, the last date before them, and the last that the text gives with its year."""

    own: PartialDate | None
    last: DateMention | None = None
    last_with_year: DateMention | None = None


def find_dates(text: str, own: PartialDate | date | None = None, language: str = "en") -> FoundDates:
    """The dates in a text of a language (a two-letter code). `own`: the text's own date, from which "yesterday" is reckoned, if known."""
    mentions: list[DateMention] = []
    bases, n_unresolved = _Bases(PartialDate(own.year, own.month, own.day) if isinstance(own, date) else own), 0
    for candidate in _joined(_candidates(text, language), text):
        mention = _resolve(candidate, text, bases, language)
        if mention is None:
            n_unresolved += 1
            continue
        mentions.append(_qualified(mention, text))
        if _is_base(mentions[-1], candidate, text):
            bases = replace(bases, last=mentions[-1], last_with_year=bases.last_with_year if mention.is_reckoned else mentions[-1])
    return FoundDates(tuple(mentions), n_unresolved)


def _is_base(mention: DateMention, candidate: Candidate, text: str) -> bool:
    """Whether a text goes on from a date: not from "before 1900", "about 1850", "(1904)", 2019-20, "last year" or "the day before"."""
    value = mention.value
    if value.is_about or value.start is None or value.end is None or (value.start != value.end and not value.end.day):
        return False
    if candidate.rule is not None:
        return candidate.rule.base == "text" and candidate.rule.direction >= 0
    return bool(value.end.month) or text[max(0, mention.start - 1) : mention.start] not in ("(", "（")


def _candidates(text: str, language: str) -> list[Candidate]:
    """The candidates of a text in order. Of two that overlap the absolute one stays, then the first, then the longer.

    What is written as a date that the calendar does not have, as 31 February, is none, nor is a part of it.
    """
    found = [candidate for pattern, read in _patterns(language) for m in pattern.finditer(text) if (candidate := read(m))]
    found += numeric_dates(text, language)
    found += years(text, language, sorted((c.start, c.end) for c in found))
    absolute = without_overlaps(found)
    taken = [(c.start, c.end) for c in absolute]
    relative = (
        Candidate(m.start(), m.end(), PartialDate(0), PartialDate(0), has_year=False, rule=rule, match=m)
        for rule in date_words(language).relative
        for m in rule.pattern.finditer(text)
    )
    kept = [*absolute, *without_overlaps(c for c in relative if not is_taken(c, taken))]
    return sorted((c for c in kept if c.is_possible), key=lambda c: c.start)


@cache
def _patterns(language: str) -> tuple[DatePattern, ...]:
    return tuple(word_patterns(language))


def _joined(candidates: Sequence[Candidate], text: str) -> Iterator[Candidate]:
    """Yield the candidates, two with "to" between them, or "between" before them, as one; without weekdays of opening hours."""
    waiting: Candidate | None = None
    for candidate in candidates:
        if waiting is not None and _is_schedule(waiting, candidate, text):
            waiting = None
        elif waiting is not None and (both := _range_of(waiting, candidate, text)):
            waiting = both
        else:
            if waiting is not None:
                yield waiting
            waiting = candidate
    if waiting is not None:
        yield waiting


def _is_schedule(first: Candidate, last: Candidate, text: str) -> bool:
    """Whether two candidates are weekdays from one to the other, as opening hours name them."""
    are_weekdays = all(c.rule is not None and c.rule.base == "near" for c in (first, last))
    return are_weekdays and _JOINED.fullmatch(text, first.end, last.start) is not None


def _range_of(first: Candidate, last: Candidate, text: str) -> Candidate | None:
    gap = text[first.end : last.start]
    if len(gap) > 20 or first.rule or last.rule or first.first != first.last or last.first != last.last:
        return None
    if not _JOINED.fullmatch(gap) and not (_PAIRED.fullmatch(gap) and _BETWEEN.search(text[max(0, first.start - 20) : first.start])):
        return None
    start, end = first.first, last.last
    if not first.has_year and last.has_year:
        start = replace(start, year=end.year - ((start.month, start.day) > (end.month, end.day or 31)))
    elif first.has_year and not last.has_year:
        end = replace(end, year=start.year + ((end.month, end.day or 31) < (start.month, start.day)))
    is_dated = first.has_year or last.has_year
    if is_dated and (not start.is_possible or end.last_day < start.first_day):
        return None
    return Candidate(first.start, last.end, start, end, is_dated)


def _resolve(candidate: Candidate, text: str, bases: _Bases, language: str) -> DateMention | None:
    """The candidate with its year, or with the date that it is reckoned from; None if that is not known."""
    start, end = candidate.start, candidate.end
    if candidate.has_year:
        return DateMention(start, end, DateRange(candidate.first, candidate.last))
    base, mention = _base_of(candidate, bases)
    if base is None:
        return None
    bound = _PREFIX.search(text[max(0, start - PREFIX_CHARS) : start])
    direction = -1 if bound and bound["since"] else 1 if mention else _tense(text, start, end, language)
    value = _reckoned(candidate, base, direction) if candidate.rule else _with_year(candidate, base, direction)
    return DateMention(start, end, value, True, (mention.start, mention.end) if mention else None) if value else None


def _base_of(candidate: Candidate, bases: _Bases) -> tuple[PartialDate | None, DateMention | None]:
    """The date that a candidate is reckoned from, and where the text names it: None if it is the document's own.

    A day without a year is told from the text if a day with its year stands near it, or if the document has no date.
    """
    if candidate.rule and candidate.rule.base != "text":
        return bases.own, None
    mention = bases.last if candidate.rule else bases.last_with_year
    if mention is None or bases.last is None:
        return (None if candidate.rule else bases.own), None
    distance, base = candidate.start - bases.last.end, mention.value.end
    if candidate.rule:
        return (base, mention) if distance <= MAX_ANAPHOR_CHARS else (None, None)
    is_close = base is not None and base.day and candidate.first.day and distance <= MAX_ANAPHOR_CHARS
    if is_close or (bases.own is None and distance <= MAX_BASE_CHARS):
        return base, mention
    return bases.own, None


def _tense(text: str, start: int, end: int, language: str) -> int:
    """1 if the words around a date speak of the future, -1 if they do not, in a language whose verbs would; else 0."""
    before = re.split(r"[.!?;]\s|\n\n|\b(?:said|told|reported|announced)\b", text[max(0, start - TENSE_CHARS) : start])[-1]
    is_first = len(before.strip()) < 15
    after = re.split(r"[.!?;]\s|\n\n", text[end : end + TENSE_CHARS])[0] if is_first else ""
    if (ahead := _AHEAD.get(language)) is None:
        return 0
    return 1 if ahead.search(before) or ahead.search(after) else -1 if language == "en" else 0


def _qualified(mention: DateMention, text: str) -> DateMention:
    """The mention with "before", "since" or "about" in its value, if one of these stands at it."""
    value = mention.value
    if value.start != value.end or value.start is None:
        return mention
    found = _PREFIX.search(text[max(0, mention.start - PREFIX_CHARS) : mention.start])
    groups = found.groupdict() if found else {}
    if text[mention.end - 1 : mention.end] in "年月日号" and (suffix := _CJK_SUFFIX.match(text, mention.end)):
        groups |= {name: value for name, value in suffix.groupdict().items() if value}
    word = next((name for name, form in groups.items() if form), "")
    if word in ("about", "cjk"):
        return mention if value.start.day else replace(mention, value=replace(value, is_about=True))
    if word in ("before", "until", "by"):
        return replace(mention, value=DateRange(None, value.start), bound=word)
    return replace(mention, value=DateRange(value.start, None), bound=word) if word else mention


# Reckoning: from another date by so many days or months, to the next weekday, and in the year that a day is likely of


def _with_year(candidate: Candidate, base: PartialDate, direction: int) -> DateRange | None:
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


def _reckoned(candidate: Candidate, base: PartialDate, direction: int) -> DateRange | None:
    """The date that a rule's words give from a base; None if the base is not exact enough, or the calendar ends before it.

    `direction`: where a weekday alone is looked for, as in `_with_year`.
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
