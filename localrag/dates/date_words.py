"""The words of dates in several languages: months and weekdays from dateparser, and how a text reckons from another date.

For every language that dateparser knows, months are read; dates in relation to others and years alone in the languages of RELATIVE.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from localrag.entailment.english import MONTH_NAMES

WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()
SPACE = r"(?:[^\S\n]{1,3}\n?[^\S\n]{0,8}|\n[^\S\n]{0,8})"  # within a line, or where a line is wrapped; a blank line ends everything
CAPITALIZING = ("en", "de")  # languages whose months and weekdays have a capital: "may" is no month
UNITS = {
    "en": {"day": "days?", "week": "weeks?", "month": "months?", "year": "years?"},
    "de": {"day": "Tage?n?", "week": "Wochen?", "month": "Monate?n?s?", "year": "Jahre?n?s?"},
}
PERIODS = {  # units in the singular, as "last" and "the following" have them
    "en": "week|month|year",
    "de": "Woche|Monats?|Jahr(?:e?s)?",
}
_COUNTS = {
    "en": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "de": "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
}
_OTHER_COUNTS = {
    "en": {"a": 1, "an": 1} | {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)},
    "de": {"einem": 1, "einer": 1, "einen": 1, "eine": 1, "zwanzig": 20, "dreißig": 30},
}
_CJK_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "两": 2, "十": 10}
# What each reckons from ("own": the document's date, "text": the date before it in the text, "near": the weekday next to the document's
# date), by how much, of which unit; then its words. <what> is a unit, weekday, month or season; n and <n> are how many;
# <days> are days of a month. "Today" is mostly "nowadays" in other languages than English, so a time of day must follow it there.
RELATIVE = {
    "en": r"""
        own -2 day: the day before yesterday
        own +2 day: the day after tomorrow
        own -1 day: yesterday|last night
        own 0 day: today(?!['’]s)|tonight|this (?:morning|afternoon|evening)
        own +1 day: tomorrow
        own -1: (?<!the\s)last <what>
        own 0: this <what>
        own +1: (?<!the\s)next <what>
        own -n: <n> <unit> ago
        own +n: <n> <unit> from now
        text -1 day: the (?:day|night|evening) before(?=[.,;:])|the previous (?:day|night|evening)
        text +1 day: (?:the )?(?:next|following) (?:day|morning|afternoon|evening|night)|the day after(?=[.,;:])
        text +1: the (?:next|following) <what>
        text -1: the (?:previous|preceding) <what>
        text 0 day: (?:(?:the|that) same|that) (?:day|morning|afternoon|evening|night)
        text 0: (?:(?:the|that) same|that) <what>
        text +n: (?<!the\s)<n> <unit> (?:later|afterwards?|after that|thereafter)
        text -n: <n> <unit> (?:earlier|before that|previously)
        near 0: (?:on )?<weekday>(?!['’]?s\b| (?-i:[A-Z]))
    """,
    "de": r"""
        own -2 day: vorgestern
        own +2 day: übermorgen
        own -1 day: gestern
        own 0 day: heute (?:Morgen|Vormittag|Mittag|Nachmittag|Abend|Nacht|um)
        own +1 day: (?-i:morgen)
        own 0 year: heuer
        own -1 year: im Vorjahr
        own -1: (?:letzte|vorige|vergangene)[nmrs]? <what>
        own 0: diese[nmrs]? <what>
        own +1: (?:nächste|kommende)[nmrs]? <what>
        own -n: vor <n> <unit>
        text +1 day: am (?:(?:nächsten|folgenden|darauffolgenden) (?:Tag|Morgen|Abend)|Tag (?:darauf|danach))|tags darauf
        text -1 day: am Vortag|am Tag (?:zuvor|davor)
        text +1: (?:folgende|darauffolgende)[nmrs]? <what>
        text +1: <what> darauf
        text 0 day: am (?:selben|gleichen) (?:Tag|Abend)
        text 0: (?:selben|gleichen|demselben) <what>
        text +n: <n> <unit> (?:später|danach|darauf)
        text -n: <n> <unit> (?:zuvor|davor|vorher|früher)
        near 0: (?:am|bis|seit|ab) <weekday>(?:abend|nachmittag|vormittag|morgen|mittag|nacht)?
    """,
}


@dataclass(frozen=True, slots=True)
class RelativeRule:
    """How words of a language reckon: from `base`, in the `direction` -1, 0 or 1, by `count` (0: as many as they say) of `unit`."""

    base: str
    direction: int
    count: int
    unit: str
    pattern: re.Pattern[str]
    language: str

    def named(self, m: re.Match[str]) -> tuple[str, int]:
        """The unit that a match names, or "weekday" or "month name" with the number of the one it names."""
        groups, words = m.groupdict(), date_words(self.language)
        if word := groups.get("weekday"):
            return "weekday", words.weekdays[word.lower()]
        if word := groups.get("month"):
            return "month name", words.months[word.lower()]
        if word := groups.get("unit"):
            units = UNITS[self.language].items()
            return next(unit for unit, pattern in units if re.fullmatch(f"(?:{pattern})s?", word, re.IGNORECASE)), 0
        return self.unit, 0

    def number(self, m: re.Match[str]) -> int:
        """How many units a match counts; 0 if it counts none."""
        word = (m.groupdict().get("n") or "").lower()
        if word.isdecimal():
            return int(word)
        counts = date_words(self.language).counts
        return sum(counts.get(part, 0) for part in re.split(r"[-\s]", word))


@dataclass(frozen=True, slots=True)
class DateWords:
    """The words of a language, lower case, with what they mean; `relative`: its rules. Weekdays count from 0, Monday."""

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    counts: Mapping[str, int]
    relative: tuple[RelativeRule, ...] = ()

    @property
    def full_months(self) -> list[str]:
        """The names of months that are no abbreviations."""
        return [max((name for name, n in self.months.items() if n == month), key=len) for month in sorted(set(self.months.values()))]


def cjk_number(text: str) -> int:
    """The number that Chinese or other digits write: 2019, 二〇一九, 二十三."""
    if text.isdecimal():
        return int(text)
    values = [_CJK_DIGITS[c] for c in text]
    if 10 in values:
        at = values.index(10)
        return (values[at - 1] if at else 1) * 10 + (values[at + 1] if at + 1 < len(values) else 0)
    return int("".join(map(str, values)))


def alternatives(names: Iterable[str], language: str = "") -> str:
    """A pattern of any of the names, the longest first: in lower case, except in English and German, with a capital, or in capitals."""
    is_capitalized = language in CAPITALIZING
    forms = {form for name in names for form in ([name] * (not is_capitalized) + [name.capitalize(), name.upper()])}
    return "(?-i:" + "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form))) + ")"


@cache
def date_words(language: str) -> DateWords:
    """The words of dates in a language; none of its own if dateparser does not know it."""
    known, is_cjk = _locale(language), language == "zh"
    months = {form: n for n, name in enumerate(MONTH_NAMES, 1) for form in _names(known.get(name, ()), 2 if is_cjk else 3)}
    weekdays = {form: n for n, name in enumerate(WEEKDAY_NAMES) for form in _names(known.get(name, ()), 2 if is_cjk else 5)}
    counts = {word: n for n, word in enumerate(_COUNTS.get(language, "").split(), 1)} | _OTHER_COUNTS.get(language, {})
    words = DateWords(months, weekdays, counts)
    return replace(words, relative=tuple(_rules(language, words)))


def _locale(language: str) -> Mapping[str, Any]:
    from dateparser.languages.loader import default_loader  # slow import

    try:
        return dict(default_loader.get_locale(language).info)
    except ValueError:
        return {}


def _names(forms: Iterable[str], least: int) -> set[str]:
    return {form.lower() for form in forms if len(form) >= least and form.replace(".", "").isalpha()}


def _rules(language: str, words: DateWords) -> Iterator[RelativeRule]:
    if language not in RELATIVE:
        return
    weekday = alternatives(words.weekdays, language)
    named = {
        "unit": PERIODS[language],
        "weekday": weekday,
        "month": alternatives(words.full_months, language),
    }
    count = "|".join(sorted(words.counts, key=len, reverse=True))
    parts = {
        "what": "(?:" + "|".join(f"(?P<{name}>{pattern})" for name, pattern in named.items()) + ")",
        "unit": f"(?P<unit>{'|'.join(UNITS[language].values())})",
        "weekday": f"(?P<weekday>{weekday})",
        "n": rf"(?P<n>(?<![\d.,])\d{{1,3}}|(?:{count})(?:-(?:{count}))?)",
    }
    for line in filter(None, map(str.strip, RELATIVE[language].splitlines())):
        head, _, forms = line.partition(": ")
        base, step, *unit = head.split()
        pattern = re.sub("<(what|unit|weekday|n)>", lambda m: parts[m[1]], forms.replace(" ", SPACE))
        direction = (step > "+" and step[0] == "+") - (step[0] == "-")
        steps = 0 if step.endswith("n") else abs(int(step))
        yield RelativeRule(base, direction, steps, "".join(unit), re.compile(rf"(?<![\w-])(?:{pattern})\b", re.IGNORECASE), language)
