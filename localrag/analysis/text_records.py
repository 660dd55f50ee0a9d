"""Records in documents: rows of tables, objects of JSON files, and files of `label: value` lines, with their cells.

Loaders write a row as `Header: value · Header: value` and an object as lines `key: value`; Markdown tables stay as they are. Records with the
same labels make one table, also across documents.
"""  # noqa: E501

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, repeat

from localrag.analysis.placed_sentences import OpenedDocument

MAX_LABEL_WORDS = 8
MIN_SHARED_LABELS = 0.6  # share of a record's labels that its table has
MAX_COMPARED = 20  # tables whose labels are compared with those of another
MIN_KEY_SHARE = 0.9  # share of different values in a column that names its records
_NUMBERED = re.compile(r"([^\d\n]{0,80}?)\.?(?<![^.])(\d{1,9})\.([^\n]{1,200})$")
_CELL = re.compile(r"([^:：?？\n]{1,80})(?:[:：](?: |$)|([?？]) )")
_RULE = re.compile(r"(?=[ \t:|+]*+-)[ \t:|+-]++")
_NUMBER = re.compile(r"[-+]?[\d.,%]+")
_NUMBER_LABEL = re.compile(
    r"\b(?:id|no|nr|number|nummer|code|key|year|jahr|date|datum|fecha|année|año)\b|编号|号码|年份|日期", re.IGNORECASE
)
_NAME_LABEL = re.compile(r"^(?:full )?(?:name|title|titel|nom|nombre|titre|bezeichnung|名称|名字|姓名)$", re.IGNORECASE)
Cells = tuple[tuple[str, str], ...]  # (label, value)


@dataclass(frozen=True, slots=True)
class TextRecord:
    """A record at characters `start` to `end` of a document."""

    source: OpenedDocument
    start: int
    end: int
    cells: Cells

    @property
    def text(self) -> str:
        """Its text in the document."""
        return self.source.document.text[self.start : self.end]

    def value(self, label: str) -> str:
        """The value of a cell; empty without it."""
        return next((value for name, value in self.cells if name == label), "")


@dataclass(slots=True)
class RecordTable:
    """Records with the same labels. `labels`: in their order; `is_keyed`: they are `label: value` lines."""

    labels: dict[str, None]
    is_keyed: bool
    records: list[TextRecord] = field(default_factory=list)

    def holds(self, cells: Cells) -> bool:
        """Whether a record's labels are those of the table."""
        names = {name for name, _ in cells}
        return sum(name in self.labels for name in names) >= MIN_SHARED_LABELS * len(names)

    @property
    def key_label(self) -> str:
        """The label of the cells that name a record: the first column whose values nearly all differ.

        Columns called a name come before others, and those before identifiers. Numbers name records only where their label says so. Empty
        without such a column: then each record is an item of its own.
        """
        distinct = [dict(reversed(cells)) for cells in {r.cells: None for r in self.records}]
        counts = Counter(label for cells in distinct for label, value in cells.items() if value)
        for label in sorted(filter(None, self.labels), key=_key_order):
            if counts[label] < MIN_KEY_SHARE * len(distinct):
                continue
            values = [value.casefold() for cells in distinct if (value := cells.get(label, ""))]
            is_unique = len(set(values)) >= MIN_KEY_SHARE * len(distinct)
            is_words = sum(not _NUMBER.fullmatch(v) for v in values) > len(values) / 2
            if is_unique and (is_words or is_identifier(label)):
                return label
        return ""


def _key_order(label: str) -> int:
    return 0 if _NAME_LABEL.search(label) else 2 if is_identifier(label) else 1


def is_identifier(label: str) -> bool:
    """Whether a label says that its values are numbers that name something, or years and dates."""
    return bool(_NUMBER_LABEL.search(label))


def record_tables(sources: Sequence[OpenedDocument] | Iterator[OpenedDocument]) -> list[RecordTable]:
    """The tables of documents, in their order. A single block of `label: value` lines is no table.

    A table joins one with the same labels, or one of the last MAX_COMPARED with the same first label that has most of its labels.
    """
    merged: dict[tuple[str, bool], list[RecordTable]] = {}
    same: dict[tuple[frozenset[str], bool], RecordTable] = {}
    for source in sources:
        for table in _tables_of(source):
            same_first = merged.setdefault((next(iter(table.labels), ""), table.is_keyed), [])
            cells, key = tuple((name, "") for name in table.labels), (frozenset(table.labels), table.is_keyed)
            other = same.get(key) or next((t for t in same_first[-MAX_COMPARED:] if t.holds(cells)), None)
            if other is None or not any(table.labels):
                same_first.append(table)
            else:
                other.labels |= table.labels
                other.records += table.records
            same[key] = other or table
    return [t for tables in merged.values() for t in tables if len(t.records) > 1 or not t.is_keyed]


def _tables_of(source: OpenedDocument) -> list[RecordTable]:
    tables: list[RecordTable] = []
    for record, is_keyed in records_in(source):
        table = next((t for t in reversed(tables[-3:]) if t.is_keyed is is_keyed and t.holds(record.cells)), None)
        if table is None:
            tables.append(table := RecordTable({}, is_keyed))
        table.labels |= dict.fromkeys(name for name, _ in record.cells)
        table.records.append(record)
    return tables


def records_in(source: OpenedDocument) -> Iterator[tuple[TextRecord, bool]]:
    """The records of a document in order, and whether each is of `label: value` lines."""
    text = source.document.text
    if " · " not in text and "|" not in text and ": " not in text:
        return
    lines = list(_lines(text))
    n = 0
    while n < len(lines):
        start, end = lines[n]
        line = text[start:end]
        if line.lstrip().startswith("|"):
            last = _run(text, lines, n, lambda other: other.lstrip().startswith("|"))
            yield from ((record, False) for record in _markdown_cells(source, lines[n:last]))
            n = last
        elif " · " in line:
            if (cells := _row_cells(line)) is not None:
                yield TextRecord(source, start, end, cells), False
            n += 1
        elif _labelled(line) is not None:
            last = _run(text, lines, n, lambda other: " · " not in other and _labelled(other) is not None)
            yield from ((record, True) for record in _keyed(source, lines[n:last]))
            n = last
        else:
            n += 1


def _keyed(source: OpenedDocument, lines: Sequence[tuple[int, int]]) -> Iterator[TextRecord]:
    """The records of `label: value` lines: one, or one for each number in labels such as `ships.2.name`, with the number left out."""
    text = source.document.text
    pairs = [(span, _labelled(text[slice(*span)]) or ("", "")) for span in lines]
    for numbered, group in groupby(pairs, lambda pair: m.group(1, 2) if (m := _NUMBERED.match(pair[1][0])) else None):
        members = list(group)
        cells = tuple((_NUMBERED.sub(r"\3", label), value) for _, (label, value) in members)
        if len(cells) > 1 or numbered:
            yield TextRecord(source, members[0][0][0], members[-1][0][1], cells)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _run(text: str, lines: Sequence[tuple[int, int]], first: int, is_part: Callable[[str], bool]) -> int:
    """The number of the line after a run of lines that pass a test."""
    last = first + 1
    while last < len(lines) and is_part(text[slice(*lines[last])]):
        last += 1
    return last


def _row_cells(line: str) -> Cells | None:
    cells = tuple(_labelled(cell) or ("", cell.strip()) for cell in line.split(" · "))
    return cells if 2 * sum(bool(label) for label, _ in cells) >= len(cells) else None


def _labelled(cell: str) -> tuple[str, str] | None:
    """Label and value of `label: value`; None for other text."""
    found = _CELL.match(cell)
    if found is None:
        return None
    label, value = found[1].strip(" \t-*•") + (found[2] or ""), cell[found.end() :].strip()
    return (label, value) if label and value and len(label.split()) <= MAX_LABEL_WORDS else None


def _markdown_cells(source: OpenedDocument, lines: Sequence[tuple[int, int]]) -> Iterator[TextRecord]:
    """The rows of a Markdown table, below its header if it has one."""
    text = source.document.text
    rows = [[cell.strip(" \t*`") for cell in text[a:b].strip().strip("|").split("|")] for a, b in lines]
    rules = [n for n, (a, b) in enumerate(lines) if _RULE.fullmatch(text[a:b])]
    header = rows[rules[0] - 1] if rules and rules[0] > 0 else []
    is_rule = set(rules)
    for n, (a, b) in enumerate(lines):
        if n in is_rule or (rules and n < rules[0]):
            continue
        cells = tuple((name, value) for name, value in zip(chain(header, repeat("")), rows[n], strict=False) if value)
        if cells:
            yield TextRecord(source, a, b, cells)


def chunk_at(source: OpenedDocument, offset: int) -> str:
    """The id of the chunk that a character is in; of two that overlap, the later."""
    n = bisect_right(source.chunks, offset, key=lambda chunk: chunk.start)
    return source.chunks[n - 1].id if n else ""
