"""Candidates of dates in a text, by patterns: days, months, years, seasons, decades, ranges, and words that reckon from another date."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from localrag.analysis.date_words import SEASONS, SPACE, RelativeRule, alternatives, date_words, full_months
from localrag.analysis.edtf import FIRST_QUARTER, PartialDate
from localrag.analysis.year_contexts import is_counted, is_year, is_year_range

S = SPACE
DAY = r"(?:0?[1-9]|[12]\d|3[01])(?!\d)"
NUMBER = r"(?:1[0-2]|0?[1-9])"
ORDINAL = r"(?:st|nd|rd|th|er|re|º|°|\.)?"
DASH = f"(?:{S})?[-–—](?:{S})?"
TO = rf"(?:{S}(?:to|until|till|through|bis{S}zum|bis|al?|au|à){S}|{DASH})"
OF = rf"(?:(?:of|de|del|di|des{S}Jahres){S})?"
NOT_LONGER = r"(?![\w%°€£$]|[.,]\d)"  # after a number that is a year
EVERYWHERE = ("en", "de", "es", "fr")  # days with month and year are read in these languages in every text
_EN_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth"
    " eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh"
    " twenty-eighth twenty-ninth thirtieth thirty-first"
).split()
_ROMAN = {"v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9, "x": 10, "xi": 11, "xii": 12, "xiii": 13, "xiv": 14, "xv": 15, "xvi": 16,
          "xvii": 17, "xviii": 18, "xix": 19, "xx": 20, "xxi": 21}  # fmt: skip
_CJK_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "十": 10}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A date at characters `start` to `end`, from the beginning of `first` to the end of `last`; not `is_possible` if the calendar lacks it.

    `has_year`: False where the year is to be told from other dates. `rule`: that of a date in relation to another, with its `match`.
    `weekday`: that named with the date.
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


Pattern = tuple[re.Pattern[str], Callable[[str, re.Match[str]], Candidate | None]]


def candidates_of(text: str, language: str) -> list[Candidate]:
    """The candidates of a text in order. Of two that overlap the absolute one stays, then the first, then the longer.

    What is written as a date that the calendar does not have, as 31 February, is none, nor is a part of it.
    """
    found = [candidate for pattern, read in _patterns(language) for m in pattern.finditer(text) if (candidate := read(text, m))]
    found += _numeric_dates(text, language)
    found += _years(text, language, sorted((c.start, c.end) for c in found))
    found += [
        Candidate(m.start(), m.end(), PartialDate(0), PartialDate(0), has_year=False, rule=rule, match=m)
        for rule in date_words(language).relative
        for m in rule.pattern.finditer(text)
    ]
    kept = _without_overlaps(c for c in found if c.rule is None)
    taken = [(c.start, c.end) for c in kept]
    kept += _without_overlaps(c for c in found if c.rule is not None and not _is_taken(c, taken))
    return sorted((c for c in kept if c.is_possible), key=lambda c: c.start)


def _without_overlaps(candidates: Iterable[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if not kept or candidate.start >= kept[-1].end:
            kept.append(candidate)
    return kept


def _is_taken(candidate: Candidate, taken: Sequence[tuple[int, int]]) -> bool:
    """Whether a candidate overlaps one of the spans, which are in order."""
    n = bisect_left(taken, (candidate.end, 0))
    return n > 0 and taken[n - 1][1] > candidate.start


def _whole(m: re.Match[str], first: PartialDate, last: PartialDate | None = None, *, has_year: bool = True) -> Candidate | None:
    """The candidate of a match, from its group `at` on if it has one; None if its end comes before its beginning."""
    last = last or first
    checked = [first, last] if has_year else [replace(date, year=2000) for date in (first, last)]
    start, end = m.span("at") if "at" in m.re.groupindex else m.span()
    end -= m.string[end - 1] == "." and not has_year  # more likely the end of the sentence than of an abbreviation
    if not all(date.is_possible for date in checked):
        return Candidate(start, end, first, last, is_possible=False)
    return None if has_year and last.last_day < first.first_day else Candidate(start, end, first, last, has_year)


@cache
def _patterns(language: str) -> tuple[Pattern, ...]:
    """The patterns of absolute dates in texts of a language."""
    return (*_day_patterns(language), *_month_patterns(language), *_period_patterns(), *_cjk_patterns(), *_era_patterns())


def _months(languages: Iterable[str]) -> tuple[str, dict[str, int]]:
    """A pattern of the months of languages, and their numbers by name in lower case."""
    languages = [language for language in languages if date_words(language).months]
    numbers = {name: n for language in languages for name, n in date_words(language).months.items()}
    return "|".join(alternatives(date_words(language).months, language) for language in languages), numbers


def _weekdays(languages: Iterable[str]) -> tuple[str, dict[str, int]]:
    numbers = {name: n for language in languages for name, n in date_words(language).weekdays.items()}
    patterns = (alternatives(date_words(language).weekdays, language) for language in languages if date_words(language).weekdays)
    return "|".join(patterns), numbers


def _day_patterns(language: str) -> Iterator[Pattern]:
    """Days whose month is a word: 12 March 2019, March 12, 2019, 3.–5. Mai 1999, the first of May; also without a year."""
    languages = dict.fromkeys([language, *EVERYWHERE])
    months, numbers = _months(languages)
    own_months = _months(dict.fromkeys([language, "en"]))[1]
    weekdays, weekday_numbers = _weekdays(languages)
    weekday = rf"(?:\b(?P<w>{weekdays}),?{S}(?:(?:the|den|dem|le|el|día){S})?)?"

    def read(text: str, m: re.Match[str]) -> Candidate | None:
        groups = m.groupdict()
        month, year = numbers[m["m"].lower()], int(groups.get("y") or 0)
        if not m["y"] and (m["m"].lower() not in own_months or is_counted(text, m.end(), 0, language)):
            return None
        day = int(m["d"]) if m["d"].isdigit() else _EN_ORDINALS.index(" ".join(m["d"].lower().split())) + 1
        if groups.get("also") and day != int(m["d0"]) + 1:
            groups["d0"] = None  # two days, and no range
        last = PartialDate(year, month, int(groups.get("d2") or day))
        found = _whole(m, PartialDate(year, month, int(groups.get("d0") or day)), last, has_year=bool(m["y"]))
        named = weekday_numbers.get((groups.get("w") or "").lower())
        return replace(found, weekday=named) if found and found.first == found.last else found

    year = rf"(?:(?:,?{S}{OF}|[-/.])(?P<y>\d{{4}}){NOT_LONGER})?"
    also = rf"{S}(?:and|und|y|et){S}"
    day_month = rf"(?:{S}(?:day{S})?{OF}|[-/]|(?<=\.))(?P<m>{months})\b\.?"
    yield (
        re.compile(
            rf"{weekday}(?<![\w.,/:$€£#])(?:(?P<d0>{DAY}){ORDINAL}(?:{TO}|(?P<also>{also})))?(?P<d>{DAY}){ORDINAL}{day_month}{year}"
        ),
        read,
    )
    ordinals = "|".join(sorted(_EN_ORDINALS, key=len, reverse=True))
    yield re.compile(rf"\b(?P<d>(?i:{ordinals})){S}(?:day{S})?(?:of{S})?(?P<m>{months})\b{year}"), read
    if language == "en":
        english, _ = _months(["en"])
        year = rf"(?:(?:,?{S}|,)(?P<y>\d{{4}}){NOT_LONGER})?"
        day = rf"(?:the{S})?(?P<d>{DAY})(?:st|nd|rd|th)?(?:{TO}(?P<d2>{DAY})(?:st|nd|rd|th)?)?(?![\w%]|[.,:]\d|-\d)"
        yield re.compile(rf"{weekday}\b(?P<m>{english})\b\.?{S}{day}{year}"), read


def _month_patterns(language: str) -> Iterator[Pattern]:
    """Months: March 1974, June to September 1951, mayo de 1968; and after a preposition also without a year: in May."""
    months, numbers = _months(dict.fromkeys([language, "en"]))

    def read(text: str, m: re.Match[str]) -> Candidate | None:
        groups, month = m.groupdict(), numbers[m["m"].lower()]
        year = int(groups.get("y") or 0)
        first = numbers[groups["m0"].lower()] if groups.get("m0") else month
        return _whole(m, PartialDate(year, first), PartialDate(year, month), has_year=bool(year))

    several = rf"(?:{TO}|/|{S}(?:and|und|y|et|e){S})"
    year = rf"(?:,?{S}{OF}|[-/])(?P<y>[12]\d{{3}}){NOT_LONGER}(?![-/]\d)"
    yield re.compile(rf"(?<![\w.])(?:(?P<m0>{months})\b\.?{several})?(?P<m>{months})\b\.?{year}"), read
    before = {
        "en": "in|since|until|till|during|early|mid|late|end of|beginning of|month of",
        "de": "im|seit|bis|Anfang|Mitte|Ende|ab",
        "es": "en|desde|hasta|a principios de|a finales de|a mediados de",
        "fr": "en|depuis|dès|fin|début|mi|jusqu['’]en|au mois d['’]|au mois de",
        "it": "in|a|nel|da",
        "pt": "em|desde|até",
        "nl": "in|sinds|tot|eind|begin",
    }.get(language)
    if before:
        name = "|".join(alternatives(full_months(each), each) for each in dict.fromkeys([language, "en"]))
        after = rf"(?!{S}[A-Z]|['’.]\w|-)" if language == "en" else ""
        yield re.compile(rf"\b(?i:{before.replace(' ', S)})(?:{S}|-|(?<=['’]))(?P<at>(?P<m>{name}))\b(?!{S}\d){after}"), read


def _period_patterns() -> Iterator[Pattern]:
    """Seasons, quarters, decades and centuries."""
    seasons = {form.lower(): n for words in SEASONS.values() for n, forms in words.items() for form in forms.split("|")}

    def season(text: str, m: re.Match[str]) -> Candidate | None:
        return _whole(m, PartialDate(int(m["y"]), seasons[m["s"].lower()]))

    word = "|".join(form for form in seasons if form.isascii() or form[0].islower() or form[0].isascii())
    of = rf"(?:of|de{S}l['’]année|de|del|des{S}Jahres)"
    yield re.compile(rf"\b(?P<s>{word})(?:{S}{of})?{S}(?P<y>[12]\d{{3}}){NOT_LONGER}(?![-–/]\d)", re.IGNORECASE), season

    def quarter(text: str, m: re.Match[str]) -> Candidate | None:
        words = {"first": 1, "second": 2, "third": 3, "fourth": 4, "一": 1, "二": 2, "三": 3, "四": 4}
        n = m["q"].lower()
        return _whole(m, PartialDate(int(m["y"]), FIRST_QUARTER - 1 + (words.get(n) or int(n))))

    yield re.compile(rf"\bQ(?P<q>[1-4])(?:{S}(?:of{S})?|[-/])?(?P<y>[12]\d{{3}}){NOT_LONGER}"), quarter
    yield re.compile(rf"(?<!\d)(?P<y>[12]\d{{3}})(?:{S}|-)?Q(?P<q>[1-4])(?!\w)"), quarter
    yield re.compile(rf"\b(?P<q>first|second|third|fourth){S}quarter{S}(?:of{S})?(?P<y>[12]\d{{3}}){NOT_LONGER}", re.IGNORECASE), quarter
    yield re.compile(rf"(?<!\d)(?P<q>[1-4])\.{S}(?:Quartal|Viertel){S}(?P<y>[12]\d{{3}}){NOT_LONGER}"), quarter
    yield re.compile(r"(?P<y>[12]\d{3})年第?(?P<q>[一二三四1-4])季度"), quarter

    tens = "zwanziger dreißiger vierziger fünfziger sechziger siebziger achtziger neunziger".split()

    def decade(text: str, m: re.Match[str]) -> Candidate | None:
        groups = m.groupdict()
        digits = m["y"] if m["y"].isdigit() else f"{tens.index(m['y'].lower()) + 2}0"
        century = int(groups["c"]) - 1 if groups.get("c") else 19
        year = int(digits) if len(digits) == 4 else 100 * century + int(digits)
        is_century = len(digits) == 4 and year % 100 == 0 and year < 2000  # "the 1800s"; "the 2000s" is mostly the decade
        is_known = len(digits) == 4 or groups.get("c") or year >= 1920
        return _whole(m, PartialDate(year, years=100 if is_century else 10)) if is_known else None

    yield re.compile(r"(?<![\w.,/:$€£#-])(?:the\s)?(?:(?i:early|mid|late)[\s-])?(?P<y>[12]\d{2}0)['’]?s\b(?!-)"), decade
    yield re.compile(r"(?<!\w)(?:den\s|der\s|die\s)?(?P<y>[12]\d{2}0|[2-9]0)er(?:\b(?![-\w])(?:[\s-]Jahren?)?|[\s-]?[Jj]ahren?\b)"), decade
    yield re.compile(rf"\b(?P<y>(?i:{'|'.join(tens)}))(?:{S}Jahren?|jahren?)\b"), decade
    yield re.compile(r"(?<!\w)the\s['’](?P<y>[2-9]0)s\b"), decade
    yield re.compile(rf"\b(?i:años|décadas?{S}de(?:{S}los)?|années|décennie){S}(?P<y>[12]\d{{2}}0|[2-9]0)(?!\d)"), decade
    yield re.compile(r"(?P<c>[12]?\d)世纪(?P<y>[1-9]0)年代"), decade
    yield re.compile(r"(?<!\d)(?P<y>[12]\d{2}0)年代"), decade

    def century(text: str, m: re.Match[str]) -> Candidate | None:
        written = m["c"].lower()
        n = int(written) if written.isdigit() else _ROMAN[written] if written in _ROMAN else _EN_ORDINALS.index(written) + 1
        return _whole(m, PartialDate(100 * (n - 1), years=100)) if 5 <= n <= 21 else None

    not_before_christ = rf"(?!{S}(?:B\.?C|v\.|av\.|a\.))"
    words = "|".join(sorted(_EN_ORDINALS[:20], key=len, reverse=True))
    roman = "|".join(sorted(map(str.upper, _ROMAN), key=len, reverse=True))
    yield (
        re.compile(rf"\b(?:the{S})?(?P<c>\d\d?(?=st|nd|rd|th)|(?i:{words}|twenty-first))(?:st|nd|rd|th)?{S}century\b{not_before_christ}"),
        century,
    )
    yield re.compile(rf"(?<!\w)(?P<c>\d\d?)\.{S}Jahrhunderts?\b{not_before_christ}"), century
    yield re.compile(rf"\b(?:siglo{S}(?P<c>{roman})\b){not_before_christ}"), century
    yield re.compile(rf"\b(?P<c>{roman})(?:e|ème){S}siècle\b{not_before_christ}"), century
    yield re.compile(r"(?<![\d前])(?P<c>[12]?\d)世纪(?!\d)"), century


def cjk_number(text: str) -> int:
    """The number that Chinese or other digits write: 2019, 二〇一九, 二十三."""
    if text.isdecimal():
        return int(text)
    values = [_CJK_DIGITS[c] for c in text]
    if 10 in values:
        at = values.index(10)
        return (values[at - 1] if at else 1) * 10 + (values[at + 1] if at + 1 < len(values) else 0)
    return int("".join(map(str, values)))


def _cjk_patterns() -> Iterator[Pattern]:
    """2019年3月12日 and its parts, also in Chinese digits and in Korean."""
    digits = "一二三四五六七八九十"

    def read(text: str, m: re.Match[str]) -> Candidate | None:
        groups = {name: cjk_number(value) for name, value in m.groupdict().items() if value and name in "y y2 m d m2 d2"}
        first = PartialDate(groups.get("y", 0), groups.get("m", 0), groups.get("d", 0))
        last = PartialDate(groups.get("y2", first.year), groups.get("m2", first.month), groups.get("d2", first.day))
        if "y2" in groups:
            last = PartialDate(last.year, groups.get("m2", 0), groups.get("d2", 0))
        return _whole(m, first, last, has_year="y" in groups)

    number = rf"(?:\d{{1,2}}|[{digits}]{{1,3}})"
    year = r"(?:[12]\d{3}|[一二][〇○零一二三四五六七八九]{3})"
    month_day = rf"(?P<m>{number})月(?:份|(?P<d>{number})[日号號])?"
    to = r"(?:[至到–—~～-]|日?至)"
    until = rf"(?:{to}(?:(?P<y2>{year})年(?:(?P<m2>{number})月(?:(?P<d2>{number})[日号])?)?))?"
    yield re.compile(rf"(?<![\d.])(?<!过去)(?<!过去\s)(?<!长达)(?P<y>{year})\s?年(?!代|前的?历史|来)(?:\s?{month_day})?{until}"), read
    yield re.compile(rf"(?<![\d.])(?P<y>{year}){to}(?P<y2>{year})年(?!代)"), read
    yield re.compile(rf"(?<![\d.年个{digits}])(?P<m>{number})月(?P<d>{number})[日号號]"), read
    yield re.compile(r"(?<!\d)(?P<y>[12]\d{3})년(?:\s?(?P<m>\d{1,2})월(?:\s?(?P<d>\d{1,2})일)?)?"), read


def _era_patterns() -> Iterator[Pattern]:
    """Years with their era: AD 79, 44 BC, 221 v. Chr., 公元前221年."""

    def read(text: str, m: re.Match[str]) -> Candidate | None:
        groups = m.groupdict()
        year = int(m["y"])
        return _whole(m, PartialDate(1 - year if groups.get("bc") else year)) if year else None

    bc = r"(?P<bc>BCE?|B\.C\.(?:E\.)?|v\. ?Chr\.|av\. ?J\.-C\.|a\. ?C\.)"
    ad = r"(?:A\.?D\.?|C\.?E\.?|n\. ?Chr\.|apr\. ?J\.-C\.|d\. ?C\.)"
    yield re.compile(rf"(?<![\w.,/:$€£#–-])(?P<y>[1-9]\d{{0,3}})(?:{S})?(?:{bc}|{ad})(?!\w)"), read
    yield re.compile(rf"(?<!\w)(?:AD|A\.D\.){S}(?P<y>[1-9]\d{{0,3}}){NOT_LONGER}"), read
    yield re.compile(r"公元(?P<bc>前)?(?P<y>\d{1,4})年"), read


_YEAR_FIRST = re.compile(
    r"(?<![\w/.:-])(?P<y>\d{4})(?:(?P<sep>[-/])(?P<m>0?[1-9]|1[0-2])(?P=sep)(?P<d>0?[1-9]|[12]\d|3[01])|\.(?P<m2>0[1-9]|1[0-2])\.(?P<d2>0[1-9]|[12]\d|3[01]))(?!\d|[-/.]\d|-?[A-SU-Za-z_])"
)
_YEAR_MONTH = re.compile(r"(?<![\w/.:–-])(?P<y>[12]\d{3})-(?P<m>0[1-9]|1[0-2])(?![\w/–-]|[.,:]\d)")
_PARTS = re.compile(
    r"(?<![\w/.:,$€£#-])(?P<a>\d{1,2})(?P<sep>[-/.])(?:(?<=\.)\s)?(?P<b>\d{1,2})(?P=sep)(?:(?<=\.)\s)?(?P<y>\d{4}|(?<=/)\d{2})(?![\w/-]|[.,]\d)"
)
_NO_DATE_BEFORE = re.compile(
    r"(?:version|release|build|tag|v|v\.|section|chapter|kapitel|abschnitt|§|no\.|nr\.|python|ip)\s?$", re.IGNORECASE
)


def _numeric_dates(text: str, language: str) -> Iterator[Candidate]:
    """2019-03-12, 3/12/2019, 12.03.2019: the order of day and month is that of the text's other dates, else that of its language.

    An English text without a telling date leaves both possible: the date is then known to the year.
    """
    for m in _YEAR_FIRST.finditer(text):
        is_version = m["m2"] and _NO_DATE_BEFORE.search(text[max(0, m.start() - 10) : m.start()])
        if (
            int(m["y"])
            and not is_version
            and (found := _whole(m, PartialDate(int(m["y"]), int(m["m"] or m["m2"]), int(m["d"] or m["d2"]))))
        ):
            yield found
    for m in _YEAR_MONTH.finditer(text):
        year, other = int(m["y"]), int(m["m"])
        if other == (year + 1) % 100 and re.search(r"(?:\bthe|\bseason|\byear)\s$", text[max(0, m.start() - 8) : m.start()]):
            continue  # the 2003-04 season
        if found := _whole(m, PartialDate(year, other)):
            yield found
    matches = [m for m in _PARTS.finditer(text) if not _NO_DATE_BEFORE.search(text[max(0, m.start() - 10) : m.start()])]
    is_day_first = _is_day_first(matches, text, language)
    for m in matches:
        a, b, year = int(m["a"]), int(m["b"]), int(m["y"]) if len(m["y"]) == 4 else _full_year(int(m["y"]))
        if not year:
            continue
        if m["sep"] == "." or is_day_first or a > 12:
            found = _whole(m, PartialDate(year, b, a))
        elif is_day_first is False or b > 12:
            found = _whole(m, PartialDate(year, a, b))
        else:
            found = _whole(m, PartialDate(year, a, b) if a == b else PartialDate(year)) if a and b else None
        if found:
            yield found


def _is_day_first(matches: Iterable[re.Match[str]], text: str, language: str) -> bool | None:
    """Whether numeric dates of a text give the day first; None if it does not say."""
    votes = Counter(int(m["a"]) > 12 for m in matches if (int(m["a"]) > 12) != (int(m["b"]) > 12))
    if votes:
        return votes[True] > votes[False] if votes[True] != votes[False] else None
    if language != "en":
        return True
    months = _months(["en"])[0]
    day_first = len(re.findall(rf"\b{DAY}\s(?:{months})\b", text[:100_000]))
    month_first = len(re.findall(rf"\b(?:{months})\s{DAY}\b", text[:100_000]))
    return None if day_first == month_first else day_first > month_first


def _full_year(two_digits: int) -> int:
    return two_digits + (2000 if two_digits < 50 else 1900)


_LONE_YEAR = re.compile(r"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{3})(?![\w%°€£$]|[.,:]\d|[/–-]\d|-\w)(?!\s(?:to|bis|al?|à)\s\d)")
_YEAR_RANGE = re.compile(
    rf"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{{3}})(?P<to>(?:{S})?[–—/-](?:{S})?|{S}(?:to|until|till|through|and|bis|und|al?|y|à|au|et){S})"
    r"(?P<y2>[12]\d{3}|\d{2})(?![\w–%°€£$]|-[\w]|[.,:]\d|/\d)"
)


def _years(text: str, language: str, others: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
    """Years alone, and ranges of them, where the text around them says that they are years. `others`: spans of other dates, in order."""
    taken = list(others)
    for m in _YEAR_RANGE.finditer(text):
        first = int(m["y"])
        last = int(m["y2"]) if len(m["y2"]) == 4 else first - first % 100 + int(m["y2"])
        found = Candidate(m.start(), m.end(), PartialDate(first), PartialDate(last))
        if first < last and not _is_taken(found, others):
            if is_year_range(text, m, first, last, language):
                yield found
            elif m["to"].strip() not in ("and", "und", "y", "et"):
                yield replace(found, is_possible=False)
            else:
                continue
            taken.append(m.span())
    taken.sort()
    before = None
    for m in _LONE_YEAR.finditer(text):
        found = Candidate(m.start(), m.end(), PartialDate(int(m["y"])), PartialDate(int(m["y"])))
        if not _is_taken(found, taken) and is_year(text, m.start(), m.end(), language, before):
            before = m.end()
            yield found
