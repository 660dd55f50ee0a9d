"""Candidates of dates: what a pattern has matched, before it is known which day it is; and the parts that patterns share."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from localrag.analysis.date_words import SPACE, RelativeRule
from localrag.analysis.edtf import PartialDate

DASH = f"(?:{SPACE})?[-–—](?:{SPACE})?"
TO = rf"(?:{SPACE}(?:to|until|till|through|bis{SPACE}zum|bis|al?|au|à){SPACE}|{DASH})"
OF = rf"(?:(?:of|de|del|di|des{SPACE}Jahres){SPACE})?"
NOT_LONGER = r"(?![\w%°€£$]|[.,]\d)"  # behind digits that are a year
EN_ORDINALS = (
    *"first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth".split(),
    *"sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth twenty-fifth".split(),
    *"twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first".split(),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A date at characters `start` to `end`, from the beginning of `first` to the end of `last`.

    `has_year`: False where the year is to be told from other dates. `weekday`: that named with the date. `rule`: that of a date in relation
    to another, with its `match`. Not `is_possible`: written as a date that the calendar lacks, or as a range of numbers that are no years.
    """

    start: int
    end: int
    first: PartialDate
    last: PartialDate
    has_year: bool = True
    weekday: int | None = None
    rule: RelativeRule | None = None
    match: re.Match[str] | None = None
    is_possible: bool = True


DatePattern = tuple[re.Pattern[str], Callable[[re.Match[str]], Candidate | None]]


def candidate_of(m: re.Match[str], first: PartialDate, last: PartialDate | None = None, *, has_year: bool = True) -> Candidate | None:
    """The candidate of a match, from its group `at` on if it has one; None if its end comes before its beginning."""
    last = last or first
    start, end = m.span("at") if "at" in m.re.groupindex else m.span()
    end -= m.string[end - 1] == "." and not has_year  # more likely the end of the sentence than of an abbreviation
    checked = [first, last] if has_year else [replace(date, year=2000) for date in (first, last)]
    if not all(date.is_possible for date in checked):
        return Candidate(start, end, first, last, is_possible=False)
    return None if has_year and last.last_day < first.first_day else Candidate(start, end, first, last, has_year)


def without_overlaps(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in order; of two that overlap the first, of two that begin together the longer."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if not kept or candidate.start >= kept[-1].end:
            kept.append(candidate)
    return kept


def is_taken(candidate: Candidate, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a candidate overlaps one of the spans, which are in order."""
    n = bisect_left(spans, (candidate.end, 0))
    return n > 0 and spans[n - 1][1] > candidate.start
