"""Bibliographies of BibTeX: each entry a paragraph of `field: value` lines, with LaTeX's letters as text."""

import re
from collections.abc import Iterator

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, clean_text, decode
from localrag.loaders.latex import BraceGroups, tex_text

_ENTRY = re.compile(r"^[ \t]*@(?=\w+\s*[{(])", re.MULTILINE)
_HEAD = re.compile(r"(\w+)\s*[{(]\s*(?:([^\s=,{}\"]+)\s*(?:,|[})]?\s*\Z))?")
_FIELD = re.compile(r"\s*,?\s*([^\s=,{}\"#]+)\s*=\s*")
_PLAIN = re.compile(r"[^\s,{}\"#()]+")
_CONCATENATED = re.compile(r"\s*(?:#\s*)?")
_AS_WRITTEN = frozenset({"url", "doi", "file", "eprint", "pdf"})  # where % and _ are no LaTeX


def parse_bibliography(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse the entries; comments, and abbreviations, which are written out, are left out."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    names: dict[str, str] = {}
    entries = []
    for source in _ENTRY.split(text)[1:]:
        head = _HEAD.match(source)
        kind, key = (head[1].lower(), head[2] or "") if head else ("comment", "")
        if kind in {"comment", "preamble"}:
            continue
        fields = dict(_fields(source, head.end() if head else 0, names))
        if kind == "string":
            names |= fields
        else:
            entries.append("\n".join([f"{kind}: {key}", *(f"{name}: {_plain(name, value)}" for name, value in fields.items() if value)]))
    return ParsedFile(clean_text("\n\n".join(entries)) or text)


def _fields(source: str, position: int, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The fields of an entry with their values in LaTeX. `names`: the abbreviations."""
    groups = BraceGroups(source)
    while field := _FIELD.match(source, position):
        position, value = field.end(), ""
        while part := _value(source, position, groups, names):
            value += part[0]
            position = part[1]
            position = _CONCATENATED.match(source, position).end()  # type: ignore[union-attr]
        yield field[1].lower(), value


def _value(source: str, position: int, groups: BraceGroups, names: dict[str, str]) -> tuple[str, int] | None:
    """The part of a value at a position, in braces, quotation marks or neither, and its end."""
    if source.startswith("{", position):
        return groups.at(position) or (source[position + 1 :], len(source))
    if source.startswith('"', position):
        end = position + 1
        while end < len(source) and source[end] != '"':
            group = groups.at(end) if source[end] == "{" else None
            end = group[1] if group else end + 1
        return source[position + 1 : end], end + 1
    plain = _PLAIN.match(source, position)
    return (names.get(plain[0].lower(), plain[0]), plain.end()) if plain else None


def _plain(name: str, value: str) -> str:
    if name not in _AS_WRITTEN and ("\\" in value or "$" in value):
        value = tex_text(re.sub(r"(?<!\\)%", r"\\%", value))
    return " ".join(value.replace("{", "").replace("}", "").replace("--", "–").split())
