"""The four metrics as tools: one contract on every path."""

import json
from typing import Any

import pytest

from bridge.metric import MetricTool
from evaluation.errors import Reason
from tests.bridge.support import MODEL, Place, Result, judge
from tests.evaluation.fakes import failing, verdicts
from tools.answer_relevancy import AnswerRelevancy
from tools.context_precision import ContextPrecision
from tools.context_recall import ContextRecall
from tools.faithfulness import Faithfulness

TOOLS: dict[str, type[MetricTool]] = {
    tool.metric: tool for tool in (AnswerRelevancy, Faithfulness, ContextRecall, ContextPrecision)
}
INPUTS = {
    "question": "有給休暇は何日ですか",
    "answer": "10日です",
    "reference": "10日付与されます",
    "contexts": [{"content": "有給休暇は10日", "title": "規程.md"}, {"content": ""}, {"content": "日当は2,000円"}],
    "model": MODEL,
}


def evaluate(name: str = "faithfulness", **changes: Any) -> Result:
    parameters = {**INPUTS, **changes}
    scripted = parameters.pop("judge", None) or judge()
    result = Place(TOOLS[name], name, scripted).call(
        {key: value for key, value in parameters.items() if value is not None}
    )
    json.dumps(result.json, allow_nan=False)
    assert "\n" not in result.text + result["summary"]
    return result


@pytest.mark.parametrize(
    ("name", "score", "head", "sentence"),
    [
        (
            "faithfulness",
            0.5,
            "⚠️ **忠実性 0.50**",
            "2件の主張のうち1件が資料で確認できません：「当日申請できる」→ 理由（文章のないチャンク1件を除きました）",
        ),
        (
            "context_recall",
            1.0,
            "✅ **必要コンテキストの網羅性 1.00**",
            "参照の内容はすべて検索されています（文章のないチャンク1件を除きました）",
        ),
        (
            "answer_relevancy",
            1.0,
            "✅ **回答関連性 1.00**",
            "質問に答えています（埋め込みモデルがないため、判定モデルが比べました）",
        ),
    ],
)
def test_text_and_variables_of_a_score(name: str, score: float, head: str, sentence: str) -> None:
    result = evaluate(name)
    assert result.text == f"- {head} {sentence}"
    expected = (score, f"{score:.2f}", "scored", "", None)
    assert tuple(result[key] for key in ("score", "score_text", "status", "reason", "passed")) == expected


def test_details_say_with_what_the_score_was_made() -> None:
    details = evaluate()["details"]
    assert {key: details[key] for key in ("metric", "version", "judge", "embedding_model", "language")} == {
        "metric": "faithfulness",
        "version": "1",
        "judge": "judge-1",
        "embedding_model": "",
        "language": "ja",
    }
    assert sorted(details["prompts"]) == ["faithfulness.statements", "faithfulness.verdicts"]
    assert details["contexts"] == {"chunks": 2, "dropped": 1, "duplicates": 0}
    assert details["usage"]["judge_calls"] == 2
    assert details["seconds"] >= 0
    assert [claim["verdict"] for claim in details["claims"]] == [1, 0]


@pytest.mark.parametrize(
    ("threshold", "passed", "mark"),
    [
        (0.5, True, "✅ **忠実性 0.50**（しきい値 0.50 以上）"),
        ("51%", False, "❌ **忠実性 0.50**（しきい値 0.51 未満）"),
        (0, True, "✅ **忠実性 0.50**（しきい値 0.00 以上）"),
    ],
)
def test_threshold(threshold: Any, passed: bool, mark: str) -> None:
    result = evaluate(threshold=threshold)
    assert result["passed"] is passed
    assert mark in result.text


def test_language_of_the_setting_counts() -> None:
    assert evaluate(language="en").text.startswith("- ⚠️ **Faithfulness 0.50**")
    assert evaluate(language="zh")["summary"].startswith("忠实度 0.50：")


def test_partial_score_says_what_is_missing() -> None:
    result = evaluate(judge=judge(**{"faithfulness.verdicts": verdicts(1)}))
    assert (result["score"], result["status"], result["reason"]) == (0.5, "partial", "verdicts_missing")
    assert "（1/2件だけ判定できました：" in result.text


def test_empty_retrieval_is_said_once() -> None:
    result = evaluate("context_recall", contexts=[{"content": ""}], threshold=0.5)
    assert (result["score"], result["reason"], result["passed"]) == (0.0, "no_contexts", False)
    assert "チャンク" not in result.text


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"question": None}, "failed", Reason.NO_QUESTION),
        ({"answer": None}, "not_applicable", Reason.NO_ANSWER),
        ({"question": 5}, "failed", Reason.NOT_TEXT),
        ({"answer": "llm.text"}, "failed", Reason.NOT_CONNECTED),
        ({"contexts": "kr.result"}, "failed", Reason.NOT_CONNECTED),
        ({"contexts": [5]}, "failed", Reason.NOT_TEXT),
        ({"answer": "あ" * 100_001}, "failed", Reason.INPUT_TOO_LONG),
        ({"threshold": "high"}, "failed", Reason.INVALID_SETTING),
        ({"votes": 2}, "failed", Reason.INVALID_SETTING),
        ({"depth": "deep"}, "failed", Reason.INVALID_SETTING),
        ({"model": None}, "failed", Reason.MODEL_NOT_SELECTED),
        ({"model": {}}, "failed", Reason.MODEL_NOT_SELECTED),
        ({"judge": judge(**{"faithfulness.statements": failing(Reason.MODEL_ERROR)})}, "failed", Reason.MODEL_ERROR),
        ({"judge": judge(**{"faithfulness.statements": {"statements": []}})}, "not_applicable", Reason.NO_CLAIMS),
        ({"judge": judge(**{"faithfulness.statements": KeyError("secret")})}, "failed", Reason.MODEL_ERROR),
    ],
)
def test_without_a_score_every_output_is_still_there(changes: dict[str, Any], status: str, reason: Reason) -> None:
    result = evaluate(threshold=0.5, **changes) if "threshold" not in changes else evaluate(**changes)
    assert (result["score"], result["score_text"], result["status"]) == (None, "未評価", status)
    assert (result["reason"], result["passed"]) == (reason.value, None)
    assert result.text.startswith("- **忠実性 未評価** ")
    assert "secret" not in json.dumps(result.json)


@pytest.mark.parametrize("name", ["context_recall", "context_precision"])
def test_without_a_reference_the_sentence_is_plain_and_nothing_is_asked(name: str) -> None:
    scripted = judge()
    result = evaluate(name, reference="", model=None, judge=scripted)
    assert (result["status"], result["reason"]) == ("not_applicable", "no_reference")
    assert result.text.endswith(
        "未評価** 参照（正解）がありません（「参照の検索」の表に、この質問と正解の行を加えると採点します）"
    )
    assert scripted.calls == []
