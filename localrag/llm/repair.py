"""Repairs of rows that a server wrote in another spelling than the text or the requested shape has, instead of dropping them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from localrag.llm.model import end_at_sentence
from localrag.text.sentences import collapse_whitespace

STRAIGHT_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
MIN_TYPE_SIMILARITY = 0.75  # of a type's spelling, as "organisation" has to "organization"
_ARTICLE = re.compile(r"^(?:the|an?|der|die|das|den|dem|le|la|les|el|los|las|il|gli)\s+(?=\w{2})|^l'(?=\w{2})")
MAX_COMPARED_NAME_CHARS, MAX_COMPARED_OPTION_CHARS = 300, 100  # of what is compared: anything longer is no name and no option
_AROUND = " \t\n\"'“”‘’.,;:()[]"


def verbatim_name(name: str, text: str) -> str:
    """The name as the text writes it, whatever its case, quotes and number; unchanged if the text does not have it."""
    folded, plain_name = _folded(text), collapse_whitespace(name)
    for variant in _variants(name) if len(name) <= MAX_COMPARED_NAME_CHARS else ():
        pattern = r"(?<![\w./@])" + r"\s+".join(map(re.escape, variant.split())) + r"(?!\w)"
        if found := [collapse_whitespace(text[m.start() : m.end()]) for m in re.finditer(pattern, folded)]:
            return next((spelling for spelling in found if spelling in plain_name), found[0])
    return name


def _folded(text: str) -> str:
    return "".join(low if len(low := c.lower()) == 1 else c for c in text.translate(STRAIGHT_QUOTES))


def _variants(name: str) -> Iterator[str]:
    """The name in lower case, then without quotes, a possessive or an article, then in the singular and the plural."""
    folded = collapse_whitespace(_folded(name).strip('" '))
    bare = re.sub(r"'s?$", "", folded.strip(_AROUND))
    plain = _ARTICLE.sub("", bare)
    singulars = re.sub(r"(?<=..)ies$", "y", plain), re.sub(r"(?<=...)(?<!s)(?:es|s)$", "", plain), re.sub(r"(?<=...)(?<!s)s$", "", plain)
    yield from filter(None, dict.fromkeys((folded, bare, plain, *singulars, f"{plain}s", re.sub(r"y$", "ies", plain))))


def known_option(value: Any, options: Sequence[str]) -> Any:
    """The option that a value means in another case, number or spelling; the value itself if there is none."""
    folded = {_folded(option): option for option in options}
    variants = list(_variants(str(value))) if len(str(value)) <= MAX_COMPARED_OPTION_CHARS else []
    exact = next((folded[v] for v in variants if v in folded), None)
    near = get_close_matches(variants[0], folded, n=1, cutoff=MIN_TYPE_SIMILARITY) if variants and exact is None else []
    return exact or (folded[near[0]] if near else value)


def known_name(value: Any, names: Sequence[str]) -> Any:
    """The name of the list that a value means in another case, number or kind of quotes; the value itself if there is none."""
    if value in names or len(str(value)) > MAX_COMPARED_NAME_CHARS:
        return value
    folded = {_folded(name): name for name in names}
    return next((folded[v] for v in _variants(str(value)) if v in folded), value)


def line_of_text(value: Any, max_chars: int, min_chars: int = 0, *, about: str = "") -> Any:
    """A text on one line without double quotes and backslashes, cut at a sentence or a word; `about` precedes one that is too short."""
    if not isinstance(value, str):
        return value
    text = collapse_whitespace(value.replace('"', "'").replace("\\", ""))
    if len(text) > max_chars:
        text = end_at_sentence(text[:max_chars], max_chars)
    return f"{about}: {text}" if about and len(text) < min_chars else text


def strength(value: Any) -> Any:
    """A strength as a number from 1 to 10."""
    try:
        return min(10, max(1, round(float(value))))
    except (TypeError, ValueError):
        return 5


def conformed(value: Any, schema: Mapping[str, Any]) -> Any:
    """A JSON value as its schema has it, within its limits and in its spelling; what cannot be repaired is left as it is."""
    if options := schema.get("enum"):
        by_text = {str(option): option for option in options}
        return value if value in options else by_text.get(known_option(value, list(by_text)), value)
    kind = schema.get("type")
    if kind == "object" and isinstance(value, dict):
        return {name: conformed(value[name], part) for name, part in schema["properties"].items() if name in value}
    if kind == "array":
        parts = [conformed(part, schema["items"]) for part in (value if isinstance(value, list) else [value])]
        known = [part for part in parts if part in schema["items"].get("enum", parts)]
        return known[: schema.get("maxItems", len(known))]
    if kind == "integer":
        return _whole_number(value, schema)
    if kind == "string" and isinstance(value, (str, int, float)):
        text, longest = str(value), schema.get("maxLength", len(str(value)))
        return end_at_sentence(text[:longest], longest) if len(text) > longest else text
    return value


def _whole_number(value: Any, schema: Mapping[str, Any]) -> Any:
    """The number of a value, such as "80 %" or "4/5", within the limits of its schema; the value itself if it has none."""
    found = re.match(r"\s*(-?\d{1,9}(?:\.\d{1,9})?)", str(value)[:40])
    if not found:
        return value
    return min(schema.get("maximum", 1 << 40), max(schema.get("minimum", 0), round(float(found[1]))))


def rows_of(value: Any, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a list, each with the fields of the schema in their order; what is no row or lacks a field is left as it is."""
    names = list(schema["properties"]["items"]["items"]["properties"])
    return [{name: row[name] for name in names} if isinstance(row, dict) and row.keys() >= set(names) else row for row in value["items"]]
