"""One module per metric: NAME, VERSION and `evaluate`, which takes a JudgeSession and a Sample."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.judging.session import JudgeSession
from evaluation.metrics import answer_correctness, answer_relevancy, context_precision, context_recall, faithfulness
from evaluation.result import MetricResult
from evaluation.sample import Sample

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Metric:
    """A metric as tools know it.

    Attributes:
        inputs: the fields of the sample that it reads.
        options: the keyword arguments of `evaluate` that users may set.
    """

    version: str
    evaluate: Callable[..., MetricResult]
    inputs: tuple[str, ...]
    options: tuple[str, ...] = ()


METRICS: Mapping[str, Metric] = {
    answer_relevancy.NAME: Metric(
        answer_relevancy.VERSION, answer_relevancy.evaluate, ("question", "answer"), ("question_count",)
    ),
    faithfulness.NAME: Metric(
        faithfulness.VERSION, faithfulness.evaluate, ("question", "answer", "contexts"), ("depth",)
    ),
    context_recall.NAME: Metric(
        context_recall.VERSION, context_recall.evaluate, ("question", "reference", "contexts"), ("depth",)
    ),
    context_precision.NAME: Metric(
        context_precision.VERSION, context_precision.evaluate, ("question", "reference", "contexts"), ("depth",)
    ),
    answer_correctness.NAME: Metric(
        answer_correctness.VERSION,
        answer_correctness.evaluate,
        ("question", "answer", "reference"),
        ("similarity_weight",),
    ),
}


def evaluate_metric(name: str, session: JudgeSession, sample: Sample, options: Mapping[str, Any]) -> MetricResult:
    """The metric's result; whatever goes wrong is a result too, never an exception."""
    metric = METRICS[name]
    try:
        return metric.evaluate(session, sample, **{key: options[key] for key in metric.options if key in options})
    except EvaluationError as error:
        return MetricResult.without_score(name, metric.version, error)
    except Exception:
        logger.exception("%s failed unexpectedly: %s", name, whereabouts())
        return MetricResult.without_score(name, metric.version, EvaluationError(Reason.INTERNAL_ERROR))
