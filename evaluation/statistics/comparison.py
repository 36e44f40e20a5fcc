"""Whether metrics changed between two runs of the same questions.

A sign-flip permutation test on the questions' mean differences (Fisher; exact up to 12 questions, else 10,000 seeded
draws), adjusted for the number of metrics by Holm. Had nothing changed, each question's difference would be as likely
to have the other sign, whatever its size; so no spread has to be estimated and few questions are enough.

The interval of a difference is the same test the other way round: every difference that it would not reject (Hartigan
1969, "Using subsample values as typical values"). Its ends are quantiles of the means of all subsets of the questions'
differences, at the level that Holm left to the metric. So a metric is better or worse just when 0 lies outside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.05
EXACT_QUESTIONS = 12
DRAWS = 10_000
SEED = 20_240_501
# A difference that shows as ±0.00 is none.
SHOWN_DECIMALS = 2
# Drawn at a time, so that thousands of questions take some MB only.
_DRAWN_AT_ONCE = 1_000_000
# Means of subsets that differ by less differ by the rounding of sums.
_DECIMALS = 12

Sign = Literal["better", "worse", "no_clear_difference"]
NoSign = Literal[
    "", "no_pairs", "unfinished", "lost_pairs", "too_few_questions", "not_significant", "too_small_to_show"
]


@dataclass(frozen=True)
class Pairs:
    """A metric in two runs, over the rows that both have.

    Attributes:
        gains: by question, now minus before of each repetition that both runs scored, at least one; -1 to 1.
        lost: rows that one run scored and the other failed to.
        waiting: rows that the earlier run scored and this one has not finished.
        inapplicable: rows that one run scored and to which the metric does not apply in the other.
    """

    gains: Sequence[Sequence[float]]
    lost: int = 0
    waiting: int = 0
    inapplicable: int = 0


@dataclass(frozen=True)
class Difference:
    """A metric now against before.

    Attributes:
        mean: of the differences by question, -1 to 1, None without pairs.
        low, high: its interval, None where none can be given: for too few questions, or where pairs are missing.
        pairs, questions: rows that both runs scored, and of how many questions.
        lost, waiting, inapplicable: rows that are no pairs, as in Pairs.
        sign: better or worse only when the adjusted p is below 0.05, and the difference shows with two decimals.
        p, p_adjusted: of the test, and by Holm over the run's metrics; None where no sign is given anyway.
        why: there is no sign, "" when there is one.
    """

    mean: float | None
    low: float | None
    high: float | None
    pairs: int
    sign: Sign
    questions: int = 0
    lost: int = 0
    waiting: int = 0
    inapplicable: int = 0
    p: float | None = None
    p_adjusted: float | None = None
    why: NoSign = ""


def compare_metrics(metrics: Mapping[str, Pairs]) -> dict[str, Difference]:
    """Each metric's difference; those that are tested share one error rate of 5 %.

    No test, and so no sign and no interval, where pairs were lost to failures or are not there yet: those that are left
    may be the easy ones.
    """
    gains = {name: [fmean(repeated) for repeated in pairs.gains] for name, pairs in metrics.items()}
    tested = {name: subset_means(of) for name, of in gains.items() if of and not _missing(metrics[name])}
    p_values = {name: p_value(gains[name], means) for name, means in tested.items()}
    adjusted = holm(p_values)
    return {
        name: _difference(pairs, gains[name], tested.get(name), p_values.get(name), adjusted.get(name))
        for name, pairs in metrics.items()
    }


def _missing(pairs: Pairs) -> NoSign:
    return "lost_pairs" if pairs.lost else "unfinished" if pairs.waiting else ""


def _difference(
    pairs: Pairs, gains: Sequence[float], means: "np.ndarray[Any, Any] | None", p: float | None, adjusted: float | None
) -> Difference:
    mean = fmean(gains) if gains else None
    low = high = None
    sign: Sign = "no_clear_difference"
    why: NoSign = _missing(pairs) or "no_pairs"
    if mean is not None and means is not None and p is not None and adjusted is not None:
        low, high = interval(gains, means, LEVEL * p / adjusted)
        if adjusted >= LEVEL:
            why = "too_few_questions" if low is None else "not_significant"
        elif round(mean, SHOWN_DECIMALS) == 0:
            why = "too_small_to_show"
        else:
            sign, why = "better" if mean > 0 else "worse", ""
    rows = sum(map(len, pairs.gains))
    counts = (len(gains), pairs.lost, pairs.waiting, pairs.inapplicable)
    return Difference(mean, low, high, rows, sign, *counts, p, adjusted, why)


def subset_means(gains: Sequence[float]) -> "np.ndarray[Any, Any]":
    """The means of all subsets of the gains but the empty one, sorted; of more than 12 those of 10,000 drawn ones."""
    # Not at the top: the tools of a chat start and run without it, 25 MB smaller.
    import numpy as np  # noqa: PLC0415

    values, count = np.asarray(gains, dtype=np.float64), len(gains)
    if count <= EXACT_QUESTIONS:
        numbers = np.arange(1, 2**count, dtype=np.int64)
        means = _means(values, (numbers[:, None] >> np.arange(count)) & 1)
    else:
        generator = np.random.default_rng(SEED)
        at_once = max(1, _DRAWN_AT_ONCE // count)
        sizes = [min(at_once, DRAWS - start) for start in range(0, DRAWS, at_once)]
        blocks = (generator.integers(0, 2, size=(size, count), dtype=np.int8) for size in sizes)
        means = np.concatenate([_means(values, block) for block in blocks])
    return np.sort(means.round(_DECIMALS))


def _means(values: "np.ndarray[Any, Any]", taken: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The mean of the values that each row of `taken` marks with 1; of all for the rare row without any."""
    sizes = taken.sum(axis=1)
    taken[sizes == 0] = 1
    sizes[sizes == 0] = len(values)
    means: np.ndarray[Any, Any] = taken @ values / sizes
    return means


def p_value(gains: Sequence[float], means: "np.ndarray[Any, Any]") -> float:
    """Two-sided: how often the sum of the gains is at least as far from 0 when their signs are as chance has it.

    Flipping the signs of a subset takes twice its sum away. So the sum is as large as before, or larger, just for the
    subsets whose mean is not above 0, and for the empty one.
    """
    mean = round(fmean(gains), _DECIMALS)
    hits = int((means <= 0).sum() if mean > 0 else (means >= 0).sum())
    return min(1.0, 2 * (1 + hits) / (1 + len(means)))


def interval(
    gains: Sequence[float], means: "np.ndarray[Any, Any]", level: float
) -> tuple[float, float] | tuple[None, None]:
    """All differences that the test would not reject at a level of error; Nones when it could reject none at all."""
    if not any(gains):
        return 0.0, 0.0
    rank = ceil(level * (1 + len(means)) / 2 - 1 - 1e-9)
    return (float(means[rank - 1]), float(means[-rank])) if rank > 0 else (None, None)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """The p values adjusted for their number (Holm 1979): any below 0.05 by chance in 5 % of all families at most."""
    names = sorted(p_values, key=lambda name: p_values[name])
    raised = (p_values[name] * (len(names) - place) for place, name in enumerate(names))
    return {name: min(1.0, value) for name, value in zip(names, accumulate(raised, max), strict=True)}
