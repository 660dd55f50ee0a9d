"""DocumentFilter: `--filter` expressions and collections; glob and linear-time patterns; dates in metadata.

An example: `--filter path=contracts/*,after=2024-01-01,type=pdf,meta.author="A. Holm"`. Conditions are joined by "and"; several values of a
key with `=` by "or"; with `!=` none of them may hold. `store/filtered.py` evaluates the conditions. Patterns may be untrusted, so they are
matched by RE2, in time proportional to pattern times text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, cast

from localrag.errors import UsageError
from localrag.records import file_path


class PatternError(UsageError):
    """A pattern cannot be compiled."""


def compile_linear(pattern: str) -> Callable[[str], Any]:
    """Compile a pattern in RE2 syntax, where `.` also matches a line end; returns its search function. Raises PatternError."""
    import re2  # slow import (30 ms) that few commands need

    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    try:
        return cast(Callable[[str], Any], re2.compile(pattern, options).search)
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternError(f"A pattern cannot be read: {error}.", "Write a shorter or a simpler one.") from None


METADATA_PREFIX = "meta."
FILTER_KEYS = ("path", "type", "after", "before", f"{METADATA_PREFIX}KEY")
DATE_KEYS = ("after", "before")
FILE_TYPE_FAMILIES = {  # type name → suffixes
    "word": ("docx", "docm", "dotx", "dotm", "doc", "dot", "odt", "ott", "fodt", "rtf"),
    "sheet": ("xlsx", "xlsm", "xltx", "xltm", "xls", "xlt", "ods", "ots", "fods", "csv", "tsv"),
    "slides": ("pptx", "pptm", "ppsx", "ppsm", "potx", "potm", "ppt", "pps", "odp", "otp", "fodp"),
    "mail": ("eml", "msg"),
    "web": ("html", "htm", "xhtml"),
    "book": ("epub",),
    "markdown": ("md", "markdown"),
    "text": ("txt", "text", "md", "markdown", "rst", "org", "tex", "log"),
    "data": ("json", "jsonl", "ndjson", "geojson", "xml", "csv", "tsv"),
    "subtitles": ("srt", "vtt"),
}
_HINT = "Write: --filter 'path=contracts/*,after=2024-01-01,type=pdf,meta.author=\"A. Holm\"'. Keys: " + ", ".join(FILTER_KEYS)
_CONDITION = re.compile(
    r"""\s*+(?P<key>[^=!,"']++)(?P<sign>!=|=)\s*+
        (?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^,"'][^,]*|))\s*(?:,|$)""",
    re.VERBOSE | re.DOTALL,
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_WILDCARD = re.compile(r"(?P<deep>(?:^|(?<=/))\*\*/)|(?P<all>\*\*+)|(?P<some>\*)|(?P<one>\?)")
_MAX_EXPRESSION_CHARS = 10_000  # characters of a `--filter` expression


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """A condition: a key of FILTER_KEYS (`meta.author` for a metadata key), a value, and whether it is negated."""

    key: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        value = self.value
        if re.search(r"""[,"'\\]|^\s|\s$""", value):
            value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        return f"{self.key}{'!=' if self.is_negated else '='}{value}"


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Documents in any of the `collections`, if given, that meet the conditions, which the user wrote as `expression`."""

    expression: str = ""
    collections: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.expression.strip() or self.collections)

    def __str__(self) -> str:
        parts = [self.expression.strip()] if self.expression.strip() else []
        return " in ".join([*parts, *([f"collection {' or '.join(self.collections)}"] if self.collections else [])])

    @property
    def conditions(self) -> tuple[FilterCondition, ...]:
        """The conditions of the expression. Raises UsageError."""
        return parse_filter(self.expression)


NO_FILTER = DocumentFilter()


def parse_filter(text: str) -> tuple[FilterCondition, ...]:
    """Parse a `--filter` expression; quoted values may contain commas. Raises UsageError that names the condition."""
    if len(text) > _MAX_EXPRESSION_CHARS:
        raise UsageError(
            f"--filter has {len(text)} characters; {_MAX_EXPRESSION_CHARS} at most are read.", "Put the documents into a collection."
        )
    conditions, position = [], 0
    while position < len(text) and text[position:].strip():
        match = _CONDITION.match(text, position)
        if match is None:
            raise _malformed(text[position:])
        conditions.append(_condition(match))
        position = match.end()
    return tuple(conditions)


def _malformed(remaining: str) -> UsageError:
    if (quote := re.match(r"""[^,"'=]*!?=\s*(["'])""", remaining)) is not None:
        return UsageError(f"--filter: the value in {remaining.strip()!r} does not end with {quote[1]}.", _HINT)
    condition = remaining.split(",", maxsplit=1)[0].strip()
    return UsageError(f"--filter: {condition!r} is not a condition.", f"{_HINT}. A value with a comma must be quoted.")


def _condition(match: re.Match[str]) -> FilterCondition:
    quoted = match["double"] if match["double"] is not None else match["single"]
    value = match["bare"].strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    text = match[0].strip().rstrip(",")
    key, negated = match["key"].strip(), match["sign"] == "!="
    name = key.lower()
    if name.startswith(METADATA_PREFIX) and name != METADATA_PREFIX:
        key = METADATA_PREFIX + key[len(METADATA_PREFIX) :]
    elif name in FILTER_KEYS[:-1]:
        key = name
    else:
        raise UsageError(
            f"--filter: there is no key {key!r}, in {text!r}.", f"Keys: {', '.join(FILTER_KEYS)}{suggestion(key, FILTER_KEYS[:-1])}"
        )
    if not value.strip():
        raise UsageError(f"--filter: {text!r} has no value.", _HINT)
    if key in DATE_KEYS:
        if negated:
            raise UsageError(f"--filter: {text!r}: a date cannot be negated.", "Use after=… for before!=…, and before=… for after!=….")
        value = _day(value, text)
    return FilterCondition(key, value.strip(" .").lower() if key == "type" else value, negated)


def _day(value: str, text: str) -> str:
    match = _DATE.fullmatch(value.strip())
    try:
        if match is None:
            raise ValueError
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)).isoformat()
    except ValueError:
        raise UsageError(f"--filter: {text!r}: {value!r} is not a date.", "Write 2024, 2024-03 or 2024-03-31.") from None


def suggestion(word: str, words: Iterable[str]) -> str:
    """`. Did you mean author?` if a known word is similar, else empty."""
    from difflib import get_close_matches

    matches = get_close_matches(word.casefold(), [k.casefold() for k in words], 1)
    return f". Did you mean {matches[0]}?" if matches else ""


def suffixes_of_type(kind: str) -> tuple[str, ...]:
    """The suffixes of a file type, without the dot: those of its family, else the type itself."""
    return FILE_TYPE_FAMILIES.get(kind, (kind,))


_SUFFIX = re.compile(r"[\w+~-]{1,12}")


def suffix_of(path: str) -> str:
    """The lower-case suffix of a path, without the dot; empty if it has none. That of a message in a mailbox is that of the mailbox."""
    before, _, suffix = path.rpartition("/")[2].lstrip(".").rpartition(".")
    if before and _SUFFIX.fullmatch(suffix):
        return suffix.lower()
    file = file_path(path)
    return suffix_of(file) if file != path else ""


def matches_path(path: str, pattern: str) -> bool:
    """Whether a stored path matches a pattern: `*` and `?` within a folder, `**` across folders; else it is a file or folder. A name
    with a suffix, such as notes.md, is also a file of that name in any folder, with the documents within it.

    Takes time proportional to path times pattern, because either may be untrusted.
    """
    return _glob(pattern)(unicodedata.normalize("NFC", path))


@lru_cache(maxsize=256)
def _glob(pattern: str) -> Callable[[str], bool]:
    plain = unicodedata.normalize("NFC", pattern)
    while plain.startswith("./"):
        plain = plain[2:]
    if not any(c in plain for c in "*?"):
        folder = plain.rstrip("/")
        if "/" not in pattern and suffix_of(folder):  # ./notes.md is in the uppermost folder
            return lambda path: f"/{folder}/" in f"/{path}/"
        return lambda path: folder in ("", ".") or path == folder or path.startswith(folder + "/")
    search = compile_linear(f"^(?:{_regex(plain + '**' if plain.endswith('/') else plain)})$")
    return lambda path: search(path) is not None


def _regex(glob: str) -> str:
    regex, position = "", 0
    for m in _WILDCARD.finditer(glob):
        regex += re.escape(glob[position : m.start()])
        regex += "(?:.*/)?" if m["deep"] else ".*" if m["all"] else "[^/]*" if m["some"] else "[^/]"
        position = m.end()
    return regex + re.escape(glob[position:])


def parse_collection_names(text: str) -> tuple[str, ...]:
    """The names in a list like `a,b`, each once. Raises UsageError for an invalid name."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if len(name) > 100 or not name.isprintable() or re.search(r"[:/\"'\\]", name):
            raise UsageError(f"{name!r} cannot be the name of a collection.", "Names have up to 100 characters, and no / : , or quotes.")
    return names


DATE_METADATA_KEYS = ("date", "published", "created")  # metadata keys with a document's date, in order of priority

_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})(?:[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?)?(?![\d/])", re.ASCII)
_PACKED = re.compile(r"(?<!\d)(\d{4})(\d{2})(\d{2})(?:\d{6})?(?!\d)", re.ASCII)  # 20240301, as in PDF
FIRST_NAMED_YEAR, LAST_NAMED_YEAR = "1800", "2099"  # of a date in the name of a file: others are numbers
_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_NAMED = re.compile(r"(?:(\d{1,2})(?:st|nd|rd|th)?\.?\s+)?([A-Za-z]{3,9})\.?\s+(?:(\d{1,2})(?:st|nd|rd|th)?,?\s+)?(\d{4})(?!\d)", re.ASCII)


def parse_day(text: str) -> str:
    """The first date in a text, as YYYY-MM-DD, or else empty. `3/4/2024` is ambiguous (March or April), so it is no date."""
    return next((day for day, _ in _days(text) if day), "")


def _days(text: str) -> Iterator[tuple[str, bool]]:
    for match in _PACKED.finditer(text):
        yield _iso(match[1], match[2], match[3]), True
    for match in _NAMED.finditer(text):
        if month := _MONTHS.get(match[2][:3].lower()):
            yield _iso(match[4], str(month), match[1] or match[3]), True
    for match in _YEAR_FIRST.finditer(text):
        if not text[: match.start()].endswith(("/", ".")):
            yield _iso(*match.groups()), match[2] is not None


def _iso(year: str, month: str | None, day: str | None) -> str:
    try:
        return date(int(year), int(month or 1), int(day or 1)).isoformat()
    except ValueError:
        return ""


def day_from_metadata(metadata: Iterable[tuple[str, str]]) -> str:
    """The date of a document by its metadata (name, value); empty without one."""
    values = {name.lower(): value for name, value in metadata}
    return next((day for key in DATE_METADATA_KEYS if (day := parse_day(values.get(key, "")))), "")


def day_of_file(path: str, changed_at: float) -> tuple[str, str]:
    """The date of a document without one in its metadata, and where it is from.

    The "name" of the file or a folder has it, as in `2019-03-02 minutes.md` or `2019_03/minutes.md`, or else it is that of the "file", in
    Unix seconds. A year alone is none: `1984.txt` is a novel.
    """
    for part in reversed(path.split("/")):
        for day, has_month in _days(part.replace("_", "-")):
            if has_month and day and FIRST_NAMED_YEAR <= day[:4] <= LAST_NAMED_YEAR:
                return day, "name"
    return day_from_mtime(changed_at), "file"


def day_from_mtime(seconds: float) -> str:
    """The local date of a file time in Unix seconds; 1970-01-01 if it is out of range."""
    try:
        return date.fromtimestamp(seconds).isoformat()
    except (OverflowError, ValueError, OSError):
        return "1970-01-01"
