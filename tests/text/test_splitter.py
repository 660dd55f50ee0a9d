"""Sentences are pysbd's, in time that grows with the text."""

import random
import subprocess
import sys
import warnings
from itertools import pairwise

import pytest

from localrag.index.extraction.names.case import Case
from localrag.text.plain import _blocks, is_cjk, stretches
from localrag.text.splitter import split
from tests.conftest import DATA

# What its rules look for: ends of sentences, quotation, brackets, lists, abbreviations, numbers, and the characters it stands in for them.
PARTS = """
a b A B . ! ? " ' ( ) [ ] “ ” ‘ ’ -- ... 1. 2. 10. 11. 1) 2) a) b) (a) c. i. ii. Mr. Dr. no. No. e.g. eng. U.S. p.m. The I 中 文 。 ！ 「 」
（ ） 《 》 ．． http://a.b/c @ Yahoo! word Word :: 1:2 [1] {mr} St. - ⁃ | & \\ ♨ ☝ ∯ 's Co.
""".split()
PARTS += [part + " " for part in PARTS] + ["\n", "\r", "\t", "  ", "\x0b", "\u2028", ". . . "]


def by_pysbd(text, language):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pysbd

        return [(s.start, s.end) for s in pysbd.Segmenter(language=language, clean=False, char_span=True).segment(text)]


def paragraphs(file, most):
    text = file.read_text(encoding="utf-8")
    found = [text[b.start : b.end] for b in _blocks(text) if text[b.start : b.end].strip()]
    return random.Random(file.name).sample(found, min(most, len(found)))


@pytest.mark.parametrize("name", ["texts/christmas_carol.txt", "texts/zh_水浒传.txt", "graphrag_bench/novels/Novel-29973.txt"])
def test_sentences_of_a_text_are_those_of_pysbd(name):
    """Where each begins and ends in paragraphs of books is what pysbd itself says."""
    for paragraph in paragraphs(DATA / name, 150):
        language = "zh" if is_cjk(paragraph) else "en"
        assert split(paragraph, language) == by_pysbd(paragraph, language)


def test_sentences_of_odd_texts_are_those_of_pysbd():
    """So they are where marks, abbreviations and lists stand in any order."""
    draw = random.Random(1)
    for _ in range(1500):
        few = draw.sample(PARTS, draw.randint(2, 14))
        text = "".join(draw.choices(few, k=draw.choice([6, 20, 80])))
        language = "zh" if is_cjk(text) else "en"
        assert split(text, language) == by_pysbd(text, language), text


SHAPES = {
    "repeated": "'No. ' * 50_000",
    "words of a letter": "'a\\n' * 20_000",
    "numbered": "'1. 2. ' * 15_000",
    "lettered": "'a) b) ' * 15_000",
    "abbreviated": "'Dr. Mr. No. vs. ' * 10_000",
    "chinese": "'中。' * 50_000",
    "letter": "'a' * 1_000_000",
    "brackets": "'(“[' * 100_000",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_of_text_takes_longer_than_its_length(shape):
    """Texts that took pysbd minutes to hours are split within the time a busy machine may need for any of their length."""
    code = f"from localrag.text.plain import sentences; text = {SHAPES[shape]}; found = sentences(text); print(found[-1].end <= len(text))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout.strip() == "True"


@pytest.mark.parametrize(
    "text", ["'WORD AND WORD ' * 60_000", "'A' * 1_000_000", "'A-' * 500_000", "'Lars Holm ' * 100_000", "('x' * 99 + ' Lars\\n') * 10_000"]
)
def test_names_are_looked_for_in_the_time_a_text_takes_to_read(text):
    """A megabyte of capitals, of one word, of one line: what was copied or kept for each word of it would take minutes or gigabytes."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "from localrag.index.extraction.names.capitals import Case\n"
        f"text = {text}; case = Case(text); print(len(case.inside), case.phrases.total())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=100).returncode == 0


def test_stretches_end_where_something_ends():
    """Together they are the text; each ends with a paragraph, else a line, else a word."""
    text = "One two three four.\n\nFive six\nseven eight nine ten eleven twelve thirteen" + "x" * 50
    found = [text[a:b] for a, b in stretches(text, 30)]

    assert "".join(found) == text
    assert found[:2] == ["One two three four.\n\n", "Five six\nseven eight nine ten "]
    assert all(a.end == b.start for a, b in pairwise(stretches(text, 30)))
    assert max(map(len, found)) == 30


def test_the_books_of_one_file_are_read_and_what_stands_around_them_is_not():
    """A file of several Project Gutenberg books has a licence before, between and after them: names are found in the books alone."""
    mark = "*** {} OF THE PROJECT GUTENBERG EBOOK ***"
    books = "".join(
        f"Agnes Licence {n} wrote to us.\n\n{mark.format('START')}\n\nLars Holm sailed.\n\n{mark.format('END')}\n\n" for n in range(3)
    )
    case = Case(books)

    assert case.furniture.blank(books).split() == ["Lars", "Holm", "sailed."] * 3
