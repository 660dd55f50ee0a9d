"""Questions that ask for all records of a kind are answered with them, counted; others are not."""

import pytest

from localrag.index import Index
from tests.analysis.made import make_index

SHIPS = """ship,built,yard,crew,fate
Skua,1974,Bergen,12,sank
Tern,1981,Hull,30,scrapped
Heron,1990,Bergen,8,sank
"""
REASON = "it asks for all records of a kind"


@pytest.fixture(scope="module")
def ask(tmp_path_factory, home):
    """A function that asks about a table of three ships and a note."""
    documents = {"ships.csv": SHIPS, "note.md": "The harbour has four cranes. Two of them were bought in 1999.\n"}
    with Index.open(make_index(tmp_path_factory.mktemp("ships"), documents)) as index:
        yield lambda question: index.ask(question, style="extractive")


@pytest.mark.parametrize(
    ("question", "items"),
    [
        ("How many ships sank?", ["Skua", "Heron"]),
        ("List all ships built in Bergen", ["Skua", "Heron"]),
        ("Which ships were built after 1980?", ["Tern", "Heron"]),
    ],
)
def test_a_question_for_all_of_a_kind_is_answered_with_the_records_and_their_number(ask, question, items):
    """Each with its citation; the note says that all records were compared."""
    answer = ask(question)

    assert answer.reason == REASON
    assert answer.answer.startswith(f"{len(items)} of 3 records match (ships.csv):\n\n- {items[0]} [1]")
    assert [c.quote.split(" · ")[0] for c in answer.citations] == [f"ship: {item}" for item in items]
    assert answer.note.startswith("All 3 records were compared")


@pytest.mark.parametrize(
    "question",
    [
        "How many crew did the Skua have?",
        "How many cranes does the harbour have?",
        "How many ships were hijacked?",
        "When was the Tern built?",
    ],
)
def test_a_question_for_one_fact_is_answered_from_the_passages(ask, question):
    """Also where it begins like one for a number of records."""
    assert ask(question).reason != REASON


def test_where_prose_is_asked_for_all_the_answer_says_that_it_is_not_complete(ask):
    """Passages are the nearest ones; a fact that the reader is sure of needs no such note."""
    assert "not all that match" in ask("List all cranes that were bought in 1999").note
    assert "not all that match" not in ask("When was the Tern built?").note
