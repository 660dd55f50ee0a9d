"""Trims texts that were cut off at a limit in characters, often inside a word, to their last whole sentence."""

import re
from typing import Any


def ended(text: str, longest: int) -> str:
    """Trim a text that reached its limit to its last whole sentence, or drop its last word if it has none; return any other as it is."""
    if len(text) < longest - 2:
        return text
    whole = _SENTENCES.match(text) or _WORDS_BUT_LAST.match(text)
    return whole.group().rstrip(" ,;:，；：、") if whole else text


def whole_strings(value: Any, schema: dict[str, Any]) -> Any:
    """A value of a schema, in which every string that reached its `maxLength` is trimmed to its last whole sentence or word."""
    if isinstance(value, dict):
        return {name: whole_strings(part, schema["properties"][name]) for name, part in value.items()}
    if isinstance(value, list):
        return [whole_strings(part, schema["items"]) for part in value]
    return ended(value, schema["maxLength"]) if isinstance(value, str) and "maxLength" in schema else value


_SENTENCES = re.compile(r".*(?:[.!?…](?=[\s\"”’')]|$)|[。！？])", re.DOTALL)
_WORDS_BUT_LAST = re.compile(r".*(?=\s)", re.DOTALL)
