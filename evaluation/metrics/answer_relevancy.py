"""Answer relevancy: does the answer answer the question that was asked?

1. The judge reads the answer and writes n questions that it would answer, each with a flag when the answer commits
   to nothing.
2. With an embedding model: score = mean cosine of those questions with the real one (Ragas 0.4.3), clamped to 0..1.
   Without: the judge grades each of them 0 to 3 against the real one; score = mean grade / 3; details.method is
   "judged".
3. 0.0 when all flags are set. Empty questions are skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.judging.replies import Grade, Question, Shape
from evaluation.judging.session import JudgeSession
from evaluation.metrics.metric import DetailList, Metric, Said
from evaluation.metrics.scoring import answer_relevancy, cosines
from evaluation.metrics.verdicts import raise_if_all_failed
from evaluation.result import MetricResult
from evaluation.sample import Sample
from evaluation.statistics.gate import FAIR, GOOD, reaches

NAME = "answer_relevancy"
VERSION = "1"
QUESTIONS = Shape(Question, "questions")
GRADES = Shape(Grade, "grades")
BEST_GRADE = 3


@dataclass(frozen=True)
class _Draft:
    """What one vote wrote: its questions, and whether it calls the answer noncommittal."""

    questions: tuple[str, ...]
    noncommittal: bool


def evaluate(session: JudgeSession, sample: Sample, question_count: int = 3) -> MetricResult:
    """Scores the sample's answer against its question.

    Args:
        question_count: n, at least 1.

    Raises:
        EvaluationError: nothing could be judged, or embedding_invalid.
    """
    if not sample.question:
        raise EvaluationError(Reason.NO_QUESTION)
    if not sample.answer:
        raise EvaluationError(Reason.NO_ANSWER)
    outcomes = session.gather([lambda: _draft(session, sample.answer, question_count)] * session.votes)
    raise_if_all_failed(outcomes)
    drafts = [outcome for outcome in outcomes if not isinstance(outcome, EvaluationError)]
    flagged = sum(draft.noncommittal for draft in drafts)
    method = "embedding" if session.embedder else "judged"
    if 2 * flagged > len(drafts):
        texts = [text for draft in drafts for text in draft.questions]
        details = _details(method, texts, [None] * len(texts), flagged, len(drafts))
        return MetricResult(NAME, VERSION, "scored", 0.0, Reason.NONCOMMITTAL, details=details)
    texts = [text for draft in drafts if not draft.noncommittal for text in draft.questions]
    missing = next((outcome for outcome in outcomes if isinstance(outcome, EvaluationError)), None)
    if session.embedder:
        vectors = session.embed([sample.question, *texts])
        similarities: list[float | None] = [*cosines(vectors[0], vectors[1:])]
    else:
        similarities, ungraded = _grade(session, sample.question, texts)
        missing = missing or ungraded
    known = [similarity for similarity in similarities if similarity is not None]
    if missing is not None and not known:
        raise missing
    details = _details(method, texts, similarities, flagged, len(drafts))
    score = answer_relevancy(known, [False] * len(known))
    if missing is not None:
        return MetricResult(NAME, VERSION, "partial", score, missing.reason, missing.values, details)
    return MetricResult(NAME, VERSION, "scored", score, details=details)


def _draft(session: JudgeSession, answer: str, count: int) -> _Draft:
    reply = session.ask("relevancy.questions", {"count": count, "answer": answer}, QUESTIONS)
    written = [item for item in reply.items[:count] if item.question.strip()]
    flags = [item.noncommittal for item in written or reply.items]
    if not flags or (not written and not all(flags)):
        raise EvaluationError(Reason.JUDGE_UNPARSEABLE)
    return _Draft(tuple(item.question.strip() for item in written), all(flags))


def _grade(
    session: JudgeSession, question: str, texts: Sequence[str]
) -> tuple[list[float | None], EvaluationError | None]:
    """A grade divided by 3 for each text, and why some are None although they were asked about once more."""
    grades: dict[int, int] = {}
    missing = EvaluationError(Reason.VERDICTS_MISSING)
    for attempt in (1, 2):
        candidates = [{"id": n, "text": text} for n, text in enumerate(texts, start=1) if n not in grades]
        if not candidates:
            break
        try:
            reply = session.ask("relevancy.grades", {"question": question, "candidates": candidates}, GRADES)
        except EvaluationError as error:
            if attempt == 1:
                raise
            missing = error
            break
        asked = {candidate["id"] for candidate in candidates}
        for item in reply.items:
            if item.id in asked:
                grades.setdefault(item.id, item.grade)
    found = [grades[n] / BEST_GRADE if n in grades else None for n in range(1, len(texts) + 1)]
    return found, missing if None in found else None


def _details(
    method: str, texts: Sequence[str], similarities: Sequence[float | None], flagged: int, votes: int
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": method,
        "questions": [{"text": text, "similarity": value} for text, value in zip(texts, similarities, strict=True)],
        "noncommittal": 2 * flagged > votes,
        "coverage": {"judged": sum(value is not None for value in similarities), "of": len(texts)},
    }
    if votes > 1:
        details["coverage"]["agreement"] = round(max(flagged, votes - flagged) / votes, 4)
    return details


def say(result: MetricResult) -> list[Said]:
    """Whether the answer answers the question; where it does not, which one it would."""
    score = result.score or 0.0
    level = "high" if reaches(score, GOOD) else "middle" if reaches(score, FAIR) else "low"
    said = [Said(level)]
    if level != "high":
        said.append(Said("asked", quoted=result.details["questions"][:1], remark=True))
    if result.details["method"] == "judged":
        said.append(Said("judged", remark=True))
    return said


METRIC = Metric(
    NAME,
    VERSION,
    evaluate,
    say,
    inputs=("question", "answer"),
    place=20,
    options=("question_count",),
    lists=(DetailList("questions", "plain"),),
    presets=("four", "four_and_correctness", "answer"),
)
