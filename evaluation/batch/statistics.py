"""Means over many rows, how sure they are, and whether a run is better than another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.batch.records import RowRecord
from evaluation.golden import fold

RESAMPLES = 2000
SEED = 20_240_501
LEVEL = 0.95
MOST_CHANGED = 10

Sign = Literal["better", "worse", "no_clear_difference"]


@dataclass(frozen=True)
class MetricStatistics:
    """A metric over the rows.

    Attributes:
        mean: of the scored rows (0 to 1), None without any; low and high are its 95 % bootstrap interval.
        scored: rows with a score, of which `partial` were not judged whole.
        not_applicable, failed: rows without one. A row whose app failed counts as failed.
    """

    mean: float | None
    low: float | None
    high: float | None
    scored: int = 0
    partial: int = 0
    not_applicable: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Difference:
    """A metric now against before, over the rows that both runs scored.

    Attributes:
        mean: of the differences, -1 to 1, None without pairs; low and high are its 95 % bootstrap interval.
        sign: better or worse only when the interval lies on one side of 0.
    """

    mean: float | None
    low: float | None
    high: float | None
    pairs: int
    sign: Sign


@dataclass(frozen=True)
class Change:
    """A row whose score changed."""

    row: int
    question: str
    metric: str
    before: float
    after: float


@dataclass(frozen=True)
class Comparison:
    """A run against an earlier one.

    Attributes:
        differences: by metric name.
        changes: the rows that changed most, the largest change first.
        only_now, only_before: questions that the other run does not have.
    """

    differences: Mapping[str, Difference]
    changes: Sequence[Change]
    only_now: int = 0
    only_before: int = 0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean; seeded, so that the same rows give the same interval.

    One value, or all equal ones, give an interval without width: nothing is known of the spread then.
    """
    data = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(SEED).integers(0, len(data), size=(RESAMPLES, len(data)))
    means = data[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def metric_statistics(records: Sequence[RowRecord], metric: str) -> MetricStatistics:
    """The metric over the records that are finished."""
    finished = [record for record in records if record.state in {"done", "failed"}]
    scores = [score for record in finished if (score := record.score(metric)) is not None]
    statuses = [record.metrics.get(metric, {}).get("status", "failed") for record in finished]
    low, high = interval(scores) if scores else (None, None)
    return MetricStatistics(
        float(np.mean(scores)) if scores else None,
        low,
        high,
        scored=len(scores),
        partial=statuses.count("partial"),
        not_applicable=statuses.count("not_applicable"),
        failed=statuses.count("failed"),
    )


def compare(now: Sequence[RowRecord], before: Sequence[RowRecord], metrics: Sequence[str]) -> Comparison:
    """The run against an earlier one, question by question. Questions are paired by their text and repetition."""
    earlier = {(fold(record.question), record.repetition): record for record in before}
    current = {(fold(record.question), record.repetition): record for record in now}
    differences: dict[str, Difference] = {}
    changes: list[Change] = []
    for metric in metrics:
        gains = []
        for key, record in current.items():
            if key not in earlier:
                continue
            old, new = earlier[key].score(metric), record.score(metric)
            if old is None or new is None:
                continue
            gains.append(new - old)
            if new != old:
                changes.append(Change(record.row, record.question, metric, old, new))
        differences[metric] = _difference(gains)
    changes.sort(key=lambda change: -abs(change.after - change.before))
    return Comparison(
        differences, changes[:MOST_CHANGED], len(current.keys() - earlier.keys()), len(earlier.keys() - current.keys())
    )


def _difference(gains: Sequence[float]) -> Difference:
    if not gains:
        return Difference(None, None, None, 0, "no_clear_difference")
    low, high = interval(gains)
    # One row says nothing of the others: its interval has no width.
    sign: Sign = "no_clear_difference"
    if len(gains) > 1 and (low > 0 or high < 0):
        sign = "better" if low > 0 else "worse"
    return Difference(float(np.mean(gains)), low, high, len(gains), sign)
