"""Rows of an answer against the tables of its sources: a cell has to be equal to the one that has its row and its column."""

import pytest

from localrag.query.table_rows import compare_row, table_rows
from localrag.records import Quote

PLANS = """The plans compared:

| | Basic | Large |
|---|---|---|
| Boats | 1 | 10 |
| Length of a berth | 5 m | 12 m |
| Water | Unlimited | Unlimited |
| Electricity | | ✓ |
| Harbour office | Yes | Yes |

| Item | Price each (crowns) | Number |
|---|---:|---:|
| Basic, per boat and year | 40 | 31 |
| Large, per boat and year | 80 | 12 |

| No. | Task | Who | By |
|---|---|---|---|
| 1 | Paint the quay | Ines Moreau | 28 March |
| 2 | Repair both cranes | Callum Reid | 4 April |
"""
PORTS = "name: Skua · built: 1931 · length: 41 m\nname: Petrel · built: 1954 · length: 38 m"


def said(row, columns, text=PLANS):
    """Whether a text's tables say a row, and the lines that say so."""
    found = compare_row(row.split(" | "), columns.split(" | "), table_rows([Quote("a", 7, 7 + len(text), text)]))
    assert all(text[q.start - 7 : q.end - 7] == q.text for q in found.lines)
    return found.is_said


@pytest.mark.parametrize(
    ("row", "columns", "is_said"),
    [
        ("Boats | 1 | 10", " | Basic | Large", True),
        ("Boats | 10 | 1", " | Large | Basic", True),
        ("Boats | 10 | 1", " | Basic | Large", False),  # exchanged
        ("Berth length | 5 m | 12 m", "What | Basic | Large", True),
        ("Length of a berth | 12 m", "What | Basic", False),
        ("Water | limited | unlimited", " | Basic | Large", False),
        ("Electricity | no | yes", " | Basic | Large", True),  # an empty cell, and a tick
        ("Electricity | yes | yes", " | Basic | Large", False),
        ("Basic | 1 | yes", "Plan | Boats | Harbour office", True),  # rows are columns
        ("Basic | 10 | yes", "Plan | Boats | Harbour office", False),
        ("Price per boat and year | 40 crowns | 80 crowns", " | Basic | Large", True),
        ("Price per boat and year | 80 crowns", " | Basic", False),
        ("Paint the quay | Ines Moreau | 28 March", "Action | Person | Deadline", True),  # by the order of the cells
        ("Paint the quay | 28 March | Ines Moreau", "Action | Person | Deadline", None),
        ("Paint the quay | Callum Reid | 28 March", "Action | Who | Deadline", False),
        ("Dredging | 3 | 4", " | Basic | Large", None),  # no such row
        ("Boats", "", None),
    ],
)
def test_a_row_holds_where_each_cell_is_equal_in_its_row_and_column(row, columns, is_said):
    """Values below another label, of another row, yes for no and another unit are refused; a table may be turned."""
    assert said(row, columns) is is_said


@pytest.mark.parametrize(
    ("row", "columns", "is_said"),
    [
        ("Skua | 1931 | 41 m", "Boat | Built | Length", True),
        ("Skua | 1954 | 41 m", "Boat | Built | Length", False),
        ("Petrel | 41 m", "Boat | Length", False),
        ("Heron | 1931", "Boat | Built", None),
    ],
)
def test_rows_that_name_their_columns_are_a_table(row, columns, is_said):
    """So do loaders write tables of most formats."""
    assert said(row, columns, PORTS) is is_said


def test_a_table_without_labels_proves_its_order_alone():
    """Of a table cut off from its labels, values in another order are not decided."""
    cut = "| Boats | 1 | 10 |\n| Water | 3 | 4 |"

    assert said("Boats | 1 | 10", " | Basic | Large", cut) is True
    assert said("Boats | 10 | 1", " | Basic | Large", cut) is None
