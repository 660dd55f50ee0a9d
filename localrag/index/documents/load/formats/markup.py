"""Text that is read as it stands (notes, Markdown, reStructuredText, Org, source code), and TeX and RTF without their commands."""

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from localrag.index.documents.load.content import Content, Options, clean, described
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.formats.tables import table_lines
from localrag.index.documents.load.open_file import OpenFile

_FRONT = re.compile(r"\A\ufeff?(?:---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)|\+\+\+[ \t]*\n(.*?)\n\+\+\+[ \t]*(?:\n|\Z))", re.DOTALL)
_LONGEST_FRONT = 20_000  # characters: a longer one is no front matter
_UNDERLINED = re.compile(r"^(?:([=\-~#*^\"`:.+_])\1{2,}\n)?(\S.*)\n([=\-~#*^\"`:.+_])\3{2,}[ \t]*$", re.MULTILINE)
_ORG = re.compile(r"^#\+(title|author|date|subtitle|description|language):[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = {
    "md": re.compile(r"^\ufeff?#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE),
    "org": re.compile(r"^\*+[ \t]+(.+?)[ \t]*$", re.MULTILINE),
    "adoc": re.compile(r"^=+[ \t]+(.+?)[ \t]*$", re.MULTILINE),
}
_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)


def parse_text(file: OpenFile, _options: Options) -> Content:
    """Any text, as it stands."""
    return Content(decode(file.read_bytes()))


def parse_markdown(file: OpenFile, _options: Options) -> Content:
    """Markdown as it stands; front matter in YAML or TOML is its metadata."""
    text = decode(file.read_bytes())
    values, end = front_matter(text)
    metadata = described(**{name: _value(values[name]) for name in values})
    body = _FENCED.sub("", text[end:])
    title = dict(metadata).get("title", "") or _first(_HEADING["md"], body) or _underlined(body)
    return Content(text, title, metadata)


def parse_rst(file: OpenFile, _options: Options) -> Content:
    """reStructuredText as it stands."""
    text = decode(file.read_bytes())
    return Content(text, _underlined(text))


def parse_org(file: OpenFile, _options: Options) -> Content:
    """Org as it stands; `#+TITLE:` and its like are metadata."""
    text = decode(file.read_bytes())
    metadata = described(**{name.lower(): value for name, value in _ORG.findall(text)})
    return Content(text, dict(metadata).get("title", "") or _first(_HEADING["org"], text), metadata)


def parse_asciidoc(file: OpenFile, _options: Options) -> Content:
    """AsciiDoc as it stands."""
    text = decode(file.read_bytes())
    return Content(text, _first(_HEADING["adoc"], text))


def front_matter(text: str) -> tuple[Mapping[str, Any], int]:
    """What stands between `---` or `+++` lines at the beginning of a text, and where it ends."""
    found = _FRONT.match(text[:_LONGEST_FRONT])
    if found is None:
        return {}, 0
    values = _yaml(found[1]) if found[1] is not None else _toml(found[2])
    return ({str(k).lower(): v for k, v in values.items()}, found.end()) if isinstance(values, dict) else ({}, 0)


def _yaml(text: str) -> Any:
    import yaml

    class AsWritten(yaml.SafeLoader):  # type: ignore[misc]
        """Keeps numbers as text: Python refuses one of 5,000 digits, and YAML reads 1:1:1 as 3661."""

    for kind in ("int", "float"):
        AsWritten.add_constructor(f"tag:yaml.org,2002:{kind}", AsWritten.construct_yaml_str)
    try:
        return yaml.load(text, AsWritten)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _value(value: Any) -> str:
    """A plain value, or a list of them; nothing of what is nested deeper."""
    if isinstance(value, list):
        return ", ".join(str(v) for v in value if v is not None and not isinstance(v, list | dict))
    return "" if value is None or isinstance(value, dict) else str(value)


def _first(heading: re.Pattern[str], text: str) -> str:
    found = heading.search(text)
    return found[1] if found else ""


def _underlined(text: str) -> str:
    found = next((m for m in _UNDERLINED.finditer(text) if len(m[0].rpartition("\n")[2].rstrip()) >= min(len(m[2].rstrip()), 4)), None)
    return found[2].strip() if found else ""


_TEX_SECTION = {"part": "#", "chapter": "#", "section": "##", "subsection": "###", "subsubsection": "####", "paragraph": "#####"}
_TEX_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[a-zA-Z]+\*?|\\(?=[#$%&_{}])|[{}]")
_TEX_SILENT = re.compile(
    r"\\(?:pagestyle|thispagestyle|bibliographystyle|bibliography|label|vspace|hspace|setlength|setcounter|addtocounter|pagenumbering"
    r"|newcommand|renewcommand|usepackage|documentclass|input|include|graphicspath)\*?\s*(?:\[[^\]]*\]|\{[^{}]*\})+"
)


def parse_tex(file: OpenFile, _options: Options) -> Content:
    """LaTeX without preamble, comments and markup; sections as `# …` headings, formulas as they are written. No file is included."""
    source = decode(file.read_bytes())
    body = re.search(r"\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", source, re.DOTALL)
    named = {name: tex_text(_argument(source, name)) for name in ("title", "author", "date")}
    text = clean(tex_text(body[1] if body else source))
    title = " ".join(named["title"].split())
    if title and not text.startswith("# "):
        text = f"# {title}\n\n{text}"
    return Content(text, title, described(**named))


def _argument(source: str, command: str) -> str:
    """What stands in the braces of a command of the preamble, up to its matching brace."""
    found = re.search(rf"\\{command}\s*(?:\[[^\]]*\])?\{{", source)
    if found is None:
        return ""
    depth, at = 1, found.end()
    while at < len(source) and depth and at - found.end() < 5000:
        depth += {"{": 1, "}": -1}.get(source[at], 0) if source[at - 1] != "\\" else 0
        at += 1
    return source[found.end() : at - 1]


def tex_text(source: str) -> str:
    """LaTeX as text. What is not well-formed is read paragraph by paragraph, the broken ones without their commands only.

    (The library's own way with errors tries everything that an open brace could mean, which takes for ever where several are open.)
    """
    from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
    from pylatexenc.latexwalker import LatexWalkerParseError

    known = get_default_latex_context_db()
    silent = [MacroTextSpec(name, simplify_repl="") for name in ("maketitle", "title", "author", "date", "tableofcontents")]
    known.add_context_category("silent", macros=silent, prepend=True)
    converter = LatexNodes2Text(latex_context=known, math_mode="verbatim", keep_comments=False, strict_latex_spaces=False)

    def converted(some: str) -> str:
        return str(converter.latex_to_text(some, tolerant_parsing=False))

    source = _prepared(source)
    try:
        text = converted(source)
    except (LatexWalkerParseError, RecursionError):
        pieces = []
        for paragraph in re.split(r"\n\s*\n", source):
            try:
                pieces.append(converted(paragraph))
            except (LatexWalkerParseError, RecursionError):
                pieces.append(_TEX_COMMAND.sub("", paragraph))
        text = "\n\n".join(pieces)
    return re.sub(r"^(#{1,6} [^\n]*)\n(?!\n)", r"\1\n\n", text, flags=re.MULTILINE)


def _prepared(source: str) -> str:
    """LaTeX without what is never shown, with headings, items and references as text."""
    source = _TEX_SILENT.sub("", re.sub(r"(?<!\\)%.*", "", source))
    source = re.sub(r"\\cite\w*\*?\s*(?:\[[^\[\]]*\])*\{([^{}]*)\}", r"[\1]", source)
    source = re.sub(r"\\(?:ref|eqref|autoref|[cC]ref)\{([^{}]*)\}", r"\1", source)
    source = re.sub(rf"\\({'|'.join(_TEX_SECTION)})\*?\s*(?:\[[^\[\]]*\])?\{{", _tex_heading, source)
    return re.sub(r"\\item\b\s*", r"\n- ", source)


def _tex_heading(section: re.Match[str]) -> str:
    return "\n\n{" + "\\#" * len(_TEX_SECTION[section[1]]) + " "


_RTF_NUMBER = re.compile(r"(\\[a-z]{1,32})(-?\d{5,})", re.IGNORECASE)  # a command with a long number


def _in_range(found: re.Match[str]) -> str:
    """The command as it is if its number is in RTF's range, else with U+FFFD for it: striprtf makes a character of any."""
    return found[0] if len(found[2]) < 8 and -32_768 <= int(found[2]) <= 0x10FFFF else f"{found[1]}65533"


def parse_rtf(file: OpenFile, _options: Options) -> Content:
    """Rich text without its commands."""
    from striprtf.striprtf import rtf_to_text

    source = _RTF_NUMBER.sub(_in_range, file.read_bytes().decode("latin-1"))
    named = {name: _rtf_info(source, name) for name in ("title", "author", "subject")}
    lines = str(rtf_to_text(source, errors="ignore")).split("\n")
    text: list[str] = []
    for in_table, some in groupby(lines, key=lambda line: line.endswith("|")):
        found = list(some)
        text += table_lines(map(_cells, found), likely=True) if in_table else found
    return Content(clean("\n".join(text)), named["title"], described(**named))


def _cells(line: str) -> list[str]:
    return [" ".join(value.split()) for value in line.removesuffix("|").split("|")]


def _rtf_info(source: str, name: str) -> str:
    found = re.search(rf"\{{\\{name} ([^{{}}\\]{{1,300}})\}}", source[:20_000])
    return found[1].strip() if found else ""
