"""How answers to the ten questions are counted."""

from localrag.bench.tasks import sentences, verified
from localrag.records import Answer, Citation


def test_sentences_of_an_answer_are_those_that_say_where_they_come_from():
    """Titles and openings are none; unsupported sentences count."""
    text = "What the documents say of Ada Bo:\n\n**Title**\nShe left. [1][2]\n\nShe came back. [unsupported]\n\n"
    assert sentences(text) == ["**Title**\nShe left. [1][2]", "She came back. [unsupported]"]


def test_a_quote_is_verified_in_its_file(tmp_path):
    """A quote that stands in the file, however its lines are broken, is verified; another is not."""
    (tmp_path / "a.txt").write_text("Ada Bo\nleft Rill.")
    citations = (Citation(1, "a.txt", 0, 17, "Ada Bo left Rill."), Citation(2, "a.txt", 0, 5, "Ada Bo stayed."))

    assert verified(Answer("?", "", "mix", citations=citations), tmp_path) == {1}
