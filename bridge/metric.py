"""A tool for one metric."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from bridge.call import about, open_session, read_options, read_sample
from bridge.edge import EvaluatorTool, Output
from evaluation.errors import EvaluationError
from evaluation.metrics import METRICS, evaluate_metric
from evaluation.report.markdown import list_line, score_word, summary_line
from evaluation.result import MetricResult, bounded
from evaluation.settings import read_threshold
from evaluation.statistics.gate import reaches
from evaluation.texts import Texts


class MetricTool(EvaluatorTool):
    """Reads the parameters that the metric takes, evaluates, and gives the result in the shape of the contract."""

    metric: ClassVar[str]

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        started = time.monotonic()
        threshold = read_threshold(parameters.get("threshold"))
        options = read_options(parameters)
        sample = read_sample(parameters, METRICS[self.metric].inputs)
        session = open_session(self.session, parameters, texts.language)
        result = evaluate_metric(self.metric, session, sample, options)
        used = {**about(session, sample), "seconds": round(time.monotonic() - started, 3)}
        return _output(result, texts, threshold, used)

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        result = MetricResult.without_score(self.metric, METRICS[self.metric].version, error)
        return _output(result, texts, None, {})


def _output(result: MetricResult, texts: Texts, threshold: float | None, context: Mapping[str, Any]) -> Output:
    contexts = context.get("contexts", {})
    # Nothing but empty items is an empty retrieval, which the result says itself; without a score it does not matter.
    dropped = contexts["dropped"] if contexts.get("chunks") and result.score is not None else 0
    details = {"metric": result.metric, "version": result.version, **result.details, **context}
    return Output(
        list_line(result, texts, threshold, dropped),
        {
            "score": result.score,
            "score_text": score_word(result, texts),
            "status": result.status,
            "reason": result.reason.value,
            "passed": None if threshold is None or result.score is None else reaches(result.score, threshold),
            "summary": summary_line(result, texts),
            "details": bounded(details),
        },
    )
