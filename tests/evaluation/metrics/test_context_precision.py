import json
import threading
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.metrics import evaluate_metric
from evaluation.result import MetricResult
from tests.evaluation.fakes import FakeClock, ScriptedJudge, failing, sample, session, verdicts

CHUNK, CHUNKS = "precision.chunk", "precision.chunks"


def evaluate(
    judge: ScriptedJudge, depth: str = "standard", given: dict[str, Any] | None = None, **options: Any
) -> MetricResult:
    result = evaluate_metric("context_precision", session(judge, **options), sample(**(given or {})), {"depth": depth})
    json.dumps(dict(result.details), allow_nan=False)
    return result


def chunks(*values: object) -> list[str]:
    """Chunks that carry the verdict which `carried` reads out of them."""
    return [f"{n}:{value}" for n, value in enumerate(values)]


def carried(data: dict[str, Any]) -> dict[str, Any]:
    return {"reason": "r", "verdict": data["context"].split(":")[1][:1]}


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ((1,), 1.0),
        ((0,), 0.0),
        ((0, 0, 0), 0.0),
        ((1, 1, 1), 1.0),
        ((1, 0, 0), 1.0),
        ((0, 1, 0), 1 / 2),
        ((0, 0, 1), 1 / 3),
        ((1, 0, 1), (1 + 2 / 3) / 2),
        ((0, 1, 1, 0, 1), (1 / 2 + 2 / 3 + 3 / 5) / 3),
    ],
)
@pytest.mark.parametrize("depth", ["standard", "economy", "careful"])
def test_rank_counts_and_ends_are_exact(depth: str, values: tuple[int, ...], score: float) -> None:
    judge = ScriptedJudge(precision__chunk=carried, precision__chunks=verdicts(*values))
    result = evaluate(judge, depth, given={"contexts": chunks(*values)})
    assert (result.status, result.score, result.reason) == ("scored", score, Reason.NONE)
    assert [(chunk["rank"], chunk["verdict"]) for chunk in result.details["chunks"]] == list(enumerate(values, start=1))
    assert judge.names() == ([CHUNKS] if depth == "economy" else [CHUNK] * len(values))


def test_each_chunk_is_judged_alone_with_question_and_reference() -> None:
    judge = ScriptedJudge(precision__chunk={"reason": "r", "verdict": 1})
    evaluate(judge)
    asked = sorted((data for _, data, _ in judge.calls), key=lambda data: data["context"])
    common = {"question": "有給休暇は何日ですか", "reference": "10日付与されます"}
    assert asked == [{**common, "context": "日当は2,000円"}, {**common, "context": "有給休暇は10日"}]


def test_economy_gives_all_chunks_by_id() -> None:
    judge = ScriptedJudge(precision__chunks=verdicts(1, 0))
    evaluate(judge, "economy")
    assert judge.calls[0][1]["contexts"] == [{"id": 1, "text": "有給休暇は10日"}, {"id": 2, "text": "日当は2,000円"}]


def test_all_chunks_are_judged_at_the_same_time() -> None:
    together = threading.Barrier(5, timeout=5)

    def judge_chunk(data: dict[str, Any]) -> dict[str, Any]:
        together.wait()
        return carried(data)

    result = evaluate(ScriptedJudge(precision__chunk=judge_chunk), given={"contexts": chunks(1, 0, 1, 0, 0)})
    assert result.score == (1 + 2 / 3) / 2


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


def test_one_chunk_failing_leaves_the_others_and_counts_as_not_relevant() -> None:
    def judge_chunk(data: dict[str, Any]) -> Any:
        return failing(Reason.MODEL_ERROR) if data["context"].endswith("x") else carried(data)

    result = evaluate(ScriptedJudge(precision__chunk=judge_chunk), given={"contexts": chunks(1, "x", 1)})
    assert (result.status, result.reason) == ("partial", Reason.MODEL_ERROR)
    assert result.score == (1 + 2 / 3) / 2
    assert result.details["coverage"] == {"judged": 2, "of": 3, "list_cut": False}
    assert [chunk["verdict"] for chunk in result.details["chunks"]] == [1, None, 1]


def test_all_chunks_failing_is_a_failure() -> None:
    result = evaluate(ScriptedJudge(precision__chunk=failing(Reason.RATE_LIMITED)), clock=FakeClock())
    assert (result.status, result.score, result.reason) == ("failed", None, Reason.RATE_LIMITED)


@pytest.mark.parametrize("value", ["-1", "2", "unknown", None])
def test_unclear_verdict_is_asked_for_once_more_and_never_counts_as_relevant(value: object) -> None:
    clear = {"reason": "r", "verdict": 1}
    judge = ScriptedJudge(precision__chunk=[{"verdict": value}, clear])
    assert evaluate(judge, given={"contexts": ["a"]}).score == 1.0
    assert judge.names() == [CHUNK, CHUNK]
    judge = ScriptedJudge(precision__chunk=lambda data: clear if data["context"] == "a" else {"verdict": value})
    result = evaluate(judge, given={"contexts": ["b", "a"]})
    assert (result.status, result.score, result.reason) == ("partial", 1 / 2, Reason.VERDICTS_MISSING)
    assert len(judge.calls) == 3


def test_economy_asks_again_about_the_chunks_left_out() -> None:
    judge = ScriptedJudge(precision__chunks=[verdicts(1), {"verdicts": [{"id": 2, "verdict": 1}]}])
    result = evaluate(judge, "economy")
    assert (result.status, result.score) == ("scored", 1.0)
    assert [item["id"] for item in judge.calls[1][1]["contexts"]] == [2]


def test_economy_goes_one_by_one_when_all_chunks_are_too_long_together() -> None:
    judge = ScriptedJudge(precision__chunk=carried)
    result = evaluate(judge, "economy", given={"contexts": chunks(1, 0, 1)}, window_characters=5)
    assert (result.status, result.score, judge.names()) == ("scored", (1 + 2 / 3) / 2, [CHUNK] * 3)
    judge = ScriptedJudge(precision__chunk=carried, precision__chunks=failing(Reason.CONTEXT_TOO_LONG))
    result = evaluate(judge, "economy", given={"contexts": chunks(1, 0, 1)})
    assert (result.score, judge.names()) == ((1 + 2 / 3) / 2, [CHUNKS, CHUNK, CHUNK, CHUNK])


def test_economy_that_fails_otherwise_is_a_failure() -> None:
    result = evaluate(ScriptedJudge(precision__chunks=failing(Reason.MODEL_ERROR)), "economy")
    assert (result.status, result.reason) == ("failed", Reason.MODEL_ERROR)


def test_chunk_longer_than_a_window_is_relevant_when_any_part_of_it_is() -> None:
    judge = ScriptedJudge(precision__chunk=lambda data: {"verdict": int("甲" in data["context"])})
    result = evaluate(judge, given={"contexts": ["a" * 9 + "甲", "b" * 10]}, window_characters=5)
    assert [chunk["verdict"] for chunk in result.details["chunks"]] == [1, 0]
    assert len(judge.calls) == 4


def test_chunk_that_is_too_long_for_the_judge_is_judged_in_halves() -> None:
    def judge_chunk(data: dict[str, Any]) -> Any:
        return (
            failing(Reason.CONTEXT_TOO_LONG) if len(data["context"]) > 6 else {"verdict": int("甲" in data["context"])}
        )

    result = evaluate(ScriptedJudge(precision__chunk=judge_chunk), given={"contexts": ["a" * 9 + "甲", "b"]})
    assert (result.status, result.score) == ("scored", 1.0)


def test_votes_are_counted_for_each_chunk() -> None:
    replies = {"a": iter([1, 0, 1]), "b": iter([0, 0, 0])}
    judge = ScriptedJudge(precision__chunk=lambda data: {"verdict": next(replies[data["context"]])})
    result = evaluate(judge, given={"contexts": ["b", "a"]}, votes=3)
    assert (result.status, result.score) == ("scored", 1 / 2)
    assert [chunk.get("agreement") for chunk in result.details["chunks"]] == [None, 0.6667]
    assert result.details["coverage"]["agreement"] == pytest.approx((1 + 2 / 3) / 2, abs=1e-4)
    assert judge.names() == [CHUNK] * 6


def test_details_hold_the_beginning_of_a_chunk_and_its_title() -> None:
    judge = ScriptedJudge(precision__chunk={"reason": "理由", "verdict": 1})
    result = evaluate(judge, given={"contexts": [{"content": "あ" * 500, "title": "規程"}]})
    [chunk] = result.details["chunks"]
    assert (chunk["title"], chunk["reason"], chunk["verdict"]) == ("規程", "理由", 1)
    assert chunk["text"] == "あ" * 200
