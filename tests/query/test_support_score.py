"""The learned score of support: sentences that the rules alone do not prove, figures that no passage has, and what a missing file costs."""

import numpy as np
import pytest

from localrag import model_files
from localrag.llm.reader import PassageReader
from localrag.query.attribution import SentenceVectors, support_checker
from localrag.query.support_score import SupportScorer, load_weights
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Quote

CHARTER = (
    "The mill was founded on 3 May 1961 by Ada Ferrant and Tom Brandl. Ada Ferrant put in 40,000 crowns. "
    "The board has five members. Vera Moss voted against the budget, because the furnace was not insured. "
    "Tom Brandl was excused; he is ill. The van was sold to the bakery Maro for 3,800 crowns."
)
PASSAGE = Quote("charter", 0, len(CHARTER), CHARTER)
READER = PassageReader()


@pytest.fixture(scope="module")
def check(embed):
    return support_checker(embed, reader=READER)


@pytest.mark.parametrize(
    ("sentence", "states"),
    [
        ("Ada Ferrant and Tom Brandl founded the mill in May 1961.", {SUPPORTED_STATE}),
        ("Vera Moss opposed the budget because there was no insurance on the furnace.", {SUPPORTED_STATE, RELATED_STATE}),
        ("The bakery Maro bought the van for 3,800 crowns.", {SUPPORTED_STATE, RELATED_STATE}),
        ("The board has seven members.", {CONTRADICTED_STATE}),
        ("The van was sold for 9,900 crowns.", {CONTRADICTED_STATE, UNSUPPORTED_STATE}),
        ("The board never approves a budget without a vote of all bakers.", {UNSUPPORTED_STATE, CONTRADICTED_STATE}),
        ("Whales migrate north to feed.", {UNSUPPORTED_STATE}),
    ],
)
def test_the_score_keeps_paraphrases_and_refuses_errors(sentence, states, check):
    """A paraphrase is supported or related; another number, an invented fact or another topic is not."""
    found = check(sentence, [PASSAGE], ())

    assert found.state in states
    assert all(CHARTER[q.start : q.end] == q.text for q in found.quotes)
    assert bool(found.quotes) == (found.state != UNSUPPORTED_STATE)


@pytest.mark.parametrize("sentence", ["The board has 7,777 members and five vans.", "Zelda Quist and Tom Brandl founded the mill in 1961."])
def test_a_number_or_name_that_no_passage_has_is_never_supported(sentence, check, embed, monkeypatch):
    """However sure the score is, a sentence with a number or name of its own is not supported."""
    monkeypatch.setattr(SupportScorer, "estimate", lambda *_args, **_options: 9.0)

    assert support_checker(embed, reader=READER)(sentence, [PASSAGE], ()).state != SUPPORTED_STATE


def test_without_the_weights_or_a_reader_the_rules_decide(embed, monkeypatch):
    """A damaged file of the score, or no reader, leaves the verdicts of the rules."""
    sentences = ["The board has five members.", "The board has seven members.", "Whales migrate north to feed."]
    by_rules = [support_checker(embed)(s, [PASSAGE], ()).state for s in sentences]
    damaged = model_files.shipped_models() | {"support": {"path": "adapters/support.md", "sha256": "0"}}
    monkeypatch.setattr(model_files, "shipped_models", lambda: damaged)

    assert [support_checker(embed, reader=READER)(s, [PASSAGE], ()).state for s in sentences] == by_rules
    assert by_rules == [SUPPORTED_STATE, CONTRADICTED_STATE, UNSUPPORTED_STATE]


def test_a_sentence_is_scored_in_any_script_and_shape(embed):
    """Signs alone, one word, Chinese and German have finite features; passages without a sentence have no estimate."""
    scorer = SupportScorer(SentenceVectors(embed).cosines, READER, load_weights())
    for claim in ("…", "Yes.", "董事会有五名成员。", "Der Vorstand hat fünf Mitglieder.", "x" * 500):
        views = scorer.views(claim, [PASSAGE])
        assert views is not None
        assert np.isfinite(scorer.features(claim, [PASSAGE], views, is_proved=False, has_names=True)).all()

    assert scorer.estimate("Yes.", [Quote("c", 0, 1, " ")], is_proved=False, language="en") is None
