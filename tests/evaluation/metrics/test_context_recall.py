import json
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.metrics import evaluate_metric
from evaluation.result import MetricResult
from tests.evaluation.fakes import FakeClock, ScriptedJudge, failing, parts, sample, session, statements, verdicts

PARTS, SPLIT, JUDGE = "recall.parts", "correctness.statements", "faithfulness.verdicts"


def evaluate(
    judge: ScriptedJudge, depth: str = "standard", given: dict[str, Any] | None = None, **options: Any
) -> MetricResult:
    result = evaluate_metric("context_recall", session(judge, **options), sample(**(given or {})), {"depth": depth})
    json.dumps(dict(result.details), allow_nan=False)
    return result


def by_id(data: dict[str, Any]) -> dict[str, Any]:
    """Supports what holds an a."""
    return {
        "verdicts": [{"id": item["id"], "verdict": int("a" in item["text"])} for item in data["statements"]],
    }


@pytest.mark.parametrize(("values", "score"), [((1,), 1.0), ((0,), 0.0), ((1, 1, 1), 1.0), ((1, 0, 0), 1 / 3)])
@pytest.mark.parametrize("depth", ["standard", "economy"])
def test_share_of_attributed_parts_in_one_call(depth: str, values: tuple[int, ...], score: float) -> None:
    judge = ScriptedJudge(recall__parts=parts(*values))
    result = evaluate(judge, depth)
    assert (result.status, result.score, result.reason) == ("scored", score, Reason.NONE)
    assert [part["verdict"] for part in result.details["parts"]] == list(values)
    assert judge.names() == [PARTS]
    assert judge.calls[0][1] == {
        "question": "有給休暇は何日ですか",
        "reference": "10日付与されます",
        "contexts": ["有給休暇は10日", "日当は2,000円"],
    }


@pytest.mark.parametrize("contexts", [[], [""], ["  "], None, [None], "", "[]"])
def test_no_contexts_are_zero_without_a_call(contexts: object) -> None:
    judge = ScriptedJudge()
    result = evaluate(judge, given={"contexts": contexts})
    assert (result.status, result.score, result.reason) == ("scored", 0.0, Reason.NO_CONTEXTS)
    assert judge.calls == []


@pytest.mark.parametrize(
    ("missing", "status", "reason"),
    [("question", "failed", Reason.NO_QUESTION), ("reference", "not_applicable", Reason.NO_REFERENCE)],
)
def test_missing_input_is_said_without_a_call(missing: str, status: str, reason: Reason) -> None:
    judge = ScriptedJudge()
    result = evaluate(judge, given={missing: "", "contexts": []})
    assert (result.status, result.score, result.reason) == (status, None, reason)
    assert judge.calls == []


def test_part_without_a_readable_verdict_is_asked_about_again() -> None:
    first = {"parts": [{"text": "b", "verdict": 1}, {"text": "a1", "verdict": "?"}, {"text": "c", "verdict": None}]}
    judge = ScriptedJudge(recall__parts=first, faithfulness__verdicts=by_id)
    result = evaluate(judge)
    assert (result.status, result.score) == ("scored", 2 / 3)
    assert judge.names() == [PARTS, JUDGE]
    assert [item["text"] for item in judge.calls[1][1]["statements"]] == ["a1", "c"]


def test_part_whose_verdict_stays_missing_is_not_attributed() -> None:
    first = {"parts": [{"text": "a", "verdict": 1}, {"text": "b", "verdict": 2}]}
    judge = ScriptedJudge(recall__parts=first, faithfulness__verdicts={"verdicts": []})
    result = evaluate(judge)
    assert (result.status, result.score, result.reason) == ("partial", 0.5, Reason.VERDICTS_MISSING)
    assert result.details["coverage"] == {"judged": 1, "of": 2, "list_cut": False}


def test_failing_second_question_costs_only_its_parts() -> None:
    first = {"parts": [{"text": "a", "verdict": 1}, {"text": "b", "verdict": 2}]}
    judge = ScriptedJudge(recall__parts=first, faithfulness__verdicts=failing(Reason.RATE_LIMITED))
    result = evaluate(judge, clock=FakeClock())
    assert (result.status, result.score, result.reason) == ("partial", 0.5, Reason.RATE_LIMITED)


def test_part_that_the_judge_repeats_counts_once() -> None:
    first = {"parts": [{"text": t, "verdict": v} for t, v in [("a", 1), ("b", 0), ("b", 0), ("b", 1), ("a", "?")]]}
    judge = ScriptedJudge(recall__parts=first)
    result = evaluate(judge)
    assert (result.status, result.score, judge.names()) == ("scored", 0.5, [PARTS])


@pytest.mark.parametrize("reply", [{"parts": []}, {"parts": [{"verdict": 1}]}, "Part 1: yes. Part 2: no."])
def test_reference_without_parts_is_a_failure_not_a_score(reply: object) -> None:
    result = evaluate(ScriptedJudge(recall__parts=reply))
    assert (result.status, result.score, result.reason) == ("failed", None, Reason.JUDGE_UNPARSEABLE)


def test_list_of_parts_that_stays_cut_off_makes_the_score_partial() -> None:
    judge = ScriptedJudge(recall__parts='{"parts": [{"text": "a", "verdict": 1}, {"text": "b", "ver')
    result = evaluate(judge)
    assert (result.status, result.score, result.reason) == ("partial", 1.0, Reason.JUDGE_UNPARSEABLE)
    assert result.details["coverage"]["list_cut"] is True
    assert judge.names() == [PARTS, PARTS]


def test_careful_splits_the_reference_and_asks_about_each_part_alone() -> None:
    judge = ScriptedJudge(correctness__statements=statements("a", "b", "aa"), faithfulness__verdicts=by_id)
    result = evaluate(judge, "careful")
    assert (result.status, result.score) == ("scored", 2 / 3)
    assert judge.names() == [SPLIT, JUDGE, JUDGE, JUDGE]


def test_reference_that_the_judge_can_not_split_counts_as_one_part() -> None:
    judge = ScriptedJudge(correctness__statements={"statements": []}, faithfulness__verdicts=verdicts(1))
    result = evaluate(judge, "careful")
    assert [part["text"] for part in result.details["parts"]] == ["10日付与されます"]
    assert result.score == 1.0


def test_votes_judge_the_same_parts() -> None:
    judge = ScriptedJudge(
        correctness__statements=statements("a", "b"),
        faithfulness__verdicts=[verdicts(1, 0), verdicts(0, 0), verdicts(1, 0)],
    )
    result = evaluate(judge, votes=3)
    assert (result.status, result.score) == ("scored", 0.5)
    assert [part.get("agreement") for part in result.details["parts"]] == [0.6667, None]
    assert judge.names() == [SPLIT, JUDGE, JUDGE, JUDGE]


def test_part_is_attributed_when_any_window_holds_it() -> None:
    def judge_window(data: dict[str, Any]) -> dict[str, Any]:
        text = "".join(data["contexts"])
        return {"verdicts": [{"id": s["id"], "verdict": int(s["text"] in text)} for s in data["statements"]]}

    judge = ScriptedJudge(correctness__statements=statements("甲", "乙", "丙"), faithfulness__verdicts=judge_window)
    result = evaluate(judge, given={"reference": "甲乙丙", "contexts": ["甲xxx", "xx乙x"]}, window_characters=4)
    assert (result.status, result.score) == ("scored", 2 / 3)
    assert judge.names() == [SPLIT, JUDGE, JUDGE]


def test_one_call_that_is_too_long_becomes_several() -> None:
    def judge_window(data: dict[str, Any]) -> Any:
        return failing(Reason.CONTEXT_TOO_LONG) if len(data["contexts"]) > 1 else verdicts(1)

    judge = ScriptedJudge(
        recall__parts=failing(Reason.CONTEXT_TOO_LONG),
        correctness__statements=statements("a"),
        faithfulness__verdicts=judge_window,
    )
    result = evaluate(judge)
    assert (result.status, result.score) == ("scored", 1.0)
    assert judge.names() == [PARTS, SPLIT, JUDGE, JUDGE, JUDGE]


@pytest.mark.parametrize("reason", [Reason.RATE_LIMITED, Reason.TIMEOUT, Reason.MODEL_NOT_FOUND])
def test_failing_judge_is_a_result_with_the_reason(reason: Reason) -> None:
    result = evaluate(ScriptedJudge(recall__parts=failing(reason)), clock=FakeClock())
    assert (result.status, result.score, result.reason) == ("failed", None, reason)
