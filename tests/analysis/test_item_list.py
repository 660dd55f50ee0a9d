"""Lists: all items of a kind, each with the statement that shows it."""

import pytest

from localrag.analysis.item_list import CANDIDATES
from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.index import Index
from localrag.store.filtered import NoMatchingDocuments
from tests.analysis.made import make_index

SHIPS = """ship,built,yard,owner,fate
Skua,1974,Bergen,Holm,sank
Tern,1981,Hull,Holm,scrapped
Heron,1990,Bergen,Baltic Freight,sank
Gull,2001,Lisbon,the Crown,still sails
"""
SUPPLIERS = """| Supplier | Town | Product | Certified | Late |
|---|---|---|---|---|
| Vey Tools | Bergen | rope | yes | 0 |
| Holm & Sons | Hull | sail cloth | no | 3 |
| Ostra GmbH | Kiel | paint | yes | 1 |
"""
PROSE = """# Letters

Odile Marsh was elected chairwoman of the harbour board. Idris Kovac was fired in May. Nobody liked the new crane.

The weather was fine. Petra Niel was fired in August, after the fire. Lena Brandl keeps the books.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """An index of a table of four ships, twice, of another table, and of prose."""
    documents = {"ships.csv": SHIPS, "copy.csv": SHIPS, "suppliers.md": SUPPLIERS, "letters.md": PROSE}
    return make_index(tmp_path_factory.mktemp("ships"), documents)


@pytest.fixture(scope="module")
def made(folder):
    """A function that makes the list of a request."""
    with Index.open(folder) as index:
        yield index.list_items


def names(table):
    return [row.cells[0].text for row in table.rows]


@pytest.mark.parametrize(
    ("request_text", "items"),
    [
        ("all ships that sank", ["Skua", "Heron"]),
        ("ships that did not sink", ["Tern", "Gull"]),
        ("ships built after 1980", ["Tern", "Heron", "Gull"]),
        ("ships built in Bergen", ["Skua", "Heron"]),
        ("ships built in Hull or Lisbon", ["Tern", "Gull"]),
        ("How many ships are there?", ["Skua", "Tern", "Heron", "Gull"]),
        ("Which suppliers are not certified?", ["Holm & Sons"]),
        ("suppliers of sail cloth or paint", ["Holm & Sons", "Ostra GmbH"]),
    ],
)
def test_the_rows_of_a_table_that_meet_all_conditions_are_items(made, request_text, items):
    """Words, numbers, years, negations and choices, each in the column that it is meant of, in the table that is about the noun."""
    assert sorted(names(made(request_text))) == sorted(items)


@pytest.mark.parametrize("request_text", ["ships that were hijacked", "ships built in Oslo", "ships hijacked by Holm in Oslo", "trains"])
def test_nothing_is_listed_where_no_row_meets_a_condition(made, request_text):
    """Also where another condition is met."""
    assert names(made(request_text)) == []


def test_a_record_that_two_documents_have_is_one_item(made):
    """It cites both; the list says how many items it has and what was compared, as figures and in words."""
    table = made("all ships that sank")

    assert [row.cells[2].text for row in table.rows] == ["copy.csv, ships.csv"] * 2
    assert all(c.quote.startswith("ship: ") for c in table.citations)
    assert table.figures == {"records_compared": 8, "items": 2, "candidates": 0}
    assert table.note == "All 8 rows of the tables that fit best were compared. Prose is not part of the list."


def test_out_of_prose_come_candidates_without_a_count(made):
    """The entities of the type that is asked for, each with the sentence that has most of the request."""
    table = made("people who were fired")

    assert {"Idris Kovac", "Petra Niel"} <= set(names(table)[:2])
    assert "was fired" in table.rows[0].cells[1].text
    assert (table.figures["items"], table.note) == (0, CANDIDATES)


def test_what_asks_for_nothing_is_refused(made):
    """An empty request, and a selection without documents."""
    with pytest.raises(UsageError):
        made("  ")
    with pytest.raises(NoMatchingDocuments):
        made("all ships", selection=DocumentFilter("path = nowhere/*"))
