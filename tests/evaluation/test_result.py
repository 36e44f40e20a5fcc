import json
import math
from typing import Any

import pytest

from evaluation.errors import EvaluationError, JudgeError, Reason, whereabouts
from evaluation.metrics import METRICS, evaluate_metric
from evaluation.result import DETAILS_BYTES, MetricResult, bounded, status_of
from tests.evaluation.fakes import ScriptedJudge, failing, sample, session


@pytest.mark.parametrize("status", ["scored", "partial"])
def test_score_is_a_number_from_0_to_1(status: Any) -> None:
    for score in (0.0, 0, 0.5, 1, 1.0):
        assert MetricResult("m", "1", status, score).score == score
    for wrong in (None, -0.1, 1.0001, math.nan, math.inf):
        with pytest.raises(ValueError, match="a score"):
            MetricResult("m", "1", status, wrong)


@pytest.mark.parametrize("status", ["not_applicable", "failed"])
def test_without_a_score_there_is_none(status: Any) -> None:
    assert MetricResult("m", "1", status).score is None
    with pytest.raises(ValueError, match="a score"):
        MetricResult("m", "1", status, 0.0)


NOT_APPLICABLE = {
    "no_reference",
    "contexts_not_visible",
    "citations_off",
    "no_claims",
    "no_answer",
    "only_thoughts",
    "not_found",
    "ambiguous_match",
}


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason])
def test_status_of_every_reason(reason: Reason) -> None:
    assert status_of(EvaluationError(reason)) == ("not_applicable" if reason in NOT_APPLICABLE else "failed")


def test_no_error_is_scored() -> None:
    assert status_of(None) == "scored"


def test_result_of_an_error_keeps_reason_values_and_details() -> None:
    error = JudgeError(Reason.RATE_LIMITED, retry_after=3.0, field="model")
    result = MetricResult.without_score("m", "2", error, partly="x")
    assert result == MetricResult("m", "2", "failed", None, Reason.RATE_LIMITED, {"field": "model"}, {"partly": "x"})
    assert (str(error), error.retry_after) == ("rate_limited", 3.0)


class RaisingJudge(ScriptedJudge):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def complete(self, system: str, user: str) -> Any:  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ZeroDivisionError("sk-secret"), Reason.INTERNAL_ERROR),
        (failing(Reason.JUDGE_REFUSED), Reason.JUDGE_REFUSED),
    ],
)
def test_every_metrics_failure_is_a_result_that_is_json(name: str, error: Exception, reason: Reason) -> None:
    result = evaluate_metric(name, session(RaisingJudge(error)), sample(), {})
    assert (result.status, result.score, result.reason) == ("failed", None, reason)
    assert "secret" not in json.dumps([result.reason, dict(result.reason_values), dict(result.details)])


def test_log_of_an_unexpected_error_tells_the_place(caplog: pytest.LogCaptureFixture) -> None:
    evaluate_metric("faithfulness", session(RaisingJudge(KeyError("sk-secret"))), sample(), {})
    assert "faithfulness failed unexpectedly: KeyError in test_result.py:" in caplog.records[0].message
    assert "secret" not in caplog.records[0].message


def test_whereabouts_without_an_error_are_nowhere() -> None:
    assert whereabouts() == "NoneType in "


def size(details: Any) -> int:
    return len(json.dumps(details, ensure_ascii=False).encode())


def test_details_that_fit_stay_as_they_are() -> None:
    details = {"claims": [{"text": "あ" * 5000}], "n": 1.5, "none": None, "yes": True}
    assert bounded(details) == details


@pytest.mark.parametrize(
    "details",
    [
        {"text": "あ" * 5_000_000},
        {"claims": [{"id": n, "text": "あ" * 300, "reason": "い" * 100} for n in range(5000)]},
        {"claims": [{"id": n, "nested": [["x" * 1000] * 50] * 3} for n in range(100)]},
        {"chunks": tuple({"text": "x" * 100_000} for _ in range(50))},
        # 190,000 characters, but 570,000 bytes.
        {"text": "あ" * 190_000},
        # As many categories as rows.
        {"categories": {f"カテゴリー{n}": {"faithfulness": {"mean": 0.5123456789, "low": 0.1}} for n in range(5000)}},
    ],
)
def test_details_are_bounded_and_say_what_is_left_out(details: Any) -> None:
    found = bounded(details)
    assert size(found) <= DETAILS_BYTES
    assert list(found) == list(details)
    text = json.dumps(found, ensure_ascii=False)
    assert "…" in text or "omitted" in text


def test_details_that_can_not_be_bounded_are_as_short_as_can_be() -> None:
    found = bounded({f"name {n}": "x" * 100 for n in range(20)}, 100)
    assert {len(text) for text in found.values()} == {40}


def test_what_takes_most_is_shortened_and_the_small_things_beside_it_stay() -> None:
    small = {
        "past_runs": [{"number": n, "means": {"faithfulness": 0.5}} for n in range(10)],
        "settings": {"thresholds": {"faithfulness": 0.7}, "judge": "m" * 300},
        "run_names": [f"毎週の確認{n}" for n in range(60)],
    }
    statistics = {"mean": 0.5123456789, "low": 0.4, "high": 0.6, "scored": 1}
    found = bounded({"categories": {f"分類{n}": {"faithfulness": statistics} for n in range(3000)}, **small})
    assert {name: found[name] for name in small} == small
    assert found["categories"]["omitted"] == 3000 - (len(found["categories"]) - 1)
    assert len(found["categories"]) > 100


def test_what_was_shortened_before_is_counted_when_it_is_shortened_again() -> None:
    details = {"claims": [{"id": n, "text": "x" * 400} for n in range(2000)]}
    once = bounded(details, 50_000)
    twice = bounded(once, 3_000)
    assert twice["claims"][-1] == {"omitted": 2000 - (len(twice["claims"]) - 1)}


def test_long_texts_are_shortened_before_lists() -> None:
    found = bounded({"claims": [{"id": n, "text": "x" * 5000} for n in range(45)]})
    assert [len(claim["text"]) for claim in found["claims"]] == [4000] * 45
    found = bounded({"claims": [{"id": n, "text": "x" * 400} for n in range(2000)]}, 50_000)
    assert found["claims"][-1] == {"omitted": 1800}
    assert len(found["claims"]) == 201
