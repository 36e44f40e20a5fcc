"""From a run's rows to what is concluded of them: means, the comparison with an earlier run, the gate."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Literal

from evaluation.errors import UNSEEN
from evaluation.folding import fold
from evaluation.metrics import METRICS
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.statistics.comparison import Difference, Pairs, compare_metrics
from evaluation.statistics.gate import Gate, Measured, judge_run
from evaluation.statistics.intervals import mean_interval

MOST_CHANGED = 10
# Questions that are named where something could not be compared.
MOST_NAMED = 10
_FINISHED = frozenset({"done", "failed"})

Outcome = Literal["scored", "not_applicable", "failed", "waiting"]


@dataclass(frozen=True)
class MetricStatistics:
    """A metric over the rows.

    Attributes:
        mean: of the scored rows (0 to 1), None without any; low and high are its 95 % interval. A question asked
            several times counts once, with the mean of its scores: repetitions say nothing of other questions.
        scored: rows with a score, of which `partial` were not judged whole.
        not_applicable, failed: rows without one. A row whose app failed counts as failed.
        questions: how many questions the scored rows are.
    """

    mean: float | None
    low: float | None
    high: float | None
    scored: int = 0
    partial: int = 0
    not_applicable: int = 0
    failed: int = 0
    questions: int = 0


@dataclass(frozen=True)
class Change:
    """A row whose score changed."""

    row: int
    question: str
    metric: str
    before: float
    after: float


@dataclass(frozen=True)
class Lost:
    """A row that can't be compared, since one of the runs failed to score it.

    Attributes:
        metrics: those that only one run scored.
        failed_now: whether this run failed, or the one before.
    """

    row: int
    question: str
    metrics: tuple[str, ...]
    failed_now: bool


@dataclass(frozen=True)
class Named:
    """A row of this run by its question."""

    row: int
    question: str


@dataclass(frozen=True)
class Comparison:
    """A run against an earlier one.

    Attributes:
        differences: by metric name.
        changes: the rows that changed most, the largest change first.
        only_now, only_before: rows that the other run does not have; paired is how many both have.
        lost: the first rows of the table that were lost to failures, once for all repetitions; lost_rows is how many
            there are.
        changed_references: the first rows of the table whose reference is another one than before; references_changed
            is how many there are. Metrics that read the reference don't count them as pairs.
    """

    differences: Mapping[str, Difference]
    changes: Sequence[Change]
    only_now: int = 0
    only_before: int = 0
    paired: int = 0
    lost: Sequence[Lost] = ()
    lost_rows: int = 0
    changed_references: Sequence[Named] = ()
    references_changed: int = 0


def metric_statistics(records: Sequence[RowRecord], metric: str) -> MetricStatistics:
    """The metric over the records that are finished."""
    finished = [record for record in records if record.state in _FINISHED]
    outcomes = [outcome(record, metric) for record in finished]
    by_question = list(_by_question(finished, lambda record: record.score(metric)).values())
    found = mean_interval([fmean(scores) for scores in by_question]) if by_question else None
    return MetricStatistics(
        found.mean if found else None,
        found.low if found else None,
        found.high if found else None,
        scored=outcomes.count("scored"),
        partial=sum(record.metrics.get(metric, {}).get("status") == "partial" for record in finished),
        not_applicable=outcomes.count("not_applicable"),
        failed=outcomes.count("failed"),
        questions=len(by_question),
    )


def outcome(record: RowRecord, metric: str) -> Outcome:
    """What became of a metric in a row. All metrics of a row whose app failed have failed."""
    if record.state not in _FINISHED:
        return "waiting"
    if record.score(metric) is not None:
        return "scored"
    status = record.metrics.get(metric, {}).get("status", "failed")
    return "not_applicable" if status == "not_applicable" else "failed"


def gate_of(
    records: Sequence[RowRecord], statistics: Mapping[str, MetricStatistics], settings: RunSettings
) -> Gate | None:
    """Whether the run passes, None when none of its metrics has a threshold.

    Args:
        records: all of the run, also those that are still open.
    """
    limits = {name: limit for name, limit in settings.thresholds.items() if name in statistics}
    if not limits:
        return None
    finished = [record for record in records if record.state in _FINISHED]
    return judge_run(
        {
            name: Measured(limit, statistics[name].mean, statistics[name].low, _at_best(finished, name))
            for name, limit in limits.items()
        },
        rows=len(records),
        done=len(finished),
        failed=sum(any(outcome(record, name) == "failed" for name in limits) for record in finished),
        kind=settings.gate,
        max_failed=settings.max_failed,
    )


def _at_best(records: Sequence[RowRecord], metric: str) -> float | None:
    """The metric's mean if each row that failed had scored 1.0, None when it applies to no row.

    Where nobody can see what was retrieved the metric would apply: a threshold of it is then not measured, not passed
    over.
    """

    def best(record: RowRecord) -> float | None:
        unknown = outcome(record, metric) == "failed" or record.metrics[metric].get("reason") in UNSEEN
        return 1.0 if unknown else record.score(metric)

    scores = [fmean(repeated) for repeated in _by_question(records, best).values()]
    return fmean(scores) if scores else None


def _by_question(records: Sequence[RowRecord], value: Callable[[RowRecord], float | None]) -> dict[int, list[float]]:
    """The values of each row of the table, one for each repetition that has one."""
    grouped: dict[int, list[float]] = {}
    for record in records:
        if (found := value(record)) is not None:
            grouped.setdefault(record.row, []).append(found)
    return grouped


@dataclass(frozen=True)
class Pair:
    """The same question in two runs."""

    now: RowRecord
    before: RowRecord
    same_reference: bool


def compare(now: Sequence[RowRecord], before: Sequence[RowRecord], metrics: Sequence[str]) -> Comparison:
    """The run against an earlier one, row by row: of the same question with the same inputs, and the same repetition.

    Rows of the same question that are alike in all of these are paired by their reference first, then in order. A
    metric that reads the reference is not compared in rows where that has changed: its score is another one's. Nor is
    one that the earlier run did not ask for.
    Rows that are not finished count as questions but have no scores.
    """
    pairs = paired(now, before)
    comparable = {name: _comparable(pairs, name) if _asked(before, name) else [] for name in metrics}
    changed = list(dict.fromkeys(Named(p.now.row, p.now.question) for p in pairs if not p.same_reference))
    lost = _lost(comparable)
    changes = [change for name, of_metric in comparable.items() for change in _changes(of_metric, name)]
    changes.sort(key=lambda change: -abs(change.after - change.before))
    return Comparison(
        compare_metrics({name: _scored_pairs(of_metric, name) for name, of_metric in comparable.items()}),
        changes[:MOST_CHANGED],
        len(now) - len(pairs),
        len(before) - len(pairs),
        len(pairs),
        lost[:MOST_NAMED],
        len({row.row for row in lost}),
        changed[:MOST_NAMED],
        len(changed),
    )


def paired(now: Sequence[RowRecord], before: Sequence[RowRecord]) -> list[Pair]:
    """The rows of the same question, inputs and repetition in both runs, in the order of this one; see `compare`."""
    folded = cache(fold)
    earlier, current = _grouped(before, folded), _grouped(now, folded)
    pairs = []
    for key, records in current.items():
        references: dict[str, list[RowRecord]] = {}
        for old in reversed(earlier.get(key, ())):
            references.setdefault(folded(old.reference), []).append(old)
        others = []
        for record in records:
            if same := references.get(folded(record.reference)):
                pairs.append(Pair(record, same.pop(), same_reference=True))
            else:
                others.append(record)
        left = sorted((old for rest in references.values() for old in rest), key=lambda old: old.row)
        pairs += [Pair(record, old, same_reference=False) for record, old in zip(others, left, strict=False)]
    return sorted(pairs, key=lambda pair: (pair.now.row, pair.now.repetition))


def _grouped(records: Sequence[RowRecord], folded: Callable[[str], str]) -> dict[tuple[object, ...], list[RowRecord]]:
    """The records by question, inputs that are not empty, and repetition."""
    grouped: dict[tuple[object, ...], list[RowRecord]] = {}
    for record in records:
        inputs = {name.strip(): unicodedata.normalize("NFKC", value).strip() for name, value in record.inputs.items()}
        given = tuple(sorted((name, value) for name, value in inputs.items() if value))
        grouped.setdefault((folded(record.question), given, record.repetition), []).append(record)
    return grouped


def _asked(records: Sequence[RowRecord], metric: str) -> bool:
    """Whether a run scored a metric at all, as far as its rows tell: those whose app failed have none."""
    done = [record for record in records if record.state == "done"]
    return not done or any(metric in record.metrics for record in done)


def _comparable(pairs: Sequence[Pair], metric: str) -> list[Pair]:
    """The pairs without those in which the metric has another reference to go by."""
    reads_reference = metric in METRICS and "reference" in METRICS[metric].inputs
    return [pair for pair in pairs if pair.same_reference or not reads_reference]


def _scored_pairs(pairs: Sequence[Pair], metric: str) -> Pairs:
    gains: dict[int, list[float]] = {}
    missing = {"failed": 0, "waiting": 0, "not_applicable": 0}
    for pair in pairs:
        after, before = pair.now.score(metric), pair.before.score(metric)
        if after is not None and before is not None:
            gains.setdefault(pair.now.row, []).append(after - before)
        elif after is not None or before is not None:
            missing[outcome(pair.before if before is None else pair.now, metric)] += 1
    return Pairs(list(gains.values()), missing["failed"], missing["waiting"], missing["not_applicable"])


def _changes(pairs: Sequence[Pair], metric: str) -> Iterator[Change]:
    for pair in pairs:
        after, before = pair.now.score(metric), pair.before.score(metric)
        if after is not None and before is not None and after != before:
            yield Change(pair.now.row, pair.now.question, metric, before, after)


def _lost(comparable: Mapping[str, Sequence[Pair]]) -> list[Lost]:
    """The rows that only one run scored and the other failed to, in the order of the table."""
    found: dict[tuple[int, bool], tuple[str, dict[str, None]]] = {}
    for metric, pairs in comparable.items():
        for pair in pairs:
            now, before = outcome(pair.now, metric), outcome(pair.before, metric)
            if {now, before} == {"scored", "failed"}:
                key = (pair.now.row, now == "failed")
                found.setdefault(key, (pair.now.question, {}))[1][metric] = None
    return [Lost(row, question, tuple(names), now) for (row, now), (question, names) in sorted(found.items())]
