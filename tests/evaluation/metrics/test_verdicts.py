"""The verdict step that metrics share: ids asked again, windows, batches, votes."""

import json
from typing import Any

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.metrics.verdicts import (
    BATCH,
    MISSING,
    Verdict,
    ask_by_id,
    coverage,
    judge_statements,
    majority,
    outcome,
)
from tests.evaluation.fakes import FakeClock, ScriptedJudge, failing, session, verdicts

YES, NO, LOST = Verdict(True, "yes"), Verdict(False, "no"), Verdict(None, failure=EvaluationError(Reason.TIMEOUT))


def by_id(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"verdicts": [{"id": number, "reason": f"r{number}", "verdict": verdict} for number, verdict in pairs]}


def ask(judge: ScriptedJudge, **options: Any) -> list[bool | None]:
    items = {1: "甲", 2: "乙", 3: "丙"}
    verdicts = ask_by_id(session(judge), "faithfulness.verdicts", {"contexts": ["c"]}, "statements", items, **options)
    assert list(verdicts) == [1, 2, 3]
    return [verdict.value for verdict in verdicts.values()]


def asked_ids(judge: ScriptedJudge) -> list[list[int]]:
    return [[item["id"] for item in data["statements"]] for _, data, _ in judge.calls]


def test_all_ids_answered_take_one_call() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=by_id((3, 1), (1, 1), (2, 0)))
    assert ask(judge) == [True, False, True]
    assert asked_ids(judge) == [[1, 2, 3]]
    assert judge.calls[0][1]["contexts"] == ["c"]


def test_missing_and_invalid_ids_alone_are_asked_again() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=[by_id((1, 1), (2, "unknown")), by_id((2, 1), (3, 0))])
    assert ask(judge) == [True, True, False]
    assert asked_ids(judge) == [[1, 2, 3], [2, 3]]


def test_what_stays_missing_has_no_verdict_after_two_calls() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=by_id((1, 1)))
    assert ask(judge) == [True, None, None]
    assert asked_ids(judge) == [[1, 2, 3], [2, 3]]


def test_what_was_asked_before_is_not_asked_twice_again() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=by_id((1, 1)))
    assert ask(judge, tries=1) == [True, None, None]
    assert len(judge.calls) == 1


def test_duplicate_ids_count_once_and_unknown_ones_not_at_all() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=by_id((1, 0), (1, 1), (99, 1), (0, 1), (2, 1), (3, 1)))
    assert ask(judge) == [False, True, True]


def test_duplicate_whose_first_verdict_is_invalid_counts_by_its_second() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=by_id((1, None), (1, 1), (2, 1), (3, 1)))
    assert ask(judge) == [True, True, True]
    assert len(judge.calls) == 1


def test_second_call_can_not_change_what_the_first_said() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=[by_id((1, 0), (2, 1)), by_id((1, 1), (2, 0), (3, 1))])
    assert ask(judge) == [False, True, True]


def test_failing_second_call_costs_only_the_missing_ids() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=[by_id((1, 1), (3, 0)), failing(Reason.MODEL_ERROR)])
    items = {1: "甲", 2: "乙", 3: "丙"}
    verdicts = ask_by_id(session(judge), "faithfulness.verdicts", {}, "statements", items)
    assert [verdicts[n].value for n in items] == [True, None, False]
    assert verdicts[2].failure is not None
    assert verdicts[2].failure.reason is Reason.MODEL_ERROR


def test_failing_first_call_is_told() -> None:
    with pytest.raises(EvaluationError) as caught:
        ask(ScriptedJudge(faithfulness__verdicts=failing(Reason.MODEL_NOT_FOUND)))
    assert caught.value.reason is Reason.MODEL_NOT_FOUND


def test_kind_is_kept_only_for_what_is_not_supported() -> None:
    reply = {
        "verdicts": [
            {"id": 1, "verdict": 1, "kind": "contradicted"},
            {"id": 2, "verdict": 0, "kind": "contradicted"},
            {"id": 3, "verdict": 0, "kind": "made up"},
        ]
    }
    verdicts = ask_by_id(
        session(ScriptedJudge(faithfulness__verdicts=reply)), "faithfulness.verdicts", {}, "s", {1: "a", 2: "b", 3: "c"}
    )
    assert [verdict.kind for verdict in verdicts.values()] == ["", "contradicted", ""]


# Windows, batches, votes


def test_statement_is_supported_when_any_window_supports_it() -> None:
    def judge_window(data: dict[str, Any]) -> dict[str, Any]:
        text = "".join(data["contexts"])
        return by_id(*((item["id"], int(item["text"] in text)) for item in data["statements"]))

    judge = ScriptedJudge(faithfulness__verdicts=judge_window)
    verdicts = judge_statements(session(judge, window_characters=4), ["甲", "乙", "丙"], ["xx甲x", "x乙xx", "xxxx"])
    assert [verdict.value for verdict in verdicts] == [True, True, False]
    assert sorted(data["contexts"] for _, data, _ in judge.calls) == [["xxxx"], ["xx甲x"], ["x乙xx"]]


def test_verdict_that_is_missing_in_a_window_is_missing_unless_another_supports_it() -> None:
    def judge_window(data: dict[str, Any]) -> dict[str, Any]:
        return by_id((1, 1)) if data["contexts"] == ["a"] else by_id((2, 0))

    judge = ScriptedJudge(faithfulness__verdicts=judge_window)
    verdicts = judge_statements(session(judge, window_characters=1), ["甲", "乙"], ["a", "b"])
    assert [verdict.value for verdict in verdicts] == [True, None]


def test_failed_window_leaves_what_no_other_supports_without_a_verdict() -> None:
    def judge_window(data: dict[str, Any]) -> Any:
        return by_id((1, 1), (2, 0)) if data["contexts"] == ["a"] else failing(Reason.MODEL_ERROR)

    judge = ScriptedJudge(faithfulness__verdicts=judge_window)
    verdicts = judge_statements(session(judge, window_characters=1), ["甲", "乙"], ["a", "b"])
    assert [verdict.value for verdict in verdicts] == [True, None]
    assert coverage(verdicts) == {"judged": 1, "of": 2}


def test_many_statements_go_in_batches_and_keep_their_numbers() -> None:
    def judge_batch(data: dict[str, Any]) -> dict[str, Any]:
        return by_id(*((item["id"], int(item["text"][1:]) % 2) for item in data["statements"]))

    judge = ScriptedJudge(faithfulness__verdicts=judge_batch)
    verdicts = judge_statements(session(judge), [f"s{n}" for n in range(BATCH + 2)], ["c"])
    assert [verdict.value for verdict in verdicts] == [bool(n % 2) for n in range(BATCH + 2)]
    assert sorted(len(ids) for ids in asked_ids(judge)) == [2, BATCH]


def test_batch_of_one_asks_about_each_statement_alone() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=lambda data: by_id((data["statements"][0]["id"], 1)))
    verdicts = judge_statements(session(judge), ["甲", "乙", "丙"], ["c"], batch=1)
    assert [verdict.value for verdict in verdicts] == [True] * 3
    assert sorted(asked_ids(judge)) == [[1], [2], [3]]


def test_failed_batch_leaves_its_statements_without_a_verdict() -> None:
    def judge_batch(data: dict[str, Any]) -> Any:
        return failing(Reason.MODEL_ERROR) if data["statements"][0]["id"] == 2 else by_id((1, 1), (3, 0))

    judge = ScriptedJudge(faithfulness__verdicts=judge_batch)
    verdicts = judge_statements(session(judge), ["甲", "乙", "丙"], ["c"], batch=1)
    assert [verdict.value for verdict in verdicts] == [True, None, False]


def test_all_batches_failing_is_told() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=failing(Reason.RATE_LIMITED))
    with pytest.raises(EvaluationError) as caught:
        judge_statements(session(judge, clock=FakeClock()), ["甲", "乙"], ["c"], batch=1)
    assert caught.value.reason is Reason.RATE_LIMITED


def test_majority_of_the_votes_counts_with_its_agreement() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=[verdicts(1), verdicts(0), verdicts(1)])
    [verdict] = judge_statements(session(judge, votes=3), ["甲"], ["c"])
    assert verdict.value is True
    assert verdict.agreement == pytest.approx(2 / 3)
    assert coverage([verdict]) == {"judged": 1, "of": 1, "agreement": 0.6667}


@pytest.mark.parametrize(
    ("votes", "value", "agreement"),
    [
        ([YES], True, 1.0),
        ([YES, NO, YES], True, 2 / 3),
        ([NO, YES, NO], False, 2 / 3),
        ([NO, NO, NO], False, 1.0),
        ([YES, LOST, YES], True, 2 / 3),
        ([YES, NO, LOST], False, 1 / 3),
        ([LOST, LOST, YES], True, 1 / 3),
        ([YES, YES, NO, NO, YES], True, 3 / 5),
        ([LOST, LOST, LOST], None, 1.0),
    ],
)
def test_majority(votes: list[Verdict], value: bool | None, agreement: float) -> None:
    verdict = majority(votes)
    assert verdict.value is value
    assert verdict.agreement == pytest.approx(agreement)
    assert verdict.reason == {True: "yes", None: ""}.get(value, verdict.reason)


def test_reason_is_that_of_a_vote_with_the_majority() -> None:
    assert majority([YES, NO, Verdict(False, "other")]).reason == "no"


def test_vote_that_is_lost_shows_in_the_agreement() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=[verdicts(1), failing(Reason.MODEL_ERROR), verdicts(1)])
    [verdict] = judge_statements(session(judge, votes=3), ["甲"], ["c"])
    assert (verdict.value, verdict.as_dict()["agreement"]) == (True, 0.6667)


def test_all_votes_lost_is_told() -> None:
    judge = ScriptedJudge(faithfulness__verdicts=failing(Reason.MODEL_ERROR))
    with pytest.raises(EvaluationError) as caught:
        judge_statements(session(judge, votes=3), ["甲"], ["c"])
    assert caught.value.reason is Reason.MODEL_ERROR


# Results


def test_ruling_as_data() -> None:
    assert YES.as_dict() == {"verdict": 1, "reason": "yes"}
    assert NO.as_dict() == {"verdict": 0, "reason": "no"}
    assert MISSING.as_dict() == {"verdict": None, "reason": ""}
    assert Verdict(False, "r", "absent", 2 / 3).as_dict() == {
        "verdict": 0,
        "reason": "r",
        "kind": "absent",
        "agreement": 0.6667,
    }


@pytest.mark.parametrize(
    ("verdicts", "cut", "status", "reason"),
    [
        ([YES, NO], False, "scored", Reason.NONE),
        ([YES, LOST], False, "partial", Reason.TIMEOUT),
        ([YES, MISSING], True, "partial", Reason.VERDICTS_MISSING),
        ([YES, NO], True, "partial", Reason.JUDGE_UNPARSEABLE),
        ([], False, "scored", Reason.NONE),
    ],
)
def test_result_is_partial_when_something_is_missing(
    verdicts: list[Verdict], cut: bool, status: str, reason: Reason
) -> None:
    result = outcome("m", "1", 0.5, verdicts, {"x": 1}, cut=cut)
    assert (result.status, result.reason, result.score) == (status, reason, 0.5)
    judged = sum(verdict.value is not None for verdict in verdicts)
    assert result.details == {"x": 1, "coverage": {"judged": judged, "of": len(verdicts), "list_cut": cut}}
    json.dumps(result.details, allow_nan=False)


def test_without_a_single_verdict_there_is_no_result() -> None:
    with pytest.raises(EvaluationError) as caught:
        outcome("m", "1", 0.0, [LOST, MISSING], {})
    assert caught.value.reason is Reason.TIMEOUT
