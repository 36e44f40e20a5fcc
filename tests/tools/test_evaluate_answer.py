"""evaluate_answer and answer_correctness over the real process."""

from typing import Any

import pytest

from tests.model_server import HttpError, ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import (
    CHUNKS,
    METRICS,
    NOT_EVALUATED,
    PARAMETERS,
    QUESTION,
    by_chunk,
    data_of,
    invoke,
    items,
    long_sample,
    outcome,
    parts,
    sample,
    verdicts,
)

FIVE = (*METRICS, "answer_correctness")
ONE_RELEVANT = {CHUNKS[1][:5]: 1}


@pytest.fixture
def card(judge: ScriptedModelServer) -> ScriptedModelServer:
    """The ordinary judge, which also answers the prompts that several metrics share."""

    def economy(request: Any) -> dict[str, Any]:
        chunks = [{"id": c["id"], "reason": "理由", "verdict": 1} for c in data_of(request)["contexts"]]
        return {**parts(1, 1), "chunks": chunks}

    def classify(request: Any) -> dict[str, Any]:
        data = data_of(request)
        sides = {"answer": {1: 1, 2: 0}, "reference": {1: 1, 2: 0}}
        return {
            side: [{"id": s["id"], "reason": "理由", "verdict": values[s["id"]]} for s in data[side]]
            for side, values in sides.items()
        }

    judge.on("retrieval.economy", economy)
    judge.on("correctness.classify", classify)
    return judge


@pytest.mark.parametrize("language", ["ja", "en", "zh"])
@pytest.mark.parametrize(("depth", "calls", "characters"), [("standard", 9, 22_000), ("economy", 4, 13_000)])
def test_all_four_scores_keep_to_the_budget(
    depth: str, calls: int, characters: int, language: str, plugin: Any, card: ScriptedModelServer
) -> None:
    output = invoke(plugin, "evaluate_answer", long_sample(language, depth=depth))
    assert outcome(output) == ("scored", "")
    assert len(card.judge_calls) == calls
    assert card.prompt_characters() <= characters
    assert output.variables["details"]["usage"]["judge_calls"] == calls
    assert output.variables["details"]["usage"]["prompt_characters"] == card.prompt_characters()


def test_economy_says_the_same_with_fewer_characters_than_the_single_tools(
    plugin: Any, card: ScriptedModelServer
) -> None:
    parameters = long_sample("ja", depth="economy")
    alone = {tool: invoke(plugin, tool, parameters).variables["score"] for tool in METRICS}
    single = card.prompt_characters()
    card.clear()
    together = invoke(plugin, "evaluate_answer", parameters).variables
    assert {tool: together[tool] for tool in METRICS} == alone
    assert card.prompt_characters() < 0.8 * single


@pytest.mark.parametrize("depth", ["standard", "careful"])
def test_the_scores_are_those_of_the_single_tools(depth: str, run: Run, card: ScriptedModelServer) -> None:
    card.on("precision.chunk", by_chunk(ONE_RELEVANT))
    together = run("evaluate_answer", depth=depth, metrics="four_and_correctness").variables
    for tool in FIVE:
        changes = {"depth": depth} if "depth" in PARAMETERS[tool] else {}
        assert together[tool] == run(tool, **changes).variables["score"], tool
    assert together["context_precision"] == 0.5


def test_correctness_says_what_is_missing_and_what_is_extra(run: Run, card: ScriptedModelServer) -> None:
    output = run("answer_correctness", embedding_model=None)
    # tp 1, fp 1, fn 1: 1 / (1 + (1 + 1) / 2) = 0.5
    assert output.variables["score"] == 0.5
    assert "「申請は3営業日前まで」" in output.text
    assert "「申請は当日でよい」" in output.text
    assert "F1" in output.text
    assert len(card.judge_calls) == 3


def test_shared_inputs_are_read_and_judged_once(run: Run, card: ScriptedModelServer) -> None:
    run("evaluate_answer", metrics="four_and_correctness")
    assert len(card.calls("faithfulness.statements")) == 1
    assert len(card.calls("correctness.statements")) == 1
    # questions, statements, verdicts, parts, one per chunk; statements of the reference, classification
    assert len(card.judge_calls) == 1 + 2 + 1 + len(CHUNKS) + 2


@pytest.mark.parametrize(
    "missing", [["reference"], ["contexts"], ["answer"], ["question"], ["answer", "reference"], []]
)
def test_any_subset_of_inputs_is_answered(missing: list[str], run: Run) -> None:
    output = run("evaluate_answer", **dict.fromkeys(missing))
    scored = {name for name in METRICS if output.variables[name] is not None}
    without = {
        "reference": {"context_recall", "context_precision"},
        "answer": {"answer_relevancy", "faithfulness"},
        "question": set(METRICS),
        "contexts": set(),
    }
    assert scored == set(METRICS).difference(*(without[name] for name in missing))


def test_without_a_reference_two_scores_are_left_out_and_the_table_says_so(run: Run) -> None:
    output = run("evaluate_answer", reference=None)
    assert output.variables["status"] == "scored"
    assert output.text.count(NOT_EVALUATED["ja"]) == 2
    assert "参照（正解）がありません（「参照の検索」の表に" in output.text


@pytest.mark.parametrize("spoken", ["ja", "en", "zh"])
def test_all_metrics_failing_is_one_line(spoken: str, run: Run, judge: ScriptedModelServer) -> None:
    for prompt in ("relevancy.questions", "faithfulness.statements", "recall.parts", "precision.chunk"):
        judge.on(prompt, HttpError(401, {"error": {"message": "Incorrect API key provided"}}))
    output = run("evaluate_answer", spoken)
    assert outcome(output) == ("failed", "model_unauthorized")
    assert output.text.startswith("- ")
    assert "\n" not in output.text
    assert output.variables["diagnosis"] == ""


def test_one_metrics_failure_leaves_the_others_alone(run: Run, card: ScriptedModelServer) -> None:
    card.on("recall.parts", "よく分かりませんでした。")
    output = run("evaluate_answer")
    assert outcome(output) == ("partial", "judge_unparseable")
    assert [name for name in METRICS if output.variables[name] is None] == ["context_recall"]


@pytest.mark.parametrize(
    ("thresholds", "passed"),
    [
        ({}, None),
        ({"threshold": 0.5}, True),
        ({"threshold": "0．５"}, True),
        ({"threshold": "70%"}, False),
        ({"threshold": 0.4}, True),
    ],
)
def test_the_threshold_holds_for_every_score(thresholds: dict[str, Any], passed: bool | None, run: Run) -> None:
    # faithfulness is 0.5, the others are higher
    assert run("evaluate_answer", **thresholds).variables["passed"] is passed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"threshold": "abc"}, "しきい値"),
        ({"metrics": "bleu"}, "採点する指標"),
        ({"depth": "deep"}, "評価の深さ"),
        ({"votes": "2"}, "判定の回数"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_in_plain_words(
    changes: dict[str, Any], named: str, run: Run, card: ScriptedModelServer
) -> None:
    output = run("evaluate_answer", **changes)
    assert outcome(output) == ("failed", "invalid_setting")
    assert named in output.variables["summary"]
    assert card.judge_calls == []


def test_contexts_of_300_kb_are_judged_whole(run: Run, card: ScriptedModelServer) -> None:
    chunks = [f"規程{n}の本文です。" * 300 for n in range(100)]
    card.on("faithfulness.verdicts", verdicts({1: 1, 2: 0}))
    output = run("evaluate_answer", contexts=items(*chunks), depth="economy", metrics="answer")
    assert output.variables["status"] == "scored"
    seen = [text for call in card.calls("faithfulness.verdicts") for text in data_of(call)["contexts"]]
    assert sorted(seen) == sorted(chunks)


def test_documents_that_should_be_found_are_compared_without_a_call(run: Run, card: ScriptedModelServer) -> None:
    calls = len(run("evaluate_answer").variables) and len(card.judge_calls)
    card.clear()
    output = run("evaluate_answer", documents="規程2.md、規程9.md")
    assert output.variables["details"]["documents"] == {
        "hit_rate": 1,
        "reciprocal_rank": 0.5,
        "recall_at_k": 0.5,
        "missing_documents": ["規程9.md"],
        "expected_documents": 2,
    }
    assert "規程9.md" in output.text
    assert len(card.judge_calls) == calls


def test_the_lookups_documents_feed_the_comparison(run: Run) -> None:
    table = f"質問\t参照\t文書\n{QUESTION}\t10日\t規程1.md\n"
    found = run("reference_lookup", golden=table).variables
    assert found["documents"] == "規程1.md"
    output = run("evaluate_answer", documents=found["documents"])
    assert output.variables["details"]["documents"]["hit_rate"] == 1


def test_claims_are_told_apart_in_the_text_and_the_score_is_the_same(run: Run, card: ScriptedModelServer) -> None:
    kinds = {"verdicts": [{"id": 1, "verdict": 0, "kind": "contradicted"}, {"id": 2, "verdict": 0, "kind": "absent"}]}
    card.on("faithfulness.verdicts", kinds)
    output = run("faithfulness")
    assert output.variables["score"] == 0
    assert "「有給休暇は10日である」（資料と食い違い）" in output.text
    assert "「申請は当日でよい」（資料にない）" in output.text
    assert [claim["kind"] for claim in output.variables["details"]["claims"]] == ["contradicted", "absent"]
    assert "資料と食い違う" in run("evaluate_answer").variables["diagnosis"]


def test_text_from_the_judge_can_not_break_the_block(run: Run, card: ScriptedModelServer) -> None:
    evil = "| a | <img src=x onerror=1> </details> [x](javascript:1) **b** $x$ https://example.com"
    card.on("faithfulness.verdicts", {"verdicts": [{"id": 1, "reason": evil, "verdict": 0}, {"id": 2, "verdict": 0}]})
    card.on("faithfulness.statements", {"statements": [evil, "b"]})
    output = run("evaluate_answer", **sample())
    text = output.text
    assert "<img" not in text
    assert text.count("</details>") == 1
    assert "](" not in text
    assert "https://e" not in text
    assert "|" not in text
    # The block is Markdown; the line for reading is not.
    assert "&#" in text
    assert "&#" not in output.variables["summary"]
