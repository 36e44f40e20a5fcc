"""Means over many rows, how sure they are, and whether a run is better than another."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from evaluation.folding import fold
from evaluation.runs.records import RowRecord

RESAMPLES = 2000
SEED = 20_240_501
LEVEL = 0.95
MOST_CHANGED = 10
# Drawn at a time: 500 rows in one go, and any number of rows within some 12 MB.
DRAWN_AT_ONCE = 1_000_000
# With fewer questions all changes may point one way by chance more often than 5 times in 100: 2 x 0.5^5 is 6.3 %.
FEWEST_QUESTIONS = 6

Sign = Literal["better", "worse", "no_clear_difference"]


@dataclass(frozen=True)
class MetricStatistics:
    """A metric over the rows.

    Attributes:
        mean: of the scored rows (0 to 1), None without any; low and high are its 95 % bootstrap interval. A question
            asked several times counts once, with the mean of its scores: repetitions say nothing of other questions.
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
        mean: of the differences by question, -1 to 1, None without pairs; low and high are its 95 % bootstrap interval.
        pairs: rows that both runs scored.
        sign: better or worse only when there are six questions at least and the interval lies on one side of 0.
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
    # Not at the top: the tools of a chat start and run without it, 25 MB smaller.
    import numpy as np  # noqa: PLC0415

    data = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(SEED)
    count = len(data)
    at_once = max(1, min(RESAMPLES, DRAWN_AT_ONCE // count))
    means = np.empty(RESAMPLES)
    for start in range(0, RESAMPLES, at_once):
        stop = min(start + at_once, RESAMPLES)
        drawn = generator.integers(0, count, size=(stop - start, count), dtype=np.int32)
        means[start:stop] = data[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def metric_statistics(records: Sequence[RowRecord], metric: str) -> MetricStatistics:
    """The metric over the records that are finished."""
    finished = [record for record in records if record.state in {"done", "failed"}]
    scores = [(record.row, score) for record in finished if (score := record.score(metric)) is not None]
    statuses = [record.metrics.get(metric, {}).get("status", "failed") for record in finished]
    by_question = _by_question(scores)
    low, high = interval(by_question) if scores else (None, None)
    return MetricStatistics(
        fmean(by_question) if scores else None,
        low,
        high,
        scored=len(scores),
        partial=statuses.count("partial"),
        not_applicable=statuses.count("not_applicable"),
        failed=statuses.count("failed"),
    )


def compare(now: Sequence[RowRecord], before: Sequence[RowRecord], metrics: Sequence[str]) -> Comparison:
    """The run against an earlier one, question by question.

    Questions are paired by their text and repetition; of a question that stands in the table several times the first
    is paired with the first, and so on. Rows that are not finished count as questions but have no scores.
    """
    earlier, current = _keyed(before), _keyed(now)
    pairs = [(earlier[key], record) for key, record in current.items() if key in earlier]
    differences: dict[str, Difference] = {}
    changes: list[Change] = []
    for metric in metrics:
        gains = []
        for old_record, record in pairs:
            old, new = old_record.score(metric), record.score(metric)
            if old is None or new is None:
                continue
            gains.append((record.row, new - old))
            if new != old:
                changes.append(Change(record.row, record.question, metric, old, new))
        differences[metric] = _difference(gains)
    changes.sort(key=lambda change: -abs(change.after - change.before))
    return Comparison(
        differences, changes[:MOST_CHANGED], len(current.keys() - earlier.keys()), len(earlier.keys() - current.keys())
    )


def _keyed(records: Sequence[RowRecord]) -> dict[tuple[str, int, int], RowRecord]:
    """The records by question, repetition, and how often that stood there before."""
    seen: Counter[tuple[str, int]] = Counter()
    keyed = {}
    for record in records:
        question = (fold(record.question), record.repetition)
        keyed[(*question, seen[question])] = record
        seen[question] += 1
    return keyed


def _by_question(values: Sequence[tuple[int, float]]) -> list[float]:
    """One value per question, the mean of its repetitions, from (row, value)."""
    grouped: dict[int, list[float]] = {}
    for row, value in values:
        grouped.setdefault(row, []).append(value)
    return [fmean(repeated) for repeated in grouped.values()]


def _difference(of_rows: Sequence[tuple[int, float]]) -> Difference:
    if not of_rows:
        return Difference(None, None, None, 0, "no_clear_difference")
    gains = _by_question(of_rows)
    low, high = interval(gains)
    sign: Sign = "no_clear_difference"
    if len(gains) >= FEWEST_QUESTIONS and (low > 0 or high < 0):
        sign = "better" if low > 0 else "worse"
    return Difference(fmean(gains), low, high, len(of_rows), sign)
