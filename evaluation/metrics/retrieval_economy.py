"""Context recall and context precision in one judge call, for the economy depth of evaluate_answer."""

from collections.abc import Callable
from types import ModuleType

from evaluation.errors import EvaluationError
from evaluation.judging.replies import JudgementOf, Shape
from evaluation.judging.session import JudgeSession
from evaluation.metrics import context_precision, context_recall
from evaluation.metrics.verdicts import MISSING, Verdict, ask_by_id
from evaluation.result import MetricResult
from evaluation.sample import Sample

LISTS = (context_recall.PARTS, Shape(JudgementOf, "chunks"))


def can_share(session: JudgeSession, sample: Sample) -> bool:
    """Whether one call can do both: several votes or windows need each metric's own steps."""
    size = sum(map(len, sample.contexts.texts))
    return bool(sample.question and sample.reference and 0 < size <= session.window_characters and session.votes == 1)


def evaluate_both(session: JudgeSession, sample: Sample) -> dict[str, MetricResult]:
    """Both results by metric name, from one call; chunks that it leaves out are asked about once more.

    Raises:
        EvaluationError: the call failed, or its reply is not usable.
    """
    texts = dict(enumerate(sample.contexts.texts, start=1))
    data = {
        "question": sample.question,
        "reference": sample.reference,
        "contexts": [{"id": number, "text": text} for number, text in texts.items()],
    }
    parts_reply, chunks_reply = session.ask_for("retrieval.economy", data, LISTS)
    verdicts: dict[int, Verdict] = {}
    for item in chunks_reply.items:
        if item.id in texts:
            verdicts.setdefault(item.id, Verdict(item.verdict, item.reason))
    left_out = {number: text for number, text in texts.items() if number not in verdicts}
    if left_out:
        data = {"question": sample.question, "reference": sample.reference}
        try:
            verdicts |= ask_by_id(session, "precision.chunks", data, "contexts", left_out, tries=1)
        except EvaluationError as error:
            verdicts |= {number: Verdict(None, failure=error) for number in left_out}
    return {
        context_recall.NAME: _result_of(
            context_recall, lambda: context_recall.result(*context_recall.settled(session, sample, parts_reply))
        ),
        context_precision.NAME: _result_of(
            context_precision, lambda: context_precision.result(sample, [verdicts.get(n, MISSING) for n in texts])
        ),
    }


def _result_of(metric: ModuleType, evaluate: Callable[[], MetricResult]) -> MetricResult:
    """The result, also when it is a failure: what one list lacks must not cost the other its score."""
    try:
        return evaluate()
    except EvaluationError as error:
        return MetricResult.without_score(metric.NAME, metric.VERSION, error)
