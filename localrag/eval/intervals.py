"""How sure a difference is: bootstrap intervals over items that both models were given, t intervals over repeated speeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 0

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Difference:
    """`second` less `first` and its 95 % interval; `low` and `high` are None where there is nothing to tell it from (one measurement)."""

    first: float
    second: float
    low: float | None
    high: float | None
    items: int  # both were given, or measurements of each

    @property
    def value(self) -> float:
        """Second less first."""
        return self.second - self.first

    @property
    def sure(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], statistic: Statistic) -> Difference:
    """The difference of a statistic over the same items, with a percentile bootstrap interval (Efron 1979) that draws items.

    first, second: (items, values) of the two; an item is drawn with what both made of it. statistic: (…, items, values) → (…).
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    draws = np.random.default_rng(SEED).integers(0, len(a), (RESAMPLES, len(a)))
    spread = statistic(b[draws]) - statistic(a[draws])
    low, high = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(float(statistic(a)), float(statistic(b)), float(low), float(high), len(a))


def unpaired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The difference of two means with Welch's t interval: a bootstrap of the three or five values there usually are is far too narrow."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    means, least = (float(a.mean()), float(b.mean())), min(len(a), len(b))
    if least < 2:
        return Difference(*means, None, None, least)
    errors = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    if not errors.sum():
        return Difference(*means, means[1] - means[0], means[1] - means[0], least)
    from scipy.stats import t

    freedom = errors.sum() ** 2 / (errors**2 / np.array([len(a) - 1, len(b) - 1])).sum()
    reach = float(t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(errors.sum()))
    return Difference(*means, means[1] - means[0] - reach, means[1] - means[0] + reach, least)


def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of items of one value each, (…, items, 1) → (…)."""
    return np.asarray(values[..., 0].mean(axis=-1))


def micro_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 over all items together; counts (…, items, 3): right, said, gold. 1 where there was nothing to say and nothing was said."""
    right, said, gold = np.moveaxis(counts.sum(axis=-2), -1, 0)
    whole = said + gold
    return np.asarray(np.where(whole > 0, 2 * right / np.maximum(whole, 1), 1.0))
