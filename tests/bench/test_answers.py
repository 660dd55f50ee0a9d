"""Yes or no with its probability, and how answers to the ten questions are counted."""

import numpy as np
import pytest

from localrag.bench.tasks import probability_of_yes, sentences, verified
from localrag.records import Answer, Citation
from tests.fakes import FakeLlama


def test_the_probability_of_yes_is_that_of_its_first_token_against_the_others():
    """The prompt is read in pieces; of the last row's logits, those where yes and no begin are compared."""
    backend = FakeLlama(slots=1, n_ctx=2000)
    messages = [{"role": "user", "content": "Is it so? " * 60}]

    p = probability_of_yes(backend, messages)

    logits = backend._logits(0)
    yes, no = (np.exp(logits[backend.tokenize(word)[0]]) for word in ("yes", "no"))
    assert p == pytest.approx(yes / (yes + no))
    assert [rows for step in backend.steps for _, rows in step] == [512, len(backend.chat.encode(messages)) - 512]


def test_what_begins_alike_has_no_probability():
    """Where yes and no begin with one token, their first tokens say nothing."""

    class OneToken(FakeLlama):
        def tokenize(self, text):
            return [7, *super().tokenize(text)]

    assert probability_of_yes(OneToken(slots=1), [{"role": "user", "content": "So?"}]) is None


def test_sentences_of_an_answer_are_those_that_say_where_they_come_from():
    """Titles and openings are none; unsupported sentences count."""
    text = "What the documents say of Ada Bo:\n\n**Title**\nShe left. [1][2]\n\nShe came back. [unsupported]\n\n"
    assert sentences(text) == ["**Title**\nShe left. [1][2]", "She came back. [unsupported]"]


def test_a_quote_is_verified_in_its_file(tmp_path):
    """A quote that stands in the file, however its lines are broken, is verified; another is not."""
    (tmp_path / "a.txt").write_text("Ada Bo\nleft Rill.")
    citations = (Citation(1, "a.txt", 0, 17, "Ada Bo left Rill."), Citation(2, "a.txt", 0, 5, "Ada Bo stayed."))

    assert verified(Answer("?", "", "mix", citations=citations), tmp_path) == {1}
