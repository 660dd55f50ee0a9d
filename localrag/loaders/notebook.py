"""Jupyter notebooks: each cell with its output, as printed text, table, Markdown or error; and boards of JSON Canvas."""

import re
from collections.abc import Mapping
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, first_heading, strip_escapes
from localrag.loaders.conversations import parse_json
from localrag.loaders.document_tree import join_sections
from localrag.loaders.html import html_content
from localrag.loaders.tabular import parse_json_or_lines

MAX_CELL_OUTPUT_CHARS = 2000  # characters kept of each output of a cell
_MAX_HTML_CHARS = 200_000  # characters of a cell's HTML that are parsed
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\n])", re.MULTILINE)  # earlier states of a progress bar
_REPR = re.compile(r"<[\w.]+ (?:object|at 0x)[^>]*>")


def parse_notebook(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a notebook: each cell is a part, code in fences, with its output."""
    notebook = parse_json_or_lines(decode(file.read_bytes()).lstrip("\ufeff"))
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not cells:
        return parse_json(file, options)
    rendered = join_sections((f"cell {n}", _cell(c)) for n, c in enumerate(cells, 1) if isinstance(c, dict))
    return ParsedFile(rendered.text, first_heading(rendered.text), parts=rendered.parts)


def parse_canvas(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a board of JSON Canvas: the texts, files, links and names of groups on it, and the labels of its arrows."""
    board = parse_json_or_lines(decode(file.read_bytes()).lstrip("\ufeff"))
    if not isinstance(board, dict) or not isinstance(board.get("nodes"), list):
        return parse_json(file, options)
    rows = [row for row in (*board["nodes"], *(board.get("edges") or ())) if isinstance(row, dict)]
    texts = (next((str(row[key]).strip() for key in ("text", "file", "url", "label") if row.get(key)), "") for row in rows)
    text = "\n\n".join(filter(None, texts))
    return ParsedFile(text, first_heading(text))


def _cell(cell: Mapping[str, Any]) -> str:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        return source
    outputs = cell.get("outputs")
    shown = [_shortened(_output(o)) for o in outputs if isinstance(o, dict)] if isinstance(outputs, list) else []
    return "\n\n".join([f"```\n{source}\n```"] * bool(source.strip()) + [text for text in shown if text])


def _output(output: Mapping[str, Any]) -> str:
    """The text of an output: an error as `name: message`, a table or Markdown rather than the plain text that stands for it."""
    if output.get("output_type") == "error":
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
    text = _OVERWRITTEN.sub("", strip_escapes(text.replace("\r\n", "\n"))).replace("\r", "").strip("\n")
    if len(text) <= MAX_CELL_OUTPUT_CHARS:
        return text if text.strip() else ""
    cut = text[:MAX_CELL_OUTPUT_CHARS]
    return cut[: cut.rfind("\n")] if "\n" in cut[MAX_CELL_OUTPUT_CHARS // 2 :] else cut


def _joined(lines: Any) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
