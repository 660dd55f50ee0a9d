"""Choosing by measurements that noise cannot fool."""

from itertools import cycle

import pytest

from localrag.engine.autotune.measure import MachineBusy, Measurement, TimedStep, fastest, measure_rounds
from localrag.engine.settings import EngineSettings


def measured(*times, **settings):
    """A choice that took these times in its rounds, for reading and writing alike."""
    return Measurement(EngineSettings(**settings), times, times)


def test_a_later_choice_must_be_faster_in_nearly_all_rounds():
    """One lucky or unlucky round decides nothing; a gain in three of four rounds does, if it is of more than 8 %."""
    first = measured(1.0, 1.0, 1.0, 1.0)

    assert fastest([first, measured(0.8, 0.8, 1.1, 0.8)]) is not first
    assert fastest([first, measured(0.05, 1.1, 1.1, 1.1)]) is first
    assert fastest([first, measured(0.5, 0.5, 1.2, 1.2)]) is first
    assert fastest([first, measured(0.95, 0.95, 0.95, 0.95)]) is first


def test_an_exact_layout_is_preferred_on_a_cpu():
    """A layout whose answers depend on their company must gain more, but for a GPU, where all do."""
    exact, loose = measured(1.0, 1.0, 1.0), measured(0.85, 0.85, 0.85, flash_attention=True)

    assert fastest([exact, loose]) is exact
    assert fastest([exact, loose], prefer_exact=False) is loose


def test_rounds_beside_another_process_do_not_count():
    """Every second round is disturbed: what is left are the times of the others, of all choices alike."""
    disturbed = cycle([False, True])
    works = [lambda: [TimedStep(9.0, False) if next(disturbed) else TimedStep(1.0, True)], lambda: [TimedStep(2.0, True)]]

    assert measure_rounds(works, 3) == [[[1.0], [2.0]]] * 3


def test_a_machine_that_stays_busy_is_not_measured():
    """Where hardly a round counts, there is no result rather than a wrong one."""
    disturbed = cycle([True, True, True, False])

    with pytest.raises(MachineBusy):
        measure_rounds([lambda: [TimedStep(1.0, not next(disturbed))]], 4)
