"""The review table: every document asked the same questions, each cell with its quote; what is stored, changed and decided."""

import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from localrag.analysis.review_cells import PASSAGE_ONLY
from localrag.analysis.review_questions import AnswerKind, ReviewQuestion, parse_questions
from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.index import Index
from tests.analysis.made import make_index

CONTRACTS = {
    "anders.txt": "Supply agreement\n\n"
    "This agreement between Anders Boats and Vardby Harbour begins on 3 March 2021. It ends on 2 March 2024.\n\n"
    "The harbour pays a fee of $1,200 a month.\n\nThis agreement is governed by the law of Denmark.\n\n"
    "The supplier may use subcontractors if the harbour agrees in writing.\n",
    "bruun.txt": "Repair contract\n\nThe contract between Bruun and Sons and Vardby Harbour ends on 30 June 2025.\n\n"
    "The harbour pays Bruun and Sons 4,500 euros a year.\n\nThe supplier must not use subcontractors.\n\n"
    "The law of Norway governs this contract.\n",
    "soup.txt": "Fish soup\n\nTake two carrots, an onion and a cod. Boil the bones for an hour. Add cream and dill at the end.\n",
}
QUESTIONS = [
    "date: When does the contract end?",
    "amount: What fee does the harbour pay?",
    "yes/no: May the supplier use subcontractors?",
    "one of Denmark|Norway|Sweden: Which law governs the contract?",
    "Who is the supplier?",
]


@pytest.fixture(scope="module")
def contracts(tmp_path_factory, home):
    """An index of two contracts and a recipe."""
    return make_index(tmp_path_factory.mktemp("contracts"), CONTRACTS)


@pytest.fixture(scope="module")
def reviewed(contracts):
    """The table of all questions."""
    with Index.open(contracts) as index:
        return index.review(QUESTIONS)


@pytest.fixture
def own(contracts, tmp_path):
    """A copy of the folder with its index and no cells, to be changed."""
    folder = shutil.copytree(contracts, tmp_path / "contracts")
    with closing(sqlite3.connect(folder / ".localrag" / "index.db")) as db, db:
        db.execute("DELETE FROM review_cells")
        db.execute("UPDATE table_checksums SET checksum = 0 WHERE table_name = 'review_cells'")
    return folder


def review_of(folder, documents, questions):
    """The table of an index of these documents."""
    with Index.open(make_index(folder, documents)) as index:
        return index.review(questions)


def cells(table, document):
    (row,) = [row for row in table.rows if row.key == document]
    return row.cells[1:]


def test_a_row_is_a_document_and_a_column_a_question(reviewed):
    """Rows by path; the columns say what they hold."""
    assert [row.key for row in reviewed.rows] == ["anders.txt", "bruun.txt", "soup.txt"]
    assert [column.kind for column in reviewed.columns] == ["text", "date", "amount", "yes/no", "one of", "text"]
    assert reviewed.columns[1].title == "When does the contract end?"


def test_typed_cells_have_their_value(reviewed):
    """A day, a number, one of the answers that the question names."""
    ends, fee, _, law, _ = cells(reviewed, "anders.txt")
    assert (ends.text, ends.value) == ("2 March 2024", "2024-03-02")
    assert (fee.text, fee.value) == ("$1,200", 1200.0)
    assert law.text == "Denmark"
    ends, fee, _, law, _ = cells(reviewed, "bruun.txt")
    assert (ends.value, fee.value, law.text) == ("2025-06-30", 4500.0, "Norway")


def test_without_a_chat_model_a_question_of_yes_or_no_shows_the_clause(reviewed):
    """The reader does not tell a permission from a prohibition, so no bare "Yes" or "No" stands in the cell."""
    for document, clause in (("anders.txt", "may use subcontractors"), ("bruun.txt", "must not use subcontractors")):
        cell = cells(reviewed, document)[2]
        assert clause in cell.text
        assert cell.note == PASSAGE_ONLY


def test_the_time_stamp_of_a_file_dates_nothing_in_it(tmp_path):
    """ "Yesterday" in a letter is reckoned from the letter's own date, or not at all."""
    undated, dated = (
        "Dear Ferdinand,\n\nThe concert was held yesterday in the great hall.\n",
        "Vienna, 4 May 1819\n\nThe concert was held yesterday.\n",
    )
    table = review_of(tmp_path, {"undated.txt": undated, "dated.txt": dated}, ["date: When was the concert held?"])
    assert cells(table, "undated.txt")[0].value is None
    assert cells(table, "dated.txt")[0].value == "1819-05-03"


def test_every_answer_has_a_quote_that_stands_in_its_document(reviewed):
    """The quote is the document's text at its offsets, and holds the answer or proves it."""
    answered = [(row.key, cell) for row in reviewed.rows for cell in row.cells[1:] if cell.text]
    for path, cell in answered:
        assert cell.citations
        for c in cell.citations:
            assert (c.path, c.quote) == (path, CONTRACTS[path][c.start : c.end])
    assert len(answered) >= 9
    assert "2 March 2024" in cells(reviewed, "anders.txt")[0].citations[0].quote


def test_a_text_is_a_name_or_a_sentence_and_no_heading(tmp_path):
    """A word such as "internal" or "both" answers nothing, and a description needs a sentence."""
    law = "This lease is governed by the internal laws of the State of Ohio."
    meaning = "Confidential information means the rent, the names of both tenants and the plans of the house."
    questions = ["Which law governs the lease?", "What is confidential information?"]
    table = review_of(tmp_path, {"lease.txt": f"9 Governing Law\n\n{law}\n\n{meaning}\n"}, questions)
    assert [cell.text for cell in cells(table, "lease.txt")] == [law, meaning]


def test_a_document_that_does_not_say_it_says_so(reviewed):
    """Nothing is quoted for it."""
    for cell in cells(reviewed, "soup.txt"):
        assert (cell.text, cell.state, cell.citations) == ("", "not stated", ())


@pytest.mark.ci
def test_the_same_review_reads_nothing_again_and_a_changed_document_fills_only_its_own_cells(own):
    """Cells are stored as they are made; a new document and a new question bring theirs."""
    with Index.open(own) as index:
        first = index.review(QUESTIONS)
        assert index.plan_review(QUESTIONS).new_cells == 0
        assert index.review(QUESTIONS).rows == first.rows
        (own / "bruun.txt").write_text(CONTRACTS["bruun.txt"].replace("30 June 2025", "31 May 2026"), encoding="utf-8")
        (own / "carlsen.txt").write_text("The contract with Carlsen ends on 1 April 2027.\n", encoding="utf-8")
        index.add(own)
        plan = index.plan_review([*QUESTIONS, "list: Who signed?"])
        assert (plan.rows, plan.cells, plan.new_cells) == (4, 24, 5 + 5 + 4)
        again = index.review(QUESTIONS)
    assert cells(again, "bruun.txt")[0].value == "2026-05-31"
    assert cells(again, "carlsen.txt")[0].value == "2027-04-01"
    assert cells(again, "anders.txt") == cells(first, "anders.txt")


@pytest.mark.ci
def test_a_review_that_is_stopped_goes_on(own):
    """After the time that it may take the other cells are empty and say so; the next call fills them."""
    with Index.open(own) as index:
        stopped = index.review(QUESTIONS, max_seconds=0)
        done = index.review(QUESTIONS)
    assert stopped.note == "15 of 15 cells are not read yet; the same command goes on."
    assert {cell.note for cell in cells(stopped, "anders.txt")} == {"Not read yet: the same command goes on."}
    assert (done.note, done.figures["cells_read"]) == ("", 15)


@pytest.mark.ci
def test_what_a_person_decided_stays_when_the_document_changes(own):
    """A correction quotes the document where its text stands there; both are marked, and say that the document has changed since."""
    with Index.open(own) as index:
        index.review(QUESTIONS)
        index.decide("anders.txt", QUESTIONS[4], "Anders Boats")
        index.decide("anders.txt", QUESTIONS[0])
        (own / "anders.txt").write_text(CONTRACTS["anders.txt"].replace("2 March 2024", "9 May 2030"), encoding="utf-8")
        index.add(own)
        ends, *_, supplier = cells(index.review(QUESTIONS), "anders.txt")
    assert (supplier.text, supplier.state, supplier.citations[0].quote) == ("Anders Boats", "corrected", "Anders Boats")
    assert (ends.value, ends.state) == ("2024-03-02", "approved")
    assert ends.note == supplier.note == "The document has changed since this was decided."


@pytest.mark.ci
def test_a_decision_moves_with_its_file_and_goes_with_its_document(own):
    """A moved file keeps its cells; a removed document leaves none."""
    with Index.open(own) as index:
        index.review(QUESTIONS)
        index.decide("anders.txt", QUESTIONS[4], "Anders Boats")
        (own / "old").mkdir()
        (own / "anders.txt").rename(own / "old" / "anders.txt")
        index.add(own)
        assert cells(index.review(QUESTIONS), "old/anders.txt")[4].state == "corrected"
        index.remove(own / "old" / "anders.txt")
        (own / "old" / "anders.txt").unlink()
        (own / "anders.txt").write_text(CONTRACTS["anders.txt"], encoding="utf-8")
        index.add(own)
        assert index.plan_review(QUESTIONS).new_cells == 5


def test_only_the_chosen_documents_are_reviewed(contracts):
    """A filter restricts the rows."""
    with Index.open(contracts) as index:
        table = index.review(QUESTIONS[:1], selection=DocumentFilter("path=b*"))
    assert [row.key for row in table.rows] == ["bruun.txt"]


def test_rows_can_be_chapters_or_records(tmp_path):
    """A section below each heading of the highest level, or each row of a table, is asked by itself."""
    log = "# Log\n\n## Monday\n\nThe Skua sailed to Vardby.\n\n## Tuesday\n\nThe Tern sailed to Holm.\n"
    with Index.open(make_index(tmp_path, {"log.md": log, "ships.csv": "ship,built\nSkua,1974\nTern,1981\n"})) as index:
        chapters = index.review(["Which ship sailed?"], rows="chapter", selection=DocumentFilter("path=log.md"))
        records = index.review(["When was the ship built?"], rows="record")
    found = {row.key: row.cells[1].citations[0].quote for row in chapters.rows if row.cells[1].citations}
    assert "Skua" in found["log.md#Monday"]
    assert "Tern" in found["log.md#Tuesday"]
    assert [row.key for row in records.rows] == ["ships.csv#Skua", "ships.csv#Tern"]


def test_passages_that_differ_contradict_each_other(tmp_path):
    """Both dates are shown, each with its quote."""
    between = "The harbour master keeps the keys of all sheds.\n\n" * 20
    text = f"The lease ends on 30 June 2025.\n\n{between}The lease ends on 1 May 2026.\n"
    (cell,) = cells(review_of(tmp_path, {"lease.txt": text}, ["date: When does the lease end?"]), "lease.txt")
    assert cell.state == "contradictory"
    assert {c.quote for c in cell.citations} == {"The lease ends on 30 June 2025.", "The lease ends on 1 May 2026."}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no question"),
        (["", "# a comment"], "no question"),
        (["one of A: Which?"], "names 1 answers"),
        (["x" * 50_000], "characters"),
        ([f"What is {n}?" for n in range(201)], "201 questions"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(lines, said):
    """With a hint of what to write."""
    with pytest.raises(UsageError, match=said) as refused:
        parse_questions(lines)
    assert refused.value.hint


def test_a_question_says_what_kind_of_answer_it_wants():
    """In front of it; without that it is answered in a few words. Numbers of a list and repeated lines are left out."""
    asked = parse_questions(["1. date: When?", "- one of low|high: How risky?", "Who: the buyer?", "Yes/No: Is it so?", "Who: the buyer?"])
    assert asked == (
        ReviewQuestion("date: When?", "When?", AnswerKind.DATE),
        ReviewQuestion("one of low|high: How risky?", "How risky?", AnswerKind.CHOICE, ("low", "high")),
        ReviewQuestion("Who: the buyer?", "Who: the buyer?"),
        ReviewQuestion("Yes/No: Is it so?", "Is it so?", AnswerKind.YES_NO),
    )


def test_what_cannot_be_decided_is_said(contracts):
    """An unknown document, a cell that was never read, an unknown kind of row."""
    with Index.open(contracts) as index:
        with pytest.raises(UsageError, match=re.escape("nowhere.txt")):
            index.decide("nowhere.txt", "Who?")
        with pytest.raises(UsageError, match="not read"):
            index.decide("anders.txt", "A question nobody asked?")
        with pytest.raises(UsageError, match="page"):
            index.review(["Who?"], rows="page")


def test_without_history_nothing_is_stored(contracts):
    """Neither questions nor cells."""
    with Index.open(contracts, logs=False) as index:
        table = index.review(["Which harbour is it?"])
        assert index.plan_review(["Which harbour is it?"]).new_cells == len(table.rows)


@pytest.mark.ci
def test_a_removed_document_leaves_no_word_in_any_cell(own):
    """Neither its quotes nor what a person wrote about it is left in any file of the index."""
    with Index.open(own) as index:
        index.review(QUESTIONS)
        index.decide("anders.txt", QUESTIONS[4], "Anders Boats of Vardby, says Ruth")
        (own / "anders.txt").unlink()
        index.remove(own / "anders.txt")
    data = b"".join(file.read_bytes() for file in (own / ".localrag").rglob("*") if file.is_file())
    assert b"Bruun" in data
    assert b"Anders Boats" not in data
    assert b"says Ruth" not in data
