"""Values of requests as programs and models write them nearly right: numbers, truth values and texts, and arguments by a JSON schema."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

MAX_SHOWN_CHARS = 40  # of a value in a message
MAX_NUMBER = 1 << 40  # of an offset or a number of a row; SQLite takes 64 bits
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# Names that models mix up. A tool takes the value of one that it lacks for the one that it has.
_SYNONYMS = (
    "question questions query q request topic about name contains prompt text input search entity subject keywords items",
    "document path file filename title id uri name",
    "id number report community",
    "k limit n count topk numresults maxresults",
    "maxseconds seconds timeout",
    "start offset from begin",
    "end to until",
    "first a old document1 doc1 firstdocument",
    "second b new document2 doc2 seconddocument",
    "filter filters where",
    "collections collection",
)
_LISTS = ("filter", "collections")  # texts that are lists with commas


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


def read_arguments(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an object with this JSON schema; null and empty ones count as left out, unknown ones too. Raises ValueError."""
    named = {_plain(name): value for name, value in given.items() if value not in (None, "", [])}
    own, read = set(map(_plain, schema["properties"])), {}
    for name, form in schema["properties"].items():
        plain = _plain(name)
        synonyms = [other for group in _SYNONYMS if plain in group.split() for other in group.split() if other not in own]
        source = next((other for other in (plain, *synonyms) if other in named), None)
        value = None if source is None else _read_value(name, named[source], form)
        if value not in (None, ""):
            read[name] = value
        elif name in schema.get("required", ()):
            raise ValueError(f"`{name}` is missing: {_expected(form)}.")
    return read


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def _read_value(name: str, value: Any, form: Mapping[str, Any]) -> Any:
    form = _without_null(form)
    bounds = form.get("minimum", -math.inf), form.get("maximum", math.inf)
    if form["type"] == "integer":
        return read_int(name, value, *bounds)
    if form["type"] == "number":
        return read_number(name, value, *bounds)
    if form["type"] == "boolean":
        return read_bool(name, value)
    if form["type"] == "array":
        return _read_list(name, value, form)
    return _read_text(name, value, form)


def _without_null(form: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((one for one in form.get("anyOf", ()) if one.get("type") != "null"), form)


def _read_list(name: str, value: Any, form: Mapping[str, Any]) -> list[Any]:
    read = [_read_value(name, item, form["items"]) for item in _as_list(value) if item not in (None, "", [])]
    if not form.get("minItems", 0) <= len(read) <= form.get("maxItems", math.inf):
        raise _refusal(name, value, _expected(form))
    return read


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    return value if isinstance(value, list) else [value]


def _read_text(name: str, value: Any, form: Mapping[str, Any]) -> str:
    parts = _as_list(value) if name in _LISTS or isinstance(value, list) else [value]
    numbers = isinstance(value, int | float) and not isinstance(value, bool)
    if (not all(isinstance(part, str) for part in parts) and not numbers) or (len(parts) > 1 and name not in _LISTS):
        raise _refusal(name, value, _expected(form))
    text = str(value) if numbers else ",".join(parts)
    if choices := form.get("enum"):
        chosen = next((choice for choice in choices if choice.casefold() == text.strip().casefold()), "")
        if text.strip() and not chosen:
            raise _refusal(name, value, _expected(form))
        return chosen
    if len(text) > form.get("maxLength", math.inf) or not _is_unicode(text):
        raise _refusal(name, value, _expected(form))
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _expected(form: Mapping[str, Any]) -> str:
    form = _without_null(form)
    if "enum" in form:
        return f"one of {', '.join(form['enum'])}"
    bounds = _range(form.get("minimum", -math.inf), form.get("maximum", math.inf))
    if form["type"] == "array":
        return f"a list of {form.get('minItems', 0)} to {form.get('maxItems', 'any number of')} texts"
    if form["type"] == "string":
        return f"a text of at most {form['maxLength']:,} characters" if "maxLength" in form else "a text"
    return {"integer": f"a whole number{bounds}", "number": f"a number{bounds}", "boolean": "true or false"}[form["type"]]


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
