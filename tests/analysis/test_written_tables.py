"""Tables with a chat model that writes: cells of a review, a comparison in words; what it writes is checked."""

import json
import re

import pytest

from localrag.analysis.written_cells import MODEL_ALONE
from localrag.index import Index
from tests.analysis.made import make_index
from tests.servers import Server, llama

LEASES = {
    "anders.txt": "Supply agreement\n\nThis agreement ends on 2 March 2024. The harbour pays a fee of $1,200 a month.\n\n"
    "The supplier may use subcontractors if the harbour agrees in writing.\n",
    "bruun.txt": "Repair contract\n\nThe contract ends on 30 June 2025. The harbour pays 4,500 euros a year.\n\n"
    "The supplier must not use subcontractors.\n",
}
ENDS, FEE, SUBCONTRACTORS, SIGNED = (
    *("date: When does the contract end?", "amount: What fee does the harbour pay?"),
    *("yes/no: May the supplier use subcontractors?", "Who signed it?"),
)
QUESTIONS = [ENDS, FEE, SUBCONTRACTORS, SIGNED]


def asked(body):
    """The question of a cell's prompt, and its passages."""
    text = body["messages"][-1]["content"]
    return re.search(r"Question: (.*)", text)[1], text.split("Question: ")[0]


def writes(body):
    """A model that answers every question from the passages in its prompt, with a sentence of them as quote."""
    question, passages = asked(body)
    patterns = {ENDS: r"ends on ([\d\w ]+)", FEE: r"(\$[\d,]+|[\d,]+ euros)", SUBCONTRACTORS: r"(may|must not) use"}
    found = next((re.search(p, passages) for line, p in patterns.items() if line.endswith(question)), None)
    if found is None:
        return json.dumps({"quote": "", "answer": ""})
    sentence = next(s for s in re.split(r"(?<=\.)\s+", passages) if found[0] in s)
    return json.dumps({"quote": sentence, "answer": {"may": "Yes", "must not": "No"}.get(found[1], found[1])})


@pytest.fixture
def leases(tmp_path, home):
    """An index of two contracts."""
    return make_index(tmp_path, LEASES)


def serve(says, name="writer"):
    """A server whose model has four billion parameters."""
    return Server(says, llama(name, window=8192, n_params=4_000_000_000))


def review(folder, says, questions=QUESTIONS, name="writer"):
    """The cells of each document, by question, as a model writes them, and the requests that this took."""
    with serve(says, name) as server, Index.open(folder, model=f"{server.url}#{name}") as index:
        table = index.review(questions)
        return {row.key: dict(zip(questions, row.cells[1:], strict=True)) for row in table.rows}, server.bodies


def test_a_chat_model_that_writes_fills_the_cells_with_quotes_of_the_document(leases):
    """Each cell that the reader has not decided is one call; its value is typed, its quote is the document's sentence.

    What the model does not find is not stated.
    """
    cells, requests = review(leases, writes)

    assert sorted(asked(body)[0] for body in requests) == sorted(
        2 * [*(line.partition(": ")[2] for line in (ENDS, FEE, SUBCONTRACTORS)), SIGNED]
    )
    anders, bruun = cells["anders.txt"], cells["bruun.txt"]
    assert (anders[ENDS].value, bruun[ENDS].value) == ("2024-03-02", "2025-06-30")
    assert (anders[FEE].value, bruun[FEE].value) == (1200.0, 4500.0)
    assert (anders[SUBCONTRACTORS].text, bruun[SUBCONTRACTORS].text) == ("Yes", "No")
    assert {cell[SIGNED].state for cell in (anders, bruun)} == {"not stated"}
    for path, row in cells.items():
        for c in (c for cell in row.values() for c in cell.citations):
            assert c.quote == LEASES[path][c.start : c.end]
    assert bruun[SUBCONTRACTORS].citations[0].quote == "The supplier must not use subcontractors."


@pytest.mark.parametrize(
    "said",
    [
        json.dumps({"quote": "The contract ends when the sea freezes over.", "answer": "30 June 2025"}),
        json.dumps({"quote": "The contract ends on 30 June 2025.", "answer": "31 July 2031 and 2032"}),
        "I would rather not.",
        400,
    ],
    ids=["an invented quote", "an invented date", "no JSON", "a failure"],
)
def test_what_the_documents_do_not_bear_out_is_not_taken_from_a_model(leases, said):
    """The reader's own cell is kept."""
    cells, _ = review(leases, lambda _: said, [ENDS])

    assert cells["bruun.txt"][ENDS].value == "2025-06-30"
    assert cells["bruun.txt"][ENDS].citations[0].quote in LEASES["bruun.txt"]
    assert cells["anders.txt"][ENDS].value == "2024-03-02"


def test_the_model_decides_what_the_reader_leaves_open(leases):
    """The reader quotes the nearest sentence; the model's answer is shown with its own quote, and that sentence behind it."""
    question = "yes/no: Does the harbour pay on time?"
    with Index.open(leases) as index:
        (alone,) = index.review([question]).rows[1].cells[1:]
    said = {"quote": "The contract ends on 30 June 2025.", "answer": "No"}
    cells, requests = review(leases, lambda _: json.dumps(said), [question])

    assert alone.note
    assert len(requests) == len(LEASES)
    assert (cells["bruun.txt"][question].text, cells["bruun.txt"][question].note) == ("No", MODEL_ALONE)
    assert [c.quote for c in cells["bruun.txt"][question].citations] == [said["quote"], "The harbour pays 4,500 euros a year."]


def test_a_quote_is_found_despite_its_case_and_line_breaks(leases):
    """And a slip; the cell cites the document's own words."""
    said = {"quote": "the contract ENDS on\n30 June 2025", "answer": "30 June 2025"}
    cells, _ = review(leases, lambda _: json.dumps(said), [ENDS])

    assert cells["bruun.txt"][ENDS].citations[0].quote == "The contract ends on 30 June 2025."


def test_a_list_has_a_quote_for_each_item(leases):
    """Those whose quote does not stand in the passages are left out."""
    items = [("The contract ends on 30 June 2025.", "its end"), ("Nobody wrote this sentence, ever.", "a ghost")]
    said = {"answers": [{"quote": quote, "answer": answer} for quote, answer in items]}
    cells, _ = review(leases, lambda _: json.dumps(said), ["list: What is agreed?"])

    cell = cells["bruun.txt"]["list: What is agreed?"]
    assert (cell.text, cell.value, [c.quote for c in cell.citations]) == ("its end", 1.0, ["The contract ends on 30 June 2025."])


def test_written_cells_stay_when_the_review_is_made_without_that_model(leases):
    """Another model that writes makes them again."""
    cells, _ = review(leases, writes)
    with Index.open(leases) as index:
        assert index.plan_review(QUESTIONS).new_cells == 0
        assert index.review(QUESTIONS).rows[0].cells[1].value == cells["anders.txt"][ENDS].value
    assert [len(review(leases, writes, name=name)[1]) for name in ("writer", "another")] == [0, len(LEASES) * len(QUESTIONS)]
