"""Patterns of seasons, quarters, decades, centuries, years with an era, and of dates in Chinese, Japanese and Korean."""

import re
from collections.abc import Iterator

from localrag.analysis.date_candidates import EN_ORDINALS, NOT_LONGER, Candidate, DatePattern, candidate_of
from localrag.analysis.date_words import SEASONS, SPACE, cjk_number
from localrag.analysis.edtf import FIRST_QUARTER, PartialDate

S = SPACE
_SEASON_NUMBERS = {form.lower(): n for words in SEASONS.values() for n, forms in words.items() for form in forms.split("|")}
_QUARTER_NUMBERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "一": 1, "二": 2, "三": 3, "四": 4}
_DE_DECADES = "zwanziger dreißiger vierziger fünfziger sechziger siebziger achtziger neunziger".split()
_ROMAN = "v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx xxi".split()
FIRST_ROMAN, LAST_CENTURY = 5, 21


def period_patterns() -> Iterator[DatePattern]:
    """The patterns of periods longer than a month."""
    yield from _season_patterns()
    yield from _decade_patterns()
    yield from _century_patterns()
    yield from _era_patterns()


def _season_patterns() -> Iterator[DatePattern]:
    """Summer of 1974, Frühjahr 1974, Q3 2019, the third quarter of 2019, 2019年第三季度."""

    def season(m: re.Match[str]) -> Candidate | None:
        return candidate_of(m, PartialDate(int(m["y"]), _SEASON_NUMBERS[m["s"].lower()]))

    def quarter(m: re.Match[str]) -> Candidate | None:
        n = _QUARTER_NUMBERS.get(m["q"].lower()) or int(m["q"])
        return candidate_of(m, PartialDate(int(m["y"]), FIRST_QUARTER - 1 + n))

    names = "|".join(form for form in _SEASON_NUMBERS if form[0] < "一")
    of = rf"(?:{S}(?:of|de{S}l['’]année|de|del|des{S}Jahres))?"
    year = rf"(?P<y>[12]\d{{3}}){NOT_LONGER}"
    yield re.compile(rf"\b(?P<s>{names}){of}{S}{year}(?![-–/]\d)", re.IGNORECASE), season
    yield re.compile(rf"\bQ(?P<q>[1-4])(?:{S}(?:of{S})?|[-/])?{year}"), quarter
    yield re.compile(rf"(?<!\d)(?P<y>[12]\d{{3}})(?:{S}|-)?Q(?P<q>[1-4])(?!\w)"), quarter
    yield re.compile(rf"\b(?P<q>first|second|third|fourth){S}quarter{S}(?:of{S})?{year}", re.IGNORECASE), quarter
    yield re.compile(rf"(?<!\d)(?P<q>[1-4])\.{S}(?:Quartal|Viertel){S}{year}"), quarter
    yield re.compile(r"(?P<y>[12]\d{3})年第?(?P<q>[一二三四1-4])季度"), quarter


def _decade_patterns() -> Iterator[DatePattern]:
    """The 1960s, den 1960er Jahren, los años 60, les années 1960, 20世纪60年代; without a century those from the 1920s on."""

    def decade(m: re.Match[str]) -> Candidate | None:
        groups = m.groupdict()
        digits = m["y"] if m["y"].isdigit() else f"{_DE_DECADES.index(m['y'].lower()) + 2}0"
        if len(digits) == 4:
            is_century = digits.endswith("00") and digits < "2000"  # "the 1800s"; "the 2000s" is mostly the decade
            return candidate_of(m, PartialDate(int(digits), years=100 if is_century else 10))
        century = int(groups.get("c") or 20) - 1
        return candidate_of(m, PartialDate(100 * century + int(digits), years=10)) if groups.get("c") or digits >= "20" else None

    yield re.compile(r"(?<![\w.,/:$€£#-])(?:the\s)?(?:(?i:early|mid|late)[\s-])?(?P<y>[12]\d{2}0)['’]?s\b(?!-)"), decade
    yield re.compile(r"(?<!\w)(?:den\s|der\s|die\s)?(?P<y>[12]\d{2}0|[2-9]0)er(?:\b(?![-\w])(?:[\s-]Jahren?)?|[\s-]?[Jj]ahren?\b)"), decade
    yield re.compile(rf"\b(?P<y>(?i:{'|'.join(_DE_DECADES)}))(?:{S}Jahren?|jahren?)\b"), decade
    yield re.compile(r"(?<!\w)the\s['’](?P<y>[2-9]0)s\b"), decade
    yield re.compile(rf"\b(?i:años|décadas?{S}de(?:{S}los)?|années|décennie){S}(?P<y>[12]\d{{2}}0|[2-9]0)(?!\d)"), decade
    yield re.compile(r"(?P<c>[12]?\d)世纪(?P<y>[1-9]0)年代"), decade
    yield re.compile(r"(?<!\d)(?P<y>[12]\d{2}0)年代"), decade


def _century_patterns() -> Iterator[DatePattern]:
    """The 19th century, 19. Jahrhundert, siglo XIX, XIXe siècle, 19世纪; none before Christ."""

    def century(m: re.Match[str]) -> Candidate | None:
        written = m["c"].lower()
        n = (
            int(written)
            if written.isdigit()
            else _ROMAN.index(written) + FIRST_ROMAN
            if written in _ROMAN
            else EN_ORDINALS.index(written) + 1
        )
        return candidate_of(m, PartialDate(100 * (n - 1), years=100)) if FIRST_ROMAN <= n <= LAST_CENTURY else None

    after = rf"(?!{S}(?:B\.?C|v\.|av\.|a\.))"
    words = "|".join(sorted(EN_ORDINALS[:LAST_CENTURY], key=len, reverse=True))
    roman = "|".join(sorted(map(str.upper, _ROMAN), key=len, reverse=True))
    number = rf"(?P<c>\d\d?(?=st|nd|rd|th)|(?i:{words}))(?:st|nd|rd|th)?"
    yield re.compile(rf"\b(?:the{S})?{number}{S}century\b{after}"), century
    yield re.compile(rf"(?<!\w)(?P<c>\d\d?)\.{S}Jahrhunderts?\b{after}"), century
    yield re.compile(rf"\bsiglo{S}(?P<c>{roman})\b{after}"), century
    yield re.compile(rf"\b(?P<c>{roman})(?:e|ème){S}siècle\b{after}"), century
    yield re.compile(r"(?<![\d前])(?P<c>[12]?\d)世纪(?!\d)"), century


def _era_patterns() -> Iterator[DatePattern]:
    """AD 79, 44 BC, 221 v. Chr., 公元前221年."""

    def read(m: re.Match[str]) -> Candidate | None:
        year = int(m["y"])
        return candidate_of(m, PartialDate(1 - year if m.groupdict().get("bc") else year)) if year else None

    bc = r"(?P<bc>BCE?|B\.C\.(?:E\.)?|v\. ?Chr\.|av\. ?J\.-C\.|a\. ?C\.)"
    ad = r"(?:A\.?D\.?|C\.?E\.?|n\. ?Chr\.|apr\. ?J\.-C\.|d\. ?C\.)"
    yield re.compile(rf"(?<![\w.,/:$€£#–-])(?P<y>[1-9]\d{{0,3}})(?:{S})?(?:{bc}|{ad})(?!\w)"), read
    yield re.compile(rf"(?<!\w)(?:AD|A\.D\.){S}(?P<y>[1-9]\d{{0,3}}){NOT_LONGER}"), read
    yield re.compile(r"公元(?P<bc>前)?(?P<y>\d{1,4})年"), read


def cjk_patterns() -> Iterator[DatePattern]:
    """2019年3月12日 and its parts, ranges of them, also in Chinese digits and in Korean."""
    digits = "一二三四五六七八九十"

    def read(m: re.Match[str]) -> Candidate | None:
        groups = {name: cjk_number(value) for name, value in m.groupdict().items() if value and name in "y y2 m d m2 d2".split()}
        first = PartialDate(groups.get("y", 0), groups.get("m", 0), groups.get("d", 0))
        if "y2" in groups:
            last = PartialDate(groups["y2"], groups.get("m2", 0), groups.get("d2", 0))
        else:
            last = PartialDate(first.year, first.month, groups.get("d2", first.day))
        return candidate_of(m, first, last, has_year="y" in groups)

    number, year = rf"(?:\d{{1,2}}|[{digits}]{{1,3}})", r"(?:[12]\d{3}|[一二][〇○零一二三四五六七八九]{3})"
    to = r"(?:日?[至到–—~～-])"
    month_day = rf"(?P<m>{number})月(?:份|(?P<d>{number})[日号號])?"
    until = rf"(?:{to}\s?(?P<y2>{year})\s?年(?:(?P<m2>{number})月(?:(?P<d2>{number})[日号])?)?)?"
    past = r"(?<!过去)(?<!过去\s)(?<!长达)"  # "the past 1000 years"
    yield re.compile(rf"(?<![\d.]){past}(?P<y>{year})\s?年(?!代|前的?历史|来)(?:\s?{month_day})?\s?{until}"), read
    yield re.compile(rf"(?<![\d.])(?P<y>{year}){to}(?P<y2>{year})年(?!代)"), read
    yield (
        re.compile(
            rf"(?<![\d.个{digits}])(?<![^今去明同次翌前]年)(?P<m>{number})月(?P<d>{number})[日号號](?:{to}(?P<d2>{number})[日号號])?"
        ),
        read,
    )
    yield re.compile(r"(?<!\d)(?P<y>[12]\d{3})년(?:\s?(?P<m>\d{1,2})월(?:\s?(?P<d>\d{1,2})일)?)?"), read
