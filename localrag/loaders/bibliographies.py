"""Bibliographies of BibTeX: each entry a paragraph of `field: value` lines, with LaTeX's letters as text."""

import re
from collections.abc import Iterator, Mapping
from functools import reduce

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.latex import tex_text

_MAX_BRACES = 5  # within each other
_TEXT = reduce(lambda inner, _: rf"(?:[^{{}}\"]|\{{(?:\"|{inner})*+\}})", range(_MAX_BRACES), r"[^{}\"]")
_FIELD = re.compile(rf'([^\s=,{{}}"#@]+)\s*+=\s*+(?:\{{((?:"|{_TEXT})*+)\}}|"({_TEXT}*+)"|([^\s{{"][^,\n)]*+|\{{[^\n]*+))')
_ENTRY = re.compile(r"^[ \t]*@(?=\w+\s*[{(])", re.MULTILINE)
_HEAD = re.compile(r"(\w+)\s*[{(]\s*([^\s=,{}\"]*)")
_AS_WRITTEN = frozenset({"url", "doi", "file", "eprint"})  # where % and _ are no LaTeX


def parse_bibliography(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse the entries; comments are left out, abbreviations written out."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    sources = _ENTRY.split(text)[1:]
    names = {name.lower(): value for source in sources if source.lower().startswith("string") for name, value in _fields(source)}
    entries = ("\n".join(_lines(source, names)) for source in sources if not source.lower().startswith(("string", "comment", "preamble")))
    return ParsedFile("\n\n".join(entries) or text)


def _fields(source: str) -> Iterator[tuple[str, str]]:
    return ((field[1], field[2] or field[3] or field[4] or "") for field in _FIELD.finditer(source))


def _lines(source: str, names: Mapping[str, str]) -> Iterator[str]:
    """The lines of an entry. `names`: the abbreviations."""
    head = _HEAD.match(source)
    yield f"{head[1].lower()}: {head[2]}" if head else ""
    for name, written in _fields(source):
        value = names.get(written.lower(), written)
        if name.lower() not in _AS_WRITTEN and ("\\" in value or "$" in value):
            value = tex_text(re.sub(r"(?<!\\)([%&#])", r"\\\1", value))
        yield f"{name.lower()}: {' '.join(value.replace('{', '').replace('}', '').replace('--', '–').split())}"
