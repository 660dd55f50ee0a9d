"""LaTeX as text: own macros expanded, quantities with their units, tables by row, notes at the end, formulas and code unchanged; BibTeX.

No file is included; macros may be defined in others of its folder.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    clean_text,
    decode,
    metadata_pairs,
    number_in,
    subscript,
    superscript,
)
from localrag.loaders.headers import is_value
from localrag.loaders.latex_units import UNIT_COMMANDS, quantity_text
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import table_lines

_TEX_SECTION = {"part": "#", "chapter": "#", "section": "##", "subsection": "###", "subsubsection": "####", "paragraph": "#####"}
_TEX_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[a-zA-Z]+\*?|\\(?=[#$%&_{}])|[{}]")
_TEX_SILENT = re.compile(
    r"\\(?:pagestyle|thispagestyle|bibliographystyle|bibliography|label|vspace|hspace|setlength|setcounter|addtocounter|pagenumbering"
    r"|usepackage|documentclass|input|include|graphicspath)\*?\s*(?:\[[^\]]*\]|\{[^{}]*\})+"
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SPACES = re.compile(r"[ \t]*")
_CONTROL_WORD_END = re.compile(r"\\[A-Za-z]+\Z")
_PLACE = re.compile(r"#([1-9])")
_AMPERSAND = re.compile(r"(?<!\\)&")
_ITEM = re.compile(r"\\item\b\s*(?:\[([^\[\]]*)\])?\s*")
_BIBLIOGRAPHY_ITEM = re.compile(r"\\bibitem\s*(?:\[[^\[\]]*\])?\{([^{}]*)\}")

_DEFINITION = re.compile(
    r"\\(?:(?:new|renew|provide)command|DeclareRobustCommand|DeclareMathOperator|def|newenvironment|renewenvironment|newtheorem)\*?\s*"
)
_COMMAND_NAME = re.compile(r"\{?\s*\\([A-Za-z]+|[^A-Za-z])\s*\}?\s*")
_N_ARGUMENTS = re.compile(r"\[([1-9])\]\s*")
_PARAMETERS = re.compile(r"((?:#[1-9])*)")
_CALL = re.compile(r"\\([A-Za-z]+|[^A-Za-z])")
_MAX_EXPANSIONS = 10  # macros within macros
_MAX_GROWTH = 200_000  # characters that macros may add
_NOTE = re.compile(r"\\(?:footnote|footnotetext|thanks|endnote)\s*(?:\[[^\[\]]*\])?(?=\{)")
_QUANTITY = re.compile(rf"\\({'|'.join(sorted(UNIT_COMMANDS, key=len, reverse=True))})(?![A-Za-z])\s*(?:\[[^\[\]]*\])?(?=\s*\{{)")
_RAISED = re.compile(r"\\text(super|sub)script\s*(?=\{)")
_TABLE_EDGE = re.compile(r"\\(begin|end)\{(tabular[xy*]?|longtable|tabulary|supertabular)\}")
_WITH_WIDTH = frozenset({"tabularx", "tabular*", "tabulary"})
_OPTION = re.compile(r"\s*(?:\[[^\[\]]*\])?")
_RULES = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|endlastfoot|centering|(?:cline|cmidrule)\s*(?:\([^()]*\))?\{[^{}]*\})"
)
_ROW_END = re.compile(r"\\\\\*?(?:\[[^\[\]]*\])?|\\tabularnewline\b")
_MULTIPLE = re.compile(r"\\multi(column|row)\s*(?:\[[^\[\]]*\])?\s*\{([^{}]*)\}\s*(?:\{[^{}]*\}|\[[^\[\]]*\]|\*)*\s*(?=\{)")
_MIDDLE_RULE = re.compile(r"\\toprule\b(.*?)\\midrule\b", re.DOTALL)
_LINES = re.compile(r"\\hline(?:\s*\\hline)*\b")
_START, _END, _CELL, _ROW, _SPAN, _BODY = "\x1c", "\x1d", "\x1f", "\x1e", "\x19", "\x1a"  # marks of a table in text
_MARKED_TABLE = re.compile(f"{_START}([^{_START}{_END}]*){_END}")
_MARKED_SPAN = re.compile(f"{_SPAN}(\\d+),(\\d+){_SPAN}")
_MAX_SPAN = 200

# Commands that the library lacks or drops with their texts: name → arguments (`*` a star, `[` an option, `{` a group) and text.
_COMMANDS = {
    **dict.fromkeys(("texttt", "textsf", "textmd", "textup", "mbox", "keywords"), ("{", "%(1)s")),
    **dict.fromkeys(("href", "foreignlanguage", "hyperlink", "hypertarget"), ("{{", "%(2)s")),
    **dict.fromkeys(("hyperref", "textls"), ("[{", "%(2)s")),
    **dict.fromkeys(("caption", "subcaption"), ("*[{", "%(3)s")),
    **dict.fromkeys(("makebox", "framebox"), ("[[{", "%(3)s")),
    "captionof": ("*{[{", "%(4)s"),
    "parbox": ("[[[{{", "%(5)s"),
    "raisebox": ("{[[{", "%(4)s"),
    "rotatebox": ("[{{", "%(3)s"),
    "scalebox": ("{[{", "%(3)s"),
    "resizebox": ("*{{{", "%(4)s"),
    "sfrac": ("{{", "%(1)s/%(2)s"),
    "enquote": ("*{", "“%(2)s”"),
    **dict.fromkeys(("maketitle", "tableofcontents", "today"), ("", "")),
    **dict.fromkeys(("title", "author", "date", "index", "nocite", "tabto", "phantom", "color"), ("[{", "")),
    **dict.fromkeys(("rowcolor", "cellcolor", "includegraphics"), ("[[{", "")),
    "rule": ("[{{", ""),
    "specialrule": ("{{{", ""),
    "addlinespace": ("[", ""),
    **{name: ("", name) for name in ("LaTeX", "TeX", "BibTeX", "LaTeXe", "XeLaTeX", "LuaLaTeX", "pdfLaTeX")},
    **{name: ("", sign) for name, sign in zip(("S", "P", "pounds", "copyright", "euro", "EUR", "degree"), "§¶£©€€°", strict=True)},
    **{name: ("", sign) for name, sign in zip(("textbar", "slash", "glqq", "grqq", "glq", "grq", "flqq", "frqq"), "|/„“‚‘«»", strict=True)},
}
# The arguments of environments, which are no text.
_ENVIRONMENTS = {
    **dict.fromkeys(("minipage", "subfigure", "subtable"), "[[[{"),
    **dict.fromkeys(("wrapfigure", "wraptable"), "[{[{"),
    **dict.fromkeys(("thebibliography", "adjustbox", "spacing", "otherlanguage"), "{"),
    **dict.fromkeys(("tcolorbox", "mdframed", "algorithm", "algorithmic", "columns"), "["),
    "multicols": "{[",
    "column": "[{",
}
_VERBATIM = re.compile(
    r"\\begin\{(verbatim\*?|Verbatim|lstlisting|minted|comment)\}(?:\[[^\]\n]*\])?(?:(?<=minted\})\{[^{}\n]*\}|(?<=\])\{[^{}\n]*\})?"
    r"|\\(?:verb\b|lstinline\b(?:\[[^\]\n]*\])?)\*?([^\sA-Za-z*\[{])|\\iffalse\b"
)
_MAX_COMMENTED_CHARS = 2000  # of a line, before what it may comment out
_PLACE_MARK = "\ufdd0"  # no character of any text
_MARKED_VERBATIM = re.compile(f"{_PLACE_MARK}(\\d+){_PLACE_MARK}")


def parse_tex(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """LaTeX without preamble, comments and markup; sections as `# …` headings, formulas unchanged."""
    source, verbatim = _without_verbatim(decode(file.read_bytes()))
    source = expand_macros(_COMMENT.sub("", source), _COMMENT.sub("", options.definitions))
    body = re.search(r"\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", source, re.DOTALL)
    values = ((name, " ".join(tex_text(_argument(source, name)).split())) for name in ("title", "author", "date"))
    named = {name: _with_verbatim(value, verbatim) for name, value in values}
    text, notes = _without_notes(body[1] if body else source)
    text = clean_text(tex_text(text))
    if named["title"] and not text.startswith("# "):
        text = f"# {named['title']}\n\n{text}"
    listed = [f"[{n}] {' '.join(tex_text(note).split())}" for n, note in enumerate(notes, 1)]
    text = clean_text(_with_verbatim("\n\n".join([text, *(["\n".join(listed)] if listed else [])]), verbatim))
    return ParsedFile(text, named["title"], metadata_pairs(**named))


def _without_verbatim(source: str) -> tuple[str, list[str]]:
    """LaTeX with a mark in place of each text that is set as it is written, and these texts; without what is never set."""
    texts: list[str] = []
    pieces: list[str] = []
    without_end: set[str] = set()
    position = 0
    for match in _VERBATIM.finditer(source):
        line = max(source.rfind("\n", 0, match.start()) + 1, position, match.start() - _MAX_COMMENTED_CHARS)
        end_mark = match[2] or (f"\\end{{{match[1]}}}" if match[1] else "\\fi")
        if match.start() < position or end_mark in without_end or _COMMENT.search(source, line, match.start()):
            continue
        end = source.find(end_mark, match.end())
        if end < 0:
            without_end.add(end_mark)
        elif not match[2] or "\n" not in source[match.end() : min(end, match.end() + 1000)]:
            text = source[match.end() : end]
            is_set = match[2] or match[1] not in {None, "comment"}
            pieces += [source[position : match.start()], f"{{{_PLACE_MARK}{len(texts)}{_PLACE_MARK}}}" if is_set else ""]
            if is_set:
                texts.append(text if match[2] else "\n\n" + text.strip("\n") + "\n\n")
            position = end + len(end_mark)
    return "".join([*pieces, source[position:]]), texts


def _with_verbatim(text: str, verbatim: Sequence[str]) -> str:
    return _MARKED_VERBATIM.sub(lambda mark: verbatim[int(mark[1])] if int(mark[1]) < len(verbatim) else "", text)


class _BraceGroups:
    """The groups in braces of a text, found in one pass."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._ends: dict[int, int] = {}
        opened: list[int] = []
        for brace in _BRACE.finditer(source):
            if brace[0] == "{":
                opened.append(brace.start())
            elif brace[0] == "}" and opened:
                self._ends[opened.pop()] = brace.start()

    def at(self, position: int) -> tuple[str, int] | None:
        """The text in the braces at a position, behind spaces, and the end of the group; None if there is none."""
        while position < len(self._source) and self._source[position].isspace():
            position += 1
        end = self._ends.get(position)
        return None if end is None else (self._source[position + 1 : end], end + 1)


@dataclass(frozen=True, slots=True)
class _TexMacro:
    """A command defined in the file: its text with #1 to #9, how many arguments it has, and the default of an optional first one."""

    text: str
    n_arguments: int = 0
    default: str | None = None


def expand_macros(source: str, definitions: str = "") -> str:
    """LaTeX with the commands that it or `definitions` defines replaced, up to _MAX_EXPANSIONS deep and _MAX_GROWTH longer."""
    macros: dict[str, _TexMacro] = {}
    _without_definitions(definitions, macros)
    source = _without_definitions(source, macros)
    limit = len(source) + _MAX_GROWTH
    for _ in range(_MAX_EXPANSIONS if macros else 0):
        expanded = _expanded_once(source, macros, limit)
        if expanded == source:
            break
        source = expanded
    return source


def _without_definitions(source: str, macros: dict[str, _TexMacro]) -> str:
    """LaTeX without its definitions of commands, which are added to `macros`."""
    pieces: list[str] = []
    position = 0
    groups = _BraceGroups(source)
    for match in _DEFINITION.finditer(source):
        if match.start() >= position:
            pieces.append(source[position : match.start()])
            position = _read_definition(source, groups, match, macros)
    return "".join([*pieces, source[position:]])


def _read_definition(source: str, groups: _BraceGroups, start: re.Match[str], macros: dict[str, _TexMacro]) -> int:
    """Add the macro defined at `start`; returns the end of the definition."""
    position = start.end()
    if "environment" in start[0] or "newtheorem" in start[0]:
        return _definition_end(source, groups, position)
    name = _COMMAND_NAME.match(source, position)
    if name is None:
        return position
    position, n_arguments, default = name.end(), 0, None
    if count := _N_ARGUMENTS.match(source, position):
        n_arguments, position = int(count[1]), count.end()
        if source.startswith("[", position) and (end := source.find("]", position, position + 1000)) > 0:
            default, position = source[position + 1 : end], end + 1
    elif parameters := _PARAMETERS.match(source, position):
        n_arguments, position = len(parameters[1]) // 2, parameters.end()
    group = groups.at(position)
    if group is None:
        return position
    macros[name[1]] = _TexMacro(group[0], n_arguments, default)
    return group[1]


def _definition_end(source: str, groups: _BraceGroups, position: int) -> int:
    while (group := groups.at(position)) or source.startswith("[", position):
        position = group[1] if group else max(source.find("]", position, position + 200), position) + 1
    return position


def _expanded_once(source: str, macros: dict[str, _TexMacro], limit: int) -> str:
    pieces: list[str] = []
    position, n_chars = 0, len(source)
    groups = _BraceGroups(source)
    for call in _CALL.finditer(source):
        macro = macros.get(call[1])
        if macro is None or call.start() < position or n_chars > limit:
            continue
        text, end = _substituted(source, groups, call.end(), macro)
        pieces += [source[position : call.start()], text]
        n_chars += len(text) - (end - call.start())
        position = end
    return "".join([*pieces, source[position:]])


def _substituted(source: str, groups: _BraceGroups, position: int, macro: _TexMacro) -> tuple[str, int]:
    """The text of a macro with the arguments at a position, and their end."""
    arguments: list[str] = []
    if macro.default is not None:
        end = source.find("]", position, position + 1000) if source.startswith("[", position) else -1
        arguments.append(source[position + 1 : end] if end > 0 else macro.default)
        position = end + 1 if end > 0 else position
    while len(arguments) < macro.n_arguments:
        group = groups.at(position) or (source[position : position + 1], position + 1)
        arguments.append(group[0])
        position = group[1]
    if not macro.n_arguments:
        spaces = _SPACES.match(source, position)
        position = spaces.end() if spaces and not macro.text.endswith("\\xspace") else position
    text = _PLACE.sub(lambda match: arguments[int(match[1]) - 1] if int(match[1]) <= len(arguments) else "", macro.text)
    text = text.removesuffix("\\xspace")
    return text + "{}" * bool(_CONTROL_WORD_END.search(text[-50:])), position


def _without_notes(source: str) -> tuple[str, list[str]]:
    """LaTeX with a number in brackets for each footnote, and the footnotes."""
    notes: list[str] = []
    pieces: list[str] = []
    position, groups = 0, _BraceGroups(source)
    for match in _NOTE.finditer(source):
        if match.start() >= position and (group := groups.at(match.end())):
            notes.append(group[0])
            pieces += [source[position : match.start()], f"{{}} [{len(notes)}]"]
            position = group[1]
    return "".join([*pieces, source[position:]]), notes


def _with_quantities(source: str) -> str:
    r"""LaTeX with the numbers and units of `\qty` and its kind as text."""
    pieces: list[str] = []
    position, groups = 0, _BraceGroups(source)
    for match in _QUANTITY.finditer(source):
        arguments, end = list[str](), match.end()
        while len(arguments) < UNIT_COMMANDS[match[1]] and (group := groups.at(end)):
            arguments.append(group[0])
            end = group[1]
        if match.start() >= position and len(arguments) == UNIT_COMMANDS[match[1]]:
            pieces += [source[position : match.start()], "{", quantity_text(match[1], arguments).replace("%", "\\%"), "}"]
            position = end
    return "".join([*pieces, source[position:]])


def _raised_as_text(source: str) -> str:
    r"""LaTeX with `\textsuperscript{2}` as `^2`."""
    pieces: list[str] = []
    position, groups = 0, _BraceGroups(source)
    for match in _RAISED.finditer(source):
        if match.start() >= position and (group := groups.at(match.end())):
            text = superscript(group[0]) if match[1] == "super" else subscript(group[0])
            pieces += [source[position : match.start()], text]
            position = group[1]
    return "".join([*pieces, source[position:]])


def _with_marked_tables(source: str) -> str:
    """LaTeX with marks for the cells and rows of its tables; a table within a cell is text of the outer one."""
    pieces: list[str] = []
    position, depth, start = 0, 0, 0
    for match in _TABLE_EDGE.finditer(source):
        if match[1] == "begin":
            if not depth:
                pieces.append(source[position : match.start()])
                start = match.end()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                pieces.append(_marked_table(source[start : match.start()], has_width=match[2] in _WITH_WIDTH))
                position = match.end()
    return "".join([*pieces, source[position if not depth else start :]])


def _marked_table(source: str, *, has_width: bool) -> str:
    """The inside of a table environment with marks for its cells and rows. `has_width`: a width stands before the alignments."""
    groups = _BraceGroups(source)
    start = 0
    for _ in range(2 if has_width else 1):
        group = groups.at(_OPTION.match(source, start).end())  # type: ignore[union-attr]
        start = group[1] if group else start
    source = _RULES.sub("", _with_marked_body(source[start:]))
    source = _with_marked_spans(_TABLE_EDGE.sub(" ", source))
    return f"\n\n{_START}{_ROW_END.sub(_ROW, _AMPERSAND.sub(_CELL, source))}{_END}\n\n"


def _with_marked_body(source: str) -> str:
    """The inside of a table with a mark behind its header, where rules tell: that of booktabs, or rows with tall cells between lines."""
    if "\\toprule" in source:
        return _MIDDLE_RULE.sub(rf"\1{_BODY}", source, count=1)
    parts = _LINES.split(source, maxsplit=2)
    has_tall_head = len(parts) == 3 and not parts[0].strip() and "\\multirow" in parts[1]
    if has_tall_head and not any(is_value(cell.strip()) for cell in re.split(r"&|\\\\", parts[1])):
        return f"{parts[1]}{_BODY}{parts[2]}"
    return source


def _with_marked_spans(source: str, depth: int = 0) -> str:
    """The inside of a table with the number of rows and columns before the text of each cell that spans several."""
    pieces: list[str] = []
    position, groups = 0, _BraceGroups(source)
    for match in _MULTIPLE.finditer(source):
        if match.start() >= position and (group := groups.at(match.end())):
            n = min(number_in(match[2], 1), _MAX_SPAN)
            span = f"{_SPAN}{1 if match[1] == 'column' else n},{n if match[1] == 'column' else 1}{_SPAN}"
            text = _with_marked_spans(group[0], depth + 1) if depth < 2 and "\\multi" in group[0] else group[0]
            pieces += [source[position : match.start()], span, text]
            position = group[1]
    return "".join([*pieces, source[position:]])


def _table_text(table: re.Match[str]) -> str:
    """The lines of a marked table; what stands above its first rule names its columns."""
    rows: list[list[str]] = []
    ranges: list[CellRange] = []
    n_header = 0
    for row in table[1].split(_ROW):
        if _BODY in row:
            n_header = len(rows)
        cells: list[str] = []
        for cell in row.replace(_BODY, "").split(_CELL):
            spans = [(int(height), int(width)) for height, width in _MARKED_SPAN.findall(cell)]
            height, width = (max(sizes) for sizes in zip(*spans, strict=True)) if spans else (1, 1)
            if height > 1 or width > 1:
                ranges.append(CellRange(len(rows), len(cells), len(rows) + height - 1, len(cells) + width - 1))
            cells += [" ".join(_MARKED_SPAN.sub("", cell).split()), *[""] * (width - 1)]
        if any(cells):
            rows.append(cells)
    n_header = n_header if n_header < len(rows) else 0
    filled = fill_spans(enumerate(rows), ranges, n_header=n_header)
    return "\n".join(table_lines(filled, likely=True, header_rows=1 if n_header else None))


def _argument(source: str, command: str) -> str:
    match = re.search(rf"\\{command}\s*(?:\[[^\]]*\])?(?=\{{)", source)
    group = _BraceGroups(source).at(match.end()) if match else None
    return group[0][:5000] if group else ""


def tex_text(source: str) -> str:
    """LaTeX as text. Malformed LaTeX is converted by paragraph, removing only the commands of broken paragraphs.

    The library's tolerant parsing tries everything an open brace could mean, which may take forever.
    """
    from pylatexenc.latex2text import LatexNodes2Text
    from pylatexenc.latexwalker import LatexWalkerParseError

    syntax, texts = _contexts()
    converter = LatexNodes2Text(latex_context=texts, math_mode="verbatim", keep_comments=False, strict_latex_spaces=False)

    def convert(latex: str) -> str:
        return str(converter.latex_to_text(latex, tolerant_parsing=False, latex_context=syntax))

    source = _prepared(source)
    try:
        text = convert(source)
    except (LatexWalkerParseError, RecursionError, IndexError):
        paragraphs = []
        for paragraph in re.split(r"\n\s*\n", source):
            try:
                paragraphs.append(convert(paragraph))
            except (LatexWalkerParseError, RecursionError, IndexError):
                paragraphs.append(_TEX_COMMAND.sub("", paragraph))
        text = "\n\n".join(paragraphs)
    text = _MARKED_TABLE.sub(_table_text, text)
    return re.sub(r"^(#{1,6} [^\n]*)\n(?!\n)", r"\1\n\n", text, flags=re.MULTILINE)


@cache
def _contexts() -> tuple[Any, Any]:
    """What the library knows of commands and environments, and the texts of commands, both with those of this module."""
    from pylatexenc import latex2text, latexwalker
    from pylatexenc.macrospec import std_environment, std_macro

    syntax, texts = latexwalker.get_default_latex_context_db(), latex2text.get_default_latex_context_db()
    macros = [std_macro(name, arguments) for name, (arguments, _) in _COMMANDS.items()]
    environments = [std_environment(name, arguments) for name, arguments in _ENVIRONMENTS.items()]
    syntax.add_context_category("localrag", macros=macros, environments=environments, prepend=True)
    shown = [latex2text.MacroTextSpec(name, simplify_repl=text) for name, (_, text) in _COMMANDS.items()]
    texts.add_context_category("localrag", macros=shown, prepend=True)
    return syntax, texts


def _prepared(source: str) -> str:
    """LaTeX without invisible parts, with headings, items and references as text."""
    source = _with_quantities(_TEX_SILENT.sub("", _COMMENT.sub("", source)))
    source = _with_marked_tables(_raised_as_text(source))
    source = _BIBLIOGRAPHY_ITEM.sub(r"\n[\1] ", source)
    source = re.sub(r"\\cite\w*\*?\s*(?:\[[^\[\]]*\])*\{([^{}]*)\}", r"[\1]", source)
    source = re.sub(r"\\(?:ref|eqref|autoref|pageref|[cC]ref)\{([^{}]*)\}", r"{\1}", source)
    source = re.sub(rf"\\({'|'.join(_TEX_SECTION)})\*?\s*(?:\[[^\[\]]*\])?\{{", _tex_heading, source)
    return _ITEM.sub(lambda item: f"\n- {item[1]}: " if item[1] else "\n- ", source)


def _tex_heading(section: re.Match[str]) -> str:
    return "\n\n{" + "\\#" * len(_TEX_SECTION[section[1]]) + " "


_BIBTEX_ENTRY = re.compile(r"^[ \t]*@(\w+)\s*[{(]", re.MULTILINE)
_BIBTEX_FIELD = re.compile(r",\s*(?=[\w-]+\s*=\s*[{\"\w])")


def parse_bibliography(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse the entries of BibTeX."""
    text = decode(file.read_bytes())
    parts = _BIBTEX_ENTRY.split(text)
    entries = (_bibtex_text(kind.lower(), source) for kind, source in zip(parts[1::2], parts[2::2], strict=True))
    return ParsedFile("\n\n".join(entries) or text)


def _bibtex_text(kind: str, source: str) -> str:
    key, *fields = _BIBTEX_FIELD.split(source.rpartition("}")[0] or source)
    lines = [f"{kind}: {key.strip()}"]
    for field in fields:
        name, _, value = field.partition("=")
        name, value = name.strip().lower(), value.strip().strip('"')
        text = value if name in {"url", "doi"} else tex_text(re.sub(r"(?<!\\)([%&#])", r"\\\1", value))
        lines.append(f"{name}: {' '.join(text.replace('{', '').replace('}', '').split())}")
    return "\n".join(lines)
