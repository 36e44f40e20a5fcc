"""Context precision: do the useful chunks stand above the useless ones?

1. The judge says for each chunk whether it helps to arrive at the reference: one call per chunk, all in parallel,
   or in economy depth one call for all.
2. score = average precision of the verdicts in rank order (Ragas 0.4.3, without its 1e-10). No contexts: 0.0
   without a call. A chunk whose verdict stays missing counts as not relevant, and the result is partial.
"""

from functools import partial

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import Judgement, Shape
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import DetailList, Metric, Said
from evaluation.metrics.scoring import average_precision
from evaluation.metrics.verdicts import (
    MISSING,
    Verdict,
    ask_by_id,
    by_majority,
    outcome,
    over_windows,
    raise_if_all_failed,
)
from evaluation.result import MetricResult
from evaluation.sample import Sample
from evaluation.settings import Depth

NAME = "context_precision"
VERSION = "1"
ONE_CHUNK = Shape(Judgement)
# How much of a chunk's text stands in the details; its title and rank say the rest.
SHOWN_CHARACTERS = 200


def evaluate(session: JudgeSession, sample: Sample, depth: Depth = "standard") -> MetricResult:
    """Scores the order of the sample's contexts against its reference.

    Args:
        depth: "economy" asks about all chunks in one call, the others about each alone.

    Raises:
        EvaluationError: no chunk could be judged.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.reference:
        raise EvaluationError(Reason.NO_REFERENCE)
    if not sample.contexts.chunks:
        return MetricResult(NAME, VERSION, "scored", 0.0, Reason.NO_CONTEXTS, details={"chunks": []})
    numbers = list(range(1, len(sample.contexts.chunks) + 1))
    vote = _together if depth == "economy" else _one_by_one
    by_id = by_majority(session, lambda: vote(session, sample), numbers)
    return result(sample, [by_id[number] for number in numbers])


def result(sample: Sample, verdicts: list[Verdict]) -> MetricResult:
    """The result for the sample's chunks and a verdict for each, best rank first."""
    chunks = [
        {"rank": rank, "title": chunk.title, "text": chunk.text[:SHOWN_CHARACTERS], **verdict.as_dict()}
        for rank, (chunk, verdict) in enumerate(zip(sample.contexts.chunks, verdicts, strict=True), start=1)
    ]
    score = average_precision([verdict.holds for verdict in verdicts])
    return outcome(NAME, VERSION, score, verdicts, {"chunks": chunks})


def _one_by_one(session: JudgeSession, sample: Sample) -> dict[int, Verdict]:
    calls = [partial(_judge_chunk, session, sample, text) for text in sample.contexts.texts]
    outcomes = session.gather(calls)
    raise_if_all_failed(outcomes)
    return {
        number: Verdict(None, failure=found) if isinstance(found, EvaluationError) else found
        for number, found in enumerate(outcomes, start=1)
    }


def _judge_chunk(session: JudgeSession, sample: Sample, text: str) -> Verdict:
    """One chunk; one that is too long for a call is relevant when any piece of it is."""

    def ask(window: list[str]) -> dict[int, Verdict]:
        data = {"question": sample.question, "reference": sample.reference, "context": "".join(window)}
        for _ in range(2):
            reply = session.ask("precision.chunk", data, ONE_CHUNK)
            if reply.items:
                return {1: Verdict(reply.items[0].verdict, reply.items[0].reason)}
        return {1: MISSING}

    return over_windows(session, [text], ask, [1])[1]


def _together(session: JudgeSession, sample: Sample) -> dict[int, Verdict]:
    """All chunks in one call; one by one when they are too long for that."""
    chunks = dict(enumerate(sample.contexts.texts, start=1))
    if sum(map(len, chunks.values())) <= session.window_characters:
        try:
            data = {"question": sample.question, "reference": sample.reference}
            return ask_by_id(session, "precision.chunks", data, "contexts", chunks)
        except EvaluationError as error:
            if error.reason is not Reason.CONTEXT_TOO_LONG:
                raise
    return _one_by_one(session, sample)


def say(result: MetricResult) -> list[Said]:
    """How many chunks are relevant, and at which ranks."""
    chunks = result.details["chunks"]
    ranks = [chunk["rank"] for chunk in chunks if chunk["verdict"] == 1]
    if len(chunks) == 1:
        return [Said("one_of_one" if ranks else "none_of_one")]
    if not ranks:
        return [Said("none", {"of": len(chunks)})]
    if len(ranks) == len(chunks):
        return [Said("all", {"of": len(chunks)})]
    on_top = ranks == list(range(1, len(ranks) + 1))
    return [Said("top" if on_top else "mixed", {"of": len(chunks), "relevant": len(ranks), "ranks": ranks})]


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    say,
    inputs=("question", "reference", "contexts"),
    place=40,
    options=("depth",),
    lists=(DetailList("chunks", "chunks"),),
    presets=("four", "four_and_correctness", "retrieval"),
)
