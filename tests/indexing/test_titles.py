"""The titles of reports: headings and noun phrases of the text that name a topic or an event."""

from collections import Counter

import pytest

from localrag.indexing.titles import TitleSource, titled_sections
from localrag.records import Document
from localrag.text.title_phrases import candidate_phrases, is_readable, title_words

WRECK = [
    "The wreck of the Marian Dace lay on the shoal all winter.",
    "Nobody in the town had seen the wreck of the Marian Dace before noon.",
    "The Marian Dace had carried coal and timber for the company.",
]
QUOTA = [
    "The committee set a herring quota for the year.",
    "The herring quota was opposed by the skippers of the town.",
    "The skippers said that the herring quota had never been lower.",
]


def title_of(texts, others=(), headings=None, persons=(), names=()):
    counts = Counter(word for text in {*texts, *others} for word in title_words(text))
    return TitleSource(tuple(texts), headings or {}, frozenset(persons), tuple(names), counts, len({*texts, *others})).title()


BANK = ["The Old Quay is sold to the Savings Bank.", "The Savings Bank wants the Old Quay.", "Nobody sold the Old Quay before."]
AMAZON = ["Hier wächst der Regenwald am Amazonas.", "Man sagt, dass der Regenwald am Amazonas kleiner wird."]
NAMED = {"names": ["Magnus Ostler", "Dover", "Brannock"], "persons": {"magnus", "ostler"}}
TITLES = {
    "what tells it from others": (QUOTA, WRECK, {}, "Herring quota"),
    "two unlike phrases of several sentences": (BANK, QUOTA, {}, "Old Quay and Savings Bank"),
    "a heading above the sentences": (QUOTA, WRECK, {"headings": {"The Quarrel over Herring": (3, 300)}}, "The Quarrel over Herring"),
    "a heading above few of them": (QUOTA, WRECK, {"headings": {"The Quarrel over Herring": (2, 300)}}, "Herring quota"),
    "names where there is no phrase": (["He was on it."], (), NAMED, "Dover and Brannock"),
    "a person where there is no other name": (["He was on it."], (), NAMED | {"names": ["Magnus Ostler"]}, "Magnus Ostler"),
    "capitals of another language, with a comma": (AMAZON, (), {}, "Regenwald, Amazonas|Amazonas, Regenwald"),
}


@pytest.mark.parametrize(("texts", "others", "known", "title"), TITLES.values(), ids=TITLES)
def test_a_title_is_a_heading_or_noun_phrases_or_names(texts, others, known, title):
    """In this order; it begins with a capital letter. Of equal phrases any may be first."""
    assert title_of(texts, others, **known) in title.split("|")


def test_a_heading_that_refers_to_other_text_is_no_title():
    """Nor one that is a date."""
    text = "# Herring and Coal\n\nText.\n\n## How this works\n\nMore.\n\n## 4 May 1974\n\nEnd.\n"
    document = Document("d", "d.md", "d", text, "h")
    assert [section.title for section in titled_sections(document)] == ["Herring and Coal"]


@pytest.mark.parametrize(
    ("texts", "persons", "person"),
    [
        (["The mate Tobias Lisle saw the reef.", "Nobody told the mate Tobias Lisle of the reef."], {"mate", "tobias", "lisle"}, "Lisle"),
        (["The harbour master shut the gate.", "The gate was shut by the harbour master."], {"master"}, "master"),
        (["莱尔校长走进商店。", "莱尔校长教他们英文。"], {"莱尔"}, "莱尔"),
    ],
)
def test_no_person_is_a_title(texts, persons, person):
    """Neither by name nor by office."""
    assert person in title_of(texts)
    assert person not in title_of(texts, persons=persons)


def test_a_chinese_title_is_a_noun_phrase():
    """The language is that of most of the sentences."""
    texts = ["濠州的城门在夜里关着。", "士兵守着濠州的城门。", "The gate was shut by the guards of the town."]

    assert "城门" in title_of(texts)


@pytest.mark.parametrize(
    "phrase", ["get_db()", "config.py", "4 May 1974", "UPLOAD_FOLDER", "TESTINGMODE", "getUser", "How it works", "**", ""]
)
def test_code_and_dates_are_no_titles(phrase):
    """Nor file names, words in capitals, and headings that refer to other text."""
    assert not is_readable(phrase)


@pytest.mark.parametrize(
    ("sentence", "never"),
    [
        ("The old Phantom spread its dark robe before the man in the room.", "Phantom spread"),
        ("You can use gevent with the server of the town.", "use gevent"),
        ("Near the end of the long day the boat was in the harbour.", "day"),
        ("This was the second voyage of his life in the north.", "his"),
        ("`db.execute(query)`", "query"),
    ],
)
def test_no_phrase_is_made_of_what_reads_badly(sentence, never):
    """Verbs taken for nouns, empty nouns, pronouns and code are in no phrase."""
    found = candidate_phrases(sentence)

    assert not any(phrase.endswith(never) or f" {never} " in f" {phrase} " for phrase in found), found
