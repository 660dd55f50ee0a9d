"""Plain text, Markdown, reStructuredText, Org and AsciiDoc, hardly changed: only HTML tables in Markdown are written as rows."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, metadata_pairs, strip_escapes
from localrag.loaders.document_tree import moved_blocks
from localrag.loaders.html import html_content
from localrag.loaders.line_numbers import without_line_numbers
from localrag.records import DocumentBlock
from localrag.text.hyphenation import document_words, is_compound
from localrag.text.outline import BlockKind

_FRONT = re.compile(r"\A\ufeff?(?:---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)|\+\+\+[ \t]*\n(.*?)\n\+\+\+[ \t]*(?:\n|\Z))", re.DOTALL)
_PLAIN_VALUE = re.compile(r"^([^\s:#\-][^:\n]*):[ \t]+(\S[^\n]*)$", re.MULTILINE)
_MAX_FRONT_MATTER_CHARS = 20_000  # characters: anything longer is no front matter
_UNDERLINED = re.compile(r"^(?:([=\-~#*^\"`:.+_])\1{2,}\n)?(\S.*)\n([=\-~#*^\"`:.+_])\3{2,}[ \t]*$", re.MULTILINE)
_ORG = re.compile(r"^#\+(title|author|date|subtitle|description|language):[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = {
    "md": re.compile(r"^\ufeff?#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE),
    "org": re.compile(r"^\*+[ \t]+(.+?)[ \t]*$", re.MULTILINE),
    "adoc": re.compile(r"^=+[ \t]+(.+?)[ \t]*$", re.MULTILINE),
}
_DIVIDED = re.compile(r"(?<![\w-])([^\W\d_]{2,})-\n([a-zà-öø-ÿа-яё]+)([^\s\w-]*)(?=\s|\Z)( ?)")
_CHAT_START = re.compile(r"window\.YTD\.|\W{0,4}\d{1,4}\W")
_ESCAPED = re.compile(r"(?:\\u[\da-fA-F]{4})+")
_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
_TABLE_TAG = re.compile(rf"{_FENCED.pattern}|^[ \t]*(?P<start><table\b)|(?P<end></table\s*>)", re.DOTALL | re.MULTILINE | re.IGNORECASE)


def parse_text(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Any text, without the escapes of terminals; in `.txt` without numbers of lines, and with divided words joined."""
    text = strip_escapes(decode(file.read_bytes()))
    if _CHAT_START.match(text):
        from localrag.loaders.conversations import chat_text  # slow to import

        if chat := chat_text(text, options):
            return ParsedFile(chat)
    if file.suffix.lower() not in {".txt", ".text"}:
        return ParsedFile(text)
    lines = without_line_numbers(text.splitlines())
    return ParsedFile(join_divided_words(text if lines is None else "\n".join(lines)))


def parse_properties(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    r"""Properties of Java, in which `\u00f6` is ö."""
    return ParsedFile(_ESCAPED.sub(lambda match: str(json.loads(f'"{match[0]}"')), decode(file.read_bytes())))


def join_divided_words(text: str) -> str:
    """Join words divided by a hyphen and a line end; the line then ends after the word. A hyphen of a compound stays."""
    matches = list(_DIVIDED.finditer(text))
    if not matches:
        return text
    known = document_words(_DIVIDED.sub(" ", text))

    def joined(match: re.Match[str]) -> str:
        first, second, rest, space = match.groups()
        return f"{first}{'-' * is_compound(first, second, known)}{second}{rest}" + ("\n" if space else "")

    return _DIVIDED.sub(joined, text)


def parse_markdown(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Markdown, unchanged but for HTML tables; YAML or TOML front matter becomes metadata."""
    text = decode(file.read_bytes())
    values, end = front_matter(text)
    metadata = metadata_pairs(**{name: _value(values[name]) for name in values})
    body = _FENCED.sub("", text[end:])
    title = dict(metadata).get("title", "") or _markdown_title(body) or _underlined(body)
    text, blocks = _with_written_tables(text)
    return ParsedFile(text, title, metadata, blocks=blocks)


def _with_written_tables(text: str) -> tuple[str, tuple[DocumentBlock, ...]]:
    """A text with the HTML tables in it as rows, which are blocks."""
    pieces: list[str] = []
    blocks: list[DocumentBlock] = []
    position = length = 0
    for start, end in _table_places(text):
        table = html_content(text[start:end])
        if any(block.kind == BlockKind.TABLE for block in table.blocks):
            pieces += [text[position:start], table.text]
            length += start - position
            blocks += moved_blocks(table.blocks, length, length, length + len(table.text))
            length += len(table.text)
            position = end
    return "".join([*pieces, text[position:]]), tuple(blocks)


def _table_places(text: str) -> Iterator[tuple[int, int]]:
    """Where HTML tables stand that begin a line, outside of code."""
    start = None
    for tag in _TABLE_TAG.finditer(text):
        if tag["start"] and start is None:
            start = tag.start("start")
        elif tag["end"] and start is not None:
            yield start, tag.end()
            start = None


def _markdown_title(body: str) -> str:
    """The first heading; empty if others stand beside it, as `## To do` beside `## Notes` in a note that its file name names."""
    headings = [(len(match[0].strip("\ufeff").split(maxsplit=1)[0]), match[1]) for match in islice(_HEADING["md"].finditer(body), 100)]
    levels = [level for level, _ in headings]
    return headings[0][1] if headings and (levels[0] == 1 or levels.count(levels[0]) == 1) else ""


def parse_rst(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """reStructuredText, unchanged."""
    text = decode(file.read_bytes())
    return ParsedFile(text, _underlined(text))


def parse_org(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Org, unchanged; `#+TITLE:` and similar lines become metadata."""
    text = decode(file.read_bytes())
    metadata = metadata_pairs(**{name.lower(): value for name, value in _ORG.findall(text)})
    return ParsedFile(text, dict(metadata).get("title", "") or _first_heading("org", text), metadata)


def parse_asciidoc(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """AsciiDoc, unchanged."""
    text = decode(file.read_bytes())
    return ParsedFile(text, _first_heading("adoc", text))


def front_matter(text: str) -> tuple[Mapping[str, Any], int]:
    """The values between `---` or `+++` lines at the beginning of a text, and the end of that block."""
    block = _FRONT.match(text[:_MAX_FRONT_MATTER_CHARS])
    if block is None:
        return {}, 0
    values = _yaml(block[1]) if block[1] is not None else _toml(block[2])
    return ({str(k).lower(): v for k, v in values.items()}, block.end()) if isinstance(values, dict) else ({}, 0)


def _yaml(text: str) -> Any:
    import yaml

    class AsWritten(yaml.SafeLoader):  # type: ignore[misc]
        """Keeps numbers as text: Python refuses one of 5,000 digits, and YAML reads 1:1:1 as 3661."""

    for kind in ("int", "float"):
        AsWritten.add_constructor(f"tag:yaml.org,2002:{kind}", AsWritten.construct_yaml_str)
    for source in (text, _PLAIN_VALUE.sub(_quoted_value, text)):
        try:
            return yaml.load(source, AsWritten)
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
    return dict(match.groups() for match in _PLAIN_VALUE.finditer(text))  # type: ignore[misc]


def _quoted_value(line: re.Match[str]) -> str:
    """A line with its value in quotation marks unless it has marks of its own: `title: Storm: the second night`."""
    value = line[2].rstrip()
    is_marked = value[0] in "\"'[{|>&*!" and not value.startswith("[[")
    return line[0] if is_marked else f"{line[1]}: {json.dumps(value, ensure_ascii=False)}"


def _toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _value(value: Any) -> str:
    """A plain value, or a list of plain values, as text; nested values are left out."""
    if isinstance(value, list):
        values = [v[0] if isinstance(v, list) and len(v) == 1 else v for v in value]  # a link of Obsidian: [[note]]
        return ", ".join(str(v) for v in values if v is not None and not isinstance(v, list | dict))
    return "" if value is None or isinstance(value, dict) else str(value)


def _first_heading(form: str, text: str) -> str:
    match = _HEADING[form].search(text)
    return match[1] if match else ""


def _underlined(text: str) -> str:
    match = next((m for m in _UNDERLINED.finditer(text) if len(m[0].rpartition("\n")[2].rstrip()) >= min(len(m[2].rstrip()), 4)), None)
    return match[2].strip() if match else ""
