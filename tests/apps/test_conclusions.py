"""What a run concludes, over the process: the gate and the comparison, while rows fail and while nothing changes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devhost.app_stream import Envelope, Event
from devhost.apps import USAGE, AppCall, Apps, PlayedApp
from devhost.daemon import ToolOutput
from tests.apps.conftest import Evaluate
from tests.apps.support import answer_of, progress, rows, table, tags
from tests.model_server import HttpError, Request, ScriptedModelServer
from tests.tools.support import data_of

SHOPS = Path(__file__).parents[1] / "data" / "cases" / "same_question_other_inputs"
# The bot makes something up for every other one.
HONEST = {"東京", "名古屋", "福岡", "広島", "神戸"}


def failing_for(*numbers: int) -> Any:
    """A bot whose model refuses these rows."""
    return lambda request: (
        HttpError(400, "no such thing") if int(tags(request.user)[-1][-2:]) in numbers else answer_of(request)
    )


def gate_of(output: ToolOutput) -> dict[str, Any]:
    gate: dict[str, Any] = output.variables["details"]["gate"]
    return gate


def difference_of(output: ToolOutput, metric: str = "faithfulness") -> dict[str, Any]:
    found: dict[str, Any] = output.variables["details"]["comparison"]["differences"][metric]
    return found


# --- the gate ---


def test_one_good_row_among_failures_neither_passes_nor_fails(evaluate: Evaluate, judge: ScriptedModelServer) -> None:
    judge.on_chat(failing_for(2, 3, 4, 5))

    output = evaluate(5, threshold=0.5)

    assert progress(output) == ("partial", "", 5, 5)
    assert output.variables["scores"]["faithfulness"] == 1.0
    assert output.variables["passed"] is None
    gate = gate_of(output)
    assert gate["verdict"] == "not_measured"
    assert [reason["cause"] for reason in gate["reasons"]] == ["failed_rows"]
    assert (gate["rows"], gate["failed"]) == (5, 4)
    for said in (output.text, output.variables["summary"]):
        assert "5件のうち4件を採点できませんでした" in said
        assert "合格" not in said


def test_as_many_rows_may_fail_as_was_said(evaluate: Evaluate, judge: ScriptedModelServer) -> None:
    judge.on_chat(failing_for(5))

    assert evaluate(5, threshold=0.5, max_failed="20%").variables["passed"] is True
    assert evaluate(5, threshold=0.5, max_failed=0.19, run_name="もう一つ").variables["passed"] is None


def test_the_surer_gate_asks_more_of_few_rows(evaluate: Evaluate) -> None:
    assert evaluate(5, threshold=0.6).variables["passed"] is True

    output = evaluate(5, threshold=0.6, gate="sure", run_name="確実に")

    assert output.variables["passed"] is False
    causes = {reason["metric"]: reason["cause"] for reason in gate_of(output)["reasons"]}
    assert causes["faithfulness"] == "low_end_below"
    assert "信頼区間の下限" in output.variables["summary"]


def test_without_thresholds_there_is_no_verdict_and_nothing_is_missed(evaluate: Evaluate) -> None:
    output = evaluate(2)

    assert (output.variables["passed"], output.variables["details"]["gate"]) == (None, None)
    assert "合否" not in output.variables["summary"]


@pytest.mark.parametrize("wrong", [{"gate": "maybe"}, {"max_failed": 1.5}, {"max_failed": "-1"}, {"max_failed": "few"}])
def test_a_gate_that_is_none_is_told_before_anything_is_asked(
    evaluate: Evaluate, apps: Apps, wrong: dict[str, Any]
) -> None:
    output = evaluate(1, **wrong)

    assert progress(output) == ("failed", "invalid_setting", 0, 0)
    (value,) = wrong.values()
    assert str(value) in output.variables["summary"]
    assert apps.calls == []


# --- the comparison ---


def test_a_run_that_lost_the_hard_questions_is_not_better(evaluate: Evaluate, judge: ScriptedModelServer) -> None:
    # Before, the first eight rows were half right; now the four hard ones fail and the others are right.
    def half(request: Request) -> dict[str, Any]:
        return {"statements": [data_of(request)["answer"], "ほかのこと"]}

    def second_wrong(request: Request) -> dict[str, Any]:
        verdicts = [{"id": item["id"], "reason": "", "verdict": 1} for item in data_of(request)["statements"]]
        return {"verdicts": [verdict | {"verdict": int(place == 0)} for place, verdict in enumerate(verdicts)]}

    judge.on("faithfulness.statements", half)
    judge.on("faithfulness.verdicts", second_wrong)
    assert evaluate(12, metrics="answer").variables["scores"]["faithfulness"] == 0.5
    judge.on("faithfulness.statements", lambda request: {"statements": [data_of(request)["answer"]]})
    judge.on_chat(failing_for(1, 2, 3, 4))

    output = evaluate(12, metrics="answer", fresh=True)

    found = difference_of(output)
    assert (found["mean"], found["pairs"], found["lost"]) == (0.5, 8, 4)
    assert (found["sign"], found["why"], found["p"]) == ("no_clear_difference", "lost_pairs", None)
    named = [row["question"] for row in output.variables["details"]["comparison"]["lost"]]
    assert named == [row["質問"] for row in rows(4)]
    assert "良し悪しを判断していません" in output.text
    assert "良くなった" not in output.text


def shop_app() -> PlayedApp:
    def play(call: AppCall, envelope: Envelope) -> Iterator[Event]:
        yield envelope.message("message", f"{call.inputs['店舗']}店は9時からです。")
        yield envelope.message_end([{"document_name": "店舗.md", "content": "各店は9時から営業します。"}], USAGE)

    return PlayedApp("chat", play)


def test_the_same_question_for_other_shops_is_paired_by_shop(
    evaluate: Evaluate, apps: Apps, judge: ScriptedModelServer
) -> None:
    def by_shop(request: Request) -> dict[str, Any]:
        statements = data_of(request)["statements"]
        return {
            "verdicts": [
                {"id": item["id"], "verdict": int(item["text"].partition("店")[0] in HONEST)} for item in statements
            ]
        }

    judge.on("faithfulness.verdicts", by_shop)
    judge.on("relevancy.questions", {"questions": [{"question": "何時からですか", "noncommittal": 0}]})
    apps.publish("bot", shop_app())
    tables = [(SHOPS / f"run_{number}.tsv").read_text(encoding="utf-8") for number in (1, 2, 3)]

    first, second, third = (evaluate(golden=golden, metrics="answer") for golden in tables)

    assert first.variables["scores"]["faithfulness"] == 0.5
    comparison = second.variables["details"]["comparison"]
    assert (comparison["changes"], comparison["only_now"], comparison["only_before"]) == ([], 1, 0)
    found = difference_of(second)
    assert (found["mean"], found["low"], found["high"], found["pairs"]) == (0.0, 0.0, 0.0, 8)
    assert third.variables["details"]["comparison"]["changes"] == []


def test_a_changed_reference_is_named(evaluate: Evaluate) -> None:
    evaluate(3)
    now = rows(3)
    now[1]["参照"] = "R-02は二十日前までです。"

    output = evaluate(3, golden=table(now))

    comparison = output.variables["details"]["comparison"]
    assert [row["question"] for row in comparison["changed_references"]] == [now[1]["質問"]]
    assert {name: entry["pairs"] for name, entry in comparison["differences"].items()} == {
        "faithfulness": 3,
        "answer_relevancy": 3,
        "context_recall": 2,
        "context_precision": 2,
    }
    assert (
        f"参照（正解）が変わった質問が1件あり、参照を使う指標では比べていません（「{now[1]['質問']}」）" in output.text
    )
    json.dumps(comparison, allow_nan=False)
