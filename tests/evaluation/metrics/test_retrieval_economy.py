"""Recall and precision from one call."""

from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.metrics.retrieval_economy import can_share, evaluate_both
from evaluation.result import MetricResult
from tests.evaluation.fakes import ScriptedJudge, failing, parts, sample, session, verdicts

BOTH, AGAIN, JUDGE = "retrieval.economy", "precision.chunks", "faithfulness.verdicts"


def evaluate(judge: ScriptedJudge) -> tuple[MetricResult, MetricResult]:
    found = evaluate_both(session(judge), sample())
    return found["context_recall"], found["context_precision"]


def reply(part_verdicts: list[Any], chunk_verdicts: list[Any]) -> dict[str, Any]:
    return {**parts(*part_verdicts), **verdicts(*chunk_verdicts, key="chunks")}


def test_both_scores_from_one_call() -> None:
    judge = ScriptedJudge(retrieval__economy=reply([1, 0], [0, 1]))
    recall, precision = evaluate(judge)
    assert [(result.status, result.score) for result in (recall, precision)] == [("scored", 0.5), ("scored", 0.5)]
    assert judge.names() == [BOTH]
    assert judge.calls[0][1]["contexts"] == [{"id": 1, "text": "有給休暇は10日"}, {"id": 2, "text": "日当は2,000円"}]


def test_unknown_and_repeated_ids_do_not_count() -> None:
    chunks = [{"id": 2, "verdict": 0}, {"id": 1, "verdict": 1}, {"id": 2, "verdict": 1}, {"id": 9, "verdict": 1}]
    _, precision = evaluate(ScriptedJudge(retrieval__economy={**parts(1), "chunks": chunks}))
    assert precision.score == 1.0
    assert [chunk["verdict"] for chunk in precision.details["chunks"]] == [1, 0]


def test_chunks_left_out_are_asked_about_once_more() -> None:
    again = {"verdicts": [{"id": 2, "verdict": 1}]}
    judge = ScriptedJudge(retrieval__economy=reply([1], [0]), precision__chunks=again)
    recall, precision = evaluate(judge)
    assert (recall.score, precision.score, precision.status) == (1.0, 0.5, "scored")
    assert judge.names() == [BOTH, AGAIN]


@pytest.mark.parametrize(
    ("again", "reason"),
    [({"verdicts": []}, Reason.VERDICTS_MISSING), (failing(Reason.MODEL_ERROR), Reason.MODEL_ERROR)],
)
def test_chunk_that_stays_without_a_verdict_makes_precision_alone_partial(again: Any, reason: Reason) -> None:
    recall, precision = evaluate(ScriptedJudge(retrieval__economy=reply([1], [1]), precision__chunks=again))
    assert (recall.status, recall.score) == ("scored", 1.0)
    assert (precision.status, precision.score, precision.reason) == ("partial", 1.0, reason)


def test_list_that_is_not_usable_costs_only_its_own_score() -> None:
    recall, precision = evaluate(ScriptedJudge(retrieval__economy=reply([], [1, 0])))
    assert (recall.status, recall.score, recall.reason) == ("failed", None, Reason.JUDGE_UNPARSEABLE)
    assert (precision.status, precision.score) == ("scored", 1.0)
    judge = ScriptedJudge(retrieval__economy=reply([1, 1], []), precision__chunks={"verdicts": []})
    recall, precision = evaluate(judge)
    assert (recall.status, recall.score) == ("scored", 1.0)
    assert (precision.status, precision.score, precision.reason) == ("failed", None, Reason.VERDICTS_MISSING)


def test_parts_without_a_readable_verdict_are_asked_about_again() -> None:
    judge = ScriptedJudge(retrieval__economy=reply([1, "?"], [1, 1]), faithfulness__verdicts=verdicts(0))
    recall, _ = evaluate(judge)
    assert (recall.status, recall.score, judge.names()) == ("scored", 0.5, [BOTH, JUDGE])


def test_failing_call_is_told() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(ScriptedJudge(retrieval__economy=failing(Reason.CONTEXT_TOO_LONG)))
    assert caught.value.reason is Reason.CONTEXT_TOO_LONG


@pytest.mark.parametrize(
    ("given", "options", "shared"),
    [
        ({}, {}, True),
        ({"question": ""}, {}, False),
        ({"reference": ""}, {}, False),
        ({"contexts": []}, {}, False),
        ({}, {"votes": 3}, False),
        ({}, {"window_characters": 16}, False),
        ({}, {"window_characters": 17}, True),
    ],
)
def test_one_call_is_enough_for_one_vote_and_one_window(
    given: dict[str, Any], options: dict[str, Any], shared: bool
) -> None:
    assert can_share(session(ScriptedJudge(), **options), sample(**given)) is shared
