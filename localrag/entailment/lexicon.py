"""Synonyms and antonyms (words/*.txt, a group a line), numbers in any notation (1,000 = one thousand), ParsedSentence."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_WORDS = Path(__file__).parent / "words"


@cache
def _synonyms(language: str) -> dict[str, frozenset[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for n, line in enumerate((_WORDS / f"synonyms.{language}.txt").read_text(encoding="utf-8").splitlines()):
        for word in line.split():
            found[word].add(n)
    return {word: frozenset(groups) for word, groups in found.items()}


@cache
def _sides(table: str) -> dict[str, frozenset[tuple[int, int]]]:
    """Word → (line, side) of every pair it stands in."""
    found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for n, line in enumerate((_WORDS / f"{table}.txt").read_text(encoding="utf-8").splitlines()):
        for side, words in enumerate(line.split("|")):
            for word in words.split():
                found[word].add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


@lru_cache(maxsize=50_000)
def are_synonyms(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words, each given by its dictionary forms, stand in one group."""
    table = _synonyms(language)
    mine = {g for k in a for g in table.get(k, ())}
    return bool(mine) and any(not mine.isdisjoint(table.get(k, ())) for k in b)


@lru_cache(maxsize=50_000)
def synonyms_of(word: str, language: str) -> frozenset[str]:
    """Every word that shares a group with this one."""
    groups = _synonyms(language).get(word, frozenset())
    return frozenset(w for w, g in _synonyms(language).items() if not g.isdisjoint(groups)) if groups else frozenset()


@lru_cache(maxsize=50_000)
def are_antonyms(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words stand on the two sides of one pair; in English also where one is the other with un-, in-, dis- and the like."""
    if _across(a, b, f"antonyms.{language}"):
        return True
    return language == "en" and any(f"{p}{x}" == y or f"{p}{y}" == x for x in a for y in b for p in _PREFIXES if len(x) > 3 and len(y) > 3)


@lru_cache(maxsize=50_000)
def are_converses(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words tell the same from two sides: A sold B something, B bought it from A."""
    return _across(a, b, f"converses.{language}")


def _across(a: frozenset[str], b: frozenset[str], table: str) -> bool:
    sides = _sides(table)
    mine = {(n, 1 - side) for k in a for n, side in sides.get(k, ())}
    return bool(mine) and any(not mine.isdisjoint(sides.get(k, ())) for k in b)


_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-", "mis", "de", "anti", "anti-", "ab")


@cache
def multiword_entries() -> frozenset[tuple[str, ...]]:
    """English entries of several words, as tuples."""
    return frozenset(tuple(w.split("_")) for w in {*_synonyms("en"), *_sides("antonyms.en"), *_sides("converses.en")} if "_" in w)


class Quantity(NamedTuple):
    """A number at characters `start` to `end`; `unit` is a currency, percent, a measure in short, or empty."""

    start: int
    end: int
    value: str
    unit: str


_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {w: n for n, w in enumerate(_ONES.split())} | {w: 10 * n for n, w in enumerate(_TENS.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SHORT = {"m": 10**6, "bn": 10**9, "k": 1000, "mn": 10**6}
_ORDINALS = {
    "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12,
    "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18, "nineteenth": 19,
    "twentieth": 20, "thirtieth": 30,
}  # fmt: skip
_OFTEN = {"once": 1, "twice": 2, "thrice": 3}
_FREQUENCIES = "daily weekly monthly quarterly yearly annually".split()  # behind "once" as a number: "once weekly", not "once there"
_MONEY = {"£": "pound", "$": "dollar", "€": "euro", "¥": "yuan"}
_UNITS = {
    "%": "percent", "percent": "percent", "per cent": "percent", "percentage points": "percent", "pounds": "pound", "pound": "pound",
    "dollars": "dollar", "dollar": "dollar", "euros": "euro", "euro": "euro", "km": "km", "kilometres": "km", "kilometers": "km",
    "kilometre": "km", "kilometer": "km", "kg": "kg", "kilograms": "kg", "kilogrammes": "kg", "kilogram": "kg", "kilos": "kg",
    "metres": "metre", "meters": "metre", "metre": "metre", "meter": "metre", "tonnes": "tonne", "tonne": "tonne", "tons": "tonne",
    "miles": "mile", "mile": "mile", "years": "year", "year": "year", "months": "month", "month": "month", "weeks": "week", "week": "week",
    "days": "day", "day": "day", "hours": "hour", "hour": "hour", "minutes": "minute", "minute": "minute", "seconds": "second",
    "second": "second", "times": "time", "cents": "cent", "cent": "cent", "pence": "penny", "francs": "franc", "yen": "yen", "yuan": "yuan",
    "am": "am", "a.m": "am", "pm": "pm", "p.m": "pm", "ms": "ms", "milliseconds": "ms", "mg": "mg", "milligrams": "mg", "g": "g",
    "grams": "g", "ml": "ml", "millilitres": "ml", "litres": "litre", "liters": "litre", "litre": "litre", "liter": "litre", "cm": "cm",
    "centimetres": "cm", "centimeters": "cm", "mm": "mm", "millimetres": "mm", "millimeters": "mm", "feet": "foot", "foot": "foot",
    "inches": "inch", "inch": "inch", "hectares": "hectare", "acres": "acre", "kb": "kb", "mb": "mb", "gb": "gb", "tb": "tb", "kw": "kw",
    "mw": "mw", "kwh": "kwh", "°c": "°c", "°f": "°f",
}  # fmt: skip
_NUMBER_WORD = "|".join(sorted([*NUMBER_WORDS, *_SCALES], key=len, reverse=True))
_COUNTED = "|".join(sorted(map(re.escape, [*_UNITS, *_SCALES]), key=len, reverse=True))
# A name or code that contains digits is a word, not a number: B2B, A4, Qwen2.5, COVID-19; 3M; 37signals, 7-Eleven.
NAMES_WITH_DIGITS = (
    r"\b[^\W\d_]+\d\w*(?:\.\d+)*|\b(?-i:[A-Z])[^\W\d_]*-\d\w*(?:\.\d+)*|(?<![\w.,£$€¥])\d+(?:(?-i:[A-Z])(?!\w)"
    rf"|(?!(?:{_COUNTED})(?!\w))[^\W\d_]{{4,}}\w*|-(?!(?:{_COUNTED})(?!\w))(?-i:[A-Z][a-z])\w*)"
)
_ENGLISH = re.compile(
    rf"(?P<named>{NAMES_WITH_DIGITS})|(?:(?P<money>[£$€¥])\s?)?"
    rf"(?P<digits>\d+(?:\.\d+){{2,}}|\d+[–-]\d+(?![\d–-])|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<ordinal>(?:st|nd|rd|th)\b)?"
    rf"(?:\s?(?P<scale>hundred|thousand|million|billion|trillion|bn|mn|m|k)\b)?"
    rf"|\b(?P<words>(?:(?:a|half a)\s(?=hundred|thousand|million|dozen))?(?:{_NUMBER_WORD})(?:(?:\s|-|\sand\s)(?:{_NUMBER_WORD})s?)*)\b"
    rf"|\b(?P<nth>(?:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[- ])?(?:first|second|{'|'.join(_ORDINALS)}))(?=[- ]|\b)"
    rf"|\b(?P<often>twice|thrice|once(?=\s+(?:a|an|per|every|each|in|{'|'.join(_FREQUENCIES)})\b))\b",
    re.IGNORECASE,
)
_UNIT = re.compile(rf"[\s-]?({'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})(?![A-Za-z])", re.IGNORECASE)
# "one" is a pronoun more often than a number: it counts only before what it counts.
_PRONOUN = re.compile(r"one(?:\s+(?:of|another|should|can|could|must|may|might|is|was|has|had|who|that|or|and|day)\b|\W*$|[.,;])", re.I)


def english_quantities(text: str) -> Iterator[Quantity]:
    """Every number of an English text, in order."""
    for m in _ENGLISH.finditer(text):
        if m["named"]:
            continue
        if m["words"] and _PRONOUN.match(text, m.start()) and m["words"].lower() == "one":
            continue
        if m["nth"] and m["nth"].lower() in ("first", "second"):
            continue  # words: first of all, seconded
        start = m.start() + len(m[0]) - len(m[0].lstrip())
        value, unit = _value(m), _MONEY.get(m["money"] or "", "")
        after = _UNIT.match(text, m.end())
        unit = unit or ("time" if m["often"] else _UNITS[after[1].lower()] if after else "") or ("th" if m["ordinal"] or m["nth"] else "")
        held = after and (unit in {"percent", "pound", "dollar", "euro", "km", "kg"})
        yield Quantity(start, after.end() if after and held else m.end(), value, unit)


def _value(m: re.Match[str]) -> str:
    if m["digits"]:
        digits = m["digits"].replace(",", "")
        if re.search(r"[–-]|\..*\.", digits):  # a range; a version
            return digits.replace("–", "-")
        scale = (m["scale"] or "").lower()
        times = _SCALES.get(scale) or _SHORT.get(scale, 1)
        return digits if times == 1 and digits.startswith("0") else format_number(float(digits) * times)
    if m["often"]:
        return format_number(_OFTEN[m["often"].lower()])
    if m["nth"]:
        tens, _, last = m["nth"].lower().replace(" ", "-").rpartition("-")
        return format_number(NUMBER_WORDS.get(tens, 0) + ({"first": 1, "second": 2} | _ORDINALS)[last])
    return format_number(_spelt(m["words"].lower()))


def _spelt(words: str) -> float:
    total = part = 0.0
    for written in re.split(r"[\s-]+", words):
        word = written.rstrip("s") if written.rstrip("s") in _SCALES else written
        if word in NUMBER_WORDS:
            part += NUMBER_WORDS[word]
        elif word == "half":
            part += 0.5
        elif word in ("hundred", "dozen"):
            part = (part or 1) * _SCALES[word]
        elif word in _SCALES:
            total, part = total + (part or 1) * _SCALES[word], 0.0
    return total + part


def format_number(value: float) -> str:
    """A number as a string that equal numbers share."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "廿": 20, "半": 0.5}
_POWERS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_NUMERAL = r"[零〇一二两三四五六七八九十百千万亿\d][零〇一二两三四五六七八九十百千万亿\d.,]*"
_CHINESE = re.compile(rf"(?P<percent>百分之)?(?P<number>{_NUMERAL})(?P<after>成|%|％|个百分点)?(?P<more>多|余|来)?")
# Words that begin with a numeral and count nothing.
_IDIOMS = re.compile(
    r"一(?:直|种|旁|些|度|般|样|切|起|定|共|向|再|带|同|致|下|番|律|齐|并|早|生|贯|点|边|面|方面|时|旦|经|概|会儿|心|道|路|把|阵|次性|流|半"
    r"|天(?!之)|家(?=人)|来|手|如|则|国之|审|条|位|名|个|座|份|本|只|块|座|届|封|幅|片|场|项|批|所|套|艘|间|支|对(?=夫))"
    r"|二(?:审)|万(?:一|分|岁|物|事|般)|千(?:万(?=不|别|要|小心))|百(?:姓|货|科)|十(?:分|足|字)|三(?:国|番)|四(?:周|处|方|川|季|面)|五(?:行山|台山|官|金)"
    r"|六(?:神)|七(?:夕)|八(?:卦|仙)|九(?:州|泉)|两(?:岸|侧|旁|边)|第?一(?:手)"
)


def chinese_quantities(text: str) -> Iterator[Quantity]:
    """Every number of a Chinese text, in order."""
    at = 0
    while m := _CHINESE.search(text, at):
        if idiom := _IDIOMS.match(text, m.start()):
            at = idiom.end()
            continue
        at = m.end()
        if m["number"] == "一" and not m["percent"] and text[at : at + 1] not in tuple("月日号"):
            continue  # 一家, 一天: an article
        number = chinese_value(m["number"].strip(".,"))
        after = m["after"] or ""
        percent = bool(m["percent"] or after in ("%", "％", "个百分点"))
        if after == "成":
            number, percent = number * 10, True
        follows = text[m.end() : m.end() + 1]
        yield Quantity(m.start(), m.end(), format_number(number), "percent" if percent else follows if follows in "年月日号岁天" else "")


def chinese_value(numeral: str) -> float:
    """三千二百 → 3200, 1.2亿 → 120000000, 一九四九 → 1949."""
    numeral = numeral.replace(",", "")
    if not any(c in _POWERS for c in numeral):
        return _leading_number("".join(str(_DIGITS.get(c, c)) for c in numeral))
    total = section = 0.0
    digits = ""
    for c in numeral:
        if c in _POWERS:
            number = _leading_number(digits) if digits else (0.0 if (section or total) and _POWERS[c] > 1000 else 1.0)
            digits = ""
            if c == "亿":
                total, section = (total + section + number) * _POWERS[c], 0.0
            elif c == "万":
                total, section = total + (section + number) * _POWERS[c], 0.0
            else:
                section += number * _POWERS[c]
        else:
            digits += str(_DIGITS.get(c, c))
    return total + section + _leading_number(digits)


def _leading_number(digits: str) -> float:
    """The number that digits begin with; 0 if they begin with none."""
    found = re.match(r"\d+(?:\.\d+)?", digits)
    return float(found[0]) if found else 0.0


@dataclass(frozen=True, slots=True)
class ParsedWord:
    """A word that says something. `keys` are its dictionary forms; `kind` is name, number or word; `soft` ones need no counterpart.

    `at` is its place among all tokens, `clause` the number of the clause it stands in, `role` subject, object, verb or other, `before` the
    preposition that governs it, `unit` what a number counts.
    """

    text: str
    keys: frozenset[str]
    kind: str
    at: int
    clause: int = 0
    role: str = "other"
    before: str = ""
    soft: bool = False
    unit: str = ""
    owner: bool = False
    when: bool = False

    @property
    def figure(self) -> bool:
        """Whether it is a number or date that a source must contain; 1 is not, since "one" is often a pronoun or an article."""
        return self.text != "1" if self.kind == "number" else self.when and not self.soft


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of a sentence: its verb, whether it denies something, what else it is under (possible, duty, unreal), who does it, to whom.

    Words are given by their numbers. A passive is turned round: the agent is the subject.
    """

    verb: int | None
    negated: bool = False
    modes: frozenset[str] = frozenset()
    subject: frozenset[int] = frozenset()
    objects: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence: its words in order, its clauses, and its quantifiers (all, most, some, none, only …).

    `quantified`: pairs of a word's index and the quantifier that applies to it.
    """

    text: str
    words: tuple[ParsedWord, ...]
    clauses: tuple[Clause, ...]
    quantifiers: frozenset[str] = field(default_factory=frozenset)
    quantified: tuple[tuple[int, str], ...] = ()
    chinese: bool = False
    subject: str = ""  # of the first clause, as it is written
    spans: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)  # where Chinese words stand in the text
