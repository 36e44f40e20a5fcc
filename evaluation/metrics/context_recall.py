"""Context recall: do the retrieved documents hold all that the right answer needs?

1. The judge splits the reference into parts and says for each whether the contexts state it, in one call.
2. score = attributed parts / parts (Ragas 0.4.3). No contexts: 0.0 without a call. A part whose verdict stays
   missing counts as not attributed, and the result is partial.
"""

from functools import partial

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import Part, Reply, Shape, UnjudgedPart
from evaluation.judging.session import JudgeSession
from evaluation.judging.windows import split_windows
from evaluation.metrics.metric import DetailList, Metric, say_share
from evaluation.metrics.scoring import share_true
from evaluation.metrics.statements import reference_statements
from evaluation.metrics.verdicts import BATCH, Verdict, judge_statements, listed, outcome
from evaluation.result import MetricResult
from evaluation.sample import Sample
from evaluation.settings import Depth

NAME = "context_recall"
VERSION = "1"
PARTS = Shape(Part, "parts", fallback=UnjudgedPart)


def evaluate(session: JudgeSession, sample: Sample, depth: Depth = "standard") -> MetricResult:
    """Scores the sample's contexts against its reference.

    Args:
        depth: "careful" splits the reference first and then asks about each part alone; the others do both in one
            call.

    Raises:
        EvaluationError: nothing could be judged.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.reference:
        raise EvaluationError(Reason.NO_REFERENCE)
    if not sample.contexts.chunks:
        return MetricResult(NAME, VERSION, "scored", 0.0, Reason.NO_CONTEXTS, details={"parts": []})
    return result(*_judge(session, sample, depth))


def result(parts: list[str], verdicts: list[Verdict], cut: bool) -> MetricResult:
    """The result for the reference's parts and a verdict for each."""
    score = share_true([verdict.holds for verdict in verdicts])
    return outcome(NAME, VERSION, score, verdicts, {"parts": listed(parts, verdicts)}, cut=cut)


def _judge(session: JudgeSession, sample: Sample, depth: Depth) -> tuple[list[str], list[Verdict], bool]:
    """The parts, a verdict for each, and whether the list of parts was cut off.

    One call does both where one is enough. Several votes or windows need the same parts in every call, so there the
    reference is split first; so it is when the one call turns out to be too long.
    """
    one_window = len(split_windows(sample.contexts.texts, session.window_characters)) == 1
    if depth != "careful" and session.votes == 1 and one_window:
        try:
            return _in_one_call(session, sample)
        except EvaluationError as error:
            if error.reason is not Reason.CONTEXT_TOO_LONG:
                raise
    parts, cut = reference_statements(session, sample.question, sample.reference)
    batch = 1 if depth == "careful" else BATCH
    return parts, judge_statements(session, parts, sample.contexts.texts, batch=batch), cut


def _in_one_call(session: JudgeSession, sample: Sample) -> tuple[list[str], list[Verdict], bool]:
    data = {"question": sample.question, "reference": sample.reference, "contexts": sample.contexts.texts}
    return settled(session, sample, session.ask("recall.parts", data, PARTS))


def settled(session: JudgeSession, sample: Sample, reply: Reply[Part]) -> tuple[list[str], list[Verdict], bool]:
    """The parts of a reply, each once, with a verdict for each: those without a readable verdict are asked about by id.

    Returns:
        N parts, N verdicts, and whether parts are missing from the list.

    Raises:
        EvaluationError: judge_unparseable when there are no parts, as every reference has some.
    """
    judged: dict[str, Verdict] = {}
    for item in reply.items:
        judged.setdefault(item.text, Verdict(item.verdict, item.reason))
    parts, verdicts = list(judged), list(judged.values())
    unjudged = [text for text in dict.fromkeys(item.text for item in reply.incomplete) if text not in judged]
    if not parts and not unjudged:
        raise EvaluationError(Reason.JUDGE_UNPARSEABLE)
    if unjudged:
        try:
            verdicts += judge_statements(session, unjudged, sample.contexts.texts)
        except EvaluationError as error:
            verdicts += [Verdict(None, failure=error)] * len(unjudged)
    return parts + unjudged, verdicts, reply.cut or bool(reply.invalid)


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    partial(say_share, key="parts"),
    inputs=("question", "reference", "contexts"),
    place=30,
    options=("depth",),
    lists=(DetailList("parts", "complaints"),),
    presets=("four", "four_and_correctness", "retrieval"),
)
