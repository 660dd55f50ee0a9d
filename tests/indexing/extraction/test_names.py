"""Where names stand in a text."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from localrag.indexing.extraction.names import find_name_spans

WORDS = st.sampled_from(["the", "The", "Skua", "he", "T.", "a", "Skuas"])
SPACES = st.sampled_from([" ", "\n", " \n\t", "\u3000", "", "-"])
TEXTS = st.lists(st.tuples(WORDS, SPACES), max_size=12).map(lambda pairs: "".join(w + s for w, s in pairs))


def pattern(name):
    """Its words with whitespace between them; a leading article in either case."""
    first, *rest = name.split()
    article = bool(rest) and first in ("the", "The")
    return re.compile(r"\s+".join(["[Tt]he" if article else re.escape(first), *map(re.escape, rest)]))


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=3).map(" ".join))
@example("the the Skua", "the Skua")
@example("The\nSkua he Skua", "The Skua")
def test_a_name_stands_where_its_words_do_with_any_whitespace_between_them(text, name):
    """What a regular expression for the name finds is found, each place once."""
    places = (m.span() for m in pattern(name).finditer(text))
    expected = [(a, b) for a, b in places if not (text[a - 1 : a].isalnum() or text[b : b + 1].isalnum())]

    assert find_name_spans(text, name) == expected
