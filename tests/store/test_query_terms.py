"""Words are found in every form, also misspelt; identifiers and quoted phrases stand together; what is excluded is not found."""

from contextlib import closing

import pytest

from localrag.store import full_text, query_terms
from localrag.store.full_text import chunks_matching, search_chunks
from localrag.store.opening import open_index
from localrag.store.query_terms import parse_query

TEXTS = {
    "de": "Der Mieter hat zwei Verträge mit dem Hafenamt unterschrieben, beide befristet auf ein Jahr.",
    "es": "Los contratos de los pescadores fueron firmados por el alcalde en enero.",
    "ru": "Капитан подписал договоры с рыбаками города в январе.",
    "fr": "Les navires normands furent vendus aux enchères par le capitaine.",
    "ticket": "Ticket KB-7731-Q was closed by the harbour office after the lighthouse was repaired.",
    "parts": "KB is the code of the office. Room 7731 has a door marked Q.",
    "option": "The option max_open_files is set in the configuration; open files are closed at midnight, max ten.",
    "english": "The keeper of the lighthouse repairs the lamps and the foghorn.",
    "other": "The keeper of the museum repairs paintings and files nothing.",
}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """An index of a few short chunks in several languages."""
    with closing(open_index(tmp_path_factory.mktemp("terms"), create=True)) as opened:
        opened.execute("PRAGMA foreign_keys = OFF")
        full_text.index_chunks(opened, list(TEXTS.items()))
        yield opened


def found(db, query, language="en"):
    return [key for key, _ in search_chunks(db, query, 9, language)]


@pytest.mark.parametrize(
    ("language", "query"),
    [("de", "befristeten Vertrages"), ("es", "contrato del pescador"), ("ru", "договором рыбака"), ("fr", "le navire normand vendu")],
)
def test_a_word_is_found_in_its_other_forms(db, language, query):
    """Each word of the query stands in the text in another form, which English stemming does not bring together."""
    assert found(db, query, language)[:1] == [language]


def test_forms_are_those_of_the_querys_language(db):
    """Without its language a German word is found only as English stemming has it."""
    assert found(db, "Verträgen Kähne Segel", "de") == ["de"]
    assert found(db, "Verträgen Kähne Segel", "en") == []


@pytest.mark.parametrize(
    "query", ["keeper lighthuose", "keeper of the lighthose", "keeper of the lighthousse", "foghron keeper", "foghron lamqs"]
)
def test_a_misspelt_word_is_found(db, query):
    """A letter that is missing, added, wrong or in the wrong place; other words of the query are spelt as in the index."""
    assert found(db, query)[0] == "english"


@pytest.mark.parametrize("query", ["Wo liegt das Schiff foghron vertäut?", "vessel insurance foghron", "KB-7713-Q", "lmps"])
def test_what_is_in_no_document_is_not_corrected(db, query):
    """A longer query of which most words are missing is about something else; numbers and short words are not corrected."""
    assert "english" not in found(db, query)


def test_an_identifier_is_found_whole_before_its_parts(db):
    """Chunks with the parts apart come after the one where they stand side by side."""
    assert found(db, "What is KB-7731-Q?")[:2] == ["ticket", "parts"]
    assert found(db, "max_open_files")[0] == "option"
    assert found(db, "7731")[0] in ("ticket", "parts")


def test_a_quoted_phrase_comes_first(db):
    """Its words in this order weigh more than the same words elsewhere."""
    assert found(db, 'repairs "keeper of the lighthouse"')[0] == "english"
    assert found(db, 'repairs "keeper of the museum"')[0] == "other"


@pytest.mark.parametrize(
    ("query", "text", "required", "excluded"),
    [
        ("keeper -museum", "keeper", [], ["museum"]),
        ('keeper -"museum repairs" lamps', "keeper   lamps", [], ["museum repairs"]),
        ('"the keeper" repairs', '"the keeper" repairs', ["the keeper"], []),
        ("„zwei Verträge“ Hafenamt", "„zwei Verträge“ Hafenamt", ["zwei Verträge"], []),
        ("co-operation at -5 degrees - ls -l", "co-operation at -5 degrees - ls -l", [], []),
        ("-museum", "-museum", [], []),
    ],
)
def test_a_query_says_what_it_requires_and_excludes(query, text, required, excluded):
    """Hyphens in words, minus signs, one-letter options and a query of nothing else exclude nothing."""
    parsed = parse_query(query)
    assert parsed.text == text
    assert [t.alternatives[0] for t in parsed.phrases] == required
    assert [t.alternatives[0] for t in parsed.excluded] == excluded


def test_required_and_excluded_terms_choose_chunks(db):
    """A chunk has all required phrases and none of the excluded words."""
    parsed = parse_query('"the keeper" repairs -museum')
    assert chunks_matching(db, parsed.phrases, parsed.excluded) == {"english"}
    assert chunks_matching(db, (), parsed.excluded) == TEXTS.keys() - {"other"}


def test_a_large_index_corrects_only_words_that_begin_right(db, monkeypatch):
    """There a word of the wrong second letter is not looked for: too many words begin with the first one."""
    assert found(db, "keeper leghthouse")[0] == "english"
    monkeypatch.setattr(query_terms, "LARGE_INDEX_CHUNKS", 1)
    assert found(db, "keeper leghthouse")[0] != "english"
    assert found(db, "keeper lighthuose")[0] == "english"
