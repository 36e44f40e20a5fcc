"""Politeness: how many of the answer's statements are polite? Made up, to show what adding a metric takes."""

from functools import partial

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import DetailList, Metric, say_share
from evaluation.metrics.scoring import share_true
from evaluation.metrics.statements import answer_statements
from evaluation.metrics.verdicts import ask_by_id, listed, outcome
from evaluation.result import MetricResult
from evaluation.sample import Sample

NAME, VERSION = "politeness", "1"


def evaluate(session: JudgeSession, sample: Sample) -> MetricResult:
    statements, cut = answer_statements(session, sample.question, sample.answer)
    if not statements:
        raise EvaluationError(Reason.NO_CLAIMS)
    by_id = ask_by_id(session, "politeness.verdicts", {}, "statements", dict(enumerate(statements, start=1)))
    verdicts = list(by_id.values())
    score = share_true([verdict.holds for verdict in verdicts])
    return outcome(NAME, VERSION, score, verdicts, {"sentences": listed(statements, verdicts)}, cut=cut)


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    partial(say_share, key="sentences"),
    inputs=("question", "answer"),
    place=60,
    lists=(DetailList("sentences", "complaints"),),
    presets=("answer",),
)
