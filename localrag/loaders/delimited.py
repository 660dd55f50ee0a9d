"""The rows of delimited text (CSV, TSV): its delimiter, quoted fields of several lines, and stray quotes."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 200
_SAMPLE_CHARS = 40_000  # of a line
_MAX_FIELD_CHARS = 1 << 30  # no limit: fields may be whole documents
_MAX_FIELDS = 20_000  # of a row; Excel has 16,384 columns
_MAX_QUOTED_LINES = 200  # lines of a quoted field
_DECLARED = re.compile(r'sep=([^" \r])[ \t]*', re.IGNORECASE)
_DECIMAL = re.compile(r"-?\d+,\d+")


def split_rows(text: str, *, prefers_tab: bool = False) -> Iterator[list[str]]:
    """The rows of delimited text; blank lines are empty rows."""
    lines = text.split("\n")
    declared = _DECLARED.fullmatch(lines[0][:10])  # as Excel writes and reads it
    if declared:
        lines = lines[1:]
    delimiter = declared[1] if declared else find_delimiter(lines, prefers_tab=prefers_tab)
    if not delimiter:
        return ([line] for line in map(_unquoted, lines))
    return _records(lines, delimiter)


def _unquoted(line: str) -> str:
    stripped = line.strip()
    return stripped[1:-1].replace('""', '"') if len(stripped) > 1 and stripped[0] == stripped[-1] == '"' else line


def find_delimiter(lines: Sequence[str], *, prefers_tab: bool = False) -> str:
    """The delimiter of delimited text by its first lines; empty for a single column."""
    sample = [line[:_SAMPLE_CHARS] for line in lines[:_SAMPLE_LINES] if not line.isspace() and line]
    if prefers_tab and sum("\t" in line for line in sample) >= 0.5 * len(sample):
        return "\t"
    even = {delimiter: share for delimiter in DELIMITERS if (share := _evenness(sample, delimiter))}
    if "," in even and (others := [d for d in even if d != "," and even[d] >= 0.9 and _holds_decimals(sample, d)]):
        return max(others, key=lambda delimiter: even[delimiter])
    return max(even, key=lambda delimiter: (even[delimiter], sample[0].count(delimiter)), default="")


def _evenness(lines: Sequence[str], delimiter: str) -> float:
    """The share of rows with the most common number of fields above one; 0 if the delimiter is punctuation of sentences."""
    fields = [row for row in _records(lines, delimiter) if row]
    widths = Counter(map(len, fields))
    width, n_lines = max(widths.items(), key=lambda pair: (pair[0] > 1, pair[1], pair[0]), default=(1, 0))
    if width < 2:
        return 0.0
    share = n_lines / len(fields)
    divided = [field for row in fields for field in row[1:]]
    is_prose = delimiter in ",;" and bool(divided) and sum(field.startswith(" ") for field in divided) >= 0.9 * len(divided)
    if is_prose and (share < 0.9 or len(fields[0]) < width or len(fields) < 3):
        return 0.0
    return share if share >= 0.5 or width > 2 else 0.0


def _holds_decimals(lines: Sequence[str], delimiter: str) -> bool:
    n_commas = sum(line.count(",") for line in lines)
    n_decimal = sum(field.count(",") for line in lines for field in line.split(delimiter) if _DECIMAL.fullmatch(field.strip(' "')))
    return n_decimal >= 0.8 * n_commas > 0


def _records(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_MAX_FIELD_CHARS)
    widths = Counter(line.count(delimiter) + 1 for line in lines[:_SAMPLE_LINES] if delimiter in line)
    width = max(widths, key=lambda n: widths[n], default=1)
    opening = re.compile(rf'(?:^|{re.escape(delimiter)}) *"')
    n = 0
    while n < len(lines):
        end, is_quoted = n + 1, '"' in lines[n]
        if lines[n].count('"') % 2 and opening.search(lines[n]):
            end = _record_end(lines, n, delimiter, width)
            is_quoted = end > n + 1
        yield _fields("\n".join(lines[n:end]), delimiter, is_quoted=is_quoted)
        n = end


def _record_end(lines: Sequence[str], start: int, delimiter: str, width: int) -> int:
    """The line after a record whose quote is not closed in its first one.

    That quote is a stray one if none closes it, or if the lines that it would swallow are whole rows by themselves.
    """
    for end in range(start + 1, min(start + _MAX_QUOTED_LINES, len(lines))):
        if lines[end].count('"') % 2:
            is_swallowing = width > 1 and all(line.count(delimiter) + 1 == width for line in lines[start : end + 1] if line)
            return start + 1 if is_swallowing else end + 1
    return start + 1


def _fields(record: str, delimiter: str, *, is_quoted: bool) -> list[str]:
    if not record:
        return []
    if is_quoted:
        try:
            row = next(csv.reader([record], delimiter=delimiter, skipinitialspace=True))
            return row if len(row) <= _MAX_FIELDS else [*row[:_MAX_FIELDS], delimiter.join(row[_MAX_FIELDS:])]
        except csv.Error:
            pass
    return record.split(delimiter, _MAX_FIELDS)
