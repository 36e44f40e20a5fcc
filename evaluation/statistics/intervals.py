"""How sure the mean of scores from 0 to 1 is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

LEVEL = 0.95


@dataclass(frozen=True)
class MeanInterval:
    """The mean of some values, 0 to 1, and the interval that it stands for.

    Attributes:
        low, high: of the interval; 0 <= low <= mean <= high <= 1, never low == high.
        count: the values.
    """

    mean: float
    low: float
    high: float
    count: int


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """The mean of at least one value from 0 to 1, with an interval at the level of 95 %."""
    count, mean = len(values), fmean(values)
    spread = mean * (1 - mean)
    effect = 1.0
    if count > 1 and spread > 0:
        effect = (2 + (count - 1) * variance(values) / spread) / (1 + count)
    size = count / effect
    z = 1.96
    centre = (mean + z * z / (2 * size)) / (1 + z * z / size)
    half = z * sqrt(spread / size + z * z / (4 * size * size)) / (1 + z * z / size)
    return MeanInterval(mean, max(0.0, centre - half), min(1.0, centre + half), count)
