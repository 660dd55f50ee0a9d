"""Values of requests as programs write them nearly right: numbers and truth values."""

import json
import math
from typing import Any

MAX_SHOWN_CHARS = 40  # of a value in a message
MAX_NUMBER = 1 << 40  # of an offset or a number of a row; SQLite takes 64 bits
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def read_number(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> float | int:
    """A number, also written as a text, clamped to its range. Raises ValueError."""
    if isinstance(value, str) and len(value) < MAX_SHOWN_CHARS:
        for kind in (int, float):
            try:
                value = kind(value)
                break
            except ValueError:
                continue
    if not isinstance(value, int | float) or isinstance(value, bool) or (isinstance(value, float) and math.isnan(value)):
        raise _refusal(name, value, f"a number{_range(minimum, maximum)}")
    return max(minimum, min(maximum, value))


def read_int(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> int:
    """A whole number, also written as `3.0` or as a text, clamped to its range. Raises ValueError."""
    what = f"a whole number{_range(minimum, maximum)}"
    try:
        number = read_number(name, value, minimum, maximum)
    except ValueError:
        raise _refusal(name, value, what) from None
    if not isinstance(number, int) and not number.is_integer():
        raise _refusal(name, value, what)
    return int(number)


def read_bool(name: str, value: Any) -> bool:
    """Whether a value means true; null is false. Raises ValueError."""
    truth = False if value is None else _TRUTHS.get(str(value).strip().casefold())
    if truth is None:
        raise _refusal(name, value, "true or false")
    return truth


def _range(minimum: float, maximum: float) -> str:
    if maximum >= MAX_NUMBER:
        return "" if minimum == -math.inf else f" of at least {minimum:g}"
    return f" from {minimum:g} to {maximum:g}"


def _refusal(name: str, value: Any, expected: str) -> ValueError:
    try:
        shown = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        shown = type(value).__name__
    return ValueError(f"`{name}` is {expected}, not {shown if len(shown) <= MAX_SHOWN_CHARS else shown[: MAX_SHOWN_CHARS - 1] + '…'}.")
