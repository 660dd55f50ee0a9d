"""The tables of a sheet: those that stand side by side are read one after the other, each with its own header."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import NamedTuple

from localrag.loaders.document_tree import TextBlock
from localrag.loaders.headers import CellRow, TableLayout, find_layout, is_value
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import HEADER_SAMPLE_ROWS, tables

NumberedRow = tuple[int, CellRow]
_MAX_ROWS = 10_000  # of a sheet whose tables are looked for; longer ones hold one table
_MIN_OFFSET = 2  # rows by which one table is longer than the one beside it
_MAX_VALUES = 0.7  # of the first column of a table, which names its rows


class _Columns(NamedTuple):
    """Adjacent columns of a block of rows, the last one included; its own rows begin and end at the first and last filled one."""

    left: int
    right: int
    rows: list[CellRow]
    start: int
    end: int
    layout: TableLayout


def sheet_blocks(rows: Iterable[NumberedRow], ranges: Iterable[CellRange]) -> Iterator[TextBlock]:
    """The tables of a sheet. `rows`: with their index, of consecutive empty rows one; `ranges`: the spanning cells."""
    remaining, spanning = iter(rows), list(ranges)
    first = list(islice(remaining, _MAX_ROWS + 1))
    if len(first) > _MAX_ROWS:
        yield from tables(fill_spans(chain(first, remaining), spanning), likely=True)
        return
    for part, part_ranges in _tables(first, spanning):
        yield from tables(fill_spans(part, part_ranges), likely=True)


def _tables(rows: Sequence[NumberedRow], ranges: Sequence[CellRange]) -> Iterator[tuple[list[NumberedRow], Sequence[CellRange]]]:
    """The rows and spanning cells of what is read as one: rows without tables side by side, and each of these tables."""
    whole: list[NumberedRow] = []
    for is_filled, group in groupby(rows, key=lambda row: any(row[1])):
        block = list(group)
        tables = _tables_beside([row for _, row in block]) if is_filled else []
        if not tables:
            whole += block
            continue
        if any(row for _, row in whole):
            yield whole, ranges
        whole = []
        for table in tables:
            within = [r for r in ranges if table.left <= r.left and r.right <= table.right]
            moved = [CellRange(r.top, r.left - table.left, r.bottom, r.right - table.left) for r in within]
            yield list(zip((index for index, _ in block), table.rows, strict=True)), moved
    if any(row for _, row in whole):
        yield whole, ranges


def _tables_beside(block: Sequence[CellRow]) -> list[_Columns]:
    """The tables side by side in a block of filled rows; empty if it is one table, maybe with empty columns."""
    groups = [found for left, right in _column_groups(block) if (found := _columns(block, left, right))]
    if len(groups) < 2 or not all(map(_is_table, groups)):
        return []
    heads = [{name.lower() for name in group.layout.header if name} for group in groups]
    is_repeated = any(2 * len(a & b) >= max(len(a), len(b)) > 0 for n, a in enumerate(heads) for b in heads[n + 1 :])
    ends = sorted(group.end for group in groups)
    has_starts = len({group.start for group in groups}) > 1
    is_shifted = has_starts or ends[-1] - ends[0] >= _MIN_OFFSET or any(group.layout.is_pairs for group in groups)
    return groups if is_repeated or (is_shifted and all(map(_names_rows, groups))) else []


def _column_groups(block: Sequence[CellRow]) -> list[tuple[int, int]]:
    """The first and last column of what empty columns divide; a single column belongs to what is before it."""
    filled = sorted({n for row in block for n, value in enumerate(row) if value})
    groups: list[tuple[int, int]] = []
    for n in filled:
        if groups and n == groups[-1][1] + 1:
            groups[-1] = groups[-1][0], n
        else:
            groups.append((n, n))
    joined: list[tuple[int, int]] = []
    for left, right in groups:
        if joined and (left == right or joined[-1][0] == joined[-1][1]):
            joined[-1] = joined[-1][0], right
        else:
            joined.append((left, right))
    return joined


def _columns(block: Sequence[CellRow], left: int, right: int) -> _Columns:
    rows = [row[left : right + 1] for row in block]
    filled = [n for n, row in enumerate(rows) if any(row)]
    start, end = filled[0], filled[-1]
    own = [row for row in rows[start : end + 1] if any(row)]
    while len(own) > 2 and sum(map(bool, own[0])) == 1:
        own.pop(0)  # its caption
    return _Columns(left, right, rows, start, end, find_layout(own[:HEADER_SAMPLE_ROWS], likely=True))


def _is_table(group: _Columns) -> bool:
    return group.layout.is_pairs or (group.layout.n_header > 0 and not group.layout.n_above)


def _names_rows(group: _Columns) -> bool:
    """Whether the first column holds names rather than the numbers of a table that begins further left."""
    first = [row[0] for row in group.rows if row and row[0]]
    return sum(map(is_value, first)) <= _MAX_VALUES * len(first)
