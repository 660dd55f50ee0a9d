"""Numbers of spreadsheets as they are shown: percentages, leading zeros, currencies; dates as ISO.

Numbers in fractions, and in formats that depend on conditions, are shown without a format.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

BUILTIN_FORMATS = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "$#,##0;($#,##0)", 6: "$#,##0;($#,##0)", 7: "$#,##0.00;($#,##0.00)",
    8: "$#,##0.00;($#,##0.00)", 9: "0%", 10: "0.00%", 11: "0.00E+00", 14: "yyyy-mm-dd", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0;(#,##0);-",
    42: "$#,##0;($#,##0);-", 43: "#,##0.00;(#,##0.00);-", 44: "$#,##0.00;($#,##0.00);-", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
    48: "0.0E+0", 49: "@",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"), 32: "h:mm", 33: "h:mm:ss", 34: "h:mm", 35: "h:mm:ss",
}  # fmt: skip
_MAX_FORMAT_CHARS = 500
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]|(?P<exponent>[0#?.]++E[+-]0*)'
    r"|(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?,*|\.[0#?]+)|AM/PM|A/P|上午/下午|(?P<general>General|Standard)|(?P<date>[ymdhsbge]+)"
    r"|(?P<slash>/)|(?P<at>@)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_NUMBER = 1e300
_Section = tuple[tuple[str, str], ...]  # the tokens of a number format as (kind, text)


@lru_cache(maxsize=512)
def _parse_format(code: str) -> tuple[_Section, ...]:
    """The sections of a number format such as `#,##0.00 "EUR";[Red]-0`: for positive and negative numbers, zero and text."""
    sections: list[list[tuple[str, str]]] = [[]]
    for match in _TOKEN.finditer(code[:_MAX_FORMAT_CHARS]):
        kind, text = match.lastgroup or "", match[match.lastgroup] if match.lastgroup else ""
        if kind == "other" and text == ";":
            sections.append([])
        elif kind == "bracket":
            if text.startswith("$"):
                sections[-1].append(("text", text[1:].partition("-")[0]))
            elif text and not text.lower().strip("hms"):
                sections[-1].append(("elapsed", text.lower()))
            elif text.startswith(("<", ">", "=")):
                sections[-1].append(("condition", text))
        elif kind:
            sections[-1].append(("text" if kind in {"quoted", "escaped", "other"} else kind, text))
    return tuple(map(tuple, sections))


def _is_date_format(section: _Section) -> bool:
    kinds = {kind for kind, _ in section}
    has_seconds = any(kind == "date" and "s" in text.lower() for kind, text in section)
    return "elapsed" in kinds or ("date" in kinds and "general" not in kinds and (has_seconds or "digits" not in kinds))


def format_number_cell(value: float, code: str, *, is_1904: bool = False) -> str:
    """The number of a cell as its format shows it; dates and times as ISO."""
    if not -_MAX_NUMBER < value < _MAX_NUMBER:
        return str(value)
    sections = _parse_format(code)
    if _is_date_format(sections[0]):
        return _format_date(value, sections[0], is_1904=is_1904)
    numeric = [section for section in sections if ("at", "@") not in section]
    if not numeric or any(kind in {"condition", "slash"} for section in numeric for kind, _ in section):
        return _plain_number(value)
    section, shown = numeric[0], value
    if value < 0 and len(numeric) > 1:
        section, shown = numeric[1], -value  # which writes the sign itself
    elif value == 0 and len(numeric) > 2:
        section = numeric[2]
    try:
        text = " ".join(_format_tokens(section, shown).split())
    except (InvalidOperation, OverflowError, ValueError):
        text = ""
    return text or _plain_number(value)


def format_text_cell(text: str, code: str) -> str:
    """The text of a cell as its format shows it: `"No. "@` puts words around it."""
    section = _parse_format(code)[-1]
    return "".join(text if kind == "at" else sign for kind, sign in section) if ("at", "@") in section else text


def _plain_number(value: float) -> str:
    """A number without a format, with at most 15 significant digits."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.15g}"


def _format_tokens(tokens: _Section, value: float) -> str:
    """A number in the tokens of a section."""
    number = Decimal(repr(abs(value))) * 100 ** tokens.count(("text", "%"))
    groups = iter(_digit_groups(number, [text for kind, text in tokens if kind == "digits"]))
    shown = ""
    for kind, text in tokens:
        if kind == "digits":
            shown += next(groups)
        elif kind == "exponent":
            shown += f"{float(number):.{len(text.upper().partition('E')[0].partition('.')[2])}E}"
        elif kind == "general":
            shown += _plain_number(abs(value))
        else:
            shown += text
    return f"-{shown}" if value < 0 and re.search("[1-9]", shown) else shown


def _digit_groups(number: Decimal, patterns: Sequence[str]) -> Iterator[str]:
    """A number in the places of a format, which other signs may divide: `000-00-0000`; digits without a place stand in the first."""
    digits, point, decimals = _in_places(number, "".join(patterns)).partition(".")
    for n in range(len(patterns)):
        n_after = sum(len(pattern.partition(".")[0]) for pattern in patterns[n + 1 :])
        end = max(len(digits) - n_after, 0)
        yield digits[:end] if n_after else digits + point + decimals
        digits = digits[end:]


def _in_places(number: Decimal, pattern: str) -> str:
    """A number with so many decimals, leading zeros, and commas between thousands; commas at the end divide it by a thousand each."""
    whole, _, decimals = pattern.rstrip(",").partition(".")
    number /= 1000 ** (len(pattern) - len(pattern.rstrip(",")))
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    integer, _, fraction = (f"{rounded:,f}" if "," in whole else f"{rounded:f}").partition(".")
    kept = max(decimals.rfind("0") + 1, len(fraction.rstrip("0")))
    n_places = len(whole[whole.find("0") :].replace(",", "")) if "0" in whole else 0
    shown = integer.zfill(n_places) if rounded >= 1 or n_places else ""
    return f"{shown}.{fraction[:kept]}" if kept else shown


def _format_date(value: float, section: _Section, *, is_1904: bool) -> str:
    """A date and time counted in days, as ISO; as much of it as the format shows."""
    letters = "".join(text.lower() for kind, text in section if kind == "date")
    elapsed = next((text for kind, text in section if kind == "elapsed"), "")
    if elapsed:
        return _format_elapsed(value, elapsed[0], has_seconds="s" in letters)
    has_time = bool(set(letters) & set("hs"))
    has_date = not has_time or bool(set(letters) & set("ydbge")) or "mmm" in letters
    try:
        moment = _serial_datetime(value, is_1904=is_1904)
    except (OverflowError, ValueError):
        return _plain_number(value)
    time = moment.strftime("%H:%M:%S" if "s" in letters or moment.second else "%H:%M")
    if not has_date:
        return time
    day = moment.date().isoformat()
    if "d" not in letters and not has_time:
        day = day[:4] if not letters.strip("y") else day[:7] if "y" in letters else day
    return f"{day} {time}" if has_time and (moment.hour or moment.minute or moment.second) else day


def _serial_datetime(value: float, *, is_1904: bool) -> datetime:
    """The date and time of a number of days, to the second. Raises OverflowError or ValueError for what is none."""
    if value < 0:
        raise ValueError("no date")
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 + (value < 60))  # 29 February 1900 counts, though it never was
    return start + timedelta(seconds=round(value * 86400))


def _format_elapsed(value: float, unit: str, *, has_seconds: bool) -> str:
    """A duration in hours, minutes or seconds: `36:30`."""
    seconds = round(abs(value) * 86400)
    shown = {"h": f"{seconds // 3600}:{seconds // 60 % 60:02}", "m": str(seconds // 60), "s": str(seconds)}[unit]
    return "-" * (value < 0) + shown + f":{seconds % 60:02}" * (has_seconds and unit != "s")


def iso_date(text: str) -> str:
    """The day at the beginning of an ISO date and time; empty if it is none."""
    try:
        return date.fromisoformat(text.strip()[:10]).isoformat()
    except ValueError:
        return ""
