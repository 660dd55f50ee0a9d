"""LaTeX as text: own macros expanded, quantities with their units, tables by row, notes at the end, formulas and code unchanged; BibTeX.

No file is included; macros may be defined in others of its folder.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, metadata_pairs, number_in, subscript, superscript
from localrag.loaders.document_tree import TextBlock, heading_block, item, marked_text, paragraph, render
from localrag.loaders.headers import is_value
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import tables
from localrag.text.outline import BlockKind

_SECTIONS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
_SECTION = re.compile(rf"\\({'|'.join(_SECTIONS)})\*?\s*(?:\[[^\[\]]*\])?(?=\{{)")
_TEX_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[a-zA-Z]+\*?|\\(?=[#$%&_{}])|[{}]")
_TEX_SILENT = re.compile(
    r"\\(?:pagestyle|thispagestyle|bibliographystyle|bibliography|label|vspace|hspace|setlength|setcounter|addtocounter|pagenumbering"
    r"|usepackage|documentclass|input|include|graphicspath)\*?\s*(?:\[[^\]]*\]|\{[^{}]*\})+"
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_PLAIN_TEXT = re.compile(r"[\w\s.,;:!?()+*/=]*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SPACES = re.compile(r"[ \t]*")
_CONTROL_WORD_END = re.compile(r"\\[A-Za-z]+\Z")
_PLACE = re.compile(r"#([1-9])")
_ITEM = re.compile(r"\\item\b\s*(?:\[([^\[\]]*)\])?\s*")
_BIBLIOGRAPHY_ITEM = re.compile(r"\\bibitem\s*(?:\[[^\[\]]*\])?\{([^{}]*)\}")

_DEFINITION = re.compile(
    r"\\(?:(?:new|renew|provide)command|DeclareRobustCommand|DeclareMathOperator|def)\*?\s*\{?\s*\\([A-Za-z]+|[^A-Za-z])\s*\}?\s*"
    r"(?:\[([1-9])\]\s*(?:\[([^\]]{0,1000})\])?|((?:#[1-9])*))\s*(?=\{)"
)
_CALL = re.compile(r"\\([A-Za-z]+|[^A-Za-z])")
_MAX_EXPANSIONS = 10  # macros within macros
_MAX_GROWTH = 200_000  # characters that macros may add
_NOTE = re.compile(r"\\(?:footnote|footnotetext|thanks|endnote)\s*(?:\[[^\[\]]*\])?(?=\{)")
# Quantities of siunitx: commands → the number of their arguments.
_QUANTITIES = {
    **dict.fromkeys(("num", "ang", "si", "unit", "numlist"), 1),
    **dict.fromkeys(("SI", "qty", "numrange", "SIlist", "qtylist"), 2),
    **dict.fromkeys(("SIrange", "qtyrange"), 3),
}
_UNIT = re.compile(r"\\([A-Za-z]+)")
_UNIT_SIGNS = {"percent": "\\%", "degree": "°", "celsius": "°C", "degreeCelsius": "°C", "pm": "±"}
_QUANTITY = re.compile(rf"\\({'|'.join(sorted(_QUANTITIES, key=len, reverse=True))})(?![A-Za-z])\s*(?:\[[^\[\]]*\])?(?=\s*\{{)")
_TABLE_EDGE = re.compile(r"\\(begin|end)\{(tabular[xy*]?|longtable|tabulary|supertabular)\}")
_WITH_WIDTH = frozenset({"tabularx", "tabular*", "tabulary"})
_OPTION = re.compile(r"\s*(?:\[[^\[\]]*\])?")
_RULE = re.compile(r"\\(?:cline|cmidrule)\s*(?:\[[^\[\]]*\])?(?:\([^()]*\))?\{[^{}]*\}")
_TABLE_TOKEN = re.compile(
    r"(?P<open>\\begin\{[^{}]*\}|\{)|(?P<close>\\end\{[^{}]*\}|\})|(?P<row>\\\\\*?(?:\[[^\[\]]*\])?|\\tabularnewline\b)"
    r"|\\(?P<rule>midrule|hline)\b|\\.|&",
    re.DOTALL,
)
_SPAN = re.compile(r"\\multi(column|row)\s*(?:\[[^\[\]]*\])?\s*\{([^{}]*)\}")
_MAX_SPAN = 200

# Commands that the library lacks or drops with their texts: name → arguments (`*` a star, `[` an option, `{` a group) and text.
_COMMANDS = {
    **dict.fromkeys(("texttt", "textsf", "textmd", "textup", "mbox", "keywords"), ("{", "%(1)s")),
    **dict.fromkeys(("foreignlanguage", "hyperlink", "hypertarget"), ("{{", "%(2)s")),
    **dict.fromkeys(("sout", "xout", "st", "deleted"), ("[{", "~~%(2)s~~")),
    "hl": ("{", "==%(1)s=="),
    "multicolumn": ("{{{", "%(3)s"),
    "multirow": ("[{[{[{", "%(6)s"),
    **dict.fromkeys(("hyperref", "textls"), ("[{", "%(2)s")),
    **dict.fromkeys(("caption", "subcaption"), ("*[{", "%(3)s")),
    **dict.fromkeys(("makebox", "framebox"), ("[[{", "%(3)s")),
    "parbox": ("[[[{{", "%(5)s"),
    "resizebox": ("*{{{", "%(4)s"),
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
# What shows its arguments in a way of its own: the texts of all of them → text.
_SHOWN: dict[str, tuple[str, Callable[..., str]]] = {
    "href": ("{{", lambda address, words: marked_text(words, address)),
    "textsuperscript": ("{", superscript),
    "textsubscript": ("{", subscript),
}
_VERBATIM = re.compile(
    r"\\begin\{(verbatim\*?|Verbatim|lstlisting|minted|comment)\}(?:\[[^\]\n]*\])?(?:(?<=minted\})\{[^{}\n]*\}|(?<=\])\{[^{}\n]*\})?"
    r"|\\(?:verb\b|lstinline\b(?:\[[^\]\n]*\])?)\*?([^\sA-Za-z*\[{])|\\iffalse\b"
)
_MAX_COMMENTED_CHARS = 2000  # of a line, before what it may comment out
_PLACE_MARK, _ITEM_MARK = "\ufdd0", "\ufdd1"  # no characters of any text
_PLACED = re.compile(f"{_PLACE_MARK}(\\d+){_PLACE_MARK}")


@dataclass(slots=True)
class _Placed:
    """What is taken out of a source while it is read, with a mark in its place: blocks, or texts within a line."""

    contents: list[str | list[TextBlock]] = field(default_factory=list)

    def mark(self, content: str | list[TextBlock]) -> str:
        """Add a content; returns the mark in its place."""
        self.contents.append(content)
        return f"{_PLACE_MARK}{len(self.contents) - 1}{_PLACE_MARK}"

    def blocks(self, text: str) -> Iterator[TextBlock]:
        """The blocks of a text with marks, between them its paragraphs and items of lists."""
        position = 0
        text = _PLACED.sub(lambda mark: found if isinstance(found := self.contents[int(mark[1])], str) else mark[0], text)
        for mark in (*_PLACED.finditer(text), None):
            for piece in re.split(r"\n\s*\n", text[position : mark.start() if mark else len(text)]):
                first, *items = piece.split(_ITEM_MARK)
                yield paragraph(first.strip())
                yield from (item(0, "-", text.strip()) for text in items)
            if mark:
                position = mark.end()
                yield from self.contents[int(mark[1])]  # type: ignore[misc]

    def line(self, text: str) -> str:
        """A text with marks on one line."""
        return " ".join(" ".join(block.text for block in self.blocks(text)).split())


def parse_tex(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """LaTeX without preamble, comments and markup; sections as headings, formulas unchanged."""
    placed, notes = _Placed(), list[str]()
    source = _without_verbatim(decode(file.read_bytes()).replace(_PLACE_MARK, ""), placed)
    source = expand_macros(_COMMENT.sub("", source), _COMMENT.sub("", options.definitions).replace(_PLACE_MARK, ""))
    named = {name: placed.line(tex_text(_argument(source, name))) for name in ("title", "author", "date")}
    body = re.search(r"\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", source, re.DOTALL)

    def number_note(_: re.Match[str], arguments: Sequence[str]) -> str:
        notes.append(arguments[0])
        return f"{{}} [{len(notes)}]"

    def mark_heading(section: re.Match[str], arguments: Sequence[str]) -> str:
        return f"\n\n{placed.mark([heading_block(_SECTIONS[section[1]], placed.line(tex_text(arguments[0])))])}\n\n"

    text = _replaced(body[1] if body else source, _NOTE, number_note)
    text = tex_text(_without_tables(_replaced(text, _SECTION, mark_heading), placed))
    blocks = [block for block in placed.blocks(text) if block.text]
    if named["title"] and not (blocks and blocks[0].kind is BlockKind.HEADING and blocks[0].level == 1):
        blocks.insert(0, heading_block(1, named["title"]))
    listed = "\n".join(f"[{n}] {placed.line(tex_text(note))}" for n, note in enumerate(notes, 1))
    rendered = render([*blocks, paragraph(listed)])
    return ParsedFile(rendered.text, named["title"], metadata_pairs(**named), blocks=rendered.blocks)


def _without_verbatim(source: str, placed: _Placed) -> str:
    """LaTeX with a mark in place of each text that is set as it is written; without what is never set."""
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
            pieces.append(source[position : match.start()])
            if match[2]:
                pieces.append(f"{{{placed.mark(text)}}}")
            elif match[1] not in {None, "comment"}:
                pieces.append(f"\n\n{placed.mark([TextBlock(BlockKind.CODE, text.strip(chr(10)))])}\n\n")
            position = end + len(end_mark)
    return "".join([*pieces, source[position:]])


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


def _replaced(
    source: str, pattern: re.Pattern[str], text: Callable[[re.Match[str], Sequence[str]], str], counts: dict[str, int] | None = None
) -> str:
    """LaTeX with a text in place of each match and its arguments, of which `counts` has the number by the match's first group."""
    pieces: list[str] = []
    position, groups = 0, _BraceGroups(source)
    for match in pattern.finditer(source):
        arguments, end = list[str](), match.end()
        n_arguments = counts[match[1]] if counts else 1
        while len(arguments) < n_arguments and (group := groups.at(end)):
            arguments.append(group[0])
            end = group[1]
        if match.start() >= position and len(arguments) == n_arguments:
            pieces += [source[position : match.start()], text(match, arguments)]
            position = end
    return "".join([*pieces, source[position:]])


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
    def define(match: re.Match[str], arguments: Sequence[str]) -> str:
        macros[match[1]] = _TexMacro(arguments[0], int(match[2] or len(match[4] or "") // 2), match[3])
        return ""

    return _replaced(source, _DEFINITION, define)


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


def _without_tables(source: str, placed: _Placed) -> str:
    """LaTeX with a mark in place of each table; a table within a cell is text of the outer one."""
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
                table = _table_block(source[start : match.start()], placed, has_width=match[2] in _WITH_WIDTH)
                pieces.append(f"\n\n{placed.mark(table)}\n\n")
                position = match.end()
    return "".join([*pieces, source[position if not depth else start :]])


def _table_block(source: str, placed: _Placed, *, has_width: bool) -> list[TextBlock]:
    """A table; what stands above its first rule names its columns. `has_width`: a width stands before the alignments."""
    groups = _BraceGroups(source)
    start = 0
    for _ in range(2 if has_width else 1):
        group = groups.at(_OPTION.match(source, start).end())  # type: ignore[union-attr]
        start = group[1] if group else start
    rows: list[list[str]] = []
    ranges: list[CellRange] = []
    written, n_above = _table_cells(_RULE.sub("", source[start:]))
    n_header = 0
    for n, sources in enumerate(written):
        if n == n_above:
            n_header = len(rows)
        cells: list[str] = []
        for cell in sources:
            sizes = [(kind, min(number_in(size, 1), _MAX_SPAN)) for kind, size in _SPAN.findall(cell)]
            height, width = (max([size for kind, size in sizes if kind == axis], default=1) for axis in ("row", "column"))
            if height > 1 or width > 1:
                ranges.append(CellRange(len(rows), len(cells), len(rows) + height - 1, len(cells) + width - 1))
            cells += [placed.line(tex_text(_TABLE_EDGE.sub(" ", cell))), *[""] * (width - 1)]
        if any(cells):
            rows.append(cells)
    filled = fill_spans(enumerate(rows), ranges, n_header=n_header)
    return list(tables(filled, likely=True, header_rows=1 if n_header else None))


def _table_cells(source: str) -> tuple[list[list[str]], int]:
    """The sources of the cells by row, and the number of the row below the rule of a head."""
    rows: list[list[str]] = [[]]
    depth, start, n_above = 0, 0, 0
    for token in _TABLE_TOKEN.finditer(source):
        if token["open"] or token["close"]:
            depth += 1 if token["open"] else -1
        elif depth <= 0 and token["rule"]:
            n_above = n_above or (len(rows) - 1 if token["rule"] == "midrule" or _is_tall_head(rows[:-1]) else 0)
        elif depth <= 0 and (token[0] == "&" or token["row"]):
            rows[-1].append(source[start : token.start()])
            rows += [[]] if token["row"] else []
            start = token.end()
    rows[-1].append(source[start:])
    return rows, n_above


def _is_tall_head(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the rows above a line have cells that span some of them, and no values."""
    cells = [cell.replace("\\hline", "").strip() for row in rows for cell in row]
    return any("\\multirow" in cell for cell in cells) and not any(map(is_value, cells))


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

    def converted(latex: str) -> str | None:
        try:
            return str(converter.latex_to_text(latex, tolerant_parsing=False, latex_context=syntax))
        except (LatexWalkerParseError, RecursionError, IndexError):
            return None

    if _PLAIN_TEXT.fullmatch(source):
        return source
    source = _prepared(source)
    if (text := converted(source)) is not None:
        return text
    texts_by_paragraph = ((paragraph, converted(paragraph)) for paragraph in re.split(r"\n\s*\n", source))
    return "\n\n".join(_TEX_COMMAND.sub("", latex) if text is None else text for latex, text in texts_by_paragraph)


@cache
def _contexts() -> tuple[Any, Any]:
    """What the library knows of commands and environments, and the texts of commands, both with those of this module."""
    from pylatexenc import latex2text, latexwalker
    from pylatexenc.macrospec import std_environment, std_macro

    syntax, texts = latexwalker.get_default_latex_context_db(), latex2text.get_default_latex_context_db()
    macros = [std_macro(name, arguments) for name, (arguments, _) in (*_COMMANDS.items(), *_SHOWN.items())]
    environments = [std_environment(name, arguments) for name, arguments in _ENVIRONMENTS.items()]
    syntax.add_context_category("localrag", macros=macros, environments=environments, prepend=True)
    shown = [latex2text.MacroTextSpec(name, simplify_repl=text) for name, (_, text) in _COMMANDS.items()]
    shown += [latex2text.MacroTextSpec(name, simplify_repl=_from_arguments(text)) for name, (_, text) in _SHOWN.items()]
    texts.add_context_category("localrag", macros=shown, prepend=True)
    return syntax, texts


def _from_arguments(text: Callable[..., str]) -> Callable[..., str]:
    return lambda node, l2tobj: text(*(l2tobj.nodelist_to_text([argument]) for argument in node.nodeargd.argnlist))


def _quantity_text(match: re.Match[str], arguments: Sequence[str]) -> str:
    """A quantity with the names of its units: `9.81 metre per second squared`."""
    if match[1] == "ang":
        return "".join(f"{part.strip()}{sign}" for part, sign in zip(arguments[0].split(";"), "°′″", strict=False) if part.strip())
    text = " ".join(arguments) if "range" not in match[1] else " ".join(["–".join(arguments[:2]), *arguments[2:]])
    named = _UNIT.sub(lambda unit: f" {_UNIT_SIGNS.get(unit[1], unit[1])} ", text.replace("+-", "±"))
    return "{" + " ".join(named.split()) + "}"


def _prepared(source: str) -> str:
    """LaTeX without invisible parts, with quantities, items and references as text."""
    source = _replaced(_TEX_SILENT.sub("", source), _QUANTITY, _quantity_text, _QUANTITIES)
    source = _BIBLIOGRAPHY_ITEM.sub(r"\n[\1] ", source)
    source = re.sub(r"\\cite\w*\*?\s*(?:\[[^\[\]]*\])*\{([^{}]*)\}", r"[\1]", source)
    source = re.sub(r"\\(?:ref|eqref|autoref|pageref|[cC]ref)\{([^{}]*)\}", r"{\1}", source)
    return _ITEM.sub(lambda found: f"\n{_ITEM_MARK}{found[1]}: " if found[1] else f"\n{_ITEM_MARK}", source)


_BIBTEX_ENTRY = re.compile(r"^[ \t]*@(\w+)\s*[{(]", re.MULTILINE)
_BIBTEX_FIELD = re.compile(r",\s*(?=[\w-]+\s*=\s*[{\"\w])")


def parse_bibliography(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse the entries of BibTeX."""
    text = decode(file.read_bytes())
    parts = _BIBTEX_ENTRY.split(text)
    entries = (_bibtex_text(kind.lower(), source) for kind, source in zip(parts[1::2], parts[2::2], strict=True))
    return ParsedFile("\n\n".join(entries) or text)


_TEX_SIGN = re.compile(r"[\\$~]|--|``|''")


def _bibtex_text(kind: str, source: str) -> str:
    key, *fields = _BIBTEX_FIELD.split(source.rpartition("}")[0] or source)
    lines = [f"{kind}: {key.strip()}"]
    for assignment in fields:
        name, _, value = assignment.partition("=")
        name, value = name.strip().lower(), value.strip().strip('"')
        is_plain = name in {"url", "doi"} or not _TEX_SIGN.search(value)
        text = value if is_plain else tex_text(re.sub(r"(?<!\\)([%&#])", r"\\\1", value))
        lines.append(f"{name}: {' '.join(text.replace('{', '').replace('}', '').split())}")
    return "\n".join(lines)
