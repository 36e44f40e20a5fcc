from typing import Any

import pytest

from bridge.scorecard import ScorecardTool, read_thresholds
from evaluation.errors import EvaluationError, Reason
from evaluation.metrics import METRICS
from tests.bridge.support import MODEL, Place, Result, judge
from tests.evaluation.fakes import failing

CHUNKS = [
    {"content": "有給休暇は10日", "title": "休暇規程.md", "metadata": {"document_id": "d-1"}},
    {"content": "日当は2,000円", "title": "旅費規程.md", "metadata": {"document_id": "d-2"}},
]


def evaluate(**changes: Any) -> Result:
    parameters = {
        "question": "有給休暇は何日ですか",
        "answer": "10日です",
        "reference": "10日付与されます",
        "contexts": CHUNKS,
        "model": MODEL,
        **changes,
    }
    scripted = parameters.pop("judge", None) or judge()
    given = {name: value for name, value in parameters.items() if value is not None}
    return Place(ScorecardTool, "evaluate_answer", scripted).call(given)


@pytest.mark.parametrize(
    ("parameters", "thresholds"),
    [
        ({}, {}),
        ({"threshold": ""}, {}),
        ({"threshold": 0.7}, dict.fromkeys(METRICS, 0.7)),
        ({"threshold": "70%"}, dict.fromkeys(METRICS, 0.7)),
        ({"faithfulness_threshold": "０．９"}, {"faithfulness": 0.9}),
        ({"threshold": 0.7, "faithfulness_threshold": 0.9}, {**dict.fromkeys(METRICS, 0.7), "faithfulness": 0.9}),
        # 0 is a threshold, which every score reaches, and no empty field.
        ({"threshold": 0.7, "faithfulness_threshold": 0}, {**dict.fromkeys(METRICS, 0.7), "faithfulness": 0.0}),
        ({"threshold": 0.0}, dict.fromkeys(METRICS, 0.0)),
    ],
)
def test_a_threshold_of_a_score_counts_before_that_for_all(
    parameters: dict[str, Any], thresholds: dict[str, float]
) -> None:
    assert read_thresholds(parameters) == thresholds


@pytest.mark.parametrize("parameters", [{"threshold": 1.1}, {"context_recall_threshold": "high"}])
def test_a_threshold_that_is_none_is_refused_by_its_name(parameters: dict[str, Any]) -> None:
    with pytest.raises(EvaluationError) as caught:
        read_thresholds(parameters)

    assert caught.value.reason is Reason.INVALID_SETTING
    assert caught.value.values["field"] == next(iter(parameters))


def test_all_scores_of_an_answer() -> None:
    result = evaluate(threshold=0.5)

    assert {name: result[name] for name in METRICS} == {
        "answer_relevancy": 1.0,
        "faithfulness": 0.5,
        "context_recall": 1.0,
        "context_precision": 1.0,
        "answer_correctness": None,
    }
    assert (result["status"], result["reason"], result["passed"]) == ("scored", "", True)
    assert result["details"]["judge"] == "judge-1"
    # 2 + 2 for the two of the answer, 1 part, one per chunk.
    assert result["details"]["usage"]["judge_calls"] == 2 + 2 + 1 + 2


def test_thresholds_of_scores_that_are_not_given_do_not_count() -> None:
    assert evaluate(metrics="retrieval", faithfulness_threshold=1.0)["passed"] is None
    assert evaluate(metrics="retrieval", faithfulness_threshold=1.0, threshold=0.9)["passed"] is True


def test_the_documents_that_should_be_found_are_compared_with_those_of_the_chunks() -> None:
    # One by its title without the ending, one that is not there.
    assert evaluate(documents="旅費規程\n就業規則.md")["details"]["documents"] == {
        "hit_rate": 1.0,
        "reciprocal_rank": 0.5,
        "recall_at_k": 0.5,
        "missing_documents": ["就業規則.md"],
        "expected_documents": 2,
    }
    assert evaluate(documents=["d-1"])["details"]["documents"]["recall_at_k"] == 1.0
    assert evaluate(documents=[None])["details"]["documents"] is None


def test_every_output_is_there_when_one_score_fails_and_when_all_do() -> None:
    one = evaluate(judge=judge(**{"recall.parts": failing(Reason.MODEL_ERROR)}))
    names = ("faithfulness.statements", "recall.parts", "precision.chunk", "relevancy.questions")
    all_of_them = evaluate(judge=judge(**dict.fromkeys(names, failing(Reason.MODEL_ERROR))))

    assert (one["status"], one["reason"], one["context_recall"]) == ("partial", "model_error", None)
    assert (all_of_them["status"], all_of_them["reason"]) == ("failed", "model_error")
    assert [all_of_them[name] for name in METRICS] == [None] * len(METRICS)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"metrics": "taste"}, "failed", "invalid_setting"),
        ({"votes": 2}, "failed", "invalid_setting"),
        ({"threshold": 7}, "failed", "invalid_setting"),
        ({"question": 5}, "failed", "not_text"),
        ({"model": None}, "failed", "model_not_selected"),
        ({"reference": None, "metrics": "retrieval"}, "not_applicable", "no_reference"),
    ],
)
def test_what_can_not_be_scored_is_told_in_one_line(changes: dict[str, Any], status: str, reason: str) -> None:
    result = evaluate(**changes)

    assert (result["status"], result["reason"]) == (status, reason)
    assert result["passed"] is None
    assert result["summary"]
    assert "\n" not in result["summary"]
