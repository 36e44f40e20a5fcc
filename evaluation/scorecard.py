"""All metrics of one answer in one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from evaluation.diagnosis import Finding, diagnose
from evaluation.errors import EvaluationError, Reason
from evaluation.judging.session import JudgeSession
from evaluation.metrics import METRICS, context_precision, context_recall, evaluate_metric, retrieval_economy
from evaluation.metrics.documents import DocumentScores, score_documents
from evaluation.result import MetricResult, Status
from evaluation.sample import Sample
from evaluation.settings import invalid_setting
from evaluation.statistics.gate import reaches

# Which metrics are evaluated together under a name, each in the order in which they are shown.
PRESETS: Mapping[str, tuple[str, ...]] = {
    preset: tuple(name for name, metric in METRICS.items() if preset in metric.presets)
    for preset in ("four", "four_and_correctness", "answer", "retrieval")
}
FOUR = PRESETS["four"]


@dataclass(frozen=True)
class Scorecard:
    """The metrics of one answer together.

    Attributes:
        results: by metric name, in the order in which they are shown.
        thresholds: by metric name, those that the user set.
        documents: the comparison with the documents that should be found, when they are known.
        findings: what to tune, the first thing first; [] when nothing is wrong.
    """

    results: Mapping[str, MetricResult]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    documents: DocumentScores | None = None
    findings: Sequence[Finding] = ()

    @property
    def status(self) -> Status:
        """scored; partial when anything could not be judged whole; failed or not_applicable when there is no score."""
        statuses = {result.status for result in self.results.values()}
        if not statuses & {"scored", "partial"}:
            return "failed" if "failed" in statuses else "not_applicable"
        return "partial" if statuses & {"partial", "failed"} else "scored"

    @property
    def telling(self) -> MetricResult | None:
        """The result that explains the status: the first that failed, else was judged in part; None when scored."""
        order = ("not_applicable",) if self.status == "not_applicable" else ("failed", "partial")
        ranked = [result for status in order for result in self.results.values() if result.status == status]
        return ranked[0] if ranked else None

    @property
    def common_failure(self) -> MetricResult | None:
        """The one result that stands for all when nothing has a score, for the same reason."""
        results = list(self.results.values())
        reasons = {(result.reason, tuple(result.reason_values.items())) for result in results}
        return results[0] if len(reasons) == 1 and all(result.score is None for result in results) else None

    @property
    def passed(self) -> bool | None:
        """Whether every score reaches its threshold; None without thresholds, or when a judged one could not be told.

        A metric that does not apply (no reference) neither passes nor fails.
        """
        verdicts = [
            None if result.score is None else reaches(result.score, self.thresholds[name])
            for name, result in self.results.items()
            if name in self.thresholds and result.status != "not_applicable"
        ]
        if False in verdicts:
            return False
        return True if verdicts and None not in verdicts else None


def read_metrics(value: object) -> tuple[str, ...]:
    """The metrics of a setting: a preset's name, or metric names in a list or separated by commas.

    Raises:
        EvaluationError: invalid_setting.
    """
    if value is None or value == "":
        return FOUR
    if isinstance(value, str) and value in PRESETS:
        return PRESETS[value]
    names = value if isinstance(value, (list, tuple)) else str(value).replace("、", ",").split(",")
    chosen = {str(name).strip() for name in names}
    if not chosen or not chosen <= METRICS.keys():
        raise invalid_setting("metrics", value, "four", "four_and_correctness")
    return tuple(name for name in METRICS if name in chosen)


def evaluate_answer(
    session: JudgeSession,
    sample: Sample,
    metrics: Sequence[str] = FOUR,
    *,
    options: Mapping[str, Any] | None = None,
    thresholds: Mapping[str, float] | None = None,
    expected_documents: Sequence[str] = (),
) -> Scorecard:
    """Scores the sample with each metric, all at the same time. A metric that fails leaves the others alone.

    Args:
        options: depth, question_count, similarity_weight, for the metrics that take them.
        thresholds: by metric name.
        expected_documents: names or ids of the documents that should have been retrieved.
    """
    options = options or {}
    results = _results(session, sample, metrics, options)
    documents = None if sample.contexts.hidden else score_documents(sample.contexts.chunks, expected_documents)
    ordered = {name: results[name] for name in metrics}
    findings = diagnose(ordered, chunks=len(sample.contexts.chunks), thresholds=thresholds or {}, documents=documents)
    return Scorecard(ordered, thresholds or {}, documents, findings)


def _results(
    session: JudgeSession, sample: Sample, metrics: Sequence[str], options: Mapping[str, Any]
) -> dict[str, MetricResult]:
    pair = (context_recall.NAME, context_precision.NAME)
    together = (
        options.get("depth") == "economy" and set(pair) <= set(metrics) and retrieval_economy.can_share(session, sample)
    )
    single = [name for name in metrics if not (together and name in pair)]
    calls = [partial(_one, session, sample, name, options) for name in single]
    if together:
        calls.append(partial(_pair, session, sample, options))
    return _merged(session.gather(calls))


def _merged(outcomes: Sequence[dict[str, MetricResult] | EvaluationError]) -> dict[str, MetricResult]:
    """All results together; `evaluate_metric` and `_pair` turn errors into results, so there are no others."""
    return {name: result for outcome in outcomes if isinstance(outcome, dict) for name, result in outcome.items()}


def _one(session: JudgeSession, sample: Sample, name: str, options: Mapping[str, Any]) -> dict[str, MetricResult]:
    return {name: evaluate_metric(name, session, sample, options)}


def _pair(session: JudgeSession, sample: Sample, options: Mapping[str, Any]) -> dict[str, MetricResult]:
    try:
        return retrieval_economy.evaluate_both(session, sample)
    except EvaluationError as error:
        if error.reason is Reason.CONTEXT_TOO_LONG:
            apart = (context_recall.NAME, context_precision.NAME)
            outcomes = session.gather([partial(_one, session, sample, name, options) for name in apart])
            return {
                name: result for outcome in outcomes if isinstance(outcome, dict) for name, result in outcome.items()
            }
        return {
            metric.NAME: MetricResult.without_score(metric.NAME, metric.VERSION, error)
            for metric in (context_recall, context_precision)
        }
