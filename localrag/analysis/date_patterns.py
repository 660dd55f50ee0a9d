"""All candidates of dates in a text."""

from functools import cache

from localrag.analysis.date_candidates import Candidate, DatePattern, is_taken, without_overlaps
from localrag.analysis.date_words import date_words
from localrag.analysis.day_patterns import day_patterns, month_patterns
from localrag.analysis.edtf import PartialDate
from localrag.analysis.numeric_dates import numeric_dates, years
from localrag.analysis.period_patterns import cjk_patterns, period_patterns

_UNKNOWN = PartialDate(0)


def candidates_of(text: str, language: str) -> list[Candidate]:
    """The candidates of a text in order. Of two that overlap the absolute one stays, then the first, then the longer.

    What is written as a date that the calendar does not have, as 31 February, is none, nor is a part of it.
    """
    found = [candidate for pattern, read in _patterns(language) for m in pattern.finditer(text) if (candidate := read(m))]
    found += numeric_dates(text, language)
    found += years(text, language, sorted((c.start, c.end) for c in found))
    absolute = without_overlaps(found)
    taken = [(c.start, c.end) for c in absolute]
    relative = (
        Candidate(m.start(), m.end(), _UNKNOWN, _UNKNOWN, has_year=False, rule=rule, match=m)
        for rule in date_words(language).relative
        for m in rule.pattern.finditer(text)
    )
    kept = [*absolute, *without_overlaps(c for c in relative if not is_taken(c, taken))]
    return sorted((c for c in kept if c.is_possible), key=lambda c: c.start)


@cache
def _patterns(language: str) -> tuple[DatePattern, ...]:
    """The patterns of absolute dates in texts of a language."""
    return (*day_patterns(language), *month_patterns(language), *period_patterns(), *cjk_patterns())
