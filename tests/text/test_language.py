"""The language of a question."""

import pytest

from localrag.query.extractive import refusal_text
from localrag.text.language import LANGUAGE_NAMES, detect_language


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("tr", "Bütçeye kim karşı oy verdi?"),
        ("nl", "Hoeveel kost de nieuwe zwembad?"),
        ("de", "Wer wurde verletzt?"),
        ("es", "¿Quién trató a Mirko Sand?"),
        ("ru", "Кто построил мост?"),
        ("uk", "Скільки коштує оренда?"),
        ("el", "Ποιος έχτισε τη γέφυρα;"),
        ("he", "מי בנה את הגשר?"),
        ("vi", "Ai đã xây cây cầu?"),
        ("zh", "谁建了桥？"),
        ("ja", "橋を建てたのは誰ですか"),
        ("ko", "누가 다리를 지었습니까?"),
        ("en", "Who treated Mirko Sand?"),
    ],
)
def test_the_language_of_a_short_question_is_told(language, question):
    """By its function words, its letters, or its pieces of words."""
    assert detect_language(question) == language
    assert language in LANGUAGE_NAMES


@pytest.mark.parametrize(
    "question", ["Müller salary figure", "Datasette facets", "Idris Kovac chairman", "why", "error 404 nginx", "42", ""]
)
def test_names_and_single_words_are_english(question):
    """Where nothing tells the language, English is the least surprise."""
    assert detect_language(question) == "en"


def test_a_refusal_is_in_the_language_of_the_question():
    """A Turkish question is not refused in German."""
    assert refusal_text("Bütçeye kim karşı oy verdi?") == "Belgelerde bu yazmıyor."
    assert refusal_text("Kto zbudował basen?") == "Dokumenty tego nie podają."
