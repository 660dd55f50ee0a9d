"""Tables as lines with their headers (`Name: Ruth Sand · Port: Brannock · Year: 1974`); CSV, JSON, JSON lines."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from functools import partial
from itertools import chain, groupby, islice, zip_longest
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.delimited import split_rows
from localrag.loaders.document_tree import TextBlock, render
from localrag.loaders.headers import CellRow, HeadCell, find_layout, is_value
from localrag.text.outline import BlockKind

_FULL_SHARE = 0.8  # of the rows of a table with headings between them
HEADER_SAMPLE_ROWS = 50  # rows examined to decide whether the first is a header
_ENTRY = re.compile(r"^[^:]*?\.\d+\.")  # the path to an object of a list, in a line of `flatten`


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
    return " · ".join(_labelled(name, value) for name, value in zip_longest(header, row, fillvalue="") if value)


def _labelled(name: str, value: str) -> str:
    """`name: value`; a question needs no colon."""
    label = name.rstrip(" :：")
    return f"{label}{' ' if label.endswith(('?', '？')) else ': '}{value}" if label else value


def table_lines(rows: Iterable[CellRow], *, likely: bool, header_rows: int | None = None) -> Iterator[str]:
    """The lines of `tables`, with an empty one between two."""
    for n, table in enumerate(tables(rows, likely=likely, header_rows=header_rows)):
        yield from [""] * (n > 0)
        yield from table.text.split("\n")


def tables(rows: Iterable[CellRow], *, likely: bool, header_rows: int | None = None) -> Iterator[TextBlock]:
    """The tables of a sheet, which empty rows separate. `likely`: the first row is a header unless it looks like the rest.

    A table without a header takes that of the table before, unless it is of a single column. A row of one cell above a table is its
    caption; one between its rows is repeated in those below it, see `_find_sections`. `header_rows`: the number of header rows of the first
    table where it is known; cells that span rows or columns are in each.
    """
    header: CellRow = ()
    is_first = True
    for filled, group in groupby(rows, key=any):
        if not filled:
            continue
        sample = list(islice(group, HEADER_SAMPLE_ROWS))
        lines = [] if is_first and header_rows else list(_captions(sample))
        header = header if sum(map(bool, header)) > 1 else ()
        known_rows = header_rows if is_first else None
        is_first = False
        is_continued = bool(header) and max(map(len, sample)) >= len(header)
        layout = find_layout(sample, likely=likely and not header, header_rows=known_rows, can_be_pairs=not is_continued)
        lines += [_particulars(row) for row in sample[: layout.n_above]]
        del sample[: layout.n_above + layout.n_header]
        if layout.n_header or layout.is_pairs:
            header = layout.header
        elif len(header) > 2 and max(sum(map(bool, row)) for row in sample) == 1:
            header = ()  # notes below a table
        body: Iterable[CellRow] = chain(sample, group)  # noqa: B031 - the rest of the group
        columns = () if layout.is_pairs else tuple(header)
        if columns and (is_heading := _find_sections(sample)):
            columns, body = ("", *columns), _with_sections(body, is_heading)
        lines += map(_particulars if layout.is_pairs else partial(format_row, columns), body)
        yield TextBlock(BlockKind.TABLE, "\n".join(lines), columns=columns)


def _captions(rows: list[CellRow]) -> Iterator[str]:
    is_wide = max(sum(map(bool, row)) for row in rows) > 1
    while is_wide and len(rows) > 1 and sum(map(bool, rows[0])) == 1:
        yield next(value for value in rows.pop(0) if value)


def _is_single(row: CellRow) -> bool:
    """Whether a row is its first cell and nothing else."""
    return bool(row and row[0]) and not any(row[1:])


def _is_marked_single(row: CellRow) -> bool:
    return _is_single(row) and isinstance(row[0], HeadCell)


def _find_sections(rows: Sequence[CellRow]) -> Callable[[CellRow], bool] | None:
    """What tells the headings within a table from its rows: single cells that alone are set apart, or that begin a table without gaps."""
    marked, single = ([row for row in rows if is_heading(row)] for is_heading in (_is_marked_single, _is_single))
    if 0 < 2 * len(marked) <= len(rows) and len(marked) == sum(isinstance(row[0], HeadCell) for row in rows if row):
        return _is_marked_single
    width = max(map(len, rows), default=0)
    n_full = sum(sum(map(bool, row)) == width for row in rows)
    is_first = bool(single) and single[0] is rows[0] and not is_value(rows[0][0]) and (len(single) > 1 or width > 2)
    return _is_single if is_first and n_full >= max(_FULL_SHARE * (len(rows) - len(single)), len(single)) else None


def _with_sections(rows: Iterable[CellRow], is_heading: Callable[[CellRow], bool]) -> Iterator[CellRow]:
    """The rows below each heading within a table, with it before them; headings without rows stay as they are."""
    section, headings = "", list[CellRow]()
    for is_section, group in groupby(rows, key=is_heading):
        if is_section:
            headings = list(group)
            section = " › ".join(row[0] for row in headings)
        else:
            headings = []
            yield from ((section, *row) for row in group)
    yield from (("", *row) for row in headings)


def _particulars(row: CellRow) -> str:
    """A row outside of columns: `label: value` if it has two cells."""
    cells = [value for value in row if value]
    return format_row(cells[:1], cells[1:]) if len(cells) == 2 else " · ".join(cells)


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
    """Parse rows of delimited text: each row a line with its headers."""
    rows = split_rows(decode(file.read_bytes()).lstrip("\ufeff"), prefers_tab=file.suffix.lower() == ".tsv")
    if options.text_column:
        first = list(islice(rows, HEADER_SAMPLE_ROWS))
        start = next((n for n, row in enumerate(first) if options.text_column in map(format_cell, row)), None)
        rows = chain(first, rows)
        if start is not None:
            header = [format_cell(value) for value in first[start]]
            return ParsedFile("\n\n".join(text_rows(header, islice(rows, start + 1, None), options)))
    rendered = render(tables(([format_cell(value) for value in row] for row in rows), likely=True))
    return ParsedFile(rendered.text, blocks=rendered.blocks)


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
    records = map(flatten, rows) if isinstance(value, list) else (group for _, group in groupby(flatten(value), key=_ENTRY.findall))
    return "\n\n".join(map("\n".join, records))


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
