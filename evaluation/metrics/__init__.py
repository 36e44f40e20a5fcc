"""One module per metric, which describes itself as METRIC: what is put here, tools, scorecard and reports know."""

import logging
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import Metric
from evaluation.result import MetricResult
from evaluation.sample import Sample

logger = logging.getLogger(__name__)


def _found() -> Iterator[Metric]:
    for module in pkgutil.iter_modules(__path__):
        metric = getattr(pkgutil.resolve_name(f"{__name__}.{module.name}"), "METRIC", None)
        if isinstance(metric, Metric):
            yield metric


# In the order in which they are shown.
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in sorted(_found(), key=lambda metric: metric.place)}


def evaluate_metric(name: str, session: JudgeSession, sample: Sample, options: Mapping[str, Any]) -> MetricResult:
    """The metric's result; whatever goes wrong is a result too, never an exception."""
    metric = METRICS[name]
    if reason := _lacking(metric, sample):
        return MetricResult.without_score(name, metric.version, EvaluationError(reason))
    try:
        return metric.evaluate(session, sample, **{key: options[key] for key in metric.options if key in options})
    except EvaluationError as error:
        return MetricResult.without_score(name, metric.version, error)
    except Exception:
        logger.exception("%s failed unexpectedly: %s", name, whereabouts())
        return MetricResult.without_score(name, metric.version, EvaluationError(Reason.INTERNAL_ERROR))


def _lacking(metric: Metric, sample: Sample) -> Reason:
    """What the sample lacks for any metric of its kind: 0.0 would be said of something that nobody knows."""
    if sample.only_thought and "answer" in metric.inputs:
        return Reason.ONLY_THOUGHTS
    return sample.contexts.hidden if "contexts" in metric.inputs else Reason.NONE
