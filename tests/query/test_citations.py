"""Citations: sentences of a model are cited by what supports them, marked or left out."""

import pytest

from localrag.query.attribution import support_checker
from localrag.query.question import AnswerDraft, AnswerPoint, DraftSource
from localrag.records import UNSUPPORTED_STATE, Chunk, Document, Quote
from localrag.store import documents
from localrag.store.opening import open_index
from tests.query.citing import cite, parse_cited_prose

TEXT = (
    "Ingrid Holm bought the ferry Skua in 1971. The hull had rusted in the yard for two winters. "
    "The mayor of Vardby promised a new pier. Nobody in the council believed him."
)


@pytest.fixture
def db(tmp_path):
    made = open_index(tmp_path / "index", create=True)
    documents.save_document(made, Document("d", "a.txt", "a", TEXT, "h"), [Chunk("c", "d", 0, 0, len(TEXT), TEXT, 40)])
    return made


WHOLE = Quote("c", 0, len(TEXT), TEXT)


def test_unsupported_sentences_are_marked_or_left_out(db, embed):
    """A sentence of the model that nothing supports carries a mark; `strict` leaves it out; either way it is counted."""
    prose = "Ingrid Holm bought the ferry Skua in 1971. [1]\nThe ferry sank in 1980. [1]\nIt was painted green. [7]"
    draft = AnswerDraft(tuple(parse_cited_prose(prose, [DraftSource("", (WHOLE,))])))

    marked, strict = cite(draft, db, support_checker(embed)), cite(draft, db, support_checker(embed), strict=True)

    assert marked.count(UNSUPPORTED_STATE) == strict.count(UNSUPPORTED_STATE) == 2
    assert marked.text.count("[unsupported]") == 2
    assert strict.text == "Ingrid Holm bought the ferry Skua in 1971. [1]"
    assert [c.quote for c in strict.citations] == ["Ingrid Holm bought the ferry Skua in 1971."]


def test_a_quote_that_is_not_in_its_document_is_no_citation(db, embed):
    """What does not stand at its place is not cited."""
    draft = AnswerDraft(
        (AnswerPoint("Something.", (Quote("c", 0, 9, "Somewhere"),)), AnswerPoint("Else.", (Quote("c", 0, 11, "Ingrid Holm"),)))
    )
    found = cite(draft, db, support_checker(embed))

    assert [c.quote for c in found.citations] == ["Ingrid Holm"]
    assert found.count(UNSUPPORTED_STATE) == 1
