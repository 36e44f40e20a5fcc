"""Models chosen once for an app, and references found in a table, over the real process and its storage."""

import json
from typing import Any

import pytest

from devhost.daemon import PluginProcess
from devhost.dify_side import DifySide, ModelServer, ReverseCall, ReverseCallError, Storage
from tests.model_server import ScriptedModelServer
from tests.tools.conftest import Run
from tests.tools.support import EMBEDDING, METRICS, MODEL, PROVIDER, QUESTION, outcome

OTHER = {**MODEL, "model": "judge-2", "completion_params": {"temperature": 0.3}}
NO_MODELS: dict[str, Any] = {"model": None, "embedding_model": None}


@pytest.fixture
def storage_calls(plugin: PluginProcess, judge: ScriptedModelServer, storage: Storage) -> list[str]:
    """What the plugin asks of the storage in this test: "get", "set", …"""
    calls: list[str] = []
    dify = DifySide(ModelServer(judge.url), storage)
    answer = dify.handlers["storage"]

    def counted(call: ReverseCall) -> Any:
        calls.append(call.request["opt"])
        return answer(call)

    dify.handlers["storage"] = counted
    plugin.dify = dify
    return calls


def judges(judge: ScriptedModelServer) -> set[str]:
    return {call.body["model"] for call in judge.judge_calls}


def test_models_saved_for_an_app_are_used_by_every_tool_of_that_app(run: Run, judge: ScriptedModelServer) -> None:
    saved = run("judge_settings", model=OTHER)
    assert outcome(saved) == ("scored", "")
    assert (saved.variables["model_name"], saved.variables["embedding_model_name"]) == ("judge-2", "embedding-1")
    for tool in METRICS:
        output = run(tool, **NO_MODELS)
        assert outcome(output) == ("scored", "")
        assert output.variables["details"]["judge"] == "judge-2"
    assert judges(judge) == {"judge-2"}
    # The parameters chosen with the model come along.
    assert {call.body["temperature"] for call in judge.judge_calls} == {0.3}
    assert len(judge.embedding_calls) == 1


def test_two_apps_do_not_share_their_models(run: Run, judge: ScriptedModelServer) -> None:
    run("judge_settings", app_id="app-1", model=MODEL)
    run("judge_settings", app_id="app-2", model=OTHER)
    run("faithfulness", app_id="app-1", **NO_MODELS)
    assert judges(judge) == {"judge-1"}
    judge.clear()
    run("faithfulness", app_id="app-2", **NO_MODELS)
    assert judges(judge) == {"judge-2"}
    assert outcome(run("faithfulness", app_id="app-3", **NO_MODELS)) == ("failed", "model_not_selected")


def test_the_workspaces_default_stands_behind_the_apps_own(run: Run, judge: ScriptedModelServer) -> None:
    run("judge_settings", app_id="app-1", model=MODEL)
    run("judge_settings", app_id="app-2", model=OTHER, workspace_default=True)
    run("faithfulness", app_id="app-3", **NO_MODELS)
    run("faithfulness", app_id=None, **NO_MODELS)
    assert judges(judge) == {"judge-2"}
    judge.clear()
    run("faithfulness", app_id="app-1", **NO_MODELS)
    assert judges(judge) == {"judge-1"}


def test_the_nodes_own_model_wins_and_the_rest_comes_from_the_app(run: Run, judge: ScriptedModelServer) -> None:
    run("judge_settings", model=MODEL)
    output = run("answer_relevancy", model=OTHER, embedding_model=None)
    assert judges(judge) == {"judge-2"}
    assert output.variables["details"]["embedding_model"] == "embedding-1"
    assert output.variables["details"]["method"] == "embedding"


def test_an_app_without_an_embedding_model_takes_the_workspaces(run: Run, judge: ScriptedModelServer) -> None:
    run("judge_settings", app_id="app-2", workspace_default=True)
    run("judge_settings", app_id="app-1", model=OTHER, embedding_model=None)
    output = run("answer_relevancy", app_id="app-1", **NO_MODELS)
    assert judges(judge) == {"judge-2"}
    assert output.variables["details"]["embedding_model"] == "embedding-1"


def test_only_a_change_is_written(run: Run, storage_calls: list[str]) -> None:
    first, second = run("judge_settings"), run("judge_settings")
    assert storage_calls.count("set") == 1
    assert (first.variables["details"]["changed"], second.variables["details"]["changed"]) == (True, False)
    assert second.variables["saved"] is True
    run("judge_settings", model={**MODEL, "completion_params": {"temperature": 0.5}})
    assert storage_calls.count("set") == 2


def test_a_selectors_order_of_keys_is_no_change(run: Run, storage_calls: list[str]) -> None:
    run("judge_settings")
    run("judge_settings", model=dict(reversed(MODEL.items())))
    assert storage_calls.count("set") == 1


def test_turning_the_workspaces_default_on_writes_it_alone(run: Run, storage_calls: list[str]) -> None:
    run("judge_settings")
    run("judge_settings", workspace_default="true")
    assert storage_calls.count("set") == 2
    run("judge_settings", workspace_default=True)
    assert storage_calls.count("set") == 2


def test_storage_is_left_alone_when_the_node_has_chosen_both_models(run: Run, storage_calls: list[str]) -> None:
    run("answer_relevancy")
    assert storage_calls == []


@pytest.mark.parametrize("saved", [b"", b"\xff\xfe", b"[1]", b'{"model": 3}', b'"text"', b"null"])
def test_settings_that_can_not_be_read_are_no_settings(saved: bytes, run: Run, storage: Storage) -> None:
    storage.set("judge_settings/app/app-1", saved)
    assert outcome(run("faithfulness", **NO_MODELS)) == ("failed", "model_not_selected")
    assert run("judge_settings").variables["saved"] is True
    assert outcome(run("faithfulness", **NO_MODELS)) == ("scored", "")


def test_a_storage_that_can_not_be_reached_leaves_the_nodes_own_models(
    run: Run, plugin: PluginProcess, judge: ScriptedModelServer
) -> None:
    dify = DifySide(ModelServer(judge.url))

    def refuse(_: ReverseCall) -> Any:
        raise ReverseCallError("permission denied, you need to enable storage access in plugin manifest")

    dify.handlers["storage"] = refuse
    plugin.dify = dify
    assert outcome(run("faithfulness", embedding_model=None)) == ("scored", "")
    assert outcome(run("faithfulness", **NO_MODELS)) == ("failed", "model_not_selected")
    output = run("judge_settings")
    assert outcome(output) == ("failed", "storage_failed")
    assert "permission denied" not in json.dumps(output.variables)


def test_without_a_model_nothing_is_saved(run: Run, storage_calls: list[str]) -> None:
    output = run("judge_settings", model=None)
    assert outcome(output) == ("failed", "model_not_selected")
    assert "set" not in storage_calls
    assert output.variables["saved"] is False


@pytest.mark.parametrize(("language", "said"), [("ja", "質問がありません"), ("zh", "没有问题"), (None, "no question")])
def test_an_error_without_a_text_to_go_by_is_in_the_apps_language(language: Any, said: str, run: Run) -> None:
    run("judge_settings", language=language)
    nothing = dict.fromkeys(("question", "answer", "contexts", "reference"))
    for tool in METRICS:
        output = run(tool, **nothing)
        assert said in output.variables["summary"]
        assert said in output.text


def test_a_text_and_the_nodes_own_setting_go_before_the_apps_language(run: Run, storage_calls: list[str]) -> None:
    run("judge_settings", language="zh")
    asked = len(storage_calls)
    assert "忠実性" in run("faithfulness").text
    assert "Faithfulness" in run("faithfulness", language="en", question=None, answer=None).text
    # Nothing was looked up for what says its language itself.
    assert len(storage_calls) == asked


TABLE = "\n".join(
    [
        "質問\t参照",
        f"{QUESTION}？\t10日",
        "有給休暇は２０２４年度に何日もらえますか\t11日",
        "経費の締め日はいつですか\t月末",
        "出張の日当はいくらですか\t",
        "経費の締め日はいつですか\t20日",
    ]
)


def test_a_question_is_found_in_spite_of_its_spelling_and_feeds_the_metrics(
    run: Run, judge: ScriptedModelServer
) -> None:
    found = run("reference_lookup", golden=TABLE, question=f" {QUESTION}?? ")
    assert found.variables["reference"] == "10日"
    assert found.variables["found"] is True
    assert found.variables["similarity"] == 1
    assert found.variables["matched_question"] == f"{QUESTION}？"
    assert not judge.requests
    assert outcome(run("context_recall", reference=found.variables["reference"])) == ("scored", "")


@pytest.mark.parametrize(
    "table",
    [
        f"question,reference\n{QUESTION},10日\n",
        f'"{QUESTION}","10日"\n"経費","月末"\n',
        f"| 問题 | 参考答案 |\n|---|---|\n| {QUESTION} | 10日 |\n".replace("問", "问"),
        json.dumps([{"question": QUESTION, "ground_truth": "10日"}], ensure_ascii=False),
        json.dumps({"question": QUESTION, "answer": "10日"}) + "\n" + json.dumps({"question": "他", "answer": "…"}),
        f"No.\t正解\t質問\n1\t10日\t{QUESTION}\n",
    ],
)
def test_tables_are_read_in_every_form(table: str, run: Run) -> None:
    output = run("reference_lookup", golden=table)
    assert (outcome(output), output.variables["reference"]) == (("scored", ""), "10日")


def test_another_year_is_another_question(run: Run) -> None:
    output = run(
        "reference_lookup", golden=TABLE, question="有給休暇は2025年度に何日もらえますか", embedding_model=None
    )
    assert outcome(output) == ("not_applicable", "not_found")
    assert output.variables["reference"] == ""


def test_what_is_odd_about_a_table_is_said(run: Run) -> None:
    output = run("reference_lookup", golden=TABLE, question="経費の締め日はいつですか")
    assert output.variables["reference"] == "月末"
    assert output.variables["details"]["conflicts"] == 1
    assert output.variables["details"]["rows_without_reference"] == 1
    assert "同じ質問に異なる参照が1件" in output.variables["summary"]
    assert "参照のない行が1件" in output.variables["summary"]


def test_a_paraphrase_is_found_by_meaning_only_with_an_embedding_model(run: Run, judge: ScriptedModelServer) -> None:
    asked, same = "休みは年に何日とれるの", f"{QUESTION}？"
    judge.on_embedding(lambda texts: [[1.0, 0.2] if text in {asked, same} else [0.0, 1.0] for text in texts])
    with_model = run("reference_lookup", golden=TABLE, question=asked)
    assert (with_model.variables["reference"], with_model.variables["similarity"]) == ("10日", 1)
    assert with_model.variables["details"]["method"] == "embedding"
    without = run("reference_lookup", golden=TABLE, question=asked, embedding_model=None)
    assert outcome(without) == ("not_applicable", "not_found")
    assert without.variables["details"]["nearest"]


@pytest.mark.parametrize(("minimum", "found"), [(0.5, True), ("0.99", False), (None, True)])
def test_the_minimum_similarity_decides(minimum: Any, found: bool, run: Run) -> None:
    output = run(
        "reference_lookup", golden=TABLE, question=f"{QUESTION}ね", min_similarity=minimum, embedding_model=None
    )
    assert output.variables["found"] is found


def test_a_lookup_needs_no_judge(run: Run, judge: ScriptedModelServer) -> None:
    output = run("reference_lookup", golden=TABLE, model={"provider": PROVIDER, "model": ""}, embedding_model=EMBEDDING)
    assert output.variables["found"] is True
    assert not judge.judge_calls
