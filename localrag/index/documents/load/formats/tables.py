"""Rows of cells → lines that each carry their headers: `Name: Ruth Sand · Port: Brannock · Year: 1974`. And CSV."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain, groupby, islice, zip_longest

from localrag.index.documents.load.content import Content, Options
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.open_file import OpenFile

Row = Sequence[str]
PEEK = 50  # rows that are looked at to tell whether the first is a header
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0]*(?:e[-+]?\d+)?\s?[%)€£¥]?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.+Z-]+)?|\d{1,2}:\d{2}(?::\d{2})?")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")


def cell(value: object) -> str:
    """A value as one line of text: dates as ISO, whole numbers without a point."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return (value.date() if not (value.hour or value.minute or value.second) else value.replace(microsecond=0)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return " ".join(str(value).split())


def row_line(header: Row, row: Row) -> str:
    """A row on one line, each cell behind the header of its column; empty cells are left out."""
    return " · ".join(f"{name.rstrip(' :')}: {value}" if name else value for name, value in zip_longest(header, row, fillvalue="") if value)


def table_lines(rows: Iterable[Row], *, likely: bool) -> Iterator[str]:
    """The lines of a table. `likely`: whether its first row is taken for a header unless it looks like the rest.

    Empty rows divide a sheet into tables; one that has no header goes on with that of the table before. A line of one cell above a
    table is its caption.
    """
    header: Row = ()
    first = True
    for filled, group in groupby(rows, key=any):
        if not filled:
            continue
        if not first:
            yield ""
        first = False
        peek = list(islice(group, PEEK))
        wide = max(sum(map(bool, row)) for row in peek) > 1
        while wide and len(peek) > 1 and sum(map(bool, peek[0])) == 1:
            yield next(value for value in peek.pop(0) if value)
        if has_header(peek, likely=likely and not header):
            header = peek.pop(0)
        yield from (row_line(header, row) for row in chain(peek, group))


def has_header(rows: Sequence[Row], *, likely: bool) -> bool:
    """Whether the first row names the columns: short, different names, none of them a number, that do not come again below."""
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


def text_rows(header: Row, rows: Iterable[Row], options: Options) -> Iterator[str]:
    """Each row as a paragraph: a line with its metadata, then the text of its text column."""
    at = list(header).index(options.text_column)
    kept = [name if name in options.metadata_columns else None for name in header]
    for row in rows:
        if len(row) > at and row[at].strip():
            pairs = [(name, cell(value)) for name, value in zip(kept, row, strict=False) if name is not None]
            line = row_line([n for n, _ in pairs], [v for _, v in pairs])
            yield f"{line}\n{row[at].strip()}" if line else row[at].strip()


def parse_csv(file: OpenFile, options: Options) -> Content:
    """Rows between commas, semicolons, tabs or bars, whichever divides them most evenly."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    csv.field_size_limit(max(len(text), 1))
    lines = text.split("\n")
    reader = csv.reader((line + "\n" for line in lines), delimiter=_delimiter(lines[:200], file), skipinitialspace=True)
    rows = ([cell(value) for value in row] for row in reader)
    if options.text_column:
        raw = iter(csv.reader((line + "\n" for line in lines), delimiter=reader.dialect.delimiter, skipinitialspace=True))
        header = [cell(value) for value in next(raw, [])]
        if options.text_column in header:
            return Content("\n\n".join(text_rows(header, raw, options)))
    return Content("\n".join(table_lines(rows, likely=True)))


def _delimiter(lines: Sequence[str], file: OpenFile) -> str:
    def evenness(delimiter: str) -> float:
        rows = [len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
        most = max(set(rows), key=lambda n: (n > 1, rows.count(n)), default=1)
        return rows.count(most) / len(rows) + 0.01 * min(most, 20) if most > 1 else 0.0

    return max("\t,;|" if file.suffix.lower() == ".tsv" else ",;\t|", key=evenness)
