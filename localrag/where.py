"""Which documents a question is about: `--where path=contracts/*,after=2024-01-01,type=pdf,meta.author="A. Holm"` and collections.

Conditions are joined by "and". A key given twice with `=` is "or"; with `!=`, none of its values may hold. What a condition means is said
here; which documents it holds for is asked in `store/selection.py`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from localrag.errors import UsageError
from localrag.linear import PatternError, compile_linear

META = "meta."
KEYS = ("path", "type", "after", "before", f"{META}KEY")
DATES = ("after", "before")
FAMILIES = {  # of suffixes that one word stands for
    "word": ("docx", "odt", "rtf"),
    "sheet": ("xlsx", "xlsm", "ods", "csv", "tsv"),
    "slides": ("pptx", "odp"),
    "mail": ("eml",),
    "web": ("html", "htm", "xhtml"),
    "book": ("epub",),
    "markdown": ("md", "markdown"),
    "text": ("txt", "text", "md", "markdown", "rst", "org", "tex", "log"),
    "data": ("json", "jsonl", "ndjson", "geojson", "xml", "csv", "tsv"),
    "subtitles": ("srt", "vtt"),
}
_HINT = "Write: --where 'path=contracts/*,after=2024-01-01,type=pdf,meta.author=\"A. Holm\"'. Keys: " + ", ".join(KEYS)
_CONDITION = re.compile(
    r"""\s*+(?P<key>[^=!,"']++)(?P<sign>!=|=)\s*+
        (?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^,"'][^,]*|))\s*(?:,|$)""",
    re.VERBOSE | re.DOTALL,
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_WILDCARD = re.compile(r"(?P<deep>(?:^|(?<=/))\*\*/)|(?P<all>\*\*+)|(?P<some>\*)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<of>\]?[^\]/]*)\]")
_LONGEST = 10_000  # characters


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: a key of KEYS (`meta.author` of a metadata key), its value, and whether it must not hold."""

    key: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        value = self.value
        if re.search(r"""[,"'\\]|^\s|\s$""", value):
            value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        return f"{self.key}{'!=' if self.negated else '='}{value}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The documents that a question is about: those of any of the `collections`, if some are named, for which the conditions hold.

    `where` is as the user wrote it.
    """

    where: str = ""
    collections: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.where.strip() or self.collections)

    def __str__(self) -> str:
        parts = [self.where.strip()] if self.where.strip() else []
        return " in ".join([*parts, *([f"collection {' or '.join(self.collections)}"] if self.collections else [])])

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of `where`. Raises UsageError."""
        return parse_where(self.where)


EVERYTHING = Selection()


def parse_where(text: str) -> tuple[Condition, ...]:
    """The conditions of a `--where`. Values may be quoted and then hold commas. Raises UsageError that names the condition."""
    if len(text) > _LONGEST:
        raise UsageError(f"--where has {len(text)} characters; {_LONGEST} are read at most.", "Put the documents into a collection.")
    found, at = [], 0
    while at < len(text) and text[at:].strip():
        match = _CONDITION.match(text, at)
        if match is None:
            raise _malformed(text[at:])
        found.append(_condition(match))
        at = match.end()
    return tuple(found)


def _malformed(rest: str) -> UsageError:
    if (quote := re.match(r"""[^,"'=]*!?=\s*(["'])""", rest)) is not None:
        return UsageError(f"--where: the value in {rest.strip()!r} does not end with {quote[1]}.", _HINT)
    one = rest.split(",", maxsplit=1)[0].strip()
    return UsageError(f"--where: {one!r} is no condition.", f"{_HINT}. A value with a comma stands in quotes.")


def _condition(match: re.Match[str]) -> Condition:
    quoted = match["double"] if match["double"] is not None else match["single"]
    value = match["bare"].strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    said = match[0].strip().rstrip(",")
    key, negated = match["key"].strip(), match["sign"] == "!="
    name = key.lower()
    if name.startswith(META) and name != META:
        key = META + key[len(META) :]
    elif name in KEYS[:-1]:
        key = name
    else:
        raise UsageError(f"--where: there is no key {key!r}, in {said!r}.", f"Keys: {', '.join(KEYS)}{did_you_mean(key, KEYS[:-1])}")
    if not value.strip():
        raise UsageError(f"--where: {said!r} has no value.", _HINT)
    if key in DATES:
        if negated:
            other = DATES[1 - DATES.index(key)]
            raise UsageError(f"--where: {said!r}: a date is not negated.", f"The other side is {other}={value}.")
        value = _day(value, said)
    return Condition(key, value.strip(" .").lower() if key == "type" else value, negated)


def _day(value: str, said: str) -> str:
    """The first day of a date that may be a year or a month, as YYYY-MM-DD. Raises UsageError."""
    match = _DATE.fullmatch(value.strip())
    try:
        if match is None:
            raise ValueError
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)).isoformat()
    except ValueError:
        raise UsageError(f"--where: {said!r}: {value!r} is no date.", "Write 2024, 2024-03 or 2024-03-31.") from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`. Did you mean author?`, where something known is written alike; else empty."""
    from difflib import get_close_matches

    near = get_close_matches(word.casefold(), [k.casefold() for k in known], 1)
    return f". Did you mean {near[0]}?" if near else ""


def suffixes(kind: str) -> tuple[str, ...]:
    """The suffixes that a type stands for, without the dot: those of its family, else itself."""
    return FAMILIES.get(kind, (kind,))


def suffix_of(path: str) -> str:
    """The suffix of a path in small letters, without the dot; empty where it has none."""
    name = path.rpartition("/")[2].lstrip(".")
    return name.rpartition(".")[2].lower() if "." in name else ""


def is_at(path: str, pattern: str) -> bool:
    """Whether a stored path matches a pattern: `*` and `?` stay within a folder, `**` does not; without either it is a file or folder.

    Takes time proportional to path times pattern, as either may be untrusted.
    """
    return _glob(pattern)(unicodedata.normalize("NFC", path))


@lru_cache(maxsize=256)
def _glob(pattern: str) -> Callable[[str], bool]:
    plain = unicodedata.normalize("NFC", pattern)
    while plain.startswith("./"):
        plain = plain[2:]
    if not any(c in plain for c in "*?["):
        folder = plain.rstrip("/")
        return lambda path: folder in ("", ".") or path == folder or path.startswith(folder + "/")
    try:
        search = compile_linear(f"^(?:{_regex(plain + '**' if plain.endswith('/') else plain)})$")
    except PatternError:
        raise UsageError(f"--where: {pattern!r} is no pattern of paths.", "Use *, ?, ** and [abc].") from None
    return lambda path: search(path) is not None


def _regex(glob: str) -> str:
    """Translate a glob into a regular expression. Raises PatternError."""
    made, at = "", 0
    for m in _WILDCARD.finditer(glob):
        made += re.escape(glob[at : m.start()])
        if m["of"] is not None:
            made += f"[{'^/' if m['not'] else ''}{_class_members(m['of'])}]"
        else:
            made += "(?:.*/)?" if m["deep"] else ".*" if m["all"] else "[^/]*" if m["some"] else "[^/]"
        at = m.end()
    return made + re.escape(glob[at:])


def _class_members(members: str) -> str:
    """The inside of [abc] or [a-c] for a regular expression, without the slash, which no wildcard matches. Raises PatternError."""
    made = ""
    for single, first, last in re.findall(r"(?s)(.)(?!-.)|(.)-(.)", members):
        if first > last:
            raise PatternError(f"{first}-{last} is no range.", "Write the lower end first.")
        for a, b in ((first, min(last, ".")), (max(first, "0"), last)) if first else ((single, single),):
            made += f"{re.escape(a)}-{re.escape(b)}" if a <= b else ""
    return made


def collection_names(text: str) -> tuple[str, ...]:
    """The names in a list like `a,b`, each once. Raises UsageError for what cannot be the name of a collection."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if len(name) > 100 or not name.isprintable() or re.search(r"[:/\"'\\]", name):
            raise UsageError(f"{name!r} cannot be the name of a collection.", "Names have up to 100 characters, and no / : , or quotes.")
    return names
