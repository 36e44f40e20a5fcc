"""Answer correctness: does the answer say what the reference says, no more and no less?

1. The judge splits answer and reference into statements, each a single fact.
2. It finds in one call which statements of the answer the reference makes too (TP, else FP), and which of the reference
   the answer makes (else FN).
3. score = 0.75 x F1(TP, FP, FN) + 0.25 x cosine(answer, reference) (Ragas 0.4.3; a negative cosine counts as 0).
   Without an embedding model F1 alone; details.method says which.
"""

from collections.abc import Mapping
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import JudgementOf, Shape
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import DetailList, Metric, Said
from evaluation.metrics.scoring import cosines, f_score, weighted_mean
from evaluation.metrics.statements import answer_statements, reference_statements
from evaluation.metrics.verdicts import MISSING, Verdict, by_majority, listed, outcome
from evaluation.result import MetricResult
from evaluation.sample import Sample

NAME = "answer_correctness"
VERSION = "1"
SIMILARITY_WEIGHT = 0.25
SIDES = ("answer", "reference")
BOTH = tuple(Shape(JudgementOf, side) for side in SIDES)


def evaluate(session: JudgeSession, sample: Sample, similarity_weight: float = SIMILARITY_WEIGHT) -> MetricResult:
    """Scores the sample's answer against its reference.

    Args:
        similarity_weight: of the cosine, 0 to 1; F1 has the rest. Not used without an embedding model.

    Raises:
        EvaluationError: nothing could be judged, or embedding_invalid.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.answer:
        raise EvaluationError(Reason.NO_ANSWER)
    if not sample.reference:
        raise EvaluationError(Reason.NO_REFERENCE)
    split = session.gather(
        [
            lambda: answer_statements(session, sample.question, sample.answer),
            lambda: reference_statements(session, sample.question, sample.reference),
        ]
    )
    (claims, claims_cut), (facts, facts_cut) = (_or_raise(outcome) for outcome in split)
    similarity = _similarity(session, sample, similarity_weight)
    texts = {"answer": claims, "reference": facts}
    verdicts = _classify(session, sample.question, texts)
    f1 = score_statements(verdicts)
    score = f1 if similarity is None else weighted_mean([f1, similarity], [1 - similarity_weight, similarity_weight])
    details: dict[str, Any] = {
        "method": "f1" if similarity is None else "f1_and_similarity",
        "f1": f1,
        "similarity": similarity,
        "similarity_weight": similarity_weight if similarity is not None else 0.0,
        "claims": listed(claims, verdicts["answer"]),
        "facts": listed(facts, verdicts["reference"]),
    }
    every = verdicts["answer"] + verdicts["reference"]
    return outcome(NAME, VERSION, score, every, details, cut=claims_cut or facts_cut)


def _or_raise[R](outcome: R | EvaluationError) -> R:
    if isinstance(outcome, EvaluationError):
        raise outcome
    return outcome


def score_statements(verdicts: Mapping[str, list[Verdict]]) -> float:
    """F1 of the answer's statements (TP, FP) and the reference's that are missing in the answer (FN)."""
    found = sum(verdict.holds for verdict in verdicts["answer"])
    missed = sum(not verdict.holds for verdict in verdicts["reference"])
    return f_score(found, len(verdicts["answer"]) - found, missed)


def _similarity(session: JudgeSession, sample: Sample, weight: float) -> float | None:
    if session.embedder is None or not weight:
        return None
    one, other = session.embed([sample.answer, sample.reference])
    return max(0.0, cosines(one, [other])[0])


def _classify(session: JudgeSession, question: str, texts: Mapping[str, list[str]]) -> dict[str, list[Verdict]]:
    """One verdict per statement of either side. An answer without statements has made nothing of the reference's."""
    if not texts["answer"]:
        return {"answer": [], "reference": [Verdict(False)] * len(texts["reference"])}
    # The two sides number their statements alike, so here a verdict's id is its place in both lists together.
    offsets = {"answer": 0, "reference": len(texts["answer"])}
    items = {
        offsets[side] + number: (side, number, text)
        for side in SIDES
        for number, text in enumerate(texts[side], start=1)
    }

    def vote() -> dict[int, Verdict]:
        verdicts: dict[int, Verdict] = {}
        for attempt in (1, 2):
            open_items = [item for place, item in items.items() if place not in verdicts]
            if not open_items:
                break
            try:
                # All statements of both sides each time: one side is judged by the other.
                sides = {side: [{"id": n, "text": t} for s, n, t in items.values() if s == side] for side in SIDES}
                replies = session.ask_for("correctness.classify", {"question": question, **sides}, BOTH)
            except EvaluationError as error:
                if attempt == 1:
                    raise
                return verdicts | {place: Verdict(None, failure=error) for place in items if place not in verdicts}
            for side, reply in zip(SIDES, replies, strict=True):
                for item in reply.items:
                    if 1 <= item.id <= len(texts[side]):
                        verdicts.setdefault(offsets[side] + item.id, Verdict(item.verdict, item.reason))
        return {place: verdicts.get(place, MISSING) for place in items}

    by_place = by_majority(session, vote, list(items))
    return {side: [by_place[offsets[side] + number] for number in range(1, len(texts[side]) + 1)] for side in SIDES}


def say(result: MetricResult) -> list[Said]:
    """What of the reference the answer leaves out, and what it says beyond it."""
    said = []
    for name, key in (("missing", "facts"), ("extra", "claims")):
        entries = result.details[key]
        lacking = [entry for entry in entries if entry["verdict"] != 1]
        if lacking:
            said.append(Said(name, {"of": len(entries), "missing": len(lacking)}, lacking))
    said = said or [Said("all")]
    if result.details["method"] == "f1":
        said.append(Said("f1_only", remark=True))
    return said


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    say,
    inputs=("question", "answer", "reference"),
    place=50,
    options=("similarity_weight",),
    lists=(DetailList("claims", "verdicts"), DetailList("facts", "complaints")),
    presets=("four_and_correctness",),
)
