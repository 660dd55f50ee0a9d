"""Tables that stand side by side on a sheet, in every format of workbooks."""

import pytest

from localrag.loaders.sheet_tables import sheet_lines
from localrag.loaders.spans import CellRange
from tests.indexing import files as files_indexing
from tests.loaders import office_files as made
from tests.loaders.test_load import read, write

BESIDE = """
Boat|Berth||Pilot|Zone
Skua|41||Ruth Sand|Inner
Tern|7||Lars Holm|Outer
|||Bo Rask|Inner
|||Ane Holt|Outer
"""
APART = [
    "Boat: Skua · Berth: 41",
    "Boat: Tern · Berth: 7",
    "",
    "Pilot: Ruth Sand · Zone: Inner",
    "Pilot: Lars Holm · Zone: Outer",
    "Pilot: Bo Rask · Zone: Inner",
    "Pilot: Ane Holt · Zone: Outer",
]


def grid(source):
    return [line.split("|") for line in source.strip("\n").split("\n")]


def lines(source, ranges=()):
    return list(sheet_lines(enumerate(grid(source)), ranges))


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods", "a.xls"])
def test_tables_side_by_side_have_each_its_own_header(tmp_path, name):
    """They are read one after the other."""
    rows = [[int(text) if text.isdecimal() else text for text in row] for row in grid(BESIDE)]
    sources = {
        "a.xlsx": made.xlsx(rows),
        "a.ods": files_indexing.opendocument("spreadsheet", files_indexing.table(*grid(BESIDE))),
        "a.xls": made.xls(grid(BESIDE)),
    }

    assert read(write(tmp_path, {name: sources[name]}) / name).text.splitlines()[-len(APART) :] == APART


def test_a_table_that_begins_further_down_is_another_one():
    """Its header is in the rows of the table beside it."""
    source = "Boat|Berth||\nSkua|41||Pilot|Zone\nTern|7||Ruth Sand|Inner\nGannet|9||Lars Holm|Outer"

    assert lines(source)[3:] == ["", "Pilot: Ruth Sand · Zone: Inner", "Pilot: Lars Holm · Zone: Outer"]


def test_tables_of_the_same_columns_are_told_apart_by_their_names():
    """Also where both are as long, and where their rows begin with numbers."""
    assert lines("Year|Births||Year|Deaths\n1871|7||1901|3\n1872|9||1902|4")[2:] == [
        "",
        "Year: 1901 · Deaths: 3",
        "Year: 1902 · Deaths: 4",
    ]


def test_labels_and_values_beside_a_table_are_apart_from_it():
    """Each in its own form."""
    assert lines("Owner:|Ruth Sand||Boat|Berth\nPort:|Vardby||Skua|41\nPhone:|555-1234||Tern|7")[:4] == [
        "Owner: Ruth Sand",
        "Port: Vardby",
        "Phone: 555-1234",
        "",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "Boat|Port||Tons|Crew\nSkua|Vardby||31|4\nTern|Ness||28|3\nGannet|Ness||30|\nPetrel|Ness||||",
        "Name|Office||Mail|Phone\nRuth Sand|Pilot||ruth@vardby.example|555\nBo Rask|Keeper||bo@ness.example|556",
        "Boat|Berth||Note\nSkua|41||leaks\nTern|7||",
    ],
    ids=["numbers of the rows", "as long as the rest", "a single column"],
)
def test_an_empty_column_within_a_table_divides_it_in_no_way(source):
    """Its rows stay whole."""
    first = lines(source)[0]

    assert first == " · ".join(f"{name}: {value}" for name, value in zip(*grid(source)[:2], strict=True) if name)


def test_what_stands_above_and_below_tables_side_by_side_is_read_in_its_place():
    """In the order of the rows."""
    found = lines(f"Harbour report\n{BESIDE}\nTotal|2||Total|4".replace("\n\n", "\n||||\n"))

    assert found[0] == "Harbour report"
    assert found[2:9] == APART
    assert "Total" in found[-1]


def test_spanning_cells_of_tables_side_by_side_are_repeated_within_their_own():
    """Their columns are counted from the left edge of the table."""
    source = "Zone|Boat||Zone|Pilot\nInner|Skua||Outer|Ruth Sand\n|Tern|||Lars Holm\n|||North|Bo Rask\n|||South|Ane Holt"
    found = lines(source, [CellRange(1, 0, 2, 0), CellRange(1, 3, 2, 3)])

    assert found[1] == "Zone: Inner · Boat: Tern"
    assert found[4] == "Zone: Outer · Pilot: Lars Holm"


def test_a_long_sheet_is_read_row_by_row():
    """Without waiting for its end."""

    def endless():
        yield 0, ["Boat", "Berth"]
        n = 1
        while True:
            yield n, [f"Boat {n}", str(n)]
            n += 1

    assert next(sheet_lines(endless(), ())) == "Boat: Boat 1 · Berth: 1"
