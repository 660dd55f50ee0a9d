"""Numbers of spreadsheets as they are shown: percentages, leading zeros, currencies, fractions; dates as ISO."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

BUILTIN_FORMATS = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "$#,##0;($#,##0)", 6: "$#,##0;($#,##0)", 7: "$#,##0.00;($#,##0.00)",
    8: "$#,##0.00;($#,##0.00)", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0;(#,##0);-",
    42: "$#,##0;($#,##0);-", 43: "#,##0.00;(#,##0.00);-", 44: "$#,##0.00;($#,##0.00);-", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
    48: "##0.0E+0", 49: "@",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"), 32: "h:mm", 33: "h:mm:ss", 34: "h:mm", 35: "h:mm:ss",
}  # fmt: skip
MAX_FORMAT_CHARS = 500
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]|(?P<digits>[0#?]+)|(?P<exponent>E[+-])'
    r"|(?P<clock>AM/PM|A/P|上午/下午)|(?P<general>General|Standard)|(?P<date>[ymdhsbge]+)|(?P<point>[.,%/@])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d{1,15}(?:\.\d{1,15})?)")
_MAX_NUMBER = 1e300


@dataclass(frozen=True, slots=True)
class FormatSection:
    """One of up to four sections of a number format: its tokens as (kind, text), and its condition, if it has one."""

    tokens: tuple[tuple[str, str], ...]
    condition: tuple[str, float] | None = None

    def has(self, *kinds: str) -> bool:
        """Whether a token of one of these kinds occurs."""
        return any(kind in kinds for kind, _ in self.tokens)


@lru_cache(maxsize=512)
def parse_number_format(code: str) -> tuple[FormatSection, ...]:
    """The sections of a number format such as `#,##0.00 "EUR";[Red]-0`."""
    sections: list[list[tuple[str, str]]] = [[]]
    conditions: list[tuple[str, float] | None] = [None]
    for match in _TOKEN.finditer(code[:MAX_FORMAT_CHARS]):
        kind, text = match.lastgroup or "", match[match.lastgroup] if match.lastgroup else ""
        if kind == "other" and text == ";":
            sections.append([])
            conditions.append(None)
        elif kind == "bracket":
            if condition := _CONDITION.match(text):
                conditions[-1] = condition[1], float(condition[2])
            elif text.startswith("$"):
                sections[-1].append(("text", text[1:].partition("-")[0]))
            elif text and not text.lower().strip("hms"):
                sections[-1].append(("elapsed", text.lower()))
        elif kind:
            sections[-1].append(("text" if kind in {"quoted", "escaped", "other"} else kind, text))
    return tuple(FormatSection(tuple(tokens), condition) for tokens, condition in zip(sections, conditions, strict=True))


def is_date_format(code: str) -> bool:
    """Whether a number format shows dates or times."""
    section = parse_number_format(code)[0]
    has_seconds = any(kind == "date" and "s" in text.lower() for kind, text in section.tokens)
    return section.has("elapsed") or (section.has("date") and not section.has("general") and (has_seconds or not section.has("digits")))


def format_number_cell(value: float, code: str, *, is_1904: bool = False) -> str:
    """The number of a cell as its format shows it; dates and times as ISO."""
    if not -_MAX_NUMBER < value < _MAX_NUMBER:
        return str(value)
    if not code or code.lower() in {"general", "standard", "@"}:
        return plain_number(value)
    sections = parse_number_format(code)
    if is_date_format(code):
        return format_serial_date(value, sections[0], is_1904=is_1904)
    section, shown = _section_for(sections, value)
    if section.has("general"):
        return "".join(plain_number(shown) if kind == "general" else text for kind, text in section.tokens).strip()
    try:
        text = " ".join(_format_tokens(section.tokens, shown).split())
    except (InvalidOperation, OverflowError, ValueError):
        text = ""
    return text or plain_number(value)


def format_text_cell(text: str, code: str) -> str:
    """The text of a cell as its format shows it: `"No. "@` puts words around it."""
    if "@" not in code or code == "@":
        return text
    section = parse_number_format(code)[-1]
    return "".join(text if (kind, sign) == ("point", "@") else sign for kind, sign in section.tokens) if section.has("point") else text


def plain_number(value: float) -> str:
    """A number without a format, with at most 15 significant digits."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


def _section_for(sections: Sequence[FormatSection], value: float) -> tuple[FormatSection, float]:
    """The section for a value, and the value to show in it: a section of its own for negative numbers writes their sign itself."""
    numeric = [section for section in sections if ("point", "@") not in section.tokens] or list(sections)
    for section in numeric:
        if section.condition and _holds(value, *section.condition):
            return section, value
    if any(section.condition for section in numeric):
        return next((section for section in numeric if not section.condition), numeric[-1]), value
    if value < 0 and len(numeric) > 1:
        return numeric[1], -value
    if value == 0 and len(numeric) > 2:
        return numeric[2], value
    return numeric[0], value


def _holds(value: float, sign: str, limit: float) -> bool:
    return {
        "<": value < limit, ">": value > limit, "=": value == limit, "<=": value <= limit, ">=": value >= limit, "<>": value != limit,
    }[sign]  # fmt: skip


def _format_tokens(tokens: Sequence[tuple[str, str]], value: float) -> str:
    """A number in the tokens of a section."""
    kinds = [kind for kind, _ in tokens]
    if ("point", "/") in tokens and "digits" in kinds:
        return _format_fraction(tokens, value)
    digits_at = [n for n, kind in enumerate(kinds) if kind == "digits"]
    if not digits_at:
        return "".join(text for kind, text in tokens if kind == "text" or text == "%")
    number = Decimal(repr(abs(value))) * 100 ** tokens.count(("point", "%"))
    if "exponent" in kinds:
        return _format_exponent(tokens, number, value < 0)
    point = next((n for n in range(digits_at[0], len(tokens)) if tokens[n] == ("point", ".")), len(tokens))
    whole = [(kind, text) for kind, text in tokens[:point] if (kind, text) != ("point", ",")]
    decimals = [text for kind, text in tokens[point + 1 :] if kind == "digits"]
    last = max(n for n in digits_at if n < point) if any(n < point for n in digits_at) else -1
    commas = [n for n, token in enumerate(tokens[:point]) if token == ("point", ",")]
    number /= 1000 ** len([n for n in commas if n > last >= 0])
    places = "".join(decimals)
    rounded = number.quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP)
    integer, _, fraction = f"{rounded:f}".partition(".")
    shown = _fill_places(whole, integer, grouped=any(n < last for n in commas))
    shown += _fill_fraction(tokens[point:], fraction)
    return f"-{shown}" if value < 0 and rounded else shown


def _fill_places(tokens: Sequence[tuple[str, str]], integer: str, *, grouped: bool) -> str:
    """The digits of an integer in the places of a format, from right to left; all that remain in the first place."""
    remaining = integer.lstrip("0")
    first = next((n for n, (kind, _) in enumerate(tokens) if kind == "digits"), -1)
    parts: list[str] = []
    n_digits = 0
    for n in range(len(tokens) - 1, -1, -1):
        kind, text = tokens[n]
        if kind != "digits":
            parts.append(text if kind == "text" or text == "%" else "")
            continue
        for place, sign in enumerate(reversed(text), 1):
            is_first = n == first and place == len(text)
            taken = remaining if is_first else remaining[-1:]
            remaining = "" if is_first else remaining[:-1]
            for digit in reversed(taken or ("0" if sign == "0" else "")):
                parts.append("," if grouped and n_digits and n_digits % 3 == 0 else "")
                parts.append(digit)
                n_digits += 1
    return "".join(reversed(parts))


def _fill_fraction(tokens: Sequence[tuple[str, str]], fraction: str) -> str:
    """The decimal places and what follows them; places of # and ? without zeros at the end."""
    places = "".join(text for kind, text in tokens if kind == "digits")
    kept = len(fraction)
    while kept and kept <= len(places) and places[kept - 1] != "0" and fraction[kept - 1] == "0":
        kept -= 1
    parts: list[str] = []
    used = 0
    for kind, text in tokens:
        if kind == "digits":
            parts.append(fraction[used : min(used + len(text), kept)])
            used += len(text)
        elif kind == "text" or text == "%" or (text == "." and kept):
            parts.append(text)
    return "".join(parts)


def _format_exponent(tokens: Sequence[tuple[str, str]], number: Decimal, is_negative: bool) -> str:
    before = [text for kind, text in tokens[: [kind for kind, _ in tokens].index("exponent")] if kind == "digits"]
    places = len(before[-1]) if len(before) > 1 else 0
    mantissa, _, exponent = f"{number:.{min(places, 30)}E}".partition("E")
    return f"{'-' * is_negative}{mantissa}E{exponent[:1]}{exponent[1:].lstrip('0').rjust(2, '0')}"


def _format_fraction(tokens: Sequence[tuple[str, str]], value: float) -> str:
    """A mixed number: `2 1/2`."""
    slash = tokens.index(("point", "/"))
    after = "".join(text for _, text in tokens[slash + 1 : slash + 3]).strip()
    has_whole = sum(kind == "digits" for kind, _ in tokens[:slash]) > 1
    exact = Fraction(repr(abs(value)))
    if after.isdecimal() and 0 < int(after) < 1000:
        fraction = Fraction(round(exact * int(after)), int(after))
        numerator, denominator = round(exact * int(after)), int(after)
    else:
        fraction = exact.limit_denominator(10 ** min(max(after.count("?") + after.count("#") + after.count("0"), 1), 3) - 1)
        numerator, denominator = fraction.numerator, fraction.denominator
    whole, rest = divmod(numerator, denominator) if has_whole else (0, numerator)
    shown = f"{whole}" * bool(whole or not rest) + " " * bool(whole and rest) + f"{rest}/{denominator}" * bool(rest)
    return f"-{shown}" if value < 0 and fraction else shown


def format_serial_date(value: float, section: FormatSection, *, is_1904: bool = False) -> str:
    """A date and time counted in days, as ISO; as much of it as the format shows."""
    letters = "".join(text.lower() for kind, text in section.tokens if kind == "date")
    elapsed = next((text for kind, text in section.tokens if kind == "elapsed"), "")
    if elapsed:
        return _format_elapsed(value, elapsed, letters)
    has_date, has_time = bool(set(letters) & set("ydbge")) or "mmm" in letters, bool(set(letters) & set("hs"))
    if not has_date and not has_time:
        has_date = True
    try:
        moment = serial_datetime(value, is_1904=is_1904)
    except (OverflowError, ValueError):
        return plain_number(value)
    time = moment.strftime("%H:%M:%S" if "s" in letters or moment.second else "%H:%M")
    if not has_date:
        return time
    day = moment.date().isoformat()
    if "d" not in letters and not has_time:
        day = day[:4] if not letters.strip("y") else day[:7] if "y" in letters else day
    return f"{day} {time}" if has_time and (moment.hour or moment.minute or moment.second) else day


def serial_datetime(value: float, *, is_1904: bool = False) -> datetime:
    """The date and time of a number of days, to the second. Raises OverflowError or ValueError for what is none."""
    days = Decimal(repr(value))
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 + (days < 60))  # 29 February 1900 counts, though it never was
    if days < 0:
        raise ValueError("no date")
    seconds = (days * 86400).quantize(Decimal(1), ROUND_HALF_UP)
    return start + timedelta(seconds=int(seconds))


def _format_elapsed(value: float, unit: str, letters: str) -> str:
    """A duration in hours, minutes or seconds: `36:30`."""
    seconds = round(abs(value) * 86400)
    sign = "-" if value < 0 else ""
    if unit[0] == "s":
        return f"{sign}{seconds}"
    if unit[0] == "m":
        return f"{sign}{seconds // 60}" + f":{seconds % 60:02}" * ("s" in letters)
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}" + f":{seconds % 60:02}" * ("s" in letters)


def iso_date(text: str) -> str:
    """The day at the beginning of an ISO date and time; empty if it is none."""
    try:
        return date.fromisoformat(text.strip()[:10]).isoformat()
    except ValueError:
        return ""
