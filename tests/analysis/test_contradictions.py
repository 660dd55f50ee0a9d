"""Contradictions: statements that cannot both be true, with both quotes."""

import pytest

from localrag.index import Index

TEXTS = {
    "old.txt": "The fee for the berth is 1,200 crowns a month. The harbour office is open on Mondays. Ingrid Holm feeds the gulls.\n",
    "new.txt": "The fee for the berth is 1,500 crowns a month. The harbour office has a blue door. The tide came in at noon.\n",
    "copy.txt": "The harbour office is open on Mondays. The nets are dried on the long pier behind the shed.\n",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory, home):
    """The contradictions of three notes."""
    folder = tmp_path_factory.mktemp("notes")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Index.create(folder, extractor="phrases") as index:
        index.add(folder)
        return index.contradictions()


def test_two_fees_for_one_berth_contradict_each_other(table):
    """Both quotes, and what differs."""
    first = table.rows[0].cells
    assert {c.quote for cell in first for c in cell.citations} >= {
        "The fee for the berth is 1,200 crowns a month.",
        "The fee for the berth is 1,500 crowns a month.",
    }
    assert "1,200" in first[2].text
    assert "1,500" in first[2].text


def test_the_same_statement_twice_is_no_contradiction(table):
    """Nor are statements about different things."""
    quotes = [c.quote for row in table.rows for cell in row.cells for c in cell.citations]
    assert "The harbour office is open on Mondays." not in quotes


def test_quotes_stand_in_their_documents(table):
    """At their offsets."""
    for c in table.citations:
        assert c.quote == TEXTS[c.path][c.start : c.end]


def test_one_sentence_contradicts_nothing(tmp_path):
    """The table is empty."""
    (tmp_path / "a.txt").write_text("The tide came in at noon.\n", encoding="utf-8")
    with Index.create(tmp_path, extractor="phrases") as index:
        index.add(tmp_path)
        assert index.contradictions().rows == ()
