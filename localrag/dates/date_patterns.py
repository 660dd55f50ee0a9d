"""Candidates of dates in a text, before it is known which day they mean: the patterns of days, months and longer periods in words."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from localrag.dates.date_words import SPACE, RelativeRule, alternatives, cjk_number, date_words
from localrag.dates.edtf import FIRST_QUARTER, PartialDate

COMMON_LANGUAGES = ("en", "de", "es", "fr")  # in every text days are read in these languages
DAY = r"\d{1,2}(?!\d)"  # also what no month has: in 0 May and 32 May, May alone is no date either
_YEAR = r"(?P<y>[12]\d{3})(?![\w%°€£$]|[.,]\d)"
S = SPACE
_DASH = f"(?:{S})?[-–—](?:{S})?"
_TO = rf"(?:{S}(?:to|until|till|through|bis{S}zum|bis|al?|au|à){S}|{_DASH})"
_OF = rf"(?:(?:of|de|del|di|des{S}Jahres){S})?"
_ORDINAL = r"(?:st|nd|rd|th|er|re|º|°|\.)?"
_NO_YEAR = rf"(?!(?:{S})?,?(?:{S})?\d{{4}})"
_MONTH_ALONE_AFTER = {  # a month alone is one only behind such words
    "en": "in|since|until|till|during|early|mid|late|end of|beginning of|month of",
    "de": "im|seit|bis|Anfang|Mitte|Ende|ab",
}


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


def names_pattern(languages: Iterable[str], kind: str = "months") -> tuple[str, dict[str, int]]:
    """A pattern of the months or weekdays of languages, and their numbers by name in lower case; the first language goes first."""
    names = {language: getattr(date_words(language), kind) for language in languages}
    numbers = {name: n for of_language in reversed(names.values()) for name, n in of_language.items()}
    return "|".join(alternatives(of_language, language) for language, of_language in names.items() if of_language), numbers


def word_patterns(language: str) -> Iterator[DatePattern]:
    """The patterns of absolute dates with words in texts of a language."""
    yield from _day_patterns(language)
    yield from _month_patterns(language)
    yield _quarter_pattern()
    yield from _decade_patterns()
    yield from _cjk_patterns()


def _day_patterns(language: str) -> Iterator[DatePattern]:
    """Days with a month in words and the weekday before them: 12 March 2019, 3.–5. Mai 1999, May 3rd; also without a year."""
    languages = [language, *COMMON_LANGUAGES]
    months, numbers = names_pattern(languages)
    own_months = names_pattern([language, "en"])[1]
    weekdays, weekday_numbers = names_pattern(languages, "weekdays")

    def read(m: re.Match[str]) -> Candidate | None:
        groups, name = m.groupdict(), m["m"].lower()
        if not m["y"] and name not in own_months:
            return None
        year, month = int(m["y"] or 0), numbers[name]
        day = int(m["d"]) or 99  # no month has such a day
        first_day = int(groups.get("d0") or day)
        if groups.get("also") and day != first_day + 1:
            first_day = day  # two days, and no range
        first, last = PartialDate(year, month, first_day), PartialDate(year, month, int(groups.get("d2") or day))
        found = candidate_of(m, first, last, has_year=bool(m["y"]))
        weekday = weekday_numbers.get((groups.get("w") or "").lower())
        return replace(found, weekday=weekday) if found and first == last else found

    before = rf"(?:\b(?P<w>{weekdays}),?{S}(?:(?:the|den|dem|le|el|día){S})?)?"
    year = rf"(?:(?:(?:{S})?,?{S}{_OF}|[-/.])(?P<y>\d{{4}})(?!\d|[.,]\d)|{_NO_YEAR})"
    earlier = rf"(?:(?P<d0>{DAY}){_ORDINAL}(?:{_TO}|(?P<also>{S}(?:and|und|y|et){S})))?"
    month = rf"(?:{S}(?:day{S})?{_OF}|[-/]|(?<=\.))(?P<m>{months})\b\.?"
    yield re.compile(rf"{before}(?<![\w.,/:$€£#]){earlier}(?P<d>{DAY}){_ORDINAL}{month}{year}"), read
    if language == "en":
        year = rf"(?:(?:(?:{S})?,(?:{S})?|{S})(?P<y>\d{{4}})(?!\d|[.,]\d)|{_NO_YEAR})"
        day = rf"(?:the{S})?(?P<d>{DAY})(?:st|nd|rd|th)?(?:{_TO}(?P<d2>{DAY})(?:st|nd|rd|th)?)?(?![\w%]|[.,:]\d|-\d)"
        yield re.compile(rf"{before}\b(?P<m>{names_pattern(['en'])[0]})\b\.?{S}{day}{year}"), read


def _month_patterns(language: str) -> Iterator[DatePattern]:
    """Months in texts of a language: March 1974, June to September 1951; and after a preposition also without a year: in May."""
    months, numbers = names_pattern([language, "en"])

    def read(m: re.Match[str]) -> Candidate | None:
        groups, month = m.groupdict(), numbers[m["m"].lower()]
        year = int(groups.get("y") or 0)
        first = numbers[groups["m0"].lower()] if groups.get("m0") else month
        return candidate_of(m, PartialDate(year, first), PartialDate(year, month), has_year=bool(year))

    earlier = rf"(?:(?P<m0>{months})\b\.?(?:{_TO}|/|{S}(?:and|und|y|et|e){S}))?"
    yield re.compile(rf"(?<![\w.]){earlier}(?P<m>{months})\b\.?(?:(?:{S})?,?{S}{_OF}|[-/]){_YEAR}(?![-/]\d)"), read
    if before := _MONTH_ALONE_AFTER.get(language):
        names = "|".join(alternatives(date_words(each).full_months, each) for each in dict.fromkeys([language, "en"]))
        after = rf"(?!{S}[A-Z]|['’.]\w|-)" if language == "en" else ""
        words = before.replace(" ", S)
        yield re.compile(rf"\b(?i:{words})(?:{S}|-|(?<=['’]))(?P<at>(?P<m>{names}))\b(?!{S}\d){after}"), read


def _quarter_pattern() -> DatePattern:
    """Return the pattern of Q3 2019, the third quarter of 2019, 3. Quartal 2019."""
    words = ("first", "second", "third", "fourth")

    def read(m: re.Match[str]) -> Candidate | None:
        n = int(m["q"] or m["n"] or 0) or words.index(m["word"].lower()) + 1
        return candidate_of(m, PartialDate(int(m["y"]), FIRST_QUARTER - 1 + n))

    number = rf"Q(?P<q>[1-4])|(?P<word>{'|'.join(words)}){S}quarter|(?P<n>[1-4])\.{S}Quartal"
    return re.compile(rf"(?<!\w)(?:{number})(?:{S}of)?{S}{_YEAR}", re.IGNORECASE), read


def _decade_patterns() -> Iterator[DatePattern]:
    """Yield the patterns of the 1960s, den 1960er Jahren, los años 60, les années 1960, 20世纪60年代; two digits are from the 1920s on."""

    def decade(m: re.Match[str]) -> Candidate | None:
        digits = m["y"]
        if len(digits) == 4:
            is_century = digits.endswith("00") and digits < "2000"  # "the 1800s"; "the 2000s" is mostly the decade
            return None if is_century else candidate_of(m, PartialDate(int(digits), years=10))
        century = int(m.groupdict().get("c") or 20) - 1
        return candidate_of(m, PartialDate(100 * century + int(digits), years=10))

    for pattern in (
        r"(?<![\w.,/:$€£#-])(?:the\s)?(?:(?i:early|mid|late)[\s-])?(?P<y>[12]\d{2}0)['’]?s\b(?!-)",
        r"(?<!\w)the\s['’](?P<y>[2-9]0)s\b",
        r"(?<!\w)(?:den\s|der\s|die\s)?(?P<y>[12]\d{2}0|[2-9]0)er(?:\b(?![-\w])(?:[\s-]Jahren?)?|[\s-]?[Jj]ahren?\b)",
        rf"\b(?i:años|décadas?{S}de(?:{S}los)?|années|décennie){S}(?P<y>[12]\d{{2}}0|[2-9]0)(?!\d)",
        r"(?P<c>[12]?\d)世纪(?P<y>[1-9]0)年代",
        r"(?<!\d)(?P<y>[12]\d{2}0)年代",
    ):
        yield re.compile(pattern), decade


def _cjk_patterns() -> Iterator[DatePattern]:
    """2019年3月12日 and its parts, and ranges of them, also in Chinese digits."""
    digits = "一二三四五六七八九十"

    def read(m: re.Match[str]) -> Candidate | None:
        groups = {name: cjk_number(value) for name, value in m.groupdict().items() if value}
        first = PartialDate(groups.get("y", 0), groups.get("m", 0), groups.get("d", 0))
        if "y2" in groups:
            last = PartialDate(groups["y2"], groups.get("m2", 0), groups.get("d2", 0))
        else:
            last = replace(first, day=groups.get("d2", first.day))
        return candidate_of(m, first, last, has_year="y" in groups)

    number, year = rf"(?:\d{{1,2}}|[{digits}]{{1,3}})", r"(?:[12]\d{3}|[一二][〇○零一二三四五六七八九]{3})"
    to = r"(?:日?[至到–—－~～-])"
    month_day = rf"(?P<m>{number})月(?:份|(?P<d>{number})[日号號])?"
    until = rf"(?:{to}\s?(?P<y2>{year})\s?年(?:(?P<m2>{number})月(?:(?P<d2>{number})[日号])?)?)?"
    past = r"(?<!过去)(?<!过去\s)(?<!长达)"  # "the past 1000 years"
    yield re.compile(rf"(?<![\d.]){past}(?P<y>{year})\s?年(?!代|前的?历史|来)(?:\s?{month_day})?\s?{until}"), read
    yield re.compile(rf"(?<![\d.])(?P<y>{year}){to}(?P<y2>{year})年(?!代)"), read
    no_year = rf"(?<![\d.个{digits}年])"
    yield re.compile(rf"{no_year}(?P<m>{number})月(?P<d>{number})[日号號](?:{to}(?P<d2>{number})[日号號])?"), read
