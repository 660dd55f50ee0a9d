"""Candidates of dates in a text, before it is known which day they mean.

Days, months and longer periods in words; dates in digits: 2019-03-12, 3/12/2019, 12.03.2019; and years alone, where the words around a
number say that it is one.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from localrag.dates.date_words import SPACE, RelativeRule, alternatives, cjk_number, date_words
from localrag.dates.edtf import FIRST_QUARTER, PartialDate
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE

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


_EN_ORDINALS = (
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
        day = int(m["d"]) or 99 if m["d"].isdigit() else _EN_ORDINALS.index("-".join(m["d"].lower().split())) + 1
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
        ordinals = "|".join(sorted(_EN_ORDINALS, key=len, reverse=True))
        yield re.compile(rf"\b(?P<d>(?i:{ordinals})){S}(?:day{S})?(?:of{S})?(?P<m>{months})\b{year}"), read
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
    words = _EN_ORDINALS[:4]

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


# Dates in digits, and years

ORDER_CHARS = 100_000  # of a text that tell whether it writes the day or the month first
FIRST_SHORT_YEAR = 50  # 50 is 1950, 49 is 2049
FIRST_YEAR, LAST_YEAR = 1100, 2100  # of years that are written alone
WINDOW_CHARS = 40  # before a number that tell whether it is a year
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
_LONE_YEAR = re.compile(r"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{3})(?![\w%°€£$]|[.,:]\d|[/–-]\d|-\w)(?!\s?[*+=×])")
_YEAR_RANGE = re.compile(
    rf"(?<![\w.,/:$€£¥#§–-])(?P<y>[12]\d{{3}})(?P<to>(?:{S})?[–—/-](?:{S})?)(?P<y2>[12]\d{{3}}|\d{{2}})(?![\w–%°€£$]|-[\w]|[.,:]\d|/\d)"
)
# Words before a number that is then a year.
_PREPOSITIONS = {
    "en": r"in|since|from|until|till|by|before|after|during|around|circa|about|of|early|mid|late|years?|through|spring|summer|autumn|fall"
    r"|winter|born|died|dated|established|founded|est\.|b\.|d\.|c\.|ca\.|fl\.|between|fiscal|act|early as|late as|to",
    "de": r"jahre?s?|seit|bis|ab|vor|nach|um|gegen|ca\.|zwischen|von|vom|anfang|mitte|ende|sommer|winter|herbst|frühjahr|geboren"
    r"|geb\.|gest\.",
    "es": r"en|de|del|desde|hasta|a|año|años|entre|hacia|c\.|ca\.",
    "fr": r"en|de|depuis|jusqu['’]en|dès|vers|avant|après|entre|à|année|années|l['’]an|été|hiver|printemps|automne|fin|début",
    "zh": "在|于|自|从|至",
}
_ALWAYS = r"[(（]|©|\(c\)"
_ARGUMENT = re.compile(r",\s?\d{1,2}(?!\d)")  # date(2022, 3, 28)
_VAGUE = frozenset("about around by to etwa vers hacia über a à".split())  # that stand as often before amounts
_NUMBERED = re.compile(r"\b(?:pages?|pp?\.|lines?|verses?|lots?|nos?\.|vol\.|volumes?|seiten?|s\.|nr\.|páginas?)\s?$", re.IGNORECASE)
_UNITS = frozenset(
    """
    attacks times words pages lines copies miles mile metres meters metre meter km m ft feet foot yards inches kg g t tons tonnes pounds
    dollars euros euro francs marks pesos rubles yen yuan cents hours hrs hour minutes seconds days weeks months years gmt utc bst est local
    bytes bits pixels px mb gb kb kw mw hp cc ml l litres liters percent per degrees calories points acres hectares kilómetros metros
    pesetas libras dólares páginas veces kilomètres mètres livres fois kilometer seiten uhr mal mark dollar pfund stück
    people persons men women children votes voters soldiers members horses others species personas hombres mujeres hommes femmes soldats
    personnes chevaux menschen einwohner personen arbeiter soldaten
    """.split()
)
_NEXT_WORD = re.compile(r"(?:\s(?:to|bis|al?|à)\s\d{1,6})?[^\S\n]{1,3}([^\W\d_]+)")
_LINE_START = re.compile(r"(?:^|\n)[ \t>]*(?:[-*+•][ \t]+|#{1,6}[ \t]+|\|[ \t]*)?(?:\*\*|__)?$")
_ENTRY = re.compile(r"(?:\*\*|__)?[ \t]*(?:[:–—|\t]|-[ \t]|\n)")
_DETERMINER = re.compile(r"(?:\b(?:the|a|an|his|her|its|their|our|my|this|that)|['’]s|\w{2}s['’])\s$", re.IGNORECASE)
_OTHER_ERA = re.compile(r"\s?(?:AH|A\.H\.|AM|A\.M\.|BE|B\.E\.|H\.|AUC|SE)(?!\w)")
_COORDINATION = re.compile(r",?\s(?:and|or|to|und|oder|bis|y|o|a|et|ou|à)\s|,\s|\s?&\s?")
_CLAUSE_END = re.compile(r"[.,;)](?!\d)|\s*$")
_AFTER_WORD = re.compile(r"[a-zäöüß)]\s$|\($")


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
        elif is_day_first is False or b > 12 or a == b:
            date = PartialDate(year, a, b)
        else:
            date = PartialDate(year)
        if found := candidate_of(m, date):
            yield found


def _is_day_first(matches: Iterable[re.Match[str]], text: str, language: str) -> bool | None:
    """Whether numeric dates of a text give the day first; None if it does not say."""
    votes = Counter(int(m["a"]) > 12 for m in matches if (int(m["a"]) > 12) != (int(m["b"]) > 12))
    if votes:
        return votes[True] > votes[False] if votes[True] != votes[False] else None
    if language != "en":
        return True
    months, beginning = names_pattern(["en"])[0], text[:ORDER_CHARS]
    day_first = len(re.findall(rf"\b{DAY}\s(?:{months})\b", beginning))
    month_first = len(re.findall(rf"\b(?:{months})\s{DAY}\b", beginning))
    return None if day_first == month_first else day_first > month_first


def years(text: str, language: str, others: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
    """Years alone, and ranges of them with a dash, where the text says that they are years. `others`: spans of other dates, in order."""
    ranges = [found for m in _YEAR_RANGE.finditer(text) if (found := _year_range(m, language)) and not is_taken(found, others)]
    yield from ranges
    taken = sorted([*others, *((c.start, c.end) for c in ranges)])
    last_end = None
    for m in _LONE_YEAR.finditer(text):
        found = Candidate(m.start(), m.end(), PartialDate(int(m["y"])), PartialDate(int(m["y"])))
        if not is_taken(found, taken) and _is_year(m, language, last_end):
            last_end = m.end()
            yield found


def _year_range(m: re.Match[str], language: str) -> Candidate | None:
    """Two numbers as a range of years, or as one of other things; None if the second is not greater."""
    first, joint = int(m["y"]), m["to"].strip()
    last = int(m["y2"]) if len(m["y2"]) == 4 else first - first % 100 + int(m["y2"])
    if first >= last:
        return None
    window = m.string[max(0, m.start() - WINDOW_CHARS) : m.start()]
    is_month = len(m["y2"]) == 2 and joint == "-" and int(m["y2"]) <= 12 and not window.endswith("the ")  # 2010-11
    is_other = (
        is_month or _NUMBERED.search(window) or _is_counted(m.string, m.end(), last, language) or (joint == "/" and last != first + 1)
    )
    is_range = first >= FIRST_YEAR and last <= LAST_YEAR and not is_other
    return Candidate(m.start(), m.end(), PartialDate(first), PartialDate(last), is_possible=is_range)


def _is_year(m: re.Match[str], language: str, last_end: int | None) -> bool:
    """Whether a number is a year. `last_end`: the end of the year before it in the text."""
    text, start, end = m.string, m.start(), m.end()
    window = text[max(0, start - WINDOW_CHARS) : start]
    is_argument = window.endswith("(") and _ARGUMENT.match(text, end)
    if is_argument or not FIRST_YEAR <= int(m["y"]) <= LAST_YEAR or _is_counted(text, end, int(m["y"]), language):
        return False
    is_coordinated = last_end is not None and _COORDINATION.fullmatch(text, last_end, start)
    if is_coordinated or (_LINE_START.search(window) and _ENTRY.match(text, end)):  # "1974: …" in a chronicle, or a heading
        return True
    following = _NEXT_WORD.match(text, end)
    word = following[1] if following else ""
    if preposition := _prepositions(language).search(window):
        is_vague = preposition[0].strip().lower() in _VAGUE
        return not is_vague or not word or word.lower() in _function_words(language) or word[0].isupper()
    if language == "de":  # "1974 kaufte die Stadt", "wurde 1974 gegründet"; what is counted is a noun, with a capital
        is_clause_end = _CLAUSE_END.match(text, end) and _AFTER_WORD.search(window) and not _NUMBERED.search(window)
        return word[0].islower() if word else bool(is_clause_end)
    return language == "en" and bool(word) and _DETERMINER.search(window) is not None  # "the 1974 election"


def _is_counted(text: str, end: int, number: int, language: str) -> bool:
    """Whether the word behind a number says what it counts, or that it is of another era: a unit, or after a round number a plural."""
    following = _NEXT_WORD.match(text, end)
    if following is None:
        return _OTHER_ERA.match(text, end) is not None
    word = following[1].lower()
    if word in _UNITS or _OTHER_ERA.match(text, end):
        return True
    if number % 50 or word in _function_words(language):
        return False
    return following[1][0].isupper() if language == "de" else word.endswith("s") and following[1][0].islower()


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(FUNCTION_WORDS_BY_LANGUAGE.get(language, FUNCTION_WORDS_BY_LANGUAGE["en"]).split())


@cache
def _prepositions(language: str) -> re.Pattern[str]:
    words = _PREPOSITIONS.get(language, _PREPOSITIONS["en"])
    if language == "zh":
        return re.compile(rf"(?:{words}|{_ALWAYS})\s?$")
    behind = r"(?:the\syear\s|about\s|around\s|c\.\s?|ca\.\s?)?"
    return re.compile(rf"(?:(?<!\w)(?:{words})[\s-]+{behind}|{_ALWAYS}|(?<!\w)c\.\s?)$", re.IGNORECASE)
