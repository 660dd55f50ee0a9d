"""Tables with spanning cells: labels are repeated in the rows and columns they span, and header rows are merged into one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

from localrag.loaders.headers import CellRow, find_layout
from localrag.loaders.tabular import HEADER_SAMPLE_ROWS

MAX_LABEL_CHARS = 120  # longer texts stay where they begin
MAX_HEADER_ROWS = 4  # header rows that are merged into one
MAX_FILLED_CELLS = 500_000  # cells of a table that repeat a label
MAX_RANGES = 200_000  # spanning cells of a table; more are ignored
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d(?:\s?[/–-]\s?\d{2,4})?")


@dataclass(frozen=True, slots=True)
class CellRange:
    """The rows and columns of a spanning cell, counted from 0; `bottom` and `right` are its last ones."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(slots=True)
class _SpannedRow:
    """A row with the labels of the rows above that span it. `spans`: first and last column of each cell that spans columns."""

    texts: list[str]
    spans: list[tuple[int, int]] = field(default_factory=list)
    has_tall_cell: bool = False  # its first cell spans rows


def fill_spans(
    rows: Iterable[tuple[int, CellRow]], ranges: Iterable[CellRange], *, n_header: int = 0, likely: bool = True
) -> Iterator[list[str]]:
    """The rows of a table, given with their index, with the labels of spanning cells in every row and column they span.

    Several header rows become one: `1901` above `Herring` is `1901 Herring`. `n_header`: rows that the document marks as header.
    `likely`: as in `tabular.table_lines`. Consecutive empty rows become one.
    """
    spanned = _fill_down(rows, islice(ranges, MAX_RANGES))
    for is_filled, block in groupby(spanned, key=lambda row: any(row.texts)):
        if not is_filled:
            yield []
            continue
        sample = list(islice(block, HEADER_SAMPLE_ROWS))
        width = max(len(row.texts) for row in sample)
        start, end = _header_rows(sample, width, n_header)
        n_header = 0
        yield from (row.texts for row in sample[:start])
        if end - start > 1:
            yield _merged_header(sample[start:end], width)
            sample = sample[end:]
            is_labelled = True
        else:
            sample = sample[start:]
            layout = find_layout([row.texts for row in sample], likely=likely)
            is_labelled = not sample[0].spans and layout.n_header > 0 and not layout.n_above
        for row in chain(sample, block):
            yield _fill_across(row, width) if is_labelled else row.texts


def divides_first_row(rows: Sequence[CellRow], ranges: Iterable[CellRange]) -> bool:
    """Whether a cell of the first row spans columns that other rows use apart, as in a form: then it is hardly a header."""
    spans = [spanning for spanning in ranges if spanning.top == 0 and spanning.right > spanning.left]
    return any(any(row[spanning.left + 1 : spanning.right + 1]) for spanning in spans for row in rows[1:HEADER_SAMPLE_ROWS])


def _fill_down(rows: Iterable[tuple[int, CellRow]], ranges: Iterable[CellRange]) -> Iterator[_SpannedRow]:
    """The rows with the labels of cells that span them; rows without other text stay empty."""
    by_top: dict[int, list[CellRange]] = {}
    for spanning in ranges:
        by_top.setdefault(spanning.top, []).append(spanning)
    active: dict[int, tuple[CellRange, str]] = {}  # left column → cell and its label
    n_filled = 0
    for index, row in rows:
        texts = list(row)
        for spanning in by_top.pop(index, ()):
            if spanning.left < len(texts) and 0 < len(texts[spanning.left]) <= MAX_LABEL_CHARS:
                active[spanning.left] = spanning, texts[spanning.left]
        spanned = _SpannedRow(texts)
        active = {left: pair for left, pair in active.items() if pair[0].bottom >= index}
        if any(texts) and active and n_filled < MAX_FILLED_CELLS:
            for left, (spanning, label) in sorted(active.items()):
                texts += [""] * (left + 1 - len(texts))
                texts[left] = texts[left] or label
                n_filled += 1
                if spanning.right > left and texts[left] == label:
                    spanned.spans.append((left, spanning.right))
                    n_filled += min(spanning.right - left, 1000)
            spanned.has_tall_cell = 0 in active and active[0][0].top == index < active[0][0].bottom
        yield spanned


def _fill_across(row: _SpannedRow, width: int) -> list[str]:
    """The texts of a row with each label in all columns it spans, except one that spans the table: that is a heading within it."""
    texts = row.texts
    for left, right in row.spans:
        if right - left + 1 < width:
            texts += [""] * (min(right + 1, width) - len(texts))
            for column in range(left + 1, min(right + 1, width)):
                texts[column] = texts[column] or texts[left]
    return texts


def _header_rows(rows: Sequence[_SpannedRow], width: int, n_marked: int) -> tuple[int, int]:
    """The first header row of a block, after captions, and the first row after the header."""
    start = 0
    while start < len(rows) - 1 and _is_caption(rows[start], width):
        start += 1
    if n_marked:
        return start, min(max(start + 1, n_marked), start + MAX_HEADER_ROWS, len(rows) - 1)
    end = n = start
    end += 1
    while n < end < start + MAX_HEADER_ROWS + 1:
        if any(right - left + 1 < width for left, right in rows[n].spans) and n + 1 < len(rows):
            end = max(end, n + 2)
        n += 1
    if end == start + 1 and rows[start].has_tall_cell and _has_numbers_only_below(rows, start + 2):
        end += 1
    return (start, end) if end < len(rows) and _names_columns(rows[start:end]) else (start, start + 1)


def _is_caption(row: _SpannedRow, width: int) -> bool:
    if sum(map(bool, row.texts)) != 1:
        return False
    return not any(left > 0 and right - left + 1 < width for left, right in row.spans)


def _has_numbers_only_below(rows: Sequence[_SpannedRow], n: int) -> bool:
    below = [text for row in rows[n:] for text in row.texts if text]
    return any(map(_is_number, below)) and not any(_is_number(text) for row in rows[:n] for text in row.texts)


def _names_columns(rows: Sequence[_SpannedRow]) -> bool:
    """Whether rows with spanning cells are header rows: short texts without values, not two rows that each begin with a label."""
    texts = [text for row in rows for text in row.texts if text]
    first = {row.texts[0] for row in rows if row.texts and row.texts[0]}
    spans_first = any(left == 0 for row in rows for left, _ in row.spans)
    return (len(first) < 2 or spans_first) and not any(len(text) > 60 or _is_number(text) for text in texts)


def _is_number(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) and not _YEAR.fullmatch(text)


def _merged_header(rows: Sequence[_SpannedRow], width: int) -> list[str]:
    """One header row: the distinct texts of each column, from top to bottom."""
    filled = [_fill_across(row, width) for row in rows]
    columns = ([row[n] for row in filled if n < len(row)] for n in range(width))
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]
