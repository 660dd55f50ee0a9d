"""The layout of a table: rows above it, its header of one or two rows, or pairs of label and value without a header.

Each decision adds up log-odds: how the first row differs from the cells below it in kind, form and repetition, whether its cells read
like labels (`column_labels`), and whether the document sets them apart (`HeadCell`). Numbers below a name are the strongest evidence.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import fmean

from localrag.loaders.column_labels import label_score

CellRow = Sequence[str]
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0]*(?:e[-+]?\d+)?\s?[%)€£¥]?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.+Z-]+)?|\d{1,2}:\d{2}(?::\d{2})?")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")
_LIMIT = re.compile(r"(?:max|min|ca|approx|[<>≤≥~≈±])\.?\s*", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:[-–—…]|\.\.\.?|to|bis)\s*")
_ADDRESS = re.compile(r"https?://\S+|\S+@\S+")
_RUN = re.compile(r"(.)\1+")
_SENTENCE_ENDS = (".", "!", "。", "！")
_QUESTION_ENDS = ("?", "？")
_PRIOR = 1.2  # log-odds of a header where the format or its mark suggests one, and against it elsewhere
_MIN_ABOVE_SCORE = 2.5  # of a header below other rows
_MAX_ABOVE_ROWS = 6
_MAX_PAIRS = 100  # rows of a table of labels and values
_MAX_LABEL_CHARS = 60
_NUMERIC_SHARE = 0.7  # of the cells of a column of numbers or dates
_MARKED_SCORE = 3.5  # log-odds of a header whose row the document sets apart, and of labels whose column it sets apart
_MARKED_SHARE = 0.3  # of the other rows or columns set apart, from which on that says nothing
_SERIES_SCORE = 2.0  # log-odds of a header whose names are counted: `Team 1 · Team 2`
_COUNTED = re.compile(r"(.*[\W\d_]|)([A-Za-z])|(.*\D)(\d{1,3})")


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
    if len(rows) < 2:
        return TableLayout()
    top = _header_at(rows, 0, likely=likely)
    if can_be_pairs and (not top or top.n_header == 1) and _pairs_score(rows) > max(_header_score(rows, likely=likely), 0):
        return TableLayout(is_pairs=True)
    starts = range(1, min(_MAX_ABOVE_ROWS, len(rows) // 2))
    return top or next(filter(None, (_header_at(rows, start, likely=likely) for start in starts)), TableLayout())


def _header_at(rows: Sequence[CellRow], start: int, *, likely: bool) -> TableLayout | None:
    """The layout with a header of one or two rows from row `start` on, below other rows only over numbers; None without one."""
    below = rows[start:]
    if joined := _two_header_rows(below):
        return TableLayout(joined, start, 2)
    score = _header_score(below, likely=likely)
    is_header = score > 0 if start == 0 else score >= _MIN_ABOVE_SCORE and _numeric_columns(below) > 0
    return TableLayout(join_header(below[:1]), start, 1) if is_header else None


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


def _series_place(text: str) -> tuple[str, int] | None:
    """A text that ends with a counting letter or number, without and with its place: `Team 2` is 2 of `Team `; None for another."""
    match = _COUNTED.fullmatch(text)
    return (match[1] or match[3] or "", ord(match[2]) if match[2] else int(match[4])) if match else None


def _are_counted(row: CellRow) -> bool:
    """Whether the cells of a row are the same but for what counts them: `Team 1 · Team 2`, `A · B`."""
    places = [_series_place(value) for value in row if value]
    return len(places) > 1 and all(a and b and a[0] == b[0] and b[1] == a[1] + 1 for a, b in pairwise(places))


def _is_series_head(rows: Sequence[CellRow]) -> bool:
    """Whether the cells of the first row count the columns, and those below are none of the same kind."""
    if not _are_counted(rows[0]):
        return False
    kind = next(_series_place(value) for value in rows[0] if value)
    return not any(place and kind and place[0] == kind[0] for row in rows[1:] for place in map(_series_place, row))


def _columns(rows: Iterable[CellRow]) -> list[list[str]]:
    return [[value for value in column if value] for column in zip_longest(*rows, fillvalue="")]


def _is_numeric(column: Sequence[str]) -> bool:
    return bool(column) and sum(map(_is_quantity, column)) >= _NUMERIC_SHARE * len(column)


def _is_quantity(text: str) -> bool:
    """Whether a cell is a number, date or time, or gives its limits: `0.2 - 0.35`, `max 0.025`. In a header these are names."""
    return is_value(text) or all(map(is_value, _RANGE.split(_LIMIT.sub("", text, count=1), maxsplit=1)))


def _numeric_columns(rows: Sequence[CellRow]) -> int:
    pairs = zip(rows[0], _columns(rows[1:]), strict=False)
    return sum(bool(name) and _is_numeric(column) and (not is_value(name) or _is_year(name)) for name, column in pairs)


def _is_year(text: str) -> bool:
    return bool(_YEAR.fullmatch(text))


def _header_score(rows: Sequence[CellRow], *, likely: bool) -> float:
    """The log-odds that the first row names the columns."""
    head, columns = list(rows[0]), _columns(rows[1:])
    named = [(name, column) for name, column in zip_longest(head, columns, fillvalue="") if name and isinstance(name, str)]
    names = [name.lower() for name, _ in named]
    years = [name for name, column in named if _is_year(name) and _is_numeric(column)]
    if not names or len(names) * 2 < len(head) or (len(years) == len(names) and head[0]):
        return -math.inf
    is_series, is_marked = _is_series_head(rows), _is_row_marked(rows)
    score = _PRIOR if (likely or is_series or is_marked) and len(head) > 1 else -_PRIOR
    n_numeric = n_named_values = 0
    for name, column in named:
        if is_value(name) and name not in years:
            n_named_values += 1
        elif _is_numeric(column):
            n_numeric += 1
    is_unsure = len(rows) == 2 or (len(named) == 2 and n_numeric and years)  # `Built 1871` may be a pair
    score += _MARKED_SCORE * (is_marked - _is_column_marked(rows))
    score += _SERIES_SCORE * (is_series and not any(map(_are_counted, rows[1:])))
    score += min(n_numeric and (1.5 if is_unsure else 3) + n_numeric - 1, 6) - 4 * n_named_values
    score -= 1.5 * min(len(names) - len(set(names)), 2)
    texts = [(name, [*column]) for name, column in named if not is_value(name) and not _is_numeric(column)]
    penalties = sum(_penalty(name) for name, column in named if not _is_numeric(column))
    return score + _difference(texts) + max(penalties, -3.0)


def _penalty(name: str) -> float:
    """The log-odds against a name by its length, end and digits."""
    if sum(map(str.isdigit, name)) > 2 and not _is_year(name):
        return -1.0
    if name.endswith(_SENTENCE_ENDS) and len(name) > 20:
        return -2.0
    return -1.0 if len(name) > 2 * _MAX_LABEL_CHARS and not name.endswith(_QUESTION_ENDS) else 0.0


def _difference(columns: Sequence[tuple[str, Sequence[str]]]) -> float:
    """The log-odds by columns of text: their names differ from the cells below in form, are none of them, and read like labels."""
    fresh = [(name, column) for name, column in columns if name.lower() not in {value.lower() for value in column}]
    # A few columns that repeat their name also occur in surveys: option, option or nothing.
    repeated = 8 * (1 - len(fresh) / len(columns)) if columns else 0.0
    forms = sum(_form_evidence(name, column) for name, column in fresh)
    novelty = sum(_novelty(column) for _, column in fresh)
    names = [label_score(name) for name, _ in columns]
    cells = [label_score(value) for _, column in columns for value in column[:10]]
    labels = 0.5 * (_clipped(fmean(names) - fmean(cells), 2) + _clipped(fmean(names), 2)) if names and cells else 0.0
    return min(max(forms, -1.0), 3.0) + min(novelty, 3.0) + labels - repeated


def _form_evidence(name: str, column: Sequence[str]) -> float:
    """The log-odds that a name is no cell of its column, by its sequence of capitals, letters and digits, and its length."""
    if not column:
        return 0.0
    forms = Counter(map(_form, column))
    n_same = forms[_form(name)] or sum(n == 1 for n in forms.values())  # a form not yet seen is as likely as one seen once
    share = (n_same + 0.5) / (len(column) + 1)
    is_long = fmean(map(len, column)) > 40 and len(name) < 25
    return min(max(math.log(0.3 / share), -0.4), 2.0) + 1.5 * is_long


def _form(text: str) -> str:
    kinds = ("A" if c.isupper() else "a" if c.isalpha() else "9" if c.isdigit() else c for c in text[:_MAX_LABEL_CHARS])
    return _RUN.sub(r"\1", "".join(kinds))


def _novelty(column: Sequence[str]) -> float:
    """The log-odds by the values of a column that repeat: a further cell would most likely be one of them (Good and Turing)."""
    counts = Counter(value.lower() for value in column)
    n_single = sum(n == 1 for n in counts.values())
    return min(-math.log((n_single + 1) / (len(column) + 1)), 2.0) if len(column) > n_single else 0.0


def _clipped(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _pairs_score(rows: Sequence[CellRow]) -> float:
    """The log-odds that a table of two columns has a label and its value in each row."""
    filled = [column for column in _columns(rows) if column]
    pairs = [[value for value in row if value] for row in rows]
    if len(filled) != 2 or len(rows) > _MAX_PAIRS or any(len(pair) > 2 for pair in pairs) or len(filled[0]) < len(rows):
        return -math.inf
    labels = [pair[0].lower() for pair in pairs if len(pair) == 2]
    if len(labels) < 2 or len(set(labels)) < len(labels) or not _are_labels(labels) or any(len(pair) != 2 for pair in pairs[:1]):
        return -math.inf
    values = [pair[1] for pair in pairs if len(pair) == 2]
    if _are_counted(pairs[0]):  # `Team 1` is not what `Team 2` names
        return -math.inf
    score = _MARKED_SCORE * (_is_column_marked(rows) - _is_row_marked(rows))
    score += 4.0 * (sum(label.endswith((":", "：")) for label in labels) >= 0.7 * len(labels))
    score += _clipped(fmean(map(label_score, labels[1:])), 2)
    is_year_label = _is_year(values[0]) and not any(map(_is_year, values[1:]))
    score += 2.5 - is_year_label if is_value(values[0]) else -_clipped(label_score(values[0]), 2.5)
    kinds = Counter(map(_kind, values[1:]))
    score += 1.5 * (len(values) > 3 and len(values) - 1 - max(kinds.values()) >= 0.25 * (len(values) - 1))
    return score + 0.5 * (len(values[0]) > 25) - 1.5 * (len(rows) > 30) - 1.5 * (len(rows) > 60)


def _are_labels(texts: Sequence[str]) -> bool:
    """Whether texts may be labels: short, and hardly any of them a number or a sentence."""
    unlikely = sum(is_value(text) or (text.endswith(_SENTENCE_ENDS) and len(text) > 20) for text in texts)
    return max(map(len, texts)) <= _MAX_LABEL_CHARS and unlikely <= 0.2 * len(texts)


def _kind(text: str) -> str:
    if _DATE.fullmatch(text):
        return "date"
    if _ADDRESS.fullmatch(text):
        return "address"
    return "number" if text[:1].isdigit() else "text"


def _two_header_rows(rows: Sequence[CellRow]) -> tuple[str, ...]:
    """The labels of a header of two rows, the first with cells that span columns; empty if the table has no such header."""
    if len(rows) < 3:
        return ()
    top, below = (list(row) for row in zip(*zip_longest(*rows[:2], fillvalue=""), strict=True))
    spans = [n for n in range(1, len(top)) if below[n] and top[n - 1] and (not top[n] or top[n] == top[n - 1])]
    for n in spans:
        top[n] = top[n] or top[n - 1]
    labels = join_header([top, below])
    spanned = sorted({*spans, *(n - 1 for n in spans)})
    distinct = {" ".join(filter(None, dict.fromkeys(pair))) for n, pair in enumerate(zip(top, below, strict=True)) if n in spanned}
    columns = _columns(rows[2:])
    if any(a and b and a != b for n, (a, b) in enumerate(zip(top, below, strict=True)) if n not in spanned):
        return ()  # each row begins with a label of its own
    if not spans or len(distinct) < len(spanned) or any(is_value(text) and not _is_year(text) for text in (*top, *below)):
        return ()
    if any(below[n] == top[n] or (n < len(columns) and below[n] in columns[n]) for n in spanned):
        return ()
    n_numeric = sum(n < len(columns) and _is_numeric(columns[n]) for n in spanned)
    return labels if 2 * n_numeric >= len(spanned) else ()
