"""Tables as lines with their headers (`Name: Ruth Sand · Port: Brannock · Year: 1974`); CSV, JSON, JSON lines, notebooks."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain, groupby, islice, zip_longest
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, first_heading, join_sections

CellRow = Sequence[str]
HEADER_SAMPLE_ROWS = 50  # rows examined to decide whether the first is a header
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0]*(?:e[-+]?\d+)?\s?[%)€£¥]?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.+Z-]+)?|\d{1,2}:\d{2}(?::\d{2})?")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")


def format_cell(value: object) -> str:
    """A value on one line: dates as ISO, whole numbers without a decimal point."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return (value.date() if not (value.hour or value.minute or value.second) else value.replace(microsecond=0)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return " ".join(str(value).split())


def format_row(header: CellRow, row: CellRow) -> str:
    """A row on one line, each cell after the header of its column; empty cells are left out."""
    return " · ".join(f"{name.rstrip(' :')}: {value}" if name else value for name, value in zip_longest(header, row, fillvalue="") if value)


def table_lines(rows: Iterable[CellRow], *, likely: bool) -> Iterator[str]:
    """The lines of a table. `likely`: the first row is a header unless it looks like the rest.

    Empty rows separate the tables of a sheet; a table without a header takes that of the table before. A row of one cell above a table is
    its caption.
    """
    header: CellRow = ()
    is_first = True
    for filled, group in groupby(rows, key=any):
        if not filled:
            continue
        if not is_first:
            yield ""
        is_first = False
        sample = list(islice(group, HEADER_SAMPLE_ROWS))
        is_wide = max(sum(map(bool, row)) for row in sample) > 1
        while is_wide and len(sample) > 1 and sum(map(bool, sample[0])) == 1:
            yield next(value for value in sample.pop(0) if value)
        if has_header(sample, likely=likely and not header):
            header = sample.pop(0)
        yield from (format_row(header, row) for row in chain(sample, group))


def has_header(rows: Sequence[CellRow], *, likely: bool) -> bool:
    """Whether the first row names the columns: short, distinct, no numbers, and not repeated below."""
    if len(rows) < 2:
        return False
    columns = [[value for value in column if value] for column in zip_longest(*rows[1:], fillvalue="")]
    head = list(rows[0])
    named = [(name, column) for name, column in zip_longest(head, columns, fillvalue="") if name and isinstance(name, str)]
    names = [name.lower() for name, _ in named]
    if not names or len(set(names)) < len(names) or len(names) * 2 < len(head):
        return False
    numeric = [bool(column) and sum(map(_is_value, column)) >= 0.7 * len(column) for _, column in named]
    years = [name for name, is_number in zip(names, numeric, strict=True) if _YEAR.fullmatch(name) and is_number]
    if any(
        len(name) > 60 or (name.endswith((".", "!", "?", "。")) and len(name) > 20) or (_is_value(name) and name not in years)
        for name in names
    ):
        return False
    if len(years) == len(names) or any(name in column for name, column in named):
        return False
    return any(numeric) or (likely and len(head) > 1)


def _is_value(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _DATE.fullmatch(text))


def text_rows(header: CellRow, rows: Iterable[CellRow], options: LoadOptions) -> Iterator[str]:
    """Each row as a paragraph: a line with its metadata, then the text of its text column."""
    text_index = list(header).index(options.text_column)
    metadata_names = [name if name in options.metadata_columns else None for name in header]
    for row in rows:
        if len(row) > text_index and row[text_index].strip():
            pairs = [(name, format_cell(value)) for name, value in zip(metadata_names, row, strict=False) if name is not None]
            line = format_row([n for n, _ in pairs], [v for _, v in pairs])
            yield f"{line}\n{row[text_index].strip()}" if line else row[text_index].strip()


def parse_csv(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse rows separated by comma, semicolon, tab or bar, whichever divides them most evenly."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    csv.field_size_limit(max(len(text), 1))
    lines = text.split("\n")
    reader = csv.reader((line + "\n" for line in lines), delimiter=_delimiter(lines[:200], file), skipinitialspace=True)
    rows = ([format_cell(value) for value in row] for row in reader)
    if options.text_column:
        raw = iter(csv.reader((line + "\n" for line in lines), delimiter=reader.dialect.delimiter, skipinitialspace=True))
        header = [format_cell(value) for value in next(raw, [])]
        if options.text_column in header:
            return ParsedFile("\n\n".join(text_rows(header, raw, options)))
    return ParsedFile("\n".join(table_lines(rows, likely=True)))


def _delimiter(lines: Sequence[str], file: OpenFile) -> str:
    def evenness(delimiter: str) -> float:
        rows = [len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
        common_width = max(set(rows), key=lambda n: (n > 1, rows.count(n)), default=1)
        return rows.count(common_width) / len(rows) + 0.01 * min(common_width, 20) if common_width > 1 else 0.0

    return max("\t,;|" if file.suffix.lower() == ".tsv" else ",;\t|", key=evenness)


MAX_CELL_OUTPUT = 2000  # characters of a notebook cell's output


def parse_json(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse JSON to `path.to.key: value` lines, each object of a list a paragraph. Invalid JSON is read as text."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    values = parse_json_or_lines(text)
    return ParsedFile(text) if values is None else ParsedFile(value_text(values, options))


def parse_json_or_lines(text: str) -> Any:
    """The value of a JSON or JSON lines text; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return None


def value_text(value: Any, options: LoadOptions) -> str:
    """Values as lines; a list of objects with the text column as paragraphs; a list of lists as a table."""
    rows = value if isinstance(value, list) else [value]
    if options.text_column and any(isinstance(row, dict) and options.text_column in row for row in rows):
        return "\n\n".join(_text_paragraphs((row for row in rows if isinstance(row, dict)), options))
    if rows and all(isinstance(row, list) and not any(isinstance(v, list | dict) for v in row) for row in rows):
        return "\n".join(table_lines(([_scalar(v) for v in row] for row in rows), likely=True))
    if not any(isinstance(row, list | dict) for row in rows):
        return "\n".join(map(_scalar, rows))
    return "\n\n".join("\n".join(flatten(row)) for row in rows)


def _text_paragraphs(rows: Iterable[dict[str, Any]], options: LoadOptions) -> Iterator[str]:
    for row in rows:
        body = row.get(options.text_column)
        text = body.strip() if isinstance(body, str) else "\n".join(flatten(body))
        if text:
            names = [name for name in options.metadata_columns if name in row]
            line = format_row(names, [", ".join(flatten(row[name])) for name in names])
            yield f"{line}\n{text}" if line else text


def flatten(value: Any, path: str = "") -> Iterator[str]:
    """A `path.to.key: value` line for every value; a list of plain values is one value."""
    before = f"{path}: " if path else ""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(v, list | dict) for v in value):
        for n, inner in enumerate(value, 1):
            yield from flatten(inner, f"{path}.{n}" if path else str(n))
    elif isinstance(value, list):
        if value:
            yield before + ", ".join(map(_scalar, value))
    elif (text := _scalar(value)) != "":
        yield before + text


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool | float | int) else " ".join(str(value).split())


def parse_notebook(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a notebook: each cell is a part, code in fences, with its output."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    notebook = parse_json_or_lines(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return parse_json(file, options)
    body, parts = join_sections((f"cell {n}", _cell(c)) for n, c in enumerate(cells, 1) if isinstance(c, dict))
    return ParsedFile(body, first_heading(body), parts=parts)


def _cell(cell: dict[str, Any]) -> str:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        return source
    outputs = cell.get("outputs")
    printed = [_output(o) for o in outputs if isinstance(o, dict)] if isinstance(outputs, list) else []
    return "\n\n".join([f"```\n{source}\n```"] * bool(source.strip()) + [p for p in printed if p.strip()])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data")
    return _joined(output.get("text") or (data.get("text/plain") if isinstance(data, dict) else "")).strip("\n")[:MAX_CELL_OUTPUT]


def _joined(lines: Any) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
