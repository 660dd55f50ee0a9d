"""Text that a program attached: the passage of it that answers is found by the reader, or none."""

from types import SimpleNamespace

import pytest

from localrag.llm.reader import PassageReader
from localrag.query.passages import MAX_PIECES_READ, PIECE_CHARS, AttachedText, find_attached_passage

BIRDS = "The skua is a bird of the northern seas. It steals the fish of other birds.\n\n"
LAMP = "The lamp of the lighthouse at Vardby is green since 1931, because a red one was taken for a harbour light."
FILLER = "Weather of the day, written down by the keeper, with wind and waves. " * 8 + "\n\n"
QUESTION = "What colour is the lamp of the lighthouse at Vardby?"


@pytest.fixture(scope="module")
def project():
    return SimpleNamespace(reader=PassageReader())


def test_the_passage_that_answers_is_found(project):
    """In the right one of several texts, with its name."""
    found = find_attached_passage(QUESTION, [AttachedText("birds.pdf", BIRDS * 5), AttachedText("lamps.pdf", FILLER * 3 + LAMP)], project)
    assert found.name == "lamps.pdf"
    assert "green since 1931" in found.text
    assert found.confidence > 0.5


def test_a_text_that_does_not_answer_gives_none(project):
    """Nor does no text, an empty one, or a machine without the reader."""
    assert find_attached_passage(QUESTION, [AttachedText("birds.pdf", BIRDS)], project) is None
    assert find_attached_passage(QUESTION, [], project) is None
    assert find_attached_passage(QUESTION, [AttachedText("", " \n\n ")], project) is None
    assert find_attached_passage(QUESTION, [AttachedText("lamps.pdf", LAMP)], SimpleNamespace(reader=None)) is None


def test_a_long_text_is_read_in_pieces():
    """Of which those with the question's words are read, none longer than a passage."""
    read = []

    def reading(_question, passages):
        read.extend(passages)
        return [SimpleNamespace(relevance=0.0, score=-1.0)] * len(passages)

    project = SimpleNamespace(reader=SimpleNamespace(read=reading))
    find_attached_passage(QUESTION, [AttachedText("long.txt", FILLER * 100 + LAMP + "\n\n" + FILLER * 100 + "x" * 5000)], project)
    assert len(read) == MAX_PIECES_READ
    assert all(len(piece) <= PIECE_CHARS for piece in read)
    assert any(LAMP in piece for piece in read)
