"""Words that the end of a line divides."""

import pytest

from localrag.text.hyphenation import document_words, is_compound

ENGLISH = document_words(
    "The harbour was closed for several weeks because the keeper of the lighthouse could not see the ships that passed it. "
    "People wrote letters about the matter, which nobody answered before winter came and everything was under snow."
)
GERMAN = document_words(
    "Der Hafen war mehrere Wochen lang geschlossen, weil der Wärter des Leuchtturms die Schiffe nicht sehen konnte, die an ihm "
    "vorbeifuhren. In dem Brief an den Meister stand, dass niemand geantwortet hatte, bevor der Winter kam und alles zugeschneit war."
)


@pytest.mark.parametrize("word", ["well-known", "long-term", "self-made", "cross-attention", "in-batch", "non-smokers", "log-likelihood"])
def test_the_hyphen_of_an_english_compound_stays(word):
    """Of those in the dictionary, and of others that begin as many do."""
    assert is_compound(*word.split("-"), ENGLISH)


@pytest.mark.parametrize("word", ["infor-mation", "under-stand", "with-out", "some-thing", "data-base", "rep-resentation", "con-sider"])
def test_the_hyphen_of_a_line_goes(word):
    """Also where both of its parts are words."""
    assert not is_compound(*word.split("-"), ENGLISH)


@pytest.mark.parametrize("word", ["Donau-dampf", "Hafen-meister", "in-dem", "Bundes-tag"])
def test_words_of_other_languages_are_joined(word):
    """A second part in lower case is no noun of a compound."""
    assert not is_compound(*word.split("-"), GERMAN)


def test_the_document_knows_its_words_best():
    """What it writes elsewhere, with the hyphen or without."""
    assert not is_compound("well", "known", document_words("It is wellknown."))
    assert is_compound("data", "base", document_words("Its data-base."))
    assert is_compound("Wind", "park", document_words("Der Wind-Park am Meer"))
