"""Contradictions: statements that cannot both be true, with both quotes."""

import pytest

from localrag.analysis.contradiction_score import needs_context, prior_log_odds, shares_enough_words
from localrag.analysis.differences import differences
from localrag.filters import DocumentFilter
from localrag.index import Index
from localrag.store.filtered import NoMatchingDocuments

TEXTS = {
    "old.txt": "The fee for the berth is 1,200 crowns a month. The harbour office is open on Mondays. Ingrid Holm feeds the gulls.\n",
    "new.txt": "The fee for the berth is 1,500 crowns a month. The harbour office has a blue door. The tide came in at noon.\n",
    "copy.txt": "The harbour office is open on Mondays. The nets are dried on the long pier behind the shed.\n",
    "new again.txt": "The fee for the berth is 1,500 crowns a month. The harbour office has a blue door. The tide came in at noon.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory, home):
    """An index of four notes, of which two are copies of each other."""
    folder = tmp_path_factory.mktemp("notes")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Index.create(folder, extractor="phrases") as made:
        made.add(folder)
        yield made


@pytest.fixture(scope="module")
def table(index):
    """The contradictions of the notes."""
    return index.contradictions()


def quotes_of(table):
    """All that a table quotes."""
    return [c.quote for row in table.rows for cell in row.cells for c in cell.citations]


def test_two_fees_for_one_berth_contradict_each_other(table):
    """Both quotes, and what differs."""
    first = table.rows[0].cells
    assert {c.quote for cell in first for c in cell.citations} >= {
        "The fee for the berth is 1,200 crowns a month.",
        "The fee for the berth is 1,500 crowns a month.",
    }
    assert "1,200" in first[2].text
    assert "1,500" in first[2].text


def test_a_contradiction_with_a_copied_document_is_one_row_with_both_places(table):
    """The copy is no statement of its own."""
    assert len(table.rows) == 1
    assert {c.path for cell in table.rows[0].cells for c in cell.citations} == {"old.txt", "new.txt", "new again.txt"}


def test_the_same_statement_twice_is_no_contradiction(table):
    """Nor are statements about different things."""
    assert "The harbour office is open on Mondays." not in quotes_of(table)


def test_of_two_documents_of_one_day_neither_is_called_newer(table):
    """The cell says that they have the same date."""
    assert table.rows[0].cells[3].text.startswith("same date")


def test_quotes_stand_in_their_documents(table):
    """At their offsets."""
    for c in table.citations:
        assert c.quote == TEXTS[c.path][c.start : c.end]


def test_one_document_that_agrees_with_itself_has_no_contradictions(index):
    """The note says so."""
    table = index.contradictions(selection=DocumentFilter("path=copy.txt"))
    assert table.rows == ()
    assert table.note


def test_a_document_and_its_copy_do_not_contradict_each_other(index):
    """Equal statements are one statement."""
    assert index.contradictions(selection=DocumentFilter("path=new*")).rows == ()


def test_a_selection_without_documents_is_an_error(index):
    """As with every other command."""
    with pytest.raises(NoMatchingDocuments):
        index.contradictions(selection=DocumentFilter("path=missing.txt"))


def test_the_cost_is_reckoned_before(index):
    """From the size of what is chosen; a topic costs no more than everything."""
    whole, topic = index.plan_contradictions(), index.plan_contradictions("the fee")
    chosen = index.plan_contradictions(selection=DocumentFilter("path=new.txt"))
    assert 0 < chosen.seconds < whole.seconds
    assert topic == whole
    assert chosen.statements < whole.statements


def test_a_topic_that_nothing_is_about_has_no_contradictions(index):
    """The table is empty."""
    assert index.contradictions("volcanoes of Iceland").rows == ()


def test_one_value_in_two_units_is_one_difference():
    """Both figures are taken away together; otherwise the statements would still disagree."""
    first, second = "The range of the Skua is 243 km (151 miles).", "The Skua has a range of 362 km (225 miles)."
    assert differences(first, second)[0].agreeing == (first, "The Skua has a range of 243 km (151 miles).")


@pytest.mark.parametrize(
    ("text", "needs"),
    [("It was founded in 1989.", True), ("We sell no data.", True), ("There were 112 people aboard.", False), ("The Skua sank.", False)],
)
def test_what_a_statement_is_about_may_stand_before_it(text, needs):
    """If it begins with a pronoun or speaks of "us"; "there were" points to nothing."""
    assert needs_context(text) == needs


def test_it_is_what_the_document_is_about(tmp_path, home):
    """A sentence that begins with "it" is compared with those that name the title of its document."""
    (tmp_path / "Skua_Society.txt").write_text("It was founded in 1989 by Ingrid Holm. Herring was cheap that year.\n", encoding="utf-8")
    (tmp_path / "letter.txt").write_text("The Skua Society was founded in 1996 by Ingrid Holm. My cat is well.\n", encoding="utf-8")
    (tmp_path / "gulls.txt").write_text("It was founded in 1954 by Lars Berg. Gulls nest on the roof of the mill.\n", encoding="utf-8")
    with Index.create(tmp_path, extractor="phrases") as made:
        made.add(tmp_path)
        (row,) = made.contradictions().rows

    assert {cell.text for cell in row.cells[:2]} == {
        "It was founded in 1989 by Ingrid Holm.",
        "The Skua Society was founded in 1996 by Ingrid Holm.",
    }


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("The choir has 46 singers.", "With its 64 singers the choir fills the loft.", "number"),
        ("The museum opened in May 1961.", "The museum opened in May 1963.", "date"),
        ("The captain of the Skua is Ingrid Holm.", "The captain of the Skua is Lars Berg.", "name"),
        ("Dogs are not allowed on the beach.", "Dogs are allowed on the beach.", "negation"),
    ],
)
def test_what_differs_has_a_kind(first, second, kind):
    """The first one is the most telling."""
    assert differences(first, second)[0].kind == kind


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The trip takes two hours.", "The trip takes 120 minutes."),
        ("About 1,200 people came.", "In all 1,243 people came."),
        ("At least 30 people came.", "In all 45 people came."),
        ("The office closes on 30 June.", "The office closes on 30 June 2025."),
        ("The office has a blue door.", "The office has a blue gate."),
    ],
)
def test_figures_that_can_both_hold_and_other_words_are_no_difference(first, second):
    """Neither unit, rounding, bound, missing part of a date nor synonym."""
    assert differences(first, second) == []


def test_near_statements_with_other_figures_are_read_first():
    """Before those that only share some words."""
    fees = "The fee is 1,200 crowns a month.", "The fee is 1,500 crowns a month."
    assert prior_log_odds(*fees, 0.9, 0.8) > prior_log_odds("The fee is 1,200 crowns a month.", "The pier is long.", 0.3, 0.1)


def test_short_remarks_share_too_few_words_to_be_compared():
    """They may be about anything."""
    assert not shares_enough_words("Mark on this.", "John on this.")
    assert shares_enough_words("The captain of the Skua is Ingrid Holm.", "The captain of the Skua is Lars Berg.")
