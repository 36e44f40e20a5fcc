"""How sure the mean of scores from 0 to 1 is.

Scores pile up at 1.0, so that a few of them may show no spread at all. The usual intervals (Student's t, the bootstrap)
are far too narrow then: with five scores, each 1.0 with 80 % and else anything, they hold the true mean in 61 of 100
cases instead of 95. Wilson's interval for a share holds it, with the sum of the scores as the number of successes. But
it takes each score for a yes or no, and is four times too wide for scores that lie close together.

So this is Wilson's interval for an effective number of scores, as surveys have it (Kott and Carr 1997, Franco et al.
2019): their number divided by the design effect, which is their variance against that of yes and no with the same mean.
Where we differ: few scores can't tell their variance, so the design effect is drawn towards 1, that of yes and no, as
if further scores with it had been seen: one, and up to six more by the share of scores at the very ends. For of those
that are exactly 0 or 1 the rare opposite may not have been seen yet. They count as degrees of freedom too, as in
Smyth's moderated t (2004), for a quantile of Student's t instead of the normal one.

`make bench` prints how often it holds the true mean, and how wide it is, beside the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import atan, cos, exp, lgamma, pi, sqrt, tan
from statistics import NormalDist, fmean, variance

LEVEL = 0.95
# Scores seen beforehand, as it were, with the variance of yes and no: of any sample, and more of one all at the ends.
PRIOR, PRIOR_AT_ENDS = 1.0, 6.0
_NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
# Of Simpson's rule: seven digits at least.
_STEPS = 200


@dataclass(frozen=True)
class MeanInterval:
    """The mean of some values, 0 to 1, and its 95 % interval.

    Attributes:
        low, high: 0 <= low <= mean <= high <= 1, and never the same.
        count: the values.
    """

    mean: float
    low: float
    high: float
    count: int


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """The mean with its interval.

    A single value has nearly all of 0 to 1 for its interval; equal ones have one that gets narrower with their number.

    Args:
        values: at least one, each 0 to 1. One for each question: repetitions of a question are no further evidence.
    """
    count, mean = len(values), fmean(values)
    binary = mean * (1 - mean)
    prior = PRIOR + PRIOR_AT_ENDS * sum(value in {0.0, 1.0} for value in values) / count
    freedom = count - 1 + prior
    seen = variance(values) / binary if count > 1 and binary > 0 else 1.0
    effect = (prior + (count - 1) * seen) / freedom
    low, high = wilson(mean, count / effect, student(freedom))
    return MeanInterval(mean, min(low, mean), max(high, mean), count)


def wilson(mean: float, count: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share, or of a mean of scores, out of so many; cut to 0 and 1."""
    weight = quantile**2 / count
    centre = mean + weight / 2
    half = sqrt(weight * mean * (1 - mean) + weight**2 / 4)
    return max(0.0, (centre - half) / (1 + weight)), min(1.0, (centre + half) / (1 + weight))


@lru_cache(maxsize=1024)
def student(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t, for any degrees of freedom from 1, whole or not.

    With t = sqrt(freedom) tan(angle), P(|T| <= t) is the integral of cos(x)^(freedom - 1) from 0 to the angle, divided
    by that to a right angle. It rises ever slower, so that Newton's steps from the normal quantile come from below.
    """
    power = freedom - 1
    whole = sqrt(pi) / 2 * exp(lgamma(freedom / 2) - lgamma((freedom + 1) / 2))
    angle = atan(_NORMAL / sqrt(freedom))
    for _ in range(50):
        step = angle / _STEPS
        heights = [cos(number * step) ** power for number in range(_STEPS + 1)]
        area = step / 3 * (heights[0] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
        further = (LEVEL * whole - area) / heights[-1]
        angle += further
        if abs(further) < 1e-12:
            break
    return sqrt(freedom) * tan(angle)
