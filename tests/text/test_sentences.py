"""Sentences of texts: where they begin and end, in bounded time, and how many are remembered."""

import random
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from localrag.text import sentences as sentences_text
from localrag.text.sentences import sentences, split_at_breaks
from tests.conftest import mostly_ci


def split(text):
    return [text[s.start : s.end] for s in sentences(text)]


@pytest.mark.parametrize(
    "found",
    [
        ["Dr. Holm met Mr. Sand at 5 p.m. on Monday.", "They left."],
        ["“It rains. Take a coat,” she said.", "He did."],
        ["Three cases were reported.[11, 12, 13]", "Others followed.[2][3]"],
        ["1. Emergencies may arise.", "They are rare."],
        ["Call httpx.Client and wait.", "Then read U.S. law in full."],
        ["The mean (95% CI) was 3.5 metres.", "It fell (see Table 2)."],
        ["他来了。", "2017年他走了。", "“好！我去。”"],
        ["Wait... what?", "Yes!"],
        # A German day before a month and a number after an article end no sentence, nor does a title.
        ["Mirko Sand wurde am 19. August 2022 an der Hand verletzt.", "Das steht im 2. Absatz.", "Er ist 19.", "Sie ist 20."],
        ["Der Vorstand tagt am 4. Juni 2024 und bestellt den 3. Ofen.", "Er ist 19."],
        ["To log out, remove the user id from the :data:`.Session`.", "See https://example.org/a?B=c for more."],
        ["The pier was late.", "Ms. Brandt will write to approx. forty members."],
    ],
)
def test_a_text_is_split_where_its_sentences_end(found):
    """Not at abbreviations, initials, decimals, items, dots of names, in quotation or code; a reference belongs to what is before it."""
    assert split(("" if sentences_text.is_cjk(found[0]) else " ").join(found)) == found


def test_a_sentence_ends_with_its_line_unless_that_is_wrapped():
    """Short lines stand alone; long ones go on in the next."""
    wrapped = "The council of the town met again on Thursday and\nagreed to build a bridge.\nOne\nTwo"

    assert split(wrapped) == ["The council of the town met again on Thursday and\nagreed to build a bridge.", "One", "Two"]


PARTS = """
a b A B . ! ? " ' ( ) [ ] “ ” ‘ ’ -- ... 1. 2. 10. 11. 1) 2) a) b) (a) c. i. ii. Mr. Dr. no. No. e.g. eng. U.S. p.m. The I
中 文 。 ！ 「 」 😀 \ud800 （ ） 《 》 ．． http://a.b/c @ Yahoo! a.b@c.de Word :: 1:2 [1] [1,2] {mr} St. - | & \\ 's Co. ` « » „ … । ؟
""".split()
PARTS += [part + " " for part in PARTS] + ["\n", "\r", "\t", "  ", "\x0b", "\u2028", "\xa0", "\u3000", "\ufeff", "\x85", "\0", ". . . "]


def test_sentences_of_odd_texts_are_in_order_and_leave_nothing_out():
    """Where marks, brackets, lists, scripts and broken characters stand in any order, every letter is in just one sentence."""
    for seed in range(3000):
        draw = random.Random(seed)
        text = "".join(draw.choices(draw.sample(PARTS, draw.randint(2, 14)), k=draw.choice([6, 20, 80])))
        at = 0
        for span in [*sentences(text), sentences_text.Span(len(text), len(text))]:
            assert at <= span.start
            assert not text[at : span.start].replace("\ufeff", "").strip(), text
            at = span.end


def test_a_text_that_the_library_fails_at_is_one_long_sentence(monkeypatch):
    """A fault in sentencex costs the ends of sentences, not the run."""
    monkeypatch.setattr(
        sentences_text, "_UNUSUAL", sentences_text._DOT
    )  # what it fails at is not taken away: a space of two bytes beside an initial

    assert split("\xa0A\xa0. .A. One more. And more.") == ["A\xa0. .A. One more. And more."]


SHAPES = {
    "references": "'reported.[' + ', '.join(map(str, range(11, 27))) + ']\\nmore'",
    "many references": "'reported.[' + ', '.join(map(str, range(11, 9000))) + ']\\nmore'",
    "digits after a bracket": "'a.[' + '2' * 100_000 + '\\n'",
    "repeated": "'No. ' * 50_000",
    "words of a letter": "'a\\n' * 20_000",
    "numbered": "'1. 2. ' * 15_000",
    "lettered": "'a) b) ' * 15_000",
    "abbreviated": "'Dr. Mr. No. vs. ' * 10_000",
    "starred": "'*. ' * 100_000",
    "chinese": "'中。' * 50_000",
    "letter": "'a' * 1_000_000",
    "brackets": "'(“[' * 100_000",
    "closing brackets": "'a.' + ')' * 300_000",
    "quotation": "'“中。' * 100_000",
    "dots": "'. . ' * 100_000",
    "dashes": "'. ' + '- ' * 200_000",
}


@pytest.mark.parametrize("shape", mostly_ci(SHAPES, "references"))
def test_no_shape_of_text_takes_longer_than_its_length(shape):
    """Texts that could cost a splitter quadratic or exponential time are split within a minute, also on a busy machine."""
    code = (
        f"from localrag.text.sentences import sentences; text = {SHAPES[shape]}; found = sentences(text); print(found[-1].end <= len(text))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout.strip() == "True"


@pytest.mark.skipif(sys.platform == "win32", reason="a process there is not sent SIGINT")
@pytest.mark.ci
def test_splitting_ends_with_ctrl_c():
    """However long the text is, each call of the library is short."""
    code = "from localrag.text.sentences import sentences; sentences('a.b'); print('now', flush=True); sentences('中。' * 100_000_000)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]
    finally:
        process.kill()


def test_stretches_end_where_something_ends():
    """Together they are the text; each ends with a paragraph, else a line, else a word."""
    text = "One two three four.\n\nFive six\nseven eight nine ten eleven twelve thirteen" + "x" * 50
    found = [text[a:b] for a, b in split_at_breaks(text, 30)]

    assert "".join(found) == text
    assert found[:2] == ["One two three four.\n\n", "Five six\nseven eight nine ten "]
    assert all(a.end == b.start for a, b in pairwise(split_at_breaks(text, 30)))
    assert max(map(len, found)) == 30
