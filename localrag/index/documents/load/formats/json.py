"""JSON, JSON lines and notebooks."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from localrag.index.documents.load.content import Content, Options, compose, first_heading
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.formats.tables import row_line, table_lines
from localrag.index.documents.load.open_file import OpenFile

LONGEST_OUTPUT = 2000  # characters kept of what a notebook's cell printed


def parse_json(file: OpenFile, options: Options) -> Content:
    """`path.to.key: value` lines, each object of a list a paragraph. What is no JSON is read as text."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    values = read_values(text)
    return Content(text) if values is None else Content(value_text(values, options))


def read_values(text: str) -> Any:
    """What a text of JSON or of JSON lines says; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return None


def value_text(value: Any, options: Options) -> str:
    """Values as lines; a list of objects with the text column as paragraphs of it; a list of lists as a table."""
    rows = value if isinstance(value, list) else [value]
    if options.text_column and any(isinstance(row, dict) and options.text_column in row for row in rows):
        return "\n\n".join(_text_paragraphs((row for row in rows if isinstance(row, dict)), options))
    if rows and all(isinstance(row, list) and not any(isinstance(v, list | dict) for v in row) for row in rows):
        return "\n".join(table_lines(([_scalar(v) for v in row] for row in rows), likely=True))
    if not any(isinstance(row, list | dict) for row in rows):
        return "\n".join(map(_scalar, rows))
    return "\n\n".join("\n".join(flat(row)) for row in rows)


def _text_paragraphs(rows: Iterable[dict[str, Any]], options: Options) -> Iterator[str]:
    for row in rows:
        body = row.get(options.text_column)
        text = body.strip() if isinstance(body, str) else "\n".join(flat(body))
        if text:
            names = [name for name in options.metadata_columns if name in row]
            line = row_line(names, [", ".join(flat(row[name])) for name in names])
            yield f"{line}\n{text}" if line else text


def flat(value: Any, path: str = "") -> Iterator[str]:
    """`path.to.key: value` for every value; a list of plain values is one."""
    before = f"{path}: " if path else ""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(v, list | dict) for v in value):
        for n, inner in enumerate(value, 1):
            yield from flat(inner, f"{path}.{n}" if path else str(n))
    elif isinstance(value, list):
        if value:
            yield before + ", ".join(map(_scalar, value))
    elif (text := _scalar(value)) != "":
        yield before + text


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool | float | int) else " ".join(str(value).split())


def parse_notebook(file: OpenFile, options: Options) -> Content:
    """The cells of a notebook, code between fences, with what it printed; each cell is a part."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    notebook = read_values(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return parse_json(file, options)
    body, parts = compose((f"cell {n}", _cell(c)) for n, c in enumerate(cells, 1) if isinstance(c, dict))
    return Content(body, first_heading(body), parts=parts)


def _cell(found: dict[str, Any]) -> str:
    source = _joined(found.get("source"))
    if found.get("cell_type") != "code":
        return source
    outputs = found.get("outputs")
    printed = [_output(o) for o in outputs if isinstance(o, dict)] if isinstance(outputs, list) else []
    return "\n\n".join([f"```\n{source}\n```"] * bool(source.strip()) + [p for p in printed if p.strip()])


def _output(found: dict[str, Any]) -> str:
    data = found.get("data")
    return _joined(found.get("text") or (data.get("text/plain") if isinstance(data, dict) else "")).strip("\n")[:LONGEST_OUTPUT]


def _joined(lines: Any) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
