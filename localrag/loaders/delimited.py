"""The rows of delimited text (CSV, TSV): its delimiter by CleverCSV and own rules, quoted fields of several lines, and stray quotes."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 200
_SAMPLE_CHARS = 40_000  # CleverCSV takes 0.1 s for them
_MAX_LINE_CHARS = 2_000  # longer lines are not given to CleverCSV
_MAX_FIELDS = 20_000  # of a row; Excel has 16,384 columns
_MAX_QUOTED_LINES = 200  # lines of a quoted field
_MAX_CLOSING_TRIALS = 5  # quotes tried as the end of a field
_DECLARED = re.compile(r"sep=(.)[ \t]*", re.IGNORECASE)
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
    if len(even) < 2:
        return next(iter(even), "")
    if "," in even and (others := [d for d in even if d != "," and even[d] >= 0.9 and _holds_decimals(sample, d)]):
        return max(others, key=lambda delimiter: even[delimiter])
    detected = _clever_delimiter(sample)
    return detected if detected in even else max(even, key=lambda delimiter: even[delimiter])


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


def _clever_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that CleverCSV finds by the patterns of rows and the types of cells; empty if none."""
    short = [line.replace("\0", "") for line in lines if len(line) <= _MAX_LINE_CHARS]
    sample, n_chars = [], 0
    for line in short:
        n_chars += len(line)
        if n_chars > _SAMPLE_CHARS:
            break
        sample.append(line)
    if not sample:
        return ""
    from clevercsv.detect import Detector

    dialect = Detector().detect("\n".join(sample), delimiters=list(DELIMITERS))
    return str(dialect.delimiter or "") if dialect else ""


def _fields(record: str, delimiter: str) -> tuple[list[str], bool]:
    """The fields of a record, and whether a quote is not closed in it, which is then an ordinary character."""
    fields: list[str] = []
    position, is_open = 0, False
    while position <= len(record):
        if len(fields) == _MAX_FIELDS:
            return [*fields, record[position:]], is_open
        start = position
        while start < len(record) and record[start] == " ":
            start += 1
        end = -1
        if not is_open and record[start : start + 1] == '"':
            end = _quoted_end(record, start, delimiter)
            is_open = end < 0
        if end >= 0:
            fields.append(record[start + 1 : record.rindex('"', start, end)].replace('""', '"'))
        else:
            end = record.find(delimiter, position)
            end = len(record) if end < 0 else end
            fields.append(record[position:end])
        position = end + len(delimiter)
    return fields, is_open


def _quoted_end(record: str, start: int, delimiter: str) -> int:
    """The end of a quoted field, before the delimiter or the end of the record; -1 if it is not closed."""
    position = start + 1
    while (quote := record.find('"', position)) >= 0:
        if record.startswith('""', quote) and not (quote == start + 1 and _ends_field(record, quote + 1, delimiter) >= 0):
            position = quote + 2
        elif (end := _ends_field(record, quote, delimiter)) >= 0:
            return end
        else:
            position = quote + 1
    return -1


def _ends_field(record: str, quote: int, delimiter: str) -> int:
    """The position after a quote and spaces if the field ends there; else -1."""
    after = quote + 1
    while after < len(record) and record[after] in " \r":
        after += 1
    return after if after == len(record) or record.startswith(delimiter, after) else -1


def _records(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    widths = Counter(line.count(delimiter) + 1 for line in lines[:_SAMPLE_LINES] if delimiter in line)
    width = max(widths, key=lambda n: widths[n], default=1)
    closing = _ClosingQuotes(lines, delimiter)
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if '"' not in line:
            yield line.split(delimiter, _MAX_FIELDS) if line else []
            continue
        row, is_open = _fields(line, delimiter)
        if is_open and (record := _multiline(lines, n - 1, delimiter, width, closing)):
            row, n = record
        yield row


class _ClosingQuotes:
    """Finds the lines with a quote that may close a field. Lines without one are searched once, also for several stray quotes."""

    def __init__(self, lines: Sequence[str], delimiter: str) -> None:
        self._lines = lines
        self._closing = re.compile(rf'"[ \r]*(?:{re.escape(delimiter)}|$)')
        self._next = 0  # between `_from` and this line there is none
        self._from = 0

    def after(self, start: int) -> int:
        """The first such line after line `start`; the number of lines if there is none."""
        n = self._next if self._from <= start < self._next else start + 1
        self._from = self._from if self._from <= start < self._next else start
        while n < len(self._lines) and not ('"' in self._lines[n] and self._closing.search(self._lines[n])):
            n += 1
        self._next = n
        return n


def _multiline(lines: Sequence[str], start: int, delimiter: str, width: int, closing: _ClosingQuotes) -> tuple[list[str], int] | None:
    """The fields of a record of several lines and the number of the line after it; None if its quote is a stray one.

    It is stray if no later line closes it, or if the lines that it would swallow are whole rows by themselves.
    """
    end = start
    for _ in range(_MAX_CLOSING_TRIALS):
        end = closing.after(end)
        if end >= len(lines) or end - start > _MAX_QUOTED_LINES:
            return None
        fields, is_open = _fields("\n".join(lines[start : end + 1]), delimiter)
        if not is_open:
            is_swallowing = width > 1 and all(line.count(delimiter) + 1 == width for line in lines[start : end + 1] if line)
            return None if is_swallowing else (fields, end + 1)
    return None
