"""What two statements about the same thing differ in: figures, names, negation, opposites or other words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from localrag.entailment import parse_sentence
from localrag.entailment.comparison import matched
from localrag.entailment.english import DAYS, MONTH_NAMES
from localrag.entailment.lexicon import ParsedSentence, ParsedWord, chinese_quantities, english_quantities
from localrag.text.sentences import STOP_WORDS, is_cjk

MAX_DIFFERENCES = 3  # of two statements that are considered
MAX_REPLACED_WORDS, STEM_CHARS = 4, 5  # of a difference that is neither a figure nor a name

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
_WORDS = re.compile(r"\w[\w’'-]*")
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
_DESIGNATED = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w’'-]*[ /-]$")  # what a number behind a name belongs to: HD 40, Python 3
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
    """A difference: its `kind` (number, date, name, opposite, negation, wording), and its characters in both statements.

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
    found = [*_other_figures(a, b), *_opposites(a, b), *_negation(a, b), *_other_names(a, b)]
    return (found or list(_other_words(a, b)))[:MAX_DIFFERENCES]


def other_figures(a: str, b: str) -> tuple[list[Figure], list[Figure]]:
    """The figures of each statement with which none of the other's agrees."""
    left = [x for x in find_figures(a) if not any(_can_both_hold(a, x, b, y) for y in find_figures(b))]
    right = [y for y in find_figures(b) if not any(_can_both_hold(a, x, b, y) for x in find_figures(a))]
    return left, right


def _other_figures(a: str, b: str) -> Iterator[StatementDifference]:
    left, right = other_figures(a, b)
    pairs = [(x, y) for x in left for y in right if x.kind == y.kind and x.unit == y.unit]
    pairs = pairs or [(x, y) for x in left for y in right if x.kind == y.kind and not (x.unit and y.unit)]
    for x, y in sorted(pairs, key=lambda pair: -_context_share(a, pair[0], b, pair[1]))[:2]:
        is_name = _DESIGNATED.search(a[: x.start]) and _DESIGNATED.search(b[: y.start]) and x.kind == "number" and not x.unit
        yield _substituted("name" if is_name else x.kind, a, (x.start, x.end), b, (y.start, y.end))


def _can_both_hold(a: str, x: Figure, b: str, y: Figure) -> bool:  # noqa: PLR0911
    """Whether two figures can both be right of the same thing: equal, a part of a date, about as many, or within a bound."""
    if x.kind != y.kind or (x.unit and y.unit and x.unit != y.unit):
        return False
    if x.value == y.value:
        return True
    if x.kind == "date":
        parts = [figure.value.split("-") for figure in (x, y)]
        return (
            all(len(p) == 3 for p in parts)
            and all(not m or not n or m == n for m, n in zip(*parts, strict=True))
            and any(m and m == n for m, n in zip(*parts, strict=True))
        )
    try:
        m, n = float(x.value), float(y.value)
    except ValueError:
        return False
    before, behind = a[: x.start], b[: y.start]
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


def _other_words(a: str, b: str) -> Iterator[StatementDifference]:
    """Words in place of which the other statement has others: between words that both have, else the only one that each lacks."""
    left, right = list(_WORDS.finditer(a)), list(_WORDS.finditer(b))
    blocks = SequenceMatcher(None, [m[0].lower() for m in left], [m[0].lower() for m in right], autojunk=False).get_opcodes()
    is_found = False
    for tag, i, j, k, m in blocks:
        if (
            tag == "replace"
            and max(j - i, m - k) <= MAX_REPLACED_WORDS
            and _says(left[i:j])
            and _says(right[k:m])
            and not _same_stems(left[i:j], right[k:m])
        ):
            is_found = True
            yield _substituted("wording", a, (left[i].start(), left[j - 1].end()), b, (right[k].start(), right[m - 1].end()))
    if not is_found:
        first, second = parse_sentence(a), parse_sentence(b)
        missing = [[w.text for w in missing_words(x, y)] for x, y in ((first, second), (second, first))]
        spans = [_word_span(text, words[0]) if len(words) == 1 else None for text, words in ((a, missing[0]), (b, missing[1]))]
        if spans[0] and spans[1]:
            yield _substituted("wording", a, spans[0], b, spans[1])


def missing_words(a: ParsedSentence, b: ParsedSentence) -> list[ParsedWord]:
    """The words of a sentence without a counterpart in the other, opposites included."""
    match = matched(a, b)
    return [word for i, word in enumerate(a.words) if not word.soft and i not in match.alike and i not in match.converse]


def _same_stems(left: Sequence[re.Match[str]], right: Sequence[re.Match[str]]) -> bool:
    return [m[0].lower()[:STEM_CHARS] for m in left] == [m[0].lower()[:STEM_CHARS] for m in right]


def _says(words: Sequence[re.Match[str]]) -> bool:
    """Whether there are content words among some, and no numbers, which are compared by their values."""
    return any(m[0].lower() not in STOP_WORDS and len(m[0]) > 2 for m in words) and not any(c.isdigit() for m in words for c in m[0])


def _substituted(kind: str, a: str, x: tuple[int, int], b: str, y: tuple[int, int]) -> StatementDifference:
    return StatementDifference(kind, x, y, (a, b[: y[0]] + a[slice(*x)] + b[y[1] :]))
