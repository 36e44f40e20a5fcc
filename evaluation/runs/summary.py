"""All that a report shows, computed once, for every form of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evaluation.errors import Reason
from evaluation.runs.again import spreads
from evaluation.runs.causes import Cause, commonest_cause
from evaluation.runs.conclusions import Comparison, MetricStatistics, compare, gate_of, metric_statistics
from evaluation.runs.heads import RunHead, RunSummary
from evaluation.runs.names import RunName
from evaluation.runs.packing import light
from evaluation.runs.past import NoComparison
from evaluation.runs.records import RowRecord, RunSettings
from evaluation.statistics.gate import Gate
from evaluation.statistics.spread import Spread


@dataclass(frozen=True)
class RowCounts:
    """The rows of a run by how they ended; together they are all.

    Attributes:
        sound: scored, and nothing wrong was found.
        findings: something wrong was found.
        troubled: nothing was, but something could not be scored.
        not_applicable: there was nothing to score.
        open: not finished yet.
    """

    sound: int
    findings: int
    troubled: int
    not_applicable: int
    open: int


@dataclass(frozen=True)
class RunReport:
    """A run as its report shows it.

    Attributes:
        name: the run's name; `number` counts the runs of that name from 1.
        started_at: ISO 8601, UTC.
        app_name: of the app that was asked, "" where no name is known.
        total: rows of the table times repetitions; records holds those that are finished, worst first for `worst`.
        statistics: by metric name, in the order of settings.metrics.
        categories: by the table's category, then by metric name; "" for rows without one, {} when no row has one.
        comparison: against the run `compared_with` ("name #2"), None without one.
        findings: over all rows, [(name, settings, rows)], the most frequent first.
        gate: whether the run passes and why not, None without thresholds.
        usage: what judging cost in all; scores of earlier runs cost nothing.
        prompts: the versions of the judge's prompts by name, as far as they are known.
        differing: names of the settings that the run compared with had otherwise, see RunSettings.differing.
        other_app: whether the run compared with asked another app.
        no_comparison: why there is no run to compare with.
        past: the last runs of the name before this one, the newest first.
        names: under which there are runs, the latest first.
        table_name, table_version: of the kept table that was asked; "" and None for a pasted one.
        cause: why most of the rows without a score have none, None when all have one.
        stopped: why the call ended before its time, "" when it did not.
    """

    name: str
    number: int
    started_at: str
    app_name: str
    settings: RunSettings
    total: int
    records: Sequence[RowRecord]
    statistics: Mapping[str, MetricStatistics]
    categories: Mapping[str, Mapping[str, MetricStatistics]] = field(default_factory=dict)
    comparison: Comparison | None = None
    compared_with: str = ""
    findings: Sequence[tuple[str, tuple[str, ...], int]] = ()
    gate: Gate | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    differing: Sequence[str] = ()
    other_app: bool = False
    no_comparison: NoComparison = ""
    past: Sequence[RunSummary] = ()
    names: Sequence[RunName] = ()
    table_name: str = ""
    table_version: int | None = None
    cause: Cause | None = None
    stopped: Reason = Reason.NONE

    @property
    def passed(self) -> bool | None:
        """Whether the run passes; None without thresholds, and when it could not be measured."""
        return self.gate.passed if self.gate else None

    @property
    def done(self) -> int:
        """Rows that are finished, also those that failed."""
        return len(self.records)

    @property
    def finished(self) -> bool:
        return self.done == self.total

    @property
    def failed_rows(self) -> int:
        return sum(record.state == "failed" for record in self.records)

    @property
    def reused_rows(self) -> int:
        return sum(record.reused for record in self.records)

    @property
    def spread(self) -> dict[str, Spread]:
        """By metric, how much the scores of a question asked several times differ; {} where none was."""
        return spreads(self.records, self.settings.metrics) if self.settings.repeat > 1 else {}

    @property
    def worst(self) -> list[RowRecord]:
        """The records by the mean of their scores, lowest first; then those without one, failed ones first."""
        return sorted(self.records, key=lambda record: (*_rank(record), record.row, record.repetition))

    def conclusions(self) -> dict[str, Any]:
        """What is concluded of the rows beside the means, as plain JSON types."""
        return {
            "gate": asdict(self.gate) if self.gate else None,
            "comparison": asdict(self.comparison) if self.comparison else None,
            "compared_with": self.compared_with,
            "other_app": self.other_app,
            "no_comparison": self.no_comparison,
            "differing": list(self.differing),
            "findings": [
                {"name": name, "settings": list(settings), "rows": count} for name, settings, count in self.findings
            ],
            "spread": {name: asdict(entry) for name, entry in self.spread.items()},
            "usage": dict(self.usage),
        }

    def troubled(self, record: RowRecord) -> bool:
        """Whether something of the row could not be scored although it should."""
        statuses = [record.metrics.get(metric, {}).get("status", "failed") for metric in self.settings.metrics]
        return record.state == "failed" or "failed" in statuses

    @property
    def row_counts(self) -> RowCounts:
        """How the rows ended."""
        sound = len(self.sound)
        found = sum(bool(record.findings) for record in self.records)
        troubled = sum(self.troubled(record) and not record.findings for record in self.records)
        return RowCounts(sound, found, troubled, self.done - sound - found - troubled, self.total - self.done)

    @property
    def sound(self) -> list[RowRecord]:
        """The records that were scored and show nothing wrong."""
        return [
            record
            for record in self.records
            if _mean(record) is not None and not record.findings and not self.troubled(record)
        ]


def _mean(record: RowRecord) -> float | None:
    scores = [score for name in record.metrics if (score := record.score(name)) is not None]
    return sum(scores) / len(scores) if scores else None


def _rank(record: RowRecord) -> tuple[int, float]:
    mean = _mean(record)
    return (0, mean) if mean is not None else (1 if record.state == "failed" else 2, 0.0)


def build_report(  # noqa: PLR0913 - what a run is, then what it is compared with
    name: str,
    number: int,
    started_at: str,
    app_name: str,
    settings: RunSettings,
    records: Sequence[RowRecord],
    *,
    before: Sequence[RowRecord] | None = None,
    compared_with: str = "",
    settings_before: RunSettings | None = None,
    prompts: Mapping[str, str] | None = None,
    no_comparison: NoComparison = "",
    past: Sequence[RunSummary] = (),
    names: Sequence[RunName] = (),
    table_name: str = "",
    table_version: int | None = None,
    stopped: Reason = Reason.NONE,
) -> RunReport:
    """The report of a run's records, finished or not, against an earlier run's when there is one.

    Args:
        records: all of the run, also those that are still open.
        before: the records of the run compared with, and settings_before its settings.
        prompts: versions of the judge's prompts by name.
        no_comparison, past, names, table_name, table_version, stopped: as in RunReport.
    """
    finished = [record for record in records if record.state in {"done", "failed"}]
    statistics = {metric: metric_statistics(finished, metric) for metric in settings.metrics}
    in_order = dict.fromkeys(record.category for record in finished) if any(r.category for r in records) else {}
    categories = {
        category: {
            metric: metric_statistics([record for record in finished if record.category == category], metric)
            for metric in settings.metrics
        }
        for category in in_order
    }
    comparison = _compared(records, before, settings.metrics) if before else None
    differing = settings.differing(settings_before) if settings_before else []
    return RunReport(
        name,
        number,
        started_at,
        app_name,
        settings,
        len(records),
        finished,
        statistics,
        categories,
        comparison,
        compared_with if comparison else "",
        _findings(finished),
        gate_of(records, statistics, settings),
        _usage(finished),
        prompts or {},
        differing if comparison else (),
        bool(comparison and settings_before and settings_before.app_id != settings.app_id),
        no_comparison,
        past,
        names,
        table_name,
        table_version,
        commonest_cause(finished, settings.metrics),
        stopped,
    )


def kept_summary(head: RunHead, report: RunReport, ended_at: str) -> RunSummary:
    """What is kept of a report for lists of runs."""
    return RunSummary(
        head,
        report.finished,
        ended_at,
        report.total,
        report.done,
        report.failed_rows,
        sum(map(report.troubled, report.records)),
        report.reused_rows,
        {name: asdict(entry) for name, entry in report.statistics.items()},
        report.passed,
        report.conclusions(),
    )


def _compared(now: Sequence[RowRecord], before: Sequence[RowRecord], metrics: Sequence[str]) -> Comparison:
    """An earlier run's rows come from its index, where long texts are cut: here they are cut in the same way."""
    return compare([light(record) for record in now], [light(record) for record in before], metrics)


def _findings(records: Sequence[RowRecord]) -> list[tuple[str, tuple[str, ...], int]]:
    """The first finding of each row, counted: it names what to change first."""
    firsts = [record.findings[0] for record in records if record.findings]
    counts = Counter(finding["name"] for finding in firsts)
    settings = {finding["name"]: tuple(finding["settings"]) for finding in firsts}
    return [(name, settings[name], count) for name, count in counts.most_common()]


def _usage(records: Sequence[RowRecord]) -> dict[str, Any]:
    """The rows' costs added up; prices by currency."""
    paid = [record.usage for record in records if record.usage]
    prices: dict[str, float] = {}
    for usage in paid:
        for currency, price in {
            usage.get("currency", ""): usage.get("price", 0.0),
            **usage.get("other_prices", {}),
        }.items():
            if price:
                prices[currency] = prices.get(currency, 0.0) + price
    totals = {
        name: sum(usage.get(name, 0) for usage in paid) for name in ("judge_calls", "embedding_calls", "total_tokens")
    }
    return {**totals, "prices": prices, "app_tokens": sum(record.app_tokens for record in records)}
