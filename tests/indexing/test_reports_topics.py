"""The titles of reports: stretches of the text, in English and Chinese."""

import pytest

from localrag.indexing.reports import TitleVocabulary, report_title, title_candidates

WRECK = [
    "The wreck of the Marian Dace lay on the shoal all winter.",
    "Nobody in the town had seen the wreck of the Marian Dace before noon.",
    "The Marian Dace had carried coal and timber for the company.",
]
QUOTA = [
    "The committee set a quota on herring landings for the year.",
    "The quota on herring was opposed by the skippers of the town.",
    "The skippers said that herring landings had never been better.",
]


def test_a_title_is_a_stretch_of_the_text_that_tells_a_group_from_the_others():
    """Three to eight words, as they stand in a sentence of the group; the name it is about is in it."""
    topics = TitleVocabulary.of([*WRECK, *QUOTA])

    assert topics.phrase(WRECK, ["Marian Dace"]) == "The wreck of the Marian Dace"
    assert topics.phrase(QUOTA, []) == "quota on herring landings"


def test_a_title_begins_with_a_capital_letter():
    """A stretch from within a sentence is written as a title."""
    assert report_title(["Hugh Dunmore"], "quota on herring landings") == "Quota on herring landings"


def test_names_are_the_title_where_no_sentence_has_a_fitting_stretch():
    """Sentences without such a stretch, and languages nothing is known of, leave the names that are connected most."""
    names = ["Magnus Ostler", "Hugh Dunmore", "Ruth Anstey", "Nora Wexley"]

    assert TitleVocabulary.of(["He went.", "She came."]).phrase(["He went."], names) == ""
    assert report_title(names, "") == "Magnus Ostler, Hugh Dunmore and Ruth Anstey"


def test_a_chinese_title_is_a_stretch_of_four_to_sixteen_characters():
    """A noun with what is said of it; the language is that of most of the sentences."""
    said = [
        "郭子兴的亲兵守着濠州的城门。",
        "濠州的城门在夜里关着，郭子兴的亲兵不让人进去。",
        "The gate was shut by the guards of the town.",
    ]
    found = TitleVocabulary.of(said).phrase(said, ["郭子兴"])

    assert found in "".join(said[:2])
    assert 4 <= len(found) <= 16


@pytest.mark.parametrize(
    ("sentence", "never"),
    [
        ("The old Phantom spread its dark robe before the man in the room.", "Phantom spread"),
        ("Near the end of the long day the boat was in the harbour.", "day"),
        ("COURT OF THE INQUIRY was what the sign said in the hall.", "COURT OF THE INQUIRY"),
        ("This was the second voyage of his life in the north.", "his"),
    ],
)
def test_no_title_is_made_of_what_reads_badly(sentence, never):
    """Verbs taken for nouns, empty nouns, shouted words and pronouns are in no title."""
    found = title_candidates(sentence)

    assert not any(phrase.endswith(never) or f" {never} " in f" {phrase} " for phrase in found), found
