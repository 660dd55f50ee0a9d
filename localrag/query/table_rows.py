"""Tables in passages, and whether they say a row of an answer: each cell is compared with the cells that have its row and its column.

A table is written with pipes and labelled columns (Markdown), or as rows of `label: value · label: value`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from localrag.entailment import parse_sentence
from localrag.entailment.lexicon import are_antonyms, chinese_quantities, english_quantities
from localrag.entailment.normalization import normalize_sentence
from localrag.query.answer_markdown import RULE_ROW, TABLE_ROW, row_cells
from localrag.records import Quote
from localrag.text.sentences import STOP_WORDS, cjk_bigrams, is_cjk

YES_VALUES = frozenset("yes y true ✓ ✔ ✅ x included ja oui sí 是 有".split())
NO_VALUES = frozenset("no n false ✗ ✘ ❌ - – — none nein non n/a 否 无 没有".split()) | {""}
MIN_SIMILARITY = 0.5  # share of the words of two keys, or of two labels, that both have


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a table in a passage: its line, and its cells with the labels of their columns, which are empty if the table has none."""

    line: Quote
    cells: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Whether tables say a row of an answer: True, False if a cell has another value there (`value`), None if that is not decided."""

    is_said: bool | None
    lines: tuple[Quote, ...] = ()
    value: str = ""


def lines_of(passage: Quote) -> Iterator[Quote]:
    """The lines of a passage that are not blank, without the space around them."""
    at = 0
    for line in passage.text.splitlines(keepends=True):
        text = line.strip()
        start = passage.start + at + len(line) - len(line.lstrip())
        at += len(line)
        if text:
            yield Quote(passage.chunk_id, start, start + len(text), text)


def table_rows(passages: Sequence[Quote]) -> list[SourceRow]:
    """The rows of all tables in some passages, without those of labels."""
    found: list[SourceRow] = []
    for passage in dict.fromkeys(passages):
        labels: tuple[str, ...] = ()
        was_row = False
        for line in lines_of(passage):
            is_row = bool(TABLE_ROW.fullmatch(line.text))
            if is_row and RULE_ROW.fullmatch(line.text) and was_row:
                labels = found.pop().cells
            elif is_row:
                cells = row_cells(line.text)
                labels = labels if was_row else ()
                found.append(SourceRow(line, cells, (*labels, *[""] * len(cells))[: len(cells)]))
            elif pairs := _labelled_cells(line.text):
                found.append(SourceRow(line, tuple(value for _, value in pairs), tuple(label for label, _ in pairs)))
            was_row = is_row
    return found


def _labelled_cells(line: str) -> list[tuple[str, str]]:
    """The labels and values of a row as `label: value · label: value`; empty if a line is none."""
    if " · " not in line:
        return []
    parts = (cell.partition(":") for cell in line.split(" · "))
    return [(label.strip(), normalize_sentence(value.strip())) for label, colon, value in parts if colon]


def compare_row(cells: Sequence[str], columns: Sequence[str], rows: Sequence[SourceRow]) -> RowComparison:
    """Whether tables with some rows say a row of an answer, whose first cell names what it is about and whose columns have these labels."""
    key, heads = cells[0], (*columns[1:], *[""] * len(cells))
    wanted = [(head, value) for head, value in zip(heads, cells[1:], strict=False) if value.strip()]
    if not wanted or not _word_stems(key):
        return RowComparison(None)
    lines: list[Quote] = []
    after = -1  # the column of the last value whose label the table lacks: those come in the order of the table
    for head, value in wanted:
        labelled = _matching_cells(key, head, rows)
        places = labelled or [place for place in _unlabelled_cells(key, head, heads, rows) if place[1] > after]
        said = {_is_equal(value, row.cells[n], row.labels[n], is_labelled=bool(labelled)): (row.line, n) for row, n in reversed(places)}
        if True in said:
            lines.append(said[True][0])
            after = after if labelled else said[True][1]
        elif False in said:
            return RowComparison(False, (said[False][0],), value)
        else:
            return RowComparison(None)
    return RowComparison(True, tuple(dict.fromkeys(lines)))


def _matching_cells(key: str, head: str, rows: Sequence[SourceRow]) -> list[tuple[SourceRow, int]]:
    """The rows and columns that fit the key and the label of an answer's cell best, also where rows are columns there."""
    found, best = list[tuple[SourceRow, int]](), 2 * MIN_SIMILARITY
    asked = _word_stems(key) | _word_stems(head)
    for row in rows:
        subjects = row.cells[:2] if len(row.cells) > 2 else row.cells[:1]
        if all(asked.isdisjoint(_word_stems(subject)) for subject in subjects):
            continue
        for column, label in enumerate(row.labels):
            for subject in (s for n, s in enumerate(subjects) if n != column):
                fit = max(_address_match((key, head), (subject, label)), _address_match((head, key), (subject, label)))
                if fit > best:
                    found, best = [], fit
                if fit == best:
                    found.append((row, column))
    return found


def _address_match(wanted: tuple[str, str], found: tuple[str, str]) -> float:
    """How well a key and a label are those of a cell, up to 2; 0 if one of them is not."""
    likes = [_jaccard(_word_stems(a), _word_stems(b)) for a, b in zip(wanted, found, strict=True)]
    if min(likes) >= MIN_SIMILARITY:
        return sum(likes)
    together = _jaccard(frozenset().union(*map(_word_stems, wanted)), frozenset().union(*map(_word_stems, found)))
    return 2 * together if min(likes) > 0 and together > MIN_SIMILARITY else 0.0


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def _unlabelled_cells(key: str, head: str, heads: Sequence[str], rows: Sequence[SourceRow]) -> list[tuple[SourceRow, int]]:
    """The cells of the rows that are about the key best, but for that of the key and those below the label of another column."""
    scores = [max((_jaccard(_word_stems(key), _word_stems(cell)) for cell in row.cells), default=0.0) for row in rows]
    best = max(scores, default=0.0)
    if best < MIN_SIMILARITY:
        return []
    others = [_word_stems(other) for other in heads if other != head]
    return [
        (row, column)
        for row, score in zip(rows, scores, strict=True)
        if score == best
        for column, (label, cell) in enumerate(zip(row.labels, row.cells, strict=True))
        if _jaccard(_word_stems(key), _word_stems(cell)) < best
        and not any(_jaccard(_word_stems(label), other) >= MIN_SIMILARITY for other in others)
    ]


def _is_equal(value: str, cell: str, label: str, *, is_labelled: bool) -> bool | None:
    """Whether a value is that of a cell; None if that cannot be told.

    In a cell that no label names (`is_labelled`), another number is another value only if it counts the same.
    """
    mine, other = _truth(value), _truth(cell)
    if mine is not None and other is not None:
        return mine == other
    numbers, others = _numbers(value), _numbers(cell)
    words, theirs = _word_stems(value) - _word_stems(label) - numbers, _word_stems(cell) - others
    if numbers or others:
        if numbers == others:
            is_other_unit = is_labelled and len(words) == len(theirs) == 1
            return True if words <= theirs else False if is_other_unit else None
        is_comparable = is_labelled or words == theirs != frozenset()
        return False if is_comparable and numbers and others and numbers.isdisjoint(others) else None
    if words and words <= theirs:
        return True
    is_named = all(word[:1].isupper() for text in (value, cell) for word in text.split())
    opposite = are_antonyms(frozenset({value.lower().strip()}), frozenset({cell.lower().strip()}), "en")
    return False if theirs and (opposite or (is_named and words.isdisjoint(theirs))) else None


def _truth(text: str) -> bool | None:
    said = text.strip(" .*").lower()
    return True if said in YES_VALUES else False if said in NO_VALUES else None


@lru_cache(maxsize=8192)
def _numbers(text: str) -> frozenset[str]:
    return frozenset(found.value for found in (chinese_quantities(text) if is_cjk(text) else english_quantities(text)))


@lru_cache(maxsize=8192)
def _word_stems(text: str) -> frozenset[str]:
    """The stems of a text's words and its numbers."""
    words = (w for w in re.findall(r"[^\W\d_]+|[%£$€]", text.lower()) if not is_cjk(w) and w not in STOP_WORDS)
    return frozenset(w[:5] for w in words) | frozenset(cjk_bigrams(text).split()) | _numbers(text)


def stating_row(claim: str, passages: Sequence[Quote]) -> Quote | None:
    """A row of a table that says a claim; None if there is none.

    It has all words of the claim. Each number of the claim is in a cell whose label the claim names, or that names what the row is about.
    """
    said = normalize_sentence(claim)
    wanted, numbers = _word_stems(said), _numbers(said)
    if not numbers or any(clause.negated for clause in parse_sentence(said).clauses):
        return None
    for row in table_rows(passages):
        cells = [(_word_stems(label), _word_stems(value)) for label, value in zip(row.labels, row.cells, strict=True)]
        subjects = [value for _, value in cells if value & wanted - numbers]
        named = [value for label, value in cells if label & wanted]
        everything = frozenset[str]().union(*(label | value for label, value in cells))
        if subjects and named and wanted <= everything and all(any(n in value for value in (*subjects, *named)) for n in numbers):
            return row.line
    return None
