"""Lists: all items of a kind, each with the statement that shows it."""

import pytest

from localrag.errors import UsageError
from localrag.index import Index

SHIPS = "ship,built,fate\nSkua,1974,sank\nTern,1981,scrapped\nHeron,1990,sank\nGull,2001,sails\n"


@pytest.fixture(scope="module")
def ships(tmp_path_factory, home):
    """An index of a table of four ships, twice."""
    folder = tmp_path_factory.mktemp("ships")
    for name in ("ships.csv", "copy.csv"):
        (folder / name).write_text(SHIPS, encoding="utf-8")
    with Index.create(folder, extractor="phrases") as index:
        index.add(folder)
    return folder


@pytest.mark.parametrize(
    ("request_text", "items"),
    [
        ("all ships that sank", {"Skua", "Heron"}),
        ("ships built after 1980", {"Tern", "Heron", "Gull"}),
        ("ships", {"Skua", "Tern", "Heron", "Gull"}),
    ],
)
def test_the_rows_of_a_table_that_match_are_items(ships, request_text, items):
    """Each once, however many documents have it; quotes are verbatim."""
    with Index.open(ships) as index:
        table = index.list_items(request_text)
    assert {row.cells[0].text for row in table.rows} == items
    assert len(table.rows) == len(items)
    assert all("Skua" in c.quote or c.quote for c in table.citations)


def test_an_empty_request_is_refused(ships):
    """With a hint."""
    with Index.open(ships) as index, pytest.raises(UsageError):
        index.list_items("  ")
