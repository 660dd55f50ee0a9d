"""Scores on examples that can be counted by hand."""

import pytest

from localrag.eval.datasets import GoldDocument, GoldMention
from localrag.eval.extraction import ExtractionScores, PrecisionRecall
from localrag.records import ExtractedEntity

TEXT = "Anna Marsh runs Dover Lines in Dover. Marsh is rich."
MENTIONS = (
    GoldMention(0, 10, "PER", "anna"),
    GoldMention(16, 27, "ORG", "lines"),
    GoldMention(31, 36, "LOC", "dover"),
    GoldMention(38, 43, "PER", "anna"),
)
GOLD = GoldDocument("d", TEXT, MENTIONS, frozenset({frozenset(("anna", "lines"))}))
TYPES = {"PER": "person", "ORG": "organization"}


def scored(*entities, pairs=()):
    scores = ExtractionScores(TYPES)
    scores.add_entities(GOLD, [ExtractedEntity(n, t) for n, t in entities])
    scores.add_relations(GOLD, pairs)
    return scores.figures()


def test_spans_and_types_are_counted_at_every_place():
    """Two of four mentions exactly, one in part, one invented, one repeated."""
    found = scored(("Anna Marsh", "person"), ("Dover", "organization"), ("rich", "person"), ("Zeus", "person"), ("Dover", "place"))

    assert found["entity_precision"] == pytest.approx(2 / 5)  # Anna Marsh and the second Dover; not the first, rich, Zeus
    assert found["entity_recall"] == pytest.approx(2 / 4)
    assert found["duplicates"] == 1
    assert found["verbatim"] == pytest.approx(4 / 5)
    assert found["typed_f1"] == pytest.approx(2 * 1 / (4 + 3), abs=1e-4)  # Anna Marsh; the second Dover's gold type is not asked


def test_a_relation_holds_between_entities_not_names():
    """Marsh stands for Anna Marsh; the wrong pair costs precision."""
    found = scored(pairs=[("Marsh", "Dover Lines"), ("Anna Marsh", "Dover")])

    assert found["relation_recall"] == 1.0
    assert found["relation_precision"] == 0.5


def test_nothing_to_say_and_nothing_said_is_right():
    """A text without entities that yields none scores 1."""
    assert PrecisionRecall().f1 == 1.0
    assert PrecisionRecall(0, 1, 0).f1 == 0.0
    assert PrecisionRecall().f1_95 == [1.0, 1.0]
