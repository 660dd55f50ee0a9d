"""Markdown as Obsidian reads it, from texts that must not become markup, links, tags or comments."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from localrag.exchange.plain import clean
from localrag.text.plain import squeeze

_MARKUP = re.compile(r"[\\`*_\[\]<>#|%^~$]|==|^[-+](?=\s)|^\d+[.)](?=\s)")
_IN_LINK = str.maketrans({"[": "(", "]": ")", "|": "/", "\\": "/", "<": "‹", ">": "›"})


def written(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _MARKUP.sub(lambda found: "".join(c if c.isdigit() else f"\\{c}" for c in found[0]), squeeze(clean(text)))


def link(note: str, text: str = "") -> str:
    """A link to a note by its name; shown as `text`, where that is another."""
    shown = squeeze(clean(text)).translate(_IN_LINK)
    return f"[[{note}|{shown}]]" if shown and shown != note else f"[[{note}]]"


def quotation(text: str, source: str, part: str = "") -> str:
    """Words of a document, with the link to it and the part (page, slide) they stand in."""
    return f"> {written(text)}\n> — {source}" + (f", {written(part)}" if part else "")


def more(lines: Sequence[str], most: int, total: int = 0) -> str:
    """A list, at most so long; how many more there are of `total` is said."""
    left = max(total, len(lines)) - min(len(lines), most)
    return "\n".join([*lines[:most], *([f"- … and {left} more"] if left else [])])


def front_matter(values: Mapping[str, Any]) -> str:
    """Properties of a note, as YAML."""
    import yaml

    cleaned = {clean(k): _cleaned(v) for k, v in values.items()}
    return f"---\n{yaml.safe_dump(cleaned, allow_unicode=True, sort_keys=False, width=10**9)}---"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value).replace("[[", "((").replace("]]", "))")  # which Obsidian takes for a link in properties, too
    return [_cleaned(v) for v in value] if isinstance(value, list) else value
