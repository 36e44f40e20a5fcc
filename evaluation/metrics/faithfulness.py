"""Faithfulness: does the answer say only what the retrieved documents say?

1. The judge splits the answer into statements, each a single fact.
2. It decides for each whether the contexts support it.
3. score = supported statements / statements produced (Ragas 0.4.3). Unlike Ragas a statement whose verdict stays
   missing counts as not supported, and the result is partial.

No statements: not applicable. No contexts: 0.0 when there is any statement.
"""

from dataclasses import replace

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import DetailList, Metric, Said, say_share
from evaluation.metrics.scoring import share_true
from evaluation.metrics.statements import answer_statements
from evaluation.metrics.verdicts import BATCH, Verdict, judge_statements, listed, outcome
from evaluation.result import MetricResult
from evaluation.sample import Sample
from evaluation.settings import Depth

NAME = "faithfulness"
VERSION = "1"


def evaluate(session: JudgeSession, sample: Sample, depth: Depth = "standard") -> MetricResult:
    """Scores the sample's answer against its contexts.

    Args:
        depth: "careful" asks about each statement alone, which weak judges do much better; the others about all at
            once.

    Raises:
        EvaluationError: nothing could be judged.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.answer:
        raise EvaluationError(Reason.NO_ANSWER)
    statements, cut = answer_statements(session, sample.question, sample.answer)
    if not statements:
        raise EvaluationError(Reason.NO_CLAIMS)
    if not sample.contexts.chunks:
        unsupported = listed(statements, [Verdict(False, kind="absent")] * len(statements))
        return MetricResult(NAME, VERSION, "scored", 0.0, Reason.NO_CONTEXTS, details={"claims": unsupported})
    batch = 1 if depth == "careful" else BATCH
    verdicts = judge_statements(session, statements, sample.contexts.texts, batch=batch)
    score = share_true([verdict.holds for verdict in verdicts])
    return outcome(NAME, VERSION, score, verdicts, {"claims": listed(statements, verdicts)}, cut=cut)


def say(result: MetricResult) -> list[Said]:
    """How many claims are supported; a single one is not counted in words."""
    said = say_share(result, "claims")[0]
    if len(result.details["claims"]) == 1:
        return [replace(said, name="none_of_one" if said.quoted else "one_of_one")]
    return [said]


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    say,
    inputs=("question", "answer", "contexts"),
    place=10,
    options=("depth",),
    lists=(DetailList("claims", "complaints"),),
    presets=("four", "four_and_correctness", "answer"),
)
