"""Which stretches of a text are offered as names, and which are noise."""

import subprocess
import sys

import pytest

from localrag.indexing.extraction.names import Boilerplate, DocumentCasing, find_name_spans, is_not_a_name
from localrag.indexing.extraction.nlp import ChunkText, candidate_names, recurring_noun_phrases


def names(text):
    return candidate_names(ChunkText(text, DocumentCasing(text)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("She joined the Association for the Advancement of Science.", ["Association for the Advancement of Science"]),
        ("He met the American Academy of Arts and Sciences in Boston.", ["American Academy of Arts and Sciences", "Boston"]),
        ("They left Ohio and Iowa for the Gulf.", ["Ohio", "Iowa", "Gulf"]),
        ("It belongs to the U.S. Navy and to Dr. Lee.", ["U.S. Navy", "Dr. Lee"]),
        ("We flew Apollo 11 to the Moon in July 1969.", ["Apollo 11", "Moon"]),
        ("The 6th Fleet saw Şanlıurfa and Piton des Neiges.", ["6th Fleet", "Şanlıurfa", "Piton des Neiges"]),
        ("Significantly less was paid. According to Reuters, nobody knew.", ["Reuters"]),
        ("Gordon Banks\nGordon Banks was a keeper.\nHull City\nDerby County", ["Gordon Banks", "Hull City", "Derby County"]),
        ("The committee that met in the long room of the Hugh\nDunmore Hall agreed.", ["Hugh Dunmore Hall"]),
        ("An iPhone lay beside UNESCO papers.", ["iPhone", "UNESCO"]),
        ("The ~~Ferry Board of Ness~~ Harbour Trust of Ness agreed.", ["Harbour Trust of Ness"]),
        ("They wrote it in .NET for Reuters. The .NET Core (.NET) is new .", [".NET", "Reuters", ".NET Core"]),
    ],
)
def test_a_name_is_found_whole(text, found):
    """Names go on over "of", "for the" and "and", not over the end of a short line; the first word of a sentence is none."""
    assert names(text) == found


@pytest.mark.parametrize("word", ["He", "Monday", "Tues", "1984", "12:30", "GMT", "他们", "星期一", "---"])
def test_pronouns_weekdays_numbers_and_units_are_noise(word):
    """What no reader would call a name never becomes an entity."""
    assert is_not_a_name(word)


def test_lines_repeated_on_every_page_and_licences_hold_no_names():
    """A page's foot and a licence are blanked, offsets stay; what stands elsewhere is found."""
    pages = "\n".join(f"Lars Holm wrote page {n}.\nAcme Corporation Confidential, Page {n} of 3" for n in (1, 2, 3))
    licence = "\n\nCopyright Zenith Press. All rights reserved. Permission is hereby granted to Quill House."

    found = names(pages + licence)

    assert found == ["Lars Holm"]
    assert len(Boilerplate(pages + licence).mask(pages)) == len(pages)
    assert not Boilerplate(pages + licence).mask("Permission is hereby granted to Quill").strip()  # a chunk ends within the line


def test_noun_phrases_that_recur_stand_in_for_names():
    """In a text without names, the noun phrases it keeps using are offered, as they are written; what occurs once is not."""
    text = (
        "The larva eats its egg shell. A growing larva sheds its skin. In the chrysalis the larva changes. "
        "A butterfly leaves the chrysalis. The butterfly has wings and a branch."
    )

    found = recurring_noun_phrases(ChunkText(text, DocumentCasing(text)), [])

    assert {"the larva", "the chrysalis"} <= set(found)
    assert not any("branch" in phrase for phrase in found)
    assert all(find_name_spans(text, phrase) for phrase in found)


def test_chinese_noun_phrases_are_found_by_dictionary():
    """Chinese texts have noun phrases too."""
    text = "灯塔建在码头旁边。灯塔的看守人每天检查码头。"

    assert {"灯塔", "码头"} <= {
        *recurring_noun_phrases(ChunkText(text, DocumentCasing(text)), []),
        *candidate_names(ChunkText(text, DocumentCasing(text))),
    }


@pytest.mark.parametrize(
    "text", ["'WORD AND WORD ' * 60_000", "'A' * 1_000_000", "'A-' * 500_000", "'Lars Holm ' * 100_000", "('x' * 99 + ' Lars\\n') * 10_000"]
)
def test_names_are_looked_for_in_the_time_a_text_takes_to_read(text):
    """A megabyte of capitals, of one word, of one line: what was copied or kept for each word of it would take minutes or gigabytes."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "from localrag.indexing.extraction.names import DocumentCasing\n"
        f"text = {text}; case = DocumentCasing(text); print(len(case.inside), case.phrases.total())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=100).returncode == 0


def test_the_books_of_one_file_are_read_and_what_stands_around_them_is_not():
    """A file of several Project Gutenberg books has a licence before, between and after them: names are found in the books alone."""
    mark = "*** {} OF THE PROJECT GUTENBERG EBOOK ***"
    books = "".join(
        f"Agnes Licence {n} wrote to us.\n\n{mark.format('START')}\n\nLars Holm sailed.\n\n{mark.format('END')}\n\n" for n in range(3)
    )
    case = DocumentCasing(books)

    assert case.furniture.mask(books).split() == ["Lars", "Holm", "sailed."] * 3
