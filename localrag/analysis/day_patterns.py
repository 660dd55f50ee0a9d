"""Patterns of days and months whose month is a word: 12 March 2019, 3.–5. Mai 1999, junio de 1951; also without a year."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from localrag.analysis.date_candidates import EN_ORDINALS, NOT_LONGER, OF, TO, Candidate, DatePattern, candidate_of
from localrag.analysis.date_words import SPACE, alternatives, date_words, full_months
from localrag.analysis.edtf import PartialDate
from localrag.analysis.year_contexts import is_counted

EVERYWHERE = ("en", "de", "es", "fr")  # in every text days are read in these languages
DAY = r"\d{1,2}(?!\d)"  # also what no month has: in 0 May and 32 May, May alone is no date either
_ORDINAL = r"(?:st|nd|rd|th|er|re|º|°|\.)?"
_NO_YEAR = rf"(?!(?:{SPACE})?,?(?:{SPACE})?\d{{4}})"
_MONTH_ALONE_AFTER = {  # a month alone is one only behind such words
    "en": "in|since|until|till|during|early|mid|late|end of|beginning of|month of",
    "de": "im|seit|bis|Anfang|Mitte|Ende|ab",
    "es": "en|desde|hasta|a principios de|a finales de|a mediados de",
    "fr": "en|depuis|dès|fin|début|mi|jusqu['’]en|au mois d['’]|au mois de",
    "it": "in|a|nel|da",
    "pt": "em|desde|até",
    "nl": "in|sinds|tot|eind|begin",
}


def months_pattern(languages: Iterable[str]) -> tuple[str, dict[str, int]]:
    """A pattern of the months of languages, and their numbers by name in lower case."""
    known = [language for language in dict.fromkeys(languages) if date_words(language).months]
    numbers = {name: n for language in reversed(known) for name, n in date_words(language).months.items()}
    return "|".join(alternatives(date_words(language).months, language) for language in known), numbers


def _weekdays_pattern(languages: Iterable[str]) -> tuple[str, dict[str, int]]:
    known = [language for language in dict.fromkeys(languages) if date_words(language).weekdays]
    numbers = {name: n for language in known for name, n in date_words(language).weekdays.items()}
    return "|".join(alternatives(date_words(language).weekdays, language) for language in known), numbers


def day_patterns(language: str) -> Iterator[DatePattern]:
    """Days in texts of a language, with the weekday before them."""
    languages = [language, *EVERYWHERE]
    months, numbers = months_pattern(languages)
    own_months = months_pattern([language, "en"])[1]
    weekdays, weekday_numbers = _weekdays_pattern(languages)

    def read(m: re.Match[str]) -> Candidate | None:
        groups, name = m.groupdict(), m["m"].lower()
        if not m["y"] and (name not in own_months or is_counted(m.string, m.end(), 0, language)):
            return None
        year, month = int(m["y"] or 0), numbers[name]
        day = int(m["d"]) or 99 if m["d"].isdigit() else EN_ORDINALS.index("-".join(m["d"].lower().split())) + 1
        first = int(groups.get("d0") or day)
        if groups.get("also") and day != first + 1:
            first = day  # two days, and no range
        found = candidate_of(
            m, PartialDate(year, month, first), PartialDate(year, month, int(groups.get("d2") or day)), has_year=bool(m["y"])
        )
        weekday = weekday_numbers.get((groups.get("w") or "").lower())
        return replace(found, weekday=weekday) if found and found.first == found.last else found

    before = rf"(?:\b(?P<w>{weekdays}),?{SPACE}(?:(?:the|den|dem|le|el|día){SPACE})?)?"
    year = rf"(?:(?:(?:{SPACE})?,?{SPACE}{OF}|[-/.])(?P<y>\d{{4}})(?!\d|[.,]\d)|{_NO_YEAR})"
    earlier = rf"(?:(?P<d0>{DAY}){_ORDINAL}(?:{TO}|(?P<also>{SPACE}(?:and|und|y|et){SPACE})))?"
    month = rf"(?:{SPACE}(?:day{SPACE})?{OF}|[-/]|(?<=\.))(?P<m>{months})\b\.?"
    yield re.compile(rf"{before}(?<![\w.,/:$€£#]){earlier}(?P<d>{DAY}){_ORDINAL}{month}{year}"), read
    ordinals = "|".join(sorted(EN_ORDINALS, key=len, reverse=True))
    yield re.compile(rf"\b(?P<d>(?i:{ordinals})){SPACE}(?:day{SPACE})?(?:of{SPACE})?(?P<m>{months})\b{year}"), read
    if language == "en":
        english = months_pattern(["en"])[0]
        year = rf"(?:(?:(?:{SPACE})?,(?:{SPACE})?|{SPACE})(?P<y>\d{{4}})(?!\d|[.,]\d)|{_NO_YEAR})"
        day = rf"(?:the{SPACE})?(?P<d>{DAY})(?:st|nd|rd|th)?(?:{TO}(?P<d2>{DAY})(?:st|nd|rd|th)?)?(?![\w%]|[.,:]\d|-\d)"
        yield re.compile(rf"{before}\b(?P<m>{english})\b\.?{SPACE}{day}{year}"), read


def month_patterns(language: str) -> Iterator[DatePattern]:
    """Months in texts of a language: March 1974, June to September 1951; and after a preposition also without a year: in May."""
    months, numbers = months_pattern([language, "en"])

    def read(m: re.Match[str]) -> Candidate | None:
        groups, month = m.groupdict(), numbers[m["m"].lower()]
        year = int(groups.get("y") or 0)
        first = numbers[groups["m0"].lower()] if groups.get("m0") else month
        return candidate_of(m, PartialDate(year, first), PartialDate(year, month), has_year=bool(year))

    earlier = rf"(?:(?P<m0>{months})\b\.?(?:{TO}|/|{SPACE}(?:and|und|y|et|e){SPACE}))?"
    year = rf"(?:(?:{SPACE})?,?{SPACE}{OF}|[-/])(?P<y>[12]\d{{3}}){NOT_LONGER}(?![-/]\d)"
    yield re.compile(rf"(?<![\w.]){earlier}(?P<m>{months})\b\.?{year}"), read
    if before := _MONTH_ALONE_AFTER.get(language):
        names = "|".join(alternatives(full_months(each), each) for each in dict.fromkeys([language, "en"]))
        after = rf"(?!{SPACE}[A-Z]|['’.]\w|-)" if language == "en" else ""
        words = before.replace(" ", SPACE)
        yield re.compile(rf"\b(?i:{words})(?:{SPACE}|-|(?<=['’]))(?P<at>(?P<m>{names}))\b(?!{SPACE}\d){after}"), read
