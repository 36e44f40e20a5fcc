import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.metrics import evaluate_metric
from evaluation.result import MetricResult
from tests.evaluation.fakes import FakeClock, ScriptedJudge, failing, questions, sample, session

WRITE, GRADE = "relevancy.questions", "relevancy.grades"


def evaluate(
    judge: ScriptedJudge,
    vectors: Callable[[Sequence[str]], Any] | None = None,
    given: dict[str, Any] | None = None,
    count: int | None = None,
    **options: Any,
) -> MetricResult:
    chosen = {"question_count": count} if count else {}
    result = evaluate_metric("answer_relevancy", session(judge, vectors, **options), sample(**(given or {})), chosen)
    json.dumps(dict(result.details), allow_nan=False)
    return result


def toward(*cosines: float) -> Callable[[Sequence[str]], list[list[float]]]:
    """Vectors whose cosines with the first are those given."""
    return lambda _: [[1.0, 0.0], *([cosine, math.sqrt(1 - cosine**2)] for cosine in cosines)]


def grades(*values: object) -> dict[str, Any]:
    return {"grades": [{"id": n, "reason": "r", "grade": value} for n, value in enumerate(values, start=1)]}


def test_mean_similarity_of_the_questions_in_one_call_and_one_embedding_call() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", " Q2 ", "Q3"))
    asked = []

    def vectors(texts: Sequence[str]) -> list[list[float]]:
        asked.extend(texts)
        return toward(1.0, 0.8, 0.6)(texts)

    result = evaluate(judge, vectors)
    assert (result.status, result.reason) == ("scored", Reason.NONE)
    assert result.score == pytest.approx((1 + 0.8 + 0.6) / 3, abs=1e-12)
    assert asked == ["有給休暇は何日ですか", "Q1", "Q2", "Q3"]
    assert judge.names() == [WRITE]
    assert judge.calls[0][1] == {"count": 3, "answer": "10日です"}
    assert result.details["method"] == "embedding"
    assert [question["text"] for question in result.details["questions"]] == ["Q1", "Q2", "Q3"]
    assert result.details["coverage"] == {"judged": 3, "of": 3}


def test_writer_of_questions_does_not_see_the_real_one() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q"))
    evaluate(judge, toward(1.0), given={"question": "秘密の質問"})
    assert "秘密" not in judge.calls[0][2]


@pytest.mark.parametrize(
    ("vectors", "score"),
    [
        ([[1.0, 0.0], [-1.0, 0.0]], 0.0),
        ([[1.0, 0.0], [5.0, 0.0]], 1.0),
        ([[3.0, 3.0], [0.1, 0.1]], 1.0),
        ([[1e200, 0.0], [1e-200, 1e-200]], 1 / math.sqrt(2)),
        ([[1.0, 0.0], [0.0, 1.0]], 0.0),
    ],
)
def test_similarity_is_clamped_and_does_not_depend_on_length(vectors: list[list[float]], score: float) -> None:
    result = evaluate(ScriptedJudge(relevancy__questions=questions("Q")), lambda _: vectors)
    assert result.status == "scored"
    assert result.score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    "vectors",
    [
        [[0.0, 0.0], [1.0, 0.0]],
        [[1.0, 0.0], [0.0, 0.0]],
        [[1.0, 0.0], [math.nan, 0.0]],
        [[1.0, 0.0], [math.inf, 0.0]],
        [[1.0, 0.0], [1.0, 0.0, 0.0]],
        [[1.0, 0.0], []],
        [[], []],
        [[1.0, 0.0]],
        [],
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]],
        [[1.0, 0.0], None],
        [[1.0, 0.0], [None, 1.0]],
        [[1.0, 0.0], ["a", 1.0]],
    ],
)
def test_unusable_vectors_are_said_to_be(vectors: Any) -> None:
    result = evaluate(ScriptedJudge(relevancy__questions=questions("Q")), lambda _: vectors)
    assert (result.status, result.score, result.reason) == ("failed", None, Reason.EMBEDDING_INVALID)


def test_failing_embedding_model_is_told() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q"))
    result = evaluate(judge, lambda _: failing(Reason.MODEL_UNAUTHORIZED))
    assert (result.status, result.reason) == ("failed", Reason.MODEL_UNAUTHORIZED)


@pytest.mark.parametrize("flags", [[1, 1, 1], ["yes", True, 1.0], ["はい", "1", "是"]])
def test_answer_that_commits_to_nothing_is_zero_without_embedding(flags: list[Any]) -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2", "Q3", noncommittal=flags))
    result = evaluate(judge, lambda _: pytest.fail("embedded"))
    assert (result.status, result.score, result.reason) == ("scored", 0.0, Reason.NONCOMMITTAL)
    assert result.details["noncommittal"] is True
    assert judge.names() == [WRITE]


@pytest.mark.parametrize("flags", [[1, 0, 0], [1, 1, 0], [0, 0, 0]])
def test_one_flag_that_is_not_set_is_enough_for_a_score(flags: list[int]) -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2", "Q3", noncommittal=flags))
    result = evaluate(judge, toward(1.0, 1.0, 0.4))
    assert (result.status, result.reason) == ("scored", Reason.NONE)
    assert result.score == pytest.approx(0.8)


def test_empty_questions_are_skipped() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("", "Q2", "  ", noncommittal=[1, 0, 1]))
    result = evaluate(judge, toward(0.5))
    assert (result.status, result.score) == ("scored", pytest.approx(0.5))
    assert [question["text"] for question in result.details["questions"]] == ["Q2"]


def test_flag_of_an_empty_question_does_not_save_or_sink_the_others() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("", "Q2", noncommittal=[0, 1]))
    assert evaluate(judge, toward(1.0)).reason is Reason.NONCOMMITTAL


def test_no_question_for_an_answer_that_commits_to_nothing_is_zero() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("", "", noncommittal=[1, 1]))
    assert (evaluate(judge, toward()).score, evaluate(judge, toward()).reason) == (0.0, Reason.NONCOMMITTAL)


@pytest.mark.parametrize(
    "reply",
    [
        questions("", "", noncommittal=[0, 1]),
        {"questions": []},
        {"questions": [{"question": "Q", "noncommittal": 2}]},
        {"questions": ["Q1", "Q2"]},
        "Q1? Q2?",
    ],
)
def test_no_usable_question_is_the_judges_failure(reply: Any) -> None:
    result = evaluate(ScriptedJudge(relevancy__questions=reply), toward(1.0))
    assert (result.status, result.score, result.reason) == ("failed", None, Reason.JUDGE_UNPARSEABLE)


@pytest.mark.parametrize("count", [1, 5])
def test_as_many_questions_as_asked_for_are_used(count: int) -> None:
    judge = ScriptedJudge(relevancy__questions=questions(*(f"Q{n}" for n in range(7))))
    result = evaluate(judge, lambda texts: [[1.0, 0.0]] * len(texts), count=count)
    assert judge.calls[0][1]["count"] == count
    assert len(result.details["questions"]) == count


@pytest.mark.parametrize(
    ("missing", "status", "reason"),
    [("question", "failed", Reason.NO_QUESTION), ("answer", "not_applicable", Reason.NO_ANSWER)],
)
def test_missing_input_is_said_without_a_call(missing: str, status: str, reason: Reason) -> None:
    judge = ScriptedJudge()
    result = evaluate(judge, toward(), given={missing: ""})
    assert (result.status, result.score, result.reason) == (status, None, reason)
    assert judge.calls == []


def test_without_an_embedding_model_the_judge_grades_the_questions() -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2", "Q3"), relevancy__grades=grades(3, 2, 0))
    result = evaluate(judge)
    assert result.status == "scored"
    assert result.score == pytest.approx((3 + 2 + 0) / 9, abs=1e-12)
    assert result.details["method"] == "judged"
    assert judge.names() == [WRITE, GRADE]
    assert judge.calls[1][1] == {
        "question": "有給休暇は何日ですか",
        "candidates": [{"id": 1, "text": "Q1"}, {"id": 2, "text": "Q2"}, {"id": 3, "text": "Q3"}],
    }


def test_first_grade_of_a_question_counts_and_unknown_ids_do_not() -> None:
    listed = [{"id": 2, "grade": 3}, {"id": 1, "grade": 0}, {"id": 2, "grade": 0}, {"id": 9, "grade": 3}]
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2"), relevancy__grades={"grades": listed})
    assert evaluate(judge).score == 0.5


def test_missing_grades_are_asked_for_again() -> None:
    second = {"grades": [{"id": 2, "grade": 0}, {"id": 1, "grade": 0}]}
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2"), relevancy__grades=[grades(3, 7), second])
    result = evaluate(judge)
    assert (result.status, result.score) == ("scored", 0.5)
    assert [candidate["id"] for candidate in judge.calls[2][1]["candidates"]] == [2]


@pytest.mark.parametrize(
    ("second", "reason"),
    [({"grades": []}, Reason.VERDICTS_MISSING), (failing(Reason.MODEL_ERROR), Reason.MODEL_ERROR)],
)
def test_grade_that_stays_missing_makes_the_score_partial(second: Any, reason: Reason) -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2"), relevancy__grades=[grades(3), second])
    result = evaluate(judge)
    assert (result.status, result.score, result.reason) == ("partial", 1.0, reason)
    assert result.details["coverage"] == {"judged": 1, "of": 2}
    assert [question["similarity"] for question in result.details["questions"]] == [1.0, None]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"grades": []}, Reason.VERDICTS_MISSING),
        (failing(Reason.RATE_LIMITED), Reason.RATE_LIMITED),
        ("no", Reason.JUDGE_UNPARSEABLE),
    ],
)
def test_no_grade_at_all_is_a_failure(reply: Any, reason: Reason) -> None:
    judge = ScriptedJudge(relevancy__questions=questions("Q1", "Q2"), relevancy__grades=reply)
    result = evaluate(judge, clock=FakeClock())
    assert (result.status, result.score, result.reason) == ("failed", None, reason)


def test_votes_write_several_sets_of_questions() -> None:
    judge = ScriptedJudge(relevancy__questions=[questions("Q1"), questions("Q2"), questions("Q3")])
    result = evaluate(judge, toward(1.0, 0.8, 0.6), votes=3)
    assert (result.status, result.score) == ("scored", pytest.approx(0.8))
    assert judge.names() == [WRITE] * 3
    assert result.details["coverage"] == {"judged": 3, "of": 3, "agreement": 1.0}


@pytest.mark.parametrize(
    ("flags", "score", "reason", "agreement"),
    [
        ([1, 0, 1], 0.0, Reason.NONCOMMITTAL, 0.6667),
        ([0, 1, 0], 0.9, Reason.NONE, 0.6667),
        ([1, 1, 1], 0.0, Reason.NONCOMMITTAL, 1.0),
    ],
)
def test_majority_of_the_votes_says_whether_the_answer_commits(
    flags: list[int], score: float, reason: Reason, agreement: float
) -> None:
    judge = ScriptedJudge(
        relevancy__questions=[questions(f"Q{n}", noncommittal=[flag]) for n, flag in enumerate(flags)]
    )
    result = evaluate(judge, toward(1.0, 0.8), votes=3)
    assert (result.score, result.reason) == (pytest.approx(score), reason)
    assert result.details["coverage"]["agreement"] == agreement


def test_lost_vote_makes_the_score_partial() -> None:
    judge = ScriptedJudge(relevancy__questions=[questions("Q1"), failing(Reason.TIMEOUT), questions("Q3")])
    result = evaluate(judge, toward(1.0, 0.6), votes=3)
    assert (result.status, result.score, result.reason) == ("partial", pytest.approx(0.8), Reason.TIMEOUT)


@pytest.mark.parametrize("reason", [Reason.RATE_LIMITED, Reason.TIMEOUT, Reason.MODEL_NOT_SELECTED])
def test_failing_judge_is_a_result_with_the_reason(reason: Reason) -> None:
    result = evaluate(ScriptedJudge(relevancy__questions=failing(reason, field="model")), clock=FakeClock())
    assert (result.status, result.score, result.reason) == ("failed", None, reason)
    assert result.reason_values == {"field": "model"}
