"""Choosing by measurements that noise cannot fool."""

from localrag.engine.autotune.measure import Measurement, fastest
from localrag.engine.settings import EngineSettings


def test_a_later_choice_must_be_clearly_faster():
    """A gain of more than 8 % decides; the order is that of preference."""
    first, much, little = (Measurement(EngineSettings(), seconds, seconds) for seconds in (1.0, 0.9, 0.95))

    assert fastest([first, much]) is much
    assert fastest([first, little]) is first
    assert fastest([first, much, little]) is much
