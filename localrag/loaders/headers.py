"""The layout of a table: rows above it, its header, or pairs of label and value without a header.

A header is told by log-odds: how the first row differs from the cells below it in kind and form, whether it reads like names, and whether
the document sets it apart (`HeadCell`). Numbers below a name are the strongest evidence.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean

CellRow = Sequence[str]
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0]*(?:e[-+]?\d+)?\s?[%)€£¥]?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.+Z-]+)?|\d{1,2}:\d{2}(?::\d{2})?")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")
_RUN = re.compile(r"(.)\1+")
_PRIOR = 1.2  # log-odds of a header where the format or its mark suggests one, and against it elsewhere
_MIN_ABOVE_SCORE = 2.5  # of a header below other rows
_MAX_ABOVE_ROWS = 6
_MAX_PAIRS = 100  # rows of a table of labels and values
_MAX_LABEL_CHARS = 60
_NUMERIC_SHARE = 0.7  # of the cells of a column of numbers or dates
_MARKED_SCORE = 3.5  # log-odds of a header whose row the document sets apart, and of labels whose column it sets apart
_MARKED_SHARE = 0.3  # of the other rows or columns set apart, from which on that says nothing


class HeadCell(str):
    """The text of a cell that the document sets apart from others: by header markup, bold letters or a fill."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The first `n_above` rows stand above the table and the next `n_header` form its header; or all rows are pairs of label and value."""

    header: tuple[str, ...] = ()
    n_above: int = 0
    n_header: int = 0
    is_pairs: bool = False


def find_layout(rows: Sequence[CellRow], *, likely: bool, header_rows: int | None = None, can_be_pairs: bool = True) -> TableLayout:
    """The layout of a table by its first rows. `likely`: the first is a header unless it looks like the rest.

    `header_rows`: the number of header rows where it is known; cells that span rows or columns must be repeated in each.
    """
    if header_rows is not None:
        return TableLayout(join_header(rows[:header_rows]), 0, header_rows)
    if can_be_pairs and _are_pairs(rows):
        return TableLayout(is_pairs=True)
    for start in range(min(_MAX_ABOVE_ROWS, len(rows) // 2)):
        below = rows[start:]
        score = _header_score(below, likely=likely)
        if score > 0 if start == 0 else score >= _MIN_ABOVE_SCORE and _numeric_columns(below):
            return TableLayout(join_header(below[:1]), start, 1)
    return TableLayout()


def join_header(rows: Sequence[CellRow]) -> tuple[str, ...]:
    """The label of each column: the different cells of its header rows, joined; equal labels are numbered from the second on."""
    labels = [" ".join(dict.fromkeys(filter(None, column))) for column in zip_longest(*rows, fillvalue="")]
    counts: Counter[str] = Counter()
    for n, label in enumerate(labels):
        counts[label] += 1
        if label and counts[label] > 1:
            labels[n] = f"{label} ({counts[label]})"
    return tuple(labels)


def is_value(text: str) -> bool:
    """Whether a cell is a number, date or time."""
    return bool(_NUMBER.fullmatch(text) or _DATE.fullmatch(text))


def _is_row_marked(rows: Sequence[CellRow]) -> bool:
    marked = [bool(filled) and all(isinstance(value, HeadCell) for value in filled) for row in rows if (filled := list(filter(None, row)))]
    return bool(marked) and marked[0] and sum(marked[1:]) <= _MARKED_SHARE * len(marked[1:])


def _is_column_marked(rows: Sequence[CellRow]) -> bool:
    """Whether the document sets the first column apart from its first cell on, and hardly another one."""
    first, *others = zip_longest(*rows, fillvalue="")
    other_cells = [value for column in others for value in column if value]
    n_marked = sum(isinstance(value, HeadCell) for value in other_cells)
    return all(isinstance(value, HeadCell) for value in first if value) and bool(first[0]) and n_marked <= _MARKED_SHARE * len(other_cells)


def _columns(rows: Iterable[CellRow]) -> list[list[str]]:
    return [[value for value in column if value] for column in zip_longest(*rows, fillvalue="")]


def _is_numeric(column: Sequence[str]) -> bool:
    return bool(column) and sum(map(is_value, column)) >= _NUMERIC_SHARE * len(column)


def _numeric_columns(rows: Sequence[CellRow]) -> int:
    pairs = zip(rows[0], _columns(rows[1:]), strict=False)
    return sum(bool(name) and _is_numeric(column) and (not is_value(name) or _is_year(name)) for name, column in pairs)


def _is_year(text: str) -> bool:
    return bool(_YEAR.fullmatch(text))


def _header_score(rows: Sequence[CellRow], *, likely: bool) -> float:
    """The log-odds that the first row names the columns."""
    head, columns = rows[0], _columns(rows[1:])
    named = [(name, column) for name, column in zip_longest(head, columns, fillvalue="") if name]
    names = [name.lower() for name, _ in named]
    years = [name for name, column in named if _is_year(name) and _is_numeric(column)]
    if not names or len(names) * 2 < len(head) or (len(years) == len(names) and head[0]):
        return -math.inf
    is_marked = _is_row_marked(rows)
    score = _PRIOR if (likely or is_marked) and len(head) > 1 else -_PRIOR
    score += _MARKED_SCORE * (is_marked - _is_column_marked(rows))
    if n_numeric := _numeric_columns(rows):
        is_unsure = len(rows) == 2 or (len(named) == 2 and years)  # `Built 1871` may be a pair
        score += min((2 if is_unsure else 3) + n_numeric - 1, 6)
    score -= 4 * sum(is_value(name) and name not in years for name in names)
    score -= 1.5 * min(len(names) - len(set(names)), 2)
    texts = [(name, column) for name, column in named if not is_value(name) and not _is_numeric(column)]
    return score + _difference(texts) + max(-2.0 * sum(_is_unlikely(name) for name, _ in texts), -3.0)


def _difference(columns: Sequence[tuple[str, Sequence[str]]]) -> float:
    """The log-odds by columns of text: their names differ from the cells below in form, and are none of them."""
    fresh = [(name, column) for name, column in columns if name.lower() not in {value.lower() for value in column}]
    # A few columns that repeat their name also occur in surveys: option, option or nothing.
    repeated = 8 * (1 - len(fresh) / len(columns)) if columns else 0.0
    return min(max(sum(_form_evidence(name, column) for name, column in fresh), -1.0), 3.0) - repeated


def _form_evidence(name: str, column: Sequence[str]) -> float:
    """The log-odds that a name is no cell of its column, by its sequence of capitals, letters and digits, and its length."""
    if not column:
        return 0.0
    share = (sum(_form(value) == _form(name) for value in column) + 0.5) / (len(column) + 1)
    is_long = fmean(map(len, column)) > 40 and len(name) < 25
    return min(max(math.log(0.3 / share), -0.4), 2.0) + 1.5 * is_long


def _form(text: str) -> str:
    kinds = ("A" if c.isupper() else "a" if c.isalpha() else "9" if c.isdigit() else c for c in text[:_MAX_LABEL_CHARS])
    return _RUN.sub(r"\1", "".join(kinds))


def _are_pairs(rows: Sequence[CellRow]) -> bool:
    """Whether a table of two columns has a label and its value in each row."""
    pairs = [[value for value in row if value] for row in rows]
    if not 1 < len(rows) <= _MAX_PAIRS or any(len(pair) != 2 for pair in pairs[:2]) or max(map(len, pairs)) > 2:
        return False
    labels, values = ([pair[n] for pair in pairs if len(pair) == 2] for n in range(2))
    n_unlikely = sum(is_value(label) or _is_unlikely(label) for label in labels)
    if n_unlikely > 0.2 * len(labels) or len(set(map(str.lower, labels))) < len(labels) or _is_row_marked(rows):
        return False
    forms = set(map(_form, labels[1:]))
    is_unlike = len(labels) > 2 and len(forms) == 1 and _form(labels[0]) not in forms
    is_headed = is_unlike or (not is_value(values[0]) and _is_numeric(values[1:]))
    is_repeated = len(set(values)) < 0.8 * len(values)  # a value is rarely that of several labels
    return _is_column_marked(rows) or labels[0].endswith((":", "：")) or not (is_headed or is_repeated)


def _is_unlikely(name: str) -> bool:
    """Whether a text is too long to name something, or ends like a sentence; a question may be a name."""
    is_sentence = len(name) > 20 and name.endswith((".", "!", "。", "！"))
    return is_sentence or (len(name) > _MAX_LABEL_CHARS and not name.endswith(("?", "？")))
