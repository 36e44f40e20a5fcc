"""Why rows of a run have no score."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.errors import Reason
from evaluation.runs.records import RowRecord


@dataclass(frozen=True)
class Cause:
    """The commonest reason.

    Attributes:
        reason: its code.
        values: what its sentence names; of an app's failure what the app said, as "text".
        of_app: the app gave no answer; else a metric could not be scored.
        failed: something went wrong; else the metrics just don't apply.
        rows: in how many rows it comes first.
    """

    reason: Reason
    values: Mapping[str, Any] = field(default_factory=dict)
    of_app: bool = False
    failed: bool = True
    rows: int = 1


def commonest_cause(records: Sequence[RowRecord], metrics: Sequence[str]) -> Cause | None:
    """Why most of the rows that failed did, in whole or in part; where none did, why nothing at all has a score.

    Args:
        records: the finished ones.
    """
    causes = [cause for record in records if (cause := next(_failures(record, metrics), None))]
    if not causes and not any(record.score(metric) is not None for record in records for metric in metrics):
        causes = [cause for record in records if (cause := next(_inapplicable(record, metrics), None))]
    if not causes:
        return None
    [((reason, of_app), rows)] = Counter((cause.reason, cause.of_app) for cause in causes).most_common(1)
    first = next(cause for cause in causes if (cause.reason, cause.of_app) == (reason, of_app))
    return Cause(reason, first.values, of_app, first.failed, rows)


def _failures(record: RowRecord, metrics: Sequence[str]) -> Iterator[Cause]:
    if record.state == "failed":
        yield Cause(_known(record.app_reason, Reason.APP_FAILED), {"text": record.app_message}, True)
    yield from _of_metrics(record, metrics, "failed")


def _inapplicable(record: RowRecord, metrics: Sequence[str]) -> Iterator[Cause]:
    yield from _of_metrics(record, metrics, "not_applicable")


def _of_metrics(record: RowRecord, metrics: Sequence[str], status: str) -> Iterator[Cause]:
    for metric in metrics:
        kept = record.metrics.get(metric, {})
        if kept.get("status") == status:
            yield Cause(_known(kept["reason"]), kept.get("reason_values", {}), failed=status == "failed")


def _known(reason: str, otherwise: Reason = Reason.INTERNAL_ERROR) -> Reason:
    """The reason of that code; of another version's there is no sentence."""
    return Reason(reason) if reason and reason in set(Reason) else otherwise
