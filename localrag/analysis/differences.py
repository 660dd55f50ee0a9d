"""What two statements about the same thing differ in: figures, names, negation or opposites."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from localrag.entailment import parse_sentence
from localrag.entailment.comparison import matched
from localrag.entailment.english import DAYS, MONTH_NAMES
from localrag.entailment.lexicon import ParsedSentence, ParsedWord, chinese_quantities, english_quantities
from localrag.text.sentences import STOP_WORDS, is_cjk

MAX_DIFFERENCES = 3  # of two statements that are considered

_GERMAN_MONTHS = "januar februar märz april mai juni juli august september oktober november dezember".split()
_GERMAN_DAYS = "montag dienstag mittwoch donnerstag freitag samstag sonntag".split()
_MONTH_NUMBERS = {month: n for names in (MONTH_NAMES, _GERMAN_MONTHS) for n, month in enumerate(names, 1)}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_DATE = re.compile(
    r"(?P<clock>\d{1,2}(?:[:.]\d\d)?\s?(?:am|pm|a\.m\.|p\.m\.|Uhr)(?!\w)|(?<![\d:.])\d{1,2}:\d\d(?![\d:]))"
    rf"|(?:\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s(?:of\s)?)?\b(?P<month>{_MONTH})\b(?:,?\s(?P<year>[12]\d{{3}})\b)?"
    rf"|\b(?P<weekday>{'|'.join([*DAYS, *_GERMAN_DAYS])})s?\b|(?<![\d.,/-])(?P<only>1[0-9]\d\d|20\d\d)(?![\d/%]|[.,-]\d|\s?(?:{{units}}))"
    r"|(?P<chinese>\d{4}年(?:\d{1,2}月(?:\d{1,2}日)?)?)".replace(
        "{units}", "km|m|kg|euros?|dollars?|pounds?|crowns|years|people|metres|meters|tonnes|members|copies"
    ),
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-ZÄÖÜÉÁÓÅØ][\w’'&-]*(?:[ ](?:(?:of|de|von|van|the|du|da|der|&)\s)?[A-ZÄÖÜÉÁÓÅØ][\w’'&-]*)*")
_NOT_NAMES = re.compile(r"^(?:The|A|An|In|On|At|By|For|From|With|Our|Its|His|Her|Der|Die|Das|Im|Am|Mit|El|La|Los|Las|Le|Les|L)\.?(?:\s+|$)")
# A negator → what stands in its place in the sentence that is not negated.
_AFFIRMED = (
    (r"\bcan(?:not|['’]t)\b", "can"), (r"\bwon['’]t\b", "will"), (r"n['’]t\b", ""), (r"\s(?:not|never|nicht|pas|jamais|nunca)\b", ""),
    (r"\b(?:nobody|no one)\b", "somebody"), (r"\bnothing\b", "something"), (r"\bnone of\b", "some of"), (r"\bneither\b", "both"),
    (r"\bno\b", "a"), (r"\bwithout\b", "with"), (r"\bkein(\w*)\b", r"ein\1"), (r"\bniemand\b", "jemand"), (r"\bohne\b", "mit"),
    (r"不|没有|没|未", ""),
)  # fmt: skip
_NEGATORS = tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, text in _AFFIRMED)
# Units in terms of a smaller one, so that two hours are 120 minutes.
_BASE_UNITS = {
    "minute": ("second", 60.0), "hour": ("second", 3600.0), "week": ("day", 7.0), "year": ("month", 12.0), "km": ("mm", 1e6),
    "metre": ("mm", 1e3), "cm": ("mm", 10.0), "kg": ("g", 1e3), "tonne": ("g", 1e6), "litre": ("ml", 1e3),
}  # fmt: skip
_AT_LEAST = re.compile(r"(?:more than|over|above|at least|no (?:less|fewer) than|exceeds?|upwards of)\s+$", re.IGNORECASE)
_AT_MOST = re.compile(
    r"(?:less than|fewer than|under|below|at most|up to|no more than|as many as|maximum of|not exceed)\s+$", re.IGNORECASE
)
_ABOUT = re.compile(
    r"(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|circa|ca\.|rund|etwa|unos|environ)\s+$", re.IGNORECASE
)
_DESIGNATED = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w’'-]{0,60}[ /-]$")  # what a number behind a name belongs to: HD 40, Python 3
MAX_ROUNDING_SHARE = 0.1  # by which "about 1,200" differs from the true number


class Figure(NamedTuple):
    """A number or date at characters `start` to `end`; `value` is equal for equal ones; `kind`: "number" or "date"; `unit` of a number."""

    start: int
    end: int
    value: str
    kind: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class StatementDifference:
    """A difference: its `kind` (number, date, name, opposite, negation), and its characters in both statements.

    `agreeing`: both statements after one is changed to say what the other says. If they then say the same, it is the only difference.
    """

    kind: str
    first: tuple[int, int]
    second: tuple[int, int]
    agreeing: tuple[str, str]


@lru_cache(maxsize=8192)
def find_figures(text: str) -> tuple[Figure, ...]:
    """The numbers and dates of a text in order."""
    found = [
        Figure(m.start(), m.end(), _date_value(m), "date") for m in _DATE.finditer(text) if m["month"] is None or m["month"][0].isupper()
    ]
    for q in chinese_quantities(text) if is_cjk(text) else english_quantities(text):
        if not any(f.start < q.end and q.start < f.end for f in found):
            unit, factor = _BASE_UNITS.get(q.unit, (q.unit, 1.0))
            try:
                value = f"{float(q.value) * factor:.10g}"
            except ValueError:  # a range, or a version
                value = q.value
            found.append(Figure(q.start, q.end, value, "number", unit))
    return tuple(sorted(found))


def _date_value(m: re.Match[str]) -> str:
    if m["month"]:
        return f"{m['year'] or ''}-{_MONTH_NUMBERS[m['month'].lower()]}-{m['day'] or ''}"
    return f"{m['only']}--" if m["only"] else m[0].lower().rstrip("s")


def differences(a: str, b: str) -> list[StatementDifference]:
    """What two statements differ in, the most telling first; empty if the rules cannot tell."""
    return [*_other_figures(a, b), *_opposites(a, b), *_negation(a, b), *_other_names(a, b)][:MAX_DIFFERENCES]


def other_figures(a: str, b: str) -> tuple[list[Figure], list[Figure]]:
    """The figures of each statement with which none of the other's agrees."""
    left = [x for x in find_figures(a) if not any(_can_both_hold(a, x, b, y) for y in find_figures(b))]
    right = [y for y in find_figures(b) if not any(_can_both_hold(a, x, b, y) for x in find_figures(a))]
    return left, right


def _other_figures(a: str, b: str) -> Iterator[StatementDifference]:
    left, right = other_figures(a, b)
    if 1 < len(left) == len(right) and all(x.kind == y.kind and x.unit == y.unit for x, y in zip(left, right, strict=True)):
        agreeing = b  # "243 km (151 miles)" and "362 km (225 miles)" are one difference
        for x, y in reversed(list(zip(left, right, strict=True))):
            agreeing = agreeing[: y.start] + a[x.start : x.end] + agreeing[y.end :]
        yield StatementDifference(left[0].kind, (left[0].start, left[0].end), (right[0].start, right[0].end), (a, agreeing))
    pairs = [(x, y) for x in left for y in right if x.kind == y.kind and x.unit == y.unit]
    pairs = pairs or [(x, y) for x in left for y in right if x.kind == y.kind and not (x.unit and y.unit)]
    for x, y in sorted(pairs, key=lambda pair: -_context_share(a, pair[0], b, pair[1]))[:2]:
        is_name = _DESIGNATED.search(a[: x.start]) and _DESIGNATED.search(b[: y.start]) and x.kind == "number" and not x.unit
        yield _substituted("name" if is_name else x.kind, a, (x.start, x.end), b, (y.start, y.end))


def _can_both_hold(a: str, x: Figure, b: str, y: Figure) -> bool:
    """Whether two figures can both be right of the same thing: equal, a part of a date, about as many, or within a bound."""
    if x.kind != y.kind or (x.unit and y.unit and x.unit != y.unit):
        return False
    if x.value == y.value:
        return True
    return _is_part_of_date(x, y) if x.kind == "date" else _is_within_bounds(a[: x.start], x.value, b[: y.start], y.value)


def _is_part_of_date(x: Figure, y: Figure) -> bool:
    """Whether two dates agree in what both state of year, month and day."""
    parts = [figure.value.split("-") for figure in (x, y)]
    if not all(len(p) == 3 for p in parts):
        return False
    stated = [(m, n) for m, n in zip(*parts, strict=True) if m and n]
    return bool(stated) and all(m == n for m, n in stated)


def _is_within_bounds(before: str, value: str, behind: str, other: str) -> bool:
    """Whether one of two numbers is near the other, which is said to be approximate, or within a bound; the texts stand before them."""
    try:
        m, n = float(value), float(other)
    except ValueError:  # a range, or a version
        return False
    if (_ABOUT.search(before) or _ABOUT.search(behind)) and abs(m - n) <= MAX_ROUNDING_SHARE * max(m, n):
        return True
    for bound, sign in ((_AT_LEAST, 1), (_AT_MOST, -1)):
        is_bound = bound.search(before) is not None, bound.search(behind) is not None
        if any(is_bound):
            return not all(is_bound) and sign * (n - m if is_bound[0] else m - n) >= 0
    return False


def _context_share(a: str, x: Figure, b: str, y: Figure) -> float:
    """How many words two figures have in common around them."""
    around = [set(re.findall(r"\w{3,}", text[max(0, f.start - 30) : f.end + 30].lower())) for text, f in ((a, x), (b, y))]
    return len(around[0] & around[1]) / max(1, min(map(len, around)))


@lru_cache(maxsize=8192)
def _names(text: str) -> tuple[tuple[int, int], ...]:
    """The capitalized words and runs of a text, without articles and prepositions at the beginning of a sentence."""
    found = []
    for m in _NAME.finditer(text):
        lead = _NOT_NAMES.match(m[0])
        start = m.start() + (lead.end() if lead else 0)
        name = text[start : m.end()]
        is_word = name.lower() in STOP_WORDS or (m.start() == 0 and " " not in name and not lead)
        if name and not is_word and not _DATE.search(name):
            found.append((start, m.end()))
    return tuple(found)


def _other_names(a: str, b: str) -> Iterator[StatementDifference]:
    left = [span for span in _names(a) if not _is_within(a[slice(*span)], b)]
    right = [span for span in _names(b) if not _is_within(b[slice(*span)], a)]
    for x in left[:2]:
        for y in right[:2]:
            yield _substituted("name", a, x, b, y)


def _is_within(name: str, text: str) -> bool:
    words = set(re.findall(r"\w+", text.lower()))
    return all(word in words for word in re.findall(r"\w{2,}", name.lower()))


def _opposites(a: str, b: str) -> Iterator[StatementDifference]:
    first, second = parse_sentence(a), parse_sentence(b)
    match = matched(first, second)
    for i, others in match.opposite.items():
        for j in others if i not in match.alike else ():
            x, y = _word_span(a, first.words[i].text), _word_span(b, second.words[j].text)
            if x and y and not (_is_counted(a, x) or _is_counted(b, y)):
                yield _substituted("opposite", a, x, b, y)


def _is_counted(text: str, span: tuple[int, int]) -> bool:
    """Whether a word is the unit of a number."""
    return any(
        (figure.kind == "number" and figure.end <= span[0] <= figure.end + 1) or figure.start <= span[0] < figure.end
        for figure in find_figures(text)
    )


def _word_span(text: str, word: str) -> tuple[int, int] | None:
    at = text.lower().find(word.replace("_", " "))
    return (at, at + len(word)) if at >= 0 else None


def _negation(a: str, b: str) -> Iterator[StatementDifference]:
    """If just one of the statements is negated: the negator."""
    mine, other = _negator(a), _negator(b)
    if mine and not other:
        yield StatementDifference("negation", mine[0], (0, 0), (mine[1], b))
    elif other and not mine:
        yield StatementDifference("negation", (0, 0), other[0], (a, other[1]))


def _negator(text: str) -> tuple[tuple[int, int], str] | None:
    """The place of the first negator of a text, and the text without it; None if there is none."""
    for pattern, replacement in _NEGATORS:
        if m := pattern.search(text):
            return m.span(), text[: m.start()] + m.expand(replacement) + text[m.end() :]
    return None


def missing_words(a: ParsedSentence, b: ParsedSentence) -> list[ParsedWord]:
    """The words of a sentence without a counterpart in the other, opposites included."""
    match = matched(a, b)
    return [word for i, word in enumerate(a.words) if not word.soft and i not in match.alike and i not in match.converse]


def _substituted(kind: str, a: str, x: tuple[int, int], b: str, y: tuple[int, int]) -> StatementDifference:
    return StatementDifference(kind, x, y, (a, b[: y[0]] + a[slice(*x)] + b[y[1] :]))
