"""Intervals against oracles: scipy's bootstrap, scipy's Welch test, and how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from localrag.eval.metrics import mean, micro_f1, paired_difference, welch_difference


def test_the_paired_interval_is_that_of_scipy():
    """Over the same differences, percentiles agree with scipy.stats.bootstrap to its resampling noise."""
    random = np.random.default_rng(1)
    a = random.random(40)
    b = a + random.normal(0.1, 0.2, 40)

    ours = paired_difference(a[:, None], b[:, None], mean)
    theirs = stats.bootstrap((b - a,), np.mean, n_resamples=10_000, method="percentile", rng=2).confidence_interval

    assert ours.value == pytest.approx((b - a).mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.005)
    assert ours.high == pytest.approx(theirs.high, abs=0.005)


def test_pairing_sees_what_differs_item_by_item():
    """A small gain on every item is sure, though the items differ among themselves a hundred times as much."""
    a = np.linspace(0, 1, 40)[:, None]

    assert paired_difference(a, a + 0.01, mean).is_significant
    assert not welch_difference(a[:, 0], a[:, 0] + 0.01).is_significant


def test_a_model_does_not_differ_from_itself():
    """The interval of a model against itself is 0 to 0, and nothing is sure."""
    counts = [[3, 5, 4], [0, 1, 2], [2, 2, 2]]
    d = paired_difference(counts, counts, micro_f1)
    assert (d.low, d.high, d.is_significant) == (0.0, 0.0, False)


def test_f1_is_that_of_all_items_together():
    """Counts are added up before F1 is taken: 3 right of 6 said and 6 there are."""
    assert float(micro_f1(np.array([[3, 3, 3], [0, 3, 3]], float))) == pytest.approx(0.5)
    assert float(micro_f1(np.zeros((2, 3)))) == 1.0


def test_the_interval_of_speeds_is_that_of_welch():
    """Three runs each: the interval is scipy's of Welch's t test."""
    a, b = [100.0, 103.0, 98.0], [110.0, 121.0, 117.0]

    ours = welch_difference(a, b)
    theirs = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)

    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_one_measurement_has_no_interval():
    """With one measurement of a side nothing is said of chance."""
    d = welch_difference([100.0], [120.0, 121.0])
    assert (d.low, d.high, d.is_significant) == (None, None, False)
