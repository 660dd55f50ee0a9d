"""Jupyter notebooks: each cell with its output, as printed text, table, Markdown or error."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, first_heading, join_sections, strip_escapes
from localrag.loaders.conversations import parse_json
from localrag.loaders.html import html_content
from localrag.loaders.tabular import parse_json_or_lines

MAX_CELL_OUTPUT_CHARS = 2000  # characters kept of each output of a cell
_MAX_HTML_CHARS = 200_000  # characters of a cell's HTML that are parsed
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\n])", re.MULTILINE)  # earlier states of a progress bar
_REPR = re.compile(r"<[\w.]+ (?:object|at 0x)[^>]*>")


def parse_notebook(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a notebook: each cell is a part, code in fences, with its output."""
    notebook = parse_json_or_lines(decode(file.read_bytes()).lstrip("\ufeff"))
    cells = list(_notebook_cells(notebook)) if isinstance(notebook, dict) else []
    if not cells:
        return parse_json(file, options)
    body, parts = join_sections((f"cell {n}", _cell(c)) for n, c in enumerate(cells, 1))
    return ParsedFile(body, first_heading(body), parts=parts)


def _notebook_cells(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells, also those of the sheets of format 3."""
    sheets = notebook.get("worksheets")
    for sheet in (notebook, *(sheets if isinstance(sheets, list) else ())):
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        yield from (cell for cell in cells if isinstance(cell, dict)) if isinstance(cells, list) else ()


def _cell(cell: Mapping[str, Any]) -> str:
    source = _joined(cell.get("source") or cell.get("input"))
    if cell.get("cell_type") == "heading":
        return f"# {source}"
    if cell.get("cell_type") != "code":
        return source
    outputs = cell.get("outputs")
    shown = [_shortened(_output(o)) for o in outputs if isinstance(o, dict)] if isinstance(outputs, list) else []
    return "\n\n".join([f"```\n{source}\n```"] * bool(source.strip()) + [text for text in shown if text])


def _output(output: Mapping[str, Any]) -> str:
    """The text of an output: an error as `name: message`, a table or Markdown rather than the plain text that stands for it."""
    if output.get("output_type") in {"error", "pyerr"}:
        return ": ".join(filter(None, (_joined(output.get(name)) for name in ("ename", "evalue"))))
    values = output.get("data")
    data: Mapping[str, Any] = values if isinstance(values, dict) else output
    plain = _joined(data.get("text/plain") or output.get("text"))
    html, markdown = _joined(data.get("text/html")), _joined(data.get("text/markdown"))
    if markdown:
        return markdown
    if html and ("<table" in html.lower() or not plain or _REPR.fullmatch(plain.strip())):
        return html_content(html[:_MAX_HTML_CHARS]).text
    return "" if _REPR.fullmatch(plain.strip()) else plain or _joined(data.get("text/latex"))


def _shortened(text: str) -> str:
    """An output without escape sequences and progress bars, cut at the end of a line."""
    text = _OVERWRITTEN.sub("", strip_escapes(text.replace("\r\n", "\n"))).replace("\r", "").strip("\n")
    if len(text) <= MAX_CELL_OUTPUT_CHARS:
        return text if text.strip() else ""
    cut = text[:MAX_CELL_OUTPUT_CHARS]
    return cut[: cut.rfind("\n")] if "\n" in cut[MAX_CELL_OUTPUT_CHARS // 2 :] else cut


def _joined(lines: Any) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
